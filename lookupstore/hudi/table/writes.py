"""Writes of a table, one commit per call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow.compute as pc

from lookupstore.filters import Aliases, Filter
from lookupstore.hudi.meta_columns import RECORD_KEY
from lookupstore.hudi.read.matching import plan_matching
from lookupstore.hudi.table.advice import merge_advice, partition_advice, where_advice
from lookupstore.hudi.table.merging import TableMerge
from lookupstore.hudi.table.services import ServiceVerbs
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.assignments import Assigned, fixed_columns, planned_assignments
from lookupstore.hudi.write.hoodie.meaning import GivenOptions, given_options
from lookupstore.hudi.write.merge_plan import GivenMerge
from lookupstore.hudi.write.options import (
    Missing,
    naming_spill_folder,
    option_advice,
    with_missing,
)
from lookupstore.hudi.write.plan import (
    BULK_INSERT,
    DELETE,
    DELETE_PARTITION,
    INSERT,
    INSERT_OVERWRITE,
    INSERT_OVERWRITE_TABLE,
    UPSERT,
)
from lookupstore.hudi.write.result import WriteResult
from lookupstore.hudi.write.retries import RETRIED, retried_on
from lookupstore.hudi.write.rows.stored import StoredRows
from lookupstore.hudi.write.write import Write
from lookupstore.keywords import with_advice
from lookupstore.progress import progress_bars
from lookupstore.source.argument_names import as_argument
from lookupstore.source.kept import KeptRows, is_read_once
from lookupstore.source.source import Source

_advised = with_advice(option_advice)


class WriteVerbs(ServiceVerbs):
    """Methods that change rows of a table, one commit per call."""

    @_advised
    def upsert(
        self,
        rows: Any,
        *,
        missing: Missing | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Update the rows whose keys are in the table, and insert the others.

        If several given rows have the same key, the one with the greatest ordering value wins. It
        replaces the stored row, unless the stored row has a greater ordering value. For the rules
        of each version and merge mode, see `docs/how-to/hudi-write.md`. If `_hoodie_is_deleted` of
        the winning row is true, the stored row is deleted. If inserts stored a key several times,
        each stored row is changed.

        Args:
            rows: Rows to write: an Arrow table, record batches, an object with
                `__arrow_c_stream__`, a pandas DataFrame, a dict of columns or a list of dicts;
                columns in any order. Values are cast to the types of the table if the cast changes
                no value.
            missing: Values for columns of the table, or fields of a struct, that `rows` lacks.
                `keep`: updated rows keep their stored values, and new rows get nulls; `null`: all
                rows get nulls. Default: the choice in `options`, or else such rows raise
                `ValueError`.
            options: Options of the write: `WriteOptions`, or a dict of options by Hudi's names,
                `hoodie.*`.
            dry_run: Whether to change nothing, and only return what the upsert would do: files to
                rewrite, their bytes, new files.

        Raises:
            FormatError: If the table cannot be written; the error names the property.
            TypeError: If `rows` has a form other than those above, or the type of a column does not
                fit the table's.
            ValueError: If a value cannot be cast to the table's type; if a column is new and
                `options.evolve` is false; if a column is missing and `missing` is not given; or if
                a row has no key or no ordering value.
            CommitConflictError: If other writers committed the same files or keys first on every
                retry; nothing was changed.
            CommitUnknownError: If it is unknown whether the commit succeeded; see `timeline()`.
            LockedError: If other writers held the lock of the table for too long.
            CorruptionError: If the table is damaged.

        >>> import tempfile
        >>> import pyarrow as pa
        >>> from lookupstore.hudi import HudiTable
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

    @_advised
    def insert(
        self,
        rows: Any,
        *,
        missing: Missing | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Insert rows, by default without looking up their keys; see `upsert`.

        By default, rows are added even if their keys are in the table or repeated. Change this with
        `options.duplicates` and `options.combine`. Small files are filled first.

        Raises:
            ValueError: If `upsert` would raise it, or the table has the key of a row and
                `options.duplicates` is `fail`.
        """
        return self._written_rows(options, dry_run, INSERT, rows, Write.insert, missing)

    @_advised
    def bulk_insert(
        self,
        rows: Any,
        *,
        missing: Missing | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Insert any number of rows in limited memory; see `upsert`.

        Existing and repeated keys are not detected: give rows that have neither. Rows keep their
        order, or are sorted by `options.sort_mode`. If you sort them by key, later writes read
        fewer files.

        Raises:
            KeyError, TypeError: If a column of `options.sort_by` does not exist, or has no order.
        """
        return self._written_rows(options, dry_run, BULK_INSERT, rows, Write.bulk_insert, missing)

    @with_advice(where_advice)
    def delete(
        self,
        keys: Any = None,
        *,
        where: Filter | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Delete the rows with the given keys, or those for which a filter is true.

        Ordering values and missing keys are ignored.

        Args:
            keys: Keys to delete, in any form that `lookup` takes, or rows with the columns of the
                record key and the partition. Without the partition, keys are deleted in every
                partition.
            where: Condition on the rows to delete, instead of keys: SQL, an Arrow expression, or a
                tuple or list of tuples; see `scan`. Rows for which it is null are not deleted.
            options: Options of the write: `WriteOptions`, or a dict of options by Hudi's names.
            dry_run: Whether to change nothing, and only return what the delete would do.

        Raises:
            TypeError, ValueError: If `keys` are not keys of the table, `where` is not a filter on
                its columns, or both or neither are given.
            ImportError: If `where` is SQL, and sqlglot is not installed.
            StaleStoreError: If a clean deleted files during the search for `where`; call `delete`
                again.
            FormatError, CommitConflictError, CommitUnknownError, LockedError, CorruptionError: See
                `upsert`.

        >>> import tempfile
        >>> import pyarrow as pa
        >>> from lookupstore.hudi import HudiTable
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

    @with_advice(where_advice)
    def update(
        self,
        set: Assigned,
        *,
        where: Filter | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Set columns of the rows that meet a condition.

        Other columns keep their stored values. Ordering values are ignored. Columns of the record
        key and the partition cannot be set.

        Args:
            set: Value of each column to set, by column name. A text is SQL: `"hits + 1"`, or
                `"'done'"` for a text value. Arrow expressions and values of Python or Arrow are
                allowed, too.
            where: Condition: SQL, an Arrow expression, or a tuple or list of tuples; see `scan`.
                Rows for which it is null are not updated. None: every row.
            options: Options of the write: `WriteOptions`, or a dict of options by Hudi's names.
            dry_run: Whether to change nothing, and only return what the update would do.

        Raises:
            KeyError: If the table does not have a column.
            TypeError: If the type of a value does not fit its column, or `where` is not a filter.
            ValueError: If `set` is empty or names a column of the key, if SQL cannot be parsed, or
                if a computed value does not fit its column; then the error names the row's key.
            ImportError: If SQL is given, and sqlglot is not installed.
            FormatError: If the table cannot be written; the error names the property.
            CommitConflictError: If other writers committed the same files first on every retry.
            CommitUnknownError: If it is unknown whether the commit succeeded.
            LockedError: If other writers held the lock of the table for too long.
            CorruptionError: If the table is damaged.

        >>> import tempfile
        >>> import pyarrow as pa
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1, 2, 3], "page": ["/a", None, "/b"], "hits": [7, 8, 9]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> _ = table.insert(rows)
        >>> table.update({"hits": "hits + 1", "page": "'none'"}, where="page is null").rows_updated
        1
        >>> table.get(2)
        {'page': 'none', 'hits': 9}
        """
        update_matching = partial(_update_matching, sets=set, where=where)
        return self._written(options, dry_run, UPSERT, update_matching)

    @with_advice(merge_advice)
    def merge(self, rows: Any, on: str | Sequence[str] | None = None) -> TableMerge:
        """Begin a merge of rows into the table, to which the returned object adds clauses.

        Nothing changes before `TableMerge.execute`, which makes one commit.

        Args:
            rows: Rows in any form that `upsert` takes, with each key once. They are read by
                `execute`, and kept in memory. Conditions and values can use columns that the table
                does not have.
            on: Columns that rows are matched by: those of the record key, or these and the
                partition columns. None: the record key, and the partition columns if the rows have
                them.

        Raises:
            ValueError: If `on` names other columns.

        >>> import tempfile
        >>> import pyarrow as pa
        >>> from lookupstore.hudi import HudiTable
        >>> rows = pa.table({"id": [1, 2, 3], "hits": [7, 8, 9]})
        >>> table = HudiTable.create(tempfile.mkdtemp(), rows, record_key="id")
        >>> _ = table.insert(rows)
        >>> news = {"id": [2, 3, 4], "hits": [1, 0, 5]}
        >>> done = (
        ...     table.merge(news)
        ...     .when_matched_delete(where="source.hits = 0")
        ...     .when_matched_update({"hits": "target.hits + source.hits"})
        ...     .when_not_matched_insert()
        ...     .execute()
        ... )
        >>> done.rows_updated, done.rows_deleted, done.rows_inserted
        (1, 1, 1)
        >>> table.scan(columns=["id", "hits"]).to_pydict()
        {'id': [1, 2, 4], 'hits': [7, 9, 5]}
        """
        return TableMerge(partial(self._merged, rows, self.merge_keys(on)))

    def merge_keys(self, on: str | Sequence[str] | None) -> Sequence[str] | None:
        """Check the columns by which a merge matches rows; see `merge`."""
        names = [on] if isinstance(on, str) else on
        keys = [*self._options.record_key]
        both = list(dict.fromkeys([*keys, *self._options.partition_by]))
        if names is not None and sorted(names) not in (sorted(keys), sorted(both)):
            more = "" if both == keys else f", or {both}"
            raise ValueError(
                f"on is {list(names)}; rows are matched by key: give {keys}{more}, or leave on out"
            )
        return names

    def _merged(
        self,
        rows: Any,
        on: Sequence[str] | None,
        clauses: GivenMerge,
        options: GivenOptions | None,
        dry_run: bool,
    ) -> WriteResult:
        def merge(write: Write, given: Any) -> WriteResult:
            return write.merge(given, clauses, on, _rows_where)

        return self._written_rows(options, dry_run, UPSERT, rows, merge)

    @_advised
    def insert_overwrite(
        self,
        rows: Any,
        *,
        missing: Missing | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Replace all rows of the partitions of the given rows; see `upsert`."""
        overwrite = partial(Write.overwrite, whole_table=False)
        return self._written_rows(options, dry_run, INSERT_OVERWRITE, rows, overwrite, missing)

    @_advised
    def insert_overwrite_table(
        self,
        rows: Any,
        *,
        missing: Missing | None = None,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Replace all rows of the table by the given rows; see `upsert`."""
        overwrite = partial(Write.overwrite, whole_table=True)
        return self._written_rows(
            options, dry_run, INSERT_OVERWRITE_TABLE, rows, overwrite, missing
        )

    @with_advice(partition_advice)
    def delete_partition(
        self,
        partitions: str | Sequence[str],
        *,
        options: GivenOptions | None = None,
        dry_run: bool = False,
    ) -> WriteResult:
        """Delete all rows of partitions; see `upsert`.

        Args:
            partitions: Paths of the partitions to delete, as `partitions()` lists them, or one
                path.
            options: Options of the write: `WriteOptions`, or a dict of options by Hudi's names.
            dry_run: Whether to change nothing, and only return what the delete would do.

        Raises:
            KeyError: If the table does not have a partition.
        """
        return self._written(
            options, dry_run, DELETE_PARTITION, lambda write: write.delete_partitions(partitions)
        )

    def _written(
        self,
        given: GivenOptions | None,
        dry_run: bool,
        operation: str,
        work: Callable[[Write], WriteResult],
        rows: KeptRows | None = None,
    ) -> WriteResult:
        """Run a write and the services that follow it; `operation` is Hudi's name."""
        options = given_options(given, self._options, operation)
        with progress_bars(options.progress, late=True) as bars:

            def write(view: TableView, attempt: int) -> WriteResult:
                done = work(Write(view, options, dry_run=dry_run, bars=bars))
                return replace(done, retries=attempt)

            again = options.retries if operation in RETRIED else 0
            current = partial(self.writable, options, dry_run=dry_run)
            result = retried_on(current, write, again, rows)
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
        """Run a write of rows, which a retry reads again; see `_written`."""
        options = with_missing(given_options(given, self._options, operation), missing)
        # The command line opens its sources, and calls them so.
        name = "source" if isinstance(rows, Source) else "keys" if operation == DELETE else "rows"
        with as_argument(name), naming_spill_folder(options):
            if not is_read_once(rows):
                return self._written(options, dry_run, operation, lambda write: work(write, rows))
            folder = options.spill_folder or self._location.spill_folder()
            with KeptRows(rows, folder, keep=operation in RETRIED and not dry_run) as kept:
                return self._written(
                    options, dry_run, operation, lambda write: work(write, kept), rows=kept
                )


def _delete_matching(write: Write, where: Filter) -> WriteResult:
    rows = plan_matching(write.view, where)
    return write.delete_stored(rows.found(), rows.current)


def _update_matching(write: Write, sets: Assigned, where: Filter | None) -> WriteResult:
    view = write.view
    columns = view.table_schema.columns
    aliases = Aliases(columns, {"target": {name: name for name in columns.names}})
    planned = planned_assignments(sets, columns, fixed_columns(view.options), aliases, "set")
    rows = plan_matching(view, pc.field(RECORD_KEY).is_valid() if where is None else where)
    return write.update(rows.found(), rows.current, planned)


def _rows_where(view: TableView, where: pc.Expression) -> Iterator[StoredRows]:
    return plan_matching(view, where).found()
