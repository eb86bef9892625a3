"""Days before 1582 in ORC: Java counts them by the Julian calendar, Arrow by the Gregorian one."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from support.orc_files import DATA, DIRECT, LIST, LONG, STRUCT, Kind, OrcFile, Stripe, varint

import lookupstore
from lookupstore import ColumnarFiles
from lookupstore.errors import FormatError
from lookupstore.source.reading import read_file

GOLDEN = Path(__file__).parents[1] / "golden" / "sources" / "old-days-of-spark.orc"
DATE, LENGTH = 15, 2
WRITER, CALENDAR = 9, 11
JAVA, CPP = 0, 1
JULIAN, GREGORIAN = 1, 2
OLD, COMMON = dt.date(1582, 10, 14), dt.date(1582, 10, 15)


def one(value: int, *, signed: bool = True) -> bytes:
    """Return a run of one number, as version 1 writes them."""
    return b"\xff" + varint(value << 1 ^ value >> 63 if signed else value)


def file_of(day: dt.date, footer: dict[int, int], path: Path) -> None:
    """Write a row with a number, a day, and a list of this day."""
    days = one((day - dt.date(1970, 1, 1)).days)
    types = [
        Kind(STRUCT, [1, 2, 4], ["d", "l", "id"]), Kind(DATE), Kind(LIST, [3]), Kind(DATE),
        Kind(LONG),
    ]  # fmt: skip
    streams = [
        (DATA, 1, days), (LENGTH, 2, one(1, signed=False)), (DATA, 3, days), (DATA, 4, one(1)),
    ]  # fmt: skip
    stripe = Stripe(1, streams, [(DIRECT, 0)] * len(types))
    path.write_bytes(OrcFile(types, [stripe], footer=list(footer.items())).to_bytes())


def test_days_that_spark_writes_are_refused_by_row_and_column(tmp_path: Path) -> None:
    """Spark 4 wrote 1500-01-01, which Arrow reads nine days later."""
    assert orc.read_table(GOLDEN)["d"].to_pylist() == [dt.date(1500, 1, 10)]
    said = r"spark\.orc: row 1 of the column 'd' has .*, which Java wrote by another calendar; "
    with pytest.raises(FormatError, match=said):
        lookupstore.build(GOLDEN, tmp_path / "s", key="id")
    for how in ("always", "never"):
        with pytest.raises(FormatError, match=said):
            ColumnarFiles(GOLDEN, key="id", build=how).lookup([1])
    with ColumnarFiles(GOLDEN, key="id", columns=[]) as files:
        assert 1 in files


def test_rows_are_counted_by_a_column_that_is_not_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "f.orc"
    file_of(OLD, {}, path)
    with pa.OSFile(str(path)) as file:
        assert [batch.num_rows for batch in read_file(file, "orc", ["other"], str(path))] == [1]
        with pytest.raises(FormatError, match="row 1 of the column 'd'"):
            list(read_file(file, "orc", ["d"], str(path)))


@pytest.mark.parametrize(
    ("footer", "is_old"),
    [
        ({WRITER: JAVA, CALENDAR: JULIAN}, True),
        ({WRITER: CPP, CALENDAR: JULIAN}, True),
        ({WRITER: JAVA}, True),
        ({}, True),
        ({WRITER: JAVA, CALENDAR: GREGORIAN}, False),
        ({WRITER: CPP}, False),
    ],
)
def test_the_calendar_that_a_footer_says(
    tmp_path: Path, footer: dict[int, int], is_old: bool
) -> None:
    path = tmp_path / "f.orc"
    for day in (COMMON, OLD):
        file_of(day, footer, path)
        wanted = orc.read_table(path)
        assert wanted.to_pylist() == [{"id": 1, "d": day, "l": [day]}]
        for name in ("d", "l"):
            columns = {"key": "id", "columns": [name], "overwrite": True}
            if is_old and day == OLD:
                with pytest.raises(FormatError, match=f"row 1 of the column '{name}' has .*1582"):
                    lookupstore.build(path, tmp_path / "s", **columns)
            else:
                with lookupstore.build(path, tmp_path / "s", **columns) as store:
                    assert store.to_arrow().to_pylist() == wanted.select(["id", name]).to_pylist()
