#!/bin/bash
# footprint_test.sh NEXAR FOOTPRINT - a rank needs little memory beside its buffers.
# shellcheck disable=SC2154 # lib.sh has what is not assigned here
set -uo pipefail
nexar=$1
footprint=$2
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

"$nexar" run -n 8 "$footprint" 16384 >"$work/out" 2>"$work/err" || fail "8 ranks: exit code $?"
has "$work/out" "footprint: 8 ranks, KiB beside the buffers: .* pss [1-9]" || fail "no figures"
cat "$work/out"
finish
