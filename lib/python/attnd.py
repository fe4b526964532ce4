"""attnd.py - attention from Python: in this process over libattn.so, or by an attnd daemon.

One file, to be copied or put on PYTHONPATH; it needs numpy alone.

    attnd.local     scaled_dot_product_attention(), its gradients and softmax() as in torch, on numpy arrays and on
                    CPU tensors of others (torch; whatever has __dlpack__) where they lie; needs libattn.so.1
    attnd.Client    the daemon's HTTP API: attention, batches, traces, tokens, sessions, models; tensors go as bytes
    attnd.WeightMap weights that draw themselves in a notebook
    attnd.attention_interface()    an attention function for transformers that also gives the weights

Arrays are [batch, heads, length, head_dim] as in torch; fewer dimensions lack those in front.
"""

import base64
import concurrent.futures
import ctypes
import html
import http.client
import itertools
import json
import math
import os
import selectors
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse
import zlib

import numpy as np

__version__ = "0.1.0"

# ------------------------------------------------------------------------------------------- tensors --

# The dtypes of attn.h, in its order, and bytes of a number.
_DTYPES = {"float32": (0, 4), "float64": (1, 8), "float16": (2, 2), "bfloat16": (3, 2), "bool": (4, 1)}
_NAMES = list(_DTYPES)
_NUMPY_NAMES = {np.dtype(name): name for name in _NAMES if name != "bfloat16"}
_TORCH_NAMES = {}  # filled as they come


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


def _dense(shape):
    """Strides of a row-major array."""
    return tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))


class _View:
    """Where the numbers of an array or tensor lie. Strides are in elements; owner keeps the memory alive."""

    __slots__ = ("address", "dtype", "shape", "strides", "owner", "source")

    def __init__(self, x, name="array"):
        self.source = x
        if isinstance(x, np.ndarray):
            self._of_numpy(x, name)
        elif hasattr(x, "data_ptr"):
            if not getattr(x, "is_cpu", True):
                raise TypeError("%s is on %s; attnd.local takes tensors on the CPU: %s.cpu()" % (name, x.device, name))
            dtype = _TORCH_NAMES.get(x.dtype) or _TORCH_NAMES.setdefault(x.dtype, str(x.dtype).rpartition(".")[2])
            self._set(x.data_ptr(), dtype, tuple(x.shape), x.stride(), x, name)
        elif hasattr(x, "__dlpack__"):
            self._of_dlpack(x, name)
        else:
            self._of_numpy(np.asarray(x), name)

    def _set(self, address, dtype, shape, strides, owner, name):
        if dtype not in _DTYPES:
            raise TypeError("%s has the dtype %s; expected one of %s" % (name, dtype, ", ".join(_NAMES)))
        if 0 in shape:  # numpy gives it strides of 0
            strides = _dense(shape)
        self.address, self.dtype, self.owner = address, dtype, owner
        self.shape, self.strides = shape, strides

    def _of_numpy(self, x, name):
        if not (x.flags.aligned and x.dtype.isnative):
            x = np.array(x, x.dtype.newbyteorder("="))
        size, dtype = x.itemsize, _NUMPY_NAMES.get(x.dtype) or x.dtype.name
        self._set(x.ctypes.data, dtype, x.shape, tuple([stride // size for stride in x.strides]), x, name)

    def _of_dlpack(self, x, name):
        if tuple(x.__dlpack_device__())[0] != 1:
            raise TypeError("%s is not in the memory of the CPU" % name)
        capsule = x.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
        kind = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}.get(tensor.code, "code %d of " % tensor.code)
        shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
        strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else _dense(shape)
        dtype = "bool" if kind == "bool" else "%s%d" % (kind, tensor.bits)
        self._set((tensor.data or 0) + tensor.byte_offset, dtype, shape, strides, capsule, name)

    @property
    def is_torch(self):
        return hasattr(self.source, "data_ptr")

    def array(self):
        """The same numbers as a numpy array, without a copy; bfloat16 as uint16."""
        kind = "uint16" if self.dtype == "bfloat16" else self.dtype
        size = _DTYPES[self.dtype][1]
        if 0 in self.shape:
            return np.empty(self.shape, kind)
        count = 1 + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides))
        memory = (ctypes.c_char * (count * size)).from_address(self.address)
        flat = np.frombuffer(memory, kind)
        made = np.lib.stride_tricks.as_strided(flat, self.shape, [stride * size for stride in self.strides])
        made.flags.writeable = False
        return made

    def dense_last(self):
        """This view, or one of a copy where the numbers of a row do not follow each other, or rows go backwards."""
        if not self.shape or (self.strides[-1] == 1 or self.shape[-1] == 1) and min(self.strides) >= 0:
            return self
        source = self.source
        return _View(source.contiguous() if self.is_torch else np.ascontiguousarray(self._readable()))

    def _readable(self):
        return self.source if isinstance(self.source, np.ndarray) else self.array()

    def empty(self, shape, dtype=None):
        """A new array or tensor of the kind of this one."""
        if self.is_torch:
            torch = sys.modules["torch"]
            return self.source.new_empty(shape, dtype=getattr(torch, dtype or self.dtype))
        if (dtype or self.dtype) == "bfloat16" and isinstance(self.source, np.ndarray):
            return np.empty(shape, self.source.dtype)
        return np.empty(shape, "uint16" if (dtype or self.dtype) == "bfloat16" else dtype or self.dtype)


