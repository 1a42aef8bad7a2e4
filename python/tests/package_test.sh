#!/bin/bash
# package_test.sh PYTHON PACKAGES - the tests of the Python package: those of one process, then
# those of worlds of 2 and 3 ranks.  77: what they need is not there.
set -euo pipefail
python=$1
packages=$2
here=$(cd "$(dirname "$0")" && pwd)

why=$("$python" -c 'import numpy, pytest' 2>&1) || {
    printf 'skipped: python3-numpy or python3-pytest is not there: %s\n' "${why##*$'\n'}"
    exit 77
}
cd "$here" # not where the sources of the package are
export PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
pytest() { "$python" -m pytest -q -p no:cacheprovider --rootdir "$here" "$@"; }

pytest "$here/alone"
for n in 2 3; do
    "$python" -m nexar run -n "$n" "$python" -m pytest -q -x -p no:cacheprovider --rootdir "$here" \
        "$here/world"
done
