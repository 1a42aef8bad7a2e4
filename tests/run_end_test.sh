#!/bin/bash
# run_end_test.sh NEXAR - `nexar run` as a user meets it: exit codes, and that nothing is left behind.
# Variables of the ranks stay as they are; functions are called by name; run_lib.sh has
# what is not assigned here.
# shellcheck disable=SC2016,SC2317,SC2154
set -uo pipefail
nexar=$1
# shellcheck source=tests/run_lib.sh disable=SC1091
. "$(dirname "$0")/run_lib.sh"

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

finish
