#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""attention_numpy.py [URL] - numpy arrays there and back, as bytes.

The Open Inference Protocol with its binary tensor extension: a JSON header, then
the bytes of the arrays in its order; no number is ever written as text."""

import json
import sys
import urllib.error
import urllib.request

import numpy

DTYPES = {"FP32": "<f4", "FP16": "<f2", "FP64": "<f8"}


def infer(url, model, inputs, outputs, **parameters):
    """inputs: name -> array. Returns name -> array."""
    names = {numpy.dtype(dtype): name for name, dtype in DTYPES.items()}
    header = json.dumps(
        {
            "parameters": {**parameters, "binary_data_output": True},
            "inputs": [
                {
                    "name": name,
                    "shape": array.shape,
                    "datatype": names[array.dtype],
                    "parameters": {"binary_data_size": array.nbytes},
                }
                for name, array in inputs.items()
            ],
            "outputs": [{"name": name} for name in outputs],
        }
    ).encode()
    request = urllib.request.Request(
        f"{url}/v2/models/{model}/infer",
        data=b"".join([header, *(array.tobytes() for array in inputs.values())]),
        headers={
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": str(len(header)),
        },
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        body = response.read()
        at = int(response.headers["Inference-Header-Content-Length"])
    arrays = {}
    for output in json.loads(body[:at])["outputs"]:
        size = output["parameters"]["binary_data_size"]
        array = numpy.frombuffer(body[at : at + size], DTYPES[output["datatype"]])
        arrays[output["name"]] = array.reshape(output["shape"])
        at += size
    return arrays


url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
query = numpy.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=numpy.float32)
try:
    answer = infer(url, "demo", {"query": query}, ["context", "weights"])
except urllib.error.HTTPError as fault:
    # What a proxy says is no JSON.
    sys.exit(f"{fault.code}: {fault.read(500).decode(errors='replace')}")
except OSError as fault:
    sys.exit(f"{url}: {fault}")

for name, rows in ("context", answer["context"]), ("weights", answer["weights"][0]):
    print(name)
    for row in rows:
        print(*(f"{number:.4f}" for number in row))
