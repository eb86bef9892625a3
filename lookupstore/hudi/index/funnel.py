"""Counts and times of each step of a tag."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields

from lookupstore.html_table import html_table


@dataclass(frozen=True)
class Funnel:
    """Counts of keys, files and pairs in each step of a tag.

    A pair is a key and a file that may contain it. The count of a step that an index lacks is 0.

    Attributes:
        keys: Number of keys to find.
        partitions: Number of partitions with files to search.
        files: Number of current base files in these partitions.
        files_in_range: Number of files with at least one key in their key range.
        pairs: Number of pairs of a key and a file of its partition.
        pairs_in_range: Number of pairs in which the key is in the key range of the file.
        filter_tests: Number of pairs tested with a filter: that of the lookup file if there is one,
            or else that of the footer.
        filter_positives: Number of tested pairs that the filter did not rule out.
        false_positives: Number of pairs that the filter did not rule out although the file does not
            have the key.
        files_looked_up: Number of files searched by their lookup file.
        files_read: Number of files whose keys were all read.
        found: Number of keys that a file has.
        seconds: Seconds of each step, by its name, added up over threads.
    """

    keys: int = 0
    partitions: int = 0
    files: int = 0
    files_in_range: int = 0
    pairs: int = 0
    pairs_in_range: int = 0
    filter_tests: int = 0
    filter_positives: int = 0
    false_positives: int = 0
    files_looked_up: int = 0
    files_read: int = 0
    found: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a line for each step.

        >>> print(Funnel(keys=5, partitions=1, files=2, pairs=10, seconds={"list": 0.25}))
        keys                      5
        partitions                1
        files                     2
        files_in_range            0
        pairs                    10
        pairs_in_range            0
        filter_tests              0
        filter_positives          0
        false_positives           0
        files_looked_up           0
        files_read                0
        found                     0
        seconds               0.250   list 0.250
        """
        return "\n".join(
            f"{name:<16} {number:>10}   {more}".rstrip() for name, number, more in self._rows()
        )

    def _repr_html_(self) -> str:
        return html_table("Funnel", [], self._rows())

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        for one in fields(self):
            if one.name != "seconds":
                yield one.name, f"{getattr(self, one.name):,}", ""
        steps = "  ".join(f"{step} {taken:.3f}" for step, taken in self.seconds.items())
        yield "seconds", f"{sum(self.seconds.values()):.3f}", steps


class Tally:
    """Counts for a `Funnel`; threads may share it.

    >>> tally = Tally()
    >>> tally.add(keys=2, files=1)
    >>> tally.add(keys=1)
    >>> tally.funnel().keys
    3
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._seconds: dict[str, float] = {}

    def add(self, **counts: int) -> None:
        """Add to counts, by their names in `Funnel`."""
        with self._lock:
            for name, count in counts.items():
                self._counts[name] = self._counts.get(name, 0) + count

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add the time of the `with` block to a step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - start
            with self._lock:
                self._seconds[name] = self._seconds.get(name, 0.0) + taken

    def funnel(self) -> Funnel:
        """Return the counts so far as a `Funnel`."""
        return Funnel(**self._counts, seconds=dict(self._seconds))
