"""``df.write.format("lookupstore.hudi")``: tasks stage rows, and one process of the driver writes.

Spark passes rows to a data source as its tasks have them: a source cannot request a shuffle, and no
process lives from the plan to the commit that could show that the owner of an instant is alive.
Therefore tasks only store their rows where the driver finds them, and the commit is one call of the
method of the operation, in one process, with all of its checks. Use `lookupstore.spark.upsert` for
writes that scale with executors.

Source: org.apache.hudi.HoodieSparkSqlWriter (modes, and how a table comes to be).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.types import StructType

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.index import partitions_of
from lookupstore.hudi.keys import IncomingRows, read_keys
from lookupstore.hudi.layout import optional
from lookupstore.hudi.write import (
    COLUMNS,
    WRITE_CHOICES,
    RowFile,
    StagedRows,
    check_operation,
    combined_options,
    operation_in,
    told_apart,
)
from lookupstore.spark.options import given_location, given_names, unknown_option_error
from lookupstore.spark.types import arrow_schema
from lookupstore.storage.location import Location

_OVERWRITES = ("insert_overwrite_table", "insert_overwrite")
_OPERATIONS = ("upsert", "insert", "bulk_insert", "delete", *_OVERWRITES, "delete_partition")


_CHOICES = tuple(name for name, choice in WRITE_CHOICES.items() if choice.in_spark)
_KNOWN = ("path", "operation", *_CHOICES, "storage_options")
# Remedies for methods of `HudiTable`, with their equivalents here.
_REMEDIES = {
    r"pass (?:metadata='\w+', to a write in |lock='\w+', to a write in |metadata='\w+' in )?"
    r"options=WriteOptions\((\w+)=([\w']+)\)": r"set option('\1', \2)",
    r"make it pa\.string\(\) in the schema, and cast its values to strings(, such as by .*)?": (
        "cast it to string"
    ),
}


@dataclass
class TaskRows(datasource.WriterCommitMessage):
    """The result of one task for the driver.

    Attributes:
        file: File with the rows of the task. None: the task had no rows, or partitions are deleted.
        partitions: Paths of the partitions to delete. Empty for other operations.
    """

    file: RowFile | None
    partitions: tuple[str, ...] = ()


class HudiWriter(datasource.DataSourceArrowWriter):
    """A writer of the rows of a DataFrame, which `planned_write` creates.

    Args:
        table: Table to write to.
        operation: Name of the operation, such as `upsert`.
        options: Options of the write.
        columns: Columns of the rows.
        staged: Temporary files that hold the rows until the commit.
    """

    def __init__(
        self,
        table: HudiTable,
        operation: str,
        options: WriteOptions,
        columns: pa.Schema,
        staged: StagedRows,
    ) -> None:
        self._location = table.location
        self._table_options = table.options
        self._operation = operation
        self._options = options
        self._columns = columns
        self._staged = staged

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskRows:
        """Stage the rows of one task, in a worker."""
        if self._operation == "delete_partition":
            found: set[str] = set()
            for batch in iterator:
                rows = pa.Table.from_arrays(batch.columns, names=self._columns.names)
                paths = partitions_of(rows, self._table_options, is_global=False)
                found.update(paths.unique().to_pylist())
            return TaskRows(None, tuple(sorted(found)))
        return TaskRows(self._staged.add(iterator))

    def commit(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """Write all rows in one commit, on the driver.

        Raises the errors of the method of `HudiTable` with the name of the operation.
        """
        # Rows are in the order of Spark's partitions.
        told = [one for one in messages if isinstance(one, TaskRows)]
        files = [one.file for one in told if one.file is not None]
        try:
            table = HudiTable.open(self._location)
            if self._operation == "delete_partition":
                paths = sorted({path for one in told for path in one.partitions})
                table.delete_partition(paths, options=self._options)
            else:
                rows = self._staged.read(files, self._columns)
                with _remedies_in_options():
                    getattr(table, self._operation)(rows, options=self._options)
        finally:
            # The write is committed, or its error is raised.
            with optional(
                self._location, "rows that waited for a write stay", "a later write deletes them"
            ):
                self._staged.delete()

    def abort(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """Delete the staged rows, regardless of the outcome of the write."""
        self._staged.delete()


def _in_options(message: str) -> str:
    """Return a message of a method of `HudiTable` with remedies for options of `df.write`.

    >>> _in_options("to add it, pass options=WriteOptions(evolve=True)")
    "to add it, set option('evolve', True)"
    """
    for argument, option in _REMEDIES.items():
        message = re.sub(argument, option, message)
    return message


@contextmanager
def _remedies_in_options() -> Iterator[None]:
    """Raise errors of the block with remedies for options of `df.write`."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if type(error) not in (ValueError, TypeError):
            raise
        said = _in_options(str(error))
        if said == str(error):
            raise
        raise type(error)(said) from error


