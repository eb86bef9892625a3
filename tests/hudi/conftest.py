"""Tables that Apache Hudi wrote, unpacked for tests; where they come from is in their README."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lookupstore.residency import Residency

ROOT = Path(__file__).parent.parent.parent
FIXTURES = Path(os.environ.get("LOOKUPSTORE_FIXTURES", ROOT.parent / "shared" / "fixtures"))


@pytest.fixture(scope="session")
def real_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the tables, which tests do not write to."""
    archives = sorted((FIXTURES / "hudi").glob("*.zip"))
    if not archives:
        pytest.skip(
            f"no tables of Apache Hudi in {FIXTURES}/hudi; set LOOKUPSTORE_FIXTURES to the folder "
            "that has hudi/*.zip"
        )
    folder = tmp_path_factory.mktemp("hudi")
    for path in archives:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            archive.extractall(
                folder,
                [name for name in names if "__MACOSX" not in name and not name.endswith(".crc")],
            )
    return folder


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    """Return a folder for the lookup files of one test."""
    return Residency(tmp_path / "local", quota=1 << 30)


@pytest.fixture
def real_table(real_tables: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Return what copies one of the tables, for a test that writes to it."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(real_tables / name, tmp_path / name))

    return copied
