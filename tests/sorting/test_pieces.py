"""Batches in a temporary file: what comes back is what was written, however the system cuts it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.sorting.pieces import PieceFile


def batch_of(number: int) -> pa.RecordBatch:
    """Return a batch of columns and rows of its own, of which some are null."""
    columns = {"n": pa.array(np.arange(number)), "text": pa.array([None, "é" * number, ""])}
    return pa.record_batch({name: columns[name].slice(1).take([0] * number) for name in columns})


def test_pieces_of_several_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may write and read fewer bytes than it was asked to."""
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[:300], at))
    monkeypatch.setattr(os, "preadv", lambda file, into, at: read(file, [into[0][:200]], at))
    batches = [batch_of(number) for number in range(2, 40)]
    batches += [one.select(["text"]).slice(1) for one in batches]
    file = PieceFile(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    with ThreadPoolExecutor(4) as pool:
        pieces = list(pool.map(file.append, batches))
        found = list(pool.map(file.read, reversed(pieces)))
    assert found[::-1] == batches
    file.close()


def test_the_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = PieceFile(str(tmp_path))
    piece = file.append(batch_of(3))
    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", lambda *_: 0)
        with pytest.raises(OSError, match=rf"{tmp_path}: a temporary file ends at byte 0"):
            file.read(piece)
    file.close()
    with pytest.raises(FileNotFoundError, match="missing"):
        PieceFile(str(tmp_path / "missing"))
