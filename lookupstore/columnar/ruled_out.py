"""Find the files of folders that a condition rules out, by their folders and their footers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import compress

import pyarrow as pa

from lookupstore.columnar.source_file import SourceFile
from lookupstore.filters.constants import which_may_match
from lookupstore.filters.row_filter import RowFilter
from lookupstore.parquet.footer import read_footer
from lookupstore.source.skipping import StatisticsFilter
from lookupstore.tables.recently_read import RecentlyRead

# Number of footers that are read at a time, and most answers that are kept.
_THREADS = 16
_MOST_KEPT = 100_000

# Folders that are listed again have mostly the same files, whose footers need not be read again.
_answers: RecentlyRead[bool] = RecentlyRead(_MOST_KEPT, lambda answer: 1)


def that_may_match(
    files: Sequence[SourceFile], condition: RowFilter, columns: pa.Schema
) -> list[SourceFile]:
    """Return the files that may have rows which meet a condition.

    Args:
        files: The files.
        condition: The condition.
        columns: Columns of all files together.

    Raises:
        CorruptionError: If a footer is damaged.
        StaleStoreError: If a file was written again, or is gone.
        OSError: If a remote file could not be read.
    """
    constants = [
        {name: pa.scalar(value, file.schema.field(name).type) for name, value in file.constants}
        for file in files
    ]
    some = [*compress(files, which_may_match(condition, columns, constants))]
    by_statistics = StatisticsFilter(condition, columns)
    kinds, identity = columns.to_string(), condition.identity

    def may_match(file: SourceFile) -> bool:
        if file.file_format != "parquet" or not by_statistics.columns.names:
            return True
        asked = (file.uri, file.stored.parts, kinds, identity)
        return _answers.get(asked, partial(_may_match, file, by_statistics))

    with ThreadPoolExecutor(_THREADS, "lookupstore-footer") as pool:
        return [*compress(some, pool.map(may_match, some))]


def _may_match(file: SourceFile, by_statistics: StatisticsFilter) -> bool:
    """Return whether the footer of a file leaves a row group that may have such rows."""
    with file.reading(), file.open() as handle:
        footer = read_footer(handle, file.uri)
    there = {name: name for name in by_statistics.columns.names if name in file.schema.names}
    values = {
        field.name: pa.scalar(None, field.type)
        for field in by_statistics.columns
        if field.name not in there
    }
    for name, value in file.constants:
        if name in there:
            values[name] = pa.scalar(value, file.schema.field(name).type)
    return any(by_statistics.groups(footer, there, values).are_read)
