"""``ColumnarFiles``: Parquet or ORC files that answer lookups without a store."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from lookupstore.columnar.chosen_files import chosen_files, wanted_names
from lookupstore.columnar.encoded_keys import EncodedKeys
from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.columnar.files_for_paimon import FilesForPaimon
from lookupstore.columnar.files_together import KeyOwners, owners_in
from lookupstore.columnar.lookup_file import MODES, LookupFilePlan, Mode
from lookupstore.columnar.named_files import Given, NamedFiles, NamedTable, Origin, named_files
from lookupstore.columnar.open_files import OpenFiles
from lookupstore.columnar.planned_files import FILE, Parts, Places
from lookupstore.columnar.published import (
    PublishedFile,
    forget_old,
    location_of,
    publish_file,
    published_files,
)
from lookupstore.columnar.rent import BUILDS, Build, Rent
from lookupstore.columnar.source_file import SourceFile
from lookupstore.errors import DuplicateKeyError, FormatError
from lookupstore.filters import Filter
from lookupstore.hostcache.cache import Residency
from lookupstore.keys.schema import KeySchema
from lookupstore.keywords import KEY_ADVICE, WHERE_ADVICE, column_names, with_init_advice
from lookupstore.progress import Advance, progress_bars
from lookupstore.quantities import Size, bytes_of, counted
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting.runs import MIN_MEMORY, RepeatedKeyError, merge
from lookupstore.storage.location import Location

if TYPE_CHECKING:  # in typing since Python 3.11
    from typing_extensions import Self

# Number of files that are read at a time.
_AT_ONCE = 16
# Number of keys for each file from which on a file probably has one.
_LIKELY = 4

Rule = Literal["error", "first", "last"]
_RULES: tuple[Rule, ...] = ("error", "first", "last")

_log = logging.getLogger(__name__)


@with_init_advice({**KEY_ADVICE, **WHERE_ADVICE}.get)
class ColumnarFiles(FilesForPaimon):
    """Lookups in Parquet or ORC files, without building a store.

    Each file gets a lookup file on the host that looks up keys, when that pays, within the quota of
    its cache. Other processes, later jobs and other queries with the same columns use it. A file
    that is written again gets a new lookup file; those of other files are kept. Lookups see the
    files as they were when this object was created.

    Rows with a null in the key never match. `lookupstore.columnar.evolution` describes how files
    with different columns are combined.

    Args:
        source: Path, URI, glob or folder of Parquet or ORC files, or a list of these; or the folder
            or URI of a Hudi, Delta, Iceberg or Paimon table, for its current rows; or the name
            `"iceberg:CATALOG.NAMESPACE.TABLE"`; or a table of `deltalake` or `pypaimon`, or a table
            or scan of `pyiceberg`. Each path may be a `Location`.
        key: Key columns. Every file must have them, except those of a table.
        columns: Value columns. Default: all columns that are not in the key.
        where: Condition that rows must meet to be found: SQL such as `"country = 'US'"`, a tuple
            such as `("country", "=", "US")`, a list of tuples that must all be true, or an
            expression of `pyarrow.compute`. Default: all rows.
        mode: Content of the result. `value`: the value columns. `position`: the columns `_file` and
            `_pos`, which are the path of the file and the number of the row in it, from 0.
            `value_and_position`: both. `presence`: only whether the key was found.
        on_duplicate: Handling of repeated keys. `"error"` raises an error; a key in two files
            raises it when it is looked up. `"first"` or `"last"` keeps the first or last row, with
            files in ascending order of their paths.
        latest_partition: Name in `name=value` folders. Only the folders with the greatest value are
            read, such as the partition of the last day. Values compare as integers if all of them
            are integers, otherwise as text; those of Delta and Iceberg tables, by their type.
            Default: all folders.
        build: Time to make a lookup file. `auto`: when reading row groups of the file instead would
            cost as much. `always`: at the first key. `never`: not at all.
        version: Version of a Delta table, or number of a snapshot of an Iceberg or Paimon table, to
            read. Default: the newest one, or that of the object.
        as_of: Time of the version or snapshot to read instead: a datetime, or a text such as
            `"2026-03-07 13:56:57"`; without a zone, in UTC. Default: not given.
        memory: Budget for sorting rows, at least 64 KiB: bytes, or a text such as `"1GB"`.
        residency: Cache that holds the lookup files of this host. Default: the cache of the host.
        storage_options: Options of the URIs, such as credentials; see `lookupstore.Location`.

    Raises:
        FileNotFoundError: If the source names no files.
        KeyError: If a column does not exist, or a file lacks a key column.
        TypeError: If the type of a key column cannot be ordered, or a value cannot be stored.
        ValueError: If an argument is out of range, or columns of several files do not agree.
        CorruptionError: If a footer is damaged.
        FormatError: If the files belong to a table, and the error names the line to write instead;
            or if a table has something that is not supported, a folder has other files, or its
            `name=value` folders do not agree.
        ImportError: If the source is a table, and the extra of its format is not installed.

    Source: LookupLevels of Apache Paimon and its processors of values, positions and presence;
    `max_pt()` of its lookup joins.

    >>> import os, tempfile, pyarrow.parquet as pq
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [2, 1], "name": ["b", "a"]}), f"{folder}/1.parquet")
    >>> pq.write_table(pa.table({"id": [3], "name": ["c"]}), f"{folder}/2.parquet")
    >>> with ColumnarFiles(f"{folder}/*.parquet", key="id") as files:
    ...     files.lookup([3, 1, 7]).to_pydict()
    {'name': ['c', 'a', None]}
    >>> with ColumnarFiles(folder, key="id", mode="position") as files:
    ...     [(os.path.basename(row["_file"]), row["_pos"]) for row in files.lookup([1]).to_pylist()]
    [('1.parquet', 1)]
    """

    _rule: Rule

    def __init__(
        self,
        source: Given,
        *,
        key: str | Sequence[str],
        columns: str | Sequence[str] | None = None,
        where: Filter | None = None,
        mode: Mode = "value",
        on_duplicate: Rule = "error",
        latest_partition: str | None = None,
        build: Build = "auto",
        version: int | None = None,
        as_of: datetime | str | None = None,
        memory: Size = 128 << 20,
        residency: Residency | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        for argument, value, known in (
            ("mode", mode, MODES),
            ("on_duplicate", on_duplicate, _RULES),
            ("build", build, BUILDS),
        ):
            if value not in known:
                raise ValueError(f"{argument} is {value!r}; give {', '.join(map(repr, known))}")
        memory = bytes_of(memory, "memory", least=MIN_MEMORY)
        names = column_names("key", key)
        if not names:
            raise ValueError(
                "key is empty; name at least one column of the files, such as key='id'"
            )
        values = [columns] if isinstance(columns, str) else columns
        found = named_files(
            source,
            names,
            wanted_names(names, values, mode),
            where,
            latest_partition=latest_partition,
            version=version,
            as_of=as_of,
            storage_options=storage_options,
        )
        chosen = chosen_files(found, names, values, mode, on_duplicate)
        self._start(
            uri=found.uri,
            mode=mode,
            rule=on_duplicate,
            key=chosen.key,
            values=chosen.values,
            columns=None if values is None else list(values),
            plans=chosen.plans,
            published=_published(chosen.plans) if found.table is None else {},
            table=found.table,
            rows_left=found.fingerprint,
            build=build,
            memory=memory,
            residency=residency,
            origin=found.origin,
            listed=found.listed,
            commit=found.commit,
            where=where,
            latest_partition=latest_partition,
            rents={},
            owners={},
        )

    def _start(
        self,
        *,
        uri: str,
        mode: Mode,
        rule: Rule,
        key: KeySchema,
        values: pa.Schema,
        columns: list[str] | None,
        plans: Sequence[LookupFilePlan],
        published: dict[str, PublishedFile],
        table: str | None,
        rows_left: str,
        build: Build,
        memory: int,
        residency: Residency | None,
        origin: Origin,
        listed: float,
        commit: str,
        where: Filter | None,
        latest_partition: str | None,
        rents: dict[str, Rent],
        owners: KeyOwners,
    ) -> None:
        self.path: str = uri
        self._rule = rule
        self._columns = columns
        self._published = published
        self._table = table
        self._rows_left = rows_left
        self._follow(origin, listed, commit, where, latest_partition)
        residency = Residency() if residency is None else residency
        # Objects share them that look keys up in newer and newer files.
        self._owners = owners
        owners_of = owners_in(owners, residency, f"{uri} {mode}")
        self._set_up(
            mode=mode,
            key=key,
            values=values,
            plans=plans,
            published=published,
            build=build,
            memory=memory,
            residency=residency,
            rents=rents,
            opened=partial(OpenFiles, rule=rule, owners=owners_of),
        )
        names = "".join(plan.name for plan in plans)
        said = f"{names} {values} {mode} {rule} {build} {rows_left}"
        if isinstance(origin, NamedTable):
            # Objects whose files agree now, such as none, may differ at the next commit.
            said += f" {origin.commits.place} {commit} {key.names} {latest_partition}"
        self.id: str = xxhash.xxh3_128_hexdigest(said.encode())

    def _reopened(self, found: NamedFiles, columns: Sequence[str] | None) -> Self:
        """Return lookups in other files with the options of this object."""
        chosen = chosen_files(found, self.key, columns, self.mode, self._rule)
        state = {
            **self._state,
            "uri": found.uri,
            "key": chosen.key,
            "values": chosen.values,
            "columns": None if columns is None else list(columns),
            "plans": chosen.plans,
            "published": _published(chosen.plans) if found.table is None else {},
            "rows_left": found.fingerprint,
            "residency": self._residency,
            "listed": found.listed,
            "commit": found.commit,
            "rents": self._rents,
            "owners": self._owners,
        }
        files = type(self).__new__(type(self))
        files._start(**state)
        return files

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._state,)

    @property
    def _state(self) -> dict[str, Any]:
        """Return the arguments of `_start` for another process."""
        return {
            "uri": self.path,
            "mode": self.mode,
            "rule": self._rule,
            "key": self._key,
            "values": self._values,
            "columns": self._columns,
            "plans": self._plans,
            "published": self._published,
            "table": self._table,
            "rows_left": self._rows_left,
            "build": self._build,
            "memory": self._memory,
            "residency": None,
            "origin": self._origin,
            "listed": self._listed,
            "commit": self._commit,
            "where": self._where,
            "latest_partition": self._latest_partition,
            "rents": {},
            "owners": {},
        }

    @property
    def table_format(self) -> str | None:
        """Return the format of the table of the files, such as `Delta table`. None: no table."""
        return self._table

    def __len__(self) -> int:
        """Return the number of rows that lookups can find, apart from those with null keys.

        Conditions, and rules about repeated keys, make lookup files for it.
        """
        counts = [plan.source.rows_left for plan in self._plans]
        known = [count for count in counts if count is not None]
        if len(known) == len(counts) and self._rule == "error":
            return sum(known)
        return sum(batch.num_rows for batch in self.scan(columns=[]))

    @property
    def _calls_in_threads(self) -> bool:
        return not self._together.listed().closed

    def contains(self, keys: Any) -> pa.BooleanArray:
        """Return whether a file has each of many keys: Arrow booleans, never null.

        Raises the errors of `lookup`.
        """
        asked = EncodedKeys(keys, self._key)
        present = self._together.answer(asked, lambda files: files.contains(asked))
        if present is None:
            present = pa.array(self._places(asked)[0] >= 0)
        self._count(present)
        return present

    def _lookup(self, keys: Any, names: Sequence[str]) -> tuple[pa.BooleanArray, pa.Table]:
        asked = EncodedKeys(keys, self._key)
        fields = [self._values.field(name) for name in names]
        file = FILE if self.mode in ("position", "value_and_position") else None
        found = self._together.answer(asked, lambda files: files.lookup(asked, fields, file))
        if found is None:
            present, table = self._answers(names, *self._places(asked))
        else:
            present, table = found[0], pa.table(found[1], names=list(names))
        self._count(present)
        return present, table

    def _places(self, keys: EncodedKeys) -> tuple[Places, Parts]:
        """Return the index of the answer to each key in the answers of all files, one by one.

        The answers are the packed rows of each file, with its number.
        """
        places: Places | None = None
        parts: Parts = []
        count = 0
        ahead = self._read_ahead(keys)
        order = range(len(self._plans))
        for number in reversed(order) if self._rule == "last" else order:
            schema = self._plans[number].build.key_schema
            wanted = keys.of(schema)
            if places is None:
                places = np.full(len(wanted), -1, dtype=np.int64)
            rest: npt.NDArray[np.int64] | None = None
            if self._rule != "error" and count:
                rest = np.flatnonzero(places < 0)
                if not len(rest):
                    break
                wanted = wanted.take(pa.array(rest))
            if number in ahead:
                positions, rows = ahead[number]
            else:
                positions, rows = self._lookups[number].lookup(wanted)
            if not len(positions):
                continue
            if rest is not None:
                positions = rest[positions]
            again = np.flatnonzero(places[positions] >= 0)
            if len(again):
                key = keys.of(schema)[int(positions[again[0]])].as_py()
                raise self._in_two_files_error(key, number, int(places[positions[again[0]]]), parts)
            places[positions] = np.arange(count, count + len(positions))
            parts.append((number, rows))
            count += len(positions)
        if places is None:  # the table has no files
            places = np.full(len(keys), -1, dtype=np.int64)
        return places, parts

    def _read_ahead(self, keys: EncodedKeys) -> dict[int, tuple[npt.NDArray[np.int64], pa.Array]]:
        """Return the answers of small files of an object store, by their numbers.

        They are read several at a time, because most of the time is spent waiting for answers.
        Where the rule needs an order, no file is read ahead.
        """
        waiting = [at for at, one in enumerate(self._lookups) if one.waits_for_answers]
        if self._rule != "error" or len(waiting) < 2:
            return {}
        encoded = [keys.of(self._plans[number].build.key_schema) for number in waiting]

        def one(number: int, wanted: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
            is_likely = len(wanted) >= _LIKELY * len(waiting)
            return self._lookups[number].lookup(wanted, None, is_likely)

        # Bars of the threads are added to these.
        with progress_bars(late=True), ThreadPoolExecutor(_AT_ONCE, "lookupstore") as pool:
            return dict(zip(waiting, pool.map(one, waiting, encoded), strict=True))

    def _scan(
        self, names: Sequence[str], start: bytes | None, stop: bytes | None, reverse: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of encoded keys from the lookup files, which are made first."""
        rows = RowSchema(pa.schema([self._values.field(name) for name in names]))
        runs = [
            self._records(number, rows, start, stop, reverse) for number in range(len(self._plans))
        ]
        try:
            yield from self._decoded(merge(runs, self._rule, reverse=reverse), rows)
        except RepeatedKeyError as error:
            key = self._key.decode(pa.array([error.key], pa.large_binary()))
            self._places(EncodedKeys(key, self._key))
            raise

    def _in_two_files_error(
        self, key: bytes, number: int, place: int, parts: Parts
    ) -> DuplicateKeyError:
        starts = np.cumsum([0, *(len(rows) for _, rows in parts)])
        first = parts[int(np.searchsorted(starts, place, "right")) - 1][0]
        values = self._plans[number].build.key_schema.decode(pa.array([key], pa.large_binary()))
        shown = ", ".join(f"{name}={value!r}" for name, value in values.to_pylist()[0].items())
        return DuplicateKeyError(
            f"the key {shown} is in {self._plans[first].source.uri} and in "
            f"{self._plans[number].source.uri}; {self._plans[number].remedy}",
            key=shown,
        )

    def publish(self, *, threads: int = 1, progress: bool | None = None) -> int:
        """Write the lookup files next to their columnar files, for other hosts to fetch.

        They are written to the folder `_lookup` of the source. Existing ones are kept, unless their
        description is damaged or records another size: those are replaced. If a file changed more
        than a day ago, its older lookup files are removed. Files that may still change unseen are
        skipped with a warning in the log: on an object store without ETags, those of the last
        minute; on other file systems, those of the last moment.

        Args:
            threads: Number of lookup files to make at the same time.
            progress: Whether to show a progress bar. Default: on a terminal or in a notebook.

        Returns:
            Number of lookup files that were written.

        Raises:
            OSError: If the folder of the source cannot be written.
            FormatError: If the source is a table. Its folder accepts only its own files.
            Exception: If making a lookup file fails, with an error of `lookup`.
        """
        if self._table is not None:
            raise FormatError(
                f"{self.path}: a {self._table} gets no lookup files beside its own; publish a "
                "store of it: lookupstore.build(TABLE, 'a new folder or URI', key=...)"
            )
        present = _published(self._plans)

        def one(lookup: FileLookup, advance: Advance) -> None:
            plan = lookup.plan
            if plan.source.stored.unsettled:
                _log.warning(
                    "%s: not published: written a moment ago, and it could change again unseen; "
                    "list the files and publish again in a minute",
                    plan.source.uri,
                )
            elif plan.name not in present:
                location = location_of(plan.source)
                published[plan.name] = publish_file(
                    location, plan.name, plan.source, lookup.made(advance).path
                )

        published: dict[str, PublishedFile] = {}
        self._each(one, threads, progress, "Publishing lookup files")
        self._published = present | published
        sources: dict[Location, list[SourceFile]] = {}
        for plan in self._plans:
            sources.setdefault(location_of(plan.source), []).append(plan.source)
        for location, there in sources.items():
            forget_old(location, there)
        return len(published)

    def _options(self) -> dict[str, Any]:
        return {"mode": self.mode, "on_duplicate": self._rule, "build": self._build}

    def __repr__(self) -> str:
        return (
            f"<ColumnarFiles {self.path}: {counted(self.num_files, 'file')}, "
            f"{counted(self.num_rows, 'row')}, key {', '.join(self.key)}>"
        )

    def _first_rows(self) -> pa.Table | None:
        return self._plans[0].first_rows() if self._plans else None


def _restored(state: dict[str, Any]) -> ColumnarFiles:
    files = ColumnarFiles.__new__(ColumnarFiles)
    files._start(**state)
    return files


def _published(plans: Sequence[LookupFilePlan]) -> dict[str, PublishedFile]:
    """Return the lookup files that are published next to the columnar files, by name."""
    names: dict[Location, list[str]] = {}
    for plan in plans:
        names.setdefault(location_of(plan.source), []).append(plan.name)
    found: dict[str, PublishedFile] = {}
    for location, wanted in names.items():
        found |= published_files(location, wanted)
    return found
