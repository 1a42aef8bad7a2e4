"""What a message is made of: ``[data, count, datatype]`` and its shorter forms.

Memory is a memoryview of bytes.  A datatype without gaps is sent from where it is; of others the
blocks are gathered into bytes first, or scattered from bytes that were received.
"""

from __future__ import annotations

from typing import Any, Iterator

from .. import _nexar
from . import _constants as const
from ._datatypes import BYTE, Datatype, type_of

_KINDS = {0: "f4", 1: "f8", 4: "i1", 5: "i4", 6: "i8", 7: "u1", 8: "u4", 9: "u8", 10: "i2", 11: "u2"}
_NOTHING = memoryview(bytearray())


def view_of(obj: Any, name: str, writable: bool) -> memoryview:
    """The memory of |obj| as bytes."""
    return memoryview(_nexar.view("message", name, obj, writable, True))


def _format_of(obj: Any) -> Datatype:
    """The type of the elements of |obj|, which has a buffer of some kind."""
    code = getattr(getattr(obj, "dtype", None), "char", None) or getattr(obj, "typecode", None)
    if isinstance(code, str) and code:
        return type_of(code)
    if isinstance(obj, (bytes, bytearray)):
        return BYTE
    about = getattr(obj, "__cuda_array_interface__", None) or getattr(obj, "__array_interface__", None)
    if about is not None:
        return type_of(about["typestr"])
    try:
        return type_of(memoryview(obj).format or "B")
    except TypeError:
        v = _nexar.view("message", "buf", obj, False)
        if v.dtype in _KINDS:
            return type_of(_KINDS[v.dtype])
        return type_of({8: "F", 16: "D", 32: "G"}[v.itemsize])


def as_type(what: Any) -> Datatype:
    if isinstance(what, Datatype):
        return what
    if isinstance(what, str):
        return type_of(what)
    raise TypeError(f"message: {what!r} is no datatype")


def _is_buffer(obj: Any) -> bool:
    if hasattr(obj, "__dlpack__") or hasattr(obj, "__cuda_array_interface__"):
        return True
    try:
        memoryview(obj)
    except TypeError:
        return hasattr(obj, "__array_interface__")
    return True


def _is_type(what: Any) -> bool:
    return isinstance(what, (Datatype, str))


def _parts(spec: Any, vector: bool) -> tuple[Any, Any, Any, Any]:
    """(data, count or counts, displacement or displacements, datatype) of |spec|."""
    if not isinstance(spec, (list, tuple)):
        return spec, None, None, None
    parts = list(spec)
    if not 1 <= len(parts) <= 4:
        raise ValueError("message: expecting 1 to 4 items")
    data = parts.pop(0)
    datatype = parts.pop() if parts and (_is_type(parts[-1]) or len(parts) > 1) else None
    counts = parts[0] if parts else None
    displs = parts[1] if len(parts) > 1 else None
    if len(parts) == 1 and isinstance(counts, tuple) and len(counts) == 2:
        counts, displs = counts
    elif len(parts) == 1 and isinstance(counts, tuple) and not vector:
        counts, displs = (*counts, None)[:2]
    return data, counts, displs, datatype


def _is_number(obj: Any) -> bool:
    return hasattr(obj, "__index__") and not hasattr(obj, "__len__")


def _memory(data: Any, datatype: Any, name: str, writable: bool) -> tuple[memoryview, Datatype]:
    if datatype is not None:
        datatype = as_type(datatype)
    if data is None or isinstance(data, const.BottomType):
        return _NOTHING, BYTE if datatype is None else datatype
    if not _is_buffer(data):
        raise TypeError(f"message: {name} is {type(data).__name__}; expecting a buffer or a list or tuple")
    return view_of(data, name, writable), _format_of(data) if datatype is None else datatype


