"""Communication hooks for DistributedDataParallel that send less than the whole gradient.

>>> from nexar.torch import hooks
>>> model.register_comm_hook(hooks.Compressed("int8"), hooks.compressed)

What one step does not send is kept and sent by a later one (error feedback)."""

# DDP checks the types of a hook: annotations must not be text here.
from typing import Any, Dict

import torch
import torch.distributed as dist

from ._rendezvous import world_of

METHODS = ("int8", "topk", "randomk", "f16", "bf16", "none")


class Compressed:
    """How a model's gradients are sent, and what was not sent yet.  |ratio| is the part of the
    elements that "topk" and "randomk" send; docs/guide/compression.md describes the methods."""

    def __init__(self, how: str = "int8", ratio: float = 0.01, group: Any = None) -> None:
        if how not in METHODS:
            raise ValueError(f"nexar.torch.hooks: how is one of {', '.join(METHODS)}, not {how!r}")
        self.how = how
        self.ratio = ratio
        self.group = group
        self.residuals: Dict[int, torch.Tensor] = {}

    def residual(self, index: int, like: torch.Tensor) -> torch.Tensor:
        """That of a bucket; DDP makes its buckets anew after the first step."""
        kept = self.residuals.get(index)
        if kept is None or kept.numel() != like.numel() or kept.dtype != like.dtype:
            kept = self.residuals[index] = torch.zeros_like(like)
        return kept


def compressed(state: Compressed, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The hook: the average over all ranks of the compressed gradients."""
    buffer = bucket.buffer()
    work = world_of(state.group).allreduce_compressed(
        buffer, state.how, state.ratio, state.residual(bucket.index(), buffer)
    )
    averaged: torch.futures.Future[torch.Tensor] = work.get_future().then(lambda future: future.value()[0])
    return averaged
