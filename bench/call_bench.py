"""What one call takes between two ranks, in Python: call_bench.py nexar|facade|mpi4py.

The cases of call_bench.c, and of objects: a dict with an array.  Each line: a case, its bytes,
microseconds (the median of the batches).
"""

from __future__ import annotations

import sys
from statistics import median
from time import perf_counter
from typing import Any, Callable

import numpy as np

BATCHES, WINDOW = 21, 32
SIZES = (8, 1 << 10, 64 << 10, 1 << 20, 64 << 20)


class Nexar:
    def __init__(self) -> None:
        import nexar

        self.comm = nexar.init()
        c = self.comm
        self.rank, self.barrier, self.send, self.recv, self.isend = c.rank, c.barrier, c.send, c.recv, c.isend
        self.send_obj, self.recv_obj, self.broadcast, self.end = c.send_obj, c.recv_obj, c.broadcast, c.close

    def allreduce(self, a: Any) -> None:
        self.comm.allreduce(a, op="max")


class Mpi:
    """mpi4py, or the facade of nexar."""

    def __init__(self, mpi: Any) -> None:
        self.mpi, self.comm = mpi, mpi.COMM_WORLD
        c = self.comm
        self.rank, self.barrier, self.send, self.recv = c.Get_rank(), c.Barrier, c.Send, c.Recv
        self.isend, self.send_obj, self.recv_obj, self.broadcast = c.Isend, c.send, c.recv, c.Bcast

    def allreduce(self, a: Any) -> None:
        self.comm.Allreduce(self.mpi.IN_PLACE, a, self.mpi.MAX)

    def end(self) -> None:
        self.mpi.Finalize()


def world_of(name: str) -> Any:
    if name == "nexar":
        return Nexar()
    if name == "facade":
        from nexar.mpi import MPI
    else:
        from mpi4py import MPI
    return Mpi(MPI)


def calls_of(size: int) -> int:
    return 200 if size <= 64 << 10 else 20 if size <= 1 << 20 else 1


def report(w: Any, case: str, size: int, seconds: list[float], per: float) -> None:
    if w.rank == 0:
        print(case, size, f"{median(seconds) / per * 1e6:.3f}", flush=True)


def measure(w: Any, case: str, make: Callable[[int], Callable[[], Any]], halves: int = 1) -> None:
    for size in SIZES:
        call, n, took = make(size), calls_of(size), []
        for _ in range(BATCHES + 1):
            w.barrier()
            begin = perf_counter()
            for _ in range(n):
                call()
            took.append(perf_counter() - begin)
        report(w, case, size, took[1:], n * halves)


def exchange(w: Any, a: Any) -> Callable[[], None]:
    def first() -> None:
        w.send(a, 1, 1)
        w.recv(a, 1, 1)

    def second() -> None:
        w.recv(a, 0, 1)
        w.send(a, 0, 1)

    return second if w.rank else first


def exchange_objects(w: Any, obj: Any) -> Callable[[], None]:
    def first() -> None:
        w.send_obj(obj, 1, 1)
        w.recv_obj(source=1, tag=1)

    def second() -> None:
        w.recv_obj(source=0, tag=1)
        w.send_obj(obj, 0, 1)

    return second if w.rank else first


def measure_isend(w: Any) -> None:
    a, took = np.zeros(1), []
    for _ in range(BATCHES + 1):
        if w.rank == 0:
            begin = perf_counter()
            for _ in range(WINDOW):
                w.isend(a, 1, 2).wait()
            took.append(perf_counter() - begin)
            w.recv(a, 1, 3)
        else:
            for _ in range(WINDOW):
                w.recv(a, 0, 2)
            w.send(a, 0, 3)
    if took:
        report(w, "isend", 8, took[1:], WINDOW)


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in ("nexar", "facade", "mpi4py"):
        sys.exit("usage: nexar run -n 2 --no-prefix python3 call_bench.py nexar|facade|mpi4py")
    w = world_of(sys.argv[1])
    measure(w, "allreduce", lambda n: (lambda a: lambda: w.allreduce(a))(np.zeros(n // 8)))
    measure(w, "broadcast", lambda n: (lambda a: lambda: w.broadcast(a, 0))(np.zeros(n // 8)))
    measure(w, "exchange", lambda n: exchange(w, np.zeros(n // 8)), 2)
    measure(w, "objects", lambda n: exchange_objects(w, {"step": 3, "x": np.zeros(n // 8)}), 2)
    measure_isend(w)
    w.end()


if __name__ == "__main__":
    main()
