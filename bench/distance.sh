#!/usr/bin/env bash
# distance.sh - long and lossy paths: the fraction of the line rate that nexar reaches.
#
#     distance.sh BUILD [--hosts N] [--rate MBIT] [--size BYTES] [--rtt "MS..."]
#                       [--loss "PERCENT..."] [--congestion "auto|bbr|cubic..."] [--user]
#                       [--operation NAME]
#
# BUILD is the build folder.  Hosts are network namespaces on tests/net/wire, which delays, drops
# and shapes.  --user runs the ranks without capabilities, as an ordinary user has it: the kernel
# grants them small socket buffers.  The operation is one of nexar bench (p2p_stream).  One line
# for each combination.  TIME=6s: how long each runs.  Needs root.
set -euo pipefail
case ${1:-} in
--help | -h | "") sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit ;;
-*) echo "distance.sh: unknown argument: $1; see distance.sh --help" >&2 && exit 2 ;;
esac
build=$1
shift
n=2 rate=200 size=16m rtts="20 100" losses="0 0.1 1" ccs="auto cubic" drop=() operation=p2p_stream
while [ $# -gt 0 ]; do
    case $1 in
    --hosts) n=$2 && shift 2 ;;
    --rate) rate=$2 && shift 2 ;;
    --size) size=$2 && shift 2 ;;
    --rtt) rtts=$2 && shift 2 ;;
    --loss) losses=$2 && shift 2 ;;
    --congestion) ccs=$2 && shift 2 ;;
    --operation) operation=$2 && shift 2 ;;
    --user)
        drop=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all)
        shift
        ;;
    *) echo "distance.sh: unknown argument: $1; see distance.sh --help" >&2 && exit 2 ;;
    esac
done
set -- "$build" distance
# shellcheck source=tests/net/lib.sh
. "$(dirname "$0")/../tests/net/lib.sh"
chmod 1777 "$work"
wire_hosts "$n" --rate "$rate" --queue 1024

# The time of one operation in seconds, of rank 0's table.
one() {
    local i
    start_seed "$n"
    for i in $(seq "$n"); do
        NEXAR_CONGESTION=$1 rank_on "$i" "${drop[@]}" "$nexar" bench "$operation" --sizes "$size" \
            --time "${TIME:-6s}" --warmup 1 --json "$work/r$i.json"
    done
    ranks_end
    seed_ends
    cat "$work/r1.json"
}

for rtt in $rtts; do
    order delay "$(awk "BEGIN { print $rtt / 2 }")"
    for loss in $losses; do
        order loss "$loss"
        for cc in $ccs; do
            one "$cc" >"$work/result"
            printf 'rtt %s ms, loss %s %%, %s: ' "$rtt" "$loss" "$cc"
            python3 - "$work/result" "$rate" "$operation" "$n" <<'P'
import json, sys

r = json.load(open(sys.argv[1]))["rows"][0]
share = r["busbw"] * 8 / 1e6 / float(sys.argv[2])
print("%.2f of the line (%d operations of %.2f s)" % (share, r["iters"], r["time"]))
P
        done
    done
done
