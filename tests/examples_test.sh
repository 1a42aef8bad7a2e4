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

if [ -n "$cxx" ]; then
    "$cxx" -x c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -I "$top/include" \
        "$top/examples/hello.c" -L "$build" -lnexar -Wl,-rpath,"$build" -o "$work/hello" ||
        fail "hello is no C++"
    hello "$work/hello" 3
fi
finish
