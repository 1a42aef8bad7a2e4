"""MPI.Info and MPI.Errhandler: kept, and given back."""

from __future__ import annotations

from typing import Any, Iterator

from ._errors import fail
from ._handle import Handle, Thing


class _Values(Thing):
    __slots__ = ("values",)

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values


class Info(Handle):
    """A dict of str to str."""

    __slots__ = ()
    _h: _Values | None

    def _values(self) -> dict[str, str]:
        if self._h is None:
            raise fail("ERR_INFO", "the info is INFO_NULL")
        return self._h.values

    @classmethod
    def Create(cls, items: Any = None) -> Info:
        return cls._of(_Values(dict(items or {})))

    @classmethod
    def Create_env(cls, args: Any = None) -> Info:
        return INFO_ENV.Dup()

    def __reduce__(self) -> Any:
        if self._h is None or self._h is INFO_ENV._h:
            return super().__reduce__()
        return Info.Create, (dict(self._h.values),)

    def Dup(self) -> Info:
        return Info._of(_Values(dict(self._values())))

    def Free(self) -> None:
        self._values()
        self._h = None

    def Get(self, key: str) -> str | None:
        return self._values().get(key)

    def Set(self, key: str, value: str) -> None:
        self._values()[key] = value

    def Delete(self, key: str) -> None:
        if key not in self._values():
            raise fail("ERR_INFO_NOKEY", f"no key {key!r}")
        del self._values()[key]

    def Get_nkeys(self) -> int:
        return len(self._values())

    def Get_nthkey(self, n: int) -> str:
        return list(self._values())[n]

    def __len__(self) -> int:
        return 0 if self._h is None else len(self._h.values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: str) -> bool:
        return self._h is not None and key in self._h.values

    def __getitem__(self, key: str) -> str:
        if key not in self:
            raise KeyError(key)
        return self._values()[key]

    def __setitem__(self, key: str, value: str) -> None:
        if self._h is None:
            raise KeyError(key)
        self._values()[key] = value

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        del self._values()[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default

    def keys(self) -> list[str]:
        return list(self._values()) if self._h is not None else []

    def values(self) -> list[str]:
        return list(self._values().values()) if self._h is not None else []

    def items(self) -> list[tuple[str, str]]:
        return list(self._values().items()) if self._h is not None else []

    def update(self, items: Any = (), **more: str) -> None:
        for key, value in dict(items, **more).items():
            self[key] = value

    def pop(self, key: str, *default: Any) -> Any:
        values: dict[str, Any] = self._h.values if self._h is not None else {}
        return values.pop(key, *default)

    def popitem(self) -> tuple[str, str]:
        values: dict[str, str] = self._h.values if self._h is not None else {}
        return values.popitem()

    def clear(self) -> None:
        if self._h is not None:
            self._values().clear()

    def copy(self) -> Info:
        return self.Dup() if self._h is not None else Info()

    def __bool__(self) -> bool:
        return self._h is not None


INFO_NULL = Info()
INFO_ENV = Info.Create()


class Errhandler(Handle):
    """What an error does: in Python it is always an exception."""

    __slots__ = ()

    def Free(self) -> None:
        self._h = None


ERRHANDLER_NULL = Errhandler()
ERRORS_RETURN, ERRORS_ABORT, ERRORS_ARE_FATAL = (Errhandler._of(_Values({})) for _ in range(3))
