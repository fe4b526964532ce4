# SPDX-License-Identifier: Apache-2.0
"""local.py - attnd.local on numpy arrays against the formulas in double, and weight maps."""

import copy
import doctest
import itertools
import pickle
import threading

import numpy as np

import attnd

sdpa = attnd.local.scaled_dot_product_attention
rng = np.random.default_rng(7)


def numbers(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def formulas(q, k, v, mask=None, causal=False, scale=None, softcap=0):
    q, k, v = (x.astype(float) for x in (q, k, v))
    group = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    if group > 1:
        k, v = (np.repeat(x, group, -3) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    most = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(most), most, 0))
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + most)[..., 0]
    weights = weights / np.where(total > 0, total, 1)
    return weights @ v, weights, lse


def near(got, want, tolerance=2e-6):
    assert got.shape == want.shape, (got.shape, want.shape)
    finite = np.isfinite(want)
    assert np.array_equal(finite, np.isfinite(got))
    assert np.allclose(got[finite], want[finite], tolerance, tolerance), np.abs(got - want)[finite].max()


def expect(kind, said, call):
    try:
        call()
    except kind as error:
        assert said in str(error), str(error)
    else:
        raise AssertionError("not refused: " + said)


# Shapes, masks and options.
for shape in ((5, 8), (3, 5, 8), (2, 3, 5, 8), (2, 3, 300, 64), (1, 2, 1, 64)):
    q, k, v = numbers(*shape), numbers(*shape[:-2], 7, shape[-1]), numbers(*shape[:-2], 7, 6)
    for got, want in zip(sdpa(q, k, v, return_weights=True, return_lse=True), formulas(q, k, v)):
        assert isinstance(got, np.ndarray) and got.dtype == np.float32
        near(got, want)
    seen = rng.random((shape[-2], 7)) < 0.5
    near(sdpa(q, k, v, seen), formulas(q, k, v, seen)[0])
    near(sdpa(q, k, v, numbers(shape[-2], 7) * 0 + 1.5), formulas(q, k, v)[0])
    near(sdpa(q, k, v, is_causal=True), formulas(q, k, v, causal=True)[0])
    near(sdpa(q, k, v, scale=0.3, softcap=2.0), formulas(q, k, v, scale=0.3, softcap=2)[0])

q, k, v = numbers(2, 6, 20, 16), numbers(2, 3, 30, 16), numbers(2, 3, 30, 16)
near(sdpa(q, k, v, enable_gqa=True), formulas(q, k, v)[0])
near(sdpa(q.astype(np.float64), k.astype(np.float64), v.astype(np.float64), enable_gqa=True), formulas(q, k, v)[0], 1e-13)
half = [x.astype(np.float16) for x in (q, k, v)]
assert sdpa(*half, enable_gqa=True).dtype == np.float16
near(sdpa(*half, enable_gqa=True).astype(float), formulas(*half)[0], 2e-3)
near(sdpa(q, k, v, enable_gqa=True, kv_len=[4, 30]),
     formulas(q, k, v, np.arange(30) < np.array([4, 30])[:, None, None, None])[0])
near(sdpa(q, k, v, enable_gqa=True, is_causal=True, past_len=10),
     formulas(q, k, v, np.arange(30) <= np.arange(20)[:, None] + 10)[0])

