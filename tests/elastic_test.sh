#!/bin/bash
# elastic_test.sh NEXAR ELASTIC - a job of `nexar run` whose ranks leave and die while
# others join it by its join file.
# shellcheck disable=SC2016,SC2154
set -uo pipefail
nexar=$1
elastic=$2
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

echo "-- a rank that leaves is no failure"
LEAVE_AT=5 "$nexar" run -n 1 "$elastic" 10 >"$work/out" 2>"$work/err" || fail "alone: $(cat "$work/err")"
"$nexar" run -n 4 sh -c '[ "$NEXAR_RANK" != 1 ] || export LEAVE_AT=5; exec "$0" 20' "$elastic" \
    >"$work/out" 2>"$work/err" || fail "leaving: $(cat "$work/err")"
has "$work/out" "left after step 5" || fail "rank 1 has not left: $(cat "$work/out")"
[ "$(grep -c 'of 3 at the end' "$work/out")" = 3 ] || fail "not 3 at the end: $(cat "$work/out")"

echo "-- a rank that dies ends the others, but not with --elastic"
die='[ "$NEXAR_RANK" != 0 ] || export DIE_AT=5; exec "$0" 20'
"$nexar" run -n 3 sh -c "$die" "$elastic" >"$work/out" 2>"$work/err"
[ $? = 137 ] || fail "its code is not returned"
"$nexar" run --elastic -n 3 sh -c "$die" "$elastic" >"$work/out" 2>"$work/err" ||
    fail "elastic: $(cat "$work/err")"
[ "$(grep -c 'of 2 at the end' "$work/out")" = 2 ] || fail "not 2 at the end: $(cat "$work/out")"
has "$work/err" "rank 0" || fail "nobody says that rank 0 was killed"

echo "-- others join by the join file, and take no place of a rank that has not come yet"
"$nexar" run -n 2 --join-file "$work/join" sh -c 'until [ -e "$0" ]; do sleep 0.02; done
    exec "$1" 20 3' "$work/go" "$elastic" >"$work/out" 2>"$work/err" &
job=$!
until_true test -s "$work/join" || fail "no join file"
[ "$(stat -c %a "$work/join")" = 600 ] || fail "others may read the join file"
# Also one that another launcher has started, whose number is not one of this world.
SLURM_PROCID=0 SLURM_NTASKS=1 NEXAR_JOIN=$(cat "$work/join") "$elastic" 20 3 >"$work/third" 2>&1 &
third=$!
: >"$work/go"
wait $third || fail "$(cat "$work/third")"
wait $job || fail "the job: $(cat "$work/err")"
has "$work/third" "2 of 3 at the end" || fail "the third: $(cat "$work/third")"
[ "$(grep -c 'of 3 at the end' "$work/out")" = 2 ] || fail "not 3 at the end: $(cat "$work/out")"
"$nexar" run -n 2 --join-file "$work/none/join" true >"$work/out" 2>"$work/err"
[ $? = 1 ] || fail "a join file where none can be: code"
has "$work/err" "cannot write the join file .*none/join" || fail "a join file where none can be"
finish
