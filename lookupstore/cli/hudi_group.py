"""``lookupstore hudi``: the list of its commands, which needs no Hudi table to be readable."""

from __future__ import annotations

import click

from lookupstore.cli.lazy import LazyGroup

_COMMANDS = {
    "create": ("lookupstore.cli.hudi", "Create an empty table."),
    "info": ("lookupstore.cli.hudi", "Print the properties, schema and size of a table."),
    "timeline": ("lookupstore.cli.hudi", "List the actions on a table, by request time."),
    "files": ("lookupstore.cli.hudi", "List the base files of a table."),
    "get": ("lookupstore.cli.hudi_rows", "Print the rows with these keys, in any partition."),
    "scan": ("lookupstore.cli.hudi_rows", "Print the rows of a table, in the order of its files."),
    "tag": ("lookupstore.cli.hudi_rows", "Print the base file and row of each key."),
    "upsert": (
        "lookupstore.cli.hudi_rows",
        "Write rows: update existing keys, insert new ones.",
    ),
    "delete": ("lookupstore.cli.hudi_rows", "Delete the rows with these keys."),
    "rollback": ("lookupstore.cli.hudi", "Roll back what dead writers left, and INSTANT if given."),
    "clean": ("lookupstore.cli.hudi", "Remove files that no retained commit or savepoint needs."),
    "archive": ("lookupstore.cli.hudi", "Move old commits from the timeline to the archive."),
    "savepoint": ("lookupstore.cli.hudi", "Protect a commit from cleans and rollbacks."),
    "restore": ("lookupstore.cli.hudi", "Restore a table to the savepoint of INSTANT."),
    "verify": ("lookupstore.cli.hudi", "Read every byte of a table and check it."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def hudi() -> None:
    """Create, read, change and check Hudi tables (copy on write, versions 6, 8 and 9)."""
