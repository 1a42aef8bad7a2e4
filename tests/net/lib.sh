# lib.sh - hosts for tests: network namespaces, a seed in the first, a rank in each.
#
# Sourced by the tests beside it, which are called with the build folder and a case.
# Namespaces carry the shell's process number, so that two runs never meet, and hold
# all interfaces and processes; they end with the shell.  NEXAR_LONG=1 makes the
# tests move more.
# shellcheck shell=bash disable=SC2034 # the tests use what is set here
set -euo pipefail

bin=${1:?the folder of the built programs}
case=${2:?the case}
nexar=$bin/bin/nexar
programs=$bin/tests/net
long=${NEXAR_LONG:-0}
unset NEXAR_LONG # it is no setting
work=$(mktemp -d)
hosts=()
job=job # names the files of a seed and its ranks

skip() {
    echo "skipped: $*"
    exit 77
}

# Shows all logs, so that a failure elsewhere can be understood.
fail() {
    local f
    echo "FAILED: $*" >&2
    for f in "$work"/*.log "$work"/*.out; do
        [ -s "$f" ] && tail -n 40 "$f" | sed "s|^|    $(basename "$f"): |" >&2
    done
    exit 1
}

end() {
    local code=$? name
    trap - EXIT
    disown -a # their ends are no news
    for name in "${hosts[@]}"; do
        ip netns pids "$name" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
        ip netns del "$name" 2>/dev/null || true
    done
    rm -rf "$work"
    exit $code
}
trap end EXIT
trap 'exit 1' TERM INT

# ---- waiting ------------------------------------------------------------------------

# Waits, up to 60 s, until "$@" succeeds.
until_true() {
    local deadline=$((SECONDS + 60))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || fail "waited too long for: $*"
        sleep 0.05
    done
}

# ... until the file $1 has a line that matches $2.
await() { until_true grep -qE -- "$2" "$1"; }

now_ms() { date +%s%3N; }

# ---- hosts --------------------------------------------------------------------------

host() { echo "nx$$-$1"; }
on() {
    local i=$1
    shift
    ip netns exec "$(host "$i")" "$@"
}

add_host() {
    ip netns add "$(host "$1")" || skip "network namespaces are not possible here"
    hosts+=("$(host "$1")")
    ip -n "$(host "$1")" link set lo up
}

# An interface $2 of host $1 on the bridge $3 of the switch ("": up but on none), with
# MTU $4 and the addresses that follow.
add_interface() {
    local i=$1 name=$2 bridge=$3 mtu=$4 address
    shift 4
    ip -n "$(host switch)" link add "$name-$i" mtu "$mtu" type veth \
        peer name "$name" mtu "$mtu" netns "$(host "$i")"
    ip -n "$(host switch)" link set "$name-$i" ${bridge:+master "$bridge"} up
    for address in "$@"; do
        case $address in
        *:*) ip -n "$(host "$i")" addr add "$address/64" dev "$name" nodad ;;
        *) ip -n "$(host "$i")" addr add "$address/24" dev "$name" ;;
        esac
    done
    ip -n "$(host "$i")" link set "$name" up
    until_true interface_is_up "$i" "$name"
}
interface_is_up() { ip -n "$(host "$1")" -o link show "$2" | grep -q 'LOWER_UP.*state UP'; }

add_switch() {
    local bridge
    add_host switch
    for bridge in "$@"; do
        ip -n "$(host switch)" link add "$bridge" type bridge
        ip -n "$(host switch)" link set "$bridge" up
    done
}

# $1 hosts on one bridge with MTU $2.  Host i is 10.90.0.i and fd90::i.
bridge_hosts() {
    local i
    add_switch br0
    for i in $(seq "$1"); do
        add_host "$i"
        add_interface "$i" eth0 br0 "$2" "10.90.0.$i" "fd90::$i"
    done
}

# $1 hosts on two bridges: eth0 is 10.90.0.i on $2 (br0, or "" for none), eth1 is
# 10.91.0.i.
two_bridges() {
    local i
    add_switch br0 br1
    for i in $(seq "$1"); do
        add_host "$i"
        add_interface "$i" eth0 "$2" 1500 "10.90.0.$i"
        add_interface "$i" eth1 br1 1500 "10.91.0.$i"
    done
}

# $1 hosts on the wire of wire.c; the rest are its options.  Host i is 10.90.0.i and
# fd90::i.
wire_hosts() {
    local n=$1 i names=()
    shift
    [ -c /dev/net/tun ] || skip "no /dev/net/tun"
    for i in $(seq "$n"); do
        add_host "$i"
        names+=("$(host "$i")=10.90.0.$i,fd90::$i")
    done
    mkfifo "$work/orders"
    "$programs/wire" "$@" "${names[@]}" <"$work/orders" >"$work/wire.out" 2>"$work/wire.log" &
    exec 9>"$work/orders"
    await "$work/wire.out" '^ready'
    for i in $(seq "$n"); do
        ip -n "$(host "$i")" addr add "10.90.0.$i/24" dev nx0
        ip -n "$(host "$i")" addr add "fd90::$i/64" dev nx0 nodad
        ip -n "$(host "$i")" link set nx0 up
    done
}

# Tells the wire: order loss 5
orders=0
order() {
    echo "$*" >&9
    orders=$((orders + 1))
    until_true orders_are_done
}
orders_are_done() { [ "$(grep -c '^done' "$work/wire.out")" -ge $orders ]; }

# ---- seeds and ranks ----------------------------------------------------------------

# A seed for $1 ranks on host 1, with the options that follow; the join string is in
# $join, its process in $seed.
start_seed() {
    local world=$1
    shift
    rm -f "$work/$job.join"
    ip netns exec "$(host 1)" "$nexar" seed --world "$world" --join-file "$work/$job.join" "$@" \
        >"$work/$job.printed" 2>"$work/$job.seed.log" 8>&- 9>&- &
    seed=$!
    until_true seed_has_settled "$seed"
    join=$(cat "$work/$job.join" 2>/dev/null) || fail "the seed did not start"
}
seed_has_settled() { [ -s "$work/$job.join" ] || ! kill -0 "$1"; }

seed_ends() { wait "$seed" || fail "the seed ended with code $?"; }

# "$@" as rank $1 - 1 on host $1, in the background; one that hangs ends with 124.
ranks=()
rank_on() {
    local i=$1
    shift
    NEXAR_JOIN=$join NEXAR_RANK=${NEXAR_RANK:-$((i - 1))} on "$i" timeout 100 "$@" \
        >"$work/$job.rank$((i - 1)).out" 2>"$work/$job.rank$((i - 1)).log" 8>&- 9>&- &
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

# A whole job: exchange with the arguments $2... on $1 hosts.
exchange_on() {
    local n=$1 i
    shift
    start_seed "$n"
    for i in $(seq "$n"); do rank_on "$i" "$programs/exchange" "$@"; done
    ranks_end
    for i in $(seq "$n"); do
        grep -q "exchange ok: $n ranks" "$work/$job.rank$((i - 1)).out" || fail "rank $((i - 1))"
    done
    seed_ends
    grep -h 'exchange ok' "$work/$job.rank0.out"
}

# Exchanges in the background on $1 hosts until end_exchange; the rest are options.
begin_exchange() {
    local n=$1 i
    shift
    start_seed "$n"
    for i in $(seq "$n"); do
        rank_on "$i" "$programs/exchange" --until "$work/$job.stop" "$@"
    done
}
end_exchange() {
    touch "$work/$job.stop"
    ranks_end
}

# Waits until rank $1 has made $2 rounds more than now.
more_rounds() { until_true rounds_are "$1" $(($(rounds "$1") + $2)); }
rounds() { grep -c '^round' "$work/$job.rank$1.out" || true; }
rounds_are() { [ "$(rounds "$1")" -ge "$2" ]; }

# Of 3 that exchange, 0 and 1 have told of the loss of rank 2, and go on between them.  A call
# that waits for it ends with the time-out of the case, of 2 or 3 s; a busy machine gets more.
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

# The table of links between $1 hosts is in $work/links: a line per pair and way,
# "rank to transport local remote rtt_us mtu lost", without the heads.
links_on() {
    local n=$1 i
    start_seed "$n"
    for i in $(seq "$n"); do rank_on "$i" "$nexar" info --links; done
    ranks_end
    seed_ends
    tail -n +2 "$work/$job.rank0.out" >"$work/links"
    cat "$work/links"
    [ "$(grep -c ' quic ' "$work/links")" = $((n * (n - 1))) ] || fail "the table of links"
}

[ "$(id -u)" = 0 ] || skip "needs root"
command -v ip >/dev/null || skip "needs iproute2"
