#!/bin/bash
# launchers_test.sh NEXAR LAUNCHED HELLO CASE - programs that other launchers start: all find each
# other, or the start is an error that says what to do.  CASE: environment, openmpi, mpich, slurm,
# readme.
# Variables of ranks stay as they are; functions are called by name; lib.sh assigns $work.
# shellcheck disable=SC2016,SC2086,SC2154,SC2317
set -uo pipefail
nexar=$1 launched=$2 hello=$3 case=$4
# shellcheck source=tests/slurm.sh disable=SC1091
. "$(dirname "$0")/slurm.sh"
[ "$case" != slurm ] || slurm_enter "$0" "$@"
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
source_folder=$(cd "$(dirname "$0")/.." && pwd)

skip() {
    echo "skipped: $*"
    exit 77
}

# run CODE COMMAND...: it must return CODE; "some": any but 0, and in time.
run() {
    local want=$1 code
    shift
    what="$*"
    timeout -k 5 120 "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    [ "$want" = some ] && [ $code != 0 ] && [ $code != 124 ] && [ $code != 137 ] && return
    [ $code = "$want" ] || fail "$what: exit code $code, not $want"
}
says() { has "$work/err" "$1" || fail "$what: stderr lacks: $1"; }
silent() { [ ! -s "$work/err" ] || fail "$what: writes to stderr"; }
# ranks N: N ranks have said which they are, of N.
ranks() {
    [ "$(sort -n -k 2 "$work/out")" = "$(seq -f "rank %g of $1" 0 $(($1 - 1)))" ] ||
        fail "$what: not $1 ranks of one world"
}

# refused VARIABLE=VALUE...: the first is named, with what can be done.
refused() {
    run 1 env "$@" "$launched"
    says "${1%%=*}"
    [ ! -s "$work/out" ] || fail "$what: a world is there"
}
one_of_several() {
    refused "$@"
    says 'one of several ranks.*NEXAR_JOIN=file:PATH.*NEXAR_JOIN=none'
}
alone() {
    run 0 env "$@" "$launched"
    ranks 1
    silent
}

environment() {
    one_of_several NEXAR_RANK=1
    one_of_several NEXAR_RANK=0
    one_of_several NEXAR_WORLD_SIZE=4 NEXAR_RANK=1
    one_of_several NEXAR_WORLD_SIZE=4 PMI_RANK=0 PMI_SIZE=1
    one_of_several WORLD_SIZE=4 RANK=1 TORCHELASTIC_RUN_ID=none
    says torchrun
    one_of_several WORLD_SIZE=4 RANK=1 MASTER_ADDR=node1
    one_of_several JOB_COMPLETION_INDEX=0
    says Kubernetes
    one_of_several SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0
    says 'srun --mpi=pmix'
    one_of_several OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1
    one_of_several PMI_SIZE=2 PMI_RANK=1
    for descriptor in 0 99; do
        refused PMI_RANK=1 PMI_SIZE=2 PMI_FD=$descriptor
        says 'PMI_FD is no socket.*NEXAR_JOIN=file:PATH.*NEXAR_JOIN=none'
    done
    one_of_several PMIX_RANK=1
    refused WORLD_SIZE=x RANK=1 MASTER_ADDR=node1
    for name in JOIN JOIN_FILE TOKEN_FILE RANK WORLD_SIZE LISTEN ALGORITHMS; do
        refused NEXAR_$name=
        says 'set but empty'
    done
    refused NEXAR_JOIN=none NEXAR_JOIN_FILE="$work/join"

    alone NEXAR_JOIN=none NEXAR_RANK=1 NEXAR_WORLD_SIZE=4
    alone NEXAR_JOIN=none OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 PMIX_NAMESPACE=x
    alone NEXAR_RANK=0 NEXAR_WORLD_SIZE=1
    alone RANK=1 WORLD_SIZE=4
    alone MASTER_ADDR=node1 WORLD_SIZE=4
    alone RANK=0 WORLD_SIZE=1 TORCHELASTIC_RUN_ID=none
    alone SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_JOB_ID=7
    alone SLURM_NTASKS=1 SLURM_PROCID=0 SLURM_JOB_ID=7 SLURM_STEP_ID=0

    echo "-- with a cluster to join, rank and size are the launcher's"
    numbered 'RANK=$i WORLD_SIZE=3 TORCHELASTIC_RUN_ID=x SLURM_PROCID=0 SLURM_NTASKS=1'
    numbered 'RANK=$i WORLD_SIZE=3 MASTER_ADDR=node1'
    numbered 'JOB_COMPLETION_INDEX=$i'
    join_files
}

# numbered VARIABLES: three ranks, started in the order 2, 0, 1, with $i as their number.
numbered() {
    local i pids=() seed
    what=$1
    rm -f "$work/join"
    "$nexar" seed --world 3 --join-file "$work/join" >/dev/null 2>"$work/err" &
    seed=$!
    for i in 2 0 1; do
        eval "env $1" '"NEXAR_JOIN=file:$work/join" "$launched" >"$work/rank$i" 2>&1 &'
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || fail "$what: a rank"; done
    wait "$seed" || fail "$what: the seed"
    for i in 0 1 2; do
        [ "$(cat "$work/rank$i")" = "rank $i of 3" ] || fail "$what: rank $i: $(cat "$work/rank$i")"
    done
}

