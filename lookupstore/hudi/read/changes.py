"""What changed between two moments of a table: inserts, updates with both images, deletes.

Only file groups that were rewritten, replaced or made in between are looked at: first at record
keys and commit times, which say which rows may have changed, then at the values of these alone.
A row is that of a record key in a partition. One that a clustering, or an overwrite with the same
rows, put elsewhere did not change.

Rows of the result come so that they can be applied from the first to the last: deletes, then all
others, file by file.
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
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.timeline.timeline import RESTORE, ROLLBACK, When, given_position
from lookupstore.hudi.view import TableView
from lookupstore.storage.location import Location

# Rows of a batch of the result, at most.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class ChangePlan:
    """Which files have what changed between two moments.

    Attributes:
        location: of the table.
        stored: all columns of the table.
        groups: file groups that are not the same at both ends of the range, each with its file at
            the beginning and at the end; None: it has none then.
        times: request times of the commits of the range.
        columns: names of the columns that are wanted.
        compared: names of those in which a change counts.
    """

    location: Location
    stored: pa.Schema
    groups: dict[GroupId, tuple[FileSlice | None, FileSlice | None]]
    times: tuple[str, ...]
    columns: tuple[str, ...]
    compared: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return changelog_schema(self.stored.field(name) for name in self.columns)

    def parts(self) -> list[ChangePlan]:
        """Return a plan for each partition path, which others need not know of."""
        every = groupby(sorted(self.groups), key=lambda group: group.partition)
        return [
            replace(self, groups={group: self.groups[group] for group in groups})
            for _, groups in every
        ]

    def reader(self) -> pa.RecordBatchReader:
        """Return what changed; its errors are those of `batches`."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield what changed, in the order in which it can be applied.

        In memory are the keys and changed values of one file, the keys of rows that are in another
        file than before, or in none, of one partition, and the numbers of all rows that changed.

        Raises:
            DuplicateKeyError: a row that changed has the key of another one of its partition.
            CorruptionError: a file is damaged.
            FormatError: a file has a column whose type cannot be widened to the table's.
            StaleStoreError: a file is gone: it was cleaned, or its commit was rolled back.
            OSError: a remote file could not be read, or is damaged.
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
        """Yield rows that have other values than before, each after what it was."""
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
        """Return columns of some rows of a file, which ascend."""
        schema = pa.schema([self.stored.field(name) for name in names])
        stored = SliceRows(self.location, file, schema, threads=True)
        ends = list(accumulate(stored.group_rows, initial=0))
        parts = []
        for group, (first, end) in enumerate(pairwise(ends)):
            wanted = rows[slice(*np.searchsorted(rows, [first, end]))]
            # Of a row group without such a row nothing is read.
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
    """Plan what `HudiTable.changes` reads.

    Args:
        view: of the table.
        since: position of the last instant before the range; None: there is none.
        until: position of the last instant of the range; None: of all.
        columns: that are wanted, in this order; None: the data columns.
        ignore: columns in which a change does not count.

    Raises:
        KeyError: a column that the table does not have.
        ValueError: a time is none, or a wanted column is called as that which says the change.
        FormatError: the rows of the table do not say when they changed.
        CorruptionError: the timeline is damaged.
        StaleStoreError: the table as of `since` or `until` cannot be read any more.
    """
    zone = view.options.timezone
    since, until = given_position("since", since, zone), given_position("until", until, zone)
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
    """Check that the commit with a position was not taken back since: its rows are not known."""
    taken = [one for one in view.timeline if one.action in (RESTORE, ROLLBACK)]
    if since is None or any(one.position == since for one in view.timeline.writes()):
        return
    for one in taken:
        if one.is_completed and one.position > since:
            raise StaleStoreError(
                f"{view.location.uri}: since is {since}, which is the position of no commit, and "
                f"the {one.action} {one.time} took some back: read all rows, and go on from the "
                "position of a commit that timeline() lists"
            )
