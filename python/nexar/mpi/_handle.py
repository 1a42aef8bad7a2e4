"""What the objects of MPI have in common: they are handles, and equal if they name the same thing."""

from __future__ import annotations

import weakref
from typing import Any, TypeVar

H = TypeVar("H", bound="Handle")
_named: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class Thing:
    """What a handle names."""

    __slots__ = ("__weakref__",)


class Handle:
    """|_h| is what is named; None: the null handle."""

    __slots__ = ("_h", "__weakref__")
    _h: Any

    def __new__(cls: type[H], other: Any = None) -> H:
        self = object.__new__(cls)
        if other is None:
            self._h = None
        elif isinstance(other, cls) or issubclass(cls, type(other)):
            self._h = other._h
            self._check()
        else:
            raise TypeError(f"{cls.__name__}: {other!r} is no {cls.__name__}")
        return self

    def __init__(self, other: Any = None) -> None: ...

    def _check(self) -> None:
        """TypeError: what is named is of another kind."""

    @classmethod
    def _of(cls: type[H], thing: Any) -> H:
        self = object.__new__(cls)
        self._h = thing
        return self

    def __bool__(self) -> bool:
        return self._h is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Handle) or self._root() is not other._root():
            return NotImplemented
        return self._h is other._h

    @classmethod
    def _root(cls) -> type:
        return next(c for c in cls.__mro__ if Handle in c.__bases__)

    def __hash__(self) -> int:
        return hash((self._root().__name__, id(self._h)))

    def __reduce__(self) -> Any:
        """Constants of MPI, and handles equal to them, by their name."""
        from . import MPI

        named = [(n, v) for n, v in vars(MPI).items() if isinstance(v, Handle) and v == self]
        for name, constant in named:
            if constant is self:
                return _constant, (name,)
        if not named:
            raise ValueError(f"{type(self).__name__}: only the constants of MPI can be pickled")
        return _copy, (type(self), named[0][0])

    @property
    def handle(self) -> int:
        if self._h is None:
            return 0
        _named[id(self._h)] = self._h
        return id(self._h)

    @classmethod
    def fromhandle(cls: type[H], handle: int) -> H:
        return cls._of(_named[handle] if handle else None)

    def toint(self) -> int:
        return -1  # MPI has no number for it

    def py2f(self) -> int:
        return -1

    @classmethod
    def f2py(cls: type[H], number: int) -> H:
        raise NotImplementedError(f"{cls.__name__}.f2py: nexar has no Fortran handles")

    @classmethod
    def fromint(cls: type[H], number: int) -> H:
        raise NotImplementedError(f"{cls.__name__}.fromint: nexar has no handles that are numbers")


def _constant(name: str) -> Any:
    from . import MPI

    return getattr(MPI, name)


def _copy(cls: type[H], name: str) -> H:
    return cls(_constant(name))
