"""Rows that are made of those of several files of a bucket.

The files of a section are sorted by key. They are read side by side, one batch of each at a time,
so that all rows of a key are in memory together.

Source: `MergeFileSplitRead`, `SortMergeReader`, `ReducerMergeFunctionWrapper`,
`LookupMergeFunction`, `PartialUpdateMergeFunction` and `AggregateMergeFunction` of Apache Paimon.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import CorruptionError
from lookupstore.source.skipping import StatisticsFilter
from lookupstore.tables.paimon.engine import MergeEngine
from lookupstore.tables.paimon.functions import (
    Mask,
    MergedColumn,
    Numbers,
    Turn,
    merged_column,
    ranks,
)
from lookupstore.tables.paimon.row_order import (
    DELETE,
    KIND,
    SYSTEM,
    Section,
    SequenceOrder,
    check_system,
    counts,
    differs,
    encoded_columns,
    files_asked_for,
    key_numbers,
    sorted_rows,
)
from lookupstore.tables.rows import placed_rows
from lookupstore.tables.snapshot import Snapshot, TableFile

# Columns of a chunk besides those of the files. Paimon reserves such names.
_KEY, _LEVEL = "_KEY_", "_LEVEL"


@dataclass(frozen=True)
class MergedSection:
    """The rows of a section, one for each key.

    Attributes:
        order: Order of the rows of a key.
        engine: How the rows of a key become one.
        columns: Columns of the table, and those of `SYSTEM`.
        section: Files of the section.
    """

    order: SequenceOrder
    engine: MergeEngine
    columns: pa.Schema
    section: Section

    @property
    def identity(self) -> str:
        """Return a text that differs between files with other rows, as the table has them."""
        return "\n".join(":".join(one.file.identity) for one in self.section)

    def batches(
        self, names: Sequence[str], asked: StatisticsFilter | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows, in the order of the key; see `MergedFiles.batches`.

        Args:
            names: Names of the columns.
            asked: Condition of the rows that are asked for; only its part on the key counts.

        Raises:
            CorruptionError: If a file is damaged, or its rows are not in the order of the key.
            StaleStoreError: If a file is gone.
            FormatError: If Paimon does not merge the rows, or not in one way.
        """
        wanted = self.engine.needed([*self.order.keys, *self.order.sequence, *names])
        asked = asked and asked.only(self.order.keys)
        streams = [
            _Stream(self.order, self._batches(one.file, wanted, asked), one.file, one.level)
            for _, one in files_asked_for(self.section, asked)
        ]
        for rows in _chunks(streams):
            merged = _Chunk(self.order, self.engine, self.section, rows).merged(names)
            if merged.num_rows:
                yield merged

    def _batches(
        self, file: TableFile, names: Sequence[str], asked: StatisticsFilter | None
    ) -> Iterator[pa.RecordBatch]:
        columns = self.columns
        table = Snapshot(self.order.description, columns, columns, columns, ())
        for batch, _ in placed_rows(table, file, [*names, *SYSTEM.names], asked=asked):
            yield batch


class _Stream:
    """The rows of a file that were read and not yet merged.

    Args:
        order: Order of the rows of a key.
        batches: Rows of the file.
        file: The file.
        level: Level of the file.
    """

    def __init__(
        self, order: SequenceOrder, batches: Iterator[pa.RecordBatch], file: TableFile, level: int
    ) -> None:
        self._order, self._batches, self._file, self._level = order, batches, file, level
        self._rows: pa.RecordBatch | None = None
        self._last = b""
        #: Encoded keys of the rows.
        self.keys: pa.Array = pa.array([], pa.large_binary())
        #: Whether all rows of the file were read.
        self.is_read: bool = False

    def fill(self) -> None:
        """Read rows if there are none."""
        while not len(self.keys) and not self.is_read:
            rows = next(self._batches, None)
            if rows is None:
                self.is_read = True
                return
            check_system(rows, self._file)
            keys = self._order.encoded_keys(rows)
            self._check_ascending(keys)
            levels = pa.array(np.full(len(keys), self._level, np.int32))
            self._rows = rows.append_column(_KEY, keys).append_column(_LEVEL, levels)
            self.keys = keys

    def take(self, last: bytes | None) -> pa.RecordBatch | None:
        """Return the rows up to a key, and forget them. None: there are none.

        Args:
            last: Encoded key. None: all rows.
        """
        count = len(self.keys)
        if last is not None:
            count = bisect_right(range(count), last, key=lambda at: self.keys[at].as_py())
        if not count or self._rows is None:
            return None
        taken, self._rows = self._rows[:count], self._rows[count:]
        self.keys = self.keys[count:]
        return taken

    def _check_ascending(self, keys: pa.Array) -> None:
        if not len(keys):
            return
        first, shown = keys[0].as_py(), self._file.address.shown
        is_less = pc.less_equal(keys[:-1], keys[1:]).to_numpy(False).all()
        if not is_less or first < self._last:
            raise CorruptionError(shown, 0, "rows in the order of the key", "another order")
        if not differs(keys).all() or (first == self._last and self._last):
            raise self._order.error(f"several rows of one key in a file ({shown})")
        self._last = keys[-1].as_py()


