#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# attention.sh [URL] - one attention with curl; awk prints the numbers of the answer.
#
# The answer is taken before awk gets it: a pipe ends with the status of its last program, and would hide curl's.
set -eu
url=${1:-http://127.0.0.1:8080}

answer=$(curl -sS --max-time 10 --fail-with-body "$url/v1/attention" -H 'Content-Type: application/json' -d '{
    "model": "demo",
    "query": [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]],
    "outputs": ["context", "weights"]
}') || {
    printf '%.500s\n' "$answer" >&2
    exit 1
}
printf '%s\n' "$answer" | awk '
    # "name":[[1,2],[3,4]] and "name":[[[1,2],[3,4]]]: one line a row.
    function show(name, body, count, rows, i, numbers, n, k) {
        print name
        match(body, "\"" name "\":\\[+[^\"}]*")
        count = split(substr(body, RSTART + length(name) + 3, RLENGTH), rows, "],")
        for (i = 1; i <= count; i++) {
            if (rows[i] !~ /[0-9]/)
                continue
            gsub(/[][]/, "", rows[i])
            n = split(rows[i], numbers, ",")
            for (k = 1; k <= n; k++)
                if (numbers[k] != "")
                    printf("%s%.4f", k > 1 ? " " : "", numbers[k])
            print ""
        }
    }
    { body = body $0 }
    END { show("context", body); show("weights", body) }'
