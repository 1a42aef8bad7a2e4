"""Training continues without a worker that was killed, and with one that comes."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
import torch.distributed as dist

import nexar.torch
from nexar.torch.elastic import ElasticTrainer

SAMPLES = 24  # one batch for all, divisible by the number of workers


def loss_of(model: torch.nn.Module, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(step)
    data = torch.randn(SAMPLES, 8, generator=generator)
    share = SAMPLES // dist.get_world_size()
    mine = data[dist.get_rank() * share :][:share]
    return (model(mine) - mine.sum(1, keepdim=True)).square().mean()


def make() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)


def average(loss: float) -> float:
    total = torch.tensor([loss])
    dist.all_reduce(total, dist.ReduceOp.AVG)
    return float(total)


def worker(rank: int, size: int, where: str, steps: int, victim: int, late: bool) -> Any:
    dist.destroy_process_group()
    if rank == 0:
        with open(where + ".new", "w") as file:
            seed = nexar.torch.load().Seed({"world_size": str(size - 1 if late else size)})
            file.write(seed.join_string + "\n")
        os.chmod(where + ".new", 0o600)
        os.rename(where + ".new", where)
    model, optimizer = make()
    if late and rank == size - 1:  # waits until the others have made steps
        while not os.path.exists(where + ".half"):
            time.sleep(0.05)
    trainer = ElasticTrainer(  # a loaded machine is slow; the end of a process is noticed at once
        model, optimizer, join=f"file:{where}", formation_timeout="5m", heartbeat_timeout="200s"
    )
    losses: list[float] = []
    paused = 0.0
    while trainer.steps < steps:
        if rank == victim and trainer.steps == steps // 2:
            model.register_full_backward_hook(
                lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # in the middle of a step
            )
        if late and rank == 0 and trainer.steps == steps // 2:
            open(where + ".half", "w").close()
            while dist.get_world_size() < size:  # the others wait in the same call
                trainer._update()
                time.sleep(0.05)
        elif late and rank < size - 1 and trainer.steps == steps // 2:
            while dist.get_world_size() < size:
                trainer._update()
        begin = time.monotonic()
        losses.append(trainer.step(lambda ddp: loss_of(ddp, trainer.steps)))
        if trainer.changes and not paused:
            paused = time.monotonic() - begin
    result = (torch.cat([p.detach().flatten() for p in model.parameters()]), paused)
    size = dist.get_world_size()
    trainer._world.close()  # waits for the others, as the end of a program does
    return result[0].tolist(), result[1], size


def reference(rank: int, size: int, steps: int) -> list[float]:
    model, optimizer = make()
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


def test_training_continues_after_a_worker_is_killed_in_a_step(ranks: Any, tmp_path: Any) -> None:
    results = ranks(4, worker, str(tmp_path / "join"), 20, 2, False, killed=(2,))
    expected = torch.tensor(ranks(1, reference, 20)[0])
    for parameters, paused, size in (r for r in results if r is not None):
        torch.testing.assert_close(torch.tensor(parameters), expected, rtol=1e-3, atol=1e-4)
        assert size == 3
        print(f"the step with the failure took {paused:.2f} s")
        assert paused < 150  # 2 s where the machine is not loaded; the heartbeats take 200 s


def test_a_worker_joins_and_gets_the_state(ranks: Any, tmp_path: Any) -> None:
    results = ranks(3, worker, str(tmp_path / "join"), 12, -1, True)
    expected = torch.tensor(ranks(1, reference, 12)[0])
    for parameters, _, size in results:
        torch.testing.assert_close(torch.tensor(parameters), expected, rtol=1e-3, atol=1e-4)
        assert size == 3
