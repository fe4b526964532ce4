# SPDX-License-Identifier: Apache-2.0
"""client.py URL UNIX - attnd.Client against a daemon with the models of examples/models at both addresses."""

import doctest
import http.client
import inspect
import os
import pickle
import select
import socket
import sys
import tempfile
import threading
import time

import numpy as np

import attnd
from refusal import expect

url, unix = sys.argv[1:]
client = attnd.Client(url, model="demo", timeout=200)
rng = np.random.default_rng(3)


# A key read from a file ends with a newline. A key with other characters is refused, and the error does not show it.
assert attnd.Client(url, key=" attnd_0123\n", model="demo").models() == client.models()
for key in ("attnd_01\n23", "attnd_01\r23", "attnd_01\0", "attnd_01\x7f", "attnd_01\u202f23", "attnd_01\ud800"):
    fault = expect(ValueError, lambda: attnd.Client(url, key=key))
    assert "the key" in str(fault) and "attnd_" not in repr(fault), fault
    assert fault.__cause__ is None and fault.__context__ is None

# One call, as lists and as arrays; the answer in the README.
rows = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]]
answer = client.attention(rows, outputs=["context", "weights", "lse"])
assert answer.model == "demo" and answer.layer == 0
assert np.allclose(answer.context[0], [0.985220, 1.741741, 0.756520], atol=1e-6)
assert answer.context.dtype == np.float32 and answer.lse.shape == (1, 4)
assert isinstance(answer.weights, attnd.WeightMap) and np.allclose(np.asarray(answer.weights).sum(-1), 1, atol=1e-6)
assert "<img" in answer.weights._repr_html_()
for same in (np.float32(rows), np.array(rows)):
    assert np.array_equal(client.attention(same).context, answer.context)
assert client.attention(rows, outputs=["weights"], weight_map={"top_k": 2})["weights.indices"].dtype == np.int64

# sdpa computes in the dtype that comes, and gives the bits of attnd.local.
q, k, v = (rng.standard_normal((2, n, 8)).astype(np.float32) for n in (5, 7, 7))
context = client.attention(q, k, v, model="sdpa", causal=True, outputs=["context"]).context
here = attnd.local.scaled_dot_product_attention(q, k, v, is_causal=True)
assert np.array_equal(context, here.transpose(1, 0, 2).reshape(5, 16)), "the bits of both"
assert client.attention(q.astype(np.float16), model="sdpa", outputs=["context"]).context.dtype == np.float16
assert client.attention(q.astype(np.float16), model="sdpa", outputs=["lse"]).lse.dtype == np.float32  # for a merge
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
assert isinstance(fault, attnd.BadRequest) and fault.status == 400
assert np.allclose(client.softmax([[1, 2, 3]]).sum(), 1)
assert np.array_equal(client.softmax([[0, -np.inf], [-np.inf, -np.inf]]), [[1, 0], [0, 0]])
assert np.array_equal(client.softmax([[0, 1], [0, 1]], dim=0), client.softmax([[0, 1], [0, 1]], 0))
hidden = np.where(np.eye(4), -np.inf, 0).astype(np.float32)  # goes as null
first, fault = client.batch([{"query": rows, "mask": hidden}, {"query": rows, "model": "nobody"}], outputs=["context"])
assert np.allclose(first.context, client.attention(rows, mask=hidden, outputs=["context"]).context)
assert isinstance(fault, attnd.NotFound) and fault.status == 404
assert client.attention(rows, precision="medium", outputs=["context"]).precision == "highest"

# In lists None of a mask and -inf are the same. Integers 0 and 1 could say either, as the contract says.
hidden, integers = hidden.tolist(), np.eye(4, dtype=int)
with_none = [[None if number < 0 else number for number in row] for row in hidden]
assert np.array_equal(client.attention(rows, mask=with_none).context, client.attention(rows, mask=hidden).context)
alone, = client.batch([{"query": rows, "mask": hidden}], outputs=["context"])
assert np.array_equal(alone.context, first.context)
for mask in (integers, integers.tolist()):
    fault = expect(TypeError, lambda: client.attention(rows, mask=mask))
    assert "mask is nothing but the integers 0 and 1" in str(fault)
assert client.attention(rows, mask=integers - 1).context.shape == (4, 3)
assert "query is of the dtype object" in str(expect(TypeError, lambda: client.attention([[1, None, 0]])))

# Attention in parts: the keys of two calls, merged.
parts = [client.attention(q, k[:, at], v[:, at], model="sdpa", partial=True, kv_offset=at.start or 0)
         for at in (slice(0, 3), slice(3, None))]
