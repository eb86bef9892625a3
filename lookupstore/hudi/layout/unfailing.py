"""Turn failures of optional parts of a write into warnings with a remedy.

Statistics and layouts only reduce how much of a table is read. Without them queries read more, but
return the same rows. Their failures must therefore not fail a write. Neither must a service that
runs after the write is committed.
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

# Errors whose text is sufficient; the text of other errors is preceded by their name.
_SAY_IT = (LookupStoreError, OSError, ValueError)

#: Consequence of missing statistics, and remedy.
NO_STATISTICS = "statistics of columns are not kept, so that filters skip fewer files"
COLLECT = "collect_statistics() makes them again"

_log = logging.getLogger(__name__)

# Files of this package and of the block: the caller is in another file.
_INSIDE = (f"{Path(__file__).parents[2]}{os.sep}", contextlib.__file__)


@contextmanager
def optional(location: Location, without: str, remedy: str) -> Iterator[None]:
    """Turn any exception of a block into a warning.

    Args:
        location: Location of the table.
        without: Consequence of a failure, for the warning.
        remedy: Remedy for a failure, for the warning.
    """
    try:
        yield
    except Exception as error:
        warn(failure(location, without, error, remedy))


def optional_statistics(location: Location) -> AbstractContextManager[None]:
    """Let a block that keeps statistics fail; see `optional`."""
    return optional(location, NO_STATISTICS, COLLECT)


def optional_layout(location: Location) -> AbstractContextManager[None]:
    """Let a block that uses or keeps a layout fail; see `optional`."""
    without = "new files do not follow the layout that the table keeps"
    return optional(location, without, "the next incremental clustering puts them in order")


def failure(location: Location, without: str, error: Exception, remedy: str) -> str:
    """Return the text of the warning about a failure; see `optional`."""
    return f"{shown_uri(location.uri)}: {without}: {said(error)}; {remedy}"


def warn(text: str) -> None:
    """Warn the caller of the package.

    If a filter turns warnings into errors, the text is logged instead.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    try:
        warnings.warn(text, stacklevel=level)
    except UserWarning:  # `python -W error`: raising it would report a commit as failed
        _log.warning("%s", text)


def said(error: BaseException) -> str:
    """Return the text of an exception, with its class name if the text needs it.

    >>> said(KeyError("id")), said(OSError(28, "No space left on device"))
    ("KeyError: 'id'", '[Errno 28] No space left on device')
    """
    text = str(error)
    return text if text and isinstance(error, _SAY_IT) else f"{type(error).__name__}: {text}"
