"""MPI.Datatype: the bytes that an element has, and where they are."""

from __future__ import annotations

import ctypes
from typing import Any, Iterable, Sequence

from . import _constants as const
from ._errors import fail
from ._handle import Handle, Thing

# Kinds of elements, in the order of kernels.c.
(K_I8, K_I16, K_I32, K_I64, K_U8, K_U16, K_U32, K_U64, K_F32, K_F64, K_F80, K_BOOL, K_C32, K_C64, K_C80, K_F32_INT, K_F64_INT,
 K_LONG_INT, K_INT_INT, K_SHORT_INT, K_F80_INT, K_F16) = range(22)  # fmt: skip
NO_KIND = -1
_F80 = ctypes.sizeof(ctypes.c_longdouble)

Block = tuple[int, int]  # (offset, bytes)


class _Layout(Thing):
    """|blocks|: the bytes of one element, in the order in which they are sent."""

    __slots__ = ("name", "size", "lb", "extent", "blocks", "kind", "unit", "named", "code",
                 "contents", "plain")  # fmt: skip

    def __init__(self, name: str, blocks: list[tuple[int, int]], lb: int, extent: int, kind: int,
                 unit: int, contents: Any, named: bool = False, code: str = "") -> None:  # fmt: skip
        self.name, self.blocks, self.lb, self.extent = name, blocks, lb, extent
        self.size = sum(n for _, n in blocks)
        self.kind, self.unit = kind, unit  # of the numbers in it; NO_KIND: of several kinds
        self.named, self.code, self.contents = named, code, contents
        self.plain = lb == 0 and extent == self.size and len(blocks) <= 1 and (
            not blocks or blocks[0][0] == 0)  # fmt: skip


