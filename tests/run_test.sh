#!/bin/bash
# run_test.sh NEXAR - `nexar run` as a user meets it: output, input, codes, signals,
# and that nothing is left behind.
# Variables of the ranks stay as they are; functions are called by name; lib.sh has
# what is not assigned here.
# shellcheck disable=SC2016,SC2317,SC2154
set -uo pipefail
nexar=$1
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

# A time to sleep that tells the sleepers of this test from all others.
long=100000.$$
sleepers() { pgrep -f "^sleep $long\$" >/dev/null; }
none_left() { ! sleepers; }
are_left() { [ "$(pgrep -cf "^sleep $long\$")" -ge "$1" ]; }

# run CODE ARGUMENT...: `nexar run` must return CODE.
run() {
    local want=$1 code
    shift
    what="nexar run $*"
    "$nexar" run "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ $code = "$want" ] || fail "$what: exit code $code, not $want"
}
lines() { [ "$(wc -l <"$work/$1")" = "$2" ] || fail "$what: not $2 lines in $1"; }
says() { has "$work/err" "$1" || fail "$what: stderr lacks: $1"; }
prints() { has "$work/out" "$1" || fail "$what: stdout lacks: $1"; }
quiet() { [ ! -s "$work/err" ] || fail "$what: writes to stderr"; }

echo "-- output"
run 0 -n 3 sh -c 'echo "out $NEXAR_RANK of $NEXAR_WORLD_SIZE"; echo "err $NEXAR_RANK" >&2'
printf '[%d] out %d of 3\n' 0 0 1 1 2 2 | cmp -s - <(sort "$work/out") || fail "$what: stdout"
printf '[%d] err %d\n' 0 0 1 1 2 2 | cmp -s - <(sort "$work/err") || fail "$what: stderr"
run 0 -n 1 echo one
[ "$(cat "$work/out")" = "[0] one" ] || fail "$what: $(cat "$work/out")"
run 0 -n 11 true
lines out 0
quiet
run 0 -n 11 sh -c '[ $NEXAR_RANK != 3 ] || echo x'
[ "$(cat "$work/out")" = "[ 3] x" ] || fail "$what: ranks are not aligned"
run 0 -n 64 true
quiet
run 0 -n 64 sh -c 'echo $NEXAR_RANK'
lines out 64
run 0 -n 2 -- printf 'no end'
printf '[0] no end\n[1] no end\n' | cmp -s - <(sort "$work/out") || fail "$what: partial line"
run 0 -n 2 printf '\n\n'
lines out 4
run 0 --no-prefix -n 2 sh -c 'echo same; echo other >&2'
printf 'same\nsame\n' | cmp -s - "$work/out" || fail "$what: stdout"
printf 'other\nother\n' | cmp -s - "$work/err" || fail "$what: stderr"

# A line in pieces and long lines, from all at once, into one pipe that is read
# slowly: none is broken or mixed.
cat >"$work/talk" <<'TALK'
#!/bin/bash
for i in $(seq 40); do
    printf '%s ' "$NEXAR_RANK"; printf "%$((i * 97 % 30000))s" '' | tr ' ' "$NEXAR_RANK"; echo " end"
    echo "$NEXAR_RANK err end" >&2
done
TALK
chmod +x "$work/talk"
what="long lines of all"
"$nexar" run -n 4 "$work/talk" 2>&1 | cat >"$work/out"
lines out 320
bad=$(grep -vcE '^\[([0-3])\] \1( \1*| err) end$' "$work/out")
[ "$bad" = 0 ] || fail "$what: $bad lines are broken"
run 0 -n 2 sh -c 'head -c 900000 /dev/zero | tr "\0" $NEXAR_RANK; echo'
[ "$(awk '{print length($0)}' "$work/out" | tr '\n' ' ')" = "900004 900004 " ] || fail "$what: a long line is cut"
run 0 -n 1 sh -c 'head -c 3000000 /dev/zero | tr "\0" x'
[ "$(tr -cd x <"$work/out" | wc -c)" = 3000000 ] || fail "$what: bytes of an endless line are lost"

cat >"$work/listen" <<'LISTEN'
#!/bin/bash
# listen SIGNAL LONG: says when it hears, and ends.
trap 'echo "heard $1"; exit 0' "$1"
echo ready
while :; do sleep "$2" & wait $!; done
LISTEN
chmod +x "$work/listen"

