"""The command line: ``lookupstore build | get | scan | info | versions | publish | ...``.

Exit status: 0 all is well; 1 the data or the machine say no (a key is missing, a file is damaged or
of another kind, the disk is full, there is no Java); 2 what was typed has to change.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import click
import pyarrow as pa

import lookupstore
from lookupstore.cli.columnar import latest_partition, publish_lookup_files
from lookupstore.cli.hudi import hudi
from lookupstore.cli.key_text import parse_bound, parse_keys
from lookupstore.cli.options import names_of, output_option
from lookupstore.cli.output import (
    TABLE_ROWS,
    counted,
    limited,
    write_fields,
    write_json,
    write_rows,
)
from lookupstore.cli.source_errors import named_in_errors
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import CorruptionError, LookupStoreError
from lookupstore.file_search import names_files
from lookupstore.host_folder import default_folder
from lookupstore.location import shown_uri
from lookupstore.sst import Info, Reader
from lookupstore.sst.dump import dump_text, hexdump, layout, text
from lookupstore.stats import QueryStats
from lookupstore.stats import read as read_stats

ORDERS = ("bytes", "int8", "int16", "int32", "int64")
# What the person at the keyboard can put right by typing something else.
_USAGE_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
)
# Remedies that the library tells in Python.
_SPOKEN = {
    r"overwrite=True": "--overwrite",
    r"on_duplicate='first', 'last' or \('max', column\)": (
        "--on-duplicate first, last or max:COLUMN"
    ),
    r"nullable_keys=\['([^']*)'\]": r"--nullable-keys \1",
    r"order='(\w+)'": r"--order \1",
    r"evolve=True": "--evolve",
}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30,
          "KB": 10**3, "MB": 10**6, "GB": 10**9}  # fmt: skip


class Main(click.Group):
    """Run a command, and tell what goes wrong in one line and an exit status."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run and exit, as click does, but with our own words for errors."""
        options = {"prog_name": "lookupstore", **options, "standalone_mode": False}
        try:
            status = super().main(*args, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            status = _reader_has_gone()
        except OSError as error:  # what was left to write finds a full disk
            click.echo(f"Error: {_message(error)}", err=True)
            status = 1
        except click.ClickException as error:
            click.echo(f"Error: {' '.join(error.format_message().split())}{_help(error)}", err=True)
            status = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            status = 130
        _leave_nothing_to_write()
        sys.exit(status or 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; our errors become click's, after the trace if that was asked for."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except BrokenPipeError:
            return _reader_has_gone()
        except Exception as error:
            if ctx.params["debug"]:
                traceback.print_exc()
            # Arrow's ValueErrors are about data; ours are about what was typed.
            usage = isinstance(error, _USAGE_ERRORS) and not isinstance(error, pa.ArrowException)
            failure = click.UsageError if usage else click.ClickException
            raise failure(_message(error)) from error


def _reader_has_gone() -> int:
    """Write to nowhere from now on, and be content: whoever read us has seen enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _leave_nothing_to_write() -> None:
    """Keep Python from trying again, at its end, to write what could not be written."""
    try:
        sys.stdout.flush()
    except OSError:
        _reader_has_gone()


def _help(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption) and not error.option_name.startswith("--"):
        return " (put -- before keys if one begins with a minus)"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f" (see '{error.ctx.command_path} --help')"
    return ""


def _message(error: Exception) -> str:
    if isinstance(error, KeyError) and error.args:  # whose text is the repr of its argument
        return _spoken(str(error.args[0]))
    if isinstance(error, OSError) and error.strerror is not None:
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return f"{where}{error.strerror}"
    if isinstance(error, (LookupStoreError, OSError, ImportError, RuntimeError, *_USAGE_ERRORS)):
        return _spoken(str(error)) or type(error).__name__
    return f"{type(error).__name__}: {error} (run 'lookupstore --debug ...' for the trace)"


def _spoken(message: str) -> str:
    """Return a message of the library with the options of the command line for its arguments."""
    for argument, option in _SPOKEN.items():
        message = re.sub(argument, option, message)
    return message


_order = click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="bytes",
    show_default=True,
    help="Key order of a Paimon file, which does not say it.",
)
_hex = click.option(
    "--hex",
    "hexadecimal",
    is_flag=True,
    help="Keys of a file are hex digits, and all bytes shown so.",
)
_columns = click.option("--columns", metavar="A,B", help="Value columns, in this order.")
_version = click.option(
    "--version",
    type=click.IntRange(1),
    metavar="N",
    help="Version of a store; the current one if missing.",
)
_overwrite = click.option(
    "--overwrite", is_flag=True, help="Publish the next version of the store that is there."
)
_retain = click.option(
    "--retain",
    default="1h",
    show_default=True,
    metavar="TIME",
    help="How long replaced versions stay: 90s, 30m, 1h, 7d; 0 removes them at once.",
)


@click.group(
    "lookupstore",
    cls=Main,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(
    lookupstore.__version__, prog_name="lookupstore", message="%(prog)s %(version)s"
)
@click.option("--debug", is_flag=True, help="Show the trace of an error.")
@click.pass_context
def main(ctx: click.Context, debug: bool) -> None:
    """Look up keys in small sorted files, built once from columnar data.

    Exit status: 0 all is well; 1 the data or the machine say no (a key is missing, a file is
    damaged or of another kind, the disk is full); 2 what was typed has to change.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@main.command()
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
@_overwrite
@_retain
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
    rule, budget, kept_for = _on_duplicate(on_duplicate), _size(memory), _seconds(retain)
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
        _write_info(store, output)


main.add_command(publish_lookup_files)
main.add_command(hudi)


@main.command()
@click.argument("path", metavar="STORE_OR_FILE")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@_columns
@click.option("--key", metavar="A,B", help="Key columns, of Parquet or ORC files.")
@latest_partition
@_version
@_order
@_hex
@output_option("table", "json", "csv", "arrow")
def get(
    path: str,
    keys: tuple[str, ...],
    columns: str | None,
    key: str | None,
    latest_partition: str | None,
    version: int | None,
    order: str,
    hexadecimal: bool,
    output: str,
) -> int:
    """Print the rows at KEY...; a missing key is told on standard error, with exit status 1.

    A key of several fields is a line of CSV: eu,42, or '"a, b",42' for a text with a comma.
    A key of one field is its text, as it is. \\N is null. Dates and times are 2013-01-31, 05:06:07
    and 2013-01-31T05:06:07, with Z or +01:00 where the type has a zone; durations whole numbers of
    their unit; bytes text, or 0x and hex digits. Put -- before keys if one begins with a minus.

    JSON has one line for each key, null where it is missing.

    STORE_OR_FILE may also be Parquet or ORC files as they are, such as 'users/*.parquet', with
    --key.
    """
    if key is None and names_files(path):
        raise click.UsageError(f"{path} names columnar files; give --key and their key columns")
    if key is None and latest_partition is not None:
        raise click.UsageError("--latest-partition is an option of columnar files, with --key")
    opened: lookupstore.LookupStore | Reader | ColumnarFiles
    if key is None:
        opened = _open(path, order, version)
    else:
        wanted = None if columns is None else names_of(columns)
        opened = ColumnarFiles(
            path, key=names_of(key), columns=wanted, latest_partition=latest_partition
        )
    with opened:
        if isinstance(opened, Reader):
            _only_stores(columns=columns)
            stored = [_file_key(key, order, hexadecimal) for key in keys]
            values = opened.get_many(stored)
            table = pa.table({"key": pa.array(stored, pa.large_binary()), "value": values})
            table = _shown(table, order, hexadecimal)
            present = values.is_valid()
        else:
            _only_files(order=order != "bytes", hex=hexadecimal)
            typed = parse_keys(keys, opened.key_schema.schema)
            present = opened.contains(typed)
            table = opened.lookup(typed, None if columns is None else names_of(columns))
            for i, name in enumerate(typed.column_names):
                table = table.add_column(i, name, typed.column(name))
    # Slices, because Arrow filters no columns of views.
    rows = [table.slice(i, 1) if found else None for i, found in enumerate(present.to_pylist())]
    if output == "json":
        for row in rows:
            if row is not None:
                write_rows(table.schema, row.to_batches(), output)
            else:
                click.echo("null")
    elif present.true_count or output != "table":
        found_rows = (batch for row in rows if row is not None for batch in row.to_batches())
        write_rows(table.schema, found_rows, output)
    missing = [key for key, found in zip(keys, present.to_pylist(), strict=True) if not found]
    if missing:
        different = [repr(key) for key in dict.fromkeys(missing)]
        shown = ", ".join(different[:10]) + (", ..." if len(different) > 10 else "")
        click.echo(f"Error: {shown_uri(path)}: no key {shown}", err=True)
    return 1 if missing else 0


@main.command()
@click.argument("path", metavar="STORE_OR_FILE")
@click.option("--start", metavar="KEY", help="First key wanted, or its first fields.")
@click.option("--stop", metavar="KEY", help="First key not wanted any more, or its first fields.")
@click.option("--prefix", metavar="KEY", help="First fields of the keys wanted, whole; of the "
              "last field of the key, its beginning will do if it is text or bytes.")  # fmt: skip
@_columns
@click.option("--limit", type=click.IntRange(0), help=f"Most rows; a table shows {TABLE_ROWS}.")
@click.option("--reverse", is_flag=True, help="From the last key to the first.")
@_version
@_order
@_hex
@output_option("table", "json", "csv", "arrow")
def scan(
    path: str,
    start: str | None,
    stop: str | None,
    prefix: str | None,
    columns: str | None,
    limit: int | None,
    reverse: bool,
    version: int | None,
    order: str,
    hexadecimal: bool,
    output: str,
) -> None:
    """Print rows in key order; 'lookupstore get --help' says how keys are typed."""
    bounds = {"start": start, "stop": stop, "prefix": prefix}
    given = {name: value for name, value in bounds.items() if value is not None}
    opened = _open(path, order, version)
    with opened:
        batches: Iterator[pa.RecordBatch]
        if isinstance(opened, Reader):
            _only_stores(columns=columns)
            raw = opened.scan(
                **{name: _file_key(key, order, hexadecimal) for name, key in given.items()},
                reverse=reverse,
            )
            batches = (_shown(batch, order, hexadecimal) for batch in raw)
            schema = _shown(
                pa.table({"key": pa.array([], pa.large_binary()),
                          "value": pa.array([], pa.large_binary())}),
                order, hexadecimal,
            ).schema  # fmt: skip
        else:
            _only_files(order=order != "bytes", hex=hexadecimal)
            reader = opened.scan(
                **{name: parse_bound(key, opened.key_schema.schema) for name, key in given.items()},
                columns=None if columns is None else names_of(columns),
                reverse=reverse,
            )
            batches, schema = iter(reader), reader.schema
        if output == "table" and limit is None:
            # One row more than is shown tells whether there are more.
            rows = pa.Table.from_batches(limited(batches, TABLE_ROWS + 1), schema)
            write_rows(schema, rows.slice(0, TABLE_ROWS).to_batches(), output)
            if rows.num_rows > TABLE_ROWS:
                click.echo(f"first {TABLE_ROWS} rows; --limit N shows more", err=True)
        else:
            write_rows(schema, limited(batches, limit), output)


@main.command()
@click.argument("path", metavar="STORE_OR_FILE")
@_version
@_order
@output_option("table", "json")
def info(path: str, version: int | None, order: str, output: str) -> None:
    """Print what a store or file says of itself."""
    opened = _open(path, order, version)
    with opened:
        _write_info(opened, output)


@main.command()
@click.argument("path", metavar="FILE")
@click.option("--records", is_flag=True, help="Show every record, too.")
@click.option("--hex", "hexadecimal", is_flag=True, help="Show every byte and its meaning instead.")
@_order
@output_option("table", "json")
def dump(path: str, records: bool, hexadecimal: bool, order: str, output: str) -> int:
    """Print every region of one sorted file, checked, as far as a damaged one leads."""
    if os.path.isdir(path):
        with lookupstore.open(path):
            raise click.UsageError(f"{path} is a store; give one of the files in its data folder")
    found = layout(path, order, records=records or hexadecimal)
    if output == "json":
        write_json(found.to_json())
    else:
        for line in (hexdump if hexadecimal else dump_text)(found).splitlines():
            click.secho(line, fg="red" if line.lstrip().startswith("!") else None)
    if not found.ok:
        where = next(region for region in found.regions if region.errors)
        click.echo(
            f"Error: {found.path}: damaged, first at offset {where.offset} ({where.name})", err=True
        )
    return 0 if found.ok else 1


@main.command()
@click.argument("path", metavar="STORE_OR_FILE")
@_version
@_order
@output_option("table", "json")
def verify(path: str, version: int | None, order: str, output: str) -> None:
    """Read every byte of a store or file and check it."""
    try:
        with _open(path, order, version) as opened:
            checked = opened.verify()
    except LookupStoreError as error:
        if output == "json":
            write_json(
                {"ok": False, "path": shown_uri(path), "error": _message(error), **_place(error)}
            )
        raise
    if output == "json":
        write_json({"ok": True, **checked.to_json()})
    elif isinstance(checked, Info):
        click.echo(
            f"ok: {path}: {counted(checked.num_records or 0, 'record')} in "
            f"{counted(checked.data_blocks, 'block')}, {counted(checked.file_bytes, 'byte')}"
        )
    else:
        click.echo(
            f"ok: {shown_uri(path)}: {counted(checked.num_rows, 'row')} in "
            f"{counted(checked.files, 'file')}, {counted(checked.bytes, 'byte')}"
        )
        for name in checked.stray:
            click.echo(f"{shown_uri(path)}: {name} is no part of the store", err=True)


@main.command()
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


@main.command()
@click.argument("path", metavar="STORE")
@_retain
@click.option("--keep", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="How many of the newest versions stay in any case.")  # fmt: skip
@output_option("table", "json")
def expire(path: str, retain: str, keep: int, output: str) -> None:
    """Remove versions that were replaced long enough ago, and leftovers of killed builds."""
    removed = lookupstore.expire(path, retain=_seconds(retain), keep=keep)
    if output == "json":
        write_json(removed.to_json())
        return
    click.echo(
        f"{shown_uri(path)}: removed {counted(len(removed.versions), 'version')} and "
        f"{counted(removed.files, 'file')}, {counted(removed.bytes, 'byte')}"
    )


@main.command()
@click.argument("store", metavar="STORE")
@click.argument("path", metavar="PATH")
@_version
@_overwrite
@_retain
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
            opened, path, overwrite=overwrite, retain=_seconds(retain)
        ) as published,
    ):
        _write_info(published, output)


