#!/bin/bash
# mtu_test.sh - hosts with the MTU $2 of ordinary, odd and jumbo networks exchange
# messages, and find out how large a datagram may be.
# shellcheck source=tests/net/lib.sh disable=SC1091
source "$(dirname "$0")/lib.sh"

mtu=$case
bridge_hosts 3 "$mtu"
exchange_on 3 $((12 + long * 36)) $((2000000 + long * 30000000))

# 28 bytes are IPv4 and UDP, 48 IPv6 and UDP; the endpoint's largest datagram is 61440.
limit=$((mtu - 28 < 61440 ? mtu - 28 : 61440))
# ngtcp2 0.12 probes sizes of its own: docs/guide/networks.md.
info=$("$nexar" info)
if grep -qE '^ *ngtcp2 +0\.12' <<<"$info" && [ "$limit" -lt 61440 ]; then
    limit=$((limit < 1444 ? 1232 : 1444))
fi
found_limit() {
    links_on 3
    awk -v most="$limit" '$5 !~ /^10\.90\.0\.|^\[fd90:/ || $6 <= 0 || $7 > most { exit 1 }' \
        "$work/links" || fail "a link is not on the network, or too large for it"
    awk -v most="$limit" '$7 < most - 20 { exit 1 }' "$work/links"
}
# Each attempt has new links, and probing may not be over when they are listed.
until found_limit; do
    [ $SECONDS -lt 120 ] || fail "the path MTU is not found"
done
echo "ok: MTU $mtu"
