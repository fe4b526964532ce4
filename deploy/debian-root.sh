#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# debian-root.sh - makes a fresh, minimal Debian 12 in a new folder, for the checks beside it.
#
#     deploy/debian-root.sh FOLDER
#
# Debian comes from the archive that apt on this machine uses for Debian 12, by the same proxy, and apt
# works in it as it does here. If this machine is no Debian 12, it comes from debootstrap's own archive.
# Needs root and debootstrap.
set -eu
readonly root=$1 release=bookworm

# Apt's sources of Debian 12, in either of the two forms of such files: FILE ADDRESS SUITE a line.
list_sources() {
    apt-get indextargets --no-release-info 'Created-By: Packages' \
        --format '$(SOURCESENTRY) $(REPO_URI) $(RELEASE) $(COMPONENT)' 2>/dev/null | awk -v release="$release" '
            $4 == "main" && ($3 == release || $3 == release "-updates" || $3 == release "-security") {
                sub(/:[0-9]+$/, "", $1)
                print $1, $2, $3
            }' | sort -u
}

# Apt's proxy for http or https, or the environment's; nothing where there is none.
proxy_for() { # SCHEME
    local value variable=${1}_proxy
    value=$(apt-config dump --format '%v%n' "Acquire::$1::Proxy" 2>/dev/null | head -n 1)
    value=${value:-${!variable-}}
    [ "$value" = DIRECT ] || echo "$value"
}

# Copies these files and folders, where they exist, to the same place in the root.
copy_in() { # PATH...
    local path
    for path; do
        [ -e "$path" ] || continue
        mkdir -p "$root$(dirname "$path")"
        cp -rL --preserve=mode,timestamps "$path" "$root$(dirname "$path")"
    done
}

sources=$(list_sources)
mirror=$(awk -v release="$release" '$3 == release && $2 ~ /^https?:/ { print $2; exit }' <<<"$sources")
http_proxy=$(proxy_for http)
https_proxy=$(proxy_for https)
export http_proxy https_proxy

log=$(mktemp)
trap 'rm -f "$log"' EXIT
mkdir -p "$root"
if ! debootstrap --variant=minbase "$release" "$root" ${mirror:+"$mirror"} >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    exit 1
fi

copy_in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt
if [ -n "$mirror" ]; then
    rm -f "$root/etc/apt/sources.list"
    mapfile -t files < <(cut -d ' ' -f 1 <<<"$sources" | sort -u)
    copy_in "${files[@]}" /usr/share/keyrings /etc/apt/keyrings /etc/apt/trusted.gpg /etc/apt/trusted.gpg.d \
        /etc/apt/auth.conf /etc/apt/auth.conf.d
fi
{
    echo 'Acquire::Retries "3";'
    [ -z "$http_proxy" ] || echo "Acquire::http::Proxy \"$http_proxy\";"
    [ -z "$https_proxy" ] || echo "Acquire::https::Proxy \"$https_proxy\";"
    apt-config dump 2>/dev/null | grep -E '^Acquire::(Check-|ForceIPv|https?::(Timeout|CaInfo|Verify-))' || true
} >"$root/etc/apt/apt.conf.d/90host"
