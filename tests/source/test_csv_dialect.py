"""CSV in other notations: separators, quotes, nulls and names, as Python's csv module has them."""

from __future__ import annotations

import csv
import io
import os
import random
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import lookupstore
from lookupstore.source import csv_rows
from lookupstore.source.csv_dialect import CsvDialect
from lookupstore.source.csv_rows import CsvRows
from lookupstore.source.opening import open_source

TEXTS = ["", "NA", "-", "a", "ü", "a b", '"', "'", '""', ",", ";", "|", "\t", "\n", "5", "x'y"]


def written(rows: list[list[str]], dialect: CsvDialect) -> bytes:
    """Write rows with Python's csv module, every field within quotes if there are quotes."""
    text = io.StringIO(newline="")
    if dialect.quote is None:
        writer = csv.writer(text, delimiter=dialect.separator or ",", quoting=csv.QUOTE_NONE)
    else:
        writer = csv.writer(
            text, delimiter=dialect.separator or ",", quotechar=dialect.quote, quoting=csv.QUOTE_ALL
        )
    writer.writerows(rows)
    return text.getvalue().encode()


def read(text: bytes, size: int, dialect: CsvDialect) -> tuple[list[str], list[list[str | None]]]:
    blocks = [text[at : at + size] for at in range(0, len(text), size)]
    rows = CsvRows(blocks, "a.csv", dialect=dialect)
    texts = pa.schema([(name, pa.string()) for name in rows.names])
    found = [list(row.values()) for batch in rows.read(texts) for row in batch.to_pylist()]
    return rows.names, found


@pytest.mark.parametrize("has_names", [True, False])
@pytest.mark.parametrize("quote", ['"', "'", None])
def test_as_it_was_written(
    seed: int, monkeypatch: pytest.MonkeyPatch, quote: str | None, has_names: bool
) -> None:
    """Texts with separators, quotes and line ends; those that a text without quotes cannot have
    are left out there.
    """
    monkeypatch.setattr(csv_rows, "_PIECE", 1)
    chance = random.Random(seed)
    for _ in range(60):
        separator = chance.choice(",;|\t:")
        nulls = ("",) if quote is not None else ("", "NA")
        names = [f"c{at}" for at in range(chance.randrange(2, 4))]
        dialect = CsvDialect(separator, quote, nulls, None if has_names else tuple(names))
        fits = [one for one in TEXTS if quote or not {separator, "\n", '"'} & {*one}]
        rows = [[chance.choice(fits) for _ in names] for _ in range(chance.randrange(1, 30))]
        text = written([names, *rows] if has_names else rows, dialect)
        wanted = [[None if quote is None and one in nulls else one for one in row] for row in rows]
        assert read(text, chance.randrange(1, 30), dialect) == (names, wanted), (dialect, text)


def test_nulls_have_no_quotes() -> None:
    dialect = CsvDialect(nulls=("", "NA"))
    text = b'a,b\nNA,"NA"\n,""\n'
    assert read(text, 99, dialect)[1] == [[None, "NA"], [None, ""]]


def test_nulls_do_not_decide_types(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;v\n1;NA\n2;1.5\n")
    source = open_source(tmp_path / "a.csv", dialect=CsvDialect(separator=";", nulls=("", "NA")))
    assert source.schema.field("v").type == pa.float64()
    (batch,) = source.batches(["v"])
    assert batch.to_pylist() == [{"v": None}, {"v": 1.5}]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.decimal128(9, 3)])
