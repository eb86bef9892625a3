"""Options of several commands, and the conversion of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import click
from click.shell_completion import CompletionItem

from lookupstore.cli import STORAGE_OPTIONS
from lookupstore.cli.completion import COLUMNS, VALUE_COLUMNS, versions_of_store

#: Decorator that adds an option to a command.
Option: TypeAlias = "Callable[[Any], Any]"


class _Place(click.types.StringParamType):
    """A path or URI; a URI uses the storage options of the main command."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Leave it to the shell to complete the name of a file."""
        return [CompletionItem(incomplete, type="file")]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text; raise ValueError for options that the object store does not support."""
        options = None if ctx is None else ctx.meta.get(STORAGE_OPTIONS)
        if not options:
            return value
        from lookupstore.storage.storage_options import with_options

        return with_options(value, options)


PLACE = _Place()


order_option: Option = click.option(
    "--order",
    default="bytes",
    show_default=True,
    metavar="ORDER",
    help="Key order of a Paimon file, which does not store it: bytes, int8, int16, int32, int64, "
    "or, such as row(int64,bytes), that of typed keys, which are read and printed as bytes.",
)
hex_option: Option = click.option(
    "--hex",
    "hexadecimal",
    is_flag=True,
    help="Read keys of a file, and print all bytes, as hex digits.",
)


def filter_option(*, required: bool) -> Option:
    """Return the option that selects rows."""
    return click.option(
        "--filter",
        "--where",
        "filters",
        multiple=True,
        required=required,
        metavar="SQL",
        help="Only rows for which this holds, such as \"a >= 3 and b like 'x%'\"; repeatable, and "
        "all of them have to hold.",
    )


def keys_option(verb: str) -> Option:
    """Return the option for a file with keys of a store.

    Args:
        verb: Word for what is done to the keys.
    """
    return click.option(
        "--keys",
        "keys_file",
        type=PLACE,
        metavar="FILE|-",
        help=f"{verb} the keys of a Parquet, ORC, Arrow IPC or CSV file that has the key columns, "
        "or of lines with a key each; - is standard input: an Arrow IPC stream, CSV or lines.",
    )


columns_option: Option = click.option(
    "--columns", type=VALUE_COLUMNS, metavar="A,B", help="Value columns, in this order."
)
version_option: Option = click.option(
    "--version",
    type=click.IntRange(1),
    shell_complete=versions_of_store,
    metavar="N",
    help="Version of a store (default: the current one).",
)
table_version_option: Option = click.option(
    "--version",
    type=click.IntRange(0),
    shell_complete=versions_of_store,
    metavar="N",
    help="Version of a store or of a Delta table, or number of a snapshot of an Iceberg or Paimon "
    "table (default: the current one).",
)
source_version_option: Option = click.option(
    "--version",
    type=click.IntRange(0),
    metavar="N",
    help="Version of a Delta table, or number of a snapshot of an Iceberg or Paimon table, to read "
    "(default: the current one).",
)
overwrite_option: Option = click.option(
    "--overwrite", is_flag=True, help="Publish the next version of an existing store."
)
allow_empty_option: Option = click.option(
    "--allow-empty", is_flag=True, help="Let a version without rows replace one that has some."
)
allow_new_key_option: Option = click.option(
    "--allow-new-key", is_flag=True, help="Let the key have other names or types than before."
)
retain_option: Option = click.option(
    "--retain",
    default="1h",
    show_default=True,
    metavar="TIME",
    help="Keep replaced versions this long: 90s, 30m, 1h, 7d, or a number of seconds; 0 removes "
    "them at once.",
)
columnar_duplicates_option: Option = click.option(
    "--on-duplicate",
    type=click.Choice(["error", "first", "last"]),
    default="error",
    show_default=True,
    help="For columnar files: which row of a repeated key to return.",
)
latest_partition_option: Option = click.option(
    "--latest-partition",
    metavar="NAME",
    help="Read only the folder NAME=value with the greatest value.",
)
where_option: Option = click.option(
    "--where",
    metavar="SQL",
    help="For columnar files and tables: use only rows for which this is true, such as "
    "\"country = 'US'\".",
)
rows_where_option: Option = click.option(
    "--where",
    metavar="SQL",
    help="Print only rows for which this is true, such as \"country = 'US'\".",
)
key_option: Option = click.option(
    "--key", type=COLUMNS, metavar="A,B", help="Key columns of columnar files or of a Hudi table."
)
no_cache_option: Option = click.option(
    "--no-cache",
    is_flag=True,
    help="Make no lookup files of columnar files in the cache folder: read the files themselves.",
)
as_of_option: Option = click.option(
    "--as-of",
    metavar="INSTANT|TIME",
    help="Read the store or table as of this time, such as '2026-03-07 13:56:57+01:00', or as of "
    "the beginning of a date. A time without a zone is in UTC; of a Hudi table, in the zone of its "
    "instants. A Hudi table also takes an instant of 17 digits.",
)
query_type_option: Option = click.option(
    "--query-type",
    type=click.Choice(["snapshot", "read_optimized"]),
    default="snapshot",
    show_default=True,
    help="read_optimized reads only base files, without the changes in log files.",
)


out_option: Option = click.option(
    "-o",
    "--out",
    metavar="FILE",
    help="Write the rows to a file .parquet, .arrow, .feather, .csv, .tsv, .json or .jsonl "
    "instead, also .csv.gz and the like, which appears when it is complete.",
)


def output_option(*formats: str) -> Option:
    """Return ``--output``, the first of whose formats is the default."""
    return click.option(
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Output format.",
    )


def names_of(columns: str) -> list[str]:
    """Return the names of columns in a text with commas between them."""
    return [name.strip() for name in columns.split(",") if name.strip()]
