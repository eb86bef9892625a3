"""A join on the command line: columns of a store next to those of files."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click
import pyarrow as pa

from lookupstore.cli.completion import FACT_COLUMNS
from lookupstore.cli.json_text import json_lines
from lookupstore.cli.opened import lookups_options, naming_no_cache, only_files, open_lookups
from lookupstore.cli.options import (
    PLACE,
    columns_option,
    names_of,
    no_cache_option,
    out_option,
    output_option,
)
from lookupstore.cli.output import check_out, write_file, write_first_rows
from lookupstore.cli.sources import TextFlags, check_kept, text_flags
from lookupstore.cli.text_remedies import KEYS
from lookupstore.keys.joins import HOWS, How, check_adds_nothing
from lookupstore.progress import watched
from lookupstore.source.opening import in_types, with_every_column
from lookupstore.sst import Reader
from lookupstore.storage.uris import shown_uri


@click.command()
@click.argument("facts", type=PLACE, metavar="FACTS")
@click.argument("path", type=PLACE, metavar="STORE")
@click.option("--on", type=FACT_COLUMNS, required=True, multiple=True, metavar="A,B=KEY",
              help="Columns of FACTS that hold the key; A=KEY where the names differ; repeatable.",
              )  # fmt: skip
@click.option("--how", type=click.Choice(HOWS), default="left", show_default=True,
              help="left keeps every row, inner and semi those whose key is found, anti the "
              "others; semi and anti append no columns.")  # fmt: skip
@columns_option
@click.option("--prefix", metavar="TEXT", help="What the names of appended columns begin with.")
@click.option("--found", metavar="NAME", help="Append a column that says which keys were found.")
@lookups_options
@no_cache_option
@text_flags
@out_option
@output_option("table", "json", "csv", "tsv", "arrow")
@click.pass_context
def join(
    ctx: click.Context,
    /,
    facts: str,
    path: str,
    on: tuple[str, ...],
    how: How,
    columns: str | None,
    prefix: str | None,
    found: str | None,
    text: TextFlags,
    out: str | None,
    output: str,
    **what: Any,
) -> None:
    """Append the columns of a store to the rows of Parquet or ORC files.

    FACTS may also be CSV, JSON lines or Arrow IPC, or - for one of these on standard input. Rows
    keep their order, and may repeat keys; a null matches nothing. STORE may also be Parquet or
    ORC files as they are, with --key, or a Hudi table.
    """
    check_out(out)
    check_kept(out, facts, path)
    try:
        check_adds_nothing(how, **{"--columns": columns, "--prefix": prefix, "--found": found})
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    wanted = None if columns is None else names_of(columns)
    with open_lookups(path, wanted, **what) as opened, naming_no_cache(opened):
        if isinstance(opened, Reader):
            raise click.UsageError(
                f"{shown_uri(path)} is a sorted file, which has no columns; join with a store"
            )
        only_files(order=what["order"] != "bytes")
        pairs = _pairs(",".join(on))
        keys = [(fact, opened.schema.field(name).type) for fact, name in pairs.items()
                if name in opened.key]  # fmt: skip
        ctx.meta[KEYS] = {fact for fact, _ in keys}
        known = pa.schema(keys)
        source = in_types(with_every_column(text.source_of([facts], known)), known)
        rows = pa.RecordBatchReader.from_batches(source.schema, source.batches(source.schema.names))
        joined = opened.join(rows, pairs, how, wanted, prefix=prefix, found=found)
        if out is None:
            # The keys, and the appended columns.
            telling = {*pairs, *joined.schema.names[len(source.schema) :]}
            write_first_rows(joined.schema, joined, output, None, "-o FILE writes all", telling)
        else:
            total = source.count_rows if how == "left" else None
            with closing(watched(joined, "Joining", total)) as written:
                lines = (json_lines(batch) for batch in written)
                write_file(out, joined.schema, written, lines)


def _pairs(on: str) -> dict[str, str]:
    """Return the key column of each fact column.

    Raises:
        UsageError: If a fact column is given twice.

    >>> _pairs("plane=tailnum, day")
    {'plane': 'tailnum', 'day': 'day'}
    """
    pairs: dict[str, str] = {}
    for name in names_of(on):
        fact, equals, key = (part.strip() for part in name.partition("="))
        if fact in pairs:
            raise click.UsageError(f"--on: the column {fact!r} is given twice")
        pairs[fact] = key if equals else fact
    return pairs