# ----------------------------------------------------------------------- the structs of attn.h, gradient.h --

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


# ------------------------------------------------------------------------------------------ weight maps --


class WeightMap:
    """Weights [heads, query, key] or [query, key], as answers have them, with what tokens they are of.

    An array of numpy by numpy.asarray(). A notebook shows a picture of each head, dark for a large weight; of one
    head of few tokens a table with their texts. A batch of one, [1, heads, query, key], is taken as its item.
    """

    HEADS, CELLS = 16, 192  # of a picture at most
    TEXTS = 48              # of a table at most

    def __init__(self, weights, tokens=None):
        array = _View(weights, "weights").array() if hasattr(weights, "data_ptr") else np.asarray(weights)
        self.array = array[0] if array.ndim == 4 and len(array) == 1 else array
        if self.array.ndim not in (2, 3):
            raise ValueError("weights have the shape %s; expected [heads, query, key] or [query, key]"
                             % (array.shape,))
        self.tokens = tokens

    def head(self, number):
        """The map of one head."""
        return WeightMap(self.array[number], self.tokens)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype) if copy or dtype not in (None, self.array.dtype) else self.array

    def __getitem__(self, index):
        return self.array[index]

    def __len__(self):
        return len(self.array)

    def __repr__(self):
        return "WeightMap(%s)" % " x ".join(map(str, self.array.shape))

    shape = property(lambda self: self.array.shape)

    @staticmethod
    def _pooled(weights, cells):
        """The largest weight of each cell: index i of n is in cell i * cells // n."""
        for axis in (0, 1):
            n = weights.shape[axis]
            if n > cells:
                weights = np.maximum.reduceat(weights, -(-np.arange(cells) * n // cells), axis)
        return weights

    @classmethod
    def _png(cls, weights):
        weights = np.nan_to_num(cls._pooled(np.asarray(weights, np.float32), cls.CELLS), posinf=1, neginf=0)
        most = weights.max(initial=0) or 1
        pixels = (255 - np.clip(weights / most, 0, 1) * 255).round().astype(np.uint8)
        rows = np.zeros((pixels.shape[0], pixels.shape[1] + 1), np.uint8)
        rows[:, 1:] = pixels

        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        size = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 0, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) \
            + chunk(b"IEND", b"")

    def _table(self):
        """One head, whose rows and columns begin with tokens; a cell says its weight where the pointer rests."""
        tokens = [html.escape(token) for token in self.tokens]
        most = np.nan_to_num(self.array).max(initial=0) or 1
        head = "".join('<th style="writing-mode:vertical-rl;text-align:right">%s</th>' % token for token in tokens)
        rows = ""
        for token, weights in zip(tokens, self.array):
            cells = "".join('<td title="%.4g: %s" style="padding:0;min-width:14px;background:rgba(0,0,0,%.3f)"></td>'
                            % (weight, key, min(max(weight / most, 0), 1)) for weight, key in zip(weights, tokens))
            rows += '<tr><th style="text-align:right">%s</th>%s</tr>' % (token, cells)
        return '<table class="attnd-weights" style="background:#fff;color:#000"><tr><th></th>%s</tr>%s</table>' \
            % (head, rows)

    def _repr_html_(self):
        if self.array.ndim == 2 and self.tokens and self.array.shape == (len(self.tokens),) * 2 \
                and len(self.tokens) <= self.TEXTS:
            return self._table()
        heads = self.array[None] if self.array.ndim == 2 else self.array
        if 0 in heads.shape:
            return "<p>%s</p>" % html.escape(repr(self))
        figures = []
        for number, head in enumerate(heads[:self.HEADS]):
            picture = base64.b64encode(self._png(head)).decode()
            figures.append('<figure style="display:inline-block;margin:4px"><img alt="weights of head %d, query rows '
                           'down, keys across" style="width:160px;height:160px;image-rendering:pixelated;border:1px '
                           'solid #ccc" src="data:image/png;base64,%s"><figcaption>head %d</figcaption></figure>'
                           % (number, picture, number))
        said = "%d of %d heads, %d query rows, %d keys" % (len(figures), *heads.shape)
        words = "" if not self.tokens else "<details><summary>tokens</summary>%s</details>" \
            % html.escape(" ".join(self.tokens))
        return '<div class="attnd-weights"><p>%s</p>%s%s</div>' % (said, "".join(figures), words)


# ----------------------------------------------------------------------------------------------- faults --


class AttndError(Exception):
    """A fault of the daemon: status, code, message, pointer, request_id and retry_after (seconds, or None).

    status is 0 where no answer came. A fault of one item of a batch is what it would be of a call of its own.
    """

    def __init__(self, message, status=0, code="", pointer=None, request_id=None, retry_after=None):
        super().__init__(message)
        self.message, self.status, self.code, self.pointer = message, status, code, pointer
        self.request_id, self.retry_after = request_id, retry_after

    def __str__(self):
        said = " ".join(str(x) for x in (self.status or "", self.code) if x)
        return "%s%s%s" % (said + ": " if said else "", self.message, " at " + self.pointer if self.pointer else "")


class BadRequest(AttndError, ValueError): pass
class Unauthorized(AttndError, PermissionError): pass
class Forbidden(AttndError, PermissionError): pass
class NotFound(AttndError, LookupError): pass
class Conflict(AttndError): pass
class Gone(AttndError, LookupError): pass
class TooLarge(AttndError, ValueError): pass
class Overloaded(AttndError): pass
class Unavailable(AttndError): pass
class DeadlineExceeded(AttndError, TimeoutError): pass
class ConnectionFailed(AttndError, ConnectionError): pass
class StorageFailed(AttndError): pass


_FAULTS = {400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 413: TooLarge,
           415: BadRequest, 429: Overloaded, 503: Unavailable, 504: DeadlineExceeded, 507: StorageFailed}
# Codes of other statuses than 400 that an item of a batch can have.
_STATUSES = {"scope": 403, "forbidden": 403, "not_found": 404, "conflict": 409, "gone": 410, "too_large": 413,
             "answer_too_large": 413, "quota": 429, "overloaded": 429, "loading": 503, "memory": 503, "draining": 503,
             "deadline": 504, "storage": 507}


def _fault(said, status=None, retry_after=None):
    """The exception of a fault as an answer has it."""
    code = said.get("code", "")
    status = status or _STATUSES.get(code, 400)
    return _FAULTS.get(status, AttndError)(said.get("error", "the answer has no message"), status, code,
                                           said.get("pointer"), said.get("request_id"), retry_after)


def _seconds(retry_after):
    """Retry-After in seconds; None where there is none, or a date, which the daemon does not send."""
    return float(retry_after) if retry_after and retry_after.strip().isdigit() else None

# ----------------------------------------------------------------------------------- bodies as safetensors --

SAFETENSORS = "application/x-safetensors"

_TENSOR_DTYPES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "bool": "BOOL",
                  "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8"}
