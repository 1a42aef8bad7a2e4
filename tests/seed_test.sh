#!/bin/bash
# seed_test.sh NEXAR - `nexar seed`, `nexar ping`, `nexar info --links` as a user
# meets them: strings and files, ranks started by hand, refusals, ends.
# Functions are called by name; lib.sh has what is not assigned here.
# shellcheck disable=SC2317,SC2154
set -uo pipefail
nexar=$1
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

# start NAME [VARIABLE=VALUE]... OPTION...: a seed in the background: $seed is its
# pid, $join what it printed, or wrote to the join file, which it named.
start() {
    local variables=() at
    name=$1
    shift
    while [[ $1 == *=* ]]; do
        variables+=("$1")
        shift
    done
    env --default-signal=INT "${variables[@]}" "$nexar" seed --listen 127.0.0.1 "$@" \
        >"$work/$name.out" 2>"$work/$name.err" </dev/null &
    seed=$!
    until_true has "$work/$name.out" . || return
    join=$(cat "$work/$name.out")
    at=$(sed -n 's/^the join string is in //p' "$work/$name.out")
    if [ -f "$at" ]; then join=$(cat "$at"); fi
}
# seed_ends CODE
seed_ends() {
    local code
    wait "$seed"
    code=$?
    [ $code = "$1" ] || fail "seed $name: exit code $code, not $1: $(cat "$work/$name.err")"
}
# rank NAME [VARIABLE=VALUE]... ARGUMENT...: `nexar ARGUMENT...` as a rank of the
# last seed, in the background; $pid.
rank() {
    local variables=() out=$1
    shift
    while [[ $1 == *=* ]]; do
        variables+=("$1")
        shift
    done
    env NEXAR_JOIN="$join" "${variables[@]}" "$nexar" "$@" >"$work/$out.out" 2>"$work/$out.err" </dev/null &
    pid=$!
}
# ends CODE PID NAME
ends() {
    local code
    wait "$2"
    code=$?
    [ $code = "$1" ] || fail "$3: exit code $code, not $1: $(cat "$work/$3.err")"
}
# run CODE ARGUMENT...: one line on stderr if CODE is not 0
run() {
    local want=$1 code
    shift
    what="nexar $*"
    "$nexar" "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ $code = "$want" ] || fail "$what: exit code $code, not $want"
    [ "$want" = 0 ] || [ "$(wc -l <"$work/err")" = 1 ] || fail "$what: not one line on stderr"
}
says() { has "$work/err" "$1" || fail "$what: stderr lacks: $1"; }
no_secret() {
    local token=${join%%@*}
    ! grep -qF -- "${token#nexar://}" "$@" || fail "the token is in $*"
}

