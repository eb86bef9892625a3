"""Which version of a store answers a query: the same one in all its tasks, wherever they run.

Spark gives every task of a query, or of a micro-batch, the same `current_timestamp()`, also when a
task or a batch is tried again. The version is a function of that moment: the newest one that was
published before it. So no task has to be told what another one has chosen.
"""

from __future__ import annotations

import functools
import logging
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from lookupstore.errors import LookupStoreError, StaleStoreError
from lookupstore.storage.location import Location
from lookupstore.store.manifest import Manifest
from lookupstore.store.version_files import VersionName, list_names, read_version, void_names

#: Seconds that a version has to be old before it answers. It says when it was published before it
#: is there, and a task that looks in between must not choose another one than the next task.
SETTLE_SECONDS = 1.0
# Versions whose manifests a worker remembers.
_MANIFESTS_KEPT = 256

_log = logging.getLogger(__name__)


class Chosen(NamedTuple):
    """A version of a store, and how it was found."""

    number: int
    id: str
    refreshed: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Freshness:
    """How new the version of a store has to be.

    Attributes:
        every: seconds between two looks for a newer version; 0 looks once per query or micro-batch,
            None never: the version that the join was planned on answers.
        max_staleness: most seconds since the version was published; None: any.
    """

    every: float | None = None
    max_staleness: float | None = None

    @property
    def needs_moment(self) -> bool:
        """Return whether the moment of the query has to be known."""
        return self.every is not None or self.max_staleness is not None

    def looked_at(self, moment: float) -> float:
        """Return when a query of a moment looks for newer versions, in seconds since 1970.

        >>> Freshness(every=60).looked_at(125.0)
        120.0
        """
        return moment - moment % self.every if self.every else moment

    def version_at(self, location: Location, planned: Chosen, moment: float) -> Chosen:
        """Return the version that answers a query.

        Args:
            location: of the store.
            planned: the version that the join was planned on; no older one is taken.
            moment: of the query, in seconds since 1970.

        Raises:
            StaleStoreError: it was published too long before.
        """
        if self.every is None:
            chosen = planned
        else:
            chosen = _seen(location).as_of(self.looked_at(moment), planned)
        if self.max_staleness is not None:
            self._check_age(location, chosen, moment)
        return chosen

    def _check_age(self, location: Location, chosen: Chosen, moment: float) -> None:
        created = _manifest(location, VersionName(chosen.number, chosen.id)).created_at
        age = moment - created.timestamp()
        if age > self.max_staleness:  # type: ignore[operator]
            raise StaleStoreError(
                f"{location.uri}: version {chosen.number} was published {timedelta(seconds=age)} "
                "before the query, but max_staleness is "
                f"{timedelta(seconds=self.max_staleness or 0)}; "
                "publish a newer version, or raise max_staleness"
            )


class _Seen:
    """The versions of one store that this process has seen, and its choices."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._lock = threading.Lock()
        self._names: set[VersionName] = set()
        self._choices: dict[float, Chosen] = {}

    def as_of(self, as_of: float, planned: Chosen) -> Chosen:
        """Return the newest version that was there at a moment, but none before `planned`."""
        with self._lock:
            chosen = self._choices.get(as_of)
            if chosen is not None:
                return max(chosen._replace(refreshed=False, failed=False), planned)
            failed = False
            try:
                # A listing that lags behind does not take back what was seen.
                listed = list_names(self._location)
                self._names.update(listed)
                self._names -= void_names(self._location, listed)
            except (OSError, LookupStoreError) as error:
                failed = True
                _log.warning(
                    "%s: could not check for a newer version: %s", self._location.uri, error
                )
            chosen = planned._replace(refreshed=not failed, failed=failed)
            for name in sorted(self._names, reverse=True):
                if name[:2] <= planned[:2]:
                    break
                if self._is_settled(name, as_of):
                    chosen = Chosen(name.number, name.id, not failed, failed)
                    break
            if not failed:
                self._choices = {as_of: chosen}  # moments go forward: the last one is enough
            return chosen

    def _is_settled(self, name: VersionName, as_of: float) -> bool:
        try:
            created = _manifest(self._location, name).created_at
        except FileNotFoundError:
            self._names.discard(name)  # expired, or withdrawn
            return False
        return created.timestamp() <= as_of - SETTLE_SECONDS


@functools.lru_cache(maxsize=_MANIFESTS_KEPT)
def _manifest(location: Location, name: VersionName) -> Manifest:
    return read_version(location, name)


@functools.lru_cache(maxsize=64)
def _seen(location: Location) -> _Seen:
    return _Seen(location)
