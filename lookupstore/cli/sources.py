"""Rows that a command reads: what its arguments name, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from lookupstore.source.source import Source, open_source


def source_of(given: Sequence[str]) -> Source:
    """Open the paths that were given, or for `-` the standard input.

    Raises:
        UsageError: `-` is one of several.
    """
    if "-" not in given:
        return open_source(list(given))
    if len(given) > 1:
        raise click.UsageError("- is standard input, and stands alone")
    return open_source(sys.stdin.buffer)
