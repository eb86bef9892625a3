"""Rows for which a filter is true: base file, row number and record key.

Files are skipped as in a scan. In the others, only the record key and the columns of the filter are
read, in the row groups that the footer does not rule out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat
from lookupstore.filters import Filter, names_of, told_to_arrow
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.file_group.scan import BaseFiles
from lookupstore.hudi.meta_columns import RECORD_KEY
from lookupstore.hudi.read.changed_rows import without_dictionaries
from lookupstore.hudi.read.scan_plan import ScanPlan, plan_scan
from lookupstore.hudi.view import TableView

#: A base file, the record keys of some of its rows, and the numbers of these, ascending.
FileMatches = tuple[FileSlice, pa.Array, npt.NDArray[np.int64]]

# Number of files that are read at a time: for remote files, most of the time is waiting.
_THREADS = 8
# Name of the column of row numbers; no column of a table has this name.
_NUMBER = "#row"


@dataclass(frozen=True)
class MatchingRows:
    """The rows of a table for which a filter is true.

    Attributes:
        current: Current base files of the table, by partition path and id.
        plan: Plan of a scan with the filter.
    """

    current: tuple[FileSlice, ...]
    plan: ScanPlan

    def found(self) -> Iterator[FileMatches]:
        """Yield the files with matching rows once, in the order of the plan.

        Raises:
            CorruptionError: If a file is damaged.
            FormatError: If the type of a column cannot be widened to the table's.
            StaleStoreError: If a clean deleted a file.
            OSError: If a remote file cannot be read, or is damaged.
        """
        with ThreadPoolExecutor(_THREADS, "lookupstore-matching") as pool:
            waiting: deque[Future[FileMatches]] = deque()
            for file in self.plan.files:
                waiting.append(pool.submit(self._of_file, file))
                if len(waiting) > _THREADS:
                    yield from _some(waiting.popleft())
            while waiting:
                yield from _some(waiting.popleft())

    def _of_file(self, file: FileSlice) -> FileMatches:
        plan, where = self.plan, self.plan.where
        assert where is not None
        names = names_of(where)
        asked = plan.schema.names if names is None else [RECORD_KEY, *sorted(names)]
        schema = pa.schema([plan.schema.field(name) for name in dict.fromkeys(asked)])
        rows = SliceRows(plan.location, file, schema, threads=False)
        left = list(range(len(rows.group_rows)))
        if (told := told_to_arrow(where, plan.schema)) is not None:
            left = BaseFiles(plan.location, [file.path], plan.schema).groups_left(file.path, told)
        keys, numbers, first = [], [], 0
        for group, count in enumerate(rows.group_rows):
            end = first
            for batch in rows.batches(group) if group in left else ():
                begin, end = end, end + batch.num_rows
                found = _matching(without_dictionaries(batch, schema), where, begin)
                keys += found[RECORD_KEY].chunks
                numbers += [chunk.to_numpy() for chunk in found[_NUMBER].chunks]
            first += count
        return file, concat(keys, pa.string()), np.concatenate([np.zeros(0, np.int64), *numbers])


def plan_matching(view: TableView, where: Filter) -> MatchingRows:
    """Plan a search for the rows for which a filter is true, not null.

    Args:
        view: State of the table.
        where: Filter, in any form that the `filter` of `HudiTable.scan` has.

    Raises:
        TypeError, ValueError: If `where` is not a filter, or does not fit the columns.
        ImportError: If `where` is SQL, and sqlglot is not installed.
        CorruptionError: If the timeline is damaged.

    >>> import tempfile
    >>> from lookupstore.hudi import HudiTable
    >>> rows = pa.table({"id": [1, 2, 3], "page": ["/a", None, "/b"]})
    >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
    >>> _ = table.insert(rows)
    >>> ((_, keys, numbers),) = plan_matching(table.view(), pc.field("page") != "/a").found()
    >>> keys.to_pylist(), numbers.tolist()
    (['3'], [2])
    """
    everything = plan_scan(view, [RECORD_KEY])
    try:
        return MatchingRows(everything.files, everything.filtered(where))
    except (TypeError, ValueError) as error:
        said = f"where: {str(error).removeprefix('filter: ')}"
        raise (TypeError if isinstance(error, TypeError) else ValueError)(said) from error


def _matching(batch: pa.RecordBatch, where: pc.Expression, first: int) -> pa.Table:
    """Return the rows of a batch for which a filter is true, with their numbers."""
    numbers = np.arange(first, first + batch.num_rows)
    rows = pa.Table.from_batches([batch]).append_column(_NUMBER, pa.array(numbers))
    return rows.filter(where)


def _some(done: Future[FileMatches]) -> Iterator[FileMatches]:
    found = done.result()
    if len(found[1]):
        yield found
