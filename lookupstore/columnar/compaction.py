"""``lookup_compact``: merge the files of level 0, and tell what they change in the levels above.

Only rows of keys that level 0 has are looked up there: the levels are not read in full.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow.changelog import (
    AFTER,
    CHANGE,
    DELETE,
    INSERT,
    KINDS,
    changelog_schema,
    changes_between,
)
from lookupstore.arrow.taking import keep_rows, take, take_rows
from lookupstore.columnar.level_changes import ChangedRows, LevelChanges
from lookupstore.columnar.levels import Given, Levels, Shape, rows_below, shape_of
from lookupstore.columnar.parquet_rows import ParquetRows
from lookupstore.columnar.rent import Build
from lookupstore.columnar.row_kinds import DELETED
from lookupstore.errors import listed
from lookupstore.hostcache.cache import Residency
from lookupstore.quantities import Size, bytes_of
from lookupstore.sorting.ahead import done_ahead
from lookupstore.sorting.runs import MIN_MEMORY
from lookupstore.source.search import format_of
from lookupstore.sst.typed import KIND
from lookupstore.storage.location import Location
from lookupstore.storage.storage_options import paths_with_options
from lookupstore.store.rules import MergeRules, Rule, merge_rules

_MEMORY = 128 << 20

_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LevelCompaction:
    """What a lookup compaction has written.

    Attributes:
        merged: path of the merged file, or its URI without credentials.
        changelog: the same of the changelog.
        num_rows: rows of the merged file, tombstones among them.
        tombstones: how many of these say that a key is deleted.
        inserted: keys that have a row now, and had none.
        updated: keys whose row has other values now.
        deleted: keys that had a row, and have none now.
    """

    merged: str
    changelog: str
    num_rows: int
    tombstones: int
    inserted: int
    updated: int
    deleted: int

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return asdict(self)


def lookup_compact(
    level0: Given,
    levels: Sequence[Given],
    merged: str | os.PathLike[str],
    changelog: str | os.PathLike[str],
    *,
    key: str | Sequence[str],
    kind: str = KIND,
    rule: Rule = "replace",
    ignore: Sequence[str] = (),
    build: Build = "auto",
    memory: Size = _MEMORY,
    residency: Residency | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> LevelCompaction:
    """Merge the files of level 0 into one, and write what they change in the levels above.

    The merged file has one row for each key of level 0, sorted by the key, with all columns of the
    files: the newest row, or what the rules make of all rows of the key from the oldest on, that of
    the levels first. A key that is deleted has a row of the kind -D as long as the levels have a
    row at it, else none. With the merged file in the place of the files of level 0, lookups answer
    as before.

    The changelog has a column `change` (`insert`, `update_before`, `update_after`, `delete`), the
    key columns and the value columns: rows in key order, a deleted one as it was, an updated one as
    it was and right after it as it is. What has the same values as before has no row.

    Both are Parquet. The merged file gets its name last, when all is written: without it, a
    changelog is of a run that was killed, and may be removed.

    In memory are the rows of level 0, within `memory`, and beside that some megabytes of rows on
    their way, before and after; rows that do not fit are spilled to the folder of the merged file,
    or, if that is a URI, to that of temporary files.

    Args:
        level0: files of level 0, the newest first: paths or URIs of one Parquet or ORC file each.
            Their rows may be in any order; a key is once in each.
        levels: level 1 and those after it, the newest first, as of `Levels`: all that is below
            level 0. `[]`: nothing is.
        merged: path or URI of the merged file, which ends in .parquet.
        changelog: path or URI of the changelog, likewise.
        key: the key columns, which every file has, without nulls in level 0.
        kind: column of the row kinds (0 +I, 1 -U, 2 +U, 3 -D); a file without it has no deletes.
        rule: what becomes of a value of the same key: `replace`, `first`, `partial` (a null leaves
            the older value), `sum`, `min` or `max`, for all value columns, or a dict by column,
            where other columns have `replace`. A delete ends what was before it.
        ignore: value columns in which a change does not count.
        build: when to make lookup files of the levels, as of `ColumnarFiles`.
        memory: budget for rows that are sorted, at least 64 KiB, in bytes or as a text such as
            `"1GB"`.
        residency: where lookup files of this host are; None takes that of the host.
        storage_options: of all URIs, as of `lookupstore.Location`.

    Returns:
        what was written: paths and counts.

    Raises:
        FileExistsError: one of the two files exists already.
        FileNotFoundError: a path names no file.
        KeyError: a column does not exist, or a file lacks a key column.
        TypeError: what `Levels` raises; or a rule for a type that has no sum or no order.
        ValueError: what `Levels` raises; no files of level 0, a rule that there is not, a null in a
            key, a sum that its column cannot hold; or a key is twice in a file.
        FormatError: what `Levels` raises.
        CorruptionError: a file is damaged, or a row kind is none of the four.
        StaleStoreError: a file has been written again meanwhile, or is gone.
        DiskQuotaError: a lookup file does not fit into the quota of the host.

    Source: LookupMergeTreeCompactRewriter and LookupChangelogMergeFunctionWrapper of Apache Paimon.

    >>> import tempfile, pyarrow.parquet as pq
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), f"{folder}/old.parquet")
    >>> new = pa.table({"id": [2, 3], "name": ["B", "c"], "_VALUE_KIND": [2, 0]})
    >>> pq.write_table(new, f"{folder}/new.parquet")
    >>> done = lookup_compact(
    ...     [f"{folder}/new.parquet"], [f"{folder}/old.parquet"],
    ...     f"{folder}/merged.parquet", f"{folder}/changelog.parquet", key="id",
    ... )
    >>> done.inserted, done.updated, done.deleted
    (1, 1, 0)
    >>> pq.read_table(f"{folder}/changelog.parquet").to_pydict()["change"]
    ['update_before', 'update_after', 'insert']
    >>> pq.read_table(f"{folder}/changelog.parquet").to_pydict()["name"]
    ['b', 'B', 'c']
    """
    level0, levels, merged, changelog = paths_with_options(
        storage_options, level0=level0, levels=levels, merged=merged, changelog=changelog
    )
    places = [_place(merged, "merged"), _place(changelog, "changelog")]
    if places[0] == places[1]:
        raise ValueError("merged and changelog are one path; give each file its own")
    if isinstance(level0, (list, tuple)) and not level0:
        raise ValueError("level0 names no files; give at least one, the newest first")
    budget = bytes_of(memory, "memory", least=MIN_MEMORY)
    with Levels(
        level0, levels, key=key, kind=kind, build=build, memory=budget, residency=residency
    ) as stack:
        shape = shape_of(stack)
        values = stack.value_schema
        rules = merge_rules(rule, values, values.names, None)
        for name in ignore:
            if name not in values.names:
                raise KeyError(
                    f"ignore: no value column {name!r}; value columns: [{listed(values.names)}]"
                )
        if CHANGE in shape.schema.names:
            raise ValueError(
                f"the files have a column {CHANGE!r}, as a changelog has; rename it in the files"
            )
        for location, name in places:
            if location.size(name) is not None:
                raise FileExistsError(f"{location.show(name)} exists; give the path of a new file")
        compared = [name for name in values.names if name not in ignore]
        places[0][0].make_folder("")
        # What does not fit into memory goes beside the merged file.
        folder = Location(merged).spill_folder()
        return _Compaction(stack, shape, rules, compared, budget, folder).run(*places)


class _Compaction:
    """A compaction that runs.

    Args:
        stack: all levels, of which level 0 is compacted.
        shape: of these.
        rules: what becomes of values of one key.
        compared: names of the columns in which a change counts.
        memory: budget of bytes for the rows of level 0.
        folder: where to spill.
    """

    def __init__(
        self,
        stack: Levels,
        shape: Shape,
        rules: MergeRules,
        compared: Sequence[str],
        memory: int,
        folder: str,
    ) -> None:
        self._memory = memory
        self._folder = folder
        self._stack = stack
        self._shape = shape
        self._rules = rules
        self._compared = compared
        self._values: pa.Schema = stack.value_schema

    def run(self, merged: tuple[Location, str], changelog: tuple[Location, str]) -> LevelCompaction:
        """Write both files, and return what was written."""
        stack, kinds = self._stack, self._shape.kinds
        told = dict.fromkeys(KINDS, 0)
        rows = tombstones = 0
        rows_schema = pa.schema(
            [field.with_nullable(field.name not in stack.key) for field in self._shape.schema]
        )
        log_schema = changelog_schema(pa.schema([*stack.key_schema.schema, *self._values]))
        with ExitStack() as opened:
            # What is opened last is done first: both are written, and the changelog has its name,
            # when the merged file gets its own.
            streams = [
                opened.enter_context(location.new_file(name))
                for location, name in (merged, changelog)
            ]
            into, log = (
                opened.enter_context(ParquetRows(stream, schema))
                for stream, schema in zip(streams, (rows_schema, log_schema), strict=True)
            )
            changes = LevelChanges(
                self._shape.level0,
                stack.key_schema,
                self._values,
                kinds,
                memory=self._memory,
                folder=self._folder,
            )
            with closing(changes):
                for one, gone, log_rows in done_ahead(self._compacted, changes.batches()):
                    rows += one.num_rows
                    tombstones += gone
                    into.write(one.select(rows_schema.names).cast(rows_schema))
                    log.write(log_rows)
                    for count in log_rows.column(CHANGE).value_counts().to_pylist():
                        told[count["values"]] += count["counts"]
        return LevelCompaction(
            merged=merged[0].show(merged[1]),
            changelog=changelog[0].show(changelog[1]),
            num_rows=rows,
            tombstones=tombstones,
            inserted=told[INSERT],
            updated=told[AFTER],
            deleted=told[DELETE],
        )

    def _compacted(self, changed: ChangedRows) -> tuple[pa.Table, int, pa.Table]:
        """Return the merged rows of some keys, how many are tombstones, and what changed."""
        stack = self._stack
        keys = stack.key_schema.decode(changed.keys)
        names = self._values.names
        found, before = rows_below(stack, keys)
        was = np.asarray(found)
        ends = np.append(changed.starts[1:], changed.rows.num_rows) - 1
        deleted = changed.gone[ends]
        newest = take_rows(changed.rows, pa.array(ends))
        after = self._folded(changed, newest.select(names), was, before)
        with_keys = [
            pa.RecordBatch.from_arrays(
                [*keys.columns, *rows.columns],
                schema=pa.schema([*stack.key_schema.schema, *self._values]),
            )
            for rows in (before, after)
        ]
        log = changes_between(with_keys[0], with_keys[1], was, ~deleted, self._compared)
        merged = pa.Table.from_batches([with_keys[1]])
        if self._shape.kinds is not None:
            kind = self._shape.kinds
            numbers = newest.column(kind.name).to_numpy(zero_copy_only=False)
            merged = merged.append_column(
                kind.name, pa.array(np.where(deleted, DELETED, numbers)).cast(kind.type)
            )
        # Without a row below there is nothing to delete.
        stays = ~deleted | was
        return keep_rows(merged, pa.array(stays)), int(np.count_nonzero(deleted & was)), log

    def _folded(
        self, changed: ChangedRows, newest: pa.RecordBatch, was: _Flags, before: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Return the row of each key: what the rules make of its rows since it was last deleted.

        Args:
            changed: n keys and their rows in level 0.
            newest: the newest of these of each key; it is that of keys that are deleted.
            was: which of the n keys have a row in the levels.
            before: the rows that they have there.
        """
        if self._rules.whole == "replace":
            return newest
        count = len(changed.starts)
        total = changed.rows.num_rows
        sizes = np.diff(np.append(changed.starts, total))
        groups = np.repeat(np.arange(count), sizes)
        last_gone = np.maximum.reduceat(
            np.where(changed.gone, np.arange(total), -1), changed.starts
        )
        is_left = np.arange(total) > last_gone[groups]
        deleted = changed.gone[np.append(changed.starts[1:], total) - 1]
        counts_before = was & (last_gone < 0)
        # Those that are deleted keep their newest row, alone.
        parts = [
            keep_rows(before, pa.array(counts_before)),
            keep_rows(changed.rows.select(self._values.names), pa.array(is_left)),
            keep_rows(newest, pa.array(deleted)),
        ]
        of = np.concatenate(
            [np.flatnonzero(counts_before), groups[is_left], np.flatnonzero(deleted)]
        )
        order = pa.array(np.argsort(of, kind="stable"))
        columns = [
            take(pa.concat_arrays([part.column(i) for part in parts]), order)
            for i in range(len(self._values))
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._values)
        counts = np.bincount(of, minlength=count)
        return self._rules.fold(rows, (np.cumsum(counts) - counts).astype(np.int64))


def _place(path: str | os.PathLike[str], argument: str) -> tuple[Location, str]:
    """Return the folder or URI of a new Parquet file, and its name in it."""
    text = os.fspath(path)
    address, mark, query = text.partition("?") if "://" in text else (text, "", "")
    folder, slash, name = address.rpartition("/")
    if not name or format_of(name) != "parquet":
        raise ValueError(f"{argument} is {name!r}; give the path of a file that ends in .parquet")
    return Location((folder or slash or ".") + mark + query), name
