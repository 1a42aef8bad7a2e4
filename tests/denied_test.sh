#!/bin/bash
# denied_test.sh NEXAR STORM DENY - ranks to which a sandbox refuses a system call, and ranks
# without descriptors 0 to 2.
# shellcheck disable=SC2154,SC2016 # lib.sh has what is not assigned here; ranks expand theirs
set -uo pipefail
nexar=$1
storm=$2
deny=$3
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

# run_ranks WORDS PROGRAM...: two of them, to a good end, with their log.
run_ranks() {
    local words=$1
    shift
    NEXAR_LOG=info timeout 300 "$nexar" run -n 2 "$@" 20 >"$work/out" 2>"$work/err" ||
        fail "$words: exit code $?"
}

for transport in auto shm quic; do
    NEXAR_TRANSPORTS=$transport run_ranks "no descriptors 0 to 2, $transport" \
        sh -c 'exec "$0" "$@" 0<&- 1>&- 2>&-' "$storm"
done

"$deny" accept4 true
if [ $? = 77 ]; then
    echo "left out: no seccomp here"
    finish
fi

# Random bytes: an error that names the call, not SIGABRT.
"$deny" getrandom "$storm" >"$work/out" 2>"$work/err"
code=$?
[ $code = 1 ] || fail "init without getrandom: exit code $code"
has "$work/err" "storm: init: getrandom .*Operation not permitted" ||
    fail "init without getrandom: nobody names the call"
timeout 60 "$deny" getrandom "$nexar" seed --world 2 >"$work/out" 2>"$work/err"
code=$?
[ $code = 1 ] || fail "a seed without getrandom: exit code $code"
has "$work/err" "getrandom .*Operation not permitted" || fail "a seed without getrandom: no word"

# Callers at the local socket: by QUIC from the beginning, for all ranks or for one.
for who in '0 1' 0 1; do
    run_ranks "no accept4 for $who" sh -c \
        'case " '"$who"' " in *" $NEXAR_RANK "*) exec "$0" accept4 "$@" ;; esac
        exec "$@"' "$deny" "$storm"
    has "$work/out" "storm: 20 rounds" || fail "no accept4 for $who: no last word"
    cat "$work/out" "$work/err" >"$work/log"
    has "$work/log" "no shared memory on this host: accept4" || fail "no accept4 for $who: no word"
done
NEXAR_TRANSPORTS=shm timeout 60 "$deny" accept4 "$nexar" run -n 2 "$storm" 1 \
    >"$work/out" 2>"$work/err" && fail "by shared memory only, without accept4: it works"
has "$work/err" "init: accept4 a local socket: Operation not permitted" ||
    fail "by shared memory only, without accept4: nobody names the call"
finish
