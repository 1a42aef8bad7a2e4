"""Collectives of buffers.

A collective that only moves elements moves bytes.  A reduction names what nexar shall do by a pair
of numbers (kernels.c); what nexar has no operation for is gathered and reduced in Python.
"""

from __future__ import annotations

from typing import Any, Callable

from . import _constants as const
from ._buffers import Buffer, Vector
from ._datatypes import Datatype
from ._errors import fail
from ._ops import BY_NAME, Op
from ._requests import EMPTY, Pending, Request

# nxp_kind of coll.h
(BARRIER, BROADCAST, ALLREDUCE, REDUCE, SCAN, EXSCAN, ALLGATHER, GATHER, SCATTER, REDUCE_SCATTER,
 ALLTOALL, ALLGATHERV, GATHERV, SCATTERV, REDUCE_SCATTERV, ALLTOALLV) = range(16)  # fmt: skip
U8 = 7  # nexar_dtype
SUM = BY_NAME["SUM"]
Finish = Callable[[], None]
IN_PLACE = True  # for _coll


def _is_in_place(spec: Any) -> bool:
    return spec is None or isinstance(spec, const.InPlaceType)


class _Call:
    """A collective: started by block() or begin(), which run |finish| when it has completed."""

    __slots__ = ("comm", "args", "finish")

    def __init__(self, comm: Any, kind: int, send: Any, recv: Any, count: int = 0, dtype: int = U8,
                 op: int = 0, root: int = 0, counts: Any = None, displs: Any = None,
                 recvcounts: Any = None, recvdispls: Any = None, finish: Finish | None = None) -> None:  # fmt: skip
        self.comm, self.finish = comm, finish
        self.args = (kind, send, recv, count, dtype, op, root, counts, displs, recvcounts, recvdispls)

    def block(self) -> None:
        kind, *rest = self.args
        self.comm._coll(kind, True, *rest)
        if self.finish is not None:
            self.finish()

    def begin(self) -> Pending:
        kind, *rest = self.args
        req = self.comm._coll(kind, False, *rest)
        finish = self.finish

        def end(got: list[Any]) -> tuple[Any, Any]:
            if finish is not None:
                finish()
            return None, EMPTY

        return Pending([req], end)


def _check_root(comm: Any, root: int) -> int:
    if not 0 <= root < comm.size:
        raise fail("ERR_ROOT", f"the root is {root}; 0 to {comm.size - 1} are accepted")
    return root


def _landing(b: Any, n: int) -> tuple[Any, Finish | None]:
    """Memory for |n| bytes that belong into |b|, and what brings them there."""
    if b.plain:
        return b.mem, None
    data = bytearray(n)
    return data, lambda: b.unpack(data)


# ---- moving -------------------------------------------------------------------------------------


def bcast(comm: Any, buf: Any, root: int) -> Any:
    _check_root(comm, root)
    b = Buffer(buf, "buf", comm.rank != root)
    if b.plain:
        return _Call(comm, BROADCAST, None, _writable(b.raw()), b.bytes, root=root)
    data = bytearray(b.pack()) if comm.rank == root else bytearray(b.bytes)
    return _Call(comm, BROADCAST, None, data, b.bytes, root=root,
                 finish=None if comm.rank == root else lambda: b.unpack(data))  # fmt: skip


def _writable(view: memoryview) -> Any:
    """A broadcast's root only reads, but has one parameter with the others."""
    return bytearray(view) if view.readonly else view


def gather(comm: Any, sendbuf: Any, recvbuf: Any, root: int) -> Any:
    _check_root(comm, root)
    if comm.rank != root:
        s = Buffer(sendbuf, "sendbuf", False)
        return _Call(comm, GATHER, s.pack(), None, s.bytes, root=root)
    return _into_all(comm, GATHER, sendbuf, recvbuf, root)


def _into_all(comm: Any, kind: int, sendbuf: Any, recvbuf: Any, root: int = 0) -> Any:
    r = Buffer(recvbuf, "recvbuf", True, comm.size)
    if _is_in_place(sendbuf):
        data, finish = _in_place(r, r.bytes * comm.size)
        return _Call(comm, kind, IN_PLACE, data, r.bytes, root=root, finish=finish)
    s = Buffer(sendbuf, "sendbuf", False)
    data, finish = _landing(r, s.bytes * comm.size)
    return _Call(comm, kind, s.pack(), data, s.bytes, root=root, finish=finish)


