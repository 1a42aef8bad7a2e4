#!/bin/bash
# torch_tests.sh PACKAGES [PYTEST-OPTION]... - the tests of nexar.torch.  PACKAGES: where the package
# nexar is, build/dev/python.  One line if all pass.
#
#   TORCH_VENV=build/venv-torch  a virtual environment with a CPU build of torch; made if not there
#   TORCH_SPEC=torch==2.13.0+cpu what pip installs into a new one
#   TORCH_PIP=                   options for pip, such as an index that has it
set -euo pipefail
packages=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
venv=${TORCH_VENV:-build/venv-torch}
read -ra options <<<"${TORCH_PIP:-}"

fail() {
    printf 'torch_tests: %s\n' "$1" >&2
    exit 1
}

make_venv() {
    python3 -m venv "$venv" || fail "python3 -m venv failed; install python3-venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${options[@]}" \
        "${TORCH_SPEC:-torch==2.13.0+cpu}" numpy pytest expecttest >"$venv.log" 2>&1 ||
        fail "pip found no CPU build of torch: $(tail -n 1 "$venv.log"); name an index with TORCH_PIP"
}

mkdir -p "$(dirname "$venv")"
(
    flock 9
    "$venv/bin/python" -c 'import torch, pytest' 2>/dev/null || make_venv
) 9>"$venv.lock"
venv=$(cd "$venv" && pwd)
export PATH=$venv/bin:$PATH PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
export TORCH_EXTENSIONS_DIR=${TORCH_EXTENSIONS_DIR:-$venv/ext}
cd python/tests/torch
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider --rootdir . -c /dev/null "$@"
