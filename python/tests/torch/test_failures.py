"""Time-outs, mismatches and deaths end with an error that says what happened."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

import nexar.torch._rendezvous


def late(rank: int, size: int) -> None:
    group = dist.new_group(timeout=timedelta(seconds=2))
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match="all_reduce: Timed out after 2000 ms"):
            dist.all_reduce(torch.ones(3), group=group)
        future = dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future()
        with pytest.raises(RuntimeError, match="Timed out"):
            future.wait()
        store.set("gave up", "")
    else:
        store.wait(["gave up"])
    dist.barrier()


def test_an_operation_that_a_rank_does_not_call_times_out(ranks: Any) -> None:
    ranks(2, late)


def mismatched(rank: int, size: int) -> None:
    with pytest.raises(dist.DistBackendError, match="allreduce"):
        dist.all_reduce(torch.ones(3 + rank))
    dist.barrier()


def test_different_calls_are_reported_and_the_group_still_works(ranks: Any) -> None:
    ranks(2, mismatched)


def monitored(rank: int, size: int) -> None:
    store = dist.distributed_c10d._get_default_store()
    dist.monitored_barrier()
    if rank == 0:
        with pytest.raises(RuntimeError, match="Ranks 1, 2 failed to pass monitoredBarrier"):
            dist.monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=True)
        store.set("reported", "")
    else:
        store.wait(["reported"])
    dist.barrier()


def test_a_monitored_barrier_names_the_missing_ranks(ranks: Any) -> None:
    ranks(3, monitored)


def killed(rank: int, size: int) -> float:
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(dist.DistBackendError, match="rank 1"):
        for _ in range(1000000):
            dist.all_reduce(torch.ones(10))
    taken = time.monotonic() - begin
    store = dist.distributed_c10d._get_default_store()
    store.set(f"seen by {rank}", "")  # no survivor leaves before the other one has seen it
    store.wait(["seen by 0", "seen by 2"])
    return taken


def test_a_killed_rank_ends_the_operations_of_the_others_with_its_name(ranks: Any) -> None:
    times = ranks(3, killed, killed=(1,))
    assert max(t for t in times if t is not None) < 60


def revoked(rank: int, size: int) -> float:
    group = dist.new_group()
    store = dist.distributed_c10d._get_default_store()
    tensor = torch.ones(3)
    if rank == 0:
        future = dist.all_reduce(tensor, group=group, async_op=True).get_future()
        nexar.torch._rendezvous.world_of().abort()
        store.set("aborted", "")
        future.wait()
    else:
        store.wait(["aborted"])
        dist.all_reduce(tensor, group=group)
    return float(tensor.sum())


def test_a_future_of_another_group_completes_after_the_world_was_revoked(ranks: Any) -> None:
    assert ranks(2, revoked) == [6.0, 6.0]


def refused(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match="complex"):
        dist.distributed_c10d._get_default_group().allreduce(
            [torch.ones(2, dtype=torch.complex64)],
            _options(dist.ReduceOp.MAX),
        )
    with pytest.raises(ValueError, match="integers"):
        dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND)


def _options(op: Any) -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


def test_what_cannot_be_reduced_is_refused(ranks: Any) -> None:
    ranks(1, refused)
