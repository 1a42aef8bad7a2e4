"""MPI.Exception, and how errors of nexar become it."""

from __future__ import annotations

from functools import wraps
from typing import Any, Callable, TypeVar

from .. import _errors as nx
from . import _constants as const

_CLASSES = {
    nx.PeerError: "ERR_PROC_FAILED",
    nx.RevokedError: "ERR_REVOKED",
    nx.TruncatedError: "ERR_TRUNCATE",
    nx.MismatchError: "ERR_ARG",
    nx.OutOfMemoryError: "ERR_NO_MEM",
    nx.NotSupportedError: "ERR_UNSUPPORTED_OPERATION",
    nx.InternalError: "ERR_INTERN",
}
_TEXTS = {
    "SUCCESS": "no error",
    "ERR_RANK": "invalid rank",
    "ERR_ROOT": "invalid root",
    "ERR_TAG": "invalid tag",
    "ERR_COMM": "invalid communicator",
    "ERR_BUFFER": "no buffer is attached",
    "ERR_REQUEST": "invalid request",
    "ERR_OP": "invalid operation for these elements",
    "ERR_TRUNCATE": "the message is longer than the buffer",
}
C = TypeVar("C", bound=type)


def error_code(name: str) -> int:
    return int(getattr(const, name))


def error_string(code: int) -> str:
    name = const.ERROR_CLASSES[code]
    return f"MPI_{name}: {_TEXTS.get(name, name.lower().replace('_', ' '))}"


class Exception(RuntimeError):
    """A call failed; the cause, an error of nexar, is in ``__cause__``."""

    def __init__(self, ierr: int = 0, text: str = "") -> None:
        super().__init__(ierr)
        self.ob_ierr, self._text = int(ierr), text

    def Get_error_code(self) -> int:
        return self.ob_ierr

    def Get_error_class(self) -> int:
        return self.ob_ierr

    def Get_error_string(self) -> str:
        return self._text or error_string(self.ob_ierr)

    @property
    def error_code(self) -> int:
        return self.ob_ierr

    @property
    def error_class(self) -> int:
        return self.ob_ierr

    @property
    def error_string(self) -> str:
        return self.Get_error_string()

    def __str__(self) -> str:
        return self.Get_error_string()

    def __int__(self) -> int:
        return self.ob_ierr

    def __bool__(self) -> bool:
        return self.ob_ierr != 0

    def __hash__(self) -> int:
        return hash(self.ob_ierr)

    def __eq__(self, other: object) -> bool:
        return self.ob_ierr == (other.ob_ierr if isinstance(other, Exception) else other)


def fail(name: str, text: str = "") -> Exception:
    """The exception of the error class |name|, to be raised."""
    return Exception(error_code(name), text)


def missing(call: str) -> NotImplementedError:
    return NotImplementedError(f"{call}: nexar has no such call")


def of_nexar(err: nx.Error) -> BaseException:
    if isinstance(err, nx.InvalidError):
        return fail("ERR_COMM", err.message) if "is closed" in err.message else err
    return fail(_CLASSES.get(type(err), "ERR_OTHER"), err.message)


def translated(cls: C) -> C:
    """The methods of |cls| raise MPI.Exception where nexar raises its errors."""
    for name, method in list(vars(cls).items()):
        if callable(method) and not name.startswith("_"):
            setattr(cls, name, _translate(method))
        elif isinstance(method, classmethod):
            setattr(cls, name, classmethod(_translate(method.__func__)))
    return cls


def _translate(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except nx.Error as err:
            text = of_nexar(err)
            if text is err:
                raise
            raise text from err

    return call
