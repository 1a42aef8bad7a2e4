import array
import ctypes
import shutil
import subprocess

import numpy as np
import pytest

import nexar

TYPES = ["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


@pytest.mark.parametrize("dtype", TYPES)
def test_allreduce(comm, dtype):
    n = comm.size
    mine = np.full((2, 3), comm.rank + 1, dtype)
    out = np.zeros((2, 3), dtype)
    assert comm.allreduce(mine, out) is out
    assert (out == n * (n + 1) // 2).all() and (mine == comm.rank + 1).all()
    assert comm.allreduce(mine, op="max") is mine
    assert (mine == n).all()
    req = comm.iallreduce(np.ones(2, dtype), op="prod")
    assert req.wait().tolist() == [1, 1] and req.test()


def test_bfloat16(comm):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.full(3, comm.rank + 0.5, ml_dtypes.bfloat16)
    assert comm.allreduce(a).astype("f4").tolist() == [sum(r + 0.5 for r in range(comm.size))] * 3
    assert comm.allgather(a).dtype == ml_dtypes.bfloat16


def test_bool_and_opaque(comm):
    a = np.array([comm.rank == 0, True])
    assert comm.allreduce(a, op="band").tolist() == [False, True]
    record = np.zeros(2, dtype=[("a", "i4"), ("b", "f8")])
    record["b"] = comm.rank
    assert comm.broadcast(record, comm.size - 1)["b"].tolist() == [comm.size - 1] * 2
    z = comm.allgather(np.array([1j * comm.rank]))
    assert z.ravel().tolist() == [1j * r for r in range(comm.size)]


def test_dlpack_and_array_interface(comm):
    class Tensor:
        def __init__(self, a):
            self.a = a

        def __dlpack__(self, **kw):
            return self.a.__dlpack__()

        def __dlpack_device__(self):
            return self.a.__dlpack_device__()

    class Interface:
        def __init__(self, a):
            self.__array_interface__ = a.__array_interface__
            self.a = a

    for wrap in (Tensor, Interface):
        for dtype in ("f4", "f8", "f2", "i8", "u1"):
            a = np.ones(3, dtype)
            comm.allreduce(wrap(a))
            assert a.tolist() == [comm.size] * 3, (wrap, dtype)
        with pytest.raises(nexar.InvalidError, match="buf is not contiguous"):
            comm.allreduce(wrap(np.ones((4, 4))[:, ::2]))
        with pytest.raises(nexar.InvalidError, match="out has elements of f32"):
            comm.allreduce(np.ones(1), wrap(np.ones(1, "f4")))


def test_other_buffers(comm):
    a = array.array("i", [comm.rank, 1])
    assert comm.allreduce(a) is a and a[1] == comm.size
    assert comm.allgather(array.array("d", [comm.rank])).tolist() == list(range(comm.size))
    b = bytearray(b"xyz") if comm.rank == 0 else bytearray(3)
    assert comm.broadcast(b) == b"xyz"
    assert comm.broadcast(memoryview(b).toreadonly() if comm.rank == 0 else b) == b"xyz"


def test_rooted(comm):
    n, r = comm.size, comm.rank
    last = n - 1
    got = comm.reduce(np.full(2, r + 1.0), root=last)
    assert (got is None) if r != last else got.tolist() == [n * (n + 1) / 2] * 2
    got = comm.gather(np.full((2, 2), r), root=last)
    assert (got is None) if r != last else (got.shape == (n, 2, 2) and (got[1] == 1).all())
    out = np.zeros(n) if r == 0 else None
    assert (comm.gather(np.full(1, float(r)), out) is out) and (r or out.tolist() == list(range(n)))
    whole = np.arange(n * 4).reshape(n, 4) if r == last else None
    assert comm.scatter(whole, root=last).tolist() == list(range(4 * r, 4 * r + 4))
    assert comm.scatter(whole, np.zeros(4, int), last)[0] == 4 * r
    counts = [i + 1 for i in range(n)]
    flat = np.arange(sum(counts)) if r == 0 else None
    mine = comm.scatterv(flat, counts if r == 0 else None)
    assert mine.tolist() == list(range(sum(counts[:r]), sum(counts[: r + 1])))
    back = comm.gatherv(mine, counts if r == 0 else None)
    assert (back is None) if r else back.tolist() == flat.tolist()


def test_unrooted(comm):
    n, r = comm.size, comm.rank
    assert comm.allgather(np.array([r, -r])).tolist() == [[i, -i] for i in range(n)]
    assert comm.allgather(np.array(r)).tolist() == list(range(n))
    assert comm.reduce_scatter(np.arange(2.0 * n)).tolist() == [2 * r * n, (2 * r + 1) * n]
    assert comm.alltoall(np.arange(n) + 10 * r).tolist() == [10 * i + r for i in range(n)]
    assert comm.scan(np.array([r + 1])).tolist() == [(r + 1) * (r + 2) // 2]
    assert comm.exscan(np.array([r + 1])).tolist() == [r * (r + 1) // 2]
    counts = [i + 1 for i in range(n)]
    got = comm.allgatherv(np.full(r + 1, r), counts)
    assert got.tolist() == [i for i in range(n) for _ in range(i + 1)]
    assert comm.reduce_scatterv(np.ones(sum(counts)), counts).tolist() == [n] * (r + 1)
    got = comm.alltoallv(np.full(n * (r + 1), r), [r + 1] * n, counts)
    assert got.tolist() == [i for i in range(n) for _ in range(i + 1)]


def test_iscatter_makes_its_array(comm):
    n, r = comm.size, comm.rank
    whole = np.arange(2.0 * n).reshape(n, 2) if r == n - 1 else None
    assert comm.iscatter(whole, root=n - 1).wait().tolist() == [2 * r, 2 * r + 1]
    counts = [i + 1 for i in range(n)]
    flat = np.arange(sum(counts), dtype="i2") if r == 0 else None
    mine = comm.iscatterv(flat, counts if r == 0 else None).wait()
    assert mine.dtype == np.int16 and mine.tolist() == list(range(sum(counts[:r]), sum(counts[: r + 1])))


def test_reduction_in_native_code(comm, tmp_path):
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    source, library = tmp_path / "op.c", tmp_path / "op.so"
    source.write_text(
        "#include <stddef.h>\n#include <stdlib.h>\n"
        "void largest(void *io, const void *in, size_t n, int t, void *a)\n"
        "{ int *x = io; const int *y = in; (void)t; (void)a;\n"
        "  for (size_t i = 0; i < n; i++) if (abs(y[i]) > abs(x[i])) x[i] = y[i]; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    fn = ctypes.CDLL(str(library)).largest
    op = nexar.op_create(3, ctypes.cast(fn, ctypes.c_void_p).value)
    a = np.array([-10 * (comm.rank + 1), 5], "i4")
    assert comm.allreduce(a, op=op).tolist() == [-10 * comm.size, 5]
    with pytest.raises(nexar.InvalidError, match="3"):
        nexar.op_create(3, op.__class__(1))
    comm.barrier()


def test_probes(comm):
    r, n = comm.rank, comm.size
    left, right = (r - 1) % n, (r + 1) % n
    assert comm.iprobe(left, 31) is None and comm.improbe(left, 31) is None
    comm.barrier()
    comm.isend(np.full(3, float(r)), right, 31)
    comm.isend_obj({"from": r}, right, 32)
    assert comm.probe(left, 31) == nexar.Status(left, 31, 24)
    message = comm.mprobe(left, 31)
    assert (message.source, message.tag, message.bytes) == (left, 31, 24) and "24 bytes" in repr(message)
    assert comm.iprobe(left, 31) is None
    buf = np.zeros(3)
    assert message.recv(buf) == nexar.Status(left, 31, 24) and buf[2] == left
    with pytest.raises(nexar.InvalidError, match="received before"):
        message.recv(buf)
    assert comm.mprobe(left, 32).recv_obj() == {"from": left}
    comm.barrier()


def test_requests(comm):
    n, r = comm.size, comm.rank
    reqs = [comm.ibarrier(), comm.iallgather(np.array([r])), comm.ibroadcast(np.full(1, r), 1),
            comm.ireduce_scatter(np.ones(n)), comm.ialltoall(np.arange(n)), comm.iscan(np.ones(1))]  # fmt: skip
    done = nexar.wait_all(reqs)
    assert done[0] is None and done[1].ravel().tolist() == list(range(n)) and done[2][0] == 1
    with pytest.raises(nexar.NotSupportedError):
        req = comm.ibarrier()
        try:
            req.cancel()
        finally:
            req.wait()


def test_messages(comm):
    r, other = comm.rank, comm.rank ^ 1
    if r > 1:
        return
    a = np.arange(3.0) + r
    b = np.zeros(3)
    assert comm.sendrecv(a, other, b, other, 5, 5) == nexar.Status(other, 5, 24)
    assert b.tolist() == [other, other + 1, other + 2]
    reqs = [comm.irecv(np.zeros(1), other, tag) for tag in (1, 2)]
    comm.sendrecv(b"", other, bytearray(0), other, 3, 3)
    comm.send(np.ones(1), other, 2)
    assert nexar.wait_any(reqs) == 1
    comm.sendrecv(b"", other, bytearray(0), other, 3, 3)
    comm.send(np.ones(1), other, 1)
    assert nexar.wait_any(reqs) == 0
    with pytest.raises(nexar.InvalidError, match="all have been waited for"):
        nexar.wait_any(reqs)
    comm.isend(np.ones(8), other, 6)
    with pytest.raises(nexar.TruncatedError):
        comm.recv(b, other, 6)


def test_special_allreduces(comm):
    n = comm.size
    arrays = [np.full(k, float(comm.rank)) for k in (1, 5)]
    comm.allreduce_bucketed(arrays)
    assert [a[0] for a in arrays] == [(n - 1) / 2] * 2
    residual = np.zeros(1000, "f4")
    x = np.linspace(0, 1, 1000, dtype="f4")
    assert comm.allreduce_compressed(x, residual=residual) is x
    assert np.allclose(x + residual, np.linspace(0, 1, 1000), atol=1e-5)
    seen = []
    y = np.ones(10)

    def on_shard(shard, offset):
        seen.append((offset, len(shard)))
        shard *= 2

    assert comm.allreduce_rs_ag(y, on_shard, op="sum").tolist() == [2 * n] * 10
    assert len(seen) == 1
    assert comm.iallreduce_rs_ag(y, op="avg").wait() is y

    def fails(shard, offset):
        raise KeyError("mine") if comm.rank == 0 else ZeroDivisionError

    with pytest.raises((KeyError, ZeroDivisionError, nexar.RemoteError)):
        comm.allreduce_rs_ag(y, fails)


def test_mismatch(comm):
    with pytest.raises(nexar.MismatchError, match="^allreduce"):
        comm.allreduce(np.ones(1 + comm.rank % 2))
    comm.barrier()
