#!/bin/bash
# security_test.sh - what an eavesdropper, a stranger and a vandal come to.
# shellcheck source=tests/net/lib.sh disable=SC1091
source "$(dirname "$0")/lib.sh"

token_of() { sed -E 's|^nexar://([^@]+)@.*|\1|' <<<"$1"; }

# The bytes that base64url text stands for, in hexadecimal.
hex_of() {
    local text
    text=$(tr -- '-_' '+/' <<<"$1")
    while [ $((${#text} % 4)) != 0 ]; do text+='='; done
    base64 -d <<<"$text" | od -An -v -tx1 | tr -d ' \n'
}

# Another text of the same form: its first letter is changed.
altered() { if [ "${1:0:1}" = A ]; then echo "B${1:1}"; else echo "A${1:1}"; fi; }

found() { awk -v n="$1" '$1 == "found" && $4 == n { print $2 }' "$work/sniff.out"; }

# A packet capture has seen all, and found none of what is secret; it does find what
# is sent in clear.
eavesdrop() {
    local token n
    export NEXAR_LOG=debug
    bridge_hosts 3 1500
    start_seed 3
    token=$(token_of "$join")
    [ "$(hex_of "$token" | wc -c)" = 64 ] || fail "the token is not 32 bytes"
    mkfifo "$work/sniffing"
    on 2 "$programs/sniff" SECRET-WORD "$token" "hex:$(hex_of "$token")" 'PRIVATE KEY' \
        IN-THE-CLEAR <"$work/sniffing" >"$work/sniff.out" &
    local sniff=$!
    exec 8>"$work/sniffing"
    await "$work/sniff.out" '^ready'
    for i in 1 2 3; do rank_on "$i" "$programs/exchange" 12 300000; done
    ranks_end
    seed_ends
    on 3 bash -c 'echo IN-THE-CLEAR >/dev/udp/10.90.0.2/9'
    exec 8>&-
    wait "$sniff"
    cat "$work/sniff.out"
    # Packets are seen as the kernel hands them over: many of them as one.
    awk '$1 == "packets" && ($2 < 100 || $4 < 2000000 || $6 > 0) { exit 1 }' "$work/sniff.out" ||
        fail "not all was heard"
    for n in 1 2 3 4; do [ "$(found $n)" = 0 ] || fail "pattern $n was on the wire"; done
    [ "$(found 5)" -ge 1 ] || fail "the eavesdropper is deaf"
    [ -s "$work/job.seed.log" ] || fail "nothing was logged"
    ! grep -lF -- "$token" "$work"/*.log "$work"/*.out || fail "the token is in a log"
    ! grep -lF -- 'PRIVATE KEY' "$work"/*.log "$work"/*.out || fail "a key is in a log"
    [ "$(stat -c %a "$work/job.join")" = 600 ] || fail "others may read the join file"
}

# Rank 1 comes with the join string $1: it is refused in words that match $2, soon.
refused() {
    local start
    start=$(now_ms)
    join=$1 rank_on 2 "$programs/exchange"
    wait "${ranks[0]}" && fail "it has joined"
    ranks=()
    cat "$work/job.rank1.log"
    [ $(($(now_ms) - start)) -lt 10000 ] || fail "it took $(($(now_ms) - start)) ms"
    grep -qE -- "$2" "$work/job.rank1.log" || fail "the error lacks: $2"
    ! grep -qF -- "$(token_of "$1")" "$work/job.rank1.log" || fail "the token is in the error"
}

# Those who hold the join string get in all the same.
others_join() {
    for i in 1 2; do rank_on "$i" "$programs/exchange" 12 100000; done
    ranks_end
    seed_ends
}

wrong_token() {
    local token good
    bridge_hosts 2 1500
    start_seed 2
    good=$join
    token=$(token_of "$good")
    refused "${good/"$token"/$(altered "$token")}" 'refused by the seed'
    until_true grep -q 'token' "$work/job.seed.log"
    join=$good
    others_join
}

# Another key than the one pinned: the joiner hangs up before it has said who it is.
wrong_pin() {
    local pin good
    bridge_hosts 2 1500
    start_seed 2
    good=$join
    pin=${good##*pin=}
    refused "${good/"$pin"/$(altered "$pin")}" 'key|pin'
    ! grep -qE 'has joined|token|hello' "$work/job.seed.log" || fail "something was sent"
    join=$good
    others_join
}

# The port of the seed, as it stands in the join string.
seed_port() { sed -E 's|^.*@10\.90\.0\.1:([0-9]+).*|\1|' <<<"$join"; }
port_on() { on "$1" ss -Hlun | awk '{ n = split($4, a, ":"); print a[n]; exit }'; }

# Garbage at the seed while ranks join, and at a rank while they exchange.
garbage() {
    bridge_hosts 3 1500
    mkfifo "$work/flooding"
    start_seed 2
    on 3 "$programs/flood" "10.90.0.1:$(seed_port)" <"$work/flooding" >"$work/flood.out" &
    local flood=$!
    exec 8>"$work/flooding"
    await "$work/flood.out" '^ready'
    for i in 1 2; do rank_on "$i" "$programs/exchange" --until "$work/job.stop" 0 100000; done
    more_rounds 1 5
    exec 8>&-
    wait "$flood"

    rm "$work/flooding" && mkfifo "$work/flooding"
    on 3 "$programs/flood" "10.90.0.2:$(port_on 2)" <"$work/flooding" >"$work/flood.out" &
    flood=$!
    exec 8>"$work/flooding"
    await "$work/flood.out" '^ready'
    more_rounds 1 $((20 + 530 * long))
    exec 8>&-
    wait "$flood"
    cat "$work/flood.out"
    end_exchange
    seed_ends
    [ "$(wc -l <"$work/job.seed.log")" -lt 2000 ] || fail "the log is flooded too"
}

# A thousand connections that say nothing stand at the seed; one rank joins while they
# come, the other when they are there.
crowd() {
    export NEXAR_FORMATION_TIMEOUT=100s # a busy machine takes its time for so many
    bridge_hosts 3 1500
    start_seed 2
    mkfifo "$work/waiting"
    NEXAR_JOIN=$join on 3 "$programs/crowd" 1000 <"$work/waiting" \
        >"$work/crowd.out" 2>"$work/crowd.log" &
    local crowd=$!
    exec 8>"$work/waiting"
    rank_on 1 "$programs/exchange" 12 100000
    await "$work/crowd.out" '^ready'
    rank_on 2 "$programs/exchange" 12 100000
    ranks_end
    seed_ends
    exec 8>&-
    wait "$crowd" || fail "the crowd ended with code $?"
    cat "$work/crowd.out"
    # On a busy machine not all get through in time.
    awk '$1 == "up" && $2 < 200 { exit 1 }' "$work/crowd.out" || fail "the crowd was not there"
    [ "$(wc -l <"$work/job.seed.log")" -lt 300 ] || fail "the log is crowded too"
}

# Rank 2 never comes: everybody is told.
missing() {
    local start r
    bridge_hosts 2 1500
    export NEXAR_FORMATION_TIMEOUT=2s
    start_seed 3
    start=$(now_ms)
    for i in 1 2; do rank_on "$i" "$programs/exchange"; done
    for r in 0 1; do
        wait "${ranks[$r]}" && fail "rank $r has a world"
        grep 'missing: rank 2;' "$work/job.rank$r.log" || fail "rank $r does not know who is missing"
    done
    wait "$seed" && fail "the seed is content"
    [ $(($(now_ms) - start)) -lt 20000 ] || fail "it took $(($(now_ms) - start)) ms"
    grep 'missing: rank 2;' "$work/job.seed.log" || fail "the seed does not know who is missing"
}

# Two jobs on the same hosts at once do not meet.
two_jobs() {
    bridge_hosts 3 1500
    job=a
    begin_exchange 2 0 100000
    job=b
    begin_exchange 3 0 100000
    for job in a b; do more_rounds 0 13; done
    for job in a b; do touch "$work/$job.stop"; done
    ranks_end
    grep -q 'exchange ok: 2 ranks' "$work/a.rank1.out" || fail "job a"
    grep -q 'exchange ok: 3 ranks' "$work/b.rank2.out" || fail "job b"
}

case $case in
eavesdrop | wrong_token | wrong_pin | garbage | crowd | missing | two_jobs) $case ;;
*) fail "no such case: $case" ;;
esac
echo "ok: $case"
