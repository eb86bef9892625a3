"""``lookupstore build | versions | expire | publish``: stores are made, kept and copied."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa

from lookupstore.builder import in_process
from lookupstore.cli.completion import COLUMNS, VALUE_COLUMNS
from lookupstore.cli.failures import message_of
from lookupstore.cli.opened import write_info
from lookupstore.cli.options import (
    PLACE,
    allow_empty_option,
    allow_new_key_option,
    as_of_option,
    names_of,
    output_option,
    overwrite_option,
    retain_option,
    source_version_option,
    version_option,
)
from lookupstore.cli.output import write_json, write_list, write_rows
from lookupstore.cli.sources import TextFlags, text_flags
from lookupstore.cli.terminal import echo
from lookupstore.quantities import bytes_of, counted, seconds_of
from lookupstore.source.table_objects import source_at
from lookupstore.sst.codec import COMPRESSIONS
from lookupstore.storage.location import Location
from lookupstore.storage.uris import shown_uri
from lookupstore.store import expiry, publishing, version_files, version_times
from lookupstore.store.store import open as open_store


@click.command()
@click.argument("sources", type=PLACE, nargs=-1, metavar="SOURCE...")
@click.argument("path", type=PLACE)
@click.option("--key", type=COLUMNS, required=True, metavar="A,B",
              help="Key columns; they sort the store.")  # fmt: skip
@click.option("--columns", type=VALUE_COLUMNS, metavar="A,B",
              help="Value columns (default: all that are not in the key).")  # fmt: skip
@click.option("--where", metavar="SQL", help="Use only rows for which this is true, such as "
              "\"country = 'US'\".")  # fmt: skip
@click.option(
    "--buckets",
    type=click.IntRange(1, 1 << 16),
    help="Number of data files to spread the keys over (default: that of the overwritten store, "
    "otherwise one for each 512 MiB; 1 or 8 if the size is unknown).",
)
@click.option(
    "--on-duplicate",
    default="error",
    show_default=True,
    metavar="error|first|last|max:COLUMN",
    help="Which row of a repeated key to keep.",
)
@click.option("--nullable-keys", type=COLUMNS, default="", metavar="A,B",
              help="Key columns that may be null.")  # fmt: skip
@click.option("--compression", type=click.Choice(COMPRESSIONS),
              help="Codec of the files (default: none in a folder, zstd at a URI).")  # fmt: skip
@click.option("--memory", default="1GiB", show_default=True, metavar="SIZE",
              help="Memory for rows; the rest is spilled to disk.")  # fmt: skip
@click.option("--temp-dir", metavar="FOLDER",
              help="Folder for spilled rows and for files on their way to a URI (default: next "
              "to a local store, otherwise the system's temporary folder).")  # fmt: skip
@click.option("--threads", type=click.IntRange(1, 64), metavar="N",
              help="Threads that read ahead, sort, compress and write (default: one for each "
              "processor).")  # fmt: skip
@source_version_option
@as_of_option
@text_flags
@overwrite_option
@allow_empty_option
@allow_new_key_option
@retain_option
@output_option("table", "json")
def build(
    sources: tuple[str, ...],
    path: str,
    key: str,
    columns: str | None,
    where: str | None,
    buckets: int | None,
    on_duplicate: str,
    nullable_keys: str,
    compression: str | None,
    memory: str,
    temp_dir: str | None,
    threads: int | None,
    version: int | None,
    as_of: str | None,
    text: TextFlags,
    overwrite: bool,
    allow_empty: bool,
    allow_new_key: bool,
    retain: str,
    output: str,
) -> None:
    """Build a store from Parquet or ORC files, or from a table.

    SOURCE... are files, folders, globs or URIs; or one table: the folder of a Delta, Hudi, Iceberg
    or Paimon table, or iceberg:CATALOG.NAMESPACE.TABLE; or files of CSV, JSON lines or Arrow IPC,
    and - for one of these on standard input. PATH is a folder or URI. With --overwrite only the
    files of changed buckets are written.
    """
    if not sources:  # the only path is that of the store, as PATH is the last one
        raise click.UsageError(f"Missing argument 'PATH', the folder of the store, after {path}")
    rule, budget, kept_for = (
        _on_duplicate(on_duplicate),
        bytes_of(memory, "--memory"),
        seconds_of(retain, "--retain"),
    )
    if version is None and as_of is None:
        source = text.source_of(sources)
    elif len(sources) > 1:
        raise click.UsageError("--version and --as-of are for one table; give it alone")
    else:
        source = source_at(sources[0], version=version, as_of=as_of)
        text.check_unused(f"{source.description} has types of its own")
    text.check_key(source, names_of(key))
    store = in_process.build(
        source,
        path,
        key=names_of(key),
        columns=None if columns is None else names_of(columns),
        where=where,
        buckets=buckets,
        on_duplicate=rule,
        nullable_keys=names_of(nullable_keys),
        compression=compression,
        memory=budget,
        threads=threads,
        overwrite=overwrite,
        allow_empty=allow_empty,
        allow_new_key=allow_new_key,
        retain=kept_for,
        temp_dir=temp_dir,
    )
    with store:
        write_info(store, output, source.nbytes)


@click.command()
@click.argument("path", type=PLACE, metavar="STORE")
@output_option("table", "json", "csv")
def versions(path: str, output: str) -> int:
    """List the versions of a store, oldest first.

    The exit status is 1 if a version is damaged; the others are listed.
    """
    found, errors = version_files.readable_versions(path)
    if output == "json":
        write_json([one.to_json() for one in found])
    elif found:
        _write_versions(found, output)
    for error in errors:
        echo(f"Error: {message_of(error)}", err=True)
    return int(bool(errors))


def _write_versions(found: list[version_files.VersionInfo], output: str) -> None:
    has_copies = output == "csv" or any(one.same_as is not None for one in found)
    rows = [
        {
            "version": one.number,
            # In the form and with the digits that `changes --since` needs to find the version.
            "created": version_times.time_text(one.created).replace("+00:00", "Z"),
            "current": one.current if output == "csv" else "*" if one.current else "",
            **({"same_as": _number_of(one.same_as, output)} if has_copies else {}),
            "rows": one.num_rows,
            "bytes": one.bytes,
            "runs": one.runs,
            "run_bytes": one.run_bytes,
            "files": one.files,
            "buckets": one.buckets,
            "applied_bytes": one.applied_bytes,
            "source": one.source,
        }
        for one in found
    ]
    counts = ("rows", "bytes", "runs", "run_bytes", "files", "buckets", "applied_bytes")
    listed = pa.Table.from_pylist(rows)
    if output == "csv":
        write_rows(listed.schema, listed.to_batches(), output)
    else:
        write_list(listed, counts)


def _number_of(version: int | None, output: str) -> int | str | None:
    """Return the number of a version: for a table as text, with nothing for None."""
    return version if output == "csv" else str(version or "")


@click.command()
@click.argument("path", type=PLACE, metavar="STORE")
@retain_option
@click.option("--keep", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="Always keep the N newest versions.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Remove nothing: print what would be removed.")
@output_option("table", "json")
def expire(path: str, retain: str, keep: int, dry_run: bool, output: str) -> int:
    """Remove old versions and leftovers of killed builds.

    The exit status is 1 if a file that is no longer needed could not be removed.
    """
    seconds = seconds_of(retain, "--retain")
    removed = expiry.expire(path, retain=seconds, keep=keep, dry_run=dry_run)
    if output == "json":
        write_json(removed.to_json())
    else:
        verb = "would remove" if dry_run else "removed"
        numbers = ", ".join(map(str, removed.versions))
        which = f" ({numbers})" if dry_run and numbers else ""
        left = {one.number for one in version_files.list_names(version_files.located(path))}
        replaced = len(left - {*removed.versions}) - keep
        kept = ""
        if seconds > 0 and replaced > 0:
            kept = f"; --retain {retain} keeps {counted(replaced, 'replaced version')}"
        echo(
            f"{shown_uri(path)}: {verb} {counted(len(removed.versions), 'version')}{which} and "
            f"{counted(removed.files, 'file')}, {counted(removed.bytes, 'byte')}{kept}"
        )
    if removed.failed:
        what = counted(removed.failed, "file")
        echo(f"Error: {shown_uri(path)}: could not remove {what}, no longer needed", err=True)
    return int(removed.failed > 0)


@click.command()
@click.argument("path", type=PLACE, metavar="STORE")
@click.option("--seconds", metavar="TIME", help="Stop after this time, such as 30s or 5m.")
@click.option("--bytes", "size", metavar="SIZE",
              help="Stop after so many bytes of blocks, such as 10GB.")  # fmt: skip
@output_option("table", "json")
def warm(path: str, seconds: str | None, size: str | None, output: str) -> None:
    """Copy a store to this host, and read it into memory.

    All programs of this host use the memory and the copies. They stay as long as the system and
    the quota of the copies allow. A program prepares its own lookups with LookupStore.warm().
    """
    time = None if seconds is None else seconds_of(seconds, "--seconds")
    most = None if size is None else bytes_of(size, "--bytes")
    with open_store(path) as store:
        done = store.warm(seconds=time, bytes=most)
        nbytes = store.info().bytes
    if output == "json":
        write_json({"path": shown_uri(path), "complete": done, "bytes": nbytes})
        return
    what = "all" if done else "a limit was reached: not all"
    echo(f"{shown_uri(path)}: {what} of {counted(nbytes, 'byte')} read")


@click.command()
@click.argument("store", type=PLACE, metavar="STORE")
@click.argument("path", type=PLACE, metavar="PATH")
@version_option
@overwrite_option
@allow_empty_option
@allow_new_key_option
@retain_option
@output_option("table", "json")
def publish(
    store: str,
    path: str,
    version: int | None,
    overwrite: bool,
    allow_empty: bool,
    allow_new_key: bool,
    retain: str,
    output: str,
) -> None:
    """Copy a version of a store to another folder or URI.

    Files that PATH already has are not copied again.
    """
    before = version_files.list_names(Location(path))
    with (
        open_store(store, version=version) as opened,
        publishing.publish(
            opened,
            path,
            overwrite=overwrite,
            allow_empty=allow_empty,
            allow_new_key=allow_new_key,
            retain=seconds_of(retain, "--retain"),
        ) as published,
    ):
        current = version_files.VersionName(published.version, published.id)
        if output == "table" and before[-1:] == [current]:
            echo(f"{shown_uri(path)}: version {current.number} is already there, nothing copied")
        else:
            write_info(published, output)


def _on_duplicate(value: str) -> Any:
    rule, colon, column = value.partition(":")
    if colon and rule == "max" and column:
        return rule, column
    if value in ("error", "first", "last"):
        return value
    raise click.UsageError(f"--on-duplicate {value}: give error, first, last or max:COLUMN")