# Views are read where they lie: heads beside each other, every second head, a head that repeats, rows backwards.
rows = numbers(2, 20, 6, 16)
near(sdpa(rows.transpose(0, 2, 1, 3), k, v, enable_gqa=True), formulas(rows.transpose(0, 2, 1, 3), k, v)[0])
near(sdpa(q[:, ::2], k, v), formulas(q[:, ::2], k, v)[0])
one = np.broadcast_to(k[:, :1], k.shape)
near(sdpa(q[:, :3], one, v), formulas(q[:, :3], one, v)[0])
near(sdpa(q[:, :, ::-1], k, v, enable_gqa=True), formulas(q[:, :, ::-1], k, v)[0])
columns = np.asfortranarray(q)
near(sdpa(columns, k, v, enable_gqa=True), formulas(q, k, v)[0])
# What cannot be read where it lies is copied: numbers of the other byte order, between others, at odd addresses.
mixed = np.zeros(q.shape, [("number", "<f4"), ("mark", "u1")])
mixed["number"] = q
odd = np.frombuffer(b"\0" + q.tobytes(), np.float32, offset=1).reshape(q.shape)
for other in (q.astype(">f4"), mixed["number"], odd):
    assert np.array_equal(sdpa(other, k, v, enable_gqa=True), sdpa(q, k, v, enable_gqa=True))
out = np.zeros((2, 20, 6, 16), np.float32)
assert sdpa(q, k, v, enable_gqa=True, out=out.transpose(0, 2, 1, 3)).base is out
near(out.transpose(0, 2, 1, 3), formulas(q, k, v)[0])

# Equal bits on each number of threads, for tiles, for parts of few rows, and from several threads at once.
long = [numbers(1, 4, n, 64) for n in (1, 3000, 3000)]
for case in ([q, k, v], long):
    alone = sdpa(*case, enable_gqa=True, threads=1)
    assert alone.tobytes() == sdpa(*case, enable_gqa=True).tobytes()
