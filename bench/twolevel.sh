#!/usr/bin/env bash
# twolevel.sh - collectives on two levels against flat ones, between network namespaces.
#
#     twolevel.sh NEXAR [HOSTS [PER_HOST [RATE [LAYOUT]]]]
#
# HOSTS namespaces (2) with PER_HOST ranks (2) each on a bridge, every interface limited to
# RATE (1gbit) in both directions.  LAYOUT is blocks (ranks 0, 1, ... on the first host) or
# turns (dealt out).  The two forms of each collective run by turns, ROUNDS times (3); for
# each size the median of the times, in us, and what two levels gain is printed.
# OPERATIONS and SIZES choose others.  The namespaces carry the shell's process number and
# end with it.
set -euo pipefail
case ${1:-} in
--help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit ;;
-*) echo "twolevel.sh: unknown argument: $1; see twolevel.sh --help" >&2 && exit 2 ;;
esac

nexar=${1:?the built nexar}
hosts=${2:-2} per_host=${3:-2} rate=${4:-1gbit} layout=${5:-blocks}
operations=${OPERATIONS:-"barrier broadcast reduce allreduce allgather reduce_scatter alltoall gather scatter"}
sizes=${SIZES:-8,4k,64k,1m,16m}
rounds=${ROUNDS:-3}

if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null || ! command -v tc >/dev/null; then
    echo "between network namespaces: not measured (needs root, iproute2 and tc)"
    exit 0
fi

# What the table would take for one rank per host, at sizes of these benches; for the
# barrier, the only one.
flat=barrier:0-:dissemination,broadcast:0-256k:binomial,broadcast:256k-:chain
flat+=,reduce:0-64k:binomial,reduce:64k-:chain
flat+=,allreduce:0-16k:recdbl,allreduce:16k-256k:halving_doubling,allreduce:256k-:ring_pipelined
flat+=,allgather:0-16k:bruck,allgather:16k-:ring,reduce_scatter:0-16k:halving
flat+=,reduce_scatter:16k-:ring,alltoall:0-:pairwise,gather:0-:direct,scatter:0-:direct

work=$(mktemp -d)
names=()
end() {
    local code=$? name
    trap - EXIT
    for name in "${names[@]}"; do
        ip netns pids "$name" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
        ip netns del "$name" 2>/dev/null || true
    done
    rm -rf "$work"
    exit $code
}
trap end EXIT
trap 'exit 1' TERM INT

host() { echo "nxt$$-$1"; }
add_host() {
    if ! ip netns add "$(host "$1")"; then
        echo "between network namespaces: not measured (they are not possible here)"
        exit 0
    fi
    names+=("$(host "$1")")
    ip -n "$(host "$1")" link set lo up
}
limit() { tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 256kb latency 50ms; }

add_host switch
ip -n "$(host switch)" link add br0 type bridge
ip -n "$(host switch)" link set br0 up
for i in $(seq "$hosts"); do
    add_host "$i"
    ip -n "$(host switch)" link add "e$i" type veth peer name eth0 netns "$(host "$i")"
    ip -n "$(host switch)" link set "e$i" master br0 up
    ip -n "$(host "$i")" addr add "10.94.0.$i/24" dev eth0
    ip -n "$(host "$i")" link set eth0 up
    limit "$(host switch)" "e$i"
    limit "$(host "$i")" eth0
done

# One run of operation $1 with algorithms $2; the table of rank 0 is in $work/out.
run() {
    local world=$((hosts * per_host)) rank at pids=() pid
    rm -f "$work/join"
    ip netns exec "$(host 1)" "$nexar" seed --world "$world" --join-file "$work/join" >"$work/seed.log" 2>&1 &
    pids+=($!)
    until [ -s "$work/join" ]; do sleep 0.05; done
    for rank in $(seq 0 $((world - 1))); do
        at=$((rank / per_host + 1))
        [ "$layout" = blocks ] || at=$((rank % hosts + 1))
        NEXAR_JOIN=$(cat "$work/join") NEXAR_RANK=$rank NEXAR_ALGORITHMS=$2 NEXAR_HEARTBEAT_TIMEOUT=1m \
            ip netns exec "$(host "$at")" "$nexar" bench "$1" --sizes "$sizes" --time "${TIME:-1s}" \
            --json "$work/$rank.json" >"$work/$rank.out" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || { cat "$work/0.out"; exit 1; }; done
}

# "bytes us" of the last run, a line for each size.
times() {
    tr -d ' ' <"$work/0.json" | grep '^{"name"' |
        sed -E 's/.*"size":([0-9]+).*"time":([0-9.e+-]+).*/\1 \2/' |
        awk '{ printf "%s %.1f\n", $1, 1e6 * $2 }'
}

printf '%s hosts of %s ranks, %s, %s\n' "$hosts" "$per_host" "$rate" "$layout"
printf '%-16s %10s %12s %12s %8s\n' operation bytes flat_us twolevel_us gain
for operation in $operations; do
    : >"$work/flat"
    : >"$work/two"
    for _ in $(seq "$rounds"); do
        run "$operation" "$flat"
        times >>"$work/flat"
        run "$operation" ""
        times >>"$work/two"
    done
    awk '{ print $1 }' "$work/flat" | sort -nu | while read -r bytes; do
        for form in flat two; do
            awk -v b="$bytes" '$1 == b { print $2 }' "$work/$form" | sort -n |
                awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }' >"$work/$form.median"
        done
        paste "$work/flat.median" "$work/two.median" |
            awk -v o="$operation" -v b="$bytes" \
                '{ printf "%-16s %10s %12.1f %12.1f %7.2fx\n", o, b, $1, $2, $1 / $2 }'
    done
done
