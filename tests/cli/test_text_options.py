"""`--delimiter`, `--quote`, `--types` and so on: CSV as other programs leave it."""

from __future__ import annotations

import datetime
import json
import zoneinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.hudi import HudiTable


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line: str, *more: str, given: str | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [*line.split(), *more], input=given)


def done(line: str, *more: str, given: str | None = None) -> str:
    result = run(line, *more, given=given)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(line: str, *more: str) -> str:
    result = run(line, *more)
    assert result.exit_code in (1, 2), result.output
    assert "pyarrow" not in result.stderr
    return result.stderr


def rows_of(path: str) -> list[dict[str, Any]]:
    with lookupstore.open(path) as store:
        rows: list[dict[str, Any]] = store.scan().read_all().to_pylist()
        return rows


def test_times_that_name_no_zone() -> None:
    """They are refused where a column has a zone, unless one is given."""
    Path("t.csv").write_text("id,seen\n1,2026-03-01 02:01:16\n2,\n3,2026-07-01T12:00:00.5\n")
    Path("t.jsonl").write_text('{"id": 4, "seen": "2026-03-01 02:01:16"}\n')
    seen = pa.timestamp("us", "UTC")
    HudiTable.create("t", pa.schema({"id": pa.int64(), "seen": seen}), record_key="id", name="t")
    said = refused("hudi upsert t t.csv")
    assert "has '2026-03-01 02:01:16' in row 1; give --zone with the zone of such times" in said
    done("hudi upsert t t.csv --zone Europe/Berlin")
    done("hudi upsert t t.jsonl --zone UTC")
    rows = HudiTable.open("t").scan(columns=["id", "seen"]).sort_by("id").to_pylist()
    utc = [None if row["seen"] is None else row["seen"].isoformat()[:21] for row in rows]
    assert utc == ["2026-03-01T01:01:16+0", None, "2026-07-01T10:00:00.5", "2026-03-01T02:01:16+0"]
    Path("z.csv").write_text("id,seen\n5,2026-03-01 02:01:16+05:00\n")
    done("hudi upsert t z.csv --zone Europe/Berlin")  # its own zone counts
    found = HudiTable.open("t").get(5)
    assert found is not None
    assert found["seen"].isoformat() == "2026-02-28T21:01:16+00:00"
    Path("bad.csv").write_text(
        "id,seen\n6,2026-03-01 02:01:16\n7,\n8,soon\n9,2026-03-01 00:00:00\n"
    )
    said = refused("hudi upsert t bad.csv --zone UTC")
    assert "has 'soon' in row 3" in said, "the times before it are right"
    Path("bad.csv").write_text(
        "id,seen\n6,2026-03-01T02:01:16Z\n7,2026-03-01T02:01:16+01:00\n8,soon\n"
    )
    assert "has 'soon' in row 3" in refused("hudi upsert t bad.csv --zone UTC")
    for changed in ("2026-03-29 02:30:00", "2026-10-25 02:30:00"):  # clocks go forward, and back
        Path("gap.csv").write_text(f"id,seen\n6,2026-03-29 01:30:00\n7,\n8,{changed}\n9,\n")
        said = refused("hudi upsert t gap.csv --zone Europe/Berlin")
        assert f"the column 'seen' is timestamp[us, tz=UTC] and has '{changed}' in row 3" in said
        assert "which Europe/Berlin has twice or not at all, since clocks were changed; " in said
        done("build gap.csv local --key id --overwrite --types", "seen=timestamp_ntz")
    Path("named.csv").write_text("id,seen\n6,2026-03-01 02:01:16 UTC\n")
    for more in ("", " --zone UTC"):  # the option would not help
        said = refused(f"hudi upsert t named.csv{more}")
        assert "in row 1; only times such as 2026-05-19 07:40:00+02:00 are read" in said
    assert "zone is 'Mars'; give UTC or a name" in refused("hudi upsert t gap.csv --zone Mars")
    done("build t.csv s --key id --zone Europe/Berlin --types", "seen=timestamp")
    assert rows_of("s")[0]["seen"].hour == 1


def test_a_zone_counts_in_columns_whose_type_is_inferred() -> None:
    """Python's own conversion is the oracle."""
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    Path("a.csv").write_text("id,at,day\n1,2026-03-01 02:01:16,2026-03-01\n2,,\n")
    local = datetime.datetime(2026, 3, 1, 2, 1, 16)
    done("build a.csv s --key id")
    assert rows_of("s")[0]["at"] == local
    done("build a.csv z --key id --zone Europe/Berlin")
    assert rows_of("z")[0] == {
        "id": 1,
        "at": local.replace(tzinfo=berlin).astimezone(datetime.timezone.utc),
        "day": datetime.date(2026, 3, 1),
    }
    shown = done("head a.csv --zone Europe/Berlin --output csv")
    assert shown == "id,at,day\n1,2026-03-01T01:01:16+00:00,2026-03-01\n2,,\n"
    joined = done(
        "join a.csv s --on id --columns day --prefix s_ --zone Europe/Berlin --output csv"
    )
    assert joined.splitlines()[1] == "1,2026-03-01T01:01:16+00:00,2026-03-01,2026-03-01"
    done("hudi create t --like a.csv --key id --zone Europe/Berlin")
    assert str(HudiTable.open("t").schema.field("at").type) == "timestamp[us, tz=UTC]"


