"""Changes between two moments: inserts, updates with both values, deletes.

Only file groups that were rewritten, replaced or made in the range are read. Record keys and commit
times show which rows may have changed; then the values of these rows are compared. A row is
identified by its record key and partition. A row that a clustering, or an overwrite with the same
rows, moved to another file did not change.

Rows of the result can be applied in their order: deletes first, then all others, file by file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow.changelog import (
    AFTER,
    BEFORE,
    CHANGE,
    DELETE,
    INSERT,
    KINDS,
    changelog_schema,
    told,
)
from lookupstore.arrow.differences import differing
from lookupstore.arrow.types import concat
from lookupstore.errors import StaleStoreError
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.read.changed_rows import ChangedRows, Rows, Were, without_dictionaries
from lookupstore.hudi.timeline.given_times import When, given_position
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.timeline.plans import RestoreMetadata, RollbackMetadata, parse_plan
from lookupstore.hudi.timeline.timeline import RESTORE, ROLLBACK, Instant
from lookupstore.hudi.view import TableView
from lookupstore.storage.location import Location

# Maximum number of rows of a batch of the result.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class ChangePlan:
    """A plan of a read of changes: files, commits and columns.

    Attributes:
        location: Location of the table.
        stored: Schema of all columns of the table.
        groups: File groups that differ between the ends of the range, each with its file at the
            beginning and at the end. None: the group has no file then.
        times: Request times of the commits of the range.
        columns: Names of the columns to return.
        compared: Names of the columns whose changes count.
    """

    location: Location
    stored: pa.Schema
    groups: dict[GroupId, tuple[FileSlice | None, FileSlice | None]]
    times: tuple[str, ...]
    columns: tuple[str, ...]
    compared: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the result."""
        return changelog_schema(self.stored.field(name) for name in self.columns)

    def parts(self) -> list[ChangePlan]:
        """Return a separate plan for each partition path."""
        every = groupby(sorted(self.groups), key=lambda group: group.partition)
        return [
            replace(self, groups={group: self.groups[group] for group in groups})
            for _, groups in every
        ]

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of the changes; its errors are those of `batches`."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes, in an order in which they can be applied.

        Memory holds the keys and changed values of one file; for one partition, the keys of rows
        that moved to another file, are new or were deleted; and the numbers of all changed rows.

        Raises:
            DuplicateKeyError: If a changed row has the same key as another row of its partition.
            CorruptionError: If a file is damaged.
            FormatError: If the type of a column of a file cannot be widened to the table's.
            StaleStoreError: If a file was deleted by a clean or a rollback.
            OSError: If a remote file cannot be read, or is damaged.
        """
        written = pa.array(sorted(self.times), pa.string())
        changed = []
        for part in self.parts():
            found = ChangedRows(self.location)
            for before, after in part.groups.values():
                found.add(before, after, written)
            found.match_others()
            for file, rows in found.deleted:
                yield from self._said(DELETE, file, rows)
            changed.append(found)
        for one in changed:
            for file, rows, were in one.updated:
                yield from self._updates(file, rows, were)
            for file, rows in one.inserted:
                yield from self._said(INSERT, file, rows)

    def _updates(
        self, file: FileSlice, rows: Rows, were: Sequence[Were]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose values changed, each after its earlier version."""
        names = list(dict.fromkeys([*self.columns, *self.compared]))
        parts = [self._values(one.file, one.rows, names) for one in were]
        order = np.argsort(np.concatenate([one.turns for one in were]))
        before = pa.concat_tables(parts).take(pa.array(order))
        after = self._values(file, rows, names)
        differ = np.zeros(len(rows), bool)
        for name in self.compared:
            one, other = (concat(table[name].chunks, table[name].type) for table in (before, after))
            differ |= differing(one, other)
        chosen = pa.array(differ)
        both = [table.filter(chosen) for table in (before, after)]
        count = int(np.count_nonzero(differ))
        turns = np.arange(2 * count).reshape(2, count).T.ravel()
        kinds = np.tile(np.array([KINDS.index(BEFORE), KINDS.index(AFTER)], np.int8), count)
        values = pa.concat_tables(both).take(pa.array(turns))
        yield from self._batches(kinds, values.select(list(self.columns)))

    def _said(self, kind: str, file: FileSlice, rows: Rows) -> Iterator[pa.RecordBatch]:
        kinds = np.full(len(rows), KINDS.index(kind), np.int8)
        return self._batches(kinds, self._values(file, rows, self.columns))

    def _batches(self, kinds: npt.NDArray[np.int8], values: pa.Table) -> Iterator[pa.RecordBatch]:
        if len(kinds):
            yield from told(kinds, values).combine_chunks().to_batches(_BATCH_ROWS)

    def _values(self, file: FileSlice, rows: Rows, names: Sequence[str]) -> pa.Table:
        """Return columns of some rows of a file, by ascending row numbers."""
        schema = pa.schema([self.stored.field(name) for name in names])
        stored = SliceRows(self.location, file, schema, threads=True)
        ends = list(accumulate(stored.group_rows, initial=0))
        parts = []
        for group, (first, end) in enumerate(pairwise(ends)):
            wanted = rows[slice(*np.searchsorted(rows, [first, end]))]
            # A row group without such a row is not read.
            for batch in stored.batches(group) if len(wanted) else ():
                here = int(np.searchsorted(wanted, first + batch.num_rows))
                parts.append(
                    without_dictionaries(batch.take(pa.array(wanted[:here] - first)), schema)
                )
                wanted, first = wanted[here:], first + batch.num_rows
        return pa.Table.from_batches(parts, schema)


