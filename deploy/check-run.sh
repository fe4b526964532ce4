#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-run.sh TARGET LISTEN [KEYS [MODELS]] - whether `make TARGET LISTEN=... KEYS=... MODELS=...` can serve there, before
# anything is installed or built: the form of LISTEN, the keys, the models, and whether somebody else serves at that
# address, who would get the request that make prints. The daemon looks at all that itself, but only once it is built.
set -eu

target=$1 listen=$2 keys=${3-} models=${4-}

refuse() {
    echo "attnd: $*" >&2
    exit 1
}

[ -z "$keys" ] || [ -r "$keys" ] ||
    refuse "KEYS: there is no file '$keys' that can be read; make one: build/attnd key new NAME --append $keys"
[ ! -f "$models" ] ||
    refuse "MODELS: '$models' is a file; give the folder that it is in: make $target MODELS=$(dirname "$models")"
[ -z "$models" ] || [ -d "$models" ] || refuse "MODELS: there is no folder '$models'"

case $listen in
unix:?*) exit ;;
localhost) listen=localhost:8080 ;;
esac
form='^(localhost|[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+|\[[^],]+\])?:([0-9]{1,5})$'
if ! [[ $listen =~ $form ]] || ((10#${BASH_REMATCH[2]} > 65535)); then
    wanted='an address and a port as in 127.0.0.1:8080, :8080, localhost:8080, [::1]:8080, or unix:PATH'
    ! [[ $listen =~ ^[0-9]{1,5}$ ]] || wanted="$wanted; for this port: make $target LISTEN=:$listen"
    refuse "LISTEN: '$listen' came; expected $wanted"
fi
host=${BASH_REMATCH[1]} port=$((10#${BASH_REMATCH[2]}))
asked=${host:-127.0.0.1}

case $asked in
localhost | 127.* | '[::1]' | '[::ffff:127.'*) ;;
*)
    [ -n "$keys${ATTND_KEYS-}${ATTND_OPEN-}" ] ||
        refuse "LISTEN: other machines reach $listen, so it takes keys: make $target LISTEN=$listen KEYS=FILE" \
            "(build/attnd key new NAME --append FILE makes one)"
    ;;
esac

# :PORT and localhost:PORT are both loopbacks.
case $host in
'' | localhost) asked='127.0.0.1 [::1]' ;;
esac
for address in $asked; do
    bare=${address#[}
    if timeout 2 bash -c ": <>/dev/tcp/${bare%]}/$port" 2>/dev/null; then
        other=$((port + 10000 > 65535 ? port - 10000 : port + 10000))
        refuse "$address:$port is taken, another server answers there. Take another port:" \
            "make $target LISTEN=$host:$other${keys:+ KEYS=$keys}${models:+ MODELS=$models}"
    fi
done
