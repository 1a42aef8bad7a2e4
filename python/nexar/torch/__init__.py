"""nexar.torch: the backend "nexar" of torch.distributed, for CPU tensors.

>>> import torch.distributed as dist
>>> import nexar.torch
>>> dist.init_process_group("nexar")

Where the package is installed the import is not needed: torch finds the backend by its entry
point.  The extension is compiled when the first process group is created.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as _dist

from ._build import BuildError, load

__all__ = ["BuildError", "load", "monitored_barrier", "register"]


if _dist.is_available():
    _monitored_barrier_of_torch = _dist.monitored_barrier


def _create(options: Any, group_options: Any = None) -> Any:
    from ._rendezvous import create

    return create(options, group_options)


def monitored_barrier(
    group: Any = None, timeout: Any = None, wait_all_ranks: bool = False
) -> None:
    """torch.distributed.monitored_barrier, which by itself refuses backends other than Gloo: rank 0
    gets an error that names the first rank, or all ranks, that did not come within |timeout|."""
    if _dist.get_rank(group) < 0 or _dist.get_backend(group) != "nexar":
        _monitored_barrier_of_torch(group, timeout, wait_all_ranks)
        return
    from ._rendezvous import world_of

    if isinstance(timeout, (int, float)):
        timeout = timedelta(seconds=timeout)
    world_of(group).monitored_barrier(timeout, wait_all_ranks)


def register() -> None:
    """Makes torch.distributed know the backend; calls after the first do nothing."""
    if _dist.is_available() and "nexar" not in _dist.Backend.backend_list:
        default = _dist.Backend.default_device_backend_map.get("cpu")
        _dist.Backend.register_backend("nexar", _create, extended_api=True, devices=["cpu"])
        if default is not None:  # programs that name no backend keep theirs
            _dist.Backend.default_device_backend_map["cpu"] = default
        _dist.monitored_barrier = monitored_barrier


register()
