"""attnd.local: attention in this process, by libattn.so."""

import concurrent.futures
import ctypes
import itertools
import math
import os
import struct
import sys
import threading

import numpy as np

from .tensors import _DTYPES, _View, _dense

_i64, _pointer, _int = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int


class _Tensor(ctypes.Structure):
    _fields_ = [("data", _pointer), ("dtype", _int), ("shape", _i64 * 4), ("stride", _i64 * 4), ("pages", _pointer)]


class _Options(ctypes.Structure):
    _fields_ = [("scale", ctypes.c_double), ("softcap", ctypes.c_double), ("causal", ctypes.c_bool),
                ("window_left", _i64), ("window_right", _i64), ("dropout", ctypes.c_float), ("seed", ctypes.c_uint64),
                ("normalizer", _int), ("softmax_precision", _int), ("precision", _int),
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
                ("rest", ctypes.c_uint64 * 512)]  # more than the library's own fields take


class _GradientProblem(ctypes.Structure):
    _fields_ = [("attention", _Problem), ("has_forward", ctypes.c_bool), ("largest_weights", _pointer),
                ("context_gradient", _Tensor), ("query_gradient", _Tensor), ("key_gradient", _Tensor),
                ("value_gradient", _Tensor), ("mask_gradient", _Tensor), ("additive_weight_gradient", _pointer),
                ("alibi_slopes_gradient", _pointer), ("sinks_gradient", _pointer)]