@main.command()
@click.option("--store", metavar="PATH", help="Only lookups in this store, a folder or URI.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N",
              help="Most queries, the last ones.")  # fmt: skip
@click.option("--cache", metavar="FOLDER", help="Cache folder of the host; as processes that look "
              "up find it if missing: $LOOKUPSTORE_CACHE, or lookupstore in ~/.cache.")  # fmt: skip
@output_option("table", "json")
def stats(store: str | None, limit: int, cache: str | None, output: str) -> None:
    """Show what lookup joins did on this host in the last week, query by query.

    The cache hit rate is the share of keys looked for in a block for which the block did not have
    to be read first; bytes fetched came from remote storage.
    """
    folder = default_folder() if cache is None else cache
    if cache is not None and not os.path.isdir(cache):
        raise click.UsageError(f"--cache {cache}: no such folder")
    wanted = None if store is None else lookupstore.Location(store).uri
    found = read_stats(folder, limit, wanted)
    if output == "json":
        write_json([one.to_json() for one in found])
        return
    if not found:
        click.echo(f"{folder}: no lookups in the last week", err=True)
        return
    table = pa.Table.from_pylist([_stats_row(one) for one in found])
    write_rows(table.schema, table.to_batches(), output)


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


@main.command()
@click.option("--spark/--no-spark", default=True, help="Build and join in Spark, or without Java.")
@click.option("--folder", default="lookupstore-demo", show_default=True, metavar="DIR",
              help="Where data and stores go.")  # fmt: skip
