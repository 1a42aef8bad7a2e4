"""Message: what a matched probe has taken out of matching."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _objects
from ._request import Status

if TYPE_CHECKING:
    from . import _nexar


class Message:
    """A message that ``mprobe`` or ``improbe`` found.  It is received once, by ``recv`` or
    ``recv_obj``; a message that is dropped is discarded."""

    __slots__ = ("_taken", "source", "tag", "bytes")

    def __init__(self, taken: _nexar.Message) -> None:
        self._taken = taken
        self.source, self.tag, self.bytes = taken.source, taken.tag, taken.bytes

    def recv(self, buf: Any) -> Status:
        """Receives the message into ``buf``."""
        return Status(self.source, self.tag, self._taken.recv(buf))

    def recv_obj(self) -> Any:
        """Receives the object of ``send_obj``.  Unpickling executes code of the sender."""
        return _objects.decode(self._taken.take())

    def __repr__(self) -> str:
        return f"<nexar.Message: {self.bytes} bytes from rank {self.source}, tag {self.tag}>"
