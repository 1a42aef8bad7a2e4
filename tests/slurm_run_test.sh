#!/bin/bash
# slurm_run_test.sh NEXAR HELLO - `nexar run` inside an allocation of a real Slurm: hosts and number
# of ranks come from it, and srun starts them.
# Variables of the ranks stay as they are; lib.sh has what is not assigned here.
# shellcheck disable=SC2016,SC2154,SC2317
set -uo pipefail
nexar=$1 hello=$2
# shellcheck source=tests/slurm.sh disable=SC1091
. "$(dirname "$0")/slurm.sh"
slurm_enter "$0" "$@"
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
slurm_start 2 || exit 1

# A time to sleep that tells the sleepers of this test from all others.
long=100000.$$
none_left() { ! pgrep -f "^sleep $long\$" >/dev/null; }
ready() { [ "$(grep -c ready "$work/out")" = "$1" ]; }

# run CODE OPTIONS -- ARGUMENT...: `nexar run ARGUMENT...` in an allocation that salloc OPTIONS makes.
run() {
    local want=$1 code options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    what="salloc ${options[*]} nexar run $*"
    salloc -Q "${options[@]}" "$nexar" run "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    [ $code = "$want" ] || fail "$what: exit code $code, not $want"
    until_true none_left
}
says() { has "$work/err" "$1" || fail "$what: stderr lacks: $1"; }
prints() { has "$work/out" "$1" || fail "$what: stdout lacks: $1"; }
printed() { printf '%s\n' "$@" | sort | cmp -s - <(sort "$work/out") || fail "$what: stdout is not: $*"; }

echo "-- hosts and sizes"
run 0 -N 2 -- "$hello"
printed '[n1:0] hello from rank 0 of 2 on slurm' '[n1:0] hello from rank 1 of 2 on slurm'
run 0 -N 2 --ntasks-per-node 2 -- sh -c 'echo $NEXAR_RANK/$NEXAR_WORLD_SIZE $NEXAR_LOCAL_RANK/$NEXAR_LOCAL_SIZE $SLURMD_NODENAME'
printed '[n1:0] 0/4 0/2 n1' '[n1:1] 1/4 1/2 n1' '[n2:2] 2/4 0/2 n2' '[n2:3] 3/4 1/2 n2'
run 0 -N 2 -n 3 -- sh -c 'echo $NEXAR_RANK'
printed '[n1:0] 0' '[n1:1] 1' '[n2:2] 2'
run 0 -N 2 --ntasks-per-node 2 -- -n 2 sh -c 'echo $NEXAR_RANK'
printed '[n1:0] 0' '[n1:1] 1'
# More ranks than tasks: as many as there are CPUs.
run 0 -N 2 --exclusive -- -n 10 sh -c 'echo $SLURMD_NODENAME'
[ "$(grep -c 'n1$' "$work/out") $(grep -c 'n2$' "$work/out")" = "8 2" ] || fail "$what: ranks by CPUs"
run 2 -N 2 -n 4 -- -n 100 true
says 'nexar run: 100 ranks on 2 hosts with [0-9]+ slots'
run 0 -N 2 -- --hosts localhost:2 sh -c 'echo $NEXAR_RANK'
printed '[localhost:0] 0' '[localhost:1] 1'

echo "-- sbatch"
printf '#!/bin/sh\nexec "%s" run "%s"\n' "$nexar" "$hello" >"$work/script"
sbatch -Q -W -N 2 -n 4 -o "$work/out" "$work/script" || fail "sbatch: code"
what=sbatch
[ "$(grep -c '^.n1:0. hello from rank [0-3] of 4' "$work/out")" = 4 ] || fail "sbatch: $(cat "$work/out")"
# In a step each task is started by srun already: a run of its own.
run 0 -N 2 -n 2 -- -n 2 "$nexar" run -n 2 sh -c 'echo $NEXAR_RANK'
printed '[n1:0] [0] 0' '[n1:0] [1] 1' '[n2:1] [0] 0' '[n2:1] [1] 1'

echo "-- codes and ends"
run 3 -N 2 -- sh -c "echo before; [ \$NEXAR_RANK = 0 ] || exit 3; exec sleep $long"
says '^nexar run: rank 1 \(n2 pid [0-9]+\) exited with code 3; ending the others$'
prints '^.n2:1. before$'
run 2 -N 2 -- "$work/none"
says '^nexar run: n1: cannot run .*/none: No such file or directory$'
says '^nexar run: n2: cannot run .*/none: No such file or directory$'
run 0 -N 2 -n 4 -- seq 20000
[ "$(wc -l <"$work/out")" = 80000 ] || fail "$what: output is lost"
what="input"
salloc -Q -N 2 "$nexar" run cksum < <(seq 30000) >"$work/out" 2>"$work/err" || fail "$what: code"
prints "^\\[n1:0\\] $(seq 30000 | cksum)"

# begin ARGUMENT...: the same in the background; $run is `nexar run`.
begin() {
    what="salloc nexar run $*"
    rm -f "$work/pid"
    : >"$work/out"
    salloc -Q -N 2 sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec "$@"' "$work/pid" \
        env --default-signal=INT "$nexar" run "$@" >"$work/out" 2>"$work/err" </dev/null &
    job=$!
    until_true test -s "$work/pid"
    run=$(cat "$work/pid")
}
ends() {
    local code
    wait "$job"
    code=$?
    [ $code = "$1" ] || fail "$what: exit code $code, not $1"
    until_true none_left
}
begin sh -c "echo ready; sleep $long & wait"
until_true ready 2
kill -INT "$run"
ends 130
begin sh -c "echo ready; sleep $long & wait"
until_true ready 2
kill -KILL "$run"
wait "$job" # salloc says nothing of signals
until_true none_left
# The agent of a node is lost.
begin sh -c "echo ready; sleep $long & wait"
until_true ready 2
srun_of_n2=$(pgrep -f '^srun .*--nodelist n2 ' | head -n 1)
kill -KILL "$srun_of_n2"
ends 1
says '^nexar run: n2: srun was killed by signal 9; ending the others$'
finish
