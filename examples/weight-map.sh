#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# weight-map.sh [URL [TEXT]] - draws which token of a text attends to which, as an SVG on standard output.
#
#     make run                                                  # in one terminal
#     examples/weight-map.sh >build/weight-map.svg              # in another
#
# One trace of stories260K answers all that is drawn: the tokens of the text, and the weights of head 4 in layer 1.
set -eu
export LC_ALL=C
url=${1:-http://127.0.0.1:8080}
text=${2:-Once upon a time, there was a little girl named Lily.}

answer=$(curl -fsS "$url/v1/trace" -H 'Content-Type: application/json' -d '{"model":"stories260K",
    "text":"'"$(printf '%s' "$text" | sed 's/[\\"]/\\&/g')"'","layers":[1],"weight_map":{"heads":[4]}}')

# First a line for each token, "text":"...", then a line for each row of weights.
{
    printf '%s\n' "$answer" | grep -oE '"text":"([^"\\]|\\.)*"'
    printf '%s\n' "$answer" | sed 's/.*"weights":\[\[\[//; s/\]\]\].*//; s/\],\[/\n/g'
} | awk -F , '
        /^"text"/ {
            gsub(/^"text":"(▁)?|"$/, "") # ▁ is the space before a word
            gsub(/\\"/, "\"")
            gsub(/\\\\/, "\\")
            gsub(/&/, "\\&amp;")
            gsub(/</, "\\&lt;")
            gsub(/>/, "\\&gt;")
            word[++count] = $0
            next
        }
        !row++ {
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
            y = top + (row - 1) * cell + 1
            printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"#eef1f6\"/>\n", \
                left + 1, y, row * cell - 2, cell - 2 # later words are masked: the model is causal
            for (key = 1; key <= row; key++)
                if ($key >= 0.005)
                    printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"#1f4e9c\" opacity=\"%.2f\"/>\n", \
                        left + (key - 1) * cell + 1, y, cell - 2, cell - 2, $key
        }
        END { print "</svg>" }'
