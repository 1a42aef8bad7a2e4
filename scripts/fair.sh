#!/bin/bash
# fair.sh COMMAND [ARG]... - runs it with the kernel's automatic groups of sessions off, where this
# may be set, and puts that back when nobody needs it any more.
#
# With them on, a kernel was seen (Linux 6.18, 2 cores, 45 processes that poll and sleep) that let
# processes of other sessions, and its own workers, wait for up to 54 s, while those of one session
# went on: "BUG: workqueue lockup" in its log, and ranks held for dead that had done nothing.  Off,
# under the same load: 32 ms.  No test of a time bound means anything there.
set -uo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"
switch=${FAIR_SWITCH:-/proc/sys/kernel/sched_autogroup_enabled}
lock=${FAIR_LOCK:-/run/lock/nexar-fair}

if ! [ -w "$switch" ] || ! [ -w "$(dirname "$lock")" ]; then
    exec "$@"
fi
exec 9>>"$lock"
# All who run hold the lock together; the last one finds that it can have it alone.  Its file has
# something in it while the switch is to be put back.
flock -s 9
if [ "$(cat "$switch")" = 1 ]; then
    echo "fair: $switch is 0 while this runs"
    echo 1 >&9
    echo 0 >"$switch"
fi
finish() {
    if flock -n -x 9 && [ -s "$lock" ]; then
        echo 1 >"$switch"
        : >"$lock"
    fi
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
"$@" 9>&-
