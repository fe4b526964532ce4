#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-fresh.sh - does what a newcomer does in a fresh Debian 12 that has nothing but git and make:
# a clone, `make run`, the address of the explorer and the curl line that it prints, pasted, SIGTERM, the Debian
# packages, installed and purged, `make test`.
#
#     deploy/check-fresh.sh [TARGET...]        targets of make after `make run`; default: test
#
# It tries what is committed. Its last line is `N passed, N failed` over its own steps. Exit status: 0
# if all went well, 1 if not, 77 if this machine cannot make a fresh Debian: that needs root, mounts,
# debootstrap and an archive. Mounts and processes live in namespaces that end with this script; the
# folder, about 2 GB, is in TMPDIR or /var/tmp.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0

ok() {
    echo "ok     fresh              $*"
    passed=$((passed + 1))
}

# Prints the closing line and ends. A failed step ends the check: the next steps build on it.
finish() { # FAILED
    echo "$passed passed, $1 failed"
    exit $(($1 > 0))
}

fail() {
    echo "FAILED fresh              $*"
    finish 1
}

cannot() {
    echo "no fresh Debian here: $*"
    exit 77
}

# -------------------------------------------------------------------------- inside the namespaces --

inside() { # COMMAND...
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin CI=true \
        ${TESTS_UNTIL:+TESTS_UNTIL=$TESTS_UNTIL} "$@" </dev/null
}

make_root() {
    deploy/debian-root.sh "$root" || return
    mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" || return
    inside apt-get -q update >/dev/null &&
        inside env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends git make >/dev/null 2>&1 &&
        git config --file "$folder/gitconfig" safe.directory '*' &&
        GIT_CONFIG_GLOBAL=$folder/gitconfig git clone --quiet --no-hardlinks "$PWD" "$root/root/attnd" || return
    inside chown -R root:root /root/attnd
}

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
    local log=$folder/run.log line pid answer page listen=()
    if (: <>/dev/tcp/127.0.0.1/8080) 2>/dev/null; then
        echo "port 8080 is taken here: with LISTEN=127.0.0.1:18080"
        listen=(LISTEN=127.0.0.1:18080)
    fi
    inside env -C /root/attnd make run "${listen[@]}" >"$log" 2>&1 &
    pid=$!
    for _ in $(seq 6000); do
        grep -q '^curl ' "$log" && break
        kill -0 $pid 2>/dev/null || { tail -n 30 "$log"; fail "make run ended"; }
        sleep 0.1
    done
    grep 'attnd: installing' "$log" || fail "make run does not say what it installs"
    [ "$(grep -c '^curl ' "$log")" = 1 ] || fail "make run prints not one curl line"
    line=$(grep '^curl ' "$log")
    answer=$(inside bash -c "$line")
    grep -q '0\.59595' <<<"$answer" || fail "the line '$line' answers: $answer"
    ok "make run; its line, as pasted: ${answer:0:60}..."
    page=$(grep -x 'http://.*/' "$log") || fail "make run prints no address of the explorer"
    for answer in "$page" $(inside curl -sS "$page" | grep -o 'explorer/[a-z/_]*\.[a-z]*' | sed "s|^|$page|"); do
        inside curl -sSf -o /dev/null "$answer" || fail "the explorer has no $answer"
    done
    ok "$page, and what the page asks for first"
    answer=$(inside env -C /root/attnd make -s story "${listen[@]}" 2>>"$log" | grep '^Once upon a time') ||
        { tail -n 30 "$log"; fail "make story"; }
    ok "make story: ${answer:0:60}..."
    kill -TERM "$(daemon_below $pid)"
    wait $pid || fail "make run after SIGTERM: exit status $?"
    ok "SIGTERM ends make run with exit status 0"
}

# All files but those that dpkg and apt keep for themselves.
list_files() {
    inside find / -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \
        -o -path /root -o -path /tmp \) -prune -o ! -type d -print | LC_ALL=C sort
}

