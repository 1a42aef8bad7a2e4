#!/bin/bash
# model.sh - checks docs/internals/model/agree.pml and membership.pml with spin: all that can happen,
# in small groups, and that spin finds what is broken on purpose.
#
#   scripts/model.sh          everything: some minutes, most of them for the compiler
#   scripts/model.sh quick    three ranks only: what the tests run, where there is spin
set -euo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

quick=${1:-}
model=$PWD/docs/internals/model/agree.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v spin >/dev/null || {
    echo "spin is not installed (scripts/setup.sh check)"
    exit 77
}

failed=0

# check holds|breaks WHAT DEFINITION...
check() {
    local want=$1 what=$2 got=holds
    shift 2
    # Unoptimised: spin's program takes long to compile, and seconds to run.
    (cd "$work" && spin -a "$@" "$model" >spin.log && gcc -O0 -w -DSAFETY -DCOLLAPSE -DNOFAIR \
        -DMEMLIM=4000 -DVECTORSZ=2048 -o pan pan.c && ./pan -m1000000 >pan.log) || {
        cat "$work/spin.log"
        exit 1
    }
    grep -q 'errors: 0$' "$work/pan.log" || got=breaks
    # A search that was cut short has shown nothing.
    ! grep -q 'max search depth too small\|out of memory' "$work/pan.log" || got="not finished"
    printf '%-13s %-58s %9s states, depth %s\n' "$got" "$what" \
        "$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$work/pan.log")" \
        "$(sed -n 's/.*depth reached \([0-9]*\),.*/\1/p' "$work/pan.log")"
    [ "$got" = "$want" ] || failed=1
}

check holds "3 ranks, 2 crashes" -DN=3 -DCRASHES=2
check holds "3 ranks, majority, 1 crash, 2 false suspicions" \
    -DN=3 -DMAJORITY -DCRASHES=1 -DSUSPECTS=2
check holds "3 ranks, 2 leave, 2 crashes, 2 times by another path" -DN=3 -DLEAVE=3 -DCRASHES=2 -DINDIRECT=2
check breaks "broken: what was accepted is not brought along" -DN=3 -DCRASHES=2 -DBREAK=1
check breaks "broken: who has decided holds leavers for gone" -DN=3 -DLEAVE=6 -DCRASHES=0 -DBREAK=5
if [ "$quick" != quick ]; then
    check breaks "broken: ACK without waiting for the children" -DN=3 -DCRASHES=2 -DBREAK=2
    check breaks "broken: a minority goes on" \
        -DN=3 -DMAJORITY -DCRASHES=1 -DSUSPECTS=2 -DBREAK=3
    check breaks "broken: decides before all have accepted" -DN=3 -DCRASHES=2 -DBREAK=4
    check breaks "broken: a leaver takes it for a verdict that it has left" \
        -DN=3 -DLEAVE=6 -DCRASHES=1 -DINDIRECT=1 -DBREAK=6
    check breaks "broken: new neighbours are not told who has left" \
        -DN=4 -DLEAVE=6 -DCRASHES=1 -DBREAK=7
    check holds "3 ranks, 2 crashes, early" -DN=3 -DCRASHES=2 -DEARLY
    check holds "3 ranks, all leave, 2 crashes" -DN=3 -DLEAVE=7 -DCRASHES=2
    check holds "3 ranks, majority, 2 leave, 1 crash, 1 suspicion, indirect" \
        -DN=3 -DMAJORITY -DLEAVE=6 -DCRASHES=1 -DSUSPECTS=1 -DINDIRECT=1
    check holds "3 ranks, majority, 2 crashes, 3 false suspicions" \
        -DN=3 -DMAJORITY -DCRASHES=2 -DSUSPECTS=3
    check holds "4 ranks, 3 crashes" -DN=4 -DCRASHES=3
    check holds "4 ranks, 3 crashes, early" -DN=4 -DCRASHES=3 -DEARLY
    check holds "4 ranks, majority, 1 crash, 1 false suspicion" \
        -DN=4 -DMAJORITY -DCRASHES=1 -DSUSPECTS=1
    check holds "4 ranks, 2 leave, 2 crashes" -DN=4 -DLEAVE=10 -DCRASHES=2
    check holds "4 ranks, 2 leave, 1 crash, by another path" -DN=4 -DLEAVE=10 -DCRASHES=1 -DINDIRECT=1
fi

model=$PWD/docs/internals/model/membership.pml
check holds "membership: 3 ranks, 2 crashes" -DN=3 -DCRASHES=2
check holds "membership: 3 ranks, 1 crash, 1 suspicion" -DN=3 -DCRASHES=1 -DSUSPECTS=1
check breaks "broken: the end of a link ends operations before it is recorded" -DN=3 -DBREAK=1
check breaks "broken: a new target of the broadcast is not told what is kept" \
    -DN=4 -DCRASHES=2 -DBREAK=2
check breaks "broken: a second report notifies again" -DN=4 -DCRASHES=2 -DBREAK=3
check breaks "broken: a rank ends the operations of others by a frame" -DN=3 -DBREAK=4
check breaks "broken: operations end before the broadcast has begun" -DN=3 -DBREAK=5
if [ "$quick" != quick ]; then
    check holds "membership: 4 ranks, 2 crashes" -DN=4 -DCRASHES=2
fi
exit $failed
