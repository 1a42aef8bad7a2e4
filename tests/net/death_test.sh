#!/bin/bash
# death_test.sh - a rank dies or is cut off in mid-transfer: the others learn of it
# within the idle time-out, by its name, and go on without it.
# shellcheck source=tests/net/lib.sh disable=SC1091
source "$(dirname "$0")/lib.sh"

# Survivors 0 and 1 have told of the loss of rank 2, and exchange on between them.  A
# call that waits for it ends with the idle time-out, 3 s here; a busy machine gets
# more.
survivors_go_on() {
    local r
    for r in 0 1; do
        await "$work/job.rank$r.out" '^lost rank 2 after'
        awk '/^lost/ && ($3 != 2 || $5 > 20 || !/NEXAR_E(PEER|CONNECT)/ || !/ (to|from) rank 2/) {
            exit 1 }' "$work/job.rank$r.out" || fail "rank $r does not say what was lost"
        grep -h '^lost' "$work/job.rank$r.out"
    done
    more_rounds 0 13
    touch "$work/job.stop"
    wait "${ranks[0]}" || fail "rank 0 ended with code $?"
    wait "${ranks[1]}" || fail "rank 1 ended with code $?"
}

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
