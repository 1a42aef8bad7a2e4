"""Python objects as messages: pickle protocol 5, large buffers beside the pickle and not copied.

A frame is a header, the pickle, and the buffers, each padded to ALIGN bytes:

    u32 number of buffers, u32 0, u64 bytes of the pickle, u64 bytes of each buffer
"""

from __future__ import annotations

import pickle
import struct
from array import array
from functools import reduce
from typing import TYPE_CHECKING, Any, Callable

from ._errors import InvalidError
from ._request import Status

if TYPE_CHECKING:
    from ._comm import Comm

ALIGN = 64
OUT_OF_BAND = 4096  # bytes: smaller buffers are cheaper inside the pickle
HEAD = 1024  # bytes of the first broadcast, which holds small objects whole
_PAD = bytes(ALIGN)


def encode(obj: Any) -> tuple[bytes, list[memoryview]]:
    """The header with the pickle, padded; and the buffers."""
    buffers: list[memoryview] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < OUT_OF_BAND:
            return True
        buffers.append(raw)
        return False

    data = pickle.dumps(obj, protocol=5, buffer_callback=keep)
    return header(data, buffers), buffers


def header(data: bytes, buffers: list[memoryview]) -> bytes:
    """What comes before the buffers: the header and the pickle |data|."""
    meta = struct.pack(f"<IIQ{len(buffers)}Q", len(buffers), 0, len(data),
                       *(b.nbytes for b in buffers)) + data  # fmt: skip
    return meta + _PAD[: -len(meta) % ALIGN] if buffers else meta


def pieces(meta: bytes, buffers: list[memoryview]) -> list[bytes | memoryview]:
    out: list[bytes | memoryview] = [meta]
    for i, b in enumerate(buffers):
        out.append(b)
        if i + 1 < len(buffers) and b.nbytes % ALIGN:
            out.append(_PAD[: -b.nbytes % ALIGN])
    return out


def layout(frame: memoryview) -> tuple[int, int, list[tuple[int, int]], int]:
    """Where the pickle of |frame| begins and ends, where its buffers, and how long the frame is."""
    try:
        n, zero, length = struct.unpack_from("<IIQ", frame)
        sizes = struct.unpack_from(f"<{n}Q", frame, 16)
    except struct.error:
        zero = 1
    if zero:
        raise InvalidError("recv_obj: the message is no object; it was sent by send, not send_obj")
    at = 16 + 8 * n
    end = at + length
    spans, last = [], end
    for size in sizes:
        last += -last % ALIGN
        spans.append((last, last + size))
        last += size
    return at, end, spans, last


def decode(frame: Any) -> Any:
    view = memoryview(frame)
    at, end, spans, last = layout(view)
    if last > view.nbytes:
        raise InvalidError("recv_obj: the message is no object; it was sent by send, not send_obj")
    return pickle.loads(view[at:end], buffers=[view[a:b] for a, b in spans])


def take(comm: Comm, source: int, tag: int) -> tuple[Any, Status]:
    """Waits for a message and unpickles it."""
    data, source, tag = comm._recv_any(source, tag)
    return decode(data), Status(source, tag, len(data))


# ---- collectives ---------------------------------------------------------------------------


def bcast(comm: Comm, obj: Any, root: int) -> Any:
    if comm.rank == root:
        _bcast_from(comm, obj, root)
        return obj
    head = bytearray(HEAD)
    comm.broadcast(head, root)
    size, total = struct.unpack_from("<QQ", head)
    if total <= HEAD - 16:
        return decode(memoryview(head)[16 : 16 + total])
    frame = memoryview(bytearray(total))
    comm.broadcast(frame[:size], root)
    for a, b in layout(frame)[2]:
        comm.broadcast(frame[a:b], root)
    return decode(frame)


def _bcast_from(comm: Comm, obj: Any, root: int) -> None:
    meta, buffers = encode(obj)
    total = sum(len(p) for p in pieces(meta, buffers))
    head = bytearray(HEAD)
    struct.pack_into("<QQ", head, 0, len(meta), total)
    if total <= HEAD - 16:
        head[16 : 16 + total] = meta
    comm.broadcast(head, root)
    if total > HEAD - 16:
        comm.broadcast(meta, root)
        for b in buffers:
            comm.broadcast(b, root)


def _frame(obj: Any) -> bytes:
    return b"".join(pieces(*encode(obj)))


def _split(frames: bytearray, counts: Any) -> list[Any]:
    """Each frame into an object with memory of its own."""
    out, at = [], 0
    view = memoryview(frames)
    for n in counts:
        out.append(decode(bytearray(view[at : at + n])))
        at += n
    return out


def gather(comm: Comm, obj: Any, root: int) -> list[Any] | None:
    frame = _frame(obj)
    mine = array("Q", [len(frame)])
    if comm.rank != root:
        comm.gather(mine, root=root)
        comm.gatherv(frame, None, root=root)
        return None
    counts = array("Q", bytes(8 * comm.size))
    comm.gather(mine, counts, root)
    frames = bytearray(sum(counts))
    comm.gatherv(frame, counts, frames, root)
    return _split(frames, counts)


def allgather(comm: Comm, obj: Any) -> list[Any]:
    frame = _frame(obj)
    counts = array("Q", bytes(8 * comm.size))
    comm.allgather(array("Q", [len(frame)]), counts)
    frames = bytearray(sum(counts))
    comm.allgatherv(frame, counts, frames)
    return _split(frames, counts)


def _check_list(call: str, objs: Any, size: int) -> list[Any]:
    found: list[Any] = [] if objs is None else list(objs)
    if objs is None or len(found) != size:
        raise InvalidError(
            f"{call}: objs has {len(found)} objects; one for each of the {size} ranks is accepted"
        )
    return found


def scatter(comm: Comm, objs: Any, root: int) -> Any:
    mine = array("Q", [0])
    if comm.rank != root:
        comm.scatter(None, mine, root)
        frame = bytearray(mine[0])
        comm.scatterv(None, None, frame, root)
        return decode(frame)
    frames = [_frame(o) for o in _check_list("scatter_obj", objs, comm.size)]
    counts = array("Q", [len(f) for f in frames])
    comm.scatter(counts, mine, root)
    own = bytearray(mine[0])
    comm.scatterv(b"".join(frames), counts, own, root)
    return decode(own)




def alltoall(comm: Comm, objs: Any) -> list[Any]:
    frames = [_frame(o) for o in _check_list("alltoall_obj", objs, comm.size)]
    counts = array("Q", [len(f) for f in frames])
    coming = array("Q", bytes(8 * comm.size))
    comm.alltoall(counts, coming)
    memory = bytearray(sum(coming))
    comm.alltoallv(b"".join(frames), counts, coming, memory)
    return _split(memory, coming)


def allreduce(comm: Comm, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
    return reduce(op, allgather(comm, obj))
