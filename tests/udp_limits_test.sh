#!/bin/bash
# udp_limits_test.sh NEXAR DENY UDP_TEST QUIC_CONFORMANCE_TEST - kernels and sandboxes that do not
# have what makes UDP fast: `nexar info` says so, and all goes on by what is left.
# shellcheck disable=SC2154 # lib.sh has what is not assigned here
set -uo pipefail
nexar=$1
deny=$2
udp_test=$3
conformance=$4
# shellcheck source=tests/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

all=udp_segment,udp_gro,recvmmsg

"$deny" $all true
if [ $? = 77 ]; then
    echo "left out: no seccomp here"
    exit 0
fi

# without LIST WORDS COMMAND...: which ends well.
without() {
    local list=$1 words=$2
    shift 2
    "$deny" "$list" "$@" >"$work/out" 2>"$work/err" || fail "$words without $list: exit code $?"
}

for list in udp_segment udp_gro recvmmsg $all; do
    without "$list" "nexar info" "$nexar" info
    for what in ${all//,/ }; do
        case ",$list," in
        *",$what,"*) has "$work/out" "^  $what +no$" || fail "info: $what is used without $list" ;;
        esac
    done
    without "$list" "udp_test" "$udp_test"
done
# Datagrams as between hosts: those to the same host are so long that each has a call of its own.
without recvmmsg "the conformance suite" "$conformance" far
without $all "the conformance suite" "$conformance" far
finish
