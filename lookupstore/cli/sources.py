"""Rows that a command reads: from its arguments, or from standard input."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence

import click

from lookupstore.quantities import bytes_of
from lookupstore.source.source import Source, open_source
from lookupstore.source.text_limits import LEAST_TEXT
from lookupstore.storage.home import expanded
from lookupstore.storage.location import local_folder
from lookupstore.storage.uris import shown_uri


def source_of(given: Sequence[str], max_text: str) -> Source:
    """Open the given paths, or for `-` the standard input.

    Args:
        given: Paths to open, or `-` alone.
        max_text: Size that was given as `--max-text`.

    Raises:
        UsageError: If `-` is one of several paths.
    """
    most = bytes_of(max_text, "--max-text", least=LEAST_TEXT)
    if "-" not in given:
        return open_source(list(given), max_text=most)
    if len(given) > 1:
        raise click.UsageError("- is standard input, and stands alone")
    return open_source(sys.stdin.buffer, max_text=most)


def check_kept(out: str | None, *given: str | None) -> None:
    """Refuse to write to a file that is read, because it would be replaced.

    Args:
        out: Path of the file to write. None: there is none.
        given: Paths that are read: files, folders or globs. None: that path is not given.

    Raises:
        UsageError: If `out` is one of the files that they name.
    """
    if out is None or not os.path.isfile(expanded(out)):
        return
    own = os.path.realpath(expanded(out))
    for path in filter(None, given):
        here = local_folder(expanded(path), None)  # file:// is local, too
        if here is None:
            continue
        real = os.path.realpath(here)
        found = {os.path.realpath(one) for one in glob.glob(here, recursive=True)}
        if own == real or own in found or own.startswith(os.path.join(real, "")):
            raise click.UsageError(
                f"-o {out} is in what is read ({shown_uri(path)}); give another name"
            )
