"""Rows that data skipping is known to have lost in Apache Hudi: each issue by its number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.small_tables import SmallTable, row

from lookupstore.filters.filter import filter_expression
from lookupstore.hudi import HudiTable, WriteOptions

NAN = float("nan")
X, S = pc.field("x"), pc.field("s")
COLUMNS = pa.schema({"a": pa.int64(), "b": pa.string()})


def table_of(path: Path, *files: dict[str, list[Any]]) -> HudiTable:
    """Make a table with statistics, and a file of each of some rows."""
    schema = pa.schema({"id": pa.int64(), "x": pa.float64(), "s": pa.string()})
    table = HudiTable.create(path, schema, record_key=["id"])
    table.collect_statistics()
    first = 0
    for one in files:
        count = len(next(iter(one.values())))
        empty = {"x": [None] * count, "s": [None] * count}
        data = {"id": list(range(first, first + count)), **empty, **one}
        table.bulk_insert(pa.table(data).cast(schema))
        first += count
    return table


def ids(table: HudiTable, where: Any) -> list[int]:
    found: list[int] = sorted(table.scan(columns=["id"], filter=where)["id"].to_pylist())
    return found


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (~(X < 5), [1, 3]),
        (~(X > 3), [0, 1, 2, 3]),
        (~(X > 0), [1, 3]),
        ("not (x > 0)", [1, 3]),
        (X != 1, [1, 3]),
        (X.isin([NAN]), [1, 3]),
        (~X.isin([1.0]), [1, 3]),
        (pc.is_nan(X), [1, 3]),
        (X.is_null(nan_is_null=True), [1, 3]),
        (X > 0, [0, 2]),
    ],
    ids=str,
)
def test_hudi_18754_nan(tmp_path: Path, where: Any, expected: list[int]) -> None:
    table = table_of(tmp_path / "t", {"x": [1.0, NAN]}, {"x": [1.0]}, {"x": [NAN]})
    assert ids(table, where) == expected


def test_a_list_with_a_zero_finds_the_file_of_zeros(tmp_path: Path) -> None:
    """Footers call the least zero -0.0, which a list of Arrow tells from 0.0."""
    table = table_of(tmp_path / "t", {"x": [0.0, 0.0]}, {"x": [-0.0]}, {"x": [-0.0, 0.0, 1.0]})
    assert ids(table, X.isin([0.0])) == [0, 1, 4]
    assert ids(table, X.isin([-0.0, 7.0])) == [2, 3]
    assert ids(table, (X.isin([0.0])) | (S == "a")) == [0, 1, 4]


def test_hudi_18755_absent_statistics(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.table.collect_statistics("value")
    table.commit("f-0", [row(1, "a")])
    table.table.collect_statistics("value")
    table.commit("f-1", [row(2, "a")])  # by a writer that keeps none
    assert ids(table.table, ("value", "=", "a")) == [1, 2]
    assert ids(table.table, ("id", "=", 1)) == [1]  # a column without


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (("s", "like", "ab%"), [0, 1]),
        (("s", "like", "%b%"), [0, 1, 2]),
        (("s", "like", "a_c"), [1]),
        (("s", "like", "a"), [3]),
        (("s", "like", "%"), [0, 1, 2, 3, 4, 5]),
        (("s", "like", "a\\%%"), [4]),
        (("s", "starts_with", "\U0010ffff"), [5]),
        (~pc.match_like(S, "ab%"), [2, 3, 4, 5]),
        (~pc.match_like(S, "ab%x"), [0, 1, 2, 3, 4, 5]),
        ("s not like 'ab%x'", [0, 1, 2, 3, 4, 5]),
        ("s not like 'ab%c'", [0, 2, 3, 4, 5]),
    ],
    ids=str,
)
def test_hudi_18791_like(tmp_path: Path, where: Any, expected: list[int]) -> None:
    texts = ["ab", "abc", "b", "a", "a%x", "\U0010ffffz"]
    table = table_of(tmp_path / "t", *({"s": [text]} for text in texts), {"s": [None]})
    assert ids(table, where) == expected


@pytest.mark.parametrize(
    ("where", "meant"),
    [(("s", "=", None), "is null"), (("s", "!=", None), "is not null")],
)
def test_a_comparison_with_none_says_what_is_meant(where: Any, meant: str) -> None:
    with pytest.warns(UserWarning, match=rf"finds no row, .* give \('s', '{meant}'\)"):
        filter_expression(where, pa.schema([("s", pa.string())]))


@pytest.mark.filterwarnings("ignore:filter. .* finds no row:UserWarning")
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (("s", "is null"), [1, 2, 3]),
        (("s", "is not null"), [0, 4]),
        (~S.is_valid(), [1, 2, 3]),
        (~(S == "a"), [4]),
        (~(S.is_null() & (S == "a")), [0, 4]),
        (("s", "not in", ["a"]), [4]),
        (("s", "not in", ["a", None]), []),
        (("s", "=", None), []),
        (~S.isin(["a"]), [1, 2, 3, 4]),
    ],
    ids=str,
)
def test_hudi_19645_is_null(tmp_path: Path, where: Any, expected: list[int]) -> None:
    files: list[dict[str, list[Any]]] = [{"s": ["a", None]}, {"s": [None, None]}, {"s": ["b"]}]
    assert ids(table_of(tmp_path / "t", *files), where) == sorted(expected)


def test_hudi_7032_files_that_statistics_do_not_name(tmp_path: Path) -> None:
    """A write while statistics are collected, and one of another program after it."""
    table = table_of(tmp_path / "t", {"x": [1.0]}, {"x": [2.0]})
    kept = tmp_path / "t" / ".hoodie/.lookupstore/statistics"
    newest = max(kept.glob("*.stats"))
    old = newest.read_bytes()
    table.bulk_insert(pa.table({"id": [7], "x": [1.0], "s": ["a"]}))
    max(kept.glob("*.stats")).write_bytes(old)
    assert ids(table, ("x", "=", 1)) == [0, 7]


def test_hudi_10389_columns_that_came_later(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", {"x": [1.0]})
    options = WriteOptions(evolve=True, missing="null")
    table.bulk_insert(pa.table({"id": [7], "new": [3]}), options=options)
    table.bulk_insert(pa.table({"id": [8], "new": [9]}), options=options)
    assert ids(table, ("new", "is null")) == [0]
    assert ids(table, pc.field("new") > 3) == [8]
    assert ids(table, ~(pc.field("new") > 3)) == [7]
    table.collect_statistics()
    assert ids(table, ("new", "is null")) == [0]
    assert table.explain_scan(("new", "=", 3)).statistics.count == 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("a", "~", 1), "no operator that is known"),
        (("a",), "no operator that is known"),
        (("a", "in", "x"), "other operands"),
        (("a", "in", b"x"), "other operands"),
        (("a", "not in", 5), "other operands"),
        (("b", "like", 5), "other operands than 'like' takes; give a text"),
        (("b", "starts_with", 5), "other operands than 'starts_with' takes; give a text"),
        (("a", "between", 1), "other operands"),
    ],
)
def test_filters_that_are_none(given: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        filter_expression(given, COLUMNS)
    for other in ([], 3, ()):
        with pytest.raises(TypeError):
            filter_expression(other, COLUMNS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "made",
    [
        list,
        iter,
        tuple,
        pa.array,
        lambda values: pa.chunked_array([values[:1], values[1:]], pa.int64()),
    ],
    ids=["list", "iterator", "tuple", "array", "chunked array"],
)
def test_nulls_in_lists_of_each_kind(made: Callable[[list[int | None]], Any]) -> None:
    rows = pa.table({"a": pa.array([1, 2, None], pa.int64())})

    def left(word: str, values: list[int | None]) -> list[int | None]:
        found: list[int | None] = rows.filter(
            filter_expression(("a", word, made(values)), rows.schema)
        )["a"].to_pylist()
        return found

    assert left("in", [1, 3]) == left("in", [1, None]) == [1]
    assert left("not in", [1, 3]) == [2]
    assert left("not in", [1, None]) == []


def test_lists_of_filters() -> None:
    both = filter_expression([("a", ">", 1), ("b", "=", "x")], COLUMNS)
    assert both.equals((pc.field("a") > 1) & (pc.field("b") == "x"))
    one_of = filter_expression([[("a", ">", 1)], [("b", "=", "x")]], COLUMNS)
    assert one_of.equals((pc.field("a") > 1) | (pc.field("b") == "x"))
