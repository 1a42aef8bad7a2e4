#!/bin/bash
# fair_test.sh FAIR - scripts/fair.sh: the switch is off while somebody runs, and as before when the
# last one has ended.
fair=$1
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/lib.sh"
export FAIR_SWITCH=$work/switch FAIR_LOCK=$work/lock
is() { [ "$(cat "$FAIR_SWITCH")" = "$1" ] || fail "$2: the switch is $(cat "$FAIR_SWITCH")"; }

echo 1 >"$FAIR_SWITCH"
[ "$("$fair" cat "$FAIR_SWITCH" | tail -n 1)" = 0 ] || fail "it is on while a command runs"
is 1 "afterwards"
code=0
"$fair" sh -c 'exit 7' >/dev/null || code=$?
[ $code = 7 ] || fail "the code of the command is 7, not $code"
is 1 "after one that failed"

# Two at once: the first one to end leaves it as it is.
mkfifo "$work/first" "$work/second"
"$fair" cat "$work/first" >/dev/null &
first=$!
"$fair" cat "$work/second" >/dev/null &
second=$!
exec 3>"$work/first" 4>"$work/second" # both have begun
is 0 "with two"
exec 3>&-
wait $first
is 0 "with the second"
exec 4>&-
wait $second
is 1 "with none"

# Who is told to end puts it back.
"$fair" cat "$work/first" >/dev/null &
first=$!
exec 3>"$work/first"
kill -TERM $first
exec 3>&-
code=0
wait $first || code=$?
[ $code = 143 ] || fail "ended by SIGTERM with $code"
is 1 "after SIGTERM"

echo 0 >"$FAIR_SWITCH"
[ "$("$fair" echo hello)" = hello ] || fail "it has something to say where it is off already"
is 0 "where it was off"
rm "$FAIR_SWITCH"
[ "$("$fair" echo hello)" = hello ] || fail "there need not be such a switch"
finish
