#!/bin/bash
# check.sh - everything about the code that is not a test, one line each:
# `ok` or `FAILED` with the details.  All run, whatever fails.
#
#   scripts/check.sh [NAME]...   all of them, or those named
# shellcheck disable=SC2317 # the checks are called by name
set -uo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.." || exit 1

jobs=${JOBS:-$(nproc)}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

sources() { find include src adapters python tests bench examples -name '*.[ch]' | sort; }
scripts() { find scripts tests python .ci -type f \( -name '*.sh' -o -path '.ci/*' \) | sort; }

# clang-format 14 by whatever name; other versions lay out some lines otherwise.
clang_format() {
    local name
    for name in clang-format-14 clang-format; do
        if "$name" --version 2>/dev/null | grep -q 'version 14\.'; then
            echo "$name"
            return
        fi
    done
}

# 77 says: skipped, and why.
check_format() {
    local tool
    tool=$(clang_format)
    [ -n "$tool" ] || {
        echo "needs clang-format 14; this machine has: $(clang-format --version 2>&1 | head -n 1)"
        return 77
    }
    sources | xargs "$tool" --dry-run -Werror
}

check_clang() {
    cmake --preset clang && cmake --build --preset clang -j "$jobs"
}

check_tidy() {
    local files
    files=$(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build/clang/compile_commands.json |
        grep -v /build/clang/ | sort -u)
    [ -n "$files" ] || {
        echo "build/clang/compile_commands.json names no file"
        return 1
    }
    # Two lines of statistics per file are not findings.
    echo "$files" | xargs -P "$jobs" -n 1 clang-tidy --quiet -p build/clang 2>&1 |
        grep -vE '^[0-9]+ warnings? (and [0-9]+ errors? )?generated|^Suppressed|^Use -header-filter'
    return "${PIPESTATUS[1]}"
}

check_cppcheck() {
    cppcheck --quiet -j "$jobs" --std=c11 --language=c --enable=warning,performance,portability \
        --inline-suppr --suppressions-list=scripts/cppcheck.txt --error-exitcode=1 -D_GNU_SOURCE \
        '-DNEXAR_VERSION="0"' -I include -I src -I tests/support -I tests/support/fake_cuda \
        -I adapters/opencl -I adapters/cuda -i bench/peers/gloo_bench.cc \
        include src adapters tests bench examples
}

check_names() { scripts/check_names.py; }

# Spelling: docs, public header, man pages and examples.
check_prose() {
    scripts/check_style.py
    codespell --quiet-level=2 --ignore-words=scripts/spelling.txt README.md CONTRIBUTING.md CHANGELOG.md \
        include docs man examples python/nexar python/examples scripts/*.sh scripts/*.py
}

# The command of the build that `clang` makes.
check_pages() { scripts/pages.sh --check build/clang/bin/nexar; }

check_layers() { scripts/check_layers.sh; }

check_symbols() { scripts/check_symbols.sh build/clang/libnexar.so; }

check_header() {
    local compiler
    for compiler in gcc clang; do
        "$compiler" -x c -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only include/nexar.h ||
            return 1
        "$compiler" -x c -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only -I include \
            adapters/cuda/nexar_cuda.h || return 1
    done
    for compiler in g++ clang++; do
        "$compiler" -x c++ -std=c++17 -Wall -Wextra -Werror -pedantic -fsyntax-only \
            include/nexar.h || return 1
    done
}

# All memory goes through base/alloc.c, so that tests can make it fail; their own
# does not, so that it does not.
check_alloc() {
    local word='(malloc|calloc|realloc|reallocarray|free|strn?dup|v?asprintf|aligned_alloc|posix_memalign)'
    ! grep -rnE "(^|[^a-zA-Z0-9_\"])$word *\(" src --include='*.[ch]' |
        grep -vE '^src/base/alloc\.c:|^[^:]*_test\.c:|:[0-9]+: *(/?\*|//)'
}

# System calls that can be interrupted, cut short or create a descriptor go through
# base/os/sys.h, which has one policy for each.  fopen and its kind: for commands only.
check_syscalls() {
    local call='read|write|p?readv?2?|p?writev?2?|recv|recvfrom|recvm?msg|send|sendto|sendm?msg'
    call+='|p?poll|p?select|epoll_p?wait2?|epoll_create1?|accept4?|connect|open|openat|creat'
    call+='|wait|wait[34]|waitp?id|u?sleep|(clock_)?nanosleep|f(data)?sync|syscall|getrandom'
    call+='|process_vm_(read|write)v|close|dup[23]?|f?truncate|(posix_)?fallocate|socket(pair)?'
    call+='|eventfd|timerfd_create|signalfd|memfd_create|pidfd_open|pipe2?|inotify_init1?'
    call+='|mko?stemp|shm_open|sem_(timed)?wait|pause|sigwait(info)?|v?dprintf|splice|sendfile'
    call+='|flock|lockf'
    local stdio='fopen|fdopen|freopen|tmpfile|popen|opendir'
    ! {
        grep -rnE "(^|[^a-zA-Z0-9_\">.])($call) *\(|F_DUPFD" src adapters --include='*.[ch]'
        grep -rnE "(^|[^a-zA-Z0-9_\">.])($stdio) *\(" src adapters --include='*.[ch]' \
            --exclude-dir=cmd
    } | grep -vE '^src/base/os/sys\.[ch]:|^[^:]*_(test|testing)\.[ch]:|:[0-9]+: *(/?\*|//)'
}

# No thread is cancelled in a public call: each says so, or is one that makes no system call, or hands
# on to one that says so.
check_cancel() {
    local free='nexar_(rank|size|shard|rpc_caller|comm_name|config_(set|get|free))'
    # shellcheck disable=SC2016 # they are awk's
    find src/core -name '*.c' ! -name '*_test.c' -print0 | xargs -0 awk -v free="^$free$" '
        FNR == 1 { name = "" }
        /^(nexar_err|void|int) nexar_[a-z_0-9]+\(/ {
            name = $2; sub(/\(.*/, "", name); said = 0
        }
        /NX_NOT_CANCELLED|return (nx_coll_wait|nx_coll_start)\(|[?=] (send_bytes|recv_spans)\(/ { said = 1 }
        /^}/ {
            if (name != "" && name !~ free && !said) {
                print FILENAME ": " name " does not say NX_NOT_CANCELLED (base/os/cancellation.h)"
                bad = 1
            }
            name = ""
        }
        END { exit bad }'
}

check_shell() { scripts | xargs shellcheck; }

run() {
    local name=$1 what=$2 code began=$SECONDS
    "check_$name" >"$log" 2>&1
    code=$?
    case $code in
    0) printf 'ok       %-9s %s (%ds)\n' "$name" "$what" $((SECONDS - began)) ;;
    77) printf 'skipped  %-9s %s: %s\n' "$name" "$what" "$(cat "$log")" ;;
    *)
        printf 'FAILED   %-9s %s\n' "$name" "$what"
        sed 's/^/    /' "$log"
        failed=1
        ;;
    esac
}

failed=0
for name in "$@"; do
    declare -F "check_$name" >/dev/null || {
        echo "there is no check $name" >&2
        exit 2
    }
done
while read -r name what; do
    case " ${*:-$name} " in *" $name "*) run "$name" "$what" ;; esac
done <<'CHECKS'
format   clang-format 14
names    no type, header or include guard is defined twice; folders are small
prose    banned phrases, long sentences, spelling
layers   who may include whom
alloc    memory comes from base/alloc.c only
syscalls calls that can be interrupted are in base/os/sys.c only
cancel   no public call can be cancelled
header   nexar.h compiles alone as C11 and C++17
shell    shellcheck of the scripts
clang    a build by clang, warnings are errors
pages    generated pages match the sources
symbols  exports, their list and the header agree
cppcheck cppcheck
tidy     clang-tidy
CHECKS
exit $failed