_ARRAY_DTYPES = {name: kind for kind, name in _TENSOR_DTYPES.items()}
# Fields that are texts; all others are JSON in the metadata.
_TEXTS = {"model", "normalizer", "precision", "text", "pair", "decoder_text", "trace", "session", "owner", "format",
          "attnd", "attnd_session", "dtype"}
# Fields that are rows of numbers, also where they come as lists.
_ROWS = {"query", "key", "value", "mask", "input", "context_gradient"}


def _is_tensor(value):
    return isinstance(value, (np.ndarray, WeightMap)) or hasattr(value, "data_ptr") or hasattr(value, "__dlpack__")


def _numbers(value, name="tensor"):
    """(name of the dtype, shape, bytes) of a tensor, the bytes without a copy where they lie densely."""
    if isinstance(value, np.ndarray) and value.dtype.name in _TENSOR_DTYPES and value.dtype.name not in _DTYPES:
        value = np.ascontiguousarray(value)
        return _TENSOR_DTYPES[value.dtype.name], value.shape, memoryview(value).cast("B") if value.size else b""
    view = _View(np.asarray(value) if isinstance(value, WeightMap) else value, name)
    if view.dtype == "bfloat16" and isinstance(view.source, np.ndarray):
        array = np.ascontiguousarray(view.source).view(np.uint16)
    else:
        array = np.ascontiguousarray(view.array())
    return _TENSOR_DTYPES[view.dtype], view.shape, memoryview(array).cast("B") if array.size else b""


