"""client.py URL UNIX - attnd.Client against a daemon with the models of examples/models at both addresses."""

import socket
import sys
import threading
import time

import numpy as np

import attnd

url, unix = sys.argv[1:]
client = attnd.Client(url, model="demo", timeout=200)
rng = np.random.default_rng(3)


def expect(kind, call, **fields):
    try:
        call()
    except kind as error:
        for name, value in fields.items():
            assert getattr(error, name) == value, (name, getattr(error, name))
        return error
    raise AssertionError("not refused")


# One call, as lists and as arrays; the answer in the README.
rows = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
answer = client.attention(rows, outputs=["context", "weights", "lse"])
assert answer.model == "demo" and answer.layer == 0
assert np.allclose(answer.context[0], [0.985220, 1.741741, 0.756520], atol=1e-6)
assert answer.context.dtype == np.float32 and answer.lse.shape == (1, 4)
assert isinstance(answer.weights, attnd.WeightMap) and np.allclose(np.asarray(answer.weights).sum(-1), 1, atol=1e-6)
assert "<img" in answer.weights._repr_html_()
assert np.array_equal(client.attention(np.float32(rows)).context, answer.context)
assert client.attention(rows, outputs=["weights"], weight_map={"top_k": 2})["weights.indices"].dtype == np.int64

# sdpa computes in the dtype that comes, and gives the bits of attnd.local.
q, k, v = (rng.standard_normal((2, n, 8)).astype(np.float32) for n in (5, 7, 7))
context = client.attention(q, k, v, model="sdpa", causal=True, outputs=["context"]).context
here = attnd.local.scaled_dot_product_attention(q, k, v, is_causal=True)
assert np.array_equal(context, here.transpose(1, 0, 2).reshape(5, 16)), "the bits of both"
assert client.attention(q.astype(np.float16), model="sdpa", outputs=["context"]).context.dtype == np.float16
assert client.attention(q.astype(float), model="sdpa", outputs=["context"]).context.dtype == np.float64
seen = rng.random((5, 7)) < 0.6
masked = client.attention(q, k, v, mask=seen, model="sdpa", outputs=["context"]).context
near = attnd.local.scaled_dot_product_attention(q, k, v, seen).transpose(1, 0, 2).reshape(5, 16)
assert np.array_equal(masked, near)

# Gradients, batches, softmax.
gradients = client.gradients(rows, np.ones((4, 3)))
assert gradients.query.shape == (4, 3) and any("q_proj" in name or "W" in name for name in gradients)
first, fault = client.batch([{"query": rows}, {"query": [[1, 2]]}], outputs=["context", "lse"])
assert np.allclose(first.context, answer.context) and first.lse.dtype == np.float32
assert isinstance(fault, attnd.AttndError) and fault.code == "shape" and fault.pointer == "/requests/1/query"
assert np.allclose(client.softmax([[1, 2, 3]]).sum(), 1)

# Texts.
story = attnd.Client(unix, model="stories260K", timeout=200)
tokens = story.tokenize("Once upon a time")
assert [token["id"] for token in tokens] == [1, 403, 407, 261, 378]
assert story.detokenize([1, 403, 407, 261, 378]) == "Once upon a time"
trace = story.trace("Once upon a time", outputs=["weights", "hidden_states"])
assert len(trace.attentions) == 5 and trace.attentions[1].shape == (8, 5, 5)
assert trace.attentions[0].tokens[1] == "\u2581Once" and len(trace.hidden_states) == 6
assert abs(trace.attentions[1][4][1][1] - 0.151284) < 1e-5
one, bad = story.trace_batch([{"text": "One"}, {"tokens": [1, 512]}], layers=[0], outputs=["weights"])
assert one.attentions[0].shape == (8, 2, 2) and bad.pointer == "/requests/1/tokens/1"
assert {model["name"] for model in story.models()} >= {"demo", "sdpa", "stories260K"}
assert story.describe()["name"] == "stories260K"