def test_a_zone_without_times_is_refused() -> None:
    """It would be passed over; what it would have to be for is in the error."""
    Path("a.csv").write_text("id,at,day\n1,2026-03-01 02:01:16,2026-03-01\n")
    Path("a.jsonl").write_text('{"id": 1, "at": "2026-03-01 02:01:16"}\n')
    done("build a.csv s --key id")
    done("build a.csv at --key at")
    HudiTable.create("t", pa.schema({"id": pa.int64(), "at": pa.string()}), record_key="id")
    no_times = " has no column of times with a time zone; leave it out"
    types = f"{no_times}, or give --types COLUMN=timestamp"
    for line, said in (
        ("build a.jsonl n --key id", types),
        ("head a.jsonl", types),
        ("build a.csv n --key id --types at=timestamp_ntz", types),
        ("upsert s a.csv", no_times),
        ("upsert s --deletes a.csv", no_times),
        ("upsert s --deletes a.jsonl", no_times),
        ("hudi upsert t a.csv", no_times),
        ("get s --keys a.csv", no_times),
        ("get at --keys a.csv", no_times),
        ("hudi get t --keys a.csv", no_times),
        ("hudi delete t --keys a.csv", no_times),
    ):
        assert said in refused(f"{line} --zone Europe/Berlin"), line
    done("build a.jsonl n --key id --zone Europe/Berlin --types at=timestamp")
    assert rows_of("n")[0]["at"].hour == 1
    lookupstore.build(pa.table({"id": [1]}), "p", key="id").close()
    pq.write_table(pa.table({"id": [1]}), "p.parquet")
    for line in ("upsert p --deletes p.parquet", "head p", "build p.parquet n --key id"):
        assert "--types and --zone are for CSV" in refused(f"{line} --zone UTC"), line


