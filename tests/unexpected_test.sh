#!/bin/bash
# unexpected_test.sh NEXAR UNEXPECTED [unmeasured] - messages of 1 MiB flood a rank that has asked
# for none of them: its memory stays within the bound, none is lost, and nothing waits for ever.
# NXT_LONG makes it 10 000 messages instead of 1 000.
# shellcheck disable=SC2154 # lib.sh has what is not assigned here
set -uo pipefail
nexar=$1
unexpected=$2
measured=${3:-measured}
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

messages=1000
[ -z "${NXT_LONG:-}" ] || messages=10000
[ "$measured" = measured ] || messages=300

# flood TRANSPORTS POOL: the receiver may grow by the pool, of so many MiB, and by 16 MiB for all
# else, as any rank may (footprint_test.sh); the sender by 8 MiB, and 2 KiB for each request.
flood() {
    local receiver=$(($2 * 1024 + 16384)) sender=$((8192 + 2 * messages))
    [ "$measured" = measured ] || receiver=0 sender=0
    echo "-- by $1, at most ${2} MiB unexpected"
    NEXAR_TRANSPORTS=$1 NEXAR_UNEXPECTED=${2}m timeout 600 "$nexar" run -n 2 \
        "$unexpected" "$messages" "$receiver" "$sender" >"$work/out" 2>"$work/err" ||
        fail "$1, ${2} MiB: exit code $?"
    has "$work/out" "unexpected: $messages messages in .* receiver [1-9][0-9]*, sender [1-9]" ||
        fail "$1, ${2} MiB: no last word"
    cat "$work/out"
}

# The default; and one in which not even their envelopes have room.
for transports in quic shm; do
    for pool in 64 1; do flood $transports $pool; done
done
finish
