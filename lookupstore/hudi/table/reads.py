"""Scans, lookups, changes, history and tags of a table."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from lookupstore.filters import Filter
from lookupstore.hudi.index.funnel import Funnel
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.index.row_tags import tag_rows
from lookupstore.hudi.keys.asked_key import asked_key, key_columns
from lookupstore.hudi.read.audit import audit as audit_scan
from lookupstore.hudi.read.audit import check_rate
from lookupstore.hudi.read.changes import plan_row_changes
from lookupstore.hudi.read.scan_funnel import ScanFunnel
from lookupstore.hudi.read.scan_plan import check_limit, plan_changes, plan_scan
from lookupstore.hudi.read.table_history import table_history
from lookupstore.hudi.read.table_lookup import TableLookup, lookups_in
from lookupstore.hudi.table.advice import CHANGES, READ
from lookupstore.hudi.table.handle import TableHandle
from lookupstore.hudi.timeline.given_times import When
from lookupstore.keys.arguments import keys_in_list
from lookupstore.keywords import with_advice


class ReadVerbs(TableHandle):
    """Methods that read the rows of a table, and its history."""

    def history(self, limit: int | None = None) -> pa.Table:
        """Return the history of the table as a row for each instant, the newest first.

        Pending instants come first. Pass `instant` as `as_of`, and `completed` (in tables of
        version 6 `instant`) as `since`. Commits have numbers of rows, files, bytes and partitions,
        and the name of their writer, if they record it.

        Args:
            limit: Maximum number of rows. None: all rows, including those of the archive.

        Raises:
            ValueError: If `limit` is below 0.
            CorruptionError: If a commit or the archive is damaged.
            StaleStoreError: If an instant was archived or rolled back during the call.

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

    @with_advice(READ.get)
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

        Columns have the types of the latest commit, also in older rows.

        Args:
            columns: Names of the columns to read, in this order, or one name. None: the meta
                columns, then the data columns.
            filter: Condition on the rows to return: SQL such as `"a >= 3 and b is null"`; an
                expression of `pyarrow.compute`; a tuple such as `("a", ">=", 3)`; a list of these,
                all of which must hold; or a list of such lists, one of which must hold. The scan
                skips files whose partition cannot match and, if the table has column statistics
                (`collect_statistics`), files whose statistics rule out a match. None: all rows.
            as_of: Request time of the last instant to read, in the time zone of the table's
                instants. None: the latest.
            limit: Maximum number of rows; the first by partition path and file. None: all rows.
            audit: Number n: in the background, the scan reads one in n of the skipped files
                completely. If a skipped file has matching rows, a warning says so, and the
                statistics of that file are never used again. 0: no such check.
            skipping: Whether statistics of columns may leave out files. False reads every file of
                the partitions that match `filter`, as if the table had no statistics.

        Raises:
            KeyError: If the table does not have a column.
            ValueError: If `as_of` is not a time or before the first commit, `filter` does not fit
                the columns, or `limit` is below 0.
            TypeError: If `filter` is not a filter, or `limit` is not a whole number.
            ImportError: If `filter` is SQL, and sqlglot is not installed.
            CorruptionError: If the timeline or a base file is damaged.
            FormatError: If tables of this kind, or a type in the table, cannot be read.
            StaleStoreError: If a clean deleted files that the scan reads, or commits up to `as_of`
                were archived.
            OSError: If a remote file cannot be read, or is damaged.
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
        """Return the number of files that each step of a scan would leave to read.

        Args:
            filter: Condition on the rows: SQL, an expression of `pyarrow.compute`, a tuple, or a
                list of these; see `scan`.
            as_of: Request time of the last instant to read. None: the latest.
            row_groups: Whether to read the footers of the remaining files, and count the row groups
                that match. False: no file is opened.
            skipping: Whether statistics of columns may leave out files.

        Raises: The errors of `scan` about these arguments and about the timeline.
        """
        plan = plan_scan(self.view(), filter=filter, as_of=as_of, skipping=skipping)
        return plan.explained(row_groups=row_groups)

    @with_advice(READ.get)
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

    @with_advice(READ.get)
    def head(self, n: int = 5, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the first rows by partition path and file, reading few files.

        Args:
            n: Maximum number of rows.
            columns: Names of columns, in this order, or one name. None: the data columns.

        Raises: The same errors as `scan`.

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
        """Return the number of rows, from the footers of all files without log files."""
        return plan_scan(self.view()).num_rows()

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
        where: Filter | None = None,
    ) -> pa.Table:
        """Look up many keys: row i of the answer belongs to key i, with nulls if missing.

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
            where: Condition that rows must meet to be found, in any form that `scan` takes. Columns
                are those of the data. None: all rows.

        Raises:
            TypeError: If keys have a wrong type or form, a key column has neither strings nor
                integers, or `where` is not a filter.
            KeyError: If the table or `keys` lack a column.
            ValueError: If a column has the name that `found` gives, `as_of` is not a time, or
                `where` does not fit the columns.
            ImportError: If `where` is SQL, and sqlglot is not installed.
            DuplicateKeyError: If several rows of a partition have the same key.
            FormatError: If base files have no record keys, or several partitions have the key; then
                also give the partition columns.
            CorruptionError: If the table is damaged.
            StaleStoreError: If a clean deleted files while they were read.
            DiskQuotaError: If lookup files need more disk than the quota of the host.

        >>> import tempfile
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1, 2, 3], "seats": [100, 150, 70]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> _ = table.insert(rows)
        >>> table.lookup([3, 9, 1])["seats"].to_pylist()
        [70, None, 100]
        >>> table.lookup([3, 9, 1], where="seats > 90")["seats"].to_pylist()
        [None, None, 100]
        """
        keys = keys_in_list(keys)
        lookup = self._lookup_of(asked_key(keys, self._options), columns, as_of, where)
        return lookup.lookup(keys, columns, found=found)

    def contains(
        self, keys: Any, *, as_of: When | None = None, where: Filter | None = None
    ) -> pa.BooleanArray:
        """Return whether the table has each of many keys, as Arrow booleans without nulls.

        Args:
            keys: Keys, in any form that `lookup` takes.
            as_of: Request time of the last instant to read. None: the latest.
            where: Condition that rows must meet to be found; see `lookup`. None: all rows.

        Raises: The same errors as `lookup`.
        """
        keys = keys_in_list(keys)
        return self._lookup_of(asked_key(keys, self._options), (), as_of, where).contains(keys)

    def get(
        self,
        key: Any,
        default: Any = None,
        columns: Sequence[str] | None = None,
        *,
        as_of: When | None = None,
        where: Filter | None = None,
    ) -> Any:
        """Return the row of one key as a dict without the key columns, or a default.

        Args:
            key: Value of the record key; or a tuple of the record key's values, which the values of
                the partition columns may follow; or a dict of these values by name.
            default: Value to return if the key is missing.
            columns: Names of data columns, in this order, or one name. None: all that are not in
                the key.
            as_of: Request time of the last instant to read. None: the latest.
            where: Condition that the row must meet to be found; see `lookup`. None: any row.

        Raises: The same errors as `lookup`.

        >>> import tempfile
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1, 2, 3], "seats": [100, 150, 70]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> _ = table.insert(rows)
        >>> table.get(2), table.get(9), 9 in table, len(table)
        ({'seats': 150}, None, False, 3)
        """
        lookup = self._lookup_of(key_columns(key, self._options), columns, as_of, where)
        return lookup.get(key, default, columns)

    def __getitem__(self, key: Any) -> dict[str, Any]:
        """Return the row of one key as a dict, without the columns of the key.

        Raises:
            KeyError: If the key is missing.
        """
        return self._lookup_of(key_columns(key, self._options), None, None)[key]

    def __contains__(self, key: Any) -> bool:
        """Return whether the table has one key."""
        return key in self._lookup_of(key_columns(key, self._options), (), None)

    def _lookup_of(
        self,
        key: Sequence[str],
        columns: Sequence[str] | None,
        as_of: When | None,
        where: Filter | None = None,
    ) -> TableLookup:
        """Return a cached or new `TableLookup`; a new instant empties the cache."""
        view = self.view()
        names = (columns,) if isinstance(columns, str) else columns
        if where is not None:  # equal conditions may have many forms
            return lookups_in(view, key, names, as_of, where)
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
        """Return the current base files as an Arrow dataset, for other query engines.

        Filters of these engines skip files by partition and by statistics of columns, as `scan`
        does. Columns of older files are cast by Arrow's rules; `scan` follows Hudi's rules. Tables
        with log files are refused.

        Args:
            as_of: Request time of the last instant to read. None: the latest.
            skipping: Whether statistics of columns may leave out files.
        """
        return plan_scan(self.view(), as_of=as_of, skipping=skipping).dataset()

    @with_advice(READ.get)
    def incremental(
        self,
        since: When | None = None,
        until: When | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,
    ) -> pa.Table:
        """Return the rows that changed between two instants, each in its newest state.

        Deleted rows and rows of replaced file groups are not returned.

        Args:
            since: `position` of the last instant before the range: its completion time, or in
                tables of version 6 its request time. The request time of a commit stands for its
                position. None: the beginning of the table.
            until: `position` of the last instant of the range. None: the latest.
            columns: Names of the columns to read, in this order, or one name. None: the meta
                columns, then the data columns.
            filter: Condition on the rows: SQL, an expression of `pyarrow.compute`, a tuple, or a
                list of these; see `scan`. None: all changed rows.

        Raises:
            KeyError, ValueError, CorruptionError: See `scan`.
            FormatError: If the rows of the table do not record when they changed, or the table is
                merge-on-read, whose log files contain the changes.
            StaleStoreError: If a clean deleted a file that was written in the range.
        """
        plan = plan_changes(self.view(), columns, filter, since=since, until=until)
        return plan.table()

    @with_advice(CHANGES.get)
    def changes(
        self,
        since: When | None = None,
        until: When | None = None,
        *,
        columns: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
    ) -> pa.RecordBatchReader:
        """Return the changes of each row between two instants, with the old values.

        The first column, `change`, is `insert`, `delete`, or `update_before` followed by
        `update_after` in the next row. If you apply the rows in order to the table as of `since`,
        you get the table as of `until`. A row is identified by its record key and partition; rows
        with the same values at both ends are not returned.

        Args:
            since: `position` of the last instant before the range: its completion time, or in
                tables of version 6 its request time. The request time of a commit stands for its
                position. None: the beginning of the table; all rows are
                inserts.
            until: `position` of the last instant of the range. None: the latest.
            columns: Names of the columns after `change`, in this order. None: the data columns.
            ignore: Names of columns whose changes are ignored.

        Raises:
            KeyError: If the table does not have a column.
            ValueError: If `since` or `until` is not a valid time, or a requested column is named
                `change`.
            FormatError: If the rows of the table do not record when they changed, or the table is
                merge-on-read.
            DuplicateKeyError: If a changed row has the same key as another row.
            StaleStoreError: If a clean deleted files of the table as of `since` or `until`, or
                these commits were archived or rolled back.
            CorruptionError: If the table is damaged.

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
        """Find the base file and row of each key, and return them next to the rows.

        Args:
            rows: Rows with the columns of the key and the partition, or their meta columns: an
                Arrow table, a record batch, a dict of columns, or an object with
                `__arrow_c_stream__`. Also keys in any form that `lookup` takes.
            index: Name of an index in `lookupstore.hudi.index.names.INDEXES`, such as `bloom` or
                `global-bloom` (which looks in all partitions); the name of a class,
                `package.module.Class`; or an index object, see `lookupstore.hudi.index.interface`.

        Returns:
            The rows, and for each key the partition path (column `_partition`), the file id
            (`_file_id`) and the instant (`_instant`) of its base file, and its row number in that
            file (`_pos`), from 0. These four columns are null for keys that the table does not
            have.

        Raises:
            KeyError: If a column of the key or the partition is missing.
            TypeError: If `rows` has a form other than those above, or a key has an unsupported
                type.
            ValueError: If a row has no key, the index does not exist, or `rows` already has one of
                the four columns.
            DuplicateKeyError: If a key is in several rows of a partition.
            CorruptionError: If a base file is damaged.
            FormatError: If base files have no record keys, or a global index finds a key in two
                partitions.
            StaleStoreError: If a clean deleted files while they were read.
        """
        return tag_rows(self.view(), rows, index)[0]

    def explain_tag(self, rows: Any, *, index: str | KeyIndex = "bloom") -> Funnel:
        """Tag rows, and return how many keys and files each step looked at; see `tag`."""
        return tag_rows(self.view(), rows, index)[1]
