"""``lookupstore get | scan``: rows of stores, sorted files, and columnar files as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click
import pyarrow as pa

import lookupstore
from lookupstore.cli.key_text import parse_bound, parse_keys
from lookupstore.cli.opened import only_files, only_stores, open_store_or_file
from lookupstore.cli.options import (
    columns_option,
    hex_option,
    latest_partition_option,
    names_of,
    order_option,
    output_option,
    version_option,
)
from lookupstore.cli.output import TABLE_ROWS, limited, write_rows
from lookupstore.columnar import ColumnarFiles
from lookupstore.file_search import names_files
from lookupstore.sst import Reader
from lookupstore.uris import shown_uri


@click.command()
@click.argument("path", metavar="STORE_OR_FILE")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@columns_option
@click.option("--key", metavar="A,B", help="Key columns, of Parquet or ORC files.")
@latest_partition_option
@version_option
@order_option
@hex_option
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
        opened = open_store_or_file(path, order, version)
    else:
        wanted = None if columns is None else names_of(columns)
        opened = ColumnarFiles(
            path, key=names_of(key), columns=wanted, latest_partition=latest_partition
        )
    with opened:
        if isinstance(opened, Reader):
            only_stores(columns=columns)
            stored = [_file_key(key, order, hexadecimal) for key in keys]
            values = opened.get_many(stored)
            table = pa.table({"key": pa.array(stored, pa.large_binary()), "value": values})
            table = _shown(table, order, hexadecimal)
            present = values.is_valid()
        else:
            only_files(order=order != "bytes", hex=hexadecimal)
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


@click.command()
@click.argument("path", metavar="STORE_OR_FILE")
@click.option("--start", metavar="KEY", help="First key wanted, or its first fields.")
@click.option("--stop", metavar="KEY", help="First key not wanted any more, or its first fields.")
@click.option("--prefix", metavar="KEY", help="First fields of the keys wanted, whole; of the "
              "last field of the key, its beginning will do if it is text or bytes.")  # fmt: skip
@columns_option
@click.option("--limit", type=click.IntRange(0), help=f"Most rows; a table shows {TABLE_ROWS}.")
@click.option("--reverse", is_flag=True, help="From the last key to the first.")
@version_option
@order_option
@hex_option
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
    opened = open_store_or_file(path, order, version)
    with opened:
        batches: Iterator[pa.RecordBatch]
        if isinstance(opened, Reader):
            only_stores(columns=columns)
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
