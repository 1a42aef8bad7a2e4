"""Messages of buffers: the methods of Comm that begin with a capital letter."""

from __future__ import annotations

from typing import Any, Callable

from .. import _nexar
from . import _constants as const
from ._bsend import keep_copy
from ._buffers import Buffer
from ._errors import fail
from ._requests import (
    MESSAGE_NO_PROC,
    Message,
    Pending,
    Persistent,
    Prequest,
    Request,
    _Matched,
    of_proc_null,
)
from ._status import Status

ANY = _nexar.ANY_TAG


def check_peer(comm: Any, rank: int, low: int) -> int:
    if not low <= rank < comm.size:
        raise fail("ERR_RANK", f"the rank is {rank}; {low} to {comm.size - 1} are accepted")
    return rank


def tag_in(tag: int) -> int:
    if tag == const.ANY_TAG:
        return ANY
    return tag_out(tag)


def tag_out(tag: int) -> int:
    if not 0 <= tag <= const.TAG_MAX:
        raise fail("ERR_TAG", f"the tag is {tag}; 0 to {const.TAG_MAX} are accepted")
    return tag


def unpacked(b: Buffer, data: Any) -> Callable[[list[Any]], tuple[Any, Any]]:
    """What ends a receive: the bytes go from |data| to where they belong."""

    def finish(got: list[Any]) -> tuple[Any, Any]:
        status = got[-1]
        if data is not None:
            b.unpack(memoryview(data)[: status.bytes])
        return None, status

    return finish


