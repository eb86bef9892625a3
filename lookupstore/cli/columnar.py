"""``lookupstore publish-lookup-files | paimon-lookup-files``: lookup files of columnar files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from lookupstore.cli.completion import COLUMNS, VALUE_COLUMNS
from lookupstore.cli.options import (
    PLACE,
    columnar_duplicates_option,
    latest_partition_option,
    names_of,
    output_option,
)
from lookupstore.cli.output import write_json
from lookupstore.cli.terminal import echo
from lookupstore.columnar import ColumnarFiles
from lookupstore.columnar.files import Rule
from lookupstore.columnar.lookup_file import MODES, Mode
from lookupstore.quantities import counted
from lookupstore.sst.codec import COMPRESSIONS
from lookupstore.storage.json_text import parse_json
from lookupstore.storage.location import Location
from lookupstore.storage.small_files import read_small_file


@click.command()
@click.argument("source", type=PLACE, metavar="SOURCE")
@click.option("--key", type=COLUMNS, required=True, metavar="A,B",
              help="Key columns of the files.")  # fmt: skip
@click.option("--columns", type=VALUE_COLUMNS, metavar="A,B", help="Value columns (default: all).")
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
    what they need instead of building it. Existing lookup files are kept, unless they are
    incomplete.
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
        echo(
            f"{files.path}: {counted(written, 'lookup file')} written, "
            f"{files.num_files - written:,} already there"
        )


# Maximum size of a schema file of Paimon.
_MOST_BYTES = 16 << 20


@click.command()
@click.argument("source", type=PLACE, metavar="SOURCE")
@click.argument("folder", type=PLACE, metavar="FOLDER")
@click.option("--key", type=COLUMNS, required=True, metavar="A,B",
              help="Key columns of the files.")  # fmt: skip
@click.option(
    "--columns", type=VALUE_COLUMNS, metavar="A,B", help="Columns of values (default: all)."
)
@click.option("--mode", type=click.Choice(MODES), default="value", show_default=True,
              help="What values hold.")  # fmt: skip
@click.option("--schema", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
              help="A schema file of Paimon's: the types of all columns (default: those of the "
              "files).")  # fmt: skip
@click.option("--sequence", default="_SEQUENCE_NUMBER", show_default=True, metavar="NAME|NUMBER",
              help="Column of the sequence numbers, or one number for all rows.")  # fmt: skip
@click.option("--kind", default="_VALUE_KIND", show_default=True, metavar="NAME|NUMBER",
              help="Column of the row kinds, or one from 0 to 3 for all rows.")  # fmt: skip
@columnar_duplicates_option
@click.option("--compression", type=click.Choice(COMPRESSIONS), default="zstd", show_default=True,
              help="Codec of the files.")  # fmt: skip
@click.option("--memory", default="128MiB", show_default=True, metavar="SIZE",
              help="Memory for rows of each file; the rest is spilled to disk.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace files made of the same columnar files.")
@click.option("--threads", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N",
              help="Files built at the same time.")  # fmt: skip
@output_option("table", "json")
def paimon_lookup_files(
    source: str,
    folder: str,
    key: str,
    columns: str | None,
    mode: Mode,
    schema: str | None,
    sequence: str,
    kind: str,
    on_duplicate: Rule,
    compression: str,
    memory: str,
    overwrite: bool,
    threads: int,
    output: str,
) -> None:
    """Build the lookup files that Apache Paimon would make.

    SOURCE is a path, URI, glob or folder of Parquet or ORC files; FOLDER, a folder or URI, gets a
    lookup file for each of them, which Java Paimon opens.
    """
    types = None if schema is None else _fields_of(schema)
    with ColumnarFiles(
        source,
        key=names_of(key),
        columns=None if columns is None else names_of(columns),
        mode=mode,
        on_duplicate=on_duplicate,
        memory=memory,
    ) as files:
        names = files.write_paimon_files(
            folder,
            types=types,
            sequence=_column_or_number(sequence),
            kind=_column_or_number(kind),
            compression=compression,
            overwrite=overwrite,
            threads=threads,
        )
        location = Location(folder)
        if output == "json":
            write_json({"source": files.path, "written": [location.show(name) for name in names]})
            return
        for name in names:
            echo(location.show(name))


def _column_or_number(given: str) -> str | int:
    return int(given) if given.removeprefix("-").isdecimal() else given


def _fields_of(path: str) -> Sequence[Mapping[str, Any]]:
    """Return the fields of a schema file."""
    what = "a schema file of Paimon's"
    said = parse_json(read_small_file(path, _MOST_BYTES), path, what, most_bytes=_MOST_BYTES)
    fields = said.get("fields") if isinstance(said, dict) else None
    if not isinstance(fields, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) and "type" in one
        for one in fields
    ):
        raise click.UsageError(f"--schema {path}: no list `fields`, each with its name and type")
    return fields
