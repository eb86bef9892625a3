"""The protocol of an index, which finds base files and rows of keys.

Source: org.apache.hudi.index.HoodieIndex (tagLocation, isGlobal).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.index.funnel import Tally
from lookupstore.hudi.view import TableView


@dataclass(frozen=True, eq=False)
class Hits:
    """The keys that a base file has.

    Attributes:
        file: Number of the file among the given ones.
        rows: Numbers of the keys among the given ones, int64. A key that the file has several times
            is repeated.
        positions: Row number of each of these keys in the file, int64.
    """

    file: int
    rows: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]


class KeyIndex(Protocol):
    """The protocol of an index: the members of a class that is passed as `index=`.

    An index passed as `package.module.Class` is made once per process, without arguments, and
    serves any number of tables. It may keep data of files, which never change.
    """

    @property
    def is_global(self) -> bool:
        """Return whether to look for a key in all partitions, instead of only in its own."""

    def locate(
        self, view: TableView, files: Sequence[FileSlice], keys: pa.Array, tally: Tally
    ) -> Iterable[Hits]:
        """Find which of some keys are in which of some files.

        Args:
            view: Table with the keys.
            files: Current base files to search. They are those of one partition, unless
                `is_global` is true.
            keys: Record keys, large_binary without nulls, in any order; keys may be repeated.
            tally: Counts and times to add to, by their names in `Funnel`.

        Returns:
            The hits of each file, once per file. Each row of a repeated key is a hit. Files without
            hits may be left out.

        Raises:
            CorruptionError: If a file is damaged.
            StaleStoreError: If a file was deleted.
        """


@runtime_checkable
class PreparedIndex(Protocol):
    """The optional part of the protocol: an index that gets all files first."""

    def prepare(self, view: TableView, files: Sequence[FileSlice], tally: Tally) -> None:
        """Prepare for a search in files of all partitions with keys.

        Args:
            view: Table with the keys.
            files: Files that `locate` will be called with, one partition at a time.
            tally: Counts and times to add to, by their names in `Funnel`.
        """