echo "-- on a terminal"
if command -v script >/dev/null; then
    script -qec "'$nexar' run -n 2 echo hello" /dev/null </dev/null >"$work/out"
    has "$work/out" $'\033\\[36m\\[0\\]\033\\[0m hello' || fail "no colour on a terminal"
    script -qec "'$nexar' run -n 2 echo hello | cat" /dev/null </dev/null >"$work/out"
    has "$work/out" '^\[0\] hello' || fail "colour in a pipe"
    # What is typed reaches rank 0, and its end too.
    # shellcheck disable=SC2094 # it waits for what the other writes
    { until_true has "$work/typed" ready >&2; printf 'typed words\n\004'; until_true has "$work/typed" got >&2; } |
        script -qefc "'$nexar' run -n 2 sh -c 'if [ \$NEXAR_RANK = 0 ]; then echo ready; echo got \$(cat); fi'" \
            /dev/null >"$work/typed"
    has "$work/typed" 'got typed words' || fail "what is typed does not reach rank 0: $(cat "$work/typed")"
    # Ctrl-C reaches all, once.
    # shellcheck disable=SC2094 # it waits for what the other writes
    { until_true eval '[ "$(grep -c ready "$work/typed2")" = 2 ]' >&2; printf '\003'; until_true none_left >&2; } |
        script -qefc "'$nexar' run -n 2 '$work/listen' INT $long" /dev/null >"$work/typed2"
    [ "${PIPESTATUS[1]}" = 130 ] || fail "Ctrl-C: code"
    [ "$(grep -c 'heard INT' "$work/typed2")" = 2 ] || fail "Ctrl-C: $(cat "$work/typed2")"
fi

echo "-- input"
what="input of rank 0"
echo "to zero" | "$nexar" run -n 3 cat >"$work/out"
[ "$(cat "$work/out")" = "[0] to zero" ] || fail "$what"
seq 300000 | "$nexar" run -n 2 sh -c 'cksum' >"$work/out"
has "$work/out" "^\[0\] $(seq 300000 | cksum)" || fail "$what is not whole"
yes | "$nexar" run -n 2 head -n 1 >"$work/out"
[ "${PIPESTATUS[*]}" = "141 0" ] || fail "$what closed early: $?"
"$nexar" run -n 2 cat <&- >"$work/out" 2>&1 || fail "closed input"
printf 'a\nb\n' | { "$nexar" run -n 1 -- head -c 2 >/dev/null; cat; } >"$work/out"
[ "$(cat "$work/out")" = b ] || fail "$what: what it did not read is gone"

echo "-- codes"
run 3 -n 4 sh -c "[ \$NEXAR_RANK != 2 ] || exit 3; exec sleep $long"
says '^nexar run: rank 2 \(pid [0-9]+\) exited with code 3; ending the others$'
lines err 1
none_left || fail "$what leaves ranks"
run 9 -n 4 sh -c "[ \$NEXAR_RANK != 2 ] || exit 9; exit 76"
says '^nexar run: rank 2 \(pid [0-9]+\) exited with code 9'
lines err 1
run 76 -n 2 sh -c "[ \$NEXAR_RANK != 1 ] || exec sleep $long; exit 76"
says '^nexar run: rank 0 \(pid [0-9]+\) exited with code 76; ending the others$'
none_left || fail "$what leaves ranks"
run 139 -n 2 sh -c "[ \$NEXAR_RANK != 1 ] || kill -SEGV \$\$; exec sleep $long"
says 'rank 1 .* was killed by signal 11 \(Segmentation fault\); ending the others$'
run 200 -n 1 sh -c 'exit 200'
says 'rank 0 .* exited with code 200$'
none_left || fail "ranks are left"
run 2 -n 2 no-such-program-here
says '^nexar run: cannot run no-such-program-here: No such file or directory$'
lines err 1
touch "$work/plain"
run 2 -n 2 "$work/plain"
says '^nexar run: cannot run .*plain: Permission denied$'
lines err 1
run 2 -n 2
says 'no program given'
run 2 true
says 'how many ranks.*-n N'
run 0 -n3 true
run 2 -np 2 true
says 'unknown option -np, did you mean -n[?] accepted: -n, --ranks'
run 2 -n 0 true
run 2 -n 5000 true
run 0 -n 2 -- sh -c 'test "$1" = --no-prefix' sh --no-prefix

