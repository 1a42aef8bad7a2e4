# lib.sh - what script tests share: a folder of their own, failures, waiting.
# Sourced; the shell needs no options set.
# shellcheck shell=bash
for variable in $(compgen -e | grep -E '^(NEXAR|SLURM|PMI|PMIX|OMPI)_'); do unset "$variable"; done
work=$(mktemp -d)
failed=0
trap 'end_all; rm -rf "$work"' EXIT

# The script's own children, should it be ended early.
end_all() {
    local pid
    for pid in $(jobs -p); do kill -KILL "$pid" 2>/dev/null; done
    wait 2>/dev/null
}

# fail WORDS: says so, with what the last command printed, and goes on.
fail() {
    echo "FAILED: $*"
    sed 's/^/  stdout: /' "$work/out" 2>/dev/null | head -n 20
    sed 's/^/  stderr: /' "$work/err" 2>/dev/null | head -n 20
    failed=1
}

# until_true COMMAND...: waits for it, up to a minute.
until_true() {
    local _
    for _ in $(seq 1200); do
        "$@" && return 0
        sleep 0.05
    done
    fail "never came true: $*"
    return 1
}

has() { grep -qE -- "$2" "$1" 2>/dev/null; }
gone() { ! kill -0 "$1" 2>/dev/null; }

finish() {
    [ $failed = 0 ] && echo "all as expected"
    exit $failed
}