def _safetensors(fields):
    """The parts of a safetensors file of the fields that are tensors, with all others in its metadata."""
    header, parts, end = {}, [], 0
    metadata = {}
    for name, value in fields.items():
        if not _is_tensor(value):
            metadata[name] = value if name in _TEXTS and isinstance(value, str) else _json(value)
            continue
        dtype, shape, numbers = _numbers(value, name)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(numbers)]}
        parts.append(numbers)
        end += len(numbers)
    header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)) + text] + parts


def _read_safetensors(body):
    """(tensors, what the answer says besides)."""
    begin = 8 + struct.unpack_from("<Q", body)[0]
    header = json.loads(bytes(body[8:begin]))
    said = {name: value if name in _TEXTS else json.loads(value)
            for name, value in header.pop("__metadata__", {}).items()}
    arrays = {}
    for name, tensor in header.items():
        first, end = tensor["data_offsets"]
        kind = _ARRAY_DTYPES[tensor["dtype"]]
        data = np.frombuffer(body, "<u2" if kind == "bfloat16" else kind, (end - first) //
                             np.dtype("u2" if kind == "bfloat16" else kind).itemsize, begin + first)
        if kind == "bfloat16":  # numpy has none
            data = (data.astype(np.uint32) << 16).view(np.float32)
        arrays[name] = data.reshape(tensor["shape"])
    return arrays, said


class Answer(dict):
    """An answer: its fields by name, also as attributes; tensors are numpy arrays, weights WeightMaps.

    replica is the name of the daemon that gave it.
    """

    replica = None

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError("the answer has no %s; it has %s" % (name, ", ".join(self))) from None

    def _of_layers(self, name):
        return tuple(layer[name] for layer in self.get("layers", ()) if name in layer)

    attentions = property(lambda self: self._of_layers("weights"), doc="of a trace, as transformers name them")

    @property
    def hidden_states(self):
        """Of a trace, as transformers have them: of each layer what enters it, then what leaves the last one."""
        last = (self["final_hidden_states"],) if "final_hidden_states" in self else ()
        return self._of_layers("hidden_states") + last


def _predictions(texts, positions, ids, logprobs):
    """Predictions as an answer in JSON has them."""
    return [{"position": position, "tokens": [{"id": id, "text": text, "logprob": logprob}
                                              for id, text, logprob in zip(*tokens)]}
            for position, *tokens in zip(positions, ids, texts, logprobs)]


def _answer(arrays, said):
    """The fields of an answer, with the tensors `layers.3.weights` and `results.0.context` in their places."""
    answer, places = Answer(said), {}
    for name in ("results", "steps", "layers"):
        if isinstance(said.get(name), list):
            answer[name] = [Answer(item) if isinstance(item, dict) else item for item in said[name]]
            places.update({(name, str(item.get("layer", i) if name == "layers" else i)): item
                           for i, item in enumerate(answer[name]) if isinstance(item, dict)})
    if not arrays:
        return answer
    if "predictions.ids" in arrays:
        answer["predictions"] = _predictions(said["predictions"], *(
            arrays["predictions." + name].tolist() for name in ("positions", "ids", "logprobs")))
    for name, array in arrays.items():
        parts = name.split(".", 2)
        place, field = (places[tuple(parts[:2])], parts[2]) if tuple(parts[:2]) in places else (answer, name)
        place[field] = WeightMap(array, _texts(said)) if field == "weights" else array
    return answer


def _texts(said):
    """The texts of the tokens of a trace, or None."""
    return [token.get("text", str(token["id"])) for token in said.get("tokens", ())] or None


# ----------------------------------------------------------------------------------------------- client --


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect("\0" + self._path[1:] if self._path.startswith("@") else self._path)


