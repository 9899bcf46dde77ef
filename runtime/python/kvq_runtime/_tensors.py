# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of any framework, seen through DLPack (https://dmlc.github.io/dlpack): address, shape, strides, device.

Nothing is copied and no framework is imported. A view holds the tensor, not its memory's contents.
"""

import ctypes
import math
import sys

from ._abi import Element, Target


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    """DLTensor, the first member of DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_HOST, _CUDA, _PINNED, _MANAGED = 1, 2, 3, 13
#: Names of element types, and the integers that may hold their bits where a framework has no bfloat16.
ELEMENTS = {
    Element.F16: ("float16", "int16", "uint16"),
    Element.BF16: ("bfloat16", "int16", "uint16"),
    Element.F32: ("float32",),
}
BYTES = ("uint8", "int8")
INT32, INT64, FLOAT32 = ("int32",), ("int64",), ("float32",)


class View:
    """What a call needs to know of a tensor. `strides` are in bytes."""

    __slots__ = ("tensor", "name", "data", "shape", "strides", "dtype", "item", "device")

    def __init__(self, name, tensor):
        self.tensor, self.name = tensor, name
        capsule = _capsule(name, tensor)
        raw = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
        self.item = raw.dtype.bits // 8 * raw.dtype.lanes
        kind = _KINDS.get(raw.dtype.code, "type ")
        self.dtype = kind + ("" if kind == "bool" else str(raw.dtype.bits))
        self.shape = tuple(raw.shape[: raw.ndim])
        dense = _dense(self.shape)
        strides = raw.strides[: raw.ndim] if raw.strides else dense
        # A stride along an axis of one is never used, and PyTorch gives 1 there.
        self.strides = tuple(self.item * (stride if extent > 1 else step)
                             for extent, stride, step in zip(self.shape, strides, dense))
        self.device = (raw.device.type, raw.device.id)
        # An empty tensor may have no memory.
        self.data = (raw.data or 0) + raw.byte_offset

    def __str__(self):
        return f"{self.dtype} of shape {list(self.shape)}"

    def expect(self, dtypes, *shape, contiguous=False):
        """Holds the view against dtypes and a shape; None in it is any number. Returns self."""
        fits = len(shape) == len(self.shape) and all(want in (None, got) for want, got in zip(shape, self.shape))
        if not fits or self.dtype not in dtypes:
            wanted = ", ".join("any" if number is None else str(number) for number in shape)
            raise ValueError(f"{self.name}: expected {dtypes[0]} of shape [{wanted}], got {self}")
        if contiguous and self.strides != tuple(s * self.item for s in _dense(self.shape)):
            raise ValueError(f"{self.name}: expected a contiguous tensor, got strides {list(self.strides)} in bytes")
        return self

    def dense_rows(self):
        """Holds that the last axis is contiguous. Returns self."""
        if self.strides[-1] != self.item:
            raise ValueError(f"{self.name}: expected a contiguous last axis, got {self.strides[-1]} bytes from "
                             f"one number to the next")
        return self

    def count(self):
        return math.prod(self.shape)

    def nbytes(self):
        return self.count() * self.item


def _capsule(name, tensor):
    if not hasattr(tensor, "__dlpack__"):
        raise TypeError(f"{name}: expected a tensor with __dlpack__, got {type(tensor).__name__}")
    try:
        # -1: no synchronization. Calls run in a stream that the caller names, which a graph may capture.
        on_device = tensor.__dlpack_device__()[0] in (_CUDA, _MANAGED)
        return tensor.__dlpack__(stream=-1) if on_device else tensor.__dlpack__()
    except (BufferError, RuntimeError, ValueError, TypeError) as error:
        raise ValueError(f"{name}: cannot be seen through DLPack: {error}") from error


def _dense(shape):
    """Strides in elements of a contiguous tensor."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return tuple(strides)


def check_devices(target, views, host_too=()):
    """All tensors lie where the library runs, on one device; those in `host_too` may also lie in host memory."""
    allowed = {Target.CPU: (_HOST, _PINNED), Target.CUDA: (_CUDA, _MANAGED)}[target]
    ids = set()
    for view in views:
        kind = view.device[0]
        if kind not in allowed and not (view in host_too and kind in (_HOST, _PINNED)):
            where = "host" if target == Target.CPU else "CUDA"
            raise ValueError(f"{view.name}: expected {where} memory, got a tensor of DLPack device {view.device}")
        if kind in (_CUDA, _MANAGED):
            ids.add(view.device[1])
    if len(ids) > 1:
        raise ValueError(f"expected tensors of one device, got those of CUDA devices {sorted(ids)}")


def stream_address(stream, views):
    """A CUstream as a number: given as one, or as an object of a framework; by default, where a tensor is PyTorch's,
    the current stream of PyTorch on its device, else the default stream."""
    if isinstance(stream, int):
        return stream
    if stream is not None:
        if hasattr(stream, "__cuda_stream__"):
            return stream.__cuda_stream__()[1]
        if hasattr(stream, "cuda_stream"):
            return stream.cuda_stream
        raise TypeError(f"stream: expected a number or an object with __cuda_stream__ or cuda_stream, got "
                        f"{type(stream).__name__}")
    torch = sys.modules.get("torch")
    for view in views:
        if torch and view.device[0] == _CUDA and isinstance(view.tensor, torch.Tensor):
            return torch.cuda.current_stream(view.device[1]).cuda_stream
    return 0
