"""Keep rows that can be read once, so that they can be read again.

A write that conflicts with another commit reads its rows again. A reader at its end has no more
rows, and would look like an empty table.
"""

from __future__ import annotations

import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lookupstore.arrow.outgoing import ArrowRows

if TYPE_CHECKING:
    from typing_extensions import Self

    from lookupstore.source.source import Source

#: Maximum number of bytes of rows in memory; further rows are written to a file.
MEMORY = 64 << 20
# Readers and iterators whose rows were taken, as long as they are referenced.
_READ: weakref.WeakSet[Any] = weakref.WeakSet()


def is_read_once(given: Any) -> bool:
    """Return whether rows can perhaps be read only once.

    >>> is_read_once(pa.table({"id": [1]})), is_read_once(pa.table({"id": [1]}).to_reader())
    (False, True)
    """
    if isinstance(given, (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray, ArrowRows)):
        return False
    for library in ("pandas", "polars"):
        module = sys.modules.get(library)
        if module is not None and isinstance(given, (module.DataFrame, module.Series)):
            return False
    is_file = hasattr(given, "read") and hasattr(given, "readable")
    return is_file or isinstance(given, Iterator) or hasattr(given, "__arrow_c_stream__")


class KeptRows:
    """Rows that can be read once, which `opened` can open again.

    Args:
        given: Rows to read, for which `is_read_once` is true.
        folder: Folder for rows that do not fit into memory.
        keep: Whether to keep the rows for another reading. If False, a second reading raises an
            error.

    Example:
        >>> from lookupstore.source.opening import open_source
        >>> batch = pa.record_batch({"id": [1, 2]})
        >>> with KeptRows(iter([batch]), "/tmp") as rows:
        ...     for _ in range(2):
        ...         print([len(one) for one in opened(rows, open_source).batches(["id"])])
        [2]
        [2]
    """

    def __init__(self, given: Any, folder: str, *, keep: bool = True) -> None:
        self._given = given
        self._folder = folder
        self._keep = keep
        self._source: Source | None = None
        self._columns: list[str] = []
        self._is_whole = False
        self._batches: list[pa.RecordBatch] = []
        self._nbytes = 0
        self._stack = ExitStack()
        self._file: Any = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._batches = []
        self._stack.close()

    @property
    def can_be_read_again(self) -> bool:
        """Return whether `opened` can return all rows once more."""
        return self._keep and self._is_whole

    def opened(self, open_given: Callable[[Any], Source]) -> Source:
        """Open the rows, or open them again.

        Args:
            open_given: Function that opens rows of other classes than this one.

        Raises:
            ValueError: If the rows were read before, and not kept.
        """
        if self._source is None:
            _check_unread(self._given)
            if not hasattr(self._given, "schema"):
                # The first item of an iterator is read for the names of its columns.
                _note_read(self._given)
            self._source = open_given(self._given)
            return self._view(self._read)
        if not self.can_be_read_again:
            raise _read_before(self._given)
        return self._view(self._again)

    def _view(self, batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]) -> Source:
        """Return the source without other views, which would read rows without keeping them."""
        assert self._source is not None
        return replace(
            self._source,
            batches=batches,
            in_types=None,
            every_column=None,
            folders_with_texts=None,
            with_misfits=None,
            needing=None,
        )

    def _read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        assert self._source is not None
        _note_read(self._given)
        self._columns = list(columns)
        for batch in self._source.batches(columns):
            if self._keep:
                self._add(batch)
            yield batch
        if self._writer is not None:
            self._writer.close()
        self._is_whole = True

    def _add(self, batch: pa.RecordBatch) -> None:
        self._nbytes += batch.nbytes
        if self._writer is None and self._nbytes <= MEMORY:
            self._batches.append(batch)
            return
        if self._writer is None:
            # It has no name, so it is removed even if this process is killed.
            file = tempfile.TemporaryFile(dir=self._folder, prefix=".lookupstore-")  # noqa: SIM115
            self._stack.enter_context(file)
            self._file = file
            self._writer = self._stack.enter_context(pa.ipc.new_stream(file, batch.schema))
            for one in self._batches:
                self._writer.write_batch(one)
            self._batches = []
        self._writer.write_batch(batch)

    def _again(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        missing = [name for name in columns if name not in self._columns]
        if missing:
            raise ValueError(
                f"rows: another writer added the column {missing[0]!r} to the table during this "
                "write, and the rows were read without it. Nothing was written; write again with a "
                "new reader of the same rows"
            )
        for batch in self._kept():
            yield batch.select(list(columns))

    def _kept(self) -> Iterator[pa.RecordBatch]:
        if self._file is None:
            yield from self._batches
        else:
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)


def opened(given: Any, open_given: Callable[[Any], Source]) -> Source:
    """Open rows that may be kept.

    Args:
        given: Rows to open, which may be a `KeptRows`.
        open_given: Function that opens rows of other classes.

    Raises:
        ValueError: If the rows were read before, and not kept.

    >>> from lookupstore.source.opening import open_source
    >>> opened(pa.table({"id": [1, 2]}), open_source).schema.names
    ['id']
    """
    return given.opened(open_given) if isinstance(given, KeptRows) else open_given(given)


def _check_unread(given: Any) -> None:
    with suppress(TypeError):  # some objects cannot have weak references
        if given in _READ:
            raise _read_before(given)


def _note_read(given: Any) -> None:
    # A file iterates over its lines, but its caller may go back to its beginning.
    if isinstance(given, Iterator) and not hasattr(given, "seek"):
        with suppress(TypeError):
            _READ.add(given)


def _read_before(given: Any) -> ValueError:
    return ValueError(
        f"rows: this {type(given).__name__} was read by an earlier write, even if that failed, and "
        "can be read once. Give a new one. To write the same rows twice, make a table of them "
        "first: reader.read_all(), or pyarrow.Table.from_batches(batches)"
    )
