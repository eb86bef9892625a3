"""The check of a block's trailer: its checksum over a payload of 64 KiB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from workloads import SEED

from lookupstore.sst import Writer
from lookupstore.sst.format import TRAILER_SIZE
from lookupstore.sst.stored import StoredFile


@pytest.mark.parametrize("dialect", ["native", "paimon"])
def test_trailer_check(dialect: str, benchmark: Any, tmp_path: Path) -> None:
    """Measure `crc32c` (native) or `crc32` (paimon) by `StoredFile.payload`."""
    value = np.random.default_rng(SEED).bytes(64 << 10)
    with Writer(tmp_path / "one.sst", dialect=dialect) as writer:
        writer.put(b"key", value)
    file = StoredFile(str(tmp_path / "one.sst"))
    index = file.block(file.footer.index, "index block", "bytes")
    (handle,) = index.handles(file.footer.index[0], TRAILER_SIZE)
    codec, payload = benchmark(file.payload, handle, "block")
    assert codec == 0
    assert value in bytes(payload)
