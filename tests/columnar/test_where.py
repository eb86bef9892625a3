"""Lookups in rows that meet a filter, compared with a dict of the rows that DuckDB selects."""

from __future__ import annotations

import datetime
import decimal
import pickle
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lookupstore
from lookupstore import DuplicateKeyError, FormatError
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency

CONDITIONS = [
    "n > 3",
    "n > 3 and name = 'b'",
    "n is null or name in ('a', 'c')",
    "not (n > 3)",
    "name like 'a%' and id <> 2",
    "id > 20",
    "added = 5",
    "added is null",
    "day = date '2024-01-02'",
    "day > date '2024-01-01' and n < 5",
    "false",
    "true",
]


@pytest.fixture
def residency(tmp_path: Path) -> Residency:
    return Residency(tmp_path / "cache", quota=64 << 20)


def files_of(folder: Path, rng: random.Random) -> pa.Table:
    """Write files with different columns below `day=` folders, and return all rows."""
    tables = []
    kinds = [pa.int8(), pa.int32()]
    keys = rng.sample(range(60), 45)
    for number, day in enumerate(["2024-01-01", "2024-01-02", "2024-01-02"]):
        ids = keys[number * 15 : number * 15 + 15]
        columns: dict[str, pa.Array] = {
            "id": pa.array(ids, pa.int64()),
            "n": pa.array([rng.choice([None, *range(8)]) for _ in ids], kinds[number % 2]),
            "name": pa.array([rng.choice(["a", "b", "c", "ab", None]) for _ in ids]),
        }
        if number == 2:
            columns["added"] = pa.array([rng.choice([5, None]) for _ in ids], pa.int16())
        table = pa.table(columns)
        path = folder / f"day={day}" / f"{number}.{'orc' if number == 1 else 'parquet'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".orc":
            orc.write_table(table, path)
        else:
            pq.write_table(table, path, row_group_size=4)
        date = datetime.date.fromisoformat(day)
        tables.append(table.append_column("day", pa.array([date] * len(ids), pa.date32())))
    return pa.concat_tables(tables, promote_options="permissive")


@pytest.mark.parametrize("number", range(6))
def test_only_rows_that_duckdb_selects_are_found(
    tmp_path: Path, residency: Residency, seed: int, number: int
) -> None:
    rng = random.Random(seed + number)
    rows = files_of(tmp_path / "t", rng)
    for condition in CONDITIONS:
        build: Any = rng.choice(["auto", "never", "always"])
        selected = duckdb.sql(f"select id, name from rows where {condition}").fetchall()
        expected = dict(selected)
        with ColumnarFiles(
            tmp_path / "t", key="id", columns=["name"], where=condition, build=build,
            residency=residency,
        ) as files:  # fmt: skip
            wanted = rng.sample(range(-2, 62), rng.choice([1, 64]))
            found = pickle.loads(pickle.dumps(files)).lookup(wanted)["name"].to_pylist()
            assert found == [expected.get(one) for one in wanted], condition
            assert files.contains(wanted).to_pylist() == [one in expected for one in wanted]
            scanned = [row["id"] for batch in files.scan() for row in batch.to_pylist()]
            assert scanned == sorted(expected), condition
            files.verify()
        with lookupstore.build(
            rows, tmp_path / "s", key="id", where=condition, overwrite=True, allow_empty=True
        ) as store:
            assert list(store) == sorted(expected)


def test_a_build_reads_only_rows_that_meet_the_condition(tmp_path: Path, seed: int) -> None:
    files_of(tmp_path / "t", random.Random(seed))
    path = tmp_path / "t" / "day=2024-01-02" / "2.parquet"
    n = pq.read_table(path)["n"]
    ids = pq.read_table(path)["id"]
    options: dict[str, Any] = {"key": "id", "overwrite": True, "retain": 0}
    with lookupstore.build(path, tmp_path / "s", where=("n", ">", 3), **options) as store:
        assert list(store) == sorted(ids.filter(pc.greater(n, 3)).to_pylist())
    # Another condition of the same file is another source.
    with lookupstore.build(path, tmp_path / "s", where=("n", "<=", 3), **options) as store:
        assert list(store) == sorted(ids.filter(pc.less_equal(n, 3)).to_pylist())


def test_rows_that_do_not_count_may_repeat_a_key(tmp_path: Path, residency: Residency) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"id": [1, 1, 2, 1], "current": [False, True, True, False], "n": [1, 2, 3, 4]})
    pq.write_table(table, path)
    options: dict[str, Any] = {"key": "id", "columns": ["n"], "residency": residency}
    for build in ("never", "always"):
        with ColumnarFiles(path, where="current", build=build, **options) as files:
            assert files.lookup([1, 2, 3])["n"].to_pylist() == [2, 3, None]
        for rule, n in (("first", 1), ("last", 4)):
            with ColumnarFiles(
                path, where="not current", on_duplicate=rule, build=build, **options
            ) as files:
                assert files.lookup([1, 2])["n"].to_pylist() == [n, None]
        with (
            ColumnarFiles(path, where="not current", build=build, **options) as files,
            pytest.raises(DuplicateKeyError, match="id=1"),
        ):
            files.lookup([1])


