#!/bin/bash
# shm_limits_test.sh NEXAR MIX DENY SCARCE - ranks of one host that may not share all: other
# users, other namespaces, memory that cannot be read, no descriptors, no large files.  All goes
# on by what is left.
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
"$deny" memory true
if [ $? = 77 ]; then
    echo "left out: no seccomp here"
else
    run_mix "no rank reads" 3 "$deny" memory "$mix" 901 30
    logged "everything is copied twice" || fail "memory is read in spite of the filter"
    ! logged "its memory can be read" || fail "memory is read in spite of the filter"
    run_mix "one rank does not read" 3 sh -c \
        'if [ "$NEXAR_RANK" = 1 ]; then exec "$0" memory "$@"; fi; exec "$@"' "$deny" "$mix" 902 30
    logged "everything is copied twice" || fail "rank 1 reads in spite of the filter"
    logged "its memory can be read" || fail "ranks 0 and 2 do not read"
    # A process that cannot be pinned may have given its id to another.
    run_mix "no rank is pinned" 3 "$deny" pidfd "$mix" 912 30
    logged "everything is copied twice" || fail "memory of a process that is not pinned is read"
    ! logged "its memory can be read" || fail "memory of a process that is not pinned is read"
    logged "are direct from .* in memory that is shared only" || fail "collectives read it"
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
    logged "no shared memory with rank 1 .*, but the network: it belongs to user 65534" ||
        logged "\\[1\\] .*no shared memory with rank .*, but the network: it belongs to user 0" ||
        fail "nobody has said that rank 1 is of another user"
    logged "a link to member" || fail "ranks 0 and 2 do not share memory"
else
    echo "left out: ranks of another user, for want of root or setpriv"
fi

# Ranks in other namespaces, one of them or each in its own: by shared memory, or by QUIC.
# in_namespaces SEED OPTION...: those of unshare.
in_namespaces() {
    local seed=$1 some
    shift
    if ! unshare "$@" true 2>/dev/null; then
        echo "left out: unshare $* is not allowed here"
        return
    fi
    for some in '1' '*'; do
        run_mix "unshare $*, $some" 3 sh -c \
            'case $NEXAR_RANK in '"$some"') exec unshare '"$*"' "$@" ;; esac
            exec "$@"' sh "$mix" "$seed" 30
        logged "a link to member|but QUIC" || fail "unshare $*, $some: no link is spoken of"
    done
}
in_namespaces 904 -pf --mount-proc
in_namespaces 905 -Ur
in_namespaces 906 -m -i
in_namespaces 907 -Ur -pf --mount-proc -m -i

# Files may not be as long as a segment, for any rank or for one: by QUIC.  Or not as long as
# what nexar_alloc gives: its memory is not shared then.
run_mix "no files" 3 sh -c 'ulimit -f 100; exec "$@"' sh "$mix" 908 30
logged "no shared memory .* file size limit" || fail "nobody has said that files are too short"
run_mix "no files of one rank" 3 sh -c \
    'if [ "$NEXAR_RANK" = 1 ]; then ulimit -f 100; fi; exec "$@"' sh "$mix" 909 30
"$nexar" run -n 2 sh -c 'ulimit -f 4000000; exec "$@"' sh "$scarce" 100 \
    >"$work/out" 2>"$work/err" || fail "no long files: exit code $?"
has "$work/out" "scarce: all was right" || fail "no long files: no last word"

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
