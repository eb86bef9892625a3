"""Batches of streams, each of which changes a store once.

A version records the last batch of each stream whose changes are in it. The writer of the next
version records its own batch number in the same step, so that a repeated batch is recognized.
"""

from __future__ import annotations

from dataclasses import dataclass

from lookupstore.store.manifest import MAX_STREAMS, Manifest

_MOST_NUMBER = (1 << 63) - 1


@dataclass(frozen=True)
class StreamBatch:
    """One batch of a stream, which sends its batches in the order of their numbers.

    Attributes:
        stream: Name of the stream.
        number: Number of the batch, from 0.

    Raises:
        ValueError: If the stream has no name, or the number is not valid.
    """

    stream: str
    number: int

    def __post_init__(self) -> None:
        if not isinstance(self.stream, str) or not self.stream:
            raise ValueError(f"batch: the stream is {self.stream!r}; give its name as text")
        number = self.number
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if not is_number or not 0 <= number <= _MOST_NUMBER:
            raise ValueError(f"batch: the number is {number!r}; give a number from 0")

    def is_in(self, manifest: Manifest) -> bool:
        """Return whether a version has the changes of this batch."""
        return manifest.batches.get(self.stream, -1) >= self.number

    def added_to(self, manifest: Manifest) -> dict[str, int]:
        """Return the last batches of all streams, this one the last of its own."""
        others = {name: last for name, last in manifest.batches.items() if name != self.stream}
        kept = list(others.items())[-(MAX_STREAMS - 1) :]
        return {**dict(kept), self.stream: self.number}
