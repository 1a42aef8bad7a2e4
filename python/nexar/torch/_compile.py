"""_compile.py FOLDER LIBRARY INCLUDE: compiles the extension in FOLDER; run by _build.py."""

import sys
from pathlib import Path

from torch.utils import cpp_extension

folder, library, include = sys.argv[1:]
here = Path(__file__).resolve().parent / "csrc"
# Torch's headers take longer than the code: they are read once.
whole = Path(folder) / "nexar_torch.cpp"
whole.write_text("".join(f'#include "{file.name}"\n' for file in sorted(here.glob("*.cpp"))))
cpp_extension.load(
    name="_nexar_torch",
    sources=[str(whole)],
    extra_include_paths=[str(here), include],
    extra_cflags=["-O2", "-g0", "-fvisibility=hidden"],
    extra_ldflags=[library, f"-Wl,-rpath,{Path(library).parent}"],
    build_directory=folder,
    is_python_module=False,
)
