#!/bin/bash
# cmd_test.sh NEXAR - the command as a user meets it: help, errors, info.
set -uo pipefail
nexar=$1

out=$(mktemp)
err=$(mktemp)
trap 'rm -f "$out" "$err"' EXIT
failed=0
for variable in $(compgen -e NEXAR_); do unset "$variable"; done

fail() {
    echo "FAILED: $*"
    sed 's/^/  stdout: /' "$out" | head -n 20
    sed 's/^/  stderr: /' "$err" | head -n 20
    failed=1
}

# run CODE [NAME=VALUE]... -- ARGUMENT...: the exit code must be CODE.
run() {
    local want=$1 code variables=()
    shift
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    what="${variables[*]} nexar $*"
    env "${variables[@]}" "$nexar" "$@" >"$out" 2>"$err"
    code=$?
    [ "$code" = "$want" ] || fail "$what: exit code $code, not $want"
}

# The last run printed this, and nothing to stderr.
prints() {
    grep -qF -- "$1" "$out" || fail "$what does not print: $1"
    [ ! -s "$err" ] || fail "$what writes to stderr"
}

# The last run printed nothing but one line to stderr, with each of these in it.
refuses() {
    local word
    [ ! -s "$out" ] || fail "$what prints beside its error"
    [ "$(wc -l <"$err")" = 1 ] || fail "$what does not give one line"
    grep -q '^nexar' "$err" || fail "$what does not say who speaks"
    for word in "$@"; do
        grep -qF -- "$word" "$err" || fail "$what does not name: $word"
    done
}

run 0 -- --version
prints "nexar "
run 0 -- --help
prints "usage: nexar COMMAND"
prints "  info "
run 0 -- help
prints "usage: nexar COMMAND"

commands=$("$nexar" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -v '^help$')
for command in $commands; do
    run 0 -- "$command" --help
    prints "usage: nexar $command"
    prints "--help"
    run 0 -- help "$command"
    prints "usage: nexar $command"
    run 2 -- "$command" --no-such-option
    refuses "--no-such-option" "accepted" "--help"
done

run 2 --
refuses "no command" "--help"
run 0 -- help help
prints "usage: nexar COMMAND"
run 2 -- hlep
refuses "hlep" "did you mean help?"
run 2 -- --verson
refuses "--verson" "did you mean --version?"
run 2 -- inf
refuses "inf" "did you mean info?" "accepted: run, seed, info"
run 2 -- --verbose
refuses "--verbose" "accepted"
run 2 -- help nothing
refuses "nothing" "accepted"
run 2 -- help info more
refuses "more"
run 2 -- --version more
refuses "more"
run 0 -- help --help
prints "usage: nexar COMMAND"
run 2 -- info extra
refuses "extra"
run 2 -- info --json=1
refuses "--json" "no value"
run 2 -- $'two\nlines'
refuses "two?lines"

run 0 -- info
prints "nexar "
for section in machine kernels settings algorithms selection; do
    grep -qx "$section" "$out" || fail "info has no section $section"
done
for row in transports ipv6 udp_segment udp_gro recvmmsg udp_rcvbuf udp_sndbuf; do
    grep -qE "^  $row +[^ ]+\$" "$out" || fail "info does not tell of $row"
done
for setting in log algorithms segment kernels; do
    grep -qE "^  $setting +[^ ]+ +default " "$out" || fail "info does not list $setting"
done
grep -qE '^  portable +yes ' "$out" || fail "info does not list the portable kernels"
[ "$(grep -cE '^  avx2|^  avx512|^  neon|^  portable' "$out")" = 4 ] || fail "info lacks a kernel path"
if grep -qE ' $' "$out"; then fail "info has blanks at the end of lines"; fi
unmeasured() { sed '/^waiting/,/^$/d' "$@"; } # each process measures these costs
"$nexar" info | unmeasured | cmp -s - <(unmeasured "$out") || fail "info differs from one run to the next"

# The manual knows every setting, and this version.
man=$(dirname "$0")/../man
sed -n '/^settings$/,/^$/s/^  \([a-z_]*\) .*/\1/p' "$out" | grep -v '^setting$' >"$err"
while read -r setting; do
    grep -qx ".BR $setting \", \" NEXAR_${setting^^}" "$man/nexar.7" || fail "nexar.7 lacks $setting"
done <"$err"
version=$("$nexar" --version)
for command in $commands; do
    [ -e "$man/nexar-$command.1" ] || fail "nexar $command has no page"
    grep -q "nexar..$command (1)" "$man/nexar.1" || fail "nexar.1 does not name nexar-$command(1)"
done
for page in "$man"/*; do
    grep -q "^\.TH .*\"$version\"" "$page" || fail "$page is not of $version"
done

run 0 -- info --json
prints '"settings": ['
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; info = json.load(sys.stdin); assert len(info["settings"]) >= 4' \
        <"$out" || fail "info --json is no JSON"
fi

run 0 NEXAR_SEGMENT=65536 NEXAR_KERNELS=portable -- info
grep -qE '^  segment +64k +environment +bytes ' "$out" || fail "NEXAR_SEGMENT is not shown"
grep -qE '^  portable +yes +yes$' "$out" || fail "NEXAR_KERNELS does not choose the kernels"

run 2 NEXAR_SEGMENT=1k -- info
refuses "segment" "NEXAR_SEGMENT" '"1k"' "from 4k to 1g"
run 2 NEXAR_LOG=loud -- info
refuses "log" "NEXAR_LOG" '"loud"' "error, warn, info or debug"
run 2 NEXAR_ALGORITHMS=allreduce:0-:comet -- info
refuses "algorithms" "comet"
unusable=$("$nexar" info | sed -nE 's/^  (neon|avx512|avx2) +no .*/\1/p' | head -n 1)
if [ -n "$unusable" ]; then
    run 2 NEXAR_KERNELS="$unusable" -- info
    refuses "kernels" "$unusable" "portable"
fi
run 0 NEXAR_SEGMNT=1m -- info
grep -qx 'nexar: warn: the variable NEXAR_SEGMNT is no setting and is ignored; did you mean NEXAR_SEGMENT?' "$err" ||
    fail "a mistyped variable is not warned of"
[ "$(wc -l <"$err")" = 1 ] || fail "a mistyped variable is warned of more than once"
run 0 NEXAR_SEGMNT=1m NEXAR_LOG=error -- info
prints "nexar "

if [ -w /dev/full ]; then
    "$nexar" info >/dev/full 2>"$err"
    [ $? = 1 ] || fail "a full disk is taken for success"
fi
[ $failed = 0 ] && echo "all as expected"
exit $failed
