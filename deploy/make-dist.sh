#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make-dist.sh - the release: the sources of the last commit as a tarball, the bill of materials of the program that
# is built from them, what is known of the vulnerabilities of what is linked in, the statement of what it was built
# with, and the sums of these.
#
#     deploy/make-dist.sh FOLDER PROGRAM [SIGN]
#
# They come to FOLDER. The same commit and program give the same bytes: all times are that of the commit. SIGN is
# minisign:FILE, a secret key, or gpg:KEY, whose signature of the sums comes beside them; without it the release is
# unsigned. A signed one is for others, so DEBFULLNAME and DEBEMAIL say who answers for it; the statement has the address.
# deploy/verify-dist.sh builds it again and compares.
#
# Source: https://slsa.dev/spec/v1.0/provenance in a statement of https://in-toto.io/Statement/v1.
set -euo pipefail
umask 022
folder=$(realpath -m "$1") program=$(realpath "$2") sign=${3-}
case $sign in
'' | minisign:?* | gpg:?*) ;;
*) echo "make dist: SIGN is $sign; expected minisign:FILE or gpg:KEY" >&2 && exit 2 ;;
esac
cd "$(dirname "$0")/.."
maintainer=$(deploy/maintainer.sh "make dist" "$sign") || exit 1
builder=https://attnd.invalid/make-dist
[ -z "$maintainer" ] || builder=mailto:$DEBEMAIL
commit=$(git rev-parse --short HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
version=$(git show HEAD:server/base/version.h | sed -n 's/^#define ATTND_VERSION "\(.*\)"$/\1/p')
name=attnd-$version

if [ -n "$(git status --porcelain)" ]; then
    echo "make dist: the tarball has the commit $commit; changes that are not committed are not in it" >&2
fi
if [ "$("$program" --version)" != "attnd $version" ]; then
    echo "make dist: $program is $("$program" --version), and the commit $commit is attnd $version: commit or build" >&2
    exit 1
fi

mkdir -p "$folder"
# The user's own settings may change modes and ends of lines.
git -c tar.umask=0022 -c core.autocrlf=false archive --format=tar --prefix="$name/" HEAD |
    gzip -n >"$folder/$name.tar.gz"
deploy/make-sbom.sh "$program" >"$folder/$name.spdx.json"
git show HEAD:deploy/attnd.openvex.json >"$folder/$name.openvex.json"

# A line a file, a line a package: verify-dist.sh reads it by line.
subject() { # FILE NAME
    printf '    {"name": "%s", "digest": {"sha256": "%s"}}' "$2" "$(sha256sum <"$1" | cut -d ' ' -f 1)"
}

provenance() {
    local package version architecture compiler
    cat <<END
{
  "_type": "https://in-toto.io/Statement/v1",
  "subject": [
$(subject "$folder/$name.tar.gz" "$name.tar.gz"),
$(subject "$folder/$name.spdx.json" "$name.spdx.json"),
$(subject "$folder/$name.openvex.json" "$name.openvex.json"),
$(subject "$program" attnd)
  ],
  "predicateType": "https://slsa.dev/provenance/v1",
  "predicate": {
    "buildDefinition": {
      "buildType": "https://attnd.invalid/make-daemon/v1",
      "externalParameters": {"source": "$name.tar.gz", "command": "make daemon"},
      "internalParameters": {"architecture": "$(dpkg --print-architecture)"},
      "resolvedDependencies": [
        {"name": "source", "uri": "git+https://attnd.invalid/attnd", "digest": {"gitCommit": "$(git rev-parse HEAD)"}}
END
    # gcc is a name for the compiler of a version, which has a package of its own.
    compiler=$(dpkg-query -S "$(readlink -f "$(command -v gcc)")" 2>/dev/null | cut -d : -f 1)
    dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' \
        $(deploy/install-packages.sh --list build) $compiler binutils make |
        LC_ALL=C sort -u -k 1,1 |
        while read -r package version architecture; do
            printf '        ,{"name": "%s", "uri": "pkg:deb/debian/%s@%s?arch=%s"}\n' \
                "$package" "$package" "$(sed 's/+/%2B/g; s/:/%3A/g' <<<"$version")" "$architecture"
        done
    cat <<END
      ]
    },
    "runDetails": {"builder": {"id": "$builder"}}
  }
}
END
}
provenance >"$folder/$name.provenance.json"

cd "$folder"
rm -f SHA256SUMS.minisig SHA256SUMS.asc
sha256sum "$name.tar.gz" "$name.spdx.json" "$name.openvex.json" "$name.provenance.json" >SHA256SUMS
case $sign in
minisign:*) minisign -S -s "${sign#*:}" -m SHA256SUMS -t "attnd $version" ;;
gpg:*) gpg --batch --yes --armor --detach-sign --local-user "${sign#*:}" SHA256SUMS ;;
*) echo "make dist: the release is unsigned; SIGN=minisign:FILE or SIGN=gpg:KEY signs it" >&2 ;;
esac
echo "$folder: $(ls | tr '\n' ' ')"