# begin FILE NAME=VALUE...: a rank in the background, $pid, which waits for a file.
begin() {
    local out=$1
    shift
    env NEXAR_FORMATION_TIMEOUT=100s "$@" "$launched" >"$work/$out" 2>&1 &
    pid=$!
}

join_files() {
    local join seed token other
    echo "-- join files"
    rm -f "$work/join"
    "$nexar" seed --world 2 --join-file "$work/join" >/dev/null 2>&1 &
    seed=$!
    until_true test -s "$work/join"
    join=$(cat "$work/join")
    # It is written slowly, in place, and counts when its line has an end.
    begin waits NEXAR_JOIN_FILE="$work/late"
    until_true has "$work/waits" "waiting for the join file $work/late"
    (umask 77 && printf %s "${join:0:40}" >"$work/late")
    begin other NEXAR_JOIN="file:$work/late"
    other=$!
    until_true has "$work/other" 'its first line has no end yet'
    printf '%s\n' "${join:40}" >>"$work/late"
    wait "$pid" || fail "a rank that waits for its join file: $(cat "$work/waits" "$work/other")"
    wait "$other" || fail "the other one"
    wait "$seed"
    [ "$(grep -c 'waiting for' "$work/waits")" = 1 ] || fail "what is waited for is said more than once"
    what="join files"
    run 1 env NEXAR_JOIN="file:$work/none" NEXAR_FORMATION_TIMEOUT=100ms "$launched"
    says "join file $work/none: there is no such file after 100ms"
    chmod 640 "$work/late"
    run 1 env NEXAR_JOIN_FILE="$work/late" "$launched"
    says "join file $work/late: .* mode is 640, so others may use it; chmod 600"
    chmod 600 "$work/late"
    if [ "$(id -u)" = 0 ]; then
        chown 65534 "$work/late"
        run 1 env NEXAR_JOIN_FILE="$work/late" "$launched"
        says "join file $work/late: it belongs to user 65534"
        chown 0 "$work/late"
    fi
    echo nonsense >"$work/late"
    run 1 env NEXAR_JOIN_FILE="$work/late" "$launched"
    says 'no join string'
    run 1 env NEXAR_JOIN="file:$work" "$launched"
    says 'no regular file'

    echo "-- token files"
    token=$(head -c 32 /dev/urandom | basenc --base64url | tr -d =)
    (umask 77 && echo "$token" >"$work/token" && echo "${token:1}A" >"$work/token2")
    rm "$work/join"
    NEXAR_TOKEN_FILE=$work/token "$nexar" seed --world 1 --join-file "$work/join" >"$work/said" 2>&1 &
    seed=$!
    until_true test -s "$work/join"
    join=$(cat "$work/join")
    ! grep -rqF -- "$token" "$work/join" "$work/said" || fail "the token is in the join string"
    run 1 env NEXAR_JOIN="$join" "$launched"
    says 'it has no token .TOKEN@., and token_file .NEXAR_TOKEN_FILE. names none'
    run 1 env NEXAR_JOIN="$join" NEXAR_TOKEN_FILE="$work/token2" "$launched"
    says 'token'
    run 1 env NEXAR_JOIN="nexar://${token}@${join#nexar://}" NEXAR_TOKEN_FILE="$work/token2" "$launched"
    says 'another token than the file'
    ! grep -qF -- "$token" "$work/err" || fail "the token is in an error"
    run 0 env NEXAR_JOIN="$join" NEXAR_TOKEN_FILE="$work/token" "$launched"
    ranks 1
    wait "$seed" || fail "a seed with a token file"
}

# common N COMMAND...: what holds for every launcher that carries a key.
common() {
    local n=$1
    shift
    run 0 "$@" "$launched"
    ranks "$n"
    run 0 "$@" "$launched" first
    ranks "$n"
    run 0 "$@" "$launched" last
    ranks "$n"
    run 0 "$@" env NEXAR_JOIN=none "$launched"
    [ "$(sort -u "$work/out")" = "rank 0 of 1" ] || fail "$what: no worlds of one"
    [ "$(wc -l <"$work/out")" = "$n" ] || fail "$what: not $n worlds"
    run some "$@" env NEXAR_WORLD_SIZE=$((n + 1)) "$launched"
    says "NEXAR_WORLD_SIZE=$((n + 1)), but .* has started $n processes"
    run 0 "$@" env NEXAR_WORLD_SIZE="$n" "$launched"
    ranks "$n"
    (umask 77 && head -c 32 /dev/urandom | basenc --base64url | tr -d = >"$work/shared_token")
    run 0 "$@" env NEXAR_TOKEN_FILE="$work/shared_token" "$launched"
    ranks "$n"
    # All know why; a launcher that sees one fail would end the others before they say so.
    run 0 "$@" env NEXAR_LISTEN=192.0.2.99 sh -c '"$0" || true' "$launched"
    [ "$(grep -c "rank 0 could not start the seed: .*192.0.2.99" "$work/err")" = $((n - 1)) ] ||
        fail "$what: not all know why there is no seed"
    [ "$(grep -c '192.0.2.99' "$work/err")" = "$n" ] || fail "$what: rank 0 does not say why"
    run some "$@" env NEXAR_FORMATION_TIMEOUT=1s "$launched" never
    says "started by .*the $n processes did not all call nexar_init within 1s"
    run some "$@" "$launched" again
    says 'serves no second one after it'
    [ "$(grep -c "of $n" "$work/out")" -le "$n" ] || fail "$what: a second world"
}

