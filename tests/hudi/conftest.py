"""What tests of Hudi tables share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from lookupstore.hostcache.cache import Residency


@pytest.fixture(autouse=True)
def no_warning_is_only_logged(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a test fail for a warning that nobody caught, though it fails no write.

    Here, warnings are errors: what a write goes on without is then a line of the log.
    """
    told: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("lookupstore.hudi.layout.unfailing")
    log.addHandler(handler)
    yield
    log.removeHandler(handler)
    assert not told or "caplog" in request.fixturenames, told


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