@pytest.mark.parametrize("name", ["k.csv", "k.jsonl"])
def test_a_zone_counts_in_keys(name: str) -> None:
    local = datetime.datetime(2026, 3, 1, 2, 1, 16)
    instant = local.replace(tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
    rows = pa.table({"at": pa.array([instant], pa.timestamp("us", "UTC")), "n": [7]})
    lookupstore.build(rows, "s", key="at").close()
    Path("k.csv").write_text(f"at\n{local}\n")
    Path("k.jsonl").write_text(f'{{"at": "{local}"}}\n')
    if name == "k.csv":
        assert "write one with a time zone" in refused(f"get s --keys {name}")
        found = done(f"get s --keys {name} --zone Europe/Berlin --output json")
        assert json.loads(found)["n"] == 7
    done(f"upsert s --deletes {name} --zone Europe/Berlin")
    assert rows_of("s") == []


def test_numbers_with_a_comma_are_text_and_it_is_said(here: Path) -> None:
    """What a German spreadsheet writes: a build of texts is no error, but a surprise."""
    Path("a.csv").write_text("id;price;sum;n;code;no\n1;99,90;1.234,50;7;1,x;\n2;-0,5;3;8;2,5;\n")
    price = (
        f"{here}/a.csv: the column 'price' is text, because its numbers are written as '99,90'; to "
        "read numbers, give --decimal ','\n"
    )
    total = (
        f"{here}/a.csv: the column 'sum' is text, because its numbers are written as '1.234,50'; "
        "to read numbers, take out points between thousands"
    )
    result = run("build a.csv s --key id --delimiter ;")
    assert (result.exit_code, result.stderr) == (0, f"{price}{total} and give --decimal ','\n")
    result = run("head a.csv --delimiter ; --decimal ,")
    assert (result.exit_code, result.stderr) == (0, f"{total}\n")
    Path("b.csv").write_text("id;price\n3;1,50\n")
    for line in (  # the types are those of the caller, or of the store
        "build b.csv t --key id --delimiter ; --types price=text",
        "upsert t b.csv --delimiter ;",
    ):
        result = run(line)
        assert (result.exit_code, result.stderr) == (0, "")


def test_values_of_other_types_and_what_to_do() -> None:
    Path("a.csv").write_text("id,price\n" + "1,2\n" * 300_000 + "2,1.5\n")
    said = refused("build a.csv s --key id")
    assert "has '1.5' in row 300001; give --types price=double\n" in said
    Path("agents.csv").write_text("id,p\n1,007\n")
    for kind in ("int", "double"):
        said = refused("build agents.csv s --key id --types", f"p={kind}")
        assert "give --types p=text\n" in said
    Path("b.csv").write_text("id,price\n1,77272.61\n")
    said = refused("build b.csv s --key id --types", "price=decimal(5,2)")
    assert "give --types price=decimal(P,S) with more digits" in said
    HudiTable.create("t", pa.schema({"id": pa.int64(), "v": pa.float64()}), record_key="id")
    Path("c.csv").write_text("id,v\n1,abc\n")
    said = refused("hudi upsert t c.csv")
    assert "has 'abc' in row 1; correct it\n" in said
    Path("c.csv").write_text("id,v\n1,N/A\n")
    said = refused("hudi upsert t c.csv")
    assert "has 'N/A' in row 1; correct it, or give --null 'N/A' if it means null" in said
    lookupstore.build(pa.table({"id": [1], "tags": [["x"]]}), "l", key="id").close()
    Path("d.csv").write_text("id,tags\n1,x\n")
    said = refused("upsert l d.csv")
    assert "the column 'tags' is list<item: string>, which text such as 'x' cannot have" in said
    assert "choose others with --columns, or give rows as JSON lines" in said
    Path("e.csv").write_text("id,tags\n2,\n")
    done("upsert l e.csv")
    assert rows_of("l")[1] == {"id": 2, "tags": None}
    Path("f.csv").write_text("id,v\n1,'2,5'\n")
    assert "write decimals with a point" in refused("hudi upsert t f.csv --quote '")


@pytest.mark.parametrize("text", ["NA", "n/a", "#N/A", "k.A.", "null", "None", "\\N", "-", "?", ""])
def test_null_is_advised_for_what_may_mean_it(text: str) -> None:
    HudiTable.create("t", pa.schema({"id": pa.int64(), "v": pa.int64()}), record_key="id")
    Path("a.csv").write_text(f"id,v\n1,{text}\n2,3.5\n")
    said = refused("hudi upsert t a.csv --null none-of-these")
    shown = text.replace("\\", r"\\")
    wanted = f"has '{shown}' in row 1; correct it, or give --null '{text}' if it means null"
    assert wanted in said
    assert "has '3.5' in row 2; correct it\n" in refused("hudi upsert t a.csv --null", text)


@pytest.mark.parametrize(
    ("column", "text", "kind"),
    [
        ("n", "3000000000", "int64"),
        ("n", "1.5", "double"),
        ("f", "-1.25e300", "double"),
        ("d", "7.555", "decimal(11,3)"),
        ("d", "-123456789.5", "decimal(11,2)"),
        ("n", "99999999999999999999", None),
        ("n", "many", None),
        ("n", "03000000000", None),
        ("f", "1e999", None),
        ("d", "0." + "1" * 40, None),
        ("l", "99999999999999999999", None),
        ("id", "1.5", None),
    ],
)
def test_a_number_that_a_wider_column_of_a_hudi_table_holds(
    column: str, text: str, kind: str | None
) -> None:
    """The options that the error names work."""
    types = {"id": "int32", "n": "int32", "f": "float32", "l": "int64"}
    columns = pa.schema([*types.items(), ("d", pa.decimal128(10, 2))])
    HudiTable.create("t", columns, record_key="id")
    row = dict.fromkeys(columns.names, "1") | {column: text}
    Path("a.csv").write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    said = refused("hudi upsert t a.csv")
    if kind is None:
        assert said.rstrip().endswith("in row 1; correct it")
        return
    options = f"--evolve --types '{column}={kind}'"
    assert said.rstrip().endswith(f"; correct it, or widen the column: give {options}")
    done(f"hudi upsert t a.csv {options}".replace("'", ""))
    found = HudiTable.open("t").get(1)
    assert found is not None
    assert found[column] == (Decimal if column == "d" else float)(text)
    lookupstore.build(pa.table({"id": [1], "n": pa.array([1], pa.int32())}), "s", key="id").close()
    Path("b.csv").write_text("id,n\n1,3000000000\n")
    assert "; correct it\n" in refused("upsert s b.csv"), "a store has no --evolve"


def test_the_index_of_pandas_in_a_file_is_named() -> None:
    HudiTable.create("t", pa.schema({"id": pa.int64()}), record_key="id")
    Path("a.csv").write_text(",id\n0,1\n")
    said = refused("hudi upsert t a.csv")
    assert "no column ''; to add it, give --evolve; to leave it out, write the file without" in said
    assert "to_csv(index=False)" in said


def test_times_that_are_more_exact_than_their_column() -> None:
    columns = pa.schema([("id", "int64"), ("at", pa.timestamp("ms", "UTC"))])
    HudiTable.create("t", columns, record_key="id")
    Path("a.csv").write_text("id,at\n1,2026-05-19 07:40:00.125000+00:00\n")
    done("hudi upsert t a.csv")
    found = HudiTable.open("t").get(1)
    assert found is not None
    assert found["at"].microsecond == 125_000
    Path("a.csv").write_text("id,at\n1,2026-05-19 07:40:00.125001+00:00\n")
    assert "in row 1; it is finer than the unit of the column, ms: round it" in refused(
        "hudi upsert t a.csv"
    )


def test_whole_numbers_with_a_fraction_are_integers_of_the_destination() -> None:
    HudiTable.create("t", pa.schema({"id": pa.int64(), "v": pa.int64()}), record_key="id")
    Path("a.csv").write_text("id;v\n1;3,0\n2.0;4\n")
    said = refused("hudi upsert t a.csv --delimiter ;")
    assert "is int64 and has '3,0' in row 1; give --decimal ','\n" in said
    said = refused("hudi upsert t a.csv --delimiter ; --decimal ,")
    assert "has '2.0' in row 2 with --decimal ','; take out points between thousands, or" in said
    Path("a.csv").write_text("id;v\n1;3,0\n9007199254740993;4,00\n")
    done("hudi upsert t a.csv --delimiter ; --decimal ,")
    found = HudiTable.open("t").scan(columns=["id", "v"]).sort_by("id").to_pylist()
    assert found == [{"id": 1, "v": 3}, {"id": 9007199254740993, "v": 4}]


def test_dates_that_are_not_iso() -> None:
    """The error says the type with the format, and it works when it is typed."""
    kinds = {"id": pa.int64(), "day": pa.date32(), "at": pa.timestamp("us")}
    HudiTable.create("t", pa.schema(kinds), record_key="id")
    Path("a.csv").write_text("id,day,at\n1,19.05.2026,\n2,1.6.2026,\n3,,\n")
    said = refused("hudi upsert t a.csv")
    assert "has '19.05.2026' in row 1; give --types 'day=date(%d.%m.%Y)'\n" in said
    done("hudi upsert t a.csv --types day=date(%d.%m.%Y)")
    Path("b.csv").write_text("id,day,at\n4,,19.05.2026 07:40\n")
    said = refused("hudi upsert t b.csv")
    assert "in row 1; give --types 'at=timestamp_ntz(%d.%m.%Y %H:%M)'\n" in said
    done("hudi upsert t b.csv --types", "at=timestamp_ntz(%d.%m.%Y %H:%M)")
    found = HudiTable.open("t").scan(columns=["id", "day", "at"]).sort_by("id").to_pylist()
    days = [datetime.date(2026, 5, 19), datetime.date(2026, 6, 1), None, None]
    assert [row["day"] for row in found] == days
    assert [row["at"] for row in found] == [None] * 3 + [datetime.datetime(2026, 5, 19, 7, 40)]
    Path("c.csv").write_text("id,day,at\n1,NA,\n")
    assert "or give --null 'NA' if it means null" in refused("hudi upsert t c.csv")
    Path("c.csv").write_text("id,day,at\n1,19.05.2026 07:40,\n")  # a date has no time
    assert "only dates such as 2026-05-19 are read: convert it" in refused("hudi upsert t c.csv")
    Path("c.csv").write_text("id,day,at\n1,19th of May,\n")
    assert "only dates such as 2026-05-19 are read: convert it" in refused("hudi upsert t c.csv")


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("12/31/2025", ["%m/%d/%Y"]),
        ("31/12/2025", ["%d/%m/%Y"]),
        ("03/04/2025", ["%m/%d/%Y", "%d/%m/%Y"]),
        ("31-Dec-2025", ["%d-%b-%Y"]),
        ("December 31, 2025", ["%B %d, %Y"]),
        ("2025/12/31", ["%Y/%m/%d"]),
        ("31-12-2025", ["%d-%m-%Y"]),
        ("31 Dec 2025", ["%d %b %Y"]),
        ("31 December 2025", ["%d %B %Y"]),
        ("20251231", ["%Y%m%d"]),
    ],
)
def test_formats_of_dates(text: str, forms: list[str]) -> None:
    """The oracle is pandas; commas of a format do not end a type."""
    pandas = pytest.importorskip("pandas")
    Path("a.csv").write_text(f'id,day\n1,"{text}"\n2,\n')
    Path("a.jsonl").write_text(json.dumps({"id": 1, "day": text}) + '\n{"id": 2, "day": null}\n')
    given = " or ".join(f"--types 'day=date({form})'" for form in forms)
    for file in ("a.csv", "a.jsonl"):
        said = refused(f"build {file} s --key id --overwrite --types day=date")
        assert f"has '{text}' in row 1; give {given}\n" in said
        for form in forms:
            done(f"build {file} s --key id --overwrite --types", f"id=int,day=date({form})")
            wanted = pandas.to_datetime(text, format=form).date()
            assert rows_of("s") == [{"id": 1, "day": wanted}, {"id": 2, "day": None}]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("31.12.2025 23:59", "%d.%m.%Y %H:%M"),
        ("2025/12/31 23:59:58", "%Y/%m/%d %H:%M:%S"),
        ("31.12.2025 23:59:58.25", "%d.%m.%Y %H:%M:%S.%f"),
        ("12/31/2025 11:59 PM", "%m/%d/%Y %I:%M %p"),
        ("12/31/2025 11:59:58 PM", "%m/%d/%Y %I:%M:%S %p"),
    ],
)
def test_formats_of_times_that_errors_name(text: str, form: str) -> None:
    pandas = pytest.importorskip("pandas")
    Path("a.csv").write_text(f"id,at\n1,{text}\n2,\n")
    wanted = pandas.to_datetime(text, format=form).to_pydatetime()
    line = "build a.csv s --key id --overwrite --types"
    for kind, zone in (("timestamp_ntz", None), ("timestamp", datetime.timezone.utc)):
        said = refused(line, f"at={kind}")
        assert f"has '{text}' in row 1; give --types 'at={kind}({form})'\n" in said
        if zone is not None:
            line = line.replace(" --types", " --zone UTC --types")
        done(line, f"at={kind}({form})")
        rows = [{"id": 1, "at": wanted.replace(tzinfo=zone)}, {"id": 2, "at": None}]
        assert rows_of("s") == rows