echo "-- a job by hand"
start job --world 3 --join-file "$work/join"
[[ $join =~ ^nexar://[^@]+@127\.0\.0\.1:[0-9]+/\?pin=[^\ ]+$ ]] || fail "join string: $join"
[ "$(cat "$work/job.out")" = "the join string is in $work/join" ] || fail "with a join file: $(cat "$work/job.out")"
! has "$work/job.err" '--join-file' || fail "a hint at what was done"
[ "$(stat -c %a "$work/join")" = 600 ] || fail "the join file is not for its owner alone"
[ "$(find "$work" -name 'join*' -o -name '.nexar*' | wc -l)" = 1 ] || fail "more than the join file is left"
pids=()
for i in a b c; do
    rank $i NEXAR_TRANSPORTS=quic info --links
    pids+=("$pid")
done
for i in 0 1 2; do ends 0 "${pids[i]}" "$(cut -c $((i + 1)) <<<abc)"; done
seed_ends 0
cat "$work"/[abc].out >"$work/out"
[ "$(grep -cE '^[0-2] +[0-2] +quic +127\.0\.0\.1:[0-9]+ +127\.0\.0\.1:[0-9]+ +[0-9.]+ +[0-9]+ +[0-9]+ +setting transports$' "$work/out")" = 6 ] ||
    fail "links"
"$nexar" run -n 3 "$nexar" info --links >"$work/out" 2>"$work/err" || fail "links on one host: code"
[ "$(grep -cE '[0-2] +[0-2] +shm +pid [0-9]+ +pid [0-9]+ +- +- +0 +same host$' "$work/out")" = 6 ] ||
    fail "links on one host: $(cat "$work/out" "$work/err")"
for n in 1 2 3; do has "$work/job.err" "^nexar seed: .* has joined: $n of 3$" || fail "joined $n: $(cat "$work/job.err")"; done
has "$work/job.err" $'\033' && fail "control characters in a pipe"
no_secret "$work"/job.err "$work"/[abc].*

echo "-- a join file that is a descriptor"
mkfifo "$work/fifo"
cat "$work/fifo" >"$work/piped" &
reader=$!
start piped --world 2 --join-file /dev/fd/8 8>"$work/fifo"
wait "$reader" # the seed has closed its end
has "$work/piped" '^nexar://' || fail "the pipe did not get the join string"
! has "$work/piped.out" 'nexar://' || fail "the join string is printed as well"
kill -TERM "$seed"
seed_ends 143
start dash --world 2 --join-file -
[ "$(wc -l <"$work/dash.out")" = 1 ] || fail "standard output has the join string twice"
kill -TERM "$seed"
seed_ends 143
for n in 3 4 5 6 7 99; do # the first of them are descriptors of the seed's own
    run 2 seed --world 2 --listen 127.0.0.1 --join-file /dev/fd/$n 3>&- 4>&- 5>&- 6>&- 7>&-
    says "descriptor $n is not open"
done

echo "-- a join file that is no file"
# refused_at PATH WORDS
refused_at() {
    run 2 seed --world 2 --listen 127.0.0.1 --join-file "$1"
    says "cannot write the join file: $1 $2"
    [ ! -s "$work/out" ] || fail "$what: somebody gets the join string"
}
refused_at "$work/fifo" 'is a FIFO; give the name of a regular file, or /dev/fd/N for a pipe'
refused_at /dev/null 'is a device'
refused_at "$work" 'is a directory'
mkdir "$work/far"
: >"$work/far/there"
ln -s far/there "$work/link"
ln -s "$work/far/new" "$work/dangling"
refused_at "$work/link" 'is a symbolic link'
refused_at "$work/dangling" 'is a symbolic link'
[ -z "$(find "$work/far" -type f -size +0)" ] || fail "a symbolic link was followed"
run 2 run -n 1 --join-file "$work/link" true
says 'is a symbolic link'

echo "-- a join file that another user has planted"
as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
if [ "$(id -u)" != 0 ] || ! "${as_nobody[@]}" true; then
    echo "skipped: needs root, and setpriv"
else
    chmod 711 "$work"
    mkdir -m 1777 "$work/plant" # as /tmp is
    "${as_nobody[@]}" mkfifo -m 666 "$work/plant/fifo"
    "${as_nobody[@]}" cat "$work/plant/fifo" >"$work/stolen" &
    thief=$!
    "${as_nobody[@]}" touch "$work/plant/mine"
    "${as_nobody[@]}" chmod 666 "$work/plant/mine"
    "${as_nobody[@]}" ln -s mine "$work/plant/link"
    refused_at "$work/plant/fifo" 'is a FIFO'
    refused_at "$work/plant/link" 'is a symbolic link'
    run 1 seed --world 2 --listen 127.0.0.1 --join-file "$work/plant/mine"
    says 'belongs to another user \(65534; .*remove it, or give another name'
    [ ! -s "$work/plant/mine" ] || fail "a file of another user was written"
    kill "$thief"
    wait "$thief"
    [ ! -s "$work/stolen" ] || fail "a FIFO of another user got $(cat "$work/stolen")"
    chmod 777 "$work/plant"
    start exposed --world 2 --join-file "$work/plant/join"
    has "$work/exposed.err" 'every user can replace the join file .*sticky' || fail "no warning"
    kill -TERM "$seed"
    seed_ends 143
fi

echo "-- ranks that are asked for"
start asked --world 2
rank one NEXAR_RANK=1 ping 1 --count 10
one=$pid
until_true has "$work/asked.err" 'rank 1 '
rank taken NEXAR_RANK=1 ping 1
ends 2 "$pid" taken
has "$work/taken.err" '^nexar ping: .*rank 1 is taken by ' || fail "taken: $(cat "$work/taken.err")"
rank high NEXAR_RANK=2 ping 1
ends 2 "$pid" high
has "$work/high.err" '^nexar ping: .*rank 2 .*a world of 2 has ranks 0 to 1' || fail "too high: $(cat "$work/high.err")"
rank other NEXAR_WORLD_SIZE=5 ping 1
ends 2 "$pid" other
has "$work/other.err" 'a world of 5 .*has 2$' || fail "other size: $(cat "$work/other.err")"
[ "$(grep -c 'is taken by' "$work/asked.err")" = 1 ] || fail "the seed says it twice: $(cat "$work/asked.err")"
rank zero NEXAR_RANK=0 ping 1 --count 10
ends 0 "$pid" zero
ends 0 "$one" one
seed_ends 0
has "$work/zero.out" '^rank 0 - rank 1: round trip of 8 bytes, 10 times: median' || fail "ping: $(cat "$work/zero.out")"
[ "$(grep -c 'GB/s$' "$work/zero.out")" = 3 ] || fail "ping: $(cat "$work/zero.out")"

echo "-- ranks by the number that a launcher gives"
info_rank() { grep -E '^ *(rank|world_size) ' "$work/$1.out"; }
start launched --world 2
rank one SLURM_PROCID=1 SLURM_NTASKS=2 ping 1 --count 10
one=$pid
until_true has "$work/launched.err" 'rank 1 '
rank again SLURM_PROCID=1 ping 1
ends 2 "$pid" again
has "$work/again.err" 'rank 1 is taken by .*its rank is from SLURM_PROCID; with NEXAR_RANK=auto' ||
    fail "a number twice: $(cat "$work/again.err")"
rank wide PMI_RANK=0 PMI_SIZE=3 ping 1
ends 2 "$pid" wide
has "$work/wide.err" 'a world of 3 .*has 2 .*PMI_RANK' || fail "other size: $(cat "$work/wide.err")"
rank odd PMI_RANK=zero ping 1
ends 2 "$pid" odd
has "$work/odd.err" '^nexar ping: setting rank \(from PMI_RANK\): "zero" is not accepted' ||
    fail "no number: $(cat "$work/odd.err")"
rank shown SLURM_PROCID=1 SLURM_NTASKS=2 info
ends 0 "$pid" shown
[ "$(info_rank shown | awk '{ print $1, $2, $3 }')" = $'rank 1 SLURM_PROCID\nworld_size 2 SLURM_NTASKS' ] ||
    fail "info: $(info_rank shown)"
rank zero SLURM_PROCID=0 SLURM_NTASKS=2 ping 1 --count 10
ends 0 "$pid" zero
ends 0 "$one" one
seed_ends 0
has "$work/zero.out" '^rank 0 - rank 1: ' || fail "rank 0 is not that of SLURM_PROCID=0: $(cat "$work/zero.out")"
has "$work/one.out" . && fail "rank 1 is not that of SLURM_PROCID=1: $(cat "$work/one.out")"
# One that is no rank of a cluster is a world of its own; who starts ranks says which they are.
SLURM_PROCID=1 SLURM_NTASKS=2 "$nexar" info >"$work/alone.out"
[ "$(info_rank alone | awk '{ print $2, $3 }' | sort -u)" = $'0 default\nauto default' ] ||
    fail "alone: $(info_rank alone)"
SLURM_PROCID=7 SLURM_NTASKS=9 "$nexar" run -n 2 --no-prefix "$nexar" ping 1 --count 10 >"$work/out" 2>"$work/err" ||
    fail "nexar run below another launcher"
has "$work/out" '^rank 0 - rank 1: ' || fail "nexar run below another launcher: $(cat "$work/out")"

echo "-- a token that is wrong"
start token --world 2
good=$join
join=${good/nexar:\/\/????/nexar:\/\/AAAA}
rank bad ping 1
ends 1 "$pid" bad
has "$work/bad.err" '^nexar ping: .*token' || fail "wrong token: $(cat "$work/bad.err")"
join=nexar://nonsense
rank nonsense ping 1
ends 2 "$pid" nonsense
has "$work/nonsense.err" '^nexar ping: .*join' || fail "nonsense: $(cat "$work/nonsense.err")"
no_secret "$work/nonsense.err"
join=$good
kill -TERM "$seed"
seed_ends 143

echo "-- time-outs and ends"
start late NEXAR_FORMATION_TIMEOUT=500ms --world 3
rank alone NEXAR_RANK=1 ping 1
ends 1 "$pid" alone
seed_ends 1
has "$work/late.err" 'missing: ranks 0, 2' || fail "time-out at the seed: $(cat "$work/late.err")"
has "$work/alone.err" 'missing: ranks 0, 2' || fail "time-out at the rank: $(cat "$work/alone.err")"
start int --world 3
kill -INT "$seed"
seed_ends 130
# Ctrl-Z stops it, fg lets it go on.
is_stopped() { [[ $(ps -o stat= -p "$seed") == T* ]]; }
start stop --world 1
kill -TSTP "$seed"
until_true is_stopped
kill -CONT "$seed"
rank after ping 1
ends 2 "$pid" after
seed_ends 0

echo "-- a reader who has stopped reading"
mkfifo "$work/unread"
exec 7<>"$work/unread"
dd if=/dev/zero of="$work/unread" bs=4096 oflag=nonblock 2>/dev/null
"$nexar" seed --world 2 --listen 127.0.0.1 >"$work/deaf.out" 2>&7 </dev/null &
seed=$!
until_true has "$work/deaf.out" .
join=$(cat "$work/deaf.out")
rank d0 info --links
zero=$pid
rank d1 info --links
ends 0 "$pid" d1
ends 0 "$zero" d0
wait "$seed" || fail "a seed whose stderr nobody reads: exit code $?"
exec 7<&-

echo "-- it stays"
start keep --world 1 --keep
for i in 1 2; do
    rank k$i ping 1
    ends 2 "$pid" k$i
    has "$work/k$i.err" 'no rank 1 .*world of 1' || fail "keep: $(cat "$work/k$i.err")"
done
kill -0 "$seed" || fail "--keep does not stay"
kill -TERM "$seed"
seed_ends 143
# The time may be over for two who come together as well, on a busy machine.
both() {
    local zero
    rank b0 NEXAR_RANK=0 ping 1 --count 10
    zero=$pid
    rank b1 NEXAR_RANK=1 ping 1 --count 10
    wait "$pid" && wait "$zero"
}
start again NEXAR_FORMATION_TIMEOUT=1s --world 2 --keep
rank early NEXAR_RANK=1 ping 1
ends 1 "$pid" early
has "$work/early.err" 'missing: rank 0' || fail "kept, at the rank: $(cat "$work/early.err")"
until_true has "$work/again.err" 'missing: rank 0'
kill -0 "$seed" || fail "--keep does not stay when ranks do not come"
until_true both
kill -TERM "$seed"
seed_ends 143

echo "-- refusals"
start first --world 2
port=$(sed -E 's/.*:([0-9]+)\/.*/\1/' <<<"$join")
run 1 seed --world 2 --listen "127.0.0.1:$port"
says "127.0.0.1:$port.*in use"
kill -TERM "$seed"
seed_ends 143
run 2 seed
says 'how many ranks\? give --world N'
run 2 seed --world 0
NEXAR_MIN_WORLD=9 run 2 seed --world 2 --listen 127.0.0.1
says 'a world of 2 ranks is less than min_world 9$'
run 2 seed --world 2 extra
run 1 seed --world 2 --listen 127.0.0.1 --join-file "$work/none/join"
says "none/join: No such file"
if [ -w /dev/full ]; then
    "$nexar" seed --world 2 --listen 127.0.0.1 >/dev/full 2>"$work/err"
    [ $? = 1 ] || fail "a join string that nobody gets"
    says 'cannot write the join string'
fi
run 2 seed --world 2 --listen nowhere.invalid.address:x
run 2 ping
says 'which rank'
run 2 ping x
says 'not a rank: x'
run 2 ping 1
says 'nexar run -n 2 nexar ping 1'
run 2 info --links
says 'nexar run -n 4 nexar info --links'
"$nexar" run -n 2 "$nexar" ping 5 >"$work/out" 2>"$work/err"
[ $? = 2 ] || fail "ping beyond the world: code"
says '\[0\] nexar ping: there is no rank 5'
"$nexar" run -n 2 --no-prefix "$nexar" info --links --json >"$work/out" 2>"$work/err" || fail "links --json: code"
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; l = json.load(sys.stdin); assert [(x["rank"], x["to"]) for x in l] == [("0", "1"), ("1", "0")]' \
        <"$work/out" || fail "info --links --json"
fi

echo "-- secrets"
for form in "" --json; do
    # shellcheck disable=SC2086 # nothing, or a word
    NEXAR_JOIN="nexar://SECRETSECRET@127.0.0.1:1/?pin=x" "$nexar" info $form >"$work/out" 2>"$work/err"
    grep -q SECRETSECRET "$work/out" "$work/err" && fail "info shows the join string"
done
start printed --world 2
has "$work/printed.err" 'is a secret; --join-file FILE' || fail "nothing says that a log has the join string"
kill -TERM "$seed"
seed_ends 143
# A job that logs all it can, and everything done wrong with its join string.
mkdir "$work/secret" "$work/secret/qlog"
start secret --world 2 --join-file "$work/secret.join"
token=${join#nexar://}
token=${token%%@*}
pids=()
for r in 0 1; do
    NEXAR_JOIN=$join NEXAR_LOG=debug NEXAR_TRANSPORTS=quic NEXAR_QLOG_DIR="$work/secret/qlog" \
        "$nexar" ping 1 --count 1000000 >"$work/secret/rank$r" 2>&1 </dev/null &
    pids[r]=$!
done
until_true has "$work/secret.err" 'has formed'
grep -laF -- "$token" /proc/[0-9]*/cmdline >"$work/secret/argv" 2>/dev/null && fail "the token is in a command line"
catches_usr1() { (($((16#$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status"))) & 0x200)); }
for pid in "${pids[@]}"; do until_true catches_usr1 "$pid"; done # nexar_init installs the handler last
kill -USR1 "${pids[@]}"
until_true has "$work/secret/rank0" 'nexar: .*report'
n=0
wrong() {
    n=$((n + 1))
    env "$@" >"$work/secret/wrong$n" 2>&1 </dev/null && fail "accepted: ${*/$token/TOKEN}"
}
wrong NEXAR_LISTEN="$join" "$nexar" info --links
wrong NEXAR_ADVERTISE="$join" NEXAR_JOIN="$join" "$nexar" ping 1
wrong NEXAR_RANK="$join" "$nexar" info
wrong NEXAR_JOIN="x$join" "$nexar" ping 1
wrong NEXAR_JOIN="${join/@/}" "$nexar" ping 1
wrong NEXAR_JOIN="${join/\?pin=/?pin=x}" "$nexar" ping 1
wrong NEXAR_JOIN="nexar://$token@$token:1/?pin=$token" "$nexar" ping 1
wrong "$nexar" ping "$join"
wrong "$nexar" "$join"
wrong "$nexar" run -n "$join" true
wrong "$nexar" seed --world "$join"
wrong "$nexar" info "--json=$join"
kill -TERM "${pids[@]}"
wait "${pids[@]}"
kill -TERM "$seed"
seed_ends 143
grep -rlF -- "$token" "$work/secret" "$work/secret.out" "$work/secret.err" && fail "the token is in these"
! rm "$work/secret.join" && fail "the join file is gone"

echo "-- who is missing, when asked"
NEXAR_STALL_REPORT=200ms "$nexar" seed --world 2 --listen 127.0.0.1 --join-file "$work/ask.join" \
    >"$work/ask.out" 2>"$work/ask.err" &
asked=$!
until_true test -s "$work/ask.join"
kill -USR1 "$asked"
until_true has "$work/ask.err" '^nexar seed: the world has not formed: 0 of 2 ranks have joined; missing: ranks 0-1$'
join=$(cat "$work/ask.join")
rank k0 info --links
until_true has "$work/ask.err" '^nexar seed: the world has not formed after [0-9.]+ s: 1 of 2 ranks have joined; missing: rank 1;'
rank k1 info --links
wait "$asked" || fail "the seed that was asked: $(cat "$work/ask.err")"
wait

echo "-- a live line on a terminal"
if command -v script >/dev/null; then
    script -qefc "stty cols 60; '$nexar' seed --world 2 --listen 127.0.0.1 --join-file $work/live.join" /dev/null \
        </dev/null >"$work/live" &
    terminal=$!
    until_true test -s "$work/live.join"
    join=$(cat "$work/live.join")
    rank l0 info --links
    until_true has "$work/live" '1 of 2 ranks'
    rank l1 info --links
    wait "$terminal" || fail "the seed on a terminal: $(cat "$work/live")"
    wait
    has "$work/live" $'\r\033\\[K' || fail "the live line is not taken back"
    longest=$(tr '\r' '\n' <"$work/live" | grep 'of 2 ranks' | awk '{ print length($0) }' | sort -n | tail -n 1)
    [ "$longest" -le 63 ] || fail "the live line wraps: $longest"
fi
echo "-- a state is made before the seed starts, with a key and a token from elsewhere"
init() { "$nexar" seed --world 2 --listen 127.0.0.1 "$@" >"$work/out" 2>"$work/err"; }
init --state "$work/made" --init || fail "--init: exit code $?"
has "$work/out" '^nexar://.{43}@127\.0\.0\.1:[0-9]+/\?pin=' || fail "--init prints no join string"
cp "$work/out" "$work/promised"
init --state "$work/made" --init || fail "--init again: exit code $?"
cmp -s "$work/out" "$work/promised" || fail "--init again prints another join string"
start made --world 2 --state "$work/made"
[ "$join" = "$(cat "$work/promised")" ] || fail "the seed has another join string than --init"
rank made0 NEXAR_RANK=0 ping 1 --count 2
first=$pid
rank made1 NEXAR_RANK=1 ping 1 --count 2
ends 0 "$first" made0
ends 0 "$pid" made1
kill "$seed" 2>/dev/null
wait "$seed"
init --init && fail "--init without --state"
has "$work/err" '--state' || fail "--init does not ask for --state"
(umask 077 && cat >"$work/key") <<'KEY' # for this test alone
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0wON1c2rJPPiSfJv
PgD8YOnFsw2oi2CblkrFmRTtA4ShRANCAATllNN1P7igvnUbosrtU6BuwuutpT65
4d7Xc2j9qGIS3gabFiL0sSmowXHuG9sQ+VbRBjI5jHuczLu8AVAtT9Rl
-----END PRIVATE KEY-----
KEY
init --state "$work/keyed" --init --key "$work/key" || fail "--key: exit code $?"
cp "$work/out" "$work/promised"
init --state "$work/keyed2" --init --key "$work/key" || fail "--key again: exit code $?"
[ "$(sed 's/.*pin=//' "$work/out")" = "$(sed 's/.*pin=//' "$work/promised")" ] ||
    fail "the same key has another pin"
init --state "$work/made" --init --key "$work/key" && fail "a state with another key"
has "$work/err" 'another key' || fail "a state with another key: $(cat "$work/err")"
echo none >"$work/key"
init --state "$work/keyed3" --init --key "$work/key" && fail "a key that is none"
has "$work/err" 'ECDSA P-256' || fail "a key that is none: $(cat "$work/err")"

finish
