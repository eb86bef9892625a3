"""How a write is done: what its caller may choose."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.timeline.timeline import Clock
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.hudi.write.plan import INSERT

# What an insert does with rows whose keys the table has.
Duplicates = Literal["allow", "drop", "fail"]


def new_file_id() -> str:
    """Return an id for a file group, as Hudi's are."""
    return f"{uuid.uuid4()}-0"


@dataclass(frozen=True)
class WriteOptions:
    """How a write is done.

    Attributes:
        duplicates: what `insert` does with rows whose keys the table has: `allow`: inserts them
            beside the others, without a look at keys; `drop`: leaves them out; `fail`: refuses all.
        combine: whether of rows of one write with one key only one is written; None: what Hudi
            does unless told otherwise, which is to combine, but where an insert allows duplicates.
            False: the caller knows that there are none.
        evolve: add columns that the table does not have, and widen types.
        drop_metadata_table: delete the metadata table if there is one, since its readers would not
            see what is written; Java builds it again.
        index: the index that finds keys: a name that `tag` takes, or an object.
        sizing: of files.
        format: of base files.
        threads: files that are written at the same time; None: as many as there are processors.
        extra_metadata: texts by name, which the commit stores.
        new_file_id: gives the id of each new file group.
        clock: tells the time; None: that of the machine.
    """

    duplicates: Duplicates = "allow"
    combine: bool | None = None
    evolve: bool = False
    drop_metadata_table: bool = False
    index: str | KeyIndex = "bloom"
    sizing: FileSizing = field(default_factory=FileSizing)
    format: FileFormat = field(default_factory=FileFormat)
    threads: int | None = None
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    new_file_id: Callable[[], str] = new_file_id
    clock: Clock | None = None

    def __post_init__(self) -> None:
        if self.duplicates not in get_args(Duplicates):
            known = ", ".join(map(repr, get_args(Duplicates)))
            raise ValueError(f"duplicates is {self.duplicates!r}; give one of {known}")

    def looks_up(self, operation: str) -> bool:
        """Return whether a write of rows looks for their keys; `operation` is Hudi's name."""
        return operation != INSERT or self.duplicates != "allow"

    def combines(self, operation: str) -> bool:
        """Return whether a write combines rows of one key; `operation` is Hudi's name."""
        return self.looks_up(operation) if self.combine is None else self.combine
