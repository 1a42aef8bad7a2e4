"""Op: a reduction of the program, as native code."""

from __future__ import annotations

from typing import Any

from . import _nexar
from ._errors import InvalidError, InvalidTypeError


class Op(int):
    """What ``op_create`` returned: an ``op`` of every call that reduces buffers."""

    def __repr__(self) -> str:
        return f"<nexar.Op {int(self)}>"


def op_create(id: int, fn: Any) -> Op:
    """Registers native code as the reduction ``id`` (0 to 1023) of this process, the same on all ranks.

    ``fn`` is the address of ``void fn(void *inout, const void *in, size_t count, int dtype, void
    *arg)``, an int or an object with ``.address`` (a ``numba.cfunc``).  It computes inout[i] =
    op(inout[i], in[i]), and must be associative and commutative.  Python functions are not accepted:
    it runs on threads of the runtime, which must not wait for the GIL.  ``allreduce_obj`` takes Python
    functions."""
    if isinstance(id, bool) or not isinstance(id, int):
        raise InvalidTypeError(f"op_create: id is {id!r}; an int from 0 to 1023 is accepted")
    if not 0 <= id <= 1023:
        raise InvalidError(f"op_create: id is {id}; 0 to 1023 is accepted")
    address = getattr(fn, "address", fn)
    if isinstance(address, bool) or not isinstance(address, int):
        raise InvalidTypeError(
            f"op_create: fn is {fn!r}; the address of a native function is accepted, as an int or an "
            "object with .address; allreduce_obj takes Python functions"
        )
    if not 0 < address < 2**64:
        raise InvalidError(f"op_create: fn is {fn!r}; the address of a native function is accepted")
    return Op(_nexar.op_create(id, address))
