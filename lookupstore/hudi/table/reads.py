"""``ReadVerbs``: scans, changes, history and tags of a table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from lookupstore.hudi.index.funnel import Funnel
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.index.row_tags import tag_rows
from lookupstore.hudi.layout import Filter
from lookupstore.hudi.read.asked_key import asked_key, key_columns, keys_in_list
from lookupstore.hudi.read.audit import audit as audit_scan
from lookupstore.hudi.read.audit import check_rate
from lookupstore.hudi.read.changes import plan_row_changes
from lookupstore.hudi.read.scan_funnel import ScanFunnel
from lookupstore.hudi.read.scan_plan import check_limit, plan_changes, plan_scan
from lookupstore.hudi.read.table_history import table_history
from lookupstore.hudi.read.table_lookup import TableLookup, lookups_in
from lookupstore.hudi.table.handle import TableHandle
from lookupstore.hudi.timeline.timeline import When


class ReadVerbs(TableHandle):
    """What reads rows of a table, and what happened to them."""

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
        >>> from lookupstore.hudi import HudiTable
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

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        as_of: When | None = None,
        limit: int | None = None,
        audit: int = 0,
        skipping: bool = True,
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
            limit: Maximum number of rows; the first by partition path and file. None: all rows.
            audit: n: one in n of the files that were not opened is read in the background, with
                all of its rows; if some of these are missing, a warning says so, and the
                statistics of the file are never used again. 0: none is.
            skipping: Whether statistics of columns may leave out files. False reads every file of
                the partitions that `filter` leaves, as if the table had no statistics.

        Raises:
            KeyError: a column that the table does not have.
            ValueError: `as_of` is not the time of an instant, `filter` does not fit the columns, or
                `limit` is below 0.
            TypeError: `filter` is not a filter, or `limit` not a whole number.
            ImportError: `filter` is SQL, and what parses it is not installed.
            CorruptionError: the timeline or a base file is damaged.
            FormatError: the table, or a type in it, is of a kind that is not read.
            StaleStoreError: a clean removed files while they were read.
            OSError: a remote file could not be read, or is damaged.
        """
        check_rate(audit)
        check_limit(limit)
        everything = plan_scan(self.view(), columns, as_of=as_of, skipping=skipping)
        plan = everything if filter is None else everything.filtered(filter)
        if not audit:
            return plan.table(limit)
        with ThreadPoolExecutor(1, thread_name_prefix="lookupstore-audit") as pool:
            looking = pool.submit(audit_scan, everything, plan, audit)
            rows = plan.table(limit)
            found = looking.result()
        if found.missed or found.unread:
            warnings.warn(f"{self._location.uri}: {found}", stacklevel=2)
        return rows

    def explain_scan(
        self,
        filter: Filter,
        *,
        as_of: When | None = None,
        row_groups: bool = False,
        skipping: bool = True,
    ) -> ScanFunnel:
        """Return which files a scan would read, a line per step if printed; none is opened.

        Args:
            filter: as of `scan`.
            as_of: as of `scan`.
            row_groups: whether to open the files that are left, for their footers only, and count
                the row groups that these leave.
            skipping: as of `scan`.

        Raises: what `scan` does of these and of the timeline.
        """
        plan = plan_scan(self.view(), filter=filter, as_of=as_of, skipping=skipping)
        return plan.explained(row_groups=row_groups)

    def scan_batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
        as_of: When | None = None,
        limit: int | None = None,
        skipping: bool = True,
    ) -> pa.RecordBatchReader:
        """Return the rows of the table a few at a time; see `scan`."""
        check_limit(limit)
        plan = plan_scan(self.view(), columns, filter, as_of=as_of, skipping=skipping)
        batches = plan.batches(threads=True) if limit is None else plan.first(limit)
        return pa.RecordBatchReader.from_batches(plan.wanted, batches)

    def head(self, n: int = 5, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the first rows by partition path and file, reading as few files as possible.

        Args:
            n: Maximum number of rows.
            columns: Names of columns, in this order, or one name. None: the data columns.

        Raises: what `scan` does.

        >>> import tempfile
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1, 2, 3], "seats": [100, 150, 70]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> _ = table.insert(rows)
        >>> table.head(2).to_pylist()
        [{'id': 1, 'seats': 100}, {'id': 2, 'seats': 150}]
        """
        check_limit(n)
        view = self.view()
        names = view.table_schema.columns.names if columns is None else columns
        return plan_scan(view, names).table(n)

    def __len__(self) -> int:
        """Return the number of rows, from the footers of all files."""
        return plan_scan(self.view()).base_files.num_rows()

    def __bool__(self) -> bool:
        """Return True, also for an empty table, without reading a file."""
        return True

    # Without this, `for row in table` would look up the keys 0, 1, 2 and so on.
    __iter__ = None

    def lookup(
        self,
        keys: Any,
        columns: Sequence[str] | None = None,
        *,
        found: bool | str = False,
        as_of: When | None = None,
    ) -> pa.Table:
        """Look up many keys: row i of the answer is that of key i, or nulls if it is missing.

        Each call reads the newest commit. To look up keys in one state of the table many times,
        make a `TableLookup(table)` once.

        Args:
            keys: Values of the record key's columns, or of these and then the partition columns:
                a list of values or tuples, an Arrow array, a table, or another form that
                `LookupStore.lookup` takes. With partition columns, a key is looked up in its
                partition only. Without them, it is looked up in all partitions.
            columns: Names of data columns, in this order, or one name. None: all that are not in
                the key.
            found: Whether to append a boolean column `found`, or the name for it. It tells missing
                keys from stored nulls.
            as_of: Request time of the last instant to read. None: the latest.

        Raises:
            TypeError: if keys have a wrong type or form, or a key column has neither strings nor
                integers.
            KeyError: if the table or `keys` lack a column.
            ValueError: if a column has the name that `found` gives, or `as_of` is not the time of
                an instant.
            DuplicateKeyError: if several rows of a partition have the same key.
            FormatError: if base files have no record keys, or several partitions have the key; then
                also give the partition columns.
            CorruptionError: if the table is damaged.
            StaleStoreError: if a clean deleted files while they were read.
            DiskQuotaError: if lookup files need more disk than the quota of the host.

        >>> import tempfile
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1, 2, 3], "seats": [100, 150, 70]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> _ = table.insert(rows)
        >>> table.lookup([3, 9, 1])["seats"].to_pylist()
        [70, None, 100]
        """
        keys = keys_in_list(keys)
        lookup = self._lookup_of(asked_key(keys, self._options), columns, as_of)
        return lookup.lookup(keys, columns, found=found)

    def contains(self, keys: Any) -> pa.BooleanArray:
        """Return whether the table has each of many keys, as Arrow booleans without nulls.

        Args:
            keys: Keys, in any form that `lookup` takes.

        Raises: what `lookup` does.
        """
        keys = keys_in_list(keys)
        return self._lookup_of(asked_key(keys, self._options), (), None).contains(keys)

    def get(self, key: Any, default: Any = None, columns: Sequence[str] | None = None) -> Any:
        """Return the row of one key as a dict, without the columns of the key, or a default.

        Args:
            key: Value of the record key; or a tuple of the record key's values, which the values of
                the partition columns may follow; or a dict of these values by name.
            default: Value to return if the key is missing.
            columns: Names of data columns, in this order, or one name. None: all that are not in
                the key.

        Raises: what `lookup` does.

        >>> import tempfile
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1, 2, 3], "seats": [100, 150, 70]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> _ = table.insert(rows)
        >>> table.get(2), table.get(9), 9 in table, len(table)
        ({'seats': 150}, None, False, 3)
        """
        lookup = self._lookup_of(key_columns(key, self._options), columns, None)
        return lookup.get(key, default, columns)

    def __getitem__(self, key: Any) -> dict[str, Any]:
        """Return the row of one key as a dict, without the columns of the key.

        Raises:
            KeyError: if the key is missing.
        """
        return self._lookup_of(key_columns(key, self._options), None, None)[key]

    def __contains__(self, key: Any) -> bool:
        """Return whether the table has one key."""
        return key in self._lookup_of(key_columns(key, self._options), (), None)

    def _lookup_of(
        self, key: Sequence[str], columns: Sequence[str] | None, as_of: When | None
    ) -> TableLookup:
        """Return a cached or new `TableLookup`; a new instant empties the cache."""
        view = self.view()
        names = (columns,) if isinstance(columns, str) else columns
        asked = tuple(key), None if names is None else tuple(names), as_of
        timeline, lookups = self._lookups
        if timeline != view.timeline:
            lookups = {}
            self._lookups = view.timeline, lookups
        lookup = lookups.get(asked)
        if lookup is None:
            lookup = lookups[asked] = lookups_in(view, key, names, as_of)
        return lookup

    def _reader(self, **scan: Any) -> pa.RecordBatchReader:
        return self.scan_batches(**scan)

    def dataset(self, as_of: When | None = None, *, skipping: bool = True) -> ds.Dataset:
        """Return the current base files as an Arrow dataset, for engines that read these.

        What these filter by leaves out files as in `scan`, by statistics of columns.
        Columns of older files are cast by Arrow's rules; `scan` follows those of Hudi.

        Args:
            as_of: request time of the last instant that counts; None: the latest.
            skipping: as of `scan`.
        """
        return plan_scan(self.view(), as_of=as_of, skipping=skipping).dataset()

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
        >>> from lookupstore.hudi import HudiTable
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
