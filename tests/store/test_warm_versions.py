"""What a version has read of a file is ready for the next one that names it, too."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa

import lookupstore
from lookupstore import LookupStore
from lookupstore.store.local_files import files_of

ROWS = 20_000
AN_HOUR_AGO = time.time() - 3600


def aged(folder: Path) -> None:
    """Make the files an hour old: a young one is nobody's but its reader's."""
    for path in (folder / "data").iterdir():
        os.utime(path, (AN_HOUR_AGO, AN_HOUR_AGO))


def blocks_read(store: LookupStore) -> int:
    return files_of(store).counts().blocks_read


def test_the_next_version_begins_warm(tmp_path: Path) -> None:
    table = pa.table({"id": range(ROWS), "n": [5 * i for i in range(ROWS)]})
    lookupstore.build(table, tmp_path / "s", key="id", buckets=2, block_size=4096).close()
    aged(tmp_path / "s")
    with lookupstore.open(tmp_path / "s") as store:
        keys = table["id"].combine_chunks()
        assert store.lookup(keys)["n"].to_pylist() == table["n"].to_pylist()
        cold = blocks_read(store)
        assert cold > 20
        with store.upsert(pa.table({"id": [7], "n": [-1]})) as newer:
            aged(tmp_path / "s")
            expected = table["n"].to_pylist()
            expected[7] = -1
            assert newer.lookup(keys)["n"].to_pylist() == expected
            assert blocks_read(newer) < cold // 10  # of the run
            with newer.compact() as compacted:
                # One bucket is another file now.
                assert compacted.lookup(keys)["n"].to_pylist() == expected
                assert cold // 10 < blocks_read(compacted) < cold
