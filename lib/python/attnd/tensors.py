# SPDX-License-Identifier: Apache-2.0
"""Where the numbers of arrays and tensors lie: of numpy, of torch on the CPU, of whatever has __dlpack__."""

import ctypes
import math
import sys

import numpy as np

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


def _widened(bits):
    """The float32 of numbers of bfloat16, whose bits are given as uint16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


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
        memory.owner = self.owner  # lives as long as the array does
        flat = np.frombuffer(memory, kind)
        made = np.lib.stride_tricks.as_strided(flat, self.shape, [stride * size for stride in self.strides])
        made.flags.writeable = False
        return made

    def numbers(self):
        """The same numbers as an array that numpy computes with: bfloat16, which it does not have, as float32."""
        return _widened(self.array()) if self.dtype == "bfloat16" else self.array()

    def dense_last(self):
        """This view, or one of a copy where the numbers of a row do not follow each other, or rows go backwards."""
        if not self.shape or (self.strides[-1] == 1 or self.shape[-1] == 1) and min(self.strides) >= 0:
            return self
        return self.dense()

    def dense(self):
        """A view of the same numbers in row-major order, of a copy where they lie otherwise."""
        source = self.source
        return _View(source.contiguous() if self.is_torch else np.asarray(self._readable(), order="C"))

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
