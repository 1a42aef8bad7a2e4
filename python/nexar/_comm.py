"""Comm: what the extension has, and what is made of it in Python."""

from __future__ import annotations

import contextlib
import operator
import sys
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, NoReturn, TypeVar

from . import _arrays, _nexar, _objects, _state
from ._errors import Error, InvalidError, InvalidTypeError, NotSupportedError, RemoteError
from ._message import Message
from ._request import Request, Status
from ._state import SyncReport

if TYPE_CHECKING:
    from types import TracebackType

ANY_SOURCE = -1
ANY_TAG: int = _nexar.ANY_TAG

Handler = Callable[[int, memoryview], Any]
F = TypeVar("F", bound=Handler)


class Host(NamedTuple):
    """Where a rank runs.  Hosts are numbered from 0 in the order of their lowest ranks."""

    host: int
    hosts: int
    local_rank: int
    local_size: int
    leader: int
    name: str


class Change(NamedTuple):
    """How a communicator has changed; ``new_rank`` is -1 on a rank that has left."""

    old_rank: int
    old_size: int
    new_rank: int
    new_size: int
    joined: int
    left: int
    failed: int

    @property
    def changed(self) -> bool:
        return bool(self.joined or self.left or self.failed)


class ChangedRanks(NamedTuple):
    """Who joined (ranks of the new communicator), who left and who failed (ranks of the old one)."""

    joined: list[int]
    left: list[int]
    failed: list[int]