what="more ranks than descriptors"
(ulimit -n 128; exec timeout -s KILL 60 "$nexar" run -n 500 sleep $long) >"$work/out" 2>"$work/err"
[ $? = 1 ] || fail "$what: code"
says '^nexar run: pipe2: Too many open files'
until_true none_left
what="more descriptors than at first"
(ulimit -S -n 128; exec "$nexar" run -n 80 sh -c 'ulimit -S -n') >"$work/out" 2>"$work/err" || fail "$what: code"
[ "$(cut -d ']' -f 2 "$work/out" | sort | uniq -c | tr -s ' ')" = " 80 128" ] || fail "$what: the limit of ranks"

echo "-- ends"
# A rank that does not hear SIGTERM is killed when the grace time is over.
began=$SECONDS
run 7 --grace 300ms -n 2 bash -c "trap '' TERM; [ \$NEXAR_RANK = 0 ] && exit 7; while :; do sleep $long; done"
[ $((SECONDS - began)) -lt 60 ] || fail "$what: takes long"
none_left || fail "$what leaves ranks"
# One that does may take its time.
run 7 --grace 60s -n 2 bash -c "trap 'echo ending; exit 0' TERM; touch $work/up\$NEXAR_RANK
    until [ -e $work/up0 ] && [ -e $work/up1 ]; do sleep 0.02; done
    [ \$NEXAR_RANK = 0 ] && exit 7; sleep $long & wait"
prints '^\[1\] ending$'
none_left || fail "$what leaves ranks"
# What a rank leaves behind goes with it, also from a session of its own.
run 0 -n 2 bash -c "sleep $long & setsid sleep $long & (setsid setsid sleep $long &) ; disown -a; exit 0"
until_true none_left
what="output to a closed pipe"
"$nexar" run -n 2 yes 2>"$work/err" | head -n 1 >"$work/out"
[ "${PIPESTATUS[0]}" = 141 ] || fail "$what: code"
quiet
if [ -w /dev/full ]; then
    "$nexar" run -n 2 yes >/dev/full 2>"$work/err"
    [ $? = 1 ] || fail "a full disk: code"
    says 'cannot write the output: No space left'
fi

# begin ARGUMENT...: `nexar run` in the background, $pid; SIGINT is not ignored there.
begin() {
    what="nexar run $*"
    : >"$work/out"
    env --default-signal=INT,QUIT "$nexar" run "$@" >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
}
# ends CODE: it does, with that code, and nobody is left.
ends() {
    local code
    wait "$pid"
    code=$?
    [ $code = "$1" ] || fail "$what: exit code $code, not $1"
    until_true none_left
}

echo "-- signals"
for signal in INT:130 TERM:143 HUP:129 USR1:0 USR2:0; do
    begin -n 2 "$work/listen" "${signal%:*}" "$long"
    until_true eval '[ "$(grep -c ready "$work/out")" = 2 ]'
    kill -"${signal%:*}" "$pid"
    ends "${signal#*:}"
    [ "$(grep -c "heard ${signal%:*}" "$work/out")" = 2 ] || fail "$what: not heard by all"
done
begin --grace 10m -n 2 bash -c "trap 'echo heard' INT; echo ready; while :; do sleep $long & wait \$!; done"
until_true eval '[ "$(grep -c ready "$work/out")" = 2 ]'
until_true eval 'kill -INT "$pid" 2>/dev/null; sleep 0.1; gone "$pid"'
ends 130
# Ctrl-Z stops it and the ranks, fg lets them go on.
stopped() { [ "$(ps -o stat= -p "$pid" $(pgrep -f "^/bin/bash .*listen TERM $long") | grep -c T)" = 3 ]; }
going() { [ "$(ps -o stat= -p "$pid" $(pgrep -f "^/bin/bash .*listen TERM $long") | grep -vc T)" = 3 ]; }
begin -n 2 "$work/listen" TERM "$long"
until_true eval '[ "$(grep -c ready "$work/out")" = 2 ]'
kill -TSTP "$pid"
until_true stopped
kill -CONT "$pid"
until_true going
kill -TERM "$pid"
ends 143
# Ctrl-Z after some have ended ends nobody.
begin -n 2 sh -c "[ \$NEXAR_RANK = 0 ] || exec '$work/listen' TERM $long"
until_true has "$work/out" ready
kill -TSTP "$pid"
until_true eval 'ps -o stat= -p "$(pgrep -f "^/bin/bash .*listen TERM $long")" | grep -q T'
kill -CONT "$pid"
until_true eval 'ps -o stat= -p "$(pgrep -f "^/bin/bash .*listen TERM $long")" | grep -vq T'
kill -TERM "$pid"
ends 143
! has "$work/err" "stopped" || fail "$what: tells of what the user has stopped"

