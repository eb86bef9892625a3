"""``lookupstore get | scan``: rows of stores, sorted files, and columnar files as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from lookupstore.cli.key_text import parse_beginning, parse_bound, parse_keys
from lookupstore.cli.opened import (
    lookups_options,
    only_files,
    only_stores,
    open_lookups,
    refuse_table,
)
from lookupstore.cli.options import (
    columns_option,
    hex_option,
    names_of,
    output_option,
)
from lookupstore.cli.output import TABLE_ROWS, write_first_rows, write_rows
from lookupstore.columnar.files import Rule
from lookupstore.sst import Reader
from lookupstore.storage.uris import shown_uri

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("path", metavar="STORE_OR_FILE")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@columns_option
@lookups_options
@hex_option
@output_option("table", "json", "csv", "arrow")
def get(
    path: str,
    keys: tuple[str, ...],
    columns: str | None,
    key: str | None,
    latest_partition: str | None,
    on_duplicate: Rule,
    version: int | None,
    order: str,
    hexadecimal: bool,
    output: str,
) -> int:
    """Print the rows with the given keys.

    Missing keys are reported on stderr, and the exit status is 1.

    A key of several fields is a line of CSV: eu,42, or '"a, b",42' for a text with a comma. A key
    of one field is its plain text. \\N is null. Dates and times are 2013-01-31, 05:06:07 and
    2013-01-31T05:06:07, with Z or +01:00 where the type has a time zone; durations are whole
    numbers of their unit; bytes are text, or 0x and hex digits. Put -- before keys that begin with
    a minus.

    JSON has one line per key, null where it is missing.

    STORE_OR_FILE may also be Parquet or ORC files as they are, such as 'users/*.parquet', with
    --key; or a Hudi table, whose record key is the key if --key is missing.
    """
    wanted = None if columns is None else names_of(columns)
    opened = open_lookups(
        path,
        wanted,
        key=key,
        latest_partition=latest_partition,
        on_duplicate=on_duplicate,
        version=version,
        order=order,
    )
    with opened:
        if isinstance(opened, Reader):
            only_stores(columns=columns)
            stored = [_file_key(key, order, hexadecimal) for key in keys]
            values = opened.lookup(stored)
            table = pa.table({"key": pa.array(stored, pa.large_binary()), "value": values})
            table = _shown(table, order, hexadecimal)
            present = values.is_valid()
        else:
            only_files(order=order != "bytes", hex=hexadecimal)
            typed = parse_keys(keys, opened.key_schema.schema)
            present = opened.contains(typed)
            table = opened.lookup(typed, wanted)
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


@click.command()
@click.argument("path", metavar="STORE_OR_FILE")
@click.option("--start", metavar="KEY", help="Start at this key, or at its first fields.")
@click.option("--stop", metavar="KEY", help="Stop before this key, or before its first fields.")
@click.option("--prefix", metavar="KEY", help="Whole values of the first key fields.")
@click.option("--starts-with", metavar="TEXT", help="Beginning of the key field after those of "
              "--prefix, else of the first field; for a file, of its keys.")  # fmt: skip
@columns_option
@click.option(
    "--limit",
    type=click.IntRange(0),
    help=f"Print at most this many rows; a table shows {TABLE_ROWS}.",
)
@click.option("--reverse", is_flag=True, help="From the last key to the first.")
@lookups_options
@hex_option
@output_option("table", "json", "csv", "arrow")
def scan(
    path: str,
    start: str | None,
    stop: str | None,
    prefix: str | None,
    starts_with: str | None,
    columns: str | None,
    limit: int | None,
    reverse: bool,
    key: str | None,
    latest_partition: str | None,
    on_duplicate: Rule,
    version: int | None,
    order: str,
    hexadecimal: bool,
    output: str,
) -> None:
    """Print rows in key order.

    'lookupstore get --help' says how to type keys, and what STORE_OR_FILE may be.
    """
    bounds = {"start": start, "stop": stop, "prefix": prefix}
    given = {name: value for name, value in bounds.items() if value is not None}
    refuse_table(path, key, "scan")
    wanted = None if columns is None else names_of(columns)
    opened = open_lookups(
        path,
        wanted,
        key=key,
        latest_partition=latest_partition,
        on_duplicate=on_duplicate,
        version=version,
        order=order,
    )
    with opened:
        batches: Iterator[pa.RecordBatch]
        if isinstance(opened, Reader):
            if prefix is not None:
                raise click.UsageError(
                    "--prefix is an option of a store, whose keys have fields; of a file give "
                    "--starts-with"
                )
            only_stores(columns=columns)
            given |= {} if starts_with is None else {"starts_with": starts_with}
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
            only_files(order=order != "bytes", hex=hexadecimal)
            reader = opened.scan(
                **{name: parse_bound(key, opened.key_schema.schema) for name, key in given.items()},
                starts_with=_beginning(starts_with, prefix, opened.key_schema.schema),
                columns=wanted,
                reverse=reverse,
            )
            batches, schema = iter(reader), reader.schema
        write_first_rows(schema, batches, output, limit)


def _beginning(text: str | None, prefix: str | None, schema: pa.Schema) -> str | bytes | None:
    """Return what a key field begins with: text, or bytes for the field that has them."""
    if text is None:
        return None
    place = 0 if prefix is None else len(parse_bound(prefix, schema))
    # Where there is no such field, the scan says so.
    return parse_beginning(text, schema.field(place)) if place < len(schema) else text


def _file_key(key: str, order: str, hexadecimal: bool) -> bytes:
    """Return a key of a file: text, 0x and hex digits, or a number where the order has numbers."""
    if hexadecimal:
        try:
            return bytes.fromhex(key.removeprefix("0x"))
        except ValueError:
            raise ValueError(f"key {key!r} is not in hex digits, which --hex asks for") from None
    if order == "bytes":
        if not key.startswith("0x"):
            return os.fsencode(key)
        try:
            return bytes.fromhex(key[2:])
        except ValueError:
            raise ValueError(
                f"key {key!r} begins with 0x but is not in hex digits; text that starts with 0x is "
                f"0x{os.fsencode(key).hex()}"
            ) from None
    size = int(order.removeprefix("int")) // 8
    try:
        return int(key).to_bytes(size, "little", signed=True)
    except (ValueError, OverflowError):
        raise ValueError(
            f"key {key!r} is not a number of {8 * size} bits, which --order asks for"
        ) from None


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
