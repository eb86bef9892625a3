"""What is wrong with the files that a command was given to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from lookupstore.errors import FormatError
from lookupstore.uris import shown_uri


@contextmanager
def named_in_errors(sources: Sequence[str]) -> Iterator[None]:
    """Name the files that are read in the block in errors that do not say which one it was.

    Raises:
        FormatError: one of them cannot be read.
    """
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        # Ours and the system's have a number or a kind; Arrow's do not say which file it was.
        if not isinstance(error, pa.ArrowException) and (type(error) is not OSError or error.errno):
            raise
        read = ", ".join(map(shown_uri, sources[:5])) + (", ..." if len(sources) > 5 else "")
        raise FormatError(f"{read}: can not be read: {error}") from error
