# SPDX-License-Identifier: Apache-2.0
"""show.py URL - attnd.show() gives the page the numbers that it was given, of every form that BertViz takes, and
refuses what no page could draw. What the page shows of them is tests/page/test_page_shown.c's."""

import base64
import html
import os
import re
import sys
import tempfile

import attnd
import numpy as np

from refusal import expect

url = sys.argv[1]
client = attnd.Client(url)


def read(page):
    """(tensors, what the metadata says) of the file in a page."""
    file, = re.findall(r'<script type="application/octet-stream" id="weights"[^>]*>([^<]*)</script>', page)
    return getattr(attnd, "answers", attnd)._read_safetensors(base64.b64decode(file))


def check(attentions, layers, tokens=None, **fields):
    shown = attnd.show(attentions, tokens, client, **fields)
    tensors, said = read(shown.html)
    assert sorted(tensors) == ["attentions.%d" % i for i in range(len(layers))], sorted(tensors)
    for i, layer in enumerate(layers):
        assert np.array_equal(tensors["attentions.%d" % i], np.float32(layer), equal_nan=True)
    assert said.get("tokens") == tokens
    return shown


# Layers of numpy with a batch axis of 1, as transformers answer them, of any float; layers may differ in size.
layers = np.random.default_rng(1).random((3, 2, 4, 4), np.float32)
texts = ["<s>", "</script><script>alert(1)</script>", "\"quoted'", "\u2581a"]
for dtype in ("float16", "float32", "float64"):
    check(tuple(layer[None].astype(dtype) for layer in layers), layers.astype(dtype), texts)
check([layers[0][None], layers[1][None, :1]], [layers[0], layers[1][:1]], texts)
# One array of layers, of heads, of a map; lists alone, in which None may not be seen.
check(layers, layers, texts)
check(layers[:, None], layers)
check(layers[0], layers[:1])
check(layers[0, 0], [layers[0, :1]])
check(layers.transpose(0, 1, 3, 2), layers.transpose(0, 1, 3, 2))
check([[[[1, None], [0.25, 0.75]]]], [[[[1, np.nan], [0.25, 0.75]]]], ["a", "b"])
check(([[[[1, 0], [0.25, 0.75]]]],), [[[[1, 0], [0.25, 0.75]]]])
check([[[1, 0], [0.25, 0.75]]], [[[[1, 0], [0.25, 0.75]]]])
# Rows and keys of their own, as of cross-attention.
cross = attnd.show(layers[..., :3, :], None, client, row_tokens=["r", "s", "t"], key_tokens=texts)
assert read(cross.html)[1] == {"row_tokens": ["r", "s", "t"], "key_tokens": texts}
# Weights of a trace, and an address in place of a client.
trace = client.trace("Once upon a time", model="stories260K", outputs=["weights"])
names = [token["text"] for token in trace.tokens]
check(trace.attentions, trace.attentions, names)
assert attnd.show(trace.attentions, names, url).html == attnd.show(trace.attentions, names, client).html

# The frame and the file hold the same page, which names no other file and no text of a token.
shown = check(layers, layers, texts, name="\"><b>", height=300)
frame, = re.findall(r'^<iframe [^<>]*height="300"[^<>]* srcdoc="([^"<>]*)"></iframe>$', shown._repr_html_())
assert 'sandbox="allow-scripts allow-downloads"' in shown._repr_html_() and html.unescape(frame) == shown.html
with tempfile.TemporaryDirectory() as folder:
    shown.save(os.path.join(folder, "a.html"))
    assert open(os.path.join(folder, "a.html"), "rb").read() == shown.html.encode()
assert not re.search(r"<(?:link|script|img)\b[^>]*(?:href|src)=", re.sub("(?s)<(script|style)[ >].*?</\\1>", "",
                                                                         shown.html))
assert "alert(1)" not in shown.html and "<b>" not in re.search("<script .*", shown.html)[0]

for call, said in ((lambda: attnd.show([[[1, 0], [1]]], client=client), "attentions is no array of numbers"),
                   (lambda: attnd.show([[[[1, 0], [1]]]], client=client), "attentions[0] is no array of numbers"),
                   (lambda: attnd.show(["text"], client=client), "attentions"),
                   (lambda: attnd.show((), client=client), "attentions"),
                   (lambda: attnd.show([1.0, 2.0], client=client), "expected [1, heads, query, key]"),
                   (lambda: attnd.show(np.ones((1, 2, 3, 4, 4)), client=client), "[2, 3, 4, 4]"),
                   (lambda: attnd.show(layers[:, :, :0], client=client), "[2, 0, 4]"),
                   (lambda: attnd.show([[1, np.inf]], client=client), "infinite"),
                   (lambda: attnd.show(layers, texts[:3], client), "3 tokens; expected 4"),
                   (lambda: attnd.show(layers[..., :3, :], texts[:2], client), "expected 3 or 4"),
                   (lambda: attnd.show(layers[..., :3, :], None, client, key_tokens=texts[:3]), "3 key_tokens"),
                   (lambda: attnd.show(np.broadcast_to(np.float32(0), (33, 1, 1024, 1024)), client=client),
                    "at most 33554432"),
                   (lambda: attnd.show(layers, texts, "127.0.0.1:8080"), "the address")):
    assert said in str(expect(ValueError, call)), said
print("ok")
