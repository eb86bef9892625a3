"""``lookupstore formats``: list what each kind of source may lose, and the outcome."""

from __future__ import annotations

from dataclasses import asdict, astuple

import click
from rich.table import Table
from rich.text import Text

from lookupstore.cli.options import output_option
from lookupstore.cli.output import OutputConsole, write_json
from lookupstore.source.losses import LOSSES, Loss

_HEADERS = ("source", "what may be lost", "outcome", "reading or remedy")


@click.command()
@output_option("table", "json")
def formats(output: str) -> None:
    """List what each kind of source may lose.

    exact: it is read as it is. refused: an error names it, and the remedy. noted: it may change
    without an error.
    """
    if output == "json":
        write_json([asdict(one) for one in LOSSES])
        return
    table = Table()
    for header in _HEADERS:
        table.add_column(header, overflow="fold")
    for one in LOSSES:
        table.add_row(*_cells(one))
    OutputConsole().print(table)


def _cells(loss: Loss) -> list[Text]:
    """Return the cells of a row, without the marks of Markdown."""
    return [Text(one.replace("`", "")) for one in astuple(loss)]
