#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
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
mapfile -t paths < <(grep -o '/[^ ]*' <<<"$libraries")
mapfile -t files < <(readlink -f "${paths[@]}")

# dpkg knows a file by the folder that its package names, before /lib became /usr/lib: so it is asked for
# both, for all at once, and finds one of each. "libc6:amd64: /lib/...", or "PACKAGE, PACKAGE: ...".
declare -A owner_of=()
while IFS= read -r line; do
    owner_of[${line##*: }]=${line%%[:,]*}
done < <(dpkg-query -S "${files[@]}" "${files[@]#/usr}" 2>/dev/null)
for i in "${!paths[@]}"; do
    file=${files[i]}
    owner=${owner_of[$file]-${owner_of[${file#/usr}]-}}
    [ -n "$owner" ] || { echo "no package has $file" >&2; exit 1; }
    printf '%s %s\n' "${paths[i]}" "$owner"
done
