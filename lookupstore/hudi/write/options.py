"""How a write is done: what its caller may choose."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.options import TABLE_LOCK
from lookupstore.hudi.timeline.timeline import Clock
from lookupstore.hudi.write.partitioner import FileSizing


def new_file_id() -> str:
    """Return an id for a file group, as Hudi's are."""
    return f"{uuid.uuid4()}-0"


@dataclass(frozen=True)
class WriteOptions:
    """How a write is done.

    Attributes:
        evolve: add columns that the table does not have, and widen types.
        drop_metadata_table: delete the metadata table if there is one, since its readers would not
            see what is written; Java builds it again.
        lock: `external` says that the caller holds the lock which the properties of the table name,
            of ZooKeeper, say, from before the write until it returns; `table`: a table that names
            such a lock is not written. What is locked in the table itself is the same.
        index: the index that finds keys: a name that `tag` takes, or an object.
        sizing: of files.
        format: of base files.
        threads: files that are written at the same time; None: as many as there are processors.
        extra_metadata: texts by name, which the commit stores.
        new_file_id: gives the id of each new file group.
        clock: tells the time; None: that of the machine.
    """

    evolve: bool = False
    drop_metadata_table: bool = False
    lock: str = TABLE_LOCK
    index: str | KeyIndex = "bloom"
    sizing: FileSizing = field(default_factory=FileSizing)
    format: FileFormat = field(default_factory=FileFormat)
    threads: int | None = None
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    new_file_id: Callable[[], str] = new_file_id
    clock: Clock | None = None