def demo(spark: bool, folder: str) -> int:
    """Enrich 336,776 real flights by three lookup joins, and check every row another way."""
    from lookupstore.demo import run

    return 0 if run(folder, spark=spark) else 1


def _open(path: str, order: str, version: int | None) -> lookupstore.LookupStore | Reader:
    if os.path.isdir(path) or "://" in path:
        return lookupstore.open(path, version=version)
    _only_stores(version=version)
    return Reader(path, order=order)


def _place(error: LookupStoreError) -> dict[str, object]:
    if not isinstance(error, CorruptionError):
        return {}
    return {
        "file": error.path,
        "offset": error.offset,
        "expected": error.expected,
        "found": error.found,
    }


def _write_info(opened: lookupstore.LookupStore | Reader, output: str) -> None:
    found = opened.info if isinstance(opened, Reader) else opened.info()
    if output == "json":
        write_json(found.to_json())
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
    shown = {name: value for name, value in fields.items() if name != "path" and value != ""}
    write_fields(found.path, shown)


def _file_key(key: str, order: str, hexadecimal: bool) -> bytes:
    """Return a key of a file: text, 0x and hex digits, or a number where the order has numbers."""
    if hexadecimal:
        try:
            return bytes.fromhex(key.removeprefix("0x"))
        except ValueError:
            raise ValueError(f"key {key!r} is not in hex digits, as --hex says") from None
    if order == "bytes":
        if not key.startswith("0x"):
            return os.fsencode(key)
        try:
            return bytes.fromhex(key[2:])
        except ValueError:
            raise ValueError(
                f"key {key!r} begins with 0x but is not in hex digits; text that begins so is "
                f"0x{os.fsencode(key).hex()}"
            ) from None
    size = int(order.removeprefix("int")) // 8
    try:
        return int(key).to_bytes(size, "little", signed=True)
    except (ValueError, OverflowError):
        raise ValueError(f"key {key!r} is no number of {8 * size} bits, as --order says") from None


