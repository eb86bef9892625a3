"""The part of a build that runs in the Python workers of executors: from columns to data files.

Rows are encoded where they are read, by Spark or by tasks, and sent in packs to the task of their
bucket. That task sorts them within a memory budget, spills the rest, and streams them into one data
file.
"""

from __future__ import annotations

import functools
import itertools
import pickle
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.texts import check_texts
from lookupstore.builder.in_process import spill_folder
from lookupstore.builder.plan import BuildPlan
from lookupstore.keys._codec import bucket_of
from lookupstore.keys.schema import KeySchema
from lookupstore.sorting.runs import RepeatedKeyError, RunSorter
from lookupstore.spark.buckets import by_bucket
from lookupstore.spark.build.packs import in_packs, packs_schema, unpack
from lookupstore.spark.build.splits import Split, Splits
from lookupstore.storage.location import Location
from lookupstore.store.data_files import FileOptions, write_bucket
from lookupstore.store.manifest import DATA_FOLDER, DataFile
from lookupstore.store.new_version import settle
from lookupstore.tables.history import RowDifference

Batches: TypeAlias = Iterator[pa.RecordBatch]

#: Memory for rows of a task in bytes, beyond which it spills.
TASK_MEMORY = 256 << 20

# Types, in Spark and in Arrow, of the fields that tasks report about a file.
_TYPES = {"str": ("string", pa.string()), "int": ("long", pa.int64())}
ENTRY = ", ".join(f"{one.name} {_TYPES[str(one.type)][0]}" for one in fields(DataFile))
_ENTRY_TYPES = pa.schema([(one.name, _TYPES[str(one.type)][1]) for one in fields(DataFile)])
# Columns of the position of a row in files that Spark reads: the index of the file in the list of
# files, the offset of its split in the file, and the number of the row in the order of Spark; only
# the last for a DataFrame. In files that tasks read: the number of the file, and of the row in it.
_ORDER = ("file", "split", "row")
_SPLIT_ORDER = ("file", "row")


