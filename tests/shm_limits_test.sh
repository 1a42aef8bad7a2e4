#!/bin/bash
# shm_limits_test.sh NEXAR MIX DENY SCARCE - ranks of one host that may not share all: other
# users, memory that cannot be read, no descriptors.  All goes on by what is left.
# shellcheck disable=SC2154,SC2016 # lib.sh has what is not assigned here; ranks expand theirs
set -uo pipefail
nexar=$1
mix=$2
deny=$3
scarce=$4
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

# run_mix WORDS N PROGRAM...: a random mix of operations, with the ranks' log.
run_mix() {
    local words=$1 n=$2
    shift 2
    NEXAR_LOG=debug "$nexar" run -n "$n" "$@" >"$work/out" 2>"$work/err" ||
        fail "$words: exit code $?"
    has "$work/out" "mix: .* collectives on $n ranks" || fail "$words: no last word"
}
logged() { cat "$work/out" "$work/err" | grep -qE -- "$1"; }

# The others' memory cannot be read, by any rank or by one: through the segment then.
"$deny" true
if [ $? = 77 ]; then
    echo "left out: no seccomp here"
else
    run_mix "no rank reads" 3 "$deny" "$mix" 901 30
    logged "everything is copied twice" || fail "memory is read in spite of the filter"
    ! logged "its memory can be read" || fail "memory is read in spite of the filter"
    run_mix "one rank does not read" 3 sh -c \
        'if [ "$NEXAR_RANK" = 1 ]; then exec "$0" "$@"; fi; exec "$@"' "$deny" "$mix" 902 30
    logged "everything is copied twice" || fail "rank 1 reads in spite of the filter"
    logged "its memory can be read" || fail "ranks 0 and 2 do not read"
fi

# A rank of another user: by QUIC.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$work"
    cp "$mix" "$work/mix"
    run_mix "a rank of another user" 3 sh -c \
        'if [ "$NEXAR_RANK" = 1 ]; then
            exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
        fi; exec "$@"' sh "$work/mix" 903 30
    # Whichever of the two calls the other.
    logged "no shared memory with rank 1 .*, but QUIC: it belongs to user 65534" ||
        logged "\\[1\\] .*no shared memory with rank .*, but QUIC: it belongs to user 0" ||
        fail "nobody has said that rank 1 is of another user"
    logged "a link to member" || fail "ranks 0 and 2 do not share memory"
else
    echo "left out: ranks of another user, for want of root or setpriv"
fi

# No descriptors when they meet, or too few: by QUIC, or without a board.
for free in 0 1 2 3 4 5 6 7 8 9; do
    for who in "" odd; do
        # shellcheck disable=SC2086 # $who is a word or none
        "$nexar" run -n 3 "$scarce" $free $who >"$work/out" 2>"$work/err" ||
            fail "$free descriptors ${who:-all}: exit code $?"
        has "$work/out" "scarce: all was right" || fail "$free descriptors: no last word"
    done
done
finish
