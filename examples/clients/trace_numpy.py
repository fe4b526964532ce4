#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""trace_numpy.py [URL] - a text's weight maps as numpy arrays.

The answer of a trace comes as a safetensors file: no number is ever written as
text. Prints, for each layer, the head that looks most at the token before."""

import json
import sys
import urllib.error
import urllib.request

import numpy

DTYPES = {"F32": "<f4", "I64": "<i8"}


def trace(url, **fields):
    """Returns (name -> array, name -> what the answer says besides)."""
    request = urllib.request.Request(
        f"{url}/v1/trace",
        data=json.dumps(fields).encode(),
        headers={
            "Content-Type": "application/json",
            "Accept": "application/x-safetensors",
        },
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        body = response.read()
    begin = 8 + int.from_bytes(body[:8], "little")
    header = json.loads(body[8:begin])
    said = {
        name: value if name in ("model", "trace") else json.loads(value)
        for name, value in header.pop("__metadata__").items()
    }
    arrays = {}
    for name, tensor in header.items():
        first, end = (begin + offset for offset in tensor["data_offsets"])
        array = numpy.frombuffer(body[first:end], DTYPES[tensor["dtype"]])
        arrays[name] = array.reshape(tensor["shape"])
    return arrays, said


url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
text = "Once upon a time, there was a little girl named Lily."
try:
    arrays, said = trace(url, model="stories260K", text=text)
except urllib.error.HTTPError as fault:
    # What a proxy says is no JSON.
    sys.exit(f"{fault.code}: {fault.read(500).decode(errors='replace')}")
except OSError as fault:
    sys.exit(f"{url}: {fault}")

print(len(said["tokens"]), "tokens")
for layer in said["layers"]:
    weights = arrays[f"layers.{layer['layer']}.weights"]  # [heads][query][key]
    previous = weights.diagonal(-1, 1, 2).mean(1)
    head = previous.argmax()
    print(f"layer {layer['layer']}: head {head}, {previous[head]:.3f}")
