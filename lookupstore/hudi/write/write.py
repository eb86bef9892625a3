"""The writes of a table: what each verb does with its rows, in the order that Hudi's have.

Columns are checked, repeated keys resolved, keys found; then the instant is requested, and from
there on `transaction` says what comes when.

Source: org.apache.hudi.table.action.commit (BaseWriteHelper, BaseSparkCommitActionExecutor,
SparkInsertOverwriteCommitActionExecutor, SparkDeletePartitionCommitActionExecutor).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow._binary import as_binary
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.index.names import index_of
from lookupstore.hudi.index.row_tags import named_key
from lookupstore.hudi.index.tagging import tag
from lookupstore.hudi.keys.dedupe import rows_to_keep
from lookupstore.hudi.keys.incoming import Incoming, IncomingRows, read_keys
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.timeline.commit import CommitMetadata, WriteStat
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.hudi.timeline.timeline import Instant
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.conflict import SAMPLE, pending_clustering
from lookupstore.hudi.write.files import BulkInsert, FileWrites
from lookupstore.hudi.write.inserted_keys import InsertedKeys
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.plan import Places, WritePlan, plan_write
from lookupstore.hudi.write.transaction import Outcome, Transaction, begun


@dataclass(frozen=True)
class WriteResult:
    """What a write did, or would do.

    Attributes:
        instant: of the commit; None: it was only tried.
        operation: name of the write, as Hudi has it.
        rows_inserted: that are new.
        rows_updated: that were there and changed; if it was only tried, those that were there.
        rows_deleted: that are gone, without those of replaced file groups.
        rows_written: in all new files; 0 if it was only tried.
        files_new: of new file groups.
        files_rewritten: that others take the place of, by path.
        files_replaced: whose file groups are gone, by path.
        bytes_rewritten: of the former.
        bytes_written: in all new files; 0 if it was only tried.
        seconds: that steps took, by name; those of threads are not added up.
    """

    instant: Instant | None
    operation: str
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_written: int = 0
    files_new: int = 0
    files_rewritten: tuple[str, ...] = ()
    files_replaced: tuple[str, ...] = ()
    bytes_rewritten: int = 0
    bytes_written: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls,
        instant: Instant,
        operation: str,
        stats: Sequence[WriteStat],
        rewritten: Sequence[FileSlice],
        replaced: Sequence[FileSlice],
        seconds: Mapping[str, float],
    ) -> WriteResult:
        """Return what a commit did, by what is said of its files."""
        return cls(
            instant,
            operation,
            rows_inserted=sum(one.num_inserts or 0 for one in stats),
            rows_updated=sum(one.num_update_writes or 0 for one in stats),
            rows_deleted=sum(one.num_deletes or 0 for one in stats),
            rows_written=sum(one.num_writes or 0 for one in stats),
            files_new=len(stats) - len(rewritten),
            files_rewritten=tuple(one.path for one in rewritten),
            files_replaced=tuple(one.path for one in replaced),
            bytes_rewritten=sum(one.bytes for one in rewritten),
            bytes_written=sum(one.total_write_bytes or 0 for one in stats),
            seconds=seconds,
        )


def written_name(view: TableView) -> bool | None:
    """Return whether a record key of one column has its name; a table's own rows tell."""
    options = view.options
    if len(options.record_key) > 1 or options.key_generator != "COMPLEX":
        return None
    named = named_key(view)
    # Hudi 0.x and 1.1 write the name, if there is nothing to go by.
    return True if named is None else named


def groups_to_cluster(view: TableView) -> dict[str, set[str]]:
    """Return the file groups that clustering is about to take away, by partition."""
    pending: dict[str, set[str]] = {}
    for change in pending_clustering(view):
        for group in change.groups:
            pending.setdefault(group.partition, set()).add(group.file_id)
    return pending


def keys_are_there_error(count: int, keys: Sequence[str]) -> ValueError:
    """Return the error of an insert whose keys are in the table, with a few of these."""
    return ValueError(
        f"{count} rows have keys that the table already has, such as {', '.join(map(repr, keys))}; "
        "to change these rows, upsert them"
    )


def keys_in_other_partitions_error(index: str | KeyIndex) -> ValueError:
    """Return the error of a write whose index finds keys in other partitions than their own."""
    # A row that moves to another partition would have to be deleted from its own.
    return ValueError(
        f"index is {index!r}, which finds keys in other partitions; give one that does not, such "
        "as 'bloom': a key is one row in each partition"
    )


