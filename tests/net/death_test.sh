#!/bin/bash
# death_test.sh - a rank dies or is cut off in mid-transfer: the others learn of it within
# heartbeat_timeout, by its name, and go on without it.
# shellcheck source=tests/net/lib.sh disable=SC1091
source "$(dirname "$0")/lib.sh"

lose_rank_2() {
    begin_exchange 3 --survive 0 4000000
    more_rounds 2 13
    "$@"
    survivors_go_on
}

kill_rank_2() { ip netns pids "$(host 3)" | xargs kill -KILL; }

# All of its packets are swallowed, so nothing but silence tells.
cut_rank_2() { order cut "$(host 3)"; }

# The host is gone with its interface; the others hear nothing either.
unplug_rank_2() { ip -n "$(host switch)" link set eth0-3 down; }

# Members run on without their seed, and leave without it.
seed_dies() {
    begin_exchange 3 0 100000
    more_rounds 0 5
    kill -KILL "$seed"
    wait "$seed" || true
    more_rounds 0 13
    end_exchange
    grep -q 'exchange ok: 3 ranks' "$work/job.rank0.out" || fail "no good end"
}

export NEXAR_IDLE_TIMEOUT=3s
case $case in
killed)
    bridge_hosts 3 1500
    lose_rank_2 kill_rank_2
    ;;
cut)
    wire_hosts 3
    lose_rank_2 cut_rank_2
    ;;
silent) # the same, but found out by heartbeats
    export NEXAR_IDLE_TIMEOUT=1m NEXAR_HEARTBEAT_TIMEOUT=2s
    wire_hosts 3
    lose_rank_2 cut_rank_2
    grep -h 'rank 2 .* failed: no heartbeat .*; link: quic to .*; longest pause here' \
        "$work"/job.rank[01].log || fail "nobody says on what grounds"
    ;;
unplugged)
    bridge_hosts 3 1500
    lose_rank_2 unplug_rank_2
    ;;
seed)
    bridge_hosts 3 1500
    seed_dies
    ;;
*) fail "no such case: $case" ;;
esac
echo "ok: $case"