# Sessions: steps give what one call gives; a repeated step appends nothing.
with story.session(id="python", ttl="1m") as session:
    whole = story.trace("One day", layers=[], outputs=["predictions"], top_k_tokens=1)
    step = session.trace("One day", layers=[], outputs=["predictions"], top_k_tokens=1)
    assert session.kv_len == 3 and np.array_equal(step["predictions.ids"], whole["predictions.ids"])
    session.trace(tokens=[432], layers=[])
    assert session.kv_len == 4 and session.trace(tokens=[432], layers=[], at=3).kv_len == 4
    branch = session.fork()
    branch.truncate(2)
    assert branch.kv_len == 2 and session.info()["kv_len"] == 4
    branch.delete()
    expect(attnd.AttndError, branch.info, code="gone")
    assert "python" in [each["session"] for each in story.sessions()]
expect(attnd.Gone, session.info, status=410)
with client.session("sdpa") as session:
    contexts = []
    for i in range(7):
        step = session.attention(q[:, i % 5:i % 5 + 1], k[:, i:i + 1], v[:, i:i + 1], causal=True, outputs=["context"])
        contexts.append(step.context)
    assert session.kv_len == 7
    whole = attnd.local.scaled_dot_product_attention(q[:, 1:2], k, v)
    assert np.allclose(contexts[6], whole.transpose(1, 0, 2).reshape(1, 16), atol=1e-6)
    session.append(k, v)
    assert session.kv_len == 14
    expect(attnd.Conflict, lambda: session.append(k + 1, v, at=7), code="conflict", pointer="/at")

# Faults, typed.
fault = expect(attnd.BadRequest, lambda: client.attention([[1, 2]]), status=400, code="shape", pointer="/query")
assert "2 columns" in fault.message and fault.request_id and "at /query" in str(fault)
expect(attnd.NotFound, lambda: client.attention(rows, model="nobody"), status=404, code="not_found")
expect(attnd.BadRequest, lambda: client.attention(rows, casual=True), code="field", pointer="/casual")
expect(attnd.Forbidden, lambda: client.request("DELETE", "/v1/models/demo"), code="forbidden")
expect(attnd.ConnectionFailed, lambda: attnd.Client("unix:/nowhere/attnd.sock", retries=1).models(), status=0)
expect(ValueError, lambda: attnd.Client("127.0.0.1:8080"))


# What a daemon says is obeyed: a server that plays answers.
def played(*answers):
    """The address of a server which gives each connection one of the answers; "" closes it."""
    listener = socket.create_server(("127.0.0.1", 0))
    times = []

    def serve():
        for answer in answers:
            connection = listener.accept()[0]
            times.append(time.monotonic())
            connection.recv(65536)
            connection.sendall(answer.encode())
            connection.close()
        listener.close()

    threading.Thread(target=serve, daemon=True).start()
    return "http://127.0.0.1:%d" % listener.getsockname()[1], times


def said(status, body, headers=""):
    return "HTTP/1.1 %s\r\nContent-Type: application/json\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s" \
        % (status, headers, len(body), body)


busy = said("429 X", '{"error":"full","code":"overloaded","request_id":"a"}', "Retry-After: 1\r\n")
good = said("200 OK", '{"models":[]}')
address, times = played(busy, "", good)
assert attnd.Client(address).models() == []
assert len(times) == 3 and times[1] - times[0] > 0.9
address, times = played(busy, busy)
expect(attnd.Overloaded, lambda: attnd.Client(address, retries=0).models(), retry_after=1.0, code="overloaded")
assert len(times) == 1
long = busy.replace("Retry-After: 1\r", "Retry-After: 3600\r")
begin = time.monotonic()
expect(attnd.Overloaded, lambda: attnd.Client(played(long)[0], timeout=1000).models(), retry_after=3600.0)
assert time.monotonic() - begin < 500, "waits no longer than its time"
# A session is not made twice where nobody knows whether it was.
expect(attnd.ConnectionFailed, lambda: attnd.Client(played("", good)[0]).session("sdpa"))
# No answer, and one that is no answer of a daemon's.
quiet = socket.create_server(("127.0.0.1", 0))
expect(attnd.DeadlineExceeded,
       lambda: attnd.Client("http://127.0.0.1:%d" % quiet.getsockname()[1], timeout=0.3).models())
expect(attnd.Unavailable, lambda: attnd.Client(played(said("503 X", "<html>"))[0]).models(), code="")
print("ok")
