"""MPI.Status."""

from __future__ import annotations

from typing import Any

from . import _constants as const
from ._buffers import as_type
from ._datatypes import BYTE


class Status:
    """What is known of a message that was received or found."""

    __slots__ = ("source", "tag", "error", "_bytes", "_cancelled")

    def __init__(self, status: Status | None = None) -> None:
        self.source, self.tag, self.error = const.ANY_SOURCE, const.ANY_TAG, 0
        self._bytes, self._cancelled = 0, False
        if status is not None:
            self._copy(status)

    def _copy(self, other: Status) -> None:
        self.source, self.tag, self.error = other.source, other.tag, other.error
        self._bytes, self._cancelled = other._bytes, other._cancelled

    def _set(self, source: int, tag: int, nbytes: int, cancelled: bool = False) -> None:
        self.source, self.tag, self.error = source, tag, 0
        self._bytes, self._cancelled = nbytes, cancelled

    def Get_source(self) -> int:
        return self.source

    def Set_source(self, source: int) -> None:
        self.source = source

    def Get_tag(self) -> int:
        return self.tag

    def Set_tag(self, tag: int) -> None:
        self.tag = tag

    def Get_error(self) -> int:
        return self.error

    def Set_error(self, error: int) -> None:
        self.error = error

    def Get_count(self, datatype: Any = BYTE) -> int:
        size = as_type(datatype)._lay().size
        if size == 0:
            return 0
        return const.UNDEFINED if self._bytes % size else self._bytes // size

    def Get_elements(self, datatype: Any) -> int:
        t = as_type(datatype)._lay()
        return self._bytes // t.unit if t.unit else 0

    def Set_elements(self, datatype: Any, count: int) -> None:
        self._bytes = as_type(datatype)._lay().unit * count

    def Is_cancelled(self) -> bool:
        return self._cancelled

    def Set_cancelled(self, flag: bool) -> None:
        self._cancelled = bool(flag)

    @property
    def count(self) -> int:
        return self._bytes

    @count.setter
    def count(self, value: int) -> None:
        self._bytes = value

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        self._cancelled = bool(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return self._key() == other._key()

    def _key(self) -> tuple[Any, ...]:
        return self.source, self.tag, self.error, self._bytes, self._cancelled

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return Status, (), (None, {"source": self.source, "tag": self.tag, "error": self.error,
                                   "_bytes": self._bytes, "_cancelled": self._cancelled})  # fmt: skip
