"""Check that a checkout has its extensions, before an import of one fails."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def check_built(package: Path) -> None:
    """Check that each Cython source of a checkout has its extension.

    Installations have no sources, and are not checked.

    Args:
        package: Folder of the package.

    Raises:
        ImportError: If an extension is missing. The error names the command that builds it.
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
