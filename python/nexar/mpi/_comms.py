"""MPI.Comm: what it is, how others are made of it, and what is asked of it."""

from __future__ import annotations

import threading
from typing import Any, Callable

from .. import _errors as nx
from . import _constants as const
from ._collectives import Collectives
from ._errors import fail, missing, translated
from ._groups import GROUP_EMPTY, Group, group_of
from ._handle import Handle, Thing
from ._info import ERRORS_RETURN, Errhandler, Info
from ._messages import Messages
from ._objects import Objects


class Place(Thing):
    """A communicator: |comm| of nexar, and who its ranks are in the world."""

    __slots__ = ("comm", "ranks", "attrs", "locks", "lock", "info", "errors", "permanent", "name",
                 "topology")  # fmt: skip

    def __init__(self, comm: Any, ranks: tuple[int, ...], name: str = "", permanent: bool = False) -> None:
        self.comm, self.ranks, self.permanent = comm, ranks, permanent
        self.attrs: dict[int, Any] = {}
        self.locks: dict[str, threading.Lock] = {}
        self.lock = threading.Lock()
        self.info = Info.Create()
        self.errors = ERRORS_RETURN
        self.name = name
        self.topology: Any = None


class Keyval(Thing):
    __slots__ = ("copy", "delete", "nopython", "freed")

    def __init__(self, copy: Any, delete: Any) -> None:
        self.copy, self.delete = copy, delete


KEYVALS: dict[int, Keyval] = {}
TAG_UB, IO, WTIME_IS_GLOBAL, HOST, UNIVERSE_SIZE, APPNUM, LASTUSEDCODE = range(1, 8)
KEYVAL_INVALID = 0


class Comm(Handle, Messages, Objects, Collectives):
    """A communicator."""

    __slots__ = ()
    _h: Place | None

    # ---- what it is --------------------------------------------------------------------------

    def _place(self) -> Place:
        if self._h is None:
            raise fail("ERR_COMM", "the communicator is COMM_NULL")
        return self._h

    @property
    def _c(self) -> Any:
        if self._h is None:
            raise fail("ERR_COMM", "the communicator is COMM_NULL")
        return self._h.comm

    def _lock(self, call: str) -> Any:
        """Object collectives are several calls, and threads take turns."""
        place = self._place()
        with place.lock:
            return place.locks.setdefault(call, threading.Lock())

    def Get_size(self) -> int:
        size: int = self._c.size
        return size

    def Get_rank(self) -> int:
        rank: int = self._c.rank
        return rank

    def Get_group(self) -> Group:
        p = self._place()
        return group_of(p.ranks, p.ranks[p.comm.rank])

    def Get_name(self) -> str:
        return self._place().name if self._h is not None else "MPI_COMM_NULL"

    def Set_name(self, name: str) -> None:
        self._place().name = name

    def Get_info(self) -> Info:
        return self._place().info.Dup()

    def Set_info(self, info: Info) -> None:
        self._place().info.update(info.items())

    def Is_inter(self) -> bool:
        self._place()
        return False

    def Is_intra(self) -> bool:
        self._place()
        return True

    def Get_topology(self) -> int:
        self._place()
        return const.UNDEFINED

    def Compare(self, comm: Comm) -> int:
        a, b = self._place(), comm._place()
        if a is b:
            return const.IDENT
        if a.ranks == b.ranks:
            return const.CONGRUENT
        return const.SIMILAR if sorted(a.ranks) == sorted(b.ranks) else const.UNEQUAL

    size = property(Get_size)
    rank = property(Get_rank)
    group = property(Get_group)
    name = property(Get_name, Set_name)
    info = property(Get_info, Set_info)
    topology = property(Get_topology)

    @property
    def is_inter(self) -> bool:
        return self.Is_inter()

    @property
    def is_intra(self) -> bool:
        return self.Is_intra()

    @property
    def is_topo(self) -> bool:
        return self.Get_topology() != const.UNDEFINED

    # ---- others ------------------------------------------------------------------------------

    def Clone(self) -> Comm:
        p = self._place()
        return type(self)._of(Place(p.comm.dup(), p.ranks))

    def Dup(self, info: Info | None = None) -> Comm:
        made = self.Clone()
        place = made._place()
        for key, value in self._place().attrs.items():
            copy = KEYVALS[key].copy
            if copy is True:
                place.attrs[key] = value
            elif callable(copy):
                got = copy(self, key, value)
                if got is not NotImplemented:
                    place.attrs[key] = got
        if info:
            place.info = info.Dup()
        return made

    def Dup_with_info(self, info: Info) -> Comm:
        return self.Dup(info)

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        p = self._place()
        if color != const.UNDEFINED and color < 0:
            raise fail("ERR_ARG", f"Split: color is {color}; UNDEFINED or a number >= 0 is accepted")
        made = p.comm.split(None if color == const.UNDEFINED else color, key)
        return Intracomm._of(_placed(p, made)) if made is not None else COMM_NULL

    def Split_type(self, split_type: int, key: int = 0, info: Info | None = None) -> Comm:
        p = self._place()
        if split_type == const.UNDEFINED:
            p.comm.split(None)
            return COMM_NULL
        if split_type != const.COMM_TYPE_SHARED:
            raise missing("Comm.Split_type of a type other than COMM_TYPE_SHARED")
        return self.Split(p.comm.host.host, key)

    def Create(self, group: Group) -> Comm:
        mine = [self.Get_group()._members().ranks.index(r) for r in group._members().ranks]
        rank = self.Get_rank()
        return self.Split(0 if rank in mine else const.UNDEFINED, mine.index(rank) if rank in mine else 0)

    def Create_group(self, group: Group, tag: int = 0) -> Comm:
        p = self._place()
        if group.rank == const.UNDEFINED:
            return COMM_NULL
        made = p.comm.create([p.ranks.index(r) for r in group._members().ranks], tag)
        return Intracomm._of(Place(made, group._members().ranks))

    def Free(self) -> None:
        p = self._place()
        if p.permanent:
            raise fail("ERR_COMM", f"{p.name} cannot be freed")
        for key in list(p.attrs):
            self.Delete_attr(key)
        p.comm.close()
        self._h = None

    def Disconnect(self) -> None:
        self.Free()

    # ---- attributes ------------------------------------------------------------------------------

    @classmethod
    def Create_keyval(cls, copy_fn: Any = None, delete_fn: Any = None, nopython: bool = False) -> int:
        key = max(KEYVALS, default=100) + 1
        KEYVALS[key] = Keyval(copy_fn, delete_fn)
        return key

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        if keyval not in KEYVALS:
            raise fail("ERR_KEYVAL", "invalid keyval")
        return KEYVAL_INVALID

    def Get_attr(self, keyval: int) -> Any:
        fixed = {TAG_UB: const.TAG_MAX, WTIME_IS_GLOBAL: False, UNIVERSE_SIZE: None, APPNUM: None}
        if keyval in fixed:
            return fixed[keyval]
        return self._place().attrs.get(keyval)

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        if keyval not in KEYVALS:
            raise fail("ERR_KEYVAL", "invalid keyval")
        self.Delete_attr(keyval)
        self._place().attrs[keyval] = attrval

    def Delete_attr(self, keyval: int) -> None:
        attrs = self._place().attrs
        if keyval in attrs:
            value = attrs.pop(keyval)
            if callable(KEYVALS[keyval].delete):
                KEYVALS[keyval].delete(self, keyval, value)

    # ---- errors, the end -----------------------------------------------------------------------

    def Get_errhandler(self) -> Errhandler:
        return self._place().errors

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        self._place().errors = errhandler

    def Abort(self, errorcode: int = 0) -> None:
        """Ends all ranks."""
        comm = self._c
        code = errorcode & 127
        comm.abort(code if 1 <= code <= 125 else 1, f"MPI.Comm.Abort({errorcode})")

    # ---- failures: what the ULFM extension calls them ------------------------------------------

    def Revoke(self) -> None:
        self._c.revoke()

    def Is_revoked(self) -> bool:
        try:
            self._c._iprobe(self.Get_rank())
        except nx.RevokedError:
            return True
        return False

    def Agree(self, flag: int) -> int:
        return int(self._c.agree(flag))

    def Shrink(self) -> Comm:
        p = self._place()
        return Intracomm._of(_placed(p, p.comm.shrink()))

    def Get_failed(self) -> Group:
        p = self._place()
        failed = [p.ranks[r] for r in p.comm.failed()]
        return group_of(failed, p.ranks[p.comm.rank]) if failed else GROUP_EMPTY


