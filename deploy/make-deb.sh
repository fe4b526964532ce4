#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make-deb.sh - Debian packages of what is built here: attnd, libattn1, libattn-dev and python3-attnd.
#
#     deploy/make-deb.sh FOLDER DAEMON LIBRARY
#
# They come to FOLDER. What is in them is what `make install` puts there, stripped; deploy/debian/ has the texts. The
# version is that of server/base/version.h; the packages that they need are what dpkg-shlibdeps finds. Equal programs
# give equal packages: the date is that of SOURCE_DATE_EPOCH, or of the last commit. It needs no root.
#
# Who answers for the packages is DEBFULLNAME and DEBEMAIL, as for Debian's own programs. Without them the maintainer is
# the one of deploy/debian/control, which nobody can write to, and RELEASE=yes is refused.
set -euo pipefail
umask 022
folder=$(realpath -m "$1") daemon=$(realpath "$2") library=$(realpath "$3")
cd "$(dirname "$0")/.."
texts=$PWD/deploy/debian
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

maintainer=$(deploy/maintainer.sh "make deb" "${RELEASE-}") || exit 1
[ -n "$maintainer" ] || maintainer=$(sed -n 's/^Maintainer: //p' "$texts/control")

if [ -z "${SOURCE_DATE_EPOCH-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
fi
export SOURCE_DATE_EPOCH
# dpkg sorts 1.0~rc1 before 1.0, and takes a hyphen for the end of the version. Packages of the same version that are
# built on different systems need different libraries, so the system is behind the hyphen.
release=$(sed -n 's/^#define ATTND_VERSION "\(.*\)"$/\1/p' server/base/version.h | tr - '~')
version=$release-1~$(. /etc/os-release && echo "${ID:-debian}${VERSION_ID:+.$VERSION_ID}")
libraries=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)

# -------------------------------------------------------------------------------------- the files --

lay_out() {
    local all=$work/all
    env -u MAKEFLAGS -u MAKELEVEL make -s -o daemon -o library install DESTDIR="$all" PREFIX=/usr \
        LIBDIR="/$libraries" UNITDIR=/usr/lib/systemd/system DAEMON="$daemon" LIBRARY="$library"
    gzip -9n "$all"/usr/share/man/man?/*
    mkdir -p "$work"/attnd/usr/share/man "$work/libattn1/$libraries"
    mv "$all/usr/bin" "$work/attnd/usr"
    mkdir -p "$work/attnd/usr/lib"
    mv "$all/usr/lib/systemd" "$work/attnd/usr/lib"
    mv "$all/usr/share/man/man1" "$work/attnd/usr/share/man"
    mv "$all/usr/share/bash-completion" "$all/usr/share/attnd" "$work/attnd/usr/share"
    mv "$all/$libraries/$(basename "$library")" "$work/libattn1/$libraries"
    mv "$all" "$work/libattn-dev"

    install -D -m 644 "$texts/attnd.default" "$work/attnd/etc/default/attnd"
    install -D -m 644 -t "$work/attnd/usr/share/doc/attnd/examples" deploy/systemd/*.conf
    strip --remove-section=.comment --remove-section=.note "$work/attnd/usr/bin/attnd"
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "$work/libattn1/$libraries"/*
    deploy/make-sbom.sh "$work/attnd/usr/bin/attnd" >"$work/attnd/usr/share/doc/attnd/sbom.spdx.json"
    gzip -9n <CHANGELOG.md >"$work/attnd/usr/share/doc/attnd/changelog.gz"
    lay_out_python "$work/python3-attnd/usr/lib/python3/dist-packages"
}

# The modules, and what Python's importlib.metadata and pip read of a package.
lay_out_python() { # FOLDER
    local number
    number=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' lib/python/attnd/__init__.py)
    install -D -m 644 -t "$1/attnd" lib/python/attnd/*.py
    mkdir "$1/attnd-$number.dist-info"
    printf 'Metadata-Version: 2.1\nName: attnd\nVersion: %s\nRequires-Dist: numpy\n' "$number" \
        >"$1/attnd-$number.dist-info/METADATA"
}

# dpkg's programs read them in debian/ of the folder where they run.
write_debian() {
    mkdir "$work/debian"
    awk -v maintainer="$maintainer" '/^Maintainer: / { $0 = "Maintainer: " maintainer } 1' "$texts/control" \
        >"$work/debian/control"
    cat >"$work/debian/changelog" <<END
attnd ($version) unstable; urgency=medium

  * The release of this version; its CHANGELOG.md says what is new.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
}

# ----------------------------------------------------------------------------------- the packages --

# Writes what dpkg has to know of a package beside its files.
write_control() { # PACKAGE [PROGRAM]
    local tree=$work/$1 name
    mkdir "$tree/DEBIAN"
    install -D -m 644 "$texts/copyright" "$tree/usr/share/doc/$1/copyright"
    gzip -9n <"$work/debian/changelog" >"$tree/usr/share/doc/$1/changelog.Debian.gz"
    for name in postinst prerm postrm; do
        [ ! -e "$texts/$1.$name" ] || install -m 755 "$texts/$1.$name" "$tree/DEBIAN/$name"
    done
    (
        cd "$work"
        : >debian/substvars
        [ -z "${2-}" ] || dpkg-shlibdeps "$2"
        dpkg-gencontrol "-p$1" "-P$tree"
        cd "$tree"
        [ ! -d etc ] || find etc -type f -printf '/%p\n' | LC_ALL=C sort >DEBIAN/conffiles
        find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums
    )
}

build() { # PACKAGE
    local file
    file=$folder/$1_${version}_$(sed -n 's/^Architecture: //p' "$work/$1/DEBIAN/control").deb
    dpkg-deb --root-owner-group --build "$work/$1" "$file" >/dev/null
    echo "$file"
}

lay_out
write_debian
write_control attnd attnd/usr/bin/attnd
write_control libattn1 "libattn1/$libraries/$(basename "$library")"
write_control libattn-dev
write_control python3-attnd
echo "libattn 1 libattn1 (>= $release)" >"$work/libattn1/DEBIAN/shlibs"
echo 'activate-noawait ldconfig' >"$work/libattn1/DEBIAN/triggers"
mkdir -p "$folder"
for package in attnd libattn1 libattn-dev python3-attnd; do
    build "$package"
done
