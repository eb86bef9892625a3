"""The exact check: which of some keys a base file has, and in which rows.

Its lookup file answers at once, but has to be made; reading all keys of the file costs a part of
that, each time. So files are read until that has cost as much as making the lookup file would (see
`lookupstore.columnar.rent`). A file whose every slice is written anew by the next upsert never gets
one.
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
        file: the base file.
        residency: where lookup files of this host are.
        build: when to make a lookup file: `auto`: when reads have cost as much; `always`: at the
            first key; `never`.
    """

    def __init__(self, file: KeyFile, residency: Residency, build: Build) -> None:
        self.file = file
        # Whatever the data columns are called, they are not asked.
        own = pa.schema([file.source.schema.field(RECORD_KEY)])
        keys = replace(file.source, schema=own)
        self._plan = plan_lookup_file(keys, [RECORD_KEY], None, "position", "error")
        self._lookup = FileLookup(self._plan, None, residency, build, _MEMORY)
        self._rent = Rent(build)

    def is_ready(self) -> bool:
        """Return whether the lookup file is there."""
        return self._lookup.is_ready()

    def prepare(self) -> bool:
        """Return whether the lookup file is ready, after making it if that is due.

        Where it cannot be made, since it does not fit into the quota, or since the file has a key
        twice, reads go on: only keys that are asked for are the caller's business.
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
        """Return which keys the file has, by its lookup file.

        Args:
            keys: large_binary, no nulls; in any order, also repeated.
            hashed: the same, with their hashes, of who asks several files.

        Returns:
            rows of the keys that it has, ascending; the row of each in the file; and how many keys
            the filter of the lookup file ruled out.

        Raises:
            CorruptionError: the lookup file is damaged, and so is the base file.
            StaleStoreError: the base file has been written again, or is gone.
        """
        before = self._lookup.counts().filter_negatives
        # One field of text is, as a key, its own bytes.
        rows, packed = self._lookup.lookup(keys, hashed)
        ruled_out = self._lookup.counts().filter_negatives - before
        try:
            places = self._plan.build.row_schema.unpack(packed, [POSITION]).column(0)
        except FormatError as error:
            path = self._lookup.reader().path
            raise CorruptionError(path, 0, "packed positions", error) from error
        return rows, places.to_numpy(zero_copy_only=False), max(0, ruled_out)

    def read(self, wanted: WantedKeys) -> tuple[Rows, Rows]:
        """Return which keys the file has, by reading all of its keys; see `WantedKeys.found_in`."""
        found = wanted.found_in(self.file)
        self._rent.pay(self.file.key_bytes)
        return found

    def release(self) -> None:
        """Release the lookup file; the next key pins it again."""
        self._lookup.release()
