"""``lookupstore hudi``: the list of its commands, which needs no Hudi table to be readable."""

from __future__ import annotations

import click

from lookupstore.cli.lazy import LazyGroup
from lookupstore.cli.terminal import echo_text

_COMMANDS = {
    "create": ("lookupstore.cli.hudi", "Create an empty table."),
    "info": ("lookupstore.cli.hudi", "Print the properties, schema and size of a table."),
    "timeline": ("lookupstore.cli.hudi", "List the actions on a table, by request time."),
    "history": ("lookupstore.cli.hudi", "List what happened to a table, the newest first."),
    "files": ("lookupstore.cli.hudi", "List the base files and log files of a table."),
    "get": ("lookupstore.cli.hudi_rows", "Print the rows with these keys."),
    "scan": ("lookupstore.cli.hudi_rows", "Print the rows of a table, in the order of its files."),
    "incremental": (
        "lookupstore.cli.hudi_rows",
        "Print the rows that changed after an instant, each in its newest state.",
    ),
    "changes": (
        "lookupstore.cli.hudi_rows",
        "Print inserts, updates and deletes between instants.",
    ),
    "tag": ("lookupstore.cli.hudi_rows", "Print the base file and row of each key."),
    "upsert": (
        "lookupstore.cli.hudi_rows",
        "Write rows: update existing keys, insert new ones.",
    ),
    "delete": (
        "lookupstore.cli.hudi_rows",
        "Delete the rows with these keys, or those of a filter.",
    ),
    "update": (
        "lookupstore.cli.hudi_statements",
        "Set columns of the rows that meet a condition.",
    ),
    "merge": (
        "lookupstore.cli.hudi_statements",
        "Merge the rows of files into a table, in one commit.",
    ),
    "cluster": (
        "lookupstore.cli.hudi_layout",
        "Put rows in order in new files, so that queries read few of these.",
    ),
    "collect-statistics": (
        "lookupstore.cli.hudi_layout",
        "Collect statistics of columns, by which scans skip files.",
    ),
    "explain-scan": (
        "lookupstore.cli.hudi_layout",
        "Print how many files a scan with a filter would read; none is opened.",
    ),
    "layout-health": (
        "lookupstore.cli.hudi_layout",
        "Print what share of the files queries read, and could read.",
    ),
    "advise-clustering": (
        "lookupstore.cli.hudi_layout",
        "Try row orders on a sample and print those with which queries read the least data.",
    ),
    "layout-picture": (
        "lookupstore.cli.hudi_layout",
        "Draw the files of a table as boxes in two columns.",
    ),
    "rollback": ("lookupstore.cli.hudi", "Roll back what dead writers left, and INSTANT if given."),
    "clean": ("lookupstore.cli.hudi", "Remove files that no retained commit or savepoint needs."),
    "archive": ("lookupstore.cli.hudi", "Move old commits from the timeline to the archive."),
    "savepoint": ("lookupstore.cli.hudi", "Protect a commit from cleans and rollbacks."),
    "restore": ("lookupstore.cli.hudi", "Restore a table to the savepoint of INSTANT."),
    "verify": ("lookupstore.cli.hudi", "Read every byte of a table and check it."),
}
# Names that other tools, or methods of `HudiTable`, give to what a command does.
_INSTEAD = {
    "insert": "'lookupstore hudi upsert TABLE FILE --operation insert'.",
    "bulk-insert": "'lookupstore hudi upsert TABLE FILE --operation bulk_insert'.",
    "insert-overwrite": "'lookupstore hudi upsert TABLE FILE --operation insert_overwrite'.",
    "insert-overwrite-table": (
        "'lookupstore hudi upsert TABLE FILE --operation insert_overwrite_table'."
    ),
    "delete-partition": "HudiTable.delete_partition in Python.",
    "compact": "'lookupstore hudi cluster TABLE --by A,B'; copy-on-write tables have no log files.",
    "optimize": "'lookupstore hudi cluster TABLE --by A,B'.",
    "vacuum": "'lookupstore hudi clean TABLE --retain-commits N'.",
    "commits": "'lookupstore hudi history TABLE'.",
    "partitions": "'lookupstore hudi files TABLE', whose first column is the partition.",
    "schema": "'lookupstore hudi info TABLE'.",
}


@click.group(cls=LazyGroup, lazy=_COMMANDS, instead=_INSTEAD, invoke_without_command=True)
@click.pass_context
def hudi(ctx: click.Context) -> None:
    """Create, read, change and check Hudi tables (copy on write, versions 6, 8 and 9)."""
    if ctx.invoked_subcommand is None:
        echo_text(ctx.get_help())
