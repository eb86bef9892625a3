"""Read ORC files with Arrow, a few megabytes at a time.

Arrow reads timestamps as nanoseconds, from 1677 to 2262. Others are refused with an error that
names them. ORC stores seconds and a fraction, and rounds the seconds towards 1970 in UTC. Arrow
undoes this by the writer's local time instead, so the seconds between the two are corrected here.

Java uses the Julian calendar for days before 1582-10-15 unless the footer records another one, and
so does Spark of any version. Arrow reads such days as other days, and they are refused.

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
from lookupstore.orc.footer import UTC, OrcFooter, read_footer, read_stripe_footer
from lookupstore.orc.spark_types import in_spark_types

_SECOND = 1_000_000_000
# Nanoseconds: Java takes a fraction for one only if it is longer, since it also looks at the part
# behind milliseconds.
_FRACTION = 999_999
# Seconds of a day: no clock is further from UTC.
_DAY = 86_400
# Numbers of rows in which a row that Arrow does not read is searched, one after the other.
_PIECES = (4096, 64, 1)


def orc_schema(file: pa.NativeFile) -> pa.Schema:
    """Return the schema of a file, in the types that `orc_batches` yields."""
    return in_spark_types(orc.ORCFile(file).schema)


def orc_batches(
    stream: pa.NativeFile, names: Sequence[str], path: str
) -> tuple[Iterator[pa.RecordBatch], int]:
    """Return batches of the named columns of a file, and the number of its rows.

    Names that are not in the file are left out. If all are missing, batches have another column.

    Raises:
        CorruptionError: If the file is damaged.
        FormatError: If the file contains something that is not supported.
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
        # The ends of the stripes of such a file are not known.
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


def _check_not_encrypted(footer: OrcFooter, names: Sequence[str], path: str) -> None:
    for name in names:
        if not footer.encrypted.isdisjoint(footer.below([name.encode()])):
            raise FormatError(
                f"{path}: the column {name!r} is encrypted; choose other columns, or give the rows "
                "as a program with the key reads them"
            )


def _stripes(
    reader: orc.ORCFile, footer: OrcFooter, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
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
    batches: Iterable[pa.RecordBatch], footer: OrcFooter, zones: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield batches with the timestamps that were written.

    Args:
        batches: Batches of the file: one for each stripe that has rows, or any batches if there is
            only one time zone.
        footer: Footer of the file.
        zones: Time zones of all stripes, including those without rows, or the one time zone of the
            file.
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
    """Return timestamps, with those near 1970 corrected as described above."""
    found = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    seconds, fraction = np.divmod(found, _SECOND)
    near = np.flatnonzero((np.abs(seconds) <= _DAY) & (fraction > _FRACTION))
    if not len(near):
        return column
    # Arrow has subtracted a second if the clock showed a time before 1970.
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
    footer: OrcFooter,
    names: Sequence[str],
    path: str,
) -> Iterator[pa.RecordBatch]:
    """Yield batches, with an error that names the place of a timestamp out of range."""
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
    batches: Iterator[pa.RecordBatch], footer: OrcFooter, names: Sequence[str], path: str
) -> Iterator[pa.RecordBatch]:
    """Yield batches, and check that days are the same in both calendars.

    Raises:
        FormatError: If a day differs.
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
    """Yield batches in the types that Spark wrote, with the same numbers."""
    for batch in batches:
        yield batch.cast(pa.schema([schema.field(name) for name in batch.schema.names]))


def _first_unread(file: pa.NativeFile, name: str) -> int | None:
    """Return the first row of a column that Arrow cannot read.

    None: It can read all.
    """
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
