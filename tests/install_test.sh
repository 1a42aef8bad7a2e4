#!/bin/bash
# install_test.sh CMAKE BUILD CC - installs a build into a temporary prefix, builds and runs
# programs against it by pkg-config and by find_package, in C and C++, and uninstalls it.
set -euo pipefail
cmake=$1
build=$2
cc=$3

top=$(cd "$(dirname "$0")/.." && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

"$cmake" --install "$build" --prefix "$prefix" >/dev/null
libdir=$(dirname "$(find "$prefix" -name libnexar.so)")
lib=${libdir#"$prefix"/}
so=$(basename "$(readlink "$libdir/libnexar.so")")
version=$("$prefix/bin/nexar" --version | cut -d ' ' -f 2)

# adapter NAME: the files of a component, if it was built.
adapter() {
    [ -e "$libdir/libnexar-$1.so" ] || return 0
    printf '%s\n' "./include/nexar_$1.h" "./$lib/libnexar-$1.so" \
        "./$lib/$(basename "$(readlink "$libdir/libnexar-$1.so")")" \
        "./$lib/libnexar-$1.so.$version" "./$lib/pkgconfig/nexar-$1.pc"
}

echo "-- files"
{
    adapter opencl
    adapter cuda
    cat <<EXPECTED
./bin/nexar
./include/nexar.h
./$lib/cmake/nexar/nexar-config-version.cmake
./$lib/cmake/nexar/nexar-config.cmake
./$lib/cmake/nexar/nexar-targets.cmake
./$lib/libnexar.so
./$lib/$so
./$lib/libnexar.so.$version
./$lib/pkgconfig/nexar.pc
./share/doc/nexar/LICENSE
./share/doc/nexar/README.md
./share/doc/nexar/CHANGELOG.md
$(cd "$top" && find docs -type f -printf './share/doc/nexar/%p\n')
$(cd "$top/examples" && printf './share/doc/nexar/examples/%s\n' *.[ch])
./share/man/man1/nexar-bench.1
./share/man/man1/nexar-completion.1
./share/man/man1/nexar-info.1
./share/man/man1/nexar-ping.1
./share/man/man1/nexar-plan.1
./share/man/man1/nexar-run.1
./share/man/man1/nexar-seed.1
./share/man/man1/nexar.1
$(cd "$build" && find man3 -type f -printf './share/man/%p\n' 2>/dev/null)
./share/man/man7/nexar.7
./share/bash-completion/completions/nexar
./share/fish/vendor_completions.d/nexar.fish
./share/zsh/site-functions/_nexar
EXPECTED
} | sort >"$prefix/expected"
# CMake names the file with the locations after the build's configuration.
(cd "$prefix" && find . \( -type f -o -type l \) ! -name expected ! -name 'nexar-targets-*.cmake' |
    sort) | diff "$prefix/expected" -

# The first program of the readme is the first example.
# shellcheck disable=SC2016 # backquotes as such
sed -n '/^```c$/,/^```$/{//!p}' "$top/README.md" >"$prefix/first.c"
diff "$prefix/first.c" "$top/examples/hello.c"
examples=$prefix/share/doc/nexar/examples
export LD_LIBRARY_PATH=$libdir
export PKG_CONFIG_PATH=$libdir/pkgconfig
for variable in $(compgen -e NEXAR_); do unset "$variable"; done

# hello PROGRAM: three ranks of it say hello.
hello() {
    [ "$("$prefix/bin/nexar" run -n 3 "$1" | grep -c '^\[0\] hello from rank [0-2] of 3 on ')" = 3 ]
}

echo "-- pkg-config"
[ "$(pkg-config --modversion nexar)" = "$version" ]
for example in hello send_recv allreduce sharded_optimizer; do
    # shellcheck disable=SC2046 # the flags are words
    "$cc" -Wall -Wextra -Wpedantic -Werror "$examples/$example.c" \
        $(pkg-config --cflags --libs nexar) -lm -o "$prefix/$example"
done
hello "$prefix/hello"
"$prefix/bin/nexar" run -n 2 "$prefix/send_recv" | sort

if [ -e "$libdir/libnexar-opencl.so" ]; then
    # shellcheck disable=SC2046 # the flags are words
    "$cc" -Wall -Wextra -Wpedantic -Werror "$examples/opencl_allreduce.c" \
        $(pkg-config --cflags --libs nexar-opencl) -lOpenCL -o "$prefix/opencl_allreduce"
fi

echo "-- find_package"
mkdir "$prefix/project"
cat >"$prefix/project/CMakeLists.txt" <<'PROJECT'
cmake_minimum_required(VERSION 3.25)
project(first LANGUAGES C)
find_package(nexar 0.1 REQUIRED)
add_executable(first ../first.c)
target_link_libraries(first PRIVATE nexar::nexar)
PROJECT
"$cmake" -G Ninja -S "$prefix/project" -B "$prefix/project/build" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
"$cmake" --build "$prefix/project/build" >/dev/null
hello "$prefix/project/build/first"

echo "-- the soname changes with a minor version before 1.0"
[ "$so" = "libnexar.so.$(cut -d . -f 1-2 <<<"$version")" ] || [ "${version%%.*}" != 0 ]

echo "-- C++ with the strictest casts"
cat >"$prefix/casts.cc" <<'CASTS'
#include <nexar.h>
int main()
{
    float x = 1;
    nexar_comm *world = nullptr;
    if (nexar_init(nullptr, &world) != NEXAR_OK) return 1;
    nexar_err err = nexar_allreduce(world, NEXAR_IN_PLACE, &x, 1, NEXAR_F32, NEXAR_SUM);
    bool found;
    if (err == NEXAR_OK) err = nexar_iprobe(world, NEXAR_ANY_SOURCE, NEXAR_ANY_TAG, &found, nullptr);
    nexar_finalize(world);
    return (err == NEXAR_OK && x == 1) ? 0 : 1;
}
CASTS
for cxx in g++ clang++; do
    command -v $cxx >/dev/null || continue
    # shellcheck disable=SC2046 # the flags are words
    $cxx -std=c++17 -Wall -Wextra -Wpedantic -Wold-style-cast -Wuseless-cast \
        -Wzero-as-null-pointer-constant -Wno-unknown-warning-option -Werror "$prefix/casts.cc" \
        $(pkg-config --cflags --libs nexar) -o "$prefix/casts"
    "$prefix/casts"
done

echo "-- man pages"
for page in "$prefix"/share/man/man*/*; do
    if command -v man >/dev/null && command -v groff >/dev/null; then
        warnings=$(MANWIDTH=80 man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
        [ -z "$warnings" ] || {
            echo "$page: $warnings"
            exit 1
        }
    fi
    if command -v mandoc >/dev/null; then
        mandoc -T lint -W warning "$page"
    fi
done
echo "-- uninstall"
mkdir "$prefix/stage"
DESTDIR=$prefix/stage "$cmake" --install "$build" --prefix /usr >/dev/null
(cd "$prefix/stage" && find . \( -type f -o -type l \) -printf '/%P\n') >"$prefix/manifest"
touch "$prefix/stage/usr/include/other.h"
DESTDIR=$prefix/stage "$top/scripts/uninstall.sh" "$prefix/manifest"
[ "$(cd "$prefix/stage" && find . ! -type d)" = ./usr/include/other.h ]
[ -z "$(find "$prefix/stage" -name nexar)" ]
[ -d "$prefix/stage/usr/lib" ] && [ -e "$prefix/bin/nexar" ]
DESTDIR=$prefix/stage "$top/scripts/uninstall.sh" "$prefix/manifest" # again: nothing to do
if "$top/scripts/uninstall.sh" "$prefix/nowhere" 2>/dev/null; then
    echo "an installation that is not there is uninstalled"
    exit 1
fi
echo "all as expected"
