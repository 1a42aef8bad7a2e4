import numpy as np
import pytest

import nexar


def big(r):
    return {"w": np.arange(200_000.0) + r, "small": np.ones(3), "b": [np.full(5000, r, "i1"), "x" * r]}


def same(a, b):
    return all((a[k] == b[k]).all() for k in ("w", "small")) and a["b"][1] == b["b"][1] and (
        a["b"][0] == b["b"][0]).all()  # fmt: skip


def test_messages(comm):
    r, n = comm.rank, comm.size
    to, source = (r + 1) % n, (r - 1) % n
    for obj in (None, r, "text", b"1" * 100_000, big(r)):
        req = comm.isend_obj(obj, to, 4)
        got, status = comm.recv_obj_status(source)
        req.wait()
        assert (status.source, status.tag) == (source, 4)
        if isinstance(obj, dict):
            assert same(got, big(source))
            got["w"][0] = -1  # it can be written
        elif not isinstance(obj, int):
            assert got == obj
    comm.barrier()


def test_buffers_are_not_copied(comm):
    from nexar import _objects

    a = np.arange(100_000.0)
    meta, buffers = _objects.encode([a, a[:10]])
    assert len(meta) < 1000 and [b.nbytes for b in buffers] == [a.nbytes]
    assert np.shares_memory(np.frombuffer(buffers[0]), a)


def test_collectives(comm):
    r, n = comm.rank, comm.size
    for root in range(n):
        for make in (lambda i: i, lambda i: "x" * 5000 * i, big):
            mine = make(r)
            check = same if isinstance(mine, dict) else (lambda a, b: a == b)
            assert check(comm.bcast_obj(mine if r == root else None, root), make(root))
            got = comm.gather_obj(mine, root)
            assert (got is None) if r != root else all(check(g, make(i)) for i, g in enumerate(got))
            got = comm.scatter_obj([make(i) for i in range(n)] if r == root else None, root)
            assert check(got, mine)
    assert comm.allgather_obj(str(r)) == [str(i) for i in range(n)]
    assert comm.alltoall_obj([(r, i) for i in range(n)]) == [(i, r) for i in range(n)]
    assert comm.allreduce_obj([r]) == list(range(n))
    assert comm.allreduce_obj({r}, op=lambda a, b: a | b) == set(range(n))


def test_a_buffer_is_no_object(comm):
    comm.isend(np.full(4, 7), comm.rank, 1)
    with pytest.raises(nexar.InvalidError, match="sent by send, not send_obj"):
        comm.recv_obj(comm.rank, 1)
