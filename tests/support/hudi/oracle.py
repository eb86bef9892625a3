"""The other reader: hudi-rs, and how its answers are compared with ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

# Rows in one order, whatever files they come from.
_ORDER = [
    (name, "ascending")
    for name in ("_hoodie_partition_path", "_hoodie_record_key", "_hoodie_file_name")
]


def other(path: Path) -> Any:
    """Open a table with hudi-rs; it keeps the timeline of this moment."""
    return HudiTableBuilder.from_base_uri(str(path.resolve())).build()


def other_scan(table: Any, as_of: str | None = None) -> pa.Table | None:
    """Return the rows that hudi-rs reads of a path or of what is open; None if it finds none."""
    options = HudiReadOptions()
    return _read(table, options if as_of is None else options.with_as_of_timestamp(as_of))


def other_base_files(path: Path, as_of: str | None = None) -> pa.Table | None:
    """Return the rows that hudi-rs reads of base files alone; None if it finds none."""
    builder = HudiTableBuilder.from_base_uri(str(path.resolve()))
    table = builder.with_hudi_option("hoodie.read.use.read_optimized.mode", "true").build()
    return other_scan(table, as_of)


def other_incremental(table: Any, since: str, until: str | None = None) -> pa.Table | None:
    """Return the rows that hudi-rs says changed; None if it finds none."""
    options = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
    options = options.with_start_timestamp(since)
    return _read(table, options if until is None else options.with_end_timestamp(until))


def assert_same_rows(ours: pa.Table, theirs: pa.Table | None) -> None:
    """Compare rows, columns and types; hudi-rs says of meta columns that they are never null."""
    if theirs is None:
        assert ours.num_rows == 0
        return
    assert ours.schema.names == theirs.schema.names
    assert [str(field.type) for field in ours.schema] == [str(one.type) for one in theirs.schema]
    assert ours.sort_by(_ORDER).to_pylist() == theirs.sort_by(_ORDER).to_pylist()


def _read(table: Any, options: HudiReadOptions) -> pa.Table | None:
    batches = (other(table) if isinstance(table, Path) else table).read(options)
    return pa.Table.from_batches([pa.record_batch(batch) for batch in batches]) if batches else None
