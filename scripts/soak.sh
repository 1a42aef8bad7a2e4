#!/bin/bash
# soak.sh BUILD [TIMES [REGEX]] - runs every test of a build (or those whose name matches)
# TIMES times, 10 if not said, while the machine has other things to do; a line for each test,
# then the slowest, what failed, and how many tests were run as often as that.  What a test that
# fails has printed is in BUILD/soak.
#
#   JOBS=2     so many different tests at once
#   LOAD=N     so many processes that only use up time beside them; as many as cores if unset
#   LONG=40    a test that takes more seconds than this is run only 3 times; 0: all are run TIMES
#   BEFORE=    a command to start each run with, such as "nice -n 5"
set -euo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"
build=$(cd "${1:?the folder of a build}" && pwd)
times=${2:-10}
regex=${3:-.}
jobs=${JOBS:-2}
load=${LOAD:-$(nproc)}
export LONG=${LONG:-40} BEFORE=${BEFORE:-} build times
export logs=$build/soak
mkdir -p "$logs"
report=$(mktemp)
busy=()
finish() {
    [ ${#busy[@]} = 0 ] || kill "${busy[@]}" 2>/dev/null || true
    rm -f "$report"
}
trap finish EXIT

# The seconds that ctest has printed for its one test.
seconds_of() { sed -n 's/^ *1\/1 Test .* \([0-9.]*\) sec *$/\1/p' "$1"; }

# Whether $1 seconds are too many for another run.
is_long() { awk -v t="$1" -v l="$LONG" 'BEGIN { exit !(l + 0 > 0 && t + 0 > l + 0) }'; }

# The runs of one test.  ctest writes where it is started: each test has a place of its own,
# which has the tests of the build.
soak_one() {
    local name=$1 place run=0 most failed=0 word=ok
    place=$(mktemp -d)
    printf 'subdirs("%s")\n' "$build" >"$place/CTestTestfile.cmake"
    while [ $word != skipped ] && ((run < times)) &&
        { ((run < 3)) || ! is_long "$most"; }; do
        run=$((run + 1))
        # shellcheck disable=SC2086 # BEFORE is words
        if ! $BEFORE ctest --test-dir "$place" -R "^$name\$" -V >"$place/log" 2>&1; then
            failed=$((failed + 1)) word=FAILED
            cp "$place/log" "$logs/${name//\//-}.$run.log"
        elif grep -q '\*\*\*Skipped' "$place/log"; then
            word=skipped
        fi
        seconds_of "$place/log" >>"$place/seconds"
        most=$(sort -n "$place/seconds" | tail -n 1)
    done
    printf '%-8s %-40s %2d of %2d failed, %7.2f s at most\n' $word "$name" $failed $run "$most"
    rm -rf "$place"
}
export -f soak_one seconds_of is_long

for ((i = 0; i < load; i++)); do
    (while :; do :; done) &
    busy+=($!)
done
began=$SECONDS
# shellcheck disable=SC2016 # $1 is for the inner shell
ctest --test-dir "$build" -N -R "$regex" | sed -n 's/^ *Test *#[0-9]*: //p' |
    xargs -d '\n' -n 1 -P "$jobs" bash -c 'soak_one "$1"' soak_one | tee "$report"
echo
echo "the slowest:"
sort -k 7 -n -r "$report" | awk 'NR <= 15 { printf "    %7.2f s  %s\n", $7, $2 }'
awk -v s=$((SECONDS - began)) -v times="$times" '
    { runs += $5; failed += $3; bad += ($1 == "FAILED") }
    $1 == "skipped" { skipped++; next }
    $5 < times { fewer++; few += $5; next }
    { all++ }
    END {
        printf "%d tests, %d runs in %d s: %d runs of %d tests failed\n", NR, runs, s, failed, bad
        printf "%d tests were run all %d times, %d fewer times", all, times, fewer
        printf "%s, %d were skipped\n", (fewer > 0) ? " (" few " runs in all)" : "", skipped
        exit (failed > 0)
    }' "$report"
