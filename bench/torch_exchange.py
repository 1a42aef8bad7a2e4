#!/usr/bin/env python3
"""torch_exchange.py [--ranks N] [--rounds N] - the gradient exchange of a network like ResNet-50 by
torch.distributed: nexar beside Gloo, alternating, in the same processes.

102 MB of float32 in the buckets of DDP (1 MiB, then 25 MiB), all in flight at once.  Prints the
median time of an exchange for each, and their ratio.  Needs torch, and nexar on PYTHONPATH."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist

import nexar.torch

PARAMETERS = 25_557_032
FIRST, BUCKET = (1 << 20) // 4, (25 << 20) // 4


def buckets() -> list[torch.Tensor]:
    sizes, left = [FIRST], PARAMETERS - FIRST
    while left > 0:
        sizes.append(min(left, BUCKET))
        left -= sizes[-1]
    return [torch.ones(size) for size in sizes]


def exchange(tensors: list[torch.Tensor], group: dist.ProcessGroup) -> float:
    dist.barrier(group=group)
    begin = time.perf_counter()
    for future in [
        dist.all_reduce(tensor, group=group, async_op=True).get_future() for tensor in tensors
    ]:
        future.wait()
    return time.perf_counter() - begin


def rank_main(rank: int, options: argparse.Namespace, where: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "nexar", init_method=f"file://{where}", rank=rank, world_size=options.ranks
    )
    groups = {"gloo": dist.new_group(backend="gloo"), "nexar": dist.group.WORLD}
    times: dict[str, list[float]] = {name: [] for name in groups}
    tensors = buckets()
    for turn in range(options.rounds + 1):  # the first one warms up
        for name, group in groups.items():
            taken = torch.tensor([exchange(tensors, group)])
            dist.all_reduce(taken, dist.ReduceOp.MAX)
            if turn > 0:
                times[name].append(float(taken))
            for tensor in tensors:
                tensor.fill_(1.0)
    if rank == 0:
        gloo, nexars = (statistics.median(times[name]) for name in ("gloo", "nexar"))
        print(f"{options.ranks} ranks, {options.rounds} rounds: gloo {1000 * gloo:.1f} ms, "
              f"nexar {1000 * nexars:.1f} ms, ratio {nexars / gloo:.2f}")  # fmt: skip
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    nexar.torch.load()  # compiled before the ranks are forked
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("fork")
        ranks = [context.Process(target=rank_main, args=(rank, options, os.path.join(folder, "s")))
                 for rank in range(options.ranks)]  # fmt: skip
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        raise SystemExit(max(abs(rank.exitcode or 0) for rank in ranks))


if __name__ == "__main__":
    main()
