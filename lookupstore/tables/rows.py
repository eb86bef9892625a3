"""The rows of a snapshot, as the source of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lookupstore.arrow.taking import keep_rows, take_rows
from lookupstore.arrow.texts import check_texts
from lookupstore.errors import CorruptionError
from lookupstore.parquet.chosen_rows import ChosenRows
from lookupstore.parquet.claims import SMALL
from lookupstore.parquet.ending import ParquetEnding
from lookupstore.source.damage import damaged_offset
from lookupstore.source.reading import fitted, read_to_store, schema_of
from lookupstore.source.skipping import StatisticsFilter
from lookupstore.source.source import Source
from lookupstore.tables.columns import field_in_file, in_table_names, with_ids
from lookupstore.tables.kept_columns import HostColumns, KeptFile
from lookupstore.tables.positions import Positions, RowPositions
from lookupstore.tables.snapshot import MergedFiles, RowCondition, Snapshot, TableFile

# Rows of a page of most writers: all pages of a column have a row if one in so many is chosen.
_PAGE_ROWS = 20_000
#: Remedy of readers that have opened a snapshot.
OPEN_AGAIN = ": open the table again"
GONE = f"gone; a vacuum or expiry of the table deleted it{OPEN_AGAIN}"


def snapshot_source(snapshot: Snapshot, kept: HostColumns | None = None) -> Source:
    """Return the rows of a snapshot as a source.

    Rows are read file after file, in ascending order of their paths. This order has no meaning in
    the table, and does not decide between repeated keys.

    Args:
        snapshot: The snapshot.
        kept: Columns that this host keeps of the files. Default: none.

    Raises, while rows are read:
        CorruptionError: If a file is damaged, or has fewer rows than are deleted of it.
        StaleStoreError: If a file is gone.
        FormatError: If a file has several columns for one of the table.
        ValueError: If a column of a file is of another kind than that of the table.
    """

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for file in snapshot.files_to_read:
            yield from rows_of(snapshot, file, columns, kept)

    return Source(
        snapshot.schema,
        snapshot.description,
        batches,
        lambda: snapshot.num_rows,
        is_files=True,
        fingerprint=snapshot.fingerprint,
        nbytes=sum(file.nbytes for file in snapshot.files_to_read),
        in_order=False,
        filtered=lambda condition: snapshot_source(snapshot.where(condition), kept),
    )


def rows_of(
    snapshot: Snapshot, file: TableFile, columns: Sequence[str], kept: HostColumns | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file that are not deleted, as the table has them.

    Args:
        snapshot: Table that has the file.
        file: The file.
        columns: Names of the columns to yield.
        kept: Columns that this host keeps of the file. Default: none.

    Raises the errors of `snapshot_source`.
    """
    for rows, _ in placed_rows(snapshot, file, columns, kept=kept):
        yield rows