merged = client.merge(parts, model="sdpa")
assert np.allclose(merged.context, context * 0 + client.attention(q, k, v, model="sdpa").context, atol=1e-6)
assert merged.lse.shape == (2, 5)

# Texts.
story = attnd.Client(unix, model="stories260K", timeout=200)
tokens = story.tokenize("Once upon a time")
assert [token["id"] for token in tokens] == [1, 403, 407, 261, 378]
assert story.detokenize([1, 403, 407, 261, 378]) == "Once upon a time"
trace = story.trace("Once upon a time", outputs=["weights", "hidden_states"])
assert len(trace.attentions) == 5 and trace.attentions[1].shape == (8, 5, 5)
assert trace.attentions[0].tokens[1] == "\u2581Once" and len(trace.hidden_states) == 6
assert abs(trace.attentions[1][4][1][1] - 0.151284) < 1e-5 and trace.layers[1].kind == "self"
assert "\u2581upon" in trace.attentions[1].head(4)._repr_html_()
most = story.trace("One day", layers=[], outputs=["predictions"], top_k_tokens=2).predictions
assert [place["position"] for place in most] == [2] and [token["id"] for token in most[0]["tokens"]] == [432, 383]
assert most[0]["tokens"][0]["text"] == "," and abs(most[0]["tokens"][0]["logprob"] + 0.008991) < 1e-5
listed, = story.trace_batch([{"text": "One day"}], layers=[], outputs=["predictions"], top_k_tokens=2)
assert [token["text"] for token in listed.predictions[0]["tokens"]] == [",", "\u2581there"]
# Without a tokenizer the tokens have no texts.
bare = attnd.Client(url, model="untokenized", timeout=200).trace(tokens=[1, 403], outputs=["predictions", "weights"])
assert [set(token) for token in bare.predictions[0]["tokens"]] == [{"id", "logprob"}] * 5
assert bare.attentions[0].tokens == ["1", "403"]
one, bad = story.trace_batch([{"text": "One"}, {"tokens": [1, 512]}], layers=[0], outputs=["weights"])
assert one.attentions[0].tokens[1] == "\u2581One" and one.layers[0].layer == 0
assert one.attentions[0].shape == (8, 2, 2) and bad.pointer == "/requests/1/tokens/1"
one, two, bad = story.trace_batch(["Once", {"text": "One day"}, {"tokens": [512]}], outputs=["hidden_states"])
assert [token["text"] for token in one.tokens] == ["<s>", "\u2581Once"] and two.hidden_states[5].shape == (3, 64)
assert isinstance(bad, attnd.BadRequest)
for call, said in ((lambda: story.trace_batch("Once"), "'Once'"), (lambda: story.trace_batch([["a"]]), "or a text"),
                   (lambda: client.batch(["Once"]), "requests[0]"), (lambda: client.session_batch([7]), "requests[0]")):
    assert said in str(expect(TypeError, call))
# Maps of some rows or of cells have all tokens of the text.
for asked in ({"weight_map": {"rows": [0, 2]}}, {"weight_map": {"pool": [2, 2]}}):
    piece = story.trace("Once upon a time", layers=[1], outputs=["weights"], **asked).attentions[0]
    assert piece.shape[1] == 2 and len(piece.tokens) == 5 and "<img" in piece.head(4)._repr_html_()
# Arrays of answers are their owner's, weights too.
trace.attentions[0][0] = 0
assert pickle.loads(pickle.dumps(trace)).attentions[1].tokens[1] == "\u2581Once"
# What was not asked for is not an empty tuple: the error says how to ask.
bare = story.trace("One day", outputs=["lse"])
for name, asked in (("attentions", "weights"), ("hidden_states", "hidden_states"), ("predictions", "predictions"),
                    ("final_hidden_states", "hidden_states")):
    fault = expect(AttributeError, lambda: getattr(bare, name))
    assert "no %s; ask for it by outputs=['%s']; it has model" % (name, asked) in str(fault), fault
    assert not hasattr(bare, name)
assert "ask for it by outputs=['scores']" in str(expect(KeyError, lambda: bare.layers[1]["scores"]))
assert "no nonsense; it has" in str(expect(AttributeError, lambda: bare.nonsense))
assert "and a layer or more" in str(expect(AttributeError, lambda: story.trace("a", layers=[], outputs=[]).attentions))
assert len(story.trace("One day", layers=[], outputs=["hidden_states"]).hidden_states) == 1
assert "stories260K" in repr(story)
assert {model["name"] for model in story.models()} >= {"demo", "sdpa", "stories260K"}
assert story.describe()["name"] == "stories260K"

