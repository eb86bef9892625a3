"""Lookups of keys in a Hudi table, with one lookup file per base file.

Base files never change, so that a commit only requires lookup files of the file groups that it
wrote. `slice_lookups` answers record keys; this module makes them of the columns of a key.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.columnar.files_together import KeyOwners
from lookupstore.columnar.many_lookups import AskedFiles, FilesCheck, ManyLookups
from lookupstore.columnar.rent import BUILDS, Build
from lookupstore.errors import DuplicateKeyError, FormatError, StaleStoreError
from lookupstore.filters import Filter
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi.keys.duplicate_key import duplicate_key_error
from lookupstore.hudi.keys.key_generator import record_keys
from lookupstore.hudi.options import SNAPSHOT
from lookupstore.hudi.read.key_order import key_and_values, scan_by_key
from lookupstore.hudi.read.looked_up_rows import AnsweredRows, LookedUpRows
from lookupstore.hudi.read.lookup_plan import (
    LookupPlan,
    newest_position,
    partition_codes,
    plan_lookup,
)
from lookupstore.hudi.read.slice_lookups import SliceKeys, SliceLookups
from lookupstore.hudi.timeline.given_times import When, given_time
from lookupstore.hudi.timeline.instant_times import BEGINNING, BOOTSTRAPS, moment_of, print_time
from lookupstore.hudi.view import TableView, read_view
from lookupstore.keys.arguments import encode_keys
from lookupstore.keys.schema import KeySchema
from lookupstore.keywords import column_names
from lookupstore.quantities import counted
from lookupstore.sorting.runs import RepeatedKeyError
from lookupstore.storage.location import Location, as_location
from lookupstore.store.refreshing import Refresh, Refreshes

_log = logging.getLogger(__name__)

Rows = npt.NDArray[np.int64]


class OpenTable(Protocol):
    """An open table, such as a `HudiTable`."""

    def view(self) -> TableView:
        """Return the current state of the table."""
        ...


@dataclass(frozen=True)
class _Asked:
    """The keys of a call.

    Attributes:
        places: Places of the n keys that can be found among all keys.
        given: Key columns of the n keys.
        keys: Record keys of the n keys.
    """

    places: Rows
    given: pa.RecordBatch
    keys: pa.Array


class TableLookup(ManyLookups):
    """Lookups in a Hudi table, as the table was when this object was made.

    Keys are values of the record key's columns. With the partition columns, a key is looked up in
    its own partition; without them in all. A key with a null never matches.

    Args:
        path: Open table, or the folder or URI of a table.
        key: Names of the key columns, or one name: those of the record key, or these and the
            partition columns, in any order. None: all of these.
        columns: Names of the value columns, or one name. None: all data columns that are not in the
            key.
        as_of: Request time of the last instant to read. None: the latest.
        query_type: `snapshot`, or `read_optimized` for the rows of base files; see
            `HudiTable.open`. None: the query type of an open table, or else `snapshot`.
        build: When to make the lookup file of a base file: `auto`, `always` or `never`; see
            `ColumnarFiles`.
        where: Condition that rows must meet to be found: SQL such as `"country = 'US'"`, a tuple
            such as `("country", "=", "US")`, a list of tuples that must all be true, or an
            expression of `pyarrow.compute`. Files that it rules out, as in `HudiTable.scan`, are
            not read. None: all rows.
        residency: Cache of lookup files on this host. None: the default cache of the host.
        storage_options: Credentials, region, endpoint and other options of a URI, by the names that
            pandas or deltalake have for them; see `lookupstore.Location`.

    Raises:
        FileNotFoundError: If there is no table at `path`.
        KeyError: If the table does not have a column, or `key` lacks key columns or has other
            columns.
        TypeError: If a key column has neither strings nor integers; the text of other types in a
            key depends on settings of Hudi.
        ValueError: If an argument is out of range, or `where` does not fit the columns.
        ImportError: If `where` is SQL, and sqlglot is not installed.
        FormatError: If tables of this kind cannot be read, or record keys or partition paths are
            not made of columns as in Hudi's usual key generators.
        CorruptionError: If the table is damaged.

    A lookup of a key that is in several rows of a partition raises `DuplicateKeyError`. Of
    merge-on-read tables, the changes in log files that may have a key stay in memory until `close`.

    >>> import tempfile
    >>> from lookupstore.hudi import HudiTable
    >>> folder = tempfile.mkdtemp()
    >>> schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    >>> users = HudiTable.create(folder, schema, record_key=["id"], name="users")
    >>> _ = users.insert(pa.table({"id": [1, 2], "name": ["Ada", "Grace"]}))
    >>> with TableLookup(folder) as lookup:
    ...     lookup.lookup([2, 7]).to_pydict()
    {'name': ['Grace', None]}
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Location | OpenTable,
        *,
        key: str | Sequence[str] | None = None,
        columns: str | Sequence[str] | None = None,
        as_of: When | None = None,
        query_type: str | None = None,
        build: Build = "auto",
        where: Filter | None = None,
        residency: Residency | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if build not in BUILDS:
            raise ValueError(f"build is {build!r}; give {', '.join(map(repr, BUILDS))}")
        view = _view_of(path, query_type, storage_options)
        self._start(_planned(view, key, columns, as_of, build, where), residency)

    def _start(
        self,
        plan: LookupPlan,
        residency: Residency | None,
        owners: dict[str, KeyOwners] | None = None,
    ) -> None:
        self._plan = plan
        self._residency = residency = Residency() if residency is None else residency
        self._slices = SliceLookups(plan, residency, {} if owners is None else owners)
        self._files = AskedFiles(self._slices.asked, residency)
        self._refreshes: Refreshes[TableLookup] = Refreshes()
        self.path: str = plan.location.uri
        self.id: str = xxhash.xxh3_128_hexdigest("\n".join(plan.identity).encode())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._plan,)

    @property
    def key_schema(self) -> KeySchema:
        """Return the key columns."""
        return self._plan.key

    @property
    def value_schema(self) -> pa.Schema:
        """Return the columns of an answer."""
        return self._plan.values

    @property
    def num_files(self) -> int:
        """Return the number of base files and log files."""
        return len(self._plan.paths)

    @property
    def num_rows(self) -> int:
        """Return the number of rows, also of those that `where` leaves out.

        It is counted from footers, and read only where there are log files.
        """
        return self._slices.num_rows()

    @property
    def nbytes(self) -> int:
        """Return the size of all base files and log files."""
        return sum(file.bytes for file in self._plan.files)

    def newest(self) -> TableLookup:
        """Return these lookups if there is no newer commit, otherwise lookups in the newest one.

        This object stays open, and its answers do not change. If it was made with `as_of`, it is
        returned. Lookups in all columns get the columns that the table has by then.

        Raises: The errors of `TableLookup`.

        >>> import tempfile
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> lookup = TableLookup(table.location)
        >>> _ = table.insert(rows)
        >>> 1 in lookup, 1 in lookup.newest()
        (False, True)
        """
        known = self._plan
        if known.is_fixed:
            return self
        view = self._view()
        # In version 6, a commit may complete after one with a later position.
        if view.options.version != 6 and newest_position(view) == known.position:
            return self
        columns = None if known.every_column else known.values.names
        plan = plan_lookup(
            view, known.key.schema.names, columns, None, known.build, self._where(), None
        )
        newest = self._with(plan)
        if newest == self:
            return self
        self._goes_on_in(newest)
        return newest

    def refresh(self) -> TableLookup:
        """Return newer lookups whose lookup files are on this host, otherwise this object.

        If lookups of this object use lookup files, a call that finds a newer commit starts a
        thread, which makes those of base files that the commit added, in the same partitions. This
        object answers meanwhile, and a later call returns the newer one. Failures are logged, and a
        later call tries again.

        Raises: The errors of `newest`, except `OSError` and `FormatError`.
        """
        return self._refreshes.next(self, self._begin_refresh)

    def _begin_refresh(self) -> TableLookup | Refresh[TableLookup]:
        try:
            newest = self.newest()
        except (FormatError, OSError) as error:
            _log.warning("%s: lookups still use the older commit: %s", self.path, error)
            return self
        if newest is self or not any(lookup.is_on_host() for lookup in self._slices.asked()):
            return newest

        def fetch(stop: threading.Event) -> None:
            for lookup in newest._slices.added_since(self._slices):
                if stop.is_set():
                    return
                lookup.reader()

        return Refresh(newest, self.path, fetch)

    def committed_at(self) -> float | None:
        """Return the time of the newest commit that is read, in seconds since 1970.

        It is the time of its completion, which tables of version 6 do not record: of those, it is
        the time of its request. None: There is no commit, or it has no time, as of a bootstrap.

        Raises:
            FormatError: If the time zone of the table's commits is unknown.
            CorruptionError: If the timeline is damaged.

        >>> import tempfile, time
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> _ = table.insert(rows)
        >>> abs(TableLookup(table.location).committed_at() - time.time()) < 60
        True
        """
        position = self._plan.position
        if not position or position in BOOTSTRAPS or position.startswith(BEGINNING):
            return None
        return (moment_of(position) - self._zone(self._view())).timestamp()

    @property
    def position(self) -> str:
        """Return the position of the newest commit that is read. Empty: there is no commit."""
        return self._plan.position

    def position_at(self, moment: datetime) -> str:
        """Return the position of the newest commit that was completed up to a moment.

        The position is never older than the commit that this object reads.

        Args:
            moment: Time, with a time zone.

        Raises:
            ValueError: If this object was made with `as_of`.
            FormatError: If the commits of the table do not record when they were completed, as in
                version 6, or their time zone is unknown.
            CorruptionError: If the timeline is damaged.

        >>> import tempfile
        >>> from datetime import timezone
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> lookup = TableLookup(table.location)
        >>> commit = table.insert(rows).instant
        >>> lookup.position_at(datetime.now(timezone.utc)) == commit.position
        True
        """
        planned = self._planned_position()
        view = self._view()
        if view.options.version == 6:
            raise FormatError(
                f"{self.path}: the commits of a table of version 6 do not say when they were "
                "completed, so that two tasks could see other rows; call lookup_join again for "
                "newer rows, or upgrade the table with Apache Hudi"
            )
        return max(planned, newest_position(view, print_time(moment + self._zone(view))))

    def _zone(self, view: TableView) -> timedelta:
        """Return the difference between the times of commits and UTC.

        Raises:
            FormatError: If it is unknown.
        """
        zone = view.folder.zone(view.timeline)
        if zone.least != zone.most:
            raise FormatError(
                f"{self.path}: the zone of the table's commits is not known, so that it is not "
                "known which were completed when; set hoodie.table.timeline.timezone=UTC, if its "
                "writers use UTC"
            )
        return zone.least

    def at(self, position: str | None = None) -> TableLookup:
        """Return lookups of the same columns in the table as of another commit.

        Args:
            position: Position of the last commit to read. Default: the newest.

        Raises:
            ValueError: If this object was made with `as_of`.
            StaleStoreError: If the types of the columns changed, or a clean deleted files.
            CorruptionError: If the timeline is damaged.

        >>> import tempfile
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1], "name": ["Ada"]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> lookup = TableLookup(table.location)
        >>> _ = table.insert(rows)
        >>> lookup.lookup([1]).to_pydict(), lookup.at().lookup([1]).to_pydict()
        ({'name': [None]}, {'name': ['Ada']})
        """
        planned = self._planned_position()
        view = self._view()
        if position is None:
            position = newest_position(view)
        # In version 6, a commit may complete after one with a later position.
        if position == planned and view.options.version != 6:
            return self
        known = self._plan
        key, values = known.key.schema, known.values
        try:
            plan = plan_lookup(
                view, key.names, values.names, None, known.build, self._where(), position
            )
        except (KeyError, TypeError, ValueError) as error:  # they were right for older columns
            raise StaleStoreError(f"{self.path}: {error.args[0]}; look up again") from None
        is_same = plan.filter_identity == known.filter_identity
        if plan.key != known.key or plan.values != values or not is_same:
            raise StaleStoreError(
                f"{self.path}: the columns have other types since {planned}; open the table again"
            )
        found = self._with(replace(plan, every_column=known.every_column))
        return self if found == self else found

    def _with(self, plan: LookupPlan) -> TableLookup:
        """Return lookups in another commit."""
        return _restored(plan, self._residency, self._slices.owners)

    def _where(self) -> Filter | None:
        chosen = self._plan.filter
        return None if chosen is None else chosen.condition.expression

    def _planned_position(self) -> str:
        if self._plan.is_fixed:
            raise ValueError(
                f"{self.path}: the lookups were opened with as_of, and so never change; leave "
                "as_of out"
            )
        return self._plan.position

    def _view(self) -> TableView:
        return read_view(self._plan.location, query_type=self._plan.query_type)

    def _lookup(self, keys: Any, names: Sequence[str]) -> tuple[pa.BooleanArray, pa.Table]:
        found = self._found(keys, names)
        columns = [found.column(self._plan.values.field(name)) for name in names]
        present = found.present()
        self._count(present)
        return present, pa.table(columns, names=list(names))

    def contains(self, keys: Any) -> pa.BooleanArray:
        """Return whether the table has each of many keys, as Arrow booleans without nulls.

        Raises: The same errors as `lookup`.
        """
        present = self._found(keys, ()).present()
        self._count(present)
        return present

    def _found(self, keys: Any, names: Sequence[str]) -> AnsweredRows:
        """Return the rows of many keys.

        Args:
            keys: Keys in any of the forms of `lookupstore.keys.arguments`.
            names: Names of the value columns that are read of the rows.
        """
        encoded = encode_keys(keys, self._plan.key)
        places = np.flatnonzero(encoded.is_valid().to_numpy(zero_copy_only=False))
        given = self._plan.key.decode(encoded.drop_null())
        has_key = self._has_key(given)
        if not has_key.all():
            places, given = places[has_key], given.filter(pa.array(has_key))
        if not len(places):
            return AnsweredRows(len(encoded))
        record_key = self._plan.options.record_key
        texts = record_keys(given, record_key, named=self._plan.named or len(record_key) > 1)
        column = texts.combine_chunks().cast(pa.large_binary())
        asked = _Asked(places, given, column)
        found = AnsweredRows(len(encoded))
        wanted = [*names, *self._plan.texts]
        for slices, rows in self._tasks(given):
            some = column if rows is None else column.take(pa.array(rows))
            keys = self._slices.asked_in(slices, some)
            together = self._found_together(asked, keys, rows, wanted)
            if together is None:
                self._find_by_file(asked, keys, rows, found)
                continue
            for at, looked_up in together:
                found.add(places[at], looked_up)
        return found

    def _found_together(
        self, asked: _Asked, keys: SliceKeys, rows: Rows | None, names: Sequence[str]
    ) -> list[tuple[Rows, LookedUpRows]] | None:
        """Return rows of open lookup files, and their keys. None: ask the files one by one.

        Args:
            asked: All keys.
            keys: Keys of the slices of one partition, or of all.
            rows: Places of these keys among all. None: they are all.
            names: Names of the columns that are read of the rows.
        """
        answers = self._slices.found_together(keys, names)
        if answers is None:
            return None
        found = []
        has_row = np.zeros(len(asked.places), bool)
        for hits, looked_up in answers:
            at, kept = self._same(asked.given, hits if rows is None else rows[hits], looked_up)
            if has_row[at].any():
                return None
            has_row[at] = True
            found.append((at, kept))
        return found

    def _find_by_file(
        self, asked: _Asked, keys: SliceKeys, rows: Rows | None, found: AnsweredRows
    ) -> None:
        """Add the rows of slices, which are searched one by one; see `_found_together`."""
        numbers: dict[int, int] = {}  # of slices, by the numbers of parts
        for number, hits, looked_up in self._slices.found(keys):
            at, kept = self._same(asked.given, hits if rows is None else rows[hits], looked_up)
            again = np.flatnonzero(found.has(asked.places[at]))
            if len(again):
                row = int(at[again[0]])
                other = numbers[found.part_of(int(asked.places[row]))]
                raise self._in_two_error(asked.keys[row].as_py(), number, other)
            numbers[found.add(asked.places[at], kept)] = number

    def _has_key(self, given: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return which rows have a record key; tables have no key of empty texts only."""
        has = np.zeros(given.num_rows, bool)
        for name in self._plan.options.record_key:
            column = given.column(name)
            if not pa.types.is_string(column.type):
                return np.ones(given.num_rows, bool)
            has |= pc.greater(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
        return has

    def _tasks(self, given: pa.RecordBatch) -> Iterator[tuple[range, Rows | None]]:
        """Yield numbers of slices to search, and the rows to look for in them; None: all."""
        plan = self._plan
        if plan.is_global:
            yield range(len(plan.files)), None
            return
        codes, paths = partition_codes(given, plan.options)
        # Small numbers are sorted by their digits, which takes a tenth of the time.
        codes = codes.astype(np.min_scalar_type(len(paths)))
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(paths) + 1, dtype=codes.dtype))
        numbers = {path: number for number, path in enumerate(paths)}
        first = 0
        for partition, slices in groupby(plan.files, lambda file: file.group.partition):
            files = range(first, first + sum(1 for _ in slices))
            first = files.stop
            number = numbers.get(partition)
            if number is not None:
                rows = order[starts[number] : starts[number + 1]]
                if len(rows):
                    yield files, rows

    def _same(
        self, given: pa.RecordBatch, rows: Rows, found: LookedUpRows
    ) -> tuple[Rows, LookedUpRows]:
        """Leave out found rows whose key values differ from those looked up."""
        for name in self._plan.texts:
            stored = found.column(self._plan.key.schema.field(name))
            asked = given.column(name).take(pa.array(rows))
            same = pc.fill_null(pc.equal(stored, asked), False)
            if same.false_count:
                kept = same.to_numpy(zero_copy_only=False)
                found, rows = found.kept(kept), rows[kept]
        return rows, found

    def _in_two_error(self, key: bytes, number: int, other: int) -> DuplicateKeyError | FormatError:
        one, two = self._plan.files[other], self._plan.files[number]
        show = self._plan.location.show
        text = repr(key.decode("utf-8", "replace"))
        if one.group.partition == two.group.partition:
            return duplicate_key_error(text, f"{show(one.path)} and in {show(two.path)}")
        named = ", ".join(map(repr, self._plan.options.partition_by))
        return FormatError(
            f"the record key {text} is in {show(one.path)} and in {show(two.path)}: in this "
            f"table a key is unique only within its partition; also give the partition columns "
            f"{named}"
        )

    def _every(self) -> Iterable[FileLookup]:
        return self._slices.every()

    def verify(self, *, progress: bool | None = None) -> FilesCheck:
        """Read all files, and check that lookup files have the rows of their base files.

        No lookup file is made.

        Args:
            progress: Whether to show a progress bar. Default: after a second, on a terminal or in a
                notebook.

        Raises:
            CorruptionError: If a file is damaged. The error describes the first damage.
            FormatError: If a log file has something that is not supported.
            StaleStoreError: If a file is gone, or was replaced.
            OSError: If a remote file could not be read.
        """
        self._slices.check_logs()
        return super().verify(progress=progress)

    def close(self) -> None:
        """Close all files, end a refresh, and forget changes of log files.

        A lookup reads them again.
        """
        self._refreshes.cancel()
        self._slices.forget_changes()
        super().close()

    def _options(self) -> dict[str, Any]:
        return {"is_global": self._plan.is_global, "build": self._plan.build}

    def _scan(
        self, names: Sequence[str], start: bytes | None, stop: bytes | None, reverse: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of encoded keys; see `key_order`."""
        plan = self._plan
        try:
            yield from scan_by_key(
                plan,
                self.id,
                self._residency,
                names,
                start=start,
                stop=stop,
                reverse=reverse,
            )
        except RepeatedKeyError as error:
            self._found(plan.key.decode(pa.array([error.key], pa.large_binary())), ())
            raise

    def __repr__(self) -> str:
        files = counted(self.num_files, "file")
        return f"<TableLookup {self.path}: {files}, key {', '.join(self.key)}>"

    def _first_rows(self) -> pa.Table | None:
        if not os.path.isdir(self.path):
            return None
        batches = key_and_values(self._plan)
        return next((pa.Table.from_batches([one]) for one in batches if one.num_rows), None)


def _view_of(
    path: str | os.PathLike[str] | Location | OpenTable,
    query_type: str | None,
    storage_options: Mapping[str, Any] | None,
) -> TableView:
    """Return the current state of a table."""
    if isinstance(path, (str, os.PathLike, Location)):
        location = as_location(path, storage_options)
        return read_view(location, query_type=SNAPSHOT if query_type is None else query_type)
    if not hasattr(path, "view"):
        raise TypeError(
            f"path is a {type(path).__name__}; give an open HudiTable, or the folder or URI of one"
        )
    if query_type is not None or storage_options is not None:
        name = "storage_options" if query_type is None else "query_type"
        raise ValueError(f"{name}: the table is open, and has its own; leave the argument out")
    return path.view()


def _planned(
    view: TableView,
    key: str | Sequence[str] | None,
    columns: str | Sequence[str] | None,
    as_of: When | None,
    build: Build,
    where: Filter | None,
) -> LookupPlan:
    names = None if key is None else column_names("key", key)
    values = [columns] if isinstance(columns, str) else columns
    time = given_time("as_of", as_of, view.options.timezone)
    return plan_lookup(view, names, values, time, build, where)


def lookups_in(
    view: TableView,
    key: Sequence[str],
    columns: Sequence[str] | None,
    as_of: When | None,
    where: Filter | None = None,
) -> TableLookup:
    """Return lookups in a given state of a table; see `TableLookup`."""
    return _restored(_planned(view, key, columns, as_of, "auto", where))


def _restored(
    plan: LookupPlan,
    residency: Residency | None = None,
    owners: dict[str, KeyOwners] | None = None,
) -> TableLookup:
    lookup = TableLookup.__new__(TableLookup)
    lookup._start(plan, residency, owners)
    return lookup