def test_formats_of_times() -> None:
    Path("a.csv").write_text("id,at\n1,31.12.2025 23:59:58\n2,\n3,1.1.2026 00:00:00\n")
    form = "(%d.%m.%Y %H:%M:%S)"
    done("build a.csv s --key id --types", f"at=timestamp_ntz{form}")
    first = datetime.datetime(2025, 12, 31, 23, 59, 58)
    assert rows_of("s")[0]["at"] == first
    said = refused("build a.csv z --key id --types", f"at=timestamp{form}")
    assert "which names no zone; give --zone with the zone of such times" in said
    Path("n.csv").write_text("id,at\n1,\n2,31.12.2025 23:59:58\n")
    said = refused("build n.csv z --key id --types", f"at=timestamp{form}")
    assert "has '31.12.2025 23:59:58' in row 2, which names no zone" in said
    done("build a.csv z --key id --zone Europe/Berlin --types", f"at=timestamp{form}")
    assert rows_of("z")[0]["at"] == first.replace(hour=22, tzinfo=datetime.timezone.utc)
    # Rows of an upsert are read with the format, too.
    Path("b.csv").write_text("id,at\n1,01.02.2026 00:00:00\n")
    done("upsert s b.csv --types", f"at=timestamp_ntz{form}")
    assert rows_of("s")[0]["at"] == datetime.datetime(2026, 2, 1)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("date(%d.%m)", "there is no year; give %Y or %y"),
        ("date(%d.%m.%Y %H:%M)", "a date has no time; give timestamp_ntz"),
        ("timestamp_ntz(%d.%m.%Y %I:%M)", "give both %I and %p, or %H"),
        ("date(%d.%m.%Y %d)", "a part of the date is given twice"),
        ("date(%x)", "'%x' is not known; give %%, %B"),
        ("date(mm/dd/yyyy)", "'mm/dd/yyyy': write its parts with %, such as date(%m/%d/%Y)"),
        ("timestamp(us)", "'us': write its parts with %"),
    ],
)
def test_formats_that_are_refused(kind: str, said: str) -> None:
    Path("a.csv").write_text("id,day\n1,31.12.2025\n")
    assert said in refused("build a.csv s --key id --types", f"day={kind}")


