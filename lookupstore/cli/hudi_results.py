"""Results of writes to a Hudi table, and of dry runs, in lines and in JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from lookupstore.hudi import Instant, WriteResult
from lookupstore.quantities import counted, size_text

# Number of rows with one reason that are shown.
_SHOWN = 3


def said(result: WriteResult) -> str:
    """Return the result of a write, or of a dry run, in a line."""
    would = "would be " if result.instant is None else ""
    counts = (
        (result.rows_inserted, "row", "inserted"),
        (result.rows_updated, "row", "updated"),
        (result.rows_deleted, "row", "deleted"),
        (result.files_new, "file", "new"),
        (len(result.files_rewritten), "file", "rewritten"),
        (len(result.files_replaced), "file", "replaced"),
    )
    came = (
        (result.rows_read, "read"),
        (result.rows_combined, "combined"),
        (result.rows_failed, "failed"),
    )
    done = [f"{counted(count, 'row')} {verb}" for count, verb in came if count]
    if result.operation == "INSERT":
        others = (result.rows_combined or 0) + result.rows_failed + result.rows_inserted
        left_out = (result.rows_read or 0) - others
        done += [f"{counted(left_out, 'row')} left out"] if left_out > 0 else []
    done += [f"{counted(count, noun)} {would}{verb}" for count, noun, verb in counts if count]
    if result.instant is not None:
        done.append(told(result.instant))
    if result.clustering is not None:
        done.append(f"clustering {result.clustering}")
    done += [f"clean {time}" for time in result.cleans]
    if result.archived:
        done.append(f"{counted(result.archived, 'instant')} archived")
    return ", ".join(done) or "nothing to do"


def told(instant: Instant) -> str:
    """Return the action and the time of an instant."""
    return f"{instant.action} {instant.time}"


def measured(result: WriteResult) -> str:
    """Return the costs of a write in a line."""
    took = [f"{name} {seconds:.1f} s" for name, seconds in result.seconds.items()]
    if result.files_unchanged is not None:
        took.append(f"{counted(result.files_unchanged, 'file')} unchanged")
    took.append(f"{size_text(result.bytes_written)} written")
    return ", ".join(took)


def failed(result: WriteResult) -> list[str]:
    """Return the rows that cannot be written in lines, a few for each reason."""
    kinds: dict[str, list[str]] = {}
    for one in result.errors:
        # Reasons differ in the value, which comes last.
        kind = one.reason.rpartition(" has ")[0] or one.reason
        key = "" if one.key is None else f" ({one.key})"
        kinds.setdefault(kind, []).append(f"row {one.row + 1}{key}: {one.reason}")
    lines = []
    for rows in kinds.values():
        lines += rows[:_SHOWN]
        if len(rows) > _SHOWN:
            lines.append(f"… and {counted(len(rows) - _SHOWN, 'more row')} with this reason")
    uncollected = result.rows_failed - len(result.errors)
    return [*lines, f"… and {counted(uncollected, 'more row')}"] if uncollected else lines


def fields_of(result: WriteResult, dry_run: bool) -> dict[str, Any]:
    """Return the result of a write, or of a dry run, for JSON."""
    fields = {one.name: getattr(result, one.name) for one in dataclasses.fields(result)}
    return {
        **fields,
        "errors": [dataclasses.asdict(one) for one in result.errors],
        "instant": None if result.instant is None else result.instant.time,
        "dry_run": dry_run,
    }
