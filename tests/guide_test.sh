#!/bin/bash
# guide_test.sh NEXAR LIBRARY-FOLDER CC - what the pages of docs/guide show, as a reader types it: every
# whole C program is compiled, and every command that starts ranks on this host runs.  Commands for
# several hosts and other launchers have tests of their own (launchers_*, run_hosts_test, slurm_run_test),
# and so have python.md and elastic-jobs.md.
# shellcheck disable=SC2154 # lib.sh has what is not assigned here
set -uo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
nexar=$(realpath "$1")
library=$(realpath "$2")
cc=$3
# shellcheck source=tests/lib.sh disable=SC1091
. "$top/tests/lib.sh"
PATH=$(dirname "$nexar"):$PATH
cd "$work" || exit 1

# programs PAGE: its whole C programs, in files 1.c, 2.c ...; prints how many there are.
programs() {
    awk '/^```c$/ { text = ""; inside = 1; next }
         /^```$/ && inside { inside = 0; if (text ~ /int main\(/) { printf "%s", text >(++n ".c") } }
         inside { text = text $0 "\n" }
         END { print n + 0 }' "$1"
}

# commands PAGE: indented lines that start ranks on this host.
commands() {
    sed -nE 's/^    (([A-Z_]+=[^ ]+ )*nexar (run -n|bench|plan|info|ping) .*)$/\1/p' "$1" | sed 's/  *#.*//' |
        grep -v /missing
}

compiled=0 ran=0
for page in "$top"/docs/guide/*.md; do
    name=$(basename "$page")
    case $name in python.md | pytorch.md | elastic-jobs.md) continue ;; esac
    n=$(programs "$page")
    for i in $(seq "$n"); do
        "$cc" -std=c11 -Wall -Wextra -Werror -I "$top/include" "$i.c" -L "$library" -lnexar \
            -Wl,-rpath,"$library" -o program >out 2>err || fail "$name: program $i does not compile"
        compiled=$((compiled + 1))
    done
    while read -r command; do
        # The name by which the page runs its program.
        own=$(grep -oE '\./[a-z_]+' <<<"$command" | head -n 1)
        [ -z "$own" ] || cp program "$own"
        bash -c "$command" >out 2>err </dev/null || fail "$name: $command: exit code $?"
        [ -s out ] || [ -n "$own" ] || fail "$name: $command: prints nothing"
        ran=$((ran + 1))
    done < <(commands "$page")
done
[ "$compiled" -ge 2 ] || fail "$compiled programs in the guide"
[ "$ran" -ge 4 ] || fail "$ran commands in the guide"
echo "$compiled programs, $ran commands"
finish
