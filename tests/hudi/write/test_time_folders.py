"""Writes to tables whose folders are named by times, as another writer made them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.time_tables import CASES, ISO, NEW, NUMBERS, OLD, TEXTS, made, rows

from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable, WriteOptions


def stored(table: HudiTable) -> dict[int, tuple[str, str]]:
    """Return partition and value of each row, as both readers see them."""
    found = table.scan()
    if not table.options.partition_types:  # hudi-rs 0.5 takes `a:SIMPLE` for a column
        assert_same_rows(found, other_scan(Path(table.location.uri)))
    return {
        row["id"]: (row["_hoodie_partition_path"], row["value"])
        for row in found.sort_by("id").to_pylist()
    }


@pytest.mark.few(3)
@pytest.mark.parametrize("types", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("version", [6, 9])
def test_rows_come_to_the_folders_of_their_times(
    tmp_path: Path, version: int, case: str, types: bool
) -> None:
    _, schema, times = CASES[case]
    table = made(tmp_path / "t", version, case, types=types)
    start = "a=x/t=" if types else "t="
    given = rows(schema, *((at + 1, "x", time, "new") for at, (time, _) in enumerate(times)))
    done = table.upsert(given)
    assert (done.rows_updated, done.rows_inserted) == (1, len(times) - 1)
    wanted = {at + 1: (f"{start}{folder}", "new") for at, (_, folder) in enumerate(times)}
    assert stored(table) == wanted
    assert table.tag(given)["_partition"].to_pylist() == [one for one, _ in wanted.values()]
    # A key of a time of the same day is the same row, one of another day is not.
    assert table.upsert(given.slice(0, 2)).rows_inserted == 0
    assert table.delete(given.select(["id", "a", "t"]).slice(3)).rows_deleted == 1
    moved = rows(schema, (1, "x", times[2][0], "moved"))
    assert table.upsert(moved, options=WriteOptions(index="global-bloom")).rows_updated == int(
        times[2][1] == times[0][1]
    )
    assert stored(table)[1] == (f"{start}{times[2][1]}", "moved")
    table.insert_overwrite(rows(schema, (9, "x", times[3][0], "over")))
    assert stored(table)[9] == (f"{start}{times[3][1]}", "over")
    check = table.verify()
    assert check.is_ok, check
    assert HudiTable.open(tmp_path / "t").options == table.options


def refuse(table: HudiTable, schema: pa.Schema, match: str) -> None:
    before = table.timeline()
    given = rows(schema, (5, "x", CASES["numbers" if schema is NUMBERS else "texts"][2][0][0], "y"))
    for write in (table.upsert, table.bulk_insert, table.insert_overwrite, table.delete):
        with pytest.raises(FormatError, match=match):
            write(given)
    assert table.timeline() == before


def said(path: Path, changes: Mapping[str, str | None]) -> HudiTable:
    """Change what the properties of a table say."""
    file = path / ".hoodie" / "hoodie.properties"
    lines = file.read_text().splitlines()
    for name, value in changes.items():
        assert any(line.startswith(f"{name}=") for line in lines)
        lines = [line for line in lines if not line.startswith(f"{name}=")]
        if value is not None:
            lines.append(f"{name}={value}")
    file.write_text("\n".join(lines) + "\n")
    return HudiTable.open(path)


@pytest.mark.parametrize("version", [6, 9])
def test_what_the_table_does_not_confirm_is_refused(tmp_path: Path, version: int) -> None:
    other = made(tmp_path / "other", version, "numbers", folder="t=1970/01/02")
    refuse(other, NUMBERS, "by the properties of the table a row belongs to 't=1970/01/01'")
    assert other.scan().num_rows == 1
    refuse(made(tmp_path / "none", version, "texts", folder=""), TEXTS, "there are no rows that")
    prefix = OLD if version == 6 else NEW
    for at, (key, value, match) in enumerate(
        (
            ("output.dateformat", "yyyy/MMM/dd", "'MMM' in 'yyyy/MMM/dd' is not written here"),
            ("timezone", None, "there is no hoodie.keygen.timebased.output.timezone"),
            ("timestamp.type", "DATE_STRING", "input.dateformat is '': without it nobody knows"),
            ("timestamp.type", "EPOCHMICROSECONDS", None),
        )
    ):
        path = tmp_path / str(at)
        made(path, version, "numbers")
        table = said(path, {f"{prefix}{key}": value})
        if match is not None:
            refuse(table, NUMBERS, match)
        else:
            # The one row of the table does not tell these units apart; its writer has to be right.
            assert table.upsert(rows(NUMBERS, (2, "x", 10**15, "y"))).rows_inserted == 1
            assert stored(table)[2] == ("t=2001/09/09", "y")
    typed = made(tmp_path / "typed", version, "texts", types=True)
    assert typed.options.partition_types == ("SIMPLE", "TIMESTAMP")
    bare = said(tmp_path / "typed", {"hoodie.table.partition.fields": "a,t"})
    refuse(bare, TEXTS, r"partition.fields says of 'a' neither SIMPLE nor TIMESTAMP")


def test_options_under_hudis_names(tmp_path: Path) -> None:
    """A writer in Java is given them; here they have to say what the table says."""
    table = made(tmp_path / "t", 6, "texts")
    given = rows(TEXTS, (2, "x", "2024-03-05T00:00:00.000Z", "y"))
    options = {f"{NEW}{key}": value for key, value in ISO.items()}
    options["hoodie.datasource.write.keygenerator.class"] = "x.TimestampBasedKeyGenerator"
    assert table.upsert(given, options=options).rows_inserted == 1
    for name, match in (
        (f"{NEW}output.dateformat", "dateformat is 'x'; the table has 'yyyy-MM-dd'"),
        (f"{OLD}output.timezone", "timezone is 'x'; the table has none: leave"),
    ):
        with pytest.raises(ValueError, match=match):
            table.upsert(given, options=options | {name: "x"})
        with pytest.raises(ValueError, match="new tables have no folders of times"):
            HudiTable.create(tmp_path / "n", TEXTS, record_key="id", options={name: "x"})


def test_rows_that_have_no_folder(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 9, "texts")
    for time, match in (
        (None, "row 2: the partition column 't' is null; give a time"),
        ("2024-03-01", "row 2: the partition column 't' has '2024-03-01', not a time in a format"),
    ):
        with pytest.raises(ValueError, match=match):
            table.upsert(rows(TEXTS, (1, "x", CASES["texts"][2][0][0], "y"), (2, "x", time, "y")))
    assert stored(table) == {1: ("t=2024-03-01", "first")}
    times = [None, CASES["texts"][2][0][0], "2024-03-01", CASES["texts"][2][3][0], "x"]
    given = rows(TEXTS, *((number, "x", time, "y") for number, time in enumerate(times, 1)))
    done = table.upsert(given, options=WriteOptions(on_error="collect"))
    assert (done.rows_failed, done.rows_inserted) == (3, 2)
    assert [(one.row, one.key) for one in done.errors] == [(0, "1"), (2, "3"), (4, "5")]
    assert [one.reason.startswith("the partition column 't' ") for one in done.errors] == [True] * 3
    assert stored(table).keys() == {1, 2, 4}
    assert table.verify().is_ok
