"""Deleted rows that are packed until they are needed, compared with their positions."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
from support.delta_tables import with_vectors

from lookupstore.tables.delta import table_snapshot
from lookupstore.tables.packed_rows import PackedRows
from lookupstore.tables.snapshot import DeletedRows


def test_random_rows_come_back(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        end = chance.choice([0, 1, 9, 1000, 1 << 20, 1 << 31])
        count = chance.randrange(min(end, 2000) + 1)
        rows = np.array(sorted(chance.sample(range(end), count)), np.int64)
        packed = pickle.loads(pickle.dumps(PackedRows.of(rows)))
        assert packed.load().positions.tolist() == rows.tolist()
        assert packed.load().positions.dtype == np.int64
        assert packed.count == len(rows)
        assert packed.identity == DeletedRows(rows).identity
        assert packed.nbytes <= min(4 * len(rows), DeletedRows(rows).end // 8 + 1)


def test_a_snapshot_keeps_at_most_a_bit_for_each_row(tmp_path: Path) -> None:
    rows = 100_000
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": range(rows)}))
    (path,) = pa.table(deltalake.DeltaTable(tmp_path / "t").get_add_actions())["path"].to_pylist()
    with_vectors(tmp_path / "t", {path: range(0, rows, 2)})
    (file,) = table_snapshot(str(tmp_path / "t")).files
    assert isinstance(file.deleted, PackedRows)
    assert file.deleted.nbytes <= rows // 8
    assert file.rows_left == rows // 2