echo "-- stopped"
# One that is stopped is named; it is waited for while others run, and not after.
cat >"$work/stop" <<'STOP'
#!/bin/bash
# stop FILE [go]: rank 1 stops itself; rank 0 lets it go on, or ends.
if [ "$NEXAR_RANK" = 1 ]; then
    echo $$ >"$1.new"
    mv "$1.new" "$1"
    kill -STOP $$
    echo "goes on"
elif [ "$NEXAR_RANK$2" = 0go ]; then
    until [ -e "$1" ] && ps -o stat= -p "$(cat "$1")" | grep -q T; do sleep 0.05; done
    kill -CONT "$(cat "$1")"
fi
STOP
chmod +x "$work/stop"
run 0 -n 3 "$work/stop" "$work/stop.1" go
prints "^.1. goes on"
says "rank 1 .pid $(cat "$work/stop.1"). was stopped by signal 19; kill -CONT"
run 147 -n 3 "$work/stop" "$work/stop.2"
says "rank 1 .pid $(cat "$work/stop.2"). is stopped, and the others have ended; ending it"
run 0 --elastic -n 3 "$work/stop" "$work/stop.3"
says "rank 1 .pid $(cat "$work/stop.3"). is stopped, and the others have ended; ending it"

what="nexar run under nohup"
nohup env --default-signal=INT "$nexar" run -n 1 sh -c "echo ready; exec sleep $long" >"$work/out" 2>"$work/err" </dev/null &
pid=$!
until_true has "$work/out" ready
kill -HUP "$pid"
kill -INT "$pid"
ends 130

echo "-- killed"
# Grandchildren in groups and sessions of their own, too.
nest="sleep $long & setsid sleep $long & exec sleep $long"
begin -n 2 sh -c "$nest"
until_true are_left 6
kill -KILL "$pid"
ends 137
# The other of its two processes.
begin -n 2 sh -c "$nest"
until_true are_left 6
kill -KILL "$(pgrep -P "$pid")"
ends 1
says 'was killed; ended the ranks'
# In the middle of output that nobody reads.
mkfifo "$work/fifo"
"$nexar" run -n 2 sh -c "sleep $long & yes" >"$work/fifo" 2>/dev/null </dev/null &
pid=$!
exec 3<"$work/fifo"
until_true are_left 2
kill -KILL "$pid"
ends 137
exec 3<&-

echo "-- several"
# shellcheck disable=SC2016
together='i=0; until [ -e $W/$M.0 ] && [ -e $W/$M.1 ]; do : >$W/$M.$NEXAR_RANK; sleep 0.02; done; echo $M $NEXAR_JOIN'
W=$work M=a "$nexar" run -n 2 sh -c "$together" >"$work/a" &
W=$work M=b "$nexar" run -n 2 sh -c "$together" >"$work/b" &
wait
[ "$(cut -d ' ' -f 2- "$work/a" "$work/b" | sort -u | wc -l)" = 2 ] || fail "two runs share a join string"
what="two worlds at once"
"$nexar" run -n 2 "$nexar" ping 1 --count 20 >"$work/a" 2>&1 &
"$nexar" run -n 3 "$nexar" info --links >"$work/b" 2>&1 &
wait
has "$work/a" 'round trip' || fail "$what: $(cat "$work/a")"
[ "$(wc -l <"$work/b")" = 7 ] || fail "$what: $(cat "$work/b")"
run 0 -n 2 "$nexar" run -n 2 sh -c 'echo "inner $NEXAR_RANK"'
[ "$(sort "$work/out" | tr '\n' ' ')" = '[0] [0] inner 0 [0] [1] inner 1 [1] [0] inner 0 [1] [1] inner 1 ' ] ||
    fail "$what: nested"
run 0 -n 2 "$nexar" run -n 2 "$nexar" ping 1 --count 10
[ "$(grep -c 'round trip' "$work/out")" = 2 ] || fail "$what: nested worlds"
begin -n 2 "$nexar" run -n 2 sh -c "sleep $long & setsid sleep $long & exec sleep $long"
until_true are_left 12
kill -KILL "$pid"
ends 137
finish
