"""Choose the version of a store that answers a query: the same version in all of its tasks.

Spark passes the same `current_timestamp()` to every task of a query, or of a micro-batch, also if a
task or a batch is retried. The version is a function of that moment: the newest one that was
published before it. Therefore tasks need not communicate their choice.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from lookupstore.errors import LookupStoreError, StaleStoreError
from lookupstore.storage.location import Location
from lookupstore.store.manifest import Manifest
from lookupstore.store.version_files import VersionName, list_names, read_version, void_names

#: Minimum age in seconds of a version that answers. The time in a version is chosen before its file
#: exists, and two tasks that list versions before and after that must choose the same one.
SETTLE_SECONDS = 1.0
# Number of versions whose manifests a worker keeps.
_MANIFESTS_KEPT = 256

_log = logging.getLogger(__name__)


class ChosenVersion(NamedTuple):
    """A version of a store, and the way in which it was found."""

    number: int
    id: str
    refreshed: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Freshness:
    """The required freshness of the version of a store.

    Attributes:
        every: Seconds between two looks for a newer version. 0: one look for each query or
            micro-batch. None: no look, so that the version that the join was planned on answers.
        max_staleness: Greatest age of the version in seconds when a query starts. None: any age.
    """

    every: float | None = None
    max_staleness: float | None = None

    @property
    def needs_moment(self) -> bool:
        """Return whether the moment of the query is needed."""
        return self.every is not None or self.max_staleness is not None

    def looked_at(self, moment: float) -> float:
        """Return the time, in seconds since 1970, at which a query of a moment refreshes.

        >>> Freshness(every=60).looked_at(125.0)
        120.0
        """
        return moment - moment % self.every if self.every else moment

    def version_at(
        self, location: Location, planned: ChosenVersion, moment: float
    ) -> ChosenVersion:
        """Return the version that answers a query.

        Args:
            location: Location of the store.
            planned: Version that the join was planned on. No older version is chosen.
            moment: Start of the query, in seconds since 1970.

        Raises:
            StaleStoreError: If the version was published more than `max_staleness` seconds before
                the query, or the store was deleted and built again since the join was planned.
        """
        if self.every is None:
            chosen = planned
        else:
            chosen = _seen(location).as_of(self.looked_at(moment), planned)
        if self.max_staleness is not None:
            created = _manifest(location, VersionName(chosen.number, chosen.id)).created_at
            what = f"{location.uri}: version {chosen.number} was published"
            self.check_age(what, created.timestamp(), moment, "publish a newer version")
        return chosen

    def check_age(self, what: str, published: float, moment: float, remedy: str) -> None:
        """Check that a version is not older than `max_staleness` when a query starts.

        Args:
            what: Beginning of the error, such as `users: version 1 was published`.
            published: Time of the version in seconds since 1970.
            moment: Start of the query, in seconds since 1970.
            remedy: What to do instead of raising `max_staleness`.

        Raises:
            StaleStoreError: If it is older.
        """
        if self.max_staleness is None:
            return
        if moment - published > self.max_staleness:
            age = timedelta(seconds=moment - published)
            raise StaleStoreError(
                f"{what} {age} before the query, but max_staleness is "
                f"{timedelta(seconds=self.max_staleness)}; {remedy}, or raise max_staleness"
            )


class _Seen:
    """The versions of one store that this process has seen, and its choices."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._lock = threading.Lock()
        self._names: set[VersionName] = set()
        self._choices: dict[float, ChosenVersion] = {}

    def as_of(self, as_of: float, planned: ChosenVersion) -> ChosenVersion:
        """Return the newest version that existed at a moment, but none before `planned`."""
        with self._lock:
            chosen = self._choices.get(as_of)
            # A version that is not known may be of a store that was built again meanwhile.
            known = VersionName(planned.number, planned.id) in self._names
            if chosen is not None and known:
                return max(chosen._replace(refreshed=False, failed=False), planned)
            failed = False
            try:
                listed = list_names(self._location)
                if self._are_of_another_store(listed):
                    self._names.clear()
                # A listing that lags behind does not remove versions that were seen before.
                self._names.update(listed)
                self._names -= void_names(self._location, listed)
                replaced = self._is_replaced(planned, listed)
            except (OSError, LookupStoreError) as error:
                failed = True
                _log.warning(
                    "%s: could not check for a newer version: %s", self._location.uri, error
                )
            if not failed and replaced:
                raise StaleStoreError(
                    f"{self._location.uri}: the store was deleted and built again after the join "
                    f"was planned on version {planned.number}; call lookup_join again"
                )
            if not failed:
                self._names.add(VersionName(planned.number, planned.id))
            chosen = planned._replace(refreshed=not failed, failed=failed)
            for name in sorted(self._names, reverse=True):
                if name[:2] <= planned[:2]:
                    break
                if self._is_settled(name, as_of):
                    chosen = ChosenVersion(name.number, name.id, not failed, failed)
                    break
            if not failed:
                self._choices = {as_of: chosen}  # moments increase: the last choice is enough
            return chosen

    def _are_of_another_store(self, listed: Collection[VersionName]) -> bool:
        """Return whether the store was deleted and built again: then its numbers begin again."""
        last = max((name.number for name in self._names), default=0)
        return any(name.number <= last and name not in self._names for name in listed)

    def _is_replaced(self, planned: ChosenVersion, listed: Collection[VersionName]) -> bool:
        """Return whether a version is of a store that was deleted and built again.

        A version that expired has newer ones beside it.
        """
        name = VersionName(planned.number, planned.id)
        if not listed or name in listed or max(one.number for one in listed) > name.number:
            return False
        try:
            read_version(self._location, name)
        except FileNotFoundError:
            return True
        return False

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
