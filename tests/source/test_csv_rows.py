"""CSV as Arrow reads it in one piece, however its text is cut; and what is wrong with it."""

from __future__ import annotations

import csv
import datetime as dt
import io
import random
import re
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import lookupstore
from lookupstore.source import csv_rows
from lookupstore.source.csv_rows import CsvRows
from lookupstore.source.opening import open_source
from lookupstore.source.text_values import MISFITS, type_of, typed

pytestmark = pytest.mark.drawn(0.4)

SOME = ['"', '""', ",", "\t", "\n", "\r\n", "\r", "a", "b", " ", "5", "", "ü"]


def in_blocks(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def read(text: bytes, size: int) -> list[dict[str, str | None]]:
    head, end, rest = text.partition(b"\n")
    rows = CsvRows([head + end, *in_blocks(rest, size)], "a.csv")
    texts = pa.schema([(name, pa.string()) for name in rows.names])
    return [row for batch in rows.read(texts) for row in batch.to_pylist()]


def by_arrow(text: bytes, separator: str) -> list[dict[str, str | None]]:
    """Read a text in one block."""
    names = text.partition(b"\n")[0].decode().split(separator)
    table = pa_csv.read_csv(
        io.BytesIO(text),
        pa_csv.ReadOptions(use_threads=False, block_size=len(text) + 1),
        pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    rows: list[dict[str, str | None]] = table.to_pylist()
    return rows


@pytest.mark.parametrize("separator", [",", "\t"])
def test_as_arrow_reads_it_in_one_block(
    seed: int, monkeypatch: pytest.MonkeyPatch, separator: str
) -> None:
    """Fields of quotes, line breaks and separators, in quotes where they must be, cut anywhere."""
    monkeypatch.setattr(csv_rows, "_PIECE", 1)
    chance = random.Random(seed)
    for _ in range(60):
        width = chance.randrange(2, 4)  # of one column nobody knows the separator
        lines = [separator.join(f"c{at}" for at in range(width))]
        for _ in range(chance.randrange(12)):
            fields = []
            for _ in range(width):
                field = "".join(chance.choice(SOME) for _ in range(chance.randrange(6)))
                if chance.random() < 0.5:
                    field = '"' + field.replace('"', '""') + '"'
                else:  # a quote may be anywhere but at the beginning
                    field = field.lstrip('"').translate(dict.fromkeys(map(ord, "\r\n,\t")))
                    field = field.lstrip('"')
                fields.append(field)
            lines.append(separator.join(fields))
        end = chance.choice(["\n", "\r\n"])
        text = "\n".join([lines[0], end.join(lines[1:])]).encode()
        expected = by_arrow(text, separator) if len(lines) > 1 else []
        for size in (1, 2, 3, 7, len(text)):
            assert read(text, size) == expected, text


def test_any_text_is_what_arrow_reads_or_an_error(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other rows than Arrow's are never read, and the same is read of all pieces."""
    monkeypatch.setattr(csv_rows, "_PIECE", 1)
    chance = random.Random(seed)
    were_read = 0
    for _ in range(400):
        text = "a,b\n" + "".join(chance.choice(SOME[:3] + SOME[4:]) for _ in range(12))
        outcomes = []
        for size in (1, 3, len(text) * 2):
            try:
                outcomes.append(read(text.encode(), size))
            except ValueError as error:
                outcomes.append([{"error": str(error).partition(": '")[0]}])
        assert outcomes[1:] == outcomes[:1] * 2
        if "error" not in str(outcomes[0]):
            assert outcomes[0] == by_arrow(text.encode(), ",")
            were_read += 1
    assert were_read > 5


def test_inch_marks_and_quoted_line_breaks_in_pieces(tmp_path: Path) -> None:
    """By counting quotes, rows would end within them from the first mark on, and be two."""
    lines = [f'{at},pipe,"two\n{at},lines,of text"' for at in range(60_000)]
    lines[7] = '7,5" pipe,one line'
    lines[59_990] = '59990,5" pipe,one line'
    path = tmp_path / "a.csv"
    path.write_text("id,what,text\n" + "\n".join(lines) + "\n", newline="")
    table = pa.Table.from_batches(open_source(path).batches(["id", "what", "text"]))
    assert table["id"].to_pylist() == list(range(60_000))
    with open(path, newline="") as file:
        assert [list(map(str, row.values())) for row in table.to_pylist()] == list(
            csv.reader(file)
        )[1:]
    query = f"FROM read_csv('{path}', quote='\"', escape='\"', delim=',', header=true)"
    with duckdb.connect() as con:
        by_duckdb = con.execute(query).fetchall()
    assert by_duckdb == [tuple(row.values()) for row in table.to_pylist()]


LINE = b"1234567,abcdefghijklmnop,x\n"
ROWS = 100_000  # of 2.6 MB: more than two pieces


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            b"1,caf\xe9,x\n",
            r"the column 'b' is not UTF-8 in row 90001: b'caf\\xe9'; convert it to UTF-8",
        ),
        (b"1,2,x,y\n", r"row 90001 has 4 fields, and the line of names 3: '1,2,x,y'; quote"),
        (b"1\n", r"row 90001 has 1 fields, and the line of names 3: '1'"),
        (b'1,"5" pipe,x\n', r"row 90001 has text after the quote that closes a field.*5"),
        (b'1,"a,x\n', r"row 90001 has a quote that is never closed"),
        (b"x,2,x\n", r"the column 'a' is int64 and has 'x' in row 90001"),
    ],
)
def test_errors_name_the_row_of_the_file(tmp_path: Path, wrong: bytes, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b,c\n" + LINE * 90_000 + wrong + LINE * (ROWS - 90_000))
    with pytest.raises(ValueError, match=rf"^source: {path}: {message}") as raised:
        lookupstore.build(path, tmp_path / "s", key="a", on_duplicate="last")
    assert type(raised.value) is ValueError


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"na\xefve,b\n1,2\n",
            "line of names is not UTF-8: .*; convert it to UTF-8, such as by `iconv -f cp1252",
        ),
        (b"i\0d\0,\0b\0\n\0", "has zero bytes, as text in UTF-16 has"),
        (
            b"\xff\xfei\0d\0",
            "is text in UTF-16; convert it to UTF-8, such as by `iconv -f utf-16 -t utf-8`",
        ),
        (b"id,b\n1,\x93cp1252\x94\n", r"the column 'b' is not UTF-8 in row 1: b'\\x93cp1252"),
        (b'"id"x,b\n1,2\n', "the line of names has text after the quote that closes a field"),
    ],
)
def test_text_that_is_not_read(content: bytes, message: str) -> None:
    def read_all() -> None:
        opened = open_source(io.BytesIO(content))
        list(opened.batches(opened.schema.names))

    with pytest.raises(ValueError, match=message) as raised:
        read_all()
    assert type(raised.value) is ValueError