def _in_place(b: Any, n: int) -> tuple[Any, Finish | None]:
    if b.plain:
        return b.mem, None
    data = bytearray(b.pack())
    return data, lambda: b.unpack(data)


def scatter(comm: Any, sendbuf: Any, recvbuf: Any, root: int) -> Any:
    _check_root(comm, root)
    if comm.rank != root:
        r = Buffer(recvbuf, "recvbuf", True)
        data, finish = _landing(r, r.bytes)
        return _Call(comm, SCATTER, None, data, r.bytes, root=root, finish=finish)
    s = Buffer(sendbuf, "sendbuf", False, comm.size)
    if _is_in_place(recvbuf):
        return _Call(comm, SCATTER, s.pack(), bytearray(s.bytes), s.bytes, root=root)
    data, finish = _landing(Buffer(recvbuf, "recvbuf", True), s.bytes)
    return _Call(comm, SCATTER, s.pack(), data, s.bytes, root=root, finish=finish)


def allgather(comm: Any, sendbuf: Any, recvbuf: Any) -> Any:
    return _into_all(comm, ALLGATHER, sendbuf, recvbuf)


def alltoall(comm: Any, sendbuf: Any, recvbuf: Any) -> Any:
    r = Buffer(recvbuf, "recvbuf", True, comm.size)
    n = r.bytes * comm.size
    if _is_in_place(sendbuf):
        data, finish = _in_place(r, n)
        return _Call(comm, ALLTOALL, IN_PLACE, data, r.bytes, finish=finish)
    s = Buffer(sendbuf, "sendbuf", False, comm.size)
    data, finish = _landing(r, n)
    return _Call(comm, ALLTOALL, s.pack(), data, s.bytes, finish=finish)


def gatherv(comm: Any, sendbuf: Any, recvbuf: Any, root: int) -> Any:
    _check_root(comm, root)
    if comm.rank != root:
        s = Buffer(sendbuf, "sendbuf", False)
        return _Call(comm, GATHERV, s.pack(), None, s.bytes, root=root)
    return _into_vector(comm, GATHERV, sendbuf, recvbuf, root)


def allgatherv(comm: Any, sendbuf: Any, recvbuf: Any) -> Any:
    return _into_vector(comm, ALLGATHERV, sendbuf, recvbuf, 0)


def _into_vector(comm: Any, kind: int, sendbuf: Any, recvbuf: Any, root: int) -> Any:
    r = Vector(recvbuf, "recvbuf", True, comm.size)
    counts, displs = r.layout()
    if _is_in_place(sendbuf):
        data, finish = _in_place(r, 0)
        return _Call(comm, kind, IN_PLACE, data, counts[comm.rank], root=root, counts=counts,
                     displs=displs, finish=finish)  # fmt: skip
    s = Buffer(sendbuf, "sendbuf", False)
    data, finish = _landing(r, sum(counts))
    return _Call(comm, kind, s.pack(), data, s.bytes, root=root, counts=counts, displs=displs,
                 finish=finish)  # fmt: skip


def scatterv(comm: Any, sendbuf: Any, recvbuf: Any, root: int) -> Any:
    _check_root(comm, root)
    if comm.rank != root:
        r = Buffer(recvbuf, "recvbuf", True)
        data, finish = _landing(r, r.bytes)
        return _Call(comm, SCATTERV, None, data, r.bytes, root=root, finish=finish)
    s = Vector(sendbuf, "sendbuf", False, comm.size)
    counts, displs = s.layout()
    mine = counts[root]
    data, finish = (bytearray(mine), None) if _is_in_place(recvbuf) else _landing(
        Buffer(recvbuf, "recvbuf", True), mine)  # fmt: skip
    return _Call(comm, SCATTERV, s.pack(), data, mine, root=root, counts=counts, displs=displs,
                 finish=finish)  # fmt: skip


def alltoallv(comm: Any, sendbuf: Any, recvbuf: Any) -> Any:
    r = Vector(recvbuf, "recvbuf", True, comm.size)
    counts, displs = r.layout()
    if _is_in_place(sendbuf):
        data, finish = _in_place(r, 0)
        return _Call(comm, ALLTOALLV, IN_PLACE, data, counts=counts, displs=displs,
                     recvcounts=counts, recvdispls=displs, finish=finish)  # fmt: skip
    s = Vector(sendbuf, "sendbuf", False, comm.size)
    sent, places = s.layout()
    data, finish = _landing(r, sum(counts))
    return _Call(comm, ALLTOALLV, s.pack(), data, counts=sent, displs=places, recvcounts=counts,
                 recvdispls=displs, finish=finish)  # fmt: skip


