#!/bin/bash
# debian-root.sh - makes a fresh, minimal Debian 12 in a new folder, for the two checks beside it.
#
#     deploy/debian-root.sh FOLDER
#
# Needs root and debootstrap. DEBIAN_MIRROR names another archive than deb.debian.org.
set -eu
readonly root=$1
readonly mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
mkdir -p "$root"
if ! debootstrap --variant=minbase bookworm "$root" "$mirror" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    exit 1
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