class Client:
    """An attnd daemon at http://HOST:PORT, https://HOST:PORT, unix:/PATH or unix:@NAME.

    key is a key of the daemon; model the one that calls use where they name none. A call takes at most timeout
    seconds, all tries together. What the daemon refuses for a while (429, 503) is tried again, up to retries times,
    when Retry-After says so, and where sending twice changes nothing, so is a call whose connection broke. Each
    thread has a connection of its own. Faults are AttndError and its subclasses.
    """

    def __init__(self, url="http://127.0.0.1:8080", key=None, model=None, timeout=60.0, retries=3, ssl_context=None):
        self.url, self.model, self.timeout, self.retries = url, model, timeout, retries
        self._key, self._ssl, self._local = key, ssl_context, threading.local()
        self._unix = url[5:] if url.startswith("unix:") else None
        parts = urllib.parse.urlsplit(url)
        if self._unix is None and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("the address is %r; expected http://HOST:PORT, https://HOST:PORT or unix:/PATH" % url)
        self._scheme, self._host = parts.scheme, parts.hostname
        self._port, self._prefix = (parts.port, parts.path.rstrip("/")) if self._unix is None else (None, "")

    def __repr__(self):
        return "Client(%r, model=%r)" % (self.url, self.model)

    def _connection(self):
        connection = getattr(self._local, "connection", None)
        if connection is not None and connection.sock is not None and _is_over(connection.sock):
            connection.close()
        if connection is None:
            if self._unix is not None:
                connection = _UnixConnection(self._unix, self.timeout)
            elif self._scheme == "https":
                connection = http.client.HTTPSConnection(self._host, self._port, timeout=self.timeout,
                                                         context=self._ssl or ssl.create_default_context())
            else:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=self.timeout)
            self._local.connection = connection
        return connection

    def close(self):
        """Closes the connection of this thread."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _exchange(self, method, path, parts, headers, left):
        """One try: (status, headers, body). An answer that comes before all of the body has been sent counts."""
        connection = self._connection()
        connection.timeout = left
        if connection.sock is not None:
            connection.sock.settimeout(left)
        try:
            try:
                connection.request(method, self._prefix + path, iter(parts) if parts else None, headers)
            except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                if connection.sock is None:
                    raise
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        except BaseException:
            self.close()
            raise

    def _call(self, method, path, parts=(), content_type=None, accept=None, is_pure=True, replica=None):
        headers = {"Content-Length": str(sum(map(len, parts)))} if parts or method in ("POST", "PATCH") else {}
        for name, value in (("Content-Type", content_type), ("Accept", accept), ("Attnd-Replica", replica),
                            ("Authorization", "Bearer " + self._key if self._key else None)):
            if value:
                headers[name] = value
        end, tries = time.monotonic() + self.timeout, 0
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise DeadlineExceeded("no answer came within %g s" % self.timeout)
            headers["X-Timeout-Ms"] = "%.3f" % (left * 1e3)
            pause = 0.0
            try:
                status, said, body = self._exchange(method, path, parts, headers, left)
                if status < 400:
                    return said, body
                fault = self._fault_of(status, said, body)
                is_sure = is_pure or fault.request_id is not None
                pause = fault.retry_after
                if status not in (429, 503) or pause is None or not is_sure:
                    raise fault
            except TimeoutError as error:
                if isinstance(error, AttndError):
                    raise
                raise DeadlineExceeded("no answer came within %g s" % self.timeout) from None
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, AttndError):
                    raise
                fault = ConnectionFailed("%s: %s: %s" % (self.url, type(error).__name__, error))
                if not is_pure or isinstance(error, ssl.SSLCertVerificationError):
                    raise fault from error
                pause = 0.05 * 2 ** tries if tries else 0.0
            tries += 1
            if tries > self.retries or time.monotonic() + pause > end:
                raise fault
            time.sleep(pause)

    @staticmethod
    def _fault_of(status, headers, body):
        try:
            said = json.loads(body)
        except ValueError:
            said = None
        return _fault(said if isinstance(said, dict) else {}, status, _seconds(headers.get("Retry-After")))

    def request(self, method, path, fields=None, binary=True, is_pure=True, replica=None):
        """A request of any path: fields become JSON, or with tensors among them a safetensors file.

        A request that is_pure may be sent again where no answer came. replica is the daemon behind a balancer.
        """
        parts, kind = (), None
        if fields is not None:
            fields = {name: _tensor_of(value) if binary and name in _ROWS else value
                      for name, value in fields.items() if value is not None}
            if binary and any(map(_is_tensor, fields.values())):
                parts, kind = _safetensors(fields), SAFETENSORS
            else:
                parts, kind = [_json(fields).encode()], "application/json"
        return self._answer(*self._call(method, path, parts, kind, SAFETENSORS if binary else None, is_pure, replica))

    @staticmethod
    def _answer(said, body):
        if said.get_content_type() == SAFETENSORS:
            answer = _answer(*_read_safetensors(body))
        else:
            answer = _answer({}, json.loads(body)) if body else Answer()
        answer.replica = said.get("Attnd-Replica")
        return answer

    # ------------------------------------------------------------------------------------------ calls --

    def attention(self, query, key=None, value=None, mask=None, **fields):
        """POST /v1/attention: an answer with context, weights and what `outputs` asks for. Fields as in the API."""
        return self.request("POST", "/v1/attention", self._with_model(fields, query=query, key=key, value=value,
                                                                      mask=mask))

    def gradients(self, query, context_gradient, key=None, value=None, mask=None, **fields):
        """POST /v1/attention/gradients: query, key, value, and parameters under their names."""
        return self.request("POST", "/v1/attention/gradients", self._with_model(
            fields, query=query, context_gradient=context_gradient, key=key, value=value, mask=mask))

    def merge(self, parts, **fields):
        """POST /v1/attention/merge: context and lse over all keys, from those of parts of the keys (partial=True)."""
        for i, part in enumerate(parts):
            fields.update({"parts.%d.%s" % (i, name): _tensor_of(part[name]) for name in ("context", "lse")})
        return self.request("POST", "/v1/attention/merge", self._with_model(fields))

    def batch(self, requests, **fields):
        """POST /v1/attention/batch: an answer, or the AttndError, for each of requests, which are dicts of fields."""
        return self._results(self.request("POST", "/v1/attention/batch", self._with_model(
            fields, requests=requests), binary=False))

    def softmax(self, input, axis=-1, kv_len=None):
        """POST /v1/softmax."""
        fields = {"input": _tensor_of(input), "axis": axis, "kv_len": kv_len}
        return np.asarray(self.request("POST", "/v1/softmax", fields, binary=False).output, np.float32)

    def trace(self, text=None, **fields):
        """POST /v1/trace: tokens and layers; attentions and hidden_states as transformers name them."""
        return self.request("POST", "/v1/trace", self._with_model(fields, text=text))

    def trace_batch(self, requests, **fields):
        """POST /v1/trace/batch."""
        return self._results(self.request("POST", "/v1/trace/batch", self._with_model(fields, requests=requests),
                                          binary=False))

    def kept_trace(self, trace):
        """The KeptTrace of an answer to trace(..., keep="5m"), or of its id."""
        return KeptTrace(self, trace["trace"] if isinstance(trace, dict) else trace)

    def tokenize(self, text, **fields):
        """POST /v1/tokenize: the tokens, each with id and text."""
        return self.request("POST", "/v1/tokenize", self._with_model(fields, text=text), binary=False).tokens

    def detokenize(self, tokens, **fields):
        """POST /v1/detokenize: the text of ids."""
        fields = self._with_model(fields, tokens=[int(token) for token in tokens])
        return self.request("POST", "/v1/detokenize", fields, binary=False).text

    def models(self):
        """GET /v1/models: what is served."""
        return self.request("GET", "/v1/models", binary=False).models

    def describe(self, model=None):
        """GET /v1/models/{model}."""
        return self.request("GET", "/v1/models/" + _quoted(model or self.model), binary=False)

    def put_model(self, name, config, parameters):
        """PUT /v1/models/{model}: makes or replaces a model of attnd's own config and a dict of tensors."""
        fields = {parameter: _tensor_of(value) for parameter, value in parameters.items()}
        return self.request("PUT", "/v1/models/" + _quoted(name), dict(fields, attnd=json.dumps(config)))

    def delete_model(self, name):
        """DELETE /v1/models/{model}."""
        self.request("DELETE", "/v1/models/" + _quoted(name), binary=False, is_pure=False)

    def session(self, model=None, **fields):
        """POST /v1/sessions: a Session, which ends where a `with` block of it ends."""
        fields["model"] = model or self.model
        return Session(self, self.request("POST", "/v1/sessions", fields, binary=False, is_pure=False))

    def open_session(self, id):
        """GET /v1/sessions/{session}: the Session of an id that is there."""
        return Session(self, self.request("GET", "/v1/sessions/" + _quoted(id), binary=False))

    def load_session(self, file, id=None, model=None):
        """PUT /v1/sessions/{session}: a Session of what save() gave, its bytes or the path of a file with them.

        Or of a dict with tensors [kv_heads, kv_len, head_dim] `layers.0.key`, `layers.0.value`, `layers.1.key` and so
        on of float32, float16 or bfloat16, rotated where the model rotates.
        """
        if isinstance(file, dict):
            dtypes = {_numbers(tensor)[0].lower() for tensor in file.values()}
            parts = _safetensors(dict(file, attnd_session="1", model=model or self.model, dtype=min(dtypes)))
        elif isinstance(file, (bytes, bytearray, memoryview)):
            parts = [file]
        else:
            with open(file, "rb") as stream:
                parts = [stream.read()]
        path = "/v1/sessions/" + _quoted(id or os.urandom(16).hex())
        return Session(self, self._answer(*self._call("PUT", path, parts, SAFETENSORS, is_pure=False)))

    def sessions(self):
        """GET /v1/sessions: what there is, the oldest first, each as a dict."""
        return self.request("GET", "/v1/sessions", binary=False).sessions

    def session_batch(self, requests, **fields):
        """POST /v1/sessions/attention: an answer, or the AttndError, for each of requests, one a session.

        They are dicts of the fields of Session.attention(), and of `session`, a Session or an id.
        """
        items, sessions = list(requests), {}
        for i, item in enumerate(items):
            session = item["session"]
            if isinstance(session, Session):
                items[i], sessions[i] = dict(session._placed(item), session=session.id), session
        results = self._results(self.request(
            "POST", "/v1/sessions/attention", _listed("requests", items, fields),
            is_pure=all(map(_is_repeatable, items)), replica=next((s.replica for s in sessions.values()), None)))
        for i, session in sessions.items():
            if not isinstance(results[i], AttndError):
                session._grow(results[i], results[i].kv_len)
        return results

    def _with_model(self, fields, **others):
        if self.model is not None:
            fields.setdefault("model", self.model)
        fields.update(others)
        return fields

    @staticmethod
    def _results(answer):
        return [_fault(item) if "error" in item else _as_arrays(item) for item in answer.results]


