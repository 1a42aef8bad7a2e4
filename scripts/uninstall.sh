#!/bin/bash
# uninstall.sh - removes what `make install` has installed.
#
#   DESTDIR= scripts/uninstall.sh MANIFEST   a file with the path of each installed file
#
# Files that are gone already are passed over.  Of the directories only those are removed that
# nexar has made for itself, and that are empty.
set -euo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"

manifest=${1:?the manifest of an installation}
root=${DESTDIR:-}
[ -r "$manifest" ] || {
    echo "uninstall: $manifest is not there: nothing was installed from this tree" >&2
    exit 1
}

removed=0
while read -r file || [ -n "$file" ]; do
    [ -e "$root$file" ] || [ -L "$root$file" ] || continue
    rm -f -- "$root$file"
    removed=$((removed + 1))
done <"$manifest"

# From the inside out: a directory called nexar, and those within.
while read -r file || [ -n "$file" ]; do
    dir=${file%/*}
    while [[ $dir == */nexar || $dir == */nexar/* ]]; do
        rmdir -- "$root$dir" 2>/dev/null || break
        dir=${dir%/*}
    done
done <"$manifest"
echo "uninstall: $removed files removed"
