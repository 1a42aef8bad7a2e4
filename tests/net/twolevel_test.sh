#!/bin/bash
# twolevel_test.sh - several ranks on each of several hosts: shared memory inside them,
# QUIC between them, and collectives on both levels, held to an oracle.
# shellcheck source=tests/net/lib.sh disable=SC1091
source "$(dirname "$0")/lib.sh"

mix=$bin/tests/mix
ops=40
[ "$long" = 0 ] || ops=400

# The long forms for all sizes, where there is one.
long_forms=barrier:0-:twolevel,broadcast:0-:twolevel_chain,reduce:0-:twolevel_chain
long_forms+=,allreduce:0-:twolevel_ring,allgather:0-:twolevel_ring,reduce_scatter:0-:twolevel_ring
long_forms+=,gather:0-:twolevel,scatter:0-:twolevel,alltoall:0-:twolevel
# The others.
short_forms=broadcast:0-:twolevel,reduce:0-:twolevel,allreduce:0-:twolevel_halving
short_forms+=,allgather:0-:twolevel,reduce_scatter:0-:twolevel

# "$@" with a rank for each word of $placed, on the host that the word says.
run_placed() {
    local rank=0 host
    # shellcheck disable=SC2086 # words
    start_seed "$(set -- $placed && echo $#)"
    for host in $placed; do
        NEXAR_JOIN=$join NEXAR_RANK=$rank on "$host" timeout 100 "$@" \
            >"$work/$job.rank$rank.out" 2>"$work/$job.rank$rank.log" 8>&- 9>&- &
        ranks+=($!)
        rank=$((rank + 1))
    done
    ranks_end
    seed_ends
}

# The random mix with algorithms by the table, then with those of two levels for all sizes.
mixes() {
    local n number=$1 rules
    n=$(wc -w <<<"$placed")
    for rules in "" "$long_forms" "$short_forms"; do
        number=$((number + 1))
        unset NEXAR_ALGORITHMS # one that is set but empty is an error
        [ -z "$rules" ] || export NEXAR_ALGORITHMS=$rules
        NEXAR_SEGMENT=4k run_placed "$mix" "$number" "$ops"
        grep -q "mix: .* collectives on $n ranks" "$work/$job.rank0.out" || fail "no last word"
        cat "$work/$job.rank0.out"
    done
}

# Every pair of one host by shared memory, every other one by QUIC.
links_are_of_two_kinds() {
    run_placed "$nexar" info --links
    tail -n +2 "$work/$job.rank0.out" >"$work/links"
    cat "$work/links"
    awk -v placed="$placed" '
        BEGIN { split(placed, host, " ") }
        { want = (host[$1 + 1] == host[$2 + 1]) ? "shm" : "quic"
          if ($3 != want) exit 1 }' "$work/links" || fail "the table of links"
}

blocks() {
    bridge_hosts 2 1500
    placed="1 1 2 2"
    links_are_of_two_kinds
    mixes 10
}

turns() {
    bridge_hosts 3 1500
    placed="1 2 3 1 2 3"
    links_are_of_two_kinds
    mixes 20
}

uneven() {
    bridge_hosts 3 1500
    placed="2 1 1 3 1 3"
    links_are_of_two_kinds
    mixes 30
}

fours() {
    bridge_hosts 2 1500
    placed="1 1 1 1 2 2 2 2"
    links_are_of_two_kinds
    mixes 50
}

many() {
    bridge_hosts 4 1500
    placed="1 1 2 2 3 3 4 4"
    mixes 40
}

case $case in
blocks | turns | uneven | fours | many) $case ;;
*) fail "no such case: $case" ;;
esac
echo "ok: $case"
