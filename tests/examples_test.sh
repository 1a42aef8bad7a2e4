#!/bin/bash
# examples_test.sh NEXAR BUILD [CXX] - every example as ranks, with what it must
# print; and the first one as C++17, if there is a compiler.
# shellcheck disable=SC2154 # lib.sh has what is not assigned here
set -uo pipefail
nexar=$1
build=$2
cxx=${3:-}
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tests/lib.sh disable=SC1091
. "$top/tests/lib.sh"

# run N PROGRAM: it must work, and say nothing on stderr.
run() {
    what="nexar run -n $1 $(basename "$2")"
    "$nexar" run -n "$1" "$2" >"$work/out" 2>"$work/err" || fail "$what: exit code $?"
    [ ! -s "$work/err" ] || fail "$what: writes to stderr"
}

# hello PROGRAM N: rank 0 prints a line for each rank, in order.
hello() {
    run "$2" "$1"
    local rank
    for rank in $(seq 0 $(($2 - 1))); do
        echo "[0] hello from rank $rank of $2 on $(hostname)"
    done | sed 's/\[0\]/'"$(printf '[%*d]' "$(printf %d $(($2 - 1)) | wc -c)" 0)"'/' |
        diff - "$work/out" || fail "$what: prints something else"
}

hello "$build/examples/hello" 1
hello "$build/examples/hello" 4
hello "$build/examples/hello" 12
"$build/examples/hello" >"$work/out" || fail "hello without nexar run"
has "$work/out" '^hello from rank 0 of 1 on ' || fail "hello alone"
NEXAR_JOIN=no "$build/examples/hello" >"$work/out" 2>"$work/err" && fail "hello with a bad setting"
has "$work/err" '^hello: .*NEXAR_JOIN' || fail "hello does not say what is wrong"

for n in 1 2 5; do
    run $n "$build/examples/send_recv"
    for rank in $(seq 0 $((n - 1))); do
        echo "[$rank] rank $rank: the sum of 1 to $n is $((n * (n + 1) / 2));" \
            "a block of 1048576 bytes from rank $(((rank + n - 1) % n))"
    done | diff - <(sort "$work/out") || fail "$what: prints something else"
done

for n in 1 4; do
    run $n "$build/examples/rpc"
    {
        for rank in $(seq 0 $((n - 1))); do
            echo "[$rank] rank $rank: drew 5 numbers, each larger than the one before;" \
                "4 texts reversed; the sum of all ranks is $((n * (n - 1) / 2))"
        done
        echo "[0] rank 0: $((5 * n)) numbers were drawn"
    } | sort | diff - <(sort "$work/out") || fail "$what: prints something else"
done

