#!/bin/bash
# seed_test.sh NEXAR - `nexar seed`, `nexar ping`, `nexar info --links` as a user
# meets them: strings and files, ranks started by hand, refusals, ends.
# Functions are called by name; lib.sh has what is not assigned here.
# shellcheck disable=SC2317,SC2154
set -uo pipefail
nexar=$1
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

# start NAME [VARIABLE=VALUE]... OPTION...: a seed in the background: $seed is its
# pid, $join what it printed.
start() {
    local variables=()
    name=$1
    shift
    while [[ $1 == *=* ]]; do
        variables+=("$1")
        shift
    done
    env --default-signal=INT "${variables[@]}" "$nexar" seed --listen 127.0.0.1 "$@" \
        >"$work/$name.out" 2>"$work/$name.err" </dev/null &
    seed=$!
    until_true has "$work/$name.out" . || return
    join=$(cat "$work/$name.out")
}
# seed_ends CODE
seed_ends() {
    local code
    wait "$seed"
    code=$?
    [ $code = "$1" ] || fail "seed $name: exit code $code, not $1: $(cat "$work/$name.err")"
}
# rank NAME [VARIABLE=VALUE]... ARGUMENT...: `nexar ARGUMENT...` as a rank of the
# last seed, in the background; $pid.
rank() {
    local variables=() out=$1
    shift
    while [[ $1 == *=* ]]; do
        variables+=("$1")
        shift
    done
    env NEXAR_JOIN="$join" "${variables[@]}" "$nexar" "$@" >"$work/$out.out" 2>"$work/$out.err" </dev/null &
    pid=$!
}
# ends CODE PID NAME
ends() {
    local code
    wait "$2"
    code=$?
    [ $code = "$1" ] || fail "$3: exit code $code, not $1: $(cat "$work/$3.err")"
}
# run CODE ARGUMENT...: one line on stderr if CODE is not 0
run() {
    local want=$1 code
    shift
    what="nexar $*"
    "$nexar" "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ $code = "$want" ] || fail "$what: exit code $code, not $want"
    [ "$want" = 0 ] || [ "$(wc -l <"$work/err")" = 1 ] || fail "$what: not one line on stderr"
}
says() { has "$work/err" "$1" || fail "$what: stderr lacks: $1"; }
no_secret() {
    local token=${join%%@*}
    ! grep -qF -- "${token#nexar://}" "$@" || fail "the token is in $*"
}

