"""What a write says of its rows, and rows that cannot be written: left out, counted and named."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi.oracle import assert_same_rows, other_scan

import lookupstore
from lookupstore.hudi import HudiTable, RowError, WriteOptions
from lookupstore.hudi.write import pipeline, steps
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.source.text_values import MISFITS

pytestmark = pytest.mark.drawn(0.4)

SCHEMA = pa.schema({"id": pa.string(), "p": pa.string(), "ts": pa.int64(), "n": pa.int32()})
# As they are given: of a wider type, of which not each value fits.
GIVEN = pa.schema({"n": pa.int64(), "id": pa.string(), "p": pa.string(), "ts": pa.int64()})
COLLECT = WriteOptions(on_error="collect")
Row = dict[str, Any]


def make(path: Path, version: int = 9, **chosen: Any) -> HudiTable:
    chosen = {"record_key": "id", "partition_by": "p", "ordering": "ts", **chosen}
    return HudiTable.create(path, SCHEMA, version=version, name="t", **chosen)


def random_rows(rng: random.Random, count: int) -> list[Row]:
    return [
        {
            "id": rng.choice([None, "", *map(str, range(30))]),
            "p": rng.choice(["a", "b/c", None, "..", ".hoodie/x", "", "a"]),
            "ts": rng.choice([None, *range(9)]),
            "n": rng.choice([None, 1, -5, 2**31 - 1, 2**31, -(2**40)]),
        }
        for _ in range(count)
    ]


def fault(row: Row, *, ordered: bool) -> tuple[str | None, str] | None:
    """Return the key and what is wrong with a row, in the order in which it is looked at."""
    if not row["id"]:
        return None, "no record key: id is null or empty"
    if row["n"] is not None and not -(2**31) <= row["n"] < 2**31:
        return row["id"], f"rows: 'n' has {row['n']}, which int32 cannot hold; "
    if ordered and row["ts"] is None:
        return row["id"], "the ordering column 'ts' is null"
    if row["p"] == "..":
        return row["id"], "the partition path '..' does not name a folder of its own: "
    if row["p"] == ".hoodie/x":
        return row["id"], "the partition path '.hoodie/x' is inside .hoodie, the table's own folder"
    return None


def given(rows: list[Row], size: int) -> pa.RecordBatchReader:
    table = pa.Table.from_pylist(rows, GIVEN)
    return pa.RecordBatchReader.from_batches(GIVEN, table.to_batches(max_chunksize=size))


@pytest.mark.few(2)
@pytest.mark.parametrize("memory", [1 << 16, 1 << 29])
@pytest.mark.parametrize("verb", ["upsert", "insert", "bulk_insert", "insert_overwrite"])
def test_bad_rows_are_left_out(tmp_path: Path, verb: str, memory: int, seed: int) -> None:
    rng = random.Random(seed)
    rows = random_rows(rng, 400) + random_rows(rng, 1200) * (memory < 1 << 20)
    faults = [fault(row, ordered=verb in ("upsert", "insert_overwrite")) for row in rows]
    good = [row for row, wrong in zip(rows, faults, strict=True) if wrong is None]
    bad = [(number, *wrong) for number, wrong in enumerate(faults) if wrong is not None]
    assert len(good) > 50
    table, alone = make(tmp_path / "t"), make(tmp_path / "alone")
    # Of those of a batch, the ones with a fault of the first kind come first.
    size = rng.choice([1, 7, 7])
    options = WriteOptions(on_error="collect", memory=memory)
    tried = getattr(table, verb)(given(rows, size), options=options, dry_run=True)
    result = getattr(table, verb)(given(rows, size), options=options)
    for one in (tried, result):
        assert (one.rows_read, one.rows_failed) == (len(rows), len(bad))
        assert len(one.errors) == 100
        if size == 1:
            for error, (number, key, reason) in zip(one.errors, bad, strict=False):
                assert (error.row, error.key) == (number, key)
                assert error.reason.startswith(reason)
        else:
            known = {number: (key, reason) for number, key, reason in bad}
            assert all(error.key == known[error.row][0] for error in one.errors)
            assert all(error.reason.startswith(known[error.row][1]) for error in one.errors)
    wanted = getattr(alone, verb)(given(good, 99))
    assert (wanted.rows_read, wanted.rows_failed, wanted.errors) == (len(good), 0, ())
    for name in ("rows_inserted", "rows_combined", "rows_written", "files_new"):
        assert getattr(result, name) == getattr(wanted, name), name
    columns = SCHEMA.names
    assert sorted(map(str, table.scan(columns=columns).to_pylist())) == sorted(
        map(str, alone.scan(columns=columns).to_pylist())
    )
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


def test_nothing_is_left_out_unless_told(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    good = {"id": "k", "p": "a", "ts": 1, "n": 1}
    for number, bad in enumerate([{"id": None}, {"id": ""}, {"ts": None}, {"n": 2**31}]):
        rows = [good] * (number + 3) + [{**good, **bad}]
        said = f"row {number + 4}: |row {number + 4} has|cannot hold"
        with pytest.raises(ValueError, match=said):
            table.upsert(given(rows, 2))
    with pytest.raises(ValueError, match=r"the partition path '\.\.' does not name"):
        table.upsert(given([{**good, "p": ".."}], 2))
    assert table.timeline() == []
    with pytest.raises(ValueError, match="on_error is 'ignore'; give one of 'raise', 'collect'"):
        WriteOptions(on_error="ignore")  # type: ignore[arg-type]


def test_all_rows_are_bad(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    rows = [{"id": "k", "p": "a", "ts": 1, "n": 2**31 + number} for number in range(3000)]
    result = table.upsert(given(rows, 1000), options=COLLECT)
    assert (result.rows_read, result.rows_failed, result.rows_written) == (3000, 3000, 0)
    assert [one.row for one in result.errors] == list(range(100))
    assert result.errors[7].reason.startswith("rows: 'n' has ")
    assert table.scan().num_rows == 0


def test_columns_are_refused_as_ever(tmp_path: Path) -> None:
    """What is wrong with all rows is an error of the call."""
    table = make(tmp_path / "t")
    with pytest.raises(ValueError, match="rows have no columns 'id', 'ts'"):
        table.upsert(pa.table({"p": ["a"]}), options=COLLECT)
    with pytest.raises(TypeError, match="'n' is string; give int32"):
        table.upsert(pa.table({"id": ["a"], "p": ["a"], "ts": [1], "n": ["x"]}), options=COLLECT)


def test_an_upsert_of_a_table_without_partitions(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 6, partition_by=(), ordering=None, record_key=["id", "p"])
    rows = pa.table({"id": ["a", None, "b", ""], "p": ["x", None, None, ""]})
    result = table.upsert(rows, missing="null", options=COLLECT)
    assert result.errors == (
        RowError(1, None, "no record key: id, p are all null or empty"),
        RowError(3, None, "no record key: id, p are all null or empty"),
    )
    assert (result.rows_inserted, result.rows_combined) == (2, 0)


def test_what_a_write_counts(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    sizing = FileSizing(small_file_limit=0)
    rows = [{"id": str(at), "p": "abc"[at % 3], "ts": 1, "n": at} for at in range(30)]
    result = table.bulk_insert(given(rows, 9))
    assert (result.rows_read, result.rows_combined, result.rows_inserted) == (30, 0, 30)
    assert result.files_unchanged is None
    options = WriteOptions(sizing=sizing)
    again = [rows[0], {**rows[0], "ts": 5}, {**rows[3], "ts": 0}, {**rows[1], "id": "x"}]
    result = table.upsert(given(again, 2), options=options)
    assert (result.rows_read, result.rows_combined, result.rows_failed) == (4, 1, 0)
    # One is older than what is there.
    assert (result.rows_inserted, result.rows_updated, result.rows_deleted) == (1, 1, 0)
    assert (result.files_new, len(result.files_rewritten), result.files_unchanged) == (1, 1, 2)
    assert list(result.seconds) == ["read", "tag", "plan", "write", "commit"]
    assert all(taken >= 0 for taken in result.seconds.values())
    files = {one.current.path: one.current.bytes for one in table.file_groups()}
    written = [size for path, size in files.items() if result.instant.time in path]
    assert len(written) == 2
    assert result.bytes_written == sum(written)

    keys = pa.table({"id": ["0", "x", "0", "none"]})
    result = table.delete(keys)
    assert (result.rows_read, result.rows_combined, result.rows_deleted) == (4, 1, 2)
    assert (len(result.files_rewritten), result.files_unchanged) == (2, 2)
    result = table.insert_overwrite(given(rows[:2], 2))
    assert (result.rows_read, len(result.files_replaced), result.files_unchanged) == (2, 3, 1)
    result = table.delete_partition("c")
    assert (result.rows_read, len(result.files_replaced), result.files_unchanged) == (0, 1, 2)
    result = table.insert_overwrite_table(given(rows, 30), dry_run=True)
    assert (result.rows_read, len(result.files_replaced), result.files_unchanged) == (30, 2, 0)


def test_seconds_of_a_step_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step_times = pipeline.WritePipeline(make(tmp_path / "t").view(), WriteOptions())
    ticks = iter([0.0, 1.0, 4.0, 10.0, 20.0, 22.0])
    monkeypatch.setattr(steps.time, "perf_counter", lambda: next(ticks))
    with step_times.step("read"), step_times.step("tag"):
        pass
    with step_times.step("read"):
        pass
    assert step_times.seconds == {"tag": 3, "read": 7 + 2}


@pytest.mark.parametrize("kind", ["path", "open file"])
def test_texts_that_do_not_parse_are_left_out(tmp_path: Path, kind: str, seed: int) -> None:
    """Rows of CSV whose values are not of the table's types, with their rows in the file."""
    rng = random.Random(seed)
    file = tmp_path / "rows.csv"
    rows = [
        [str(at) if rng.random() < 0.9 else "", "a", rng.choice(["1", "2"]),
         rng.choice(["5", "-7", "x", "1.5", ""])]
        for at in range(300)
    ]  # fmt: skip
    file.write_text("id,p,ts,n\n" + "".join(",".join(row) + "\n" for row in rows))
    bad = {}
    for at, (key, _, _, number) in enumerate(rows):
        if number in ("x", "1.5"):
            said = f"the column 'n' is int32 and has {number!r} in row {at + 1}"
            bad[at] = RowError(at, key or None, f"{file}: {said}")
        elif not key:
            bad[at] = RowError(at, None, "no record key: id is null or empty")
    table = make(tmp_path / "t")
    with pytest.raises(ValueError, match=r"rows.csv: the column 'n' is int32 and has"):
        table.upsert(file)
    assert table.timeline() == []
    if kind == "path":
        result = table.upsert(file, options=COLLECT)
    else:
        with file.open("rb") as opened:
            result = table.upsert(opened, options=COLLECT)
    assert (result.rows_read, result.rows_failed) == (300, len(bad))
    assert len(result.errors) == min(len(bad), 100)
    assert all(bad[one.row] == one for one in result.errors)
    wanted = {
        key: None if number == "" else int(number)
        for at, (key, _, _, number) in enumerate(rows)
        if at not in bad
    }
    found = table.scan(columns=["id", "n"]).to_pylist()
    assert {row["id"]: row["n"] for row in found} == wanted
    assert len(found) == len(wanted)


