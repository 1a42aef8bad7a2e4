"""MPI.pickle: from objects to messages.

A small object is its pickle, as with mpi4py; one that has large buffers is a frame of
nexar._objects, whose buffers are sent from where they are.  A message without bytes is None.
"""

from __future__ import annotations

import pickle as std
from typing import Any, Callable

from .. import _objects

_PICKLE = 0x80  # the first byte of a pickle; that of a frame only if it has 128 buffers


class Pickle:
    """``MPI.pickle.__init__(dill.dumps, dill.loads)`` sets other functions."""

    def __init__(self, dumps: Callable[..., bytes] | None = None,
                 loads: Callable[..., Any] | None = None, protocol: int | None = None) -> None:  # fmt: skip
        self._own = dumps is None
        self._dumps = dumps or std.dumps
        self._loads = loads or std.loads
        self.PROTOCOL = std.HIGHEST_PROTOCOL if protocol is None and dumps is None else protocol
        self.THRESHOLD = _objects.OUT_OF_BAND

    def dumps(self, obj: Any) -> bytes:
        if self.PROTOCOL is None:
            return self._dumps(obj)
        return self._dumps(obj, self.PROTOCOL)

    def loads(self, data: Any) -> Any:
        return self._loads(data)

    def dumps_oob(self, obj: Any) -> tuple[bytes, list[Any]]:
        buffers: list[Any] = []
        return std.dumps(obj, 5, buffer_callback=buffers.append), buffers

    def loads_oob(self, data: Any, buffers: Any) -> Any:
        return std.loads(data, buffers=buffers)

    def encode(self, obj: Any) -> list[Any]:
        """The memory that the message consists of."""
        if not self._own:
            return [self.dumps(obj)]
        buffers: list[memoryview] = []

        def keep(buffer: Any) -> bool:
            raw = buffer.raw()
            if raw.nbytes < self.THRESHOLD:
                return True
            buffers.append(raw)
            return False

        data = std.dumps(obj, self.PROTOCOL, buffer_callback=keep)
        return _objects.pieces(_objects.header(data, buffers), buffers) if buffers else [data]

    def decode(self, data: Any) -> Any:
        view = memoryview(data)
        if view.nbytes == 0:
            return None
        if not self._own or view[0] == _PICKLE and view.nbytes > 1 and view[1] != 0:
            return self._loads(view)
        return _objects.decode(view)


pickle = Pickle()
