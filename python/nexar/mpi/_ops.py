"""MPI.Op: how two elements, or two objects, become one."""

from __future__ import annotations

import operator
from typing import Any, Callable

from .. import _nexar
from ._buffers import Buffer
from ._datatypes import NO_KIND, Datatype
from ._errors import fail
from ._handle import Handle, Thing


def _loc(better: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    """Of (value, index) pairs; of equal values the lower index."""

    def pick(a: Any, b: Any) -> Any:
        (x, i), (y, j) = a, b
        if x == y:
            return (y, j) if j < i else (x, i)
        return (x, i) if better(x, y) else (y, j)

    return pick


# The first twelve in the order of kernels.c.
_OBJECTS: dict[str, Callable[[Any, Any], Any]] = {
    "SUM": operator.add,
    "PROD": operator.mul,
    "MIN": lambda a, b: b if b < a else a,
    "MAX": lambda a, b: b if b > a else a,
    "LAND": lambda a, b: bool(a) and bool(b),
    "LOR": lambda a, b: bool(a) or bool(b),
    "LXOR": lambda a, b: bool(a) != bool(b),
    "BAND": operator.and_,
    "BOR": operator.or_,
    "BXOR": operator.xor,
    "MINLOC": _loc(operator.lt),
    "MAXLOC": _loc(operator.gt),
    "REPLACE": lambda a, b: b,
    "NO_OP": lambda a, b: a,
}
_KERNELS = 12


class _Operation(Thing):
    __slots__ = ("name", "index", "fn", "commutes", "of_objects", "native")

    def __init__(self, name: str, index: int, fn: Any, commutes: bool, of_objects: Any) -> None:
        self.name, self.index, self.fn = name, index, fn
        self.commutes, self.of_objects = commutes, of_objects
        self.native: dict[int, tuple[int, int] | None] = {}  # (nexar_op, nexar_dtype) of a kind


class Op(Handle):
    """An operation of a reduction.  One of the program is ``fn(inbuf, inoutbuf, datatype)``."""

    __slots__ = ()
    _h: _Operation | None

    @classmethod
    def Create(cls, function: Callable[[Any, Any, Any], Any], commute: bool = False) -> Op:
        if not callable(function):
            raise TypeError(f"Op.Create: {function!r} is not callable")
        return cls._of(_Operation("", -1, function, bool(commute), lambda a, b: function(a, b, None)))

    def Free(self) -> None:
        if self._operation().index >= 0:
            raise fail("ERR_OP", "a predefined operation cannot be freed")
        self._h = None

    def _operation(self) -> _Operation:
        if self._h is None:
            raise fail("ERR_OP", "the operation is OP_NULL")
        return self._h

    def _native(self, kind: int) -> tuple[int, int] | None:
        """The reduction of nexar for elements of |kind|."""
        o = self._operation()
        if kind not in o.native:
            known = 0 <= o.index < _KERNELS and kind != NO_KIND
            o.native[kind] = _nexar.op_of(o.index, kind) if known else None
        return o.native[kind]

    def _fold(self, in_: memoryview, inout: memoryview, datatype: Datatype) -> None:
        """inout = in op inout, in place."""
        o, lay = self._operation(), datatype._lay()
        if o.name == "NO_OP":
            return
        if o.name == "REPLACE":
            inout[:] = in_
        elif o.index < 0:
            o.fn(in_, inout, datatype)
        elif not _nexar.reduce_local(o.index, lay.kind, inout, in_):
            raise fail("ERR_OP", f"{o.name}: there is none of {lay.name}")

    def Is_commutative(self) -> bool:
        return self._operation().commutes

    def Is_predefined(self) -> bool:
        return self._h is None or self._h.index >= 0

    def Reduce_local(self, inbuf: Any, inoutbuf: Any) -> None:
        a, b = Buffer(inbuf, "inbuf", False), Buffer(inoutbuf, "inoutbuf", True)
        if a.type != b.type or a.count != b.count:
            raise ValueError("mismatch in inbuf and inoutbuf: the same count and datatype are accepted")
        inout = bytearray(b.pack())
        self._fold(memoryview(a.pack()), memoryview(inout), b.type)
        b.unpack(inout)

    def __call__(self, x: Any, y: Any) -> Any:
        if self._h is None:
            raise ValueError("cannot call OP_NULL")
        return self._operation().of_objects(x, y)

    @property
    def is_commutative(self) -> bool:
        return self.Is_commutative()

    @property
    def is_predefined(self) -> bool:
        return self.Is_predefined()

    def __reduce__(self) -> Any:
        if self._h is None or self._h.index >= 0:
            return super().__reduce__()
        return _made_op, (self._h.fn, self._h.commutes)


def _made_op(fn: Any, commutes: bool) -> Op:
    return Op.Create(fn, commutes)


OP_NULL = Op()
BY_NAME = {
    name: Op._of(_Operation(name, i, None, name not in ("REPLACE", "NO_OP"), fn))
    for i, (name, fn) in enumerate(_OBJECTS.items())
}
