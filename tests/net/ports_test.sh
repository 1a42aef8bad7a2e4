#!/bin/bash
# ports_test.sh - a firewall closes one port, of the seed or of a rank, for UDP and TCP, for a while
# or permanently, and says nothing; everything else of that host is open.
# shellcheck source=tests/net/lib.sh disable=SC1091
source "$(dirname "$0")/lib.sh"

# nft on host $1, with chains for what comes in and for what goes out.
firewall_on() {
    command -v nft >/dev/null || skip "needs nftables"
    on "$1" nft add table inet wall || skip "the kernel has no nf_tables"
    on "$1" nft 'add chain inet wall in { type filter hook input priority 0; }'
    on "$1" nft 'add chain inet wall out { type filter hook output priority 0; }'
}

# The firewall of host $1 closes the port $2: what comes for it is lost, of the addresses that
# follow alone, if there are some.
close_in() {
    local i=$1 port=$2 from
    shift 2
    for from in "$@"; do
        case $from in
        *:*) on "$i" nft add rule inet wall in ip6 saddr "$from" th dport "$port" counter drop ;;
        *) on "$i" nft add rule inet wall in ip saddr "$from" th dport "$port" counter drop ;;
        esac
    done
    [ $# -gt 0 ] || on "$i" nft add rule inet wall in th dport "$port" counter drop
}
# What goes out from it is lost too, and the sender is told so (EPERM).
close_both() {
    close_in "$1" "$2"
    on "$1" nft add rule inet wall out th sport "$2" counter drop
}
open_again() {
    on "$1" nft flush chain inet wall in
    on "$1" nft flush chain inet wall out
}
# It has swallowed something.
has_closed() { [[ $(on "$1" nft list chain inet wall in) =~ packets\ [1-9] ]]; }

seed_port() { sed -E 's|^.*@10\.90\.0\.1:([0-9]+).*|\1|' <<<"$join"; }

# The UDP port of the one process on host $1.
port_of() {
    local ports
    ports=$(on "$1" ss -Hlun | awk '{ n = split($4, a, ":"); print a[n] }' | sort -u)
    [ "$(wc -w <<<"$ports")" = 1 ] || fail "not one port on host $1: $ports"
    echo "$ports"
}

begin() {
    bridge_hosts 3 1500
    firewall_on "$1"
}

# The seed's port is closed to host 3: rank 2 ends with the seed's addresses, the others with
# the name of the rank that is missing.
seed() {
    local start r
    export NEXAR_FORMATION_TIMEOUT=5s
    begin 1
    start_seed 3
    close_in 1 "$(seed_port)" 10.90.0.3 fd90::3
    start=$(now_ms)
    for i in 1 2 3; do rank_on "$i" "$programs/exchange"; done
    for r in 0 1 2; do wait "${ranks[$r]}" && fail "rank $r has a world"; done
    [ $(($(now_ms) - start)) -lt 20000 ] || fail "it took $(($(now_ms) - start)) ms"
    cat "$work"/job.rank?.log
    has_closed 1 || fail "nothing came for the port"
    grep -qE "does not answer at 10[.]90[.]0[.]1:$(seed_port), \[fd90::1\]:$(seed_port)" \
        "$work/job.rank2.log" || fail "rank 2 does not say who did not answer"
    for r in 0 1; do
        grep -q 'missing: rank 2' "$work/job.rank$r.log" || fail "rank $r does not know who is missing"
    done
}

# The same port is opened in time: the world forms.
seed_opens() {
    begin 1
    start_seed 3
    close_in 1 "$(seed_port)" 10.90.0.3 fd90::3
    for i in 1 2 3; do rank_on "$i" "$programs/exchange" 12 100000; done
    until_true has_closed 1
    open_again 1
    ranks_end
    seed_ends
    grep -q 'exchange ok: 3 ranks' "$work/job.rank2.out" || fail "no good end"
}

# Rank 2's port is closed in mid-transfer, by $1, for less than heartbeat_timeout.
brief() {
    export NEXAR_HEARTBEAT_TIMEOUT=20s # a busy machine may be long in opening it again
    begin 3
    begin_exchange 3 0 4000000
    more_rounds 0 13
    "$1" 3 "$(port_of 3)"
    sleep 3 # this is the fault, not a wait
    has_closed 3 || fail "nothing came for the port"
    open_again 3
    more_rounds 0 13
    end_exchange
    grep -q 'exchange ok: 3 ranks' "$work/job.rank2.out" || fail "no good end"
}

# The same for good: both sides are told of it, and those who still reach each other go on.
for_good() {
    export NEXAR_HEARTBEAT_TIMEOUT=2s
    begin 3
    begin_exchange 3 --survive 0 4000000
    more_rounds 2 13
    "$1" 3 "$(port_of 3)"
    for r in 0 1; do await "$work/job.rank2.out" "^lost rank $r after .*NEXAR_EPEER: .* rank $r "; done
    ip netns pids "$(host 3)" | xargs kill -KILL
    survivors_go_on
    has_closed 3 || fail "nothing came for the port"
    [ "$(grep -h '^lost' "$work"/job.rank[01].out | grep -c NEXAR_EPEER)" = 2 ] ||
        fail "not all say NEXAR_EPEER"
}

case $case in
seed | seed_opens) $case ;;
brief_in) brief close_in ;;
brief_both) brief close_both ;;
for_good_in) for_good close_in ;;
for_good_both) for_good close_both ;;
*) fail "no such case: $case" ;;
esac
echo "ok: $case"
