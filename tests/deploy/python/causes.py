# SPDX-License-Identifier: Apache-2.0
"""causes.py URL - edits, log-probs, completions and the names of TransformerLens by attnd.Client, against a daemon with
the models of examples/models. Answers that came as tensors are compared with those in JSON."""

import pickle
import sys

import numpy as np

import attnd
from refusal import expect

client = attnd.Client(sys.argv[1], model="stories260K", timeout=200)
rng = np.random.default_rng(5)


def near(got, want):
    """The same, but that numbers are rounded to a float in one of both."""
    if isinstance(want, dict):
        return got.keys() == want.keys() and all(near(got[name], want[name]) for name in want)
    if isinstance(want, list):
        return len(got) == len(want) and all(map(near, got, want))
    return np.float32(got) == np.float32(want) if isinstance(want, float) else got == want


# What an answer of tensors says is what JSON says, with and without what it is compared to.
SCORES = ("predictions", "base_predictions", "targets", "logprobs", "logprob_sum", "logprob_spans")
targets = [{"token": ",", "against": "a"}, {"token": 3, "position": 0}]
for fields in ({"targets": targets}, {"targets": targets[1:]}, {"outputs": ["logprobs"]},
               {"outputs": ["logprobs"], "spans": [[0, 2], [1, 4]], "top_k_tokens": 3}, {"targets": []},
               {"outputs": ["predictions", "logprobs"], "targets": targets, "top_k_tokens": 2, "compare": True,
                "edits": [{"layers": [3], "heads": [1], "scale": 0}]}):
    for text in ("One day, Tom", ""):
        if not text and "spans" in fields:
            continue
        fields.update(model="stories260K", text=text, layers=[])
        json = client.request("POST", "/v1/trace", fields, binary=False)
        answer = client.trace(**fields)
        assert sum(name in json for name in SCORES) >= 1
        for name in SCORES:
            assert (name in answer) == (name in json) and near(answer.get(name), json.get(name)), (name, fields)
bare = attnd.Client(sys.argv[1], model="untokenized", timeout=200)
answer = bare.trace(tokens=[1, 403], targets=[{"token": 407}], outputs=["logprobs"], layers=[])
assert set(answer.targets[0]) == {"position", "id", "logprob", "rank"} and answer.logprobs[1]["id"] == 403
with client.session() as session:
    session.trace("One day", layers=[])
    step = session.trace(tokens=[432, 261], layers=[], outputs=["logprobs"])
    assert step.logprobs[0]["rank"] is None and step.logprobs[1]["text"] == "\u2581a"

# What is read of each layer: the lens, the rollout, the statistics of a probe.
fields = {"text": "One day, Tom", "outputs": ["lens", "rollout"], "positions": [1, -1], "top_k_tokens": 2,
          "targets": [{"token": ","}, {"token": 3, "position": 1}, {"token": 4, "position": 1},
                      {"token": 5, "position": 2}]}
json = client.request("POST", "/v1/trace", dict(fields, model="stories260K"), binary=False)
answer, (batched,) = client.trace(**fields), client.trace_batch([fields])
for layer, of_batch, want in zip(answer.layers, batched.layers, json.layers):
    assert near(layer.lens, want.lens) and [len(place["targets"]) for place in layer.lens] == [2, 1]
    assert np.array_equal(layer.rollout, np.float32(want.rollout)) and np.array_equal(of_batch.rollout, layer.rollout)
assert answer.layers[4].lens[1]["targets"][0]["logprob"] == answer.targets[0]["logprob"]
del fields["targets"]
assert [set(place) for place in client.trace(**fields).layers[2].lens] == [{"position", "tokens"}] * 2
fields = {"text": "One day, Tom", "outputs": ["contributions", "norms"], "layers": [4], "targets": targets}
json, answer = client.request("POST", "/v1/trace", dict(fields, model="stories260K"), False), client.trace(**fields)
assert near(answer.contributions, json.contributions) and len(json.contributions) == 2
parts = answer.contributions[0]
total = parts["embedding"] + parts["bias"] + sum(sum(layer["heads"]) + layer["attention_bias"] + layer["feed_forward"]
                                                 + layer["edits"] for layer in parts["layers"])
assert abs(total - parts["logit"]) < 1e-4 and abs(parts["logit"] - answer.targets[0]["logit_difference"]) < 1e-4
assert np.array_equal(answer.layers[0].norms, np.float32(json.layers[0]["norms"]))
answer = bare.trace(tokens=[1, 403], outputs=["lens"], layers=[1])
assert set(answer.layers[0].lens[0]["tokens"][0]) == {"id", "logprob"}
answer = client.trace("One day, Tom", spans=[[0, 2], [2, 4]], rows=[-1], layers=[4], head_weights=np.ones((1, 8)))
assert answer.span_scores.shape == (1, 2)
kept = client.kept_trace(client.trace(probe="repeat", outputs=["rollout"], keep="1m"))
assert len(kept.statistics()[4]["induction"]) == 8 and kept.rollout(1, (100, 101)).shape == (1, 101)
kept.delete()
assert "outputs=['lens']" in str(expect(AttributeError, lambda: client.trace("One day").layers[0].lens))

