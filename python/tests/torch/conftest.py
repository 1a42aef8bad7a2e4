"""Ranks for tests: processes by fork(), so that torch is imported once."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

import nexar.torch

torch.set_num_threads(1)
TIMEOUT = timedelta(seconds=300)


def _rank(body: Callable[..., Any], rank: int, size: int, where: str, out: Any, args: Any) -> None:
    try:
        dist.init_process_group(
            "nexar", init_method=where, rank=rank, world_size=size, timeout=TIMEOUT
        )
        result = body(rank, size, *args)
        dist.destroy_process_group()
        out.send((True, result))
    except BaseException:
        out.send((False, traceback.format_exc()))
    finally:
        out.close()
        os._exit(0)


def _collect(processes: list[Any], pipes: list[Any], killed: tuple[int, ...]) -> list[Any]:
    results: list[Any] = []
    failures: list[str] = []
    for rank, (process, pipe) in enumerate(zip(processes, pipes)):
        try:
            good, result = pipe.recv() if pipe.poll(300) else (False, "no answer")
        except EOFError:
            good, result = rank in killed, None
        results.append(result if good else None)
        if not good:
            failures.append(f"rank {rank}: {result}")
        process.join(10)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
    assert not failures, "\n".join(failures)
    return results


@pytest.fixture
def ranks(tmp_path: Any) -> Callable[..., list[Any]]:
    """ranks(n, body, ...) runs body(rank, n, ...) on n ranks and returns their results."""

    stores = itertools.count()

    def run(size: int, body: Callable[..., Any], *args: Any, killed: tuple[int, ...] = ()) -> Any:
        nexar.torch.load()
        context = multiprocessing.get_context("fork")
        where = f"file://{tmp_path}/store{next(stores)}"
        processes, pipes = [], []
        for rank in range(size):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_rank, args=(body, rank, size, where, theirs, args))
            process.start()
            theirs.close()
            processes.append(process)
            pipes.append(ours)
        return _collect(processes, pipes, killed)

    return run
