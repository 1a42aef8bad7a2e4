#!/usr/bin/env bash
# overlap.sh - how much of an allreduce runs while the program computes: two ranks on two
# hosts (network namespaces) with a link of RATE between them, so that the cores have time.
#
#     overlap.sh BUILD [MIB [RATE [RANKS]]]
#
# 64 MiB over 1gbit unless told, and one of them computes: on two cores one is free then, and
# 98 to 100 % of the allreduce passed meanwhile (at 4gbit the cores have no time: 5 to 19 %).
# Less than 80 % is a failure, exit code 1, where a core is free: more cores than RANKS, no
# others at work on them, and 1gbit.  The namespaces carry the shell's process number and end
# with it.
set -euo pipefail
case ${1:-} in
--help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit ;;
-*) echo "overlap.sh: unknown argument: $1; see overlap.sh --help" >&2 && exit 2 ;;
esac

build=${1:?the folder of the built programs}
mib=${2:-64}
rate=${3:-1gbit}
ranks=${4:-1}
least=80 # % of the allreduce

# Whether a core is free beside those that compute.
free=no
if [ "$rate" = 1gbit ] && awk -v cores="$(nproc)" -v ranks="$ranks" \
    '{ exit !($1 < cores - ranks) }' /proc/loadavg; then
    free=yes
fi

if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null || ! command -v tc >/dev/null; then
    echo "overlap: not measured (needs root and iproute2)"
    exit 0
fi

a=nxo$$-a b=nxo$$-b
running=()
work=$(mktemp -d)
end() {
    local code=$?
    trap - EXIT
    for name in "$a" "$b"; do
        ip netns pids "$name" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
        ip netns del "$name" 2>/dev/null || true
    done
    rm -rf "$work"
    exit $code
}
trap end EXIT
trap 'exit 1' TERM INT

ip netns add "$a"
ip netns add "$b"
ip -n "$a" link add eth0 mtu 1500 type veth peer name eth0 mtu 1500 netns "$b"
for host in "$a 10.94.0.1" "$b 10.94.0.2"; do
    read -r name address <<<"$host"
    ip -n "$name" link set lo up
    ip -n "$name" addr add "$address/24" dev eth0
    ip -n "$name" link set eth0 up
    tc -n "$name" qdisc add dev eth0 root tbf rate "$rate" burst 256k latency 50ms
done

export NEXAR_TRANSPORTS=quic
ip netns exec "$a" "$build/bin/nexar" seed --world 2 --join-file "$work/join" >"$work/seed" 2>&1 &
until [ -s "$work/join" ]; do
    kill -0 $! 2>/dev/null || { cat "$work/seed" >&2; exit 1; }
    sleep 0.05
done
for name in "$a" "$b"; do
    NEXAR_JOIN=$(cat "$work/join") ip netns exec "$name" \
        "$build/examples/nonblocking_overlap" "$mib" "$ranks" >>"$work/out" &
    running+=($!)
done
for pid in "${running[@]}"; do
    wait "$pid" || { echo "overlap: a rank has failed" >&2; exit 1; }
done
printf '%s MiB, 2 ranks over %s, encrypted, %s computing: ' "$mib" "$rate" "$ranks"
cat "$work/out"
reached=$(sed -n 's/.*overlap \([0-9]*\) %.*/\1/p' "$work/out")
if [ "$free" = no ]; then
    echo "overlap: no core was free, so $reached % is no verdict"
elif [ "${reached:-0}" -lt "$least" ]; then
    echo "overlap: missed: $reached % with a core free, $least % is the target"
    exit 1
else
    echo "overlap: met: $reached % with a core free, $least % is the target"
fi
