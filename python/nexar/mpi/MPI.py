"""The names that ``from mpi4py import MPI`` gives.  What nexar has no call for raises
NotImplementedError, which names it."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import time
from typing import Any, Sequence

import nexar

from .. import _nexar
from . import _bsend, _comms, _constants, _datatypes, rc
from ._buffers import view_of
from ._comms import (
    APPNUM,
    COMM_NULL,
    HOST,
    IO,
    KEYVAL_INVALID,
    LASTUSEDCODE,
    TAG_UB,
    UNIVERSE_SIZE,
    WTIME_IS_GLOBAL,
    Comm,
    Intracomm,
    Place,
    lacks,
)
from ._constants import *  # noqa: F403
from ._datatypes import DATATYPE_NULL, Datatype
from ._errors import Exception, error_string, fail, missing
from ._groups import GROUP_EMPTY, GROUP_NULL, Group
from ._handle import Handle
from ._info import (
    ERRHANDLER_NULL,
    ERRORS_ABORT,
    ERRORS_ARE_FATAL,
    ERRORS_RETURN,
    INFO_ENV,
    INFO_NULL,
    Errhandler,
    Info,
)
from ._ops import BY_NAME as _OPS
from ._ops import OP_NULL, Op
from ._pickle import Pickle, pickle
from ._requests import (
    MESSAGE_NO_PROC,
    MESSAGE_NULL,
    REQUEST_NULL,
    Grequest,
    Message,
    Prequest,
    Request,
)
from ._status import Status

globals().update({name[4:]: t for name, t in _datatypes.BY_NAME.items()})
globals().update(_OPS)
globals().update({n: v for n, v in vars(_constants).items() if n.isupper() and n[0] != "_"})

VERSION, SUBVERSION = 4, 0
memory = buffer = memoryview

# ---- what nexar has not ---------------------------------------------------------------------------


def _absent(name: str, base: type, methods: str) -> type:
    def new(cls: type, other: Any = None, *args: Any) -> Any:
        if other is not None and not isinstance(other, Handle):
            raise missing(name)
        return Handle.__new__(cls, other)

    cls = type(name, (base,), {"__slots__": (), "__new__": new, "__module__": __name__})
    for method in methods.split():
        lacks(cls, method)
    return cls


_TOPOLOGY = "Get_topo Get_coords Get_cart_rank Get_dim Shift Sub Get_dims Get_neighbors"
Topocomm = _absent("Topocomm", Intracomm, _TOPOLOGY)
Cartcomm = _absent("Cartcomm", Topocomm, _TOPOLOGY)
Graphcomm = _absent("Graphcomm", Topocomm, _TOPOLOGY)
Distgraphcomm = _absent("Distgraphcomm", Topocomm, _TOPOLOGY)
Intercomm = _absent("Intercomm", Comm, "Get_remote_size Get_remote_group Merge Create_from_groups")
Win = _absent("Win", Handle, "Create Allocate Allocate_shared Create_dynamic Lock Unlock Put Get Fence")
File = _absent("File", Handle, "Open Delete Close Read Write Read_at Write_at Set_view")
Session = _absent("Session", Handle, "Init Finalize Create_group Get_num_psets")
WIN_NULL, FILE_NULL, SESSION_NULL = Win(), File(), Session()


def _lacking(name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise missing(name)

    call.__name__ = name
    return call


for _name in (
    "Open_port Close_port Publish_name Unpublish_name Lookup_name Register_datarep Add_error_class "
    "Add_error_code Add_error_string Remove_error_class Remove_error_code Remove_error_string "
    "Get_hw_resource_info Flush_buffer Iflush_buffer"
).split():
    globals()[_name] = _lacking(_name)

# ---- the world --------------------------------------------------------------------------------------

COMM_WORLD, COMM_SELF = Intracomm(), Intracomm()
_state = {"initialized": False, "finalized": False}


def Init_thread(required: int = _constants.THREAD_MULTIPLE) -> int:
    """Joins the world.  All ranks."""
    if _state["initialized"]:
        raise fail("ERR_OTHER", "Init: called before")
    world = nexar.init()
    world.name = "MPI_COMM_WORLD"
    alone = world.split(world.rank)
    COMM_WORLD._h = Place(world, tuple(range(world.size)), "MPI_COMM_WORLD", True)
    COMM_SELF._h = Place(alone, (world.rank,), "MPI_COMM_SELF", True)
    _state["initialized"] = True
    return _constants.THREAD_MULTIPLE


def Init() -> None:
    Init_thread()


def Finalize() -> None:
    if not Is_initialized() or Is_finalized():
        raise fail("ERR_OTHER", "Finalize: the world was not joined, or left")
    _state["finalized"] = True
    _bsend.flush()
    COMM_WORLD._place().comm.close()


def Is_initialized() -> bool:
    return _state["initialized"]


def Is_finalized() -> bool:
    return _state["finalized"]


def Query_thread() -> int:
    return _constants.THREAD_MULTIPLE


def Is_thread_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def Get_version() -> tuple[int, int]:
    return VERSION, SUBVERSION


def Get_library_version() -> str:
    return f"nexar {nexar.__version__}"


def get_vendor() -> tuple[str, tuple[int, int, int]]:
    x, y, z = (int(n) for n in nexar.__version__.split("."))
    return "nexar", (x, y, z)


def Get_processor_name() -> str:
    return socket.gethostname()


def Wtime() -> float:
    return time.perf_counter()


def Wtick() -> float:
    return time.get_clock_info("perf_counter").resolution


def Pcontrol(level: int) -> None: ...


def Get_error_class(errorcode: int) -> int:
    return errorcode


def Get_error_string(errorcode: int) -> str:
    return error_string(errorcode)


def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """Factors of |nnodes| as equal as possible; those that are given are not 0."""
    given = [0] * dims if isinstance(dims, int) else list(dims)
    left, free = nnodes, [i for i, d in enumerate(given) if d == 0]
    for d in given:
        if d < 0 or d and left % d:
            raise fail("ERR_DIMS", f"Compute_dims: {given} do not divide {nnodes}")
        left //= d or 1
    best = _factors(left, len(free))
    for i, d in zip(free, best):
        given[i] = d
    return given


def _factors(n: int, k: int) -> list[int]:
    if k == 0:
        if n != 1:
            raise fail("ERR_DIMS", "Compute_dims: the given dimensions do not use all ranks")
        return []
    if k == 1:
        return [n]
    first = next(d for d in range(round(n ** (1 / k) + 0.5), n + 1) if n % d == 0)
    return sorted([first, *_factors(n // first, k - 1)], reverse=True)


def Alloc_mem(size: int, info: Info = INFO_NULL) -> memoryview:
    return memoryview(bytearray(size))


def Free_mem(mem: memoryview) -> None: ...


def Get_address(location: Any) -> int:
    return int(_nexar.view("Get_address", "location", location, False).address)


def Aint_add(base: int, disp: int) -> int:
    return base + disp


def Aint_diff(addr1: int, addr2: int) -> int:
    return addr1 - addr2


def Attach_buffer(buf: Any) -> None:
    _bsend.attach(buf)


def Detach_buffer() -> Any:
    return _bsend.detach()


def _sizeof(arg: Any) -> int:
    return 8


def _comm_lock_table(comm: Comm) -> dict[str, Any]:
    return comm._place().locks


def _at_exit() -> None:
    """A program that has failed leaves without a word: the other ranks learn it from that."""
    if rc.finalize and Is_initialized() and not Is_finalized():
        if getattr(sys, "last_type", None) is None:
            Finalize()


if rc.initialize:
    Init()
    atexit.register(_at_exit)