def _shown(rows: Any, order: str, hexadecimal: bool) -> Any:
    """Return rows of a file with keys as numbers if they are, and all bytes in hex if asked."""
    key, value = rows.column(0), rows.column(1)
    if hexadecimal:
        key, value = (
            pa.array(
                [None if one is None else one.hex() for one in column.to_pylist()], pa.string()
            )
            for column in (key, value)
        )
    elif order != "bytes":
        size = int(order.removeprefix("int")) // 8
        stored = key.combine_chunks() if isinstance(key, pa.ChunkedArray) else key
        numbers = b"".join(stored.cast(pa.binary(size)).to_pylist())
        key = pa.Array.from_buffers(
            pa.type_for_alias(order), len(key), [None, pa.py_buffer(numbers)]
        )
    return type(rows).from_arrays([key, value], names=["key", "value"])


def _only_stores(**given: object) -> None:
    _refuse("a store, not of a file", given)


def _only_files(**given: object) -> None:
    _refuse("a file, not of a store (where bytes in a key are typed as 0x and hex digits)", given)


def _refuse(of: str, given: dict[str, object]) -> None:
    for name, value in given.items():
        if value:
            raise click.UsageError(f"--{name} is an option of {of}")


def _on_duplicate(value: str) -> Any:
    rule, colon, column = value.partition(":")
    if colon and rule == "max" and column:
        return rule, column
    if value in ("error", "first", "last"):
        return value
    raise click.UsageError(f"--on-duplicate {value}: give error, first, last or max:COLUMN")


def _seconds(value: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", value.strip())
    if match is None:
        raise click.UsageError(f"--retain {value}: give seconds, or a time such as 30m, 1h or 7d")
    return float(match[1]) * _SECONDS[match[2]]


def _size(value: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", value.strip())
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise click.UsageError(f"--memory {value}: give bytes, or a size such as 512MiB or 2GB")
    return int(float(match[1]) * unit)
