"""``df.write.format("lookupstore")``: sorted runs by the tasks, one merge on the driver.

Spark gives a data source the rows as its tasks have them, and no way to ask for a shuffle. So each
task sorts its rows by bucket and key into a run, one file in a hidden folder beside the store, and
tells the driver its name. The driver merges the runs that Spark counts, bucket by bucket, into the
data files. Runs of attempts that failed, or that were not needed, are not told and so not read.
"""

from __future__ import annotations

import functools
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.types import StructType

from lookupstore._keys import bucket_of
from lookupstore.build import (
    BuildPlan,
    check_file_options,
    end_build,
    make_store_folder,
    new_manifest,
    plan_build,
    remove_build,
    write_bucket,
)
from lookupstore.manifest import DataFile, publish_manifest, store_exists, store_folder
from lookupstore.runs import RepeatedKeyError, RunSorter, merge
from lookupstore.spark.sink_options import SinkOptions, sink_options
from lookupstore.spark.types import arrow_schema

_SOURCE = "Spark DataFrame"
# What a task holds before it spills beside its run.
_TASK_MEMORY = 128 << 20
# Runs merged at a time: the driver holds a batch of about 1 MiB of each, and what comes of them.
_FAN_IN = 64


@dataclass(frozen=True)
class RunPart:
    """Say where the rows of one bucket are in the file of a run."""

    first_batch: int
    batches: int
    rows: int


@dataclass
class WrittenRun(datasource.WriterCommitMessage):
    """Tell the driver what one task wrote: the file, if it had rows, and its buckets."""

    file: str | None
    parts: dict[int, RunPart]


