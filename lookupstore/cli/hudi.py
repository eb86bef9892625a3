"""``lookupstore hudi ...``: operations on whole tables in the format of Apache Hudi."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Any

import click
import pyarrow as pa

from lookupstore.cli.completion import LIKE_COLUMNS
from lookupstore.cli.failures import spoken
from lookupstore.cli.hudi_options import (
    dry_run_option,
    hoodie_option,
    lock_option,
    metadata_option,
    typed,
)
from lookupstore.cli.hudi_results import told
from lookupstore.cli.options import PLACE, as_of_option, names_of, output_option
from lookupstore.cli.output import write_fields, write_json, write_list, write_report
from lookupstore.cli.sources import TextFlags, text_flags
from lookupstore.cli.terminal import echo, echoed_info
from lookupstore.hudi import FileSlice, HudiTable, Instant
from lookupstore.hudi.options import READ_OPTIMIZED, VERSIONS
from lookupstore.hudi.services import MAX_COMMITS, MIN_COMMITS
from lookupstore.hudi.timeline import cleaned_files, given_time
from lookupstore.quantities import counted, size_text
from lookupstore.storage.uris import shown_uri

_wait = click.option(
    "--wait",
    type=click.FloatRange(0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait while another writer has the lock.",
)

# Arguments of a new table by flags with other names.
_ARGUMENTS = {"key": "record_key", "table_version": "version"}
# Part of a remedy that applies to files of text only.
_GIVE_TYPES = r"give --types .*, or (?=--like)"
# Columns of a history that users need most, with short headings so that all fit in 80 columns.
_TOLD_FIRST = {
    "instant": "instant",
    "operation": "operation",
    "rows_inserted": "inserted",
    "rows_updated": "updated",
    "rows_deleted": "deleted",
    "action": "action",
}


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.option(
    "--like",
    type=PLACE,
    required=True,
    metavar="FILE",
    help="File with the columns of the table, such as Parquet or CSV.",
)
@click.option("--key", type=LIKE_COLUMNS, metavar="A,B", help="Columns that identify a row.")
@click.option("--partition-by", type=LIKE_COLUMNS, default="", metavar="A,B",
              help="Partition columns.")  # fmt: skip
@click.option("--ordering", type=LIKE_COLUMNS, metavar="A", help="Ordering (precombine) column; "
              "without it, the row written last wins.")  # fmt: skip
@click.option("--table-version", type=click.Choice([str(one) for one in VERSIONS]),
              default=str(max(VERSIONS)), show_default=True,
              help="Version 6 is for engines with Hudi 0.x.")  # fmt: skip
@click.option("--name", help="Name of the table (default: that of its folder).")
@click.option("--hive-style", is_flag=True, help="Name partition folders NAME=value.")
@text_flags
@hoodie_option
@output_option("table", "json")
def create(
    path: str,
    like: str,
    key: str | None,
    partition_by: str,
    ordering: str | None,
    table_version: str,
    name: str | None,
    hive_style: bool,
    text: TextFlags,
    hoodie: dict[str, str],
    output: str,
) -> None:
    """Create the empty table TABLE, a folder or URI."""
    given = typed(
        key=names_of(key or ""),
        partition_by=names_of(partition_by),
        ordering=ordering,
        table_version=int(table_version),
        name=name,
        hive_style=hive_style,
    )
    arguments = {_ARGUMENTS.get(flag, flag): value for flag, value in given.items()}
    source = text.source_of([like])
    with echoed_info("lookupstore.hudi.keys.new_columns", said=spoken):
        try:
            table = HudiTable.create(path, source, **arguments, options=hoodie)
        except TypeError as error:
            if source.in_types is not None:
                raise
            # The file has types of its own, for which --types is refused.
            raise TypeError(re.sub(_GIVE_TYPES, "give ", spoken(str(error)))) from error
    _write_info(table, output)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@as_of_option
@output_option("table", "json")
def info(path: str, as_of: str | None, output: str) -> None:
    """Print the properties, schema and size of a table.

    With --as-of, sizes and commits are those of that time.
    """
    _write_info(_opened(path), output, as_of)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@output_option("table", "json", "csv", "tsv", "arrow")
def timeline(path: str, output: str) -> None:
    """List the actions on a table, by request time."""
    _write_instants(_opened(path).timeline(), output)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.option("--limit", type=click.IntRange(0), metavar="N",
              help="Only the N newest (default: all, those of the archive included).")  # fmt: skip
@click.option("--columns", metavar="A,B",
              help="Columns of the history, in this order (default: all).")  # fmt: skip
@output_option("table", "json", "csv", "tsv", "arrow")
def history(path: str, limit: int | None, columns: str | None, output: str) -> None:
    """List what happened to a table, the newest first.

    Commits have numbers of rows, files, bytes and partitions. What is pending comes first.
    """
    found = _opened(path).history(limit)
    names = found.column_names
    if columns is not None:
        heads = {head: name for name, head in _TOLD_FIRST.items()}
        wanted = [heads.get(name, name) for name in names_of(columns)]
        unknown = [name for name in wanted if name not in names]
        if unknown or not wanted:
            raise click.UsageError(f"--columns {columns}: choose of {', '.join(names)}")
        found = found.select(wanted)
    if output == "table" and found.num_rows:
        if columns is None:
            heads = _TOLD_FIRST | {name: name for name in names if name not in _TOLD_FIRST}
            found = found.select([*heads]).rename_columns([*heads.values()])
        write_list(found, _counts(found.schema))
    else:
        _write(found, output)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@as_of_option
@output_option("table", "json", "csv", "tsv", "arrow")
def files(path: str, as_of: str | None, output: str) -> None:
    """List the base files and log files of a table."""
    table = _opened(path)
    rows: list[dict[str, Any]] = [
        {
            "partition": group.id.partition,
            "file_id": group.id.file_id,
            "instant": group.current.time,
            "bytes": group.current.bytes,
            "slices": len(group.slices),
            "file": group.current.name,
        }
        for group in table.file_groups(as_of)
    ]
    view = table.view()
    rows += [
        {
            "partition": log.group.partition,
            "file_id": log.group.file_id,
            "instant": log.time,
            "bytes": log.bytes,
            "file": log.name,
        }
        for log in view.logs(given_time("as_of", as_of, view.options.timezone))
    ]
    # Sorting is stable: log files follow the base file of their group.
    rows.sort(key=lambda one: (one["partition"], one["file_id"]))
    names = ("partition", "file_id", "instant", "bytes", "slices", "file")
    kinds = {name: pa.int64() if name in ("bytes", "slices") else pa.string() for name in names}
    _write(pa.Table.from_pylist(rows, pa.schema(kinds)), output)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.argument("instant", required=False)
@metadata_option
@_wait
@lock_option
@output_option("table", "json")
def rollback(
    path: str, instant: str | None, metadata: str, wait: float, lock: str, output: str
) -> None:
    """Roll back what dead writers left, and INSTANT if given.

    INSTANT is the last commit or a pending instant. Give a pending instant of another program only
    if you know that its writer is dead.
    """
    table = HudiTable.open(path)
    done = table.rollback(instant, metadata=metadata, wait=wait, lock=lock)
    _write_done(path, done, output)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.option("--retain-commits", type=click.IntRange(1), metavar="N",
              help="Keep the last N commits readable.")  # fmt: skip
@click.option("--retain-hours", type=click.FloatRange(0), metavar="HOURS",
              help="Keep the table readable as of the last HOURS hours.")  # fmt: skip
@click.option("--retain-versions", type=click.IntRange(1), metavar="N",
              help="Keep the last N versions of each file group instead.")  # fmt: skip
@metadata_option
@_wait
@lock_option
@dry_run_option
@output_option("table", "json")
def clean(
    path: str,
    retain_commits: int | None,
    retain_hours: float | None,
    retain_versions: int | None,
    metadata: str,
    wait: float,
    lock: str,
    dry_run: bool,
    output: str,
) -> None:
    """Remove files that no retained commit or savepoint needs.

    With both --retain-commits and --retain-hours, the one that retains more applies.
    """
    moments = retain_commits is not None or retain_hours is not None
    if moments == (retain_versions is not None):
        raise click.UsageError(
            "give --retain-commits, --retain-hours or both, or else --retain-versions"
        )
    table = HudiTable.open(path)
    chosen = typed(
        retain_commits=retain_commits,
        retain_hours=retain_hours,
        retain_versions=retain_versions,
        metadata=metadata,
        wait=wait,
        lock=lock,
    )
    if dry_run:
        _write_files_to_delete(path, table.clean(**chosen, dry_run=True), output)
    elif output == "json":
        _write_done(path, table.clean(**chosen), output)
    else:
        planned = table.clean(**chosen, dry_run=True)
        _write_cleans(path, table, table.clean(**chosen), planned)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.option("--min-commits", type=click.IntRange(1), metavar="N", default=MIN_COMMITS,
              show_default=True, help="Keep at least the last N commits.")  # fmt: skip
@click.option("--max-commits", type=click.IntRange(1), metavar="N", default=MAX_COMMITS,
              show_default=True, help="Do nothing up to N commits.")  # fmt: skip
@metadata_option
@_wait
@lock_option
@output_option("table", "json")
def archive(
    path: str,
    min_commits: int,
    max_commits: int,
    metadata: str,
    wait: float,
    lock: str,
    output: str,
) -> None:
    """Move old commits from the timeline to the archive.

    Time travel and incremental reads do not reach what is archived; no row goes.
    """
    if min_commits > max_commits:
        raise click.UsageError("--min-commits is more than --max-commits")
    table = HudiTable.open(path)
    done = table.archive(
        min_commits=min_commits,
        max_commits=max_commits,
        metadata=metadata,
        wait=wait,
        lock=lock,
    )
    if output == "json":
        instants = [{"instant": one.time, "action": one.action} for one in done.instants]
        write_json({"instants": instants, "first": done.first, "kept_by": done.kept_by})
        return
    said = "nothing to do"
    if done.first is not None:
        said = f"{counted(len(done.instants), 'instant')} archived; commits begin at {done.first}"
    kept = f"; no more, because of {done.kept_by}" if done.kept_by is not None else ""
    echo(f"{shown_uri(path)}: {said}{kept}")


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.argument("instant", required=False)
@click.option("--comment", default="", help="Why the commit is kept.")
@click.option("--delete", "is_deleted", is_flag=True, help="Delete the savepoint of INSTANT.")
@click.option("--list", "is_listed", is_flag=True, help="List the savepoints.")
@metadata_option
@_wait
@lock_option
@output_option("table", "json")
def savepoint(
    path: str,
    instant: str | None,
    comment: str,
    is_deleted: bool,
    is_listed: bool,
    metadata: str,
    wait: float,
    lock: str,
    output: str,
) -> None:
    """Protect a commit from cleans and rollbacks.

    INSTANT is the last commit by default.
    """
    table = HudiTable.open(path)
    if is_listed:
        rows = [
            {"instant": time, "by": one.savepointed_by, "comment": one.comments}
            for time, one in table.savepoints().items()
        ]
        if output == "json":
            write_json(rows)
        else:
            kinds = {name: pa.string() for name in ("instant", "by", "comment")}
            _write(pa.Table.from_pylist(rows, pa.schema(kinds)), output)
        return
    if is_deleted:
        if instant is None:
            raise click.UsageError("--delete needs the INSTANT of the savepoint")
        table.delete_savepoint(instant, metadata=metadata, wait=wait, lock=lock)
        _write_done(path, [], output, "savepoint deleted")
        return
    done = table.savepoint(instant, comment=comment, metadata=metadata, wait=wait, lock=lock)
    _write_done(path, [done], output)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.argument("instant")
@metadata_option
@_wait
@lock_option
@output_option("table", "json")
def restore(path: str, instant: str, metadata: str, wait: float, lock: str, output: str) -> None:
    """Restore a table to the savepoint of INSTANT.

    All later commits are rolled back. Stop other writers first. If it is killed, call it again:
    until it is completed nothing can be written.
    """
    done = HudiTable.open(path).restore(instant, metadata=metadata, wait=wait, lock=lock)
    _write_done(path, done, output)


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@output_option("table", "json")
def verify(path: str, output: str) -> int:
    """Read every byte of a table and check it.

    The exit status is 1 if anything is damaged.
    """
    found = _opened(path).verify()
    if output == "json":
        write_json(found.to_json())
        return 0 if found.is_ok else 1
    for one in found.findings:
        echo(f"{one.kind}: {one.path}: {one.problem}", err=True)
    said = (
        f"{shown_uri(path)}: {counted(found.rows, 'row')} in {counted(found.files, 'file')}, "
        f"{counted(found.bytes, 'byte')}, {counted(found.instants, 'instant')}"
    )
    if found.is_ok:
        echo(f"ok: {said}")
        return 0
    damaged = sum(one.is_damage for one in found.findings)
    echo(f"Error: {said}: {counted(damaged, 'finding')} of damage", err=True)
    return 1


def _opened(path: str) -> HudiTable:
    """Open a table to list and check its base files; log files are listed and checked apart."""
    return HudiTable.open(path, query_type=READ_OPTIMIZED)


def _write_info(table: HudiTable, output: str, as_of: str | None = None) -> None:
    options = table.options
    instants = table.timeline()
    groups = table.file_groups(as_of)
    view = table.view()
    until = given_time("as_of", as_of, options.timezone)
    writes = [one for one in view.timeline.writes() if until is None or one.time <= until]
    nbytes = sum(group.current.bytes for group in groups)
    nbytes += sum(log.bytes for log in view.logs(until))
    fields = {
        "name": options.name,
        "type": options.table_type,
        "version": options.version,
        "record_key": ",".join(options.record_key),
        "partition_by": ",".join(options.partition_by),
        "ordering": ",".join(options.ordering),
        "merge_mode": options.merge_mode,
        "columns": ", ".join(f"{one.name}: {one.type}" for one in table.schema
                             if not one.name.startswith("_hoodie_")),
        "file_groups": len(groups),
        "bytes": nbytes,
        "commits": len(writes),
        "last_commit": writes[-1].time if writes else "",
        "pending": sum(not one.is_completed for one in instants),
        "savepoints": len(table.savepoints()),
    }  # fmt: skip
    if output == "json":
        write_json({"path": table.location.uri, **fields})
    else:
        shown = {name: value for name, value in fields.items() if value != ""}
        # A version is not a count.
        write_fields(table.location.uri, {**shown, "version": str(options.version)})


def _write_instants(instants: Iterable[Instant], output: str) -> None:
    rows = [
        {
            "instant": one.time,
            "action": one.action,
            "state": one.state.value,
            "completed": one.completed,
        }
        for one in instants
    ]
    kinds = {name: pa.string() for name in ("instant", "action", "state", "completed")}
    _write(pa.Table.from_pylist(rows, pa.schema(kinds)), output)


def _write_done(
    path: str, done: list[Instant], output: str, nothing: str = "nothing to do"
) -> None:
    if output == "json":
        write_json([{"instant": one.time, "action": one.action} for one in done])
    else:
        said = ", ".join(map(told, done))
        echo(f"{shown_uri(path)}: {said or nothing}")


def _write_cleans(
    path: str, table: HudiTable, done: list[Instant], planned: list[FileSlice]
) -> None:
    """Print cleans with the number and size of the files that they deleted."""
    if not done:
        _write_done(path, done, "table")
        return
    times = {one.time for one in done}
    view = table.view()
    # All instants after a beginning of the first one's time.
    cleaned = cleaned_files(view.folder, view.timeline, min(times)[:-1])
    names = [posixpath.join(one.partition, one.name) for one in cleaned if one.clean.time in times]
    sizes = {one.path: one.bytes for one in planned}
    # A clean of a dead writer, which was finished, deleted files of unknown sizes.
    is_known = all(name in sizes for name in names)
    nbytes = sum(sizes[name] for name in names) if is_known else None
    size = "" if nbytes is None else f", {size_text(nbytes)}"
    said = ", ".join(map(told, done))
    echo(f"{shown_uri(path)}: {said}: {counted(len(names), 'file')} deleted{size}")


def _write_files_to_delete(path: str, files: list[FileSlice], output: str) -> None:
    if output == "json":
        write_json([{"file": one.path, "bytes": one.bytes} for one in files])
        return
    for one in files:
        echo(f"{one.path} ({size_text(one.bytes)})")
    size = size_text(sum(one.bytes for one in files))
    said = f"{counted(len(files), 'file')} would be deleted, {size}" if files else "nothing to do"
    echo(f"{shown_uri(path)}: {said}")


def _write(rows: pa.Table, output: str) -> None:
    write_report(rows, output, _counts(rows.schema))


def _counts(schema: pa.Schema) -> list[str]:
    """Return the columns of counts; all other values of instants and files are texts."""
    return [field.name for field in schema if pa.types.is_integer(field.type)]
