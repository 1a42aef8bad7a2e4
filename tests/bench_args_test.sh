#!/bin/bash
# bench_args_test.sh FOLDER SOURCE - every benchmark in FOLDER, and every script in SOURCE,
# tells what it takes, and refuses what it does not know before it measures anything.
# shellcheck disable=SC2154
set -uo pipefail
folder=$1
source=$2
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

# refuses PROGRAM ARGUMENT...: with code 2 and one line that names the last of them.
refuses() {
    "$@" >"$work/out" 2>"$work/err" </dev/null
    [ $? = 2 ] || fail "$*: code"
    [ ! -s "$work/out" ] || fail "$*: measures nevertheless"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "$*: not one line"
    has "$work/err" "^$(basename "$1"): .*${*: -1}" || fail "$*: does not name it"
}

tried=0
for program in "$folder"/*_bench "$folder/sealed_ceiling" "$source"/*.sh; do
    "$program" --help >"$work/out" 2>"$work/err" </dev/null || fail "$program --help: code"
    has "$work/out" "$(basename "$program")" || fail "$program --help: no usage"
    [ ! -s "$work/err" ] || fail "$program --help: writes to stderr"
    refuses "$program" --no-such-option
    tried=$((tried + 1))
done
[ "$tried" -ge 14 ] || fail "only $tried benchmarks are there"
for program in quic_bench shm_bench compress_bench direct_bench limit_bench bucketed_bench; do
    refuses "$folder/$program" nonsense
done
for program in msg_bench rpc_bench sizes_bench reduce_bench; do
    refuses "$folder/$program" 1
done
refuses "$folder/quic_bench" nan
refuses "$folder/quic_bench" 0
refuses "$folder/quic_bench" 1 rtt more
refuses "$folder/shm_bench" 1 copy x
refuses "$folder/direct_bench" 64 allreduced
refuses "$folder/compress_bench" time 65
refuses "$folder/sealed_ceiling" sctp
refuses "$folder/sealed_ceiling" udp gossip
refuses "$folder/sealed_ceiling" udp stream 3

# figure WAY KIND RANKS BYTES: it moves that many bytes, checks them, and prints a time.
figure() {
    "$folder/sealed_ceiling" "$1" "$2" "$3" "$4" 0.001 >"$work/out" 2>"$work/err" || {
        cat "$work/err" >&2
        fail "sealed_ceiling $*"
    }
    has "$work/out" "^$2 $1: $3 ranks, $4 bytes, median of [0-9]+: [0-9.]+ us\$" ||
        fail "sealed_ceiling $*: another line"
}
figure tcp exchange 3 300000
figure tcp_plain pingpong 2 2
figure tcp stream 2 100000
if [ "$(id -u)" = 0 ]; then # without, its buffers do not hold what is in flight
    figure udp exchange 4 400000
    figure udp pingpong 2 65536
    figure udp_plain stream 2 70000
fi
finish
