"""How a write is done: what its caller may choose."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.options import REFUSE, TABLE_LOCK, check_choice
from lookupstore.hudi.services.inline import TableServices
from lookupstore.hudi.timeline.timeline import Clock
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.hudi.write.plan import (
    BULK_INSERT,
    DELETE,
    INSERT,
    INSERT_OVERWRITE,
    INSERT_OVERWRITE_TABLE,
    UPSERT,
)
from lookupstore.quantities import bytes_of
from lookupstore.sorting.runs import MIN_MEMORY

#: How a bulk insert sorts rows, in the words of Hudi.
SortMode = Literal["none", "global_sort", "partition_sort"]
#: What is done with rows that cannot be written.
OnError = Literal["raise", "collect"]
#: What a write does with columns of the table that its rows lack.
Missing = Literal["keep", "null"]
# What an insert does with rows whose keys the table has.
Duplicates = Literal["allow", "drop", "fail"]
_WORDS = {"duplicates": Duplicates, "sort_mode": SortMode, "on_error": OnError}


def new_file_id() -> str:
    """Return an id for a file group, as Hudi's are, but for those that may be a bucket's."""
    while (file_id := f"{uuid.uuid4()}-0")[:8].isdigit():  # one in 43
        continue
    return file_id


@dataclass(frozen=True)
class WriteOptions:
    """How a write is done.

    Attributes:
        duplicates: what `insert` does with rows whose keys the table has: `allow`: inserts them
            beside the others, without a look at keys; `drop`: leaves them out; `fail`: refuses all.
        combine: whether of rows of one write with one key only one is written; None: what Hudi
            does unless told otherwise, which is to combine, but where an insert allows duplicates.
            False: the caller knows that there are none.
        sort_mode: of `bulk_insert`: `none`: rows keep their order, or follow the layout that
            `cluster(incremental=True)` keeps of their partition; `global_sort`: all are sorted by
            partition and record key, so that each file has a range of its own; `partition_sort`:
            those that fit into memory are, again and again, which spills nothing.
        sort_by: columns by which rows are sorted within a partition, or the name of one; empty: by
            their record key.
        on_error: what is done if a row cannot be written for what is in it: no record key or
            ordering value, a value that does not fit its column, a partition path that is none.
            `raise`: nothing is written; `collect`: such rows are left out, and `WriteResult` tells
            of them. Keys of `delete` are always refused.
        memory: bytes of rows that a write keeps in memory, or a text such as `"1GB"`; more than
            that are spilled. In Spark a task has the rows of one file.
        spill_folder: where to spill; None: the table's folder, or, if that is remote, the temporary
            folder of this machine.
        evolve: add columns that the table does not have, and widen types.
        missing: what a write does with columns of the table that its rows lack, or fields of a
            struct: `keep`: rows that are there keep the stored values, new rows get nulls; `null`:
            all of the rows get nulls. Default: such rows are refused.
        metadata: what is done if the table has a metadata table, whose readers see nothing else:
            `refuse` to write; `maintain` its list of files; `reduce` it to that list first, if it
            has other indexes; or `drop` it. Java builds again what it needs.
        lock: `external` says that the caller holds the lock which the properties of the table name,
            of ZooKeeper, say, from before the write until it returns; `table`: a table that names
            such a lock is not written. What is locked in the table itself is the same.
        retries: Number of times a write is tried again after another one committed the same files
            first. Rows of a reader, which can be read once, are kept meanwhile: up to 64 MiB in
            memory, more in `spill_folder`. 0: the write is a `CommitConflictError` at once.
        services: what is done with the table when the write is committed: a clean, an archival.
        index: the index that finds keys: a name that `tag` takes, or an object.
        update_partition_path: whether a row whose key an index for all partitions finds in another
            one than its own moves: the old row is deleted, and the new one inserted where it
            belongs. False: it takes the place of the old row, with the partition columns of that.
        sizing: of files.
        format: of base files.
        threads: files that are written at the same time; None: as many as there are processors.
        progress: whether to show progress bars; None shows them after a second, on a terminal or
            in a notebook. Those of several threads would draw over each other: False. Spark has
            bars of its own.
        extra_metadata: texts by name, which the commit stores.
        new_file_id: gives the id of each new file group.
        clock: tells the time; None: that of the machine.
    """

    duplicates: Duplicates = "allow"
    combine: bool | None = None
    sort_mode: SortMode = "none"
    sort_by: Sequence[str] = ()
    on_error: OnError = "raise"
    memory: int = 512 << 20
    spill_folder: str | None = None
    evolve: bool = False
    missing: Missing | None = None
    metadata: str = REFUSE
    lock: str = TABLE_LOCK
    retries: int = 10
    services: TableServices = field(default_factory=TableServices)
    index: str | KeyIndex = "bloom"
    update_partition_path: bool = True
    sizing: FileSizing = field(default_factory=FileSizing)
    format: FileFormat = field(default_factory=FileFormat)
    threads: int | None = None
    progress: bool | None = None
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    new_file_id: Callable[[], str] = new_file_id
    clock: Clock | None = None

    def __post_init__(self) -> None:
        for name, kind in _WORDS.items():
            if getattr(self, name) not in get_args(kind):
                known = ", ".join(map(repr, get_args(kind)))
                raise ValueError(f"{name} is {getattr(self, name)!r}; give one of {known}")
        if self.missing is not None and self.missing not in get_args(Missing):
            known = ", ".join(map(repr, get_args(Missing)))
            raise ValueError(f"missing is {self.missing!r}; give {known} or None")
        if isinstance(self.sort_by, str):
            object.__setattr__(self, "sort_by", (self.sort_by,))
        if self.sort_by and self.sort_mode == "none":
            raise ValueError("sort_by names columns, but sort_mode is 'none'; give 'global_sort'")
        if type(self.retries) is not int or self.retries < 0:
            raise ValueError(f"retries is {self.retries!r}; give a whole number, at least 0")
        object.__setattr__(self, "memory", bytes_of(self.memory, "memory", least=MIN_MEMORY))
        check_choice(self.metadata)

    def looks_up(self, operation: str) -> bool:
        """Return whether a write of rows looks for their keys; `operation` is Hudi's name."""
        if operation == INSERT:
            return self.duplicates != "allow"
        return operation in (UPSERT, DELETE)

    def combines(self, operation: str) -> bool:
        """Return whether a write combines rows of one key; `operation` is Hudi's name."""
        if self.combine is not None:
            return self.combine
        overwrites = operation in (INSERT_OVERWRITE, INSERT_OVERWRITE_TABLE)
        return overwrites or (operation != BULK_INSERT and self.looks_up(operation))


def with_missing(options: WriteOptions, missing: Missing | None) -> WriteOptions:
    """Return options with what the argument `missing` of a verb says.

    Raises:
        ValueError: `missing` is unknown, or contradicts the options.

    >>> with_missing(WriteOptions(), "keep").missing
    'keep'
    """
    if missing is None or missing == options.missing:
        return options
    if options.missing is not None:
        raise ValueError(
            f"missing is {missing!r}, but options say {options.missing!r}; give one of them"
        )
    return replace(options, missing=missing)
