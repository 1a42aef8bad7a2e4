"""python -m nexar: the command `nexar`."""

from __future__ import annotations

import os
import shutil
import sys


def command() -> str | None:
    """The command of this package, or the installed one."""
    mine = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "nexar")
    if os.access(mine, os.X_OK):
        return mine
    return shutil.which("nexar")


def main() -> None:
    path = command()
    if path is None or os.path.realpath(path) == os.path.realpath(sys.argv[0]):
        sys.exit("python -m nexar: the command nexar was not found; install nexar")
    args = sys.argv[1:]
    os.execv(path, ["nexar", *_with_python(args)])


def _with_python(args: list[str]) -> list[str]:
    """`run -n 4 script.py` runs the script by this Python."""
    if not args or args[0] != "run":
        return args
    for i, arg in enumerate(args[1:], 1):
        if arg.endswith(".py") and os.path.isfile(arg):
            return [*args[:i], sys.executable, *args[i:]]
        if not arg.startswith("-") and shutil.which(arg) is not None:
            return args  # a program, and what follows is its own
    return args


if __name__ == "__main__":
    main()
