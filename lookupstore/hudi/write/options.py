"""``WriteOptions``: the options of a write."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
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
from lookupstore.keywords import with_init_advice
from lookupstore.quantities import bytes_of
from lookupstore.sorting.runs import MIN_MEMORY

#: Order of the rows of a bulk insert, as named by Hudi.
SortMode = Literal["none", "global_sort", "partition_sort"]
#: Treatment of rows that cannot be written.
OnError = Literal["raise", "collect"]
#: Treatment of columns of the table that rows lack.
Missing = Literal["keep", "null"]
# Treatment of rows of an insert whose keys are in the table.
Duplicates = Literal["allow", "drop", "fail"]
# Names that other libraries give to the option `evolve`.
_EVOLVE = ("merge_schema", "mergeSchema", "schema_evolution", "schemaEvolution", "schema_mode")
_WORDS = {"duplicates": Duplicates, "sort_mode": SortMode, "on_error": OnError}


def new_file_id() -> str:
    """Return a new file group id that cannot be taken for the id of a bucket."""
    while (file_id := f"{uuid.uuid4()}-0")[:8].isdigit():  # one in 43
        continue
    return file_id


def _services() -> list[str]:
    return [one.name for one in fields(TableServices)]


def _services_advice(name: str) -> str | None:
    return f"pass services=TableServices({name}=...)" if name in _services() else None


@with_init_advice(_services_advice)
@dataclass(frozen=True)
class WriteOptions:
    """The options of a write.

    Attributes:
        duplicates: Treatment by `insert` of rows with keys that the table has. `allow`: insert them
            as further rows, without looking up keys. `drop`: leave them out. `fail`: raise an
            error, and write nothing.
        combine: Whether to write only one of several given rows with the same key. Default: True,
            except for `bulk_insert`, and for `insert` with `duplicates="allow"`. False is for rows
            that do not repeat keys.
        sort_mode: Order of the rows of a `bulk_insert`. `none`: the given order, or the layout that
            `cluster(incremental=True)` keeps for a partition. `global_sort`: all rows are sorted by
            partition and record key, so that files have separate key ranges. `partition_sort`: as
            many rows at a time as fit into memory are sorted, so that nothing is spilled.
        sort_by: Columns by which a `bulk_insert` sorts rows within a partition, or the name of one
            column. Empty: the record key.
        on_error: Treatment of invalid rows: without a record key or ordering value, with a value
            that does not fit its column, or with an invalid partition path. `raise`: raise an
            error, and write nothing. `collect`: leave them out, and describe them in `WriteResult`.
            Invalid keys always make `delete` raise an error.
        memory: Size of the rows that a write keeps in memory, in bytes or as a text such as
            `"1GB"`. Further rows are spilled to disk. Spark's executors ignore
            this option.
        spill_folder: Folder to spill rows to. Default: the table's folder, or the temporary folder
            of this machine if the table is remote.
        evolve: Whether to add columns that the table does not have, and to widen types.
        missing: Treatment of columns of the table, or fields of its structs, that the rows lack.
            `keep`: stored rows keep their values, and new rows have nulls. `null`: all of the rows
            have nulls. Default: an error.
        metadata: Treatment of the table's metadata table, if there is one. Its readers find only
            the files that it lists. `refuse`: raise an error. `maintain`: update its list of files.
            `reduce`: delete its other indexes first, then maintain it. `drop`: delete it first.
            Apache Hudi's Java writers rebuild what they need.
        lock: Holder of the lock that the table's properties name, such as a ZooKeeper lock.
            `external`: you hold that lock from before the write until it returns. `table`: the
            write raises an error if the properties name such a lock. In both cases the write also
            takes the lock in the table itself.
        retries: Number of times a write is tried again after another writer committed the same
            files first. Rows of a reader, which can be read once, are kept meanwhile: up to 64 MiB
            in memory, more in `spill_folder`. 0: the first conflict raises `CommitConflictError`.
        services: Clustering, clean and archival to run after the commit. Default: none.
        index: Index that finds keys: a name that `HudiTable.tag` accepts, or an index object.
        update_partition_path: With a global index: if the key exists in another partition, whether
            to move the row there, by deleting the old row and inserting the new one in its own
            partition. False: the new row replaces the old one and keeps its partition columns.
        sizing: Target sizes of files.
        format: Encoding of base files.
        threads: Number of files that are written at the same time. Default: the number of
            processors.
        progress: Whether to show progress bars. Default: after a second, on a terminal or in a
            notebook. Set it to False for writes in several threads, whose bars would overlap. Spark
            shows its own bars.
        extra_metadata: Texts by name that the commit stores.
        new_file_id: Function that returns the id of each new file group.
        clock: Function that returns the current time. Default: the clock of the machine.
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
        _check_metadata(self.extra_metadata)
        object.__setattr__(self, "memory", bytes_of(self.memory, "memory", least=MIN_MEMORY))
        check_choice(self.metadata)

    def looks_up(self, operation: str) -> bool:
        """Return whether a write looks up keys; `operation` is Hudi's name of the write."""
        if operation == INSERT:
            return self.duplicates != "allow"
        return operation in (UPSERT, DELETE)

    def combines(self, operation: str) -> bool:
        """Return whether a write combines rows of one key; `operation` is Hudi's name."""
        if self.combine is not None:
            return self.combine
        overwrites = operation in (INSERT_OVERWRITE, INSERT_OVERWRITE_TABLE)
        return overwrites or (operation != BULK_INSERT and self.looks_up(operation))


def _check_metadata(given: object) -> None:
    """Check that the texts that a commit stores are texts."""
    if not isinstance(given, Mapping):
        raise TypeError(f"extra_metadata is {given!r}; give a dict of texts")
    for name, value in given.items():
        if not isinstance(name, str):
            raise TypeError(f"extra_metadata has the name {name!r}; give a text, {str(name)!r}")
        if not isinstance(value, str):
            raise TypeError(
                f"extra_metadata has {value!r} for {name!r}; give a text, such as {str(value)!r}, "
                "or leave it out"
            )


@contextmanager
def naming_spill_folder(options: WriteOptions) -> Iterator[None]:
    """Name the option in the error for a folder to spill to that does not exist."""
    folder = options.spill_folder
    try:
        yield
    except FileNotFoundError as error:
        # Files to spill to have no names of their own: only a missing folder hides them.
        if not folder or error.errno is None or os.path.isdir(folder):
            raise
        if os.path.dirname(os.fspath(error.filename or "")) != os.path.normpath(folder):
            raise
        raise FileNotFoundError(
            errno.ENOENT, "spill_folder is not a folder; make it, or give another one", folder
        ) from error


def with_missing(options: WriteOptions, missing: Missing | None) -> WriteOptions:
    """Return options with the argument `missing` of a verb.

    Raises:
        ValueError: If `missing` is unknown, or contradicts the options.

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


def option_advice(name: str) -> str | None:
    """Return how to pass an option of a write that was given as an argument. None: no option.

    >>> option_advice("evolve")
    'to add columns that the table lacks, pass options=WriteOptions(evolve=True)'
    >>> option_advice("sort_mode")
    'pass options=WriteOptions(sort_mode=...)'
    """
    if name == "evolve" or name in _EVOLVE:
        return "to add columns that the table lacks, pass options=WriteOptions(evolve=True)"
    known = [one.name for one in fields(WriteOptions)]
    if name in _services():
        return f"pass options=WriteOptions(services=TableServices({name}=...))"
    return f"pass options=WriteOptions({name}=...)" if name in known else None
