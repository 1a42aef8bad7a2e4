"""Every operation gives what Gloo gives, on the same tensors."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

NUMBERS = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int32,
    torch.int64, torch.uint8,
]  # fmt: skip
OPS = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]
BITS = [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]


def made(rank: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(1, 5, (count,), generator=generator).to(dtype)


def same(case: str, ours: torch.Tensor, gloos: torch.Tensor) -> None:
    assert torch.equal(ours, gloos), f"{case}: {ours} is not {gloos}"


def reductions(rank: int, size: int) -> None:
    gloo = dist.new_group(backend="gloo")
    for dtype in NUMBERS:
        for op in OPS + ([] if dtype.is_floating_point else BITS):
            case = f"{dtype} {op}"
            mine, theirs = made(rank, 37, dtype), made(rank, 37, dtype)
            dist.all_reduce(mine, op)
            dist.all_reduce(theirs, op, group=gloo)
            same("all_reduce " + case, mine, theirs)
            mine, theirs = made(rank, 5, dtype), made(rank, 5, dtype)
            dist.reduce(mine, size - 1, op)
            dist.reduce(theirs, size - 1, op, group=gloo)
            if rank == size - 1:
                same("reduce " + case, mine, theirs)
    for op, expected in [(dist.ReduceOp.SUM, True), (dist.ReduceOp.PRODUCT, False)]:
        flag = torch.tensor([rank == 0])
        dist.all_reduce(flag, op)
        assert flag.item() is expected
    average = torch.full((3,), float(rank))
    dist.all_reduce(average, dist.ReduceOp.AVG)
    same("avg", average, torch.full((3,), (size - 1) / 2))
    scaled = torch.ones(3)
    dist.all_reduce(scaled, dist._make_nccl_premul_sum(2.0))
    same("premul", scaled, torch.full((3,), 2.0 * size))
    complexes = torch.full((4,), complex(rank, 1))
    dist.all_reduce(complexes)
    same("complex", complexes, torch.full((4,), complex(size * (size - 1) / 2, size)))


def test_reductions_equal_those_of_gloo_for_every_type(ranks: Any) -> None:
    ranks(3, reductions)


def blocks(rank: int, size: int) -> None:
    gloo = dist.new_group(backend="gloo")
    for dtype in NUMBERS:
        mine = made(rank, 4, dtype)
        lists = []
        for group in (None, gloo):
            out = [torch.empty(4, dtype=dtype) for _ in range(size)]
            dist.all_gather(out, mine, group=group)
            flat = torch.empty(4 * size, dtype=dtype)
            dist.all_gather_into_tensor(flat, mine, group=group)
            got = [torch.empty(4, dtype=dtype) for _ in range(size)] if rank == 1 else None
            dist.gather(mine, got, dst=1, group=group)
            part = torch.empty(4, dtype=dtype)
            dist.scatter(part, out if rank == 1 else None, src=1, group=group)
            sent = mine.clone()
            dist.broadcast(sent, 1, group=group)
            lists.append([*out, flat, *(got or []), part, sent])
        for ours, gloos in zip(*lists):
            same(f"blocks of {dtype}", ours, gloos)
    for dtype in (torch.bool, torch.complex64, torch.float8_e4m3fn):
        out = [torch.empty(4, dtype=dtype) for _ in range(size)]
        dist.all_gather(out, made(rank, 4, dtype))
        for i, ours in enumerate(out):
            same(f"blocks of {dtype}", ours.view(torch.uint8), made(i, 4, dtype).view(torch.uint8))


def test_blocks_arrive_as_with_gloo_for_every_type(ranks: Any) -> None:
    ranks(3, blocks)


def scattered(rank: int, size: int) -> None:
    out = torch.empty(2)
    dist.reduce_scatter(out, [torch.full((2,), float(rank + i)) for i in range(size)])
    total = size * (size - 1) / 2
    same("reduce_scatter", out, torch.full((2,), total + size * rank))
    whole = torch.arange(2.0 * size)
    dist.reduce_scatter_tensor(out, whole)
    same("reduce_scatter_tensor", out, size * torch.arange(2.0 * rank, 2.0 * rank + 2))
    uneven = torch.empty(rank + 1)
    dist.reduce_scatter(uneven, [torch.full((i + 1,), 1.0) for i in range(size)])
    same("uneven reduce_scatter", uneven, torch.full((rank + 1,), float(size)))
    lists = [torch.empty(i + 1) for i in range(size)]
    dist.all_gather(lists, torch.full((rank + 1,), float(rank)))
    for i, tensor in enumerate(lists):
        same("uneven all_gather", tensor, torch.full((i + 1,), float(i)))


def exchanged(rank: int, size: int) -> None:
    out = torch.empty(size)
    dist.all_to_all_single(out, torch.arange(float(size)) + 10 * rank)
    same("all_to_all_single", out, 10 * torch.arange(float(size)) + rank)
    sent = [i + 1 for i in range(size)]
    matrix = torch.full((sum(sent), 2), float(rank))
    out = torch.empty((rank + 1) * size, 2)
    dist.all_to_all_single(out, matrix, [rank + 1] * size, sent)
    same("uneven", out, torch.arange(float(size)).repeat_interleave(rank + 1)[:, None].expand(-1, 2))
    lists = [torch.empty(rank + 1) for _ in range(size)]
    dist.all_to_all(lists, [torch.full((i + 1,), float(rank)) for i in range(size)])
    for i, tensor in enumerate(lists):
        same("all_to_all", tensor, torch.full((rank + 1,), float(i)))


def test_blocks_of_different_lengths_arrive(ranks: Any) -> None:
    ranks(3, scattered)
    ranks(3, exchanged)


def layouts(rank: int, size: int) -> None:
    column = torch.zeros(4, 3)
    view = column[:, 1]
    view.fill_(rank + 1.0)
    dist.all_reduce(view)
    same("column", column[:, 1], torch.full((4,), size * (size + 1) / 2))
    assert column[:, 0].sum() == 0 and column[:, 2].sum() == 0
    image = torch.full((2, 3, 4, 4), float(rank)).to(memory_format=torch.channels_last)
    dist.broadcast(image, 1)
    same("channels_last", image, torch.ones(2, 3, 4, 4))
    empty = torch.empty(0)
    dist.all_reduce(empty)
    a, b = torch.full((3,), 1.0), torch.full((2, 2), 2.0)
    dist.all_reduce_coalesced([a, b])
    same("coalesced", b, torch.full((2, 2), 2.0 * size))
    sparse = torch.sparse_coo_tensor([[rank, 3]], [1.0, 2.0], (4,))
    dist.all_reduce(sparse)
    dense = sparse.to_dense()
    assert dense[rank] >= 1 and dense[3] == 2 * size, dense


def test_strided_sparse_and_empty_tensors_are_reduced(ranks: Any) -> None:
    ranks(2, layouts)


def messages(rank: int, size: int) -> None:
    right, left = (rank + 1) % size, (rank - 1) % size
    got = torch.empty(3)
    requests = [dist.isend(torch.full((3,), float(rank)), right, tag=5), dist.irecv(got, left, tag=5)]
    for request in requests:
        request.wait()
    same("ring", got, torch.full((3,), float(left)))
    if rank == 0:
        senders = {dist.recv(got, tag=7) for _ in range(size - 1)}
        assert senders == set(range(1, size)), senders
    else:
        dist.send(got, 0, tag=7)
    halves = torch.zeros(4, 2)
    if rank == 1:
        dist.send(torch.arange(4.0), 0)
    elif rank == 0:
        dist.recv(halves[:, 1], 1)
        same("strided recv", halves[:, 1], torch.arange(4.0))
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    names = ["from 1"] if rank == 1 else [None]
    dist.broadcast_object_list(names, src=1)
    assert names == ["from 1"]


def test_messages_and_objects_arrive(ranks: Any) -> None:
    ranks(3, messages)


def asynchronous(rank: int, size: int) -> None:
    tensors = [torch.full((1000,), float(i)) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    seen = [work.get_future().then(lambda f: f.value()[0].sum().item()) for work in works[::2]]
    for work in reversed(works):
        assert work.wait()
        assert work.is_completed() and work.is_success()
    assert [future.wait() for future in seen] == [1000.0 * i * size for i in range(0, 20, 2)]
    dropped = torch.ones(100000)
    dist.all_reduce(dropped, async_op=True)  # nobody waits
    dist.barrier()


def test_operations_run_in_the_background_and_complete_futures(ranks: Any) -> None:
    ranks(2, asynchronous)


def groups(rank: int, size: int) -> None:
    low, high = dist.new_group([0, 1]), dist.new_group([size - 1, 1])
    ones = torch.ones(3)
    if rank < 2:
        dist.all_reduce(ones, group=low)
        assert ones[0] == 2
    if rank in (1, size - 1):
        part = torch.tensor([float(rank)])
        dist.broadcast(part, size - 1, group=high)
        assert part.item() == size - 1
    both = dist.new_group(backend="nexar")
    dist.all_reduce(ones, group=both)
    dist.destroy_process_group(both)
    dist.barrier()


def test_groups_contain_their_members_only(ranks: Any) -> None:
    ranks(4, groups)
