"""Searches of the index of a file, which has one record in each block and no filter.

Each search of a record is short, therefore, and the search of the index is most of the time. The
file is compressed: tables of record positions, which would replace the index, are for others only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from conftest import heat
from workloads import Workload

from lookupstore.sst import Reader, Writer
from lookupstore.sst.cache import BlockCache
from lookupstore.sst.reader import lookup_of

#: Enough for all blocks: of one record, but with room for their tables.
CACHE = 1 << 30


@pytest.fixture(scope="module")
def blocks(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Return a hot reader of a file with one record in each block."""
    path = tmp_path_factory.mktemp("index") / "records.sst"
    keys = workload.keys
    with Writer(path, compression="zstd", block_size=1, bloom_fpp=0) as writer:
        writer.put_many(keys, pa.repeat(b"v" * 100, len(keys)))
    with Reader(path, cache=BlockCache(CACHE)) as reader:
        assert reader.info().data_blocks == len(keys)
        heat(lambda: reader.contains(keys))
        assert lookup_of(reader).data.table.places is None
        yield reader


def test_index_search_one(each: Callable[..., None], blocks: Reader, workload: Workload) -> None:
    """Measure `ls_fences_route` by `Lookup.get`."""
    find = lookup_of(blocks).get
    assert find(workload.random.listed[0]) == b"v" * 100
    each(find, workload.random.listed)


@pytest.mark.parametrize("order", ["random", "sorted"])
def test_index_search_many(order: str, benchmark: Any, blocks: Reader, workload: Workload) -> None:
    """Measure the search of `csrc/ls_batch.c` in the index by `Reader.contains`."""
    queries = getattr(workload, order)
    assert benchmark(blocks.contains, queries.keys).true_count == len(queries)


def test_index_validate(benchmark: Any, blocks: Reader) -> None:
    """Measure `ls_block_validate` by `Block.validate`, which checks the index of an opened file."""
    benchmark(lookup_of(blocks).index.validate, False)
