"""MPI.Request, Prequest and Message."""

from __future__ import annotations

from typing import Any, Callable

from .. import _errors as nx
from .. import _request
from . import _constants as const
from ._buffers import Buffer
from ._errors import fail, missing, translated
from ._handle import Handle, Thing
from ._pickle import pickle
from ._status import Status

EMPTY = (const.ANY_SOURCE, const.ANY_TAG, 0)


class Pending(Thing):
    """An operation.  |reqs|: of nexar, all of which must complete; |finish| makes the outcome of what
    they returned: an object, and (source, tag, bytes).  |start|: of a persistent one."""

    __slots__ = ("reqs", "finish", "start", "done", "obj", "where", "cancelled", "error")

    def __init__(self, reqs: list[Any], finish: Callable[[list[Any]], tuple[Any, Any]] | None = None,
                 start: Callable[[], Pending] | None = None) -> None:  # fmt: skip
        self.reqs, self.finish, self.start = reqs, finish, start
        self.done = False
        self.obj, self.where, self.cancelled = None, EMPTY, False
        self.error: BaseException | None = None

    def active(self) -> bool:
        return self.start is None or bool(self.reqs) or self.done is False and self.finish is not None

    def test(self) -> bool:
        if not self.done:
            for req in self.reqs:
                try:
                    if not req.test():
                        return False
                except nx.Error:
                    pass  # wait() raises it again
            self.wait()
        return True

    def wait(self) -> None:
        """Until it has completed; the outcome is kept."""
        if self.done:
            return
        try:
            got = [req.wait() for req in self.reqs]
            if self.finish is not None:
                self.obj, self.where = self.finish(got)
        except nx.CanceledError:
            self.cancelled = True
        except nx.Error as err:
            self.error = err
        self.done = True
        self.reqs = []

    def fill(self, status: Status | None) -> None:
        if status is not None:
            status._set(*self.where, self.cancelled)


def completed(obj: Any = None, where: Any = EMPTY) -> Pending:
    p = Pending([])
    p.obj, p.where, p.done = obj, where, True
    return p


def of_proc_null() -> Pending:
    return completed(None, (const.PROC_NULL, const.ANY_TAG, 0))


class Persistent(Thing):
    """What a Prequest names: |run|, once it is started."""

    __slots__ = ("make", "run")

    def __init__(self, make: Callable[[], Pending]) -> None:
        self.make = make
        self.run: Pending | None = None


