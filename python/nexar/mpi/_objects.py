"""Messages and collectives of objects: the methods of Comm in lower case."""

from __future__ import annotations

import warnings
from functools import reduce as fold
from typing import Any

from .. import _objects as native
from . import _constants as const
from ._bsend import keep_copy
from ._errors import fail
from ._messages import check_peer, tag_in, tag_out
from ._ops import BY_NAME, Op
from ._pickle import pickle
from ._requests import Message, Pending, Request, of_proc_null, received
from ._status import Status

SUM = BY_NAME["SUM"]


class Objects:
    __slots__ = ()

    _c: Any

    # ---- messages --------------------------------------------------------------------------------

    def _send_obj(self, obj: Any, dest: int, tag: int, how: str = "_isendv") -> Pending:
        comm = self._c
        tag_out(tag)
        if dest == const.PROC_NULL:
            return of_proc_null()
        check_peer(comm, dest, 0)
        data = pickle.encode(obj)
        if how == "ibsend":
            return keep_copy(comm, [bytes(d) for d in data], dest, tag)
        return Pending([getattr(comm, how)(data, dest, tag)])

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        if dest != const.PROC_NULL:
            comm = self._c
            check_peer(comm, dest, 0)
            comm._sendv(pickle.encode(obj), dest, tag_out(tag))

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        self.issend(obj, dest, tag).wait()

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        self._send_obj(obj, dest, tag, "ibsend")

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        return Request._of(self._send_obj(obj, dest, tag))

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        return Request._of(self._send_obj(obj, dest, tag, "_issendv"))

    def ibsend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        return Request._of(self._send_obj(obj, dest, tag, "ibsend"))

    def _recv_obj(self, source: int, tag: int) -> Pending:
        comm = self._c
        tag = tag_in(tag)
        if source == const.PROC_NULL:
            return of_proc_null()
        check_peer(comm, source, const.ANY_SOURCE)
        return Pending([comm._irecv_any(source, tag)], lambda got: received(*got[0]))

    def recv(self, buf: Any = None, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
             status: Status | None = None) -> Any:  # fmt: skip
        """|buf| is not used: messages have room of their own."""
        if buf is not None and not isinstance(buf, int):
            warnings.warn("the 'buf' argument is deprecated", UserWarning, stacklevel=3)
        if source == const.PROC_NULL:
            return self.irecv(None, source, tag).wait(status)
        comm = self._c
        obj, where = received(*comm._recv_any(check_peer(comm, source, const.ANY_SOURCE), tag_in(tag)))
        if status is not None:
            status._set(*where)
        return obj

    def irecv(self, buf: Any = None, source: int = const.ANY_SOURCE,
              tag: int = const.ANY_TAG) -> Request:  # fmt: skip
        return Request._of(self._recv_obj(source, tag))

    def sendrecv(self, sendobj: Any, dest: int, sendtag: int = 0, recvbuf: Any = None,
                 source: int = const.ANY_SOURCE, recvtag: int = const.ANY_TAG,
                 status: Status | None = None) -> Any:  # fmt: skip
        got = self.irecv(recvbuf, source, recvtag)
        sent = self.isend(sendobj, dest, sendtag)
        obj = got.wait(status)
        sent.wait()
        return obj

    def probe(self, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
              status: Status | None = None) -> bool:  # fmt: skip
        found: bool = self.Probe(source, tag, status)  # type: ignore[attr-defined]
        return found

    def iprobe(self, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
               status: Status | None = None) -> bool:  # fmt: skip
        found: bool = self.Iprobe(source, tag, status)  # type: ignore[attr-defined]
        return found

    def mprobe(self, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
               status: Status | None = None) -> Message:  # fmt: skip
        message: Message = self.Mprobe(source, tag, status)  # type: ignore[attr-defined]
        return message

    def improbe(self, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
                status: Status | None = None) -> Message | None:  # fmt: skip
        message: Message | None = self.Improbe(source, tag, status)  # type: ignore[attr-defined]
        return message

    # ---- collectives -------------------------------------------------------------------------------

    def _locked(self, call: str, root: int = 0) -> tuple[Any, Any]:
        comm = self._c
        if not 0 <= root < comm.size:
            raise fail("ERR_ROOT", f"{call}: the root is {root}; 0 to {comm.size - 1} are accepted")
        return comm, self._lock(call)  # type: ignore[attr-defined]

    def barrier(self) -> None:
        self._c.barrier()

    def bcast(self, obj: Any, root: int = 0) -> Any:
        comm, lock = self._locked("bcast", root)
        with lock:
            return native.bcast(comm, obj, root)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        comm, lock = self._locked("gather", root)
        with lock:
            return native.gather(comm, sendobj, root)

    def scatter(self, sendobj: Any, root: int = 0) -> Any:
        comm, lock = self._locked("scatter", root)
        with lock:
            return native.scatter(comm, sendobj, root)

    def allgather(self, sendobj: Any) -> list[Any]:
        comm, lock = self._locked("allgather")
        with lock:
            return native.allgather(comm, sendobj)

    def alltoall(self, sendobj: Any) -> list[Any]:
        comm, lock = self._locked("alltoall")
        with lock:
            return native.alltoall(comm, sendobj)

    def reduce(self, sendobj: Any, op: Op = SUM, root: int = 0) -> Any:
        comm, lock = self._locked("reduce", root)
        with lock:
            all_ = native.gather(comm, sendobj, root)
        return fold(op, all_) if all_ is not None else None

    def allreduce(self, sendobj: Any, op: Op = SUM) -> Any:
        comm, lock = self._locked("allreduce")
        with lock:
            return fold(op, native.allgather(comm, sendobj))

    def scan(self, sendobj: Any, op: Op = SUM) -> Any:
        comm, lock = self._locked("scan")
        with lock:
            return fold(op, native.allgather(comm, sendobj)[: comm.rank + 1])

    def exscan(self, sendobj: Any, op: Op = SUM) -> Any:
        comm, lock = self._locked("exscan")
        with lock:
            before = native.allgather(comm, sendobj)[: comm.rank]
        return fold(op, before) if before else None
