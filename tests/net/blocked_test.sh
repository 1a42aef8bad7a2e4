#!/bin/bash
# blocked_test.sh - a firewall blocks UDP, TCP or both between hosts: links come up over what is
# left, and where nothing is left the error says so within seconds.
# shellcheck source=tests/net/lib.sh disable=SC1091
source "$(dirname "$0")/lib.sh"

command -v nft >/dev/null || skip "needs nftables"

# Host $1 refuses what comes in over eth0 and matches $2..., by the verdict that ends it.
wall() {
    local i=$1
    shift
    on "$i" nft add table inet wall || skip "the kernel has no nf_tables"
    on "$i" nft 'add chain inet wall in { type filter hook input priority 0; }'
    on "$i" nft add rule inet wall in iifname eth0 "$@"
}
wall_all() {
    local i
    for i in 1 2 3; do wall "$i" "$@"; done
}

seed_port() { sed -E 's|^.*@10\.90\.0\.1:([0-9]+).*|\1|' <<<"$join"; }

# An exchange works, and `nexar info --links` shows links of $1 alone, most for the reason $2.
works_over() {
    local transport=$1 reason=$2
    export NEXAR_LOG=info
    exchange_on 3 12 1000000
    job=links
    start_seed 3
    for i in 1 2 3; do rank_on "$i" "$nexar" info --links; done
    ranks_end
    seed_ends
    cat "$work/links.rank0.out"
    [ "$(grep -cE " $transport .* $reason\$" "$work/links.rank0.out")" -ge 4 ] ||
        fail "not enough links of $transport because $reason"
    [ "$(grep -cE " $transport " "$work/links.rank0.out")" = 6 ] || fail "not all links are $transport"
}

udp() {
    wall_all meta l4proto udp "$@"
    works_over tcp '(no answer over UDP|the peer came over TCP)'
    for r in 0 1 2; do
        [ "$(grep -c 'no answer over UDP from .*links use TCP' "$work/job.rank$r.log")" = 1 ] ||
            fail "rank $r does not say once that UDP is blocked"
    done
}

tcp() {
    wall_all meta l4proto tcp "$@"
    works_over quic 'UDP works'
    ! grep -h 'links use TCP' "$work"/*.log || fail "UDP is not blocked"
}

# Within seconds, rank 1 says which host does not answer over UDP nor TCP, and names a firewall.
nothing() {
    local start took
    start_seed 2
    wall 1 meta l4proto '{ tcp, udp }' drop
    start=$(now_ms)
    rank_on 2 "$programs/exchange"
    wait "${ranks[0]}" && fail "the rank has joined"
    took=$(($(now_ms) - start))
    cat "$work/job.rank1.log"
    [ $took -lt 15000 ] || fail "it took $took ms"
    grep -qE "the seed does not answer at 10[.]90[.]0[.]1:$(seed_port).*UDP.*TCP.*firewall" \
        "$work/job.rank1.log" || fail "the error names no firewall"
    kill "$seed"
}

# Only the port of the seed is open: ranks on hosts 2 and 3 join, and cannot talk to each other.
seed_alone() {
    local start r i
    start_seed 2
    for i in 2 3; do
        wall "$i" ip saddr != 10.90.0.1 meta l4proto '{ tcp, udp }' drop
        on "$i" nft add rule inet wall in ip6 saddr != fd90::1 meta l4proto '{ tcp, udp }' drop
    done
    start=$(now_ms)
    NEXAR_RANK=0 rank_on 2 "$programs/exchange"
    NEXAR_RANK=1 rank_on 3 "$programs/exchange"
    for r in 0 1; do wait "${ranks[$r]}" && fail "rank $r could exchange"; done
    [ $(($(now_ms) - start)) -lt 20000 ] || fail "it took $(($(now_ms) - start)) ms"
    cat "$work"/job.rank?.log
    grep -qhE "^.*(rank 0|rank 1).*UDP.*TCP.*firewall" "$work"/job.rank?.log ||
        fail "the error names no firewall"
    kill "$seed" 2>/dev/null || true
}

# The same with a heartbeat_timeout that is over before dialling has failed.
seed_alone_soon() {
    export NEXAR_HEARTBEAT_TIMEOUT=2s
    seed_alone
}

# The setting alone decides: TCP where UDP works.
setting() {
    export NEXAR_TRANSPORTS=tcp
    works_over tcp 'setting transports'
}

bridge_hosts 3 1500
case $case in
udp_dropped) udp drop ;;
udp_rejected) udp reject ;;
tcp_dropped) tcp drop ;;
tcp_rejected) tcp reject with tcp reset ;;
nothing | seed_alone | seed_alone_soon | setting) $case ;;
*) fail "no such case: $case" ;;
esac
echo "ok: $case"
