"""File systems of fsspec for pyarrow with errors that do not repeat the options.

A client that fails may show all its arguments: a password in a host, a key in a header. Each client
does so in its own way, so that every error of a file system is checked here.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable
from typing import Any

from pyarrow import fs

from lookupstore.storage.secrets import option_values, without_values

# Kinds of errors that tell what happened; of other errors only the text counts.
_KINDS = (
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    TimeoutError,
    ConnectionError,
)


def arrow_filesystem(filesystem: Any) -> fs.PyFileSystem:
    """Return a file system of fsspec as one of pyarrow.

    >>> import fsspec
    >>> arrow_filesystem(fsspec.filesystem("memory")).type_name
    'py::fsspec+memory'
    """
    told = filesystem if isinstance(filesystem, _Told) else _Told(filesystem)
    return fs.PyFileSystem(fs.FSSpecHandler(told))


class _Told:
    """A file system of fsspec, or a file of one, with errors that show no option."""

    def __init__(self, inner: Any, filesystem: Any = None) -> None:
        self._inner = inner
        self._filesystem = inner if filesystem is None else filesystem

    def __reduce__(self) -> tuple[Any, ...]:
        return _Told, (self._inner,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Told) and bool(self._inner == other._inner)

    def __hash__(self) -> int:
        return hash(self._inner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # an attribute of this class, or of no file system
            raise AttributeError(name)
        found = getattr(self._inner, name)
        return self._asked(name, found) if callable(found) else found

    def _asked(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any, **options: Any) -> Any:
            try:
                answer = method(*args, **options)
            except Exception as error:
                told = _told_error(error, option_values(arrow_filesystem(self._filesystem)))
                if told is error:
                    raise
                raise told from None
            return _Told(answer, self._filesystem) if name == "open" else answer

        return ask


def _told_error(error: Exception, values: set[str]) -> Exception:
    """Return an error without the values, or the error itself if its chain contains none."""
    said = "".join(
        line for one in _chain(error) for line in (*traceback.format_exception_only(one), repr(one))
    )
    if without_values(said, values) == said:
        return error
    text = str(error)
    if isinstance(error, OSError) and error.strerror is not None:
        text = error.strerror
    elif not isinstance(error, OSError):
        text = f"{type(error).__name__}: {text}"
    kind = next((one for one in _KINDS if isinstance(error, one)), OSError)
    number = error.errno if isinstance(error, OSError) else None
    return kind(number or errno.EIO, without_values(text, values))


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an error, its cause or context, that of the cause, and so on."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain
