"""``lookupstore follow | sync``: bring a store to the newest snapshot of a table."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress

import click

from lookupstore.cli import STORAGE_OPTIONS
from lookupstore.cli.changing import temp_dir_option, threads_option
from lookupstore.cli.completion import COLUMNS, VALUE_COLUMNS
from lookupstore.cli.failures import spoken
from lookupstore.cli.opened import write_info
from lookupstore.cli.options import (
    PLACE,
    allow_new_key_option,
    names_of,
    output_option,
    retain_option,
)
from lookupstore.cli.terminal import echo, echoed_info, is_on_terminal, unechoed
from lookupstore.errors import LookupStoreError
from lookupstore.following.follow import follow as follow_table
from lookupstore.following.follower import ASKED
from lookupstore.quantities import bytes_of, counted, seconds_of
from lookupstore.sst.codec import COMPRESSIONS
from lookupstore.storage.storage_options import takes_options
from lookupstore.storage.uris import shown_uri
from lookupstore.store.manifest import Manifest
from lookupstore.store.store import LookupStore
from lookupstore.store.store import open as open_store
from lookupstore.store.version_files import list_names, located, read_newest

# The logger that says why all rows are read, and how many were new.
_LOGGER = "lookupstore.following.follower"

_verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also print how many rows were read, or that nothing has changed.",
)


@click.command()
@click.argument("table", type=PLACE)
@click.argument("path", type=PLACE, metavar="STORE")
@click.option("--key", type=COLUMNS, required=True, metavar="A,B",
              help="Key columns; they sort the store.")  # fmt: skip
@click.option("--columns", type=VALUE_COLUMNS, metavar="A,B",
              help="Value columns (default: all that are not in the key).")  # fmt: skip
@click.option("--where", metavar="SQL", help="Use only rows for which this is true, such as "
              "\"country = 'US'\".")  # fmt: skip
@click.option("--buckets", type=click.IntRange(1, 1 << 16),
              help="Number of data files of a build (default: that of the store, otherwise one for "
              "each 512 MiB).")  # fmt: skip
@click.option("--nullable-keys", type=COLUMNS, default="", metavar="A,B",
              help="Key columns that may be null.")  # fmt: skip
@click.option("--compression", type=click.Choice(COMPRESSIONS),
              help="Codec of the files (default: none in a folder, zstd at a URI).")  # fmt: skip
@click.option("--memory", default="1GiB", show_default=True, metavar="SIZE",
              help="Memory for rows; the rest is spilled to disk.")  # fmt: skip
@click.option("--overwrite", is_flag=True,
              help="Build the store again from all rows, also if it follows no table.")  # fmt: skip
@allow_new_key_option
@temp_dir_option
@threads_option
@retain_option
@_verbose_option
@output_option("table", "json")
def follow(
    table: str,
    path: str,
    key: str,
    columns: str | None,
    where: str | None,
    buckets: int | None,
    nullable_keys: str,
    compression: str | None,
    memory: str,
    overwrite: bool,
    allow_new_key: bool,
    temp_dir: str | None,
    threads: int | None,
    retain: str,
    verbose: bool,
    output: str,
) -> None:
    """Bring a store to the newest snapshot of a table.

    TABLE is the folder or URI of a Delta, Hudi or Paimon table or of an Iceberg table without a
    catalog, or iceberg:CATALOG.NAMESPACE.TABLE. The first run builds the store; later runs of the
    same command publish the rows that have changed since, and print one line. If nothing has
    changed, they print nothing, except on a terminal or with -v.
    """
    budget, kept_for = bytes_of(memory, "--memory"), seconds_of(retain, "--retain")
    location = located(path)
    before = None
    with suppress(LookupStoreError):  # --overwrite replaces a damaged store, too
        before = read_newest(location) if list_names(location) else None
    start = time.monotonic()
    with ExitStack() as logs:
        logs.enter_context(echoed_info(_LOGGER) if verbose else unechoed(_LOGGER))
        store = follow_table(
            table,
            path,
            key=names_of(key),
            columns=None if columns is None else names_of(columns),
            where=where,
            buckets=buckets,
            nullable_keys=names_of(nullable_keys),
            compression=compression,
            memory=budget,
            threads=threads,
            overwrite=overwrite,
            allow_new_key=allow_new_key,
            retain=kept_for,
            temp_dir=temp_dir,
        )
    _report(path, shown_uri(table), store, before, time.monotonic() - start, verbose, output)


@click.command()
@click.argument("path", type=PLACE, metavar="STORE")
@retain_option
@_verbose_option
@output_option("table", "json")
@click.pass_context
def sync(ctx: click.Context, path: str, retain: str, verbose: bool, output: str) -> None:
    """Bring a store that 'lookupstore follow' made to the newest snapshot of its table.

    The store records its table, columns and condition. Rows that have changed are published, and
    one line is printed. If nothing has changed, nothing is printed, except on a terminal or with
    -v.
    """
    kept_for, before = seconds_of(retain, "--retain"), read_newest(located(path))
    table = "" if before.follows is None else before.follows.place or ""
    # PATH has these options already.
    options = ctx.meta[STORAGE_OPTIONS] if takes_options(table) else None
    start = time.monotonic()
    with ExitStack() as logs:
        logs.enter_context(echoed_info(_LOGGER) if verbose else unechoed(_LOGGER))
        with open_store(path) as store:
            newer = store.sync(retain=kept_for, storage_options=options)
            _report(path, table, newer, before, time.monotonic() - start, verbose, output)


def _report(
    path: str,
    table: str,
    store: LookupStore,
    before: Manifest | None,
    seconds: float,
    verbose: bool,
    output: str,
) -> None:
    """Print what became of a store, and close it.

    Args:
        path: Path or URI of the store.
        table: Path or URI of its table, for people.
        store: The store at its newest version.
        before: The version before. None: There was none.
        seconds: Time that it took.
        verbose: Whether the logger was echoed.
        output: Form of the output: `table` or `json`.
    """
    with store:
        if output == "json":
            write_info(store, output)
            return
        after = store.info()
    snapshot = (after.follows or {}).get("snapshot")
    said = f"{shown_uri(path)}: version {after.version} has snapshot {snapshot} of {table}"
    if before is not None and before.version == after.version:
        if is_on_terminal() and not verbose:  # otherwise the logger says so
            echo(f"{said}, the newest one")
        return
    said += f", {counted(after.num_rows, 'row')}"
    if before is not None:
        known = None if before.follows is None else before.follows.snapshot
        had = "" if known is None else f"snapshot {known}, "
        said += f" (version {before.version}: {had}{counted(before.num_rows, 'row')})"
    said += f", in {seconds:.1f} s"
    reason = (after.follows or {}).get("rebuilt")
    if reason not in (None, ASKED):
        said += f"; all rows were read: {spoken(reason)}"
    echo(said)
