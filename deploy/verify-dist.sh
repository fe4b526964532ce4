#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# verify-dist.sh - is a release what it says? Its sums, its signature, and the program that is built anew from its
# sources beside the one of its statement.
#
#     deploy/verify-dist.sh FOLDER [PUBLIC]
#
# PUBLIC is minisign:FILE, the public key of the one who signed: a release without that signature is refused. One of gpg
# is checked with the keys of the caller's ring. The last line says what was found. Exit status: 0 where all is equal, 1
# where something differs, 2 where it cannot be known. Packages of other versions than those of the statement are named:
# they may give other bytes.
set -euo pipefail
folder=$(realpath "$1") public=${2-}
case $public in
'' | minisign:?*) ;;
*) echo "verify: PUBLIC is $public; expected minisign:FILE" && exit 2 ;;
esac
public=${public:+$(realpath "${public#minisign:}")}
cd "$folder" || exit 2
statements=(attnd-*.provenance.json)
statement=${statements[0]}
name=${statement%.provenance.json}
[ -e "$statement" ] && [ -e SHA256SUMS ] || {
    echo "verify: $folder has no attnd-VERSION.provenance.json and SHA256SUMS of make dist"
    exit 2
}

sha256sum --quiet -c SHA256SUMS || { echo "verify: files differ from SHA256SUMS" && exit 1; }
for file in "$name.tar.gz" "$name.spdx.json" "$name.openvex.json" "$statement"; do
    grep -qxF "$(sha256sum "$file")" SHA256SUMS || { echo "verify: SHA256SUMS has no sum of $file" && exit 1; }
done
echo "sums: equal"

if [ -n "$public" ]; then
    [ -e SHA256SUMS.minisig ] || { echo "verify: there is no SHA256SUMS.minisig" && exit 1; }
    minisign -V -q -p "$public" -m SHA256SUMS || { echo "verify: the signature is not of this key" && exit 1; }
    echo "signature: good, by minisign"
elif [ -e SHA256SUMS.asc ]; then
    gpg --verify SHA256SUMS.asc SHA256SUMS || { echo "verify: the signature is not good" && exit 1; }
    echo "signature: good, by gpg"
elif [ -e SHA256SUMS.minisig ]; then
    echo "signature: not checked; give minisign:FILE, the public key"
else
    echo "signature: none"
fi

for file in "$name.tar.gz" "$name.spdx.json" "$name.openvex.json"; do
    grep -qF "\"name\": \"$file\", \"digest\": {\"sha256\": \"$(sha256sum <"$file" | cut -d ' ' -f 1)\"}" "$statement" || {
        echo "verify: $file is not the one of $statement"
        exit 1
    }
done

other=
while read -r package version; do
    installed=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null || echo none)
    [ "$installed" = "$version" ] || other+="  $package: $installed here, $version there"$'\n'
done < <(sed -n 's/.*"uri": "pkg:deb\/debian\/\([^@]*\)@\([^?]*\)?.*/\1 \2/p' "$statement" | sed 's/%2B/+/g; s/%3A/:/g')
[ -z "$other" ] || printf 'packages of other versions:\n%s' "$other"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$name.tar.gz" -C "$work"
# The caller's BUILD is where a release lies, and not where this one is built.
env -u MAKEFLAGS -u MAKELEVEL make -s -j"$(nproc)" -C "$work/$name" BUILD=build daemon >"$work/log" 2>&1 || {
    cat "$work/log"
    echo "verify: the sources do not build here"
    exit 2
}
digest=$(sha256sum <"$work/$name/build/attnd" | cut -d ' ' -f 1)
if grep -qF "\"name\": \"attnd\", \"digest\": {\"sha256\": \"$digest\"}" "$statement"; then
    echo "verify: $name is built from its sources: sha256 $digest"
else
    echo "verify: the program built here has sha256 $digest, another than that of $statement"
    [ -z "$other" ] && exit 1 || exit 2
fi
