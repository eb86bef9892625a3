"""Results of writes to a Hudi table, and of dry runs, in lines and in JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from lookupstore.hudi import Instant, WriteResult
from lookupstore.quantities import counted, size_text


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


def fields_of(result: WriteResult, dry_run: bool) -> dict[str, Any]:
    """Return the result of a write, or of a dry run, for JSON."""
    fields = {one.name: getattr(result, one.name) for one in dataclasses.fields(result)}
    return {
        **fields,
        "errors": [dataclasses.asdict(one) for one in result.errors],
        "instant": None if result.instant is None else result.instant.time,
        "dry_run": dry_run,
    }
