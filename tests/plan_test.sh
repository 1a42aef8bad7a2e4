#!/bin/bash
# plan_test.sh NEXAR - `nexar plan` as a user meets it: tables, sweeps, pictures,
# JSON, and what it refuses.
set -uo pipefail
nexar=$1

dir=$(mktemp -d)
out=$dir/out
err=$dir/err
trap 'rm -rf "$dir"' EXIT
failed=0
for variable in $(compgen -e NEXAR_); do unset "$variable"; done

fail() {
    echo "FAILED: $*"
    sed 's/^/  stdout: /' "$out" | head -n 30
    sed 's/^/  stderr: /' "$err" | head -n 20
    failed=1
}

# run CODE ARGUMENT...: `nexar plan ARGUMENT...` must exit with CODE.
run() {
    local want=$1 code
    shift
    what="nexar plan $*"
    "$nexar" plan "$@" >"$out" 2>"$err"
    code=$?
    [ "$code" = "$want" ] || fail "$what: exit code $code, not $want"
}

# Some line of the last output matches this, and nothing went to stderr.
prints() {
    grep -qE -- "$1" "$out" || fail "$what does not print: $1"
    [ ! -s "$err" ] || fail "$what writes to stderr"
}

# The last run printed nothing but one line to stderr, with each of these in it.
refuses() {
    local word
    [ ! -s "$out" ] || fail "$what prints beside its error"
    [ "$(wc -l <"$err")" = 1 ] || fail "$what does not give one line"
    grep -q '^nexar plan: ' "$err" || fail "$what does not say who speaks"
    for word in "$@"; do
        grep -qF -- "$word" "$err" || fail "$what does not name: $word"
    done
}

# ---- tables ------------------------------------------------------------------

run 0 allreduce --ranks 8 --bytes 1m
prints '^8 ranks on 8 hosts, f32 elements, segments of 256 KiB$'
prints '^allreduce, 1 MiB: 262144 elements$'
prints '^.. recdbl +3 +3 +3 MiB +[0-9.]+ ms  simulated$'
prints '^.. ring +14 +14 +1\.75 MiB +[0-9.]+ ms  simulated$'
prints '^.. halving_doubling +6 +6 +1\.75 MiB +[0-9.]+ ms  simulated$'
[ "$(grep -c '^\*' "$out")" = 2 ] || fail "$what does not mark one algorithm, and say what that means"
[ "$(grep -cE '^.\+ ' "$out")" = 1 ] || fail "$what does not mark one as fastest"
"$nexar" plan allreduce --ranks 8 --bytes 1m | cmp -s - "$out" || fail "$what differs from run to run"

# One message of 8 bytes: 2 us + 6.4 ns + 20 us + 2 us.
run 0 broadcast --ranks 2 --bytes 8
prints '^.. binomial +1 +1 +8 B +24 us  simulated$'
run 0 broadcast --ranks 2 --hosts 1 --bytes 8 --local-latency 3us --local-cpu 1us
prints '^.. binomial +1 +1 +8 B +5 us  simulated$'
run 0 gather --ranks 4 --root 3 --dtype f64 --bytes 64
prints 'f64 elements, root 3'
prints '^gather, 64 B: 2 elements per block, 4 blocks$'
prints '^.. direct +1 +1 +16 B '
run 0 barrier --ranks 1
prints '^\*\+ dissemination +0 +0 +0 B +0 s  simulated$'
run 0 alltoallv --ranks 3 --bytes 0
prints '^alltoallv, 0 B: 0 elements'

# What is selected follows the settings.
NEXAR_ALGORITHMS=allreduce:0-:rs_ag "$nexar" plan allreduce --ranks 8 >"$out" 2>"$err"
prints '^\*.? +rs_ag|^\*\+ rs_ag'
NEXAR_SEGMENT=64k "$nexar" plan broadcast --ranks 8 >"$out" 2>"$err"
prints 'segments of 64 KiB'
prints '^.. chain +7 +16 '
run 0 broadcast --ranks 8 --segment 128k
prints '^.. chain +7 +8 '

# Many ranks: exact counts, and beyond 4096 closed forms, in no time.
run 0 allreduce --ranks 4096 --bytes 64m
prints '^.. ring +8190 +8190 +128 MiB +[0-9.]+ ms  closed form$'
prints '^.. recdbl +12 +12 +768 MiB +[0-9.]+ ms  simulated$'
SECONDS=0
run 0 --all --ranks 65536
prints '^reduce_scatterv, '
prints '^.. ring +131070 +131070 '
[ "$SECONDS" -le 10 ] || fail "$what takes $SECONDS s"
[ "$(grep -c 'simulated' "$out")" = 0 ] || fail "$what simulates"
[ "$(grep -c '^\*. ' "$out")" = 16 ] || fail "$what does not mark one algorithm of each collective"

# ---- sweeps ------------------------------------------------------------------

