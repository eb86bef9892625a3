"""The memory of a container, from files as control groups of both versions have them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lookupstore import memory_limit as limits

HOST = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, HOST),
        ({"memory.max": "max\n"}, HOST),
        ({"memory.max": "1000000\n"}, 1_000_000),
        ({"memory/memory.limit_in_bytes": "3000000\n"}, 3_000_000),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, HOST),
        ({"memory.max": "2000000", "memory/memory.limit_in_bytes": "1000"}, 1000),
    ],
)
def test_limits(
    files: dict[str, str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    groups = {
        "": (str(tmp_path), "memory.max"),
        "memory": (str(tmp_path / "memory"), "memory.limit_in_bytes"),
    }
    monkeypatch.setattr(limits, "_GROUPS", groups)
    limits.memory_limit.cache_clear()
    try:
        assert limits.memory_limit() == expected
    finally:
        limits.memory_limit.cache_clear()
