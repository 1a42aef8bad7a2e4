"""For scripts that were written for mpi4py: ``from nexar.mpi import MPI``.

As ``from mpi4py import MPI`` does, importing ``nexar.mpi.MPI`` joins the world, and the end of the
program leaves it.  ``rc.initialize = False`` before that import leaves both to ``MPI.Init()`` and
``MPI.Finalize()``.
"""

from __future__ import annotations

from typing import Any


class rc:  # the name that mpi4py has
    """What is done by the import of nexar.mpi.MPI and at the end of the program."""

    initialize: bool = True
    finalize: bool = True


def __getattr__(name: str) -> Any:
    if name == "MPI":
        from importlib import import_module

        return import_module("nexar.mpi.MPI")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["MPI", "rc"]
