#!/bin/bash
# restart_test.sh NEXAR LINGER - a seed that is killed and started again: ranks notice
# nothing, the old join string holds, joins resume, and who joins then is let in.
# Functions are called by name; lib.sh has what is not assigned here.
# shellcheck disable=SC2317,SC2154
set -uo pipefail
nexar=$1
linger=$2
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

# seed NAME OPTION...: in the background, $seed is its pid.
seed() {
    name=$1
    shift
    "$nexar" seed --listen 127.0.0.1 --state "$work/state" "$@" \
        >"$work/$name.out" 2>"$work/$name.err" </dev/null 9>&- &
    seed=$!
}
# rank NAME [RANKS]: as a rank in the background that stays while the fifo is open, $pid.
rank() {
    local name=$1
    shift
    NEXAR_JOIN="$join" NEXAR_LOG=info "$linger" "$@" >"$work/$name.out" 2>"$work/$name.err" \
        <"$work/stay" 9>&- &
    pid=$!
}
# refused WORDS [CODE]: a seed with that state is.
refused() {
    "$nexar" seed --listen 127.0.0.1 --state "$work/state" --world 2 >"$work/out" 2>"$work/err"
    [ $? = "${2:-1}" ] || fail "a bad state: code"
    has "$work/err" "$1" || fail "a bad state: stderr lacks: $1"
}

mkfifo "$work/stay"
exec 9<>"$work/stay"

echo "-- two ranks"
seed first --world 2
until_true has "$work/first.out" . || finish
join=$(cat "$work/first.out")
[ "$(stat -c %a "$work/state")" = 600 ] || fail "the state is not for its owner alone"
rank a
a=$pid
rank b
b=$pid
until_true has "$work/a.out" 'rank [01] of 2'
until_true has "$work/b.out" 'rank [01] of 2'

echo "-- the seed is killed"
kill -KILL "$seed"
wait "$seed" 2>/dev/null
until_true has "$work/a.err" 'the seed is gone'
until_true has "$work/b.err" 'the seed is gone'
rank c # it dials until there is a seed
c=$pid

echo "-- and started again"
seed again --world 2
until_true has "$work/again.out" .
[ "$(cat "$work/again.out")" = "$join" ] || fail "another join string"
until_true has "$work/a.err" 'the seed is back'
until_true has "$work/b.err" 'the seed is back'
until_true has "$work/again.err" 'waits to join the world'
[ "$(grep -c 'is back$' "$work/again.err")" = 2 ] || fail "who is back: $(cat "$work/again.err")"
for rank in "$a" "$b" "$c"; do
    kill -0 "$rank" || fail "a rank has ended"
done
token=${join%%@*}
! grep -qF -- "${token#nexar://}" "$work"/*.err || fail "the token is told"

echo "-- the job ends"
exec 9>&-
wait "$a" || fail "rank a: $(cat "$work/a.err")"
wait "$b" || fail "rank b: $(cat "$work/b.err")"
wait "$c" && fail "one that was not let in ends well"
has "$work/c.err" 'the job has ended while it waited' || fail "the one that waited: $(cat "$work/c.err")"
wait "$seed" || fail "the seed: $(cat "$work/again.err")"

echo "-- one that joins at a seed that was started again is let in"
rm "$work/state"
exec 9<>"$work/stay"
seed before --world 2
until_true has "$work/before.out" . || finish
join=$(cat "$work/before.out")
declare -A pids
for name in d e; do
    rank $name 3
    pids[$name]=$pid
done
until_true has "$work/d.out" 'rank [01] of 2'
until_true has "$work/e.out" 'rank [01] of 2'
kill -KILL "$seed"
wait "$seed" 2>/dev/null
until_true has "$work/d.err" 'the seed is gone'
until_true has "$work/e.err" 'the seed is gone'
seed after --world 2
until_true has "$work/after.out" .
until_true has "$work/d.err" 'the seed is back'
until_true has "$work/e.err" 'the seed is back'
rank f 3
pids[f]=$pid
until_true has "$work/after.err" 'waits to join the world'
exec 9>&- # d and e update until there are three
for name in d e f; do
    wait "${pids[$name]}" || fail "rank $name: $(cat "$work/$name.err")"
    has "$work/$name.out" '^the sum over 3 ranks is right' || fail "$name: $(cat "$work/$name.out")"
done
has "$work/f.out" '^rank 2 of 3' || fail "the one that joined: $(cat "$work/f.out")"
wait "$seed" || fail "the seed: $(cat "$work/after.err")"

echo "-- states that are not taken"
chmod 644 "$work/state"
refused 'others may use it.*chmod 600'
chmod 600 "$work/state"
printf '\001' | dd of="$work/state" bs=1 seek=200 conv=notrunc 2>/dev/null
refused 'damaged.*remove it'
echo "something else" >"$work/state"
refused 'not the state of a nexar seed'
mv "$work/state" "$work/elsewhere"
ln -s elsewhere "$work/state"
refused 'is a symbolic link' 2
rm "$work/state"
mkfifo "$work/state"
refused 'is a FIFO' 2
[ "$(find "$work" -name 'state*' -o -name '.nexar*' | wc -l)" = 1 ] || fail "more than the state is left"
finish
