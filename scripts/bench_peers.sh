#!/bin/bash
# bench_peers.sh BUILD [OPTION]... - nexar by QUIC beside Open MPI and Gloo by TCP, or with --shm
# by shared memory beside Open MPI and MPICH, on this machine, by turns: in every round each
# operation is run by one contender after the other, every other round in the opposite order.
# What the machine does besides meets all alike.  Of the times of all rounds the median counts,
# and so it does of the ratios, which are formed in each round by itself: the machine may be
# another one in the next.  How near its cores are to each other is measured before and after
# each contender (bench/word_bench), and printed.
#
#   --quick             one short round of fewer sizes
#   --rounds N          how many; 3
#   --time SECONDS      for each row and contender, in a round; 0.1
#   --ranks "N..."      "2 4"
#   --sizes "BYTES..."  "8 1024 65536 1048576 16777216 67108864"
#   --ops "NAME..."     all that are known
#   --transports NAME   what nexar is to use: quic; each of several by turns
#   --peers "NAME..."   "openmpi_tcp gloo"; there are openmpi_shm, openmpi_kept_shm (it
#                       keeps freed memory), mpich_shm, mpich_tcp
#   --shm               shared memory: all that has it, and how far an allreduce is from
#                       what the memory allows
#   --profile           of every target that is missed: where the time of nexar goes, and that of
#                       the fastest peer (perf)
#   --keep FILE         where the raw lines go: BUILD/peers/times; bench/peers/table.py
#                       says what they have, and makes the tables of them
set -euo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"
top=$(cd "$(dirname "$0")/.." && pwd)

die() {
    echo "bench_peers: $*" >&2
    exit 2
}

[ $# -ge 1 ] || die "give the build folder, such as build/release"
build=$(cd "$1" && pwd)
shift
out=$build/peers
limit="" profile="" rounds=3 seconds=0.1 ranks="2 4" transports=quic peers="openmpi_tcp gloo" keep=$out/times
sizes="8 1024 65536 1048576 16777216 67108864"
ops="allreduce broadcast allgather reduce_scatter alltoall scan barrier p2p p2p_stream"
while [ $# -gt 0 ]; do
    case $1 in
    --shm) limit=yes transports=shm peers="openmpi_shm openmpi_kept_shm mpich_shm" && shift && continue ;;
    --profile) profile=yes && shift && continue ;;
    --quick) rounds=1 seconds=0.05 sizes="8 65536 1048576 16777216" && shift && continue ;;
    --rounds | --time | --ranks | --sizes | --ops | --transports | --peers | --keep)
        [ $# -ge 2 ] || die "$1 needs a value"
        ;;
    *) die "unknown option $1; $0 --help lists them" ;;
    esac
    case $1 in
    --rounds) rounds=$2 ;;
    --time) seconds=$2 ;;
    --ranks) ranks=$2 ;;
    --sizes) sizes=$2 ;;
    --ops) ops=$2 ;;
    --transports) transports=$2 ;;
    --peers) peers=$2 ;;
    --keep) keep=$2 ;;
    esac
    shift 2
done
list=${sizes// /,}
if [ -n "$profile" ]; then
    command -v perf >/dev/null || die "--profile needs perf, from Debian's package linux-perf"
fi

# ---- building ------------------------------------------------------------------------

mkdir -p "$out"
source=$top/bench/peers
# build_one NAME FILE COMMAND...: with FILE for the word SOURCE; what cannot be built is left out, and named.
build_one() {
    local name=$1 from=$2
    shift 2
    [ "$out/$name" -nt "$from" ] && return 0
    "${@//SOURCE/$from}" -o "$out/$name" 2>"$out/$name.log" && return 0
    echo "bench_peers: $name cannot be built here, see $out/$name.log" >&2
    return 1
}

usable=""
for peer in $peers; do
    case $peer in
    openmpi_tcp | openmpi_shm | openmpi_kept_shm) build_one mpi_openmpi "$source/mpi_bench.c" mpicc.openmpi -O2 SOURCE || continue ;;
    mpich_tcp | mpich_shm) build_one mpi_mpich "$source/mpi_bench.c" mpicc.mpich -O2 SOURCE || continue ;;
    gloo) build_one gloo "$source/gloo_bench.cc" g++ -std=c++17 -O2 SOURCE -lgloo -lpthread || continue ;;
    *) die "no peer $peer; there are openmpi_tcp, openmpi_shm, openmpi_kept_shm, mpich_tcp, mpich_shm, gloo" ;;
    esac
    usable+="$peer "
done

# ---- running ---------------------------------------------------------------------------

