#!/bin/bash
# setup_test.sh SETUP - scripts/setup.sh against an apt that only pretends: a machine that has
# nothing, one that has all, releases with every kind of libngtcp2, no apt, no Linux.
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
"policy libngtcp2"*) echo "  Candidate: ${NGTCP2:-0.12.1}" ;;
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
version=${NGTCP2:-0.12.1}
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

fresh() { rm -rf "$work/have" "$work/have.log" && mkdir "$work/have"; }

echo "-- without backports: the release's own"
fresh
set_up build BACKPORTS=
[ $status = 0 ] || fail "a release with libngtcp2 0.12.1 is not set up"
! has "$work/have.log" backports || fail "a suite that apt does not know is used"
set_up build BACKPORTS=
[ $status = 0 ] || fail "libngtcp2 0.12.1 is not enough"
[ ! -s "$work/out" ] || fail "libngtcp2 0.12.1 is replaced"

echo "-- backports on request"
set_up build BACKPORTS=yes NEXAR_BACKPORTS=yes
[ $status = 0 ] || fail "NEXAR_BACKPORTS=yes"
has "$work/have.log" "-t $SUITE-backports libngtcp2-dev" || fail "libngtcp2 0.12.1 is left where backports are asked for"
fresh
set_up build BACKPORTS= NEXAR_BACKPORTS=yes
[ $status != 0 ] || fail "a machine whose backports have no libngtcp2 is set up"
has "$work/out" "adding $SUITE-backports" || fail "the suite that was asked for is not added"

echo "-- what is neither 0.12 nor 1.4"
fresh
set_up build BACKPORTS= NGTCP2=0.19.1
[ $status != 0 ] || fail "libngtcp2 0.19.1 is accepted"
has "$work/err" 'offers libngtcp2-dev 0.19.1; nexar needs 0.12.1, or 1.4 or newer' || fail "what is offered is not named"

echo "-- no apt, no Linux"
none=$work/none
mkdir "$none"
for tool in bash env cat dirname grep printf sed uname id; do ln -s "$(command -v $tool)" "$none/$tool"; done
env PATH="$none" "$setup" build >"$work/out" 2>"$work/err"
[ $? = 1 ] || fail "no apt: exit code"
for word in 'needs Linux' 'a C compiler' 'GnuTLS' 'SETUP=no' Fedora Arch openSUSE Alpine 'ngtcp2-devel'; do
    has "$work/err" "$word" || fail "no apt: nothing says $word"
done
! has "$work/err" 'cppcheck|spin|mpich' || fail "no apt: building needs no more than it needs"
env PATH="$none" "$setup" test >"$work/out" 2>"$work/err"
has "$work/err" 'libcmocka-dev' || fail "no apt: what the tests need is not named"
! has "$work/err" 'cppcheck|spin' || fail "no apt: tests need no more than they need"
rm "$none/uname"
printf '#!/bin/bash\necho Darwin\n' >"$none/uname"
chmod +x "$none/uname"
env PATH="$none" "$setup" build >"$work/out" 2>"$work/err"
[ $? = 1 ] || fail "no Linux: exit code"
has "$work/err" 'needs Linux; this is Darwin' || fail "no Linux: it is not said"

set_up nonsense
[ $status != 0 ] || fail "an unknown level is accepted"
has "$work/err" 'accepted: build, test, check, peers' || fail "the levels are not named"
finish