# ---- reducing -------------------------------------------------------------------------------------


def _elements(b: Buffer) -> int:
    """How many numbers |b| has."""
    unit = b.type._lay().unit
    return b.bytes * b.blocks // unit if unit else 0


def reduce_like(comm: Any, kind: int, sendbuf: Any, recvbuf: Any, op: Op, root: int = 0) -> Any:
    """Reduce, Allreduce, Scan, Exscan."""
    _check_root(comm, root)
    receives = kind != REDUCE or comm.rank == root
    in_place = receives and _is_in_place(sendbuf)
    r = Buffer(recvbuf, "recvbuf", True) if receives else None
    s = r if in_place else Buffer(sendbuf, "sendbuf", False)
    assert s is not None
    native = op._native(s.type._lay().kind)
    if native is None:
        return _by_hand(comm, kind, s, r, op, root)
    if r is not None and not in_place and r.bytes < s.bytes:
        raise fail("ERR_TRUNCATE", f"recvbuf has {r.bytes} bytes, sendbuf {s.bytes}")
    data, finish = None, None
    if r is not None:
        data, finish = (_in_place if in_place else _landing)(r, s.bytes)
    return _Call(comm, kind, IN_PLACE if in_place else s.pack(), data, _elements(s), native[1],
                 native[0], root, finish=finish)  # fmt: skip


def _by_hand(comm: Any, kind: int, s: Buffer, r: Buffer | None, op: Op, root: int) -> Any:
    """Gathers, and reduces in the order of the ranks."""
    mine = bytes(s.pack())
    n, size, rank = len(mine), comm.size, comm.rank
    if kind == REDUCE and rank != root:
        return _Call(comm, GATHER, mine, None, n, root=root)
    everything = bytearray(n * size)
    upto = {SCAN: rank + 1, EXSCAN: rank}.get(kind, size)

    def finish() -> None:
        assert r is not None
        if upto:
            r.unpack(fold([everything[i * n : (i + 1) * n] for i in range(upto)], op, s.type))

    if kind == REDUCE:
        return _Call(comm, GATHER, mine, everything, n, root=root, finish=finish)
    return _Call(comm, ALLGATHER, mine, everything, n, finish=finish)


def fold(parts: list[Any], op: Op, datatype: Datatype) -> Any:
    """The parts of all ranks become one."""
    result = parts[-1]
    if op._operation().name == "NO_OP":
        return parts[0]
    if op._operation().name == "REPLACE":
        return result
    for part in reversed(parts[:-1]):
        op._fold(memoryview(part), memoryview(result), datatype)
    return result


