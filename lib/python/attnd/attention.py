# SPDX-License-Identifier: Apache-2.0
"""attnd.local: attention in this process, by libattn.so."""

import concurrent.futures
import ctypes
import itertools
import math
import operator
import os
import struct
import threading

import numpy as np

from .autograd import _DIFFERENTIABLE, _attention_function, _check_differentiable, _differentiable, _fresh_seed
from .autograd import _of_torch, _refuse_tangent, _requires_gradient, _softmax_function
from .tensors import _DTYPES, _View, _dense

__all__ = ["Local", "attention_interface", "local"]

_i64, _pointer, _int = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int


class _Tensor(ctypes.Structure):
    _fields_ = [("data", _pointer), ("dtype", _int), ("shape", _i64 * 4), ("stride", _i64 * 4), ("pages", _pointer)]


class _Options(ctypes.Structure):
    _fields_ = [("scale", ctypes.c_double), ("softcap", ctypes.c_double), ("causal", ctypes.c_bool),
                ("window_left", _i64), ("window_right", _i64), ("chunk", _i64), ("dropout", ctypes.c_float),
                ("seed", ctypes.c_uint64), ("normalizer", _int), ("softmax_precision", _int), ("precision", _int),
                ("is_prefix_stable", ctypes.c_bool)]


class _Problem(ctypes.Structure):
    _fields_ = [("options", _Options), ("query", _Tensor), ("key", _Tensor), ("value", _Tensor),
                ("additive_weight", _pointer), ("mask", _Tensor), ("kv_len", _pointer), ("row_kv_len", _pointer),
                ("kv_offset", _i64), ("first_keys", _i64), ("last_keys", _i64), ("alibi_slopes", _pointer),
                ("sinks", _pointer), ("past_len", _pointer), ("context", _Tensor), ("weights", _Tensor),
                ("scores", _Tensor), ("softcapped", _Tensor), ("masked", _Tensor), ("lse", _Tensor),
                ("kernels", _pointer)]


class _Plan(ctypes.Structure):
    _fields_ = [("task_count", _i64), ("workspace_bytes", ctypes.c_size_t), ("part_count", _i64), ("join_count", _i64),
                ("shared_bytes", ctypes.c_size_t), ("part_workspace_bytes", ctypes.c_size_t),
                ("own", ctypes.c_uint64 * 160)]


class _GradientProblem(ctypes.Structure):
    _fields_ = [("attention", _Problem), ("has_forward", ctypes.c_bool), ("largest_weights", _pointer),
                ("context_gradient", _Tensor), ("query_gradient", _Tensor), ("key_gradient", _Tensor),
                ("value_gradient", _Tensor), ("mask_gradient", _Tensor), ("additive_weight_gradient", _pointer),
                ("alibi_slopes_gradient", _pointer), ("sinks_gradient", _pointer)]


class _GradientPlan(ctypes.Structure):
    _fields_ = [("task_count", _i64 * 17), ("scratch_bytes", ctypes.c_size_t), ("workspace_bytes", ctypes.c_size_t),
                ("own", ctypes.c_uint64 * 224)]


class _Softmax(ctypes.Structure):
    _fields_ = [("input", _pointer), ("output", _pointer), ("outer", _i64), ("length", _i64), ("inner", _i64),
                ("visible", _pointer), ("rows_per_visible", _i64), ("is_log", ctypes.c_bool), ("dtype", _int)]


_pack_tensor = struct.Struct("Pi4q4qP").pack_into  # a _Tensor, in a fifth of the time that ctypes takes


def _put(problem, field, view, name):
    """Writes the view into a field of problem, with dimensions of 1 put in front of those it has; gives its shape."""
    missing = 4 - len(view.shape)
    if missing < 0:
        raise ValueError("%s has %d dimensions; expected at most 4, [batch, heads, length, head_dim]"
                         % (name, len(view.shape)))
    shape = (1,) * missing + view.shape
    _pack_tensor(problem, getattr(type(problem), field).offset, view.address, _DTYPES[view.dtype][0], *shape,
                 *(0,) * missing, *view.strides, 0)
    return shape


# ----------------------------------------------------------------------------------- attention in here --