run 0 scan --ranks 16 --sweep
prints '^ +bytes +hillis_steele +chain +selected$'
prints '^ +8 B +[0-9.]+ us +.*  hillis_steele$'
prints '^ +1 GiB +.*  chain$'
[ "$(grep -cE '^ +[0-9.]+ ([KMG]i)?B ' "$out")" = 15 ] || fail "$what has not 15 sizes"
run 0 allgather --ranks 16 --sizes 1k-64k
prints '^ +1 KiB '
prints '^ +64 KiB '
[ "$(grep -cE '^ +[0-9.]+ KiB ' "$out")" = 4 ] || fail "$what has not 4 sizes"
run 0 allreduce --ranks 4 --sweep --bytes 1000
prints '^ +1000 B '

# ---- pictures and JSON -------------------------------------------------------

well_formed() {
    if command -v xmllint >/dev/null; then
        xmllint --noout "$1" 2>"$err"
    elif command -v python3 >/dev/null; then
        python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1" 2>"$err"
    fi
}

run 0 allreduce --ranks 16 --hosts 2 --sizes 8-16m --plot "$dir/one.svg"
well_formed "$dir/one.svg" || fail "$what draws no well-formed XML"
for text in '16 ranks on 2 hosts' halving_doubling '>512 KiB<' 'prefers-color-scheme'; do
    grep -qF "$text" "$dir/one.svg" || fail "$what does not draw $text"
done
if grep -qE 'nan|inf|href|url\(' "$dir/one.svg"; then fail "$what draws what is no number or not inside"; fi
run 0 --all --ranks 1 --sizes 8-64 --plot "$dir/all.svg"
well_formed "$dir/all.svg" || fail "$what draws no well-formed XML"
if grep -qE 'nan|inf' "$dir/all.svg"; then fail "$what draws what is no number"; fi
[ "$(grep -c 'class="name"' "$dir/all.svg")" = 15 ] || fail "$what does not draw 15 panels"

if command -v python3 >/dev/null; then
    run 0 --all --ranks 8 --hosts 2 --json
    python3 -c '
import json, sys
plan = json.load(sys.stdin)
assert plan["ranks"] == 8 and plan["network"]["bandwidth"] == 1.25e9
assert len(plan["plans"]) == 16
for one in plan["plans"]:
    names = [a["name"] for a in one["algorithms"]]
    assert one["selected"] in names and one["fastest"] in names
ring = [a for a in plan["plans"][3]["algorithms"] if a["name"] == "ring"][0]
assert ring["rounds"] == 14 and ring["by"] == "simulated" and ring["time"] > 0
' <"$out" 2>"$err" || fail "$what is not the JSON that it should be"
    run 0 reduce --ranks 4 --sizes 8-128 --json
    python3 -c 'import json, sys; assert len(json.load(sys.stdin)["plans"]) == 3' <"$out" ||
        fail "$what is not the JSON that it should be"
fi

# ---- what is refused ---------------------------------------------------------

run 2
refuses "name a collective" "--all" "accepted: barrier" "alltoallv"
run 2 alreduce
refuses "alreduce" "did you mean allreduce?" "accepted: barrier"
run 2 allreduce --all
refuses "--all" "allreduce"
run 2 allreduce reduce
refuses "reduce"
run 2 allreduce --ranks 0
refuses "--ranks 0" "from 1 to"
run 2 allreduce --ranks many
refuses "--ranks many"
run 2 allreduce --ranks 4 --hosts 5
refuses "--hosts 5" "--ranks 4"
run 2 broadcast --ranks 4 --root 4
refuses "--root 4" "0 to 3"
run 2 allreduce --bytes lots
refuses "--bytes lots" "64k"
run 2 allreduce --bytes 4096t
refuses "--bytes 4096t" "1024t"
run 2 allreduce --dtype f128
refuses "--dtype f128" "f32" "bf16"
run 2 allreduce --bandwidth 0
refuses "--bandwidth 0"
run 2 allreduce --latency 20
refuses "--latency 20" "20us"
run 2 allreduce --sizes 64k
refuses "--sizes 64k" "1k-64m"
run 2 allreduce --sizes 64k-1k
refuses "65536 to 1024"
run 2 allreduce --sizes 0-1k
refuses "from 1"
run 2 allreduce --exact --ranks 5000
refuses "--exact" "4096"
run 2 barrier --sweep
refuses "barrier" "--sweep"
run 1 allreduce --ranks 2 --sizes 8-32 --plot "$dir/no/such/dir.svg"
refuses "$dir/no/such/dir.svg" "No such file"
if [ -w /dev/full ]; then
    run 1 allreduce --ranks 2 --sizes 8-32 --plot /dev/full
    refuses "/dev/full" "No space"
fi
NEXAR_ALGORITHMS=allreduce:0-:comet "$nexar" plan allreduce >"$out" 2>"$err"
[ $? = 2 ] || fail "a bad setting is not exit code 2"
what="a bad setting" refuses "comet"

[ $failed = 0 ] && echo "all as expected"
exit $failed
