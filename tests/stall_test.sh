#!/bin/bash
# stall_test.sh NEXAR MISUSE [TRANSPORTS] - what ranks say when they wait too long, when somebody
# asks, and when they call different things.
# Functions and what they use are called by name, in their time; lib.sh has what is not
# assigned here.
# shellcheck disable=SC2016,SC2034,SC2317,SC2154
set -uo pipefail
nexar=$1
misuse=$2
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

# begin N ARGUMENT...: misuse as N ranks in the background, $pid.
begin() {
    local n=$1
    shift
    what="misuse $*"
    rm -f "$work/go" "$work/come"
    : >"$work/out"
    "$nexar" run -n "$n" "$misuse" "$@" >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
    until_true eval "[ \"\$(grep -c 'rank .* pid' '$work/out')\" = $n ]"
}
# says REGEX: a line of stderr does, sooner or later.
says() { until_true has "$work/err" "$1"; }
silent() { [ ! -s "$work/err" ] || fail "$what: writes to stderr"; }
pid_of() { sed -n "s/^.*rank $1 pid \\([0-9]*\\)\$/\\1/p" "$work/out"; }
ends() {
    wait "$pid"
    local code=$?
    [ $code = "$1" ] || fail "$what: exit code $code, not $1"
}

export NEXAR_STALL_REPORT=300ms NEXAR_TRANSPORTS=${3:-auto}

echo "-- a rank that computes"
begin 4 late "$work/go" "$work/come"
touch "$work/go"
says 'warn: stall seen by rank 0: rank 0 has waited [0-9.]+ s in #3 allreduce\(1024 x f32, sum\) for '
says 'stall seen by rank [013]: rank 2 last finished #2 barrier [0-9.]+ s ago and is in user code$'
says 'stall seen by rank 0: rank 2 last finished #2 barrier'
touch "$work/come"
ends 0
[ "$(grep -c 'late ok' "$work/out")" = 4 ] || fail "$what: did not end well"
! grep -q 'rank 2 has waited .* in #3' "$work/err" || fail "$what: the late rank reports"

echo "-- one of eight, and rank 0 finds it"
begin 8 late "$work/go" "$work/come"
touch "$work/go"
says 'stall seen by rank 0: rank 6 last finished #2 barrier [0-9.]+ s ago and is in user code$'
touch "$work/come"
ends 0

echo "-- a rank that is stopped"
begin 4 late "$work/go" "$work/come"
touch "$work/come"
stopped=$(pid_of 2)
kill -STOP "$stopped"
touch "$work/go"
says 'stall seen by rank 0: rank 2 does not answer$'
kill -CONT "$stopped"
ends 0

echo "-- an agreement to which one does not come"
begin 4 agree "$work/go" "$work/come"
touch "$work/go"
says 'stall seen by rank 0: rank 0 has waited [0-9.]+ s in comm_agree for rank 2$'
says 'stall seen by rank 0: rank 2 last finished #2 barrier [0-9.]+ s ago and is in user code$'
says 'stall seen by rank 1: rank 0 is in comm_agree for [0-9.]+ s, waiting for rank 2$'
says 'stall seen by rank 1: rank 2 last finished #2 barrier [0-9.]+ s ago and is in user code$'
touch "$work/come"
ends 0

echo "-- two that wait for each other"
begin 2 cross
says 'stall seen by rank 0: rank 0 has waited [0-9.]+ s in recv\(from rank 1, tag 7\) for rank 1$'
says 'stall seen by rank 0: rank 1 is in recv\(from rank 0, tag 7\) for [0-9.]+ s, waiting for rank 0: each waits for the other$'
says 'stall seen by rank 1: rank 0 is in recv\(from rank 1, tag 7\) for [0-9.]+ s, waiting for rank 1: each waits for the other$'
kill -TERM "$pid"
ends 143

echo "-- a tag that nobody sends"
begin 2 tags
says 'stall seen by rank 0: rank 0 has waited [0-9.]+ s in recv\(from rank 1, tag 7\) for rank 1: a message from rank 1 with tag 8 is here and matches no receive$'
says 'stall seen by rank 1: rank 0 is in recv\(from rank 1, tag 7\) \(a message from rank 1 with tag 8 is here and matches no receive\) for '
! has "$work/err" 'each waits for the other' || fail "$what: it is the tags"
kill -TERM "$pid"
ends 143

echo "-- a ring of senders"
begin 3 ring
says 'warn: stall seen by rank 0: deadlock: 0 -> 1 -> 2 -> 0$'
kill -TERM "$pid"
ends 143

