#!/bin/bash
# setup.sh - installs what building, testing and checking nexar need.
#
#   scripts/setup.sh build    compiler, CMake, libraries
#   scripts/setup.sh test     the same, and what the tests need
#   scripts/setup.sh check    the same, and what `make check` and `make fuzz` need
#   scripts/setup.sh peers    what `build` installs, and those that `make bench-peers` measures
#
# A group that is optional is skipped, and the reason said, where it cannot be installed.
#
# Says what it installs and why; says nothing, and needs no network, when all is
# there.  Two of it may run at once.
#
# ngtcp2 is 0.12.1, as Debian 12 and Ubuntu 24.04 have it, or 1.4 or newer, which is preferred:
# it is taken from the release's backports if apt knows that suite.  NEXAR_BACKPORTS=yes adds the
# suite to apt's sources (docs/guide/networks.md says what the newer one does better).
set -euo pipefail
# shellcheck source=scripts/help.sh disable=SC1091
. "$(dirname "$0")/help.sh"

level=${1:-check}
new_ngtcp2=1.4
backports=${NEXAR_BACKPORTS:-no}

# Groups: the level that needs it, why, and the packages.  a|b: the first of
# them that this release has.  A level with ? behind it: an optional group.
groups=(
    "build;to build nexar;gcc libc6-dev make cmake ninja-build pkgconf"
    "build;for QUIC, which the network transport is made of;libngtcp2-dev libngtcp2-crypto-gnutls-dev libgnutls28-dev"
    "test;to test it;libcmocka-dev g++ procps"
    "test;for its tests between hosts: network namespaces, firewalls;iproute2 nftables"
    "test;for its tests on a terminal;tmux"
    "test?;for its tests by ssh;openssh-server openssh-client"
    "test;for nexar-opencl and its tests, on the CPU;ocl-icd-opencl-dev opencl-headers pocl-opencl-icd"
    "test?;for its tests with other launchers: Slurm, Open MPI, MPICH, PMIx;slurm-wlm munge openmpi-bin mpich libpmix2"
    "test?;to test the Python package;python3-dev python3-numpy python3-pytest"
    "check;to check it: compilers, format, lint, spelling;clang clang-format-14|clang-format clang-tidy cppcheck shellcheck codespell"
    "check;to check the model of agreement;spin"
    "check;to fuzz it;libclang-rt-14-dev|libclang-rt-dev"
    "peers;to measure beside others;g++ python3 openmpi-bin libopenmpi-dev mpich libmpich-dev libgloo-dev"
)

say() { printf 'setup: %s\n' "$*"; }

die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

case $level in
build) levels="build" ;;
test) levels="build test" ;;
check) levels="build test check" ;;
peers) levels="build peers" ;;
*) die "unknown level $level; accepted: build, test, check, peers" ;;
esac
wished="$levels ${levels// /? }?"

version_of() { dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null | sed -n 's/^installed //p'; }

# Whether one package is here, new enough.
present() {
    local version
    version=$(version_of "$1")
    [ -n "$version" ] || return 1
    case $1 in
    libngtcp2-*) is_good_ngtcp2 "$version" ;;
    esac
}

is_new_ngtcp2() { dpkg --compare-versions "$1" ge "$new_ngtcp2"; }

# Between 0.12 and 1.4 the interface changed with every version.
is_good_ngtcp2() {
    is_new_ngtcp2 "$1" && return 0
    [ "$backports" != yes ] && dpkg --compare-versions "$1" ge 0.12.1 &&
        dpkg --compare-versions "$1" lt 0.13
}

# Whether one of a|b|c is here.
satisfied() {
    local name
    for name in ${1//|/ }; do
        present "$name" && return 0
    done
    return 1
}

# The packages of a group that are missing.
missing_of() {
    local want
    for want in $1; do
        satisfied "$want" || printf '%s ' "$want"
    done
}

# The packages that are missing for the levels $1.
missing_all() {
    local group need packages
    for group in "${groups[@]}"; do
        IFS=';' read -r need _ packages <<<"$group"
        case " $1 " in *" $need "*) missing_of "$packages" ;; esac
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# Another apt that holds the lock is waited for.
apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 "$@"; }

update() {
    local try
    for try in 1 2 3; do
        apt update && return 0
        sleep "$try"
    done
    say "apt-get update failed; going on with the lists that are here"
}

# The newest version of a package that apt may install without being asked for
# a special release.
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: //p' | grep -v '^(none)$' || true; }

