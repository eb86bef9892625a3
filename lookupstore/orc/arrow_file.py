"""ORC files as Arrow reads them, a few megabytes at a time.

Arrow has timestamps in nanoseconds, from 1677 to 2262: later ones are refused by name. Seconds and
a fraction are stored apart, and the seconds are cut towards 1970 in UTC; Arrow, which has to undo
it, looks at the writer's clock instead. Between the two the seconds are put right here.

Java counts days before 1582-10-15 by the Julian calendar unless the footer says otherwise, and so
does Spark of any version. Arrow makes other days of these, and they are refused.

Source: ORC, TreeReaderFactory (TimestampTreeReader, DateTreeReader) in Java, ColumnReader.cc in
C++, orc_proto.proto (CalendarKind).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from lookupstore.arrow.calendars import check_common
from lookupstore.errors import FormatError
from lookupstore.orc import footer as kinds
from lookupstore.orc.claims import claims_of, in_memory
from lookupstore.orc.footer import UTC, Footer, read_footer, read_stripe_footer
from lookupstore.orc.spark_types import in_spark_types

_SECOND = 1_000_000_000
# A fraction that Java takes for one: it looks at what is left behind milliseconds, too.
_FRACTION = 999_999
# No clock is more than a day from UTC.
_DAY = 86_400
# Rows among which one is looked for that Arrow does not read.
_PIECES = (4096, 64, 1)


def orc_schema(file: pa.NativeFile) -> pa.Schema:
    """Return the columns of a file, in the types that `orc_batches` gives."""
    return in_spark_types(orc.ORCFile(file).schema)


def orc_batches(
    stream: pa.NativeFile, names: Sequence[str], path: str
) -> tuple[Iterator[pa.RecordBatch], int]:
    """Return those of the named columns that a file has, and the number of its rows.

    Names that the file lacks are left out; if it has none of them, batches have another column.

    Raises:
        CorruptionError: the file is damaged.
        FormatError: it has something that is not read.
    """
    file = in_memory(stream)
    footer = read_footer(file, path)
    reader = orc.ORCFile(file)
    there = reader.schema.names
    wanted = [name for name in names if name in there] or there[:1]
    _check_not_encrypted(footer, wanted, path)
    rows = claims_of(file, footer, wanted, path).rows_at_once(footer.rows)
    zones = [
        read_stripe_footer(file, footer, stripe, path).zone if stripe.rows else UTC
        for stripe in footer.stripes
    ]
    if rows < footer.rows:
        batches = _few_rows(file, wanted, rows)
        # Where the stripes of such a file end, nobody says.
        zones = [UTC] if len(set(zones)) > 1 else zones[:1]
    else:
        batches = _stripes(reader, footer, wanted)
    batches = _in_range(_as_written(batches, footer, zones), file, footer, wanted, path)
    batches = _of_today(batches, footer, names, path)
    stored = pa.schema([reader.schema.field(name) for name in wanted])
    meant = in_spark_types(stored)
    if meant != stored:
        batches = _in_types(batches, meant)
    return batches, footer.rows


def _check_not_encrypted(footer: Footer, names: Sequence[str], path: str) -> None:
    for name in names:
        if not footer.encrypted.isdisjoint(footer.below([name.encode()])):
            raise FormatError(
                f"{path}: the column {name!r} is encrypted; choose other columns, or give the rows "
                "as a program with the key reads them"
            )


def _stripes(reader: orc.ORCFile, footer: Footer, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of a file, stripe by stripe."""
    for number, stripe in enumerate(footer.stripes):
        if stripe.rows:
            yield reader.read_stripe(number, columns=list(names))


