# SPDX-License-Identifier: Apache-2.0
"""The attention service that one writes in an afternoon: FastAPI, uvicorn and numpy.

    python3 -m uvicorn --app-dir tests/bench rival_fastapi:app

Debian's packages are python3-fastapi, python3-uvicorn, python3-uvloop, python3-httptools and python3-numpy.

Written for speed as far as that stays natural: bodies are read without a model of pydantic, which
would take most of the time for so many numbers, answers are made without FastAPI's encoder, and
numpy computes in float32. JSON as POST /v1/attention has it, and tensors as bytes by the Open
Inference Protocol; sdpa alone.
"""

import json

import numpy
from fastapi import FastAPI, Request, Response

app = FastAPI()


def attention(query, key, value):
    scores = query @ numpy.swapaxes(key, -1, -2)
    scores *= 1 / numpy.sqrt(numpy.float32(query.shape[-1]))
    scores -= scores.max(axis=-1, keepdims=True)
    weights = numpy.exp(scores, out=scores)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ value


@app.get("/livez")
async def live():
    return Response('{"live":true}', media_type="application/json")


@app.post("/v1/attention")
async def attend(request: Request):
    call = json.loads(await request.body())
    inputs = [numpy.array(call[name], numpy.float32) for name in ("query", "key", "value")]
    answer = {"model": "sdpa", "layer": 0, "context": attention(*inputs).tolist()}
    return Response(json.dumps(answer), media_type="application/json")


@app.post("/v2/models/sdpa/infer")
async def infer(request: Request):
    body = await request.body()
    offset = int(request.headers["inference-header-content-length"])
    tensors = {}
    for given in json.loads(body[:offset])["inputs"]:
        size = given["parameters"]["binary_data_size"]
        numbers = numpy.frombuffer(body, numpy.float32, size // 4, offset)
        tensors[given["name"]] = numbers.reshape(given["shape"])
        offset += size
    context = attention(tensors["Q"], tensors["K"], tensors["V"])
    header = json.dumps({
        "model_name": "sdpa",
        "outputs": [{"name": "Y", "datatype": "FP32", "shape": context.shape,
                     "parameters": {"binary_data_size": context.nbytes}}],
    }).encode()
    return Response(header + context.tobytes(), media_type="application/octet-stream",
                    headers={"Inference-Header-Content-Length": str(len(header))})
