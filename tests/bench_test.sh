#!/bin/bash
# bench_test.sh NEXAR - `nexar bench` as a user meets it: tables, checks, JSON, the
# report, ranks of its own and of others, and what it refuses.
# shellcheck disable=SC2154 # lib.sh has what is not assigned here
set -uo pipefail
nexar=$1
# shellcheck source=tests/lib.sh disable=SC1091
. "$(cd "$(dirname "$0")" && pwd)/lib.sh"

# run CODE ARGUMENT...: `nexar ARGUMENT...` must exit with CODE.
run() {
    local want=$1 code
    shift
    what="nexar $*"
    "$nexar" "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ "$code" = "$want" ] || fail "$what: exit code $code, not $want"
}

prints() {
    has "$work/out" "$1" || fail "$what does not print: $1"
    [ ! -s "$work/err" ] || fail "$what writes to stderr"
}

# One line to stderr, nothing else, with each of these in it.
refuses() {
    local word
    [ ! -s "$work/out" ] || fail "$what prints beside its error"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "$what does not give one line"
    has "$work/err" '^nexar bench: ' || fail "$what does not say who speaks"
    for word in "$@"; do
        grep -qF -- "$word" "$work/err" || fail "$what does not name: $word"
    done
}

# ---- help: every operation that there is ---------------------------------------------

run 2 bench nonsense
sed 's/.*accepted: //' "$work/err" | tr -d ' ' | tr ',' '\n' >"$work/operations"
[ "$(wc -l <"$work/operations")" -gt 15 ] || fail "the operations are not listed"
run 0 bench --help
while read -r operation; do
    prints "(^|[ ,])$operation(,|\$| )"
done <"$work/operations"

# ---- tables ------------------------------------------------------------------------

us='[0-9]+\.[0-9]{2}'
rate='[0-9]+\.[0-9]{3}'
run 0 bench allreduce -n 3 --sizes 8-64k --factor 64 --iters 3 --warmup 1 --check
prints '^# nexar [0-9.]+: 3 ranks'
prints '^allreduce$'
prints '^ +size +count +type +op +iters +time +min +p99 +algbw +busbw +wrong$'
for row in '8 +2' '512 +128' '32768 +8192' '65536 +16384'; do
    prints "^ +$row +f32 +sum +3 +$us +$us +$us +$rate +$rate +0\$"
done
[ "$(grep -c ' f32 ' "$work/out")" = 4 ] || fail "$what has not 4 rows"
prints '^# carried by [a-z]+; every size was checked: 0 wrong elements$'

# Every operation, in a world of others, of an odd number of ranks, and of one.
run 0 run -n 3 --no-prefix "$nexar" bench all --sizes 4,1000,20k --iters 2 --warmup 0 --check \
    --dtype i16 --op max
for name in allreduce reduce broadcast allgather gather scatter reduce_scatter alltoall scan \
    exscan allgatherv gatherv scatterv reduce_scatterv alltoallv barrier bucketed rs_ag p2p \
    p2p_stream; do
    prints "^$name\$"
done
[ "$(grep -cE ' 0$' "$work/out")" = 54 ] || fail "$what has not 54 rows without error"
run 0 bench compressed -n 3 --sizes 4,1000,20k --iters 2 --check
[ "$(grep -cE ' 0$' "$work/out")" = 3 ] || fail "$what has not 3 rows without error"
run 2 bench compressed -n 3 --sizes 8 --op max
refuses "compressed has no --op max of --dtype f32 on 3 ranks"
run 0 bench all -n 1 --sizes 8,64 --iters 2 --check
prints '^rs_ag$'
prints '^# carried by memory alone; '
if has "$work/out" '^p2p'; then fail "$what sends to nobody"; fi

# A size that is no more elements than the one before it is left out; each type and
# op is checked by its own numbers.
run 0 bench allgather -n 4 --sizes 8-64 --factor 2 --iters 1 --check
[ "$(grep -c ' f32 ' "$work/out")" = 3 ] || fail "$what has not 3 rows"
for kind in 'bf16 sum' 'f16 avg' 'f64 prod' 'u8 bxor' 'i64 min'; do
    run 0 bench allreduce reduce_scatter -n 2 --sizes 600 --iters 1 --check \
        --dtype "${kind% *}" --op "${kind#* }"
    prints " ${kind% *} +${kind#* } .* 0\$"
