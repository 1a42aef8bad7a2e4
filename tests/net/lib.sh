# lib.sh - hosts for tests: network namespaces, a seed in the first, a rank in each.
# Sourced by the tests beside it.  Namespaces carry the shell's process number, so
# that two runs never meet; all ends with the shell.
# shellcheck shell=bash
set -euo pipefail

bin=${1:?the folder of the built programs}
nexar=$bin/bin/nexar
work=$(mktemp -d)
hosts=()
pids=()

if [ "$(id -u)" != 0 ] || ! ip netns list >/dev/null 2>&1; then
    echo "skipped: needs root and ip netns"
    exit 77
fi

fail() {
    echo "FAILED: $*" >&2
    for f in "$work"/*.log; do
        [ -s "$f" ] && sed "s|^|    $(basename "$f"): |" "$f" >&2
    done
    exit 1
}

end() {
    local code=$? pid host
    trap - EXIT
    for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    for host in "${hosts[@]}"; do
        ip netns pids "$host" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
        ip netns del "$host" 2>/dev/null || true
    done
    ip link del "nxbr$$" 2>/dev/null || true
    rm -rf "$work"
    exit $code
}
trap end EXIT

# Waits, up to 60 s, until the file $1 has a line that matches $2.
await() {
    local i
    for i in $(seq 600); do
        grep -qE "$2" "$1" 2>/dev/null && return 0
        sleep 0.1
    done
    fail "no '$2' in $(basename "$1")"
}

host() { echo "nx$$-$1"; }
address() { echo "10.91.$1.1"; }

add_host() {
    ip netns add "$(host "$1")"
    hosts+=("$(host "$1")")
    ip -n "$(host "$1")" link set lo up
}

# $1 hosts on a bridge of the kernel, with MTU $2.  Host i is 10.90.0.i, fd90::i.
bridge_hosts() {
    local n=$1 mtu=$2 i
    ip link add "nxbr$$" type bridge
    ip link set "nxbr$$" mtu "$mtu" up
    for i in $(seq "$n"); do
        add_host "$i"
        ip link add "nxv$$-$i" mtu "$mtu" type veth peer name eth0 mtu "$mtu" netns "$(host "$i")"
        ip link set "nxv$$-$i" master "nxbr$$" up
        ip -n "$(host "$i")" addr add "10.90.0.$i/24" dev eth0
        ip -n "$(host "$i")" addr add "fd90::$i/64" dev eth0 nodad
        ip -n "$(host "$i")" link set eth0 up
    done
    ip link set "nxbr$$" mtu "$mtu"
}

# $1 hosts on the wire of wire.c; the rest are its options.  Orders go to it by
# `order loss 5`.  Host i is 10.90.0.i.
wire_hosts() {
    local n=$1 i names=()
    shift
    for i in $(seq "$n"); do
        add_host "$i"
        names+=("$(host "$i")=10.90.0.$i,fd90::$i")
    done
    mkfifo "$work/orders"
    "$bin/tests/net/wire" "$@" "${names[@]}" <"$work/orders" >"$work/wire.log" 2>&1 &
    pids+=($!)
    exec 9>"$work/orders"
    await "$work/wire.log" '^ready'
    for i in $(seq "$n"); do
        ip -n "$(host "$i")" addr add "10.90.0.$i/24" dev nx0
        ip -n "$(host "$i")" addr add "fd90::$i/64" dev nx0 nodad
        ip -n "$(host "$i")" link set nx0 mtu "${mtu:-1500}" up
    done
}
order() {
    echo "$*" >&9
    await "$work/wire.log" "^done $*"
}

# Starts a seed for $1 ranks on host 1; the join string is in $join.
start_seed() {
    rm -f "$work/join"
    ip netns exec "$(host 1)" "$nexar" seed --world "$1" --join-file "$work/join" \
        >"$work/seed.out" 2>"$work/seed.log" &
    pids+=($!)
    export seed=$!
    await "$work/join" 'nexar://'
    join=$(cat "$work/join")
}

# Starts "$@" as a rank on host $1 in the background: its pid is added to $ranks.
ranks=()
rank_on() {
    local i=$1
    shift
    NEXAR_JOIN=$join ip netns exec "$(host "$i")" "$@" >"$work/rank$i.out" 2>"$work/rank$i.log" &
    pids+=($!)
    ranks+=($!)
}

# Waits for all ranks, which must succeed.
ranks_end() {
    local pid
    for pid in "${ranks[@]}"; do
        wait "$pid" || fail "a rank ended with code $?"
    done
    ranks=()
}
