"""Verify the statistics of a base file against its rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.statistics.file_statistics import data_statistics
from lookupstore.hudi.layout.statistics.table_statistics import TableStatistics
from lookupstore.parquet.column_statistics import ColumnStatistics
from lookupstore.storage.location import Location


def wrong_statistics(
    location: Location, statistics: TableStatistics, file: FileSlice
) -> Iterator[str]:
    """Yield a text for each error in the statistics of a base file.

    All rows of the columns with statistics are read.

    Args:
        location: Location of the table.
        statistics: Statistics of files of the table. Without statistics of `file`, nothing is
            yielded.
        file: Base file to read.

    Raises:
        CorruptionError: If the file is damaged.
        FormatError: If a column of the file cannot be widened to its type in the statistics.
        StaleStoreError: If the file was deleted.
        OSError: If the file cannot be read.
    """
    said = statistics.of_file(file.path, file.bytes)
    if said is None:
        return
    columns = statistics.columns
    known = {name: one for name, one in said.columns.items() if one != ColumnStatistics()}
    asked = pa.schema([columns.field(name) for name in known])
    rows, found = data_statistics(location, file, asked)
    if rows != said.rows:
        yield f"statistics say {said.rows} rows, it has {rows}"
    for name, one in known.items():
        for problem in _problems(one, found[name]):
            yield f"statistics of the column {name!r} say {problem}"


def _problems(said: ColumnStatistics, found: ColumnStatistics) -> Iterator[str]:
    for what, count, right in (("nulls", said.nulls, found.nulls), ("NaNs", said.nans, found.nans)):
        if count is not None and count != right:
            yield f"{count} {what}, it has {right}"
    least, greatest = found.least, found.greatest
    if least is None or greatest is None:
        return
    low, high = said.least, said.greatest
    if low is not None and (
        pc.greater(low, least).as_py() or (said.least_is_exact and _differ(low, least))
    ):
        yield f"that {said.least} is the least value, it has {least}"
    if high is not None and (
        pc.less(high, greatest).as_py() or (said.greatest_is_exact and _differ(high, greatest))
    ):
        yield f"that {said.greatest} is the greatest value, it has {greatest}"


def _differ(one: pa.Scalar, other: pa.Scalar) -> bool:
    return bool(pc.not_equal(one, other).as_py())  # 0.0 and -0.0 are equal
