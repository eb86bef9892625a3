"""``lookupstore build | versions | expire | publish``: stores are made, kept and copied."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa

import lookupstore
from lookupstore.cli.opened import write_info
from lookupstore.cli.options import (
    names_of,
    output_option,
    overwrite_option,
    retain_option,
    seconds_of,
    size_of,
    version_option,
)
from lookupstore.cli.output import counted, write_json, write_rows
from lookupstore.cli.source_errors import named_in_errors
from lookupstore.uris import shown_uri


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.argument("path")
@click.option("--key", required=True, metavar="A,B", help="Key columns; they sort the store.")
@click.option(
    "--columns", metavar="A,B", help="Value columns; all that are not in the key if missing."
)
@click.option("--buckets", type=click.IntRange(1, 1 << 16), help="Data files to spread keys over.")
@click.option(
    "--on-duplicate",
    default="error",
    show_default=True,
    metavar="error|first|last|max:COLUMN",
    help="Which row of a repeated key stays.",
)
@click.option("--nullable-keys", default="", metavar="A,B", help="Key columns that may hold null.")
@click.option("--compression", type=click.Choice(["none", "zstd", "lz4"]), default="none",
              show_default=True, help="Smaller files, slower lookups.")  # fmt: skip
@click.option("--memory", default="512MiB", show_default=True, metavar="SIZE",
              help="Budget for rows in memory; what is beyond is spilled to disk.")  # fmt: skip
@click.option("--threads", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N",
              help="How many threads read ahead, compress and write.")  # fmt: skip
@overwrite_option
@retain_option
@output_option("table", "json")
def build(
    sources: tuple[str, ...],
    path: str,
    key: str,
    columns: str | None,
    buckets: int | None,
    on_duplicate: str,
    nullable_keys: str,
    compression: str,
    memory: str,
    threads: int,
    overwrite: bool,
    retain: str,
    output: str,
) -> None:
    """Build the store PATH from SOURCE...: Parquet or ORC files, folders, globs or URIs.

    PATH may be a URI, too. With --overwrite only files of buckets that have changed are written.
    """
    rule, budget, kept_for = _on_duplicate(on_duplicate), size_of(memory), seconds_of(retain)
    with named_in_errors(sources):
        store = lookupstore.build(
            list(sources),
            path,
            key=names_of(key),
            columns=None if columns is None else names_of(columns),
            buckets=buckets,
            on_duplicate=rule,
            nullable_keys=names_of(nullable_keys),
            compression=compression,
            memory=budget,
            threads=threads,
            overwrite=overwrite,
            retain=kept_for,
        )
    with store:
        write_info(store, output)


@click.command()
@click.argument("path", metavar="STORE")
@output_option("table", "json")
def versions(path: str, output: str) -> None:
    """List the versions of a store, the oldest first."""
    found = lookupstore.versions(path)
    if output == "json":
        write_json([one.to_json() for one in found])
        return
    rows = [
        {
            "version": one.number,
            "created": one.created,
            "rows": one.num_rows,
            "buckets": one.buckets,
            "files": one.files,
            "bytes": one.bytes,
            "source": one.source,
            "current": "*" if one.current else "",
        }
        for one in found
    ]
    table = pa.Table.from_pylist(rows)
    write_rows(table.schema, table.to_batches(), output)


@click.command()
@click.argument("path", metavar="STORE")
@retain_option
@click.option("--keep", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="How many of the newest versions stay in any case.")  # fmt: skip
@output_option("table", "json")
def expire(path: str, retain: str, keep: int, output: str) -> None:
    """Remove versions that were replaced long enough ago, and leftovers of killed builds."""
    removed = lookupstore.expire(path, retain=seconds_of(retain), keep=keep)
    if output == "json":
        write_json(removed.to_json())
        return
    click.echo(
        f"{shown_uri(path)}: removed {counted(len(removed.versions), 'version')} and "
        f"{counted(removed.files, 'file')}, {counted(removed.bytes, 'byte')}"
    )


@click.command()
@click.argument("store", metavar="STORE")
@click.argument("path", metavar="PATH")
@version_option
@overwrite_option
@retain_option
@output_option("table", "json")
def publish(
    store: str, path: str, version: int | None, overwrite: bool, retain: str, output: str
) -> None:
    """Copy a version of STORE to PATH, a folder or URI, and publish it there.

    Files that are there already are not copied again.
    """
    with (
        lookupstore.open(store, version=version) as opened,
        lookupstore.publish(
            opened, path, overwrite=overwrite, retain=seconds_of(retain)
        ) as published,
    ):
        write_info(published, output)


def _on_duplicate(value: str) -> Any:
    rule, colon, column = value.partition(":")
    if colon and rule == "max" and column:
        return rule, column
    if value in ("error", "first", "last"):
        return value
    raise click.UsageError(f"--on-duplicate {value}: give error, first, last or max:COLUMN")