def test_a_column_that_is_not_asked_for_may_have_any_bytes() -> None:
    opened = open_source(io.BytesIO(b"id,city\n1,Z\xfcrich\n"))
    assert [batch.to_pylist() for batch in opened.batches(["id"])] == [[{"id": 1}]]


def test_names_of_several_lines() -> None:
    """Their separator is found, though it comes after a line break in quotes."""
    rows = CsvRows([b'\r\n"a\nb"\t5" pipe\r\n1\t2\r\n'], "a.csv")
    assert rows.names == ["a\nb", '5" pipe']
    assert rows.schema().types == [pa.int64(), pa.int64()]


def test_values_of_other_types_are_reported(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row has the reason of its first such value, which is null; Python says which these are."""
    monkeypatch.setattr(csv_rows, "_PIECE", 1)
    chance = random.Random(seed)
    for _ in range(40):
        rows = [
            [chance.choice(["1", "-20", "007", "x", ""]), chance.choice(["t", ""]),
             chance.choice(["1.5", "2", "1,5", "inf", ""])]
            for _ in range(chance.randrange(1, 30))
        ]  # fmt: skip
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([["a", "s", "b"], *rows])
        blocks = in_blocks(text.getvalue().encode(), chance.randrange(1, 40))
        kinds = {"b": pa.float64(), MISFITS: pa.string(), "s": pa.string(), "a": pa.int64()}
        read = CsvRows(blocks, "a.csv").read(pa.schema(kinds))
        found = [row for batch in read for row in batch.to_pylist()]
        wanted = []
        for at, (a, s, b) in enumerate(rows, 1):
            bad = [
                f"a.csv: the column {name!r} is {kind} and has {value!r} in row {at}"
                for name, kind, value, wrong in (
                    ("b", "double", b, b == "1,5"), ("a", "int64", a, a in ("007", "x")),
                )
                if wrong
            ]  # fmt: skip
            wanted.append(
                {
                    "b": None if b in ("", "1,5") else float(b),
                    MISFITS: bad[0] if bad else None,
                    "s": s or None,
                    "a": None if a in ("", "007", "x") else int(a),
                }
            )
        assert found == wanted
    with pytest.raises(ValueError, match="which text such as 'x' cannot have"):
        list(
            CsvRows([b"a\nx\n"], "a.csv").read(
                pa.schema({"a": pa.list_(pa.int8()), MISFITS: pa.string()})
            )
        )


@pytest.mark.parametrize(
    ("text", "kind", "decimal", "wanted"),
    [
        ("3.0", pa.int64(), ".", 3),
        ("-30.00", pa.int8(), ".", -30),
        ("-0.0", pa.int64(), ".", 0),
        ("3,0", pa.int32(), ",", 3),
        ("9007199254740993.0", pa.int64(), ".", 9007199254740993),
        ("18446744073709551615.0", pa.uint64(), ".", 18446744073709551615),
        ("3.5", pa.int64(), ".", None),
        ("3.", pa.int64(), ".", None),
        ("1e3", pa.int64(), ".", None),
        ("02134.0", pa.int64(), ".", None),
        ("300.0", pa.int8(), ".", None),
        ("3.000", pa.int64(), ",", None),  # a thousand, in files with decimal commas
        ("3,0", pa.int64(), ".", None),
    ],
)
def test_whole_numbers_with_a_fraction_in_a_column_of_integers(
    text: str, kind: pa.DataType, decimal: str, wanted: int | None
) -> None:
    """As in JSON lines and frames, without a float between text and integer."""
    field = pa.field("v", kind)
    texts = pa.array(["1", None, text])
    if wanted is not None:
        assert typed(texts, field, "a.csv", 1, decimal=decimal).to_pylist() == [1, None, wanted]
        return
    with pytest.raises(ValueError, match=f"the column 'v' is {kind} and has '{text}' in row 3"):
        typed(texts, field, "a.csv", 1, decimal=decimal)


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        ("2023-11-14 22:13:20.002000+00:00", pa.timestamp("ms", "UTC"), 2000),
        ("2023-11-14T22:13:20.002000000Z", pa.timestamp("ms", "UTC"), 2000),
        ("2023-11-15 03:43:20.002000+05:30", pa.timestamp("ms", "UTC"), 2000),
        ("2023-11-14 22:13:20.000002000", pa.timestamp("us"), 2),
        ("2023-11-14 22:13:20.000000", pa.timestamp("s"), 0),
        ("22:13:20.002000", pa.time32("ms"), 2000),
        ("22:13:20.000", pa.time32("s"), 0),
        ("2023-11-14 22:13:20.002001+00:00", pa.timestamp("ms", "UTC"), None),
        ("2023-11-14 22:13:20.0000020001", pa.timestamp("us"), None),
        ("2023-11-14 22:13:20.5", pa.timestamp("s"), None),
        ("2023-11-14 22:13.0", pa.timestamp("s"), None),
        ("2023-11-14 22:13:20.", pa.timestamp("s"), None),
        ("22:13:20.0001", pa.time32("ms"), None),
    ],
)
def test_zeros_after_the_last_digit_of_a_unit(
    text: str, kind: pa.DataType, wanted: int | None
) -> None:
    """As pandas writes milliseconds to CSV; Python's own conversion is the oracle."""
    field = pa.field("v", kind)
    if wanted is None:
        with pytest.raises(ValueError, match=f"and has {re.escape(repr(text))} in row 1"):
            typed(pa.array([text, None]), field, "a.csv", 1)
        return
    found = typed(pa.array([None, text]), field, "a.csv", 1).to_pylist()[1]
    if isinstance(found, dt.time):
        assert found == dt.time(22, 13, 20, wanted)
        return
    at = dt.datetime(2023, 11, 14, 22, 13, 20, wanted)
    assert found == (at if found.tzinfo is None else at.replace(tzinfo=dt.timezone.utc))


def test_a_fraction_of_zeros_is_of_a_float_where_the_type_is_inferred() -> None:
    assert type_of(pa.array(["1", "3.0"])) == pa.float64()


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time64("us"), pa.time64("ns")])
def test_times_of_day(kind: pa.DataType) -> None:
    field = pa.field("v", kind)
    found = typed(pa.array(["05:40:00", None, "23:59"]), field, "a.csv", 1)
    assert found.cast(pa.time64("ns")).cast(pa.time64("us")).to_pylist() == [
        dt.time(5, 40), None, dt.time(23, 59),
    ]  # fmt: skip
    for wrong in ("24:00:00", "5:40", "05:40:00Z", "2026-03-07 05:40:00", "noon"):
        with pytest.raises(ValueError, match=f"has '{wrong}' in row 1"):
            typed(pa.array([wrong]), field, "a.csv", 1)


