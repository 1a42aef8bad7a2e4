#!/bin/bash
# faults_test.sh - a network that loses, delays, doubles, reorders and swallows
# packets: messages arrive whole all the same.
# shellcheck source=tests/net/lib.sh disable=SC1091
source "$(dirname "$0")/lib.sh"

# Nobody dies here; on a busy machine a rank may not come to answer for longer than the 5 s.
export NEXAR_HEARTBEAT_TIMEOUT=60s

# 3 ranks exchange on a wire with the options $3..., $1 rounds of up to $2 bytes.
exchange_over() {
    local rounds=$1 largest=$2
    shift 2
    wire_hosts 3 --seed "${SEED:-1}" "$@"
    exchange_on 3 $((rounds * (1 + 5 * long))) "$largest"
}

# A random mix of collectives, splits and messages on 5 hosts, with a lossy wire.
mix_over() {
    local i
    wire_hosts 5 --seed "${SEED:-1}" "$@"
    start_seed 5
    for i in $(seq 5); do rank_on "$i" "$programs/../mix" "${SEED:-1}" $((60 * (1 + 9 * long))); done
    ranks_end
    seed_ends
    grep -h 'mix: .* collectives on 5 ranks' "$work/$job.rank0.out" || fail "the mix"
}

# Larger than 1300 bytes is nothing, though the interface says 1500: found out by
# probes, not told by anybody.
black_hole() {
    exchange_over 12 1000000 --mtu 1300
    links_on 3
    awk '$7 > 1272 || $7 < 1200 { exit 1 }' "$work/links" || fail "the black hole is not seen"
}

# The hole opens when larger packets have been in use for a while.
late_black_hole() {
    wire_hosts 3
    begin_exchange 3 0 300000
    more_rounds 0 13
    order mtu 1300
    more_rounds 0 13
    end_exchange
}

# A host is cut off in mid-transfer for less than the idle time-out.
brief_cut() {
    wire_hosts 3
    begin_exchange 3 0 1000000
    more_rounds 0 5
    order cut "$(host 2)"
    sleep 1.5 # this is the fault, not a wait
    order heal "$(host 2)"
    more_rounds 0 13
    end_exchange
}

# An interface goes down in mid-transfer, and comes back.
flap() {
    bridge_hosts 3 1500
    begin_exchange 3 0 1000000
    more_rounds 0 5
    ip -n "$(host 2)" link set eth0 down
    sleep 1.5
    ip -n "$(host 2)" link set eth0 up
    more_rounds 0 13
    end_exchange
}

case $case in
mix) mix_over --loss 1 ;;
loss1) exchange_over 24 1000000 --loss 1 ;;
loss5) exchange_over 12 500000 --loss 5 ;;
delay) exchange_over 12 300000 --delay 100 ;;
jitter) exchange_over 12 500000 --delay 1 --jitter 10 ;;
double) exchange_over 24 1000000 --double 20 ;;
mixed) exchange_over 12 300000 --loss 2 --delay 5 --jitter 5 --double 5 ;;
black_hole | late_black_hole | brief_cut | flap) $case ;;
*) fail "no such case: $case" ;;
esac
echo "ok: $case"