done
run 0 bench exscan -n 3 --sizes 600 --iters 1 --check --dtype u32 --op band
prints ' u32 +band .* 0$'

# ---- files ---------------------------------------------------------------------------

run 0 bench allreduce barrier p2p -n 2 --sizes 8,4k --iters 5 --check --json "$work/a.json" \
    --html "$work/a.html"
if command -v python3 >/dev/null; then
    python3 - "$work/a.json" "$work/a.html" 2>"$work/err" <<'PYTHON' || fail "$what: its files"
import json, sys, xml.dom.minidom
bench = json.load(open(sys.argv[1]))
assert bench["ranks"] == 2 and bench["cores"] >= 1 and bench["transport"]
assert bench["settings"]["segment"] == "256k" and "join" not in bench["settings"]
rows = bench["rows"]
assert [(r["name"], r["bytes"]) for r in rows] == [
    ("allreduce", 8), ("allreduce", 4096), ("barrier", 0), ("p2p", 8), ("p2p", 4096),
    ("p2p_stream", 8), ("p2p_stream", 4096)], rows
for r in rows:
    assert r["iters"] == 5 and 0 < r["min"] <= r["time"] <= r["p99"] <= r["max"], r
    assert r["wrong"] == (0 if r["name"] in ("allreduce", "p2p") else None), r
assert abs(rows[1]["algbw"] * rows[1]["time"] - 4096) < 1
assert abs(rows[1]["busbw"] - rows[1]["algbw"]) < 1
page = xml.dom.minidom.parse(sys.argv[2])
assert len(page.getElementsByTagName("svg")) == 6
assert len(page.getElementsByTagName("polyline")) == 15
# what is asked first comes first; a value for each point; a head for each number of a narrow screen
body = open(sys.argv[2]).read()
assert 0 < body.index("peak bus bandwidth") < body.index("least latency") < body.index("processor of rank 0")
titles = [t.firstChild.data for t in page.getElementsByTagName("title") if t.parentNode.tagName == "g"]
assert len(titles) == 3 * 2 * (3 + 2) and any(t.startswith("4 KiB: p99 ") for t in titles), titles
cells = [t for t in page.getElementsByTagName("td") if t.getAttribute("data-head")]
assert len(cells) == 7 * 9 and {"min us", "p99 us"} <= {t.getAttribute("data-head") for t in cells}
PYTHON
fi
for text in 'prefers-color-scheme' '<h2 id="allreduce">' 'cores that it may use' '<th>segment</th>'; do
    grep -qF "$text" "$work/a.html" || fail "$what: the report has no $text"
done
if grep -qE 'nan|inf[^o]|src=|https?://[^w]|url\(' "$work/a.html"; then
    fail "$what: the report has what is no number or not inside"
fi

# ---- what is refused -------------------------------------------------------------------

run 2 bench alreduce
refuses 'alreduce' 'did you mean allreduce?' 'accepted: allreduce, reduce' 'p2p_stream, all'
run 2 bench --sizes 64k-8
refuses '--sizes 64k-8' 'not ascending' '8-64m'
run 2 bench --sizes 8,zwei
refuses '--sizes 8,zwei' 'or a list'
run 2 bench --sizes 1-64m --factor 1
refuses '--factor 1' 'from 2'
run 2 bench --dtype f128
refuses '--dtype f128' 'f32' 'bf16'
run 2 bench --op xor
refuses '--op xor' 'sum' 'bxor'
run 2 bench --op band
refuses '--op band' '--dtype f32'
run 2 bench scan --op avg
refuses 'scan' '--op avg'
run 2 bench p2p -n 1
refuses 'p2p needs two ranks'
run 2 bench --check --dtype bf16 -n 300
refuses '--check' 'bf16' '300'
run 2 bench -n 0
refuses '--ranks 0'
run 2 bench --itres 3
refuses '--itres' 'did you mean --iters?'
run 1 bench --json "$work/no/such/file"
refuses "$work/no/such/file" 'No such file'
run 2 run -n 2 "$nexar" bench -n 3
has "$work/err" '^\[0\] nexar bench: --ranks 3: this world has 2' || fail "$what: names no size"
finish