class StoreWriter(datasource.DataSourceArrowWriter):
    """Builds a store of the rows of a DataFrame.

    Args:
        build: what becomes of each batch.
        schema: the columns of the DataFrame.
        options: what was asked.
        folder: folder of the store.
        store_id: identity of the store to be.
        made: folders that are new.
        overwrite: replace the store in the folder.
    """

    def __init__(
        self,
        build: BuildPlan,
        schema: pa.Schema,
        options: SinkOptions,
        *,
        folder: str,
        store_id: str,
        made: Sequence[str],
        overwrite: bool,
    ) -> None:
        self._build = build
        self._schema = schema
        self._options = options
        self._folder = folder
        self._store_id = store_id
        self._made = made
        self._overwrite = overwrite
        parent, name = os.path.split(folder)
        self._staging = os.path.join(parent, f".{name}-{store_id}-runs")

    @classmethod
    def plan(
        cls, schema: StructType, options: Mapping[str, str], *, overwrite: bool
    ) -> StoreWriter:
        """Check what was asked, on the driver and before any task runs, and make the folders.

        Raises:
            KeyError: a column that the DataFrame does not have.
            ValueError: an option that there is not, or of a bad value.
            TypeError: a column that cannot be stored.
            FileExistsError: the path holds something else, or a store, and the mode is append.
        """
        parsed = sink_options(options)
        columns = arrow_schema(schema)
        build = plan_build(
            columns,
            key=parsed.key,
            on_duplicate=parsed.on_duplicate,
            nullable_keys=parsed.nullable_keys,
        )
        folder = store_folder(parsed.path)
        store_id = uuid.uuid4().hex
        try:
            made = make_store_folder(folder, store_id, overwrite=overwrite)
        except FileExistsError as error:
            if str(error) != str(store_exists(folder)):
                raise
            raise FileExistsError(
                f"{folder}: holds a store already, and a store is built whole, so that nothing can "
                "be appended to it; mode('overwrite') replaces it"
            ) from None
        writer = cls(
            build,
            columns,
            parsed,
            folder=folder,
            store_id=store_id,
            made=made,
            overwrite=overwrite,
        )
        try:
            check_file_options(folder, store_id, parsed.files, 1)
            os.mkdir(writer._staging)
        except BaseException:
            writer._discard()
            raise
        return writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRun:
        """Write the rows of one task as a sorted run, in a worker.

        Raises:
            ValueError: a null or repeated key.
            FileNotFoundError: the worker does not see the folder that the driver made.
        """
        if not os.path.isdir(self._staging):
            raise FileNotFoundError(
                f"{self._staging}: the driver made this folder, and an executor does not see it; "
                "give a path on a file system that they share"
            )
        try:
            with RunSorter(
                self._build.keep,
                memory=_TASK_MEMORY,
                folder=self._staging,
                partitions=self._options.buckets,
                partition=functools.partial(bucket_of, buckets=self._options.buckets),
            ) as sorter:
                for batch in iterator:
                    sorter.add(self._encoded(batch))
                return self._write_run(
                    (bucket, sorter.sorted_batches(bucket))
                    for bucket in range(self._options.buckets)
                )
        except RepeatedKeyError as error:
            raise self._build.repeated(error.key) from None

    def commit(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """Merge the runs into the data files and publish the store, on the driver.

        Raises:
            ValueError: a key that several tasks had, under the rule `error`.
            FileExistsError: another build was first, and the mode is append.
        """
        # In the order of Spark's partitions, which is what first and last mean.
        runs = [one for one in messages if isinstance(one, WrittenRun) and one.file is not None]
        try:
            files = [self._write_bucket(bucket, runs) for bucket in range(self._options.buckets)]
            manifest = new_manifest(
                self._build,
                files,
                store_id=self._store_id,
                buckets=self._options.buckets,
                options=self._options.files,
                source=_SOURCE,
            )
            publish_manifest(self._folder, manifest, overwrite=self._overwrite)
            end_build(self._folder, self._store_id)
        except BaseException as error:
            self._discard()
            if isinstance(error, RepeatedKeyError):
                raise self._build.repeated(error.key) from None
            raise
        shutil.rmtree(self._staging, ignore_errors=True)

    def abort(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """Remove what was written, and leave an older store as it was."""
        self._discard()

    def _discard(self) -> None:
        # First, so that tasks that still run find nowhere to write.
        shutil.rmtree(self._staging, ignore_errors=True)
        remove_build(self._folder, self._store_id, self._made)

    def _encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, self._schema, strict=True)
        ]
        source = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return self._build.encode(source.select(self._build.columns), None)

    def _write_run(self, buckets: Iterable[tuple[int, Iterable[pa.RecordBatch]]]) -> WrittenRun:
        """Write sorted batches, bucket by bucket, into one new file of the staging folder."""
        name = f"{uuid.uuid4().hex}.arrow"
        parts: dict[int, RunPart] = {}
        count = 0
        with ExitStack() as stack:
            writer: pa.ipc.RecordBatchFileWriter | None = None
            for bucket, batches in buckets:
                first, rows = count, 0
                for batch in batches:
                    if not batch.num_rows:
                        continue
                    if writer is None:
                        path = os.path.join(self._staging, name)
                        file = stack.enter_context(pa.OSFile(path, "wb"))
                        lz4 = pa.ipc.IpcWriteOptions(compression="lz4")
                        new = pa.ipc.new_file(file, batch.schema, options=lz4)
                        writer = stack.enter_context(new)
                    writer.write_batch(batch)
                    count += 1
                    rows += batch.num_rows
                if rows:
                    parts[bucket] = RunPart(first, count - first, rows)
        return WrittenRun(name if parts else None, parts)

    def _write_bucket(self, bucket: int, runs: Sequence[WrittenRun]) -> DataFile | None:
        own = [run for run in runs if bucket in run.parts]
        # Neighbours are merged, so that what comes first stays first.
        while len(own) > _FAN_IN:
            groups = [own[i : i + _FAN_IN] for i in range(0, len(own), _FAN_IN)]
            own = [self._merged(bucket, group) for group in groups]
        with ExitStack() as stack:
            return write_bucket(
                self._folder,
                f"{self._store_id}-{bucket:05d}",
                bucket,
                merge([self._read(run, bucket, stack) for run in own], self._build.keep),
                plan=self._build,
                options=self._options.files,
                source=_SOURCE,
                rows_at_most=sum(run.parts[bucket].rows for run in own) or None,
                threads=min(4, os.cpu_count() or 1),
            )

    def _merged(self, bucket: int, runs: Sequence[WrittenRun]) -> WrittenRun:
        with ExitStack() as stack:
            rows = merge([self._read(run, bucket, stack) for run in runs], self._build.keep)
            return self._write_run([(bucket, rows)])

    def _read(self, run: WrittenRun, bucket: int, stack: ExitStack) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one bucket of a run, whose file is open until the stack closes it."""
        path = os.path.join(self._staging, str(run.file))
        try:
            file = stack.enter_context(pa.OSFile(path))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{path}: an executor wrote it, and the driver does not see it; give a path on a "
                "file system that they share"
            ) from None
        reader = pa.ipc.open_file(file)
        part = run.parts[bucket]
        return (reader.get_batch(part.first_batch + i) for i in range(part.batches))
