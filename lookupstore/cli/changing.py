"""``lookupstore upsert | compact | changes``: change stores, and list the changes."""

from __future__ import annotations

import re
from dataclasses import replace

import click
import pyarrow as pa

from lookupstore.cli.completion import COLUMNS, VALUE_COLUMNS, offering
from lookupstore.cli.opened import write_info
from lookupstore.cli.options import (
    PLACE,
    Option,
    names_of,
    out_option,
    output_option,
    retain_option,
)
from lookupstore.cli.output import check_out, write_found
from lookupstore.cli.sources import TextFlags, check_kept, rows_of, text_flags
from lookupstore.cli.terminal import echo
from lookupstore.errors import listed
from lookupstore.quantities import bytes_of, counted, number_text, seconds_of
from lookupstore.source.csv_dialect import USUAL
from lookupstore.source.opening import in_types, open_source
from lookupstore.source.search import STREAM_FORMATS, format_of, is_stream
from lookupstore.storage.uris import shown_uri
from lookupstore.store.change_shapes import SHAPES, ChangesBy
from lookupstore.store.rules import RULES, ColumnRule, Rule
from lookupstore.store.store import open as open_store
from lookupstore.store.upserting import upsert as upsert_store
from lookupstore.store.version_times import Moment

threads_option: Option = click.option(
    "--threads", type=click.IntRange(1, 64), metavar="N",
    help="Threads that read ahead, compress and write (default: one for each processor).",
)  # fmt: skip
temp_dir_option: Option = click.option(
    "--temp-dir",
    metavar="FOLDER",
    help="Folder for spilled rows and for files on their way to a URI (default: next to a local "
    "store, otherwise the system's temporary folder).",
)


@click.command()
@click.argument("path", type=PLACE, metavar="STORE")
@click.argument("sources", type=PLACE, nargs=-1, metavar="[SOURCE...]")
@click.option("--deletes", type=PLACE, multiple=True, metavar="FILE",
              help="File with the key columns of rows to delete, or - for the standard input; "
              "repeatable.")  # fmt: skip
@click.option("--columns", type=COLUMNS, metavar="A,B",
              help="Value columns to take from the sources (default: all).")  # fmt: skip
@click.option("--changes-by", type=click.Choice(SHAPES),
              help="What the rows are: rows to upsert, or events of a changelog, as 'lookupstore "
              "changes', Debezium or Apache Hudi write them (default: changelog if the sources "
              "have a text column 'change' that the store lacks, otherwise rows).")  # fmt: skip
@click.option("--kinds", type=COLUMNS, metavar="COLUMN",
              help="Column of a changelog that says what became of each row, as I, U and D of AWS "
              "DMS or __op and __deleted of Debezium do (default: change, or _change_type of a "
              "change feed of Delta or Iceberg).")  # fmt: skip
@click.option("--rule", "rules", multiple=True, metavar="[COLUMN:]RULE",
              shell_complete=offering(*RULES),
              help=f"What becomes of a key that is stored: {', '.join(RULES)} (default: replace), "
              "for all value columns or for one; repeatable.")  # fmt: skip
@click.option("--sequence", type=COLUMNS, metavar="COLUMN",
              help="Value column that says which row is newer (default: the one that came "
              "later).")  # fmt: skip
@click.option("--max-runs", type=click.IntRange(0, 64), default=8, show_default=True, metavar="N",
              help="Compact a bucket that has more runs of changes.")  # fmt: skip
@click.option("--max-run-share", type=click.FloatRange(0), default=0.25, show_default=True,
              metavar="X", help="Compact a bucket whose runs have more than X times the bytes of "
              "its base.")  # fmt: skip
@click.option("--max-run-age", metavar="TIME",
              help="Compact a bucket whose oldest run is that old, such as 1h (default: at no "
              "age).")  # fmt: skip
@click.option("--memory", default="512MiB", show_default=True, metavar="SIZE",
              help="Memory for changes; the rest is spilled to disk.")  # fmt: skip
@text_flags
@temp_dir_option
@threads_option
@retain_option
@output_option("table", "json")
def upsert(
    path: str,
    sources: tuple[str, ...],
    deletes: tuple[str, ...],
    columns: str | None,
    changes_by: ChangesBy | None,
    kinds: str | None,
    rules: tuple[str, ...],
    sequence: str | None,
    max_runs: int,
    max_run_share: float,
    max_run_age: str | None,
    memory: str,
    text: TextFlags,
    temp_dir: str | None,
    threads: int | None,
    retain: str,
    output: str,
) -> None:
    """Change rows of a store by those of files, and delete keys.

    SOURCE... are files, folders, globs or URIs, or the folder of a Hudi table; also files of CSV,
    JSON lines or Arrow IPC, and - for one of these on standard input. Their rows are upserted, or
    applied as a changelog: see --changes-by. The next version has a run of changes for each bucket
    that they touch; other files stay.
    """
    if not sources and not deletes:
        raise click.UsageError("give a SOURCE, --deletes FILE, or both")
    if "-" in deletes and ("-" in sources or len(deletes) > 1):
        raise click.UsageError("--deletes -: the standard input is read once; name the other files")
    rule = _rule(rules)
    budget, kept_for = bytes_of(memory, "--memory"), seconds_of(retain, "--retain")
    oldest = None if max_run_age is None else seconds_of(max_run_age, "--max-run-age")
    with open_store(path) as store:
        known, before, count = store.schema, store.version, len(store)
        keys = pa.schema([known.field(name) for name in store.key])
    gone = None if not deletes else _keys(deletes, keys, text, are_alone=not sources)
    changed = upsert_store(
        path,
        text.source_of(sources, known) if sources else None,
        deletes=gone,
        columns=None if columns is None else names_of(columns),
        changes_by=changes_by,
        kinds=kinds,
        rule=rule,
        sequence=sequence,
        max_runs=max_runs,
        max_run_share=max_run_share,
        max_run_age=oldest,
        memory=budget,
        threads=threads,
        retain=kept_for,
        temp_dir=temp_dir,
    )
    with changed:
        if output == "table" and changed.version == before:
            echo(f"{shown_uri(path)}: nothing changed, version {before} stays")
            return
        if output == "table":
            told = f"{_compared(count, len(changed))} version {before}"
            how = f"'lookupstore changes STORE --since {before}' prints what changed"
            echo(f"{shown_uri(path)}: {told}; {how}")
        write_info(changed, output)


def _compared(before: int, now: int) -> str:
    """Return a number of rows beside that of an earlier version, whose name follows."""
    if now == before:
        return f"{counted(now, 'row')}, as many as"
    word = "more" if now > before else "fewer"
    return f"{counted(now, 'row')}, {number_text(abs(now - before))} {word} than"


@click.command()
@click.argument("path", type=PLACE, metavar="STORE")
@temp_dir_option
@threads_option
@retain_option
@output_option("table", "json")
def compact(path: str, temp_dir: str | None, threads: int | None, retain: str, output: str) -> None:
    """Merge the runs of changes of a store into its buckets.

    The files are those that a build of the same rows writes.
    """
    kept_for = seconds_of(retain, "--retain")
    with (
        open_store(path) as store,
        store.compact(threads=threads, retain=kept_for, temp_dir=temp_dir) as compacted,
    ):
        if output == "table" and compacted.version == store.version:
            echo(f"{shown_uri(path)}: nothing to compact; the version is still {store.version}")
        else:
            write_info(compacted, output)


@click.command()
@click.argument("path", type=PLACE, metavar="STORE")
@click.option("--since", metavar="VERSION|TIME",
              help="Version at the beginning, or a time at which it was the current one, such as "
              "2026-11-22T07:30:00Z (default: from nothing).")  # fmt: skip
@click.option("--until", metavar="VERSION|TIME",
              help="The same of the version at the end (default: the current one).")  # fmt: skip
@click.option("--columns", type=VALUE_COLUMNS, metavar="A,B",
              help="Value columns, in this order (default: all).")  # fmt: skip
@click.option("--ignore", type=VALUE_COLUMNS, metavar="A,B",
              help="Value columns in which a change does not count.")  # fmt: skip
@click.option("--limit", type=click.IntRange(0), metavar="N", help="At most N rows.")
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
    """Print what became of each row between two versions, and what it was before."""
    check_out(out)
    check_kept(out, path)
    with open_store(path) as store:
        found = store.changes(
            _moment(since),
            _moment(until),
            columns=None if columns is None else names_of(columns),
            ignore=() if ignore is None else names_of(ignore),
        )
        write_found(found.schema, found, output, out, limit)


def _moment(text: str | None) -> Moment | None:
    """Return the number of a version if a text is one, otherwise the text, which must be a time."""
    return int(text) if text is not None and re.fullmatch("[0-9]{1,10}", text) else text


def _keys(files: tuple[str, ...], keys: pa.Schema, text: TextFlags, *, are_alone: bool) -> pa.Table:
    """Return the keys of the rows to delete.

    Args:
        files: Paths of the files, or `-` alone.
        keys: Key columns.
        text: Options about files of text. Names of columns are those of the sources if there are
            any, because files of keys have other columns.
        are_alone: Whether there are no sources.
    """
    rows = rows_of(files)
    is_csv = not isinstance(rows, list) or all(
        is_stream(one) and format_of(one, STREAM_FORMATS) == "CSV" for one in files
    )
    dialect = text.dialect if are_alone else replace(text.dialect, names=None)
    if not is_csv:
        dialect = replace(USUAL, zone=dialect.zone, formats=dialect.formats)
    try:
        opened = open_source(rows, max_text=text.max_text, dialect=dialect)
    except ValueError as error:
        said, is_format, _ = str(error).removeprefix("source: ").partition("; if it is CSV")
        if not is_format:
            raise
        raise click.UsageError(
            f"--deletes: {said}; for lines of keys, give CSV whose first line is "
            f"{','.join(keys.names)}"
        ) from None
    except FileNotFoundError as error:
        said = str(error).removeprefix("source: ")
        raise FileNotFoundError(f"--deletes: {said}; give a file of keys") from None
    if are_alone:
        if opened.in_types is None:
            text.check_unused(f"--deletes: {opened.description} has types of its own")
        asked = pa.schema(one for one in opened.schema if one.name in keys.names)
        text.check_zone(asked, f"--deletes: {opened.description}", keys)
    source = in_types(opened, keys)
    names = keys.names
    for name in names:
        if name not in source.schema.names:
            raise click.UsageError(
                f"--deletes: no key column {name!r}; the files have "
                f"[{listed(source.schema.names)}]; for a file with a key per line, use "
                "'lookupstore delete STORE --keys FILE'"
            )
    schema = pa.schema([source.schema.field(name) for name in names])
    return pa.Table.from_batches(source.batches(names), schema=schema)


def _rule(rules: tuple[str, ...]) -> Rule:
    by_column: dict[str, ColumnRule] = {}
    for text in rules:
        column, colon, name = text.rpartition(":")
        known = next((rule for rule in RULES if rule == name), None)
        if known is None:
            raise click.UsageError(
                f"--rule {text}: give one of {', '.join(RULES)}, or COLUMN:RULE, such as hits:sum"
            )
        if not colon:
            if len(rules) > 1:
                raise click.UsageError(f"--rule {text}: give it alone, or COLUMN:{text}")
            return known
        by_column[column] = known
    return by_column or "replace"
