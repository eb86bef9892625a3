"""What tests of Hudi tables share."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookupstore.hostcache.cache import Residency


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    """Return a folder for the lookup files of one test."""
    return Residency(tmp_path / "local", quota=1 << 30)


@pytest.fixture(scope="session")
def real_base_files(real_tables: Path) -> list[Path]:
    """Return the base files of all tables, each with a Hudi footer."""
    files = sorted(path for path in real_tables.rglob("*.parquet") if "metadata" not in path.parts)
    assert files
    return files
