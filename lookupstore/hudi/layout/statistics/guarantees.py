"""Turn statistics into expressions by which Arrow's datasets skip files.

Engines filter a dataset of Arrow themselves. Arrow compares the filter with the expression of each
file, and does not open files that cannot have a matching row.

Source: Arrow, dataset/file_parquet.cc (EvaluateStatisticsAsExpression), for the form of
expressions.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.statistics.table_statistics import TableStatistics

# Maximum number of bounds: each takes about ten microseconds.
_MOST = 100_000


def guarantees(
    statistics: TableStatistics, columns: pa.Schema, files: Sequence[FileSlice]
) -> dict[str, pc.Expression]:
    """Return for each file an expression that is true of all its rows, by its path.

    The number of columns is limited, so that there are at most 100,000 bounds in all. Float columns
    that may have NaN are left out, because engines order NaN in different ways.

    Args:
        statistics: Statistics of files of the table.
        columns: All columns of the table.
        files: Base files to return expressions for; files without statistics have none.
    """
    table = statistics.table
    sizes = dict(zip(table["path"].to_pylist(), table["bytes"].to_pylist(), strict=True))
    known = {one.path for one in files if sizes.get(one.path) == one.bytes}
    at = [number for number, path in enumerate(sizes) if path in known]
    names = list(statistics.in_types(columns).items())[: _MOST // max(1, len(at))]
    found: dict[str, pc.Expression] = {}
    paths = table["path"].take(pa.array(at, pa.int64())).to_pylist()
    for name, bounds in names:
        field = pc.field(name)
        no_nans = ~bounds.may_have_nans
        has_values, has_nulls = bounds.may_have_values, bounds.may_have_nulls
        for number, path in zip(at, paths, strict=True):
            least, greatest = bounds.least[number], bounds.greatest[number]
            if not has_values[number]:
                fact = field.is_null()
            elif least.is_valid and greatest.is_valid and no_nans[number]:
                low, high = field >= pc.scalar(least), field <= pc.scalar(greatest)
                if has_nulls[number]:
                    low, high = low | field.is_null(), high | field.is_null()
                fact = low & high
            else:
                continue
            found[path] = found[path] & fact if path in found else fact
    return found
