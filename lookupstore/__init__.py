"""Look up a million keys per call in small sorted files, built once from columnar data."""

import lookupstore._built  # noqa: F401  (before what a missing extension would break)
from lookupstore._version import __version__
from lookupstore.builder.in_process import build
from lookupstore.columnar import ColumnarFiles
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