pairs = attnd.Local(threads=4)
near(pairs.scaled_dot_product_attention(*long), formulas(*long)[0])
results = []
workers = [threading.Thread(target=lambda: results.append(sdpa(q, k, v, enable_gqa=True).tobytes())) for _ in range(8)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
assert len(set(results)) == 1 and len(results) == 8

# Rows that see nothing; empty inputs.
context, lse = sdpa(q, k, v, np.zeros((20, 30), bool), enable_gqa=True, return_lse=True)
assert not context.any() and np.isneginf(lse).all()
assert sdpa(q[:, :, :0], k, v, enable_gqa=True).shape == (2, 6, 0, 16)
assert not sdpa(q, k[:, :, :0], v[:, :, :0], enable_gqa=True).any()

# Gradients against differences in double.
q, k, v, mask = numbers(1, 2, 4, 5), numbers(1, 2, 6, 5), numbers(1, 2, 6, 5), numbers(4, 6)
given = numbers(1, 2, 4, 5)
gradients = attnd.local.scaled_dot_product_attention_backward(given, q, k, v, mask, mask_gradient=True)
for x, gradient in zip((q, k, v, mask), gradients):
    assert gradient.shape == x.shape
    for index in itertools.islice(np.ndindex(x.shape), 0, None, 7):
        was, sums = x[index], []
        for step in (2.0 ** -8, -(2.0 ** -8)):
            x[index] = was + step
            sums.append((formulas(q, k, v, mask)[0] * given).sum() / (x[index] - was) / 2)
        x[index] = was
        assert abs(sum(sums) - gradient[index]) < 1e-3, (index, sum(sums), gradient[index])
# The gradient of a mask has the mask's shape, also where its numbers share their memory.
shared = np.broadcast_to(mask[:, :1], (4, 6))
backward = attnd.local.scaled_dot_product_attention_backward
assert np.array_equal(backward(given, q, k, v, shared, mask_gradient=True)[3],
                      backward(given, q, k, v, shared.copy(), mask_gradient=True)[3])

# Softmax.
x = numbers(3, 4, 50)
for axis in (0, 1, -1):
    want = np.exp(x.astype(float)) / np.exp(x.astype(float)).sum(axis, keepdims=True)
    near(attnd.local.softmax(x, axis), want)
    near(attnd.local.log_softmax(x, axis), np.log(want))
assert np.array_equal(attnd.local.softmax(x, dim=0), attnd.local.softmax(x, axis=0))
assert np.array_equal(attnd.local.log_softmax(x, dim=1), attnd.local.log_softmax(x, 1))
near(attnd.local.softmax(x.T, 0), (np.exp(x.T) / np.exp(x.T).sum(0)).astype(float), 1e-6)
assert not attnd.local.softmax(np.full((2, 3), -np.inf, np.float32)).any()

# Dropout is the same for a seed, and another in each call without one; numpy.random.seed() governs those.
q = numbers(1, 1, 8, 4)
dropped = [sdpa(q, q, q, dropout_p=0.5, seed=seed, return_weights=True)[1] for seed in (1, 1, 2)]
assert (dropped[0] == dropped[1]).all() and (dropped[0] != dropped[2]).any() and (dropped[0] == 0).any()

drawn = [sdpa(q, q, q, dropout_p=0.5, return_weights=True)[1] for _ in range(3)]
assert (drawn[0] != drawn[1]).any() and (drawn[1] != drawn[2]).any()
for _ in range(2):
    np.random.seed(4)
    drawn.append(sdpa(q, q, q, dropout_p=0.5, return_weights=True)[1])
assert (drawn[3] == drawn[4]).all()
assert np.array_equal(sdpa(q, q, q), sdpa(q, q, q))
expect(TypeError, "there is no seed", lambda: backward(q, q, q, q, dropout_p=0.5))

# What is wrong is said, with the shape that came and the one expected, in the names of here.
expect(ValueError, "query has 1 heads and key 3", lambda: sdpa(q, numbers(1, 3, 8, 4), numbers(1, 3, 8, 4)))
expect(ValueError, "key has the shape (1, 1, 8, 2) and query (1, 1, 8, 4); expected (1, 1, any, 4) of key",
       lambda: sdpa(q, q[..., :2], q))
expect(ValueError, "value has the shape (7, 4) and key (8, 4); expected (8, any) of value",
       lambda: sdpa(q[0, 0], q[0, 0], q[0, 0, :7]))
pair = numbers(2, 4, 8, 4)
expect(ValueError, "key has the shape (1, 4, 8, 4) and query (2, 4, 8, 4); expected (2, 4, any, 4) of key",
       lambda: sdpa(pair, pair[:1], pair))
expect(ValueError, "key has the shape (2, 3, 8, 4) and query (2, 4, 8, 4); expected (2, a divisor of 4, any, 4) of key",
       lambda: sdpa(pair, pair[:, :3], pair[:, :3], enable_gqa=True))
expect(ValueError, "attn_mask has the shape (3, 1, 8, 8) and query (2, 4, 8, 4); expected (2 or 1, 4 or 1, 8 or 1, ",
       lambda: sdpa(pair, pair, pair, np.ones((3, 1, 8, 8), bool)))
expect(ValueError, "context_gradient has the shape (2, 4, 8, 3) and value (2, 4, 8, 4); expected (2, 4, 8, 4)",
       lambda: backward(pair[..., :3], pair, pair, pair))
expect(ValueError, "query has the shape (2, 4, 8, 0); expected a head and a column at least",
       lambda: sdpa(pair[..., :0], pair[..., :0], pair))
expect(ValueError, "query has the dtype float64; gradients are of float32",
       lambda: backward(pair, *[pair.astype(float)] * 3))
expect(ValueError, "dropout_p is 1.5; expected 0 or more, and less than 1", lambda: sdpa(q, q, q, dropout_p=1.5))
expect(ValueError, "scale is nan; expected a number", lambda: sdpa(q, q, q, scale=float("nan")))
expect(ValueError, "softcap is -1", lambda: sdpa(q, q, q, softcap=-1))
expect(ValueError, "window is (-2, 0); expected (left, right)", lambda: sdpa(q, q, q, window=(-2, 0)))
expect(ValueError, "kv_len is [-3]; expected 0 or more", lambda: sdpa(q, q, q, kv_len=[-3]))
expect(ValueError, "sinks is [nan]", lambda: sdpa(q, q, q, sinks=[float("nan")]))
expect(ValueError, "sinks has the shape (3,); expected (4,), a number for each query head",
       lambda: sdpa(pair, pair, pair, sinks=np.zeros(3)))
expect(TypeError, "past_len is 1.5; expected whole numbers", lambda: sdpa(q, q, q, past_len=1.5))
for name, value, said in (("scale", "much", "scale is 'much'; expected a number"),
                          ("dropout_p", [1], "dropout_p is [1]; expected a number"),
                          ("softcap", None, "softcap is None; expected a number"),
                          ("seed", 1.5, "seed is 1.5; expected a whole number"),
                          ("window", (1, 2, 3), "window is (1, 2, 3); expected (left, right), whole numbers"),
                          ("window", (1.5, 2), "window is (1.5, 2); expected (left, right), whole numbers")):
    expect(TypeError, said, lambda: sdpa(q, q, q, **{name: value}))
for dtype in (bool, np.float64):
    expect(TypeError, "attn_mask has the dtype %s; only a mask of float32 has a gradient" % np.dtype(dtype),
           lambda: backward(pair, pair, pair, pair, np.ones((8, 8), dtype), mask_gradient=True))
expect(ValueError, "axis is 3 and input has the shape (2, 4, 8)", lambda: attnd.local.softmax(pair[:, :, :, 0], 3))
expect(TypeError, "axis is 0 and dim 1", lambda: attnd.local.softmax(q, 0, dim=1))
expect(ValueError, "attn_mask has 7 keys and key 8", lambda: sdpa(q, q, q, np.ones((8, 7), bool)))
expect(ValueError, "normalizer", lambda: sdpa(q, q, q, normalizer="hardmax"))
expect(TypeError, "expected (left, right)", lambda: sdpa(q, q, q, window=3))
expect(ValueError, "5 dimensions", lambda: sdpa(q[None], q[None], q[None]))
expect(ValueError, "out has the shape", lambda: sdpa(q, q, q, out=np.zeros((1, 8, 4), np.float32)))
# What may not be written to is not: of a file that is mapped for reading that would end the process.
kept = np.zeros((1, 1, 8, 4), np.float32)
kept.flags.writeable = False
for out in (kept, np.broadcast_to(kept[:, :, :1], kept.shape)):
    expect(ValueError, "out is read-only, or its numbers share their memory", lambda: sdpa(q, q, q, out=out))
assert not kept.any()
expect(TypeError, "int64", lambda: sdpa([[1, 2]], [[1, 2]], [[1, 2]]))
expect(TypeError, "expected the same for both", lambda: sdpa(q, q.astype(float), q))
expect(ImportError, "make install-library` of attnd, which runs ldconfig", lambda: attnd.Local("/nowhere/libattn.so.1").softmax(q))

# A weight map draws itself; what it is told of tokens is no markup.
page = attnd.WeightMap(np.stack([np.eye(500, dtype=np.float32)] * 20), ["<b>", "&"] * 250)._repr_html_()
assert page.count("<img") == 16 and "16 of 20 heads" in page and "&lt;b&gt; &amp;" in page and "<b>" not in page
assert len(page) < 60000 and "http" not in page
# One head of few tokens is a table with their texts; a batch of one is its item.
some = attnd.WeightMap(np.float32([[[[1, 0], [0.25, 0.75]]]]), ["<b>", "&"])
assert some.shape == (1, 2, 2) and some._repr_html_().count("<img") == 1
page = some.head(0)._repr_html_()
assert page.count("<td") == 4 and page.count("&lt;b&gt;") == 4 and "<b>" not in page and "<img" not in page
assert 'title="0.75: &amp;"' in page and "rgba(0,0,0,0.750)" in page
assert "<img" in attnd.WeightMap(np.eye(2, 3), ["one", "two", "three"])._repr_html_()
assert "<img" in attnd.WeightMap(np.eye(2, 3), ["one", "two"])._repr_html_()
for shape, words in (((3, 3), ["a"]), ((2, 3, 3), "abcd"), ((3, 3), []), ((1, 2, 4), "abc")):
    said = "%d tokens; expected one for each of %d query rows or of %d keys" % (len(words), *shape[-2:])
    expect(ValueError, said, lambda: attnd.WeightMap(np.zeros(shape), list(words)))
expect(ValueError, "(2, 1, 2, 2)", lambda: attnd.WeightMap(np.zeros((2, 1, 2, 2))))

# It is an array: what keeps all rows and keys draws itself, all else is what numpy makes of any array.
tokens = ["a", "b", "c", "d"]
plain = rng.random((4, 4, 4)).astype(np.float32)  # as many heads as tokens: shapes alone do not tell a map
weights = attnd.WeightMap(plain, tokens)
assert isinstance(weights, np.ndarray) and weights.ndim == 3 and weights.dtype == np.float32
for make in (lambda x: x[1], lambda x: x[-1], lambda x: x[1:3], lambda x: x[[0, 3]], lambda x: x * 2, lambda x: 1 - x,
             lambda x: x - x[::-1], lambda x: x.mean(0), lambda x: x.max(axis=0), lambda x: x.std(0), lambda x: x > 0.5,
             lambda x: x.mean(0, keepdims=True), lambda x: x.round(2), np.log1p, lambda x: x.astype(float),
             lambda x: x.copy(), copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)),
             lambda x: pickle.loads(pickle.dumps(x[2]))):
    part, want = make(weights), make(plain)
    assert isinstance(part, attnd.WeightMap) and part.tokens == tokens
    assert part.dtype == want.dtype and part.shape == want.shape and np.array_equal(part, want)
    page = part._repr_html_()
    assert page.count("<table") == 1 if part.ndim == 2 else page.count("<img") == len(part)
