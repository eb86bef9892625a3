"""Indexes by name.

The table below lists the built-in indexes. Any other name is that of a class,
`package.module.Class`, which implements `lookupstore.hudi.index.interface.KeyIndex`.

Source: org.apache.hudi.index.HoodieIndex.IndexType, and its option for a custom class.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable

from lookupstore.errors import meant
from lookupstore.hudi.index.bloom import BloomIndex
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.index.memory import MemoryIndex
from lookupstore.hudi.index.simple import GlobalSimpleIndex, SimpleIndex

_KINDS: dict[str, Callable[[], KeyIndex]] = {
    "in-memory": MemoryIndex,
    "simple": SimpleIndex,
    "bloom": BloomIndex,
    "global-bloom": functools.partial(BloomIndex, is_global=True),
    "global-simple": GlobalSimpleIndex,
}
#: Names of the built-in indexes.
INDEXES = tuple(_KINDS)


def index_of(index: str | KeyIndex) -> KeyIndex:
    """Return the index with a name, one per process, or the given index itself.

    Raises:
        ValueError: If the index does not exist.
        TypeError: If `index` is not an index.

    >>> index_of("global-bloom").is_global
    True
    """
    found = _named(index) if isinstance(index, str) else index
    if not callable(getattr(found, "locate", None)) or not hasattr(found, "is_global"):
        raise TypeError(f"index is {index!r}, without `is_global` or `locate`; give a KeyIndex")
    return found


@functools.cache
def _named(name: str) -> KeyIndex:
    if name in _KINDS:
        return _KINDS[name]()
    module, _, attribute = name.rpartition(".")
    try:
        made: Callable[[], KeyIndex] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        known = (
            f"give {', '.join(map(repr, _KINDS))} or the name of a class, 'package.module.Class'"
        )
        # Hudi's options have the same names in capitals, with underscores.
        others = meant(name.replace("_", "-"), _KINDS, known)
        reason = f" ({error})" if module else ""
        raise ValueError(f"index is {name!r}{others}{reason}") from error
    return made()
