"""The changes in the log files of a slice, merged: at most one per record key.

With COMMIT_TIME_ORDERING, the last change of a key wins. With EVENT_TIME_ORDERING, the change with
the greatest ordering value wins, and of equal ones the last. A delete without an ordering value
deletes whatever was written before it.

Versions of Hudi merge some changes in tables of version 6 differently. These are refused.

Source: BaseHoodieLogRecordReader.scanInternal, BufferedRecordMergerFactory, DeleteContext, and of
Hudi 0.15 HoodieMergedLogRecordScanner, OverwriteWithLatestAvroPayload, DefaultHoodieRecordPayload.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.file_group.merging import wins
from lookupstore.hudi.log.blocks import (
    CDC,
    COMMAND,
    COMPACTED,
    DELETES,
    DamagedBlock,
    LogBlock,
    log_blocks,
    rolled_back,
)
from lookupstore.hudi.log.data_rows import DATA, block_rows
from lookupstore.hudi.log.deletes import deleted_keys
from lookupstore.hudi.log.slices import LogFile, MergedSlice
from lookupstore.hudi.meta_columns import RECORD_KEY
from lookupstore.hudi.options import EVENT_TIME, TableOptions
from lookupstore.hudi.timeline.instant_times import is_time
from lookupstore.storage.location import Location

_Numbers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]

#: Column that marks deleted rows.
IS_DELETED = "_hoodie_is_deleted"
_GONE = "deleted by a clean or a rollback; read the table again"
# Size in bytes up to which a log file is read at once.
_SMALL = 8 << 20
_COMPACT = "compact the table with the version of Apache Hudi that writes it"


@dataclass(frozen=True)
class MergeRule:
    """The rule by which changes of one key are merged.

    Attributes:
        ordering: Column with ordering values. None: there are none.
        by_event: Whether the greatest ordering value wins. False: the last change wins.
        ascending: Changes that must be in the order of their ordering values, because versions of
            Hudi differ otherwise: `none`; `deletes`, those of keys that a delete with an ordering
            value deletes; `logged`, all in log files; `all`, also compared with the base file.
    """

    ordering: str | None
    by_event: bool
    ascending: str = "none"

    @classmethod
    def of(cls, options: TableOptions, schema: pa.Schema, path: str) -> MergeRule:
        """Return the rule of a table.

        Args:
            options: Options of the table, whose merge mode is supported.
            schema: Columns of the table.
            path: Path of the table, for errors.

        Raises:
            FormatError: If the ordering column is not one of the table.
        """
        by_event = options.merge_mode == EVENT_TIME
        is_old = options.version == 6
        ordering = ordering_column(options)
        if ordering is None:
            return cls(None, False)
        if ordering not in schema.names or len(options.ordering) > 1:
            raise FormatError(
                f"{path}: {options.ordering_property} is {','.join(options.ordering)!r}; supported "
                f"for log files: one column of the table that is not inside another. {_COMPACT}"
            )
        if not is_old:
            return cls(ordering, True)
        if options.merge_from in options.others:
            return cls(ordering, by_event, "deletes" if by_event else "logged")
        return cls(ordering, by_event, "all")  # versions of Hudi have other default rules


def ordering_column(options: TableOptions) -> str | None:
    """Return the name of the column with the ordering values of changes. None: they have none."""
    is_needed = options.merge_mode == EVENT_TIME or options.version == 6
    return options.ordering[0] if options.ordering and is_needed else None


@dataclass
class _Logged:
    """The changes of a slice in the order of its log blocks.

    Attributes:
        keys: Record keys of the changes.
        ordering: Ordering values of the changes.
        deletes: Masks of the changes that delete their row.
        rows: Number of each change among the rows of data blocks; -1 for those of delete blocks.
        tables: Rows of data blocks.
        count: Number of rows of data blocks.
    """

    keys: list[pa.Array] = field(default_factory=list)
    ordering: list[pa.Array] = field(default_factory=list)
    deletes: list[_Mask] = field(default_factory=list)
    rows: list[_Numbers] = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)
    count: int = 0


@dataclass(frozen=True)
class SliceChanges:
    """The changes of a slice, one for each key, in the order in which they were written.

    Attributes:
        keys: Record keys, each once.
        deletes: Mask of the keys that are deleted.
        always: Mask of the deletes without an ordering value, which win against every stored row.
        ordering: Ordering values of the changes. None: every change wins.
        ascending: Mask of the keys whose stored row must not have a greater ordering value.
        rows: Number of the new row of each key in `table`; -1 for those that only a delete block
            contains.
        table: New rows.
    """

    keys: pa.StringArray
    deletes: _Mask
    always: _Mask
    ordering: pa.Array | None
    ascending: _Mask
    rows: _Numbers
    table: pa.Table

    def won(self, numbers: _Numbers, stored: pa.Array | None, rule: MergeRule, path: str) -> _Mask:
        """Return which changes win against the stored rows of their keys.

        Args:
            numbers: Numbers of the changes.
            stored: Ordering value of the stored row of each. None: `ordering` is None, too.
            rule: Rule by which changes are merged.
            path: Path of the slice, for errors.

        Raises:
            FormatError: If versions of Hudi return different rows.
        """
        if self.ordering is None or stored is None:
            return np.ones(len(numbers), bool)
        won = wins(self.ordering.take(pa.array(numbers)), stored) | self.always[numbers]
        if (~won & self.ascending[numbers]).any():
            raise different_merge_error(path, rule.ordering)
        return won if rule.by_event else np.ones(len(numbers), bool)

    def new_rows(self, numbers: _Numbers) -> pa.Table:
        """Return the new rows of some changes that have one.

        Args:
            numbers: Numbers of the changes.
        """
        return self.table.take(pa.array(self.rows[numbers]))


def read_changes(
    location: Location, given: MergedSlice, schema: pa.Schema, rule: MergeRule, version: int
) -> SliceChanges:
    """Read the log files of a slice.

    Args:
        location: Location of the table.
        given: Slice to read.
        schema: Columns of the new rows, with the record key and the columns that `rule` and
            deletes need.
        rule: Rule by which changes are merged.
        version: Version of the table.

    Raises:
        CorruptionError: If a log file is damaged.
        FormatError: If a log file has a block that is not supported, or changes that versions of
            Hudi merge differently.
        StaleStoreError: If a log file is gone.
        OSError: If a remote file cannot be read.
    """
    logged = _Logged()
    kind = None if rule.ordering is None else schema.field(rule.ordering).type
    blocks = _counting_blocks(location, given, version)
    while blocks:
        file, block = blocks.pop(0)
        path = location.show(file.path)
        if block.kind == DELETES:
            found = deleted_keys(block, path, kind)
            count = len(found.keys)
            logged.rows.append(np.full(count, -1, np.int64))
            logged.deletes.append(np.ones(count, bool))
            keys, ordering = found.keys, found.ordering
        else:
            rows = block_rows(block, path, schema)
            count = rows.num_rows
            logged.rows.append(logged.count + np.arange(count))
            logged.count += count
            logged.tables.append(rows)
            deletes = _marked(rows)
            logged.deletes.append(deletes)
            keys = _column(rows, RECORD_KEY)
            ordering = pa.nulls(count) if rule.ordering is None else _column(rows, rule.ordering)
            if rule.by_event and pc.any(pc.and_(ordering.is_null(), pa.array(~deletes))).as_py():
                raise FormatError(
                    f"{path}: a row without a value in the ordering column {rule.ordering!r}; "
                    f"{_COMPACT}"
                )
        logged.keys.append(keys)
        logged.ordering.append(ordering)
    return _merged(logged, schema, rule, location.show(given.path))


def _counting_blocks(
    location: Location, given: MergedSlice, version: int
) -> list[tuple[LogFile, LogBlock]]:
    """Return the blocks that count, instant by instant, in the order in which these begin."""
    of_instant: dict[str, list[tuple[LogFile, LogBlock]]] = {}
    for file in given.logs:
        address = location.address(file.path)
        with address.reading("a log file", gone=_GONE):
            stream = address.open()
            if stream.size() <= _SMALL:
                stream = pa.BufferReader(stream.read_at(stream.size(), 0))
            for block in log_blocks(stream, address.shown):
                if isinstance(block, DamagedBlock):
                    _check_skipped(block, given, version)
                elif block.kind == COMMAND:
                    of_instant.pop(rolled_back(block, address.shown), None)
                elif _counts(block, file, address.shown, given, version):
                    _check_kind(block, address.shown)
                    of_instant.setdefault(block.time, []).append((file, block))
    return [one for blocks in of_instant.values() for one in blocks]


def _counts(block: LogBlock, file: LogFile, path: str, given: MergedSlice, version: int) -> bool:
    """Return whether the instant of a block counts.

    Raises:
        CorruptionError: If the block names an instant that cannot have written it.
    """
    is_right = is_time(block.time) if version == 6 else block.time == file.time
    if not is_right:
        expected = "the time of an instant" if version == 6 else f"the instant {file.time}"
        raise CorruptionError(path, block.at, expected, repr(block.time))
    return given.committed.include(block.time)


def _check_skipped(block: DamagedBlock, given: MergedSlice, version: int) -> None:
    """Check that a damaged block is one that a killed writer left, and that has no rows.

    Only files of version 6 have blocks of several instants. Since version 8, only files of
    completed instants are read.
    """
    is_left = version == 6 and block.is_followed
    if not is_left and (block.time is None or given.committed.include(block.time)):
        raise block.error


def _check_kind(block: LogBlock, path: str) -> None:
    if block.kind not in DATA and block.kind != DELETES:
        what = "of Hudi's CDC queries" if block.kind == CDC else f"of kind {block.kind}"
        raise FormatError(
            f"{path}: a log block {what}, which is not supported; compact the table with Apache "
            "Hudi"
        )
    if COMPACTED in block.headers:
        raise FormatError(
            f"{path}: a log block of a log compaction, which is not supported; compact the table "
            "with Apache Hudi"
        )


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows[name]
    return concat(column.chunks, column.type)


def _marked(rows: pa.Table) -> _Mask:
    """Return which rows are marked as deleted."""
    if IS_DELETED not in rows.schema.names:
        return np.zeros(rows.num_rows, bool)
    marked: _Mask = pc.fill_null(_column(rows, IS_DELETED), False).to_numpy(zero_copy_only=False)
    return marked


def _merged(logged: _Logged, schema: pa.Schema, rule: MergeRule, path: str) -> SliceChanges:
    """Return the last state of each key."""
    kind = pa.null() if rule.ordering is None else schema.field(rule.ordering).type
    keys = concat([one.cast(pa.string()) for one in logged.keys], pa.string())
    coded = keys.dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    deletes = np.concatenate([np.zeros(0, bool), *logged.deletes])
    rows = np.concatenate([np.zeros(0, np.int64), *logged.rows])
    ordering = concat(logged.ordering, kind)
    ranks, always = _ranks(ordering, deletes)
    places = np.arange(len(codes))
    listed = deletes & (rows < 0)
    weights = _weights(codes, ranks, always, listed) if rule.by_event else places
    order = np.lexsort((places, weights, codes))
    is_last = np.append(codes[order][1:] != codes[order][:-1], True)[: len(order)]
    chosen = np.sort(order[is_last])
    ascending = _ascending(rule, codes, ranks, always, listed, path)
    return SliceChanges(
        keys.take(pa.array(chosen)),
        deletes[chosen],
        always[chosen],
        ordering.take(pa.array(chosen)) if rule.by_event or rule.ascending == "all" else None,
        ascending[codes[chosen]],
        rows[chosen],
        pa.concat_tables(logged.tables) if logged.tables else schema.empty_table(),
    )


def _ranks(ordering: pa.Array, deletes: _Mask) -> tuple[_Numbers, _Mask]:
    """Return numbers in the order of ordering values, and which deletes have no such value."""
    if pa.types.is_null(ordering.type):
        return np.zeros(len(ordering), np.int64), deletes
    missing = ordering.is_null()
    ranks = pc.rank(ordering, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    ranks = np.where(missing.to_numpy(zero_copy_only=False), 0, ranks)
    if pa.types.is_int32(ordering.type):
        # To Hudi, zero of the type int is no ordering value of a delete.
        missing = pc.or_(missing, pc.fill_null(pc.equal(ordering, 0), False))
    return ranks, deletes & missing.to_numpy(zero_copy_only=False)


def _weights(codes: _Numbers, ranks: _Numbers, always: _Mask, listed: _Mask) -> _Numbers:
    """Return numbers of which the greatest of a key is that of its last state.

    A delete that always wins ends what was before it. Of the deletes of delete blocks, those after
    it are ignored until the key has a row again.
    """
    places = np.arange(len(codes))
    count = int(codes.max(initial=-1)) + 1
    ends, again = np.full(count, -1), np.full(count, len(codes))
    np.maximum.at(ends, codes[always], places[always])
    is_after = places > ends[codes]
    rows = is_after & ~listed
    np.minimum.at(again, codes[rows], places[rows])
    is_ignored = listed & (ends[codes] >= 0) & (places < again[codes])
    return np.where(is_after & ~is_ignored, ranks, np.where(always, 0, -1))


def _ascending(
    rule: MergeRule, codes: _Numbers, ranks: _Numbers, always: _Mask, listed: _Mask, path: str
) -> _Mask:
    """Return the keys whose changes must be in the order of their ordering values.

    Args:
        rule: Rule by which changes are merged.
        codes: Number of the key of each change.
        ranks: Numbers that are ordered as the ordering values.
        always: Mask of the deletes without an ordering value.
        listed: Mask of the changes that are deletes of delete blocks.
        path: Path of the slice, for errors.

    Raises:
        FormatError: If they are not.
    """
    count = int(codes.max(initial=-1)) + 1
    checked = np.full(count, rule.ascending in ("logged", "all"))
    if rule.ascending == "deletes":
        checked[codes[listed & ~always]] = True
    order = np.argsort(codes, kind="stable")
    one, other = order[:-1], order[1:]
    falls = (codes[one] == codes[other]) & (ranks[one] > ranks[other])
    falls &= ~always[one] & ~always[other] & checked[codes[one]]
    if falls.any():
        raise different_merge_error(path, rule.ordering)
    return checked if rule.ascending in ("deletes", "all") else np.zeros(count, bool)


def different_merge_error(path: str, ordering: str | None) -> FormatError:
    """Return the error for changes that versions of Hudi merge differently."""
    return FormatError(
        f"{path}: a later change of a row has a smaller value in the ordering column {ordering!r}: "
        f"versions of Hudi return different rows of such a table of version 6; {_COMPACT}"
    )
