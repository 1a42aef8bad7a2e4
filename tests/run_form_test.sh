#!/bin/bash
# run_form_test.sh NEXAR - `nexar run` while the world forms and when ranks leave it early.
# Variables of the ranks stay as they are; functions are called by name; run_lib.sh has
# what is not assigned here.
# shellcheck disable=SC2016,SC2317,SC2154
set -uo pipefail
nexar=$1 early=$2
# shellcheck source=tests/run_lib.sh disable=SC1091
. "$(dirname "$0")/run_lib.sh"

# late FILE PROGRAM...: rank 1 becomes the program when FILE is there, the others do at once.
cat >"$work/late" <<'LATE'
#!/bin/bash
file=$1
shift
echo ready
until [ "$NEXAR_RANK" != 1 ] || [ -e "$file" ]; do sleep 0.05; done
exec "$@"
LATE
chmod +x "$work/late"

echo "-- who is missing"
# asked: the launcher is asked until it says what is expected.
asked() { kill -USR1 "$pid" && has "$work/err" "$1"; }
begin -n 3 "$work/late" "$work/go1" "$nexar" info --links
until_true has "$work/out" ready
until_true asked '^nexar run: the world has not formed: 2 of 3 ranks have joined; missing: rank 1; here: '
: >"$work/go1"
ends 0
what="a rank that ends and never joins"
begin -n 2 sh -c "echo ready; [ \$NEXAR_RANK = 1 ] || exec '$nexar' info --links"
until_true has "$work/out" ready
until_true asked '^nexar run: rank 1 \(pid [0-9]+\) has ended without joining$'
kill -TERM "$pid"
ends 143
# After stall_report it says so itself, once each time: rank 0 or, if that is missing, the seed.
export NEXAR_STALL_REPORT=200ms
begin -n 3 "$work/late" "$work/go2" "$nexar" info --links
until_true has "$work/err" '^\[0\] nexar: warn: the world has not formed after [0-9.]+ s: 2 of 3 ranks have joined; missing: rank 1;'
: >"$work/go2"
ends 0
! has "$work/err" '^nexar run: the world|^\[2\]' || fail "$what: more than one says who is missing"
begin -n 2 sh -c "until [ \$NEXAR_RANK = 1 ] || [ -e '$work/go3' ]; do sleep 0.05; done; exec '$nexar' info --links"
until_true has "$work/err" '^nexar run: the world has not formed after [0-9.]+ s: 1 of 2 ranks have joined; missing: rank 0;'
: >"$work/go3"
ends 0
unset NEXAR_STALL_REPORT

echo "-- nexar_finalize"
# A rank that exits without it while others run is named; one that calls it early is, by them.
run 0 -n 3 "$early" exit
says '^nexar run: rank 1 \(pid [0-9]+\) exited with code 0 without nexar_finalize$'
lines err 1
run 0 -n 3 "$early" finalize
prints 'barrier #1: rank 1 \(.*called nexar_finalize'
quiet
run 0 -n 3 "$early" linked
prints 'barrier #2: rank 1 \([^)]*\): called nexar_finalize, at'
quiet
run 0 -n 3 true
quiet

finish