def test_keys_of_texts_that_do_not_parse(tmp_path: Path) -> None:
    """A key with a part that does not parse is not shown, and its row has that reason."""
    schema = pa.schema({"id": pa.int64(), "day": pa.string(), "v": pa.date32()})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["id", "day"], name="t")
    file = tmp_path / "rows.csv"
    file.write_text("id,day,v\n1,mo,2026-01-02\nx,mo,2026-01-02\n2,tu,yesterday\n,,soon\n")
    result = table.insert(file, options=COLLECT)
    said = [(one.row, one.key, one.reason.partition(": ")[2]) for one in result.errors]
    assert said == [
        (1, None, "the column 'id' is int64 and has 'x' in row 2"),
        (2, "id:2,day:tu", "the column 'v' is date32[day] and has 'yesterday' in row 3"),
        (3, None, "the column 'v' is date32[day] and has 'soon' in row 4"),
    ]
    assert table.scan(columns=["id"]).to_pylist() == [{"id": 1}]


def test_a_column_of_the_rows_is_no_column_of_reasons(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    file = tmp_path / "rows.csv"
    file.write_text(f"id,p,ts,n,{MISFITS}\na,a,1,1,x\n")
    for rows in (file, pa.table({"id": ["a"], "p": ["a"], "ts": [1], "n": [1], MISFITS: ["x"]})):
        with pytest.raises(ValueError, match=f"the table has no column '{MISFITS}'"):
            table.upsert(rows, options=COLLECT)
    lookupstore.build(file, tmp_path / "s", key="id").close()
    with lookupstore.open(tmp_path / "s") as store:
        assert store["a"] == {"p": "a", "ts": 1, "n": 1, MISFITS: "x"}


def test_a_table_is_not_replaced_by_no_rows(tmp_path: Path) -> None:
    """All rows are wrong: an overwrite of the whole table would leave nothing."""
    table = make(tmp_path / "t")
    table.insert(pa.table({"id": ["1"], "p": ["a"], "ts": [1], "n": [1]}))
    wrong = pa.table({"id": [None, ""], "p": ["a", "a"], "ts": [1, 1], "n": [1, 1]}, GIVEN)
    with pytest.raises(ValueError, match=r"none of 2 rows can be written, and the table would"):
        table.insert_overwrite_table(wrong, options=COLLECT)
    assert table.scan().column("id").to_pylist() == ["1"]
    assert len(table.timeline()) == 1
    table.insert_overwrite_table(SCHEMA.empty_table())  # no rows are no error
    assert table.scan().num_rows == 0
