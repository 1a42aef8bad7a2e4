#!/bin/bash
# run_start_test.sh NEXAR - `nexar run`: what ranks start with, and words about wrong starts.
# Variables of the ranks stay as they are; functions are called by name; run_lib.sh has
# what is not assigned here.
# shellcheck disable=SC2016,SC2317,SC2154
set -uo pipefail
nexar=$1
# shellcheck source=tests/run_lib.sh disable=SC1091
. "$(dirname "$0")/run_lib.sh"

# refuses WORDS: the last run ended with code 2 and one line, which has them.
refuses() {
    says "$1"
    lines err 1
}

echo "-- environment and directory"
run 0 -n 2 sh -c 'echo "$NEXAR_LOCAL_RANK of $NEXAR_LOCAL_SIZE"'
printf '[%d] %d of 2\n' 0 0 1 1 | cmp -s - <(sort "$work/out") || fail "$what: $(cat "$work/out")"
run 0 -n 2 "$nexar" info --json
quiet # the variables for programs are no unknown settings
NAMED=given run 0 --env A=1 --env B= --env=C=x=y --env NAMED --env A=2 -n 1 sh -c 'echo "$A|$B|$C|$NAMED"'
prints '^\[0\] 2\|\|x=y\|given$'
run 0 --env NEXAR_RANK=7 --env NO_COLOR= -n 1 sh -c 'echo "$NEXAR_RANK|$NO_COLOR"'
prints '^\[0\] 0\|$'
run 2 --env NO_SUCH_VARIABLE -n 1 true
refuses '--env NO_SUCH_VARIABLE: not set here; give NO_SUCH_VARIABLE=VALUE$'
run 2 --env =x -n 1 true
refuses '--env =x: not accepted; give NAME or NAME=VALUE$'
mkdir "$work/place"
printf '#!/bin/sh\npwd\n' >"$work/place/where"
chmod +x "$work/place/where"
run 0 --cwd "$work/place" -n 1 ./where
[ "$(cat "$work/out")" = "[0] $(cd "$work/place" && pwd -P)" ] || fail "$what: $(cat "$work/out")"
run 2 --cwd "$work/nowhere" -n 1 true
refuses '^nexar run: --cwd .*nowhere: No such file or directory$'

echo "-- cores"
cpus=$(nproc)
run 0 --bind core -n 1 sh -c 'grep Cpus_allowed_list /proc/self/status'
core=$(sed -n 's/.*Cpus_allowed_list:[[:space:]]*//p' "$work/out" | sed 's/[-,].*//')
want=$(cat "/sys/devices/system/cpu/cpu$core/topology/thread_siblings_list" 2>/dev/null || echo "$core")
[ "$(sed -n 's/.*Cpus_allowed_list:[[:space:]]*//p' "$work/out")" = "$want" ] || fail "$what: $(cat "$work/out"), not $want"
run 0 --bind none -n 1 nproc
prints "^.0. $cpus$"
run 0 --bind core -n $((cpus + 1)) true
refuses "^nexar run: --bind core: $((cpus + 1)) ranks share [0-9]+ cores?$"
if [ "$cpus" -gt 1 ] && [ "$(sort -u /sys/devices/system/cpu/cpu*/topology/thread_siblings_list | wc -l)" -gt 1 ]; then
    run 0 --bind core -n 2 sh -c 'grep Cpus_allowed_list /proc/self/status'
    [ "$(cut -d : -f 2 "$work/out" | sort -u | wc -l)" = 2 ] || fail "$what: two ranks on one core"
fi
run 2 --bind socket -n 1 true
refuses '--bind socket: not accepted; give core or none$'

echo "-- wrong starts"
run 2 ./hello -n 2
refuses 'how many ranks[?] options of nexar run precede the program: nexar run -n N ./hello$'
run 2 ./hello --ranks=2
refuses 'options of nexar run precede the program'
run 2 ./hello
refuses 'how many ranks[?] give -n N'
run 0 -n 1 echo -n 2
prints '^\[0\] 2$' # the program may have such an option
(cd "$work/place" && "$nexar" run -n 2 where) >"$work/out" 2>"$work/err"
[ $? = 2 ] || fail "a program of this directory: code"
refuses '^nexar run: cannot run where: No such file or directory; did you mean ./where[?]$'
run 2 -n 2 --no-prefx true
refuses 'unknown option --no-prefx, did you mean --no-prefix[?]'

echo "-- a cluster elsewhere"
"$nexar" seed --world 3 --join-file "$work/join" >"$work/seed.out" 2>"$work/seed.err" &
seed=$!
until_true test -s "$work/join"
NEXAR_RANK=2 NEXAR_JOIN=$(cat "$work/join") NEXAR_WORLD_SIZE=3 "$nexar" info --links >"$work/third" 2>&1 &
third=$!
NEXAR_JOIN=$(cat "$work/join") SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0 run 0 -n 2 "$nexar" info --links
wait "$third" || fail "the rank beside: $(cat "$work/third")"
wait "$seed" || fail "the seed: $(cat "$work/seed.err")"
[ "$(cat "$work/out" "$work/third" | grep -cE '(shm|quic)')" -ge 3 ] || fail "$what: not one world of three"
NEXAR_JOIN=nexar://x run 3 -n 2 sh -c '[ $NEXAR_LOCAL_RANK = 0 ] || exec sleep 100000; exit 3'
says '^nexar run: process 0 \(pid [0-9]+\) exited with code 3; ending the others$'
NEXAR_JOIN='' run 2 -n 2 true
refuses 'NEXAR_JOIN is set and empty; unset it, or give a join string$'
NEXAR_JOIN=nexar://x NEXAR_RANK=1 run 2 -n 2 true
refuses 'NEXAR_RANK is 1, but the processes join the cluster of NEXAR_JOIN, .*; unset NEXAR_RANK$'
NEXAR_JOIN=nexar://x run 2 -n 2 --join-file "$work/other" true
refuses '--join-file .*other: the processes join the cluster of NEXAR_JOIN'
# What is no rank's own address is in the join file: that of an interface other than the loopback.
run 0 -n 1 --join-file "$work/reach" sh -c 'echo $NEXAR_JOIN'
if ip -o addr show scope global up 2>/dev/null | grep -q inet; then
    sed 's/.*@//; s,/.*,,' "$work/reach" | tr , '\n' | grep -qvE '^(127\.|\[::1\])' ||
        fail "$what: no other host can reach $(cat "$work/reach")"
fi
run 0 -n 1 sh -c 'echo $NEXAR_JOIN'
prints '@127\.0\.0\.1:[0-9]+/'

finish
