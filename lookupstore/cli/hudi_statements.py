"""``lookupstore hudi update | merge``."""

from __future__ import annotations

import click

from lookupstore.cli.hudi_options import (
    dry_run_option,
    hoodie_option,
    index_option,
    metadata_option,
    retries_option,
    services_options,
    write_options,
)
from lookupstore.cli.hudi_results import fields_of, measured, said
from lookupstore.cli.options import PLACE, lock_option, max_text_option, names_of, output_option
from lookupstore.cli.output import write_json
from lookupstore.cli.sources import source_of
from lookupstore.cli.terminal import echo
from lookupstore.hudi import HudiTable, TableServices, WriteResult
from lookupstore.quantities import bytes_of
from lookupstore.storage.uris import shown_uri

_memory = click.option("--memory", metavar="SIZE", default="512MiB", show_default=True,
                       help="Rows to keep in memory.")  # fmt: skip


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.option("--set", "sets", multiple=True, required=True, metavar="COLUMN=SQL",
              help="A column, and its value in SQL, such as \"hits = hits + 1\" or \"page = 'x'\"; "
              "several times for several columns.")  # fmt: skip
@click.option("--where", metavar="SQL",
              help='Which rows, such as "a >= 3 and b is null" (default: all).')  # fmt: skip
@_memory
@services_options
@metadata_option
@lock_option
@retries_option
@hoodie_option
@dry_run_option
@output_option("table", "json")
def update(
    path: str,
    sets: tuple[str, ...],
    where: str | None,
    memory: str,
    services: TableServices,
    metadata: str,
    lock: str,
    retries: int,
    hoodie: dict[str, str],
    dry_run: bool,
    output: str,
) -> None:
    """Set columns of the rows for which a filter holds; other columns keep what is stored."""
    values: dict[str, str] = {}
    for one in sets:
        name, sign, value = one.partition("=")
        if not (sign and name.strip() and value.strip()):
            raise click.UsageError(f'--set {one!r}: give COLUMN=SQL, such as "hits = hits + 1"')
        if name.strip() in values:
            raise click.UsageError(f"--set names {name.strip()!r} twice; give it one value")
        values[name.strip()] = value.strip()
    table = HudiTable.open(path)
    options = write_options(
        hoodie,
        table,
        "upsert",
        services,
        memory=bytes_of(memory, "--memory"),
        metadata=metadata,
        lock=lock,
        retries=retries,
    )
    result = table.update(values, where=where, options=options, dry_run=dry_run)
    _show(path, result, dry_run, output)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.argument("files", type=PLACE, nargs=-1, required=True, metavar="FILE...")
@click.option("--on", metavar="A,B",
              help="The key columns by which rows meet: those of the record key, or also those of "
              "the partition (default: these count if FILE has them).")  # fmt: skip
@click.option("--when", "clauses", multiple=True, required=True, metavar="CLAUSE",
              help="What happens: 'matched then update', 'matched and SQL then delete', 'matched "
              "then update set a = target.a + source.a', 'not matched then insert', 'not matched "
              "by source then delete'. Of several, the first that holds counts.")  # fmt: skip
@_memory
@max_text_option
@index_option
@services_options
@metadata_option
@lock_option
@retries_option
@hoodie_option
@dry_run_option
@output_option("table", "json")
def merge(
    path: str,
    files: tuple[str, ...],
    on: str | None,
    clauses: tuple[str, ...],
    memory: str,
    max_text: str,
    index: str,
    services: TableServices,
    metadata: str,
    lock: str,
    retries: int,
    hoodie: dict[str, str],
    dry_run: bool,
    output: str,
) -> None:
    """Merge rows in one commit: update, delete or insert, as clauses say.

    In SQL, target is the row of TABLE, and source the row of FILE with its key.
    """
    table = HudiTable.open(path)
    options = write_options(
        hoodie,
        table,
        "upsert",
        services,
        memory=bytes_of(memory, "--memory"),
        index=index,
        metadata=metadata,
        lock=lock,
        retries=retries,
    )
    merging = table.merge(source_of(files, max_text), None if on is None else names_of(on))
    for clause in clauses:
        merging = merging.when(clause)
    _show(path, merging.execute(options=options, dry_run=dry_run), dry_run, output)


def _show(path: str, result: WriteResult, dry_run: bool, output: str) -> None:
    if output == "json":
        write_json(fields_of(result, dry_run))
        return
    echo(f"{shown_uri(path)}: {said(result)}")
    echo(measured(result))