try_packages() {
    local log=$folder/packages.log socket=/root/attnd.sock pid answer=
    inside env -C /root/attnd make deb >"$log" 2>&1 || { tail -n 30 "$log"; fail "make deb"; }
    list_files >"$folder/before"
    inside env -C /root/attnd DEBIAN_FRONTEND=noninteractive sh -c \
        'apt-get -q -y --no-install-recommends install ./build/deb/attnd_*.deb ./build/deb/libattn*.deb' >>"$log" 2>&1 ||
        { tail -n 30 "$log"; fail "apt-get install of the packages"; }
    inside attnd --listen "unix:$socket" >>"$log" 2>&1 &
    pid=$!
    for _ in $(seq 100); do
        answer=$(inside curl -sSf --unix-socket "$socket" http://localhost/v1/attention \
            -H 'Content-Type: application/json' -d '{"model":"demo","query":[[1,0,0]]}') && break
        sleep 0.1
    done
    kill -TERM "$(daemon_below $pid)"
    wait $pid || { tail -n 30 "$log"; fail "the installed daemon after SIGTERM: exit status $?"; }
    grep -q '"context":\[\[' <<<"$answer" || { tail -n 30 "$log"; fail "the installed daemon answers: $answer"; }
    inside env DEBIAN_FRONTEND=noninteractive apt-get -q -y purge attnd libattn1 libattn-dev >>"$log" 2>&1 ||
        { tail -n 30 "$log"; fail "apt-get purge"; }
    list_files | diff "$folder/before" - || fail "a purge does not leave the files as they were"
    ok "make deb; its packages, installed by apt, asked: ${answer:0:60}..., and purged"
}

# Apart from the others, because Python and numpy, which come with it, leave files of their own.
try_python() {
    local log=$folder/python.log answer modules=/usr/lib/python3/dist-packages/attnd
    inside env -C /root/attnd DEBIAN_FRONTEND=noninteractive sh -c 'apt-get -q -y --no-install-recommends install \
        ./build/deb/python3-attnd_*.deb ./build/deb/libattn1_*.deb' >"$log" 2>&1 ||
        { tail -n 30 "$log"; fail "apt-get install of python3-attnd"; }
    answer=$(inside python3 -c 'import attnd; print(attnd.local.softmax([0.0, 0.0]))' 2>>"$log")
    [ "$answer" = "[0.5 0.5]" ] || { tail -n 30 "$log"; fail "attnd for Python answers: $answer"; }
    inside test -d $modules/__pycache__ || fail "the modules of Python are not compiled"
    inside env DEBIAN_FRONTEND=noninteractive apt-get -q -y purge --auto-remove python3-attnd libattn1 >>"$log" 2>&1 ||
        { tail -n 30 "$log"; fail "apt-get purge of python3-attnd"; }
    inside test ! -e $modules || fail "a purge leaves $modules"
    ok "python3-attnd, installed by apt, asked: $answer, and purged"
}

try_targets() { # TARGET...
    local target start failed=0
    for target; do
        start=$SECONDS
        if inside env -C /root/attnd make "$target" 2>&1; then
            ok "make $target, in $((SECONDS - start)) s"
        else
            echo "FAILED fresh              make $target, in $((SECONDS - start)) s"
            failed=$((failed + 1))
        fi
    done
    if inside git -C /root/attnd status --porcelain | grep .; then
        echo "FAILED fresh              make leaves files in the clone"
        failed=$((failed + 1))
    else
        ok "the clone is as it was"
    fi
    finish "$failed"
}

if [ "${1-}" = --inside ]; then
    folder=$2 root=$2/root
    shift 2
    if ! make_root >"$folder/root.log" 2>&1; then
        cannot "$(grep -m 1 -E '^(E|fatal):' "$folder/root.log" || tail -n 1 "$folder/root.log")"
    fi
    ok "a fresh Debian $(cat "$root/etc/debian_version") with git and make"
    try_run
    try_packages
    try_python
    try_targets "$@"
fi

# ------------------------------------------------------------------------- outside of the namespaces --

spaces=(unshare --mount --pid --fork --kill-child --mount-proc)
[ "$(id -u)" -eq 0 ] || cannot "that needs root"
"${spaces[@]}" mount -t tmpfs none /mnt 2>/dev/null || cannot "this root may not mount"
command -v debootstrap >/dev/null || cannot "there is no debootstrap"

[ $# -gt 0 ] || set -- test
folder=$(mktemp -d "${TMPDIR:-/var/tmp}/attnd-fresh-XXXXXX") || exit 1
child=
clean_up() {
    trap "" INT TERM HUP
    [ -z "$child" ] || kill -KILL "$child" 2>/dev/null
    wait
    rm -rf --one-file-system "$folder"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

# It runs in the background, so that a signal takes effect at once. It ends with this script, however
# that ends.
setpriv --pdeathsig KILL "${spaces[@]}" "$0" --inside "$folder" "$@" &
child=$!
wait "$child"
