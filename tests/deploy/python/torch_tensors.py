# SPDX-License-Identifier: Apache-2.0
"""torch_tensors.py - attnd.local on torch's tensors beside torch, and the attention function for transformers."""

import types

import numpy as np
import torch

import attnd
from refusal import expect

sdpa = attnd.local.scaled_dot_product_attention
torch.manual_seed(5)


def repeated(query, key, value):
    """A key and value head for each query head."""
    groups = query.shape[1] // key.shape[1]
    return query, key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)


def masked(scores, mask):
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask


def formulas(query, key, value, mask=None, scale=None):
    """In double, what the page of torch.nn.functional.scaled_dot_product_attention says; also the weights."""
    query, key, value = repeated(*(x.double() for x in (query, key, value)))
    scores = masked(query @ key.transpose(-2, -1) * (scale or query.shape[-1] ** -0.5), mask)
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def textbook(query, key, value, mask):
    """The same in float by plain loops, each sum front to back: the same on every CPU."""
    query, key, value = repeated(query, key, value)
    scores = sum(query[..., i, None] * key[..., None, :, i] for i in range(query.shape[-1]))
    scores = masked(scores * query.shape[-1] ** -0.5, mask)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    weights = powers / sum(powers[..., j, None] for j in range(key.shape[2]))
    return sum(weights[..., j, None] * value[..., None, j, :] for j in range(key.shape[2]))


FLOAT = 2.0 ** -24  # the most that rounding changes a float of 1


def bound(query, key, value, mask, unit=FLOAT):
    """How far from the truth each number of a context may be, whatever the order of its sums.

    A sum of n floats is within n * unit of the sum of their magnitudes, relatively (Higham, Accuracy and Stability of
    Numerical Algorithms, 4.2). So a score of head_dim products, its scale and its mask is off by score_error; its power
    exp(score - maximum) relatively by that, by the rounding of the difference, and by 3 roundings for exp (within one
    last place, two half ones) and a product, again wherever the maximum grows, at most once a key. The differences from
    one maximum to the next add up to that from the score to the last. The two sums over keys and the quotient follow.
    """
    query, key, value = repeated(*(x.double() for x in (query, key, value)))
    keys, scale = key.shape[2], query.shape[-1] ** -0.5
    scores = masked(query @ key.transpose(-2, -1) * scale, mask)
    weights = torch.softmax(scores, -1)
    context = (weights @ value).abs()
    added = 0 if mask is None or mask.dtype == torch.bool else mask.double().abs()
    score_error = (query.shape[-1] + 3) * (query.abs() @ key.abs().transpose(-2, -1) * scale + added)
    difference = torch.where(weights > 0, scores.amax(-1, keepdim=True) - scores, 0)
    relative = weights * (score_error + difference + 4 * keys)
    return 1.01 * unit * (relative @ value.abs() + context * (relative.sum(-1, keepdim=True) + 2))  # 1.01: squares of it


# No rounded result is nearest in each number: of two good ones either has the greatest error. What holds on every CPU
# is the bound of each number, and that on the average the context is no further from double than the textbook's loops.
# (The products of torch sum in blocks, too: on many seeds their mean error is 0.7 to 2.3 times that of attnd.)
for heads, kv_heads, rows, keys, dim in ((12, 12, 128, 128, 64), (8, 2, 33, 257, 128), (4, 4, 1, 700, 64)):
    q, k, v = (torch.randn(2, n, m, dim) for n, m in ((heads, rows), (kv_heads, keys), (kv_heads, keys)))
    mask = torch.rand(rows, keys) < 0.7
    mask[:, 0] = True
    for given in (None, mask, torch.randn(rows, keys)):
        context = sdpa(q, k, v, given, enable_gqa=True)
        assert isinstance(context, torch.Tensor)
        want = formulas(q, k, v, given)[0]
        error, of_textbook = ((x.double() - want).abs() for x in (context, textbook(q, k, v, given)))
        assert (error <= bound(q, k, v, given)).all(), (error / bound(q, k, v, given)).max()
        assert error.mean() <= of_textbook.mean(), (error.mean(), of_textbook.mean())
    # No copy: rows with their heads side by side give the same bits.
    beside = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert torch.equal(sdpa(*beside, enable_gqa=True), sdpa(q, k, v, enable_gqa=True))
    # Tensors of 16 bits are those of float, rounded once; those of double err as double does, here and in formulas().
    for dtype, rounding, unit in ((torch.bfloat16, 2.0 ** -8, FLOAT), (torch.float16, 2.0 ** -11, FLOAT),
                                  (torch.float64, 0, 2.0 ** -52)):
        as_is = [x.to(dtype) for x in (q, k, v)]
        context = sdpa(*as_is, enable_gqa=True)
        assert context.dtype == dtype
        want, least = formulas(*as_is)[0], 2.0 ** -14  # of float16's normal numbers
        assert ((context.double() - want).abs() <= rounding * (want.abs() + least) + bound(*as_is, None, unit)).all()



