"""``lookupstore size``: the disk and memory that a store will need."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.table import Table

from lookupstore.builder.size import store_size
from lookupstore.cli.options import output_option
from lookupstore.cli.output import OutputConsole, write_json
from lookupstore.quantities import counted, number_text, size_text


@click.command()
@click.option("--rows", type=click.IntRange(0), required=True, metavar="N", help="Number of rows.")
@click.option("--key", "key_bytes", type=click.IntRange(0), required=True, metavar="BYTES",
              help="Bytes of a key, such as 8 for one bigint.")  # fmt: skip
@click.option("--values", "value_bytes", type=click.IntRange(0), required=True, metavar="BYTES",
              help="Bytes of the values of a row. Add 4 for each text, binary value or "
              "list.")  # fmt: skip
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="Number of processes on each host that look up keys.")  # fmt: skip
@output_option("table", "json")
def size(rows: int, key_bytes: int, value_bytes: int, processes: int, output: str) -> None:
    """Estimate the disk and memory that a store needs.

    The estimate assumes default options, except that files are not compressed. A store at a URI is
    compressed with zstd by default: its files are smaller, but each host keeps uncompressed copies
    of the estimated size.
    """
    found = store_size(rows, key_bytes, value_bytes)
    if output == "json":
        write_json(asdict(found))
        return
    table = Table()
    for header in ("what", "size", "where"):
        table.add_column(header, overflow="fold", justify="right" if header == "size" else "left")
    each = f"{found.row_bytes:.1f} bytes per row"
    table.add_row("data files", size_text(found.data_bytes), f"with the store: {each}, "
                  f"{counted(found.buckets, 'bucket')}")  # fmt: skip
    table.add_row("local copies", size_text(found.data_bytes), "disk of each host, for a store at "
                  "a URI, if it looks up in all buckets")  # fmt: skip
    table.add_row("tables of places", size_text(found.table_bytes), "disk and memory of each host")
    table.add_row("processes", size_text(processes * found.process_bytes),
                  f"memory of each host, for all processes: {number_text(processes)}")  # fmt: skip
    OutputConsole().print(table)
