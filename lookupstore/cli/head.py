"""``lookupstore head``: the first rows of whatever the other commands read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

import click
import pyarrow as pa

from lookupstore.cli.completion import COLUMNS
from lookupstore.cli.conditions import scanned, where_in
from lookupstore.cli.opened import check_no_commit, only_stores
from lookupstore.cli.options import (
    PLACE,
    as_of_option,
    names_of,
    out_option,
    output_option,
    rows_where_option,
    table_version_option,
)
from lookupstore.cli.output import check_out, write_found
from lookupstore.cli.sources import TextFlags, check_kept, is_pipe, text_flags
from lookupstore.errors import FormatError, listed
from lookupstore.source.search import is_stream
from lookupstore.source.source import Source
from lookupstore.source.table_objects import source_at
from lookupstore.sst import Reader
from lookupstore.storage.uris import shown_uri
from lookupstore.store.path_kind import PathKind, kind_of
from lookupstore.store.store import open as open_store
from lookupstore.store.version_files import list_names, located

# Function that writes the first of some rows with a schema.
_Show: TypeAlias = Callable[[pa.Schema, Iterable[pa.RecordBatch]], None]


@click.command()
@click.argument("paths", type=PLACE, nargs=-1, required=True, metavar="STORE_OR_FILE...")
@click.option("-n", "--limit", type=click.IntRange(0), default=10, show_default=True, metavar="N",
              help="Number of rows.")  # fmt: skip
@click.option("--columns", type=COLUMNS, metavar="A,B",
              help="Columns to print (of a store: value columns), in this order (default: "
              "all).")  # fmt: skip
@rows_where_option
@table_version_option
@as_of_option
@text_flags
@out_option
@output_option("table", "json", "csv", "tsv", "arrow")
def head(
    paths: tuple[str, ...],
    limit: int,
    columns: str | None,
    where: str | None,
    version: int | None,
    as_of: str | None,
    text: TextFlags,
    out: str | None,
    output: str,
) -> None:
    """Print the first rows of a store, of files as 'build' reads them, or of a table.

    Rows of a store are in key order, those of files in the order of the files; - is standard input.
    """
    check_out(out)
    check_kept(out, *paths)
    wanted = None if columns is None else names_of(columns)
    show = partial(write_found, output=output, out=out, limit=limit)
    is_read = len(paths) > 1 or paths[0] == "-" or is_stream(paths[0]) or is_pipe(paths[0])
    kind = None if is_read else kind_of(paths[0])
    if kind is PathKind.STORE and list_names(located(paths[0])):
        text.check_unused(f"{shown_uri(paths[0])} is a store")
        store = open_store(paths[0], version=version, as_of=as_of)
        with store:
            show(*scanned(store, where, wanted))
        return
    if version is not None or as_of is not None:
        if kind is None:
            raise click.UsageError("--version and --as-of are for one store or table")
        check_no_commit(paths[0], kind, version=version, as_of=as_of)
        text.check_unused(f"{shown_uri(paths[0])} is a table")
        if kind is PathKind.HUDI_TABLE and version is None:
            _write_hudi_rows(paths[0], wanted, where, as_of, show)
        else:
            source = source_at(paths[0], version=version, as_of=as_of)
            _write_source(where_in(source, where), wanted, show)
        return
    file = _sorted_file(paths[0]) if kind is PathKind.SORTED_FILE and text.is_usual else None
    if file is not None:
        only_stores(columns=columns, where=where)
        with file:
            schema = pa.schema({"key": pa.large_binary(), "value": pa.large_binary()})
            show(schema, file.scan())
        return
    _write_source(where_in(text.source_of(paths), where), wanted, show)


def _write_source(source: Source, wanted: list[str] | None, show: _Show) -> None:
    """Write the first rows of a source, in the given columns. None: all."""
    names = source.schema.names if wanted is None else wanted
    for name in names:
        if name not in source.schema.names:
            raise click.UsageError(
                f"--columns: {source.description} has no column {name!r}; it has "
                f"[{listed(source.schema.names)}]"
            )
    schema = pa.schema([source.schema.field(name) for name in names])
    show(schema, source.batches(names))


def _write_hudi_rows(
    path: str, wanted: list[str] | None, where: str | None, as_of: str | None, show: _Show
) -> None:
    """Write the first rows of a Hudi table as it was.

    Args:
        path: Path of the table.
        wanted: Data columns. None: all.
        where: Condition in SQL. None: all rows.
        as_of: Time or instant of the rows.
        show: Function that writes the rows.
    """
    from lookupstore.hudi import HudiTable
    from lookupstore.hudi.meta_columns import META_COLUMNS

    table = HudiTable.open(path)
    known = table.schema
    names = [one for one in known.names if one not in META_COLUMNS] if wanted is None else wanted
    batches = table.scan_batches(columns=names, filter=where, as_of=as_of)
    show(pa.schema([known.field(name) for name in names]), batches)


def _sorted_file(path: str) -> Reader | None:
    """Open a sorted file. None: it is of another kind."""
    try:
        return Reader(path)
    except FormatError:
        return None