echo "-- a rank that serves in a barrier"
NEXAR_LOG=info begin 3 serve "$work/go"
says 'info: stall seen by rank 0: rank 0 has waited [0-9.]+ s in #2 barrier for rank .*; rank 0 serves RPCs$'
touch "$work/go"
ends 0
! has "$work/err" 'each waits for the other' || fail "$what: a call is served in a barrier"

echo "-- switched off, or in time"
NEXAR_STALL_REPORT=0 begin 2 late "$work/go" "$work/come"
touch "$work/go"
until_true eval 'kill -USR1 "$(pid_of 1)"; sleep 0.1; has "$work/err" "report of rank 1: pending: #3 allreduce"'
! grep -q 'stall seen' "$work/err" || fail "$what: reports although it is off"
touch "$work/come"
ends 0
NEXAR_STALL_REPORT=10m begin 2 late "$work/go" "$work/come"
touch "$work/go" "$work/come"
ends 0
silent

echo "-- on demand"
NEXAR_STALL_REPORT=0 begin 4 late "$work/go" "$work/come"
touch "$work/go"
# Asked again until the others are in it.
late_named='report of rank 0: rank 2 last finished #2 barrier [0-9.]+ s ago and is in user code$'
until_true eval 'kill -USR1 "$(pid_of 0)"; sleep 0.1; has "$work/err" "$late_named"'
says 'report of rank 0: pending: #3 allreduce'
says 'report of rank 0 of 4, pid [0-9]+, in a call that waits$'
says 'report of rank 0: ended [0-9.]+ s ago: #2 barrier, took [0-9.]+ ms$'
says 'report of rank 0: link to rank [0-9]: (shm pid [0-9]+|quic [^ ]+, rtt [0-9.]+ ms), sent [0-9]+ and received'
says 'report of rank 0: nobody has asked yet for [0-9]+ messages'
touch "$work/come"
ends 0
# Through the launcher to all; at any level; nothing waits.
NEXAR_LOG=error begin 3 idle "$work/go"
kill -USR1 "$pid"
for rank in 0 1 2; do says "report of rank $rank of 3, pid [0-9]+, in user code\$"; done
touch "$work/go"
ends 0
# One that has started something computes, whoever runs that for it.
for retry in off on; do
    NEXAR_STALL_REPORT=0 NEXAR_RECOVERY=automatic NEXAR_RETRY=$retry begin 2 request "$work/go"
    until_true eval 'kill -USR1 "$(pid_of 0)"; sleep 0.1; has "$work/err" "report of rank 0: pending: #1 allreduce"'
    says 'report of rank 0 of 2, pid [0-9]+, in user code$'
    ! grep -q 'in a call that waits$' "$work/err" || fail "$what, retry=$retry: who waits?"
    touch "$work/go"
    ends 0
done
NEXAR_REPORT_SIGNAL=usr2 begin 2 idle "$work/go"
kill -USR2 "$pid"
says 'report of rank 1 of 2'
touch "$work/go"
ends 0
NEXAR_REPORT_SIGNAL=none begin 1 idle "$work/go"
kill -USR1 "$(pid_of 0)"
ends 138
what="several ranks in one process"
rm -f "$work/go"
"$misuse" local 3 "$work/go" >"$work/out" 2>"$work/err" &
pid=$!
until_true has "$work/out" 'rank 0 pid'
kill -USR1 "$pid"
for rank in 0 1 2; do says "report of rank $rank of 3"; done
touch "$work/go"
ends 0

echo "-- calls that differ"
allreduce='allreduce\(1024 x f32, sum\)'
# differs WHAT CALL-OF-RANK-1 CALL-OF-THE-OTHERS
differs() {
    what="misuse differ $1"
    NEXAR_STALL_REPORT=0 "$nexar" run -n 4 "$misuse" differ "$1" >"$work/out" 2>"$work/err" || fail "$what: code"
    local others='rank [023] called '$3
    local one="rank 1 called $2"
    [ "$(grep -cE "sentence: [a-z]+ #7: ($one as operation #7 where $others|$others as operation #7 where $one)\$" "$work/out")" = 4 ] ||
        fail "$what: the sentences"
    local took
    took=$(sed -n 's/.*all know after \([0-9.]*\) s$/\1/p' "$work/out")
    echo "$1: all know after $took s"
    awk -v t="${took:-9}" 'BEGIN { exit !(t < 1) }' || fail "$what: took $took s"
}
differs kind 'broadcast\(1024 x f32, root 0\)' "$allreduce"
differs count 'allreduce\(1025 x f32, sum\)' "$allreduce"
differs dtype 'allreduce\(1024 x f64, sum\)' "$allreduce"
differs op 'allreduce\(1024 x f32, max\)' "$allreduce"
differs root 'broadcast\(1024 x f32, root 2\)' 'broadcast\(1024 x f32, root 0\)'
finish