# A kept trace: pieces of its maps.
kept = story.kept_trace(story.trace("Once upon a time", layers=[1], outputs=["weights"], keep="1m"))
assert kept.info().model == "stories260K"
piece = kept.weights(1, 4, rows=(1, 5))
assert piece.shape == (4, 5) and np.allclose(piece, trace.attentions[1][4, 1:], 1e-4, 1e-6)
assert kept.weights(1, "all", cells=(2, 2)).shape == (8, 2, 2)
assert kept.weights(1, "all", cells=(1, 1), reduce="mean")[4, 0, 0] < kept.weights(1, 4, cells=(1, 1))[0, 0] == 1
assert len(kept.statistics()[0]["entropy"]) == 8
assert abs(kept.pair(1, 4, 1, 1).weight - 0.151284) < 1e-5
kept.delete()
expect(attnd.Gone, kept.info)

# Models come and go.
projections = {"q_proj.weight": np.eye(2), "k_proj.weight": [[1, 0], [0, 1]], "v_proj.weight": 2 * np.eye(2)}
assert client.put_model("mine", {"attention": "scaled_dot_product"}, projections).state == "READY"
assert np.allclose(client.attention(np.eye(2), model="mine").context[0], [1.339523, 0.660477], atol=1e-6)
client.delete_model("mine")
expect(attnd.NotFound, lambda: client.describe("mine"))

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

    # Its file makes another one of equal bits, and so do its tensors.
    path = os.path.join(tempfile.mkdtemp(), "session")
    file = session.save(path)
    both = np.concatenate([k, k], 1), np.concatenate([v, v], 1)
    made = [client.load_session(file, "moved"), client.load_session(path),
            client.load_session({"layers.0.key": both[0], "layers.0.value": both[1]}, model="sdpa")]
    os.remove(path), os.rmdir(os.path.dirname(path))
    want = session.attention(q, outputs=["context"]).context
    for each in made:
        assert each.kv_len == 14 and np.array_equal(each.attention(q, outputs=["context"]).context, want)
    assert client.open_session("moved").update(ttl="1h")["ttl_ms"] == 3600000
    assert client.load_session(file, "moved").kv_len == 14  # the very same file again changes nothing
    expect(attnd.Conflict, lambda: client.load_session(
        {"layers.0.key": both[0], "layers.0.value": both[1]}, "moved", model="sdpa"))

    # A batch over sessions, one of them by its id, and one that is not there.
    row = {"query": q[:, :1], "key": k[:, :1], "value": v[:, :1]}
    calls = [dict(row, session=each) for each in (*made[:2], made[2].id)]
    answers = client.session_batch(calls + [{"session": "nobody", "query": q}], outputs=["context"])
    alone = session.attention(**row).context
    assert all(np.array_equal(answer.context, alone) and answer.kv_len == 15 for answer in answers[:3])
    assert [each.kv_len for each in made] == [15, 15, 14] and made[2].info().kv_len == 15
    assert isinstance(answers[3], attnd.NotFound) and answers[3].pointer == "/requests/3/session"
    for each in made:
        each.delete()

# Steps of several layers at once: all or none.
with story.session() as session:
    rows_in = rng.standard_normal((2, 64)).astype(np.float32)
    steps = session.steps([{"layer": i, "input": rows_in} for i in range(5)], outputs=["context"])
    assert [step.layer for step in steps] == [0, 1, 2, 3, 4] and session.kv_len == 2
    alone = story.attention(rows_in, layer=3, causal=True, outputs=["context"]).context
    assert np.array_equal(steps[3].context, alone)
    expect(attnd.BadRequest, lambda: session.steps([{"layer": 0, "input": rows_in}, {"layer": 1, "input": [[1]]}]))
    assert session.info().layer_kv_len == [2] * 5