# Numbers of edits: arrays and lists do the same, in one trace, in a batch and in a session.
for at, action, shape in (("hidden_states", "set", (2, 64)), ("head", "set", (2, 8)), ("head", "add", (8,)),
                          ("head", "weights", (2, 3)), ("embeddings", "add", (64,))):
    numbers = rng.standard_normal(shape).astype(np.float32)
    edit = {"at": at, "rows": np.array([0, 2]), action: numbers, "layers": None if at == "embeddings" else [2]}
    listed = dict(edit, rows=[0, 2], **{action: numbers.tolist()})
    asked = {"targets": targets, "layers": []}
    alone = client.trace("One day", edits=[{"scale": 1}, edit], **asked)
    assert alone.targets == client.trace("One day", edits=({"scale": 1}, listed), **asked).targets
    assert alone.targets != client.trace("One day", **asked).targets
    batched, shared = client.trace_batch([{"text": "One day", "edits": [edit]}, "One day"], edits=[listed], **asked)
    assert near(batched.targets, alone.targets) or near(alone.targets, batched.targets)
    assert batched.targets == shared.targets
    with client.session() as session:
        assert [target["id"] for target in session.trace("One day", edits=[edit], **asked).targets] == [432, 3]
    assert isinstance(edit[action], np.ndarray)  # the caller's is as it was
for numbers in (rng.standard_normal(8), rng.standard_normal(8).astype(np.float16), np.arange(8)):
    both = [client.trace("One day", layers=[], targets=targets, edits=[{"add": each}]).targets
            for each in (numbers, numbers.tolist())]
    assert both[0] == both[1]

# Rows of a kept trace, which an answer, a KeptTrace or an id names.
kept = client.trace(tokens=[1, 403], layers=[], outputs=[], keep="1m", states=True)
want = client.trace(tokens=[1, 403], layers=[], targets=[{"token": ","}]).targets
for trace in (kept, client.kept_trace(kept), kept.trace):
    patched = client.trace(tokens=[1, 385], layers=[], targets=[{"token": ","}], edits=[
        {"at": "embeddings", "from": {"trace": trace}}])
    assert patched.targets == want
assert client.trace(tokens=[1, 385], layers=[], targets=[{"token": ","}]).targets != want
client.kept_trace(kept).delete()
expect(attnd.Gone, lambda: client.trace("a", edits=[{"from": {"trace": kept}}]), pointer="/edits/0/from/trace")
for edits, said in (("hide", "a list of dicts"), ({"scale": 0}, "a list of dicts"), ([{}, [1]], "edits[1]")):
    assert said in str(expect(TypeError, lambda: client.trace("One day", edits=edits)))
    assert said in str(expect(TypeError, lambda: client.trace_batch(["One day"], edits=edits)))
expect(attnd.BadRequest, lambda: client.trace("One day", edits=[{"scale": 0}, {"scale": 0, "heads": [8]}]),
       code="option", pointer="/edits/1/heads/0")
expect(attnd.BadRequest, lambda: client.trace("One day", edits=[{"add": np.ones(7)}]), code="shape",
       pointer="/edits/0/add")

# Log-probs of a text, a completion.
answer = client.logprobs("One day", outputs=["predictions"], top_k_tokens=1)
assert abs(answer.logprob_sum + 1.893627) < 1e-5 and answer.predictions[0]["tokens"][0]["text"] == ","
assert answer.logprobs[2]["tokens"][0] == {name: answer.logprobs[2][name] for name in ("id", "text", "logprob")}
assert client.logprobs("One day", layers=[1]).layers[0].layer == 1
answer = client.complete(["One day", "Once"], max_tokens=2, logprobs=1, echo=True)
assert [choice.text for choice in answer.choices] == ["One day, a", "Once upon a"]
assert answer.choices[0].logprobs["tokens"][:3] == ["<s>", "One", " day"] and answer.usage["completion_tokens"] == 4
ids = [1, 403, 407]
assert client.complete(np.array(ids), max_tokens=1).choices[0].text == " a"
assert client.complete([ids, ids], max_tokens=1, temperature=1, seed=3).choices[1].index == 1
expect(attnd.BadRequest, lambda: client.complete("Once", model="demo"), code="option", pointer="/model")

# Effects are what single traces say: of heads, of spans, of rows of another text; numbers of edits as tensors, too.
def difference(text, target, edits, more=()):
    """Edited less unedited, where both have the edits more."""
    values = []
    for each in ([*more, *edits], list(more)):
        answer = client.trace(text, layers=[], targets=[target], edits=each).targets[0]
        values.append(np.float32(answer["logit_difference" if "against" in target else "logprob"]))
    return values[0] - values[1]


