"""The entry point `torch.backends`, which torch calls at the end of its own import."""

from __future__ import annotations

import sys


def autoload() -> None:
    """Registers the backend, unless the import of nexar.torch is what imports torch."""
    if "nexar.torch" not in sys.modules:
        import nexar.torch  # noqa: F401
