"""How a write is done: what its caller may choose."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.options import REFUSE, check_choice
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
        metadata: what is done if the table has a metadata table, whose readers see nothing else:
            `refuse` to write; `maintain` its list of files; `reduce` it to that list first, if it
            has other indexes; or `drop` it. Java builds again what it needs.
        index: the index that finds keys: a name that `tag` takes, or an object.
        sizing: of files.
        format: of base files.
        threads: files that are written at the same time; None: as many as there are processors.
        extra_metadata: texts by name, which the commit stores.
        new_file_id: gives the id of each new file group.
        clock: tells the time; None: that of the machine.
    """

    evolve: bool = False
    metadata: str = REFUSE
    index: str | KeyIndex = "bloom"
    sizing: FileSizing = field(default_factory=FileSizing)
    format: FileFormat = field(default_factory=FileFormat)
    threads: int | None = None
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    new_file_id: Callable[[], str] = new_file_id
    clock: Clock | None = None

    def __post_init__(self) -> None:
        check_choice(self.metadata)