_PRODUCTS_OF_A_THREAD = 1 << 22  # fewer are done before a second thread is awake, in some 50 us


class _Memory(threading.local):
    """Memory of a thread, which its next tasks use again."""

    size = -1

    def at_least(self, size):
        """Its address, at a multiple of 64 bytes."""
        if self.size < size:
            self.array, self.size = np.empty(size + 64, np.uint8), size
            self.address = (self.array.ctypes.data + 63) & ~63
        return self.address


class Local:
    """libattn.so, and threads for its tasks. `attnd.local` is one that loads it at its first use.

    Parameters: library, its path (default: that of the variable ATTN_LIBRARY, else the system's libattn.so.1);
    threads, the most that a call runs on (default: the CPUs of this process).

    Raises ImportError at the first call where the library is not there.

    >>> attnd.Local(threads=1).softmax(np.zeros(4, np.float32))
    array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """

    def __init__(self, library=None, threads=None):
        self._library_path = library
        self._threads = threads or len(os.sched_getaffinity(0))
        self._lock = threading.Lock()
        self._loaded = self._pool = self._kernels = None
        self._memory = _Memory()

    @property
    def library(self):
        if self._loaded is None:
            with self._lock:
                self._loaded = self._loaded or self._load()
        return self._loaded

    def _load(self):
        path = self._library_path or os.environ.get("ATTN_LIBRARY") or "libattn.so.1"
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise ImportError("attnd.local needs libattn.so.1 (`sudo make install-library` of attnd, which runs "
                              "ldconfig, or its path in the variable ATTN_LIBRARY): %s" % error) from None
        library.attn_status_message.restype = ctypes.c_char_p
        library.attn_kernels_available.restype = ctypes.POINTER(_pointer)
        self._kernels = library.attn_kernels_available()[0]  # else each plan asks the CPU again, some microseconds
        for name, types in {"attn_plan_run": [_pointer, _i64, _pointer],
                            "attn_plan_run_part": [_pointer, _i64, _pointer, _pointer],
                            "attn_plan_run_join": [_pointer, _i64, _pointer, _pointer],
                            "attn_gradient_run": [_pointer, _int, _i64, _pointer, _pointer],
                            "attn_softmax_run": [_pointer, _i64, _i64]}.items():
            getattr(library, name).argtypes = types
            getattr(library, name).restype = None
        if self._threads > 1:
            self._pool = concurrent.futures.ThreadPoolExecutor(self._threads - 1, "attnd")
        return library

    def _run(self, count, workspace_bytes, task, threads):
        """task(number, workspace) for each number below count, on as many threads; ctypes lets go of the GIL."""
        threads = min(threads or self._threads, self._threads, count)
        if threads <= 1:
            workspace = self._memory.at_least(workspace_bytes)
            for number in range(count):
                task(number, workspace)
            return
        numbers = itertools.count()

        def work():
            workspace = self._memory.at_least(workspace_bytes)
            for number in numbers:
                if number >= count:
                    return
                task(number, workspace)

        others = [self._pool.submit(work) for _ in range(threads - 1)]
        work()
        for other in others:
            if not other.cancel():
                other.result()

    def _check(self, status, where, call):
        if status != 0:
            said = self.library.attn_status_message(status).decode()
            raise ValueError(call.explained(where.value.decode() if where.value else "", said))

    def scaled_dot_product_attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                                     scale=None, enable_gqa=False, *, softcap=0.0, window=(-1, -1), alibi_slopes=None,
                                     sinks=None, kv_len=None, past_len=None, seed=None, normalizer="softmax",
                                     return_weights=False, return_lse=False, out=None, threads=None):
        """softmax(query . key^T * scale + mask) . value, as torch.nn.functional has it.

        Parameters, the first eight as in torch:
            query, key, value   [batch, heads, length, head_dim], or fewer dimensions from the right; float32, float64,
                                float16 or bfloat16, all of one dtype. They are read where they lie
            attn_mask           of bool: what may attend; of numbers: what is added to the scores
            dropout_p           the share of weights that are dropped, others each time unless there is a seed
            is_causal           row i sees the keys up to i + past_len
            scale               of the scores; default 1 / sqrt(head_dim)
            enable_gqa          several query heads may share a head of key and value
            softcap             softcap * tanh(scores / softcap) in place of the scores, where it is not 0
            window              (left, right): how far from its own position a row sees, -1 for no bound
            alibi_slopes, sinks a number for each query head
            kv_len              how many keys count, a number or one for each batch item
            past_len            the position of the first query row, a number or one for each batch item; default 0
            seed                of dropout; default: drawn from torch's generator for tensors of torch, which
                                torch.manual_seed() governs, else from that of numpy.random.seed()
            normalizer          "softmax" or "sparsemax"
            return_weights, return_lse      whether they come back, too
            out                 where the context goes: any view whose rows are dense
            threads             the most that the call runs on

        Returns the context, of the kind and dtype of query; with return_weights or return_lse a tuple of the context
        and what was asked for. A row that may attend to nothing gives zeros. Tensors of torch (float32, float16,
        bfloat16) that require a gradient get it, of the context and in float32, and so do a mask of numbers,
        alibi_slopes and sinks.

        Raises ValueError for shapes and options, TypeError for dtypes and for gradients that it does not have.

        >>> x = np.eye(3, 4, dtype=np.float32)[None, None]
        >>> context, weights = attnd.local.scaled_dot_product_attention(x, x, x, is_causal=True, return_weights=True)
        >>> weights[0, 0, 1].round(3)
        array([0.378, 0.622, 0.   ], dtype=float32)
        """
        if seed is None:
            seed = _fresh_seed(query) if dropout_p else 0
        arguments = query, key, value, attn_mask, alibi_slopes, sinks
        options = enable_gqa, dropout_p, seed, is_causal, scale, softcap, window, normalizer, kv_len, past_len
        outputs = return_weights, return_lse, out
        _refuse_tangent(_DIFFERENTIABLE, arguments)
        if _requires_gradient(*arguments, dropout_p, scale, softcap, out):
            _check_differentiable(arguments, {"dropout_p": dropout_p, "scale": scale, "softcap": softcap, "out": out})
            results = _differentiable(_attention_function, self, options, outputs, threads, *map(_of_torch, arguments))
        else:
            results = self._forward(arguments, options, outputs, threads)
        return results[0] if len(results) == 1 else tuple(results)

    def _forward(self, arguments, options, outputs, threads):
        """The results, a list, for the arguments that _DIFFERENTIABLE names and all other arguments of the call."""
        call = _Call(arguments, options)
        results = call.add_outputs(*outputs)
        self._attend(call, threads)
        return results

    def _attend(self, call, threads):
        library, plan, where = self.library, _Plan(), ctypes.c_char_p()
        call.problem.kernels = self._kernels
        threads = call.threads(threads)
        self._check(library.attn_plan_init(ctypes.byref(plan), ctypes.byref(call.problem), ctypes.byref(where)), where,
                    call)
        address = ctypes.addressof(plan)
        if plan.part_count == 0 or plan.task_count >= 2 * (threads or self._threads):
            run = library.attn_plan_run
            self._run(plan.task_count, plan.workspace_bytes, lambda task, work: run(address, task, work), threads)
            return
        memory = np.empty(plan.shared_bytes + 64, np.uint8)
        shared = (memory.ctypes.data + 63) & ~63
        for count, run in ((plan.part_count, library.attn_plan_run_part),
                           (plan.join_count, library.attn_plan_run_join)):
            self._run(count, plan.part_workspace_bytes,
                      lambda number, work: run(address, number, shared, work), threads)

    def scaled_dot_product_attention_backward(self, context_gradient, query, key, value, attn_mask=None, dropout_p=0.0,
                                              is_causal=False, scale=None, enable_gqa=False, *, softcap=0.0,
                                              window=(-1, -1), alibi_slopes=None, sinks=None, kv_len=None,
                                              past_len=None, seed=None, normalizer="softmax", mask_gradient=False,
                                              threads=None):
        """Gradients of query, key and value, given that of the context: what autograd does for tensors of torch.

        Parameters: context_gradient, of the context's shape; mask_gradient, whether the gradient of a mask of numbers
        comes back, too; all others are those of the call of scaled_dot_product_attention() whose context it is. With
        dropout_p the seed of that call has to be given. All numbers are float32.

        Returns the tuple of gradients, each of the kind and shape of its array. They have none of their own.

        Raises ValueError and TypeError as scaled_dot_product_attention() does.

        >>> x = np.eye(3, 4, dtype=np.float32)[None, None]
        >>> gradients = attnd.local.scaled_dot_product_attention_backward(np.ones_like(x), x, x, x, is_causal=True)
        >>> gradients[2][0, 0, :, 0].round(3)
        array([1.652, 0.897, 0.452], dtype=float32)
        """
        if dropout_p and seed is None:
            raise TypeError("dropout_p is %r and there is no seed; expected that of the call whose context it is"
                            % dropout_p)
        if mask_gradient and attn_mask is None:
            raise ValueError("mask_gradient is asked for and there is no attn_mask")
        options = enable_gqa, dropout_p, seed or 0, is_causal, scale, softcap, window, normalizer, kv_len, past_len
        gradients = self._backward(context_gradient, (query, key, value, attn_mask, alibi_slopes, sinks),
                                   (True, True, True, mask_gradient, False, False), options, threads)
        return tuple(gradient for gradient in gradients if gradient is not None)

    def _backward(self, context_gradient, arguments, wanted, options, threads):
        """A gradient for each of the arguments that _DIFFERENTIABLE names, None for those that are not wanted."""
        call = _Call(arguments, options, wanted[3])
        gradient = _GradientProblem(attention=call.problem)
        given = call.views["context_gradient"] = _View(context_gradient, "context_gradient").dense_last()
        _put(gradient, "context_gradient", given, "context_gradient")
        results = [None] * len(_DIFFERENTIABLE)
        for i, (name, field) in enumerate(zip(_DIFFERENTIABLE, ("query", "key", "value", "mask"))):
            if wanted[i]:
                view = call.views[name]
                results[i] = view.empty(view.shape)
                _put(gradient, field + "_gradient", _View(results[i]), name)
        for i, name in enumerate(_DIFFERENTIABLE[4:], 4):
            if wanted[i]:
                results[i] = call.views["query"].empty((call.shapes["query"][1],))
                setattr(gradient, name + "_gradient", _View(results[i]).address)
        library, plan, where = self.library, _GradientPlan(), ctypes.c_char_p()
        gradient.attention.kernels = self._kernels
        self._check(library.attn_gradient_plan_init(ctypes.byref(plan), ctypes.byref(gradient), ctypes.byref(where)),
                    where, call)
        address, run, threads = ctypes.addressof(plan), library.attn_gradient_run, call.threads(threads)
        memory = np.empty(plan.scratch_bytes + 64, np.uint8)
        scratch = (memory.ctypes.data + 63) & ~63
        for stage, count in enumerate(plan.task_count):
            if count:
                self._run(count, plan.workspace_bytes,
                          lambda task, work: run(address, stage, task, scratch, work), threads)
        return results

    def softmax(self, input, axis=-1, threads=None, *, dim=None):
        """The softmax along an axis.

        Parameters: input, an array or tensor of float32, float64, float16 or bfloat16; axis, or dim as torch calls it;
        threads, the most that the call runs on.

        Returns an array of the kind, shape and dtype of input. A row of nothing but -inf gives zeros. Where input
        requires a gradient, it gets it.

        Raises ValueError for an axis that is not there, TypeError for a dtype.

        >>> attnd.local.softmax(np.float32([0, 1, -np.inf])).round(3)
        array([0.269, 0.731, 0.   ], dtype=float32)
        """
        return self._softmax(input, _axis_of(axis, dim), False, threads)

    def log_softmax(self, input, axis=-1, threads=None, *, dim=None):
        """The logarithm of the softmax along an axis; parameters, returns and raises are those of softmax().

        >>> attnd.local.log_softmax(np.float32([0, 1])).round(3)
        array([-1.313, -0.313], dtype=float32)
        """
        return self._softmax(input, _axis_of(axis, dim), True, threads)

    def _softmax(self, input, axis, is_log, threads):
        view = _View(input, "input")
        if not -len(view.shape) <= axis < len(view.shape):
            raise ValueError("axis is %d and input has the shape %s; expected an axis of its %d"
                             % (axis, view.shape, len(view.shape)))
        if view.dtype == "bool":
            raise TypeError("input has the dtype bool; expected numbers")
        _refuse_tangent(("input",), (input,))
        if _requires_gradient(input):
            return _differentiable(_softmax_function, lambda x: self._softmax(x, axis, is_log, threads), is_log, axis,
                                   input)
        if view.strides != _dense(view.shape):
            view = view.dense()
        result, axis = view.empty(view.shape), axis % len(view.shape)
        outer, inner = math.prod(view.shape[:axis]), math.prod(view.shape[axis + 1:])
        softmax = _Softmax(view.address, _View(result).address, outer, view.shape[axis], inner, None, 1, is_log,
                           _DTYPES[view.dtype][0])
        address, run, rows = ctypes.addressof(softmax), self.library.attn_softmax_run, outer * inner
        step = max(1, 65536 // max(1, view.shape[axis]))
        self._run(-(-rows // step), 0,
                  lambda part, _: run(address, part * step, min(step, rows - part * step)), threads)
        return result


def _axis_of(axis, dim):
    """The axis, which torch calls dim."""
    if dim is not None and axis not in (-1, dim):
        raise TypeError("axis is %r and dim %r, which are two names of the same" % (axis, dim))
    return axis if dim is None else dim


_FLOAT_MAX = 3.4028234663852886e38
# What libattn says of a field, and what it is here: its name, what is expected.
_FIELDS = {
    "options.scale": ("scale", "a number of at most %g" % _FLOAT_MAX),
    "options.softcap": ("softcap", "0 for none, or a number from 1e-45 to %g" % _FLOAT_MAX),
    "options.window_left": ("window", "(left, right), each -1 for no bound, or more"),
    "options.window_right": ("window", "(left, right), each -1 for no bound, or more"),
    "options.dropout": ("dropout_p", "0 or more, and less than 1"),
    "kv_len": ("kv_len", "0 or more"),
    "alibi_slopes": ("alibi_slopes", "finite numbers"),
    "sinks": ("sinks", "finite numbers, or -inf for none"),
}
_OPTIONS = ("dropout_p", "seed", "is_causal", "scale", "softcap", "window", "normalizer")
_LISTS = ("alibi_slopes", "sinks", "kv_len", "past_len")


class _Call:
    """A problem of attn.h, and the memory that it borrows.

    arguments are those that _DIFFERENTIABLE names; options enable_gqa, _OPTIONS, kv_len and past_len.
    """

    def __init__(self, arguments, options, has_mask_gradient=False):
        query, key, value, mask, alibi_slopes, sinks = arguments
        enable_gqa, self.options, self.lists = options[0], options[1:-2], (alibi_slopes, sinks) + options[-2:]
        self.problem, self.kept, self.views, self.shapes = _Problem(), [], {}, {}
        dtype = None
        for name, x in (("query", query), ("key", key), ("value", value)):
            view = self.views[name] = _View(x, name).dense_last()
            dtype = dtype or view.dtype
            if len(view.shape) < 2:
                raise ValueError("%s has the shape %s; expected 2 to 4 dimensions" % (name, view.shape))
            if view.dtype != dtype:
                raise TypeError("%s has the dtype %s and query %s; expected the same for both"
                                % (name, view.dtype, dtype))
            self.shapes[name] = _put(self.problem, name, view, name)
        if mask is not None:
            self._set_mask(_View(mask, "attn_mask"), has_mask_gradient)
        q_heads, kv_heads = self.shapes["query"][1], self.shapes["key"][1]
        if q_heads != kv_heads and not enable_gqa:
            raise ValueError("query has %d heads and key %d; groups of heads want enable_gqa=True"
                             % (q_heads, kv_heads))
        self._set_options(*self.options)
        self._set_lists(*self.lists)

    def _set_mask(self, view, has_gradient):
        keys = self.shapes["key"][2]
        if view.shape and view.shape[-1] not in (1, keys):
            raise ValueError("attn_mask has %d keys and key %d; expected the same for both, or 1"
                             % (view.shape[-1], keys))
        if has_gradient and view.dtype != "float32":
            raise TypeError("attn_mask has the dtype %s; only a mask of float32 has a gradient" % view.dtype)
        # A gradient has a number for each of the mask, also for those that share their memory.
        self.views["attn_mask"] = view.dense() if has_gradient else self._unstrided(view)
        _put(self.problem, "mask", self.views["attn_mask"], "attn_mask")

    def threads(self, most):
        """How many threads are worth it: one, where the scores and the context take few multiplications."""
        batch, heads, rows, head_dim = self.shapes["query"]
        _, _, keys, v_head_dim = self.shapes["value"]
        return 1 if batch * heads * rows * keys * (head_dim + v_head_dim) < _PRODUCTS_OF_A_THREAD else most

    @staticmethod
    def _unstrided(view):
        """A mask of no dimension, or whose last one repeats by a stride of 0, as one whose last one is 1."""
        if view.shape and view.strides[-1] == 0 and view.shape[-1] > 1:
            view.shape, view.strides = view.shape[:-1] + (1,), view.strides[:-1] + (1,)
        return view.dense_last()

    def _set_options(self, dropout_p, seed, is_causal, scale, softcap, window, normalizer):
        if normalizer not in ("softmax", "sparsemax"):
            raise ValueError("normalizer is %r; expected 'softmax' or 'sparsemax'" % (normalizer,))
        try:
            left, right = map(operator.index, window)
        except (TypeError, ValueError):
            raise TypeError("window is %r; expected (left, right), whole numbers, -1 for no bound"
                            % (window,)) from None
        head_dim = self.shapes["query"][3]
        try:
            self.problem.options = _Options(scale if scale is not None else max(head_dim, 1) ** -0.5, softcap,
                                            is_causal, left, right, 0, dropout_p, seed, normalizer == "sparsemax", 0,
                                            0, False)
        except TypeError:
            for name, value, kind in (("dropout_p", dropout_p, ctypes.c_float), ("softcap", softcap, ctypes.c_double),
                                      ("seed", seed, ctypes.c_uint64), ("scale", scale, ctypes.c_double)):
                try:
                    kind(value)
                except TypeError:
                    break
            raise TypeError("%s is %r; expected a %snumber" % (name, value, "whole " if name == "seed" else "")) \
                from None

    def _set_lists(self, alibi_slopes, sinks, kv_len, past_len):
        batch, q_heads = self.shapes["query"][:2]
        for name, values, dtype, count, of in (
                ("alibi_slopes", alibi_slopes, np.float32, q_heads, "query head"),
                ("sinks", sinks, np.float32, q_heads, "query head"),
                ("kv_len", kv_len, np.int64, batch, "batch item"),
                ("past_len", past_len, np.int64, batch, "batch item")):
            if values is None:
                continue
            array = np.asarray(values.detach().double() if hasattr(values, "detach") else values)
            numbers = array.astype(dtype)
            if dtype is np.int64 and not np.array_equal(numbers, array):
                raise TypeError("%s is %r; expected whole numbers" % (name, values))
            if numbers.shape not in ((), (1,), (count,)):
                raise ValueError("%s has the shape %s; expected %s, a number for each %s"
                                 % (name, numbers.shape, (count,), of))
            self.kept.append(np.ascontiguousarray(np.broadcast_to(numbers, (count,))))
            setattr(self.problem, name, self.kept[-1].ctypes.data)

    def add_outputs(self, return_weights, return_lse, out):
        query, key, value = (self.views[name] for name in ("query", "key", "value"))
        rows = query.shape[:-1]
        shape = rows + value.shape[-1:]
        context = query.empty(shape) if out is None else out
        view = _View(context, "out")
        if view.shape != shape or view.owner is not context or view.strides[-1] != 1:
            raise ValueError("out has the shape %s; expected %s, with numbers of a row side by side"
                             % (view.shape, shape))
        if out is not None and (any(n > 1 and stride == 0 for n, stride in zip(shape, view.strides))
                                or isinstance(out, np.ndarray) and not out.flags.writeable):
            raise ValueError("out is read-only, or its numbers share their memory; expected one that may be written to")
        _put(self.problem, "context", view, "out")
        results = [context]
        if return_weights:
            results.append(query.empty(rows + key.shape[-2:-1]))
            _put(self.problem, "weights", _View(results[-1]), "weights")
        if return_lse:
            results.append(query.empty(rows, "float64" if query.dtype == "float64" else "float32"))
            lse = _View(results[-1])
            lse.shape, lse.strides = lse.shape + (1,), lse.strides + (1,)
            _put(self.problem, "lse", lse, "lse")
        return results

    def explained(self, field, said):
        """What libattn said of a field, in the names and with the numbers of the call."""
        if field in _FIELDS:
            name, expected = _FIELDS[field]
            given = dict(zip(_OPTIONS, self.options), **dict(zip(_LISTS, self.lists)))
            return "%s is %r; expected %s" % (name, given[name], expected)
        name, _, part = field.replace("attention.", "").partition(".")
        name = {"mask": "attn_mask", "context": "out"}.get(name, name)
        if name not in self.views:
            return "%s: %s" % (name or "attention", said)
        view = self.views[name]
        if part.startswith("dtype"):
            return "%s has the dtype %s; gradients are of float32" % (name, view.dtype)
        if part.startswith("shape"):
            return self._of_shapes(name, view.shape)
        return "%s of the shape %s: %s" % (name, view.shape, said)

    def _of_shapes(self, name, shape):
        batch, q_heads, rows, head_dim = self.shapes["query"]
        kv_heads, keys = self.shapes["key"][1:3]
        if name in self.shapes and (self.shapes[name][1] < 1 or self.shapes[name][3] < 1):
            return "%s has the shape %s; expected a head and a column at least" % (name, shape)
        beside, expected = {
            "key": ("query", (batch, "a divisor of %d" % q_heads if q_heads % kv_heads else kv_heads, "any",
                              head_dim)),
            "value": ("key", (batch, kv_heads, keys, "any")),
            "attn_mask": ("query", tuple("%s1" % ("%d or " % n if n != 1 else "")
                                         for n in (batch, q_heads, rows, keys))),
            "context_gradient": ("value", (batch, q_heads, rows, self.shapes["value"][3])),
        }[name]
        dimensions = max(len(shape), len(self.views[beside].shape))
        return "%s has the shape %s and %s %s; expected (%s) of %s" % (
            name, shape, beside, self.views[beside].shape, ", ".join(map(str, expected[-dimensions:])), name)


local = Local()


def attention_interface(local=local, output_attentions=None):
    """A function for transformers' AttentionInterface, which gives the weights, too, where "sdpa" has none.

    Parameters: local, what computes; output_attentions, False to leave the weights out; None: as the call says, and
    with them where it says nothing, as "eager" does.

    Returns the function. It is registered by AttentionInterface.register("attnd", attnd.attention_interface()), with
    AttentionMaskInterface.register("attnd", sdpa_mask), and a model with attn_implementation="attnd" calls it. Models
    can be trained with it. It raises what local.scaled_dot_product_attention() raises.

    >>> callable(attnd.attention_interface(output_attentions=False))
    True
    """

    def attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, is_causal=None, **kwargs):
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        batch, heads, rows = query.shape[:3]
        keys, window = key.shape[2], -1
        if attention_mask is not None:  # it says all that is hidden, causal and window included
            attention_mask, is_causal = attention_mask[..., :keys], False
        elif kwargs.get("sliding_window"):
            window = kwargs["sliding_window"] - 1
        if not getattr(module, "training", False):
            dropout = 0.0
        weighs = kwargs.get("output_attentions") if output_attentions is None else output_attentions
        sinks, out = kwargs.get("s_aux"), None
        if not _requires_gradient(query, key, value, attention_mask, sinks):
            out = query.new_empty((batch, rows, heads, value.shape[-1])).transpose(1, 2)
        results = local.scaled_dot_product_attention(
            query, key, value, attention_mask, dropout, is_causal, scaling, enable_gqa=True,
            softcap=kwargs.get("softcap") or 0.0, sinks=sinks, window=(window, window), past_len=max(keys - rows, 0),
            return_weights=weighs is not False, out=out)
        context, weights = results if isinstance(results, tuple) else (results, None)
        return context.transpose(1, 2).contiguous(), weights

    return attention
