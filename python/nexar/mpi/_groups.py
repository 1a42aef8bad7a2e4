"""MPI.Group: ranks of the world, in an order."""

from __future__ import annotations

from typing import Any, Sequence

from . import _constants as const
from ._errors import fail
from ._handle import Handle, Thing


class _Members(Thing):
    __slots__ = ("ranks", "me")

    def __init__(self, ranks: tuple[Any, ...], me: Any) -> None:
        self.ranks, self.me = ranks, me


class Group(Handle):
    __slots__ = ()
    _h: _Members | None

    def _members(self) -> _Members:
        if self._h is None:
            raise fail("ERR_GROUP", "the group is GROUP_NULL")
        return self._h

    def _make(self, ranks: Sequence[Any]) -> Group:
        return Group._of(_Members(tuple(ranks), self._members().me)) if ranks else GROUP_EMPTY

    def _pick(self, ranks: Sequence[int]) -> list[Any]:
        mine = self._members().ranks
        for r in ranks:
            if not 0 <= r < len(mine):
                raise fail("ERR_RANK", f"rank {r} is not in the group of {len(mine)}")
        return [mine[r] for r in ranks]

    def Get_size(self) -> int:
        return len(self._members().ranks)

    def Get_rank(self) -> int:
        m = self._members()
        return m.ranks.index(m.me) if m.me in m.ranks else const.UNDEFINED

    def Translate_ranks(self, ranks: Any = None, group: Group | None = None) -> list[int]:
        """The ranks in |group| of the members |ranks| of this one."""
        given = range(self.size) if ranks is None else ranks
        there = range(10**9) if group is None else group._members().ranks  # None: the world
        return [const.PROC_NULL if r == const.PROC_NULL else
                there.index(self._pick([r])[0]) if self._pick([r])[0] in there else const.UNDEFINED
                for r in given]  # fmt: skip

    def Compare(self, group: Group) -> int:
        a, b = self._members().ranks, group._members().ranks
        if a == b:
            return const.IDENT
        return const.SIMILAR if sorted(a) == sorted(b) else const.UNEQUAL

    def Dup(self) -> Group:
        return self._make(self._members().ranks)

    def Union(self, group: Group) -> Group:
        a, b = self._members().ranks, group._members().ranks
        return (self if a else group)._make([*a, *(r for r in b if r not in a)])

    def Intersection(self, group: Group) -> Group:
        b = group._members().ranks
        return self._make([r for r in self._members().ranks if r in b])

    Intersect = Intersection

    def Difference(self, group: Group) -> Group:
        b = group._members().ranks
        return self._make([r for r in self._members().ranks if r not in b])

    def Incl(self, ranks: Sequence[int]) -> Group:
        return self._make(self._pick(list(ranks)))

    def Excl(self, ranks: Sequence[int]) -> Group:
        out = set(self._pick(list(ranks)))
        return self._make([r for r in self._members().ranks if r not in out])

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Group:
        return self.Incl(_ranges(ranks))

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Group:
        return self.Excl(_ranges(ranks))

    def Free(self) -> None:
        self._members()
        if self != GROUP_EMPTY:
            self._h = None

    @property
    def size(self) -> int:
        return self.Get_size()

    @property
    def rank(self) -> int:
        return self.Get_rank()


def _ranges(ranks: Sequence[tuple[int, int, int]]) -> list[int]:
    return [r for first, last, step in ranks
            for r in range(first, last + (1 if step > 0 else -1), step)]  # fmt: skip


GROUP_NULL = Group()
GROUP_EMPTY = Group._of(_Members((), None))


def group_of(ranks: Sequence[Any], me: Any) -> Group:
    return Group._of(_Members(tuple(ranks), me))
