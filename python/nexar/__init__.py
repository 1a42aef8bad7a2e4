"""nexar: a distributed runtime.  Ranks, messages, collectives, remote calls, elastic worlds.

>>> import nexar
>>> with nexar.init() as comm:
...     comm.allreduce(bytearray(8), op="bxor")
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import weakref
from typing import Any, Callable, NamedTuple

try:
    from . import _nexar
except ImportError as _why:
    if getattr(sys, "_is_gil_enabled", lambda: True)() and "t" not in getattr(sys, "abiflags", ""):
        raise
    raise ImportError(
        "nexar: this Python is free-threaded, and nexar needs one with the GIL; use python3 of the same "
        "version without the suffix t"
    ) from _why

from . import _arrays, _errors
from ._comm import ANY_SOURCE, ANY_TAG, Change, ChangedRanks, Comm, Host, settings_of
from ._errors import (
    AuthError,
    CanceledError,
    Code,
    ConnectError,
    DeviceError,
    Error,
    InternalError,
    InvalidError,
    MismatchError,
    NoHandlerError,
    NotSupportedError,
    OsError,
    OutOfMemoryError,
    PeerError,
    ProtocolError,
    RemoteError,
    RevokedError,
    TimeoutError,
    TruncatedError,
)
from ._message import Message
from ._op import Op, op_create
from ._request import Request, Status, wait_all, wait_any
from ._state import SyncReport

__all__ = [
    "ANY_SOURCE", "ANY_TAG", "AuthError", "CanceledError", "Change", "ChangedRanks", "Code", "Comm", "ConnectError",
    "DeviceError", "Error", "Host", "InternalError", "InvalidError", "Message", "MismatchError",
    "NoHandlerError", "NotSupportedError", "Op", "OsError", "OutOfMemoryError", "PeerError",
    "ProtocolError", "RemoteError", "Request", "RevokedError", "Seed", "SeedEvent",
    "Status", "SyncReport", "TimeoutError", "TruncatedError", "info", "init", "op_create", "snapshot", "wait_all", "wait_any",
]  # fmt: skip

__version__: str = _nexar.version()

_nexar.register({
    "Comm": Comm,
    "Op": Op,
    "Request": Request,
    "Status": Status,
    "errors": _errors.CLASSES,
    "InvalidError": InvalidError,
    "InvalidTypeError": _errors.InvalidTypeError,
    "describe": _arrays.describe,
    "new_array": _arrays.new_array,
})  # fmt: skip

_worlds: weakref.WeakSet[Comm] = weakref.WeakSet()


def init(**settings: Any) -> Comm:
    """Joins the cluster that the setting ``join`` or the environment names, and returns the world.
    With no cluster named, the world is this process alone.  `nexar info` lists the settings."""
    world: Comm = _nexar.init(settings_of(settings))
    _worlds.add(world)
    return world


class SeedEvent(NamedTuple):
    """What happened at a seed.  ``kind`` is "joined", "formed", "waiting", "changed", "left", "failed",
    "back", "refused", "missing" or "ended"; ``rank`` is -1 where the event is about no rank."""

    kind: str
    rank: int
    joined: int
    world: int
    text: str


class Seed(_nexar.Seed):
    """What `nexar seed` runs: admits ranks, and hands out their numbers."""

    def __new__(cls, **settings: Any) -> Seed:
        return super().__new__(cls, settings_of(settings))

    def on_event(self, fn: Callable[[SeedEvent], Any] | None) -> None:
        """``fn(event)`` is called for each event from now on, instead of a line in the log.  It runs
        on a thread of the seed, one call at a time, while no rank can join; it cannot close the seed.
        The seed keeps ``fn`` until ``close``.  None: events are logged again."""
        if fn is None:
            self._on_event(None)
            return
        if not callable(fn):
            raise _errors.InvalidTypeError(f"on_event: fn is {fn!r}; a function of a SeedEvent is accepted")
        tell = fn

        def call(*what: Any) -> None:
            tell(SeedEvent(*what))

        self._on_event(call)

    def __enter__(self) -> Seed:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def info() -> dict[str, Any]:
    """The version, and the settings as the environment has them."""
    return {"version": __version__, "settings": _nexar.settings()}


def snapshot() -> dict[str, Any]:
    """What this process knows of its worlds, for logs and JSON: of each open world the name, rank,
    size, host, the failed ranks, and how many operations were begun and how many are pending."""
    worlds = [_state_of(world) for world in list(_worlds) if not world.closed]
    return {"version": __version__, "pid": os.getpid(), "time": time.time(), "worlds": worlds}


def _state_of(world: Comm) -> dict[str, Any]:
    begun, pending = world._counters()
    return {
        "name": world.name,
        "rank": world.rank,
        "size": world.size,
        "host": world.host._asdict(),
        "failed": world.failed(),
        "operations": {"begun": begun, "pending": pending},
    }


def _at_exit() -> None:
    """A program that ends without close() leaves in order; one that ends by an exception has
    failed, and the other ranks learn it when the process is gone."""
    if getattr(sys, "last_type", None) is None:
        for world in list(_worlds):
            try:
                world.close()
            except Error as err:
                print(f"nexar: {err}", file=sys.stderr)
    _nexar.stop_callbacks()


atexit.register(_at_exit)
