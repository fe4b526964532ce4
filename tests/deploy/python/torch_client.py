# SPDX-License-Identifier: Apache-2.0
"""torch_client.py URL - tensors of torch in calls of attnd.Client, as JSON and as bytes, beside arrays of numpy."""

import sys

import numpy as np
import torch

import attnd

client = attnd.Client(sys.argv[1], model="sdpa", timeout=200)
story = attnd.Client(sys.argv[1], model="stories260K", timeout=200)
torch.manual_seed(3)

# Numbers go as they are, those of bfloat16, too, which numpy has not.
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    x = torch.randn(5, 4).to(dtype)
    widened, inexact = x.float().numpy(), 2.0 ** -7 if dtype in (torch.float16, torch.bfloat16) else 1e-6
    assert np.array_equal(client.softmax(x), client.softmax(widened))
    mask = torch.zeros(5, 5).masked_fill(torch.eye(5).bool(), -torch.inf).to(dtype)
    want = client.attention(widened, mask=mask.float().numpy(), outputs=["context"]).context
    item, = client.batch([{"query": x, "mask": mask}], outputs=["context"])
    assert np.allclose(item.context, want, 1e-6, 1e-6)
    assert np.allclose(client.attention(x, mask=mask, outputs=["context"]).context, want, inexact, inexact)

# Integers, such as the ids of a tokenizer of transformers, in each form of a body.
ids = torch.tensor([1, 403, 407])
want = story.trace(tokens=[1, 403, 407], layers=[1], outputs=["weights"]).attentions[0]
for kind in (torch.int64, torch.int32):
    asked = {"tokens": ids.to(kind), "layers": [1], "outputs": ["weights"]}
    assert np.array_equal(story.trace(**asked).attentions[0], want)
    assert np.allclose(story.trace_batch([asked])[0].attentions[0], want, 1e-5, 1e-6)
assert story.detokenize(ids) == "Once upon"
rows = torch.randn(3, 4)
for kv_len in (torch.tensor(2), torch.tensor([2, 1, 2])):
    assert np.array_equal(client.attention(rows, kv_len=kv_len).context,
                          client.attention(rows, kv_len=kv_len.tolist()).context)
assert np.array_equal(client.attention(torch.arange(6).reshape(2, 3)).context,
                      client.attention(np.arange(6).reshape(2, 3)).context)

# attnd.show() takes what transformers answer, of any dtype and with a gradient, as the same numbers of numpy.
weights = torch.softmax(torch.randn(3, 1, 2, 4, 4), -1)
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    layers = [layer.to(dtype).requires_grad_() for layer in weights]
    assert attnd.show(tuple(layers), "abcd", client).html == attnd.show(
        [layer.detach().float().numpy() for layer in layers], "abcd", client).html
print("ok")