cores=$(nproc)
under=() # what each contender is run by
# openmpi N ARGUMENT...: bound to cores when there is one for each; otherwise those
# that wait must let others run.
openmpi() {
    local n=$1 bind=none
    shift
    [ "$n" -gt "$cores" ] || bind=core
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "${under[@]}" mpirun.openmpi --oversubscribe \
        --bind-to "$bind" --mca mpi_yield_when_idle 1 -np "$n" "$@"
}
# mpich N ARGUMENT...
mpich() {
    local n=$1 bind=none
    shift
    [ "$n" -gt "$cores" ] || bind=core
    "${under[@]}" mpirun.mpich -bind-to "$bind" -np "$n" "$@"
}
tcp="--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo"

# contend NAME N OPERATION: prints operation, size, iterations, microseconds.
contend() {
    # shellcheck disable=SC2086 # $tcp is words
    case $1 in
    openmpi_tcp) openmpi "$2" $tcp "$out/mpi_openmpi" "$seconds" "$list" "$3" ;;
    openmpi_shm) openmpi "$2" "$out/mpi_openmpi" "$seconds" "$list" "$3" ;;
    openmpi_kept_shm)
        openmpi "$2" -x MALLOC_MMAP_THRESHOLD_=1073741824 -x MALLOC_TRIM_THRESHOLD_=2147483647 \
            "$out/mpi_openmpi" "$seconds" "$list" "$3"
        ;;
    mpich_shm) mpich "$2" "$out/mpi_mpich" "$seconds" "$list" "$3" ;;
    mpich_tcp)
        MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self UCX_NET_DEVICES=lo mpich "$2" \
            "$out/mpi_mpich" "$seconds" "$list" "$3"
        ;;
    gloo) "${under[@]}" "$out/gloo" "$2" "$seconds" "$list" "$3" ;;
    nexar_*)
        NEXAR_TRANSPORTS=${1#nexar_} "${under[@]}" "$build/bin/nexar" bench -n "$2" --sizes "$list" \
            --time "$(awk "BEGIN { print int($seconds * 1000) }")ms" --json "$out/nexar.json" \
            "$3" >/dev/null &&
            python3 -c '
import json, sys
for r in json.load(open(sys.argv[1]))["rows"]:
    if r["name"] != sys.argv[2]:  # p2p brings p2p_stream along
        continue
    size = 0 if r["name"] == "barrier" else r["size"]
    print(r["name"], size, r["iters"], "%.3f" % (r["time"] * 1e6))' "$out/nexar.json" "$3"
        ;;
    esac
}

# look N ROUND OPERATION: how near the cores are.
look() {
    echo "word $1 $2 $3 $("$build/bench/word_bench")" >>"$keep"
}

# in_turn ROUND NAME...: the names, in the order of this round.
in_turn() {
    local turn=$1
    shift
    if [ $((turn % 2)) = 1 ]; then
        printf '%s\n' "$@"
    else
        printf '%s\n' "$@" | tac
    fi
}

read -ra names <<<"nexar_${transports// / nexar_} $usable"
: >"$keep"
for n in $ranks; do
    for round in $(seq "$rounds"); do
        echo "bench_peers: $n ranks, round $round of $rounds" >&2
        for op in $ops; do
            for name in $(in_turn "$round" "${names[@]}"); do
                look "$n" "$round" "$op"
                contend "$name" "$n" "$op" 2>"$out/errors" | sed "s/^/$name $n /; s/\$/ $round/" >>"$keep" ||
                    echo "bench_peers: $name failed: $(head -n 3 "$out/errors")" >&2
            done
            look "$n" "$round" "$op"
        done
    done
done
python3 "$source/table.py" "$keep"
if [ -n "$limit" ]; then
    echo
    echo "allreduce of 64 MiB on 2 ranks, and what the memory of this machine allows"
    "$build/bin/nexar" run -n 2 "$build/bench/limit_bench" | sed 's/^\[0\] //'
fi
[ -n "$profile" ] || exit 0

# ---- where the time goes -----------------------------------------------------------------

# profile_one NAME N OPERATION SIZE: one row, for two seconds, under perf.
profile_one() {
    local name=$1 n=$2 op=$3 before
    list=$(($4 > 0 ? $4 : 8)) seconds=2 # a barrier has no size
    under=(perf record -q -e cpu-clock -F 2000 -o "$out/perf.data" --)
    before=$("$build/bench/word_bench")
    contend "$name" "$n" "$op" 2>"$out/errors" >"$out/profiled" || {
        echo "bench_peers: $name failed under perf: $(head -n 3 "$out/errors")" >&2
        return 0
    }
    echo "$name, $n ranks, $op, $(awk '{ print $2 " B: " $4 " us" }' "$out/profiled"); $before before, $("$build/bench/word_bench") behind"
    perf report -i "$out/perf.data" --stdio --no-children -s dso,sym 2>/dev/null | python3 "$source/profile.py"
}

echo
echo "Where the time of the missed targets goes, beside the fastest peer: shares of all that ran"
python3 "$source/table.py" --missed "$keep" | while read -r n op size mine rival; do
    echo
    profile_one "$mine" "$n" "$op" "$size" </dev/null
    profile_one "$rival" "$n" "$op" "$size" </dev/null
done
