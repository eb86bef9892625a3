"""Look up a million keys per call in small sorted files, built once from columnar data."""

import importlib

import lookupstore._built  # noqa: F401  (before what a missing extension would break)
from lookupstore._version import __version__
from lookupstore.errors import (
    ClosedError,
    CommitConflictError,
    CommitUnknownError,
    CorruptionError,
    DiskQuotaError,
    DuplicateKeyError,
    FormatError,
    LockedError,
    LockLostError,
    LookupStoreError,
    MissingKeyError,
    StaleStoreError,
)

TYPE_CHECKING = False  # typing takes longer to import than all of this module
if TYPE_CHECKING:
    from lookupstore.builder.in_process import build
    from lookupstore.columnar import ColumnarFiles
    from lookupstore.following.follow import follow
    from lookupstore.storage.location import Location
    from lookupstore.store.expiry import Expired, expire
    from lookupstore.store.publishing import publish
    from lookupstore.store.store import LookupStore
    from lookupstore.store.store import open as open
    from lookupstore.store.upserting import upsert
    from lookupstore.store.version_files import VersionInfo, versions

# Without `open`, since `import *` would replace Python's own function.
__all__ = [
    "ClosedError",
    "ColumnarFiles",
    "CommitConflictError",
    "CommitUnknownError",
    "CorruptionError",
    "DiskQuotaError",
    "DuplicateKeyError",
    "Expired",
    "FormatError",
    "Location",
    "LockLostError",
    "LockedError",
    "LookupStore",
    "LookupStoreError",
    "MissingKeyError",
    "StaleStoreError",
    "VersionInfo",
    "__version__",
    "build",
    "expire",
    "follow",
    "publish",
    "upsert",
    "versions",
]

# Modules of the names above that need Arrow: each is imported when one of its names is first used.
_MODULES = {
    "ColumnarFiles": "columnar",
    "Expired": "store.expiry",
    "Location": "storage.location",
    "LookupStore": "store.store",
    "VersionInfo": "store.version_files",
    "build": "builder.in_process",
    "expire": "store.expiry",
    "follow": "following.follow",
    "open": "store.store",
    "publish": "store.publishing",
    "upsert": "store.upserting",
    "versions": "store.version_files",
}
_PUBLIC_MODULES = ("columnar", "sst")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name, or a public module without extras, when it is first used."""
        if name in _PUBLIC_MODULES:
            return importlib.import_module(f"lookupstore.{name}")
        if name not in _MODULES:
            raise AttributeError(f"module 'lookupstore' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"lookupstore.{_MODULES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Return the names of the package, also of those that are not imported yet."""
        return sorted({*globals(), *_MODULES, *_PUBLIC_MODULES})
