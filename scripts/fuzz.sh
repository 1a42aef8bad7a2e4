#!/bin/bash
# fuzz.sh BUILD SECONDS - runs every fuzz target of a build for so long, from
# its corpus in tests/fuzz; what it finds goes to BUILD/found.
set -euo pipefail
build=$1
seconds=$2

found=$build/found
mkdir -p "$found"
failed=0
for target in "$build"/tests/fuzz/*_fuzz; do
    name=$(basename "$target" _fuzz)
    grown=$build/corpus/$name
    mkdir -p "$grown"
    printf '%-10s %ss ... ' "$name" "$seconds"
    if "$target" -max_total_time="$seconds" -timeout=10 -max_len=4096 -print_final_stats=1 \
        -artifact_prefix="$found/$name-" "$grown" "tests/fuzz/corpus/$name" >"$found/$name.log" 2>&1; then
        echo "ok, $(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$name.log") inputs"
    else
        echo "FAILED"
        tail -n 40 "$found/$name.log"
        failed=1
    fi
done
exit $failed
