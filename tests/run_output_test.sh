#!/bin/bash
# run_output_test.sh NEXAR - `nexar run` as a user meets it: what ranks print and read.
# Variables of the ranks stay as they are; functions are called by name; run_lib.sh has
# what is not assigned here.
# shellcheck disable=SC2016,SC2317,SC2154
set -uo pipefail
nexar=$1
# shellcheck source=tests/run_lib.sh disable=SC1091
. "$(dirname "$0")/run_lib.sh"

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

echo "-- at once"
# A program whose C library buffers what goes to a pipe prints each line at once: the second
# line needs an answer to the first.
mkfifo "$work/answer"
what="a line of a program that buffers"
: >"$work/out"
ANSWER=$work/answer "$nexar" run -n 1 perl -e 'print "asks\n"; open(my $from, "<", $ENV{ANSWER});
    print "heard ", <$from>; kill("SEGV", $$)' >"$work/out" 2>"$work/err" &
pid=$!
until_true has "$work/out" '^\[0\] asks$'
echo yes >"$work/answer"
wait "$pid"
[ $? = 139 ] || fail "$what: code"
prints '^\[0\] heard yes$'
says 'killed by signal 11'

what="what a rank printed stands before the line that names its failure"
"$nexar" run -n 2 sh -c 'i=0; while [ $i -lt 400 ]; do echo "line $i"; i=$((i + 1)); done
    [ $NEXAR_RANK = 1 ] || { : >"$0"; exec sleep 100; }
    until [ -e "$0" ]; do sleep 0.02; done; kill -KILL $$' "$work/printed" >"$work/out" 2>&1
[ $? = 137 ] || fail "$what: code"
[ "$(grep -c '^\[1\] line' "$work/out")" = 400 ] || fail "$what: lines of the failed rank are missing"
[ "$(grep -c '^\[0\] line' "$work/out")" = 400 ] || fail "$what: lines of the ended rank are missing"
[ "$(grep '^nexar run\|^\[1\]' "$work/out" | tail -n 1 | cut -c 1-9)" = "nexar run" ] || fail "$what"

echo "-- pty or pipe"
run 0 -n 2 sh -c 'test -t 1 && ! test -t 2 && ! test -t 0'
run 0 -n 2 --no-pty sh -c '! test -t 1 && ! test -t 2'
run 0 -n 1 --no-pty echo piped
[ "$(cat "$work/out")" = "[0] piped" ] || fail "$what: $(cat "$work/out")"
# No controlling terminal, and none to be had.
run 0 -n 1 bash -c '! : 2>/dev/null </dev/tty && test "$(ps -o tty= -p $$)" = "?"'
# Bytes go through unchanged, those that a terminal would translate too.
head -c 200000 /dev/urandom >"$work/bytes"
printf 'cr\r\ntab\teof\004intr\003stop\023\n' >>"$work/bytes"
for way in --no-prefix --no-pty ""; do
    # shellcheck disable=SC2086
    run 0 $way -n 1 cat "$work/bytes"
    if [ "$way" = --no-prefix ]; then cp "$work/bytes" "$work/want"; else sed 's/^/[0] /' "$work/bytes" >"$work/want"; fi
    cmp -s "$work/want" "$work/out" || fail "$what: bytes are changed"
done
# A program that asks for no colour in a file finds NO_COLOR instead of a pipe.
run 0 -n 2 sh -c 'test "$NO_COLOR" = 1'
NO_COLOR=0 run 0 -n 2 --no-pty sh -c 'test "$NO_COLOR" = 0'
# More ranks than ptys: the others get pipes, and one line says so.
few='mount -t devpts -o newinstance,ptmxmode=0666,max=2 devpts /dev/pts && mount --bind /dev/pts/ptmx /dev/ptmx'
if unshare -m sh -c "$few" 2>/dev/null; then
    what="more ranks than ptys"
    unshare -m sh -c "$few && exec '$nexar' run -n 4 sh -c 'test -t 1 && echo pty || echo pipe'" \
        >"$work/out" 2>"$work/err" || fail "$what: code"
    [ "$(grep -c pty "$work/out") $(grep -c pipe "$work/out")" = "2 2" ] || fail "$what"
    says '^nexar run: no pty for rank 2: No space left on device; '
    lines err 1
else
    echo "skipped: no mount namespace for a devpts of few ptys"
fi

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

finish
