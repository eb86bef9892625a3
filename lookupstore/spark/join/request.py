"""The request for a lookup join, before anything is opened or checked against facts."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from lookupstore.columnar import ColumnarFiles
from lookupstore.filters import Filter
from lookupstore.quantities import Duration, seconds_of
from lookupstore.spark.join.freshness import Freshness
from lookupstore.spark.join.metrics import LookupMetrics
from lookupstore.storage.location import Location
from lookupstore.store.store import LookupStore

if TYPE_CHECKING:  # joins with stores need nothing of Hudi
    from lookupstore.hudi import HudiTable, TableLookup

#: Objects that are accepted as the dimension of a join.
JoinedWith: TypeAlias = (
    "str | os.PathLike[str] | Location | LookupStore | ColumnarFiles | HudiTable | TableLookup"
)

_REFRESHES = {"never": None, "per_batch": 0.0}


@dataclass(frozen=True)
class LookupJoin:
    """A join for `lookup_joins`: the arguments of `lookup_join` without the facts.

    Attributes:
        store: Store, columnar files or table, or the path or location of one.
        on: Columns that hold the key, of the facts or of earlier joins.
        how: Kind of join: `left`, `inner`, `semi` or `anti`.
        columns: Value columns of the store to append. Default: all.
        prefix: Prefix of the names of the appended columns. Default: none.
        found: Name of a boolean column to append, which is true where the key was found. Default:
            no such column.
        strategy: Strategy of the join: `auto`, `replicated` or `bucketed`.
        refresh: Version that answers: `never`, `per_batch`, or a time in seconds, as a timedelta or
            as a text. Default: `never`; for a streaming DataFrame `per_batch`, except with a Hudi
            table of version 6, or a table opened at a version or time.
        max_staleness: Greatest age of the version when a query starts. Default: any age.
        on_miss: Handling of facts with a missing key: `("retry", attempts, delay)`, `null`, `drop`
            or `raise`.
        warm: Whether hosts prepare the lookups of a replicated store before the first one.
        metrics: Object that adds up the counts of the tasks, which several joins may share.
            Default: none.
        where: Condition that rows of `store` must meet to be found. Default: all rows.
        version: Version of a store or of a Delta table, or snapshot of an Iceberg or Paimon table,
            that answers. Default: the newest one, or that of the open object.
        as_of: Time of the version, snapshot or commit that answers instead. Default: not given.
        storage_options: Options of the URI of `store`; see `lookupstore.Location`.
    """

    store: JoinedWith
    on: str | Sequence[str] | Mapping[str, str]
    how: str = "left"
    columns: Sequence[str] | None = None
    prefix: str | None = None
    _: KW_ONLY
    found: str | None = None
    strategy: str = "auto"
    refresh: str | float | timedelta | None = None
    max_staleness: Duration | None = None
    on_miss: str | tuple[str, int, float | timedelta] = "null"
    warm: bool = False
    metrics: LookupMetrics | None = None
    where: Filter | None = None
    version: int | None = None
    as_of: datetime | str | None = None
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def pinned_by(self) -> str | None:
        """Return the name of the argument that chooses one version. None: there is none.

        Raises:
            ValueError: If both arguments are given.

        >>> LookupJoin("users", "id", version=3).pinned_by
        'version'
        """
        if self.version is not None and self.as_of is not None:
            raise ValueError("version and as_of both choose a version; give one of them")
        if self.version is not None:
            return "version"
        return None if self.as_of is None else "as_of"

    @property
    def freshness(self) -> Freshness:
        """Return the required freshness of the version, from `refresh` and `max_staleness`.

        Raises:
            ValueError: If one of them has an unknown value, or newer versions are to be used
                although one version is chosen.

        >>> LookupJoin("users", "id", refresh="per_batch", max_staleness="1h").freshness
        Freshness(every=0.0, max_staleness=3600.0)
        """
        every: float | None
        if self.refresh is None:
            every = None
        elif isinstance(self.refresh, str) and self.refresh in _REFRESHES:
            every = _REFRESHES[self.refresh]
        else:
            every = time_in_seconds(self.refresh)
            if not every:
                known = ", ".join(map(repr, _REFRESHES))
                raise ValueError(
                    f"refresh is {self.refresh!r}; give {known}, or a time of more than 0: "
                    "seconds, a timedelta, or a text such as '1m'"
                )
        if self.pinned_by is not None and every is not None:
            raise ValueError(
                f"refresh is {self.refresh!r}, which uses newer versions, but {self.pinned_by} "
                "chooses one; leave one of the two out"
            )
        allowed = None if self.max_staleness is None else time_in_seconds(self.max_staleness)
        if self.max_staleness is not None and allowed is None:
            raise ValueError(
                f"max_staleness is {self.max_staleness!r}; give a number of seconds, a timedelta, "
                "or a time such as '1h'; None is any"
            )
        return Freshness(every, allowed)


def time_in_seconds(time: Any) -> float | None:
    """Return a time in seconds. None: it is not a time, or is infinite.

    >>> time_in_seconds("1m"), time_in_seconds("soon")
    (60.0, None)
    """
    try:
        seconds = seconds_of(time, "time")
    except (TypeError, ValueError):
        return None
    return seconds if seconds < math.inf else None