def plan_row_changes(
    view: TableView,
    since: When | None,
    until: When | None,
    columns: Sequence[str] | None = None,
    ignore: Collection[str] = (),
) -> ChangePlan:
    """Plan a read of `HudiTable.changes`.

    Args:
        view: State of the table.
        since: Position of the last instant before the range. None: the beginning of the table.
        until: Position of the last instant of the range. None: the latest.
        columns: Names of the columns to return, in this order. None: the data columns.
        ignore: Names of columns whose changes are ignored.

    Raises:
        KeyError: If the table does not have a column.
        ValueError: If `since` or `until` is not a valid time, `until` is before `since`, or a
            requested column is named `change`.
        FormatError: If the rows of the table do not record when they changed.
        CorruptionError: If the timeline is damaged.
        StaleStoreError: If the table as of `since` or `until` cannot be read any more.
    """
    zone = view.options.timezone
    since = given_position("since", since, zone, view.timeline)
    until = given_position("until", until, zone, view.timeline)
    data = [name for name in view.schema.names if name not in META_COLUMNS]
    names = data if columns is None else view.names(columns)
    if CHANGE in names:
        raise ValueError(
            f"columns: the table has a column {CHANGE!r}, as the result has; name the others"
        )
    ignored = set(view.names(list(ignore)))
    if since is not None and until is not None and until < since:
        raise ValueError(f"until is {until}, before since, {since}; give them the other way round")
    _, times = view.changed(since, until)
    _check_nothing_taken_back(view, since)
    first = [] if since is None else view.groups_until(since, "since")
    before, after = (
        {group.id: group.current for group in groups}
        for groups in (first, view.groups_until(until))
    )
    both = {group: (before.get(group), after.get(group)) for group in {*before, *after}}
    other = {group: files for group, files in both.items() if files[0] != files[1]}
    compared = tuple(name for name in data if name not in ignored)
    return ChangePlan(view.location, view.schema, other, tuple(times), tuple(names), compared)


def _check_nothing_taken_back(view: TableView, since: str | None) -> None:
    """Check that no commit that readers may have seen at a position was rolled back later.

    A commit is completed after its request: one that was requested after `since` was not there.
    """
    if since is None or any(one.position == since for one in view.timeline.writes()):
        return
    for one in view.timeline:
        if one.action not in (RESTORE, ROLLBACK) or not one.is_completed or one.position <= since:
            continue
        for time in _rolled_back(view, one):
            if time <= since:
                raise StaleStoreError(
                    f"{view.location.uri}: since is {since}, which is not the position of a "
                    f"commit, and the {one.action} {one.time} removed {time}, which may have been "
                    "a commit at that time: read all rows, then continue from the position of a "
                    "commit that timeline() lists"
                )


def _rolled_back(view: TableView, instant: Instant) -> tuple[str, ...]:
    """Return the request times of the instants that a rollback or restore rolled back."""
    content, path = view.folder.read(instant), view.folder.path(instant)
    if instant.action == RESTORE:
        return parse_plan(RestoreMetadata, content, path).instants_to_rollback
    return parse_plan(RollbackMetadata, content, path).commits_rollback
