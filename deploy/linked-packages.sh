#!/bin/bash
# linked-packages.sh - the shared libraries that a program is linked with, and their Debian packages.
#
#     deploy/linked-packages.sh PROGRAM
#
# A line for each library: its path, as ldd names it, and its package. A library that is missing, or
# that no package has, is an error.
set -eu

libraries=$(ldd "$1")
if grep 'not found' <<<"$libraries" >&2; then
    exit 1
fi
# "libz.so.1 => /lib/.../libz.so.1 (0x...)", and the loader, which is its path alone.
for library in $(grep -o '/[^ ]*' <<<"$libraries"); do
    file=$(readlink -f "$library")
    # dpkg knows a file by the folder that its package names, before /lib became /usr/lib.
    owner=$(dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "${file#/usr}")
    printf '%s %s\n' "$library" "${owner%%:*}"
done