@translated
class Request(Handle):
    """An operation that was begun."""

    __slots__ = ()

    def _run(self) -> Pending | None:
        """What it waits for; None: nothing."""
        return self._h.run if isinstance(self._h, Persistent) else self._h

    def _end(self) -> Any:
        """It has completed: gives the outcome out."""
        run = self._run()
        if isinstance(self._h, Persistent):
            self._h.run = None
        else:
            self._h = None
        assert run is not None
        if run.error is not None:
            raise run.error
        return run.obj

    # ---- one ---------------------------------------------------------------------------------

    def Wait(self, status: Status | None = None) -> bool:
        self._wait(status)
        return True

    def wait(self, status: Status | None = None) -> Any:
        return self._wait(status)

    def _wait(self, status: Status | None) -> Any:
        run = self._run()
        if run is None:
            if status is not None:
                status._set(*EMPTY)
            return None
        run.wait()
        run.fill(status)
        return self._end()

    def Test(self, status: Status | None = None) -> bool:
        return self._test(status)[0]

    def test(self, status: Status | None = None) -> tuple[bool, Any]:
        return self._test(status)

    def _test(self, status: Status | None) -> tuple[bool, Any]:
        run = self._run()
        if run is not None and not run.test():
            return False, None
        return True, self._wait(status)

    def Get_status(self, status: Status | None = None) -> bool:
        run = self._run()
        if run is None:
            if status is not None:
                status._set(*EMPTY)
            return True
        if not run.test():
            return False
        run.fill(status)
        return True

    get_status = Get_status

    def Cancel(self) -> None:
        run = self._run()
        if run is None:
            raise fail("ERR_REQUEST", "the request is not active")
        for req in run.reqs:
            try:
                req.cancel()
            except nx.NotSupportedError:
                pass  # as MPI allows: it completes

    cancel = Cancel

    def Free(self) -> None:
        self._h = None

    def __await__(self) -> Any:
        run = self._run()
        for req in run.reqs if run is not None else []:
            yield from req.__await__()
        return self.wait()

    # ---- many ----------------------------------------------------------------------------------

    @classmethod
    def Waitall(cls, requests: Any, statuses: list[Status] | None = None) -> bool:
        _all(requests, statuses)
        return True

    @classmethod
    def waitall(cls, requests: Any, statuses: list[Status] | None = None) -> list[Any]:
        return _all(requests, statuses)

    @classmethod
    def Testall(cls, requests: Any, statuses: list[Status] | None = None) -> bool:
        return cls.testall(requests, statuses)[0]

    @classmethod
    def testall(cls, requests: Any, statuses: list[Status] | None = None) -> tuple[bool, Any]:
        runs = [r._run() for r in requests]
        if not all([run is None or run.test() for run in runs]):
            return False, None
        return True, _all(requests, statuses)

    @classmethod
    def Get_status_all(cls, requests: Any, statuses: list[Status] | None = None) -> bool:
        runs = [r._run() for r in requests]
        if not all([run is None or run.test() for run in runs]):
            return False
        for run, status in zip(runs, _room(statuses, len(runs))):
            if run is not None:
                run.fill(status)
        return True

    get_status_all = Get_status_all

    @classmethod
    def Waitany(cls, requests: Any, status: Status | None = None) -> int:
        return cls.waitany(requests, status)[0]

    @classmethod
    def waitany(cls, requests: Any, status: Status | None = None) -> tuple[int, Any]:
        requests = list(requests)
        at = _first(requests, True)
        if at is None:
            if status is not None:
                status._set(*EMPTY)
            return const.UNDEFINED, None
        return at, requests[at]._wait(status)

    @classmethod
    def Testany(cls, requests: Any, status: Status | None = None) -> tuple[int, bool]:
        return cls.testany(requests, status)[:2]

    @classmethod
    def testany(cls, requests: Any, status: Status | None = None) -> tuple[int, bool, Any]:
        requests = list(requests)
        at = _first(requests, False)
        if at is None:
            if status is not None:
                status._set(*EMPTY)
            return const.UNDEFINED, all(r._run() is None for r in requests), None
        return at, True, requests[at]._wait(status)

    @classmethod
    def Get_status_any(cls, requests: Any, status: Status | None = None) -> tuple[int, bool]:
        requests = list(requests)
        at = _first(requests, False)
        if at is None:
            return const.UNDEFINED, all(r._run() is None for r in requests)
        requests[at]._run().fill(status)
        return at, True

    get_status_any = Get_status_any

    @classmethod
    def Waitsome(cls, requests: Any, statuses: list[Status] | None = None) -> list[int] | None:
        done: list[int] | None = cls.waitsome(requests, statuses)[0]
        return done

    @classmethod
    def waitsome(cls, requests: Any, statuses: list[Status] | None = None) -> tuple[Any, Any]:
        requests = list(requests)
        if all(r._run() is None for r in requests):
            return None, None
        _first(requests, True)
        return cls.testsome(requests, statuses)

    @classmethod
    def Testsome(cls, requests: Any, statuses: list[Status] | None = None) -> list[int] | None:
        done: list[int] | None = cls.testsome(requests, statuses)[0]
        return done

    @classmethod
    def testsome(cls, requests: Any, statuses: list[Status] | None = None) -> tuple[Any, Any]:
        requests = list(requests)
        runs = [r._run() for r in requests]
        if all(run is None for run in runs):
            return None, None
        done = [i for i, run in enumerate(runs) if run is not None and run.test()]
        room = _room(statuses, len(done))
        return done, [requests[i]._wait(s) for i, s in zip(done, room)]

    @classmethod
    def Get_status_some(cls, requests: Any, statuses: list[Status] | None = None) -> list[int] | None:
        runs = [r._run() for r in requests]
        if all(run is None for run in runs):
            return None
        done = [i for i, run in enumerate(runs) if run is not None and run.test()]
        for i, status in zip(done, _room(statuses, len(done))):
            runs[i].fill(status)
        return done

    get_status_some = Get_status_some


