#!/bin/bash
# addresses_test.sh - hosts with one address or several, good and dead, and the
# settings that choose among them.
# shellcheck source=tests/net/lib.sh disable=SC1091
source "$(dirname "$0")/lib.sh"

# Every address in the table of links matches $1.
links_are() {
    awk -v want="$1" '$4 !~ want || $5 !~ want { exit 1 }' "$work/links" ||
        fail "links by other addresses than $1"
}

# Rank 1 ends with an error, whose words match $1, in less than $2 s.
refused_within() {
    local words=$1 limit=$2 start
    start=$(now_ms)
    rank_on 2 "$programs/exchange"
    wait "${ranks[0]}" && fail "rank 1 has joined"
    ranks=()
    [ $(($(now_ms) - start)) -lt $((limit * 1000)) ] || fail "it took longer than $limit s"
    cat "$work/job.rank1.log"
    grep -qE "$words" "$work/job.rank1.log" || fail "the error lacks: $words"
}

ipv6_only() {
    add_switch br0
    for i in 1 2 3; do
        add_host "$i"
        add_interface "$i" eth0 br0 1500 "fd90::$i"
    done
    exchange_on 3 12 100000
    links_on 3
    links_are '^\[fd90::'
}

# eth0, which is told first, leads nowhere: the other address is tried 50 ms later,
# and nobody waits for a time-out (10 s).
dead_address() {
    local start
    two_bridges 3 ""
    start=$(now_ms)
    links_on 3
    links_are '^10[.]91[.]'
    [ $(($(now_ms) - start)) -lt 8000 ] || fail "dead addresses were waited for"
}

interfaces() {
    two_bridges 2 br0
    NEXAR_INTERFACES=eth1 links_on 2
    links_are '^10[.]91[.]'
    NEXAR_INTERFACES=10.90.0.0/16 links_on 2
    links_are '^10[.]90[.]'
    export NEXAR_INTERFACES=eth7
    refused_within 'interfaces: "eth7".*eth0 10[.]90[.]0[.]2, eth1 10[.]91[.]0[.]2' 20
}

advertise() {
    two_bridges 2 br0
    start_seed 2
    for i in 1 2; do NEXAR_ADVERTISE=10.91.0.$i rank_on "$i" "$nexar" info --links; done
    ranks_end
    tail -n +2 "$work/job.rank0.out" | tee "$work/links"
    links_are '^10[.]91[.]'
}

port_range() {
    bridge_hosts 2 1500
    NEXAR_PORT_RANGE=4400-4401 links_on 2
    links_are ':440[01]$'
    # The seed has the one port, so rank 0, on its host, finds none.
    export NEXAR_PORT_RANGE=4400
    start_seed 2
    rank_on 1 "$programs/exchange"
    wait "${ranks[0]}" && fail "rank 0 has found a port"
    ranks=()
    cat "$work/job.rank0.log"
    grep -q '4400' "$work/job.rank0.log" || fail "the error does not name the port"
}

# All hosts have the same port: a rank that tries the loopback, since it cannot tell a
# namespace from a neighbour, finds itself there.
same_port() {
    local start
    bridge_hosts 3 1500
    start_seed 3
    start=$(now_ms)
    for i in 1 2 3; do NEXAR_LISTEN=:4433 rank_on "$i" "$nexar" info --links; done
    ranks_end
    [ $(($(now_ms) - start)) -lt 8000 ] || fail "it took $(($(now_ms) - start)) ms"
    tail -n +2 "$work/job.rank0.out" | tee "$work/links"
    links_are '^10[.]90[.]0[.][123]:4433$'
}

listen() {
    two_bridges 2 br0
    start_seed 2 --listen 10.91.0.1
    [[ $join =~ ^nexar://[^@]+@10\.91\.0\.1:[0-9]+/ ]] || fail "the join string"
    for i in 1 2; do
        NEXAR_LISTEN=10.91.0.$i rank_on "$i" "$programs/exchange" --until "$work/job.stop"
    done
    more_rounds 1 5
    ip netns exec "$(host 1)" ss -Hlun >"$work/sockets"
    ip netns exec "$(host 2)" ss -Hlun >>"$work/sockets"
    end_exchange
    cat "$work/sockets"
    awk '$4 !~ /^10[.]91[.]0[.][12]:/ { exit 1 } END { if (NR != 3) exit 1 }' "$work/sockets" ||
        fail "sockets on other addresses"
}

# Of two interfaces of the seed's host one goes down: who joins then uses the other.
one_down() {
    two_bridges 3 br0
    links_on 3
    start_seed 3
    ip -n "$(host 1)" link set eth0 down
    for i in 1 2 3; do rank_on "$i" "$nexar" info --links; done
    ranks_end
    tail -n +2 "$work/job.rank0.out" | tee "$work/links"
    awk '($1 == 0 || $2 == 0) && ($4 !~ /^10[.]91[.]/ || $5 !~ /^10[.]91[.]/) { exit 1 }' \
        "$work/links" || fail "rank 0 is not reached by its other address"
}

# The kernel says that there is no way to the seed: the error names what was tried.
blocked() {
    export NEXAR_FORMATION_TIMEOUT=2s
    bridge_hosts 2 1500
    for kind in prohibit blackhole; do
        start_seed 2
        ip -n "$(host 2)" route add $kind 10.90.0.1
        ip -n "$(host 2)" route add $kind fd90::1
        refused_within 'does not answer at 10[.]90[.]0[.]1:[0-9]+, \[fd90::1\]:[0-9]+' 20
        ip -n "$(host 2)" route del $kind 10.90.0.1
        ip -n "$(host 2)" route del $kind fd90::1
    done
}

# Nobody says anything, as behind a firewall.
silent() {
    export NEXAR_FORMATION_TIMEOUT=2s
    wire_hosts 2
    start_seed 2
    order cut "$(host 1)"
    refused_within 'does not answer at 10[.]90[.]0[.]1:[0-9]+, \[fd90::1\]:[0-9]+' 20
}

case $case in
ipv6_only | dead_address | interfaces | advertise | port_range | same_port | listen | one_down | \
    blocked | silent) $case ;;
*) fail "no such case: $case" ;;
esac
echo "ok: $case"