# Faults, typed.
fault = expect(attnd.BadRequest, lambda: client.attention([[1, 2]]), status=400, code="shape", pointer="/query")
assert "2 columns" in fault.message and fault.request_id and "at /query" in str(fault)
expect(attnd.NotFound, lambda: client.attention(rows, model="nobody"), status=404, code="not_found")
expect(attnd.BadRequest, lambda: client.attention(rows, casual=True), code="field", pointer="/casual")
expect(attnd.Conflict, lambda: client.delete_model("demo"), status=409, code="conflict")
fault = expect(attnd.ConnectionFailed, lambda: attnd.Client("unix:/nowhere/attnd.sock", retries=1).models(), status=0)
assert "unix:/nowhere/attnd.sock" in str(fault)
assert "query" in str(expect(TypeError, lambda: client.attention(np.array([["a"]]))))
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
            with connection.makefile("rb") as request:  # all of it: closing over what is unread would reset
                request.readline()
                request.read(int(http.client.parse_headers(request)["Content-Length"] or 0))
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
dated = busy.replace("Retry-After: 1\r", "Retry-After: Mon, 23 Nov 2026 15:00:00 GMT\r")
expect(attnd.Overloaded, lambda: attnd.Client(played(dated)[0]).models(), retry_after=None)
# A connection that ended while it was idle is not taken for a session, which would not be sent again.
made = '{"session":"a","model":"sdpa","kv_len":0,"layers":[0],"layer_kv_len":[0]}'
address, times = played(good.replace("Connection: close\r\n", ""), said("201 Created", made, "Attnd-Replica: b\r\n"))
idle = attnd.Client(address)
idle.models()
select.select([idle._local.connection.sock], [], [])
assert idle.session("sdpa").replica == "b" and len(times) == 2
# A session is not made twice where nobody knows whether it was.
expect(attnd.ConnectionFailed, lambda: attnd.Client(played("", good)[0]).session("sdpa"))
# No answer, and one that is no answer of a daemon's.
quiet = socket.create_server(("127.0.0.1", 0))
expect(attnd.DeadlineExceeded,
       lambda: attnd.Client("http://127.0.0.1:%d" % quiet.getsockname()[1], timeout=0.3).models())
fault = expect(attnd.Unavailable, lambda: attnd.Client(played(said("503 X", "<html>"))[0]).models(), code="")
assert "<html>" in str(fault)
page = said("200 OK", "<html><title>Welcome").replace("application/json", "text/html; charset=utf-8")
for answer in (page, said("200 OK", "").replace("application/json", "text/html"), said("200 OK", '"hello"'),
               said("200 OK", "[1]"), said("200 OK", "null"), said("200 OK", '{"cut":'),
               said("200 OK", "short").replace("json", "x-safetensors"),
               said("200 OK", "\x08" + "\0" * 7 + '{"a": 1}').replace("json", "x-safetensors")):
    fault = expect(attnd.AttndError, lambda: attnd.Client(played(answer)[0]).models(), status=200)
    assert "none of an attnd daemon" in str(fault), fault
fault = expect(attnd.AttndError, lambda: attnd.Client(played(page)[0]).trace("One day"), status=200)
assert "text/html" in str(fault) and "<html><title>Welcome" in str(fault) and "http://127.0.0.1:" in str(fault)
moved = said("301 Moved Permanently", "<html>", "Location: https://example.org/\r\n")
fault = expect(attnd.AttndError, lambda: attnd.Client(played(moved)[0]).models(), status=301)
assert "https://example.org/" in str(fault)
expect(attnd.AttndError, lambda: attnd.KeptTrace(attnd.Client(played(page)[0]), "a").weights(0, 0), status=200)
opened = attnd.Session(attnd.Client(played(page)[0]), attnd.Answer(
    session="a", kv_len=0, layers=[0], layer_kv_len=[0]))
expect(attnd.AttndError, opened.save, status=200)

# What a head says of sound is a text, whatever it looks like; a file of sound may be bytes.
words = '{"__metadata__":{"model":"m","activation":"softmax","transcript":"12"}}'
heard = said("200 OK", chr(len(words)) + "\0" * 7 + words).replace("json", "x-safetensors")
answer = attnd.Client(played(heard)[0]).trace(sound=b"RIFF", outputs=["logits"])
assert (answer.activation, answer.transcript) == ("softmax", "12"), answer
assert "no WAV file" in str(expect(attnd.BadRequest, lambda: story.trace(sound=b"RIFF"), pointer="/sound"))

# Each public call says what it takes and gives; what its example shows is so.
names = {"attnd": attnd, "np": np, "url": url, "client": story,
         "kept": story.kept_trace(story.trace("Once upon a time", layers=[1], outputs=[], keep="1m"))}
for name in attnd.__all__:
    public = getattr(attnd, name)
    for test in doctest.DocTestFinder().find(public, name, module=False, globs=names):
        assert not doctest.DocTestRunner().run(test).failed
    if name == "SAFETENSORS" or isinstance(public, type) and issubclass(public, (Exception, dict, np.ndarray)):
        continue  # their methods are those of others
    for method, call in ([(name, public)] if callable(public) else []) + inspect.getmembers(public, inspect.isroutine):
        if method.startswith("_"):
            continue
        words = inspect.getdoc(call)
        given = set(inspect.signature(call).parameters) - {"self"}
        assert ">>>" in words and "aise" in words, method
        assert not given or "arameters" in words, method
        assert isinstance(call, type) or "eturns" in words, method
assert set(attnd.__all__) == {name for name in vars(attnd) if not name.startswith("_")} - {
    name for name, value in vars(attnd).items() if inspect.ismodule(value)}
print("ok")