@dataclass(frozen=True)
class BuildTask:
    """The description of a build for executors.

    Attributes:
        plan: Plan that encodes each batch.
        schema: Source columns to read, with their planned types.
        files: Source files in their order, if Spark reads them. Empty for a DataFrame, and if the
            order of rows does not matter.
        location: Location of the store.
        store_id: Identifier of the new version, which begins the names of its files.
        buckets: Number of buckets.
        options: Options of the data files.
        kept: Files of the current version, by bucket, that are kept if their bytes would be equal.
        rows: Accumulator of the number of written rows. None: they are not counted.
        reads: Whether tasks read the files, instead of Spark.
    """

    plan: BuildPlan
    schema: pa.Schema
    files: tuple[str, ...]
    location: Location
    store_id: str
    buckets: int
    options: FileOptions
    kept: Mapping[int, DataFile]
    rows: Any = None
    reads: bool = False

    @property
    def order(self) -> tuple[str, ...]:
        """Return the columns of the position of a row; [] if the rule does not need it."""
        if self.plan.keep == "error" or not self.plan.in_order:
            return ()
        if self.reads:
            return _SPLIT_ORDER
        return _ORDER if self.files else _ORDER[-1:]

    @property
    def packed(self) -> list[str]:
        """Return the columns of encoded rows."""
        return ["key", "value"] if self.plan.keep == "error" else ["key", "value", "rank"]

    @property
    def packs(self) -> str:
        """Return Spark's schema of packs."""
        return packs_schema(self.packed)

    def encode(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Encode the columns of `schema` from Spark as bytes; see `BuildPlan.encode`."""
        return self.plan.encode(self._planned(columns), None)

    def encode_ranked(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Turn the columns of `schema` and of `order` into bytes, in columns of large_binary.

        For two rows with one key, the one with the greater `rank` is kept, regardless of their
        order.
        """
        count = len(self.schema)
        planned = self._planned(columns[:count])
        # Without an order of the rows, the values of equal ranks decide.
        plan = replace(self.plan, rank_schema=None) if self.order else self.plan
        encoded = plan.encode(planned, None)
        parts = {name: encoded.column(name) for name in encoded.schema.names}
        if self.order:
            parts["rank"] = self._ranks(planned, columns[count:])
        return pa.RecordBatch.from_pydict(
            {name: parts[name].cast(pa.large_binary()) for name in self.packed}
        )

    def _planned(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        planned = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, self.schema, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(planned, schema=self.schema)
        if not self.reads:  # if a task reads a file, its errors name the file
            check_texts(rows, "the source", None)
        return rows

    def _ranks(self, planned: pa.RecordBatch, order: Sequence[pa.Array]) -> pa.Array:
        places = dict(zip(self.order, order, strict=True))
        if self.files:
            places["file"] = pc.index_in(places["file"], pa.array(self.files, pa.string()))
            if places["file"].null_count:
                raise ValueError("the source files changed while the build ran; build again")
        # The greatest rank is kept: for the first row, the last one, or the greatest one, ties to
        # the last.
        first = self.plan.keep == "first"
        by_place = [pc.negate(place) if first else place for place in places.values()]
        ranked = [] if self.plan.rank_schema is None else self.plan.rank_schema.names
        names = [*("rank" for _ in ranked), *places]
        columns = [*(planned.column(name) for name in ranked), *by_place]
        rows = pa.RecordBatch.from_arrays(columns, names=names)
        return KeySchema(rows.schema, nullable=names[: len(ranked)]).encode(rows)


def encode_batches(task: BuildTask, batches: Batches) -> Batches:
    """Turn record batches of source columns into packs of rows of one bucket each."""
    encoded = (task.encode_ranked(batch.columns) for batch in batches)
    yield from in_packs(encoded, functools.partial(bucket_of, buckets=task.buckets))


def encode_splits(task: BuildTask, splits: Splits, batches: Batches) -> Batches:
    """Turn numbers of tasks into packs of the rows that these read."""
    numbers = itertools.chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
    encoded = (
        task.encode_ranked(columns)
        for number in numbers
        for split in splits[number]
        for columns in _placed(split, task)
    )
    yield from in_packs(encoded, functools.partial(bucket_of, buckets=task.buckets))


def encode_parts(task: BuildTask, pickled: bytes, batches: Batches) -> Batches:
    """Turn numbers of tasks into packs of the rows of a table that these read.

    Args:
        task: Description of the build.
        pickled: Pickle of the parts of the table that each task reads. File systems in it may need
            packages that Spark would not name in the error for a function that it cannot open.
        batches: Numbers of tasks.

    Raises:
        ImportError: If this executor lacks a package that reads the files.
    """
    try:
        parts: Sequence[Sequence[RowDifference]] = pickle.loads(pickled)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"the Python of an executor lacks the package {error.name}, which reads the files of "
            "this table; install it on all executors, or give the path of the table"
        ) from None
    numbers = itertools.chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
    encoded = (
        task.encode_ranked(rows.columns)
        for number in numbers
        for part in parts[number]
        for rows in part.rows(task.schema.names)
    )
    yield from in_packs(encoded, functools.partial(bucket_of, buckets=task.buckets))


def _placed(split: Split, task: BuildTask) -> Iterator[list[pa.Array]]:
    """Yield the columns of `schema` and of `order` of a split."""
    row = split.first_row
    for batch in split.batches(task.schema):
        end = row + batch.num_rows
        places = {"file": np.full(batch.num_rows, split.file), "row": np.arange(row, end)}
        yield [*batch.columns, *(pa.array(places[name]) for name in task.order)]
        row = end


def write_batches(task: BuildTask, batches: Batches) -> Batches:
    """Write the packs of some buckets, adjacent for each bucket, into a file for each.

    Yields the manifest's entry of each file, once the file is complete and on disk.
    """
    for bucket, parts in itertools.groupby(by_bucket(batches), key=lambda part: part[0]):
        # Two attempts never write the same file, regardless of which of them Spark counts.
        name = f"{task.store_id}-{bucket:05d}-{uuid.uuid4().hex[:12]}"
        try:
            with (
                task.location.work_folder(DATA_FOLDER) as folder,
                RunSorter(
                    "error" if task.plan.keep == "error" else "max",
                    memory=TASK_MEMORY,
                    folder=spill_folder(task.location),
                ) as sorter,
            ):
                for _, packs in parts:
                    sorter.add(unpack(packs, task.packed))
                written = write_bucket(
                    folder,
                    name,
                    bucket,
                    sorter.sorted_batches(0),
                    schemas=task.plan,
                    options=task.options,
                )
                if written is None:
                    continue
                entry = settle(task.location, folder, written, task.kept)
        except RepeatedKeyError as error:
            raise task.plan.repeated_error(error.key) from None
        if task.rows is not None:
            task.rows.add(entry.num_records)
        yield pa.RecordBatch.from_pylist([asdict(entry)], schema=_ENTRY_TYPES)
