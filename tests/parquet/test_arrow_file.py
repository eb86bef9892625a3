"""Rows of Parquet as Arrow reads them: timestamps of 96 bits, old calendars, groups of nothing."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore.errors import FormatError
from lookupstore.parquet.arrow_file import ParquetRows, _side_by_side, _with_values

GOLDEN = Path(__file__).parents[1] / "golden" / "sources"
UTC = pa.timestamp("us", "UTC")
LOCAL = pa.timestamp("us")
WHEN = dt.datetime(2020, 1, 1, 10)


def written(table: pa.Table, **how: Any) -> ParquetRows:
    sink = io.BytesIO()
    pq.write_table(table, sink, **how)
    return ParquetRows(pa.BufferReader(sink.getvalue()), "f.parquet")


def read(rows: ParquetRows, batch: int = 1000) -> pa.Table:
    names = rows.schema.names
    groups = [range(rows.metadata.num_row_groups)]
    return pa.Table.from_batches(rows.batches(names, groups, batch), rows.schema)


def test_96_bits_inside_of_every_type() -> None:
    kinds = {
        "struct": (pa.struct([("t", LOCAL), ("n", pa.int8())]), {"t": WHEN, "n": 1}),
        "list": (pa.list_(LOCAL), [WHEN, None]),
        "large": (pa.large_list(LOCAL), [WHEN]),
        "fixed": (pa.list_(LOCAL, 2), [WHEN, WHEN]),
        "map": (pa.map_(pa.string(), LOCAL), [("k", WHEN)]),
        "keys": (pa.map_(LOCAL, pa.int8()), [(WHEN, 1)]),
        "deep": (pa.list_(pa.struct([("l", pa.list_(LOCAL))])), [{"l": [WHEN]}, None]),
    }
    table = pa.table({name: pa.array([one], kind) for name, (kind, one) in kinds.items()})
    rows = written(table, use_deprecated_int96_timestamps=True)
    found = read(rows)
    assert rows.schema.types == [
        pa.struct([("t", UTC), ("n", pa.int8())]),
        pa.list_(UTC),
        pa.large_list(UTC),
        pa.list_(UTC, 2),
        pa.map_(pa.string(), UTC),
        pa.map_(UTC, pa.int8()),
        pa.list_(pa.struct([("l", pa.list_(UTC))])),
    ]
    assert found.to_pylist() == table.cast(rows.schema).to_pylist()
    # Without them, types are what they were.
    assert written(table).schema.types == table.schema.types


def test_instants_of_another_zone_are_the_same_instants() -> None:
    table = pa.table({"t": pa.array([WHEN], pa.timestamp("us", "Asia/Tokyo"))})
    rows = written(table, use_deprecated_int96_timestamps=True)
    assert rows.schema.field("t").type == UTC
    assert read(rows)["t"].to_pylist() == table["t"].to_pylist()


@pytest.mark.parametrize("at", [0, 999, 1000, 2999])
def test_the_row_with_nanoseconds(at: int) -> None:
    numbers = np.arange(3000) * 1000
    numbers[at] += 1
    times = pa.array(numbers, pa.timestamp("ns"))
    rows = written(pa.table({"t": times}), use_deprecated_int96_timestamps=True, row_group_size=700)
    with pytest.raises(FormatError, match=f"row {at + 1} of the column 't' has a timestamp of 96"):
        read(rows)
    lists = pa.ListArray.from_arrays([0, 3000], times)
    rows = written(pa.table({"l": lists}), use_deprecated_int96_timestamps=True)
    with pytest.raises(FormatError, match="a row of the column 'l' has a timestamp of 96 bits"):
        read(rows)


def test_nanoseconds_are_found_beside_a_day() -> None:
    """A day of the same struct has none, wherever it is."""
    times = pa.array([1000, 2001], pa.timestamp("ns"))
    days = pa.array([dt.date(2020, 1, 1)] * 2)
    for names in (["day", "time"], ["time", "day"], ["day", "time", "other"]):
        columns = [times if name == "time" else days for name in names]
        table = pa.table({"s": pa.StructArray.from_arrays(columns, names)})
        rows = written(table, use_deprecated_int96_timestamps=True)
        with pytest.raises(FormatError, match=r"row 2 of the column 's' has a timestamp of 96"):
            read(rows)


def test_batches_end_where_they_like() -> None:
    """What is read for comparison ends its batches elsewhere, beside dictionaries and lists."""
    numbers = range(5000)
    table = pa.table(
        {
            "t": pa.array([one * 1000 for one in numbers], pa.timestamp("ns")),
            "text": pa.array([f"{one % 7}" for one in numbers]).dictionary_encode(),
            "list": [[one] * (one % 5) for one in numbers],
        }
    )
    rows = written(table, use_deprecated_int96_timestamps=True, row_group_size=1300)
    for batch in (1, 64, 999, 4096):
        found = read(rows, batch)
        assert found["t"].cast(pa.int64()).to_pylist() == list(numbers)
        assert found["list"].to_pylist() == table["list"].to_pylist()


def test_a_batch_without_rows_has_none_beside_it() -> None:
    rows = pa.record_batch({"n": [1, 2]})
    found = list(_side_by_side([rows.slice(0, 0), rows], [rows]))
    assert [(batch.num_rows, other.num_rows) for batch, other in found] == [(2, 2)]


def test_old_days_are_named_with_their_row() -> None:
    days = [dt.date(2020, 1, 1)] * 1500 + [None, dt.date(1582, 10, 4), dt.date(1500, 1, 1)]
    table = pa.table({"d": days, "n": range(len(days))})
    said = {"org.apache.spark.legacyDateTime": ""}
    rows = written(table.replace_schema_metadata(said))
    with pytest.raises(FormatError, match=r"row 1502 of the column 'd' has .*1582, 10, 4"):
        read(rows)
    assert next(rows.batches(["n"], [[0]], 5000)).num_rows == len(days)


def test_groups_of_nothing_are_left_out_at_any_depth() -> None:
    nothing = pa.struct([])
    inner = [("n", pa.int8()), ("none", nothing), ("list", pa.list_(nothing))]
    schema = pa.schema(
        {"a": pa.int8(), "s": pa.struct(inner), "l": pa.large_list(pa.struct(inner)), "e": nothing}
    )
    left = pa.struct([("n", pa.int8())])
    assert _with_values(schema) == pa.schema({"a": pa.int8(), "s": left, "l": pa.large_list(left)})
    rows = ParquetRows(str(GOLDEN / "empty-group.parquet"), "f")
    assert rows.schema.names == ["id", "optional_data"]
    assert read(rows).to_pylist() == [{"id": 1, "optional_data": 100}]


@pytest.mark.parametrize(
    ("said", "int96", "refused"),
    [
        ({"org.apache.spark.version": "2.4.8"}, False, True),
        ({"org.apache.spark.version": "2.4.8"}, True, True),
        # INT96 has today's calendar since Spark 3.1, all else since 3.0.
        ({"org.apache.spark.version": "3.0.3"}, False, False),
        ({"org.apache.spark.version": "3.0.3"}, True, True),
        ({"org.apache.spark.version": "3.1.0"}, True, False),
        ({"org.apache.spark.legacyDateTime": ""}, True, False),
        ({"org.apache.spark.legacyINT96": ""}, True, True),
        ({"org.apache.spark.legacyINT96": ""}, False, False),
        ({}, True, False),
    ],
)
def test_who_wrote_old_days(said: dict[str, str], int96: bool, refused: bool) -> None:
    table = pa.table({"t": pa.array([dt.datetime(1582, 10, 4)], LOCAL)})
    rows = written(table.replace_schema_metadata(said), use_deprecated_int96_timestamps=int96)
    if refused:
        with pytest.raises(FormatError, match=r"row 1 of the column 't' has .*1582"):
            read(rows)
    else:
        assert read(rows)["t"].cast(LOCAL).to_pylist() == table["t"].to_pylist()
