"""Lookups in files with a plan of a lookup file each: the common part of two subclasses.

Subclasses choose the file that answers a key: `ColumnarFiles` searches all files, `Levels` the
newest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.arrow.taking import take
from lookupstore.columnar.file_lookup import FileLookup
from lookupstore.columnar.files_together import FilesTogether
from lookupstore.columnar.key_ranges import are_between
from lookupstore.columnar.lookup_file import POSITION, LookupFilePlan, Mode, check_added
from lookupstore.columnar.many_lookups import AskedFiles, ManyLookups
from lookupstore.columnar.open_files import OpenFiles
from lookupstore.columnar.published import PublishedFile
from lookupstore.columnar.rent import Build, Rent
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hostcache.cache import Residency
from lookupstore.keys.schema import KeySchema
from lookupstore.progress import Advance, not_shown, progress_bars
from lookupstore.rows.schema import RowSchema
from lookupstore.source.reading import fitted
from lookupstore.sst import Reader

#: Name of the column of the file of a row, as in the metadata columns of Iceberg.
FILE = "_file"

#: Packed rows of files, each with the number of its file.
Parts = list[tuple[int, pa.Array]]
#: Index of the answer to each key in the rows of several files; -1: no answer.
Places = npt.NDArray[np.int64]


F = TypeVar("F", bound=OpenFiles)


class PlannedFiles(ManyLookups, Generic[F]):
    """Lookups in files, each with its own lookup file.

    Attributes:
        mode: Content of the results: `value`, `position`, `value_and_position` or `presence`.
    """

    mode: Mode

    def _set_up(
        self,
        *,
        mode: Mode,
        key: KeySchema,
        values: pa.Schema,
        plans: Sequence[LookupFilePlan],
        published: dict[str, PublishedFile],
        build: Build,
        memory: int,
        residency: Residency,
        rents: dict[str, Rent],
        opened: Callable[[Sequence[LookupFilePlan], Mapping[int, Reader]], F],
    ) -> None:
        """Plan the lookups.

        Args:
            mode: Content of the results.
            key: The key columns.
            values: Columns of the results.
            plans: Plans of the lookup files.
            published: Published lookup files, by name.
            build: Time to make a lookup file.
            memory: Budget for sorting rows, in bytes.
            residency: Cache that holds the lookup files.
            rents: Costs of reads of files without a lookup file, by the names of these. Objects
                share them that look keys up in newer and newer files.
            opened: Function that returns the open files; see `FilesTogether`.
        """
        self.mode = mode
        self._key = key
        self._values = values
        self._plans = plans
        self._build = build
        self._memory = memory
        self._residency = residency
        self._together: FilesTogether[F] = FilesTogether(self.path, opened)
        self._lookups: list[FileLookup] = self._together.lookups
        for plan in plans:
            rent = rents.get(plan.name) or Rent(build)
            self._together.add(
                FileLookup(
                    plan,
                    published.get(plan.name),
                    residency,
                    rent,
                    memory,
                    progress=None,
                    together=self._together.place,
                )
            )
        rents.clear()
        rents |= {lookup.plan.name: lookup.rent for lookup in self._lookups}
        self._rents = rents
        lookups = self._lookups
        # Without this object, which would otherwise live on until garbage is collected.
        self._files = AskedFiles(lambda: lookups, residency)

    @property
    def key_schema(self) -> KeySchema:
        """Return the key columns, in types that hold the keys of all files."""
        return self._key

    @property
    def value_schema(self) -> pa.Schema:
        """Return the columns of the result of a lookup."""
        return self._values

    @property
    def num_files(self) -> int:
        """Return the number of columnar files."""
        return len(self._plans)

    @property
    def num_rows(self) -> int:
        """Return the number of rows of all files."""
        return sum(plan.source.num_rows for plan in self._plans)

    @property
    def nbytes(self) -> int:
        """Return the size of all files."""
        return sum(plan.source.nbytes for plan in self._plans)

    def _answers(
        self, names: Sequence[str], places: Places, parts: Parts
    ) -> tuple[pa.BooleanArray, pa.Table]:
        """Return which keys have an answer, and value columns of the answers."""
        missing = places < 0
        at = pa.array(places, mask=missing)
        columns = [self._gathered(self._values.field(name), parts, at) for name in names]
        return pa.array(~missing), pa.table(columns, names=list(names))

    def _gathered(self, field: pa.Field, parts: Parts, places: pa.Array) -> pa.Array:
        """Return a value column at the places of all keys, null if a place is null."""
        columns = [self._column(field, number, rows) for number, rows in parts]
        column = pa.concat_arrays(columns) if columns else pa.array([], field.type)
        return take(column, places)

    def _column(self, field: pa.Field, number: int, rows: pa.Array) -> pa.Array:
        """Return a value column of rows of one file, null if the file lacks it."""
        plan = self._plans[number]
        if field.name == FILE and self.mode in ("position", "value_and_position"):
            return pa.repeat(pa.scalar(plan.source.uri, field.type), len(rows))
        if field.name not in plan.build.row_schema:
            return pa.nulls(len(rows), field.type)
        try:
            column = plan.build.row_schema.unpack(rows, [field.name]).column(0)
        except FormatError as error:
            path = self._lookups[number].reader().path
            raise CorruptionError(path, 0, "rows of the file's value columns", error) from None
        return fitted(column, field, plan.source.uri, "in the other files")

    def _records(
        self, number: int, rows: RowSchema, start: bytes | None, stop: bytes | None, reverse: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield `key` and `value` of a range of one file, encoded with the schemas of all files."""
        own = self._plans[number].build.key_schema
        # Keys of another type are encoded as other bytes.
        bounds = (start, stop) if own == self._key else (None, None)
        for batch in self._lookups[number].scan(*bounds, reverse):
            keys, packed = batch.column("key"), batch.column("value")
            if own != self._key:
                keys = self._key.encode(own.decode(keys).cast(self._key.schema))
                keys = keys.cast(pa.large_binary())
                inside = are_between(keys, start, stop)
                keys, packed = keys.filter(inside), packed.filter(inside)
                if not len(keys):
                    continue
            columns = {"key": keys, **self._beside(number, packed)}
            if len(rows.schema):  # a batch without columns would have no rows
                values = [self._column(field, number, packed) for field in rows.schema]
                given = pa.RecordBatch.from_arrays(values, schema=rows.schema)
                columns["value"] = rows.pack(given)
            yield pa.RecordBatch.from_pydict(columns)

    def _beside(self, number: int, packed: pa.Array) -> dict[str, pa.Array]:
        """Return columns of bytes that records of a scan have besides `key` and `value`."""
        return {}

    def _decoded(
        self, batches: Iterator[pa.RecordBatch], rows: RowSchema
    ) -> Iterator[pa.RecordBatch]:
        """Yield records of a scan as columns: the key columns, then those of `rows`."""
        schema = pa.schema([*self._key.schema, *rows.schema])
        for batch in batches:
            keys = self._key.decode(batch.column("key"))
            values = rows.unpack(batch.column("value")).columns if len(rows.schema) else []
            yield pa.RecordBatch.from_arrays([*keys.columns, *values], schema=schema)

    def prepare(self, *, threads: int = 1, progress: bool | None = None) -> None:
        """Make or fetch the lookup files of all columnar files on this host.

        Args:
            threads: Number of lookup files to make at the same time.
            progress: Whether to show a progress bar. Default: on a terminal or in a notebook.

        Raises the errors of `lookup`.
        """
        self._each(FileLookup.reader, threads, progress, "Building lookup files")

    def _each(
        self,
        step: Callable[[FileLookup, Advance], object],
        threads: int,
        progress: bool | None,
        title: str,
    ) -> None:
        """Do a step for each file, and show the rows of which it tells.

        Rows of which a step does not tell are shown when it ends.
        """
        with progress_bars(progress) as bars, ThreadPoolExecutor(threads, "lookupstore") as pool:
            advance = bars(title, self.num_rows) if bars else not_shown

            def one(lookup: FileLookup) -> None:
                left = float(lookup.plan.source.num_rows)

                def tell(rows: float) -> None:
                    nonlocal left
                    left -= rows
                    advance(rows)

                step(lookup, tell)
                advance(left)

            for _ in pool.map(one, self._lookups):
                continue

    def _every(self) -> Sequence[FileLookup]:
        return self._lookups


def value_fields(
    schema: pa.Schema, key: Sequence[str], columns: Sequence[str] | None, mode: Mode
) -> pa.Schema:
    """Return the columns of the result of a lookup.

    Args:
        schema: Columns of all files together.
        key: Names of the key columns.
        columns: Names of the value columns. None: all columns that are not in the key.
        mode: Content of the result: `value`, `position`, `value_and_position` or `presence`.

    Raises:
        ValueError: If value columns are named for a mode without them, or the mode adds a column
            with the name of a wanted column.
    """
    fields = []
    if mode in ("value", "value_and_position"):
        wanted = schema.names if columns is None else columns
        fields = [schema.field(name) for name in wanted if name not in key]
    elif columns is not None:
        raise ValueError(f"columns is {list(columns)!r}; mode {mode!r} returns no value columns")
    if mode in ("position", "value_and_position"):
        check_added((*key, *(one.name for one in fields)), mode, (FILE, POSITION))
        fields += [pa.field(FILE, pa.string()), pa.field(POSITION, pa.int64())]
    return pa.schema([field.with_nullable(True) for field in fields])
