"""torch_tensors.py - attnd.local on torch's tensors beside torch, and the attention function for transformers."""

import types

import torch

import attnd

sdpa = attnd.local.scaled_dot_product_attention
torch.manual_seed(5)


def formulas(query, key, value, mask=None, scale=None, dtype=torch.float64):
    """What the page of torch.nn.functional.scaled_dot_product_attention says that it computes; also the weights."""
    query, key, value = (x.to(dtype) for x in (query, key, value))
    if query.shape[1] != key.shape[1]:
        key, value = (x.repeat_interleave(query.shape[1] // key.shape[1], 1) for x in (key, value))
    scores = query @ key.transpose(-2, -1) * (scale or query.shape[-1] ** -0.5)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def ulps(got, want, value):
    """The greatest error, in units in the last place of the greatest value that the rows of a batch item average."""
    most = value.abs().amax((1, 2, 3), keepdim=True)
    ulp = (torch.nextafter(most, torch.full_like(most, torch.inf)) - most).double()
    return float(((got.double() - want).abs() / ulp).max())


worst = 0.0  # beyond the error of torch's own float
for heads, kv_heads, rows, keys, dim in ((12, 12, 128, 128, 64), (8, 2, 33, 257, 128), (4, 4, 1, 700, 64)):
    q, k, v = (torch.randn(2, n, m, dim) for n, m in ((heads, rows), (kv_heads, keys), (kv_heads, keys)))
    mask = torch.rand(rows, keys) < 0.7
    mask[:, 0] = True
    for given in (None, mask, torch.randn(rows, keys)):
        context = sdpa(q, k, v, given, enable_gqa=True)
        assert isinstance(context, torch.Tensor)
        want = formulas(q, k, v, given)[0]
        of_torch = ulps(formulas(q, k, v, given, dtype=torch.float32)[0], want, v)
        worst = max(worst, ulps(context, want, v) - of_torch)
    # No copy: rows with their heads side by side give the same bits.
    beside = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert torch.equal(sdpa(*beside, enable_gqa=True), sdpa(q, k, v, enable_gqa=True))
    for dtype, tolerance in ((torch.bfloat16, 2 ** -8), (torch.float16, 2 ** -11), (torch.float64, 1e-14)):
        as_is = [x.to(dtype) for x in (q, k, v)]
        context = sdpa(*as_is, enable_gqa=True)
        assert context.dtype == dtype
        want = formulas(*as_is)[0]
        assert ((context.double() - want).abs() <= tolerance * want.abs().clamp(min=0.05)).all()
print("context: at most %.2f ulps of the greatest value further from double than torch in float" % worst)
assert worst <= 1

q, k, v = (torch.randn(1, 4, 30, 16, requires_grad=True) for _ in range(3))
given = torch.randn(1, 4, 30, 16)
seen = torch.ones(30, 30).tril().bool()
formulas(q, k, v, seen)[0].backward(given.double())
detached = [x.detach() for x in (q, k, v)]
for got, x in zip(attnd.local.scaled_dot_product_attention_backward(given, *detached, is_causal=True), (q, k, v)):
    assert torch.allclose(got, x.grad, 1e-5, 1e-5)


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

# The function for transformers: (attn_output [batch, rows, heads, dim], attn_weights).
attention = attnd.attention_interface()
module = types.SimpleNamespace(is_causal=True, training=False)
q, k, v = torch.randn(2, 8, 10, 16), torch.randn(2, 4, 10, 16), torch.randn(2, 4, 10, 16)
causal = torch.ones(10, 10).tril().bool()
output, weights = attention(module, q, k, v, None, scaling=0.2, dropout=0.5)
want = formulas(q, k, v, causal, 0.2)
assert output.is_contiguous() and output.shape == (2, 10, 8, 16) and weights.shape == (2, 8, 10, 10)
assert torch.allclose(output.transpose(1, 2).double(), want[0], 1e-5, 1e-6)
assert torch.allclose(weights.double(), want[1], 1e-5, 1e-6)

# A mask is longer than the keys where a cache has room left; it decides, and not is_causal.
mask = torch.zeros(2, 1, 10, 16).masked_fill(torch.rand(2, 1, 10, 16) < 0.3, torch.finfo(torch.float32).min)
mask[..., 0] = 0
output, weights = attention(module, q, k, v, mask, 0.2, output_attentions=False, cache_position=None)
assert weights is None
assert torch.allclose(output.transpose(1, 2).double(), formulas(q, k, v, mask[..., :10], 0.2)[0], 1e-5, 1e-6)
# One new row behind a cache sees all keys; a model that is not causal does, too.
output, _ = attention(module, q[:, :, -1:], k, v, None, 0.2)
assert torch.allclose(output.transpose(1, 2).double(), formulas(q[:, :, -1:], k, v, None, 0.2)[0], 1e-5, 1e-6)
output, _ = attention(types.SimpleNamespace(is_causal=False), q, k, v, None, 0.2)
assert torch.allclose(output.transpose(1, 2).double(), formulas(q, k, v, None, 0.2)[0], 1e-5, 1e-6)
try:
    attention(module, q.requires_grad_(), k, v, None)
except RuntimeError as error:
    assert "torch.no_grad()" in str(error)
    with torch.no_grad():
        attention(module, q, k, v, None)
else:
    raise AssertionError("gradients would have been lost")
print("ok")
