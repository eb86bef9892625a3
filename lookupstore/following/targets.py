"""The newest moment of a table, and the plan of its rows in a store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from lookupstore.builder.plan import BuildPlan, plan_build
from lookupstore.errors import FormatError
from lookupstore.filters import Filter
from lookupstore.filters.recorded_filter import recorded_filter
from lookupstore.filters.row_filter import RowFilter, row_filter
from lookupstore.following.recorded import recorded_place
from lookupstore.following.versions import VersionHistory
from lookupstore.source.argument_names import as_argument
from lookupstore.source.search import FoundTable, Path, find_source, path_of, shown_path
from lookupstore.source.source import type_name
from lookupstore.source.table_folders import TableFormat
from lookupstore.source.table_objects import library_format
from lookupstore.source.table_readers import READABLE, table_reader
from lookupstore.storage.catalog_names import FORM, is_catalog_name
from lookupstore.storage.home import expanded
from lookupstore.storage.location import Location, as_location
from lookupstore.store.manifest import FollowedSnapshot
from lookupstore.store.version_files import list_names
from lookupstore.tables.history import TableHistory, TableMoment

# The paths of tables, for errors.
_TABLES = (
    "the folder or URI of a Delta, Hudi, Iceberg or Paimon table, or of a store, or the name "
    f"{FORM}"
)


@dataclass(frozen=True)
class Target:
    """What a store is to become.

    Attributes:
        history: The table with its former moments.
        newest: The table at its newest moment, with the rows that meet the condition.
        condition: Condition that rows meet. None: all rows count.
        plan: Plan of the rows in the store.
        follows: The moment, as the manifest of the store records it.
    """

    history: TableHistory
    newest: TableMoment
    condition: RowFilter | None
    plan: BuildPlan
    follows: FollowedSnapshot

    def former(self, snapshot_id: str) -> TableMoment | None:
        """Return the table at a former moment, with the rows that meet the condition.

        None: The moment is gone.
        """
        found = self.history.former(snapshot_id)
        return found if found is None or self.condition is None else found.where(self.condition)


def newest_target(
    table: Any,
    *,
    key: str | Sequence[str],
    columns: Sequence[str] | None,
    where: Filter | None,
    nullable_keys: str | Sequence[str],
) -> Target:
    """Open a table at its newest moment, and plan its rows in a store.

    The arguments and errors are those of `lookupstore.follow`.
    """
    history = table_history(table)
    newest = history.newest
    condition = None if where is None else row_filter(where, newest.schema)
    if condition is not None:
        newest = newest.where(condition)
    plan = plan_build(
        newest.schema,
        key=key,
        columns=columns,
        nullable_keys=nullable_keys,
        source=newest.description,
    )
    follows = FollowedSnapshot(
        newest.table_id,
        newest.snapshot_id,
        newest.files_hash,
        newest.columns_hash(plan.columns),
    )
    place = recorded_place(table)
    # Without the condition, other rows would count.
    with suppress(TypeError):
        recorded = recorded_filter(where)
        if place is not None:
            follows = replace(follows, place=place, where=recorded, every_column=columns is None)
    return Target(history, newest, condition, plan, follows)


def check_other(table: Any, store: Location) -> None:
    """Check that a table is not the store that is to follow it.

    Raises:
        ValueError: If it is.
    """
    if is_catalog_name(table):
        return
    if isinstance(table, (str, os.PathLike, Location)) and _place(table).uri == store.uri:
        raise ValueError(f"table is {store.uri}, the store itself; give the table to follow")


def _place(table: Any) -> Location:
    path = path_of(table)
    return as_location(expanded(path) if isinstance(path, str) else path)


def _no_table_error(path: Path, location: Location, missing: str) -> Exception:
    """Return the error for a path that is not that of a table.

    Args:
        path: The path.
        location: Its location.
        missing: Text of the error that nothing was found there. Empty: there are files of rows.
    """
    shown = shown_path(path)
    if location.is_file():
        return FormatError(
            f"table: {shown} is a file, not a table; build a store of it, and again with "
            "overwrite=True when it changes"
        )
    if not missing:
        return FormatError(
            f"table: {shown} has files that belong to no table; build a store of them, and again "
            "with overwrite=True when they change"
        )
    if location.is_there():
        return FileNotFoundError(f"table: {shown} is a folder without a table; give {_TABLES}")
    return FileNotFoundError(f"table: {missing}; give {_TABLES}")


def table_history(table: Any) -> TableHistory:
    """Open a table with its former moments.

    Args:
        table: Table as `lookupstore.follow` takes it.

    Raises:
        TypeError: If `table` is something else.
        FormatError: If the path is not that of a table.

    Also raises the errors of `lookupstore.build`.
    """
    table_format = library_format(table)
    if is_catalog_name(table):
        table_format = TableFormat.ICEBERG
    if table_format is None:
        if not isinstance(table, (str, os.PathLike, Location)):
            raise TypeError(
                f"table is {type_name(table)}; give {_TABLES}; an open store or HudiTable; a "
                "deltalake.DeltaTable; a table or scan of pyiceberg; or a FileStoreTable of "
                "pypaimon"
            )
        path, location = path_of(table), _place(table)
        if list_names(location):
            return VersionHistory(location)
        try:
            found = find_source([path], tables=READABLE)
        except (FileNotFoundError, ValueError) as error:
            said = str(error).removeprefix("source: ")
            if said == str(error):  # of the path itself, such as a URI that is not known
                raise
            raise _no_table_error(path, location, said) from None
        if not isinstance(found, FoundTable):
            raise _no_table_error(path, location, "")
        table_format, table = found.format, found.path
    with as_argument("table"):
        history: TableHistory = table_reader(table_format).table_history(table)
    return history