def _merge(blocks: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for at, n in blocks:
        if n == 0:
            continue
        if out and out[-1][0] + out[-1][1] == at:
            out[-1] = (out[-1][0], out[-1][1] + n)
        else:
            out.append((at, n))
    return out


class Datatype(Handle):
    """The type of the elements of a message."""

    __slots__ = ()
    _h: _Layout | None

    # ---- making ---------------------------------------------------------------------------

    def _lay(self) -> _Layout:
        if self._h is None:
            raise fail("ERR_TYPE", "the datatype is DATATYPE_NULL")
        return self._h

    def _derive(self, places: Iterable[tuple[int, Datatype]], contents: Any,
                lb: int | None = None, extent: int | None = None) -> Datatype:  # fmt: skip
        """Elements of types at offsets in bytes."""
        parts = [(at, t._lay()) for at, t in places]
        blocks = _merge((at + b, n) for at, t in parts for b, n in t.blocks)
        kinds = {(t.kind, t.unit) for _, t in parts}
        kind, unit = kinds.pop() if len(kinds) == 1 else (NO_KIND, 1)
        low = min((at + t.lb for at, t in parts), default=0)
        high = max((at + t.lb + t.extent for at, t in parts), default=0)
        lb = low if lb is None else lb
        extent = high - low if extent is None else extent
        return Datatype._of(_Layout("", blocks, lb, extent, kind, unit, contents))

    def Dup(self) -> Datatype:
        t = self._lay()
        return Datatype._of(_Layout(t.name, t.blocks, t.lb, t.extent, t.kind, t.unit,
                                    ("DUP", [], [], [self]), code=t.code))  # fmt: skip

    dup = Dup

    def Create_contiguous(self, count: int) -> Datatype:
        step = self._lay().extent
        return self._derive([(i * step, self) for i in range(count)],
                            ("CONTIGUOUS", [count], [], [self]))  # fmt: skip

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Datatype:
        step = self._lay().extent
        return self._strided(count, blocklength, stride * step,
                             ("VECTOR", [count, blocklength, stride], [], [self]))  # fmt: skip

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Datatype:
        return self._strided(count, blocklength, stride,
                             ("HVECTOR", [count, blocklength], [stride], [self]))  # fmt: skip

    def _strided(self, count: int, length: int, stride: int, contents: Any) -> Datatype:
        step = self._lay().extent
        return self._derive([(i * stride + j * step, self) for i in range(count)
                             for j in range(length)], contents)  # fmt: skip

    def Create_indexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Datatype:
        step = self._lay().extent
        lengths, displs = list(blocklengths), list(displacements)
        return self._indexed(lengths, [d * step for d in displs],
                             ("INDEXED", [len(lengths), *lengths, *displs], [], [self]))  # fmt: skip

    def Create_hindexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Datatype:
        lengths, displs = list(blocklengths), list(displacements)
        return self._indexed(lengths, displs,
                             ("HINDEXED", [len(lengths), *lengths], displs, [self]))  # fmt: skip

    def Create_indexed_block(self, blocklength: int, displacements: Sequence[int]) -> Datatype:
        step = self._lay().extent
        displs = list(displacements)
        return self._indexed([blocklength] * len(displs), [d * step for d in displs],
                             ("INDEXED_BLOCK", [len(displs), blocklength, *displs], [], [self]))  # fmt: skip

    def Create_hindexed_block(self, blocklength: int, displacements: Sequence[int]) -> Datatype:
        displs = list(displacements)
        return self._indexed([blocklength] * len(displs), displs,
                             ("HINDEXED_BLOCK", [len(displs), blocklength], displs, [self]))  # fmt: skip

    def _indexed(self, lengths: list[int], displs: list[int], contents: Any) -> Datatype:
        if len(lengths) != len(displs):
            raise ValueError("mismatch in blocklengths and displacements count")
        step = self._lay().extent
        return self._derive([(d + j * step, self) for n, d in zip(lengths, displs)
                             for j in range(n)], contents)  # fmt: skip

    @classmethod
    def Create_struct(cls, blocklengths: Sequence[int], displacements: Sequence[int],
                      datatypes: Sequence[Datatype]) -> Datatype:  # fmt: skip
        lengths, displs, types = list(blocklengths), list(displacements), list(datatypes)
        if not len(lengths) == len(displs) == len(types):
            raise ValueError("mismatch in blocklengths, displacements and datatypes count")
        places = [(d + j * t._lay().extent, t) for n, d, t in zip(lengths, displs, types)
                  for j in range(n)]  # fmt: skip
        return BYTE._derive(places, ("STRUCT", [len(lengths), *lengths], displs, types))

    def Create_subarray(self, sizes: Sequence[int], subsizes: Sequence[int],
                        starts: Sequence[int], order: int = const.ORDER_C) -> Datatype:  # fmt: skip
        whole, part, first = list(sizes), list(subsizes), list(starts)
        if not len(whole) == len(part) == len(first):
            raise ValueError("mismatch in sizes, subsizes and starts count")
        contents: Any = ("SUBARRAY", [len(whole), *whole, *part, *first, order], [], [self])
        if order == const.ORDER_FORTRAN:
            whole, part, first = whole[::-1], part[::-1], first[::-1]
        step = self._lay().extent
        places = [0]
        for n, m, s in zip(whole, part, first):
            places = [p * n + s + i for p in places for i in range(m)]
        total = step
        for n in whole:
            total *= n
        return self._derive([(p * step, self) for p in places], contents, 0, total)

    def Create_resized(self, lb: int, extent: int) -> Datatype:
        return self._derive([(0, self)], ("RESIZED", [], [lb, extent], [self]), lb, extent)

    def Commit(self) -> Datatype:
        self._lay()
        return self

    def Free(self) -> None:
        if self._lay().named:
            raise fail("ERR_TYPE", "a predefined datatype cannot be freed")
        self._h = None

    # ---- asking ---------------------------------------------------------------------------

    def Get_size(self) -> int:
        return self._lay().size

    def Get_extent(self) -> tuple[int, int]:
        return self._lay().lb, self._lay().extent

    def Get_true_extent(self) -> tuple[int, int]:
        blocks = self._lay().blocks
        low = min((at for at, _ in blocks), default=0)
        return low, max((at + n for at, n in blocks), default=0) - low

    def Get_name(self) -> str:
        return self._lay().name if self._h is not None else "MPI_DATATYPE_NULL"

    def Set_name(self, name: str) -> None:
        self._lay().name = name

    def Get_envelope(self) -> tuple[int, int, int, int, int]:
        how, ints, addresses, types = self._lay().contents
        return len(ints), len(addresses), 0, len(types), getattr(const, "COMBINER_" + how)

    def Get_contents(self) -> tuple[list[int], list[int], list[int], list[Datatype]]:
        if self._lay().named:
            raise fail("ERR_TYPE", "a predefined datatype has no contents")
        _, ints, addresses, types = self._lay().contents
        return list(ints), list(addresses), [], list(types)

    def decode(self) -> Any:
        how, ints, addresses, types = self._lay().contents
        return (types[0] if types else self), how, {"integers": ints, "addresses": addresses}

    def tocode(self) -> str:
        code = self._lay().code
        if not code:
            raise ValueError("cannot map to a type code")
        return code

    typechar = property(tocode)

    @property
    def typestr(self) -> str:
        return _typestr(self._lay())

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        return type_of(code)

    @property
    def size(self) -> int:
        return self._lay().size

    @property
    def extent(self) -> int:
        return self._lay().extent

    @property
    def lb(self) -> int:
        return self._lay().lb

    @property
    def ub(self) -> int:
        return self._lay().lb + self._lay().extent

    @property
    def true_extent(self) -> int:
        return self.Get_true_extent()[1]

    @property
    def true_lb(self) -> int:
        return self.Get_true_extent()[0]

    @property
    def true_ub(self) -> int:
        return sum(self.Get_true_extent())

    @property
    def is_named(self) -> bool:
        return self._lay().named

    @property
    def is_predefined(self) -> bool:
        return self._h is None or self._h.named

    @property
    def combiner(self) -> int:
        return self.Get_envelope()[-1]

    @property
    def envelope(self) -> tuple[int, int, int, int, int]:
        return self.Get_envelope()

    @property
    def contents(self) -> Any:
        return self.Get_contents()

    @property
    def name(self) -> str:
        return self.Get_name()

    @name.setter
    def name(self, value: str) -> None:
        self.Set_name(value)

    def __getnewargs__(self) -> tuple[()]:
        return ()

    def __reduce__(self) -> Any:
        if self._h is None or self._h.named:
            return super().__reduce__()
        how, ints, addresses, types = self._h.contents
        raise ValueError(f"a datatype that {how} made cannot be pickled")


DATATYPE_NULL = Datatype()
BY_NAME: dict[str, Datatype] = {}
BY_CODE: dict[str, Datatype] = {}


def _typestr(t: _Layout) -> str:
    letter = {K_BOOL: "b", K_F32: "f", K_F64: "f", K_F80: "f", K_C32: "c", K_C64: "c", K_C80: "c"}
    if t.kind == K_F16 and t.size == t.unit:
        return "f2"
    if t.kind == NO_KIND or t.size != t.unit or t.kind > K_C80:
        return f"V{t.size}"
    return letter.get(t.kind, "i" if t.kind <= K_I64 else "u") + str(t.unit)


def _define(names: str, kind: int, size: int, code: str = "", extent: int | None = None) -> None:
    """Each of |names| is a type of its own."""
    for name in names.split():
        layout = _Layout("MPI_" + name, [(0, size)] if size else [], 0,
                         size if extent is None else extent, kind, size,
                         ("NAMED", [], [], []), named=True, code=code)  # fmt: skip
        BY_NAME["MPI_" + name] = globals()[name] = Datatype._of(layout)
    if code:
        BY_CODE.setdefault(code, BY_NAME["MPI_" + names.split()[0]])


def _pair(name: str, kind: int, value: Any) -> None:
    pair = type(name, (ctypes.Structure,), {"_fields_": [("v", value), ("k", ctypes.c_int)]})
    n = ctypes.sizeof(pair)
    layout = _Layout("MPI_" + name, [(0, n)], 0, n, kind, n, ("NAMED", [], [], []), named=True)
    BY_NAME["MPI_" + name] = globals()[name] = Datatype._of(layout)


_define("SIGNED_CHAR INT8_T INTEGER1", K_I8, 1, "b")
_define("SHORT INT16_T INTEGER2", K_I16, 2, "h")
_define("INT INT32_T INTEGER INTEGER4 LOGICAL LOGICAL4", K_I32, 4, "i")
_define("LONG LONG_LONG INT64_T INTEGER8 LOGICAL8 AINT OFFSET COUNT", K_I64, 8, "l")
_define("UNSIGNED_CHAR UINT8_T BYTE PACKED", K_U8, 1, "B")
_define("UNSIGNED_SHORT UINT16_T", K_U16, 2, "H")
_define("UNSIGNED UINT32_T WCHAR", K_U32, 4, "I")
_define("UNSIGNED_LONG UNSIGNED_LONG_LONG UINT64_T", K_U64, 8, "L")
_define("CHAR CHARACTER", K_I8, 1, "c")
_define("FLOAT REAL REAL4 FLOAT32_T", K_F32, 4, "f")
_define("FLOAT16_T REAL2", K_F16, 2, "e")
_define("DOUBLE DOUBLE_PRECISION REAL8 FLOAT64_T", K_F64, 8, "d")
_define("LONG_DOUBLE REAL16", K_F80, _F80, "g")
_define("C_BOOL CXX_BOOL LOGICAL1", K_BOOL, 1, "?")
_define("LOGICAL2", K_I16, 2)
_define("C_FLOAT_COMPLEX C_COMPLEX CXX_FLOAT_COMPLEX COMPLEX COMPLEX8", K_C32, 8, "F")
_define("C_DOUBLE_COMPLEX CXX_DOUBLE_COMPLEX DOUBLE_COMPLEX COMPLEX16", K_C64, 16, "D")
_define("C_LONG_DOUBLE_COMPLEX CXX_LONG_DOUBLE_COMPLEX COMPLEX32", K_C80, 2 * _F80, "G")
_define("BFLOAT16_T COMPLEX4 LOGICAL16 INTEGER16", NO_KIND, 0)
_pair("FLOAT_INT", K_F32_INT, ctypes.c_float)
_pair("DOUBLE_INT", K_F64_INT, ctypes.c_double)
_pair("LONG_INT", K_LONG_INT, ctypes.c_long)
_pair("TWOINT", K_INT_INT, ctypes.c_int)
_pair("SHORT_INT", K_SHORT_INT, ctypes.c_short)
_pair("LONG_DOUBLE_INT", K_F80_INT, ctypes.c_longdouble)

for _alias, _name in {
    "INT_INT": "TWOINT", "UNSIGNED_INT": "UNSIGNED", "BOOL": "C_BOOL",
    "FLOAT_COMPLEX": "C_FLOAT_COMPLEX", "DOUBLE_COMPLEX_C": "C_DOUBLE_COMPLEX",
    "LONG_DOUBLE_COMPLEX": "C_LONG_DOUBLE_COMPLEX", "SINT8_T": "INT8_T", "SINT16_T": "INT16_T",
    "SINT32_T": "INT32_T", "SINT64_T": "INT64_T", "F_BOOL": "LOGICAL", "F_INT": "INTEGER",
    "F_FLOAT": "REAL", "F_DOUBLE": "DOUBLE_PRECISION", "F_COMPLEX": "COMPLEX",
    "F_FLOAT_COMPLEX": "COMPLEX", "F_DOUBLE_COMPLEX": "DOUBLE_COMPLEX",
}.items():  # fmt: skip
    BY_NAME["MPI_" + _alias] = globals()[_alias] = BY_NAME["MPI_" + _name]
BYTE = BY_NAME["MPI_BYTE"]
BY_CODE.update(q=BY_NAME["MPI_LONG_LONG"], Q=BY_NAME["MPI_UNSIGNED_LONG_LONG"],
               p=BY_NAME["MPI_AINT"], n=BY_NAME["MPI_LONG"], N=BY_NAME["MPI_UNSIGNED_LONG"])  # fmt: skip
BY_CODE.update(Zf=BY_CODE["F"], Zd=BY_CODE["D"], Zg=BY_CODE["G"], S=BY_CODE["c"])
for _t in list(BY_CODE.values()):
    BY_CODE.setdefault(_typestr(_t._lay()), _t)
    BY_CODE.setdefault("<" + _typestr(_t._lay()), _t)
for _code in ("b1", "i1", "u1"):
    BY_CODE.setdefault("|" + _code, BY_CODE[_code])


def type_of(code: str) -> Datatype:
    """KeyError: there is none for |code|, a letter of module struct or NumPy's typestr."""
    found = BY_CODE.get(code) or BY_CODE.get(code.lstrip("@=<|")) or BY_NAME.get(code)
    if found is None:
        raise KeyError(code)
    return found
