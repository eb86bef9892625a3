"""Tables written by Apache Hudi, which are not part of this repository."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

# LOOKUPSTORE_FIXTURES names another folder with the zips.
FIXTURES = Path(
    os.environ.get("LOOKUPSTORE_FIXTURES")
    or Path(__file__).resolve().parent.parent.parent / "shared" / "fixtures" / "hudi"
)


def base_files() -> list[tuple[str, bytes]]:
    """Return name and bytes of every base file with a Hudi footer."""
    zips = sorted(FIXTURES.glob("*.zip"))
    if not zips:
        pytest.skip(f"no tables of Apache Hudi in {FIXTURES}; set LOOKUPSTORE_FIXTURES")
    found = []
    for path in zips:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".parquet") and not name.startswith("__MACOSX/"):
                    found.append((f"{path.name}: {name}", archive.read(name)))
    return found
