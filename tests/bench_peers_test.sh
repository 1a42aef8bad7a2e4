#!/bin/bash
# bench_peers_test.sh TABLE - what the tables of make bench-peers are made of: ratios of each
# round by itself, the states of the machine, targets.  From lines that were made up.
# shellcheck disable=SC2154 # lib.sh has what is not assigned here
set -uo pipefail
table=$1
# shellcheck source=tests/lib.sh disable=SC1091
. "$(cd "$(dirname "$0")" && pwd)/lib.sh"

if ! command -v python3 >/dev/null; then
    echo "there is no python3: skipped"
    exit 0
fi

# round N WORD_BEGIN WORD_END NEXAR OPENMPI MPICH: an allreduce of 1 MiB on 2 ranks.
round() {
    echo "word 2 $1 allreduce word_ns $2 fresh_gb_s 20.0"
    echo "nexar_shm 2 allreduce 1048576 9 $4 $1"
    echo "openmpi_shm 2 allreduce 1048576 9 $5 $1"
    [ "$6" = - ] || echo "mpich_shm 2 allreduce 1048576 9 $6 $1"
    echo "word 2 $1 allreduce word_ns $3 fresh_gb_s 5.0"
}

# prints WORDS: the table has them.
prints() {
    grep -qF -- "$1" "$work/out" || fail "the table does not have: $1"
}

# In the slow rounds all take thrice as long.  nexar is twice as fast as the best in three
# rounds and by a tenth in two, though its median time is above the peers' fastest.
{
    round 1 50 60 100 200 250
    round 2 230 240 300 900 600
    round 3 240 230 300 330 900
    round 4 60 55 100 240 200
    round 5 60 231 200 900 220
} >"$work/lines"
python3 "$table" "$work/lines" >"$work/out" 2>"$work/err" || fail "the table is not made"
[ ! -s "$work/err" ] || fail "it writes to stderr"
prints "2 ranks, near: 5 of 10 times, 60 ns 20.0 GB/s"
prints "2 ranks, far: 5 of 10 times, 231 ns 5.0 GB/s"
prints "reached   2.00x     1.10..2.00"
prints "1 of 1 targets are met"
prints "by what ran while the cores were far: 1 of 1"
prints "by what ran while the cores were changed: 1 of 1"
[ -z "$(python3 "$table" --missed "$work/lines")" ] || fail "a target that is met is among the missed ones"
has "$work/out" '1 MiB +200\.0 +330\.0 +2\.40x +250\.0 +2\.00x +2\.00x +1\.10\.\.2\.00' ||
    fail "the row is another one"

# A peer that failed in a round is missed in that round alone; no states, no words of them.
{
    round 1 50 60 100 104 50
    round 2 50 60 100 105 -
    round 3 50 60 100 106 -
} | grep -v '^word' >"$work/lines"
python3 "$table" "$work/lines" >"$work/out" 2>"$work/err" || fail "the table is not made"
prints "reached   1.05x     0.50..1.06   missed"
prints "0 of 1 targets are met"
[ "$(python3 "$table" --missed "$work/lines")" = "2 allreduce 1048576 nexar_shm mpich_shm" ] ||
    fail "the missed target and its fastest peer are not named"
grep -qE 'near|far' "$work/out" && fail "it names states that nobody measured"

# by_quic RANKS OPERATION SIZE NEXAR OPENMPI GLOO: one round; "-" was not measured.
by_quic() {
    echo "nexar_quic $1 $2 $3 9 $4 1"
    [ "$5" = - ] || echo "openmpi_tcp $1 $2 $3 9 $5 1"
    [ "$6" = - ] || echo "gloo $1 $2 $3 9 $6 1"
}

# The targets by QUIC: of some sizes the best peer counts, of the shortest each by itself.
{
    by_quic 2 allreduce 8 30 10 310
    by_quic 2 allreduce 1048576 100 39 90
    by_quic 2 allreduce 16777216 100 90 80
    by_quic 2 broadcast 16777216 100 10 10
    by_quic 4 alltoall 65536 100 101 102
    by_quic 4 alltoall 1024 100 66 -
    by_quic 4 broadcast 8 100 70 1
} >"$work/lines"
python3 "$table" "$work/lines" >"$work/out" 2>"$work/err" || fail "the table is not made"
[ ! -s "$work/err" ] || fail "it writes to stderr"
# target RANKS OPERATION SIZE GOAL REACHED REST: the line is there.
target() {
    has "$work/out" "^$1 ranks +$2 +$3 +target +$4x +reached +$5x +[0-9.]+$6\$" ||
        fail "no such target: $*"
}
target 2 allreduce "8 B" 0.33 0.33 "   of openmpi_tcp"
target 2 allreduce "8 B" 10.00 10.33 "   of gloo"
target 2 allreduce "1 MiB" 0.40 0.39 "   missed"
target 2 allreduce "16 MiB" 0.80 0.80 ""
target 4 alltoall "64 KiB" 1.00 1.01 ""
target 4 alltoall "1 KiB" 0.67 0.66 "   of openmpi_tcp   missed"
target 4 broadcast "8 B" 0.67 0.70 "   of openmpi_tcp"
prints "5 of 7 targets are met"
grep -q "Targets on one host" "$work/out" && fail "it has targets for what was not measured"

# Of what perf prints: kinds of work, and the names that had the most.
cat >"$work/perf" <<'END'
# Overhead  Shared Object         Symbol
    40.00%  libc.so.6             [.] __memmove_avx_unaligned_erms
    25.00%  [kernel.kallsyms]     [k] _copy_to_iter
    15.00%  [kernel.kallsyms]     [k] follow_page_pte
    10.00%  nexar                 [.] nx_loop_fds_spin
     5.00%  [kernel.kallsyms]     [k] finish_task_switch.isra.0
     5.00%  libmpich.so.12.2.2    [.] 0x00000000002934ff
END
python3 "$(dirname "$table")/profile.py" <"$work/perf" >"$work/out" || fail "the profile is not made"
prints "40 % copies in user space, 25 % the kernel's copy, 15 % finding and pinning pages, 10 % nexar: waiting"
prints "5 % giving up the core, 5 % the peer's own"
prints "most: __memmove_avx_unaligned_erms 40 %, _copy_to_iter 25 %"

finish
