"""Options that several commands have, and how what is typed in them is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

as_of_option = click.option(
    "--as-of", metavar="INSTANT", help="The table as of this request time, 17 digits."
)


def output_option(*formats: str) -> Callable[[Any], Any]:
    """Return ``--output``, the first of whose formats is the default."""
    return click.option(
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print the result.",
    )


def names_of(columns: str) -> list[str]:
    """Return the names of columns that are given with commas between them."""
    return [name.strip() for name in columns.split(",") if name.strip()]
