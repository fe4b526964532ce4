# SPDX-License-Identifier: Apache-2.0
"""Tensors in shared memory, by tritonclient and its utils.shared_memory: calls.py HOST:PORT PREFIX

The calls are those of NVIDIA's example simple_http_shm_client.py, in its order: all regions are dropped, those of CUDA
too, a region for outputs and one for inputs are made and registered, and one inference reads and writes them.
"""

import os
import sys

import numpy
import tritonclient.http
from tritonclient import utils
from tritonclient.utils import shared_memory

client = tritonclient.http.InferenceServerClient(url=sys.argv[1])
client.unregister_system_shared_memory()
client.unregister_cuda_shared_memory()

shape = [1, 1, 8, 4]
query, key, value = numpy.random.default_rng(1).standard_normal([3, *shape]).astype(numpy.float32)
size = query.nbytes
regions = {}
for name, byte_size in ("output_data", size), ("input_data", 3 * size):
    region_key = f"{sys.argv[2]}{name}-{os.getpid()}"
    regions[name] = shared_memory.create_shared_memory_region(name, region_key, byte_size)
    client.register_system_shared_memory(name, region_key, byte_size)

inputs = []
for i, (name, tensor) in enumerate(zip("QKV", (query, key, value))):
    shared_memory.set_shared_memory_region(regions["input_data"], [tensor], offset=i * size)
    inputs.append(tritonclient.http.InferInput(name, shape, "FP32"))
    inputs[-1].set_shared_memory("input_data", size, offset=i * size)
output = tritonclient.http.InferRequestedOutput("Y", binary_data=True)
output.set_shared_memory("output_data", size)
answer = client.infer(model_name="sdpa", inputs=inputs, outputs=[output]).get_output("Y")
context = shared_memory.get_contents_as_numpy(
    regions["output_data"], utils.triton_to_np_dtype(answer["datatype"]), answer["shape"]
)

scores = query[0, 0].astype(numpy.float64) @ key[0, 0].T / 2
weights = numpy.exp(scores - scores.max(axis=1, keepdims=True))
weights /= weights.sum(axis=1, keepdims=True)
assert numpy.abs(context[0, 0] - weights @ value[0, 0]).max() < 1e-6

assert {region["name"] for region in client.get_system_shared_memory_status()} == set(regions)
client.unregister_system_shared_memory()
assert client.get_system_shared_memory_status() == []
for region in regions.values():
    shared_memory.destroy_shared_memory_region(region)