@pytest.mark.parametrize(
    ("text", "form"), [("31.02.2026", "%d.%m.%Y"), ("2025111", "%Y%m%d"), ("1.2.26x", "%d.%m.%y")]
)
def test_texts_that_are_not_in_the_format(text: str, form: str) -> None:
    """A day that no month has, two readings, and more than a date."""
    Path("a.csv").write_text(f"id,day\n1,\n2,{text}\n")
    said = refused("build a.csv s --key id --types", f"day=date({form})")
    assert f"has '{text}' in row 2, which is not in the format '{form}'" in said


def test_deletes_from_standard_input() -> None:
    lookupstore.build(pa.table({"zip": ["00001", "00002", "00003"]}), "s", key="zip").close()
    done("upsert s --deletes -", given="zip\n00002\n")
    assert [row["zip"] for row in rows_of("s")] == ["00001", "00003"]
    assert "the standard input is read once" in refused("upsert s - --deletes -")


def test_files_of_unknown_names_and_kinds() -> None:
    Path("a.txt").write_text("id|v\n1|x\n")
    Path("d.xlsx").write_bytes(b"PK\x03\x04" + bytes(80))
    assert "if it is CSV, give - and pass the file on standard input" in refused(
        "build a.txt s --key id"
    )
    done("build - s --key id --delimiter |", given="id|v\n1|x\n")
    assert rows_of("s") == [{"id": 1, "v": "x"}]
    for line in ("build d.xlsx t --key id", "head d.xlsx"):
        assert "supported: .parquet" in refused(line)
    assert "give - and pass the file on standard input" in refused("head a.txt")
    assert "not a sorted lookup file" in refused("scan a.txt --key id")
    Path("rows.json").write_text('{"id": 2, "v": "y"}\n')  # as -o writes them
    done("build rows.json j --key id")
    assert rows_of("j") == [{"id": 2, "v": "y"}]
    assert "standard input" not in refused("build d.xlsx t --key id")
    assert "nor Parquet or ORC; CSV, JSON lines and Arrow IPC are known by their extension" in (
        refused("info d.xlsx")
    )


def test_each_error_of_csv_names_the_option_that_helps() -> None:
    Path("f.csv").write_text("1,x\n")
    Path("a.csv").write_text("id;zip;price\n1;'a;b';1,5\n2;02134;NA\n")
    assert "separated by ';'; give --delimiter ';'" in refused("build a.csv s --key id")
    done("build a.csv s --key id --null NA --delimiter ; --quote '")
    assert rows_of("s") == [
        {"id": 1, "zip": "a;b", "price": "1,5"},
        {"id": 2, "zip": "02134", "price": None},
    ]
    Path("b.csv").write_text('id,v\n1,"5" pipe\n')
    assert "if these quotes are text, give --quote none" in refused("build b.csv t --key id")
    done("build b.csv t --key id --quote none")
    assert rows_of("t") == [{"id": 1, "v": '"5" pipe'}]
    Path("c.csv").write_text("id,v\n" + "1,2\n" * 400_000 + "2,x\n")
    assert "in row 400001; give --types v=text\n" in refused(
        "build c.csv u --key id --on-duplicate last"
    )
    done("build c.csv u --key id --on-duplicate last --types v=text")
    assert rows_of("u") == [{"id": 1, "v": "2"}, {"id": 2, "v": "x"}]
    assert "has no column 'id'; it has ['1', 'x']; if CSV has no line of names, give --names" in (
        refused("build f.csv v --key id")
    )
    assert "give one character of ASCII, tab or none" in refused("build f.csv v --quote ''")
    Path("d.csv").write_bytes(b"id,v\n1,M\xfcller \x80\n")
    said = refused("build d.csv v --key id")
    assert "such as by `iconv -f cp1252 -t utf-8` if it is Windows-1252 or Latin-1\n" in said
    Path("d.csv").write_text(Path("d.csv").read_text("cp1252"), "utf-8")
    done("build d.csv v --key id")
    assert rows_of("v") == [{"id": 1, "v": "Müller €"}]
    Path("e.csv").write_text("id,v\n1,2,3\n")
    assert "row 1 has 3 fields" in refused("build e.csv v --key id")


def test_an_empty_field_is_a_text_where_another_is_null() -> None:
    """As in DuckDB, PostgreSQL and Spark: their files have both."""
    Path("a.csv").write_text('id,v,n\n1,,1\n2,NULL,NULL\n3,"NULL",3\n')
    done("build a.csv s --key id --null NULL")
    assert [(row["v"], row["n"]) for row in rows_of("s")] == [("", 1), (None, None), ("NULL", 3)]
    done("build a.csv s --key id --overwrite --null NULL --null", "")
    assert [row["v"] for row in rows_of("s")] == [None, None, "NULL"]
    done("build a.csv s --key id --overwrite")
    assert [(row["v"], row["n"]) for row in rows_of("s")] == [
        (None, "1"), ("NULL", "NULL"), ("NULL", "3"),
    ]  # fmt: skip


