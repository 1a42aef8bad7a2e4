"""Buffered sends: MPI gives them memory; here each has a copy of its own."""

from __future__ import annotations

from typing import Any

from ._errors import fail
from ._requests import Pending, completed

_attached: Any = None
_sends: list[Pending] = []


def attach(buf: Any) -> None:
    global _attached
    if _attached is not None:
        raise fail("ERR_BUFFER", "a buffer is attached already")
    _attached = buf


def detach() -> Any:
    global _attached
    if _attached is None:
        raise fail("ERR_BUFFER")
    flush()
    buf, _attached = _attached, None
    return buf


def flush() -> None:
    """Waits for the sends that were buffered."""
    while _sends:
        _sends.pop().wait()


def keep_copy(comm: Any, data: list[Any], dest: int, tag: int) -> Pending:
    """|data| is the sender's no more: the send is complete at once."""
    if _attached is None:
        raise fail("ERR_BUFFER")
    _sends[:] = [p for p in _sends if not p.test()]
    _sends.append(Pending([comm._isendv(data, dest, tag)]))
    return completed()
