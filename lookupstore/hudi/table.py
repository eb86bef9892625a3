"""``HudiTable``: a table of Apache Hudi, without a JVM."""

from __future__ import annotations

import getpass
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lookupstore.arrow.outgoing import ArrowRows
from lookupstore.hudi.clustering import (
    ClusterAdvice,
    ClusterResult,
    advise,
    cluster,
    is_due,
    last_columns,
)
from lookupstore.hudi.file_group.groups import FileGroup, FileGroups
from lookupstore.hudi.index.funnel import Funnel
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.index.row_tags import tag_rows
from lookupstore.hudi.keys.avro_types import avro_schema
from lookupstore.hudi.keys.new_columns import check_columns, columns_of
from lookupstore.hudi.layout import (
    Filter,
    LayoutHealth,
    LayoutPicture,
    collect,
    known_bounds,
    layout_health,
    layout_picture,
    said,
    start,
    warn,
)
from lookupstore.hudi.layout.choice import TARGET_FILE_SIZE, Curve, CurveMapping, LayoutChoice
from lookupstore.hudi.locking.lock import WAIT, TableLock, table_lock
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.metadata.maintain import prepared
from lookupstore.hudi.options import (
    REFUSE,
    SNAPSHOT,
    TABLE_LOCK,
    TableOptions,
    avro_json,
    check_choice,
    check_lock,
    check_query,
    check_writable,
    new_options,
    read_options,
    write_options,
)
from lookupstore.hudi.read.audit import audit as audit_scan
from lookupstore.hudi.read.audit import check_rate
from lookupstore.hudi.read.changes import plan_row_changes
from lookupstore.hudi.read.matching import plan_matching
from lookupstore.hudi.read.partition_pruning import partitions_of
from lookupstore.hudi.read.scan_funnel import ScanFunnel
from lookupstore.hudi.read.scan_plan import plan_changes, plan_scan
from lookupstore.hudi.read.table_history import table_history
from lookupstore.hudi.services.archiver import MAX_COMMITS, MIN_COMMITS, Archival, archive
from lookupstore.hudi.services.check import TableCheck, check_table
from lookupstore.hudi.services.cleaner import clean
from lookupstore.hudi.services.never_completed import delete_never_completed
from lookupstore.hudi.services.restore import restore
from lookupstore.hudi.services.rollback import (
    check_not_restored,
    roll_back_named,
    roll_back_pending,
)
from lookupstore.hudi.services.savepoint import delete_savepoint, make_savepoint, savepoints
from lookupstore.hudi.timeline.commit import CommitMetadata
from lookupstore.hudi.timeline.plans import SavepointMetadata
from lookupstore.hudi.timeline.timeline import Instant, When, given_instant, given_time
from lookupstore.hudi.view import TableView, read_view
from lookupstore.hudi.write.hoodie_options import (
    GivenOptions,
    check_generator,
    cluster_arguments,
    given_options,
    table_arguments,
)
from lookupstore.hudi.write.options import Missing, WriteOptions, with_missing
from lookupstore.hudi.write.plan import (
    BULK_INSERT,
    CLUSTER,
    DELETE,
    DELETE_PARTITION,
    INSERT,
    INSERT_OVERWRITE,
    INSERT_OVERWRITE_TABLE,
    UPSERT,
)
from lookupstore.hudi.write.result import WriteResult
from lookupstore.hudi.write.retries import RETRIED, retried
from lookupstore.hudi.write.writable import writable_view
from lookupstore.hudi.write.write import Write
from lookupstore.progress import progress_bars
from lookupstore.quantities import bytes_of
from lookupstore.source.kept import KeptRows, is_read_once
from lookupstore.storage.location import Location, as_location

Path = str | os.PathLike[str] | Location


