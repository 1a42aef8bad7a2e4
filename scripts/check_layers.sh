#!/bin/bash
# check_layers.sh - the layer law: a layer includes itself and the layers named
# behind its colon, and nothing else.  coll and cluster never meet: what one
# must know of the other, core tells it.
set -euo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/../src"

bad=0
known=" "
while IFS=: read -r layer allowed; do
    known+="$layer "
    [ -d "$layer" ] || continue
    while IFS=: read -r file line include; do
        case " $layer $allowed " in
        *" $include "*) ;;
        *)
            echo "src/$file:$line: $layer may not include $include"
            bad=1
            ;;
        esac
    done < <(grep -rnoE '#include "[a-z_]+/' "$layer" | sed -E 's|#include "([a-z_]+)/|\1|')
done <<'RULES'
base:
reduce:base
wire:base
loop:base
device:base loop reduce
transport:base loop wire
msg:base loop wire transport
coll:base loop wire reduce device msg
rpc:base loop wire msg
cluster:base loop wire transport msg
core:base reduce wire loop device transport msg coll rpc cluster
cmd:base reduce wire loop device transport msg coll rpc cluster core
RULES

for layer in */; do
    case "$known" in
    *" ${layer%/} "*) ;;
    *)
        echo "src/$layer is a layer without a rule in scripts/check_layers.sh"
        bad=1
        ;;
    esac
done
exit $bad
