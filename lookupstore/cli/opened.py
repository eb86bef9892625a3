"""The object that a command opens, and its description: a store, a sorted file, columnar files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from lookupstore.cli.options import (
    Option,
    as_of_option,
    columnar_duplicates_option,
    key_option,
    latest_partition_option,
    names_of,
    order_option,
    table_version_option,
    where_option,
)
from lookupstore.cli.output import write_fields, write_json
from lookupstore.cli.sources import is_pipe
from lookupstore.cli.terminal import echoed_info
from lookupstore.columnar import ColumnarFiles
from lookupstore.columnar.files import Rule
from lookupstore.errors import DiskQuotaError, listed
from lookupstore.hostcache.own_folder import VARIABLE
from lookupstore.quantities import size_text
from lookupstore.source.opening import open_source
from lookupstore.source.search import is_stream
from lookupstore.source.source import Source
from lookupstore.source.table_objects import source_at
from lookupstore.sst import Info, Reader
from lookupstore.sst.dump import text
from lookupstore.storage.home import expanded
from lookupstore.storage.location import Location
from lookupstore.storage.uris import shown_uri
from lookupstore.store.path_kind import PathKind, kind_of
from lookupstore.store.store import LookupStore
from lookupstore.store.store import open as open_store
from lookupstore.store.store_info import StoreInfo
from lookupstore.store.version_files import list_names

if TYPE_CHECKING:
    from lookupstore.hudi import TableLookup

#: Objects that look up keys.
Opened: TypeAlias = "LookupStore | Reader | ColumnarFiles | TableLookup"


# Bytes of columnar files from which on a command says that it makes lookup files of them.
_LARGE = 64 << 20


def lookups_options(
    command: Callable[..., Any], where: Option = where_option
) -> Callable[..., Any]:
    """Add the options that define the object to open to a command.

    Args:
        command: Command.
        where: Option for a condition on rows.
    """
    options = (
        key_option,
        where,
        latest_partition_option,
        columnar_duplicates_option,
        table_version_option,
        as_of_option,
        order_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def open_lookups(
    path: str,
    columns: Sequence[str] | None = None,
    *,
    key: str | None,
    where: str | None,
    latest_partition: str | None,
    on_duplicate: Rule,
    version: int | None,
    as_of: str | None,
    order: str,
    no_cache: bool = False,
) -> Opened:
    """Open a store, a sorted file, columnar files or a Hudi table for lookups.

    Args:
        path: Path or URI of the store, file, files or table.
        columns: Value columns of columnar files or of a table. Default: all.
        key: Text of `--key`. None: a store, a sorted file, or a Hudi table by its record key.
        where: Condition in SQL that rows of columnar files or a table must meet. None: all rows.
        latest_partition: Name in `name=value` folders of columnar files. Only the folders with the
            greatest value are read. None: all folders.
        on_duplicate: Handling of repeated keys of columnar files: `error`, `first` or `last`.
        version: Version of a store or table. None: the current one.
        as_of: Time of the version of a store or table. None: the current one.
        order: Order of the keys of a sorted file.
        no_cache: Whether no lookup files are made of columnar files.
    """
    kind = kind_of(path)
    if is_pipe(path) or (kind is PathKind.SORTED_FILE and is_stream(path)):
        raise click.UsageError(
            f"{shown_uri(path)} is read from its beginning to its end, not looked up in; print its "
            f"rows: lookupstore head {shown_uri(path)}; or make a store of it: lookupstore build "
            f"{shown_uri(path)} STORE --key NAME"
        )
    if key is not None:
        if kind is PathKind.SORTED_FILE:
            Reader(path, order=order).close()  # raises the error of a file of another kind
        if kind is PathKind.SORTED_FILE or (kind is PathKind.STORE and list_names(Location(path))):
            if where is not None:
                raise _where_error(path, kind)
            raise click.UsageError(
                f"{shown_uri(path)} is a {kind.value}, which has its key; leave out --key"
            )
        files = ColumnarFiles(
            path,
            key=names_of(key),
            columns=columns,
            where=where,
            on_duplicate=on_duplicate,
            latest_partition=latest_partition,
            version=version,
            as_of=as_of,
            build="never" if no_cache else "auto",
        )
        if files.nbytes >= _LARGE:
            click.get_current_context().with_resource(
                echoed_info("lookupstore.columnar.file_lookup")
            )
        return files
    if no_cache:
        raise click.UsageError("--no-cache is an option of columnar files, with --key")
    if where is not None and kind is not PathKind.HUDI_TABLE:
        if kind in (PathKind.STORE, PathKind.SORTED_FILE):
            raise _where_error(path, kind)
        raise click.UsageError("--where is an option of columnar files, with --key")
    if latest_partition is not None:
        raise click.UsageError("--latest-partition is an option of columnar files, with --key")
    if on_duplicate != "error":
        raise click.UsageError("--on-duplicate is an option of columnar files, with --key")
    if kind is PathKind.HUDI_TABLE:
        if version is not None:
            raise click.UsageError(
                f"{shown_uri(path)} is a Hudi table, whose versions have no numbers; give --as-of"
            )
        return _table_lookup(path, columns, as_of, where)
    if kind is PathKind.COLUMNAR_FILES:
        raise click.UsageError(
            f"{shown_uri(path)} names columnar files; give --key and their key columns"
        )
    if kind is PathKind.STORE and (os.path.isdir(expanded(path)) or "://" in path):
        return open_store(path, version=version, as_of=as_of)
    check_no_commit(path, kind, version=version, as_of=as_of)
    return Reader(path, order=order)


def _where_error(path: str, kind: PathKind) -> click.UsageError:
    """Return the error for a condition on rows that are not those of columnar files."""
    return click.UsageError(
        f"{shown_uri(path)} is a {kind.value}, and --where is for columnar files; build a store "
        "with 'lookupstore build --where', or filter the output"
    )


def _table_lookup(
    path: str, columns: Sequence[str] | None, as_of: str | None, where: str | None
) -> TableLookup:
    """Return lookups in a Hudi table by its record key, in all partitions."""
    from lookupstore.hudi import HudiTable, TableLookup

    key = HudiTable.open(path).options.record_key
    return TableLookup(path, key=key, columns=columns, as_of=as_of, where=where)


def is_table(
    path: str,
    *,
    key: str | None,
    where: str | None,
    latest_partition: str | None,
    on_duplicate: Rule,
    version: int | None,
    as_of: str | None,
    order: str,
) -> bool:
    """Return whether a path is a Hudi table, and not to be read as columnar files by a key.

    Options that a table does not have are refused.
    """
    if key is not None or kind_of(path) is not PathKind.HUDI_TABLE:
        return False
    usual = {"version": (version, None), "as-of": (as_of, None), "order": (order, "bytes")}
    given = [f"--{name}" for name, (value, default) in usual.items() if value != default]
    if given:
        raise click.UsageError(f"{shown_uri(path)} is a Hudi table; leave out {listed(given, str)}")
    if (where, latest_partition, on_duplicate) != (None, None, "error"):
        raise click.UsageError(
            f"{shown_uri(path)} is a Hudi table; --where, --latest-partition and --on-duplicate "
            "need --key"
        )
    return True


def keyless_files(
    path: str,
    *,
    key: str | None,
    where: str | None,
    latest_partition: str | None,
    on_duplicate: Rule,
    version: int | None,
    as_of: str | None,
    order: str,
) -> Source | None:
    """Return columnar files without a key, in which nothing can be looked up.

    None: the path is of another kind, or `--key` is given. Other options are refused.
    """
    if key is not None or kind_of(path) is not PathKind.COLUMNAR_FILES:
        return None
    if (where, latest_partition, on_duplicate, order) != (None, None, "error", "bytes"):
        raise click.UsageError(
            f"{shown_uri(path)} names columnar files; --where, --latest-partition and "
            "--on-duplicate need --key, and --order is of sorted files"
        )
    if version is None and as_of is None:
        return open_source(path)
    return source_at(path, version=version, as_of=as_of)


def check_no_commit(
    path: str, kind: PathKind, *, version: int | None = None, as_of: str | None = None
) -> None:
    """Refuse to choose a version of a sorted file.

    Args:
        path: Path or URI of it.
        kind: Its kind.
        version: Value of `--version`. None: not given.
        as_of: Value of `--as-of`. None: not given.

    Raises:
        UsageError: If an option is given, and something is there that is no table.
    """
    if kind in (PathKind.HUDI_TABLE, PathKind.COLUMNAR_FILES):
        return
    if "://" not in path and not os.path.exists(expanded(path)):
        return  # opening it raises the error
    if as_of is not None or version is not None:
        name = "--version" if as_of is None else "--as-of"
        raise click.UsageError(
            f"{shown_uri(path)} is a {kind.value}, and {name} is for stores and tables; leave it "
            "out"
        )


@contextmanager
def naming_no_cache(opened: Opened) -> Iterator[None]:
    """Add `--no-cache` to errors of a cache folder that cannot hold a lookup file."""
    try:
        yield
    except DiskQuotaError as error:
        if not isinstance(opened, ColumnarFiles) or "its lookup file" not in str(error):
            raise
        raise DiskQuotaError(f"{error}, or give --no-cache") from error
    except OSError as error:
        if not isinstance(opened, ColumnarFiles) or VARIABLE not in (error.strerror or ""):
            raise
        remedy = f"{error.strerror}, or give --no-cache"
        raise type(error)(error.errno, remedy, error.filename) from error


def only_stores(**given: object) -> None:
    """Refuse options that are for stores only."""
    _refuse("stores, not files", given)


def only_files(**given: object) -> None:
    """Refuse options that are for files only."""
    _refuse("files, not stores (for bytes in a store's key, type 0x and hex digits)", given)


def _refuse(of: str, given: dict[str, object]) -> None:
    for name, value in given.items():
        if value:
            raise click.UsageError(f"--{name} is for {of}")


def write_info(
    opened: Opened, output: str, source_bytes: int | None = None, fetched: int | None = None
) -> None:
    """Print the description of a store or files, with the size of the source.

    Args:
        opened: Store, files or table to describe.
        output: Form of the output: `table` or `json`.
        source_bytes: Size of the source that it was built from, in bytes. None: unknown.
        fetched: Bytes of a version of a store that this host has fetched, instead of those that
            this process has fetched.
    """
    found = opened.info()
    if fetched is not None and isinstance(found, StoreInfo):
        found = replace(found, bytes_fetched=fetched)
    if output == "json":
        size = {} if source_bytes is None else {"source_bytes": source_bytes}
        write_json({**found.to_json(), **size})
        return
    fields: dict[str, object] = {}
    for name, value in found.to_json().items():
        if isinstance(value, dict):
            known = {key: one for key, one in value.items() if one is not None}
            fields[name] = ", ".join(f"{key}: {one}" for key, one in known.items())
        elif isinstance(value, list):  # the fields of a schema
            fields[name] = ", ".join(f"{one['name']}: {one['type']}" for one in value)
        elif value is not None:
            fields[name] = value
    if isinstance(found, Info):
        for name, key in (("min_key", found.min_key), ("max_key", found.max_key)):
            if key is not None:
                fields[name] = text(key, found.order)
    if source_bytes is not None and not isinstance(found, Info):
        fields["size"] = f"{size_text(found.bytes)}, from {size_text(source_bytes)} of source files"
    shown = {name: value for name, value in fields.items() if name != "path" and value != ""}
    write_fields(found.path, shown)
