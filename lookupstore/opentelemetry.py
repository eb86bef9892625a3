"""Counts of lookups as metrics of OpenTelemetry, for services; its exporters send them on.

The names are in `docs/how-to/monitor-a-service.md`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable

from lookupstore._version import __version__
from lookupstore.extras import require
from lookupstore.store.local_files import LocalLookups
from lookupstore.store.store import LookupStore

require("opentelemetry", "lookupstore.opentelemetry")

from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter

__all__ = ["observe"]

# Counts of `LocalLookups.stats`: name of the instrument, unit and description.
_COUNTERS = {
    "keys": ("lookupstore.keys", "{key}", "Keys that were looked up."),
    "misses": ("lookupstore.misses", "{key}", "Keys without a row."),
    "filter_negatives": (
        "lookupstore.filter_negatives",
        "{key}",
        "Missing keys of batches that needed no block.",
    ),
    "blocks_read": ("lookupstore.blocks_read", "{block}", "Blocks read for the first time."),
    "bytes_read": ("lookupstore.read", "By", "Size of these blocks."),
    "bytes_fetched": ("lookupstore.fetched", "By", "Bytes fetched from remote storage."),
    "range_requests": ("lookupstore.range_requests", "{request}", "Requests to remote storage."),
    "retries": ("lookupstore.retries", "{request}", "Requests that were tried again."),
}
_VERSION = ("lookupstore.version", "", "Version of the store that answers.")

# Lookups by name, by the meter whose instruments observe them: it makes each instrument once.
_observed: weakref.WeakKeyDictionary[Meter, dict[str, _Observed]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def observe(
    lookups: LocalLookups | Callable[[], LocalLookups],
    *,
    name: str | None = None,
    meter: Meter | None = None,
) -> None:
    """Report the counts of lookups as metrics of this process.

    The metrics have the attribute `lookupstore.name`. Call it in each worker process, after the
    fork and after the exporter is set up.

    Args:
        lookups: Store, files or table, or a function that returns the one that answers now. Counts
            go on when the function returns another one. Versions that `newest`, `refresh` or
            `sync` returned are all counted; another object that answers only between two
            collections is not.
        name: Value of the attribute. Default: the path or URI. A later call with the same name
            replaces the lookups, and counts go on.
        meter: Meter that makes the instruments. Default: the meter `lookupstore` of the global
            provider.

    Raises:
        TypeError: If `lookups` is something else.

    >>> import tempfile, lookupstore
    >>> store = lookupstore.build({"id": [7]}, tempfile.mkdtemp(), key="id")
    >>> observe(store, name="users")
    """
    if not isinstance(lookups, LocalLookups) and not callable(lookups):
        raise TypeError(
            f"lookups is a {type(lookups).__name__}; give an open store, files or a table, or a "
            "function that returns one"
        )
    current: Callable[[], LocalLookups] = (
        (lambda: lookups) if isinstance(lookups, LocalLookups) else lookups
    )
    name = current().path if name is None else name
    meter = get_meter("lookupstore", __version__) if meter is None else meter
    with _lock:
        others = _observed.get(meter)
        if others is None:
            others = _observed[meter] = {}
            _make_instruments(meter, others)
        if name in others:
            others[name].current = current
        else:
            others[name] = _Observed(current, name)


class _Observed:
    """Lookups that are observed, and the sum of the counts of those that answered before.

    Args:
        current: Function that returns the lookups that answer now.
        name: Value of the attribute.
    """

    def __init__(self, current: Callable[[], LocalLookups], name: str) -> None:
        self.current: Callable[[], LocalLookups] = current
        #: Attributes of the metrics.
        self.attributes: dict[str, str] = {"lookupstore.name": name}
        self._lock = threading.Lock()
        # A version goes on counting until its last lookup, after another one has taken its place.
        self._last: LocalLookups | None = None
        self._past = dict.fromkeys(_COUNTERS, 0)

    def count(self, which: str) -> int:
        """Return one of the counts, over all lookups that have answered."""
        with self._lock:
            lookups = self.current()
            if self._last is not None and not self._last.counts_with(lookups):
                self._past = self._with(self._last)
            self._last = lookups
            return self._with(lookups)[which]

    def _with(self, lookups: LocalLookups) -> dict[str, int]:
        own = lookups.stats()
        return {key: self._past[key] + own[key] for key in self._past}


def _make_instruments(meter: Meter, observed: dict[str, _Observed]) -> None:
    def counted(which: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observations(options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(one.count(which), one.attributes) for one in [*observed.values()]]

        return observations

    def versions(options: CallbackOptions) -> Iterable[Observation]:
        stores = [(one, one.current()) for one in [*observed.values()]]
        return [
            Observation(store.version, one.attributes)
            for one, store in stores
            if isinstance(store, LookupStore)
        ]

    for which, (name, unit, description) in _COUNTERS.items():
        meter.create_observable_counter(name, [counted(which)], unit, description)
    meter.create_observable_gauge(_VERSION[0], [versions], _VERSION[1], _VERSION[2])
