#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# install-packages.sh - installs what is missing of what attnd needs, from Debian's archive.
#
#     deploy/install-packages.sh GROUP...               installs
#     deploy/install-packages.sh --missing GROUP...     only names what it would install, on one line
#     deploy/install-packages.sh --list GROUP...        only names all packages of the groups, on one line
#
# GROUP is one of
#     build        a compiler and the libraries of the daemon
#     build-tests  the libraries that the tests are compiled with
#     run          the client of the line that `make run` prints
#     story        the library that the example of `make story` is compiled with
#     test         other programs that tests talk to; without them those tests are left out
#     page         the browser that the tests of the explorer drive; without it those tests are left out
#     mpi          what `make attn-mpi` builds with and starts it; without it its test is left out
#     deb          what `make deb` makes packages with
#     lint         what `make lint` reads the sources with
#     fresh        what deploy/check-fresh.sh makes a fresh Debian with
#
# If all of it is there, the script touches nothing and asks no archive. It says first what it
# installs. It asks nothing, so it needs no terminal. CC is the compiler to look for. The archive's
# lists are fetched where those on this machine do not do.
set -eu

# PACKAGE and the command that finds out whether it is needed.
needs() { # GROUP
    case $1 in
    build)
        echo 'gcc                  command -v "${CC:-cc}"'
        echo 'libc6-dev            test -e /usr/include/stdio.h'
        echo 'pkg-config           command -v pkg-config'
        echo 'libmicrohttpd-dev    pkg-config --exists libmicrohttpd'
        echo 'libgnutls28-dev      pkg-config --exists gnutls'
        echo 'libcjson-dev         pkg-config --exists libcjson'
        echo 'zlib1g-dev           pkg-config --exists zlib'
        echo 'libopenblas-dev      pkg-config --exists openblas'
        echo 'libseccomp-dev       pkg-config --exists libseccomp'
        echo 'libutf8proc-dev      pkg-config --exists libutf8proc'
        echo 'libonig-dev          pkg-config --exists oniguruma'
        ;;
    run)
        echo 'curl                 command -v curl'
        ;;
    story)
        echo 'libcurl4-openssl-dev pkg-config --exists libcurl'
        ;;
    build-tests)
        echo 'libcurl4-openssl-dev pkg-config --exists libcurl'
        echo 'libcmocka-dev        pkg-config --exists cmocka'
        ;;
    mpi)
        echo 'libopenmpi-dev       pkg-config --exists ompi-c'
        echo 'openmpi-bin          command -v mpirun'
        ;;
    deb)
        echo 'dpkg-dev             command -v dpkg-shlibdeps'
        ;;
    lint)
        echo 'abigail-tools        command -v abidiff'
        echo 'clang-format         command -v clang-format'
        echo 'clang-tidy           command -v clang-tidy'
        echo 'cppcheck             command -v cppcheck'
        ;;
    test)
        echo 'abigail-tools        command -v abidiff'
        echo 'curl                 command -v curl'
        echo 'dpkg-dev             command -v dpkg-shlibdeps'
        echo 'haproxy              test -x /usr/sbin/haproxy'
        echo 'nginx-light          test -x /usr/sbin/nginx'
        echo 'openssl              command -v openssl'
        echo "python3-numpy        /usr/bin/python3 -c 'import numpy'"
        ;;
    page)
        echo 'chromium             command -v chromium'
        echo 'chromium-driver      command -v chromedriver'
        ;;
    fresh)
        echo 'debootstrap          command -v debootstrap'
        ;;
    *)
        echo "usage: $0 [--missing|--list] build|build-tests|run|story|test|page|mpi|deb|lint|fresh..." >&2
        exit 2
        ;;
    esac
}

only_name= present_too=
case ${1-} in
--missing) only_name=yes && shift ;;
--list) only_name=yes present_too=yes && shift ;;
esac

missing=()
for group; do
    list=$(needs "$group")
    while read -r package present; do
        { [ -z "$present_too" ] && eval "$present" >/dev/null 2>&1; } || missing+=("$package")
    done <<<"$list"
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
if [ -n "$only_name" ]; then
    echo "${missing[*]}"
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    echo "attnd needs these, under their names in Debian; please install: ${missing[*]}" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "attnd needs: ${missing[*]}. Neither root nor sudo; please run as root:" >&2
        echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

echo "attnd: installing ${missing[*]}"
apt_get() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" </dev/null
}
install() { # OPTION...
    apt_get install --no-install-recommends "$@" "${missing[@]}"
}
if install --simulate >/dev/null 2>&1 && install; then
    exit 0
fi
apt_get update
install