def test_folders_that_the_condition_excludes_are_not_read(
    tmp_path: Path, residency: Residency, seed: int
) -> None:
    files_of(tmp_path / "t", random.Random(seed))
    options: dict[str, Any] = {"key": "id", "residency": residency}
    with ColumnarFiles(tmp_path / "t", where="day = date '2024-01-01'", **options) as files:
        assert files.num_files == 1
    with ColumnarFiles(tmp_path / "t", where="day < date '2020-01-01'", **options) as files:
        assert files.num_files == 0
        assert files.contains([1, 2]).to_pylist() == [False, False]


def test_conditions_that_do_not_fit_are_refused(tmp_path: Path, seed: int) -> None:
    files_of(tmp_path / "t", random.Random(seed))
    path = tmp_path / "t"
    with pytest.raises(ValueError, match=r"where: nam is no column; did you mean 'name'\?"):
        ColumnarFiles(path, key="id", where="nam = 'a'")
    with pytest.raises(ValueError, match=r"where: there is no column 'nam'; did you mean 'name'\?"):
        ColumnarFiles(path, key="id", where=("nam", "=", "a"))
    with pytest.raises(TypeError, match="where: "):
        ColumnarFiles(path, key="id", where=pc.field("name") > 5)
    with pytest.raises(TypeError, match="where: 5 is no filter; give"):
        lookupstore.build(pa.table({"id": [1]}), tmp_path / "s", key="id", where=5)  # type: ignore[arg-type]
    with pytest.raises(
        FormatError, match="cannot be written with where=, which leaves out rows; open"
    ):
        ColumnarFiles(path, key="id", where="n > 3").write_paimon_files(tmp_path / "p")


@pytest.mark.filterwarnings("ignore:filter. .* finds no row:UserWarning")
@pytest.mark.parametrize("build", ["never", "always"])
def test_conditions_without_columns_hold_for_all_rows_or_none(
    tmp_path: Path, residency: Residency, build: Any
) -> None:
    pq.write_table(pa.table({"id": [1, 2], "n": [None, 5]}), tmp_path / "a.parquet")
    for condition, found in (
        ("true", True), ("false", False), ("n = null", False), (("n", "!=", None), False),
    ):  # fmt: skip
        with ColumnarFiles(
            tmp_path / "a.parquet", key="id", where=condition, build=build, residency=residency
        ) as files:
            assert files.contains([1, 2, 3]).to_pylist() == [found, found, False]


@pytest.mark.parametrize("kind", [pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_texts_of_any_layout_are_compared(tmp_path: Path, kind: pa.DataType) -> None:
    rows = pa.table({"id": [1, 2, 3], "n": pa.array(["x", "y", None]).cast(kind)})
    for condition in (("n", "=", "x"), ("n", "in", ["x"]), ("n", "like", "x%"), "n = 'x'"):
        with lookupstore.build(
            rows, tmp_path / "s", key="id", where=condition, overwrite=True
        ) as store:
            assert list(store) == [1], condition


def test_integers_are_compared_with_decimals(tmp_path: Path) -> None:
    price = pa.array([decimal.Decimal("4999.99"), decimal.Decimal("5000.01")], pa.decimal128(6, 2))
    rows = pa.table({"id": [1, 2], "price": price})
    for condition in (("price", ">", 5000), ("price", "between", 5000, 6000), "price > 5000"):
        with lookupstore.build(
            rows, tmp_path / "s", key="id", where=condition, overwrite=True
        ) as store:
            assert list(store) == [2], condition
    with pytest.raises(ValueError, match="no rows"):
        lookupstore.build(
            rows, tmp_path / "s", key="id", where=("price", "in", [1]), overwrite=True
        )


def test_values_of_other_types_are_refused_at_once(tmp_path: Path) -> None:
    at = pa.array([0], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": [1], "n": pa.array([1], pa.int32()), "at": at}), tmp_path / "a")
    for condition, said in (
        (("n", ">", "4"), "the column 'n' is int32, and '4' does not fit; give a number"),
        (
            ("at", ">", datetime.datetime(2026, 1, 1)),
            "the column 'at' is timestamp.* give a datetime with tzinfo",
        ),
        (["n", ">", 4], r"is a list, whose parts are filters; give a tuple: \('n', '>', 4\)"),
    ):
        with pytest.raises(TypeError, match=said):
            ColumnarFiles(tmp_path / "a", key="id", where=condition)


def test_files_are_read_where_there_is_no_temporary_folder(
    tmp_path: Path, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"id": [1, 2], "n": [4, 5]}), tmp_path / "a.parquet")

    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    with ColumnarFiles(
        tmp_path / "a.parquet", key="id", build="never", residency=residency
    ) as files:
        assert files.lookup([2, 3])["n"].to_pylist() == [5, None]
