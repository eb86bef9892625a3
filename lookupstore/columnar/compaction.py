"""``lookup_compact``: merge the files of level 0, and write their changes to the levels above.

Only rows with keys of level 0 are looked up in the levels, which are not read in full.
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
from lookupstore.columnar.level_changes import LevelChanges, RowsByKey
from lookupstore.columnar.levels import Given, Levels, Shape, rows_below, shape_of
from lookupstore.columnar.parquet_rows import ParquetRowWriter
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
    """The result of a lookup compaction.

    Attributes:
        merged: Path of the merged file, or its URI without credentials.
        changelog: Path of the changelog, or its URI without credentials.
        num_rows: Number of rows of the merged file, including tombstones.
        tombstones: Number of tombstones in the merged file, which are rows that mark a deleted key.
        inserted: Number of keys that have a row now and had none.
        updated: Number of keys with other values now, in the columns that count.
        deleted: Number of keys that had a row and have none now.
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
    """Merge the files of level 0 into one, and write a changelog against other levels.

    The merged file has one row for each key of level 0, sorted by the key, with all columns of the
    files. It is the newest row, or the result of the rules for all rows of the key, from that of
    the levels to the newest. A deleted key has a row of the kind -D if the levels have a row for
    it, otherwise none. With the default rule, lookups return the same rows from the merged file as
    from the files of level 0.

    The changelog has a column `change` (`insert`, `update_before`, `update_after`, `delete`), the
    key columns and the value columns. Its rows are in key order. A deleted row is as it was. An
    updated row is as it was, followed by the row as it is. Rows with unchanged values are left out.

    Both files are Parquet. The merged file gets its name last, when everything is written. A
    changelog without its merged file was left by a run that was killed, and may be removed.

    Memory holds the rows of level 0, within `memory`, and a few megabytes of rows that are being
    read or written. Rows that do not fit are spilled to the folder of the merged file, or, if that
    is a URI, to the folder of temporary files.

    Args:
        level0: Files of level 0, the newest first: paths or URIs of one Parquet or ORC file each.
            Their rows may be in any order. No file may have a key twice.
        levels: Files of level 1 and of each level after it, the newest level first, as for
            `Levels`: all levels below level 0. `[]`: there are none.
        merged: Path or URI of the merged file, which ends in .parquet.
        changelog: Path or URI of the changelog, which ends in .parquet.
        key: Key columns, which every file must have, without nulls in level 0.
        kind: Column of the row kinds (0 +I, 1 -U, 2 +U, 3 -D). A file without it has no deletes.
        rule: Rule that combines the values of a key: `replace`, `first`, `partial` (a null keeps
            the older value), `sum`, `min` or `max` for all value columns, or a dict by column,
            where other columns have `replace`. A delete discards all earlier values.
        ignore: Value columns in which a difference is not a change.
        build: Time to make lookup files of the levels. `auto`: when reading row groups of the file
            instead would cost as much. `always`: at the first key. `never`: not at all.
        memory: Budget for sorting rows, at least 64 KiB: bytes, or a text such as `"1GB"`.
        residency: Cache that holds the lookup files of this host. Default: the cache of the host.
        storage_options: Options of all URIs, such as credentials; see `lookupstore.Location`.

    Returns:
        Paths of the written files, and counts of their rows and changes.

    Raises:
        FileExistsError: If one of the two files exists already.
        FileNotFoundError: If a path names no file.
        KeyError: If a column does not exist, or a file lacks a key column.
        TypeError: If `Levels` raises it, or a rule does not apply to a type without a sum or an
            order.
        ValueError: If `Levels` raises it, there are no files of level 0, a rule is unknown, a key
            has a null, a column cannot hold a sum, or a key is twice in a file.
        FormatError: If `Levels` raises it.
        CorruptionError: If a file is damaged, or a row kind is not one of the four.
        StaleStoreError: If a file was written again meanwhile, or is gone.
        DiskQuotaError: If a lookup file does not fit into the quota of the host.

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
        # Rows that do not fit into memory are spilled next to the merged file.
        folder = Location(merged).spill_folder()
        return _Compaction(stack, shape, rules, compared, budget, folder).run(*places)


class _Compaction:
    """A running compaction.

    Args:
        stack: All levels, with level 0 to compact.
        shape: Columns of the levels, and the files of level 0.
        rules: Rules that combine the values of a key.
        compared: Names of the columns in which a difference is a change.
        memory: Budget for the rows of level 0, in bytes.
        folder: Folder for spilled rows.
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
            # The file that is opened last is completed first: both are written, and the changelog
            # has its name, before the merged file gets its name.
            streams = [
                opened.enter_context(location.new_file(name))
                for location, name in (merged, changelog)
            ]
            into, log = (
                opened.enter_context(ParquetRowWriter(stream, schema))
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

    def _compacted(self, changed: RowsByKey) -> tuple[pa.Table, int, pa.Table]:
        """Return the merged rows of some keys, the number of tombstones, and the changes."""
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
        # If the levels have no row for the key, there is nothing to delete.
        stays = ~deleted | was
        return keep_rows(merged, pa.array(stays)), int(np.count_nonzero(deleted & was)), log

    def _folded(
        self, changed: RowsByKey, newest: pa.RecordBatch, was: _Flags, before: pa.RecordBatch
    ) -> pa.RecordBatch:
        """Return the row of each key, combined by the rules since its last delete.

        Args:
            changed: Keys, n of them, and their rows in level 0.
            newest: Newest row of each key in level 0, which may be a delete.
            was: Whether each of the n keys has a row in the levels.
            before: Rows of the n keys in the levels.
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
        # Deleted keys keep only their newest row.
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
