"""Memory of objects without a usable buffer, and new arrays for results."""

from __future__ import annotations

import sys
from typing import Any

from . import _nexar
from ._errors import InvalidError, InvalidTypeError

Described = tuple[int, int, int, int, int, int, object]
_F16, _BF16 = 2, 3
# nexar_dtype by the kind and the size of NumPy's typestr
_CODES = {"f4": 0, "f8": 1, "f2": _F16, "i1": 4, "i4": 5, "i8": 6, "u1": 7, "u4": 8, "u8": 9,
          "i2": 10, "u2": 11, "b1": 7}  # fmt: skip
_CPU_DEVICES = (1, 3)  # kDLCPU, kDLCUDAHost


def describe(call: str, name: str, obj: Any) -> Described:
    """(address, bytes, bytes of an element, nexar_dtype or -1, read-only, bool, what keeps it)."""
    if hasattr(obj, "__array_interface__"):
        return _of_interface(call, name, obj)
    if hasattr(obj, "__dlpack__"):
        return _of_dlpack(call, name, obj)
    if hasattr(obj, "__cuda_array_interface__"):
        return _of_cuda(call, name, obj)
    raise InvalidTypeError(
        f"{call}: {name} is {type(obj).__name__}; an object with the buffer protocol, __dlpack__ "
        "(CPU) or __array_interface__ is accepted"
    )


def _of_cuda(call: str, name: str, obj: Any) -> Described:
    """Managed and pinned memory; what only a device can read is refused."""
    about = obj.__cuda_array_interface__
    view = _of_interface(call, name, obj, about)
    if not _nexar.readable(view[0], view[1]):
        raise InvalidError(f"{call}: {name} is memory of a device; memory that the CPU can read is accepted")
    return view


def _of_interface(call: str, name: str, obj: Any, about: Any = None) -> Described:
    about = obj.__array_interface__ if about is None else about
    kind = about["typestr"]
    itemsize = int(kind[2:])
    if kind[0] == ">" and itemsize > 1:
        raise InvalidError(f"{call}: {name} is big-endian; the byte order of the machine is accepted")
    if about.get("data") is None or (kind[1] == "O"):
        raise InvalidTypeError(f"{call}: {name} has no plain memory; use the _obj form for objects")
    count = 1
    for n in about["shape"]:
        if n < 0:
            raise InvalidError(f"{call}: {name} has the shape {tuple(about['shape'])}; lengths >= 0 are accepted")
        count *= n
    if not _contiguous(about.get("strides"), about["shape"], itemsize):
        raise InvalidError(
            f"{call}: {name} is not contiguous; give a C-contiguous array "
            "(numpy.ascontiguousarray makes a copy)"
        )
    address, readonly = about["data"]
    code = _CODES.get(kind[1:], -1)
    if getattr(getattr(obj, "dtype", None), "name", "") == "bfloat16":
        code = _BF16
    return address, count * itemsize, itemsize, code, bool(readonly), kind[1] == "b", obj


def _contiguous(strides: Any, shape: Any, itemsize: int) -> bool:
    if strides is None or 0 in shape:
        return True
    step = itemsize
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def _of_dlpack(call: str, name: str, obj: Any) -> Described:
    try:
        device = obj.__dlpack_device__()
    except Exception as err:
        raise InvalidTypeError(f"{call}: {name} gives no DLPack device: {err}") from err
    if int(device[0]) not in _CPU_DEVICES:
        raise InvalidError(f"{call}: {name} is on device {tuple(device)}; memory of the CPU is accepted")
    try:
        capsule = obj.__dlpack__()
    except Exception as err:  # a tensor that needs gradients, for one
        raise InvalidError(f"{call}: {name} gives no memory: {err}") from err
    try:
        view = _nexar.dlpack_view(capsule)
    except InvalidError as err:
        raise InvalidError(f"{call}: {name}: {err}") from None
    if view is None:
        raise InvalidError(f"{call}: {name} is not contiguous; give a contiguous tensor")
    return view


def new_array(like: Any, how: str, items: int, size: int) -> Any:
    """An array for |items| elements like those of |like|.  "same": its shape; "stack": one more
    dimension in front, one row for each rank; "block": a part of its first dimension;
    "flat": one dimension."""
    shape = _shape(tuple(getattr(like, "shape", ())), how, items, size)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.empty(shape, dtype=like.dtype)
    if isinstance(like, (bytes, bytearray)):
        return bytearray(items)
    typecode = getattr(like, "typecode", None)
    if typecode is not None:  # array.array
        return type(like)(typecode, bytes(items * like.itemsize))
    if isinstance(like, memoryview) and "numpy" not in sys.modules:
        return memoryview(bytearray(items * like.itemsize)).cast(like.format)  # type: ignore[call-overload]
    import numpy

    return numpy.empty(shape, getattr(like, "dtype", None) or numpy.asarray(like).dtype)


def _shape(shape: tuple[int, ...], how: str, items: int, size: int) -> tuple[int, ...]:
    if how == "same":
        return shape if shape else ((items,) if items != 1 else shape)
    if how == "stack":
        return (size, *shape) if shape or items == size else (items,)
    if how == "block" and len(shape) > 1 and shape[0] == size:
        return shape[1:]
    if how == "block" and len(shape) > 1 and shape[0] % size == 0:
        return (shape[0] // size, *shape[1:])
    return (items,)


def spec_of(call: str, buf: Any) -> tuple[str, Any, tuple[int, ...]]:
    """What another rank needs to make an array like |buf|: a kind, its element type, its shape."""
    _nexar.view(call, "buf", buf, False)  # refuses what is no buffer
    if isinstance(buf, (bytes, bytearray)):
        return "bytes", None, (len(buf),)
    if getattr(buf, "typecode", None) is not None:
        return "array", buf.typecode, (len(buf),)
    if isinstance(buf, memoryview):
        return "view", buf.format, tuple(buf.shape or ())
    return "numpy", buf.dtype, tuple(buf.shape)


def like_spec(spec: tuple[str, Any, tuple[int, ...]], how: str, items: int, size: int) -> Any:
    kind, dtype, shape = spec
    if kind == "bytes":
        return bytearray(items)
    if kind == "array":
        import array

        itemsize = array.array(dtype).itemsize
        return array.array(dtype, bytes(items * itemsize))
    if kind == "view":
        import struct

        return memoryview(bytearray(items * struct.calcsize(dtype))).cast(dtype)
    new = _shape(shape, how, items, size)
    if type(dtype).__module__.startswith("torch"):
        import torch  # type: ignore[import-not-found, unused-ignore]

        return torch.empty(new, dtype=dtype)
    import numpy

    return numpy.empty(new, dtype)


def flat(buf: Any) -> Any:
    """|buf| with one dimension, the same memory."""
    if hasattr(buf, "reshape"):
        return buf.reshape(-1)
    view = memoryview(buf)
    return view if view.ndim == 1 else view.cast("B").cast(view.format)  # type: ignore[call-overload]
