#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-container.sh - builds the Dockerfile and tries the image, on a machine without a Docker engine.
#
#     deploy/check-container.sh [FOLDER]      FOLDER keeps the base between runs; default: a new one
#
# buildah builds in chroot isolation on a base image that debootstrap makes. The daemon then runs in
# the image's root, mounted read-only, with the image's user, environment and entry point, in
# namespaces of its own, so that port 8080 is free and nothing outlives the check. Needs root and
# Debian's buildah, debootstrap, binutils, curl and iproute2.
set -eu
cd "$(dirname "$0")/.."

readonly base=docker.io/library/debian:bookworm-slim
readonly megabytes_max=45
readonly query='{"model":"demo","query":[[1,0,0],[0,1,0],[1,1,0],[0,0,1]]}'

ok() { echo "ok    $*"; }
fail() {
    echo "FAILED $*" >&2
    exit 1
}

# ------------------------------------------------------------- inside the namespaces of the image --

healthy() { "${in_image[@]}" "${health[@]}" >/dev/null 2>&1; }

attention() { curl -sS -m 5 http://127.0.0.1:8080/v1/attention -H 'Content-Type: application/json' -d "$query"; }

try_image() {
    local user health entry environment enter in_image pid status=0
    user=$(cat "$folder/user")
    mapfile -t health <"$folder/health"
    mapfile -t entry <"$folder/entrypoint"
    mapfile -t environment <"$folder/environment"
    enter=("$(command -v chroot)" --userspec="$user" --groups= "$root")
    in_image=(env -i "${environment[@]}" "${enter[@]}")
    ip link set lo up
    # What an engine adds to any root.
    mkdir -p "$root/proc" "$root/dev" "$root/etc"
    echo '127.0.0.1 localhost' >"$root/etc/hosts"
    mount --bind "$root" "$root"
    mount -o remount,bind,ro "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"

    if touch "$root/mnt/models/x" 2>/dev/null; then fail "the root is not read-only"; fi
    "${in_image[@]}" "${health[@]}" >/dev/null 2>&1 || status=$?
    [ $status -eq 1 ] || fail "'${health[*]}' exits $status where nothing runs"
    status=0
    ok "'${health[*]}' exits 1 where nothing runs"

    "${in_image[@]}" "${entry[@]}" >"$folder/daemon.log" 2>&1 || status=$?
    [ $status -eq 1 ] || fail "status $status without keys and without ATTND_OPEN"
    grep -q -e '--keys FILE .* or --open' "$folder/daemon.log" || { cat "$folder/daemon.log"; fail "what it says"; }
    status=0
    ok "does not start without keys or ATTND_OPEN=1, and says so"

    # As docker run -e ATTND_OPEN=1.
    in_image=(env -i "${environment[@]}" ATTND_OPEN=1 "${enter[@]}")
    "${in_image[@]}" "${entry[@]}" >"$folder/daemon.log" 2>&1 &
    pid=$!
    for _ in $(seq 100); do
        healthy && break
        kill -0 $pid 2>/dev/null || { cat "$folder/daemon.log"; fail "the daemon ended"; }
        sleep 0.1
    done
    healthy || { cat "$folder/daemon.log"; fail "not healthy after 10 s"; }
    ok "runs with a read-only root; '${health[*]}' exits 0"
    awk -v user="${user%%:*}" '$1 == "Uid:" && $2 == user && $3 == user { found = 1 } END { exit !found }' \
        /proc/$pid/status || fail "it does not run as $user"
    ok "runs as $user"
    [ "$(curl -sS -m 5 -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/readyz)" = 200 ] || fail /readyz
    ok "/readyz answers 200"
    attention | grep -q '0\.98522' || fail "the attention of 'demo': $(attention)"
    ok "POST /v1/attention answers the tutorial's numbers"

    kill -TERM $pid
    sleep 1
    if healthy; then fail "healthy after SIGTERM"; fi
    attention | grep -q '0\.98522' || fail "does not serve in the drain delay"
    ok "after SIGTERM: not ready, and still serving in the drain delay"
    wait $pid || status=$?
    [ $status -eq 0 ] || { cat "$folder/daemon.log"; fail "exit status $status after SIGTERM"; }
    ok "SIGTERM ends it with exit status 0"
}

if [ "${1-}" = --inside ]; then
    folder=$2 root=$3
    try_image
    exit 0
fi

# ------------------------------------------------------------------------------------ the building --

folder=${1-}
container=
clean_up() {
    [ -z "$container" ] || buildah rm "$container" >/dev/null
    [ -z "$temporary" ] || rm -rf "$temporary"
}
temporary=
if [ -z "$folder" ]; then
    temporary=$(mktemp -d)
    folder=$temporary
fi
trap clean_up EXIT
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
buildah() { command buildah --root "$folder/storage" --runroot "$folder/runroot" "$@"; }

if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
    echo "      making the base image with debootstrap"
    [ -d "$folder/base" ] || { deploy/debian-root.sh "$folder/base.new" && mv "$folder/base.new" "$folder/base"; }
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$folder/base" / >/dev/null
    buildah commit --quiet "$container" "$base" >/dev/null
    buildah rm "$container" >/dev/null
    container=
fi

# The name that the files beside this one give the image.
image=attnd:$(sed -n 's/.*image\.version="\([^"]*\)".*/\1/p' Dockerfile)
readonly image
echo "      building the Dockerfile"
buildah bud --quiet --pull-never --format docker -t "$image" . >"$folder/build.log" 2>&1 \
    || { tail -n 40 "$folder/build.log"; fail "buildah bud"; }
ok "the Dockerfile builds"

config() { buildah inspect --type image --format "$1" "$image"; }
config '{{.Docker.Config.User}}' >"$folder/user"
config '{{range .Docker.Config.Env}}{{println .}}{{end}}' | grep . >"$folder/environment"
config '{{range .Docker.Config.Entrypoint}}{{println .}}{{end}}' | grep . >"$folder/entrypoint"
config '{{range .Docker.Config.Healthcheck.Test}}{{println .}}{{end}}' | grep -v '^CMD$' | grep . >"$folder/health"
[ "$(cat "$folder/user")" = 65532:65532 ] || fail "the user is '$(cat "$folder/user")'"
[ "$(config '{{.Docker.Config.StopSignal}}')" = SIGTERM ] || fail "the stop signal"
# shellcheck disable=SC2016 # Go's variables
config '{{range $port, $_ := .Docker.Config.ExposedPorts}}{{println $port}}{{end}}' | grep -qx 8080/tcp \
    || fail "the port"
ok "user 65532:65532, port 8080, SIGTERM, a health check"

container=$(buildah from --pull-never "$image")
root=$(buildah mount "$container")

# The daemon is the only program in the image; besides it there are shared libraries.
while read -r name; do
    case $name in
    /usr/local/bin/attnd | *.so | *.so.*) ;;
    *) fail "$name is in the image" ;;
    esac
done < <(find "$root" -type f -perm /111 -printf '/%P\n')
readelf -S "$root/usr/local/bin/attnd" | grep -q '\.debug_' && fail "the daemon is not stripped"
[ -s "$root/usr/share/doc/attnd/copyright" ] || fail "no licence of attnd"
[ -s "$root/usr/share/doc/libopenblas-pthread-dev/copyright" ] || fail "no licence of OpenBLAS"
while read -r licence; do
    [ -s "$root$licence" ] || fail "$licence is named and not there"
done < <(grep -rhoE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$root/usr/share/doc" | sort -u)
size=$(du -sm --apparent-size "$root" | cut -f1)
[ "$size" -lt "$megabytes_max" ] || fail "$size MB are in the image"
ok "nothing in the image but the daemon, its libraries and their licences: $size MB"
[ -d "$root/mnt/models" ] || fail "there is no /mnt/models"
[ -z "$(ls -A "$root/mnt/models")" ] || fail "/mnt/models is not empty"

unshare --mount --net --pid --fork --kill-child --mount-proc "$0" --inside "$folder" "$root"