# Gradients: those of torch in double, for all that a call may say.
def in_double(query, key, value, mask=None, slopes=None, sinks=None, allowed=None, scale=None, softcap=0, kept=None):
    query, key, value = repeated(query, key, value)
    scores = query @ key.transpose(-2, -1) * (scale or query.shape[-1] ** -0.5)
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    if slopes is not None:
        distance = torch.arange(scores.shape[-2])[:, None] - torch.arange(scores.shape[-1])
        scores = scores - slopes[:, None, None] * distance.abs()
    scores = masked(masked(scores, mask), allowed)
    if sinks is not None:
        scores = torch.cat([scores, sinks.expand(8)[:, None, None].expand(*scores.shape[:-1], 1)], -1)
    weights = torch.nan_to_num(torch.softmax(scores, -1))[..., :key.shape[-2]]
    return (weights if kept is None else weights * kept) @ value


def expect_gradients(inputs, there, **options):
    """inputs are query, key, value, attn_mask, alibi_slopes and sinks; there is what in_double() is told besides."""
    names = ("query", "key", "value", "attn_mask", "alibi_slopes", "sinks")
    ours = [x if x is None or x.dtype == torch.bool else x.detach().requires_grad_() for x in inputs]
    context = sdpa(**dict(zip(names, ours)), enable_gqa=True, **options)
    given = torch.randn(context.shape)
    context.backward(given.to(context.dtype))
    theirs = [x if x is None or x.dtype == torch.bool else x.detach().double().requires_grad_() for x in inputs]
    in_double(*theirs, **there).backward(given.to(context.dtype).double())
    for name, x, want in zip(names, ours, theirs):
        if x is None or x.dtype == torch.bool:
            continue
        rough = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[x.dtype]
        assert x.grad.shape == x.shape and x.grad.dtype == x.dtype, name
        error = (x.grad.double() - want.grad).norm()
        assert error <= rough * (1 + want.grad.norm()), (name, error, want.grad.norm())  # 1: some are 0 in truth
    return ours, context


q, k, v = torch.randn(2, 8, 9, 16), torch.randn(2, 4, 12, 16), torch.randn(2, 4, 12, 6)
index, keys = torch.arange(9)[:, None], torch.arange(12)
causal, seen = keys <= index, torch.rand(2, 1, 9, 12) < 0.6
seen[0, 0, 3] = False  # a row that sees nothing
plain = [q, k, v, None, None, None]
expect_gradients(plain, {})
expect_gradients(plain, {"allowed": causal}, is_causal=True)
expect_gradients(plain, {"allowed": keys <= index + 3}, is_causal=True, past_len=[3, 3])
expect_gradients(plain, {"allowed": (keys - index).abs() <= 2}, window=(2, 2))
expect_gradients(plain, {"allowed": keys < torch.tensor([4, 12])[:, None, None, None]}, kv_len=[4, 12])
expect_gradients(plain, {"scale": 0.7, "softcap": 1.5}, scale=0.7, softcap=1.5)
expect_gradients([q, k, v, seen, None, None], {})
for mask in (torch.randn(9, 12), torch.randn(2, 8, 9, 12), torch.randn(2, 1, 1, 12), torch.randn(8, 9, 1),
             torch.randn(()), torch.randn(9, 1).expand(9, 12), torch.randn(12, 9).T):
    expect_gradients([q, k, v, mask, None, None], {})
expect_gradients([q, k, v, None, torch.rand(8), torch.randn(8)], {"allowed": causal}, is_causal=True)
expect_gradients([q, k, v, torch.randn(9, 12), None, torch.randn(1)], {})
for dtype in (torch.float16, torch.bfloat16):
    expect_gradients([q.to(dtype), k.to(dtype), v.to(dtype), torch.randn(9, 12).to(dtype), None, None], {})
drops = sdpa(q, k, v, None, 0.5, enable_gqa=True, seed=11, return_weights=True)[1]
expect_gradients(plain, {"kept": (drops != 0).double() * 2}, dropout_p=0.5, seed=11)
# Heads beside each other, and of rows that are parts of longer ones.
expect_gradients([x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)] + [None] * 3, {})
# Sparsemax against differences in double of its own definition (Martins and Astudillo 2016, algorithm 1).