def test_types_in_the_words_of_sql_and_arrow() -> None:
    text = "1|1.50|7|2026-01-02 03:04:05|1\n"
    types = "b=decimal(10, 2),c=INT", "d=timestamp_ntz", "e=uint8"
    options = [word for one in types for word in ("--types", one)]
    done("build - s --key a --names a,b,c,d,e --delimiter |", *options, given=text)
    with lookupstore.open("s") as store:
        assert [str(field.type) for field in store.schema] == [
            "int64", "decimal128(10, 2)", "int32", "timestamp[us]", "uint8",
        ]  # fmt: skip
    assert rows_of("s")[0]["b"] == Decimal("1.50")
    # The names that `info` prints.
    types = "b=decimal256(10, 2),d=timestamp[us, tz=UTC],e=decimal128(3, 0)"
    done("build - t --key a --names a,b,c,d,e --delimiter | --zone UTC --types", types, given=text)
    with lookupstore.open("t") as store:
        assert [str(field.type) for field in store.schema] == [
            "int64", "decimal256(10, 2)", "int64", "timestamp[us, tz=UTC]", "decimal128(3, 0)",
        ]  # fmt: skip
    for wrong, said in (
        ("b", "'b': give COLUMN=TYPE, such as zip=text"),
        ("b=money", "'money' is not a type; give text, int,"),
        ("b=money", "timestamp (in UTC), timestamp_ntz (without a zone)"),
        ("b=timestamp[us, tz=Mars]", "'timestamp[us, tz=Mars]' is not a type"),
        ("b=decimal(99,2)", "'decimal(99,2)' is not a type"),
        ("b=int,b=text", "the column 'b' is given twice"),
    ):
        assert said in refused("build a.csv s --key a --types", wrong)


def test_types_of_json_lines() -> None:
    Path("a.jsonl").write_text('{"id": 1, "v": 2}\n' * 100_000 + '{"id": 2, "v": 2.5}\n')
    line = "build a.jsonl s --key id --on-duplicate first"
    assert "give --types COLUMN=TYPE" in refused(line)
    done(f"{line} --types v=double")
    assert [row["v"] for row in rows_of("s")] == [2.0, 2.5]
    assert "is JSON lines; separators" in refused(f"{line} --overwrite --delimiter ;")


def test_options_of_text_for_files_with_types_are_refused() -> None:
    Path("a.csv").write_text("id,v\n1,2\n")
    done("build a.csv s --key id")
    with lookupstore.open("s") as store:
        pq.write_table(store.scan().read_all(), "a.parquet")
    for option in (
        "--delimiter ;", "--quote none", "--null NA", "--names a,b", "--decimal ,", "--types v=text"
    ):  # fmt: skip
        assert "has types of its own" in refused(f"build a.parquet t --key id {option}")
    assert "has no column 'w'; it has ['id', 'v']" in refused(
        "build a.csv t --key id --types w=int"
    )
    assert "';;': give one character of ASCII, or tab" in refused("build a.csv t --delimiter ;;")


def test_every_command_that_reads_rows_has_the_options() -> None:
    Path("a.csv").write_text("id\tv\n1\t'x'\n2\t-\n")
    options = "--delimiter tab --quote ' --null -"
    done(f"build a.csv s --key id {options}")
    done(f"upsert s a.csv {options}")
    assert rows_of("s") == [{"id": 1, "v": "x"}, {"id": 2, "v": None}]
    joined = run(f"join a.csv s --on id --prefix s_ --output csv {options}")
    assert joined.stdout == "id,v,s_v\n1,x,x\n2,,\n"
    Path("like.csv").write_text("id,v\n1,x\n")
    done("hudi create t --like like.csv --key id")
    done(f"hudi upsert t a.csv {options}")
    done(f"hudi merge t a.csv {options}", "--when", "matched then update set v = source.v || 'y'")
    found = HudiTable.open("t").scan(columns=["id", "v"]).to_pylist()
    assert found == [{"id": 1, "v": "xy"}, {"id": 2, "v": None}]


def test_columns_that_only_a_later_file_has_are_refused_with_types_too() -> None:
    Path("a").mkdir()
    Path("a/1.csv").write_text("id,v\n1,2\n")
    Path("a/2.csv").write_text("id,v,extra\n2,3,lost\n")
    done("hudi create t --like a/1.csv --key id")
    done("build a/1.csv s --key id")
    for line in ("hudi upsert t a/1.csv a/2.csv", "join a/*.csv s --on id --prefix s_"):
        for types in ("", " --types v=bigint"):
            assert "extra" in refused(f"{line}{types}"), line + types


def test_the_type_of_a_typed_column_is_kept_by_an_upsert() -> None:
    """A text column for numbers is an error; without `--types`, the store's type is read."""
    Path("a.csv").write_text("id,v\n1,2\n")
    done("build a.csv s --key id")
    assert "v" in refused("upsert s a.csv --types v=text")
    done("upsert s a.csv")


def test_decimal_commas() -> None:
    """Files of spreadsheets where a comma is before the fraction."""
    Path("a.csv").write_text("id;price\n1;3,14\n2;-0,5\n3;7\n4;\n")
    line = "build a.csv s --key id --delimiter ; --overwrite"
    done(f"{line} --decimal ,")
    assert [row["price"] for row in rows_of("s")] == [3.14, -0.5, 7.0, None]
    done(f"{line} --decimal comma --types", "price=decimal(5,2)")
    assert rows_of("s")[0]["price"] == Decimal("3.14")
    schema = pa.schema({"id": pa.int64(), "price": pa.float64()})
    HudiTable.create("t", schema, record_key="id", name="t")
    said = refused("hudi upsert t a.csv --delimiter ;")
    assert "has '3,14' in row 1; give --decimal ',', or write decimals with a point" in said
    done("hudi upsert t a.csv --delimiter ; --decimal ,")
    assert HudiTable.open("t").scan(columns=["price"])["price"].to_pylist() == [3.14, -0.5, 7, None]
    said = refused(f"{line} --types price=double")
    assert "has '3,14' in row 1; give --decimal ',', or write decimals with a point" in said
    assert "or give --types price=text" in said