class Write:
    """One write.

    Args:
        view: the table as it is now, which can be written to.
        options: of the write.
        dry_run: only find out what it would do.
    """

    def __init__(self, view: TableView, options: WriteOptions, *, dry_run: bool) -> None:
        self._view = view
        self._options = options
        self._dry_run = dry_run
        self._seconds: dict[str, float] = {}

    def upsert(self, given: Any) -> WriteResult:
        """Change rows whose keys are there, and insert the others."""
        with self._step("read"):
            incoming, schema = self._read(given)
        places = self._find(incoming)
        if incoming.deleted is not None:
            # There is nothing to delete of a row that is not there.
            kept = np.flatnonzero(~incoming.deleted | (places.numbers >= 0))
            incoming = incoming.take(kept)
            places = Places(places.slices, places.numbers[kept], places.positions[kept])
        return self._merge("UPSERT", incoming, places, schema)

    def insert(self, given: Any) -> WriteResult:
        """Insert rows, none of whose keys is there."""
        with self._step("read"):
            incoming, schema = self._read(given)
            incoming = incoming.without_deleted()
        places = self._find(incoming)
        there = np.flatnonzero(places.numbers >= 0)
        if len(there):
            keys = incoming.keys.take(pa.array(there[:SAMPLE])).to_pylist()
            raise keys_are_there_error(len(there), keys)
        return self._merge("INSERT", incoming, places, schema)

    def delete(self, given: Any) -> WriteResult:
        """Delete the rows of keys, which may be missing."""
        view = self._view
        with self._step("read"):
            schema = view.table_schema
            keys, partitions = read_keys(
                given, schema.columns, view.options, named=written_name(self._view)
            )
            index = index_of(self._options.index)
            if index.everywhere:
                partitions = _coded(np.zeros(len(keys), np.int32), [""])
            elif partitions is None:
                keys, partitions = self._everywhere(keys)
            kept = pa.array(rows_to_keep(keys, partitions))
            keys, partitions = keys.take(kept), partitions.take(kept)
        with self._step("tag"):
            tagged = tag(view, partitions, keys, index=index)
            found = np.flatnonzero(tagged.found)
            places = Places(tagged.slices, tagged.slice_numbers[found], tagged.positions[found])
        paths = list(dict.fromkeys(one.group.partition for one in places.slices))
        places_of = {path: number for number, path in enumerate(paths)}
        numbers = np.array([places_of[one.group.partition] for one in places.slices], np.int32)
        incoming = Incoming(
            schema.columns.empty_table(),
            keys.take(pa.array(found)),
            _coded(numbers[places.numbers], paths),
        )
        return self._merge("DELETE", incoming, places, schema, explicit=True)

    def bulk_insert(self, given: Any) -> WriteResult:
        """Insert rows as they come, without a look at the keys."""
        rows = self._incoming(given)
        if self._dry_run:
            incoming = rows.all().without_deleted()
            plan = self._plan(incoming, Places.nowhere(len(incoming)), ())
            return self._planned("BULK_INSERT", incoming, plan)
        profile = CommitMetadata(operation="BULK_INSERT")
        with begun(self._view, "BULK_INSERT", profile, replaces=False) as transaction:
            with self._step("write"):
                stats = BulkInsert(self._view, rows.schema, self._options, transaction).write(rows)
            outcome = Outcome(stats, rows.schema.avro)
            return self._complete(transaction, outcome, "BULK_INSERT")

    def overwrite(self, given: Any, *, whole_table: bool) -> WriteResult:
        """Put rows in the place of all rows of their partitions, or of the table."""
        with self._step("read"):
            incoming, schema = self._read(given)
            incoming = incoming.without_deleted()
        paths = set(incoming.partitions.unique().to_pylist())
        replaced = [
            group.current
            for group in self._view.groups(None)
            if whole_table or group.id.partition in paths
        ]
        operation = "INSERT_OVERWRITE_TABLE" if whole_table else "INSERT_OVERWRITE"
        places = Places.nowhere(len(incoming))
        plan = self._plan(incoming, places, ())
        if self._dry_run:
            return self._planned(operation, incoming, plan, replaced)
        overwritten = None if whole_table else paths
        return self._write(operation, incoming, plan, schema, replaced, overwritten=overwritten)

    def delete_partitions(self, partitions: str | Sequence[str]) -> WriteResult:
        """Delete all rows of partitions."""
        partitions = [partitions] if isinstance(partitions, str) else partitions
        groups = [group.current for group in self._view.groups(None)]
        known = {one.group.partition for one in groups}
        for path in partitions:
            if path not in known:
                some = ", ".join(map(repr, sorted(known)[:SAMPLE])) or "none"
                raise KeyError(f"partitions: the table has no partition {path!r}; it has {some}")
        replaced = [one for one in groups if one.group.partition in partitions]
        schema = self._view.table_schema
        incoming = Incoming(
            schema.columns.empty_table(),
            pa.chunked_array([], pa.string()),
            pa.array([], pa.string()).dictionary_encode(),
        )
        plan = WritePlan((), {})
        if self._dry_run:
            return self._planned("DELETE_PARTITION", incoming, plan, replaced)
        return self._write(
            "DELETE_PARTITION", incoming, plan, schema, replaced, overwritten=partitions
        )

    def _incoming(self, given: Any) -> IncomingRows:
        return IncomingRows(
            given,
            self._view.table_schema,
            self._view.options,
            named=written_name(self._view),
            evolve=self._options.evolve,
        )

    def _read(self, given: Any) -> tuple[Incoming, TableSchema]:
        """Return rows with one for each key, and the columns of the table with them."""
        rows = self._incoming(given)
        return rows.all().deduplicated(self._view.options), rows.schema

    def _everywhere(self, keys: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.DictionaryArray]:
        """Return keys once for each partition of the table, since none was given."""
        paths = sorted({group.id.partition for group in self._view.groups(None)})
        repeated = pa.chunked_array(keys.chunks * len(paths), pa.string())
        return repeated, _coded(np.repeat(np.arange(len(paths), dtype=np.int32), len(keys)), paths)

    def _find(self, incoming: Incoming) -> Places:
        index = index_of(self._options.index)
        if index.everywhere:
            raise keys_in_other_partitions_error(self._options.index)
        with self._step("tag"):
            tagged = tag(self._view, incoming.partitions, incoming.keys, index=index)
            return Places(tagged.slices, tagged.slice_numbers, tagged.positions)

    def _merge(
        self,
        operation: str,
        incoming: Incoming,
        places: Places,
        schema: TableSchema,
        *,
        explicit: bool = False,
    ) -> WriteResult:
        small = [group.current for group in self._view.groups(None)]
        plan = self._plan(incoming, places, small)
        if self._dry_run:
            return self._planned(operation, incoming, plan, explicit=explicit)
        return self._write(operation, incoming, plan, schema, None, explicit=explicit)

    def _plan(self, incoming: Incoming, places: Places, small: Sequence[FileSlice]) -> WritePlan:
        with self._step("plan"):
            return plan_write(
                self._view,
                incoming.partitions,
                incoming.keys,
                places,
                small,
                self._options.sizing,
                self._options.new_file_id,
                groups_to_cluster(self._view),
            )

    def _planned(
        self,
        operation: str,
        incoming: Incoming,
        plan: WritePlan,
        replaced: Sequence[FileSlice] = (),
        *,
        explicit: bool = False,
    ) -> WriteResult:
        current = [one.current for one in plan.files if one.current is not None]
        changed = sum(len(one.changes) for one in plan.files)
        flags = np.zeros(0, bool) if incoming.deleted is None else incoming.deleted
        deleted = changed if explicit else int(np.count_nonzero(flags))
        return WriteResult(
            None,
            operation,
            rows_inserted=sum(len(one.inserts) for one in plan.files),
            rows_updated=changed - deleted,
            rows_deleted=deleted,
            files_new=sum(one.current is None for one in plan.files),
            files_rewritten=tuple(one.path for one in current),
            files_replaced=tuple(one.path for one in replaced),
            bytes_rewritten=sum(one.bytes for one in current),
            seconds=self._seconds,
        )

    def _write(
        self,
        operation: str,
        incoming: Incoming,
        plan: WritePlan,
        schema: TableSchema,
        replaced: Sequence[FileSlice] | None,
        *,
        explicit: bool = False,
        overwritten: Collection[str] | None = (),
    ) -> WriteResult:
        """Write the files of a plan, and commit; replaced is None where nothing may be."""
        profile = plan.profile(operation)
        replaces = replaced is not None
        with begun(self._view, operation, profile, replaces=replaces) as transaction:
            with self._step("write"):
                for partition in dict.fromkeys(one.partition for one in plan.files):
                    transaction.open_partition(partition)
                files = FileWrites(
                    self._view, incoming, schema, self._options, transaction.time, explicit
                )
                stats = files.write(plan.files)
            outcome = Outcome(
                stats,
                schema.avro,
                {one.group for one in replaced or ()},
                _touched(plan, incoming),
                # Rows of an overwrite come in the place of whatever is there.
                None if replaces else _inserted(plan, incoming),
                overwritten,
            )
            current = [one.current for one in plan.files if one.current is not None]
            return self._complete(transaction, outcome, operation, current, replaced or ())

    def _complete(
        self,
        transaction: Transaction,
        outcome: Outcome,
        operation: str,
        rewritten: Sequence[FileSlice] = (),
        replaced: Sequence[FileSlice] = (),
    ) -> WriteResult:
        with self._step("commit"):
            instant = transaction.complete(outcome, self._options.extra_metadata)
        return WriteResult.of(instant, operation, outcome.stats, rewritten, replaced, self._seconds)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - begun


def _coded(codes: npt.NDArray[np.int32], paths: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(paths, pa.string()))


def _touched(plan: WritePlan, incoming: Incoming) -> dict[GroupId, list[str]]:
    """Return some keys of each file group that a plan writes."""
    touched = {}
    for file in plan.files:
        rows = pa.array(np.concatenate([file.changes, file.inserts])[:SAMPLE])
        keys = incoming.keys.take(rows).to_pylist()
        touched[GroupId(file.partition, file.file_id)] = keys
    return touched


def _inserted(plan: WritePlan, incoming: Incoming) -> InsertedKeys | None:
    """Return the keys that a plan inserts."""
    rows: dict[str, list[npt.NDArray[np.int64]]] = {}
    for file in plan.files:
        if len(file.inserts):
            rows.setdefault(file.partition, []).append(file.inserts)
    keys = {
        partition: as_binary(incoming.keys.take(pa.array(np.concatenate(many))))
        for partition, many in rows.items()
    }
    return InsertedKeys(keys) if keys else None