def reduce_scatter(comm: Any, sendbuf: Any, recvbuf: Any, recvcounts: Any, op: Op) -> Any:
    r = Buffer(recvbuf, "recvbuf", True)
    lay = r.type._lay()
    if recvcounts is None:
        if _is_in_place(sendbuf):
            raise ValueError("Reduce_scatter: recvcounts is missing with IN_PLACE")
        recvcounts = comm.allgather_obj(r.count)
    counts = [int(c) for c in recvcounts]
    if len(counts) != comm.size:
        raise ValueError(f"message: expecting {comm.size} items in recvcounts, got {len(counts)}")
    s = r if _is_in_place(sendbuf) else Buffer(sendbuf, "sendbuf", False)
    units = [c * lay.size // lay.unit for c in counts]
    if s.bytes < sum(counts) * lay.size:
        raise ValueError(f"message: sendbuf has {s.count} elements, recvcounts {sum(counts)}")
    return _reduce_scatter(comm, REDUCE_SCATTERV, s, r, op, units, _is_in_place(sendbuf))


def reduce_scatter_block(comm: Any, sendbuf: Any, recvbuf: Any, op: Op) -> Any:
    if _is_in_place(sendbuf):
        s = r = Buffer(recvbuf, "recvbuf", True, comm.size)
    else:
        s, r = Buffer(sendbuf, "sendbuf", False, comm.size), Buffer(recvbuf, "recvbuf", True)
    lay = s.type._lay()
    units = [s.count * lay.size // lay.unit] * comm.size
    return _reduce_scatter(comm, REDUCE_SCATTER, s, r, op, units, s is r)


def _reduce_scatter(comm: Any, kind: int, s: Buffer, r: Buffer, op: Op, units: list[int],
                    in_place: bool) -> Any:  # fmt: skip
    lay = s.type._lay()
    native, mine = op._native(lay.kind), units[comm.rank]
    if native is None:
        return _reduce_scatter_by_hand(comm, s, r, op, units)
    data, finish = _landing(r, mine * lay.unit)
    source = bytes(r.pack()) if in_place else s.pack()  # MPI keeps what is behind the result
    return _Call(comm, kind, source, data, mine, native[1], native[0], counts=units, finish=finish)


def _reduce_scatter_by_hand(comm: Any, s: Buffer, r: Buffer, op: Op, units: list[int]) -> Any:
    unit = s.type._lay().unit
    mine = bytes(s.pack())[: sum(units) * unit]
    n, everything = len(mine), bytearray(len(mine) * comm.size)
    start = sum(units[: comm.rank]) * unit
    end = start + units[comm.rank] * unit

    def finish() -> None:
        r.unpack(fold([everything[i * n + start : i * n + end] for i in range(comm.size)], op, s.type))

    return _Call(comm, ALLGATHER, mine, everything, n, finish=finish)


def barrier(comm: Any) -> Any:
    return _Call(comm, BARRIER, None, None)


class Collectives:
    """Each call has a form with I in front, which returns a Request."""

    __slots__ = ()

    _c: Any

    def Barrier(self) -> None:
        self._c.barrier()

    def Ibarrier(self) -> Request:
        return Request._of(barrier(self._c).begin())

    def Bcast(self, buf: Any, root: int = 0) -> None:
        bcast(self._c, buf, root).block()

    def Ibcast(self, buf: Any, root: int = 0) -> Request:
        return Request._of(bcast(self._c, buf, root).begin())

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        gather(self._c, sendbuf, recvbuf, root).block()

    def Igather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        return Request._of(gather(self._c, sendbuf, recvbuf, root).begin())

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        gatherv(self._c, sendbuf, recvbuf, root).block()

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        return Request._of(gatherv(self._c, sendbuf, recvbuf, root).begin())

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        scatter(self._c, sendbuf, recvbuf, root).block()

    def Iscatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        return Request._of(scatter(self._c, sendbuf, recvbuf, root).begin())

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        scatterv(self._c, sendbuf, recvbuf, root).block()

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        return Request._of(scatterv(self._c, sendbuf, recvbuf, root).begin())

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        allgather(self._c, sendbuf, recvbuf).block()

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        return Request._of(allgather(self._c, sendbuf, recvbuf).begin())

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        allgatherv(self._c, sendbuf, recvbuf).block()

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        return Request._of(allgatherv(self._c, sendbuf, recvbuf).begin())

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        alltoall(self._c, sendbuf, recvbuf).block()

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        return Request._of(alltoall(self._c, sendbuf, recvbuf).begin())

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        alltoallv(self._c, sendbuf, recvbuf).block()

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        return Request._of(alltoallv(self._c, sendbuf, recvbuf).begin())

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        reduce_like(self._c, REDUCE, sendbuf, recvbuf, op, root).block()

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Request:
        return Request._of(reduce_like(self._c, REDUCE, sendbuf, recvbuf, op, root).begin())

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        reduce_like(self._c, ALLREDUCE, sendbuf, recvbuf, op).block()

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        return Request._of(reduce_like(self._c, ALLREDUCE, sendbuf, recvbuf, op).begin())

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        reduce_like(self._c, SCAN, sendbuf, recvbuf, op).block()

    def Iscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        return Request._of(reduce_like(self._c, SCAN, sendbuf, recvbuf, op).begin())

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        reduce_like(self._c, EXSCAN, sendbuf, recvbuf, op).block()

    def Iexscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        return Request._of(reduce_like(self._c, EXSCAN, sendbuf, recvbuf, op).begin())

    def Reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: Op = SUM) -> None:
        reduce_scatter(self._c, sendbuf, recvbuf, recvcounts, op).block()

    def Ireduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Any = None,
                        op: Op = SUM) -> Request:  # fmt: skip
        return Request._of(reduce_scatter(self._c, sendbuf, recvbuf, recvcounts, op).begin())

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        reduce_scatter_block(self._c, sendbuf, recvbuf, op).block()

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        return Request._of(reduce_scatter_block(self._c, sendbuf, recvbuf, op).begin())
