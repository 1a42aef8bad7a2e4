#!/bin/bash
# pages.sh [--check] NEXAR - makes the pages and pictures of docs/ that have a source elsewhere.
# --check writes nothing and fails if one is out of date.
set -uo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.." || exit 1

check=()
[ "${1:-}" != --check ] || {
    check=(--check)
    shift
}
failed=0
scripts/api_pages.py "${check[@]}" markdown docs/reference/api || failed=1
scripts/reference_pages.py "${check[@]}" "$1" || failed=1
scripts/diagrams.py "${check[@]}" || failed=1
exit $failed