def test_times_without_a_zone_for_a_column_with_one(tmp_path: Path) -> None:
    """Arrow's reader refuses them, too, so that the error names other remedies."""
    at = dt.datetime(2026, 12, 1, 10, tzinfo=dt.timezone.utc)
    store = lookupstore.build({"id": [1], "at": [at]}, tmp_path / "store", key="id")
    file = tmp_path / "a.csv"
    file.write_text("id,at\n1,2026-12-01 10:00:00Z\n2,2026-12-01 11:00:00\n")
    with pytest.raises(ValueError, match="'2026-12-01 11:00:00' in row 2; write the zone after"):
        store.upsert(file)
    frame = pd.read_csv(file)
    frame["at"] = pd.to_datetime(frame["at"], utc=True, format="ISO8601")
    hour = dt.timedelta(hours=1)
    assert store.upsert(frame).get(2) == {"at": at + hour}
    file.write_text("id,at\n3,2026-12-01 12:00:00Z\n")
    assert store.upsert(file).get(3) == {"at": at + 2 * hour}
    for wrong in ("2026-12-01 25:00:00", "noon"):
        with pytest.raises(ValueError, match=f"'{wrong}' in row 1; correct it, or pass a reader"):
            typed(pa.array([wrong]), pa.field("at", pa.timestamp("us", "UTC")), "a.csv", 1)