def _is_over(sock):
    """Whether the daemon has ended a connection that is idle: then there is something to read, its end."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


_ARRAYS = {"context", "weights", "scores", "softcapped", "masked", "lse", "inputs", "key_inputs", "hidden_states",
           "attention_output", "final_hidden_states", "encoder_hidden_states"}


def _as_arrays(item):
    """An answer in JSON with arrays for its lists of numbers; null is -inf of scores and lse."""
    if "layers" in item:
        item["layers"] = list(map(Answer, item["layers"]))
    for place in [item] + item.get("layers", []):
        for name in _ARRAYS & set(place):
            if isinstance(place[name], list):
                array = np.asarray(place[name], np.float32)
                place[name] = WeightMap(array, _texts(item)) if name == "weights" \
                    else np.nan_to_num(array, nan=-np.inf)
    return item


def _json(value):
    """JSON of fields, with -inf of tensors as null."""
    return json.dumps(value, default=_json_value, allow_nan=False)


def _json_value(value):
    if _is_tensor(value):
        array = _View(value).array() if hasattr(value, "data_ptr") else np.asarray(value)
        return (np.where(np.isneginf(array), None, array) if array.dtype.kind == "f" else array).tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError("%s is no JSON" % type(value).__name__)


def _tensor_of(value):
    """Lists of numbers, and integers, as an array of floats; a mask of bool as it is."""
    if value is None or _is_tensor(value) and not (isinstance(value, np.ndarray) and value.dtype.kind in "iu"):
        return value
    array = np.asarray(value)
    return array if array.dtype == bool else array.astype(np.float32)


def _listed(name, items, fields):
    """fields with a list of items under name, whose tensors are fields such as `requests.0.query`."""
    rest = []
    for i, item in enumerate(items):
        item = {field: _tensor_of(value) if field in _ROWS else value for field, value in item.items()}
        fields.update({"%s.%d.%s" % (name, i, field): value for field, value in item.items() if _is_tensor(value)})
        rest.append({field: value for field, value in item.items() if value is not None and not _is_tensor(value)})
    return dict(fields, **{name: rest})


def _appends(fields):
    return any(fields.get(name) is not None for name in ("key", "value", "input"))


def _is_repeatable(fields):
    """Whether a call on a session may be sent again where no answer came."""
    return "at" in fields or not _appends(fields)


def _quoted(name):
    return urllib.parse.quote(str(name), safe="")


class KeptTrace:
    """What the daemon keeps of a trace for a while: pieces of its maps, and why a weight is what it is."""

    def __init__(self, client, id):
        self.client, self.id = client, id

    def _path(self, name="", **query):
        query = urllib.parse.urlencode({field: value for field, value in query.items() if value is not None})
        return "/v1/traces/%s%s%s" % (_quoted(self.id), "/" + name if name else "", "?" + query if query else "")

    def info(self):
        """Its model, tokens and layers, what it takes, and when it ends."""
        return self.client.request("GET", self._path(), binary=False)

    def weights(self, layer, head, rows=None, keys=None, cells=(256, 256), reduce="max"):
        """The WeightMap of a head, or of "all", of rows and keys from the first to before the second number.

        It has at most so many cells, rows and keys; each is the largest or the "mean" weight in it.
        """
        ranges = {name: "%d:%d" % tuple(ends) for name, ends in (("rows", rows), ("keys", keys)) if ends is not None}
        path = self._path("weights", layer=layer, head=head, cells="%dx%d" % tuple(cells), reduce=reduce, **ranges)
        said, body = self.client._call("GET", path)
        shape = tuple(map(int, said["X-Tile-Shape"].split("x")))
        return WeightMap(np.frombuffer(body, "<f4").reshape(shape))

    def statistics(self):
        """For each layer, of each head, means over its rows: entropy, distance, the first key, and so on."""
        return self.client.request("GET", self._path("statistics"), binary=False).layers

    def pair(self, layer, head, row, key):
        """One score, stage by stage."""
        return self.client.request("GET", self._path("pair", layer=layer, head=head, row=row, key=key), binary=False)

    def delete(self):
        self.client.request("DELETE", self._path(), binary=False)


class Session:
    """Keys and values that stay in the daemon between calls.

    Each call that appends says at which length (`at`), so that one whose connection broke is sent again without
    appending twice. Its length is in kv_len; layer_kv_len has that of each layer by its number. Calls go to the
    replica that has it.
    """

    def __init__(self, client, said):
        self.client, self.id, self.model, self.replica = client, said.session, said.get("model"), said.replica
        self._take(said)

    def __repr__(self):
        return "Session(%r, model=%r, kv_len=%d)" % (self.id, self.model, self.kv_len)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.delete()
        except (NotFound, Gone):
            pass

    def _request(self, method, tail="", fields=None, binary=False, is_pure=True):
        return self.client.request(method, self._path + tail, fields, binary, is_pure, self.replica)

    @property
    def _path(self):
        return "/v1/sessions/" + _quoted(self.id)

    def _take(self, said):
        self.kv_len = said["kv_len"]
        self.layer_kv_len = dict(zip(said["layers"], said["layer_kv_len"]))
        return said

    def _placed(self, fields):
        """The fields of a call, with `at` where they append to a layer."""
        layer = fields.get("layer", next(iter(self.layer_kv_len)) if len(self.layer_kv_len) == 1 else None)
        if layer in self.layer_kv_len and _appends(fields):
            fields = dict({"at": self.layer_kv_len[layer]}, **fields)
        return fields

    def _grow(self, answer, kv_len):
        self.kv_len, self.layer_kv_len[answer.layer] = kv_len, answer.layer_kv_len
        return answer

    def attention(self, query=None, key=None, value=None, mask=None, **fields):
        """Appends key and value, and attends with query to all that is there; `append=False` drops them behind."""
        fields = self._placed(dict(fields, query=query, key=key, value=value, mask=mask))
        answer = self._request("POST", "/attention", fields, True, _is_repeatable(fields))
        return self._grow(answer, answer.kv_len)

    def append(self, key, value, **fields):
        """Appends keys and values, and attends with nothing."""
        return self.attention(None, key, value, **fields)

    def steps(self, steps, **fields):
        """Calls of different layers, dicts of the fields of attention(): all are done, or none. A list of answers."""
        steps = [self._placed(step) for step in steps]
        answer = self._request("POST", "/attention", _listed("steps", steps, fields), True,
                               all(map(_is_repeatable, steps)))
        return [self._grow(step, answer.kv_len) for step in answer.steps]

    def trace(self, text=None, **fields):
        """The next tokens (text, or tokens=[ids]) through the whole model."""
        fields.setdefault("at", self.kv_len)
        answer = self._request("POST", "/trace", dict(fields, text=text), True)
        self.kv_len = answer.kv_len
        self.layer_kv_len = {layer: answer.kv_len for layer in self.layer_kv_len}
        return answer

    def info(self):
        """What the daemon says of it, as a dict."""
        return self._take(self._request("GET"))

    def update(self, **fields):
        """Changes ttl and evictable."""
        return self._take(self._request("PATCH", "", fields))

    def fork(self, **fields):
        """A new session that shares all that is there; id and ttl may be given."""
        return Session(self.client, self._request("POST", "/fork", fields, is_pure=False))

    def truncate(self, kv_len):
        """Goes back to an earlier length."""
        self._take(self._request("POST", "/truncate", {"kv_len": int(kv_len)}))
        return self

    def save(self, path=None):
        """The bytes of a safetensors file of it, for load_session() on any daemon; also written to path."""
        body = self.client._call("GET", self._path, accept=SAFETENSORS, replica=self.replica)[1]
        if path is not None:
            with open(path, "wb") as stream:
                stream.write(body)
        return body

    def delete(self):
        self._request("DELETE")