echo "-- a job by hand"
start job --world 3 --join-file "$work/join"
[[ $join =~ ^nexar://[^@]+@127\.0\.0\.1:[0-9]+/\?pin=[^\ ]+$ ]] || fail "join string: $join"
[ "$(cat "$work/join")" = "$join" ] || fail "the join file differs"
[ "$(stat -c %a "$work/join")" = 600 ] || fail "the join file is not for its owner alone"
[ "$(find "$work" -name 'join*' | wc -l)" = 1 ] || fail "more than the join file is left"
pids=()
for i in a b c; do
    rank $i NEXAR_TRANSPORTS=quic info --links
    pids+=("$pid")
done
for i in 0 1 2; do ends 0 "${pids[i]}" "$(cut -c $((i + 1)) <<<abc)"; done
seed_ends 0
cat "$work"/[abc].out >"$work/out"
[ "$(grep -cE '^[0-2] +[0-2] +quic +127\.0\.0\.1:[0-9]+ +127\.0\.0\.1:[0-9]+ +[0-9.]+ +[0-9]+ +[0-9]+$' "$work/out")" = 6 ] ||
    fail "links"
"$nexar" run -n 3 "$nexar" info --links >"$work/out" 2>"$work/err" || fail "links on one host: code"
[ "$(grep -cE '[0-2] +[0-2] +shm +pid [0-9]+ +pid [0-9]+ ' "$work/out")" = 6 ] ||
    fail "links on one host: $(cat "$work/out" "$work/err")"
for n in 1 2 3; do has "$work/job.err" "^nexar seed: .* has joined: $n of 3$" || fail "joined $n: $(cat "$work/job.err")"; done
has "$work/job.err" $'\033' && fail "control characters in a pipe"
no_secret "$work"/job.err "$work"/[abc].*

echo "-- ranks that are asked for"
start asked --world 2
rank one NEXAR_RANK=1 ping 1 --count 10
one=$pid
until_true has "$work/asked.err" 'rank 1 '
rank taken NEXAR_RANK=1 ping 1
ends 2 "$pid" taken
has "$work/taken.err" '^nexar ping: .*rank 1 is taken by ' || fail "taken: $(cat "$work/taken.err")"
rank high NEXAR_RANK=2 ping 1
ends 2 "$pid" high
has "$work/high.err" '^nexar ping: .*rank 2 .*a world of 2 has ranks 0 to 1' || fail "too high: $(cat "$work/high.err")"
rank other NEXAR_WORLD_SIZE=5 ping 1
ends 2 "$pid" other
has "$work/other.err" 'a world of 5 .*has 2$' || fail "other size: $(cat "$work/other.err")"
[ "$(grep -c 'is taken by' "$work/asked.err")" = 1 ] || fail "the seed says it twice: $(cat "$work/asked.err")"
rank zero NEXAR_RANK=0 ping 1 --count 10
ends 0 "$pid" zero
ends 0 "$one" one
seed_ends 0
has "$work/zero.out" '^rank 0 - rank 1: round trip of 8 bytes, 10 times: median' || fail "ping: $(cat "$work/zero.out")"
[ "$(grep -c 'GB/s$' "$work/zero.out")" = 3 ] || fail "ping: $(cat "$work/zero.out")"

echo "-- a token that is wrong"
start token --world 2
good=$join
join=${good/nexar:\/\/????/nexar:\/\/AAAA}
rank bad ping 1
ends 1 "$pid" bad
has "$work/bad.err" '^nexar ping: .*token' || fail "wrong token: $(cat "$work/bad.err")"
join=nexar://nonsense
rank nonsense ping 1
ends 2 "$pid" nonsense
has "$work/nonsense.err" '^nexar ping: .*join' || fail "nonsense: $(cat "$work/nonsense.err")"
no_secret "$work/nonsense.err"
join=$good
kill -TERM "$seed"
seed_ends 143

echo "-- time-outs and ends"
start late NEXAR_FORMATION_TIMEOUT=500ms --world 3
rank alone NEXAR_RANK=1 ping 1
ends 1 "$pid" alone
seed_ends 1
has "$work/late.err" 'missing: ranks 0, 2' || fail "time-out at the seed: $(cat "$work/late.err")"
has "$work/alone.err" 'missing: ranks 0, 2' || fail "time-out at the rank: $(cat "$work/alone.err")"
start int --world 3
kill -INT "$seed"
seed_ends 130

start keep --world 1 --keep
for i in 1 2; do
    rank k$i ping 1
    ends 2 "$pid" k$i
    has "$work/k$i.err" 'no rank 1 .*world of 1' || fail "keep: $(cat "$work/k$i.err")"
done
kill -0 "$seed" || fail "--keep does not stay"
kill -TERM "$seed"
seed_ends 143

echo "-- refusals"
start first --world 2
port=$(sed -E 's/.*:([0-9]+)\/.*/\1/' <<<"$join")
run 1 seed --world 2 --listen "127.0.0.1:$port"
says "127.0.0.1:$port.*in use"
kill -TERM "$seed"
seed_ends 143
run 2 seed
says 'how many ranks\? give --world N'
run 2 seed --world 0
run 2 seed --world 2 extra
run 1 seed --world 2 --listen 127.0.0.1 --join-file "$work/none/join"
says "none/join: No such file"
if [ -w /dev/full ]; then
    "$nexar" seed --world 2 --listen 127.0.0.1 >/dev/full 2>"$work/err"
    [ $? = 1 ] || fail "a join string that nobody gets"
    says 'cannot write the join string'
fi
run 2 seed --world 2 --listen nowhere.invalid.address:x
run 2 ping
says 'which rank'
run 2 ping x
says 'not a rank: x'
run 2 ping 1
says 'nexar run -n 2 nexar ping 1'
run 2 info --links
says 'nexar run -n 4 nexar info --links'
"$nexar" run -n 2 "$nexar" ping 5 >"$work/out" 2>"$work/err"
[ $? = 2 ] || fail "ping beyond the world: code"
says '\[0\] nexar ping: there is no rank 5'
"$nexar" run -n 2 --no-prefix "$nexar" info --links --json >"$work/out" 2>"$work/err" || fail "links --json: code"
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; l = json.load(sys.stdin); assert [(x["rank"], x["to"]) for x in l] == [("0", "1"), ("1", "0")]' \
        <"$work/out" || fail "info --links --json"
fi

echo "-- secrets"
for form in "" --json; do
    # shellcheck disable=SC2086 # nothing, or a word
    NEXAR_JOIN="nexar://SECRETSECRET@127.0.0.1:1/?pin=x" "$nexar" info $form >"$work/out" 2>"$work/err"
    grep -q SECRETSECRET "$work/out" "$work/err" && fail "info shows the join string"
done

echo "-- a live line on a terminal"
if command -v script >/dev/null; then
    script -qefc "stty cols 60; '$nexar' seed --world 2 --listen 127.0.0.1 --join-file $work/live.join" /dev/null \
        </dev/null >"$work/live" &
    terminal=$!
    until_true test -s "$work/live.join"
    join=$(cat "$work/live.join")
    rank l0 info --links
    until_true has "$work/live" '1 of 2 ranks'
    rank l1 info --links
    wait "$terminal" || fail "the seed on a terminal: $(cat "$work/live")"
    wait
    has "$work/live" $'\r\033\\[K' || fail "the live line is not taken back"
    longest=$(tr '\r' '\n' <"$work/live" | grep 'of 2 ranks' | awk '{ print length($0) }' | sort -n | tail -n 1)
    [ "$longest" -le 63 ] || fail "the live line wraps: $longest"
fi
finish
