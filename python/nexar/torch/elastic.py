"""Training that survives the death of workers, and lets new ones join, without a restart.

>>> trainer = ElasticTrainer(model, optimizer)
>>> while trainer.steps < 1000:
...     loss = trainer.step(lambda ddp: loss_of(ddp, dist.get_rank(), dist.get_world_size()))

The workers join the seed that the setting "join" names (`nexar seed`, `nexar run`).  A worker that
starts later joins at the next step of the others."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from . import _rendezvous


class ElasticTrainer:
    """Repeats a step that a failure has interrupted, with the workers that are left.

    A step is complete when the optimizer has run.  Where a failure hits some workers before and
    others after that, all continue from the state of those that are ahead."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        timeout: timedelta = timedelta(minutes=30),
        ddp: dict[str, Any] | None = None,
        **settings: str,
    ) -> None:
        """|settings| are those of nexar, such as join="nexar://..."; |ddp| are arguments of
        DistributedDataParallel."""
        self.model, self.optimizer = model, optimizer
        self.steps = 0  # how many steps are complete
        self.changes: list[dict[str, int]] = []  # of the membership, oldest first
        self._timeout, self._ddp_options = timeout, ddp or {}
        self._wrapped: DistributedDataParallel | None = None
        self._world = _rendezvous.join(**settings)
        try:
            self._world.any(True)  # the others ask it after the update that admits this worker
            self._rebuild()
        except (dist.DistBackendError, dist.DistNetworkError):
            self._update(rebuild=True)

    def step(self, compute: Callable[[DistributedDataParallel], torch.Tensor]) -> float:
        """One step: |compute| returns the loss, by a forward pass through the model it gets.  It
        may run several times, with other ranks and another world size each time."""
        self._update()
        while True:
            failed = False
            try:
                return self._attempt(compute)
            except (dist.DistBackendError, dist.DistNetworkError) as error:
                print(f"nexar.torch: step {self.steps} is repeated: {error}", file=sys.stderr)
                failed = True
            if failed:  # outside the handler, whose traceback holds the old DDP
                self._update(rebuild=True)

    def _attempt(self, compute: Callable[[DistributedDataParallel], torch.Tensor]) -> float:
        assert self._wrapped is not None
        self.optimizer.zero_grad()
        loss = compute(self._wrapped)
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        value: float = loss.item()
        return value

    def _update(self, rebuild: bool = False) -> None:
        """A step boundary: failed workers are removed, waiting ones join.  Each further attempt needs
        a further failure; a worker that the others have declared failed gets its error."""
        attempts = self._world.size
        while True:
            try:
                change = self._world.update()
                changed = bool(change["joined"] or change["left"] or change["failed"])
                if changed:
                    self.changes.append(change)
                if self._world.any(rebuild or changed):  # all rebuild, or none
                    self._rebuild()
                return
            except (dist.DistBackendError, dist.DistNetworkError) as error:
                attempts -= 1
                if attempts == 0 or not self._world.usable:
                    raise
                print(f"nexar.torch: the world changed again: {error}", file=sys.stderr)
                rebuild = True

    def _rebuild(self) -> None:
        """A process group and a DDP for the present members, with the state of those ahead."""
        self._wrapped = None
        gc.collect()  # the old DDP removes its hooks from the parameters
        _rendezvous.regroup(self._world, self._timeout)
        self._synchronise()
        self.optimizer.zero_grad()
        self._wrapped = DistributedDataParallel(self.model, **self._ddp_options)

    def _synchronise(self) -> None:
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
        dist.all_gather(counts, torch.tensor([self.steps]))
        steps = [int(count) for count in counts]
        if min(steps) == max(steps):
            return
        source = steps.index(max(steps))
        buffer = io.BytesIO()
        if dist.get_rank() == source:
            torch.save((self.model.state_dict(), self.optimizer.state_dict()), buffer)
        size = torch.tensor([buffer.tell()])
        dist.broadcast(size, source)
        content = torch.zeros(int(size), dtype=torch.uint8)
        if dist.get_rank() == source:
            content.copy_(torch.frombuffer(buffer.getbuffer(), dtype=torch.uint8))
        dist.broadcast(content, source)
        if self.steps < max(steps):
            state = torch.load(io.BytesIO(content.numpy().tobytes()))
            self.model.load_state_dict(state[0])
            self.optimizer.load_state_dict(state[1])
            self.steps = max(steps)
