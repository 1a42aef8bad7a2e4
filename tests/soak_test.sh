#!/bin/bash
# soak_test.sh SOAK - scripts/soak.sh with a ctest that only pretends: tests that are short, long,
# skipped, and one that fails; the last line says how often they were run.
# shellcheck disable=SC2154 # lib.sh has what is not assigned here
set -uo pipefail
soak=$1
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

bin=$work/bin
mkdir -p "$bin" "$work/build"
cat >"$bin/ctest" <<'FAKE'
#!/bin/bash
case "$*" in
*" -N "*) printf '  Test #1: a/short\n  Test #2: a/long\n  Test #3: a/skipped\n  Test #4: a/bad\n' ;;
*/short*) echo '1/1 Test #1: a/short ....   Passed    1.50 sec' ;;
*/long*) echo '1/1 Test #2: a/long .....   Passed   50.00 sec' ;;
*/skipped*) echo '1/1 Test #3: a/skipped ..***Skipped   0.01 sec' ;;
*/bad*)
    echo '1/1 Test #4: a/bad ......***Failed    0.20 sec'
    exit 8
    ;;
esac
FAKE
chmod +x "$bin/ctest"

# soak LONG TIMES: sets $status and $last, the last line.
soak() {
    PATH=$bin:$PATH LOAD=0 LONG=$1 "$soak" "$work/build" "$2" >"$work/out" 2>"$work/err"
    status=$?
    last=$(tail -n 1 "$work/out")
    echo "LONG=$1, $2 times: $last"
}

soak 40 10
[ $status != 0 ] || fail "a test that fails is no failure"
has "$work/out" '^ok +a/long +0 of +3 failed, +50.00 s' || fail "a long test is not run 3 times"
has "$work/out" '^4 tests, 24 runs in .*: 10 runs of 1 tests failed$' || fail "the runs"
[ "$last" = "2 tests were run all 10 times, 1 fewer times (3 runs in all), 1 were skipped" ] ||
    fail "the last line is not true"
[ -s "$work/build/soak/a-bad.10.log" ] || fail "what has failed is not kept"
soak 0 10
[ "$last" = "3 tests were run all 10 times, 0 fewer times, 1 were skipped" ] || fail "LONG=0"
soak 40 3
[ "$last" = "3 tests were run all 3 times, 0 fewer times, 1 were skipped" ] || fail "3 times"
finish