def _setting(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return ",".join(str(v) for v in value)
    if isinstance(value, (int, float)) and name in _nexar.durations():  # seconds
        return f"{round(value * 1e9)}ns" if value else "0"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InvalidTypeError(
        f"init: {name} is {value!r}; str, a number, bool, or a list of str are accepted"
    )


def settings_of(settings: dict[str, object]) -> dict[str, str]:
    return {name: _setting(name, value) for name, value in settings.items() if value is not None}


class Comm(_nexar.Comm):
    """A communicator.  `nexar.init()`, `split()`, `dup()` and others make one.

    Buffers are any contiguous objects with the buffer protocol, ``__dlpack__`` (CPU) or
    ``__array_interface__``.  Every blocking call can be ended by Ctrl-C, and releases the GIL
    while it waits.
    """

    def __enter__(self) -> Comm:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        try:
            self.close()
        except Error:
            if kind is None:
                raise

    def __repr__(self) -> str:
        if self.closed:
            return "<nexar.Comm closed>"
        return f"<nexar.Comm {self.name}: rank {self.rank} of {self.size}>"

    @property
    def host(self) -> Host:
        """Where this rank runs."""
        return Host(*self._host(self.rank))

    def host_of(self, rank: int) -> Host:
        return Host(*self._host(rank))

    # ---- buffers ------------------------------------------------------------------------

    def sendrecv(self, sendbuf: Any, dest: int, recvbuf: Any, source: int = ANY_SOURCE,
                 sendtag: int = 0, recvtag: int = ANY_TAG) -> Status:  # fmt: skip
        """Sends and receives at once."""
        got = _named("recvbuf", lambda: self.irecv(recvbuf, source, recvtag))
        try:
            sent = _named("sendbuf", lambda: self.isend(sendbuf, dest, sendtag))
        except BaseException:
            got.cancel()
            raise
        try:
            sent.wait()
            status: Status = got.wait()
            return status
        except BaseException:
            got.cancel()
            raise

    def scatter(self, buf: Any, out: Any = None, root: int = 0) -> Any:
        """Block i of the root's ``buf`` to rank i.  Either all ranks give ``out`` or none does."""
        if out is None:
            out = self._room_for_block("scatter", buf, root)
        return super().scatter(buf, out, root)

    def scatterv(self, buf: Any, counts: Any, out: Any = None, root: int = 0) -> Any:
        """As ``scatter``, with ``counts[i]`` elements for rank i; only the root needs counts."""
        if out is None:
            out = self._room_for_block("scatterv", buf, root, counts)
        return super().scatterv(buf, counts, out, root)

    def _room_for_block(self, call: str, buf: Any, root: int, counts: Any = None) -> Any:
        """An array for this rank's block, which the root describes."""
        about = None
        if self.rank == self._root(call, root) and buf is not None:
            about = (_arrays.spec_of(call, buf), _numbers(call, counts))
        spec = self.bcast_obj(about, root)
        if spec is None:
            raise InvalidTypeError(f"{call}: buf is None on the root; an array is accepted")
        like, numbers = spec
        if call.endswith("v"):
            if numbers is None or len(numbers) != self.size:
                raise InvalidError(
                    f"{call}: counts: one number for each of the {self.size} ranks is accepted"
                )
            return _arrays.like_spec(like, "flat", numbers[self.rank], self.size)
        total = 1
        for n in like[2]:
            total *= n
        if total % self.size:
            raise InvalidError(
                f"{call}: buf has {total} elements; a multiple of the {self.size} ranks is accepted"
            )
        return _arrays.like_spec(like, "block", total // self.size, self.size)

    def iscatter(self, buf: Any, out: Any = None, root: int = 0) -> Request:
        """``scatter`` with a request.  Without ``out`` the call itself waits for the root, which
        describes the block."""
        if out is None:
            out = self._room_for_block("iscatter", buf, root)
        return super().iscatter(buf, out, root)

    def iscatterv(self, buf: Any, counts: Any, out: Any = None, root: int = 0) -> Request:
        """``scatterv`` with a request; without ``out`` as ``iscatter``."""
        if out is None:
            out = self._room_for_block("iscatterv", buf, root, counts)
        return super().iscatterv(buf, counts, out, root)

    def allreduce_bucketed(self, bufs: Any, op: str = "avg") -> list[Any]:
        """Many arrays of one element type as one allreduce, in place."""
        return self._allreduce_bucketed(True, bufs, op)

    def iallreduce_bucketed(self, bufs: Any, op: str = "avg") -> Request:
        return self._allreduce_bucketed(False, bufs, op)

    def allreduce_compressed(self, buf: Any, how: str = "int8", residual: Any = None,
                             op: str = "avg", ratio: float = 0.01) -> Any:  # fmt: skip
        """An allreduce in place that sends less; ``residual`` keeps what was not sent."""
        return self._allreduce_compressed(True, buf, how, residual, op, ratio)

    def iallreduce_compressed(self, buf: Any, how: str = "int8", residual: Any = None,
                              op: str = "avg", ratio: float = 0.01) -> Request:  # fmt: skip
        return self._allreduce_compressed(False, buf, how, residual, op, ratio)

    def allreduce_rs_ag(self, buf: Any, on_shard: Callable[[Any, int], Any] | None = None,
                        op: str = "avg") -> Any:  # fmt: skip
        """Reduce-scatter, ``on_shard(shard, offset)`` with this rank's part in place, allgather."""
        call = _shard_call(buf, on_shard)
        try:
            return self._allreduce_rs_ag(True, buf, call, op)
        except RemoteError:
            if call is not None and call[1]:
                raise call[1][0]  # what on_shard raised here
            raise

    def iallreduce_rs_ag(self, buf: Any, on_shard: Callable[[Any, int], Any] | None = None,
                         op: str = "avg") -> Request:  # fmt: skip
        return self._allreduce_rs_ag(False, buf, _shard_call(buf, on_shard), op)

    # ---- messages that are looked at before they are received ---------------------------

    def probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Status:
        """Waits for a message that ``recv`` would take, and leaves it where it is."""
        return self._probe(source, tag)

    def iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Status | None:
        """``probe`` that does not wait; None: no message has come."""
        found = self._iprobe(source, tag)
        return None if found is None else Status(*found)

    def mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Message:
        """Waits for a message and takes it out of matching: no other thread can receive it."""
        return Message(self._match(source, tag))

    def improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Message | None:
        """``mprobe`` that does not wait; None: no message has come."""
        found = self._try_match(source, tag)
        return None if found is None else Message(found)

    # ---- objects ------------------------------------------------------------------------
    # Unpickling runs code that the sender chose.  Only authenticated members can send.

    def send_obj(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Sends any object that pickle takes; large buffers in it are not copied."""
        self._sendv(_objects.pieces(*_objects.encode(obj)), dest, tag)

    def isend_obj(self, obj: Any, dest: int, tag: int = 0) -> Request:
        return self._isendv(_objects.pieces(*_objects.encode(obj)), dest, tag)

    def recv_obj(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Any:
        """Receives what ``send_obj`` sent.  Unpickling executes code of the sender."""
        return _objects.take(self, source, tag)[0]

    def recv_obj_status(self, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> tuple[Any, Status]:
        """``recv_obj``, with where it came from."""
        return _objects.take(self, source, tag)

    def bcast_obj(self, obj: Any = None, root: int = 0) -> Any:
        return _objects.bcast(self, obj, self._root("bcast_obj", root))

    def gather_obj(self, obj: Any, root: int = 0) -> list[Any] | None:
        return _objects.gather(self, obj, self._root("gather_obj", root))

    def allgather_obj(self, obj: Any) -> list[Any]:
        return _objects.allgather(self, obj)

    def scatter_obj(self, objs: Any = None, root: int = 0) -> Any:
        return _objects.scatter(self, objs, self._root("scatter_obj", root))

    def alltoall_obj(self, objs: Any) -> list[Any]:
        return _objects.alltoall(self, objs)

    def allreduce_obj(self, obj: Any, op: Callable[[Any, Any], Any] = operator.add) -> Any:
        """``op`` over the objects of all ranks, in the order of the ranks, on each rank."""
        if not callable(op):
            raise InvalidTypeError(f"allreduce_obj: op is {op!r}; a function of two objects is accepted")
        return _objects.allreduce(self, obj, op)

    def _root(self, call: str, root: int) -> int:
        try:
            root = operator.index(root)
        except TypeError:
            raise InvalidTypeError(f"{call}: root is {root!r}; an int is accepted") from None
        if not 0 <= root < self.size:
            raise InvalidError(f"{call}: root is {root!r}; 0 to {self.size - 1} is accepted")
        return root

    # ---- remote calls, failures -------------------------------------------------------------

    def rpc(self, fn_id: int) -> Callable[[F], F]:
        """``@comm.rpc(7)``: the function serves calls of 7 at this rank.  It runs on a thread of
        the runtime; ``data`` is valid until it returns."""

        def register(fn: F) -> F:
            _callable("rpc", fn, "caller and data")
            self._register(fn_id, fn)
            _keep(self, fn_id, fn)
            return fn

        return register

    def on_failure(self, fn: Callable[[int, str], Any] | None) -> None:
        """``fn(rank, why)`` is called once for each rank that has failed or will, on a thread of
        the runtime; None: nothing is."""
        if fn is not None:
            _callable("on_failure", fn, "rank and why")
        self._on_failure(fn)
        _keep(self, "on_failure", fn)

    def abort(self, code: int = 1, why: str | None = None) -> NoReturn:
        """Ends every rank of the job within a second, with exit code ``code`` (1 to 125).  ``why``
        is printed.  Functions of ``atexit`` do not run; does not return."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        self._abort(code, why)
        raise AssertionError("nexar_abort returned")

    def update(self) -> Change:
        """At a step boundary, by every rank: ranks join, leave, and failed ones are dropped.  A
        rank that asked to leave has left when it returns, and the communicator is closed."""
        return Change(*self._update())

    def sync_state(self, state: dict[str, Any], revision: int) -> SyncReport:
        """Makes the arrays of ``state`` identical on all ranks, in place; all call with the same names
        and shapes.  The highest revision wins; a rank that has joined passes 0.  An int or a float in
        ``state`` is replaced there."""
        tensors = _state.tensors_of(state)
        report = SyncReport(*self._state_sync(tensors, revision))
        _state.take_numbers(state, tensors)
        return report

    def last_change(self) -> Change:
        """The last change of this communicator, by ``update`` or by the setting ``recovery``."""
        return Change(*self._last_change())

    def last_change_ranks(self) -> ChangedRanks:
        """The ranks of the last change."""
        return ChangedRanks(*self._last_change_ranks())

    def on_change(self, fn: Callable[[Change], Any] | None) -> None:
        """``fn(change)`` is called once after every change, on a thread of the runtime; ``update``
        carries it over.  None: nothing is."""
        if fn is None:
            self._on_change(None)
            _keep(self, "on_change", None)
            return
        _callable("on_change", fn, "a Change")

        def call(*numbers: int) -> None:
            fn(Change(*numbers))

        self._on_change(call)
        _keep(self, "on_change", call)

    # ---- what the C library lacks ----------------------------------------------------------

    def exclude(self, ranks: list[int]) -> Comm:
        raise NotSupportedError(
            "exclude: the C library cannot exclude ranks yet; the others make a communicator by create()"
        )


def _numbers(call: str, counts: Any) -> list[int] | None:
    if counts is None:
        return None
    try:
        return [operator.index(n) for n in counts]
    except TypeError:
        raise InvalidTypeError(f"{call}: counts is {counts!r}; a sequence of ints is accepted") from None


def _callable(call: str, fn: object, takes: str) -> None:
    if not callable(fn):
        raise InvalidTypeError(f"{call}: fn is {fn!r}; a function of {takes} is accepted")


def _keep(comm: Comm, key: object, fn: object) -> None:
    """The runtime has a pointer to |fn| only."""
    kept: dict[object, object] = comm.__dict__.setdefault("_kept", {})
    kept[key] = fn


def _named(name: str, call: Callable[[], Any]) -> Any:
    """Errors name the argument of sendrecv, not the one of the call below it."""
    try:
        return call()
    except InvalidError as err:
        text = err.message.replace(": buf ", f": {name} ", 1)
        text = text.replace(": tag ", f": {name[:4]}tag ", 1)
        raise type(err)("sendrecv" + text[text.index(":") :]) from None


def _shard_call(buf: Any, on_shard: Callable[[Any, int], Any] | None) -> Any:
    if on_shard is None:
        return None
    if not callable(on_shard):
        raise InvalidTypeError(f"allreduce_rs_ag: on_shard is {on_shard!r}; a function is accepted")
    flat = _arrays.flat(buf)
    return (lambda at, n: on_shard(flat[at : at + n], at)), []
