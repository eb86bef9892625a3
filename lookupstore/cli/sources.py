"""Rows that a command reads: what its arguments name, or standard input."""

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
    """Open the paths that were given, or for `-` the standard input.

    Args:
        given: paths.
        max_text: what `--max-text` is given.

    Raises:
        UsageError: `-` is one of several.
    """
    most = bytes_of(max_text, "--max-text", least=LEAST_TEXT)
    if "-" not in given:
        return open_source(list(given), max_text=most)
    if len(given) > 1:
        raise click.UsageError("- is standard input, and stands alone")
    return open_source(sys.stdin.buffer, max_text=most)


def check_kept(out: str | None, *given: str | None) -> None:
    """Refuse to write to a file that is read: it would be replaced by what was made of it.

    Args:
        out: the file to write, if there is one.
        given: paths that are read, those that there are: files, folders or globs.

    Raises:
        UsageError: `out` is one of the files that they name.
    """
    if out is None or not os.path.isfile(expanded(out)):
        return
    own = os.path.realpath(expanded(out))
    for path in filter(None, given):
        here = local_folder(expanded(path), None)  # file:// is here, too
        if here is None:
            continue
        real = os.path.realpath(here)
        found = {os.path.realpath(one) for one in glob.glob(here, recursive=True)}
        if own == real or own in found or own.startswith(os.path.join(real, "")):
            raise click.UsageError(
                f"-o {out} is in what is read ({shown_uri(path)}); give another name"
            )