def test_decimal_commas_as_arrow_reads_them(seed: int, kind: pa.DataType) -> None:
    """Texts with a point are refused, which Arrow does too."""
    chance = random.Random(seed)
    for _ in range(30):
        texts = [
            chance.choice(["", "-"])
            + str(chance.randrange(10**5))
            + chance.choice([",5", ",125", ""])
            for _ in range(chance.randrange(1, 40))
        ]
        text = ("id;v\n" + "".join(f"{at};{one}\n" for at, one in enumerate(texts))).encode()
        wanted = pa_csv.read_csv(
            io.BytesIO(text),
            parse_options=pa_csv.ParseOptions(delimiter=";"),
            convert_options=pa_csv.ConvertOptions(decimal_point=",", column_types={"v": kind}),
        )
        rows = CsvRows([text], "a.csv", dialect=CsvDialect(";", decimal=","))
        (found,) = rows.read(pa.schema([("v", kind)]))
        assert found.column("v").equals(wanted.column("v").combine_chunks())
    for wrong in ("1.5", "1.234,5", "1,2,3", "1x5"):
        rows = CsvRows([f"v\n{wrong}\n".encode()], "a.csv", dialect=CsvDialect(";", decimal=","))
        said = f"has '{wrong}' in row 1 with decimal=','; correct it, or pass a reader"
        with pytest.raises(ValueError, match=re.escape(said)):
            list(rows.read(pa.schema([("v", kind)])))


def test_decimal_commas_decide_types() -> None:
    text = b"a;b;c;d;e\n1,5;1;1.234;2,5;2026-01-02\n2;2;7,0;1.234,5;2026-01-03\n"
    for decimal, wanted in (
        (",", ["double", "int64", "string", "string", "date32[day]"]),
        (".", ["string", "int64", "string", "string", "date32[day]"]),
    ):
        rows = CsvRows([text], "a.csv", dialect=CsvDialect(";", decimal=decimal))
        assert [str(field.type) for field in rows.schema()] == wanted


def test_errors_count_rows_without_a_line_of_names() -> None:
    dialect = CsvDialect(names=("a", "b"))
    with pytest.raises(ValueError, match="row 2 has 1 fields, and there are names for 2: '3'"):
        read(b"1,2\n3\n", 99, dialect)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"separator": ""}, "separator is ''; give one character of ASCII"),
        ({"separator": "ü"}, "separator is 'ü'"),
        ({"separator": "\n"}, "separator is '.n'"),
        ({"quote": "''"}, "quote is"),
        ({"separator": "'", "quote": "'"}, "both"),
        ({"decimal": ",,"}, "decimal is ',,'; give one character of ASCII"),
        ({"decimal": "5"}, "decimal is '5'; give a point or a comma"),
        ({"decimal": "-"}, "decimal is '-'"),
        ({"separator": ",", "decimal": ","}, "separator and decimal are both ','"),
        ({"quote": "'", "decimal": "'"}, "quote and decimal are both"),
    ],
)
def test_characters_that_cannot_be_used(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CsvDialect(**given)  # type: ignore[arg-type]


def test_json_lines_have_no_separator(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n')
    for dialect in (CsvDialect(separator=";"), CsvDialect(decimal=",")):
        with pytest.raises(ValueError, match="is JSON lines; separators"):
            open_source(tmp_path / "a.jsonl", dialect=dialect)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("id,a\n1,NA\n2,x\n", CsvDialect(nulls=("NA",))),
        ("id,a\n1,'x'\n2,y\n", CsvDialect(quote="'")),
        ("id,a\n1,2024-01-01T10:00:00\n", CsvDialect(zone="America/New_York")),
    ],
)
def test_another_notation_is_another_source(tmp_path: Path, text: str, other: CsvDialect) -> None:
    """A build that corrects its notation reads the unchanged file again."""
    path = tmp_path / "a.csv"
    path.write_text(text)
    os.utime(path, (10**9, 10**9))
    fingerprints = {
        open_source(path, dialect=dialect).fingerprint for dialect in (CsvDialect(), other, other)
    }
    assert None not in fingerprints
    assert len(fingerprints) == 2
    built = lookupstore.build(open_source(path, dialect=CsvDialect()), tmp_path / "s", key="id")
    with built, lookupstore.build(
        open_source(path, dialect=other), tmp_path / "s", key="id", overwrite=True
    ) as again:  # fmt: skip
        is_other = again[1] != built[1]
        assert again.info().rewritten_buckets == is_other
        assert is_other
