"""Name the argument of the caller in errors about a source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_argument(name: str) -> Iterator[None]:
    """Make errors about a source, during a block, name an argument of the caller.

    Args:
        name: Name of the argument.

    >>> with as_argument("rows"):
    ...     raise FileNotFoundError("source: users.parquet: no such file or folder")
    Traceback (most recent call last):
    FileNotFoundError: rows: users.parquet: no such file or folder
    """
    try:
        yield
    except Exception as error:
        said = error.args[0] if error.args else None
        if isinstance(said, str) and said.startswith(("source: ", "source is ")):
            error.args = (f"{name}{said.removeprefix('source')}", *error.args[1:])
        raise