def _chunks(streams: Sequence[_Stream]) -> Iterator[pa.RecordBatch]:
    """Yield rows of all files, with all rows of each key together."""
    while True:
        for stream in streams:
            stream.fill()
        ends = [stream.keys[-1].as_py() for stream in streams if len(stream.keys)]
        if not ends:
            return
        # Later rows of a file have greater keys than its last one.
        taken = [stream.take(min(ends)) for stream in streams]
        table = pa.Table.from_batches([one for one in taken if one is not None])
        (rows,) = table.combine_chunks().to_batches()
        yield rows


class _Chunk:
    """All rows of some keys.

    Args:
        order: Order of the rows of a key.
        engine: How the rows of a key become one.
        section: Files of the rows, for errors.
        rows: The rows, with the columns `_KEY_` and `_LEVEL`.
    """

    def __init__(
        self, order: SequenceOrder, engine: MergeEngine, section: Section, rows: pa.RecordBatch
    ) -> None:
        self._engine, self._rows = engine, rows
        versions = order.versions(order.encoded_versions(rows))
        sort = sorted_rows(rows.column(_KEY), versions)
        group = key_numbers(rows.column(_KEY).take(pa.array(sort)))
        sizes = np.bincount(group)
        kinds = rows.column(KIND).to_numpy()[sort]
        kept = order.kept(rows.column(_LEVEL).to_numpy()[sort], group)
        if engine.ignores_deletes:
            kept &= counts(kinds) | (sizes == 1)[group]
        self._kinds: Mask = rows.column(KIND).to_numpy()
        sort, group = sort[kept], group[kept]
        order.check_ties(versions, sort, group, section)
        is_alone = (sizes == 1)[group]
        # A row without others is as it is, whatever the functions are.
        self._alone: Numbers = sort[is_alone & counts(kinds[kept])]
        self._alone_group: Numbers = group[is_alone & counts(kinds[kept])]
        self._together, self._groups, self._lengths = _by_length(sort[~is_alone], group[~is_alone])

    def merged(self, names: Sequence[str]) -> pa.RecordBatch:
        """Return columns of the merged rows, in the order of the key."""
        states, is_row = self._merge(names)
        numbers = np.concatenate([self._alone_group, self._groups[is_row]])
        place = pa.array(np.argsort(numbers, kind="stable"))
        rows = pa.array(np.concatenate([self._alone, self._firsts[is_row]]))
        fields, columns = [], []
        for name in names:
            column = self._rows.column(name)
            if name in states:
                values = states[name].values().filter(pa.array(is_row))
                column = pa.concat_arrays([column.take(pa.array(self._alone)), values])
            else:  # a column of the key or of the partition
                column = column.take(rows)
            fields.append(self._rows.schema.field(name))
            columns.append(column.take(place))
        if not columns:  # a batch that is made of no columns has no rows
            return pa.record_batch([pa.nulls(len(place))], [""]).select([])
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    @property
    def _firsts(self) -> Numbers:
        """Return the number of the first row of each key with several rows."""
        found: Numbers = self._together[np.cumsum(self._lengths) - self._lengths]
        return found

    def _merge(self, names: Sequence[str]) -> tuple[dict[str, MergedColumn], Mask]:
        """Merge the rows of keys with several, and return columns and which keys have a row."""
        engine, count = self._engine, len(self._groups)
        states = {
            name: merged_column(engine.columns[name], self._rows.column(name), count, engine.error)
            for name in names
            if name in engine.columns
        }
        turns = _PartialTurns if engine.is_partial else _AggregatedTurns
        state = turns(engine, self._rows, states, count)
        starts = np.cumsum(self._lengths) - self._lengths
        for turn in range(int(self._lengths[0]) if count else 0):
            ongoing = int(np.searchsorted(-self._lengths, -turn, side="left"))
            rows = self._together[starts[:ongoing] + turn]
            kinds = self._kinds[rows]
            state.apply(rows, counts(kinds), kinds == DELETE)
        return states, state.is_row


class _AggregatedTurns:
    """The engine `aggregation`, row after row of each key.

    Args:
        engine: How the rows of a key become one.
        rows: All rows.
        states: Columns that are merged.
        count: Number of keys.

    Attributes:
        is_row: Whether each key has a row.
    """

    def __init__(
        self,
        engine: MergeEngine,
        rows: pa.RecordBatch,
        states: dict[str, MergedColumn],
        count: int,
    ) -> None:
        self._engine, self._states = engine, states
        self.is_row: Mask = np.ones(count, np.bool_)

    def apply(self, rows: Numbers, inserts: Mask, deletes: Mask) -> None:
        """Merge the next row of each of the first keys.

        Args:
            rows: Numbers of the rows.
            inserts: Whether each row adds values; otherwise it takes them back.
            deletes: Whether each row deletes the key.
        """
        removed = deletes & self._engine.removes
        never = np.zeros_like(inserts)
        turn = Turn(rows, inserts, never, ~inserts & ~removed, never)
        for state in self._states.values():
            state.apply(turn)
            if removed.any():
                state.clear(removed, rows)
        self.is_row[: len(rows)] = ~removed


