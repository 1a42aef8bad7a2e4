#!/bin/bash
# hosts_test.sh - as many hosts as the case says, one rank on each: all exchange with all, every
# pair has a link of its own, and a random mix of collectives is held to an oracle.
# shellcheck source=tests/net/lib.sh disable=SC1091
source "$(dirname "$0")/lib.sh"

# Nobody dies here; on a busy machine a rank may not come to answer for longer than the 5 s.
export NEXAR_HEARTBEAT_TIMEOUT=60s

bridge_hosts "$case" 1500
exchange_on "$case" $((12 * (1 + 5 * long))) 100000
links_on "$case"
start_seed "$case"
for i in $(seq "$case"); do rank_on "$i" "$bin/tests/mix" 7 $((20 * (1 + 9 * long))); done
ranks_end
seed_ends
grep -h "mix: .* collectives on $case ranks" "$work/$job.rank0.out" || fail "the mix"
echo "ok: $case hosts"
