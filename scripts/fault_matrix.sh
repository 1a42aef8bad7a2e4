#!/bin/bash
# fault_matrix.sh BUILD [--docs] [OPTION]... - every cell of the fault matrix, then the table
# of measured times; --docs puts it into docs/measurements/failures.md.  A cell that is later than it may
# be is run once more.  Other options are those of tests/faults/matrix.c.
set -uo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"
build=${1:?the folder of the built programs}
shift
docs=no
[ "${1:-}" = --docs ] && docs=yes && shift
top=$(cd "$(dirname "$0")/.." && pwd)
table=$(mktemp)
trap 'rm -f "$table"' EXIT

"$build/tests/faults/matrix" --tries 2 --table "$table" "$@" "$build/tests/net/wire"
code=$?
[ $code = 77 ] && echo "skipped: this needs root, network namespaces and /dev/net/tun" && exit 0
cat "$table"
if [ $docs = yes ]; then
    awk -v table="$table" '
        /^<!-- fault matrix -->$/ { print; while ((getline line < table) > 0) print line; skip = 1 }
        /^<!-- end -->$/ { if (skip) print ""; skip = 0 }
        !skip || /^<!-- end -->$/ { if ($0 !~ /^<!-- fault matrix -->$/) print }
    ' "$top/docs/measurements/failures.md" >"$table.md" && mv "$table.md" "$top/docs/measurements/failures.md"
fi
exit $code
