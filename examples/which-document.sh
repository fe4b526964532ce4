#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# which-document.sh [URL [QUESTION DOCUMENT...]] - which document of a prompt a language model looks at before it goes on.
#
#     make run                                                  # in one terminal
#     examples/which-document.sh                                # in another
#
# The prompt is the documents and then the question. One trace answers, for each layer and head, how much of the last
# token's attention lies on each document ("rows":[-1], "span_texts"): a few numbers a head, whatever the prompt's
# length, and no map. A line for each document has the mean of all heads, and the head that looks at it most.
set -eu
export LC_ALL=C
url=${1:-http://127.0.0.1:8080}
[ $# -ge 3 ] || set -- "$url" 'Sue asked her mom, "Can I eat the' \
    'Tim had a toy boat. He played with it in the water.' \
    'Sue saw a big cake. She wanted to eat the cake.' \
    'Pip was a little bird. Pip liked to sing all day.'
question=$2
shift 2

quoted() { # TEXT: as it stands in a JSON string
    printf '%s' "$1" | sed 's/[\\"]/\\&/g'
}

prompt= spans=
for document; do
    prompt="$prompt$(quoted "$document") "
    spans="$spans${spans:+,}\"$(quoted "$document")\""
done
answer=$(curl -fsS "$url/v1/trace" -H 'Content-Type: application/json' -d '{"model":"stories260K",
    "text":"'"$prompt$(quoted "$question")"'","span_texts":['"$spans"'],"rows":[-1]}')

# Of "layers":[{"layer":0,"kind":"self","spans":[[[0.1,0.2,0.3]],[[...]], ...]}, ...] a line for each layer, then one
# for each head with its number of each document. The documents are printed behind.
{
    printf '%s\n' "$answer" | sed 's/.*"layers"://; s/{"layer":/\nlayer,/g; s/\[\[/\n/g; s/\]\]/\n/g' \
        | grep -E '^(layer,|\[?[0-9])' | tr -d '['
    printf 'document,%s\n' "$@"
} | awk -F , '
        /^layer,/    { layer = $2; head = 0; next }
        /^document,/ {
            i++
            printf "mean %.2f, most %.2f in layer %d head %d: ", sum[i] / heads, most[i], at_layer[i], at_head[i]
            print substr($0, 10)
            next
        }
        {
            for (i = 1; i <= NF; i++) {
                sum[i] += $i
                if ($i > most[i]) {
                    most[i] = $i; at_layer[i] = layer; at_head[i] = head
                }
            }
            head++; heads++; i = 0
        }'
