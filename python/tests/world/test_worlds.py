import asyncio
import os
import signal
import threading

import numpy as np
import pytest

import nexar


def test_communicators(comm):
    r, n = comm.rank, comm.size
    assert comm.host.local_size == comm.split_host().size == n
    sub = comm.split(r % 2, -r)
    assert sub.size == len(range(r % 2, n, 2)) and sub.rank == sub.size - 1 - r // 2
    assert (comm.split(0 if r else None) is None) == (r == 0)
    with comm.dup() as other:
        other.name = "mine"
        assert "mine" in repr(other) and other.allreduce(np.ones(1))[0] == n
    assert other.closed and not comm.closed
    assert comm.agree(6 if r else 3) == 2
    assert comm.failed() == [] and comm.update().changed is False
    assert comm.last_change().failed == 0


def test_timeout_of_a_communicator(comm):
    own = comm.dup()
    own.set_timeout(0.05)
    if comm.rank == 0:
        with pytest.raises(nexar.TimeoutError):
            own.allreduce(np.ones(1))
        for rank in range(1, comm.size):
            comm.send(b"", rank, 78)
    else:
        comm.recv(bytearray(0), 0, 78)
        with pytest.raises(nexar.TimeoutError):
            own.allreduce(np.ones(1))
    own.set_timeout(None)
    comm.barrier()


def test_create(comm):
    r, n = comm.rank, comm.size
    ranks = list(range(n))[::-1]
    with comm.create(ranks) as reverse:
        assert (reverse.rank, reverse.size) == (n - 1 - r, n)
        assert reverse.allreduce(np.ones(1))[0] == n
    if r in (0, n - 1):  # the others know nothing of it
        with comm.create([0, n - 1], tag=5) as ends:
            assert ends.allgather_obj(r) == [0, n - 1]
    if r != 0:
        with pytest.raises(nexar.InvalidError, match="create"):
            comm.create([0])
    comm.barrier()


def test_sync_state(comm):
    r, n = comm.rank, comm.size
    w, b = np.full((2, 2), float(r)), bytearray([r])
    state = {"w": w, "b": b, "step": r, "rate": r / 2, "same": np.ones(3)}
    report = comm.sync_state(state, revision=r)
    assert (report.revision, report.updated, report.differed, report.ranks_updated) == (n - 1, True, 4, n - 1)
    assert report.received == (4 if r < n - 1 else 0)
    assert (w == n - 1).all() and b == bytearray([n - 1])
    assert (state["step"], state["rate"]) == (n - 1, (n - 1) / 2) and state["w"] is w
    again = comm.sync_state(state, 0)
    assert (again.received, again.differed, again.revision) == (0, 0, 0)
    with pytest.raises(nexar.MismatchError, match="a|b"):
        comm.sync_state({"a" if r else "b": w}, 1)
    for bad, says in (([1], "state is list"), ({"x": b"1"}, r"state\['x'\] is read-only"), ({1: w}, "the name 1"),
                      ({"x": "y"}, r"state\['x'\] is str"), ({"x": 2**63}, r"state\['x'\] is 9223")):  # fmt: skip
        with pytest.raises(nexar.InvalidError, match=says):
            comm.sync_state(bad, 1)
    with pytest.raises(nexar.InvalidError, match="revision is -1"):
        comm.sync_state({"w": w}, -1)
    comm.barrier()


def test_rpc(comm):
    r, n = comm.rank, comm.size
    kept = []

    @comm.rpc(7)
    def echo(caller, data):
        kept.append(data)
        if data == b"bad":
            raise ValueError("not this")
        return bytes(data) + str(caller).encode() if data else None

    comm.barrier()
    to = (r + 1) % n
    assert comm.call(to, 7, b"hey") == b"hey%d" % r
    assert comm.call(to, 7, np.frombuffer(b"hey", "u1"), timeout=600.0) == b"hey%d" % r
    assert comm.call(to, 7, b"") == b"" == comm.icall(to, 7).wait()
    with pytest.raises(nexar.RemoteError, match="ValueError: not this"):
        comm.call(to, 7, b"bad")
    with pytest.raises(nexar.NoHandlerError):
        comm.call(to, 8, b"")
    comm.barrier()
    with pytest.raises(ValueError, match="released"):
        bytes(kept[0])


def test_rpc_timeout(comm):
    if comm.rank == 0:
        go = threading.Event()
        comm.rpc(9)(lambda caller, data: go.wait(600) and b"")
        with pytest.raises(nexar.TimeoutError):
            comm.call(0, 9, b"", timeout=0.01)
        go.set()
    comm.barrier()


@pytest.mark.parametrize("call", ["barrier", "allreduce", "broadcast", "dup"])
def test_interrupt_of_collectives(comm, call):
    """Rank 0 is interrupted in a call that waits for the others, which come when it says so."""
    own = comm.dup()
    calls = {
        "barrier": own.barrier,
        "allreduce": lambda: own.allreduce(np.ones(1)),
        "broadcast": lambda: own.broadcast(bytearray(1), 1),
        "dup": own.dup,
    }
    if comm.rank == 0:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            calls[call]()
        for rank in range(1, comm.size):
            comm.send(b"", rank, 77)
    else:
        comm.recv(bytearray(0), 0, 77)
        calls[call]()
    comm.barrier()


def test_asyncio(comm):
    r, n = comm.rank, comm.size

    async def ring(tag):
        buf = np.zeros(1)
        got = comm.irecv(buf, (r - 1) % n, tag)
        await comm.isend(np.full(1, r * 100.0 + tag), (r + 1) % n, tag)
        status = await got
        return status.tag, buf[0]

    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticker = asyncio.create_task(tick())
        done = await asyncio.gather(*(ring(tag) for tag in range(20)))
        total = await comm.iallreduce(np.ones(3))
        reply = await comm.icall((r + 1) % n, 11, b"a")
        never = comm.irecv(np.zeros(1), r, 999)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.ensure_future(awaiting(never)), 0.01)
        never.cancel()
        with pytest.raises(nexar.CanceledError):
            await never
        ticker.cancel()
        return done, total, reply, ticks

    async def awaiting(req):
        return await req

    comm.rpc(11)(lambda caller, data: bytes(data) * 2)
    comm.barrier()
    unclaimed = comm.isend(b"", r, 555)  # completes, and nobody waits for it
    threads = threading.active_count()
    done, total, reply, ticks = asyncio.run(main())
    assert done == [(tag, (r - 1) % n * 100.0 + tag) for tag in range(20)]
    assert total.tolist() == [n] * 3 and reply == b"aa" and ticks > 0
    assert threading.active_count() == threads
    unclaimed.wait()
    comm.recv(bytearray(0), r, 555)
    comm.barrier()


def test_many_threads(comm):
    def work(tag):
        buf = np.zeros(64)
        for i in range(50):
            got = comm.irecv(buf, comm.rank, tag)
            comm.send(np.full(64, float(i)), comm.rank, tag)
            got.wait()
            assert buf[-1] == i
        ended.append(tag)

    ended = []
    threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(ended) == 4
    comm.barrier()