def rows_at(
    snapshot: Snapshot,
    file: TableFile,
    columns: Sequence[str],
    positions: Positions,
    kept: HostColumns | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a data file whose keys are not deleted, as the table has them.

    Of a Parquet file, only pages that have such rows are read.

    Args:
        snapshot: Table that has the file.
        file: The file.
        columns: Names of the columns to yield.
        positions: Positions of the rows in the file, from 0, ascending, each once. Whether they are
            deleted does not matter.
        kept: Columns that this host keeps of the file. Default: none.

    Raises the errors of `snapshot_source`.
    """
    conditions = snapshot.conditions(file)
    wanted = [*dict.fromkeys([*columns, *(name for one in conditions for name in one.names)])]
    with _open(snapshot, file, wanted, kept=kept, is_whole=False) as read:
        for batch, count in read.chosen(RowPositions(positions)):
            rows = read.columns.in_table(batch, wanted, count)
            for one in conditions:
                if rows.num_rows:
                    rows = keep_rows(rows, one.kept(rows.select(list(one.names))))
            if rows.num_rows:
                yield rows.select(list(columns))


def placed_rows(
    snapshot: Snapshot,
    file: TableFile,
    columns: Sequence[str],
    *,
    every: bool = False,
    kept: HostColumns | None = None,
    asked: StatisticsFilter | None = None,
) -> Iterator[tuple[pa.RecordBatch, Positions]]:
    """Yield rows of a data file as the table has them, with their positions in the file.

    Args:
        snapshot: Table that has the file.
        file: The file.
        columns: Names of the columns to yield.
        every: Whether to yield deleted rows, too, and those that the filter of the snapshot leaves
            out.
        kept: Columns that this host keeps of the file. Default: none.
        asked: Condition of the rows that are asked for: row groups that it rules out are not read.
            Default: the filter of the snapshot.

    Raises the errors of `snapshot_source`.
    """
    conditions = () if every else snapshot.conditions(file)
    wanted = [*dict.fromkeys([*columns, *(name for one in conditions for name in one.names)])]
    if asked is None and not every:
        asked = snapshot.by_statistics
    if file.merged is not None:
        yield from _meeting(conditions, _merged_rows(file.merged, wanted, asked), columns)
        return
    deleted = None if every or file.deleted is None else file.deleted.load(asked)
    with _open(snapshot, file, wanted, kept=kept) as read:
        for row, batch in read.placed(asked):
            positions = np.arange(row, row + batch.num_rows)
            left = None if deleted is None else deleted.kept(row, batch.num_rows)
            # Errors count rows of the file, which is not possible once some are left out.
            before = row if left is None else None
            if left is not None:
                batch, positions = keep_rows(batch, left), positions[left.to_numpy(False)]
            rows = read.columns.in_table(batch, wanted, len(positions), before)
            yield from _meeting(conditions, [(rows, positions)], columns)
    if deleted is not None and read.rows < deleted.end:
        expected = f"at least {deleted.end} rows (row {deleted.end} is marked deleted)"
        raise CorruptionError(file.address.shown, 0, expected, read.rows)


def _merged_rows(
    merged: MergedFiles, names: Sequence[str], asked: StatisticsFilter | None
) -> Iterator[tuple[pa.RecordBatch, Positions]]:
    """Yield merged rows with their numbers."""
    row = 0
    for rows in merged.batches(names, asked):
        yield rows, np.arange(row, row + rows.num_rows)
        row += rows.num_rows


def _meeting(
    conditions: Sequence[RowCondition],
    placed: Iterable[tuple[pa.RecordBatch, Positions]],
    columns: Sequence[str],
) -> Iterator[tuple[pa.RecordBatch, Positions]]:
    """Yield columns of the rows that meet some conditions, with their positions."""
    for rows, positions in placed:
        for one in conditions:
            if rows.num_rows:
                kept = one.kept(rows.select(list(one.names)))
                rows, positions = keep_rows(rows, kept), positions[kept.to_numpy(False)]
        if rows.num_rows:
            yield rows.select(list(columns)), positions


@contextmanager
def _open(
    snapshot: Snapshot,
    file: TableFile,
    wanted: Sequence[str],
    *,
    kept: HostColumns | None = None,
    is_whole: bool = True,
) -> Iterator[_Reader]:
    """Open a data file, or the wanted columns that this host keeps of it.

    Args:
        snapshot: Table that has the file.
        file: The file.
        wanted: Names of the columns of the table to read.
        kept: Columns that this host keeps of the file. Default: none.
        is_whole: Whether most of the file is read.
    """
    found = None if kept is None else kept.opened(snapshot, file, wanted)
    if found is not None:
        yield _KeptReader(snapshot, file, found, wanted)
        return
    with ExitStack() as stack:
        with reading(file):
            address = file.address
            handle = stack.enter_context(
                address.open_whole(file.nbytes) if is_whole else address.open(file.nbytes)
            )
            read = _FileReader(snapshot, file, handle, wanted, kept)
        yield read


class _Reader(ABC):
    """The reader of a data file, which yields its rows in its own columns.

    Args:
        snapshot: Table that has the file.
        file: The file.
        there: Columns of the file, in the types in which they are read.
        wanted: Names of the columns of the table to read.

    Attributes:
        columns: Columns of the file as the table has them.
        rows: Number of rows of the file up to the last ones of `placed`.
    """

    def __init__(
        self, snapshot: Snapshot, file: TableFile, there: pa.Schema, wanted: Sequence[str]
    ) -> None:
        self._file = file
        self.rows: int = 0
        self.columns = FileColumns(snapshot, file, there)
        self._names = self.columns.names_in_file(wanted)

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""

    def placed(
        self, by_statistics: StatisticsFilter | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield rows, with the position of the first one in the file.

        Args:
            by_statistics: Condition by which rows may be left out. None: all rows are read.
        """
        for batch in self:
            start = self.rows
            self.rows += batch.num_rows
            yield start, batch

    def chosen(self, positions: RowPositions) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the rows at some positions of the file, each batch with the number of its rows.

        Raises:
            CorruptionError: If the file has fewer rows.
        """
        return self._among(self, positions)

    def _among(
        self, batches: Iterable[pa.RecordBatch], positions: RowPositions
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the rows at some positions among those of some batches."""
        row = 0
        for batch in batches:
            chosen = positions.within(row, batch.num_rows)
            row += batch.num_rows
            if len(chosen):
                yield take_rows(batch, pa.array(chosen)), len(chosen)
        if row < positions.end:
            expected = f"at least {positions.end} rows"
            raise CorruptionError(self._file.address.shown, 0, expected, row)


class _KeptReader(_Reader):
    """The reader of columns of a data file that this host keeps.

    Args:
        snapshot: Table that has the file.
        file: The file.
        kept: The kept columns.
        wanted: Names of the columns of the table to read.
    """

    def __init__(
        self, snapshot: Snapshot, file: TableFile, kept: KeptFile, wanted: Sequence[str]
    ) -> None:
        super().__init__(snapshot, file, kept.schema, wanted)
        self._kept = kept

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._kept.batches(self._names)


class _FileReader(_Reader):
    """The reader of an open data file.

    Args:
        snapshot: Table that has the file.
        file: The file.
        handle: The file, open.
        wanted: Names of the columns of the table to read.
        kept: Columns that this host is to keep of the file. None: none.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        file: TableFile,
        handle: pa.NativeFile,
        wanted: Sequence[str],
        kept: HostColumns | None,
    ) -> None:
        shown = file.address.shown
        self._handle = handle
        self._ending: ParquetEnding | None = None
        if file.file_format == "parquet":
            self._ending = ParquetEnding(handle, shown, file.address.ending_bytes)
        self._there = schema_of(handle, file.file_format, shown, self._metadata)
        super().__init__(snapshot, file, self._there, wanted)
        self._snapshot, self._wanted, self._kept = snapshot, wanted, kept

    @property
    def _metadata(self) -> pq.FileMetaData | None:
        return None if self._ending is None else self._ending.metadata

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        batches = self._guarded(self._batches(None))
        if self._kept is None or not self._keeps:
            return batches
        own = self.columns.names_in_file(sorted(self._to_keep))
        schema = pa.schema([self._there.field(name) for name in own])
        return self._kept.copied(self._snapshot, self._file, schema, batches)

    def placed(
        self, by_statistics: StatisticsFilter | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield rows, with the position of the first one in the file.

        Args:
            by_statistics: Condition by which row groups are left out, unless this host is to keep
                columns of the file. None: all rows are read.
        """
        if by_statistics is None or self._ending is None or self._keeps:
            yield from super().placed(by_statistics)
            return
        names, constants = self.columns.stored_and_constant(by_statistics.columns.names)
        groups = by_statistics.groups(self._ending.footer, names, constants)
        for start, run in groups.runs():
            self.rows = start
            for batch in self._guarded(self._batches(run), run):
                start = self.rows
                self.rows += batch.num_rows
                yield start, batch
        self.rows = sum(groups.rows)

    @property
    def _keeps(self) -> bool:
        """Return whether this host is to keep columns of the file, and these are all read."""
        names = self._to_keep
        return bool(names) and names <= {*self._wanted}

    @property
    def _to_keep(self) -> set[str]:
        """Return the names of the columns of the table that are to be kept of the file."""
        return set() if self._kept is None else {*self._kept.names_for(self._snapshot, self._file)}

    def chosen(self, positions: RowPositions) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the rows at some positions of the file, each batch with the number of its rows.

        Raises:
            CorruptionError: If the file has fewer rows.
        """
        shown = self._file.address.shown
        counts = [] if self._ending is None else [one.rows for one in self._ending.footer.groups]
        if self._ending is None or self._keeps_all(positions, sum(counts)):
            yield from self._among(self, positions)
            return
        by_group = positions.by_group(counts, shown)
        chosen = ChosenRows(self._ending, self._names, self._there, shown)
        if self._names and chosen.can_be_read(by_group):
            read = partial(self._file.address.read_ranges, self._handle)
            for batch in self._guarded(chosen.batches(by_group, read)):
                check_texts(batch, f"source: {shown}", None)
                yield batch, batch.num_rows
            return
        groups, positions = positions.in_groups(counts, shown)
        yield from self._among(self._guarded(self._batches(groups), groups), positions)

    def _keeps_all(self, positions: RowPositions, count: int) -> bool:
        """Return whether to read all rows to keep them, as nearly all bytes are read anyway.

        Args:
            positions: Positions of the rows that are needed.
            count: Number of all rows.
        """
        is_everywhere = len(positions.values) * _PAGE_ROWS >= count
        # All columns of a small file would be read.
        is_small = self._file.nbytes <= SMALL
        return is_everywhere and not is_small and self._to_keep == {*self._wanted}

    def _batches(self, groups: Sequence[int] | None) -> Iterator[pa.RecordBatch]:
        """Yield all rows of some row groups. None: of all."""
        file = self._file
        return read_to_store(
            self._handle,
            file.file_format,
            self._names,
            file.address.shown,
            page_bytes=file.address.page_bytes,
            groups=groups,
            metadata=self._metadata,
        )

    def _guarded(
        self, batches: Iterator[pa.RecordBatch], groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of some row groups, and raise errors that name the file. None: of all."""
        while True:
            # Only reads are in the context: errors of the use of a batch are not of the file.
            with reading(self._file, self._names, groups):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


class FileColumns:
    """The columns of a data file, as its table has them.

    Args:
        snapshot: Table that has the file.
        file: The file.
        there: Columns of the file, in the types in which they are read.

    Raises:
        FormatError: If the table finds columns by field ids, and the file has none.
    """

    def __init__(self, snapshot: Snapshot, file: TableFile, there: pa.Schema) -> None:
        self._snapshot, self._file = snapshot, file
        self._fields = with_ids(
            there, snapshot.stored_in(file), snapshot.ids_of_names, file.address.shown
        )
        self._known: dict[str, pa.Field | None] = {}

    def field_in_file(self, name: str) -> pa.Field | None:
        """Return a column of the table as the file has it. None: no rows of the file are read.

        Raises:
            FormatError: If several columns of the file are the column.
        """
        if name not in self._known:
            at = None
            if name not in self._file.constants:
                stored = self._snapshot.stored_field(self._file, name)
                at = field_in_file(stored, self._fields, self._file.address.shown)
            self._known[name] = None if at is None else self._fields.field(at)
        return self._known[name]

    def names_in_file(self, names: Iterable[str]) -> list[str]:
        """Return the names in the file of columns of the table, without those that it lacks."""
        found = (self.field_in_file(name) for name in names)
        return [field.name for field in found if field is not None]

    def stored_and_constant(
        self, names: Iterable[str]
    ) -> tuple[dict[str, str], dict[str, pa.Scalar]]:
        """Return the names in the file of columns of the table, and the values of the others.

        Args:
            names: Names of columns of the table.

        Returns:
            Names of columns in the file, and values that are the same in all rows, both by the
            names of the columns in the table.
        """
        there = {name: self.field_in_file(name) for name in names}
        stored = {name: field.name for name, field in there.items() if field is not None}
        return stored, {name: self._constant(name) for name in there if name not in stored}

    def in_table(
        self, batch: pa.RecordBatch, names: Sequence[str], count: int, before: int | None = None
    ) -> pa.RecordBatch:
        """Return rows of the file with columns of the table.

        Args:
            batch: Rows of the file, with the columns of `names_in_file`.
            names: Names of the columns of the table.
            count: Number of the rows, which a batch without columns may not know.
            before: Number of rows before these in the file, by which errors count rows. None:
                Errors name no row.
        """
        fields = [self._snapshot.columns.field(name) for name in names]
        columns = [self._column(field, batch, count, before) for field in fields]
        if not columns:  # a batch that is made of no columns has no rows
            return pa.record_batch([pa.nulls(count)], [""]).select([])
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _column(
        self, field: pa.Field, batch: pa.RecordBatch, count: int, before: int | None
    ) -> pa.Array:
        there = self.field_in_file(field.name)
        if there is None:
            value = self._constant(field.name)
            return pa.repeat(value, count) if value.is_valid else pa.nulls(count, field.type)
        shown = self._file.address.shown
        stored = self._snapshot.stored_field(self._file, field.name)
        column = in_table_names(batch.column(there.name), there, stored, field, shown)
        return fitted(column, field, shown, "in the table", rows_before=before)

    def _constant(self, name: str) -> pa.Scalar:
        """Return the value of a column of the table that the file lacks."""
        values = self._file.constants, self._file.defaults
        missing = pa.scalar(None, self._snapshot.columns.field(name).type)
        return next((one[name] for one in values if name in one), missing)


def reading(
    file: TableFile, names: Sequence[str] = (), groups: Sequence[int] | None = None
) -> AbstractContextManager[None]:
    """Let errors of reading some columns of a file name the file, and the damaged part.

    Args:
        file: The file.
        names: Names of the columns that are read.
        groups: Numbers of the Parquet row groups that are read. None: all.
    """
    place = None
    if file.file_format == "parquet":
        place = partial(damaged_offset, file.address, names, groups)
    return file.address.reading(f"{file.file_format} pages", gone=GONE, place=place)
