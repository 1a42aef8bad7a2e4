#!/bin/bash
# fuzz.sh BUILD SECONDS [JOBS] - runs every fuzz target of a build for so long, JOBS at
# a time, from its corpus in tests/fuzz; what it finds goes to BUILD/found.
set -euo pipefail
build=$1
seconds=$2
jobs=${3:-$(nproc)}

found=$build/found
mkdir -p "$found"

# One target; a line when it is over.
fuzz_one() {
    local target=$1 name grown
    name=$(basename "$target" _fuzz)
    grown=$build/corpus/$name
    mkdir -p "$grown"
    if "$target" -max_total_time="$seconds" -timeout=20 -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="$found/$name-" "$grown" "tests/fuzz/corpus/$name" >"$found/$name.log" 2>&1; then
        printf '%-12s %ss ok, %s inputs\n' "$name" "$seconds" \
            "$(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$name.log")"
        return
    fi
    tail -n 40 "$found/$name.log"
    printf '%-12s FAILED\n' "$name"
    return 1
}
export -f fuzz_one
export build seconds found

# shellcheck disable=SC2016 # $1 is for the inner shell
printf '%s\0' "$build"/tests/fuzz/*_fuzz |
    xargs -0 -n 1 -P "$jobs" bash -c 'fuzz_one "$1"' fuzz_one
