"""The indexes that a tag can be asked to use, by their names.

Source: org.apache.hudi.index.HoodieIndex.IndexType; a class of one's own: `hoodie.index.class`.
"""

from __future__ import annotations

from collections.abc import Callable

from lookupstore.hudi.key_index import KeyIndex
from lookupstore.hudi.simple_index import SimpleIndex

_KINDS: dict[str, Callable[[], KeyIndex]] = {"simple": SimpleIndex}


def index_of(index: str | KeyIndex) -> KeyIndex:
    """Return the index of a name, or the one that is given.

    Raises:
        ValueError: there is none of that name.

    >>> index_of("simple").everywhere
    False
    """
    if not isinstance(index, str):
        return index
    if index not in _KINDS:
        raise ValueError(f"index is {index!r}; give {', '.join(map(repr, _KINDS))}")
    return _KINDS[index]()