def _room(statuses: list[Status] | None, n: int) -> list[Any]:
    """A status for each of |n|: the list of the caller becomes that long."""
    if not isinstance(statuses, list):  # a tuple is as long as it is
        given: list[Any] = list(statuses or ())[:n]
        return given + [None] * (n - len(given))
    if statuses is None:
        return [None] * n
    del statuses[n:]
    statuses.extend(Status() for _ in range(n - len(statuses)))
    return statuses


def _all(requests: Any, statuses: list[Status] | None) -> list[Any]:
    requests = list(requests)
    for r in requests:
        run = r._run()
        if run is not None:
            run.wait()
    return [r._wait(s) for r, s in zip(requests, _room(statuses, len(requests)))]


def _first(requests: list[Request], waits: bool) -> int | None:
    """The index of a request that has completed; None: there is none, or none is active."""
    while True:
        active = [(i, r._run()) for i, r in enumerate(requests)]
        left = [(i, run) for i, run in active if run is not None]
        for i, run in left:
            if run.test():
                return i
        if not left or not waits:
            return None
        _request.wait_any([req for _, run in left for req in run.reqs])


REQUEST_NULL = Request()


@translated
class Prequest(Request):
    """A request that can be started again."""

    __slots__ = ()

    def _check(self) -> None:
        if self._h is not None and not isinstance(self._h, Persistent):
            raise TypeError("Prequest: the request is not persistent")

    def Start(self) -> None:
        if not isinstance(self._h, Persistent) or self._h.run is not None:
            raise fail("ERR_REQUEST", "Start: the request is active, or null")
        self._h.run = self._h.make()

    @classmethod
    def Startall(cls, requests: list[Prequest]) -> None:
        for r in requests:
            r.Start()

    @classmethod
    def f2py(cls, number: int) -> Prequest:
        raise missing("Prequest.f2py")


class Grequest(Request):
    """Operations of the program: nexar has none."""

    __slots__ = ()

    def _check(self) -> None:
        if self._h is not None:
            raise TypeError("Grequest: the request is none of the program")

    @classmethod
    def Start(cls, *args: Any, **kwargs: Any) -> Grequest:
        raise missing("Grequest.Start")


class _Matched(Thing):
    __slots__ = ("message",)

    def __init__(self, message: Any) -> None:
        self.message = message


@translated
class Message(Handle):
    """A message that a matched probe has taken."""

    __slots__ = ()

    def _take(self) -> Any:
        if self._h is None:
            raise fail("ERR_REQUEST", "the message is MESSAGE_NULL")
        if self._h is _NO_PROC:
            return None
        return self._h.message

    def Recv(self, buf: Any, status: Status | None = None) -> None:
        self.Irecv(buf).Wait(status)

    def Irecv(self, buf: Any) -> Request:
        message = self._take()
        b = Buffer(buf, "buf", True)
        if message is None:  # MESSAGE_NO_PROC may be received again
            return Request._of(of_proc_null())
        self._h = None
        if b.plain:
            n = message.recv(b.raw())
        else:
            data = message.take()
            n = len(data)
            b.unpack(data)
        return Request._of(completed(None, (message.source, message.tag, n)))

    def recv(self, status: Status | None = None) -> Any:
        return self.irecv().wait(status)

    def irecv(self) -> Request:
        message = self._take()
        if message is None:  # MESSAGE_NO_PROC may be received again
            return Request._of(of_proc_null())
        self._h = None
        return Request._of(completed(*received(message.take(), message.source, message.tag)))

    @classmethod
    def Probe(cls, comm: Any, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
              status: Status | None = None) -> Message:  # fmt: skip
        message: Message = comm.Mprobe(source, tag, status)
        return message

    @classmethod
    def Iprobe(cls, comm: Any, source: int = const.ANY_SOURCE, tag: int = const.ANY_TAG,
               status: Status | None = None) -> Message | None:  # fmt: skip
        message: Message | None = comm.Improbe(source, tag, status)
        return message

    probe, iprobe = Probe, Iprobe


_NO_PROC = _Matched(None)
MESSAGE_NULL = Message()
MESSAGE_NO_PROC = Message._of(_NO_PROC)


def received(data: Any, source: int, tag: int) -> tuple[Any, tuple[int, int, int]]:
    """The object in |data|, and where it came from."""
    return pickle.decode(data), (source, tag, len(data))
