"""The files of several buckets, which answer lookups like one file, layer by layer."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping, Sequence
from typing import Any

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import LookupStoreError
from lookupstore.sst._answers import Answers
from lookupstore.sst._batch import answer
from lookupstore.sst._changes import MOST_BYTES, MOST_RUNS, Changes
from lookupstore.sst._data_blocks import DataBlocks
from lookupstore.sst._filter import Filter, FilterBuilder
from lookupstore.sst._layer import Filters, Layer
from lookupstore.sst._lookup import Lookup
from lookupstore.sst._making_places import check_places
from lookupstore.sst.reader import Reader, lookup_of

# Size in bytes, for 32 keys, of the filter for several runs of changes. A larger filter would
# exceed the second-level cache of the processor sooner; with this size, 2 % of other keys pass.
ABOVE_BYTES = 40
# Number of filter tests for each key of the runs after which that filter is made: a test takes two
# nanoseconds, and reading a key takes about ten. Fewer than five, so that the table of the runs is
# there when the file below gets its places.
ABOVE_PAYS = 3
# Filter of a bucket without runs; no key passes it.
_NO_RUNS = Filter("words", bytes(32))

# Number of bytes that exceeds the size of the places of any file.
_ALL = 1 << 62

_log = logging.getLogger(__name__)


class Layers:
    """The open files of some buckets, which answer lookups together.

    Each key is looked up in the files of its bucket. The first file that has the key answers it,
    and later ones are not searched.

    Args:
        buckets: Number of buckets. The bucket of a key is the XXH64 of its bytes, modulo this
            number.
        readers: Readers of the files of each bucket that has files: runs of changes, the newest
            first, then the base.
        without_base: Buckets that have only runs.

    Raises:
        ClosedError: A reader is closed.
    """

    def __init__(
        self,
        buckets: int,
        readers: Mapping[int, Sequence[Reader]],
        without_base: Container[int] = (),
    ) -> None:
        self._buckets = buckets
        self._without_base = without_base
        runs = {bucket: some[:-1] for bucket, some in readers.items() if len(some) > 1}
        last = {bucket: some[-1] for bucket, some in readers.items()}
        newer = [
            self._layer(
                {bucket: some[i] for bucket, some in runs.items() if i < len(some)}, runs.keys()
            )
            for i in range(max(map(len, runs.values()), default=0))
        ]
        # Layer to search and layers to search before it: a single value, as other threads may
        # replace it.
        self._asked = self._layer(last, without_base), newer
        self._above: dict[int, RunsAbove] = {}
        for bucket, some in runs.items():
            above = last[bucket]._above
            if above is None or above.runs != list(some):
                above = last[bucket]._above = RunsAbove(some)
            self._above[bucket] = above
        self._filters: Filters | None = None  # set once the filters cannot change any more

    def lookup(self, keys: Any, answers: Answers) -> None:
        """Pass the values of many keys to `answers` without copying them.

        Args:
            keys: Arrow array of binary, large_binary, fixed_size_binary or binary_view with n keys
                in any order, or a list of bytes, or the result of `hashed_keys`.
            answers: Receiver of n values, for example one that `lookupstore.rows.schema` makes to
                build columns from them.

        Raises:
            CorruptionError: A block that would hold a key is damaged.
            ValueError: If `answers` has room for another number of keys.
            Exception: Any error that `answers` raises for a value.
        """
        if not isinstance(keys, BinaryColumn):
            keys = BinaryColumn(keys, "keys")
        above = None
        if self._asked[1]:
            each = -(-len(keys) // self._buckets)
            for runs in self._above.values():
                runs.count(each)
            self._take_changes()
        base, newer = self._asked
        if newer:
            above = self._filters_now()
        answer(base, keys, answers, newer, above)
        if newer:
            self._take_changes()  # this call may have completed the places

    def _layer(self, readers: Mapping[int, Reader], runs: Container[int]) -> Layer:
        lookups = {bucket: lookup_of(reader) for bucket, reader in readers.items()}
        return Layer(tuple(lookups.get(bucket) for bucket in range(self._buckets)), runs)

    def _take_changes(self) -> None:
        """Use tables of the changes of all runs, if such tables exist by now."""
        base, _ = self._asked
        changes: list[Changes | None] = [None] * self._buckets
        for bucket, above in self._above.items():
            changes[bucket] = above.changes_above(base.lookups[bucket])
            if changes[bucket] is None:
                return
        self._asked = Layer(base.lookups, self._without_base, changes), []

    def _filters_now(self) -> Filters:
        """Return filters that all keys of runs pass."""
        if self._filters is not None:
            return self._filters
        found: list[Filter | None] = [_NO_RUNS] * self._buckets
        for bucket, above in self._above.items():
            found[bucket] = above.filter_now()
        filters = Filters(found)
        if not any(above.is_due for above in self._above.values()):
            self._filters = filters
        return filters


class RunsAbove:
    """The runs of changes that lookups search before a file.

    Most keys are in no run. Testing the filter of each run takes longer with more runs, so one
    filter for all of them is made after enough lookups. If the file is used often as well, one
    table has the records of all runs, and the lookup table of the file marks the keys that are in
    it.

    Args:
        runs: Readers of the runs, the newest first.
    """

    def __init__(self, runs: Sequence[Reader]) -> None:
        self.runs: list[Reader] = list(runs)
        self._keys = sum(len(run) for run in self.runs)
        self._asked = 0
        self._changes: Changes | None = None
        self._can_have_changes = len(self.runs) <= MOST_RUNS
        self._filter: Filter | None = None
        if len(self.runs) == 1:
            self._filter = self.runs[0]._filter
        #: Whether the filter has not been made yet.
        self.is_due: bool = len(self.runs) > 1

    def count(self, keys: int) -> None:
        """Count lookups of a number of keys."""
        self._asked += keys * len(self.runs)

    @property
    def _is_paid(self) -> bool:
        return self._asked >= ABOVE_PAYS * self._keys

    def changes_above(self, file: Lookup | None) -> Changes | None:
        """Return a table of the records of all runs above the file. None: it cannot be made."""
        if self._changes is None and self._can_have_changes and self._is_paid:
            assert file is not None
            # The places record which keys have changed, and must have been checked before.
            if not check_places(file.data, _ALL) or file.data.table.places is None:
                return None
            self._can_have_changes = False  # also if making it fails
            try:
                runs = [lookup_of(run).data for run in self.runs]
                if all(_is_in_map(run) for run in runs):
                    self._changes = Changes(file.data, runs)
            except (LookupStoreError, OSError, ValueError) as error:
                _log.info("lookups ask each run of changes: %s", error)
        return self._changes

    def filter_now(self) -> Filter | None:
        """Return a filter that all keys of the runs pass. None: there is none yet."""
        if self.is_due and self._is_paid:
            self.is_due = False  # also if making it fails
            builder = FilterBuilder("words", 32 * (ABOVE_BYTES * self._keys // 32**2 + 1))
            try:
                for run in self.runs:
                    run._add_keys(builder)
            except (LookupStoreError, OSError) as error:
                # Lookups of other keys are not affected; lookups of damaged records raise the
                # error.
                _log.info("lookups ask each run of changes: %s", error)
            else:
                self._filter = Filter("words", builder.finish(0, 0))
        return self._filter


def _is_in_map(run: DataBlocks) -> bool:
    """Return whether all records of a run are in a map that is kept and not too large."""
    if not run.in_place or run.is_copy or run.map is None:
        return False
    return len(memoryview(run.map)) <= MOST_BYTES
