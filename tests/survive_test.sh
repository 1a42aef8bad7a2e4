#!/bin/bash
# survive_test.sh NEXAR SURVIVE [TRANSPORTS] - ranks under a seed are killed and stopped, one
# after the other; those that are left go on, and the last word is the same for all.
# shellcheck disable=SC2034,SC2154 # lib.sh has the rest
set -uo pipefail
nexar=$1
survive=$2
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
export NEXAR_TRANSPORTS=${3:-auto} NEXAR_HEARTBEAT_INTERVAL=200ms NEXAR_HEARTBEAT_TIMEOUT=1s

"$nexar" seed --world 4 --join-file "$work/join" --listen 127.0.0.1 >"$work/seed" 2>&1 &
until_true test -s "$work/join" || finish
export NEXAR_JOIN
NEXAR_JOIN=$(cat "$work/join")
pids=()
for r in 0 1 2 3; do
    NEXAR_RANK=$r "$survive" "$work/stop" >"$work/out$r" 2>"$work/err$r" &
    pids+=($!)
done
for r in 0 1 2 3; do until_true has "$work/out$r" '^ready'; done

# left N WORDS RANK...: the ranks go on as N, and have an error that says WORDS.
left() {
    local n=$1 words=$2 r
    shift 2
    for r in "$@"; do
        until_true has "$work/out$r" "^went on: $n of 4 ranks" ||
            sed 's/^/  /' "$work/out$r" "$work/err$r"
        grep -h "^went on: $n " "$work/out$r"
        grep "^went on: $n " "$work/out$r" | grep -qE "NEXAR_EREVOKED|$words" ||
            fail "rank $r does not say why"
    done
}

echo "-- rank 2 is killed"
kill -KILL "${pids[2]}"
left 3 'NEXAR_EPEER: .*rank 2 \(' 0 1 3

echo "-- rank 0 is stopped"
kill -STOP "${pids[0]}"
left 2 'NEXAR_EPEER: .*rank 0 \(' 1 3

echo "-- the rest ends, and the stopped one finds itself alone or expelled"
touch "$work/stop"
for r in 1 3; do
    wait "${pids[r]}" || fail "rank $r ends with $?"
done
kill -CONT "${pids[0]}"
wait "${pids[0]}"
finish
