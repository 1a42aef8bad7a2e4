"""The exceptions: one class for each code of nexar.h."""

from __future__ import annotations

import builtins
from enum import IntEnum

from . import _nexar

_TABLE = _nexar.error_table()


class Code(IntEnum):
    """The codes of nexar.h, without their prefix NEXAR_E."""

    INVAL = -1
    NOMEM = -2
    TIMEDOUT = -3
    PEER = -4
    REVOKED = -5
    TRUNC = -6
    MISMATCH = -7
    AUTH = -8
    PROTO = -9
    CONNECT = -10
    CANCELED = -11
    NOTSUP = -12
    NOHANDLER = -13
    REMOTE = -14
    DEVICE = -15
    SYS = -16
    INTERNAL = -17


class Error(Exception):
    """A call of nexar failed.  ``scope`` is the largest thing that the error has broken:
    ``"op"``, ``"peer"``, ``"comm"`` or ``"lib"``."""

    code: Code = Code.INTERNAL
    scope: str = "lib"

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return self.message


class InvalidError(Error, ValueError):
    """An argument is not accepted; the message names it."""

    code = Code.INVAL


class InvalidTypeError(InvalidError, TypeError):
    """An argument has the wrong type."""


class OutOfMemoryError(Error, MemoryError):
    code = Code.NOMEM


class TimeoutError(Error, builtins.TimeoutError):
    code = Code.TIMEDOUT


class PeerError(Error):
    """A rank that the operation needs has failed; ``failed`` lists the failed ranks."""

    code = Code.PEER
    failed: list[int] = []


class RevokedError(Error):
    code = Code.REVOKED


class TruncatedError(Error):
    code = Code.TRUNC


class MismatchError(Error):
    code = Code.MISMATCH


class AuthError(Error):
    code = Code.AUTH


class ProtocolError(Error):
    code = Code.PROTO


class ConnectError(Error):
    code = Code.CONNECT


class CanceledError(Error):
    code = Code.CANCELED


class NotSupportedError(Error):
    code = Code.NOTSUP


class NoHandlerError(Error):
    code = Code.NOHANDLER


class RemoteError(Error):
    code = Code.REMOTE


class DeviceError(Error):
    code = Code.DEVICE


class OsError(Error, OSError):
    code = Code.SYS


class InternalError(Error):
    code = Code.INTERNAL


CLASSES: dict[int, type[Error]] = {
    cls.code: cls for cls in Error.__subclasses__()
}
for _name, _code, _scope, _text in _TABLE:
    CLASSES[_code].scope = _scope.lower()