class Messages:
    __slots__ = ()

    _c: Any

    # ---- sends ---------------------------------------------------------------------------------

    def _send(self, buf: Any, dest: int, tag: int, how: str = "isend") -> Pending:
        comm = self._c
        tag_out(tag)
        if dest == const.PROC_NULL:
            return of_proc_null()
        check_peer(comm, dest, 0)
        b = Buffer(buf, "buf", False)
        if how == "ibsend":
            return keep_copy(comm, [bytes(b.pack())], dest, tag)
        if how == "issend":
            return Pending([comm._issendv(b.pieces(), dest, tag)])
        if b.plain:
            return Pending([comm.isend(b.raw(), dest, tag)])
        return Pending([comm._isendv(b.pieces(), dest, tag)])

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        if dest == const.PROC_NULL:
            return
        comm = self._c
        b = Buffer(buf, "buf", False)
        check_peer(comm, dest, 0)
        if b.plain:
            comm.send(b.raw(), dest, tag_out(tag))
        else:
            comm._sendv(b.pieces(), dest, tag_out(tag))

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        self.Issend(buf, dest, tag).Wait()

    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        self._send(buf, dest, tag, "ibsend")

    def Rsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        self.Send(buf, dest, tag)

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        return Request._of(self._send(buf, dest, tag))

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        return Request._of(self._send(buf, dest, tag, "issend"))

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        return Request._of(self._send(buf, dest, tag, "ibsend"))

    def Irsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        return self.Isend(buf, dest, tag)

    # ---- receives --------------------------------------------------------------------------------

    def _recv(self, buf: Any, source: int, tag: int) -> Pending:
        comm = self._c
        tag = tag_in(tag)
        if source == const.PROC_NULL:
            return of_proc_null()
        check_peer(comm, source, const.ANY_SOURCE)
        b = Buffer(buf, "buf", True)
        if b.plain:
            return Pending([comm.irecv(b.raw(), source, tag)], unpacked(b, None))
        return Pending([comm._irecvv(b.pieces(), source, tag)], unpacked(b, None))

    def Recv(self, buf: Any, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
             status: Status | None = None) -> None:  # fmt: skip
        if source != const.PROC_NULL and not isinstance(buf, (list, tuple)):
            comm = self._c
            check_peer(comm, source, const.ANY_SOURCE)
            got = comm.recv(Buffer(buf, "buf", True).raw(), source, tag_in(tag))
            if status is not None:
                status._set(*got)
            return
        Request._of(self._recv(buf, source, tag)).Wait(status)

    def Irecv(self, buf: Any, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG) -> Request:
        return Request._of(self._recv(buf, source, tag))

    # ---- both ------------------------------------------------------------------------------------

    def _sendrecv(self, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int,
                  recvtag: int) -> Pending:  # fmt: skip
        got = self._recv(recvbuf, source, recvtag)
        try:
            sent = self._send(sendbuf, dest, sendtag)
        except BaseException:
            for req in got.reqs:
                req.cancel()
            raise
        if got.done:
            sent.obj, sent.where = None, got.where
            sent.finish = lambda _: (None, got.where)
            return sent
        return Pending([*sent.reqs, *got.reqs], got.finish)

    def Sendrecv(self, sendbuf: Any, dest: int, sendtag: int = 0, recvbuf: Any = None,
                 source: int = const.ANY_SOURCE, recvtag: int = const.ANY_TAG,
                 status: Status | None = None) -> None:  # fmt: skip
        self.Isendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag).Wait(status)

    def Isendrecv(self, sendbuf: Any, dest: int, sendtag: int = 0, recvbuf: Any = None,
                  source: int = const.ANY_SOURCE, recvtag: int = const.ANY_TAG) -> Request:  # fmt: skip
        return Request._of(self._sendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag))

    def Sendrecv_replace(self, buf: Any, dest: int, sendtag: int = 0,
                         source: int = const.ANY_SOURCE, recvtag: int = const.ANY_TAG,
                         status: Status | None = None) -> None:  # fmt: skip
        self.Isendrecv_replace(buf, dest, sendtag, source, recvtag).Wait(status)

    def Isendrecv_replace(self, buf: Any, dest: int, sendtag: int = 0,
                          source: int = const.ANY_SOURCE,
                          recvtag: int = const.ANY_TAG) -> Request:  # fmt: skip
        if dest == source == const.PROC_NULL:
            return Request._of(of_proc_null())
        copy = bytes(Buffer(buf, "buf", False).pack())
        return Request._of(self._sendrecv(copy, dest, sendtag, buf, source, recvtag))

    # ---- looking for messages ----------------------------------------------------------------------

    def Probe(self, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
              status: Status | None = None) -> bool:  # fmt: skip
        where = (const.PROC_NULL, const.ANY_TAG, 0)
        if source != const.PROC_NULL:
            where = self._c._probe(check_peer(self._c, source, const.ANY_SOURCE), tag_in(tag))
        if status is not None:
            status._set(*where)
        return True

    def Iprobe(self, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
               status: Status | None = None) -> bool:  # fmt: skip
        where = (const.PROC_NULL, const.ANY_TAG, 0)
        if source != const.PROC_NULL:
            where = self._c._iprobe(check_peer(self._c, source, const.ANY_SOURCE), tag_in(tag))
        if status is not None and where is not None:
            status._set(*where)
        return where is not None

    def Mprobe(self, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
               status: Status | None = None) -> Message:  # fmt: skip
        if source == const.PROC_NULL:
            return _no_proc(status)
        found = self._c._match(check_peer(self._c, source, const.ANY_SOURCE), tag_in(tag))
        return _found(found, status)

    def Improbe(self, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
                status: Status | None = None) -> Message | None:  # fmt: skip
        if source == const.PROC_NULL:
            return _no_proc(status)
        found = self._c._try_match(check_peer(self._c, source, const.ANY_SOURCE), tag_in(tag))
        return _found(found, status) if found is not None else None

    # ---- persistent ----------------------------------------------------------------------------------

    def _init(self, make: Callable[[], Pending]) -> Prequest:
        return Prequest._of(Persistent(make))

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        return self._init(lambda: self._send(buf, dest, tag))

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        return self._init(lambda: self._send(buf, dest, tag, "issend"))

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        return self._init(lambda: self._send(buf, dest, tag, "ibsend"))

    def Rsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        return self._init(lambda: self._send(buf, dest, tag))

    def Recv_init(self, buf: Any, source: int = const.ANY_SOURCE,
                  tag: int = const.ANY_TAG) -> Prequest:  # fmt: skip
        return self._init(lambda: self._recv(buf, source, tag))


def _found(message: Any, status: Status | None) -> Message:
    if status is not None:
        status._set(message.source, message.tag, message.bytes)
    return Message._of(_Matched(message))


def _no_proc(status: Status | None) -> Message:
    if status is not None:
        status._set(const.PROC_NULL, const.ANY_TAG, 0)
    return Message._of(MESSAGE_NO_PROC._h)
