"""Every wrong argument is an exception that names it, and the communicator can still be used."""

import numpy as np
import pytest

import nexar

A = np.zeros(4)
CASES = [
    ("send", (5, 0), "buf is int"),
    ("send", (None, 0), "buf is NoneType"),
    ("send", (A, -1), "dest is -1"),
    ("send", (A, 1), "dest is 1; 0 to 0"),
    ("send", (A, "0"), "dest is '0'"),
    ("send", (A, 10**30), "dest is 1000"),
    ("send", (A, 0, -1), "tag is -1"),
    ("send", (A, 0, 2**64 - 1), "tag"),
    ("send", (A[::2], 0), "buf is not contiguous"),
    ("send", (np.array([None]), 0), "buf"),
    ("recv", (b"xx",), "buf is read-only"),
    ("recv", (A, -2), "source is -2"),
    ("allreduce", (A[::2],), "buf is not contiguous"),
    ("allreduce", (np.array(["a"]),), "buf has elements"),
    ("allreduce", (np.zeros(2, bool),), "buf has elements of bool"),
    ("allreduce", (A, None, "plus"), "op is 'plus'"),
    ("allreduce", (A, None, 3), "op is 3"),
    ("allreduce", (A, np.zeros(3)), "out has 3 elements"),
    ("allreduce", (A, np.zeros(4, "f4")), "out has elements of f32"),
    ("allreduce", (None,), "buf is None"),
    ("broadcast", (A, 1), "root is 1"),
    ("allgatherv", (A, [3]), "counts"),
    ("allgatherv", (A, [1, 2]), "counts has 2"),
    ("allgatherv", (A, None), "counts is None"),
    ("alltoallv", (A, [4], [-1]), r"recvcounts\[0\]"),
    ("allreduce_compressed", (A, "zip"), "how is 'zip'"),
    ("allreduce_compressed", (A, "int8", np.zeros(3)), "residual has 3"),
    ("allreduce_bucketed", ([A, np.zeros(1, "f4")],), r"bufs\[1\]"),
    ("allreduce_rs_ag", (A, 7), "on_shard is 7"),
    ("sendrecv", (5, 0, A, 0), "sendrecv: sendbuf is int"),
    ("sendrecv", (A, 0, b"1", 0), "sendrecv: recvbuf is read-only"),
    ("call", (0, 70000, b""), "fn_id is 70000"),
    ("call", (0, 7, 5), "data is int"),
    ("call", (0, 7, b"", -1.0), "timeout is -1.0"),
    ("recv_obj", (4,), "source is 4"),
    ("bcast_obj", (1, 4), "root is 4"),
    ("scatter_obj", ([1, 2],), "objs has 2"),
    ("scatter", (5,), "buf is int"),
    ("scatter", (None,), "buf is None"),
    ("iscatter", (A, None, 1), "root is 1"),
    ("scatterv", (A, 5), "counts is 5"),
    ("iscatterv", (A, ["a"]), "counts is"),
    ("gather_obj", (1, "a"), "root is 'a'"),
    ("allgatherv", (A, 5), "counts is 5"),
    ("allreduce_bucketed", (3,), "bufs is 3"),
    ("allreduce_compressed", (np.zeros(1, "f4"), "int8", None, "avg", "a"), "ratio is 'a'"),
    ("allreduce_compressed", (np.zeros(1, "i4"),), "dtype i32"),
    ("sendrecv", (A, 0, A, 0, -4), "sendtag is -4"),
    ("sendrecv", (A, 0, A, 0, 0, -4), "recvtag is -4"),
    ("on_failure", (3,), "fn is 3"),
    ("set_timeout", (-1,), "timeout is -1"),
    ("set_timeout", ("a",), "timeout is 'a'"),
    ("on_change", (3,), "fn is 3"),
    ("agree", ("a",), "flags is 'a'"),
    ("split", (-3,), "color is -3"),
    ("abort", (0,), "code is 0; 1 to 125"),
    ("abort", (1, 5), "why is 5"),
    ("create", (3,), "ranks is 3"),
    ("create", ([1],), r"ranks\[0\] is 1; 0 to 0"),
    ("create", (["a"],), r"ranks\[0\] is 'a'"),
    ("create", ([0, 0],), "twice"),
    ("create", ([0], -1), "tag is -1"),
    ("probe", (4,), "source is 4"),
    ("improbe", (0, -1), "tag is -1"),
]


@pytest.mark.parametrize("call, args, says", CASES, ids=[f"{c}-{i}" for i, (c, _, _) in enumerate(CASES)])
def test_refused(world, call, args, says):
    with pytest.raises(nexar.InvalidError, match=says) as info:
        getattr(world, call)(*args)
    assert info.value.message.startswith((call, "comm_" + call)) and info.value.scope == "op"
    if "is int" in says:
        assert isinstance(info.value, TypeError)


@pytest.fixture(scope="module")
def world():
    with nexar.init() as comm:
        yield comm
        assert comm.allreduce(np.ones(2)).tolist() == [1, 1]


def test_arguments_by_name(world):
    with pytest.raises(TypeError, match="allreduce: unexpected keyword argument 'opp'"):
        world.allreduce(A, opp="sum")
    with pytest.raises(TypeError, match="send: dest is missing"):
        world.send(A)
    with pytest.raises(TypeError, match="buf is given twice"):
        world.send(A, 0, buf=A)
    with pytest.raises(TypeError, match="at most 3"):
        world.send(A, 0, 0, 0)


def test_functions_of_the_module(world):
    for call, says in (
        (lambda: nexar.wait_all(3), "reqs is 3"),
        (lambda: nexar.wait_all([3]), r"reqs\[0\] is 3"),
        (lambda: nexar.wait_any(3), "reqs is 3"),
        (lambda: nexar.op_create(5, print), "fn is <built-in"),
        (lambda: nexar.op_create(0, 0), "fn is 0"),
        (lambda: nexar.op_create(1024, 1), "id is 1024; 0 to 1023"),
        (lambda: world.rpc(7)(3), "fn is 3"),
        (lambda: setattr(world, "name", 3), "name: a str"),
    ):
        with pytest.raises(nexar.InvalidError, match=says):
            call()


def test_a_tensor_that_gives_no_memory_is_named(world):
    class Tensor:
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self):
            raise BufferError("it requires gradients")

    with pytest.raises(nexar.InvalidError, match="buf gives no memory: it requires gradients"):
        world.allreduce(Tensor())


def test_closed():
    comm = nexar.init()
    sub = comm.dup()
    comm.close()
    comm.close()
    for dead in (comm, sub):
        assert dead.closed
        for call in (lambda: dead.rank, lambda: dead.send(A, 0), dead.barrier, dead.failed, dead.dup):
            with pytest.raises(nexar.InvalidError, match="the communicator is closed"):
                call()
