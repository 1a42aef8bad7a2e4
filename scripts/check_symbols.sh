#!/bin/bash
# check_symbols.sh LIBRARY - what the shared library exports is what
# scripts/symbols.txt lists, and what include/nexar.h declares.
set -euo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"
library=$1
cd "$(dirname "$0")/.."

exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort)
# -fpreprocessed: only the comments go.
declared=$(gcc -w -fpreprocessed -dD -E -P include/nexar.h | grep -v '^#' | tr '\n' ' ' |
    grep -oE 'NEXAR_API [^;(]*\(' | sed -E 's/.*[ *]([a-z0-9_]+)\($/\1/' | sort)
listed=$(sort scripts/symbols.txt)

bad=0
diff <(echo "$listed") <(echo "$exported") >/dev/null || {
    echo "exports differ from scripts/symbols.txt (< listed, > exported):"
    diff <(echo "$listed") <(echo "$exported") || bad=1
}
diff <(echo "$declared") <(echo "$exported") >/dev/null || {
    echo "exports differ from include/nexar.h (< declared, > exported):"
    diff <(echo "$declared") <(echo "$exported") || bad=1
}
exit $bad
