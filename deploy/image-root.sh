#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# image-root.sh - lays out the root of the image: the daemon, stripped, and what it needs to run.
#
#     deploy/image-root.sh PROGRAM FOLDER [PACKAGE...]
#
# The shared libraries are those that ldd names; one that is missing is an error. The script also
# copies, for each library's Debian package and each PACKAGE that is linked into the program, the
# licence and the entry of dpkg's database: scanners for known faults look there. The bill of materials
# is beside attnd's own licence.
set -eu
program=$1 root=$2
shift 2
packages=("$@")
here=$(dirname "$0")

install -D -m 755 "$program" "$root/usr/local/bin/attnd"
strip "$root/usr/local/bin/attnd"

linked=$("$here/linked-packages.sh" "$program")
while read -r library package; do
    install -D -m 755 "$library" "$root$library"
    packages+=("$package")
done <<<"$linked"

mkdir -p "$root/usr/share/doc" "$root/var/lib/dpkg/status.d"
for package in $(printf '%s\n' "${packages[@]}" | sort -u); do
    install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
    dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
done
cp -r /usr/share/common-licenses "$root/usr/share/"
install -D -m 644 LICENSE "$root/usr/share/doc/attnd/copyright"
"$here/make-sbom.sh" "$root/usr/local/bin/attnd" "$@" >"$root/usr/share/doc/attnd/sbom.spdx.json"

# The user, the file by which scanners know the system, and where the C library looks names up.
mkdir -p "$root/etc" "$root/mnt/models"
install -m 644 /etc/os-release "$root/etc/os-release"
cat >"$root/etc/passwd" <<'END'
root:x:0:0:root:/:/nonexistent
attnd:x:65532:65532:attnd:/:/nonexistent
END
cat >"$root/etc/group" <<'END'
root:x:0:
attnd:x:65532:
END
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
