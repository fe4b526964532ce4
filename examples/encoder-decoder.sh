#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# encoder-decoder.sh - translation in steps, with the attention of Bahdanau et al. 2015.
#
#     build/attnd --models "$(mktemp -d)" --model-control=explicit &
#     examples/encoder-decoder.sh http://127.0.0.1:8080
#
# A decoder writes a French sentence word by word. Before each word it asks attnd, with its state
# after the word before as the query, which of the encoder's states it should look at, and mixes
# the context that comes back into its next state: one call a step. It does so twice, with an
# additive and a concat model of the same numbers, and draws both alignments: the picture of
# figure 3 of the paper, its three words in reverse order included.
#
# Nothing here is trained. An encoder state says by two angles at which place of the French
# sentence its word belongs, a slow one and a fast one, like two hands of a clock; the models'
# tanh units lie around both circles, so that their sum is greatest where query and key agree.
set -eu
export LC_ALL=C
url=${1:-http://127.0.0.1:8080}

english="The agreement on the European Economic Area was signed in August 1992 ."
places="1 2 3 4 7 6 5 8.5 10 11 12 13 14" # of each of these words in the French sentence
french="L' accord sur la zone économique européenne a été signé en août 1992 ."

# What the awk programs below share. A state is cos and sin of both angles.
angles='
    BEGIN { pi = atan2(0, -1); turn[0] = pi / 14; turn[1] = 2 * pi / 5 }
    function state(place) {
        return sprintf("%.6f,%.6f,%.6f,%.6f", cos(turn[0] * place), sin(turn[0] * place),
                       cos(turn[1] * place), sin(turn[1] * place))
    }'

# The columns over a state of one of 16 units, turned on by so many places: 8 around each circle.
units='
    function row(unit, places,    hand, angle) {
        hand = unit >= 8
        angle = unit * pi / 4 - turn[hand] * places
        return sprintf(hand ? "0,0,%.6f,%.6f" : "%.6f,%.6f,0,0", cos(angle), sin(angle))
    }
    function list(what,    unit, text) {
        for (unit = 0; unit < 16; unit++)
            text = text (unit ? "," : "") (what == "query" ? "[" row(unit, 1) "]" : \
                   what == "key" ? "[" row(unit, 0) "]" : \
                   what == "joined" ? "[" row(unit, 0) "," row(unit, 1) "]" : what)
        return "[" text "]"
    }'

put() { # NAME MODEL
    curl -fsS -X PUT "$url/v1/models/$1" -H 'Content-Type: application/json' -d "$2" >/dev/null
}

# The query is turned on by one place: the state after a word asks for the next one.
put additive "$(awk "$angles $units"' BEGIN {
    print "{\"config\":{\"attention\":\"additive\"},\"parameters\":{\"q_proj.weight\":" list("query") \
          ",\"k_proj.weight\":" list("key") ",\"k_proj.bias\":" list(-1) \
          ",\"score.weight\":" list(4) "}}" }')"
put concat "$(awk "$angles $units"' BEGIN {
    print "{\"config\":{\"attention\":\"concat\"},\"parameters\":{\"concat_proj.weight\":" \
          list("joined") ",\"concat_proj.bias\":" list(-1) ",\"score.weight\":" list(4) "}}" }')"

encoded=$(echo "$places" | awk "$angles"' {
    for (i = 1; i <= NF; i++)
        text = text (i > 1 ? "," : "") "[" state($i) "]"
    print "[" text "]" }')

# The next state: the last one turned on by a place, drawn a little to what was looked at.
next_state() { # STATE CONTEXT
    echo "$1,$2" | awk "$angles"' BEGIN { FS = "," } {
        for (hand = 0; hand < 2; hand++) {
            c = cos(turn[hand]); s = sin(turn[hand])
            x = $(1 + 2 * hand) * c - $(2 + 2 * hand) * s + 0.1 * $(5 + 2 * hand)
            y = $(1 + 2 * hand) * s + $(2 + 2 * hand) * c + 0.1 * $(6 + 2 * hand)
            size = sqrt(x * x + y * y)
            text = text sprintf("%s%.6f,%.6f", hand ? "," : "", x / size, y / size)
        }
        print text }'
}

# A line for each French word: the weights as shades, the word, and what it looked at most.
draw() {
    awk -v english="$english" -v french="$french" '
        BEGIN { FS = ","; split(english, from, " "); split(french, to, " ") }
        {
            most = 1; cells = ""
            for (j = 1; j <= NF; j++) {
                cells = cells ($j < 0.05 ? " ." : $j < 0.25 ? " ░" : $j < 0.5 ? " ▒" : \
                               $j < 0.75 ? " ▓" : " █")
                if ($j > $most)
                    most = j
            }
            printf "   %s  %s <- %s %.2f\n", cells, to[NR], from[most], $most
        }'
}

for model in additive concat; do
    echo "$model:"
    state=$(awk "$angles"' BEGIN { print state(0) }')
    for word in $french; do
        answer=$(curl -fsS "$url/v1/attention" -H 'Content-Type: application/json' \
            -d "{\"model\":\"$model\",\"query\":[$state],\"key\":$encoded}")
        echo "$answer" | sed 's/.*"weights":\[\[\[\([^]]*\).*/\1/'
        context=$(echo "$answer" | sed 's/.*"context":\[\[\([^]]*\).*/\1/')
        state=$(next_state "$state" "$context")
    done | draw
done
