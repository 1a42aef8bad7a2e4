#!/usr/bin/env bash
# sizes.sh - for each size of message: copied behind its envelope (inline), sent at once
# as a part (eager), or sent when it is asked for.
#
#     sizes.sh BUILD [ROUNDS]
#
# BUILD is a build folder.  The three are run in turn; the table has the median of the
# rounds: half a round trip in us, GB/s one way with receives posted, GB/s received late.
set -euo pipefail
case ${1:-} in
--help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit ;;
-*) echo "sizes.sh: unknown argument: $1; see sizes.sh --help" >&2 && exit 2 ;;
esac

build=${1:?a build folder}
rounds=${2:-7}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# $1: a name; the rest: settings.
round() {
    local name=$1
    shift
    env "$@" "$build/bin/nexar" run -n 2 --no-prefix "$build/bench/sizes_bench" |
        sed "s/^/$name /" >>"$work/all"
}

for _ in $(seq "$rounds"); do
    round inline NEXAR_INLINE=32k NEXAR_EAGER=64m
    round eager NEXAR_INLINE=0 NEXAR_EAGER=64m
    round asked NEXAR_INLINE=0 NEXAR_EAGER=0
done

awk '
{ for (f = 3; f <= 5; f++) v[$1, $2, f, ++n[$1, $2, f]] = $f; sizes[$2] = 1 }
function median(a, s, f,   k, i, j, t, x) {
    k = n[a, s, f]
    for (i = 1; i <= k; i++) x[i] = v[a, s, f, i]
    for (i = 2; i <= k; i++) for (j = i; j > 1 && x[j - 1] > x[j]; j--) {
        t = x[j]; x[j] = x[j - 1]; x[j - 1] = t
    }
    return x[int((k + 1) / 2)]
}
END {
    printf "%9s | %8s %8s %8s | %8s %8s %8s | %8s %8s %8s\n", "bytes",
        "us inline", "eager", "asked", "GB/s inl.", "eager", "asked", "late inl.", "eager", "asked"
    for (s = 1024; s in sizes; s *= 2)
        printf "%9d | %9.1f %8.1f %8.1f | %9.2f %8.2f %8.2f | %9.2f %8.2f %8.2f\n", s,
            median("inline", s, 3), median("eager", s, 3), median("asked", s, 3),
            median("inline", s, 4), median("eager", s, 4), median("asked", s, 4),
            median("inline", s, 5), median("eager", s, 5), median("asked", s, 5)
}' "$work/all"
