"""``lookupstore get | scan``: rows of stores, sorted files, and columnar files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.cli.answers import LookupResult, stored_keys
from lookupstore.cli.conditions import scanned
from lookupstore.cli.key_files import Keys, check_one_of, read_keys
from lookupstore.cli.key_text import (
    key_texts,
    missing_text,
    parse_beginning,
    parse_bound,
    parse_keys,
)
from lookupstore.cli.opened import (
    Opened,
    lookups_options,
    naming_no_cache,
    only_files,
    only_stores,
    open_lookups,
)
from lookupstore.cli.options import (
    PLACE,
    columns_option,
    hex_option,
    keys_option,
    names_of,
    no_cache_option,
    out_option,
    output_option,
    rows_where_option,
)
from lookupstore.cli.output import (
    TABLE_ROWS,
    check_out,
    write_file,
    write_first_rows,
    write_found,
    write_rows,
    write_text,
)
from lookupstore.cli.sources import TextFlags, check_kept, key_text_flags
from lookupstore.cli.terminal import echo
from lookupstore.progress import watched
from lookupstore.quantities import counted
from lookupstore.sst import Reader
from lookupstore.storage.uris import shown_uri
from lookupstore.store.path_kind import PathKind, kind_of
from lookupstore.store.store import LookupStore


@click.command()
@click.argument("path", type=PLACE, metavar="STORE_OR_FILE")
@click.argument("keys", nargs=-1, metavar="[KEY...]")
@keys_option("Look up")
@columns_option
@lookups_options
@no_cache_option
@hex_option
@key_text_flags
@out_option
@output_option("table", "json", "csv", "tsv", "arrow")
def get(
    path: str,
    keys: tuple[str, ...],
    keys_file: str | None,
    columns: str | None,
    hexadecimal: bool,
    text: TextFlags,
    out: str | None,
    output: str,
    **what: Any,
) -> int:
    """Print the rows with the given keys, in their order.

    Missing keys are reported on stderr, and the exit status is 1.

    A key of several fields is a line of CSV: eu,42, or '"a, b",42' for a text with a comma. A key
    of one field is its plain text. \\N is null. Dates and times are 2013-01-31, 05:06:07 and
    2013-01-31T05:06:07, with Z or +01:00 where the type has a time zone; durations are whole
    numbers of their unit; bytes are text, or 0x and hex digits; UUIDs are hex digits with or
    without dashes. Put -- before keys that begin with a minus.

    JSON has one line per key, null where it is missing.

    STORE_OR_FILE may also be Parquet or ORC files as they are, such as 'users/*.parquet', with
    --key; or a Hudi table, whose record key is the key if --key is missing.
    """
    check_one_of(keys, keys_file, text)
    check_out(out)
    check_kept(out, keys_file, path)
    wanted = None if columns is None else names_of(columns)
    order: str = what["order"]
    with open_lookups(path, wanted, **what) as opened:
        if isinstance(opened, Reader):
            only_stores(columns=columns)
            if hexadecimal and keys_file is not None:
                raise click.UsageError(
                    "--hex is for keys that are typed; those of --keys are bytes, or 0x and hex "
                    "digits"
                )
        else:
            only_files(order=order != "bytes", hex=hexadecimal)
        given = _keys(opened, keys, keys_file, text, order, hexadecimal)
        with given as asked, naming_no_cache(opened), ExitStack() as stack:
            if out is not None:
                tables = stack.enter_context(closing(watched(asked.tables, "Looking up")))
                asked = replace(asked, tables=tables)
            answers = LookupResult(opened, asked, wanted)
            shown = _as_shown(opened, order, hexadecimal)
            _write_answers(answers, shown, output, out, is_typed=keys_file is None)
    if not answers.num_missing:
        return 0
    if keys_file is None:
        said = f"no key {missing_text(keys[i] for i in answers.missing)}"
        if len(asked.schema) == 1 and any("," in keys[i] for i in answers.missing):
            said += "; separate keys by spaces, not commas"
    else:
        first = shown(answers.first_missing).select(asked.schema.names)
        said = (
            f"{answers.num_missing:,} of {counted(answers.asked, 'key')} not found: "
            + missing_text(key_texts(first), has_more=answers.num_missing > first.num_rows)
        )
    echo(f"Error: {shown_uri(path)}: {said}", err=True)
    return 1


@contextmanager
def _keys(
    opened: Opened,
    typed: Sequence[str],
    file: str | None,
    text: TextFlags,
    order: str,
    hexadecimal: bool,
) -> Iterator[Keys]:
    """Yield typed keys, or the keys of a file."""
    if isinstance(opened, Reader):
        kind = pa.type_for_alias(order) if _has_numbers(order) else pa.large_binary()
        key = pa.schema([("key", kind)])
    else:
        key = opened.key_schema.schema
    if file is not None:
        with read_keys(file, key, text) as keys:
            yield stored_keys(keys) if isinstance(opened, Reader) else keys
    elif isinstance(opened, Reader):
        stored = pa.array([_file_key(one, order, hexadecimal) for one in typed], pa.large_binary())
        table = pa.table({"key": stored})
        yield Keys(table.schema, [table])
    else:
        table = parse_keys(typed, key)
        yield Keys(table.schema, [table])


def _as_shown(opened: Opened, order: str, hexadecimal: bool) -> Callable[[Any], Any]:
    """Return the function that prepares rows for printing."""
    if not isinstance(opened, Reader):
        return lambda rows: rows
    return lambda rows: _shown(rows, order, hexadecimal)


def _write_answers(
    answers: LookupResult,
    shown: Callable[[Any], Any],
    output: str,
    out: str | None,
    *,
    is_typed: bool,
) -> None:
    """Write rows to a file, or print them: all rows of typed keys, even in a table."""
    schema = shown(answers.schema.empty_table()).schema
    batches = (batch for rows in answers.rows() for batch in shown(rows).to_batches())
    if out is not None:
        write_file(out, schema, batches, answers.lines(shown))
    elif output == "json":
        write_text(answers.lines(shown))
    else:
        first = next(batches, None)  # an error of the first keys leaves the output empty
        rows = batches if first is None else chain([first], batches)
        if output != "table":
            write_rows(schema, rows, output)
        elif first is not None:
            most = answers.asked if is_typed else None
            write_first_rows(schema, rows, output, most, "-o FILE or --output csv writes all")


@click.command()
@click.argument("path", type=PLACE, metavar="STORE_OR_FILE")
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
@partial(lookups_options, where=rows_where_option)
@hex_option
@out_option
@output_option("table", "json", "csv", "tsv", "arrow")
def scan(
    path: str,
    start: str | None,
    stop: str | None,
    prefix: str | None,
    starts_with: str | None,
    columns: str | None,
    limit: int | None,
    reverse: bool,
    hexadecimal: bool,
    out: str | None,
    output: str,
    **what: Any,
) -> None:
    """Print rows in key order.

    'lookupstore get --help' says how to type keys, and what STORE_OR_FILE may be.
    """
    check_out(out)
    check_kept(out, path)
    bounds = {"start": start, "stop": stop, "prefix": prefix}
    given = {name: value for name, value in bounds.items() if value is not None}
    kind = kind_of(path) if what["key"] is None else None
    if kind is PathKind.HUDI_TABLE:
        shown = shown_uri(path)
        raise click.UsageError(f"{shown} is a Hudi table; run 'lookupstore hudi scan {shown}'")
    wanted = None if columns is None else names_of(columns)
    order: str = what["order"]
    where = None
    if kind is PathKind.STORE:
        where, what["where"] = what["where"], None
    with open_lookups(path, wanted, **what) as opened:
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
            keys = opened.key_schema.schema
            bounded: dict[str, Any] = {
                **{name: parse_bound(key, keys) for name, key in given.items()},
                "starts_with": _beginning(starts_with, prefix, keys),
                "reverse": reverse,
            }
            if isinstance(opened, LookupStore):
                schema, batches = scanned(opened, where, wanted, **bounded)
            else:
                reader = opened.scan(columns=wanted, **bounded)
                batches, schema = iter(reader), reader.schema
        write_found(schema, batches, output, out, limit)


def _beginning(text: str | None, prefix: str | None, schema: pa.Schema) -> str | bytes | None:
    """Return the prefix of a key field: text, or bytes for a field of bytes."""
    if text is None:
        return None
    place = 0 if prefix is None else len(parse_bound(prefix, schema))
    # If there is no such field, the scan raises the error.
    return parse_beginning(text, schema.field(place)) if place < len(schema) else text


def _has_numbers(order: str) -> bool:
    """Return whether keys in an order are numbers, and not bytes."""
    return order.startswith("int")


def _file_key(key: str, order: str, hexadecimal: bool) -> bytes:
    """Return a key of a file: text, 0x and hex digits, or a number for an order of numbers."""
    if hexadecimal:
        try:
            return bytes.fromhex(key.removeprefix("0x"))
        except ValueError:
            raise ValueError(f"key {key!r} is not in hex digits, which --hex asks for") from None
    if not _has_numbers(order):
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
    """Return rows of a file with numeric keys as numbers, and all bytes in hex if requested."""
    key, value = rows.column(0), rows.column(1)
    if hexadecimal:
        key, value = (
            pa.array(
                [None if one is None else one.hex() for one in column.to_pylist()], pa.string()
            )
            for column in (key, value)
        )
    elif _has_numbers(order):
        size = int(order.removeprefix("int")) // 8
        stored = key.combine_chunks() if isinstance(key, pa.ChunkedArray) else key
        whole = stored.fill_null(bytes(size))  # a null has no row
        numbers = b"".join(whole.cast(pa.binary(size)).to_pylist())
        key = pa.Array.from_buffers(
            pa.type_for_alias(order), len(key), [None, pa.py_buffer(numbers)]
        )
        key = pc.if_else(stored.is_valid(), key, pa.scalar(None, key.type))
    return type(rows).from_arrays([key, value], names=["key", "value"])