def sparse(query, key, value):
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    falling = scores.sort(-1, descending=True)[0]
    count = torch.arange(1, scores.shape[-1] + 1)
    support = (1 + count * falling > falling.cumsum(-1)).sum(-1, keepdim=True)
    threshold = (falling.cumsum(-1).gather(-1, support - 1) - 1) / support
    return (scores - threshold).clamp(min=0) @ value


small = [torch.randn(1, 1, 4, 3) for _ in range(3)]
ours = [x.detach().requires_grad_() for x in small]
sdpa(*ours, normalizer="sparsemax").sum().backward()
theirs = [x.detach().double().requires_grad_() for x in small]
sparse(*theirs).sum().backward()
assert all(torch.allclose(x.grad.double(), want.grad, 1e-4, 1e-5) for x, want in zip(ours, theirs))

# The context's bits do not hang on gradients; a part that needs none has none; weights and lse come, too.
ours = [q.clone().requires_grad_(), k, v]
context, weights, lse = sdpa(*ours, enable_gqa=True, return_weights=True, return_lse=True)
assert torch.equal(context, sdpa(q, k, v, enable_gqa=True)) and context.grad_fn is not None
(context.square().sum() + weights.detach().sum()).backward()
assert ours[0].grad.abs().sum() > 0 and k.grad is None
layer = torch.nn.Linear(16, 16)  # behind and before other layers
sdpa(layer(q), k, v, enable_gqa=True).sum().backward()
assert layer.weight.grad.abs().sum() > 0
with torch.no_grad():
    assert sdpa(*ours, enable_gqa=True).grad_fn is None
assert sdpa(q, k, v, enable_gqa=True).grad_fn is None

# Dropout without a seed: another each time, by torch's generator, and the backward pass drops the same.
made = []
for seed in (3, 3, 4):
    torch.manual_seed(seed)
    ours[0].grad = None
    context, weights = sdpa(*ours, dropout_p=0.5, enable_gqa=True, return_weights=True)
    context.sum().backward()
    made.append((weights.detach(), ours[0].grad))
assert torch.equal(made[0][0], made[1][0]) and torch.equal(made[0][1], made[1][1])
assert not torch.equal(made[0][0], made[2][0]) and not torch.equal(made[0][1], made[2][1])
assert not torch.equal(sdpa(q, k, v, None, 0.5, enable_gqa=True), sdpa(q, k, v, None, 0.5, enable_gqa=True))

# What has no gradients says so, and how to go on.
needs = q.clone().requires_grad_()
for kind, call in (
        (TypeError, lambda: sdpa(needs.double(), k.double(), v.double(), enable_gqa=True)),
        (TypeError, lambda: sdpa(needs, k, v, enable_gqa=True, out=torch.empty(2, 8, 9, 6))),
        (TypeError, lambda: sdpa(q, k, v, enable_gqa=True, out=torch.empty(2, 8, 9, 6, requires_grad=True))),
        (TypeError, lambda: sdpa(q, k, v, enable_gqa=True, scale=torch.tensor(0.5, requires_grad=True))),
        (TypeError, lambda: sdpa(q.numpy(), k.clone().requires_grad_(), v.numpy(), enable_gqa=True)),
        (TypeError, lambda: sdpa(q, k, v, torch.zeros(9, 12, dtype=float, requires_grad=True), enable_gqa=True)),
        (RuntimeError, lambda: sdpa(needs, k, v, enable_gqa=True, return_weights=True)[1].sum().backward()),
        (RuntimeError, lambda: sdpa(needs, k, v, enable_gqa=True, return_lse=True)[1].sum().backward())):
    assert ".detach()" in str(expect(kind, call))
# A gradient of a gradient is refused too, and not taken for one of a constant; what needs none is not.
for needs_also in (False, True):
    context = sdpa(needs, k, v, enable_gqa=True)
    gradient, = torch.autograd.grad((context.square() if needs_also else context).sum(), needs, create_graph=True)
    assert ".detach()" in str(expect(RuntimeError, lambda: (needs.sum() + gradient.square().sum()).backward()))
    (needs.sum() + gradient.detach().square().sum()).backward()
# And so is a derivative forwards, of a tensor that requires no gradient.
with torch.autograd.forward_ad.dual_level():
    dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
    for name, call in (("query", lambda: sdpa(dual, k, v, enable_gqa=True)), ("key", lambda: sdpa(q, dual, dual)),
                       ("input", lambda: attnd.local.softmax(dual))):
        assert name + " has a tangent" in str(expect(TypeError, call))
    assert sdpa(q, k, v, enable_gqa=True).shape == (2, 8, 9, 6)
