"""The options that a file system was opened with, and messages without them.

An error may repeat everything that it was raised with: a server a key, a client a host, a library
all its arguments. It is not known which option of which library is a secret, so none is shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pyarrow import fs

#: Text in the place of a value that is not shown.
HIDDEN = "***"
# Shortest value that is hidden; a shorter one is part of every sentence.
_SHORTEST = 4
# Options of pyarrow's file systems with values from pyarrow itself, or that are common words.
_PLAIN = frozenset(
    {
        "scheme", "blob_storage_scheme", "dfs_storage_scheme", "blob_storage_authority",
        "dfs_storage_authority", "default_bucket_location",
    }
)  # fmt: skip


def option_values(filesystem: Any) -> set[str]:
    """Return the texts among the options that a file system of pyarrow was opened with.

    >>> made = fs.S3FileSystem(access_key="K", secret_key="S", region="eu-west-1")
    >>> sorted(option_values(made))
    ['K', 'S', 'eu-west-1']
    """
    if isinstance(filesystem, fs.SubTreeFileSystem):
        return option_values(filesystem.base_fs)
    given: Any = ()
    if isinstance(filesystem, fs.PyFileSystem):
        inner = getattr(filesystem.handler, "fs", None)  # a file system of fsspec
        given = inner, getattr(inner, "storage_args", None)
    elif not isinstance(filesystem, fs.LocalFileSystem):
        given = filesystem.__reduce__()[1]  # the arguments that pyarrow pickles
    return {text for text in _texts(given) if text}


def without_values(message: str, values: Collection[str], shown: str = "") -> str:
    """Return a message of another without the values, in upper or lower case.

    Args:
        message: A text that may repeat some of them.
        values: Values that are not shown. A value of up to three characters stays.
        shown: Text that is shown in any case; values that are part of it stay.

    >>> without_values("no key TOPSECRET in box", {"topsecret", "box"})
    'no key *** in box'
    """
    told = shown.lower()
    hidden = {one for one in values if len(one) >= _SHORTEST and one.lower() not in told}
    for one in sorted(hidden, key=len, reverse=True):
        message = re.sub(re.escape(one), HIDDEN, message, flags=re.IGNORECASE)
    return message


def _texts(given: Any) -> Iterator[str]:
    """Yield all texts in an option, including those in its dicts and lists."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, bytes):
        yield given.decode("latin-1")
    elif isinstance(given, Mapping):
        for name, value in given.items():
            if name not in _PLAIN:
                yield from _texts(value)
    elif isinstance(given, (list, tuple, set, frozenset)):
        for one in given:
            yield from _texts(one)
    elif hasattr(given, "storage_options"):  # another file system of fsspec
        yield from _texts(given.storage_options)
