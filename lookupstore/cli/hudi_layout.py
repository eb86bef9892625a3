"""``lookupstore hudi cluster | collect-statistics | ...``: the order of rows, and statistics."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import click

from lookupstore.cli.completion import COLUMNS
from lookupstore.cli.hudi_options import (
    WriteFlags,
    lock_option,
    metadata_option,
    typed,
    write_flags,
)
from lookupstore.cli.options import (
    PLACE,
    as_of_option,
    filter_option,
    names_of,
    output_option,
)
from lookupstore.cli.output import write_json
from lookupstore.cli.terminal import echo, echo_text
from lookupstore.hudi import HudiTable
from lookupstore.hudi.clustering import ClusterResult
from lookupstore.hudi.layout import TARGET_FILE_SIZE, Curve, CurveMapping
from lookupstore.hudi.options import READ_OPTIMIZED
from lookupstore.hudi.write import CLUSTER, cluster_arguments
from lookupstore.quantities import bytes_of, counted, size_text
from lookupstore.storage.uris import shown_uri


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.option("--by", type=COLUMNS, metavar="A,B",
              help="Columns to order rows by, those first by which most is asked.")  # fmt: skip
@click.option("--curve", type=click.Choice(get_args(Curve)),
              help="How several columns become one order (default: grid; hilbert with "
              "--incremental, or by value).")  # fmt: skip
@click.option("--mapping", type=click.Choice(get_args(CurveMapping)), default="sample",
              show_default=True, help="Whether values count by their ranks in a sample, or by "
              "themselves.")  # fmt: skip
@click.option("--target-file-size", metavar="SIZE", default=f"{TARGET_FILE_SIZE >> 20}MiB",
              show_default=True, help="Size of a file, about.")  # fmt: skip
@click.option("--small-file-limit", metavar="SIZE",
              help="Leave larger files as they are.")  # fmt: skip
@click.option("--incremental", is_flag=True,
              help="Go on with the order of the last time: put new files in order, and those that "
              "overlap too much.")  # fmt: skip
@click.option("--partition", "partitions", multiple=True, metavar="PATH",
              help="Only rows of this partition (see 'files'); repeatable.")  # fmt: skip
@click.option("--where", metavar="SQL",
              help="Only rows of partitions for whose columns this holds, such as \"day >= "
              "'2026-03-01'\".")  # fmt: skip
@write_flags("memory", "metadata", "lock")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@output_option("table", "json")
def cluster(
    path: str,
    by: str | None,
    curve: Curve | None,
    mapping: CurveMapping,
    target_file_size: str,
    small_file_limit: str | None,
    incremental: bool,
    partitions: tuple[str, ...],
    where: str | None,
    flags: WriteFlags,
    dry_run: bool,
    output: str,
) -> None:
    """Put rows in order in new files, so that queries read few of these.

    No row changes. What would change rows of these files meanwhile is refused; inserts go on.
    """
    limit = None if small_file_limit is None else bytes_of(small_file_limit, "--small-file-limit")
    table = HudiTable.open(path)
    order = typed(
        by=names_of(by or ""),
        curve=curve,
        mapping=mapping,
        target_file_size=bytes_of(target_file_size, "--target-file-size"),
        small_file_limit=limit,
    )
    result = table.cluster(
        **cluster_arguments(flags.hoodie, order),
        incremental=incremental,
        partitions=partitions or None,
        where=where,
        options=flags.options(table, CLUSTER),
        dry_run=dry_run,
    )
    if output == "json":
        write_json(_fields(result, dry_run))
        return
    echo(f"{shown_uri(path)}: {_said(result)}")
    echo(_measured(result))


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.option("--columns", type=COLUMNS, metavar="A,B",
              help="Columns, the first 32 if not given.")  # fmt: skip
@metadata_option
@lock_option
@output_option("table", "json")
def collect_statistics(
    path: str, columns: str | None, metadata: str, lock: str, output: str
) -> None:
    """Collect statistics of columns, by which scans skip files.

    Every write of lookupstore keeps them current then. Files that other programs write have none
    until this is called again. A metadata table stays as it is. Of a merge-on-read table they are
    those of its base files.
    """
    names = None if columns is None else names_of(columns)
    table = HudiTable.open(path, query_type=READ_OPTIMIZED)
    files = table.collect_statistics(names, metadata=metadata, lock=lock)
    if output == "json":
        write_json({"files": files})
    else:
        echo(f"{shown_uri(path)}: statistics of {counted(files, 'file')}")


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@filter_option(required=True)
@as_of_option
@click.option("--row-groups", is_flag=True,
              help="Count row groups, too, by the footers of files that are left.")  # fmt: skip
@output_option("table", "json")
def explain_scan(
    path: str, filters: tuple[str, ...], as_of: str | None, row_groups: bool, output: str
) -> None:
    """Print how many files a scan with a filter would read; none is opened.

    A filter is a condition in SQL on columns, with and, or, not, =, <>, <, <=, >, >=, in, between,
    like and is null. Texts are in single quotes, as are dates: day >= '2026-03-01'.
    """
    funnel = HudiTable.open(path).explain_scan([*filters], as_of=as_of, row_groups=row_groups)
    if output == "json":
        write_json(funnel.to_json())
    else:
        echo_text(str(funnel))


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.option("--by", type=COLUMNS, metavar="A,B", default="",
              help="Columns that are asked for (default: those of the last clustering, else those "
              "that the table has statistics of).")  # fmt: skip
@click.option("--by-partition", is_flag=True, help="Look at each partition alone.")
@output_option("table", "json")
def layout_health(path: str, by: str, by_partition: bool, output: str) -> None:
    """Print what share of the files queries read, and what they would if rows were in order.

    No row is read; no file is opened for columns that the table has statistics of.
    """
    health = HudiTable.open(path).layout_health(names_of(by) or None, by_partition=by_partition)
    if output == "json":
        write_json(health.to_json())
    else:
        echo_text(str(health))


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.option("--query", "queries", multiple=True, metavar="SQL",
              help="A condition that is asked, such as \"a >= 3 and b = 'x'\"; repeatable.",
              )  # fmt: skip
@click.option("--columns", type=COLUMNS, metavar="A,B",
              help="Columns that rows may be ordered by (default: those of the queries); without "
              "queries, for one value and for 1 % of the rows by each of them.")  # fmt: skip
@click.option("--target-file-size", "sizes", multiple=True, metavar="SIZE",
              default=["30MiB", "120MiB", "480MiB"], show_default=True,
              help="Size of a file, about; repeatable.")  # fmt: skip
@output_option("table", "json")
def advise_clustering(
    path: str, queries: tuple[str, ...], columns: str | None, sizes: tuple[str, ...], output: str
) -> None:
    """Try row orders on a sample and print those with which queries read the least data.

    Up to four columns together, by each curve and file size; nothing is written.
    """
    names = None if columns is None else names_of(columns)
    targets = [bytes_of(one, "--target-file-size", least=1) for one in sizes]
    advice = HudiTable.open(path).advise_clustering(
        queries, columns=names, target_file_sizes=targets
    )
    if output == "json":
        write_json(advice.to_json())
    else:
        echo_text(str(advice))


@click.command()
@click.argument("path", type=PLACE, metavar="TABLE")
@click.option(
    "--x", type=COLUMNS, required=True, metavar="COLUMN", help="Column from left to right."
)
@click.option(
    "--y", type=COLUMNS, required=True, metavar="COLUMN", help="Column from bottom to top."
)
@click.option("--out", required=True, type=click.Path(dir_okay=False), metavar="FILE",
              help="The picture, as SVG; what is there is replaced.")  # fmt: skip
def layout_picture(path: str, x: str, y: str, out: str) -> None:
    """Draw the files of a table as boxes in two columns."""
    picture = HudiTable.open(path).layout_picture(x, y)
    picture.save(out)
    echo(f"{out}: {picture.drawn:,} of {counted(picture.files, 'file')}")


def _said(result: ClusterResult) -> str:
    """Return the result of a clustering, or of a dry run, in a line."""
    if not result.files_before:
        return "nothing to do"
    done = [
        counted(result.rows, "row"),
        f"{counted(result.files_before, 'file')} "
        f"{'becomes' if result.files_before == 1 else 'become'} {result.files_after:,}",
        counted(result.partitions, "partition"),
    ]
    if result.instant is not None:
        done.append(f"{result.instant.action} {result.instant.time}")
    return ", ".join(done)


def _measured(result: ClusterResult) -> str:
    """Return the costs of a clustering in a line."""
    took = [f"{name} {seconds:.1f} s" for name, seconds in result.seconds.items()]
    took.append(f"{counted(result.files_unchanged, 'file')} unchanged")
    took.append(f"{size_text(result.bytes_before)} read")
    if result.instant is not None:
        took.append(f"{size_text(result.bytes_after)} written")
        took.append(f"{size_text(result.bytes_spilled)} spilled")
    return ", ".join(took)


def _fields(result: ClusterResult, dry_run: bool) -> dict[str, Any]:
    """Return the result of a clustering, or of a dry run, for JSON."""
    fields = {one.name: getattr(result, one.name) for one in dataclasses.fields(result)}
    instant = None if result.instant is None else result.instant.time
    return {**fields, "instant": instant, "dry_run": dry_run}
