#!/bin/bash
# fuzz.sh BUILD SECONDS [JOBS] - runs every fuzz target of a build for so long, JOBS at
# a time, from its corpus in tests/fuzz; what it finds goes to BUILD/found.
set -euo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"
build=$1
seconds=$2
jobs=${3:-$(nproc)}

found=$build/found
mkdir -p "$found"

# most NAME: how long its inputs may be; the fuzzer begins with short ones, and with the corpus.
most() {
    case $1 in
    # frames and packets of 64 KiB, and one more; views in pieces of 32 KiB, and a second
    frames | hello | inbox | peek | tcp_stream | view) echo 70000 ;;
    # what the target has room for
    waiting) echo 65536 ;;
    door | seed_file) echo 16384 ;;
    *) echo 4096 ;;
    esac
}

# One target; a line when it is over.
fuzz_one() {
    local target=$1 name grown
    name=$(basename "$target" _fuzz)
    grown=$build/corpus/$name
    mkdir -p "$grown"
    if "$target" -max_total_time="$seconds" -timeout=100 -max_len="$(most "$name")" -print_final_stats=1 \
        -artifact_prefix="$found/$name-" "$grown" "tests/fuzz/corpus/$name" >"$found/$name.log" 2>&1; then
        printf '%-12s %ss ok, %s inputs\n' "$name" "$seconds" \
            "$(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$name.log")"
        return
    fi
    tail -n 40 "$found/$name.log"
    printf '%-12s FAILED\n' "$name"
    return 1
}
export -f fuzz_one most
export build seconds found

# shellcheck disable=SC2016 # $1 is for the inner shell
printf '%s\0' "$build"/tests/fuzz/*_fuzz |
    xargs -0 -n 1 -P "$jobs" bash -c 'fuzz_one "$1"' fuzz_one
