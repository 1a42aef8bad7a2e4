#!/bin/bash
# run_hosts_test.sh NEXAR HELLO - `nexar run --hosts` without another host: "ssh" is a script that
# does what sshd would do, on this machine.  net/ssh has the same with sshd.
# Variables of the ranks stay as they are; lib.sh has what is not assigned here.
# shellcheck disable=SC2016,SC2154,SC2317
set -uo pipefail
nexar=$1 hello=$2
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

long=100000.$$
none_left() { ! pgrep -f "^sleep $long\$" >/dev/null; }

# The host is the word before the command, which a login shell of a noisy user gets.
cat >"$work/rsh" <<'RSH'
#!/bin/bash
set -- "${@: -2}"
cd / || exit 1
unset "${!NEXAR_@}"
case $1 in
refuses) echo "rsh: no route to host" >&2; exit 255 ;;
noisy) exec bash -c "echo Welcome; printf 'no end'; $2" ;;
esac
HOST_NAME=$1 exec sh -c "$2"
RSH
chmod +x "$work/rsh"

run() {
    local want=$1 code
    shift
    what="nexar run $*"
    "$nexar" run --ssh "$work/rsh" "$@" >"$work/out" 2>"$work/err" </dev/null
    code=$?
    [ $code = "$want" ] || fail "$what: exit code $code, not $want"
    until_true none_left
}
says() { has "$work/err" "$1" || fail "$what: stderr lacks: $1"; }
quiet() { [ ! -s "$work/err" ] || fail "$what: writes to stderr"; }
printed() { printf '%s\n' "$@" | sort | cmp -s - <(sort "$work/out") || fail "$what: stdout is not: $*"; }

echo "-- output"
cd "$work" || exit 1
export NEXAR_LOG=error
run 0 --hosts a:2,me@b:1 sh -c 'echo $NEXAR_RANK of $NEXAR_WORLD_SIZE on $HOST_NAME in $PWD $NEXAR_LOG'
printed "[a:0] 0 of 3 on a in $work error" "[a:1] 1 of 3 on a in $work error" "[b:2] 2 of 3 on me@b in $work error"
quiet
run 0 --hosts a:2,b:2 "$hello"
[ "$(grep -c '^.a:0. hello from rank [0-3] of 4' "$work/out")" = 4 ] || fail "$what"
run 0 --hosts noisy:2 echo x
printed '[noisy:0] x' '[noisy:1] x'
run 0 --hosts a,b printf 'no end'
printed '[a:0] no end' '[b:1] no end'
run 0 --hosts a:11 sh -c '[ $NEXAR_RANK != 3 ] || echo x'
printed '[a: 3] x'
run 0 --no-prefix --hosts a,b sh -c '[ $NEXAR_RANK = 0 ] || head -c 3000000 /dev/zero'
[ "$(wc -c <"$work/out")" = 3000000 ] || fail "$what: bytes are lost"
run 0 --hosts a sh -c 'head -c 3000000 /dev/zero | tr "\0" x; echo'
[ "$(tr -cd x <"$work/out" | wc -c)" = 3000000 ] || fail "$what: bytes of a long line are lost"
what="a reader that ends"
"$nexar" run --ssh "$work/rsh" --hosts a:2 yes 2>"$work/err" | head -n 1 >"$work/out"
[ "${PIPESTATUS[0]}" = 141 ] || fail "$what: code"
what="input"
printf 'a\nb\n' | "$nexar" run --ssh "$work/rsh" --hosts a,b cat >"$work/out"
printed '[a:0] a' '[a:0] b'
run 0 --hosts a,b -- sh -c 'echo "$1"' sh "two  words 'q' \$x"
printed "[a:0] two  words 'q' \$x" "[b:1] two  words 'q' \$x"

echo "-- the command on the hosts"
mkdir "$work/it's here"
ln -s "$(realpath "$nexar")" "$work/it's here/nexar"
run 0 --remote-nexar "$work/it's here/nexar" --hosts a echo x
printed '[a:0] x'
run 1 --remote-nexar /none/nexar --hosts a,refuses true
says '^nexar run: a: rsh ended with code 127: nexar is not installed there: tried /none/nexar'
says '^nexar run: refuses: rsh ended with code 255: rsh: no route to host$'
[ "$(wc -l <"$work/err")" = 2 ] || fail "$what: more than a line for each host"

echo "-- ends"
run 3 --hosts a:2,b:2 sh -c "[ \$NEXAR_RANK != 3 ] || exit 3; exec sleep $long"
says '^nexar run: rank 3 \(b pid [0-9]+\) exited with code 3; ending the others$'
run 139 --hosts a,b sh -c "[ \$NEXAR_RANK != 1 ] || kill -SEGV \$\$; exec sleep $long"
run 2 --hosts a,b "$work/none"
says '^nexar run: a: cannot run .*/none: No such file or directory$'
says '^nexar run: b: cannot run .*/none: No such file or directory$'
# Found out only when it is run.
printf '#!/none/interpreter\n' >"$work/broken"
chmod +x "$work/broken"
run 2 --hosts a,b "$work/broken"
says '^nexar run: [ab]: cannot run .*/broken: No such file or directory'
run 0 --elastic --hosts a,b sh -c '[ $NEXAR_RANK = 0 ] || exit 3'
run 0 --hosts a bash -c "sleep $long & setsid sleep $long & disown -a; exit 0"
run 2 --hosts a,,b true
says '^nexar run: an entry of the host list is empty; accepted: node1:4,node2:4$'
run 2 --hosts a --host-timeout 1us true
run 1 --hostfile /none true
says 'cannot read the host file /none: No such file'
run 2 -n 3 --hosts a,b true
says '^nexar run: 3 ranks on 2 hosts with 2 slots; give more slots'
finish
