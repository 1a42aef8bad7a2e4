"""Worlds of nexar for process groups: formed through torch's Store."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import re
import sys
import tempfile
import weakref
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ._build import load

_logger = logging.getLogger("torch.distributed.nexar")
_worlds: weakref.WeakSet[Any] = weakref.WeakSet()
_default: Any = None  # the World of the default group
_given: Any = None  # a World that the next default group uses, and does not close


def _milliseconds(timeout: timedelta) -> str:
    """A duration as nexar's settings have it, within what formation_timeout accepts."""
    return f"{min(max(int(timeout.total_seconds() * 1000), 100), 24 * 3600 * 1000)}ms"


@contextlib.contextmanager
def _token_settings() -> Iterator[dict[str, str]]:
    """The token of the user: that of NEXAR_TOKEN goes to nexar through a private file.  A file
    named by NEXAR_TOKEN_FILE is read by nexar."""
    token = os.environ.get("NEXAR_TOKEN")
    if not token:
        yield {}
        return
    with tempfile.NamedTemporaryFile("w", prefix="nexar-token-") as file:  # mode 0600
        file.write(token.strip() + "\n")
        file.flush()
        yield {"token_file": file.name}


def _publish(ext: Any, store: Any, key: str, size: int, token: dict[str, str]) -> Any:
    """Starts the seed and puts its address and key into the Store."""
    try:
        seed = ext.Seed({"world_size": str(size), **token})
    except Exception as error:
        store.set(key, f"error: {error}")  # the other ranks need not wait for the timeout
        raise
    if size > 1 and re.match(r"nexar://[^@/]+@", seed.join_string):
        _logger.warning(
            "nexar: the token of this job goes through torch's Store, which is not encrypted. "
            "An eavesdropper on the Store's traffic, or a reader of its file, can join the job, "
            "and read and change its tensors. Set NEXAR_TOKEN or NEXAR_TOKEN_FILE to the same "
            "secret on all ranks (python3 -c 'import secrets; print(secrets.token_urlsafe(32))')."
        )
    store.set(key, seed.join_string)
    return seed


def _form(ext: Any, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """Forms a world of |size| ranks: rank 0 has the seed."""
    # A Store may serve one group after the other: each formation has its own key.
    key = f"nexar/join/{store.add(f'nexar/formations/{rank}', 1)}"
    with _token_settings() as token:
        seed = _publish(ext, store, key, size, token) if rank == 0 else None
        join = store.get(key).decode()
        if join.startswith("error: "):
            raise dist.DistNetworkError(f"nexar: rank 0 could not start the seed: {join[7:]}")
        world = ext.World(
            {
                "join": join,
                "rank": str(rank),
                "formation_timeout": _milliseconds(timeout),
                **token,
            }
        )
    if seed is not None:  # every rank has read it
        world.adopt(seed)
        with contextlib.suppress(RuntimeError):
            store.delete_key(key)
    _worlds.add(world)
    return world


def _tag(name: str) -> int:
    """A group has one name on all its ranks."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")


def create(options: Any, _group_options: Any = None) -> Any:
    """What torch calls for a new process group.  The default group forms a world; other groups are
    communicators of it."""
    global _default
    ext = load()
    if options.timeout <= timedelta(0):
        raise ValueError("nexar: the timeout of a process group must be positive")
    ranks = list(options.global_ranks_in_group)
    parent = _default if _default is not None and _default.usable else None
    if ranks and parent is not None:
        tag = _tag(options.group_id)
        return ext.ProcessGroupNexar.create(parent, ranks, tag, options.timeout)
    if not ranks and _given is not None:
        _default = _given
        return ext.ProcessGroupNexar(_given, options.timeout, closes=False)
    world = _form(ext, options.store, options.group_rank, options.group_size, options.timeout)
    if not ranks:
        _default = world
    return ext.ProcessGroupNexar(world, options.timeout)


def join(**settings: str) -> Any:
    """A World that exists apart from process groups; it ends with the program."""
    world = load().World(settings)
    _worlds.add(world)
    return world


def regroup(world: Any, timeout: timedelta) -> None:
    """Makes |world|, as it is now, the default process group."""
    global _given
    if dist.is_initialized():
        dist.destroy_process_group()
    _given = world
    try:
        dist.init_process_group(
            "nexar", store=dist.HashStore(), rank=world.rank, world_size=world.size, timeout=timeout
        )
    finally:
        _given = None


def world_of(group: Any = None) -> Any:
    """The backend of a process group whose tensors nexar moves."""
    group = group or dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu"))
    if not isinstance(backend, load().ProcessGroupNexar):
        raise ValueError("nexar.torch: the process group does not use the backend nexar")
    return backend


def _at_exit() -> None:
    """A program that ends without destroy_process_group() leaves in order.  One that ends by an
    exception has failed: the other ranks learn it when the process is gone."""
    failed = getattr(sys, "last_type", None) is not None
    for world in list(_worlds):
        if failed:
            world.abandon()
        else:
            world.close()


atexit.register(_at_exit)
