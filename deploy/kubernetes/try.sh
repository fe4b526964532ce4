#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# try.sh - tries sessions-moving/ in a cluster: applies it in a namespace of its own, sends load, rolls, scales and
# evicts pods, looks whether a session survives all that, and deletes the namespace. Takes some ten minutes.
#
#     deploy/kubernetes/try.sh IMAGE [PORT]       IMAGE as the cluster pulls it: registry.example/attnd:TAG
#
# Needs kubectl with a context whose user may make namespaces, and curl. Pods are reached by `kubectl port-forward` at
# PORT and PORT + 1 of this machine, 18080 by default, so the Service and the NetworkPolicy are applied, but not tried
# for clients. No node is touched. The last line is `N passed, N failed`; exit status: 0, or 1 if something failed.
# shellcheck disable=SC2317  # check calls the functions by their names
set -u

readonly image=${1:-} port=${2:-18080}
if [[ $image != *:* || ${image##*:} == */* || ! $port =~ ^[0-9]+$ ]]; then
    echo "usage: $0 IMAGE:TAG [PORT]" >&2
    exit 2
fi
here=$(realpath "$(dirname "$0")") folder=$(realpath "$(mktemp -d)") namespace=attnd-try-$$
readonly here folder namespace
readonly attention='{"model":"sdpa","query":[[1,0.5]],"key":[[1,2],[3,4]],"value":[[1,2],[3,4]]}'
readonly row='"query":[[1,0.5]],"key":[[1,2]],"value":[[3,4]]'
passed=0 failed=0 is_made=

k() { kubectl -n "$namespace" "$@"; }

# ------------------------------------------------------------------------------------- what is counted --

# Runs the command and says how it ended, with the last line of what it printed; all of it where it failed.
check() { # NAME COMMAND...
    local name=$1 said
    shift
    if said=$("$@" 2>&1); then
        passed=$((passed + 1))
        echo "ok      $name: ${said##*$'\n'}"
    else
        failed=$((failed + 1))
        echo "FAILED  $name"
        printf '%s\n' "$said" | sed 's/^/        /'
        return 1
    fi
}

# The same where nothing else makes sense without it.
must() { # NAME COMMAND...
    check "$@" && return
    k get pods -o wide
    k get events --sort-by=.lastTimestamp | tail -n 15
    finish
}

finish() {
    stop_background
    if [[ $is_made ]]; then
        is_made=
        check "the namespace is deleted" kubectl delete namespace "$namespace" --timeout=300s
    fi
    echo "$passed passed, $failed failed"
    exit $((failed > 0))
}

stop_background() {
    local file
    rm -f "$folder/on" "$folder/loading"
    while [[ $(jobs -rp) ]]; do
        for file in "$folder"/*.pid; do
            [[ -e $file ]] && kill "$(<"$file")" 2>/dev/null
        done
        sleep 0.1
    done
}

leave() {
    stop_background
    [[ $is_made ]] && kubectl delete namespace "$namespace" --wait=false
    rm -r "$folder"
}
trap leave EXIT
trap 'exit 130' INT TERM

# ---------------------------------------------------------------------------------------- the cluster --

# The key is not on a command line: others see those.
write_keys() {
    local name scopes key
    for name in mover:infer,sessions:all client:infer,sessions; do
        scopes=${name#*:} name=${name%%:*}
        key=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
        printf '%s\n' "$key" >"$folder/$name.key"
        printf '%s %s %s\n' "$name" "$(printf %s "$key" | sha256sum | cut -d ' ' -f 1)" "$scopes" >>"$folder/keys"
    done
    printf 'Authorization: Bearer %s\n' "$(<"$folder/client.key")" >"$folder/header"
}

make_namespace() {
    kubectl create namespace "$namespace"
}

make_secret() {
    k create secret generic attnd-keys --from-file=keys="$folder/keys" --from-file=move="$folder/mover.key"
}

# A kustomization beside the shipped one; pods ask for less, so that a small cluster has room.
write_kustomization() {
    mkdir "$folder/try"
    cat >"$folder/try/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: $namespace
resources:
  - $(realpath --relative-to="$folder/try" "$here/sessions-moving")
images:
  - name: attnd
    newName: ${image%:*}
    newTag: "${image##*:}"
patches:
  - target:
      kind: StatefulSet
      name: attnd
    patch: |
      - op: replace
        path: /spec/template/spec/containers/0/resources
        value: {requests: {cpu: 100m, memory: 256Mi}, limits: {cpu: "1", memory: 512Mi}}
END
}

is_rolled_out() { k rollout status statefulset/attnd --timeout=300s; }

scale_to() { # REPLICAS
    k scale statefulset/attnd --replicas="$1" || return
    [[ $1 == 2 ]] || k wait --for=delete pod/attnd-1 --timeout=180s || return
    is_rolled_out
}

# As a drained node does it: the PodDisruptionBudget is asked, the pod ends in order.
evict() { # POD
    printf '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"%s","namespace":"%s"}}\n' \
        "$1" "$namespace" >"$folder/eviction.json"
    k create --raw "/api/v1/namespaces/$namespace/pods/$1/eviction" -f "$folder/eviction.json" || return
    k wait --for=delete "pod/$1" --timeout=180s && is_rolled_out
}

roll() { k rollout restart statefulset/attnd && is_rolled_out; }

# A port-forward ends with its pod, and begins again with the next one.
forward() { # NUMBER
    while [[ -e $folder/on ]]; do
        # Not by k: $! would be a shell around it.
        kubectl -n "$namespace" port-forward "pod/attnd-$1" "$((port + $1)):8080" >/dev/null 2>&1 &
        echo $! >"$folder/forward-$1.pid"
        wait $!
        sleep 0.5
    done
}

# ---------------------------------------------------------------------------------------- the clients --

# Asks a pod by its name in the cluster, and follows a session that has moved. Prints the body, and the status in
# the last line.
ask() { # NUMBER PATH [BODY]
    curl -sS -m 20 -L --location-trusted -w '\n%{http_code}\n' -H "@$folder/header" \
        --connect-to "attnd-0.attnd-replicas:8080:127.0.0.1:$port" \
        --connect-to "attnd-1.attnd-replicas:8080:127.0.0.1:$((port + 1))" \
        ${3:+-d "$3"} "http://attnd-$1.attnd-replicas:8080$2"
}

expect() { # STATUS NUMBER PATH [BODY]
    local said
    said=$(ask "${@:2}")
    printf '%s\n' "$said"
    [[ ${said##*$'\n'} == "$1" ]]
}

is_reached() { # NUMBER
    local i
    for ((i = 0; i < 60; i++)); do
        expect 200 "$1" /readyz && return
        sleep 1
    done
    return 1
}

needs_key() {
    local status
    status=$(curl -sS -m 20 -o /dev/null -w '%{http_code}' -d "$attention" "http://127.0.0.1:$port/v1/attention")
    echo "$status"
    [[ $status == 401 ]]
}

equal_bits() {
    local one other
    one=$(ask 0 /v1/attention "$attention" 2>&1)
    other=$(ask 1 /v1/attention "$attention" 2>&1)
    printf '%s\n' "$one" "$other"
    [[ $one == "$other" && ${one##*$'\n'} == 200 ]]
}

# The session is at one of the pods, whichever, with all rows that were appended; one more is appended.
session_goes_on() { # ROWS
    local i said
    for i in 0 1; do
        said=$(ask "$i" /v1/sessions/kept 2>&1)
        if [[ ${said##*$'\n'} == 200 && $said == *"\"kv_len\":$1,"* ]]; then
            expect 200 "$i" /v1/sessions/kept/attention "{$row,\"at\":$1}" || return
            echo "$1 rows at attnd-$i, and one more"
            return
        fi
        printf 'attnd-%s: %s\n' "$i" "$said"
    done
    return 1
}

# Each request goes to one pod, and where that does not answer with 200 to the other, for 30 s at most. Writes a
# line for each: how many tries it took; 0: none did.
load() {
    local number=0 tries
    while [[ -e $folder/loading ]]; do
        number=$((number + 1))
        for ((tries = 1; tries <= 60; tries++)); do
            [[ -e $folder/loading ]] || return
            expect 200 $(((number + tries) % 2)) /v1/attention "$attention" >/dev/null 2>&1 && break
            ((tries % 2)) || sleep 1
        done
        echo $((tries <= 60 ? tries : 0)) >>"$folder/load"
        sleep 0.2
    done
}

no_request_failed() {
    awk '{ requests++; failed += $1 == 0; again += $1 > 1 }
         END {
             printf "%d requests, %d again at the other pod, %d failed\n", requests, again, failed
             exit requests == 0 || failed
         }' \
        "$folder/load"
}

# ------------------------------------------------------------------------------------------- the steps --

echo "context $(kubectl config current-context), namespace $namespace, image $image"
umask 077
write_keys
write_kustomization
must "a namespace" make_namespace
is_made=yes
must "a Secret with the keys" make_secret
must "the manifests are taken" k apply -k "$folder/try"
must "two pods are ready" is_rolled_out

touch "$folder/on" "$folder/loading"
forward 0 &
forward 1 &
must "attnd-0 answers" is_reached 0
must "attnd-1 answers" is_reached 1
check "a request without a key is refused" needs_key
check "both answer with the same bits" equal_bits
must "a session is made" expect 201 0 /v1/sessions '{"model":"sdpa","id":"kept","ttl":"1h"}'
must "rows are appended" expect 200 0 /v1/sessions/kept/attention "{$row,\"at\":0}"
: >"$folder/load"
load &

check "all pods are restarted" roll
check "the session after a rolling restart" session_goes_on 1
check "one pod is left" scale_to 1
check "the session with one pod" session_goes_on 2
check "there are two again" scale_to 2
check "a pod is evicted" evict attnd-0
check "the session after the eviction" session_goes_on 3

rm -f "$folder/loading"
sleep 1
check "requests meanwhile" no_request_failed
finish
