"""``lookupstore info | verify | stats``: descriptions and checks of stores, statistics of joins."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from datetime import datetime, timezone
from typing import Any

import click
import pyarrow as pa

from lookupstore.cli.failures import message_of
from lookupstore.cli.opened import (
    is_table,
    keyless_files,
    lookups_options,
    open_lookups,
    write_info,
)
from lookupstore.cli.options import PLACE, output_option
from lookupstore.cli.output import write_fields, write_json, write_report
from lookupstore.cli.terminal import echo
from lookupstore.errors import CorruptionError, LookupStoreError
from lookupstore.hostcache.folder import default_folder
from lookupstore.hostcache.stats import QueryStats
from lookupstore.hostcache.stats import fetched as fetched_bytes
from lookupstore.hostcache.stats import read as read_stats
from lookupstore.progress import watched
from lookupstore.quantities import counted
from lookupstore.source.source import Source
from lookupstore.sst import Info
from lookupstore.storage.catalog_names import is_catalog_name
from lookupstore.storage.home import expanded
from lookupstore.storage.location import Location
from lookupstore.storage.uris import shown_uri
from lookupstore.store.check import StoreCheck
from lookupstore.store.store import LookupStore


@click.command()
@click.argument("path", type=PLACE, metavar="STORE_OR_FILE")
@lookups_options
@output_option("table", "json")
def info(path: str, output: str, **what: Any) -> None:
    """Print the schema and properties of a store, file or Hudi table.

    'lookupstore get --help' says what STORE_OR_FILE may be. Of a version of a
    store, bytes_here is what this host has, and bytes_fetched what joins on
    this host have fetched of it in the last week.
    """
    if is_table(path, **{**what, "as_of": None}):
        click.get_current_context().invoke(
            _of_table("info"), path=path, as_of=what["as_of"], output=output
        )
        return
    files = keyless_files(path, **what)
    if files is not None:
        columns = {field.name: str(field.type) for field in files.schema}
        rows = files.count_rows()  # None: a file is damaged
        fields: dict[str, Any] = {} if rows is None else {"num_rows": rows}
        fields["bytes"] = files.nbytes
        if output == "json":
            write_json({"path": shown_uri(path), **fields, "columns": columns})
        else:
            listed = ", ".join(f"{name}: {kind}" for name, kind in columns.items())
            write_fields(files.description, {**fields, "columns": listed})
        return
    with open_lookups(path, **what) as opened:
        fetched = None
        if isinstance(opened, LookupStore):
            with suppress(OSError):  # `stats` reports a damaged table
                fetched = fetched_bytes(default_folder(), opened.path, opened.version)
        write_info(opened, output, fetched=fetched)


@click.command()
@click.argument("path", type=PLACE, metavar="STORE_OR_FILE")
@lookups_options
@output_option("table", "json")
def verify(path: str, output: str, **what: Any) -> int:
    """Read every byte of a store, file or Hudi table and check it.

    For a store, this checks the current version, or --version N.
    With --key, columnar files and their lookup files on this host are compared with each other.
    'lookupstore get --help' says what STORE_OR_FILE may be.
    """
    if is_table(path, **what):
        return int(
            click.get_current_context().invoke(_of_table("verify"), path=path, output=output)
        )
    files = keyless_files(path, **what)
    try:
        if files is not None:
            _verify_rows(files, path, output)
            return 0
        with open_lookups(path, **what) as opened:
            checked = opened.verify()
    except LookupStoreError as error:
        if output == "json":
            write_json(
                {"ok": False, "path": shown_uri(path), "error": message_of(error), **_place(error)}
            )
        raise
    if output == "json":
        write_json({"ok": True, **checked.to_json()})
    elif isinstance(checked, Info):
        echo(
            f"ok: {shown_uri(path)}: {counted(checked.num_records or 0, 'record')} in "
            f"{counted(checked.data_blocks, 'block')}, {counted(checked.file_bytes, 'byte')}"
        )
    else:
        echo(
            f"ok: {shown_uri(path)}: {counted(checked.num_rows, 'row')} in "
            f"{counted(checked.files, 'file')}, {counted(checked.bytes, 'byte')}"
        )
        for name in checked.stray if isinstance(checked, StoreCheck) else ():
            echo(f"{shown_uri(path)}: {name} is not part of the store", err=True)
    return 0


def _verify_rows(files: Source, path: str, output: str) -> None:
    """Read all rows of columnar files, and print their number."""
    every = files.batches(files.schema.names)
    with closing(watched(every, "Checking", files.count_rows)) as batches:
        rows = sum(batch.num_rows for batch in batches)
    if output == "json":
        write_json({"ok": True, "num_rows": rows, "bytes": files.nbytes})
    else:
        size = counted(files.nbytes or 0, "byte")
        echo(f"ok: {shown_uri(path)}: {counted(rows, 'row')}, {size}")


def _of_table(verb: str) -> click.Command:
    """Return the command of that name for Hudi tables."""
    from lookupstore.cli import hudi

    command: click.Command = getattr(hudi, verb)
    return command


@click.command()
@click.option(
    "--store",
    type=PLACE,
    metavar="PATH",
    help="Only lookups in this store, table or file: its path, URI or name in a catalog.",
)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N",
              help="Show the N most recent queries.")  # fmt: skip
@click.option("--cache", metavar="FOLDER", help="Cache folder of the host (default: "
              "$LOOKUPSTORE_CACHE, or lookupstore in ~/.cache).")  # fmt: skip
@output_option("table", "json")
def stats(store: str | None, limit: int, cache: str | None, output: str) -> None:
    """Show the lookup joins on this host in the last week.

    There is one row per query and version. The cache hit rate is the share of keys looked up in a
    block for which the block did not have
    to be read first; bytes fetched came from remote storage.
    """
    folder = default_folder() if cache is None else expanded(cache)
    if not (cache is None or os.path.isdir(folder)):
        raise click.UsageError(f"--cache {cache}: no such folder")
    wanted = None
    if store is not None:
        wanted = shown_uri(store) if is_catalog_name(store) else Location(store).uri
    found = read_stats(folder, limit, wanted)
    if output == "json":
        write_json([one.to_json() for one in found])
        return
    if not found:
        echo(f"{folder}: no lookups by Spark in the last week", err=True)
        return
    table = pa.Table.from_pylist([_stats_row(one) for one in found])
    write_report(table, output, _COUNTS)


_COUNTS = (
    "rows",
    "hits",
    "misses",
    "filter negatives",
    "blocks read",
    "bytes fetched",
    "refreshes",
    "failed refreshes",
)


def _stats_row(one: QueryStats) -> dict[str, object]:
    counts = one.counts
    rate = counts.cache_hit_rate
    return {
        "ended": datetime.fromtimestamp(int(one.last), timezone.utc),
        "query": one.query,
        "store": one.store,
        "version": one.version,
        "rows": counts.rows,
        "hits": counts.hits,
        "misses": counts.misses,
        "filter negatives": counts.filter_negatives,
        "blocks read": counts.blocks_read,
        "bytes fetched": counts.bytes_fetched,
        "cache hit rate": None if rate is None else round(rate, 4),
        "refreshes": counts.refreshes,
        "failed refreshes": counts.failed_refreshes,
        "seconds": round(counts.seconds, 3),
    }


def _place(error: LookupStoreError) -> dict[str, object]:
    if not isinstance(error, CorruptionError):
        return {}
    return {
        "file": error.path,
        "offset": error.offset,
        "expected": error.expected,
        "found": error.found,
    }
