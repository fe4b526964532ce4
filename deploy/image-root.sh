#!/bin/bash
# image-root.sh - lays out the root of the image: the daemon, stripped, and what it needs to run.
#
#     deploy/image-root.sh PROGRAM FOLDER [PACKAGE...]
#
# The shared libraries are those that ldd names; one that is missing is an error. The script also
# copies, for each library's Debian package and each PACKAGE that is linked into the program, the
# licence and the entry of dpkg's database: scanners for known faults look there.
set -eu
program=$1 root=$2
shift 2
packages=("$@")

install -D -m 755 "$program" "$root/usr/local/bin/attnd"
strip "$root/usr/local/bin/attnd"

libraries=$(ldd "$program")
if grep 'not found' <<<"$libraries" >&2; then
    exit 1
fi
# "libz.so.1 => /lib/.../libz.so.1 (0x...)", and the loader, which is its path alone.
grep -o '/[^ ]*' <<<"$libraries" >"$root.libraries"
while read -r library; do
    install -D -m 755 "$library" "$root$library"
    file=$(readlink -f "$library")
    # dpkg knows a file by the folder that its package names, before /lib became /usr/lib.
    owner=$(dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "${file#/usr}")
    packages+=("${owner%%:*}")
done <"$root.libraries"
rm "$root.libraries"

mkdir -p "$root/usr/share/doc" "$root/var/lib/dpkg/status.d"
for package in $(printf '%s\n' "${packages[@]}" | sort -u); do
    install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
    dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
done
cp -r /usr/share/common-licenses "$root/usr/share/"
install -D -m 644 LICENSE "$root/usr/share/doc/attnd/copyright"

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
