"""Request, with asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generator, Iterable, NamedTuple

from . import _nexar

if TYPE_CHECKING:
    import asyncio


class Status(NamedTuple):
    """Where a message came from, with which tag, and how many bytes it has."""

    source: int
    tag: int
    bytes: int


class Request(_nexar.Request):
    """An operation that was begun.  ``wait()`` returns what the blocking call returns; in
    asyncio ``await`` does, too.  The request keeps the buffers of the call."""

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.test():
            import asyncio

            loop = asyncio.get_running_loop()
            done: asyncio.Future[None] = loop.create_future()
            watch = _Watch.of(loop, self)
            watch.begin()
            try:
                self._on_done(lambda: _tell(loop, done))
                yield from done
            finally:
                watch.end()
        return self.wait()


def _tell(loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
    """From any thread."""
    try:
        loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(None))
    except RuntimeError:
        pass  # the loop is closed: nobody waits


class _Watch:
    """An event loop that watches the descriptor of a world, while requests of it are awaited."""

    open: dict[tuple[int, int], _Watch] = {}

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self.loop, self.fd, self.users = loop, fd, 0
        self.request: _nexar.Request | None = None

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop, request: Request) -> _Watch:
        fd = request._event_fd()
        watch = cls.open.get((id(loop), fd))
        if watch is None:
            watch = cls.open[id(loop), fd] = cls(loop, fd)
        watch.request = request  # any request of the world polls all of them
        return watch

    def begin(self) -> None:
        self.users += 1
        if self.users == 1:
            self.loop.add_reader(self.fd, self._ready)

    def end(self) -> None:
        self.users -= 1
        if self.users == 0:
            self.loop.remove_reader(self.fd)
            del self.open[id(self.loop), self.fd]

    def _ready(self) -> None:
        assert self.request is not None
        self.request._poll()


def wait_all(reqs: Iterable[Request], timeout: float | None = None) -> list[Any]:
    """Waits for all, and returns their results in order; raises the first error in order, after
    all have ended."""
    import time

    end = None if timeout is None else time.monotonic() + timeout
    results: list[Any] = []
    first: BaseException | None = None
    from ._errors import Error, TimeoutError

    for req in _checked(reqs):
        try:
            left = None if end is None else max(0.0, end - time.monotonic())
            results.append(req.wait(left))
        except TimeoutError as err:
            if end is not None and time.monotonic() >= end:
                raise
            first = first or err
        except Error as err:
            first = first or err
    if first is not None:
        raise first
    return results


def _checked(reqs: Iterable[Request]) -> list[Request]:
    from ._errors import InvalidTypeError

    try:
        every = list(reqs)
    except TypeError:
        raise InvalidTypeError(f"wait_all: reqs is {reqs!r}; an iterable of requests is accepted") from None
    for i, req in enumerate(every):
        if not isinstance(req, _nexar.Request):
            raise InvalidTypeError(f"wait_all: reqs[{i}] is {req!r}; requests are accepted")
    return every


wait_any = _nexar.wait_any
