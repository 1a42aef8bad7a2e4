#!/bin/bash
# setup_test.sh SETUP - scripts/setup.sh against an apt that only pretends: a machine that has
# nothing, one that has all, one whose release has no libngtcp2 that is new enough.
setup=$1
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=/dev/null
SUITE=$(. /etc/os-release && echo "$VERSION_CODENAME")
export SUITE

# The pretended machine: what is installed is a file each in $work/have, versions of Debian's
# packages are by suite.  apt-cache writes on long after what is looked for has come, as the real
# one may: a reader that has gone by then ends it.
bin=$work/bin
mkdir -p "$bin" "$work/have"
cat >"$bin/dpkg-query" <<'FAKE'
#!/bin/bash
for name; do :; done
[ -e "$HAVE/$name" ] && echo "installed $(cat "$HAVE/$name")"
FAKE
cat >"$bin/apt-cache" <<'FAKE'
#!/bin/bash
case "$1 $2" in
"policy libngtcp2"*) echo "  Candidate: 0.12.1" ;;
"policy $ABSENT") ;;
policy*) echo "  Candidate: 1.0" ;;
madison*)
    [ "$2" = base-files ] || [ -z "$BACKPORTS" ] ||
        echo "$2 | 1.11.0 | a-mirror $SUITE-backports/main amd64 Packages"
    for _ in $(seq 5000); do
        echo "$2 | 0.12.1 | a-mirror $SUITE/main amd64 Packages"
    done
    ;;
esac
FAKE
cat >"$bin/apt-get" <<'FAKE'
#!/bin/bash
echo "$*" >>"$HAVE.log"
version=1.0
case "$*" in *$SUITE-backports*) version=1.11.0 ;; esac
case "$*" in
*install*" $BROKEN"*) exit 100 ;;
*install*)
    for name; do
        case $name in -* | "$SUITE-backports" | install | *=*) ;; *) echo $version >"$HAVE/$name" ;; esac
    done
    ;;
esac
FAKE
printf '#!/bin/bash\n"$@"\n' >"$bin/sudo"
printf '#!/bin/bash\ncat >/dev/null\n' >"$bin/tee" # the file of sources is not to be written
chmod +x "$bin"/*

# set_up LEVEL [NAME=VALUE]...: sets $status.
set_up() {
    env HAVE="$work/have" BROKEN=none ABSENT=none PATH="$bin:$PATH" "${@:2}" "$setup" "$1" >"$work/out" 2>"$work/err"
    status=$?
}

set_up build BACKPORTS=yes
[ $status = 0 ] || fail "a machine that has nothing is not set up"
grep -q -- "-t $SUITE-backports libngtcp2-dev" "$work/have.log" || fail "libngtcp2 is not from backports"
has "$work/out" 'setup: done' || fail "the end is not said"
rm "$work/have.log"
set_up build BACKPORTS=yes
[ $status = 0 ] || fail "a machine that has all is refused"
[ ! -e "$work/have.log" ] || fail "apt-get is called where nothing is missing"
[ ! -s "$work/out" ] || fail "something is said where nothing is missing"

set_up test BROKEN=munge ABSENT=mpich BACKPORTS=yes
[ $status = 0 ] || fail "an optional package that cannot be installed is an error"
has "$work/out" 'without munge: the tests that need it are skipped' || fail "what is skipped is not named"
has "$work/out" 'without mpich: the tests that need it are skipped' || fail "what there is not is not named"
has "$work/err" 'this release has no package mpich' || fail "the reason is not said"
[ -e "$work/have/openmpi-bin" ] || fail "an optional package hinders another"
set_up test BROKEN=libcmocka-dev
[ $status = 0 ] || fail "a machine that has what is needed is refused"
rm "$work/have/libcmocka-dev"
set_up test BROKEN=libcmocka-dev
[ $status != 0 ] || fail "a package that is needed and cannot be installed is skipped"

rm "$work/have/libngtcp2-dev"
set_up build BACKPORTS=
[ $status != 0 ] || fail "a release without libngtcp2 is set up"
has "$work/err" "libngtcp2 1[.]4 or newer is neither in $SUITE nor" || fail "what is missing is not named"

set_up nonsense
[ $status != 0 ] || fail "an unknown level is accepted"
has "$work/err" 'accepted: build, test, check, peers' || fail "the levels are not named"
finish
