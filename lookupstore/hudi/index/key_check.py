"""Exact lookups of keys in one base file.

A lookup file answers at once, but has a cost to make. Reading all keys of the base file costs a
fraction of that, every time. Therefore files are read until the reads have cost as much as making
the lookup file (see `lookupstore.columnar.rent`). A file group that every upsert rewrites never
gets one.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.columnar.lookup_file import POSITION, plan_lookup_file
from lookupstore.columnar.rent import Build, Rent
from lookupstore.errors import CorruptionError, DiskQuotaError, FormatError
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi.file_group.key_files import KeyFile
from lookupstore.hudi.index.wanted_keys import WantedKeys
from lookupstore.hudi.meta_columns import RECORD_KEY

Rows = npt.NDArray[np.int64]

_MEMORY = 128 << 20

_log = logging.getLogger(__name__)


class KeyCheck:
    """Lookups of keys in one base file; threads may share it.

    Args:
        file: Base file to look up keys in.
        residency: Cache of lookup files on this host.
        build: When to make a lookup file. `auto`: once reads have cost as much as making it;
            `always`: at the first key; `never`.
    """

    def __init__(self, file: KeyFile, residency: Residency, build: Build) -> None:
        self.file = file
        # Only the meta column of keys is read, even if data columns have other names for keys.
        own = pa.schema([file.source.schema.field(RECORD_KEY)])
        keys = replace(file.source, schema=own)
        self._plan = plan_lookup_file(keys, [RECORD_KEY], None, "position", "error")
        self._lookup = FileLookup(self._plan, None, residency, Rent(build), _MEMORY)
        self._rent = Rent(build)

    def is_ready(self) -> bool:
        """Return whether the lookup file exists."""
        return self._lookup.is_ready()

    def prepare(self) -> bool:
        """Make the lookup file if that is due, and return whether it is ready.

        If it cannot be made, because the quota is too small or the file has a key twice, base files
        are still read. The caller checks only the keys that it looks up.
        """
        if self._lookup.is_ready():
            return True
        if not self._rent.is_due(self.file.key_bytes, self.file.key_bytes):
            return False
        try:
            self._lookup.reader()
        except (DiskQuotaError, ValueError) as error:
            _log.warning("%s: could not build a lookup file: %s", self.file.shown, error)
            self._rent.start_over()
            return False
        return True

    def lookup(self, keys: pa.Array, hashed: BinaryColumn | None) -> tuple[Rows, Rows, int]:
        """Find which keys the base file has, by its lookup file.

        Args:
            keys: Keys to find, large_binary without nulls, in any order; keys may be repeated.
            hashed: The same keys with their hashes, for callers that search several files. None:
                computed.

        Returns:
            Numbers of the keys that the file has, ascending; the row of each in the file; and the
            number of keys that the filter of the lookup file ruled out.

        Raises:
            CorruptionError: If the lookup file or the base file is damaged.
            StaleStoreError: If the base file was written again or deleted.
        """
        before = self._lookup.counts().filter_negatives
        # A key of one text field is encoded as its own bytes.
        rows, packed = self._lookup.lookup(keys, hashed)
        ruled_out = self._lookup.counts().filter_negatives - before
        try:
            places = self._plan.build.row_schema.unpack(packed, [POSITION]).column(0)
        except FormatError as error:
            path = self._lookup.reader().path
            raise CorruptionError(path, 0, "packed positions", error) from error
        return rows, places.to_numpy(zero_copy_only=False), max(0, ruled_out)

    def read(self, wanted: WantedKeys) -> tuple[Rows, Rows]:
        """Find which keys the file has, by reading all of its keys."""
        found = wanted.found_in(self.file)
        self._rent.pay(self.file.key_bytes)
        return found

    def release(self) -> None:
        """Release the lookup file; the next key pins it again."""
        self._lookup.release()