class Buffer:
    """|count| elements of |type| in |mem|, which begins with the first.  |blocks|: as many of those
    there are, one for each rank."""

    __slots__ = ("mem", "count", "type", "blocks", "empty")

    def __init__(self, spec: Any, name: str, writable: bool, blocks: int = 1) -> None:
        data, count, displ, datatype = _parts(spec, False)
        mem, self.type = _memory(data, datatype, name, writable)
        lay = self.type._lay()
        start = int(displ or 0) * lay.extent
        if start < 0:
            raise ValueError(f"message: negative displacement {displ}")
        if start > len(mem):
            raise ValueError(f"message: displacement {displ} out of bounds, the buffer has {len(mem)} bytes")
        if count is None:
            count = self._infer(len(mem) - start, blocks)
        else:
            count = int(count)
            if count < 0:
                raise ValueError(f"message: negative count {count}")
            high = start + self._room(count * blocks)
            if data is None and count != 0:
                raise ValueError(f"message: buffer is None but count is {count}")
            if high > len(mem):
                raise ValueError(f"message: buffer has {len(mem)} bytes, but the message needs {high}")
        self.count, self.blocks, self.mem = count, blocks, mem[start:]

    def _infer(self, n: int, blocks: int) -> int:
        extent = self.type._lay().extent
        if n == 0 or extent <= 0:
            return 0
        if n % extent:
            raise ValueError(f"message: cannot infer count, {n} bytes are no multiple of the "
                             f"datatype's extent {extent}")  # fmt: skip
        if n // extent % blocks:
            raise ValueError(f"message: cannot infer count, {n // extent} elements are no multiple "
                             f"of {blocks} blocks")  # fmt: skip
        return n // extent // blocks

    def _room(self, count: int) -> int:
        """The bytes from the first element to the end of the last."""
        lay = self.type._lay()
        if count == 0 or not lay.blocks:
            return 0
        return (count - 1) * lay.extent + max(at + n for at, n in lay.blocks)

    @property
    def bytes(self) -> int:
        """Of one block of |count| elements."""
        return self.count * self.type._lay().size

    @property
    def plain(self) -> bool:
        return self.type._lay().plain

    def raw(self) -> memoryview:
        """All blocks, of a type without gaps."""
        return self.mem[: self.bytes * self.blocks]

    def pieces(self) -> list[memoryview]:
        """The memory of the elements, without the gaps."""
        if self.plain:
            return [self.raw()]
        return list(_pieces(self.mem, self.type, 0, self.count * self.blocks))

    def pack(self) -> Any:
        return self.raw() if self.plain else b"".join(self.pieces())

    def unpack(self, data: Any) -> None:
        """|data| into the elements, from the first one on."""
        data = memoryview(data).cast("B")
        if self.plain:
            self.mem[: len(data)] = data
            return
        at = 0
        for piece in self.pieces():
            n = min(len(piece), len(data) - at)
            piece[:n] = data[at : at + n]
            at += n


def _pieces(mem: memoryview, datatype: Datatype, first: int, count: int) -> Iterator[memoryview]:
    lay = datatype._lay()
    for i in range(first, first + count):
        base = i * lay.extent
        for at, n in lay.blocks:
            if base + at < 0:
                raise ValueError("message: a datatype with bytes before its buffer; nexar has none")
            yield mem[base + at : base + at + n]


class Vector:
    """A part of |mem| for each of |n| ranks: counts[i] elements from displs[i] on."""

    __slots__ = ("mem", "counts", "displs", "type")

    def __init__(self, spec: Any, name: str, writable: bool, n: int) -> None:
        data, counts, displs, datatype = _parts(spec, True)
        self.mem, self.type = _memory(data, datatype, name, writable)
        lay = self.type._lay()
        if counts is None:
            counts = self._infer(lay.extent, n)
        self.counts = _numbers("counts", counts, n)
        if displs is None:
            displs, at = [], 0
            for c in self.counts:
                displs.append(at)
                at += c
        elif _is_number(displs):  # from one part to the next
            displs = [int(displs) * i for i in range(n)]
        self.displs = _numbers("displacements", displs, n)
        if min(self.counts + self.displs) < 0:
            raise ValueError("message: counts and displacements are not negative")
        high = max((d + c for d, c in zip(self.displs, self.counts) if c), default=0)
        tail = lay.extent - max((at + m for at, m in lay.blocks), default=0)
        if high * lay.extent - (tail if high else 0) > len(self.mem):
            raise ValueError(f"message: buffer has {len(self.mem)} bytes, but the message needs "
                             f"{high * lay.extent}")  # fmt: skip

    def _infer(self, extent: int, n: int) -> list[int]:
        if len(self.mem) == 0 or extent <= 0:
            return [0] * n
        if len(self.mem) % extent:
            raise ValueError("message: cannot infer counts, the buffer is no multiple of the extent")
        each, more = divmod(len(self.mem) // extent, n)
        return [each + (i < more) for i in range(n)]

    @property
    def plain(self) -> bool:
        return self.type._lay().plain

    def layout(self) -> tuple[list[int], list[int]]:
        """Counts and displacements in bytes: in place, or as packed."""
        lay = self.type._lay()
        counts = [c * lay.size for c in self.counts]
        if self.plain:
            return counts, [d * lay.extent for d in self.displs]
        displs, at = [], 0
        for c in counts:
            displs.append(at)
            at += c
        return counts, displs

    def part(self, i: int) -> list[memoryview]:
        return list(_pieces(self.mem, self.type, self.displs[i], self.counts[i]))

    def pack(self) -> Any:
        if self.plain:
            return self.mem
        return b"".join(p for i in range(len(self.counts)) for p in self.part(i))

    def unpack(self, data: Any) -> None:
        data, at = memoryview(data).cast("B"), 0
        for i in range(len(self.counts)):
            for piece in self.part(i):
                piece[:] = data[at : at + len(piece)]
                at += len(piece)


def _numbers(name: str, given: Any, n: int) -> list[int]:
    if _is_number(given):
        return [int(given)] * n
    out = [int(v) for v in given]
    if len(out) != n:
        raise ValueError(f"message: expecting {n} items in {name}, got {len(out)}")
    return out
