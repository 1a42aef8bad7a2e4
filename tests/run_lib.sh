# run_lib.sh - what the tests of `nexar run` share; sourced, with $nexar.
# shellcheck shell=bash disable=SC2317,SC2154
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

# A time to sleep that tells the sleepers of this test from all others.
long=100000.$$
sleepers() { pgrep -f "^sleep $long\$" >/dev/null; }
none_left() { ! sleepers; }
are_left() { [ "$(pgrep -cf "^sleep $long\$")" -ge "$1" ]; }

# run CODE ARGUMENT...: `nexar run` must return CODE.
run() {
    local want=$1 code
    shift
    what="nexar run $*"
    "$nexar" run "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ $code = "$want" ] || fail "$what: exit code $code, not $want"
}
lines() { [ "$(wc -l <"$work/$1")" = "$2" ] || fail "$what: not $2 lines in $1"; }
says() { has "$work/err" "$1" || fail "$what: stderr lacks: $1"; }
prints() { has "$work/out" "$1" || fail "$what: stdout lacks: $1"; }
quiet() { [ ! -s "$work/err" ] || fail "$what: writes to stderr"; }


# begin ARGUMENT...: `nexar run` in the background, $pid; SIGINT is not ignored there.
begin() {
    what="nexar run $*"
    : >"$work/out"
    env --default-signal=INT,QUIT "$nexar" run "$@" >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
}
# ends CODE: it does, with that code, and nobody is left.
ends() {
    local code
    wait "$pid"
    code=$?
    [ $code = "$1" ] || fail "$what: exit code $code, not $1"
    until_true none_left
}

cat >"$work/listen" <<'LISTEN'
#!/bin/bash
# listen SIGNAL LONG: says when it hears, and ends.
trap 'echo "heard $1"; exit 0' "$1"
echo ready
while :; do sleep "$2" & wait $!; done
LISTEN
chmod +x "$work/listen"
