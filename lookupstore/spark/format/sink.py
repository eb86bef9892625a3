"""``df.write.format("lookupstore")``: sorted runs by the tasks, one merge on the driver.

Spark passes rows to a data source as its tasks have them, and a source cannot request a shuffle.
Therefore each task sorts its rows by bucket and key into a run, a file next to the data files that
no version names, and reports its name to the driver. The driver merges the runs that Spark counts,
bucket by bucket, into the data files of a version. Runs of attempts that failed, or that were not
needed, are not reported and therefore not read. Without `buckets`, the driver chooses the number
once all rows are written: tasks then sort by key alone, and the driver sorts by bucket if the rows
are too many for one file.

The version begins in one Python process of the driver and is published in another; tasks work on
executors between.
"""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.types import StructType

from lookupstore.builder.bucket_count import bucket_count
from lookupstore.builder.data_files import check_file_options
from lookupstore.builder.in_process import spill_folder
from lookupstore.builder.plan import plan_build
from lookupstore.keys._codec import bucket_of
from lookupstore.processors import processors
from lookupstore.sorting.runs import RepeatedKeyError, RunSorter, merge
from lookupstore.spark.build.build import DATAFRAME, check_seen, publish_files, task_of
from lookupstore.spark.build.task import BuildTask
from lookupstore.spark.format.options import remedies_as_options, sink_options
from lookupstore.spark.types import arrow_schema
from lookupstore.storage.location import Location
from lookupstore.store.data_files import write_bucket
from lookupstore.store.manifest import DATA_FOLDER, DataFile
from lookupstore.store.marks import mark_name
from lookupstore.store.new_version import NewVersion, settle
from lookupstore.store.publish_step import store_exists_error

#: Memory for rows of a task in bytes, beyond which it spills.
TASK_MEMORY = 128 << 20
#: Number of runs that are merged at a time: the driver has a batch of about 1 MiB of each in
#: memory.
FAN_IN = 64


@dataclass(frozen=True)
class RunPart:
    """The position of the rows of one bucket in the file of a run."""

    first_batch: int
    batches: int
    rows: int
    nbytes: int


@dataclass
class WrittenRun(datasource.WriterCommitMessage):
    """The result of one task for the driver: the file in the store, if any, and its parts."""

    file: str | None
    parts: dict[int, RunPart]


