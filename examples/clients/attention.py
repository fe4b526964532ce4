#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attention.py [URL] - one attention with nothing but Python's standard library."""

import json
import sys
import urllib.error
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"

request = urllib.request.Request(
    url + "/v1/attention",
    data=json.dumps(
        {
            "model": "demo",
            "query": [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]],
            "outputs": ["context", "weights"],
        }
    ).encode(),
    headers={"Content-Type": "application/json"},
)
try:
    with urllib.request.urlopen(request, timeout=10) as response:
        answer = json.load(response)
except urllib.error.HTTPError as fault:
    # What a proxy says is no JSON.
    sys.exit(f"{fault.code}: {fault.read(500).decode(errors='replace')}")
except OSError as fault:
    sys.exit(f"{url}: {fault}")

for name, rows in ("context", answer["context"]), ("weights", answer["weights"][0]):
    print(name)
    for row in rows:
        print(*(f"{number:.4f}" for number in row))
