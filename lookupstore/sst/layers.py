"""Files of several buckets that answer as one, those of a bucket layer by layer."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping, Sequence
from typing import Any

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.errors import LookupStoreError
from lookupstore.sst._answers import Answers
from lookupstore.sst._batch import Filters, Layer, answer
from lookupstore.sst._changes import MOST_BYTES, MOST_RUNS, Changes
from lookupstore.sst._filter import Filter, FilterBuilder
from lookupstore.sst._lookup import Lookup
from lookupstore.sst.reader import Reader, lookup_of

# Bytes for 32 keys of several runs of changes in the filter for all of them. With more it would be
# larger than the processor's second cache sooner; with these it lets two keys of a hundred pass.
ABOVE_BYTES = 40
# Tests of filters for each key of the runs, when that one is made: a test takes two nanoseconds,
# and to read a key some ten.
ABOVE_PAYS = 4
# Of a bucket without runs.
_NO_RUNS = Filter("words", bytes(32))

_log = logging.getLogger(__name__)


class Layers:
    """The open files of some buckets, asked together: each key in those of its bucket.

    Of the files of a bucket, the first one that has a key answers it, and those behind it are not
    asked.

    Args:
        buckets: how many there are. The bucket of a key is XXH64 of its bytes, modulo this.
        readers: of the files of each bucket that has some: runs of changes, the newest first, and
            the base behind them.
        without_base: buckets all of whose files are runs.

    Raises:
        ClosedError: a reader is closed.
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
        # What is asked, and before it: one value, since another thread may change it.
        self._asked = self._layer(last, without_base), newer
        self._above: dict[int, RunsAbove] = {}
        for bucket, some in runs.items():
            above = last[bucket]._above
            if above is None or above.runs != list(some):
                above = last[bucket]._above = RunsAbove(some)
            self._above[bucket] = above
        self._filters: Filters | None = None  # once they stay as they are

    def lookup(self, keys: Any, answers: Answers) -> None:
        """Pass the values of many keys to `answers`, each where it lies, without a copy.

        Args:
            keys: as for `Reader.lookup`.
            answers: takes as many, such as `lookupstore.rows.schema` does to make columns of them.

        Raises:
            CorruptionError: a block that would hold a key is damaged.
            ValueError: `answers` has room for another number of keys.
            Exception: what `answers` says of a value.
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
            self._take_changes()  # of this call may be the last places that were to come

    def _layer(self, readers: Mapping[int, Reader], runs: Container[int]) -> Layer:
        lookups = {bucket: lookup_of(reader) for bucket, reader in readers.items()}
        return Layer(tuple(lookups.get(bucket) for bucket in range(self._buckets)), runs)

    def _take_changes(self) -> None:
        """Ask tables that have the changes of all runs, if there are such by now."""
        base, _ = self._asked
        changes: list[Changes | None] = [None] * self._buckets
        for bucket, above in self._above.items():
            changes[bucket] = above.changes_above(base.lookups[bucket])
            if changes[bucket] is None:
                return
        self._asked = Layer(base.lookups, self._without_base, changes), []

    def _filters_now(self) -> Filters:
        """Return filters that let all keys of runs pass."""
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
    """The runs of changes that lookups ask before a file.

    Most keys are in no run. To ask the filter of each takes longer, the more runs there are, so
    that one for all is made when lookups have paid for it. Where the file is hot, too, one table
    has the records of all runs, and the places of the file say for which keys to look there.

    Args:
        runs: their readers, the newest first.
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
        #: Whether the filter is yet to be made.
        self.is_due: bool = len(self.runs) > 1

    def count(self, keys: int) -> None:
        """Count lookups of so many keys."""
        self._asked += keys * len(self.runs)

    @property
    def _is_paid(self) -> bool:
        return self._asked >= ABOVE_PAYS * self._keys

    def changes_above(self, file: Lookup | None) -> Changes | None:
        """Return a table of the records of all runs above the file, if there can be one by now."""
        if self._changes is None and self._can_have_changes and self._is_paid:
            assert file is not None
            if file.table.places is None:
                return None
            self._can_have_changes = False  # whatever comes of it
            try:
                lookups = [lookup_of(run) for run in self.runs]
                if all(_is_in_map(run) for run in lookups):
                    self._changes = Changes(file, lookups)
            except (LookupStoreError, OSError, ValueError) as error:
                _log.info("lookups ask each run of changes: %s", error)
        return self._changes

    def filter_now(self) -> Filter | None:
        """Return a filter that lets all keys of the runs pass, if there is one by now."""
        if self.is_due and self._is_paid:
            self.is_due = False  # whatever comes of it
            builder = FilterBuilder("words", 32 * (ABOVE_BYTES * self._keys // 32**2 + 1))
            try:
                for run in self.runs:
                    run._add_keys(builder)
            except (LookupStoreError, OSError) as error:
                # Those of other keys need not know; who needs what is damaged is told.
                _log.info("lookups ask each run of changes: %s", error)
            else:
                self._filter = Filter("words", builder.finish(0, 0))
        return self._filter


def _is_in_map(run: Lookup) -> bool:
    """Return whether all records of a run stay where they are, in a map that is not too large."""
    if not run.in_place or run.is_copy or run.map is None:
        return False
    return len(memoryview(run.map)) <= MOST_BYTES
