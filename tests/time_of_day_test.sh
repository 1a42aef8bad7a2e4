#!/bin/bash
# time_of_day_test.sh NEXAR LINGER SHIM - the time of day decides nothing: ranks whose clocks differ
# by years form a world over QUIC; one that runs for twenty years makes new links, gets a new rank,
# and its seed is started again.
# shellcheck disable=SC2154,SC2317 # lib.sh has what is not assigned here; it calls by name
set -uo pipefail
nexar=$1
linger=$2
shim=$3
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
year=$((365 * 86400))

# at CLOCK: $at runs a program with the time of day of that name.
at() { at=(env TIME_OF_DAY="$work/$1.clock" LD_PRELOAD="$shim"); }
shift_clock() { echo "$2" >"$work/$1.new" && mv "$work/$1.new" "$work/$1.clock"; }

# seed NAME CLOCK OPTION...: in the background; $seed is its pid, $join its join string.
seed() {
    local name=$1 clock=$2
    shift 2
    at "$clock"
    "${at[@]}" "$nexar" seed --listen 127.0.0.1 "$@" >"$work/$name.out" 2>"$work/$name.err" \
        </dev/null 9>&- &
    seed=$!
    until_true has "$work/$name.out" . || finish
    join=$(cat "$work/$name.out")
}
# rank NAME CLOCK RANKS: one that stays while the FIFO is open, and then makes a world of RANKS.
declare -A pids
rank() {
    at "$2"
    NEXAR_JOIN="$join" NEXAR_LOG=info NEXAR_TRANSPORTS=quic "${at[@]}" "$linger" "$3" \
        >"$work/$1.out" 2>"$work/$1.err" <"$work/stay" 9>&- &
    pids[$1]=$!
}
# all_right RANKS NAME...
all_right() {
    local n=$1 name
    shift
    for name in "$@"; do
        wait "${pids[$name]}" || fail "rank $name: $(cat "$work/$name.err")"
        has "$work/$name.out" "^the sum over $n ranks is right" || fail "$name: $(cat "$work/$name.out")"
    done
}

mkfifo "$work/stay"
exec 9<>"$work/stay"
shift_clock shown $((20 * year))
in_twenty_years=$(($(date +%Y) + 20))
at shown
[ "$("${at[@]}" date +%Y)" = $in_twenty_years ] || {
    echo "left out: programs here cannot be given another time of day"
    exec 9>&-
    finish
}

echo "-- clocks that differ"
shift_clock seed 0
shift_clock hour_ago -7200
shift_clock years_ago $((-30 * year))
shift_clock ahead $((20 * year))
seed differ seed --world 3
rank a hour_ago 3
rank b years_ago 3
rank c ahead 3
for name in a b c; do until_true has "$work/$name.out" 'rank [0-2] of 3' || finish; done
exec 9>&-
all_right 3 a b c
wait "$seed" || fail "the seed: $(cat "$work/differ.err")"

echo "-- a job that grows old"
exec 9<>"$work/stay"
shift_clock all 0
seed young all --world 3 --state "$work/state"
for name in d e f; do rank $name all 5; done
for name in d e f; do until_true has "$work/$name.out" 'rank [0-2] of 3' || finish; done
shift_clock all $((40 * 86400))
rank g all 5
until_true has "$work/young.err" 'waits to join the world' || finish
shift_clock all $((20 * year))
kill -KILL "$seed"
wait "$seed" 2>/dev/null
for name in d e f; do until_true has "$work/$name.err" 'the seed is gone' || finish; done
young=$join
seed old all --world 3 --state "$work/state"
[ "$join" = "$young" ] || fail "another join string"
for name in d e f; do until_true has "$work/$name.err" 'the seed is back' || finish; done
rank h all 5
exec 9>&- # they update until there are five
all_right 5 d e f g h
wait "$seed" || fail "the seed: $(cat "$work/old.err")"
finish
