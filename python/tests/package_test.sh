#!/bin/bash
# package_test.sh PYTHON PACKAGES [LIBRARY] - the tests of the Python package: of one process, then of
# worlds of 2 and 3 ranks.  LIBRARY: that of AddressSanitizer.  77: what they need is not there.
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
if [ $# -gt 2 ]; then # Python gives nothing back at its end: leaks are not looked for
    export LD_PRELOAD=$3 ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc
fi
pytest() { "$python" -m pytest -q -p no:cacheprovider --rootdir "$here" "$@"; }

pytest "$here/alone"
for n in 2 3; do
    "$python" -m nexar run -n "$n" "$python" -m pytest -q -x -p no:cacheprovider --rootdir "$here" \
        "$here/world"
done
