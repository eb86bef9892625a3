"""What a lookup join was asked to do, before anything is opened or checked against facts."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from lookupstore.columnar import ColumnarFiles
from lookupstore.quantities import Duration, seconds_of
from lookupstore.spark.join.freshness import Freshness
from lookupstore.spark.join.metrics import LookupMetrics
from lookupstore.storage.location import Location
from lookupstore.store.store import LookupStore

if TYPE_CHECKING:  # joins with stores need nothing of Hudi
    from lookupstore.hudi import HudiTable, TableLookup

#: What a join takes as the dimension.
JoinedWith: TypeAlias = (
    "str | os.PathLike[str] | Location | LookupStore | ColumnarFiles | HudiTable | TableLookup"
)

_REFRESHES = {"never": None, "per_batch": 0.0}


@dataclass(frozen=True)
class LookupJoin:
    """One of the joins of `lookup_joins`: the arguments of `lookup_join` beside the facts.

    Attributes:
        store: a store, columnar files or a Hudi table, or a path or location of these.
        on: the columns that hold the key, of the facts or of joins before this one.
        how: the kind of join.
        columns: value columns of the store to append; None appends all.
        prefix: put before the name of each appended column.
        found: name of a boolean column to append.
        strategy: `auto`, `replicated` or `bucketed`.
        refresh: which version answers.
        max_staleness: how old it may be.
        on_miss: what happens to facts whose key is missing.
        metrics: adds up what the tasks count; joins may share one.
        storage_options: of the URI of `store`.
    """

    store: JoinedWith
    on: str | Sequence[str] | Mapping[str, str]
    how: str = "left"
    columns: Sequence[str] | None = None
    prefix: str | None = None
    _: KW_ONLY
    found: str | None = None
    strategy: str = "auto"
    refresh: str | float | timedelta = "never"
    max_staleness: Duration | None = None
    on_miss: str | tuple[str, int, float | timedelta] = "null"
    metrics: LookupMetrics | None = None
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def freshness(self) -> Freshness:
        """Return what `refresh` and `max_staleness` ask for.

        Raises:
            ValueError: they are nothing that a join knows.

        >>> LookupJoin("users", "id", refresh="per_batch", max_staleness="1h").freshness
        Freshness(every=0.0, max_staleness=3600.0)
        """
        every: float | None
        if isinstance(self.refresh, str) and self.refresh in _REFRESHES:
            every = _REFRESHES[self.refresh]
        else:
            every = time_in_seconds(self.refresh)
            if not every:
                known = ", ".join(map(repr, _REFRESHES))
                raise ValueError(
                    f"refresh is {self.refresh!r}; give {known}, or a time of more than 0: "
                    "seconds, a timedelta, or a text such as '1m'"
                )
        allowed = None if self.max_staleness is None else time_in_seconds(self.max_staleness)
        if self.max_staleness is not None and allowed is None:
            raise ValueError(
                f"max_staleness is {self.max_staleness!r}; give a number of seconds, a timedelta, "
                "or a time such as '1h'; None is any"
            )
        return Freshness(every, allowed)


def time_in_seconds(time: Any) -> float | None:
    """Return a time in seconds; None if it is none, or has no end.

    >>> time_in_seconds("1m"), time_in_seconds("soon")
    (60.0, None)
    """
    try:
        seconds = seconds_of(time, "time")
    except (TypeError, ValueError):
        return None
    return seconds if seconds < math.inf else None
