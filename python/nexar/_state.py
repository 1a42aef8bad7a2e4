"""SyncReport, and the state of sync_state."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

from ._errors import InvalidError, InvalidTypeError


class SyncReport(NamedTuple):
    """What ``sync_state`` did: tensors that this rank received and tensors that differed anywhere, bytes
    of this rank, ranks that received anything, whether this rank has the result, and the revision that
    won."""

    received: int
    differed: int
    bytes_received: int
    bytes_sent: int
    ranks_updated: int
    updated: bool
    revision: int


def tensors_of(state: Any) -> list[tuple[bytes, Any]]:
    """The names and the memory of |state|.  A number gets memory of its own."""
    if not isinstance(state, dict):
        raise InvalidTypeError(f"sync_state: state is {type(state).__name__}; a dict of names and arrays is accepted")
    out: list[tuple[bytes, Any]] = []
    for name, value in state.items():
        if not isinstance(name, str):
            raise InvalidTypeError(f"sync_state: the name {name!r} is {type(name).__name__}; a str is accepted")
        if "\0" in name:
            raise InvalidError(f"sync_state: the name {name!r} has a zero character; names without are accepted")
        out.append((name.encode(), _memory_of(name, value)))
    return out


def _memory_of(name: str, value: Any) -> Any:
    if isinstance(value, int):
        try:
            return array("q", [value])
        except OverflowError:
            raise InvalidError(f"sync_state: state[{name!r}] is {value}; -2**63 to 2**63 - 1 is accepted") from None
    return array("d", [value]) if type(value) is float else value


def take_numbers(state: dict[str, Any], tensors: list[tuple[bytes, Any]]) -> None:
    """The numbers that have come into |state|."""
    for (name, value), (_, memory) in zip(list(state.items()), tensors):
        if memory is not value:
            state[name] = type(value)(memory[0])
