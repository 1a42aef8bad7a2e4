"""Builds the extension against the torch that is installed, once, into a cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import torch

NAME = "_nexar_torch"
_package = Path(__file__).resolve().parent
_sources = sorted((_package / "csrc").glob("*.cpp"))
_headers = sorted((_package / "csrc").glob("*.hpp"))


class BuildError(ImportError):
    """The extension is not there and could not be built."""


def _nexar() -> tuple[Path, Path]:
    """The library and the folder of nexar.h, both part of the package."""
    package = Path(__file__).absolute().parent.parent
    libraries = sorted((package / "lib").glob("libnexar.so*"))
    if not libraries or not (package / "include" / "nexar.h").exists():
        raise BuildError(
            f"nexar.torch: {package} has no lib/libnexar.so or no include/nexar.h; "
            "reinstall the package nexar"
        )
    return libraries[0].resolve(), package / "include"


def _key(library: Path, include: Path) -> str:
    """Changes with everything that the extension is made from."""
    digest = hashlib.sha256()
    for text in (torch.__version__, sys.version, sys.platform, str(library)):
        digest.update(text.encode() + b"\0")
    for file in (*_sources, *_headers, include / "nexar.h"):
        digest.update(file.read_bytes())
    return f"torch{torch.__version__}-{digest.hexdigest()[:16]}"


def _cache() -> Path:
    folder = os.environ.get("TORCH_EXTENSIONS_DIR")
    if folder:
        return Path(folder) / "nexar"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nexar" / "torch"


def _need_tools() -> None:
    compiler = os.environ.get("CXX", "c++")
    missing = [tool for tool in (compiler.split()[0], "ninja") if not shutil.which(tool)]
    if missing:
        raise BuildError(
            f"nexar.torch: {' and '.join(missing)} not found: the extension for torch "
            f"{torch.__version__} is compiled at its first use; install a C++ compiler (g++) and "
            "ninja, or set CXX"
        )


def build(target: Path, library: Path, include: Path) -> None:
    """Compiles in a process of its own, in a new folder, and moves the result to |target|."""
    _need_tools()
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, str(_package / "_compile.py"), folder, str(library), str(include)]
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode != 0:
            raise BuildError(
                f"nexar.torch: the extension for torch {torch.__version__} did not compile:\n"
                + done.stdout[-4000:]
            )
        os.replace(Path(folder) / f"{NAME}.so", target)


def load() -> ModuleType:
    """The extension module; the first call on a machine compiles it, which takes a minute."""
    if NAME in sys.modules:
        return sys.modules[NAME]
    library, include = _nexar()
    folder = _cache() / _key(library, include)
    target = folder / f"{NAME}.so"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(folder / "lock", "w") as lock:  # the ranks of a host start together
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                build(target, library, include)
    spec = importlib.util.spec_from_file_location(NAME, target)
    if spec is None or spec.loader is None:
        raise BuildError(f"nexar.torch: {target} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[NAME] = module
    return module
