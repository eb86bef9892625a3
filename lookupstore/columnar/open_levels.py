"""Files by level whose lookup files are open on this host: they answer a call together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from lookupstore.columnar.lookup_file import LookupFilePlan
from lookupstore.columnar.open_files import CallKeys, FoundHits, Numbers, OpenFiles
from lookupstore.columnar.row_kinds import are_tombstones
from lookupstore.keys.schema import KeySchema
from lookupstore.sst import Reader
from lookupstore.sst._hits import FileHits
from lookupstore.sst.owners import OwnerTables


class OpenLevels(OpenFiles):
    """The open lookup files among those of files by level.

    The first file that has a key answers it. Keys that two files of the level of the answer have
    are not answered, except in level 0.

    Args:
        plans: Plans of the lookup files of all files: level after level, the newest first.
        readers: Readers of open lookup files; see `OpenFiles`.
        owners: Function that returns tables of owners; see `OpenFiles`.
        counts: Number of files of each level.
        kinds: Column of the row kinds. None: the files have none.
    """

    def __init__(
        self,
        plans: Sequence[LookupFilePlan],
        readers: Mapping[int, Reader],
        owners: Callable[[KeySchema], OwnerTables],
        counts: Sequence[int],
        kinds: pa.Field | None,
    ) -> None:
        super().__init__(plans, readers, "first", owners)
        self._levels = np.repeat(np.arange(len(counts)), counts)  # level of each file
        self._kinds = kinds
        # Whether the rows of each schema have kinds.
        self._have_kinds = [kinds is not None and kinds.name in rows for rows in self._rows]

    @property
    def _is_plain(self) -> bool:
        return super()._is_plain and not any(self._have_kinds)

    def _found(self, keys: CallKeys, first: int) -> FoundHits | None:
        found = super()._found(keys, first)
        return self._alive(found) if found is not None and any(self._have_kinds) else found

    def _chosen(self, keys: CallKeys, hits: FileHits, first: int) -> Numbers | None:
        places = super()._chosen(keys, hits, first)
        assert places is not None  # the first file answers
        answers = places[hits.keys().to_numpy()]  # number of the hit that answers the key of each
        levels = self._levels[self._numbers[hits.files().to_numpy()]]
        is_other = (answers >= 0) & (answers != np.arange(len(hits)))
        return None if (is_other & (levels > 0) & (levels == levels[answers])).any() else places

    def _alive(self, found: FoundHits) -> FoundHits:
        """Leave out rows that mark their key as deleted."""
        assert self._kinds is not None
        hits, places = found.hits, found.places.copy()
        chosen = places[places >= 0]
        asked = hits.keys().to_numpy()
        schemas = self._rows_of[found.files[chosen]]
        for number, have_kinds in enumerate(self._have_kinds):
            at = chosen[schemas == number] if have_kinds else chosen[:0]
            if len(at):
                _, columns = self._read(number, len(at), [self._kinds], partial(hits.read, at))
                uri = self._plans[int(found.files[at[0]])].source.uri
                gone = are_tombstones(columns[self._kinds.name], uri)
                places[asked[at[gone]]] = -1
        return replace(found, places=places)