# The first of a|b|c that this release has.
choose() {
    local name
    for name in ${1//|/ }; do
        if [ -n "$(candidate "$name")" ]; then
            printf '%s\n' "$name"
            return 0
        fi
    done
    die "this release has no package $1; install what it offers instead, then use make SETUP=no"
}

codename() {
    # shellcheck source=/dev/null
    (. /etc/os-release && printf '%s\n' "${VERSION_CODENAME:-}")
}

# What apt-cache prints is read to its end before it is looked at: a reader that stops early
# ends apt-cache by SIGPIPE, which pipefail takes for a failure.
has_backports() { [[ $(apt-cache madison libngtcp2-dev 2>/dev/null) == *" $1-backports/"* ]]; }

# Adds the release's backports, from where its main packages come from.
add_backports() {
    local release=$1 uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    local file=/etc/apt/sources.list.d/nexar-$release-backports.sources

    uri=$(apt-cache madison base-files |
        sed -nE "s#^[^|]*\|[^|]*\| *([^ ]+) ($release|stable|oldstable)/main .*#\1#p")
    uri=${uri%%$'\n'*}
    [ -n "$uri" ] || die "the mirror of $release was not found in apt's sources;" \
        "add the suite $release-backports and run this again"
    say "adding $release-backports ($file), because NEXAR_BACKPORTS=yes"
    {
        printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\n' "$uri" "$release"
        if [ -e "$keyring" ]; then printf 'Signed-By: %s\n' "$keyring"; fi
    } | as_root tee "$file" >/dev/null
    update
}

# Sets |quic_options| to what apt-get install needs to get the best libngtcp2 that there is.
find_ngtcp2() {
    local version release

    quic_options=()
    version=$(candidate libngtcp2-dev)
    if [ -n "$version" ] && is_new_ngtcp2 "$version"; then
        return 0
    fi
    release=$(codename)
    if [ -n "$release" ] && [ "$backports" = yes ] && ! has_backports "$release"; then
        add_backports "$release"
    fi
    if [ -n "$release" ] && has_backports "$release"; then
        quic_options=(-t "$release-backports")
    elif [ -z "$version" ] || ! is_good_ngtcp2 "$version"; then
        die "apt offers libngtcp2-dev ${version:-in no version}; nexar needs 0.12.1, or" \
            "$new_ngtcp2 or newer: is the network reachable?" \
            "NEXAR_BACKPORTS=yes adds the suite ${release:-RELEASE}-backports"
    fi
}

# Says why, then installs the missing packages of one group.
install_group() {
    local why=$1 missing=$2 want output names=()

    for want in $missing; do names+=("$(choose "$want")") || exit 1; done
    say "installing ${names[*]} ($why)"
    quic_options=()
    case " ${names[*]} " in *" libngtcp2-"*) find_ngtcp2 ;; esac
    output=$(apt install -y --no-install-recommends "${quic_options[@]}" "${names[@]}" 2>&1) ||
        die "apt-get could not install ${names[*]}: $output"
}

# Debian starts the services of the packages that it installs, unless this file says no.  The tests
# start their own, and a developer's machine is to have no new sshd.
policy=/usr/sbin/policy-rc.d
held=no
hold_services() {
    [ ! -e "$policy" ] || return 0
    as_root sh -c "printf '#!/bin/sh\\nexit 101\\n' >$policy && chmod 755 $policy" && held=yes
}
release_services() {
    [ "$held" = no ] || as_root rm -f "$policy"
    held=no
}
trap release_services EXIT

# One package at a time: what cannot be installed hinders no other.
install_optional() {
    local want
    hold_services
    for want in $2; do
        (trap - EXIT && install_group "$1" "$want") ||
            say "without $want: the tests that need it are skipped"
    done
    release_services
}

# Where there is no apt: what is needed, and what other distributions call it.
explain() {
    local group need why packages

    cat >&2 <<'EOT'
setup: this script installs packages by apt-get, which is not here.  To build, nexar needs Linux and
  a C compiler, make, CMake 3.25 or newer, Ninja, pkg-config,
  ngtcp2 (0.12.1, or 1.4 or newer) with its GnuTLS helper, and GnuTLS 3.7 or newer.
Install them, then run make with SETUP=no, such as: make demo SETUP=no
  Debian, Ubuntu  gcc libc6-dev make cmake ninja-build pkgconf libngtcp2-dev libngtcp2-crypto-gnutls-dev libgnutls28-dev
  Fedora, RHEL    dnf install gcc make cmake ninja-build pkgconf-pkg-config ngtcp2-devel gnutls-devel   (RHEL: with EPEL)
  Arch            pacman -S gcc make cmake ninja pkgconf libngtcp2 gnutls
  openSUSE        zypper install gcc make cmake ninja pkgconf-pkg-config ngtcp2-devel libgnutls-devel
  Alpine          apk add build-base linux-headers cmake samurai pkgconf ngtcp2-dev gnutls-dev
EOT
    for group in "${groups[@]}"; do
        IFS=';' read -r need why packages <<<"$group"
        [ "$need" != build ] || continue
        case " $levels " in
        *" ${need%\?} "*) printf '  Also, %s (packages of Debian): %s\n' "$why" "$packages" >&2 ;;
        esac
    done
}

[ "$(uname -s)" = Linux ] || die "nexar needs Linux; this is $(uname -s)"
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    explain
    exit 1
fi
[ -n "$(missing_all "$wished")" ] || exit 0

# One at a time on this machine; the other may have done it all meanwhile.
exec 9</etc/os-release
flock 9
[ -n "$(missing_all "$wished")" ] || exit 0

if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        left=$(missing_all "$levels")
        [ -z "$left" ] || die "missing: $left; run this as root, or install sudo"
        say "without $(missing_all "$wished"): the tests that need it are skipped; run this as root"
        exit 0
    fi
    say "not root: using sudo for apt-get"
fi
update
for group in "${groups[@]}"; do
    IFS=';' read -r need why packages <<<"$group"
    case " $wished " in *" $need "*) ;; *) continue ;; esac
    missing=$(missing_of "$packages")
    case ${missing:+$need} in
    "") ;;
    *[?]) install_optional "$why" "$missing" ;;
    *) install_group "$why" "$missing" ;;
    esac
done
left=$(missing_all "$levels")
[ -z "$left" ] || die "still missing after installing: $left"
say "done"
