"""Partitions that a caller names by their paths."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lookupstore.errors import listed, meant


def check_partitions(paths: Iterable[str], known: Collection[str]) -> None:
    """Check that a table has the partitions that a caller names.

    Args:
        paths: Paths as given.
        known: Paths of the partitions of the table.

    Raises:
        KeyError: If the table does not have a partition.

    >>> check_partitions(["day=m"], ["day=mo", "day=tu"])
    Traceback (most recent call last):
    KeyError: "partitions: the table has no partition 'day=m'; did you mean 'day=mo'? It has ..."
    """
    for path in paths:
        if path not in known:
            above = path.rstrip("/*")
            below = [one for one in sorted(known) if one.startswith(f"{above}/")]
            if below:
                raise KeyError(
                    f"partitions: {path!r} is not a partition, but contains {len(below):,}: "
                    f"{listed(below)}; name these, or pass where= to delete or cluster"
                )
            others = meant(path, known, f"it has {listed(sorted(known)) or 'none'}")
            raise KeyError(f"partitions: the table has no partition {path!r}{others}")