class StoreWriter(datasource.DataSourceArrowWriter):
    """A writer that builds a version of a store from the rows of a DataFrame.

    Args:
        new: Version to write, which has begun.
        task: Description of the build for executors.
        positions: Positions of the columns to read among those of the DataFrame.
        chooses: Whether to choose the number of buckets when all rows are written. Until then,
            tasks write one bucket.
    """

    def __init__(
        self, new: NewVersion, task: BuildTask, positions: Sequence[int], *, chooses: bool
    ) -> None:
        self._chooses = chooses
        self._new = new
        self._task = task
        self._positions = positions

    @classmethod
    @remedies_as_options()
    def plan(
        cls, schema: StructType, options: Mapping[str, str], *, overwrite: bool
    ) -> StoreWriter:
        """Check a write on the driver before any task runs, and begin the version.

        Raises:
            KeyError: If the DataFrame lacks a column.
            ValueError: If an option is unknown or has a bad value, or the replaced version has
                another key.
            TypeError: If a column cannot be stored.
            FileExistsError: If the path holds something else, or a store, and the mode is append.
        """
        parsed = sink_options(options)
        columns = arrow_schema(schema)
        plan = plan_build(
            columns,
            key=parsed.key,
            columns=parsed.columns,
            on_duplicate=parsed.on_duplicate,
            nullable_keys=parsed.nullable_keys,
        )
        location = parsed.location
        new = NewVersion(
            location,
            overwrite=overwrite,
            allow_empty=parsed.allow_empty,
            allow_new_key=parsed.allow_new_key,
            retain=parsed.retain,
        )
        with _modes_named(location):
            new.begin()
        try:
            with location.work_folder(DATA_FOLDER) as folder:
                check_file_options(folder, new.id, parsed.files, 1)
            buckets = parsed.buckets
            if buckets is None and (current := new.current()) is not None:
                buckets = current.buckets
            chooses = buckets is None
            task = task_of(new, plan, columns, buckets or 1, parsed.files)
        except BaseException:
            new.abandon()
            raise
        positions = [columns.names.index(name) for name in task.schema.names]
        return cls(new, task, positions, chooses=chooses)

    @remedies_as_options()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRun:
        """Write the rows of one task as a sorted run, in a worker.

        Raises:
            ValueError: If a key is null or repeated.
            FileNotFoundError: If the worker does not see the files of the driver.
        """
        task = self._task
        mark = mark_name(task.store_id)
        if task.location.size(mark) is None:
            raise FileNotFoundError(
                f"{task.location.show(mark)}: the driver wrote this file, but an executor does not "
                "see it; give a path on a file system that both share"
            )
        try:
            with (
                task.location.work_folder(DATA_FOLDER) as folder,
                self._sorter(task.buckets) as sorter,
            ):
                for batch in iterator:
                    sorter.add(task.encode([batch.column(i) for i in self._positions]))
                run = self._write_run(
                    folder,
                    ((bucket, sorter.sorted_batches(bucket)) for bucket in range(task.buckets)),
                )
                if run.file is not None:
                    task.location.upload(run.file, folder)
                    if task.location.size(mark) is None:
                        task.location.delete(run.file)
                        raise FileNotFoundError(
                            f"{task.location.show(mark)}: gone: the driver has given this write up"
                        )
        except RepeatedKeyError as error:
            raise task.plan.repeated_error(error.key) from None
        return run

    @remedies_as_options()
    def commit(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """Merge the runs into the data files and publish the version, on the driver.

        Raises:
            ValueError: If several tasks had the same key, under the rule `error`.
            FileExistsError: If another build was published first, and the mode is append.
            CommitConflictError: If another build was published at the same moment.
            CommitUnknownError: If the version may or may not be published.
        """
        # Runs are in the order of Spark's partitions, which defines first and last.
        runs = [one for one in messages if isinstance(one, WrittenRun) and one.file is not None]
        task = self._task
        try:
            with _modes_named(task.location), self._new as new, ExitStack() as stack:
                self._fetch(new.folder, [str(run.file) for run in runs])
                if self._chooses:
                    nbytes = sum(part.nbytes for run in runs for part in run.parts.values())
                    task = replace(task, buckets=bucket_count(nbytes))
                if task.buckets == self._task.buckets:
                    write = functools.partial(self._write_bucket, new.folder, runs)
                else:
                    sorter = stack.enter_context(self._spread(new.folder, runs, task.buckets))
                    write = functools.partial(self._write_sorted, new.folder, sorter)
                written = map(write, range(task.buckets))
                files = [
                    settle(task.location, new.folder, file, task.kept)
                    for file in written
                    if file is not None
                ]
                publish_files(new, task, files, DATAFRAME)
        except RepeatedKeyError as error:
            raise task.plan.repeated_error(error.key) from None

    def abort(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """Remove the written files, and leave an older version as it was."""
        # If all tasks have reported their files, the commit failed, and cleaned up if that was
        # safe: files of a version that may be published are kept.
        if None in messages:
            self._new.abandon()

    def _fetch(self, folder: str, names: Sequence[str]) -> None:
        """Copy the files of runs to the folder where they are merged, if they are elsewhere."""
        location = self._task.location
        check_seen(location, names)
        for name in names:
            location.download(name, folder)

    def _write_run(
        self, folder: str, buckets: Iterable[tuple[int, Iterable[pa.RecordBatch]]]
    ) -> WrittenRun:
        """Write sorted batches, bucket by bucket, into one new file of the data folder."""
        # With the id of the version in its name, the file is deleted with it, published or not.
        name = f"{DATA_FOLDER}/{self._task.store_id}-run-{uuid.uuid4().hex}.arrow"
        parts: dict[int, RunPart] = {}
        count = 0
        with ExitStack() as stack:
            writer: pa.ipc.RecordBatchFileWriter | None = None
            for bucket, batches in buckets:
                first, rows, nbytes = count, 0, 0
                for batch in batches:
                    if not batch.num_rows:
                        continue
                    if writer is None:
                        path = os.path.join(folder, name)
                        file = stack.enter_context(pa.OSFile(path, "wb"))
                        lz4 = pa.ipc.IpcWriteOptions(compression="lz4")
                        new = pa.ipc.new_file(file, batch.schema, options=lz4)
                        writer = stack.enter_context(new)
                    writer.write_batch(batch)
                    count += 1
                    rows += batch.num_rows
                    nbytes += batch.nbytes
                if rows:
                    parts[bucket] = RunPart(first, count - first, rows, nbytes)
        return WrittenRun(name if parts else None, parts)

    def _spread(self, folder: str, runs: Sequence[WrittenRun], buckets: int) -> RunSorter:
        """Return the sorter of the rows of runs of one bucket by several buckets."""
        sorter = self._sorter(buckets)
        try:
            for run in runs:
                with ExitStack() as stack:
                    for batch in _read(folder, run, 0, stack):
                        sorter.add(batch)
        except BaseException:
            sorter.close()
            raise
        return sorter

    def _sorter(self, buckets: int) -> RunSorter:
        return RunSorter(
            self._task.plan.keep,
            memory=TASK_MEMORY,
            folder=spill_folder(self._task.location),
            partitions=buckets,
            partition=functools.partial(bucket_of, buckets=buckets),
        )

    def _write_sorted(self, folder: str, sorter: RunSorter, bucket: int) -> DataFile | None:
        rows = sorter.sorted_batches(bucket)
        return self._write_file(folder, bucket, rows, sorter.rows_at_most(bucket))

    def _write_bucket(
        self, folder: str, runs: Sequence[WrittenRun], bucket: int
    ) -> DataFile | None:
        task = self._task
        own = [run for run in runs if bucket in run.parts]
        # Adjacent runs are merged, so that their order is kept.
        while len(own) > FAN_IN:
            groups = [own[i : i + FAN_IN] for i in range(0, len(own), FAN_IN)]
            own = [self._merged(folder, bucket, group) for group in groups]
        with ExitStack() as stack:
            rows = merge([_read(folder, run, bucket, stack) for run in own], task.plan.keep)
            count = sum(run.parts[bucket].rows for run in own)
            return self._write_file(folder, bucket, rows, count)

    def _write_file(
        self, folder: str, bucket: int, rows: Iterator[pa.RecordBatch], rows_at_most: int
    ) -> DataFile | None:
        task = self._task
        return write_bucket(
            folder,
            f"{task.store_id}-{bucket:05d}",
            bucket,
            rows,
            schemas=task.plan,
            options=task.options,
            rows_at_most=rows_at_most or None,
            threads=min(4, processors()),
        )

    def _merged(self, folder: str, bucket: int, runs: Sequence[WrittenRun]) -> WrittenRun:
        with ExitStack() as stack:
            rows = merge([_read(folder, run, bucket, stack) for run in runs], self._task.plan.keep)
            return self._write_run(folder, [(bucket, rows)])


def _read(folder: str, run: WrittenRun, bucket: int, stack: ExitStack) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one bucket of a run, whose file is open until the stack closes it."""
    reader = pa.ipc.open_file(stack.enter_context(pa.OSFile(os.path.join(folder, str(run.file)))))
    part = run.parts[bucket]
    return (reader.get_batch(part.first_batch + i) for i in range(part.batches))


@contextmanager
def _modes_named(location: Location) -> Iterator[None]:
    """Name the modes of Spark in the error for an existing store."""
    try:
        yield
    except FileExistsError as error:
        if str(error) != str(store_exists_error(location)):
            raise
        raise FileExistsError(
            f"{location.uri}: there is already a store, and nothing can be appended to it: "
            "mode('overwrite') publishes its next version; lookupstore.spark.update_store adds and "
            "changes rows"
        ) from None
