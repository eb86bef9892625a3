"""``Levels``: columnar files in the levels of an LSM tree, where the newest row of a key counts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from lookupstore.arrow.types import concat
from lookupstore.columnar.asked_keys import AskedKeys
from lookupstore.columnar.encoded_keys import EncodedKeys
from lookupstore.columnar.evolution import common_schema
from lookupstore.columnar.files_together import owners_in
from lookupstore.columnar.key_ranges import key_range
from lookupstore.columnar.lookup_file import MODES, LookupFilePlan, Mode, plan_lookup_file
from lookupstore.columnar.named_files import given_paths
from lookupstore.columnar.open_levels import OpenLevels
from lookupstore.columnar.planned_files import (
    FILE,
    Parts,
    Places,
    PlannedFiles,
    value_fields,
)
from lookupstore.columnar.rent import BUILDS, Build
from lookupstore.columnar.row_kinds import are_tombstones
from lookupstore.columnar.source_file import SourceFile, source_files
from lookupstore.errors import DuplicateKeyError, FormatError, listed
from lookupstore.hostcache.cache import Residency
from lookupstore.keys.schema import KeySchema
from lookupstore.keywords import column_names
from lookupstore.quantities import Size, bytes_of, counted
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting.runs import MIN_MEMORY, RepeatedKeyError, merge
from lookupstore.source.search import FoundFiles, FoundTable, Path, find_source, shown_path
from lookupstore.sst.typed import KIND
from lookupstore.storage.storage_options import paths_with_options

#: A level, or a file of level 0, in the form in which callers pass it.
Given = str | os.PathLike[str] | Sequence[str]

_MEMORY = 128 << 20
_REMEDY = "a key may be once in each file of a level"


class Levels(PlannedFiles[OpenLevels]):
    """Lookups of the newest rows of keys in columnar files by level.

    Level 0 consists of files with keys that may overlap, the newest first. Each level above is a
    sorted run: files without common keys, older than all levels before it. A search ends in the
    first file that has the key. If the row there has the kind -D or -U, the key is deleted and not
    found.

    Each file gets a lookup file on the host that looks up keys, when that pays, as with
    `ColumnarFiles`. Files are skipped if the statistics of their row groups exclude the keys. Rows
    with a null in the key never match. Lookups see the files as they were when this object was
    created.

    Args:
        level0: Files of level 0, the newest first: paths or URIs of one Parquet or ORC file each.
        levels: Files of level 1 and of each level after it, the newest level first: the path, URI,
            glob or folder of the files of a level, or a list of these. `[]` is a level without
            files.
        key: Key columns, which every file must have.
        columns: Value columns. Default: all columns that are neither in the key nor the row kind.
        mode: Content of the result. `value`: the value columns. `position`: the columns `_file` and
            `_pos`, which are the path of the file and the number of the row in it, from 0.
            `value_and_position`: both. `presence`: only whether the key was found.
        kind: Column of the row kinds (0 +I, 1 -U, 2 +U, 3 -D). A file without it has no deletes.
        build: Time to make a lookup file. `auto`: when reading row groups of the file instead would
            cost as much. `always`: at the first key. `never`: not at all.
        memory: Budget for sorting rows, at least 64 KiB: bytes, or a text such as `"1GB"`.
        residency: Cache that holds the lookup files of this host. Default: the cache of the host.
        storage_options: Options of the URIs, such as credentials; see `lookupstore.Location`.

    Raises:
        FileNotFoundError: If a path names no file.
        KeyError: If a column does not exist, or a file lacks a key column.
        TypeError: If the type of a key column cannot be ordered, a value cannot be stored, or row
            kinds are not integers.
        ValueError: If an argument is out of range, a file is given twice, or columns of several
            files do not agree.
        FormatError: If row groups show that files of one level above 0 have overlapping ranges of
            keys, or that one is not sorted by its key; or if a path names a table.
        CorruptionError: If a footer is damaged.

    If two files of one level above 0 have a key, or a file has it twice, lookups of the key raise
    `DuplicateKeyError`.

    Source: LookupLevels and Levels of Apache Paimon.

    >>> import tempfile, pyarrow.parquet as pq
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), f"{folder}/1.parquet")
    >>> new = pa.table({"id": [2, 3], "name": ["B", None], "_VALUE_KIND": [2, 3]})
    >>> pq.write_table(new, f"{folder}/2.parquet")
    >>> with Levels([f"{folder}/2.parquet"], [f"{folder}/1.parquet"], key="id") as levels:
    ...     levels.lookup([1, 2, 3]).to_pydict()
    ...     levels.lookup([1, 2, 3], start_level=1).to_pydict()
    {'name': ['a', 'B', None]}
    {'name': ['a', 'b', 'c']}
    """

    def __init__(
        self,
        level0: Given,
        levels: Sequence[Given] = (),
        *,
        key: str | Sequence[str],
        columns: str | Sequence[str] | None = None,
        mode: Mode = "value",
        kind: str = KIND,
        build: Build = "auto",
        memory: Size = _MEMORY,
        residency: Residency | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        for argument, value, known in (("mode", mode, MODES), ("build", build, BUILDS)):
            if value not in known:
                raise ValueError(f"{argument} is {value!r}; give {', '.join(map(repr, known))}")
        memory = bytes_of(memory, "memory", least=MIN_MEMORY)
        names = column_names("key", key)
        if not names:
            raise ValueError(
                "key is empty; name at least one column of the files, such as key='id'"
            )
        if kind in names:
            raise ValueError(f"kind is {kind!r}, a key column; name the column of the row kinds")
        values = [columns] if isinstance(columns, str) else columns
        level0, levels = paths_with_options(storage_options, level0=level0, levels=levels)
        uri, by_level = _files(level0, levels, names[0])
        # Columns have the order of the oldest files.
        sources = [file for files in reversed(by_level) for file in reversed(files)]
        everything = values is None and mode in ("value", "value_and_position")
        wanted = [*names, *(values or ())]
        schema = common_schema(
            ((file.uri, file.schema) for file in sources), None if everything else [*wanted, kind]
        )
        for name in wanted:
            if name not in schema.names:
                raise KeyError(
                    f"the files have no column {name!r}; {sources[0].uri} has "
                    f"[{listed(sources[0].schema.names)}]"
                )
        kinds = schema.field(kind) if kind in schema.names else None
        if kinds is not None and not pa.types.is_integer(kinds.type):
            raise TypeError(
                f"kind: the column {kind!r} is {kinds.type}; row kinds are integers from 0 to 3"
            )
        if everything:
            values = [name for name in schema.names if name not in (*names, kind)]
        plans = [
            replace(
                plan_lookup_file(file, names, values, mode, "error", also=[kind]), remedy=_REMEDY
            )
            for files in by_level
            for file in files
        ]
        encoding = KeySchema(pa.schema([schema.field(name).with_nullable(False) for name in names]))
        for number, files in enumerate(by_level[1:], 1):
            _check_run(number, files, len(names) == 1)
        self._start(
            uri=uri,
            mode=mode,
            key=encoding,
            values=value_fields(schema, names, values, mode),
            schema=schema,
            kinds=kinds,
            plans=plans,
            counts=[len(files) for files in by_level],
            build=build,
            memory=memory,
            residency=residency,
        )

    def _start(
        self,
        *,
        uri: str,
        mode: Mode,
        key: KeySchema,
        values: pa.Schema,
        schema: pa.Schema,
        kinds: pa.Field | None,
        plans: Sequence[LookupFilePlan],
        counts: Sequence[int],
        build: Build,
        memory: int,
        residency: Residency | None,
    ) -> None:
        self.path: str = uri
        self._file_schema = schema
        self._kinds = kinds
        self._counts = counts
        ends = np.cumsum([0, *counts]).tolist()
        self._by_level = [range(*pair) for pair in pairwise(ends)]
        residency = Residency() if residency is None else residency
        # Files are replaced by others of their folder.
        owners_of = owners_in({}, residency, f"{os.path.dirname(uri)} {mode}")
        self._set_up(
            mode=mode,
            key=key,
            values=values,
            plans=plans,
            published={},
            build=build,
            memory=memory,
            residency=residency,
            rents={},
            opened=partial(OpenLevels, owners=owners_of, counts=counts, kinds=kinds),
        )
        self._ranges = [
            key_range(plan.source.ranges, plan.source.schema.field(key.names[0]).type, key)
            for plan in plans
        ]
        said = ["levels", *(plan.name for plan in plans), str(counts), str(values), mode, build]
        self.id: str = xxhash.xxh3_128_hexdigest("\n".join(said).encode())

    def __reduce__(self) -> tuple[Any, ...]:
        state = {
            "uri": self.path,
            "mode": self.mode,
            "key": self._key,
            "values": self._values,
            "schema": self._file_schema,
            "kinds": self._kinds,
            "plans": self._plans,
            "counts": self._counts,
            "build": self._build,
            "memory": self._memory,
            "residency": None,
        }
        return _restored, (state,)

    @property
    def num_levels(self) -> int:
        """Return the number of levels, including level 0 and levels without files."""
        return len(self._by_level)

    def lookup(
        self,
        keys: Any,
        columns: Sequence[str] | None = None,
        *,
        found: bool | str = False,
        start_level: int = 0,
    ) -> pa.Table:
        """Return the value columns at many keys: row i answers key i, null if missing.

        Args:
            keys: Keys, in any order, repeated or not, and in any of the forms of
                `lookupstore.keys.arguments`.
            columns: Value columns to read, in this order. Default: all.
            found: Whether to append a boolean column `found`, or the name of that column, which
                distinguishes a missing key from stored nulls.
            start_level: First level to search. 1 leaves out the files of level 0.

        Raises:
            TypeError: If keys have a wrong type or form. The error names the right one.
            KeyError: If a value column, or a key field in `keys`, does not exist.
            ValueError: If a value column has the name of the column `found`, there is no such
                level, or a key is in two files of a level above 0 or twice in a file.
            CorruptionError: If stored bytes are damaged, or a row kind is not one of the four.
            StaleStoreError: If a file is gone, or was replaced.
            DiskQuotaError: If a lookup file does not fit into the quota of the host.
        """
        return self._answered(
            columns, found, lambda names: self._rows_from(start_level, keys, names)
        )

    def contains(self, keys: Any, *, start_level: int = 0) -> pa.BooleanArray:
        """Return whether each of many keys has a row: Arrow booleans, never null.

        Raises the errors of `lookup`.
        """
        first = self._first_of(start_level)
        asked = EncodedKeys(keys, self._key)
        asked.of(self._key)  # so that errors name types that keys of all files may have
        present = self._together.answer(asked, lambda files: files.contains(asked, first), first)
        return pa.array(self._places(asked, start_level)[0] >= 0) if present is None else present

    def _lookup(self, keys: Any, names: Sequence[str]) -> tuple[pa.BooleanArray, pa.Table]:
        present, table = self._rows_from(0, keys, names)
        self._count(present)
        return present, table

    def _rows_from(
        self, start_level: int, keys: Any, names: Sequence[str]
    ) -> tuple[pa.BooleanArray, pa.Table]:
        """Return which keys have a row from a level on, and value columns of the rows."""
        first = self._first_of(start_level)
        asked = EncodedKeys(keys, self._key)
        asked.of(self._key)
        fields = [self._values.field(name) for name in names]
        file = FILE if self.mode in ("position", "value_and_position") else None
        found = self._together.answer(
            asked, lambda files: files.lookup(asked, fields, file, first), first
        )
        if found is None:
            return self._answers(names, *self._places(asked, start_level))
        return found[0], pa.table(found[1], names=list(names))

    def _first_of(self, level: int) -> int:
        """Return the number of the first file of a level.

        Raises:
            ValueError: If there is no such level.
        """
        if not 0 <= level <= len(self._by_level):
            raise ValueError(
                f"start_level is {level}; give a level from 0 to {len(self._by_level) - 1}"
            )
        return sum(self._counts[:level])

    def _places(self, keys: EncodedKeys, start_level: int) -> tuple[Places, Parts]:
        """Return the index of the answer to each key in the answers of all files, one by one.

        The answers are the packed rows of each file, with its number.
        """
        asked = AskedKeys(keys, self._key)
        places = np.full(asked.count, -1, np.int64)
        parts: Parts = []
        count = 0
        for level in range(start_level, len(self._by_level)):
            decided = np.full(len(asked.at), -1, np.int64)  # file of this level, by key
            for number in self._by_level[level]:
                turns = asked.within(self._ranges[number])
                if not len(turns):
                    continue
                wanted = asked.encoded(turns, self._plans[number].build.key_schema)
                hits, rows = self._lookups[number].lookup(wanted)
                if not len(hits):
                    continue
                hit = turns[hits]
                if (decided[hit] >= 0).any():
                    row = int(np.argmax(decided[hit] >= 0))
                    raise self._in_two_files_error(
                        wanted[int(hits[row])].as_py(), level, int(decided[hit[row]]), number
                    )
                decided[hit] = number
                gone = self._are_gone(number, rows)
                stays = np.ones(len(rows), np.bool_) if gone is None else ~gone
                places[asked.at[hit[stays]]] = count + np.flatnonzero(stays)
                parts.append((number, rows))
                count += len(rows)
                if level == 0:
                    asked.decide(hit)
            if level:
                asked.decide(np.flatnonzero(decided >= 0))
            if not asked.open:
                break
        return places, parts

    def _are_gone(self, number: int, rows: pa.Array) -> npt.NDArray[np.bool_] | None:
        """Return which rows of a file mark their key as deleted. None: it has no row kinds."""
        if self._kinds is None or self._kinds.name not in self._plans[number].source.schema.names:
            return None
        kinds = self._column(self._kinds, number, rows)
        return are_tombstones(kinds, self._plans[number].source.uri)

    def _in_two_files_error(
        self, key: bytes, level: int, first: int, second: int
    ) -> DuplicateKeyError:
        values = self._plans[second].build.key_schema.decode(pa.array([key], pa.large_binary()))
        shown = ", ".join(f"{name}={value!r}" for name, value in values.to_pylist()[0].items())
        one, other = (self._plans[number].source.uri for number in (first, second))
        return DuplicateKeyError(
            f"the key {shown} is in {one} and in {other}, two files of level {level}; give files "
            "whose keys overlap as level0, the newest first",
            key=shown,
        )

    def _scan(
        self, names: Sequence[str], start: bytes | None, stop: bytes | None, reverse: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of encoded keys from the lookup files, which are made first."""
        rows = RowSchema(pa.schema([self._values.field(name) for name in names]))
        runs: list[Iterator[pa.RecordBatch]] = []
        for level, numbers in enumerate(self._by_level):
            files = [self._records(number, rows, start, stop, reverse) for number in numbers]
            runs += [merge(files, "error", reverse=reverse)] if level else files
        try:
            yield from self._decoded(map(_live, merge(runs, "first", reverse=reverse)), rows)
        except RepeatedKeyError as error:
            key = self._key.decode(pa.array([error.key], pa.large_binary()))
            self._places(EncodedKeys(key, self._key), 1)
            raise

    def _beside(self, number: int, packed: pa.Array) -> dict[str, pa.Array]:
        """Return a column that marks the records that are tombstones, as bytes."""
        gone = self._are_gone(number, packed)
        marks = np.zeros(len(packed), np.uint8) if gone is None else gone.astype(np.uint8)
        buffers = [None, pa.py_buffer(marks)]
        return {"gone": pa.Array.from_buffers(pa.binary(1), len(packed), buffers)}

    def _options(self) -> dict[str, Any]:
        return {"mode": self.mode, "levels": list(self._counts), "build": self._build}

    def __repr__(self) -> str:
        return (
            f"<Levels {self.path}: {counted(self.num_files, 'file')} "
            f"(by level: {', '.join(map(str, self._counts))}), "
            f"{counted(self.num_rows, 'row')}, key {', '.join(self.key)}>"
        )