for make in (lambda x: x[:, 1], lambda x: x[1][2], lambda x: x[1, 2], lambda x: x[1, 2, 3], lambda x: x[..., 0],
             lambda x: x[None], lambda x: x[x > 0.5], lambda x: x[1][:, [0, 2]], lambda x: x.mean(1),
             lambda x: x.mean(-1), lambda x: x.sum(), lambda x: x.T, lambda x: x[1].T, lambda x: x.swapaxes(0, 1),
             lambda x: x.argmax(-1), lambda x: x @ x, lambda x: x.cumsum(0), lambda x: x.diagonal(0, 1, 2),
             lambda x: np.stack([x, x]), lambda x: np.einsum("hqk->qk", x)):
    part, want = make(weights), make(plain)
    assert np.array_equal(part, want) and repr(part) == repr(want), (part, want)
    assert getattr(part, "_repr_html_", lambda: None)() is None
# As the page says, some of them are plain arrays and some of the map's type.
assert type(weights[:, 1]) is type(weights.mean(-1)) is np.ndarray
assert isinstance(weights.T, attnd.WeightMap) and not weights.T.is_map and weights.is_map
assert "head 1<" in weights[1:3]._repr_html_() and "head 3<" not in weights[1:3]._repr_html_()
changed = weights.copy()
changed *= 2
changed[0] = 0
assert isinstance(changed, attnd.WeightMap) and not changed[0].any() and np.array_equal(changed[1], plain[1] * 2)
assert np.array_equal(np.asarray(weights), plain) and type(np.asarray(weights)) is np.ndarray
assert np.array_equal(sdpa(weights, weights, weights), sdpa(plain, plain, plain))

names = {"attnd": attnd, "np": np}
for each in (attnd.Local, attnd.WeightMap, attnd.attention_interface):
    for test in doctest.DocTestFinder().find(each, globs=names):
        assert not doctest.DocTestRunner().run(test).failed
print("ok")
