"""What lookups in many files have in common: they pin lookup files, and release them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.stats import Counts
from lookupstore.keys.lookups import Lookups


class ManyLookups(Lookups):
    """The lookups of many files; equal ones have one `id`.

    Attributes:
        id: says what is answered, and from which files.
    """

    id: str
    _residency: Residency

    @abstractmethod
    def _asked(self) -> Iterable[FileLookup]:
        """Return what answers from the files that may have been asked."""

    def counts(self) -> Counts:
        """Return what lookups of this process have read of lookup files, and fetched for them."""
        total = Counts()
        for lookup in self._asked():
            total += lookup.counts()
        return total

    def share_room(self) -> None:
        """Release lookup files if room for others is getting short on this host.

        The next call pins them again. Call it where files stay open and are seldom used.
        """
        if self._residency.is_getting_full:
            for lookup in self._asked():
                lookup.release()

    def close(self) -> None:
        """Close all files. Closing again does nothing; a lookup opens them again."""
        for lookup in self._asked():
            lookup.close()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)