def planned_write(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> HudiWriter:
    """Check a write on the driver before any task runs, and create a missing table.

    Args:
        options: Options of the write, as Spark passes them.
        schema: Columns of the rows.
        overwrite: Whether the mode is overwrite, and not append.

    Raises:
        ValueError: If an option is unknown or has a bad value, two options contradict each other,
            or a column is new or missing.
        TypeError: If a column does not have the table's type.
        FileNotFoundError: If there is no table to delete from.
        FormatError: If the table cannot be written to.
    """
    with _remedies_in_options():
        return _planned(options, schema, overwrite=overwrite)


def _planned(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> HudiWriter:
    hudi, ours = told_apart(dict(options))
    unknown = sorted(set(ours) - set(_KNOWN))
    if unknown:
        raise unknown_option_error(unknown[0], (*_KNOWN, "and hoodie.*"), "writing a Hudi table")
    location = given_location(ours, "save() the folder or URI of a Hudi table")
    operation = _operation(ours.get("operation") or operation_in(hudi), overwrite)
    columns = arrow_schema(schema)
    table = _table(location, columns, hudi, operation)
    chosen = _chosen(ours)
    check_operation(chosen, operation)
    given = combined_options(hudi, chosen, table.options, operation.upper())
    view = table.writable(given, dry_run=True)
    empty = columns.empty_table()
    if operation == "delete_partition":
        partitions_of(empty, view.options, is_global=False)
    elif operation == "delete":
        read_keys(empty, view.table_schema.columns, view.options, named=None)
    else:
        IncomingRows(
            empty,
            view.table_schema,
            view.options,
            named=None,
            evolve=given.evolve,
            missing=given.missing,
            keeps=operation == "upsert",
        )
    return HudiWriter(table, operation, given, columns, StagedRows.begin(location))


def _operation(given: str | None, overwrite: bool) -> str:
    """Return the operation: the requested one, or the one that the mode implies."""
    operation = (given or (_OVERWRITES[0] if overwrite else "upsert")).lower()
    if operation not in _OPERATIONS:
        raise ValueError(
            f"operation is {given!r}; give one of {', '.join(_OPERATIONS)}; services, such as "
            "clustering, are methods of lookupstore.hudi.HudiTable"
        )
    if overwrite and operation not in _OVERWRITES:
        raise ValueError(
            f"operation is {given!r}, but mode('overwrite') replaces all rows of the table; leave "
            "the operation out, or use mode('append')"
        )
    return operation


def _table(
    location: Location, columns: pa.Schema, hudi: Mapping[str, str], operation: str
) -> HudiTable:
    """Return the table, or a new and empty one if it does not exist."""
    try:
        return HudiTable.open(location)
    except FileNotFoundError:
        if operation.startswith("delete"):
            raise
    return HudiTable.create(location, columns, options=hudi)


def _chosen(ours: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the options that are choices about a write, by name."""
    chosen: dict[str, Any] = {}
    for name in _CHOICES:
        if name not in ours:
            continue
        kind = WRITE_CHOICES[name].kind
        if kind is COLUMNS:
            chosen[name] = tuple(given_names(ours, name) or ())
            continue
        try:
            chosen[name] = kind.parse(ours[name])
        except ValueError:
            raise ValueError(f"{name} is {ours[name]!r}; give {kind.words}") from None
    return chosen