def _placed(parent: Place, made: Any) -> Place:
    """|made| of ranks of |parent|, which tell each other who they are."""
    here = made.allgather_obj(parent.ranks[parent.comm.rank])
    return Place(made, tuple(here))


COMM_NULL = Comm()


class Intracomm(Comm):
    """The communicators that nexar has."""

    __slots__ = ()


def _missing_method(cls: str, name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise missing(f"{cls}.{name}")

    call.__name__ = name
    return call


def lacks(cls: type, names: str) -> None:
    """|cls| has |names|, which say that nexar does not."""
    for name in names.split():
        if not hasattr(cls, name):
            setattr(cls, name, _missing_method(cls.__name__, name))


lacks(Comm, """
    Idup Idup_with_info Alltoallw Ialltoallw Get_parent Join Get_dist_neighbors Create_errhandler
    Call_errhandler Ishrink Iagree Ack_failed Psend_init Precv_init Create_from_group Iflush_buffer
    Barrier_init Bcast_init Gather_init Gatherv_init Scatter_init Scatterv_init Allgather_init
    Allgatherv_init Alltoall_init Alltoallv_init Alltoallw_init Allreduce_init Reduce_init
    Reduce_scatter_block_init Reduce_scatter_init""")  # fmt: skip
lacks(Intracomm, """
    Create_cart Create_graph Create_dist_graph Create_dist_graph_adjacent Create_intercomm Cart_map
    Graph_map Spawn Spawn_multiple Accept Connect Scan_init Exscan_init Neighbor_allgather
    Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw Ineighbor_allgather
    Ineighbor_allgatherv Ineighbor_alltoall Ineighbor_alltoallv Ineighbor_alltoallw
    neighbor_allgather neighbor_alltoall""")  # fmt: skip
translated(Comm)
translated(Messages)
translated(Objects)
translated(Collectives)