def test_what_to_do_about_decimal_commas_and_points() -> None:
    for wrong, said in (
        (";;", "Invalid value for '--decimal': ';;': give one character of ASCII"),
        (";", "--delimiter and --decimal are both ';'; give two characters"),
        ('"', "--quote and --decimal are both"),
        ("7", "--decimal is '7'; give a point or a comma"),
    ):
        assert said in refused("build a.csv s --key id --delimiter ; --decimal", wrong)
    line = "build a.csv s --key id --delimiter ; --decimal ,"
    Path("a.csv").write_text("id;v\n1;1.234,5\n")
    said = refused(f"{line} --types v=double")
    assert "with --decimal ','; take out points between thousands\n" in said
    plain = refused("build a.csv s --key id --delimiter ; --types v=double")
    assert "has '1.234,5' in row 1; take out points between thousands, and give --decimal" in plain
    Path("a.csv").write_text("id;v\n1;3.14\n")
    said = refused(f"{line} --types v=double")
    assert "take out points between thousands, or leave out --decimal\n" in said
    Path("a.csv").write_text("id;v\n1;1,234\n")
    said = refused(f"{line} --types", "v=decimal(3,2)")
    assert "has '1,234' in row 1 with --decimal ','; give --types v=decimal(P,S) with more" in said
    Path("a.csv").write_text("id;v\n" + "1;2\n" * 300_000 + "2;2,5\n")
    said = refused("build a.csv s --key id --delimiter ;")
    assert "is int64 and has '2,5' in row 300001; give --decimal ',' --types v=double" in said
    done(f"{line} --types v=double --on-duplicate last")
    assert rows_of("s")[1] == {"id": 2, "v": 2.5}
    said = refused(f"{line} --types v=bigint --overwrite")
    assert "has '2,5' in row 300001 with --decimal ','; give --types v=double\n" in said


def test_a_table_whose_key_is_read_as_floats() -> None:
    Path("a.csv").write_text("nr,v\n1.0,a\n2.0,b\n")
    said = refused("hudi create t --like a.csv --key nr")
    assert "give --types nr=int64 if its values are whole numbers, else --types nr=text, or" in said
    done("hudi create t --like a.csv --key nr --types nr=int64")
    assert HudiTable.open("t").schema.field("nr").type == pa.int64()


def test_a_table_like_csv() -> None:
    Path("a.csv").write_text("id;day;v\n1;2026-03-01;1,5\n2;2026-03-02;\n")
    options = "--delimiter ; --decimal ,"
    line = f"hudi create t --like a.csv --key id --partition-by day {options}"
    said = refused(line)
    assert "--partition-by: the column 'day' is date32[day]" in said
    assert "; give --types day=text, or --like a file that has it as text" in said
    done(f"{line} --types day=text")
    kinds = {field.name: str(field.type) for field in HudiTable.open("t").schema}
    assert (kinds["day"], kinds["v"]) == ("string", "double")
    done(f"hudi upsert t a.csv {options}")
    found = HudiTable.open("t").scan(columns=["id", "day", "v"]).sort_by("id").to_pylist()
    assert found == [
        {"id": 1, "day": "2026-03-01", "v": 1.5}, {"id": 2, "day": "2026-03-02", "v": None},
    ]  # fmt: skip
    Path("none.csv").write_text("1|x\n")
    done(
        "hudi create u --like none.csv --key id --names id,seen --delimiter | --types", "seen=date"
    )
    assert HudiTable.open("u").schema.field("seen").type == pa.date32()
    pq.write_table(pa.table({"id": [1]}), "a.parquet")
    said = refused("hudi create v --like a.parquet --key id --delimiter ;")
    assert "has types of its own" in said


def test_a_table_like_a_file_with_types_of_its_own() -> None:
    pq.write_table(
        pa.table({"id": [1], "nr": [1.5], "day": [datetime.date(2026, 3, 1)]}), "a.parquet"
    )
    said = refused("hudi create t --like a.parquet --key id --partition-by day")
    assert "'day' is date32[day], whose text depends on settings of Hudi; give --like a fi" in said
    assert said.endswith("a file that has it as text\n")
    said = refused("hudi create t --like a.parquet --key nr")
    assert said.endswith("; give --like a file that has it as int64 or text\n")


def test_a_collecting_write_names_rows_that_do_not_parse(here: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "v": pa.float64()})
    HudiTable.create("t", schema, record_key="id", name="t")
    Path("a.csv").write_text("id;v\n1;1,5\n2;abc\nx;2\n4;\n")
    options = "--delimiter ; --decimal , --on-error collect"
    result = run(f"hudi upsert t a.csv {options}")
    assert result.exit_code == 0
    assert (
        f"row 2 (2): {here}/a.csv: the column 'v' is double and has 'abc' in row 2" in result.stderr
    )
    assert f"row 3: {here}/a.csv: the column 'id' is int64 and has 'x' in row 3" in result.stderr
    found = HudiTable.open("t").scan(columns=["id", "v"]).sort_by("id").to_pylist()
    assert found == [{"id": 1, "v": 1.5}, {"id": 4, "v": None}]
    typed = run(f"hudi upsert t a.csv {options} --types v=float", "--output", "json")
    assert json.loads(typed.stdout)["rows_failed"] == 2