def _few_rows(file: pa.NativeFile, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield columns of a file, a few rows at a time, which only a dataset does."""
    # Imported here: it imports pandas.
    import pyarrow.dataset as ds

    fragment = ds.OrcFileFormat().make_fragment(file)
    yield from fragment.to_batches(
        columns=list(names), batch_size=rows, batch_readahead=0, use_threads=False
    )


def _as_written(
    batches: Iterable[pa.RecordBatch], footer: Footer, zones: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield batches with the timestamps that writers meant.

    Args:
        batches: of each stripe that has rows one, or any if there is one zone.
        footer: of the file.
        zones: in which stripes were written, those without rows as well.
    """
    if set(zones) <= {UTC}:
        yield from batches
        return
    of_rows = [
        zone for zone, stripe in zip(zones, footer.stripes, strict=False) if stripe.rows
    ] or [UTC]
    for number, batch in enumerate(batches):
        zone = of_rows[min(number, len(of_rows) - 1)]
        columns = [
            _seconds_put_right(column, zone) if column.type == pa.timestamp("ns") else column
            for column in batch.columns
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _seconds_put_right(column: pa.Array, zone: str) -> pa.Array:
    """Return timestamps, of which those near 1970 are put right: see the head of this module."""
    found = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds, fraction = np.divmod(found, _SECOND)
    near = np.flatnonzero((np.abs(seconds) <= _DAY) & (fraction > _FRACTION))
    if not len(near):
        return column
    # Arrow has subtracted a second where the clock was before 1970.
    clock = seconds[near] + (seconds[near] < 0)
    there = pa.array(clock).cast(pa.timestamp("s"))
    instants = pc.assume_timezone(
        there, zone, ambiguous="earliest", nonexistent="earliest"
    ).cast(pa.int64()).to_numpy()  # fmt: skip
    right = found.copy()
    right[near] = (clock - (instants < 0)) * _SECOND + fraction[near]
    return pa.Array.from_buffers(
        column.type,
        len(column),
        [pa.array(np.asarray(column.is_valid())).buffers()[1], pa.py_buffer(right)],
    )


def _in_range(
    batches: Iterator[pa.RecordBatch],
    file: pa.NativeFile,
    footer: Footer,
    names: Sequence[str],
    path: str,
) -> Iterator[pa.RecordBatch]:
    """Yield batches; a timestamp that Arrow does not hold is an error that says where it is."""
    try:
        yield from batches
    except pa.ArrowInvalid as error:
        if "nanosecond" not in str(error):
            raise
        for name in names:
            of_column = footer.below([name.encode()])
            if any(footer.types[at].kind in (kinds.TIMESTAMP, kinds.INSTANT) for at in of_column):
                row = _first_unread(file, name)
                if row is not None:
                    raise FormatError(
                        f"{path}: row {row + 1} of the column {name!r} has a timestamp before 1677 "
                        "or after 2262, which Arrow does not read from ORC; choose other columns, "
                        "write the file as Parquet, or give its rows as Spark reads them"
                    ) from None
        raise


def _of_today(
    batches: Iterator[pa.RecordBatch], footer: Footer, names: Sequence[str], path: str
) -> Iterator[pa.RecordBatch]:
    """Yield batches with the days of some columns, the same in the file's calendar and in today's.

    Raises:
        FormatError: one is not.
    """
    row = 0
    for batch in batches:
        if footer.has_old_days:
            columns = zip(batch.schema.names, batch.columns, strict=True)
            asked = (one for one in columns if one[0] in names)
            check_common(asked, row, path, "Java", times=False)
        row += batch.num_rows
        yield batch


def _in_types(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches in the types that Spark wrote, of the same numbers."""
    for batch in batches:
        yield batch.cast(pa.schema([schema.field(name) for name in batch.schema.names]))


def _first_unread(file: pa.NativeFile, name: str) -> int | None:
    """Return the first row of a column that Arrow does not read; None: it reads all of them."""
    row = None
    for piece in _PIECES:
        batches, row = _few_rows(file, [name], piece), 0
        try:
            for batch in batches:
                row += batch.num_rows
        except pa.ArrowInvalid:
            continue
        return None
    return row
