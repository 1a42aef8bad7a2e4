#!/usr/bin/env bash
# quic_veth.sh - quic_bench between two network namespaces with an MTU of 1500.
#
#     quic_veth.sh BENCH [SECONDS [FIGURE]]
#
# BENCH is the built quic_bench.  The namespaces carry the shell's process number and
# end with it.  Without root or iproute2 there is nothing to measure: it says so.
set -euo pipefail
case ${1:-} in
--help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit ;;
-*) echo "quic_veth.sh: unknown argument: $1; see quic_veth.sh --help" >&2 && exit 2 ;;
esac

bench=${1:?the built quic_bench}
seconds=${2:-2}

if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null; then
    echo "between two network namespaces: not measured (needs root and iproute2)"
    exit 0
fi

a=nxb$$-a b=nxb$$-b
end() {
    local code=$?
    trap - EXIT
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
    exit $code
}
trap end EXIT
trap 'exit 1' TERM INT

if ! ip netns add "$a" || ! ip netns add "$b"; then
    echo "between two network namespaces: not measured (they are not possible here)"
    exit 0
fi
ip -n "$a" link add eth0 mtu 1500 type veth peer name eth0 mtu 1500 netns "$b"
for host in "$a 10.93.0.1" "$b 10.93.0.2"; do
    read -r name address <<<"$host"
    ip -n "$name" link set lo up
    ip -n "$name" addr add "$address/24" dev eth0
    ip -n "$name" link set eth0 up
done
"$bench" "$seconds" between "/run/netns/$a" 10.93.0.1 "/run/netns/$b" 10.93.0.2 ${3:+"$3"}
