"""``WRITE_CHOICES``: the options of a write that can be given as texts.

The flags of commands, the options of ``df.write``, and the first table of
`docs/reference/hudi-options.md` are generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from lookupstore.hudi.layout.choice import Curve, CurveMapping
from lookupstore.hudi.options import METADATA_CHOICES, TABLE_LOCK
from lookupstore.hudi.options.names import EXTERNAL_LOCK
from lookupstore.hudi.services.inline import TableServices
from lookupstore.hudi.write.kinds import (
    COLUMNS,
    FLAG,
    RATE,
    SIZE,
    TEXT,
    ValueKind,
    at_least,
    one_of,
)
from lookupstore.hudi.write.options import Duplicates, Missing, OnError, SortMode, WriteOptions


@dataclass(frozen=True)
class WriteChoice:
    """A field of `WriteOptions` or `TableServices` that can be given as a text.

    Attributes:
        kind: Kind of the values.
        help: Description for the help of a command.
        metavar: Placeholder for a value in that help. Empty: the kind provides it.
        operation: Only operation with this option, in lower case. Empty: all operations.
        in_spark: Whether `df.write` accepts the option.
    """

    kind: ValueKind
    help: str
    metavar: str = ""
    operation: str = ""
    in_spark: bool = True


#: Choices by the names of their fields, in the order of the reference.
WRITE_CHOICES: Mapping[str, WriteChoice] = {
    "duplicates": WriteChoice(
        one_of(*get_args(Duplicates)),
        "What insert does with rows whose keys exist: insert them too, leave them out, or fail.",
        operation="insert",
    ),
    "combine": WriteChoice(
        FLAG,
        "Whether to write only one of several rows with the same key. Default: yes, except in "
        "bulk_insert, and in insert with duplicates=allow.",
    ),
    "sort_mode": WriteChoice(
        one_of(*get_args(SortMode)),
        "How bulk_insert sorts the rows of a partition: not at all, all of them, or as many at a "
        "time as fit into memory.",
        operation="bulk_insert",
    ),
    "sort_by": WriteChoice(
        COLUMNS,
        "Columns that bulk_insert sorts by. Default: the record key.",
        "A,B",
        operation="bulk_insert",
    ),
    "on_error": WriteChoice(
        one_of(*get_args(OnError)),
        "Invalid rows: raise writes nothing, collect leaves them out and reports them.",
        in_spark=False,  # Nobody would be told of the rows that are left out.
    ),
    "memory": WriteChoice(
        SIZE, "Bytes of rows to keep in memory. More are spilled to disk.", "SIZE"
    ),
    "spill_folder": WriteChoice(
        TEXT,
        "Folder to spill to. Default: the table's folder, or for remote tables the temporary "
        "folder of this machine.",
        "FOLDER",
    ),
    "evolve": WriteChoice(FLAG, "Add columns that the table lacks, and widen types."),
    "missing": WriteChoice(
        one_of(*get_args(Missing)),
        "Columns that the rows lack: keep leaves stored values as they are, and makes them null "
        "in new rows; null makes them null in all rows. Default: an error.",
    ),
    "metadata": WriteChoice(
        one_of(*METADATA_CHOICES),
        "If the table has a metadata table: refuse is an error; maintain updates its list of "
        "files; reduce removes other indexes, then maintains it; drop deletes it first.",
    ),
    "lock": WriteChoice(
        one_of(TABLE_LOCK, EXTERNAL_LOCK),
        "Lock that the table's properties name, such as ZooKeeper's: table refuses to write if "
        "they name one, external means that you hold it.",
    ),
    "retries": WriteChoice(
        at_least(0),
        "How often to try again if another writer commits the same files first.",
        "N",
    ),
    "index": WriteChoice(
        TEXT,
        "Index that finds keys, as for 'lookupstore hudi tag'. A global index, such as "
        "global-bloom, searches all partitions.",
        "NAME",
    ),
    "update_partition_path": WriteChoice(
        FLAG,
        "With a global index: whether a row whose key is in another partition moves to its own, "
        "or replaces the old row there.",
    ),
    "threads": WriteChoice(
        at_least(1),
        "Files to write at the same time. Default: the number of processors.",
        "N",
    ),
    "retain_commits": WriteChoice(
        at_least(1), "Clean after the write: keep the last N commits readable.", "N"
    ),
    "retain_hours": WriteChoice(
        at_least(0, RATE), "Clean after the write: keep the last HOURS hours readable.", "HOURS"
    ),
    "retain_versions": WriteChoice(
        at_least(1), "Clean after the write: keep N versions of each file group.", "N"
    ),
    "archive": WriteChoice(FLAG, "Archive old commits after the write."),
    "min_commits": WriteChoice(
        at_least(1), "Commits that an archival leaves in the timeline.", "N"
    ),
    "max_commits": WriteChoice(
        at_least(1), "Commits up to which an archival does nothing.", "N"
    ),
    "cluster_by": WriteChoice(
        COLUMNS,
        "Columns to sort rows by, once cluster_commits commits have followed the last sort.",
        "A,B",
    ),
    "cluster_curve": WriteChoice(
        one_of(*get_args(Curve)), "How several columns become one order."
    ),
    "cluster_mapping": WriteChoice(
        one_of(*get_args(CurveMapping)),
        "How values become places in that order: by ranks in a sample, or by the values.",
    ),
    "cluster_file_size": WriteChoice(SIZE, "Approximate size of a sorted file.", "SIZE"),
    "cluster_small_file_limit": WriteChoice(
        SIZE, "Leave files of at least this size as they are. Default: all are rewritten.", "SIZE"
    ),
    "cluster_incremental": WriteChoice(FLAG, "Continue the order of the previous clustering."),
    "cluster_commits": WriteChoice(
        at_least(1),
        "Commits after which rows are sorted again.",
        "N",
    ),
}  # fmt: skip


def default_of(name: str) -> Any:
    """Return the default value of a choice.

    >>> default_of("retries"), default_of("cluster_commits")
    (10, 4)
    """
    return getattr(_SERVICES if hasattr(_SERVICES, name) else _WRITES, name)


def check_operation(
    given: Mapping[str, Any], operation: str, called: Callable[[str], str] = str
) -> None:
    """Check that choices are for the given operation.

    Args:
        given: Values by the names of choices.
        operation: Name of the operation, in lower case.
        called: Function that returns the caller's name of a choice.

    Raises:
        ValueError: If a choice is for another operation, and does not have its default value.

    >>> check_operation({"duplicates": "drop"}, "upsert")
    Traceback (most recent call last):
    ValueError: duplicates is for operation insert, but this is upsert; leave it out
    """
    for name, value in given.items():
        only = WRITE_CHOICES[name].operation
        if only and only != operation and value != default_of(name):
            raise ValueError(
                f"{called(name)} is for {called('operation')} {only}, but this is {operation}; "
                "leave it out"
            )


_WRITES, _SERVICES = WriteOptions(), TableServices()
