#!/usr/bin/env bash
# call_bench.sh - what a call of Python costs: two ranks of this host, by C, by the package nexar,
# by its facade nexar.mpi, and by mpi4py on the MPI of this machine.
#
#     call_bench.sh BUILD [ROUNDS]
#
# BUILD is a build folder.  PYTHON=python3 has NumPy, and mpi4py if that is to be compared.  The
# contenders run in turn; a figure is the median of the rounds, in us.  The last columns: us that
# nexar takes above C, and how many times longer mpi4py takes than nexar.
set -euo pipefail
case ${1:-} in
--help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" && exit ;;
-*) echo "call_bench.sh: unknown argument: $1; see call_bench.sh --help" >&2 && exit 2 ;;
esac

build=$(cd "${1:?a build folder}" && pwd)
rounds=${2:-5}
python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$build/python OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
nexar() { "$build/bin/nexar" run -n 2 --no-prefix "$@"; }
contenders=(c nexar facade)
if command -v mpirun >/dev/null && "$python" -c 'import mpi4py' 2>/dev/null; then
    contenders+=(mpi4py)
fi

for _ in $(seq "$rounds"); do
    for who in "${contenders[@]}"; do
        case $who in
        c) nexar "$build/bench/call_bench" ;;
        mpi4py) mpirun --allow-run-as-root --oversubscribe -n 2 "$python" "$here/call_bench.py" mpi4py ;;
        *) nexar "$python" "$here/call_bench.py" "$who" ;;
        esac | sed "s/^/$who /" >>"$work/all"
    done
done

"$python" - "$work/all" "${contenders[@]}" <<'END'
import sys
from collections import defaultdict
from statistics import median

took = defaultdict(list)
for line in open(sys.argv[1]):
    who, case, size, us = line.split()
    took[case, int(size), who].append(float(us))
of = {key: median(values) for key, values in took.items()}
whose = sys.argv[2:]
print("| call | bytes |", " | ".join(whose), "| nexar - C | mpi4py / nexar |")
print("|---|---|" + "---|" * (len(whose) + 2))
for case, size in dict.fromkeys((c, s) for c, s, _ in took):
    get = lambda who: of.get((case, size, who))
    c, mine, mpi = get("c"), get("nexar"), get("mpi4py")
    cells = [f"{get(who):.2f}" if get(who) else "" for who in whose]
    cells += [f"{mine - c:.2f}" if c else "", f"{mpi / mine:.2f}" if mpi else ""]
    print(f"| {case} | {size} |", " | ".join(cells), "|")
END
