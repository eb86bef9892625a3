"""Check that a checkout has its extensions, before an import of one fails."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES


def check_built(package: str | os.PathLike[str]) -> None:
    """Check that each Cython source of a checkout has its extension.

    Installations have no sources, and are not checked.

    Args:
        package: Folder of the package.

    Raises:
        ImportError: If an extension is missing. The error names the command that builds it.
    """
    if not os.path.exists(os.path.join(package, "arrow", "_binary.pyx")):
        return
    for _, _, names in os.walk(package):
        known = {*names}
        for name in names:
            stem, ending = os.path.splitext(name)
            if ending != ".pyx" or any(f"{stem}{one}" in known for one in EXTENSION_SUFFIXES):
                continue
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise ImportError(
                f"lookupstore is not built for Python {version} in {os.path.dirname(package)}: run "
                "'pip install -e .' there, or leave that folder to import an installed one",
                name="lookupstore",
            )


check_built(os.path.dirname(__file__))