# Numbers of numpy beside tensors that need gradients.
context = sdpa(needs, k, v, causal.numpy(), enable_gqa=True, sinks=np.zeros(8))
context.sum().backward()
assert needs.grad.abs().sum() > 0

# Softmax and its logarithm.
for ours, theirs in ((attnd.local.softmax, torch.softmax), (attnd.local.log_softmax, torch.log_softmax)):
    for axis in (0, -1):
        x, y = torch.randn(5, 7, requires_grad=True), torch.randn(5, 7)
        z = x.detach().double().requires_grad_()
        (ours(x, dim=axis) * y).sum().backward()
        (theirs(z, axis) * y).sum().backward()
        assert torch.allclose(x.grad.double(), z.grad, 1e-5, 1e-6)
    x = torch.randn(3, 4, dtype=float, requires_grad=True)
    assert torch.autograd.gradcheck(ours, x)

# The gradients themselves, for arrays.
q, k, v = (torch.randn(1, 4, 30, 16, requires_grad=True) for _ in range(3))
given = torch.randn(1, 4, 30, 16)
seen = torch.ones(30, 30).tril().bool()
formulas(q, k, v, seen)[0].backward(given.double())
detached = [x.detach() for x in (q, k, v)]
for got, x in zip(attnd.local.scaled_dot_product_attention_backward(given, *detached, is_causal=True), (q, k, v)):
    assert torch.allclose(got, x.grad, 1e-5, 1e-5)

# A weight map of a tensor, and a tensor of a weight map.
weights = attnd.WeightMap(torch.eye(4)[None])
assert torch.equal(torch.from_numpy(weights.copy()), torch.eye(4)[None])
weights = torch.rand(2, 3, 4).bfloat16()  # numpy has no such numbers: they are widened
assert torch.equal(torch.from_numpy(attnd.WeightMap(weights)), weights.float())


# A tensor of any library: only __dlpack__ and __dlpack_device__.
class Foreign:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, stream=None):
        return torch.utils.dlpack.to_dlpack(self.tensor)

    def __dlpack_device__(self):
        return 1, 0


for dtype in (torch.float32, torch.float64, torch.float16):
    as_is = [x.to(dtype) for x in detached]
    assert torch.equal(torch.from_numpy(sdpa(*map(Foreign, as_is))), sdpa(*as_is))

# The function for transformers: (attn_output [batch, rows, heads, dim], attn_weights). What follows stands for what its
# models send and what its masks are, as its sources have them (attention_interface.md, masking_utils.py, the
# eager_attention_forward() of llama, gemma2 and gpt_oss; 5.x).
attention = attnd.attention_interface()
module = types.SimpleNamespace(is_causal=True, training=False, num_key_value_groups=2)


def eager(query, key, value, allowed=None, scaling=None, softcap=None, sinks=None):
    """eager_attention_forward() of those models, in double: allowed is what a mask function says of [query, key]."""
    query, key, value = repeated(*(x.double() for x in (query, key, value)))
    scores = query @ key.transpose(2, 3) * (scaling or query.shape[-1] ** -0.5)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = masked(scores, allowed)
    if sinks is None:
        weights = torch.softmax(scores, -1)
    else:
        column = sinks.double().reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        weights = torch.softmax(torch.cat([scores, column], -1), -1)[..., :-1]
    return (weights @ value).transpose(1, 2), weights


def same(got, want):
    assert got.is_contiguous() and got.shape == want.shape, (got.shape, want.shape)
    assert torch.allclose(got.double(), want, 1e-5, 1e-6)


q, k, v = torch.randn(2, 8, 10, 16), torch.randn(2, 4, 10, 16), torch.randn(2, 4, 10, 16)
index = torch.arange(10)
distance = index[:, None] - index  # of the query behind the key
causal = distance >= 0
# sdpa_mask() gives no mask where causal or nothing else is hidden: the function itself is causal.
output, weights = attention(module, q, k, v, None, dropout=0.0, scaling=0.2, sliding_window=None, position_ids=None)
same(output, eager(q, k, v, causal, 0.2)[0])
same(weights, eager(q, k, v, causal, 0.2)[1])
# is_causal of the call counts before that of the module; a module that says nothing is causal.
same(attention(module, q, k, v, None, 0.2, is_causal=False)[0], eager(q, k, v, None, 0.2)[0])
same(attention(types.SimpleNamespace(is_causal=False), q, k, v, None, 0.2)[0], eager(q, k, v, None, 0.2)[0])
same(attention(types.SimpleNamespace(), q, k, v, None, 0.2, is_causal=None)[0], eager(q, k, v, causal, 0.2)[0])
# One new row behind a cache sees all keys, several see those before them.
same(attention(module, q[:, :, -1:], k, v, None)[0], eager(q[:, :, -1:], k, v)[0])
same(attention(module, q[:, :, -3:], k, v, None)[0], eager(q[:, :, -3:], k, v, causal[-3:])[0])

