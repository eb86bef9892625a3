"""Rows at keys, batch by batch: the found rows, and the number of missing keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import is_bytes, is_text
from lookupstore.cli.json_text import json_lines
from lookupstore.cli.key_files import Keys
from lookupstore.cli.key_text import MOST_NAMED
from lookupstore.keys.lookups import Lookups, value_columns
from lookupstore.sst import Reader

# Number of keys that are looked up at once: their rows are in memory.
_AT_ONCE = 1 << 18

# Number of keys that are one text each that are looked up at once.
_LINES_AT_ONCE = 1 << 15


class LookupResult:
    """The rows at keys, with the key columns and then the value columns.

    Args:
        opened: Store, files or table to look keys up in.
        keys: Keys to look up, for a sorted file as its bytes.
        columns: Value columns. Default: all.

    Attributes:
        schema: Columns of the rows.
        asked: Number of keys that have been looked up so far.
        missing: Positions of missing keys among these, at most `MOST_PLACES`.
        num_missing: Number of missing keys among these.
        first_missing: Rows of nulls for the first missing keys among these, at most `MOST_ROWS`.
    """

    MOST_PLACES = 1000
    MOST_ROWS = MOST_NAMED

    def __init__(
        self, opened: Lookups | Reader, keys: Keys, columns: Sequence[str] | None = None
    ) -> None:
        self._opened = opened
        self._keys = keys
        self.asked: int = 0
        self.num_missing: int = 0
        self.missing: list[int] = []
        if isinstance(opened, Reader):
            self._names: list[str] = []
            values = [pa.field("value", pa.large_binary())]
        else:
            self._names = value_columns(opened, columns)
            values = [opened.value_schema.field(name) for name in self._names]
        self.schema: pa.Schema = pa.schema([*keys.schema, *values])
        self.first_missing: pa.Table = self.schema.empty_table()

    def rows(self) -> Iterator[pa.Table]:
        """Yield the rows of the found keys, in the order of the keys."""
        for rows, present in self._all():
            if present.true_count == len(present):
                yield rows
            elif present.true_count:
                yield _those(rows, present)

    def lines(self, shown: Callable[[Any], Any]) -> Iterator[str]:
        """Yield JSON of the rows, many lines at a time: one for each key, null if missing."""
        for rows, present in self._all():
            first = 0
            for batch in shown(rows).to_batches(_LINES_AT_ONCE):
                yield json_lines(batch, present.slice(first, batch.num_rows))
                first += batch.num_rows

    def _all(self) -> Iterator[tuple[pa.Table, pa.BooleanArray]]:
        """Yield a row for each key, of nulls for a missing key, and which keys are found."""
        for keys in _together(self._keys.tables):
            present, values = self._look(keys)
            missing = len(present) - present.true_count
            self.num_missing += missing
            if missing and len(self.missing) < self.MOST_PLACES:
                here = present.to_pylist()
                self.missing += [self.asked + i for i, one in enumerate(here) if not one]
                del self.missing[self.MOST_PLACES :]
            self.asked += len(present)
            columns = [*keys.columns, *values.columns]
            rows = pa.Table.from_arrays(columns, schema=self.schema)
            if missing and self.first_missing.num_rows < self.MOST_ROWS:
                others = _those(rows, pc.invert(present))
                both = pa.concat_tables([self.first_missing, others])
                self.first_missing = both.slice(0, self.MOST_ROWS)
            yield rows, present

    def _look(self, keys: pa.Table) -> tuple[pa.BooleanArray, pa.Table]:
        if isinstance(self._opened, Reader):
            found = self._opened.lookup(keys.column(0).combine_chunks())
            return found.is_valid(), pa.table({"value": found})
        mark = "found"
        while mark in self._names:
            mark += "_"
        found = self._opened.lookup(keys, self._names, found=mark)
        present = found.column(mark).combine_chunks()
        return present, found.select(self._names)


def stored_keys(keys: Keys) -> Keys:
    """Return keys of a sorted file as its bytes: numbers are little-endian.

    Raises:
        TypeError: If the keys are neither bytes nor text nor numbers.
    """
    kind = keys.schema.field(0).type
    is_number = pa.types.is_integer(kind)
    if not (is_number or is_text(kind) or is_bytes(kind)):
        raise TypeError(f"the keys of a sorted file are bytes or numbers, and these are {kind}")
    schema = pa.schema([("key", pa.large_binary())])
    turn = _little_endian if is_number else (lambda column: column.cast(pa.large_binary()))
    return Keys(
        schema,
        (pa.table([turn(one.column(0).combine_chunks())], schema=schema) for one in keys.tables),
    )


def _little_endian(numbers: pa.Array) -> pa.Array:
    raw = pa.binary(numbers.type.bit_width // 8)
    known = numbers.fill_null(0)
    stored = pa.Array.from_buffers(
        raw, len(known), [None, known.buffers()[1]], offset=known.offset
    ).cast(pa.large_binary())
    return pc.if_else(numbers.is_valid(), stored, pa.scalar(None, stored.type))


def _together(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of many keys from small tables in sequence."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= _AT_ONCE:
            yield pa.concat_tables(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.concat_tables(waiting)


def _those(rows: pa.Table, present: pa.BooleanArray) -> pa.Table:
    try:
        return rows.filter(present)
    except pa.ArrowNotImplementedError:  # columns of view types
        there = [i for i, one in enumerate(present.to_pylist()) if one]
        return pa.concat_tables([rows.slice(i, 1) for i in there])
