#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# cluster_stub.sh - stands for kubectl and for curl, by the name that it is called by, and answers as a cluster with
# two pods would whose sessions move. For test_cluster_try.c. In $D: `calls`, a line for each; `pods`, the numbers of
# those that run; `session`, where it is and its rows; `applied`, what kustomize made, where KUBECTL is the real one;
# `keys.file` and `move.file` of the Secret; `forwards`, the processes of port-forward. FAULT: what goes wrong.
set -u
echo "${0##*/} $*" >>"$D/calls"
fault=${FAULT:-}

# The pod ends, its session moves to the other one, and the pod is there again or not.
end_pod() { # NUMBER
    local at rows
    read -r at rows <"$D/session"
    [[ $at == "$1" && $fault != lost ]] && at=$((1 - at))
    [[ $fault == lost ]] && at=none
    echo "$at $rows" >"$D/session"
}

answer() { # STATUS BODY
    if [[ ${0##*/}$all == *'-o /dev/null'* ]]; then
        printf '%s' "$1"
    else
        printf '%s\n%s\n' "$2" "$1"
    fi
    exit 0
}

all=" $* "
if [[ ${0##*/} == kubectl ]]; then
    case $all in
    *' config current-context '*) echo stub ;;
    *' create namespace '*) [[ $fault == namespace ]] && echo 'already exists' && exit 1 || echo created ;;
    *' create secret '*) for file in "${@: -2}"; do cp "${file##*=}" "$D/$(cut -d = -f 2 <<<"$file").file"; done ;;
    *' apply -k '*)
        [[ ${KUBECTL:-} ]] && { "$KUBECTL" kustomize "${*: -1}" >"$D/applied" || exit 1; }
        echo '0 1' >"$D/pods"
        ;;
    *' rollout status '*) [[ $fault == pending ]] && echo 'timed out' && exit 1 || echo complete ;;
    *' rollout restart '*) end_pod 1 && end_pod 0 ;;
    *' scale '*--replicas=1' '*) end_pod 1 && echo 0 >"$D/pods" ;;
    *' scale '*) echo '0 1' >"$D/pods" ;;
    *' create --raw '*/eviction' '*) end_pod 0 ;;
    *' port-forward '*) echo $$ >>"$D/forwards" && exec sleep 100 ;;
    *' wait '* | *' get '* | *' delete namespace '*) echo 'it is so' ;;
    *) echo "no such call: $*" >&2 && exit 1 ;;
    esac
    exit 0
fi

[[ $all == *' -H @'* ]] || answer 401 '{"code":"unauthenticated"}'
url=${*: -1} body=
[[ $all == *' -d '* ]] && body=${all#* -d }
pod=${url#http://attnd-} && pod=${pod%%.*}
grep -qw "$pod" "$D/pods" || exit 7
read -r at rows <"$D/session" || at=none rows=0
case $url in
*/readyz) answer 200 '{"ready":true}' ;;
*/v1/attention) [[ $body == *'"model":'* ]] || answer 400 '{"code":"field"}' && answer 200 '{"context":[[1,2]]}' ;;
*/v1/sessions) echo "$pod 0" >"$D/session" && answer 201 '{"session":"kept","kv_len":0,"layers":[0]}' ;;
esac
[[ $at == "$pod" ]] || answer 404 '{"code":"not_found"}'
if [[ $body ]]; then
    [[ $body == *"\"at\":$rows}"* ]] || answer 409 '{"code":"conflict"}'
    rows=$((rows + 1))
    echo "$pod $rows" >"$D/session"
fi
answer 200 "{\"session\":\"kept\",\"kv_len\":$rows,\"layers\":[0]}"
