#!/bin/bash
# run_signal_test.sh NEXAR - `nexar run` as a user meets it: signals, and runs beside and inside each other.
# Variables of the ranks stay as they are; functions are called by name; run_lib.sh has
# what is not assigned here.
# shellcheck disable=SC2016,SC2317,SC2154
set -uo pipefail
nexar=$1
# shellcheck source=tests/run_lib.sh disable=SC1091
. "$(dirname "$0")/run_lib.sh"

echo "-- signals"
for signal in INT:130 TERM:143 HUP:129 USR1:0 USR2:0; do
    begin -n 2 "$work/listen" "${signal%:*}" "$long"
    until_true eval '[ "$(grep -c ready "$work/out")" = 2 ]'
    kill -"${signal%:*}" "$pid"
    ends "${signal#*:}"
    [ "$(grep -c "heard ${signal%:*}" "$work/out")" = 2 ] || fail "$what: not heard by all"
done
begin --grace 10m -n 2 bash -c "trap 'echo heard' INT; echo ready; while :; do sleep $long & wait \$!; done"
until_true eval '[ "$(grep -c ready "$work/out")" = 2 ]'
until_true eval 'kill -INT "$pid" 2>/dev/null; sleep 0.1; gone "$pid"'
ends 130
# Ctrl-Z stops it and the ranks, fg lets them go on.
stopped() { [ "$(ps -o stat= -p "$pid" $(pgrep -f "^/bin/bash .*listen TERM $long") | grep -c T)" = 3 ]; }
going() { [ "$(ps -o stat= -p "$pid" $(pgrep -f "^/bin/bash .*listen TERM $long") | grep -vc T)" = 3 ]; }
begin -n 2 "$work/listen" TERM "$long"
until_true eval '[ "$(grep -c ready "$work/out")" = 2 ]'
kill -TSTP "$pid"
until_true stopped
kill -CONT "$pid"
until_true going
kill -TERM "$pid"
ends 143
# Ctrl-Z after some have ended ends nobody.
begin -n 2 sh -c "[ \$NEXAR_RANK = 0 ] || exec '$work/listen' TERM $long"
until_true has "$work/out" ready
kill -TSTP "$pid"
until_true eval 'ps -o stat= -p "$(pgrep -f "^/bin/bash .*listen TERM $long")" | grep -q T'
kill -CONT "$pid"
until_true eval 'ps -o stat= -p "$(pgrep -f "^/bin/bash .*listen TERM $long")" | grep -vq T'
kill -TERM "$pid"
ends 143
! has "$work/err" "stopped" || fail "$what: tells of what the user has stopped"

echo "-- output of killed ranks"
# A rank that hears nothing has printed 20000 lines that nobody has read yet.
cat >"$work/print" <<'PRINT'
#!/bin/bash
trap : INT
for ((i = 0; i < 20000; i++)); do echo "line $i of a rank that is killed"; done
: >"$1"
while :; do sleep 0.1; done
PRINT
chmod +x "$work/print"
# unread FILE: `nexar run` of it, into a FIFO that is open as descriptor 3.
unread() {
    what="$1 lines that nobody reads"
    rm -f "$work/unread"
    mkfifo "$work/unread"
    env --default-signal=INT "$nexar" run -n 1 --grace 10m "$work/print" "$work/$1" \
        >"$work/unread" 2>"$work/err" </dev/null &
    pid=$!
    exec 3<"$work/unread"
    until_true test -e "$work/$1"
}
unread kept
kill -INT "$pid"
until_true has "$work/err" '^nexar run: ending the ranks; press Ctrl-C again to kill them$'
sleep 0.3 # one that comes sooner is the same signal by another way
kill -INT "$pid"
until_true has "$work/err" '^nexar run: killing the ranks$'
cat <&3 >"$work/out"
exec 3<&-
ends 130
[ "$(grep -c '^\[0\] line [0-9]* of a rank that is killed$' "$work/out")" = 20000 ] || fail "$what: not all are there"
# Only a third signal does not wait for a reader.
unread dropped
kill -INT "$pid"
until_true eval 'kill -INT "$pid" 2>/dev/null; gone "$pid"'
exec 3<&-
ends 130
# SIGTERM says what it does, too.
begin -n 2 "$work/listen" TERM "$long"
until_true eval '[ "$(grep -c ready "$work/out")" = 2 ]'
kill -TERM "$pid"
ends 143
says '^nexar run: ending the ranks on signal 15 \(Terminated\); a second one kills them$'
# A signal that a rank does not catch does not kill it.
begin -n 2 sh -c "echo ready; exec sleep $long"
until_true eval '[ "$(grep -c ready "$work/out")" = 2 ]'
kill -USR1 "$pid"
kill -USR2 "$pid"
until_true eval '[ "$(grep -c "0 of 2 ranks have joined" "$work/err")" = 2 ]'
are_left 2 || fail "$what: SIGUSR1 kills a rank"
kill -TERM "$pid"
ends 143

echo "-- killed"
# Grandchildren in groups and sessions of their own, too.
nest="sleep $long & setsid sleep $long & exec sleep $long"
begin -n 2 sh -c "$nest"
until_true are_left 6
kill -KILL "$pid"
ends 137
# The other of its two processes.
begin -n 2 sh -c "$nest"
until_true are_left 6
kill -KILL "$(pgrep -P "$pid")"
ends 1
says 'was killed; ended the ranks'
# In the middle of output that nobody reads.
mkfifo "$work/fifo"
"$nexar" run -n 2 sh -c "sleep $long & yes" >"$work/fifo" 2>/dev/null </dev/null &
pid=$!
exec 3<"$work/fifo"
until_true are_left 2
kill -KILL "$pid"
ends 137
exec 3<&-

echo "-- several"
# shellcheck disable=SC2016
together='i=0; until [ -e $W/$M.0 ] && [ -e $W/$M.1 ]; do : >$W/$M.$NEXAR_RANK; sleep 0.02; done; echo $M $NEXAR_JOIN'
W=$work M=a "$nexar" run -n 2 sh -c "$together" >"$work/a" &
W=$work M=b "$nexar" run -n 2 sh -c "$together" >"$work/b" &
wait
[ "$(cut -d ' ' -f 2- "$work/a" "$work/b" | sort -u | wc -l)" = 2 ] || fail "two runs share a join string"
what="two worlds at once"
"$nexar" run -n 2 "$nexar" ping 1 --count 20 >"$work/a" 2>&1 &
"$nexar" run -n 3 "$nexar" info --links >"$work/b" 2>&1 &
wait
has "$work/a" 'round trip' || fail "$what: $(cat "$work/a")"
[ "$(wc -l <"$work/b")" = 7 ] || fail "$what: $(cat "$work/b")"
run 0 -n 2 "$nexar" run -n 2 sh -c 'echo "inner $NEXAR_RANK"'
[ "$(sort "$work/out" | tr '\n' ' ')" = '[0] [0] inner 0 [0] [1] inner 1 [1] [0] inner 0 [1] [1] inner 1 ' ] ||
    fail "$what: nested"
run 0 -n 2 "$nexar" run -n 2 "$nexar" ping 1 --count 10
[ "$(grep -c 'round trip' "$work/out")" = 2 ] || fail "$what: nested worlds"
begin -n 2 "$nexar" run -n 2 sh -c "sleep $long & setsid sleep $long & exec sleep $long"
until_true are_left 12
kill -KILL "$pid"
ends 137

finish