class HudiTable(ArrowRows):
    """A table of Apache Hudi, to read, and to write if it is copy-on-write.

    Each call sees what is committed when it is made, and returns the table of that moment: writers
    do not wait for readers, nor readers for writers.

    Made by `HudiTable.create` and `HudiTable.open`.

    >>> import tempfile
    >>> schema = pa.schema({"id": pa.int64(), "day": pa.string()})
    >>> table = HudiTable.create(tempfile.mkdtemp(), schema, record_key=["id"], name="visits")
    >>> table.scan().num_rows, table.timeline()
    (0, [])
    """

    def __init__(
        self, location: Location, options: TableOptions, query_type: str = SNAPSHOT
    ) -> None:
        self._location = location
        self._options = options
        self._query_type = query_type
        # What a completed instant did never changes.
        self._commits: dict[Instant, CommitMetadata] = {}

    @classmethod
    def create(
        cls,
        path: Path,
        schema: Any,
        *,
        record_key: str | Sequence[str] = (),
        partition_by: str | Sequence[str] = (),
        ordering: str | None = None,
        merge_mode: str | None = None,
        version: int = 9,
        name: str | None = None,
        database: str | None = None,
        hive_style: bool = False,
        url_encode: bool = False,
        options: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> HudiTable:
        """Make an empty table.

        Args:
            path: folder or URI of the table; made if missing, else without files.
            schema: of the data columns, all of which become nullable; or rows with these columns,
                as `upsert` takes them: none of them is written.
            record_key: columns that identify a row within its partition; strings or integers.
            partition_by: partition columns, whose values name the folders; strings or integers.
            ordering: the ordering (precombine) column: of two rows with one key, the one with the
                greater value is newer; None: the one that is written later.
            merge_mode: `EVENT_TIME_ORDERING` or `COMMIT_TIME_ORDERING`; None: the first if there
                is an ordering column.
            version: of the table: 9, 8, or 6 for engines with Hudi 0.x.
            name: of the table; None: that of the folder.
            database: of the table, if any.
            hive_style: whether folders are called `name=value`.
            url_encode: whether characters are escaped in folders' names.
            options: what a writer in Java would be given: values by Hudi's names, `hoodie.*`, which
                say arguments that are not given.
            storage_options: of a URI, as of `lookupstore.Location`.

        Raises:
            FileExistsError: the folder has a table, or any other file.
            KeyError: a column that `schema` does not have.
            TypeError: `schema` is not a schema; or a column has a type that Hudi tables do not
                have, or that cannot be a key, partition or ordering column.
            ValueError: an argument is out of range, or contradicts another.

        Source: HoodieTableMetaClient.PropertyBuilder of Apache Hudi.
        """
        location = as_location(path, storage_options)
        schema = columns_of(schema)
        for column in schema.names:
            if column in META_COLUMNS or schema.names.count(column) > 1:
                raise ValueError(
                    f"schema: the name {column!r} is one of Hudi's own, or given twice; rename it, "
                    "or leave it out"
                )
        arguments: dict[str, Any] = {
            "name": name,
            "record_key": record_key,
            "partition_by": partition_by,
            "ordering": ordering,
            "merge_mode": merge_mode,
            "version": version,
            "database": database,
            "hive_style": hive_style,
            "url_encode": url_encode,
        }
        if options is not None:
            arguments = table_arguments(options, arguments)
        if arguments["name"] is None:
            arguments["name"] = _folder_name(location)
        made = new_options(**arguments)
        check_generator(options or {}, made)
        avro = avro_schema(schema, made.record_name, made.namespace)
        made = replace(made, create_schema=avro_json(avro))
        check_columns(made, location.uri)
        check_writable(made, location.uri)
        if location.is_file() or location.files(recursive=True):
            raise FileExistsError(f"{location.uri}: not empty; give an empty or new folder")
        for folder in made.folders:
            location.make_folder(folder)
        # Last: who sees it sees a table.
        write_options(location, made, datetime.now(timezone.utc))
        return cls(location, made)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        query_type: str = SNAPSHOT,
        storage_options: Mapping[str, Any] | None = None,
    ) -> HudiTable:
        """Open a table.

        Args:
            path: folder or URI of the table.
            query_type: `snapshot`, or `read_optimized`, which is the rows of base files: all of a
                copy-on-write table; of a merge-on-read table those of the last compactions and of
                new files, without the changes since, which are in log files. Such a table cannot be
                opened otherwise, and not be written to.
            storage_options: of a URI, as of `lookupstore.Location`.

        Raises:
            FileNotFoundError: there is no table.
            CorruptionError: its properties are damaged.
            FormatError: the table is of a kind that is not read; the error names the property.
            ValueError: there is no such kind of query.

        Source: DataSourceReadOptions.QUERY_TYPE of Apache Hudi.
        """
        location = as_location(path, storage_options)
        options = read_options(location)
        check_query(options, query_type, location.uri)
        return cls(location, options, query_type)

    def __repr__(self) -> str:
        return f"<HudiTable {self._location.uri!r} version {self._options.version}>"

    def _key_names(self) -> tuple[str, ...]:
        return tuple(self._options.record_key)

    @property
    def location(self) -> Location:
        """Return where the table is."""
        return self._location

    @property
    def options(self) -> TableOptions:
        """Return the options of the table when it was opened, or last read."""
        return self._options

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of a scan: the meta columns, then those of the latest commit."""
        return self.view().schema

    def view(self) -> TableView:
        """Return the table as it is now; another writer may have changed its version."""
        view = read_view(self._location, query_type=self._query_type, commits=self._commits)
        self._options = view.options
        return view

    def timeline(self) -> list[Instant]:
        """Return the instants of the table by request time, each in its last state."""
        return list(self.view().timeline)

    def history(self, limit: int | None = None) -> pa.Table:
        """Return what happened to the table, a row for each instant, the newest first.

        What is pending comes before all others. `instant` is what `as_of` takes, `completed`, or in
        tables of version 6 `instant`, what `since` takes; commits have numbers of rows, files,
        bytes and partitions, and who wrote them, if they say so.

        Args:
            limit: at most so many rows; None: all, those of the archive included.

        Raises:
            ValueError: `limit` is below 0.
            CorruptionError: a commit or the archive is damaged.
            StaleStoreError: an instant was archived, or rolled back, meanwhile.

        >>> import tempfile
        >>> rows = pa.table({"id": [1, 2], "seats": [100, 150]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> _ = table.insert(rows), table.delete([1])
        >>> names = ["action", "operation", "rows_inserted", "rows_deleted", "files_rewritten"]
        >>> for row in table.history().select(names).to_pylist():
        ...     print(*row.values())
        commit DELETE 0 1 1
        commit INSERT 2 0 0
        """
        return table_history(self.view(), limit)

    def file_groups(self, as_of: When | None = None) -> list[FileGroup]:
        """Return the file groups that the table consists of, by partition path and id.

        Args:
            as_of: request time of the last instant that counts; None: the latest.
        """
        view = self.view()
        return FileGroups(view.groups(given_time("as_of", as_of, view.options.timezone)))

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        as_of: When | None = None,
        audit: int = 0,
    ) -> pa.Table:
        """Return the rows of the table.

        Types are those of the latest commit, also of older rows.

        Args:
            columns: columns to read, in this order, or the name of one; None: the meta columns,
                then the data columns.
            filter: which rows, as SQL such as `"a >= 3 and b is null"`; as an expression of
                `pyarrow.compute`; as a tuple such as `("a", ">=", 3)`; or as a list of these, all
                of which have to hold. Files are not opened whose partitions it leaves out, nor
                those that have no row of it by statistics of columns, if the table has these
                (`collect_statistics`).
            as_of: request time of the last instant that counts, in the zone of the table's
                instants; None: the latest.
            audit: n: one in n of the files that were not opened is read in the background, with
                all of its rows; if some of these are missing, a warning says so, and the
                statistics of the file are never used again. 0: none is.

        Raises:
            KeyError: a column that the table does not have.
            ValueError: `as_of` is not the time of an instant, or `filter` does not fit the columns.
            TypeError: `filter` is none.
            ImportError: `filter` is SQL, and what parses it is not installed.
            CorruptionError: the timeline or a base file is damaged.
            FormatError: the table, or a type in it, is of a kind that is not read.
            StaleStoreError: a clean removed files while they were read.
            OSError: a remote file could not be read, or is damaged.
        """
        check_rate(audit)
        everything = plan_scan(self.view(), columns, as_of=as_of)
        plan = everything if filter is None else everything.filtered(filter)
        if not audit:
            return plan.table()
        with ThreadPoolExecutor(1, thread_name_prefix="lookupstore-audit") as pool:
            looking = pool.submit(audit_scan, everything, plan, audit)
            rows = plan.table()
            found = looking.result()
        if found.missed or found.unread:
            warnings.warn(f"{self._location.uri}: {found}", stacklevel=2)
        return rows

    def explain_scan(
        self, filter: Filter, *, as_of: When | None = None, row_groups: bool = False
    ) -> ScanFunnel:
        """Return which files a scan would read, a line per step if printed; none is opened.

        Args:
            filter: as of `scan`.
            as_of: as of `scan`.
            row_groups: whether to open the files that are left, for their footers only, and count
                the row groups that these leave.

        Raises: what `scan` does of these and of the timeline.
        """
        return plan_scan(self.view(), filter=filter, as_of=as_of).explained(row_groups=row_groups)

    def collect_statistics(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> int:
        """Collect statistics of columns, by which scans skip files, and keep them from now on.

        Every write of lookupstore keeps them current then. Files that other programs write have
        none, and are always read, until this is called again.

        Args:
            columns: least and greatest values of which are kept, or the name of one; None: of the
                first 32 columns whose values have an order.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Returns:
            how many files there are statistics of.

        Raises:
            KeyError: a column that the table does not have.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
            CorruptionError: a base file is damaged.
        """
        names = [columns] if isinstance(columns, str) else columns
        collected = collect(self.view(), names)
        with self._locked(wait, metadata, lock) as (view, _):
            start(view, collected, names)
        return int(collected.table.num_rows)

    def scan_batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        as_of: When | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows of the table a few at a time; see `scan`."""
        plan = plan_scan(self.view(), columns, filter, as_of=as_of)
        return pa.RecordBatchReader.from_batches(plan.wanted, plan.batches(threads=True))

    def _reader(self, **scan: Any) -> pa.RecordBatchReader:
        return self.scan_batches(**scan)

    def dataset(self, as_of: When | None = None) -> ds.Dataset:
        """Return the current base files as an Arrow dataset, for engines that read these.

        What these filter by leaves out files as in `scan`, by statistics of columns.
        Columns of older files are cast by Arrow's rules; `scan` follows those of Hudi.

        Args:
            as_of: request time of the last instant that counts; None: the latest.
        """
        return plan_scan(self.view(), as_of=as_of).dataset()

    def incremental(
        self,
        since: When | None = None,
        until: When | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
    ) -> pa.Table:
        """Return the rows that changed after an instant, each in its newest state up to another.

        Deleted rows are not returned, nor those of file groups that were replaced.

        Args:
            since: `position` of the last instant before the range: its completion time, in tables
                of version 6 its request time; None: from the beginning.
            until: position of the last instant that counts; None: the latest.
            columns: as of `scan`.
            filter: as of `scan`.

        Raises:
            KeyError, ValueError, CorruptionError: as of `scan`.
            FormatError: the rows of the table do not say when they changed, or the table is
                merge-on-read: log files have that.
            StaleStoreError: a clean removed a file that was written in the range.
        """
        plan = plan_changes(self.view(), columns, filter, since=since, until=until)
        return plan.table()

    def changes(
        self,
        since: When | None = None,
        until: When | None = None,
        *,
        columns: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
    ) -> pa.RecordBatchReader:
        """Return what became of each row between two instants, with what it was before.

        The first column, `change`, is `insert`, `delete`, or `update_before` and then, in the next
        row, `update_after`. Whoever applies the rows from the first to the last comes from the
        table as of `since` to the table as of `until`. A row is that of a record key in a
        partition; one that has the same values at both ends is not returned.

        Args:
            since: `position` of the last instant before the range: its completion time, in tables
                of version 6 its request time; None: from the beginning: all rows are inserts.
            until: position of the last instant that counts; None: the latest.
            columns: names of the columns after `change`, in this order; None: the data columns.
            ignore: names of columns in which a change does not count.

        Raises:
            KeyError: a column that the table does not have.
            ValueError: a time is none; or a wanted column is called `change`.
            FormatError: the rows of the table do not say when they changed, or the table is
                merge-on-read.
            DuplicateKeyError: a row that changed has the key of another one.
            StaleStoreError: a clean removed what the table as of `since` or `until` had, or its
                commits are archived, or were taken back.
            CorruptionError: the table is damaged.

        >>> import tempfile
        >>> rows = pa.table({"id": [1, 2], "seats": [100, 150]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> first = table.insert(rows).instant
        >>> _ = table.upsert(pa.table({"id": [2, 3], "seats": [160, 70]}))
        >>> for row in table.changes(first.position).read_all().to_pylist():
        ...     print(row)
        {'change': 'update_before', 'id': 2, 'seats': 150}
        {'change': 'update_after', 'id': 2, 'seats': 160}
        {'change': 'insert', 'id': 3, 'seats': 70}
        """
        return plan_row_changes(self.view(), since, until, columns, ignore).reader()

    def upsert(
        self,
        rows: Any,
        *,
        missing: Missing | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Change the rows whose keys are in the table, and insert the others.

        Of rows with one key, the one with the greatest ordering value stays, and takes the place of
        the stored one unless that has a greater value; `docs/hudi-tables.md` says what each version
        and merge mode does. A row whose `_hoodie_is_deleted` is true deletes, if it stays. Of a key
        that inserts brought several times, each stored row is changed.

        Args:
            rows: an Arrow table, record batches, or anything with `__arrow_c_stream__`; columns in
                any order.
            missing: what happens to columns of the table that `rows` lacks, or fields of a struct:
                `keep`: rows of the table keep their values, and new rows get nulls; `null`: all
                rows get nulls. Default: what `options` says, or else `ValueError`.
            options: how it is done: `WriteOptions`, or what a writer in Java would be given: values
                by Hudi's names, `hoodie.*`.
            dry_run: change nothing, and return what would be done: files to rewrite, their bytes,
                new files.

        Raises:
            FormatError: the table cannot be written to; the error names the property.
            TypeError: `rows` gives no rows, or a column is not of the table's type.
            ValueError: a column is new, or missing and `missing` is not given; a row has no key, or
                no ordering value.
            CommitConflictError: another writer committed the same files or keys first: nothing
                was changed, and the write can be retried.
            CommitUnknownError: the write may or may not be committed: look at `timeline()`.
            LockedError: other writers had the lock of the table for too long.
            CorruptionError: the table is damaged.

        >>> import tempfile
        >>> rows = pa.table({"id": [1, 2], "page": ["/a", "/b"], "hits": [7, 8]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> _ = table.insert(rows)
        >>> _ = table.upsert({"id": [2, 3], "hits": [9, 1]}, missing="keep")
        >>> for row in table.scan(columns=["id", "page", "hits"]).to_pylist():
        ...     print(row)
        {'id': 1, 'page': '/a', 'hits': 7}
        {'id': 2, 'page': '/b', 'hits': 9}
        {'id': 3, 'page': None, 'hits': 1}
        """
        return self._written_rows(options, dry_run, UPSERT, rows, Write.upsert, missing)

    def insert(
        self,
        rows: Any,
        *,
        missing: Missing | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Insert rows, without a look at keys unless that is asked for; see `upsert`.

        By default rows whose keys are in the table come to stand beside those that are there, and
        so do rows of one key: `options.duplicates` and `options.combine` say otherwise. Small files
        are filled first.

        Raises:
            ValueError: as of `upsert`, or a row's key is in the table and may not be.
        """
        return self._written_rows(options, dry_run, INSERT, rows, Write.insert, missing)

    def bulk_insert(
        self,
        rows: Any,
        *,
        missing: Missing | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Insert rows as they come, in memory that does not grow with them; see `upsert`.

        Existing and repeated keys are not detected: the caller must know that there are none. Rows
        keep their order, or are sorted as `options.sort_mode` says: sorted by key, they make files
        of which later writes read few.

        Raises:
            KeyError, TypeError: there is no column of `options.sort_by`, or it has no order.
        """
        return self._written_rows(options, dry_run, BULK_INSERT, rows, Write.bulk_insert, missing)

    def delete(
        self,
        keys: Any = None,
        *,
        where: Filter | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Delete the rows with these keys, or those for which a filter is true.

        Ordering values make no difference, and missing keys are ignored.

        Args:
            keys: rows with the columns of the record key, and those of the partition. Without
                partition columns, keys are deleted in every partition. For a key of one column also
                an Arrow array, or a list of values.
            where: which rows, in place of keys: a filter as of `scan`; a row for which it is null
                stays. If another writer changes files that have such rows, after they were looked
                for, that is a `CommitConflictError`: call it again.
            options: how it is done.
            dry_run: change nothing, and return what would be done.

        Raises:
            TypeError, ValueError: `keys` are not keys of the table, `where` is not a filter on its
                columns, or both or neither are given.
            ImportError: `where` is SQL, and what parses it is not installed.
            StaleStoreError: a clean removed files while `where` was looked for; call it again.
            FormatError, CommitConflictError, CommitUnknownError, LockedError, CorruptionError: as
                of `upsert`.

        >>> import tempfile
        >>> rows = pa.table({"id": [1, 2, 3], "page": ["/a", None, "/b"]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> _ = table.insert(rows)
        >>> table.delete(where=pc.field("page") != "/a").rows_deleted
        1
        >>> table.delete([1]).rows_deleted, table.scan(columns=["id"])["id"].to_pylist()
        (1, [2])
        """
        if (keys is None) == (where is None):
            raise ValueError(
                f"delete: {'neither' if keys is None else 'both'} of keys and where; give keys, or "
                "where=FILTER for the rows for which it is true"
            )
        if where is None:
            return self._written_rows(options, dry_run, DELETE, keys, Write.delete)
        delete_matching = partial(_delete_matching, where=where)
        return self._written(options, dry_run, DELETE, delete_matching)

    def insert_overwrite(
        self,
        rows: Any,
        *,
        missing: Missing | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Replace all rows of the partitions that the given rows are in; see `upsert`."""
        overwrite = partial(Write.overwrite, whole_table=False)
        return self._written_rows(options, dry_run, INSERT_OVERWRITE, rows, overwrite, missing)

    def insert_overwrite_table(
        self,
        rows: Any,
        *,
        missing: Missing | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Replace all rows of the table by the given ones; see `upsert`."""
        overwrite = partial(Write.overwrite, whole_table=True)
        return self._written_rows(
            options, dry_run, INSERT_OVERWRITE_TABLE, rows, overwrite, missing
        )

    def delete_partition(
        self,
        partitions: str | Sequence[str],
        *,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Delete all rows of partitions; see `upsert`.

        Args:
            partitions: their paths, as `file_groups()` shows them, or one path.
            options: how it is done.
            dry_run: change nothing, and return what would be done.

        Raises:
            KeyError: the table does not have a partition.
        """
        return self._written(
            options, dry_run, DELETE_PARTITION, lambda write: write.delete_partitions(partitions)
        )

    def cluster(
        self,
        by: str | Sequence[str] = (),
        *,
        curve: Curve | None = None,
        mapping: CurveMapping = "sample",
        target_file_size: int = TARGET_FILE_SIZE,
        small_file_limit: int | None = None,
        incremental: bool = False,
        partitions: str | Sequence[str] | None = None,
        where: Filter | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> ClusterResult:
        """Put rows in order in new files, so that queries on some columns read few of these.

        No row changes: who reads what changed sees none again. Until it is completed, what would
        change rows of the files that it reads is a `CommitConflictError`; inserts go on. It fails
        if somebody else changed these meanwhile.

        Args:
            by: the columns, or the name of one, those first by which most is asked.
            curve: `grid`, `hilbert`, `zorder` or `linear`; as of `LayoutChoice`, as the next three.
                None: `grid`, or `hilbert` if it is incremental or by value.
            mapping: `sample` or `value`.
            target_file_size: bytes of a file, about; also a text such as `"120MiB"`.
            small_file_limit: files of at least so many bytes stay as they are; None: none does.
            incremental: go on with the order of the last incremental clustering by the same choice:
                of each partition, put new files in order, and with them those that overlap too
                much; nothing, as long as queries read little more than they have to. The first one
                puts everything in order. Not by a grid, which is for one number of files.
            partitions: paths of the partitions whose rows are put in order, as `file_groups()`
                shows them, or one path; None: all.
            where: the same by a filter on partition columns, as of `scan`: partitions that it
                leaves out stay as they are.
            options: how it is done: memory, threads, a metadata table and so on; under Hudi's
                names also what is done, if the arguments do not say that.
            dry_run: change nothing, and return what would be done: partitions, files, bytes.

        Raises:
            KeyError: the table does not have a column or a partition.
            TypeError: a column has a type without an order.
            ValueError: an argument is out of range.
            CommitConflictError: another writer changed the same files first, or clusters them:
                nothing was changed.
            FormatError, CommitUnknownError, LockedError, CorruptionError: as of `upsert`.
        """
        arguments: dict[str, Any] = {
            "by": by,
            "curve": curve,
            "mapping": mapping,
            "target_file_size": target_file_size,
            "small_file_limit": small_file_limit,
        }
        chosen = given_options(options, self._options, CLUSTER)
        if options is not None and not isinstance(options, WriteOptions):
            arguments = cluster_arguments(options, arguments)
        if arguments["curve"] is None:
            by_value = arguments["mapping"] == "value"
            arguments["curve"] = "hilbert" if incremental or by_value else "grid"
        choice = LayoutChoice(**arguments)
        if incremental:
            choice.check_incremental()
        partitions = [partitions] if isinstance(partitions, str) else partitions
        view = self.writable(chosen, dry_run=dry_run)
        if where is not None:
            partitions = partitions_of(view, where, partitions)
        with progress_bars(chosen.progress, late=True) as bars:
            return cluster(
                view,
                choice,
                partitions,
                chosen,
                incremental=incremental,
                dry_run=dry_run,
                bars=bars,
            )

    def layout_health(
        self, columns: str | Sequence[str] | None = None, *, by_partition: bool = False
    ) -> LayoutHealth:
        """Return what share of the files queries on columns read, to be expected of their bounds.

        For each column: of queries for one value, for 1 % and for 10 % of the rows, which come
        where rows are. No row is read, and where the table has statistics of the columns
        (`collect_statistics`) no file is opened; files without statistics count as read.

        Args:
            columns: that are asked for, or the name of one; None: those of the last clustering, or
                else those that the table has statistics of, or else the first 32.
            by_partition: whether each partition is looked at alone.

        Raises:
            KeyError: the table does not have a column.
            TypeError: the values of a column have no order.
            CorruptionError: the timeline or a base file is damaged.
            StaleStoreError: a clean removed files while they were read.
        """
        view = self.view()
        names = [columns] if isinstance(columns, str) else columns
        wanted = last_columns(view) or None if names is None else names
        files = [one.current for one in view.groups(None)]
        return layout_health(files, known_bounds(view, files, wanted), by_partition=by_partition)

    def advise_clustering(
        self,
        queries: str | pc.Expression | Sequence[Filter] = (),
        *,
        columns: str | Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
        target_file_sizes: int | str | Sequence[int | str] = ("30MiB", TARGET_FILE_SIZE, "480MiB"),
    ) -> ClusterAdvice:
        """Try orders of a sample of the rows, and return which let queries read least.

        Of the columns that are asked for, up to four together, each curve and each file size. The
        least cost is first: bytes that are read, and 4 MiB for each file that is opened.

        Args:
            queries: filters as of `scan`, as they are asked of the table; or one, as SQL or as an
                expression.
            columns: that may be ordered by, or the name of one; None: those of the queries. Without
                queries, for one value and for 1 % of the rows by each of these.
            weights: how often each query is asked, against the others; None: all alike.
            target_file_sizes: that are tried, or the only one; bytes, or texts such as `"120MiB"`.

        Raises:
            KeyError: the table does not have a column.
            TypeError: the values of a column have no order, or a query is none.
            ValueError: there is neither a query nor a column, a query does not fit the columns, or
                a size is out of range.
            CorruptionError: the timeline or a base file is damaged.
            StaleStoreError: a clean removed files while they were read.
        """
        names = [columns] if isinstance(columns, str) else columns
        asked = [queries] if isinstance(queries, (str, pc.Expression)) else queries
        given = target_file_sizes
        given = [given] if isinstance(given, (int, str)) else given
        if not given:
            raise ValueError("target_file_sizes is empty; give at least one size of files to try")
        sizes = [bytes_of(one, "target_file_sizes", least=1) for one in given]
        return advise(self.view(), asked, names, weights, sizes)

    def layout_picture(self, x: str, y: str) -> LayoutPicture:
        """Return a picture of the files as boxes in two columns, which a notebook shows.

        Args:
            x: column from left to right.
            y: column from bottom to top.

        Raises: what `layout_health` does.
        """
        view = self.view()
        files = [one.current for one in view.groups(None)]
        return layout_picture(files, known_bounds(view, files, [x, y]), x, y)

    def writable(self, options: WriteOptions, *, dry_run: bool = False) -> TableView:
        """Return the table as a write finds it, after rolling back what dead writers left.

        Args:
            options: of the write.
            dry_run: change nothing.

        Raises:
            FormatError: it cannot be written to; the error names the property.
            LockedError: other writers had the lock of the table for too long.
        """
        view = writable_view(self._location, self._commits, options, dry_run=dry_run)
        self._options = view.options
        return view

    def after_write(self, result: WriteResult, options: WriteOptions) -> WriteResult:
        """Cluster, clean and archive, as the options of a write say, and return its result so.

        The write is committed: what fails, whatever it raises, is a warning, and is in the result.

        Args:
            result: of the write; nothing follows one that was only tried.
            options: of it.
        """
        services = options.services
        if result.instant is None:
            return result
        cleans: list[Instant] = []
        archived = Archival()
        errors: list[str] = []
        clustering = None
        if services.cluster_by:
            with self._no_error_of_the_write("cluster", errors):
                clustering = self._cluster_if_due(options)
        with self._no_error_of_the_write("clean", errors):
            if services.clean:
                cleans = self.clean(
                    retain_commits=services.retain_commits,
                    retain_hours=services.retain_hours,
                    retain_versions=services.retain_versions,
                    metadata=options.metadata,
                    lock=options.lock,
                )
        if services.archive:
            with self._no_error_of_the_write("archive", errors):
                archived = self.archive(
                    min_commits=services.min_commits,
                    max_commits=services.max_commits,
                    metadata=options.metadata,
                    lock=options.lock,
                )
        return replace(
            result,
            clustering=None if clustering is None else clustering.time,
            cleans=tuple(one.time for one in cleans),
            archived=len(archived.instants),
            service_errors=tuple(errors),
        )

    def _cluster_if_due(self, options: WriteOptions) -> Instant | None:
        """Put rows in order, if that was not done for long, and nobody is at it."""
        services = options.services
        if not is_due(self.view(), services.cluster_commits):
            return None
        # What the commit of the write is to keep is of the write.
        options = replace(options, extra_metadata={})
        view = self.writable(options)
        incremental = services.cluster_incremental
        with progress_bars(options.progress, late=True) as bars:
            done = cluster(
                view,
                services.layout,
                None,
                options,
                incremental=incremental,
                dry_run=False,
                bars=bars,
            )
        return done.instant

    @contextmanager
    def _no_error_of_the_write(self, service: str, errors: list[str]) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            failed = f"{service}() after the write failed, which is committed: {said(error)}"
            errors.append(failed)
            warn(
                f"{self._location.uri}: {failed}; do not write the rows again: call {service}() "
                "when its cause is gone, or leave it to the next write"
            )

    def _written(
        self,
        given: GivenOptions | None,
        dry_run: bool,
        operation: str,
        work: Callable[[Write], WriteResult],
        rows: KeptRows | None = None,
    ) -> WriteResult:
        """Write, and do what follows; `operation` is Hudi's name."""
        options = given_options(given, self._options, operation)
        with progress_bars(options.progress, late=True) as bars:

            def write(attempt: int) -> WriteResult:
                view = self.writable(options, dry_run=dry_run)
                done = work(Write(view, options, dry_run=dry_run, bars=bars))
                return replace(done, retries=attempt)

            again = options.retries if operation in RETRIED else 0
            result = retried(write, again, rows)
        return self.after_write(result, options)

    def _written_rows(
        self,
        given: GivenOptions | None,
        dry_run: bool,
        operation: str,
        rows: Any,
        work: Callable[[Write, Any], WriteResult],
        missing: Missing | None = None,
    ) -> WriteResult:
        """Write rows, which are read again if another writer was faster; see `_written`."""
        options = with_missing(given_options(given, self._options, operation), missing)
        if not is_read_once(rows):
            return self._written(options, dry_run, operation, lambda write: work(write, rows))
        folder = options.spill_folder or self._location.spill_folder()
        with KeptRows(rows, folder, keep=operation in RETRIED and not dry_run) as kept:
            return self._written(
                options, dry_run, operation, lambda write: work(write, kept), rows=kept
            )

    def tag(self, rows: Any, *, index: str | KeyIndex = "bloom") -> pa.Table:
        """Return rows with the base file and row of their keys.

        Args:
            rows: as an Arrow table, record batch, dict of columns or anything with
                `__arrow_c_stream__`; of a key of one column also an Arrow array or list of its
                values. They have the columns of key and partition, or the meta columns of these.
            index: one of `lookupstore.hudi.index.names.INDEXES`, such as `bloom` or `global-bloom`
                (looks in all partitions), the name of a class `package.module.Class`, or an index
                object: see `lookupstore.hudi.index.interface`.

        Returns:
            the rows and, null where the table does not have the key, the partition path (column
            `_partition`), file id (`_file_id`) and instant (`_instant`) of the base file, and the
            row in it (`_pos`), from 0.

        Raises:
            KeyError: a column of key or partition is missing.
            TypeError: `rows` gives no rows, or a key has a type that keys do not have.
            ValueError: a row has no key, there is no such index, or the rows already have one of
                the four columns.
            DuplicateKeyError: a key is in several rows of a partition.
            CorruptionError: a base file is damaged.
            FormatError: base files have no record keys; or a global index finds a key in two
                partitions.
            StaleStoreError: a clean removed files while they were read.
        """
        return tag_rows(self.view(), rows, index)[0]

    def explain_tag(self, rows: Any, *, index: str | KeyIndex = "bloom") -> Funnel:
        """Tag rows, and return what each step looked at, a line per step if printed; see `tag`."""
        return tag_rows(self.view(), rows, index)[1]

    def rollback(
        self,
        instant: str | Instant | None = None,
        *,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> list[Instant]:
        """Roll back what dead writers left, and one instant if it is named.

        Base files of instants that never completed, and that others rolled back without finding
        these files, are deleted as well.

        Readers see the table as it was before that instant as soon as its completed file is gone.

        Args:
            instant: request time of the last commit, or of a pending instant whose writer is dead;
                for those of other programs only the caller can know that.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Returns:
            the rollbacks, completed.

        Raises:
            ValueError: there is no such instant, or it cannot be rolled back; the error says why.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        instant = None if instant is None else given_instant("instant", instant)
        with self._locked(wait, metadata, lock) as (view, held):
            done = roll_back_pending(view, held)
            delete_never_completed(view)
            left = view.reloaded()
            # One that was named may have been one of those.
            if instant is not None and not view.timeline.has_lost(instant, left.timeline):
                done.append(roll_back_named(left, instant, held))
            return done

    def savepoint(
        self,
        instant: str | Instant | None = None,
        *,
        comment: str = "",
        user: str | None = None,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> Instant:
        """Protect the table as of a commit: no clean removes its files, no rollback undoes it.

        Args:
            instant: request time of the commit; None: the last one.
            comment: why the commit is kept.
            user: who keeps it; None: the user of the process.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Raises:
            ValueError: there is no such commit, it has a savepoint, or its files were cleaned.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        instant = None if instant is None else given_instant("instant", instant)
        user = getpass.getuser() if user is None else user
        with self._locked(wait, metadata, lock) as (view, held):
            now = datetime.now(timezone.utc)
            return make_savepoint(view, instant, held, user=user, comment=comment, now=now)

    def savepoints(self) -> dict[str, SavepointMetadata]:
        """Return what each savepoint keeps, by the request time of its commit."""
        return savepoints(self.view())

    def delete_savepoint(
        self,
        instant: str | Instant,
        *,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> None:
        """Delete the savepoint of a commit.

        Args:
            instant: request time of the commit.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Raises:
            ValueError: the commit has no savepoint.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        instant = given_instant("instant", instant)
        with self._locked(wait, metadata, lock) as (view, held):
            delete_savepoint(view, instant, held)

    def restore(
        self,
        savepoint: str | Instant,
        *,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> list[Instant]:
        """Restore the table to a savepoint: roll back all that was committed after it.

        No other program may write meanwhile, and until it is completed nothing can be written: if
        it was killed, call it again. What is read meanwhile may be neither the old nor the new
        table, except as of the savepoint.

        Args:
            savepoint: request time of the commit that it keeps.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Returns:
            the rollbacks, then the restore, completed; no restore if nothing came after the
            savepoint.

        Raises:
            ValueError: there is no such savepoint, or the table cannot be restored to it; the error
                says why.
            CommitConflictError: another program is, or may be, writing to the table.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        savepoint = given_instant("savepoint", savepoint)
        with self._locked(wait, metadata, lock, restores=True) as (view, held):
            return restore(view, savepoint, held)

    def clean(
        self,
        *,
        retain_commits: int | None = None,
        retain_hours: float | None = None,
        retain_versions: int | None = None,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> list[Instant]:
        """Remove files that no retained commit or savepoint needs.

        Time travel to older commits misses rows afterwards, except to savepoints. What pending
        writes may have read stays, so roll back what dead writers left first.

        Args:
            retain_commits: how many of the last commits stay readable.
            retain_hours: for how many hours back the table stays readable; with `retain_commits`,
                whichever is more.
            retain_versions: how many versions of each file group stay, in place of the others: only
                the table as of the last commit is then readable for sure. Replaced file groups go.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Returns:
            the cleans, completed; none if there was nothing to remove.

        Raises:
            ValueError: none is given, or one is out of range.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        with self._locked(wait, metadata, lock) as (view, held):
            # One that counts would be kept in the place of the slice before it.
            delete_never_completed(view)
            return clean(
                view,
                held,
                retain_commits=retain_commits,
                retain_hours=retain_hours,
                retain_versions=retain_versions,
                now=datetime.now(timezone.utc),
            )

    def archive(
        self,
        *,
        min_commits: int = MIN_COMMITS,
        max_commits: int = MAX_COMMITS,
        metadata: str = REFUSE,
        wait: float = WAIT,
        lock: str = TABLE_LOCK,
    ) -> Archival:
        """Move the oldest commits from the timeline to the archive, if there are many.

        A table is opened, and written to, the sooner the fewer instants its timeline has. What is
        archived cannot be read by time travel and incremental reads any more; no row goes. So none
        goes that a savepoint, the last clean or a pending instant needs, nor one that replaced
        files which are still there, nor one since the last compaction of a metadata table, and no
        later one.

        Args:
            min_commits: how many of the last commits stay; Hudi's `hoodie.keep.min.commits`.
            max_commits: up to how many nothing is done; Hudi's `hoodie.keep.max.commits`.
            metadata: what is done if the table has a metadata table; as of `WriteOptions`.
            wait: how long to wait for the table's lock, in seconds.
            lock: as of `WriteOptions`.

        Returns:
            what was archived, and why not more was.

        Raises:
            ValueError: a number is out of range.
            LockedError: another writer had the lock during the whole wait.
            FormatError: the table is of a kind that is not written.
        """
        with self._locked(wait, metadata, lock) as (view, held):
            return archive(view, held, min_commits=min_commits, max_commits=max_commits)

    def verify(self, *, progress: bool | None = None) -> TableCheck:
        """Read every byte of the current table, and list what is damaged and what is left over.

        Of a merge-on-read table these are the base files and the timeline, without the log files.

        Instants, names, footers, filters, least and greatest keys, rows, repeated keys, statistics
        of commits against files, what a metadata table lists.

        Args:
            progress: show a progress bar; None shows it after a second, on a terminal or in a
                notebook.

        Raises:
            CorruptionError: the properties or the names of the timeline are damaged.
            FormatError: the table is of a kind that is not read.
            OSError: a file could not be read.
        """
        with progress_bars(progress, late=True) as bars:
            return check_table(self.view(), bars)

    @contextmanager
    def _locked(
        self, wait: float, metadata: str, lock: str, *, restores: bool = False
    ) -> Iterator[tuple[TableView, TableLock]]:
        """Hold the lock of the table, and see it as it is then.

        Args:
            wait: for the lock, in seconds.
            metadata: what is done with a metadata table.
            lock: as of `WriteOptions`.
            restores: whether this is what ends a restore.
        """
        check_choice(metadata)
        with table_lock(self._location, wait=wait) as held:
            view = self.view()
            check_writable(view.options, self._location.uri, metadata)
            check_lock(view.options, self._location, lock)
            if not restores:
                check_not_restored(view)
            # Before anything is done that an instant then cannot be made of.
            view.folder.check_clock(view.timeline)
            view = prepared(view, metadata)
            self._options = view.options
            yield view, held


def _delete_matching(write: Write, where: Filter) -> WriteResult:
    rows = plan_matching(write.view, where)
    return write.delete_stored(rows.found(), rows.current)


def _folder_name(location: Location) -> str:
    return location.uri.partition("?")[0].rstrip("/").rpartition("/")[2]
