"""CSV that commands print: as Python's csv module writes it, and as Arrow reads it."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from lookupstore.cli.csv_text import csv_lines, csv_names
from lookupstore.cli.json_text import json_lines
from lookupstore.source.csv_rows import CsvRows

TEXTS = ["a", "", '"', ",", "\n", "\r", "ü b", "null", 'a"b', " x ", "1"]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()), ("text, or none", pa.string()), ("f", pa.float64()),
        ("d", pa.decimal128(9, 2)), ("day", pa.date32()), ("t", pa.timestamp("us", "UTC")),
        ("ok", pa.bool_()), ("long", pa.large_string()),
    ]
)  # fmt: skip


def some_rows(chance: random.Random, nulls: bool) -> pa.RecordBatch:
    def maybe(value: Any) -> Any:
        return None if nulls and chance.random() < 0.2 else value

    rows = [
        [
            at,
            maybe(chance.choice(TEXTS)),
            maybe(chance.choice([0.0, -1.5, 1e300, 0.1])),
            maybe(Decimal(chance.randrange(-(10**6), 10**6)).scaleb(-2)),
            maybe(dt.date(2026, 1, 1) + dt.timedelta(chance.randrange(1000))),
            maybe(dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)),
            maybe(chance.random() < 0.5),
            maybe(chance.choice(TEXTS)),
        ]
        for at in range(chance.randrange(1, 50))
    ]
    return pa.RecordBatch.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA
    )


def test_as_arrow_reads_it(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(30):
        rows = some_rows(chance, nulls=True)
        text = csv_names(SCHEMA) + csv_lines(rows)
        found = pa_csv.read_csv(
            io.BytesIO(text),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                column_types=SCHEMA, null_values=[""], strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )  # fmt: skip
        assert found.to_pylist() == rows.to_pylist(), text


def test_quotes_where_python_writes_them(seed: int) -> None:
    """Python's module writes no quotes for an empty text, and depends on its version for "\\r"."""
    chance = random.Random(seed)
    kept = [one for one in TEXTS if one not in ("", "\r")]
    rows = [[chance.choice(kept), chance.choice(kept)] for _ in range(200)]
    wanted = io.StringIO(newline="")
    csv.writer(wanted, lineterminator="\n").writerows([["a", "b"], *rows])
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, names=["a", "b"])
    assert (csv_names(batch.schema) + csv_lines(batch)).decode() == wanted.getvalue()
    part = csv_lines(batch.slice(50, 20)).decode()
    assert part.count(",") >= 20
    assert part in wanted.getvalue()


def test_bytes_and_categories() -> None:
    batch = pa.record_batch(
        {
            "b": pa.array([b"a\n", b"", None]),
            "c": pa.array(["x,y", "", None]).dictionary_encode(),
            "four": pa.array([b"abcd", None, b"\x00\x01\x02\x03"], pa.binary(4)),
        }
    )
    lines = csv_lines(batch).decode().splitlines()
    assert lines == ['0x610a,"x,y",0x61626364', '0x,"",', ",,0x00010203"]


def test_times_are_those_of_json_and_are_read_again() -> None:
    """With "T" and a colon in the offset, for any unit and zone, in the reader of sources too."""
    counts = pa.array([1772862000000000, 1772862000500000, None, -1], pa.int64())
    kinds = [
        pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"),
        pa.timestamp("us", "+05:30"), pa.timestamp("ns"),
    ]  # fmt: skip
    columns = [counts.cast(kind) for kind in kinds]
    columns.append(pa.array([dt.time(5, 40), dt.time(5, 40, 0, 5), None, dt.time(0)]))
    names = ["plain", "utc", "berlin", "delhi", "ns", "time"]
    rows = pa.RecordBatch.from_arrays(columns, names=names)
    text = csv_names(rows.schema) + csv_lines(rows)
    assert text.splitlines()[1].decode() == (
        "2026-03-07T05:40:00,2026-03-07T05:40:00+00:00,2026-03-07T06:40:00+01:00,"
        "2026-03-07T11:10:00+05:30,1970-01-21T12:27:42,05:40:00"
    )
    shown = [json.loads(line) for line in json_lines(rows).splitlines()]
    fields = csv.DictReader(io.StringIO(text.decode()))
    assert [{name: one or None for name, one in row.items()} for row in fields] == shown
    found = list(CsvRows([text], "a.csv").read(rows.schema))
    assert found[0].equals(rows)
    inferred = CsvRows([text], "a.csv").schema()
    assert inferred.field("plain").type == pa.timestamp("us")
    for name in ("utc", "berlin", "delhi"):
        assert inferred.field(name).type == pa.timestamp("us", "UTC")


def test_times_in_categories() -> None:
    times = pa.array([dt.datetime(2026, 3, 7), None]).dictionary_encode()
    assert csv_lines(pa.record_batch({"t": times})) == b"2026-03-07T00:00:00\n\n"


def test_no_rows_and_no_columns() -> None:
    assert csv_lines(pa.RecordBatch.from_pylist([], SCHEMA)) == b""
    assert csv_names(pa.schema([])) == b"\n"


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("x", pa.int8())])])
def test_columns_that_csv_cannot_hold(kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match="column 'v': CSV cannot hold"):
        csv_names(pa.schema([("v", kind)]))
