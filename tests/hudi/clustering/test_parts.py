"""What tasks do of a clustering: samples of parts of any size say where all rows go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from lookupstore.hudi import HudiTable
from lookupstore.hudi.clustering import ClusterFiles, Placement, rows_to_sample
from lookupstore.hudi.file_group import FileFormat
from lookupstore.hudi.layout import LayoutChoice

SCHEMA = pa.schema({"id": pa.int64(), "a": pa.int64()})


def test_parts_of_different_size(tmp_path: Path, seed: int) -> None:
    """Each part is sampled as far as it may be; of all, rows have the same chance."""
    random = np.random.default_rng(seed)
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id", name="t")
    for start, count in ((0, 30_000), (100_000, 1_000), (200_000, 5_000)):
        values = random.integers(start, start + 100_000, count)
        rows = pa.table([np.arange(start, start + count), values], schema=SCHEMA)
        table.bulk_insert(rows)
    view, choice = table.view(), LayoutChoice("a", curve="linear")
    files = ClusterFiles(view.location, view.table_schema, choice, FileFormat())
    slices = [group.current for group in view.groups(None)]
    samples = [files.sample([one], 1200) for one in slices]
    assert sorted(one.count for one in samples) == [1_000, 5_000, 30_000]
    for one in samples:
        assert 300 < one.rows.num_rows <= 1200
        assert abs(one.rows.num_rows - one.share * one.count) < 6 * one.rows.num_rows**0.5 + 1
    placement = Placement.of(samples, choice, 6)
    found, values = [], []
    for one in slices:
        first = 0
        for batch in files.batches(one):
            positions, numbers = placement.files(batch, first)
            assert len(positions) == batch.num_rows
            found.append(numbers)
            values.append(batch["a"].to_numpy())
            first += batch.num_rows
    numbers, given = np.concatenate(found), np.concatenate(values)
    sizes = np.bincount(numbers, minlength=6)
    assert abs(sizes - 6_000).max() < 2_000, sizes
    # Files have ranges of their own.
    for file in range(5):
        assert given[numbers == file].max() < given[numbers == file + 1].min()


def test_a_sample_is_as_large_as_the_files_need() -> None:
    assert rows_to_sample(10, 10, 1) == 8192  # twice what one file needs: parts differ
    assert rows_to_sample(1, 10**9, 1000) == 64
    assert rows_to_sample(10**12, 10**12, 10**6) == 2 << 18
    assert rows_to_sample(0, 0, 1) == 64
