"""``lookupstore hudi update | merge``."""

from __future__ import annotations

import click

from lookupstore.cli.completion import COLUMNS
from lookupstore.cli.hudi_options import (
    ROW_WRITES,
    WriteFlags,
    dry_run_option,
    write_flags,
)
from lookupstore.cli.hudi_results import fields_of, measured, said
from lookupstore.cli.options import PLACE, names_of, output_option
from lookupstore.cli.output import write_json
from lookupstore.cli.sources import TextFlags, text_flags
from lookupstore.cli.terminal import echo
from lookupstore.hudi import HudiTable, WriteResult
from lookupstore.storage.uris import shown_uri


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.option("--set", "sets", multiple=True, required=True, metavar="COLUMN=SQL",
              help="Column and its new value in SQL, such as \"hits = hits + 1\" or "
              "\"page = 'x'\"; repeatable.")  # fmt: skip
@click.option("--where", metavar="SQL",
              help='Condition, such as "a >= 3 and b is null" (default: all rows).')  # fmt: skip
@write_flags("memory", *ROW_WRITES)
@dry_run_option
@output_option("table", "json")
def update(
    path: str,
    sets: tuple[str, ...],
    where: str | None,
    flags: WriteFlags,
    dry_run: bool,
    output: str,
) -> None:
    """Set columns of the rows that meet a condition; other columns keep their values."""
    values: dict[str, str] = {}
    for one in sets:
        name, sign, value = one.partition("=")
        if not (sign and name.strip() and value.strip()):
            raise click.UsageError(f'--set {one!r}: give COLUMN=SQL, such as "hits = hits + 1"')
        if name.strip() in values:
            raise click.UsageError(f"--set names {name.strip()!r} twice; give it one value")
        values[name.strip()] = value.strip()
    table = HudiTable.open(path)
    options = flags.options(table, "upsert")
    result = table.update(values, where=where, options=options, dry_run=dry_run)
    _show(path, result, dry_run, output, "updated")


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.argument("files", type=PLACE, nargs=-1, required=True, metavar="FILE...")
@click.option("--on", type=COLUMNS, metavar="A,B",
              help="Columns that rows are matched by: the record key, or it and the "
              "partition columns (default: partition columns count if FILE has them).")  # fmt: skip
@click.option("--when", "clauses", multiple=True, required=True, metavar="CLAUSE",
              help="What happens: 'matched then update', 'matched and SQL then delete', 'matched "
              "then update set a = target.a + source.a', 'not matched then insert', 'not matched "
              "by source then delete'; repeatable. The first that applies counts.")  # fmt: skip
@text_flags
@write_flags("memory", "index", *ROW_WRITES)
@dry_run_option
@output_option("table", "json")
def merge(
    path: str,
    files: tuple[str, ...],
    on: str | None,
    clauses: tuple[str, ...],
    text: TextFlags,
    flags: WriteFlags,
    dry_run: bool,
    output: str,
) -> None:
    """Merge the rows of files into a table, in one commit.

    In SQL, source is a row of FILE, and target the row of TABLE with the same key.
    """
    table = HudiTable.open(path)
    options = flags.options(table, "upsert")
    merging = table.merge(text.source_of(files, table.schema), None if on is None else names_of(on))
    for clause in clauses:
        merging = merging.when(clause)
    result = merging.execute(options=options, dry_run=dry_run)
    _show(path, result, dry_run, output, "changed")


def _show(path: str, result: WriteResult, dry_run: bool, output: str, verb: str) -> None:
    if output == "json":
        write_json(fields_of(result, dry_run))
        return
    changed = result.rows_inserted + result.rows_updated + result.rows_deleted
    nothing = "" if changed else f"0 rows {'would be ' if dry_run else ''}{verb}, "
    echo(f"{shown_uri(path)}: {nothing}{said(result)}")
    echo(measured(result))
