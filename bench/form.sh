#!/usr/bin/env bash
# form.sh - how long it takes until 16 ranks of this host are a world: started, joined,
# a hello sent to rank 0, and ended.
#
#     form.sh BUILD [TIMES [RANKS]]
#
# Runs examples/hello under `nexar run`, TIMES (9) times, over QUIC and as by default.
set -euo pipefail
case ${1:-} in
--help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit ;;
-*) echo "form.sh: unknown argument: $1; see form.sh --help" >&2 && exit 2 ;;
esac

build=${1:?the folder of a build}
times=${2:-9}
ranks=${3:-16}

# once TRANSPORTS: seconds.
once() {
    local start=$EPOCHREALTIME
    NEXAR_TRANSPORTS=$1 "$build/bin/nexar" run -n "$ranks" "$build/examples/hello" >/dev/null
    awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", b - a }'
}

for transports in quic auto; do
    for ((i = 0; i < times; i++)); do once "$transports"; done | sort -n |
        awk -v n="$ranks" -v t="$transports" '{ s[NR] = $1 }
            END { printf "%d ranks formed, said hello and ended, transports=%s: median %s s (%s to %s), wanted less than 1\n",
                n, t, s[int((NR + 1) / 2)], s[1], s[NR] }'
done
