"""What a write goes on without: a failure is a warning that says what to do, whatever it is.

Statistics and layouts say how little of a table has to be read. Without them more is read, and no
row is wrong. So nothing of them may keep rows from being written, nor may a service that follows a
write that is committed.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lookupstore.errors import LookupStoreError
from lookupstore.storage.location import Location
from lookupstore.storage.uris import shown_uri

# Errors whose text says what happened; that of others needs their name before it.
_SAY_IT = (LookupStoreError, OSError, ValueError)

#: What it means that statistics cannot be kept, and what to do then.
NO_STATISTICS = "statistics of columns are not kept, so that filters skip fewer files"
COLLECT = "collect_statistics() makes them again"

_log = logging.getLogger(__name__)

# Files of the package, and of blocks that it runs: the caller is in another one.
_INSIDE = (f"{Path(__file__).parents[2]}{os.sep}", contextlib.__file__)


@contextmanager
def optional(location: Location, without: str, remedy: str) -> Iterator[None]:
    """Let any exception of a block be a warning.

    Args:
        location: of the table.
        without: what a failure means.
        remedy: what to do then.
    """
    try:
        yield
    except Exception as error:
        warn(failure(location, without, error, remedy))


def optional_statistics(location: Location) -> AbstractContextManager[None]:
    """Let a block that keeps statistics fail; see `optional`."""
    return optional(location, NO_STATISTICS, COLLECT)


def optional_layout(location: Location) -> AbstractContextManager[None]:
    """Let a block that places rows or files by a layout, or keeps one, fail; see `optional`."""
    without = "new files do not follow the layout that the table keeps"
    return optional(location, without, "the next incremental clustering puts them in order")


def failure(location: Location, without: str, error: Exception, remedy: str) -> str:
    """Return the warning of a failure; see `optional`."""
    return f"{shown_uri(location.uri)}: {without}: {said(error)}; {remedy}"


def warn(text: str) -> None:
    """Warn the caller of the package; a filter that makes errors of warnings gets a log line."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    try:
        warnings.warn(text, stacklevel=level)
    except UserWarning:  # of `python -W error`: to raise it would take a committed write for failed
        _log.warning("%s", text)


def said(error: BaseException) -> str:
    """Return what an exception says, with its name where the text alone says little.

    >>> said(KeyError("id")), said(OSError(28, "No space left on device"))
    ("KeyError: 'id'", '[Errno 28] No space left on device')
    """
    text = str(error)
    return text if text and isinstance(error, _SAY_IT) else f"{type(error).__name__}: {text}"