text, target = "Sue saw a cake. Tim had a dog. Sue can eat the", {"token": "\u2581c"}
common = [{"at": "embeddings", "add": rng.standard_normal(64).astype(np.float32) / 8}]
answer = client.effects(text, target, layers=[1, 4], rows=[-1], edits=common)
assert answer.effects.shape == (2, 8) and answer.effects.dtype == np.float32 and answer.layers == [1, 4]
off = {"layers": [4], "heads": [4], "rows": [-1], "scale": 0}
assert answer.effects[1, 4] == difference(text, target, [off], common)
parts = ["Sue saw a cake.", "Tim had a dog."]
answer = client.effects(text, target, {"span_texts": parts})
assert answer.effects.tolist() == [difference(text, target, [{"hide_texts": [part]}]) for part in parts]
assert client.effects(text, target, {"spans": answer.spans}).effects.tolist() == answer.effects.tolist()
assert client.effects(text, target, {"span_texts": parts}, by="leave_out").moved is True
assert client.effects(text, {"divergence": "kl"}, "layers", top_k_tokens=1).effects.min() >= 0
target = {"token": "\u2581Lily", "against": "\u2581Tim"}
by = [client.effects("Tim was sad.", target, {"rows_of_layers": True}, by="from", other=other, rows=[1, -1])
      for other in ("Lily was sad.", {"text": "Lily was sad."})]
assert by[0].effects.shape == (5, 2) and by[0].rows[0] == 1 and np.array_equal(by[0].effects, by[1].effects)
expect(attnd.BadRequest, lambda: client.effects("Tim was sad.", target, by="from", other="Lily"), code="length",
       pointer="/other")
expect(attnd.BadRequest, lambda: client.effects("Tim was sad."), pointer="/metric")

# TransformerLens' names: the arrays themselves, in a batch too.
trace = client.trace("One day, Tom", outputs=["weights", "masked", "hidden_states", "attention_output"])
for i in range(5):
    layer, name = trace.layers[i], "blocks.%d." % i
    for hook, output in (("attn.hook_pattern", "weights"), ("attn.hook_attn_scores", "masked"),
                         ("hook_resid_pre", "hidden_states"), ("hook_attn_out", "attention_output")):
        assert trace.cache[name + hook] is layer[output]
        assert trace.cache[hook.replace("attn.", "").replace("hook_", ""), i] is layer[output]
    assert i == 4 or trace.cache[name + "hook_resid_post"] is trace.layers[i + 1]["hidden_states"]
assert len(trace.cache) == 5 * 4 + 4 and "blocks.4.hook_resid_post" not in trace.cache
batched, = client.trace_batch(["One day, Tom"], outputs=["weights"], layers=[3])
assert np.array_equal(batched.cache["pattern", 3], trace.cache["pattern", 3])
assert pickle.loads(pickle.dumps(trace.cache)).keys() == trace.cache.keys()
assert client.trace("One", layers=[]).cache == {}
some = client.trace("One day", layers=[1, 3], outputs=["weights"]).cache
for name, said in ((("attn_scores", 1), "outputs=['masked']; it has attn.hook_pattern of blocks.1, blocks.3"),
                   (("pattern", 2), "the trace has other layers"), (("z", 1), "blocks.1.attn.hook_z: no output"),
                   ("blocks.1.hook_resid_post", "outputs=['hidden_states']"), ("hook_embed", "no output of a trace"),
                   (7, "no output of a trace")):
    assert said in str(expect(KeyError, lambda: some[name])), name
assert "the next one's hook_resid_pre" in str(expect(KeyError, lambda: trace.cache["resid_post", 4]))
assert "attn.hook_pattern of blocks.0 to blocks.4" in str(expect(KeyError, lambda: trace.cache["x", 0]))
for name, asked in (("targets", "targets=[{"), ("base_predictions", "compare=True"), ("logprobs", "['logprobs']"),
                    ("logprob_sum", "['logprobs']")):
    assert "ask for it by" in str(expect(AttributeError, lambda: getattr(trace, name)))
    assert asked in str(expect(AttributeError, lambda: getattr(trace, name)))


# Blocks of an encoder-decoder, whose layers are numbered through.
def traced(kinds, numbers=None):
    return attnd.Answer(layers=[attnd.Answer(layer=number, kind=kind, weights=number, hidden_states=-number,
                                             attention_output=10 * number)
                                for number, kind in zip(numbers or range(len(kinds)), kinds)])


cache = traced(["encoder"] * 2 + ["decoder"] * 3 + ["cross"] * 3).cache
assert cache["encoder.1.attn.hook_pattern"] == 1 and cache["decoder.0.attn.hook_pattern"] == 2
assert cache["decoder.2.cross_attn.hook_pattern"] == 7 and cache["decoder.2.hook_cross_attn_out"] == 70
assert cache["decoder.1.hook_resid_post"] == cache["decoder.2.hook_resid_pre"] == -4
assert "decoder.2.hook_resid_post" not in cache and "encoder.1.hook_resid_post" not in cache
for part in (traced(["decoder", "cross"], [2, 5]), traced(["encoder"]), traced(["text", "vision"]),
             traced(["encoder", "decoder", "cross"], [0, 2, 4]), traced(["encoder", "decoder", "decoder", "cross"])):
    assert part.cache == {}
    assert "all layers of an encoder-decoder" in str(expect(KeyError, lambda: part.cache["pattern", 0]))
print("ok")
