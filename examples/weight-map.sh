#!/bin/sh
# weight-map.sh [URL] - draws which word of a sentence attends to which, as an SVG on standard output.
#
#     make run                                                  # in one terminal
#     examples/weight-map.sh >build/weight-map.svg              # in another
#
# sentence.json asks for the weights of head 4 in layer 1 of stories260K. Its 16 query rows are what
# that layer sees when the model has told the first sentence of its story (story-teller.c): the
# inputs of the layer after their norm, rounded to two digits.
set -eu
export LC_ALL=C
url=${1:-http://127.0.0.1:8080}
words='<s> Once upon a time , there was a little g ir l named Lily .' # of the model's vocabulary

curl -fsS "$url/v1/attention" -H 'Content-Type: application/json' -d @"$(dirname "$0")/sentence.json" \
    | sed 's/.*"weights":\[\[\[//; s/\]\]\].*//; s/\],\[/\n/g' \
    | awk -F , -v words="$words" '
        BEGIN {
            count = split(words, word, " ")
            for (i = 1; i <= count; i++) {
                gsub(/</, "\\&lt;", word[i])
                gsub(/>/, "\\&gt;", word[i])
            }
            cell = 22; left = 64; top = 64; side = left + count * cell + 12
            printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\"", side, side
            print " font-family=\"sans-serif\" font-size=\"13\">"
            printf "<rect width=\"%d\" height=\"%d\" rx=\"6\" fill=\"#fff\"/>\n", side, side
            for (i = 1; i <= count; i++) {
                middle = (i - 0.5) * cell
                printf "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", left - 6, top + middle + 4, word[i]
                printf "<text transform=\"translate(%d,%d) rotate(-60)\">%s</text>\n", left + middle + 2, top - 6, word[i]
            }
        }
        {
            y = top + (NR - 1) * cell + 1
            printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"#eef1f6\"/>\n", \
                left + 1, y, NR * cell - 2, cell - 2 # later words are masked: the model is causal
            for (key = 1; key <= NR; key++)
                if ($key >= 0.005)
                    printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"#1f4e9c\" opacity=\"%.2f\"/>\n", \
                        left + (key - 1) * cell + 1, y, cell - 2, cell - 2, $key
        }
        END { print "</svg>" }'
