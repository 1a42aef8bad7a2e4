#!/bin/bash
# elastic_guide_test.sh NEXAR EXAMPLES - the commands of docs/guide/elastic-jobs.md, as a reader
# types them, and what the page says that they print.
# shellcheck disable=SC2154 # lib.sh has what is not assigned here
set -uo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
page=$top/docs/guide/elastic-jobs.md
nexar=$(realpath "$1")
examples=$(realpath "$2")
# shellcheck source=tests/lib.sh disable=SC1091
. "$top/tests/lib.sh"

# The shell blocks of the page, in order.
awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$page" >"$work/commands"
[ "$(wc -l <"$work/commands")" -ge 7 ] || fail "the page has no commands"
cd "$work" || exit 1
PATH=$(dirname "$nexar"):$examples:$PATH bash commands >out 2>err || fail "the commands"

# The lines that the page shows, numbers of the loss aside.
sed -n 's/^    \(after step .*\|steps .*\)$/\1/p' "$page" >lines
[ "$(wc -l <lines)" = 3 ] || fail "the page shows other lines"
while read -r line; do
    has out "^${line/ 0.[0-9]*,/ 0\\.[0-9]+,}\$" || fail "the page shows: $line"
done <lines

# The loss is that of the undisturbed run.
loss() { sed -n 's/^steps 501 to 600: mean loss 0\.0*\([0-9]*\),.*/\1/p' "$@" | head -n 1; }
alone=$(loss alone)
together=$(cat rank? | loss)
off=$((together - alone))
[ $((1000 * ${off#-})) -le "$alone" ] || fail "the loss is $together millionths, alone it is $alone"
finish
