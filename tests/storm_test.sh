#!/bin/bash
# storm_test.sh NEXAR STORM - real ranks under 1,000 signals a second each, and with system calls
# that are interrupted and cut short.
# shellcheck disable=SC2154 # lib.sh has what is not assigned here
set -uo pipefail
nexar=$1
storm=$2
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

# run_storm WORDS ROUNDS [report]
run_storm() {
    local words=$1
    shift
    timeout 300 "$nexar" run -n 2 "$storm" "$@" >"$work/out" 2>"$work/err" ||
        fail "$words: exit code $? (124: it has hung)"
    has "$work/out" "storm: $1 rounds, [1-9][0-9]* signals and faults" ||
        fail "$words: no last word"
}

# Without the handling of EINTR, one message in some hundreds lost its end by shared memory.
for transport in shm quic; do
    export NEXAR_TRANSPORTS=$transport
    rounds=2000
    [ $transport = shm ] || rounds=200
    NXT_SIGNALS=1000 run_storm "$transport, signals" $rounds
    NXT_SIGNALS=1000 run_storm "$transport, signals and reports" $((rounds / 4)) report
    NXT_CALLS=8 run_storm "$transport, calls" $((rounds / 4))
done
finish
