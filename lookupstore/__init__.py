"""Look up a million keys a call in small sorted files, built once from columnar data."""

from lookupstore._version import __version__
from lookupstore.build import build
from lookupstore.errors import (
    ClosedError,
    CorruptionError,
    FormatError,
    LookupStoreError,
    StaleStoreError,
)
from lookupstore.store import LookupStore, open

__all__ = [
    "ClosedError",
    "CorruptionError",
    "FormatError",
    "LookupStore",
    "LookupStoreError",
    "StaleStoreError",
    "__version__",
    "build",
    "open",
]