def test_a_collecting_write_reads_times_in_their_format(here: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC")})
    HudiTable.create("t", schema, record_key="id", name="t")
    Path("a.csv").write_text("id,at\n1,1.5.2026 07:40\n2,31.2.2026 07:40\n3,2.5.2026 07:40\n")
    line = "hudi upsert t a.csv --zone UTC --types"
    kind = "at=timestamp(%d.%m.%Y %H:%M)"
    said = refused(line, kind)
    assert "has '31.2.2026 07:40' in row 2, which is not in the format '%d.%m.%Y %H:%M'" in said
    result = run(line, kind, "--on-error", "collect")
    assert result.exit_code == 0
    assert "has '31.2.2026 07:40' in row 2" in result.stderr
    found = HudiTable.open("t").scan(columns=["id", "at"]).sort_by("id").to_pylist()
    assert [(row["id"], row["at"].day) for row in found] == [(1, 1), (3, 2)]


def test_a_collecting_write_of_invalid_rows_only(here: Path) -> None:
    """The exit status is not 0, and a reason that many rows have is not printed for each."""
    schema = pa.schema({"id": pa.int64(), "v": pa.float64(), "w": pa.bool_()})
    HudiTable.create("t", schema, record_key="id", name="t")
    rows = [f"{at},x{at},true\n" for at in range(1, 61)] + ["61,1,-\n"] * 60
    Path("a.csv").write_text("id,v,w\n" + "".join(rows))
    line = "hudi upsert t a.csv --on-error collect"
    dry = run(f"{line} --dry-run")
    result = run(line)
    assert (dry.exit_code, result.exit_code) == (1, 1)
    assert dry.stderr == result.stderr
    v, w = (f"{here}/a.csv: the column {name} and has" for name in ("'v' is double", "'w' is bool"))
    assert result.stderr.splitlines() == [
        *(f"row {at} ({at}): {v} 'x{at}' in row {at}" for at in (1, 2, 3)),
        "… and 57 more rows with this reason",
        *(f"row {at} (61): {w} '-' in row {at}" for at in (61, 62, 63)),
        "… and 37 more rows with this reason",
        "… and 20 more rows",
        "Error: t: none of 120 rows can be written",
    ]
    said = run(line, "--output", "json")
    assert (said.exit_code, len(json.loads(said.stdout)["errors"])) == (1, 100)
    assert said.stderr == "Error: t: none of 120 rows can be written\n"
    Path("a.csv").write_text("id,v,w\n")
    assert run(line).exit_code == 0


def test_deletes_in_the_notation_of_the_rows() -> None:
    store = pa.table({"id": [1, 2, 3], "day": ["a", "b", "c"], "v": [1, 2, 3]})
    lookupstore.build(store, "s", key=["id", "day"]).close()
    Path("gone.csv").write_text("id;day\n1;a\n")
    assert "give --delimiter ';'" in refused("upsert s --deletes gone.csv")
    done("upsert s --deletes gone.csv --delimiter ;")
    assert [row["id"] for row in rows_of("s")] == [2, 3]
    Path("new.csv").write_text("4;d;4\n")
    Path("gone.csv").write_text("id;day\n2;b\n")
    done("upsert s new.csv --names id,day,v --deletes gone.csv --delimiter ;")
    assert [row["id"] for row in rows_of("s")] == [3, 4]
    pq.write_table(pa.table({"id": [3], "day": ["c"]}), "gone.parquet")
    done("upsert s new.csv --names id,day,v --deletes gone.parquet --delimiter ;")
    done("upsert s --deletes - --names id,day --delimiter |", given="4|d\n")
    assert rows_of("s") == []


def test_dates_that_are_text_and_how_to_read_them(here: Path) -> None:
    """As text, 31.01.2019 is greater than 01.02.2022, which --on-duplicate max:COLUMN compares."""
    Path("a.csv").write_text(
        "id;day;at;us;code\n1;31.01.2019;1.2.2026 7:40;1/31/2026;1.2\n"
        "1;01.02.2022;;2/28/2026;1.3.4\n"
    )
    said = run("build a.csv s --key id --delimiter ; --on-duplicate max:day")
    assert (said.exit_code, said.stderr) == (
        0,
        f"{here}/a.csv: the column 'day' is text, because its dates are written as '31.01.2019'; "
        "to read dates, give --types 'day=date(%d.%m.%Y)'\n"
        f"{here}/a.csv: the column 'at' is text, because its times are written as '1.2.2026 7:40'; "
        "to read times, give --types 'at=timestamp_ntz(%d.%m.%Y %H:%M)'\n"
        f"{here}/a.csv: the column 'us' is text, because its dates are written as '1/31/2026'; "
        "to read dates, give --types 'us=date(%m/%d/%Y)'\n",
    )
    types = ("day=date(%d.%m.%Y)", "us=text")
    line = "build a.csv s --key id --delimiter ; --on-duplicate max:day --overwrite --types"
    said = run(line, ",".join(types))
    assert (said.exit_code, said.stderr.count("is text"), rows_of("s")[0]["day"].year) == (
        0,
        1,
        2022,
    )


def test_days_that_no_month_has(here: Path) -> None:
    days = ["31.01.2019"] * 9 + ["30.02.2022"]
    Path("a.csv").write_text("id,day\n" + "".join(f"{n},{day}\n" for n, day in enumerate(days)))
    assert "give --types 'day=date(%d.%m.%Y)'" in run("head a.csv").stderr
    said = refused("build a.csv s --key id --types", "day=date(%d.%m.%Y)")
    assert said.endswith(
        "has '30.02.2022' in row 10, which is not in the format '%d.%m.%Y'; correct it, or "
        "give --null '30.02.2022' if it means null\n"
    )
    done("build a.csv s --key id --null 30.02.2022 --null '' --types", "day=date(%d.%m.%Y)")
    assert rows_of("s")[9]["day"] is None
