# SPDX-License-Identifier: Apache-2.0
"""Gradients of attnd.local for tensors of torch that require them: functions of torch.autograd."""

import sys

import numpy as np

# The arguments of scaled_dot_product_attention() that have gradients.
_DIFFERENTIABLE = ("query", "key", "value", "attn_mask", "alibi_slopes", "sinks")
_FUNCTIONS = {}  # by name; made when the first is needed, because torch need not be there


def _requires_gradient(*values):
    for x in values:
        if x is not None and type(x) is not np.ndarray and hasattr(x, "data_ptr") and x.requires_grad:
            return sys.modules["torch"].is_grad_enabled()
    return False


def _refuse_tangent(names, values):
    """In torch.autograd.forward_ad derivatives go with tensors that require no gradient, and would be lost."""
    forward = sys.modules.get("torch.autograd.forward_ad")
    if forward is None or getattr(forward, "_current_level", 0) < 0:
        return
    for name, x in zip(names, values):
        if hasattr(x, "data_ptr") and forward.unpack_dual(x).tangent is not None:
            raise TypeError("%s has a tangent, and attnd.local has no derivatives forwards; expected %s without, or "
                            "gradients by .backward()" % (name, name))


def _refuse_gradient(name, why):
    raise TypeError("%s requires a gradient, %s; %s.detach() is the same without" % (name, why, name))


def _check_differentiable(arguments, others):
    """What gradients do not cover is refused before anything is computed."""
    tensors = dict(zip(_DIFFERENTIABLE, arguments))
    needing = [name for name in _DIFFERENTIABLE if _requires_gradient(tensors[name])]
    for name, value in others.items():
        if _requires_gradient(value):
            _refuse_gradient(name, "which attnd.local does not compute")
    for name in ("query", "key", "value"):
        if not hasattr(tensors[name], "data_ptr"):
            _refuse_gradient(needing[0], "and %s is no tensor of torch" % name)
    for name in needing:
        dtype = str(tensors[name].dtype)
        if dtype not in ("torch.float32", "torch.float16", "torch.bfloat16"):
            _refuse_gradient(name, "and has the dtype %s; gradients are of float32 (%s.float()), float16 and bfloat16"
                             % (dtype, name))
    if others["out"] is not None:
        _refuse_gradient(needing[0], "which is not computed into out: take what the call returns")


def _attention_function():
    torch = sys.modules["torch"]

    class Attention(torch.autograd.Function):
        """Computes again in the backward pass what it needs, in float32: nothing but the arguments is kept."""

        @staticmethod
        def forward(ctx, local, options, outputs, threads, *tensors):
            ctx.set_materialize_grads(False)
            ctx.attnd = local, options, threads
            ctx.save_for_backward(*tensors)
            return tuple(local._forward(tensors, options, outputs, threads))

        @staticmethod
        def backward(ctx, context_gradient, *others):
            if any(gradient is not None for gradient in others):
                raise RuntimeError("attnd.local has gradients of the context alone; use weights and lse as "
                                   "weights.detach() and lse.detach()")
            wanted, (local, options, threads) = ctx.needs_input_grad[4:], ctx.attnd
            if context_gradient is None:
                return (None,) * (4 + len(wanted))
            with torch.no_grad():
                tensors = [x if x is None or x.dtype == torch.bool else x.float() for x in ctx.saved_tensors]
                gradients = local._backward(context_gradient.float(), tensors, wanted, options, threads)
                gradients = [None if gradient is None else gradient.sum_to_size(given.shape).to(given.dtype)
                             for gradient, given in zip(gradients, ctx.saved_tensors)]
            if torch.is_grad_enabled():  # create_graph=True
                needing = [x for x in (context_gradient, *ctx.saved_tensors) if x is not None and x.requires_grad]
                gradients = [None if gradient is None else Once.apply(gradient, *needing) for gradient in gradients]
            return (None,) * 4 + tuple(gradients)

    class Once(torch.autograd.Function):
        """A gradient as it is, which refuses a gradient of its own: without it torch would take it for a constant."""

        @staticmethod
        def forward(ctx, gradient, *needing):
            return gradient.view_as(gradient)

        @staticmethod
        def backward(ctx, *gradients):
            raise RuntimeError("attnd.local has no gradients of gradients; use them as gradient.detach()")

    return Attention


def _softmax_function():
    torch = sys.modules["torch"]

    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, forward, is_log, axis, x):
            result = forward(x)
            ctx.is_log, ctx.axis = is_log, axis
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, gradient):
            result, = ctx.saved_tensors
            if ctx.is_log:
                given = gradient - result.exp() * gradient.sum(ctx.axis, keepdim=True)
            else:
                given = result * (gradient - (gradient * result).sum(ctx.axis, keepdim=True))
            return None, None, None, given

    return Softmax


def _differentiable(make, *arguments):
    """The results of the function of torch.autograd that make() gives."""
    if make not in _FUNCTIONS:
        _FUNCTIONS[make] = make()
    return _FUNCTIONS[make].apply(*arguments)


def _of_torch(x):
    """A tensor, which torch can keep for the backward pass, of what may be an array or a list."""
    return x if x is None or hasattr(x, "data_ptr") else sys.modules["torch"].from_numpy(np.array(x))


def _fresh_seed(query):
    """A seed for dropout, from the generator that torch.manual_seed() or numpy.random.seed() governs."""
    if hasattr(query, "data_ptr"):
        return int(sys.modules["torch"].randint(1 << 62, ()))
    return int(np.random.randint(1 << 62, dtype=np.int64))
