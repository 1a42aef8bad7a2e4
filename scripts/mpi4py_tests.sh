#!/bin/bash
# mpi4py_tests.sh PYTHON PACKAGES [RANKS...] - runs mpi4py's own tests against nexar.mpi and prints how
# many pass, for 1 to 4 ranks or RANKS.  PACKAGES: where the package nexar is, build/dev/python.
#
#   MPI4PY=DIRECTORY  a source tree of mpi4py; without it pip downloads one to a temporary directory
#   FILES="..."       names of test files; those that concern what nexar has without it
#   SECONDS_EACH=600  for a file
#
# With --docs first the table goes to docs/guide/python.md.
set -euo pipefail
docs=
if [ "${1:-}" = --docs ]; then
    docs=$(cd "$(dirname "$0")/.." && pwd)/docs/guide/python.md
    shift
fi
python=$1
packages=$(cd "$2" && pwd)
shift 2
ranks=("$@")
[ ${#ranks[@]} -gt 0 ] || ranks=(1 2 3 4)
here=$(cd "$(dirname "$0")/../python/tests/mpi4py" && pwd)
read -ra files <<<"${FILES:-test_p2p_obj test_p2p_buf test_cco_obj test_cco_buf \
    test_p2p_obj_matched test_p2p_buf_matched test_cco_vec test_cco_nb_buf test_cco_nb_vec test_msgspec \
    test_status test_request test_op test_comm test_group test_info test_datatype test_exceptions}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${MPI4PY:-}" ]; then
    "$python" -m pip download --quiet --no-deps --no-binary mpi4py --dest "$work" mpi4py
    tar -xf "$work"/mpi4py-*.tar.gz -C "$work"
    MPI4PY=$(echo "$work"/mpi4py-*/)
fi
export PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
cd "$work"
for file in "${files[@]}"; do
    for n in "${ranks[@]}"; do
        timeout "${SECONDS_EACH:-600}" "$python" -m nexar run -n "$n" "$python" "$here/run_file.py" \
            "$MPI4PY/test" "$file.py" "$work/$file.$n" >"$work/$file.$n.log" 2>&1 ||
            printf '%s with %s ranks ended with an error:\n%s\n' "$file" "$n" \
                "$(tail -n 20 "$work/$file.$n.log")" >&2
    done
done
"$python" "$here/report.py" "$work" "${docs:--}" "${ranks[*]}" "${files[@]}"