class _PartialTurns:
    """The engine `partial-update`, row after row of each key.

    Arguments and attributes are those of `_AggregatedTurns`.
    """

    def __init__(
        self,
        engine: MergeEngine,
        rows: pa.RecordBatch,
        states: dict[str, MergedColumn],
        count: int,
    ) -> None:
        self._engine, self._states = engine, states
        self._groups = [
            _Group(rows, names, count, engine.columns[names[0]].required)
            for names in engine.groups
            if set(names) <= set(rows.schema.names)
        ]
        known = [group.names for group in self._groups]
        self._group_of = {
            name: known.index(engine.columns[name].group)
            for name in states
            if engine.columns[name].group
        }
        self._has_insert: Mask = np.zeros(count, np.bool_)
        self._is_removed: Mask = np.zeros(count, np.bool_)
        # Whether columns without nulls have a value.
        self._is_filled: Mask = np.zeros(count, np.bool_)

    @property
    def is_row(self) -> Mask:
        """Return whether each key has a row."""
        found: Mask = self._has_insert & ~self._is_removed
        return found

    def apply(self, rows: Numbers, inserts: Mask, deletes: Mask) -> None:
        """Merge the next row of each of the first keys; see `_AggregatedTurns.apply`."""
        engine, count = self._engine, len(rows)
        if not (engine.groups or engine.removes) and not inserts.all():
            raise engine.error("deletions without an option for the engine 'partial-update'")
        newer = [group.newer(rows) for group in self._groups]
        removed = deletes & engine.removes
        for group, (is_newer, _) in zip(self._groups, newer, strict=True):
            if not engine.removing.isdisjoint(group.names):
                removed = removed | (deletes & is_newer)
        first = ~inserts & ~self._is_filled[:count]
        never = np.zeros_like(inserts)
        outside = Turn(rows, inserts, never, never, never)
        turns = [
            Turn(
                rows,
                inserts & is_newer,
                inserts & is_older,
                ~inserts & is_newer & ~removed,
                ~inserts & is_older & ~removed,
            )
            for is_newer, is_older in newer
        ]
        for name, state in self._states.items():
            if first.any() and engine.columns[name].required:
                state.clear(first, rows)
            at = self._group_of.get(name)
            rule = engine.columns[name]
            turn = outside if at is None else turns[at]
            if at is not None and name in rule.group:
                turn = _sequence_turn(turn)
            state.apply(turn)
            if removed.any():
                state.clear(removed, rows)
        for group, (is_newer, _) in zip(self._groups, newer, strict=True):
            group.update(rows, is_newer, removed)
        self._has_insert[:count] |= inserts
        self._is_filled[:count] = True
        self._is_removed[:count] = removed


def _sequence_turn(turn: Turn) -> Turn:
    """Return the turn of a column that orders updates: deletions have its newest value, too."""
    never = np.zeros_like(turn.adds)
    return Turn(turn.rows, turn.adds | turn.retracts, never, never, never)


class _Group:
    """The newest row of each key by the columns of a sequence group.

    Args:
        rows: All rows.
        names: Names of the columns.
        count: Number of keys.
        is_required: Whether they have no nulls, and a removed row therefore keeps their values.
    """

    def __init__(
        self, rows: pa.RecordBatch, names: Sequence[str], count: int, is_required: bool
    ) -> None:
        self.names: Sequence[str] = names
        self._rank = ranks(encoded_columns(rows.select(list(names))))
        self._is_required = is_required
        nulls = [rows.column(name).is_null().to_numpy(False) for name in names]
        self._is_empty: Mask = np.logical_and.reduce(nulls)
        # Ranks begin at 1: a key without a row is older than all others.
        self._newest: Numbers = np.zeros(count, np.int64)

    def newer(self, rows: Numbers) -> tuple[Mask, Mask]:
        """Return which rows are newer than those before, or as new, and which are older.

        Rows without a value in the columns are neither.
        """
        is_newer = self._rank[rows] >= self._newest[: len(rows)]
        has_value = ~self._is_empty[rows]
        return has_value & is_newer, has_value & ~is_newer

    def update(self, rows: Numbers, is_newer: Mask, removed: Mask) -> None:
        """Note the newest rows, and forget those of keys that are removed."""
        newest = self._newest[: len(rows)]
        newest[is_newer] = self._rank[rows][is_newer]
        newest[removed] = self._rank[rows][removed] if self._is_required else 0


def _by_length(rows: Numbers, group: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return rows by key, those of keys with more rows first, with the keys and their lengths."""
    if not len(rows):
        return rows, group, np.zeros(0, np.int64)
    known, starts, lengths = np.unique(group, return_index=True, return_counts=True)
    by_length = np.argsort(-lengths, kind="stable")
    lengths = lengths[by_length]
    ends = np.cumsum(lengths)
    places = np.repeat(starts[by_length] - (ends - lengths), lengths) + np.arange(ends[-1])
    return rows[places], known[by_length], lengths
