"""``lookupstore publish-lookup-files``: lookup files beside the columnar files that they are of."""

from __future__ import annotations

import click

from lookupstore.cli.options import (
    columnar_duplicates_option,
    latest_partition_option,
    names_of,
    output_option,
)
from lookupstore.cli.output import counted, write_json
from lookupstore.columnar import ColumnarFiles
from lookupstore.columnar.files import Rule
from lookupstore.columnar.lookup_file import MODES, Mode


@click.command()
@click.argument("source", metavar="SOURCE")
@click.option("--key", required=True, metavar="A,B", help="Key columns of the files.")
@click.option("--columns", metavar="A,B", help="Value columns (default: all).")
@click.option("--mode", type=click.Choice(MODES), default="value", show_default=True,
              help="What lookups return.")  # fmt: skip
@latest_partition_option
@columnar_duplicates_option
@click.option("--threads", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N",
              help="Files built at the same time.")  # fmt: skip
@output_option("table", "json")
def publish_lookup_files(
    source: str,
    key: str,
    columns: str | None,
    mode: Mode,
    latest_partition: str | None,
    on_duplicate: Rule,
    threads: int,
    output: str,
) -> None:
    """Build lookup files next to Parquet or ORC files.

    SOURCE is a path, URI, glob or folder. Hosts that look up the same key and columns download
    what they need instead of building it. Existing lookup files are kept.
    """
    with ColumnarFiles(
        source,
        key=names_of(key),
        columns=None if columns is None else names_of(columns),
        mode=mode,
        latest_partition=latest_partition,
        on_duplicate=on_duplicate,
    ) as files:
        written = files.publish(threads=threads)
        if output == "json":
            write_json({"source": files.path, "files": files.num_files, "written": written})
            return
        click.echo(
            f"{files.path}: {counted(written, 'lookup file')} written, "
            f"{files.num_files - written:,} already there"
        )
