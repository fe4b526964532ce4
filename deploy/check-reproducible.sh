#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-reproducible.sh - builds the daemon twice and compares the programs.
#
#     deploy/check-reproducible.sh
#
# The two builds differ in what must not matter: the folder and its depth, where the program is made (BUILD), the
# time, the user's locale and time zone, and how many files the compiler works on at once. Exit status 0 and a line
# with the digest where they are equal.
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
one=$folder/a two=$folder/another/and/deeper

for root in "$one" "$two"; do
    mkdir -p "$root"
    cp -r Makefile LICENSE lib server "$root"
    mkdir "$root/deploy"
    cp deploy/install-packages.sh "$root/deploy"
done
build() { # ROOT VARIABLE...
    local root=$1
    shift
    env -u MAKEFLAGS -u MAKELEVEL CCACHE_DISABLE=1 "$@" make -s -C "$root" daemon >/dev/null
}
build "$one" LC_ALL=C TZ=UTC MAKEFLAGS=-j1 BUILD=build &
first=$!
build "$two" LC_ALL=C.UTF-8 TZ=Asia/Tokyo MAKEFLAGS=-j2 BUILD="$folder/made"
wait "$first"

digest=$(sha256sum <"$one/build/attnd")
if ! cmp "$one/build/attnd" "$folder/made/attnd"; then
    echo "two builds of the same sources differ" >&2
    exit 1
fi
echo "two builds are equal: sha256 ${digest%% *}"
