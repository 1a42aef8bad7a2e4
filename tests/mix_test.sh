#!/bin/bash
# mix_test.sh NEXAR MIX - random mixes of operations between processes.
# shellcheck disable=SC2154 # lib.sh has what is not assigned here
set -uo pipefail
nexar=$1
mix=$2
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

ops=40
seeds=3
if [ -n "${NXT_LONG:-}" ]; then
    ops=400
    seeds=40
fi

# Even seeds by QUIC, odd ones by shared memory.
for n in 1 2 3 4 5 6 7 8 9; do
    for seed in $(seq "$seeds"); do
        transports=shm
        [ $((seed % 2)) = 1 ] || transports=quic
        NEXAR_TRANSPORTS=$transports "$nexar" run -n "$n" "$mix" "$((100 * n + seed))" "$ops" >"$work/out" 2>"$work/err" ||
            fail "$n ranks, seed $((100 * n + seed)): exit code $?"
        has "$work/out" "mix: .* collectives on $n ranks" || fail "$n ranks: no last word"
    done
done
finish
