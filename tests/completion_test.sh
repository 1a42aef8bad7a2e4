#!/bin/bash
# completion_test.sh NEXAR - scripts of `nexar completion`: they parse, and bash completes.
# Functions are called by name; lib.sh has what is not assigned here.
# shellcheck disable=SC2154,SC2317
set -uo pipefail
nexar=$1
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

for shell in bash zsh fish; do
    "$nexar" completion $shell >"$work/$shell" 2>"$work/err" || fail "no script for $shell"
    if command -v $shell >/dev/null; then
        $shell -n "$work/$shell" || fail "$shell does not parse its script"
    else
        echo "skipped: $shell is not installed: its script is not parsed"
    fi
    # Each option of each command is in it.
    for command in $("$nexar" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -v '^help$'); do
        has "$work/$shell" "\\b$command\\b" || fail "$shell: no $command"
        for option in $("$nexar" "$command" --help | grep -oE '^  (-.,? )?--[a-z-]+' | grep -oE '[a-z-]{3,}$'); do
            option=${option#--}
            [ "$option" = help ] || has "$work/$shell" "(--|-l )$option\\b" ||
                fail "$shell: $command has no $option"
        done
    done
done

# completes WORD... -- EXPECTED...: what bash offers for the last word.
completes() {
    local words=() expected
    while [ "$1" != -- ]; do
        words+=("$1")
        shift
    done
    shift
    expected=$(printf '%s\n' "$@" | sort | tr '\n' ' ')
    COMP_WORDS=(nexar "${words[@]}") COMP_CWORD=${#words[@]}
    _nexar 2>/dev/null
    [ "$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')" = "$expected" ] ||
        fail "bash: nexar ${words[*]}: ${COMPREPLY[*]}"
}
compopt() { echo "$*" >"$work/compopt"; }
# shellcheck disable=SC1091
. "$work/bash"
completes se -- seed
completes h -- help
completes help be -- bench
completes run --el -- --elastic
completes run --no -- --no-prefix --no-pty
completes run -n 4 --bi -- --bind
completes run --bind "" -- core none
completes run --bind = c -- core
completes run --ranks = 4 --e -- --elastic --env
completes run --grace "" -- ""
completes seed --join-file "" -- ""
[ "$(cat "$work/compopt")" = "-o default" ] || fail "bash: no files for --join-file"
# A program behind the options, and files as its arguments.
rm "$work/compopt"
completes run -n 2 nexar-no-such-progra -- ""
COMP_WORDS=(nexar run -n 2 bas) COMP_CWORD=4
_nexar 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}" | grep -qx bash || fail "bash: no program"
rm -f "$work/compopt"
completes run -n 2 ./hello --el -- ""
[ "$(cat "$work/compopt")" = "-o default" ] || fail "bash: no files behind the program"

"$nexar" completion tcsh 2>"$work/err" && fail "a script for tcsh"
has "$work/err" '^nexar completion: no script for tcsh; accepted: bash, zsh, fish$' || fail "tcsh: $(cat "$work/err")"
finish
