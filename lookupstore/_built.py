"""Says what to run in a checkout whose extensions are not built, before anything fails for that."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def check_built(package: Path) -> None:
    """Check that each Cython source of a checkout has its extension; installations have no source.

    Args:
        package: the folder of the package.

    Raises:
        ImportError: one lacks it; the error says what to run.
    """
    if not (package / "arrow" / "_binary.pyx").exists():
        return
    for source in package.rglob("*.pyx"):
        if not any(source.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES):
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise ImportError(
                f"lookupstore is not built for Python {version} in {package.parent}: run "
                "'pip install -e .' there, or leave that folder to import an installed one",
                name="lookupstore",
            )


check_built(Path(__file__).parent)
