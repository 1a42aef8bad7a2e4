"""nexar.mpi; mpi4py's own tests run by scripts/mpi4py_tests.sh."""

import array
import pickle

import numpy as np
import pytest

import nexar.mpi

nexar.mpi.rc.initialize = False


@pytest.fixture(scope="module")
def mpi(comm):
    """MPI on the world that the other tests use."""
    from nexar.mpi import MPI
    from nexar.mpi._comms import Place

    if not MPI.Is_initialized():
        MPI.COMM_WORLD._h = Place(comm, tuple(range(comm.size)), "MPI_COMM_WORLD", True)
        MPI.COMM_SELF._h = Place(comm.split(comm.rank), (comm.rank,), "MPI_COMM_SELF", True)
    return MPI


def test_buffers(mpi):
    world = mpi.COMM_WORLD
    n, r = world.Get_size(), world.Get_rank()
    out = np.zeros(3)
    world.Allreduce(np.full(3, r + 1.0), [out, mpi.DOUBLE])
    assert out.tolist() == [n * (n + 1) / 2] * 3
    world.Allreduce(mpi.IN_PLACE, out, op=mpi.MAX)
    z = np.full(2, 1j + r, "D")
    world.Allreduce(mpi.IN_PLACE, z, op=mpi.PROD)
    want = np.prod([1j + i for i in range(n)])
    assert np.allclose(z, want)
    everything = np.zeros((n, 2), "i4")
    world.Allgather(array.array("i", [r, -r]), everything)
    assert everything.tolist() == [[i, -i] for i in range(n)]
    counts = [i + 1 for i in range(n)]
    flat = np.full(sum(counts) + 1, -1)
    world.Allgatherv(np.full(r + 1, r), [flat, (counts, [0, *np.cumsum(counts)[:-1] + 1]), mpi.LONG])
    assert flat.tolist() == [0, -1] + [i for i in range(1, n) for _ in range(i + 1)]
    place = np.array([(r * 7 % n, r)], dtype=np.dtype([("v", "f8"), ("k", "i4")], align=True))
    best = np.zeros_like(place)
    world.Allreduce([place, 1, mpi.DOUBLE_INT], [best, 1, mpi.DOUBLE_INT], mpi.MAXLOC)
    assert best["v"][0] == max(i * 7 % n for i in range(n))


def test_operations_of_the_program(mpi):
    world = mpi.COMM_WORLD
    n = world.size

    def halves(a, b, datatype):
        x, y = np.frombuffer(a, "f8"), np.frombuffer(b, "f8")
        y[:] = x + y / 2

    op = mpi.Op.Create(halves)
    out = np.zeros(2)
    world.Allreduce(np.full(2, world.rank + 1.0), out, op)
    want = float(n)
    for i in range(n - 1, 0, -1):
        want = i + want / 2
    assert out.tolist() == [want] * 2
    assert world.allreduce([world.rank], mpi.SUM) == list(range(n))
    op.Free()


def test_types_with_gaps(mpi):
    world = mpi.COMM_WORLD
    n, r = world.size, world.rank
    column = mpi.DOUBLE.Create_vector(3, 1, 4).Create_resized(0, 8).Commit()
    a = np.arange(12.0).reshape(3, 4) + 100 * r
    b = np.zeros((3, 4))
    world.Sendrecv([a, 2, column], (r + 1) % n, 0, [b, 2, column], (r - 1) % n, 0)
    want = np.arange(12.0).reshape(3, 4) + 100 * ((r - 1) % n)
    assert (b[:, :2] == want[:, :2]).all() and (b[:, 2:] == 0).all()
    inner = mpi.INT.Create_subarray([4, 4], [2, 2], [1, 1])
    c = np.arange(16, dtype="i4") if r == 0 else np.zeros(16, "i4")
    world.Bcast([c, 1, inner])
    assert c[[5, 6, 9, 10]].tolist() == [5, 6, 9, 10] and (r == 0 or c.sum() == 30)


def test_messages(mpi):
    world = mpi.COMM_WORLD
    n, r = world.size, world.rank
    to, source = (r + 1) % n, (r - 1) % n
    status = mpi.Status()
    big = {"w": np.arange(100_000.0) + r}
    requests = [world.irecv(source=source, tag=3), world.isend(big, to, 3)]
    got, _ = mpi.Request.waitall(requests)
    assert (got["w"] == np.arange(100_000.0) + source).all()
    request = world.Issend(np.ones(2), to, 4)
    world.Probe(source, 4, status)
    assert status.Get_count(mpi.DOUBLE) == 2 and not request.Test()
    world.Barrier()
    message = world.Mprobe(source, 4)
    buf = np.zeros(2)
    message.Recv(buf)
    request.Wait()
    assert buf.tolist() == [1, 1] and world.recv(source=mpi.PROC_NULL) is None
    half = world.Split(r % 2, r)
    assert half.Get_group().Translate_ranks([half.rank], world.Get_group()) == [r]
    half.Free()


def test_errors(mpi):
    world = mpi.COMM_WORLD
    with pytest.raises(mpi.Exception) as info:
        world.Send(b"", world.size)
    assert info.value.Get_error_class() == mpi.ERR_RANK
    with pytest.raises(mpi.Exception) as info:
        world.bcast(1, root=-1)
    assert info.value.Get_error_class() == mpi.ERR_ROOT
    with pytest.raises(NotImplementedError, match="Intracomm.Create_cart"):
        world.Create_cart([1])
    with pytest.raises(NotImplementedError, match="Win.Create"):
        mpi.Win.Create(None)
    with pytest.raises(ValueError, match="no multiple"):
        world.Bcast([bytearray(7), mpi.DOUBLE])
    with pytest.raises(ValueError, match="needs 16"):
        world.Recv([bytearray(7), 2, mpi.DOUBLE])
    assert not mpi.COMM_NULL and mpi.Compute_dims(12, 2) == [4, 3]


def test_arrays_in_the_order_of_fortran(mpi):
    world = mpi.COMM_WORLD
    a = np.asfortranarray(np.arange(6.0).reshape(2, 3)) if world.rank == 0 else np.zeros((2, 3), order="F")
    world.Bcast(a)
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_float16(mpi):
    world = mpi.COMM_WORLD
    a = np.full(5, world.rank, "f2")
    world.Allreduce(mpi.IN_PLACE, a)
    assert a.tolist() == [sum(range(world.size))] * 5 and mpi.FLOAT16_T.Get_size() == 2


def test_counts_with_a_stride(mpi):
    world = mpi.COMM_WORLD
    n = world.size
    out = np.full(2 * n, -1.0)
    world.Allgatherv(np.full(1, float(world.rank)), [out, (1, 2), mpi.DOUBLE])
    assert out.tolist() == [v for r in range(n) for v in (r, -1)]


def test_operations_of_objects_get_no_datatype(mpi):
    op = mpi.Op.Create(lambda a, b, dt: a + b if dt is None else None, commute=True)
    assert mpi.COMM_WORLD.allreduce([mpi.COMM_WORLD.rank], op) == list(range(mpi.COMM_WORLD.size))
    op.Free()


def test_constants_are_pickled_by_name(mpi):
    for constant in (mpi.COMM_WORLD, mpi.SUM, mpi.DOUBLE, mpi.INFO_NULL, mpi.GROUP_EMPTY):
        assert pickle.loads(pickle.dumps(constant)) is constant
    with pytest.raises(ValueError, match="only the constants"):
        pickle.dumps(mpi.COMM_WORLD.Get_group())
