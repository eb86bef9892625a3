"""``lookupstore hudi get | scan | changes | tag | upsert | delete`` and so on: rows and keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.cli.completion import COLUMNS
from lookupstore.cli.hudi_options import (
    ROW_WRITES,
    WriteFlags,
    dry_run_option,
    is_typed,
    write_flags,
)
from lookupstore.cli.hudi_results import failed, fields_of, measured, said, told
from lookupstore.cli.key_files import check_no_notation, check_one_of, read_keys
from lookupstore.cli.key_text import MOST_NAMED, key_texts, missing_text, parse_keys
from lookupstore.cli.options import (
    PLACE,
    as_of_option,
    filter_option,
    names_of,
    out_option,
    output_option,
    query_type_option,
)
from lookupstore.cli.output import TABLE_ROWS, check_out, write_found, write_json, write_rows
from lookupstore.cli.sources import TextFlags, check_kept, key_text_flags, text_flags
from lookupstore.cli.terminal import echo, echo_text
from lookupstore.cli.text_remedies import WIDENED
from lookupstore.errors import listed
from lookupstore.filters import Filter
from lookupstore.hudi import HudiTable, WriteResult
from lookupstore.hudi.index import INDEXES, index_of
from lookupstore.hudi.keys import paths_of
from lookupstore.hudi.meta_columns import META_COLUMNS, PARTITION_PATH
from lookupstore.hudi.write import operation_in
from lookupstore.quantities import counted
from lookupstore.storage.uris import shown_uri

# Functions that write rows, by Hudi's name of the operation.
_OPERATIONS: dict[str, Callable[..., WriteResult]] = {
    "upsert": HudiTable.upsert,
    "insert": HudiTable.insert,
    "bulk_insert": HudiTable.bulk_insert,
    "insert_overwrite": HudiTable.insert_overwrite,
    "insert_overwrite_table": HudiTable.insert_overwrite_table,
}


_keys = click.argument("keys", nargs=-1, metavar="[KEY...]")
_keys_file = click.option(
    "--keys",
    "keys_file",
    type=PLACE,
    metavar="FILE|-",
    help="Keys of a Parquet, ORC, Arrow IPC or CSV file that has the key columns, or of lines with "
    "a key each; - is standard input: an Arrow IPC stream, CSV or lines. Partition columns count, "
    "if it has them.",
)
_since = click.option(
    "--since",
    metavar="POSITION",
    help="Completion time of the last instant before the range, in tables of version 6 its request "
    "time: see 'timeline'; or the request time of a commit, a date or a time (default: from the "
    "beginning).",
)
_until = click.option(
    "--until",
    metavar="POSITION",
    help="The same of the last instant that counts (default: the latest).",
)
_columns = click.option(
    "--columns",
    type=COLUMNS,
    metavar="A,B",
    help="Columns, in this order (default: the data columns).",
)
_limit = click.option("--limit", type=click.IntRange(0), metavar="N", help="At most N rows.")
_skipping = click.option(
    "--skipping/--no-skipping",
    default=True,
    show_default=True,
    help="Whether statistics of columns may leave out files.",
)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@_keys
@_keys_file
@_columns
@filter_option(required=False)
@as_of_option
@query_type_option
@key_text_flags
@out_option
@output_option("table", "json", "csv", "tsv", "arrow")
def get(
    path: str,
    keys: tuple[str, ...],
    keys_file: str | None,
    columns: str | None,
    filters: tuple[str, ...],
    as_of: str | None,
    query_type: str,
    text: TextFlags,
    out: str | None,
    output: str,
) -> int:
    """Print the rows with these keys.

    Keys are looked for in every partition, unless --keys has partition columns. Missing keys, and
    those whose row --where leaves out, are reported on stderr, and the exit status is 1.
    'lookupstore get --help' says how to type keys.
    """
    check_one_of(keys, keys_file, text)
    check_out(out)
    check_kept(out, keys_file, path)
    table = HudiTable.open(path, query_type=query_type)
    wanted = _wanted(table, keys, keys_file, text)
    try:
        wanted = wanted.cast(pa.schema([table.schema.field(one) for one in wanted.column_names]))
    except pa.ArrowException as error:
        raise click.UsageError(f"--keys: not keys of the table: {error}") from None
    options = table.options
    if options.partition_by and set(options.partition_by) <= set(wanted.column_names):
        paths = paths_of(wanted, options).cast(pa.string())
        wanted = wanted.append_column(PARTITION_PATH, paths)
        wanted = wanted.select([*options.record_key, PARTITION_PATH])
    names = _data_columns(table.schema) if columns is None else names_of(columns)
    # Keys are compared with key columns, which may be missing in the output.
    asked = list(dict.fromkeys([*names, *wanted.column_names]))
    found = table.scan(columns=asked, filter=[*_may_be(wanted), *filters], as_of=as_of)
    rows, known = _tuples(wanted), _tuples(found.select(wanted.column_names))
    if wanted.num_columns > 1:
        are_wanted = set(rows)
        found = found.filter(pa.array([one in are_wanted for one in known], pa.bool_()))
    are_known = set(known)
    missing = [number for number, row in enumerate(rows) if row not in are_known]
    if found.num_rows or output != "table" or out is not None:
        shown = found.select(names)
        write_found(shown.schema, shown.to_batches(), output, out, limit=shown.num_rows)
    if missing:
        if keys_file is None:
            said = f"no key {missing_text(keys[one] for one in missing)}"
        else:
            first = wanted.take(missing[:MOST_NAMED]).select(options.record_key)
            said = f"{len(missing):,} of {counted(len(rows), 'key')} not found: " + missing_text(
                key_texts(first), has_more=len(missing) > MOST_NAMED
            )
        echo(f"Error: {shown_uri(path)}: {said}", err=True)
        _advise_on_commas(table, [keys[one] for one in missing] if keys_file is None else ())
    return 1 if missing else 0


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@_columns
@filter_option(required=False)
@click.option("--partition", metavar="PATH", help="Only rows of this partition (see 'files').")
@_limit
@as_of_option
@query_type_option
@_skipping
@out_option
@output_option("table", "json", "csv", "tsv", "arrow")
def scan(
    path: str,
    columns: str | None,
    filters: tuple[str, ...],
    partition: str | None,
    limit: int | None,
    as_of: str | None,
    query_type: str,
    skipping: bool,
    out: str | None,
    output: str,
) -> None:
    """Print the rows of a table, in the order of its files."""
    check_out(out)
    check_kept(out, path)
    table = HudiTable.open(path, query_type=query_type)
    known = table.schema
    names = _data_columns(known) if columns is None else names_of(columns)
    where: list[Filter] = [*filters]
    if partition is not None:
        where.append(pc.field(PARTITION_PATH) == partition)
    batches = table.scan_batches(
        columns=names, filter=where or None, as_of=as_of, skipping=skipping
    )
    write_found(pa.schema([known.field(name) for name in names]), batches, output, out, limit)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@_since
@_until
@_columns
@filter_option(required=False)
@_limit
@out_option
@output_option("table", "json", "csv", "tsv", "arrow")
def incremental(
    path: str,
    since: str | None,
    until: str | None,
    columns: str | None,
    filters: tuple[str, ...],
    limit: int | None,
    out: str | None,
    output: str,
) -> None:
    """Print the rows that changed after an instant, each in its newest state.

    Deleted rows are not among them: 'lookupstore hudi changes' has these, and what rows were.
    """
    check_out(out)
    check_kept(out, path)
    table = HudiTable.open(path)
    names = _data_columns(table.schema) if columns is None else names_of(columns)
    found = table.incremental(since, until, columns=names, filter=[*filters] or None)
    write_found(found.schema, found.to_batches(), output, out, limit)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@_since
@_until
@_columns
@click.option("--ignore", type=COLUMNS, metavar="A,B",
              help="Columns in which a change does not count.")  # fmt: skip
@_limit
@out_option
@output_option("table", "json", "csv", "tsv", "arrow")
def changes(
    path: str,
    since: str | None,
    until: str | None,
    columns: str | None,
    ignore: str | None,
    limit: int | None,
    out: str | None,
    output: str,
) -> None:
    """Print what became of each row between two instants, and what it was before."""
    check_out(out)
    check_kept(out, path)
    found = HudiTable.open(path).changes(
        since,
        until,
        columns=None if columns is None else names_of(columns),
        ignore=() if ignore is None else names_of(ignore),
    )
    write_found(found.schema, found, output, out, limit)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@_keys
@_keys_file
@click.option(
    "--index",
    metavar="NAME",
    help=f"{', '.join(INDEXES)}, or a class, package.module.Class (default: "
    "bloom, or global-bloom for keys without a partition).",
)
@click.option("--explain", is_flag=True, help="Print what each step looked at instead.")
@query_type_option
@key_text_flags
@output_option("table", "json", "csv", "tsv", "arrow")
def tag(
    path: str,
    keys: tuple[str, ...],
    keys_file: str | None,
    index: str | None,
    explain: bool,
    query_type: str,
    text: TextFlags,
    output: str,
) -> int:
    """Print the base file and row of each key.

    The columns are the key, then partition path, file id and instant of the base file, and
    the row in it, from 0. They are null for a missing key, and then the exit status is 1.
    'lookupstore get --help' says how to type keys.
    """
    if explain and output not in ("table", "json"):
        raise click.UsageError(f"--explain has no --output {output}; give table or json")
    check_one_of(keys, keys_file, text)
    table = HudiTable.open(path, query_type=query_type)
    wanted = _wanted(table, keys, keys_file, text)
    if index is None:
        is_known = set(table.options.partition_by) <= set(wanted.column_names)
        index = "bloom" if is_known else "global-bloom"
    if explain:
        funnel = table.explain_tag(wanted, index=index)
        if output == "json":
            write_json(dataclasses.asdict(funnel))
        else:
            echo_text(str(funnel))
        return 0
    tagged = table.tag(wanted, index=index)
    if output == "table":
        _write(tagged.slice(0, TABLE_ROWS), output)
        if tagged.num_rows > TABLE_ROWS:
            echo(f"first {TABLE_ROWS} keys; --output json, csv or arrow has all", err=True)
    else:
        _write(tagged, output)
    missing = pc.indices_nonzero(tagged.column("_pos").is_null())
    if len(missing):
        keys_of = tagged.select(table.options.record_key).take(missing[:MOST_NAMED])
        named = missing_text(key_texts(keys_of), has_more=len(missing) > MOST_NAMED)
        of = f"{len(missing):,} of {counted(tagged.num_rows, 'key')}"
        echo(f"Error: {shown_uri(path)}: {of} not found: {named}", err=True)
    return 1 if len(missing) else 0


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.argument("files", type=PLACE, nargs=-1, required=True, metavar="FILE...")
@click.option("--operation", type=click.Choice([*_OPERATIONS]), default="upsert", show_default=True,
              help="insert and bulk_insert do not look for existing keys; "
              "insert_overwrite and insert_overwrite_table replace whole partitions, or the whole "
              "table.")  # fmt: skip
@text_flags
@write_flags(
    "duplicates", "sort_mode", "sort_by", "on_error", "memory", "evolve", "missing", "index",
    "update_partition_path", *ROW_WRITES,
)  # fmt: skip
@dry_run_option
@output_option("table", "json")
def upsert(
    path: str,
    files: tuple[str, ...],
    operation: str,
    text: TextFlags,
    flags: WriteFlags,
    dry_run: bool,
    output: str,
) -> int:
    """Write rows: update existing keys, insert new ones.

    FILE... are files, folders, globs or URIs of Parquet, ORC, CSV, JSON lines or Arrow IPC, or -
    for the standard input. A row whose _hoodie_is_deleted is true is a deletion. If --on-error
    collect leaves out every row, the exit status is 1.
    """
    if not is_typed("operation"):
        asked = (operation_in(flags.hoodie) or operation).lower()
        operation = asked if asked in _OPERATIONS else operation
    table = HudiTable.open(path)
    options = flags.options(table, operation)
    fixed = (*table.options.record_key, *table.options.partition_by)
    click.get_current_context().meta[WIDENED] = {*table.schema.names}.difference(fixed)
    source = text.source_of(files, table.schema)
    result = _OPERATIONS[operation](table, source, options=options, dry_run=dry_run)
    if output == "json":
        write_json(fields_of(result, dry_run))
    else:
        echo(f"{shown_uri(path)}: {said(result)}")
        if result.columns_missing:
            echo(f"columns that the rows lack (--missing {options.missing}): "
                  f"{', '.join(result.columns_missing)}")  # fmt: skip
        echo(measured(result))
        for line in failed(result):
            echo(line, err=True)
    if result.rows_failed and result.rows_failed == result.rows_read:
        rows = counted(result.rows_read, "row")
        echo(f"Error: {shown_uri(path)}: none of {rows} can be written", err=True)
        return 1
    return 0


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@_keys
@_keys_file
@click.option(
    "--where",
    metavar="SQL",
    help='Rows for which this holds instead, such as "a >= 3 and b is null".',
)
@click.option("--partition", metavar="PATH", help="Only rows of this partition (see 'files').")
@key_text_flags
@write_flags("index", *ROW_WRITES)
@dry_run_option
@output_option("table", "json")
def delete(
    path: str,
    keys: tuple[str, ...],
    keys_file: str | None,
    where: str | None,
    partition: str | None,
    text: TextFlags,
    flags: WriteFlags,
    dry_run: bool,
    output: str,
) -> None:
    """Delete the rows with these keys, or those of a filter; missing keys are ignored.

    Without --partition or partition columns, or with an index for all partitions, keys are deleted
    in every partition. 'lookupstore get --help' says how to type keys.
    """
    ways = [bool(keys), keys_file is not None, where is not None].count(True)
    if partition is not None and not ways:
        raise click.UsageError(
            "--partition limits KEY..., --keys or --where; to delete a whole partition, call "
            f"HudiTable.delete_partition({partition!r}) in Python"
        )
    if ways != 1:
        raise click.UsageError("give KEY..., --keys or --where, one of them")
    if keys_file is None:
        check_no_notation(text, "no file of keys is given")
    table = HudiTable.open(path)
    options = flags.options(table, "delete")
    if where is None:
        wanted = _wanted(table, keys, keys_file, text, "--partition PATH")
        if partition is not None:
            if index_of(options.index).is_global:
                raise click.UsageError(
                    "--partition and an index for all partitions contradict each other; give one"
                )
            wanted = _in_partition(table, wanted, partition)
        result = table.delete(wanted, options=options, dry_run=dry_run)
    else:
        limits: list[Filter] = [where]
        if partition is not None:
            limits.append(pc.field(PARTITION_PATH) == partition)
        result = table.delete(where=limits, options=options, dry_run=dry_run)
    done = "would be deleted" if dry_run else "deleted"
    if output == "json":
        write_json({"deleted": result.rows_deleted, **fields_of(result, dry_run)})
    else:
        commit = "" if result.instant is None else f", {told(result.instant)}"
        asked = 0 if where is not None else result.rows_read or 0
        is_short = result.rows_deleted < asked
        read = f"{counted(asked, 'key')} read, " if is_short else ""
        echo(f"{shown_uri(path)}: {read}{counted(result.rows_deleted, 'row')} {done}{commit}")
        if is_short:
            _advise_on_commas(table, keys, "--partition PATH")


def _wanted(
    table: HudiTable,
    keys: tuple[str, ...],
    keys_file: str | None,
    text: TextFlags,
    limit: str | None = None,
) -> pa.Table:
    """Return typed keys, or the keys of a file with its partition columns.

    Args:
        table: Table that the keys belong to.
        keys: Keys as they were typed.
        keys_file: Path of a file with keys. None: the keys were typed.
        text: Options about the notation of CSV.
        limit: Option that limits typed keys to a partition, for errors. None: there is none.

    Raises:
        UsageError: If the file has only some of the partition columns.
        ValueError: If a typed key is not a key of the table.
    """
    options, known = table.options, table.schema
    key = pa.schema([known.field(one) for one in options.record_key])
    others = [one for one in options.partition_by if one not in options.record_key]
    if keys_file is None:
        try:
            return parse_keys(keys, key)
        except ValueError as error:
            if not (others and any("," in one for one in keys)):
                raise
            raise ValueError(f"{error}; {_partitions_of_keys(table, limit)}") from None
    also = [known.field(one) for one in others]
    with read_keys(keys_file, key, text, also) as found:
        missing = [one for one in others if one not in found.schema.names]
        if 0 < len(missing) < len(others):
            raise click.UsageError(
                f"--keys {shown_uri(keys_file)}: no partition column {missing[0]!r}; give all of "
                f"{listed(others)} or none"
            )
        return pa.concat_tables([found.schema.empty_table(), *found.tables])


def _partitions_of_keys(table: HudiTable, limit: str | None) -> str:
    """Return how to give the partition of a key; `limit` as for `_wanted`."""
    options = table.options
    names = listed(list(dict.fromkeys([*options.record_key, *options.partition_by])), str)
    ways = [f"--keys FILE with the columns {names}", *([] if limit is None else [limit])]
    return f"a key in the command has no partition; to name one, use {' or '.join(ways)}"


def _advise_on_commas(table: HudiTable, keys: Iterable[str], limit: str | None = None) -> None:
    """Say how to give a partition if a typed key, which was not found, seems to have one."""
    options = table.options
    if len(options.record_key) == 1 and options.partition_by and any("," in one for one in keys):
        echo(_partitions_of_keys(table, limit), err=True)


def _in_partition(table: HudiTable, keys: pa.Table, path: str) -> pa.Table:
    """Return the keys that may be in a partition, with the values of its partition columns.

    Raises:
        UsageError: If the table has no rows in the partition, or the keys name partitions.
    """
    names = [one for one in table.options.partition_by if one not in table.options.record_key]
    if set(names) & set(keys.column_names):
        raise click.UsageError("--keys has partition columns, and --partition too; give one")
    row = table.scan(columns=names, filter=pc.field(PARTITION_PATH) == path, limit=1)
    if not len(row):
        shown = shown_uri(table.location.uri)
        raise click.UsageError(
            f"--partition: no rows in {path!r}; 'lookupstore hudi files {shown}' lists partitions"
        )
    for name in names:
        values = pa.repeat(row[name][0], len(keys))
        keys = keys.append_column(row.schema.field(name), values)
    # Columns of the key may be columns of the partition, too.
    return keys.filter(pc.equal(paths_of(keys, table.options).cast(pa.string()), path))


def _data_columns(schema: pa.Schema) -> list[str]:
    return [name for name in schema.names if name not in META_COLUMNS]


def _may_be(keys: pa.Table) -> list[Filter]:
    """Return the filter of rows with these keys; of several columns, also of some others."""
    return [pc.field(name).isin(keys[name].unique()) for name in keys.column_names]


def _tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _write(rows: pa.Table, output: str) -> None:
    write_rows(rows.schema, rows.to_batches(), output)