openmpi() {
    local mpirun
    mpirun=$(command -v mpirun.openmpi) || skip "mpirun.openmpi is not installed"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    [[ $(PATH=$PATH:/sbin ldconfig -p) == *'libpmix.so.2 '* ]] || skip "libpmix.so.2 is not installed"
    common 3 "$mpirun" --oversubscribe -np 3
    run 0 "$mpirun" -np 1 "$launched"
    ranks 1
    run some "$mpirun" -np 1 env NEXAR_RANK=1 "$launched"
    says 'NEXAR_RANK=1 says'
    # PMIx counts its users: MPI in the same process, before it or after it.
    for how in mpi under; do
        run 0 "$mpirun" --oversubscribe -np 2 "$launched" $how libmpi.so.40
        ranks 2
    done
}

mpich() {
    local mpirun
    mpirun=$(command -v mpirun.mpich) || skip "mpirun.mpich is not installed"
    common 3 "$mpirun" -np 3
    run 0 "$mpirun" -np 1 "$launched"
    ranks 1
    # The command's own ranks are those of the launcher, too.
    run 0 "$mpirun" -np 2 "$nexar" bench barrier --time 10ms
    grep -q '2 ranks' "$work/out" || fail "bench did not run on the ranks of mpirun"
    [ "$(grep -c '2 ranks' "$work/out")" = 1 ] || fail "bench started a job in every process"
    # PMI has one speaker: where that is MPI, nexar is silent and says so.
    run some "$mpirun" -np 2 "$launched" under libmpich.so.12
    says 'this program uses MPI, which owns PMI_FD'
    # A child has the variables, but not the descriptor.
    run some "$mpirun" -np 2 sh -c "exec $launched 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-"
    says 'PMI_FD is no socket of this process'
}

slurm() {
    slurm_start 2 || exit 1
    common 3 srun -K -n 3 -N 2 --mpi=pmi2
    if srun -n 1 --mpi=pmix true 2>"$work/err"; then
        common 3 srun -K -n 3 -N 2 --mpi=pmix
    else
        echo "without PMIx: $(head -n 1 "$work/err")"
    fi
    run some srun -n 2 "$launched"
    says 'SLURM_NTASKS=2: srun of Slurm .*srun --mpi=pmix.*nexar run'
    run 0 srun -n 1 "$launched"
    ranks 1
    echo "-- in the script of sbatch, which is no task"
    printf '#!/bin/sh\n%s\nsrun -n 2 --mpi=pmi2 %s\n' "$launched" "$launched" >"$work/script"
    run 0 sbatch --wait -n 2 -o "$work/batch" "$work/script"
    printf 'rank 0 of 1\nrank 0 of 2\nrank 1 of 2\n' | cmp -s - <(sort "$work/batch") ||
        fail "sbatch: $(cat "$work/batch")"
}

# The recipe of README.md with a seed, for several hosts, pasted as it is.  The other host is a folder here.
readme() {
    local bin=$work/bin
    mkdir -p "$bin" "$work/node1" "$work/node2"
    awk '/^## / { here = ($0 == "## On several hosts") }
        here && /^    / { block = block substr($0, 5) "\n"; next }
        block ~ /nexar seed/ { printf "%s", block; exit }
        { block = "" }' "$source_folder/README.md" >"$work/recipe"
    grep -q 'nexar seed' "$work/recipe" || fail "there is no recipe in README.md"
    ln -s "$nexar" "$bin/nexar"
    cp "$hello" "$work/node1/hello"
    cp "$hello" "$work/node2/hello"
    cat >"$bin/ssh" <<FAKE
#!/bin/sh
# ssh -n HOST COMMAND
[ "\$1 \$2" = "-n node2" ] || exit 255
cd "$work/node2" && exec sh -c "\$3" </dev/null
FAKE
    cat >"$bin/scp" <<FAKE
#!/bin/sh
# scp -p FILE HOST:
[ "\$1 \$3" = "-p node2:" ] || exit 1
exec cp -p "\$2" "$work/node2/"
FAKE
    chmod +x "$bin"/*
    what="the recipe of README.md"
    cat "$work/recipe"
    (cd "$work/node1" && PATH=$bin:$PATH timeout -k 5 120 bash <"$work/recipe") >"$work/out" 2>"$work/err" ||
        fail "$what: exit code $?"
    [ "$(grep -c 'hello from rank . of 4' "$work/out")" = 4 ] || fail "$what: not four ranks of one world"
}

"$case"
finish
