"""How a write is done: what its caller may choose."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.options import REFUSE, TABLE_LOCK, check_choice
from lookupstore.hudi.services.inline import TableServices
from lookupstore.hudi.timeline.timeline import Clock
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.hudi.write.plan import INSERT
from lookupstore.quantities import bytes_of
from lookupstore.sorting.runs import MIN_MEMORY

#: How a bulk insert sorts rows, in the words of Hudi.
SortMode = Literal["none", "global_sort", "partition_sort"]
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
        sort_mode: of `bulk_insert`: `none`: rows keep their order; `global_sort`: all are sorted by
            partition and record key, so that each file has a range of its own; `partition_sort`:
            those that fit into memory are, again and again, which spills nothing.
        sort_by: columns by which rows are sorted within a partition, or the name of one; empty: by
            their record key.
        sort_memory: bytes of rows that are sorted in memory, or a text such as `"1GB"`; what does
            not fit is spilled.
        sort_folder: where to spill; None: the table's folder, or, if that is remote, the temporary
            folder of this machine.
        evolve: add columns that the table does not have, and widen types.
        metadata: what is done if the table has a metadata table, whose readers see nothing else:
            `refuse` to write; `maintain` its list of files; `reduce` it to that list first, if it
            has other indexes; or `drop` it. Java builds again what it needs.
        lock: `external` says that the caller holds the lock which the properties of the table name,
            of ZooKeeper, say, from before the write until it returns; `table`: a table that names
            such a lock is not written. What is locked in the table itself is the same.
        services: what is done with the table when the write is committed: a clean, an archival.
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
    sort_mode: SortMode = "none"
    sort_by: Sequence[str] = ()
    sort_memory: int = 512 << 20
    sort_folder: str | None = None
    evolve: bool = False
    metadata: str = REFUSE
    lock: str = TABLE_LOCK
    services: TableServices = field(default_factory=TableServices)
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
        if self.sort_mode not in get_args(SortMode):
            known = ", ".join(map(repr, get_args(SortMode)))
            raise ValueError(f"sort_mode is {self.sort_mode!r}; give one of {known}")
        if isinstance(self.sort_by, str):
            object.__setattr__(self, "sort_by", (self.sort_by,))
        if self.sort_by and self.sort_mode == "none":
            raise ValueError("sort_by names columns, but sort_mode is 'none'; give 'global_sort'")
        memory = bytes_of(self.sort_memory, "sort_memory", least=MIN_MEMORY)
        object.__setattr__(self, "sort_memory", memory)
        check_choice(self.metadata)

    def looks_up(self, operation: str) -> bool:
        """Return whether a write of rows looks for their keys; `operation` is Hudi's name."""
        return operation != INSERT or self.duplicates != "allow"

    def combines(self, operation: str) -> bool:
        """Return whether a write combines rows of one key; `operation` is Hudi's name."""
        return self.looks_up(operation) if self.combine is None else self.combine
