"""Sort the rows of a bulk insert by the layouts that incremental clustering keeps.

Queries can then skip most of the new files before the next clustering. In a partition without a
layout, rows keep their order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa

from lookupstore.arrow.types import concat
from lookupstore.hudi.keys.incoming import Incoming
from lookupstore.hudi.layout import MOST_ROWS, KeptLayout, optional_layout
from lookupstore.hudi.layout.sample import Sample
from lookupstore.hudi.meta_columns import PARTITION_PATH
from lookupstore.hudi.timeline.commit import WriteStat
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.boxes import SAMPLE_ROWS, layouts_of, positions_in
from lookupstore.hudi.write.files import Stretch
from lookupstore.hudi.write.rows.packing import (
    KEY_FIELDS,
    NUMBER,
    RowPacking,
    batch_of,
    incoming_of,
)
from lookupstore.hudi.write.rows.parts import numbered
from lookupstore.sorting._sort import upper_bound
from lookupstore.sorting.runs import RunSorter

# Column of the position of a row in the layout of its partition.
_PLACE = pa.field("#place", pa.binary())
_SAMPLE = pa.schema([_PLACE])
# Maximum number of rows of a file as a multiple of the number expected from the sample.
_MOST = 1.5


class LayoutOrder:
    """The order of the rows of a bulk insert in the layouts of their partitions.

    Args:
        view: View of the table.
        columns: Columns of the table after the write.
        memory: Memory for sorting, in bytes.
    """

    def __init__(self, view: TableView, columns: pa.Schema, memory: int) -> None:
        self._view = view
        self._columns = columns
        self._memory = memory
        self._packing = RowPacking(
            pa.schema([*KEY_FIELDS, _PLACE, *columns]),
            pa.schema([KEY_FIELDS[0], _PLACE, NUMBER]),
            memory=memory,
        )
        self._layouts: dict[str, KeptLayout | None] = {}
        self._samples: dict[str, Sample] = {}
        #: Number of rows by partition, and the type of their positions.
        self._rows: dict[str, int] = {}
        self._types: dict[str, pa.FixedSizeBinaryType] = {}
        #: Positions at which files end, by partition.
        self._ends: dict[str, list[bytes]] = {}
        #: Partition of each stretch, and number of its file in the partition.
        self._stretches: list[tuple[str, int]] = []

    def sorted(self, batches: Iterable[Incoming], folder: str) -> Generator[Stretch, None, None]:
        """Yield the rows of each file, or of each partition without a layout.

        Args:
            batches: Rows to insert, in any order.
            folder: Folder to spill rows to that do not fit into memory.

        Raises:
            OSError: If the folder is full, or cannot be written to.
        """
        with RunSorter("error", memory=self._memory, folder=folder) as sorter:
            for batch in map(batch_of, numbered(batches)):
                for piece in self._packing.pieces(self._placed(batch)):
                    sorter.add(piece)
            for path in list(self._samples):
                with optional_layout(self._view.location):
                    self._ends[path] = self._ends_of(path)
                    continue
                self._forget(path)
            self._samples.clear()
            rows = self._packing.unpacked(sorter.sorted_batches(0))
            for (path, number), parts in groupby(self._parts(rows), key=lambda one: one[:2]):
                self._stretches.append((path, number))
                yield Stretch(
                    (incoming_of(batch, self._columns) for _, _, batch in parts),
                    self._most_rows(path),
                )

    def files(self, stats: Sequence[Sequence[WriteStat]], time: str) -> dict[str, KeptLayout]:
        """Return the layouts with the new files, by partition path.

        Args:
            stats: Commit entries of the files of each stretch.
            time: Time of the instant.
        """
        found = {}
        for path, ends in self._ends.items():
            layout = self._kept(path)
            of_files: list[Sequence[WriteStat]] = [()] * (len(ends) + 1)
            for (partition, number), some in zip(self._stretches, stats, strict=True):
                if partition == path:
                    of_files[number] = some
            runs = [time] * (len(layout.ends) + 1)
            found[path] = layout.with_files(ends, self._types[path].byte_width, of_files, runs)
        return found

    def _placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with a column of their positions in the layouts of their partitions."""
        paths = batch.column(PARTITION_PATH).dictionary_encode()
        codes = paths.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        cuts = np.searchsorted(codes[order], np.arange(len(paths.dictionary) + 1)).tolist()
        places = []
        for path, (start, end) in zip(paths.dictionary.to_pylist(), pairwise(cuts), strict=True):
            rows = (
                batch if end - start == batch.num_rows else batch.take(pa.array(order[start:end]))
            )
            places.append(self._places(path, rows))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        found = concat(places, _PLACE.type)
        return batch.append_column(_PLACE, found if len(places) < 2 else found.take(pa.array(back)))

    def _places(self, path: str, rows: pa.RecordBatch) -> pa.Array:
        """Return the positions of rows in a layout, or equal positions without a layout."""
        with optional_layout(self._view.location):
            places = self._places_in_layout(path, rows)
            if places is not None:
                return places
        self._forget(path)
        return pa.repeat(pa.scalar(b"", _PLACE.type), rows.num_rows)

    def _forget(self, path: str) -> None:
        """Ignore the layout of a partition, because it has none or cannot use it."""
        self._layouts[path] = None
        for known in (self._samples, self._types, self._rows, self._ends):
            known.pop(path, None)

    def _ends_of(self, path: str) -> list[bytes]:
        places = concat(self._samples[path].rows()[_PLACE.name].chunks, _PLACE.type)
        places = places.cast(self._types[path])
        return self._kept(path).ends_of_new_files(places, self._rows[path])

    def _places_in_layout(self, path: str, rows: pa.RecordBatch) -> pa.Array | None:
        if path not in self._layouts:
            self._layouts[path] = layouts_of(self._view, [path], self._columns).get(path)
        layout = self._layouts[path]
        if layout is None:
            return None
        positions = positions_in(layout, rows)
        places = positions.cast(_PLACE.type)
        if path not in self._samples:
            self._samples[path] = Sample(_SAMPLE, self._memory // 16, SAMPLE_ROWS)
            self._types[path] = positions.type
        self._samples[path].add(pa.RecordBatch.from_arrays([places], schema=_SAMPLE))
        self._rows[path] = self._rows.get(path, 0) + len(places)
        return places

    def _parts(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[str, int, pa.RecordBatch]]:
        """Yield sorted rows, with their partition and the number of their file in it."""
        for batch in batches:
            paths = batch.column(PARTITION_PATH).dictionary_encode()
            cuts = np.flatnonzero(np.diff(paths.indices.to_numpy())) + 1
            for start, end in pairwise([0, *cuts.tolist(), batch.num_rows]):
                rows = batch.slice(start, end - start)
                path = rows.column(PARTITION_PATH)[0].as_py()
                places = rows.column(_PLACE.name)
                ends = [int(upper_bound(places, one)) for one in self._ends.get(path, ())]
                for number, (first, last) in enumerate(pairwise([0, *ends, len(places)])):
                    if first < last:
                        yield path, number, rows.slice(first, last - first)

    def _kept(self, path: str) -> KeptLayout:
        layout = self._layouts[path]
        assert layout is not None
        return layout

    def _most_rows(self, path: str) -> int | None:
        layout = self._layouts[path]
        return None if layout is None else int(_MOST * MOST_ROWS * layout.rows_per_file) + 1