# A mask decides alone: of bool [batch, 1, rows, keys] (sdpa_mask), of 0 and the least number (eager_mask), and longer
# than the keys, where a static cache has room left.
padded = causal & (torch.rand(2, 1, 1, 10) < 0.7)
padded[..., 0] = True
same(attention(module, q, k, v, padded, sliding_window=3)[0], eager(q, k, v, padded)[0])
least = torch.zeros(2, 1, 10, 16).masked_fill(~torch.nn.functional.pad(padded, (0, 6)), torch.finfo(torch.float32).min)
same(attention(module, q, k, v, least)[0], eager(q, k, v, padded)[0])
# Rows of padding, which may attend to nothing, are zeros.
output, weights = attention(module, q, k, v, padded & (index > 1)[:, None])
assert not output[:, :2].any() and not weights[:, :, :2].any()

# Where no mask function is registered there is no mask: the window of mistral and gemma is the function's, too.
near = causal & (distance < 3)
same(attention(module, q, k, v, None, sliding_window=3)[0], eager(q, k, v, near)[0])
same(attention(module, q, k, v, None, is_causal=False, sliding_window=3)[0], eager(q, k, v, distance.abs() < 3)[0])
# The softcap of gemma2, the sinks of gpt_oss (a parameter), values of another width.
same(attention(module, q, k, v, None, softcap=2.0)[0], eager(q, k, v, causal, softcap=2.0)[0])
sinks = torch.nn.Parameter(torch.randn(8))
with torch.no_grad():
    for got, want in zip(attention(module, q, k, v, None, s_aux=sinks), eager(q, k, v, causal, sinks=sinks)):
        same(got, want)
same(attention(module, q, k, v[..., :6], None)[0], eager(q, k, v[..., :6], causal)[0])
# Tensors of 16 bits come back as such, with a mask of their own or in float.
for dtype in (torch.bfloat16, torch.float16):
    halves = [x.to(dtype) for x in (q, k, v)]
    output, weights = attention(module, *halves, least.to(dtype))
    assert output.dtype == dtype and weights.dtype == dtype
    assert torch.equal(output, attention(module, *halves, padded)[0])
    assert torch.allclose(output.double(), eager(*halves, padded)[0], 2.0 ** -8, 2.0 ** -8)
    assert torch.equal(output, attention(module, *halves, least)[0])

# The weights are left out where the call, or who made the function, says so.
assert attention(module, q, k, v, None, output_attentions=False)[1] is None
assert attention(module, q, k, v, None, output_attentions=True)[1] is not None
assert attnd.attention_interface(output_attentions=False)(module, q, k, v, None)[1] is None
# Dropout while training alone, by torch's own generator.
same(attention(module, q, k, v, None, dropout=0.5)[0], eager(q, k, v, causal)[0])
module.training = True
drops = []
for seed in (1, 1, 2):
    torch.manual_seed(seed)
    drops.append(attention(module, q, k, v, None, dropout=0.5))
assert torch.equal(drops[0][1], drops[1][1]) and not torch.equal(drops[0][1], drops[2][1])
assert not torch.equal(drops[0][1], attention(module, q, k, v, None, dropout=0.5)[1])
_, v_of_heads = repeated(q, k, v)[1:]
same(drops[0][0], (drops[0][1].double() @ v_of_heads.double()).transpose(1, 2))
module.training = False

# Models train with it: query, key, value, the mask and sinks get the gradients of eager_attention_forward().
trained = [x.detach().requires_grad_() for x in (q, k, v, sinks)]
output, weights = attention(module, *trained[:3], None, softcap=2.0, s_aux=trained[3])
assert output.is_contiguous() and output.shape == (2, 10, 8, 16)
given = torch.randn(output.shape)
output.backward(given)
wanted = [x.detach().double().requires_grad_() for x in trained]
eager(*wanted[:3], causal, softcap=2.0, sinks=wanted[3])[0].backward(given.double())
for x, want in zip(trained, wanted):
    assert x.grad.dtype == torch.float32 and torch.allclose(x.grad.double(), want.grad, 1e-4, 1e-5)
print("ok")