def rows_below(levels: Levels, keys: pa.RecordBatch) -> tuple[pa.BooleanArray, pa.RecordBatch]:
    """Return which keys have a row in a level above 0, and their value columns.

    Args:
        keys: Rows of the key columns, n of them.

    Returns:
        For each of the n keys, whether it has a row, and that row, with nulls if there is none.
    """
    schema = levels.value_schema
    found, rows = levels._rows_from(1, keys, schema.names)
    columns = [concat(column.chunks, column.type) for column in rows.columns]
    return found, pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True)
class Shape:
    """The columns and files of levels for a compaction.

    Attributes:
        schema: Columns of all files together, including those of key and row kind.
        kinds: Column of the row kinds. None: no file has it.
        level0: Plans of the files of level 0, the newest first.
    """

    schema: pa.Schema
    kinds: pa.Field | None
    level0: Sequence[LookupFilePlan]


def shape_of(levels: Levels) -> Shape:
    """Return the columns of levels, and the files of level 0."""
    plans = [levels._plans[number] for number in levels._by_level[0]]
    return Shape(levels._file_schema, levels._kinds, plans)


def _live(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the records that are not tombstones."""
    marks = batch.column("gone")
    stored = np.frombuffer(marks.buffers()[1], np.uint8)
    gone = stored[marks.offset : marks.offset + len(marks)] == 1
    return batch.filter(pa.array(~gone)) if gone.any() else batch


def _restored(state: dict[str, Any]) -> Levels:
    levels = Levels.__new__(Levels)
    levels._start(**state)
    return levels


def _files(
    level0: Given, levels: Sequence[Given], column: str
) -> tuple[str, list[list[SourceFile]]]:
    """Return the first path as text, and the files of each level from 0 on.

    Args:
        level0: Files of level 0, the newest first.
        levels: Files of each level after level 0.
        column: First key column.
    """
    if isinstance(levels, (str, os.PathLike)):
        raise TypeError(
            "levels is one path; give a list with the path, or a list of paths, of each level"
        )
    zero = [] if _is_empty(level0) else given_paths(level0, "level0")
    above = [
        [] if _is_empty(one) else given_paths(one, f"levels[{i}]") for i, one in enumerate(levels)
    ]
    paths = [*zero, *(path for one in above for path in one)]
    if not paths:
        raise ValueError("level0 and levels name no files; give at least one")
    found: list[list[FoundFiles]] = []
    alone = [_found([path], "level0") for path in zero]
    for path, one in zip(zero, alone, strict=True):
        count = sum(len(files.infos) for files in one)
        if count != 1:
            raise ValueError(
                f"level0: {shown_path(path)} names {count} files, and not which is newer; list "
                "them, the newest first"
            )
    found.append([files for one in alone for files in one])
    found += [_found(one, f"levels[{i}]") if one else [] for i, one in enumerate(above)]
    sources = source_files([files for one in found for files in one], ranges_of=column)
    by_path = {file.path: file for file in sources}
    if len(by_path) < len(sources):
        seen: set[str] = set()
        twice = next(file for file in sources if file.path in seen or seen.add(file.path))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice.uri} is given twice; a file is in one level, and once")
    by_level = [[by_path[info.path] for files in one for info in files.infos] for one in found]
    return shown_path(paths[0]), by_level


def _is_empty(given: object) -> bool:
    return isinstance(given, (list, tuple)) and not given


def _found(paths: Sequence[Path], argument: str) -> list[FoundFiles]:
    found = find_source(paths)
    if isinstance(found, FoundTable):
        raise FormatError(
            f"{argument}: {shown_path(paths[0])} is a Hudi table, whose files are no level; look "
            "keys up in it with ColumnarFiles"
        )
    return found


def _check_run(level: int, files: Sequence[SourceFile], is_whole_key: bool) -> None:
    """Check that files are a sorted run, by the ranges of their row groups.

    Args:
        level: Number of the level.
        files: Files of the level.
        is_whole_key: Whether a range is of whole keys, not only of their first fields.

    Raises:
        FormatError: If two of the files overlap, or one is not sorted.
    """
    spans = []
    for file in files:
        # Bounds of text in a footer may be truncated, and overlap although the keys do not.
        if not file.ranges or isinstance(file.ranges[0][0], bytes):
            continue
        for (_, last), (first, _) in pairwise(file.ranges):
            if first < last or (is_whole_key and first == last):  # type: ignore[operator]
                raise FormatError(
                    f"levels: {file.uri} of level {level} is not sorted by its key: one row group "
                    f"ends at {last!r}, and the next one begins at {first!r}"
                )
        spans.append((file.ranges[0][0], file.ranges[-1][1], file.uri))
    spans.sort(key=lambda span: span[:2])
    for (_, last, one), (first, _, other) in pairwise(spans):
        if first < last or (is_whole_key and first == last):  # type: ignore[operator]
            raise FormatError(
                f"levels: {one} and {other} of level {level} overlap: one has keys up to {last!r}, "
                f"the other from {first!r} on; give files whose keys overlap as level0, the newest "
                "first"
            )