# prints N PROGRAM LINE...: N ranks print these lines, as patterns, in any order, and
# no others.
prints() {
    local n=$1 program=$2 line
    shift 2
    run "$n" "$build/examples/$program"
    [ "$(wc -l <"$work/out")" = $# ] || fail "$what: does not print $# lines"
    for line in "$@"; do has "$work/out" "^$line\$" || fail "$what does not print: $line"; done
}

for n in 1 3 4; do
    lines=() more=() late=() pairs=()
    for rank in $(seq 0 $((n - 1))); do
        sum=$((n * (n - 1) / 2)) ten=$((n - 1))
        lines+=("\[$rank\] rank $rank: the first sum is $sum, the last $((sum + 9 * n)), the largest number $((ten * 3 / 2))(\.5)?")
        more+=("\[$rank\] rank $rank: small network, 12 epochs, rate 0\.25")
        late+=("\[0\] rank $rank was late: all waited")
        pairs+=("\[$rank\] rank $rank: sums $((rank > 0 ? 2 * rank - 1 : 0)) and $((rank < n - 1 ? 2 * rank + 1 : 0))")
    done
    prints $n allreduce "${lines[@]}"
    prints $n broadcast "${more[@]}"
    prints $n barrier "${late[@]}"
    prints $n neighbor_groups "${pairs[@]}"
    prints $n bucketed_gradients '\[0\] 200 tensors: [0-9.]+ ms in one bucket, [0-9.]+ ms one by one'
    lines=('\[0\] step 20: loss 0\.0074[0-9]+' '\[0\] step 40: loss 0\.0007[0-9]+'
        '\[0\] step 60: loss 0\.0000[0-9]+')
    for rank in $(seq 0 $((n - 1))); do
        lines+=("\[$rank\] rank $rank: moments of $(((10007 + n - 1 - rank) / n)) of 10007 weights; off by less than 0\.0001")
    done
    prints $n sharded_optimizer "${lines[@]}"
done
prints 2 nonblocking_overlap \
    '\[0\] allreduce [0-9.]+ ms, compute [0-9.]+ ms, both [0-9.]+ ms: overlap [0-9]+ %'

# The same training by one process and by several: the last loss within 0.1 %.
for n in 1 4 7; do
    lines=()
    for to in 100 200 300 400 500 600; do
        lines+=("\[0\] steps +$((to - 99)) to $to: mean loss 0\.[0-9]+")
    done
    prints $n data_parallel_training "${lines[@]}" \
        '\[0\] last mean loss 0\.[0-9]+; weights differ on 0 ranks'
    loss=$(sed -n 's/.*last mean loss 0\.0*\([0-9]*\);.*/\1/p' "$work/out")
    [ $n = 1 ] && alone=$loss
    off=$((loss - alone))
    [ $((1000 * ${off#-})) -le "$alone" ] ||
        fail "$what: the last loss is $loss millionths, alone it is $alone"
done

# The same training while ranks join, one leaves and one dies; the last loss is that of one
# process all the same.  Only the steps at which the third and fourth join are not known before.
what=elastic_training
"$nexar" seed --world 2 --join-file "$work/join" --listen 127.0.0.1 >"$work/seed" 2>&1 &
until_true test -s "$work/join"
pids=()
trainee() {
    NEXAR_JOIN=$(cat "$work/join") "$build/examples/elastic_training" --hold 200 4 "$@" \
        >"$work/out${#pids[@]}" 2>"$work/err${#pids[@]}" &
    pids+=($!)
}
trainee
trainee --leave 300
trainee --die 400
# shellcheck disable=SC2317 # until_true calls it
begun() { grep -qs '^steps   1 to 100: ' "$work"/out[012]; }
until_true begun
trainee
codes=
for pid in "${pids[@]}"; do
    wait "$pid"
    codes+=" $?"
done
[ "$codes" = " 0 0 137 0" ] || fail "$what: exit codes$codes"
cat "$work"/out[0-3] | sort >"$work/out"
cat "$work"/err[0-3] >"$work/err"
for line in 'after step [12]?[0-9]?[0-9]: 4 ranks, 1 joined, 0 left, 0 failed' \
    'after step 300: 3 ranks, 0 joined, 1 left, 0 failed' 'left after step 300' \
    'after step 400: 2 ranks, 0 joined, 0 left, 1 failed' \
    'steps 101 to 200: mean loss 0\.[0-9]+, [234] ranks' \
    'steps 501 to 600: mean loss 0\.[0-9]+, 2 ranks' \
    'last mean loss 0\.[0-9]+; weights differ on 0 ranks'; do
    has "$work/out" "^$line\$" || fail "$what does not print: $line"
done
loss=$(sed -n 's/.*last mean loss 0\.0*\([0-9]*\);.*/\1/p' "$work/out")
off=$((loss - alone))
[ $((1000 * ${off#-})) -le "$alone" ] ||
    fail "$what: the last loss is $loss millionths, alone it is $alone"

if [ -n "$cxx" ]; then
    "$cxx" -x c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -I "$top/include" \
        "$top/examples/hello.c" -L "$build" -lnexar -Wl,-rpath,"$build" -o "$work/hello" ||
        fail "hello is no C++"
    hello "$work/hello" 3
fi
finish
