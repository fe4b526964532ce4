#!/bin/bash
# make-dist.sh - the release: the sources of the last commit as a tarball, the bill of materials of the program that
# is built from them, and the sums of both.
#
#     deploy/make-dist.sh FOLDER PROGRAM
#
# They come to FOLDER. The same commit and program give the same bytes: all times are that of the commit.
set -euo pipefail
umask 022
folder=$(realpath -m "$1") program=$(realpath "$2")
cd "$(dirname "$0")/.."
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
cd "$folder"
sha256sum "$name.tar.gz" "$name.spdx.json" >SHA256SUMS
echo "$folder: $(cut -d ' ' -f 3 SHA256SUMS | tr '\n' ' ')SHA256SUMS"
