"""What an index does: say which keys are in which base files, and in which rows.

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
    """Keys that a base file has.

    Attributes:
        file: number of the file among those that were given.
        rows: of the keys among those that were given, int64; of a key that the file has several
            times as often, one after the other.
        positions: row of each in the file, int64.
    """

    file: int
    rows: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]


class KeyIndex(Protocol):
    """The protocol of an index: what a class must do that is given as `index=`.

    An index of the name `package.module.Class` is made once per process, without arguments, and
    serves any number of tables: what it keeps is of files, which never change.
    """

    @property
    def everywhere(self) -> bool:
        """Return whether a key is looked for in all partitions, not in its own only."""

    def locate(
        self, view: TableView, files: Sequence[FileSlice], keys: pa.Array, tally: Tally
    ) -> Iterable[Hits]:
        """Yield which of some keys are in which of some files.

        Args:
            view: the table.
            files: current base files, those of one partition unless the index is for all.
            keys: record keys, large_binary without nulls; in any order, also repeated.
            tally: is told what the funnel shows of steps that the index has.

        Returns:
            the hits of each file, once per file; every row of a repeated key is one.

        Raises:
            CorruptionError: a file is damaged.
            StaleStoreError: a file is gone.
        """


@runtime_checkable
class PreparedIndex(Protocol):
    """The optional part of the protocol: an index that is told of all files first."""

    def prepare(self, view: TableView, files: Sequence[FileSlice], tally: Tally) -> None:
        """Get ready for files of all partitions that have keys.

        Args:
            view: the table.
            files: that `locate` will be called with, one partition at a time.
            tally: as of `locate`.
        """
