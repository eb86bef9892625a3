"""Advice about clustering: what is said of an order is what is measured when rows are in it."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lookupstore.hudi import HudiTable
from lookupstore.hudi.clustering import SimulatedOrder
from lookupstore.hudi.clustering.simulation import NumberedColumn
from lookupstore.hudi.layout import sample

pytestmark = pytest.mark.drawn(0.4)

pytest.importorskip("sqlglot")

SEED = int(os.environ.get("LOOKUPSTORE_TEST_SEED", "19"))
_ROWS, _PER_WRITE = 40_000, 5_000
# How far what is said may be from what is measured: a share of the files, a file of each partition,
# and a share of what is measured; and on average over all queries.
_OFF, _OFF_OF_IT, _OFF_ON_AVERAGE = 0.1, 0.2, 0.05


def rows_of(rng: np.random.Generator) -> pa.Table:
    """Return rows with an even column, a skewed one, one of few values, and random ids."""
    days = [f"d{one}" for one in rng.integers(0, 3, _ROWS)]
    price = np.minimum(rng.zipf(1.3, _ROWS), 10**6).astype(float)
    return pa.table(
        {
            "id": [f"{one:016x}" for one in rng.integers(0, 2**62, _ROWS)],
            "km": rng.integers(0, 10**6, _ROWS),
            "price": pa.array(price, mask=rng.random(_ROWS) < 0.02),
            "name": [f"n{one:05}" for one in rng.integers(0, 50_000, _ROWS)],
            "kind": [f"k{one}" for one in rng.integers(0, 4, _ROWS)],
            "day": days,
        }
    )


def table_of(path: Path, rows: pa.Table, partition_by: tuple[str, ...] = ()) -> HudiTable:
    table = HudiTable.create(path, rows, record_key="id", partition_by=partition_by)
    for start in range(0, _ROWS, _PER_WRITE):
        table.bulk_insert(rows.slice(start, _PER_WRITE))
    table.collect_statistics()
    return table


QUERIES: list[Any] = [
    "km between 300000 and 309999",
    "km > 990000 or km < 5000",
    "price = 1 and km < 50000",
    ("price", ">", 1000),
    "name like 'n012%'",
    "name in ('n00001', 'n40000') and kind = 'k1'",
    "km between 540000 and 639999 and name between 'n18000' and 'n22999'",
]


def measured(table: HudiTable, query: Any) -> float:
    funnel = table.explain_scan(query)
    return funnel.statistics.count / funnel.files.count


def of(orders: tuple[SimulatedOrder, ...], by: tuple[str, ...], curve: str) -> SimulatedOrder:
    return next(one for one in orders if set(one.by) == set(by) and one.curve == curve)


@pytest.mark.few(1)
@pytest.mark.parametrize("sampled", [1 << 18, 8192], ids=["all rows", "some rows"])
@pytest.mark.parametrize("partition_by", [(), ("day",)], ids=["plain", "partitions"])
def test_what_is_said_is_what_is_measured(
    sampled: int, partition_by: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = SEED * 10 + len(partition_by)
    print(f"seed {seed}")
    monkeypatch.setattr(sample, "SAMPLE_ROWS", sampled)
    table = table_of(tmp_path / "t", rows_of(np.random.default_rng(seed)), partition_by)
    total = sum(one.current.bytes for one in table.file_groups())
    size = total // 40
    advice = table.advise_clustering(QUERIES, target_file_sizes=[size, 2 * size])
    assert advice.rows == _ROWS
    assert (advice.rows_sampled == _ROWS) == (sampled > _ROWS)
    assert min(sampled // 2 - 200, _ROWS - 1) < advice.rows_sampled
    assert advice.partitions == (3 if partition_by else 1)
    for query, (files, _) in zip(QUERIES, advice.now.queries, strict=True):
        assert files == pytest.approx(measured(table, query)), query
    assert advice.best is not None
    tried = [
        advice.best,
        of(advice.orders, ("km", "name"), "grid"),
        of(advice.orders, ("km", "price", "name"), "hilbert"),
        of(advice.orders, ("km", "price"), "zorder"),
        of(advice.orders, ("name",), "linear"),
    ]
    for one in tried:
        assert one.curve is not None
        table.cluster(list(one.by), curve=one.curve, target_file_size=one.target_file_size)
        files = len(table.file_groups())
        assert files == pytest.approx(one.files, rel=0.1, abs=2)
        off = []
        for query, (said, _) in zip(QUERIES, one.queries, strict=True):
            found = measured(table, query)
            off.append(said - found)
            # At the edge of a box a file of each partition may be on the other side.
            most = _OFF + advice.partitions / files + _OFF_OF_IT * found
            assert abs(off[-1]) <= most, (one.by, one.curve, query, said, found)
        print(one.by, one.curve, float(np.mean(off)))
        # Which rows a sample has depends on the names of files: its ends differ from run to run.
        most = _OFF_ON_AVERAGE * (1 if advice.rows_sampled == _ROWS else 2)
        assert abs(float(np.mean(off))) <= most, (one.by, one.curve, off)


def test_ids_that_nobody_asks_for_are_named(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", rows_of(np.random.default_rng(SEED)))
    size = sum(one.current.bytes for one in table.file_groups()) // 16
    advice = table.advise_clustering(
        ["km < 10000", "lower(name) = 'n1'"],
        columns=["id", "km", "name"],
        weights=[9, 1],
        target_file_sizes=[size],
    )
    assert [name for name, _ in advice.useless] == ["id", "name"]
    assert advice.best is not None
    assert advice.best.by == ("km",)
    assert "id is of no use: no query asks for it" in str(advice)
    assert "cost as much or more" not in str(advice)
    many = replace(advice, orders=advice.orders[:1] * 20)
    assert "8 more orders cost as much or more; see `orders`." in str(many)
    assert "<td>km</td>" in advice._repr_html_()
    assert advice.best.read_files == pytest.approx(0.9 * advice.best.queries[0][0] + 0.1)
    alone = table.advise_clustering(columns="km", target_file_sizes=[size])
    assert alone.queries == ("km: one value", "km: 1 % of rows")
    assert alone.best is not None
    assert alone.to_json()["orders"][0]["by"] == ("km",)


def test_a_table_that_lies_well_is_left_alone(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", rows_of(np.random.default_rng(SEED)))
    size = sum(one.current.bytes for one in table.file_groups()) // 20
    table.cluster("km", target_file_size=size)
    advice = table.advise_clustering(["km < 10000"], target_file_sizes=[size, 4 * size])
    assert advice.best is None
    assert "No order that was tried costs less" in str(advice)


def test_of_many_partitions_some_stand_for_all(tmp_path: Path) -> None:
    rows = rows_of(np.random.default_rng(SEED))
    days = pa.array([f"d{at % 30}" for at in range(_ROWS)])
    table = HudiTable.create(tmp_path / "t", rows, record_key="id", partition_by="day")
    table.bulk_insert(rows.set_column(rows.schema.get_field_index("day"), "day", days))
    table.bulk_insert(rows.slice(0, 100))
    table.collect_statistics()
    size = sum(one.current.bytes for one in table.file_groups()) // 120
    advice = table.advise_clustering(["km < 100000"], target_file_sizes=[size])
    assert (advice.partitions, advice.partitions_sampled) == (30, 12)
    assert advice.rows == pytest.approx(_ROWS + 100, rel=0.1)
    assert advice.best is not None
    table.cluster("km", target_file_size=size)
    assert measured(table, "km < 100000") == pytest.approx(advice.best.read_files, abs=0.08)


def test_what_is_asked_wrongly_is_said(tmp_path: Path) -> None:
    nan, inf = float("nan"), float("inf")
    rows = pa.table({"id": [1, 2], "list": [[1], [2]]})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id")
    table.bulk_insert(rows)
    for arguments, kind, said in (
        ({}, ValueError, "give filters that are asked, or columns"),
        ({"columns": ["x"]}, KeyError, "no column 'x'"),
        ({"columns": ["list"]}, TypeError, "without order"),
        ({"queries": ["x = 1"]}, ValueError, "x is no column"),
        ({"queries": ["id = 1"], "weights": []}, ValueError, "weights are not one for each"),
        ({"queries": ["id = 1"], "weights": [0]}, ValueError, "weights are not one for each"),
        ({"queries": ["id = 1"], "weights": ["a"]}, ValueError, "for each query, a number above 0"),
        ({"queries": ["id = 1"], "weights": [nan]}, ValueError, "for each query, a number above 0"),
        ({"queries": ["id = 1", "id = 2"], "weights": [inf, 1]}, ValueError, "a number above 0"),
        ({"queries": [pc.field("x") > 1]}, ValueError, "'x' is no column; the table has"),
        ({"queries": [pc.field("id") > "a"]}, ValueError, "no kernel"),
        ({"queries": ["id = 1"], "target_file_sizes": []}, ValueError, "sizes is empty; give"),
        ({"queries": ["id = 1"], "target_file_sizes": "0"}, ValueError, "sizes is '0'; give"),
    ):
        with pytest.raises(kind, match=said):
            table.advise_clustering(**arguments)  # type: ignore[arg-type]
    empty = HudiTable.create(tmp_path / "empty", rows, record_key="id")
    assert empty.advise_clustering(["id = 1"]).best is None
    assert table.advise_clustering(["id is null"]).now.read_files == 0


def test_a_column_without_values(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "a": pa.nulls(2, pa.int64())})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id")
    for _ in range(2):  # nor has a table without rows any
        advice = table.advise_clustering(columns="a")
        assert (advice.best, advice.queries, advice.now.read_files) == (None, (), 0)
        assert [name for name, _ in advice.useless] == ["a"]
        assert "No order that was tried costs less" in str(advice)
        table.bulk_insert(rows)
    both = table.advise_clustering(columns=["a", "id"])
    assert both.queries == ("id: one value", "id: 1 % of rows")


def test_a_column_of_one_value_is_asked_for_it(tmp_path: Path) -> None:
    """Queries that nobody gave are made up of values of the rows, the least one among them."""
    rows = pa.table({"id": [1, 2], "a": [7, 7]})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id")
    table.bulk_insert(rows)
    advice = table.advise_clustering(columns="a")
    assert advice.queries == ("a: one value", "a: 1 % of rows")
    assert advice.now.read_files == 1


def test_one_query_and_one_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(SEED)
    rows = pa.table({"id": range(400), "km": rng.integers(0, 10**6, 400)})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id")
    table.bulk_insert(rows)
    advice = table.advise_clustering(["km < 10000"], target_file_sizes=["1KiB"])
    assert advice.orders
    for one in ("km < 10000", pc.field("km") < 10000):
        for size in ("1KiB", 1024):
            again = table.advise_clustering(one, target_file_sizes=size)
            assert [two.files for two in again.orders] == [two.files for two in advice.orders]
            assert len(again.queries) == 1


def test_bounds_of_a_few_sampled_rows_are_as_wide_as_those_of_all() -> None:
    """Ten rows of a file span nine elevenths of what all its rows do."""
    rng = random.Random(SEED)
    values = [rng.random() for _ in range(10_000)]
    middle = [at for at, value in enumerate(values) if 0.4 < value < 0.6]
    rng.shuffle(middle)
    rows = np.array(middle[: len(middle) // 10 * 10], np.int64)
    starts = np.arange(0, len(rows), 10)
    bounds = NumberedColumn.of(pa.chunked_array([values])).bounds(rows, starts, 1.0)
    widths = bounds.greatest.to_numpy() - bounds.least.to_numpy()
    assert float(widths.mean()) == pytest.approx(0.2, rel=0.05)
    everything = NumberedColumn.of(pa.chunked_array([values])).bounds(rows, starts, 0.0)
    widths = everything.greatest.to_numpy() - everything.least.to_numpy()
    assert float(widths.mean()) == pytest.approx(0.2 * 9 / 11, rel=0.05)


def test_nulls_and_nans_are_counted_apart() -> None:
    nan = float("nan")
    column = pa.chunked_array([[3.0, None, nan], [1.0, nan, None, 2.0]], pa.float64())
    numbered = NumberedColumn.of(column)
    assert numbered.values.to_pylist() == [1.0, 2.0, 3.0]
    assert numbered.numbers.tolist() == [2, -1, -2, 0, -2, -1, 1]
    bounds = numbered.bounds(np.array([1, 5, 0, 2, 3]), np.array([0, 2]), 0.0)
    assert bounds.least.to_pylist() == [None, 1.0]
    assert bounds.greatest.to_pylist() == [None, 3.0]
    assert (bounds.nulls.to_pylist(), bounds.nans.to_pylist()) == ([2, 0], [0, 1])
    assert bounds.rows.to_pylist() == [2, 3]
    for values in (["b", "a", None], [True, False, None], [b"x", None, b""]):
        found = NumberedColumn.of(pa.chunked_array([values]))
        assert found.values.to_pylist() == sorted(one for one in values if one is not None)
