#!/bin/bash
# check-fresh.sh - tries `make run` and `make test` as a newcomer would, in a fresh Debian 12 with
# nothing but git and make: a clone, `make run`, the curl line that it prints, pasted, `make test`.
#
#     deploy/check-fresh.sh [FOLDER]          FOLDER is kept; default: a new one, removed at the end
#
# Tries what is committed. Needs root and Debian's debootstrap; takes port 8080 of the loopback.
set -eu
cd "$(dirname "$0")/.."

ok() { echo "ok    $*"; }
fail() {
    echo "FAILED $*" >&2
    exit 1
}

# -------------------------------------------------------------------------- inside the namespaces --

inside() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin CI=true "$@" </dev/null; }

children_of() { cat /proc/"$1"/task/*/children 2>/dev/null; }

# The process id of the daemon that runs below PID.
daemon_below() { # PID
    local child
    for child in $(children_of "$1"); do
        if [ "$(cat /proc/"$child"/comm)" = attnd ]; then
            echo "$child"
        else
            daemon_below "$child"
        fi
    done
}

try_run() {
    local log=$folder/run.log line pid daemon answer
    inside env -C /root/attnd make run >"$log" 2>&1 &
    pid=$!
    for _ in $(seq 3000); do
        grep -q ' ready ' "$log" && break
        kill -0 $pid 2>/dev/null || { tail -n 30 "$log"; fail "make run ended"; }
        sleep 0.1
    done
    grep 'attnd: installing' "$log" || fail "make run does not say what it installs"
    [ "$(grep -c '^curl ' "$log")" = 1 ] || fail "not one curl line"
    line=$(grep '^curl ' "$log")
    answer=$(inside bash -c "$line")
    grep -q '0\.98522' <<<"$answer" || fail "the line '$line' answers: $answer"
    ok "make run, and the line it prints, as pasted: ${answer:0:96}..."
    daemon=$(daemon_below $pid)
    kill -TERM "$daemon"
    wait $pid || fail "make run after SIGTERM"
    ok "SIGTERM ends it with exit status 0"
}

try_tests() {
    local log=$folder/test.log start=$SECONDS
    inside env -C /root/attnd make test >"$log" 2>&1 || { tail -n 80 "$log"; fail "make test"; }
    tail -n 1 "$log" | grep -E '^[0-9]+ passed, 0 failed$' || fail "the closing line: $(tail -n 1 "$log")"
    ok "make test, in $((SECONDS - start)) s"
    inside git -C /root/attnd status --porcelain | grep . && fail "make test leaves files behind"
    ok "the clone is as it was"
}

if [ "${1-}" = --inside ]; then
    folder=$2 root=$2/root
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mkdir -p "$root/mnt/origin"
    mount --bind -o ro "$PWD" "$root/mnt/origin"
    inside git config --global --add safe.directory '*'
    inside git clone --quiet /mnt/origin /root/attnd
    try_run
    try_tests
    exit 0
fi

# ----------------------------------------------------------------------------------- the new root --

folder=${1-}
if [ -z "$folder" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
deploy/debian-root.sh "$folder/root"
chroot "$folder/root" apt-get -q update >/dev/null
DEBIAN_FRONTEND=noninteractive chroot "$folder/root" apt-get -q -y install --no-install-recommends \
    git make >/dev/null 2>&1 </dev/null
ok "a fresh Debian $(cat "$folder/root/etc/debian_version") with git and make"
unshare --mount --pid --fork --kill-child --mount-proc "$0" --inside "$folder"