class _GradientPlan(ctypes.Structure):
    _fields_ = [("task_count", _i64 * 17), ("scratch_bytes", ctypes.c_size_t), ("workspace_bytes", ctypes.c_size_t),
                ("rest", ctypes.c_uint64 * 512)]


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
    """libattn.so, and threads for its tasks. `attnd.local` is one that is made at its first use."""

    def __init__(self, library=None, threads=None):
        """library is a path, else that of the variable ATTN_LIBRARY, else the system's libattn.so.1."""
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
            raise ImportError("attnd.local needs libattn.so.1 (`make install-library` of attnd, or its path in the "
                              "variable ATTN_LIBRARY): %s" % error) from None
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

    def _check(self, status, where):
        if status != 0:
            said = self.library.attn_status_message(status).decode()
            raise ValueError("%s: %s" % (where.value.decode() if where.value else "attention", said))

    def scaled_dot_product_attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                                     scale=None, enable_gqa=False, *, softcap=0.0, window=(-1, -1), alibi_slopes=None,
                                     sinks=None, kv_len=None, past_len=None, seed=0, normalizer="softmax",
                                     return_weights=False, return_lse=False, out=None, threads=None):
        """softmax(query . key^T * scale + mask) . value, as torch.nn.functional has it.

        Returns the context; with return_weights or return_lse a tuple (context, weights, lse) of what was asked for.
        Arrays are read and written where they lie; what comes back is of the kind and dtype of query. A mask of bool
        says what may attend, another is added. Beside torch's: softcap; window=(left, right), -1 for no bound;
        alibi_slopes and sinks, a number for each query head; kv_len, keys that count in each batch item; past_len, the
        position of the first query row (default 0: causal as in torch, top left); normalizer "sparsemax"; out, where
        the context goes. A row that may attend to nothing gives zeros.
        """
        call = _Call(query, key, value, attn_mask, enable_gqa)
        call.set_options(dropout_p, seed, is_causal, scale, softcap, window, normalizer)
        call.set_lists(alibi_slopes, sinks, kv_len, past_len)
        results = call.add_outputs(return_weights, return_lse, out)
        self._attend(call, threads)
        return results[0] if len(results) == 1 else tuple(results)

    def _attend(self, call, threads):
        library, plan, where = self.library, _Plan(), ctypes.c_char_p()
        call.problem.kernels = self._kernels
        threads = call.threads(threads)
        self._check(library.attn_plan_init(ctypes.byref(plan), ctypes.byref(call.problem), ctypes.byref(where)), where)
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
                                              past_len=None, seed=0, normalizer="softmax", mask_gradient=False,
                                              threads=None):
        """Gradients of query, key and value (and of a float mask, with mask_gradient) of float32 tensors.

        The arguments are those of the call whose context has this gradient.
        """
        call = _Call(query, key, value, attn_mask, enable_gqa)
        call.set_options(dropout_p, seed, is_causal, scale, softcap, window, normalizer)
        call.set_lists(alibi_slopes, sinks, kv_len, past_len)
        gradient = _GradientProblem(attention=call.problem)
        given = _View(context_gradient, "context_gradient").dense_last()
        _put(gradient, "context_gradient", given, "context_gradient")
        results = []
        for name in ("query", "key", "value") + (("mask",) if mask_gradient else ()):
            view = call.views[name]
            results.append(view.empty(view.shape))
            _put(gradient, name + "_gradient", _View(results[-1]), name)
        library, plan, where = self.library, _GradientPlan(), ctypes.c_char_p()
        gradient.attention.kernels = self._kernels
        self._check(library.attn_gradient_plan_init(ctypes.byref(plan), ctypes.byref(gradient), ctypes.byref(where)),
                    where)
        address, run, threads = ctypes.addressof(plan), library.attn_gradient_run, call.threads(threads)
        memory = np.empty(plan.scratch_bytes + 64, np.uint8)
        scratch = (memory.ctypes.data + 63) & ~63
        for stage, count in enumerate(plan.task_count):
            if count:
                self._run(count, plan.workspace_bytes,
                          lambda task, work: run(address, stage, task, scratch, work), threads)
        return tuple(results)

    def softmax(self, input, dim=-1, threads=None):
        """The softmax along an axis; a row of nothing but -inf gives zeros."""
        return self._softmax(input, dim, False, threads)

    def log_softmax(self, input, dim=-1, threads=None):
        return self._softmax(input, dim, True, threads)

    def _softmax(self, input, dim, is_log, threads):
        view = _View(input, "input")
        if not -len(view.shape) <= dim < len(view.shape):
            raise ValueError("dim %d of an input of %d dimensions" % (dim, len(view.shape)))
        if view.dtype == "bool":
            raise TypeError("input has the dtype bool; expected numbers")
        if view.strides != _dense(view.shape):
            view = _View(view.source.contiguous() if view.is_torch else np.ascontiguousarray(view._readable()))
        result, dim = view.empty(view.shape), dim % len(view.shape)
        outer, inner = math.prod(view.shape[:dim]), math.prod(view.shape[dim + 1:])
        softmax = _Softmax(view.address, _View(result).address, outer, view.shape[dim], inner, None, 1, is_log,
                           _DTYPES[view.dtype][0])
        address, run, rows = ctypes.addressof(softmax), self.library.attn_softmax_run, outer * inner
        step = max(1, 65536 // max(1, view.shape[dim]))
        self._run(-(-rows // step), 0,
                  lambda part, _: run(address, part * step, min(step, rows - part * step)), threads)
        return result


class _Call:
    """A problem of attn.h, and the memory that it borrows."""

    def __init__(self, query, key, value, mask, enable_gqa):
        self.problem, self.kept, self.views, self.shapes = _Problem(), [], {}, {}
        dtype = None
        for name, x in (("query", query), ("key", key), ("value", value)):
            view = self.views[name] = _View(x, name).dense_last()
            dtype = dtype or view.dtype
            if len(view.shape) < 2:
                raise ValueError("%s has %d dimensions; expected 2 to 4" % (name, len(view.shape)))
            if view.dtype != dtype:
                raise TypeError("%s has the dtype %s and query %s; expected the same for both"
                                % (name, view.dtype, dtype))
            self.shapes[name] = _put(self.problem, name, view, name)
        if mask is not None:
            self._set_mask(_View(mask, "attn_mask"))
        q_heads, kv_heads = self.shapes["query"][1], self.shapes["key"][1]
        if q_heads != kv_heads and not enable_gqa:
            raise ValueError("query has %d heads and key %d; groups of heads want enable_gqa=True"
                             % (q_heads, kv_heads))

    def _set_mask(self, view):
        keys = self.shapes["key"][2]
        if view.shape and view.shape[-1] not in (1, keys):
            raise ValueError("attn_mask has %d keys and key %d; expected the same for both, or 1"
                             % (view.shape[-1], keys))
        self.views["mask"] = self._unstrided(view)
        _put(self.problem, "mask", self.views["mask"], "attn_mask")

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

    def set_options(self, dropout, seed, is_causal, scale, softcap, window, normalizer):
        if normalizer not in ("softmax", "sparsemax"):
            raise ValueError("normalizer is %r; expected 'softmax' or 'sparsemax'" % (normalizer,))
        try:
            left, right = window
        except TypeError:
            raise TypeError("window is %r; expected (left, right), -1 for no bound" % (window,)) from None
        head_dim = self.shapes["query"][3]
        self.problem.options = _Options(scale if scale is not None else max(head_dim, 1) ** -0.5, softcap, is_causal,
                                        left, right, dropout, seed, normalizer == "sparsemax", 0, 0, False)

    def set_lists(self, alibi_slopes, sinks, kv_len, past_len):
        batch, q_heads = self.shapes["query"][:2]
        for name, values, dtype, count in (
                ("alibi_slopes", alibi_slopes, np.float32, q_heads), ("sinks", sinks, np.float32, q_heads),
                ("kv_len", kv_len, np.int64, batch), ("past_len", past_len, np.int64, batch)):
            if values is not None:
                self.kept.append(np.ascontiguousarray(np.broadcast_to(np.asarray(values, dtype), (count,))))
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


local = Local()


def attention_interface(local=local, output_attentions=None):
    """A function for transformers' AttentionInterface, which gives the weights, too, where "sdpa" has none.

    AttentionInterface.register("attnd", attnd.attention_interface()), AttentionMaskInterface.register("attnd",
    sdpa_mask), and a model with attn_implementation="attnd". It computes without gradients. output_attentions=False
    leaves the weights out; None: as the call says, and with them where it says nothing, as "eager" does.
    """

    def attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, is_causal=None, **kwargs):
        torch = sys.modules["torch"]
        if torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value)):
            raise RuntimeError("attnd computes no gradients of a model: call it under torch.no_grad()")
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
        context = query.new_empty((batch, rows, heads, value.shape[-1]))
        sinks = kwargs.get("s_aux")
        results = local.scaled_dot_product_attention(
            query, key, value, attention_mask, dropout, is_causal, scaling, enable_gqa=True,
            softcap=kwargs.get("softcap") or 0.0, sinks=None if sinks is None else sinks.detach().float(),
            window=(window, window), past_len=max(keys - rows, 0),
            seed=int(torch.randint(1 << 62, ())) if dropout else 0,
            return_weights=weighs is not False, out=context.transpose(1, 2))
        return context, results[1] if isinstance(results, tuple) else None

    return attention
