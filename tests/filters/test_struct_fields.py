"""Filters on fields of structs, compared with DuckDB on random rows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from support.iceberg_tables import table_of
from support.samples import amount

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.filters import Aliases, columns_in, names_of, sql_condition, told_to_arrow
from lookupstore.filters.filter import filter_expression
from lookupstore.filters.merge_sql import sql_clause
from lookupstore.filters.parsed_expression import StructField, parse_expression
from lookupstore.filters.predicates import Unknown, predicate_of
from lookupstore.filters.row_filter import row_filter
from lookupstore.hudi import HudiTable

GEO = pa.struct({"lat": pa.float64(), "floor": pa.int32()})
ADDRESS = pa.struct(
    {"city": pa.string(), "zip": pa.int64(), "ok": pa.bool_(), "a b": pa.int32(), "geo": GEO}
)
# Arrow skips row groups by its fields, which are not floats, where they are not null.
PART = pa.struct({"k": pa.int64(), "t": pa.string()})
COLUMNS = pa.schema(
    {"id": pa.int64(), "a": ADDRESS, "p": PART, "n": pa.int64(), "a.zip": pa.int64()}
)
CITIES = ["Paris", "Rome", "Oslo", "", "Pa"]


def rows_of(rng: random.Random, count: int) -> pa.Table:
    """Return rows whose structs and fields are null here and there, in ranges of zip codes."""

    def maybe(make: Callable[[], Any]) -> Any:
        return None if rng.random() < 0.15 else make()

    def geo() -> dict[str, Any]:
        return {
            "lat": maybe(lambda: rng.choice([-1.5, -0.0, 0.0, 1.0, 2.5, math.nan])),
            "floor": maybe(lambda: rng.randrange(4)),
        }

    def address(at: int) -> dict[str, Any]:
        return {
            "city": maybe(lambda: rng.choice(CITIES)),
            "zip": maybe(lambda: at // 5),
            "ok": maybe(lambda: rng.random() < 0.5),
            "a b": maybe(lambda: rng.randrange(3)),
            "geo": maybe(geo),
        }

    def part(at: int) -> dict[str, Any]:
        text = f"t{at // 10}"
        return {"k": at // 5 if at > 30 else maybe(lambda: at // 5), "t": maybe(lambda: text)}

    def row(at: int) -> dict[str, Any]:
        return {
            "id": at,
            "a": maybe(lambda: address(at)),
            "p": part(at) if at > 30 else maybe(lambda: part(at)),
            "n": maybe(lambda: rng.randrange(5)),
            "a.zip": maybe(lambda: rng.randrange(5)),
        }

    return pa.Table.from_pylist([row(at) for at in range(count)], COLUMNS)


@dataclass(frozen=True)
class Condition:
    """A condition, and the one by which DuckDB chooses the same rows.

    DuckDB counts NaN as the greatest number, and as equal to itself.
    """

    text: str
    oracle: str

    @staticmethod
    def random(rng: random.Random, depth: int) -> Condition:
        if depth:
            one, other = (Condition.random(rng, depth - 1) for _ in range(2))
            word = rng.choice(["and", "or"])
            if rng.random() < 0.3:
                return Condition(f"not ({one.text})", f"not ({one.oracle})")
            return Condition(
                f"({one.text} {word} {other.text})", f"({one.oracle} {word} {other.oracle})"
            )
        if rng.random() < 0.25:
            return _of_floats(rng)
        if rng.random() < 0.4:
            return _of_part(rng)
        word, no = rng.choice(["=", "<>", "<", "<=", ">", ">="]), rng.choice(["", "not "])
        whole = rng.choice(["a.zip", "a.geo.floor", 'a."a b"', '"a".zip', "n", '"a.zip"'])
        text = rng.choice(
            [
                f"a.city {word} '{rng.choice(CITIES)}'",
                f"a.city {no}in ('Paris', 'Rome')",
                f"a.city {no}like '{rng.choice(['Pa%', '%o', 'P_ris', 'Rome'])}'",
                "starts_with(a.city, 'Pa')",
                f"length(a.city) {word} 4",
                "lower(a.city) = 'rome'",
                f"{whole} {word} {rng.randrange(12)}",
                f"{rng.randrange(12)} {word} {whole}",
                f"{whole} {no}between 1 and {rng.randrange(8)}",
                f"{whole} {no}in ({rng.randrange(6)}, 2)",
                f"{whole}::double {word} 1.5",
                f"a.zip {word} n",
                f'a.geo.floor {word} a."a b"',
                f"{no}a.ok",
                f"(a.ok) is {no}true",
                f"{rng.choice([whole, 'a', 'a.geo', 'a.geo.lat', 'a.city', 'a.ok'])} is {no}null",
                f"(a.zip > 3) is {no}false",
            ]
        )
        return Condition(text, text)


def _of_part(rng: random.Random) -> Condition:
    word, no = rng.choice(["=", "<>", "<", "<=", ">", ">="]), rng.choice(["", "not "])
    text = rng.choice(
        [
            f"p.k {word} {rng.randrange(18)}",
            f"p.t {word} 't{rng.randrange(9)}'",
            f"p.k {no}in ({rng.randrange(18)}, {rng.randrange(18)})",
            f"p.t {no}like 't1%'",
            f"p.k {no}between {rng.randrange(9)} and 9",
            f"{rng.choice(['p', 'p.k', 'p.t'])} is {no}null",
            f"not (p.k {word} {rng.randrange(18)})",
        ]
    )
    return Condition(text, text)


def _of_floats(rng: random.Random) -> Condition:
    value = rng.choice(["0", "1.0", "-1.5", "3"])
    word, of_nan = rng.choice([
        ("=", "false"), ("<>", "true"), ("<", "false"), (">=", "false"), (">", "false"),
    ])  # fmt: skip
    text = f"a.geo.lat {word} {value}"
    text, of_nan = rng.choice([
        (text, of_nan),
        ("a.geo.lat in (0, 2.5)", "false"),
        ("a.geo.lat not in (0, 1)", "true"),
        ("a.geo.lat between 0 and 9", "false"),
        ("isnan(a.geo.lat)", "true"),
    ])  # fmt: skip
    return Condition(text, f"(case when isnan(a.geo.lat) then {of_nan} else {text} end)")


def ids_of_duckdb(rows: pa.Table, condition: Condition) -> list[int]:
    found = duckdb.sql(f"select id from rows where {condition.oracle}").fetchall()
    return sorted(one for (one,) in found)


def with_plain_names(rows: pa.Table) -> pa.Table:
    """Return rows without the names that Avro and Iceberg do not allow."""
    kind = pa.struct([one for one in ADDRESS if one.name != "a b"])
    values = rows["a"].to_pylist()
    for value in values:
        if value is not None:
            del value["a b"]
    found = pa.array(values, kind)
    return rows.drop_columns("a.zip").set_column(1, "a", found)


def plain(condition: Condition) -> Condition:
    """Return a condition without the names that `with_plain_names` leaves out."""
    texts = (
        one.replace('a."a b"', "a.geo.floor").replace('"a.zip"', "n")
        for one in (condition.text, condition.oracle)
    )
    return Condition(*texts)


def conditions(rng: random.Random) -> list[Condition]:
    return [Condition.random(rng, rng.choice([0, 0, 1, 2])) for _ in range(amount(40, 2000))]


def test_rows_and_row_groups_are_those_of_duckdb(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = rows_of(rng, 90)
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=9)
    dataset = ds.dataset(tmp_path / "a.parquet")
    (fragment,) = dataset.get_fragments()
    skipped = 0
    for condition in [Condition("p.k > 15", "p.k > 15"), *conditions(rng)]:
        expected = ids_of_duckdb(rows, condition)
        where = filter_expression(condition.text, rows.schema)
        assert rows.filter(where)["id"].to_pylist() == expected, condition.text
        kept = row_filter(condition.text, rows.schema).kept(rows.combine_chunks().to_batches()[0])
        assert rows.filter(kept)["id"].to_pylist() == expected, condition.text
        told = told_to_arrow(where, rows.schema)
        if told is not None:
            left = fragment.subset(told, schema=rows.schema)
            skipped += 10 - len(left.row_groups)
            found = left.to_table(schema=rows.schema)["id"].to_pylist()
            assert set(found) >= set(expected), condition.text
        if told is where:
            assert dataset.to_table(filter=where)["id"].to_pylist() == expected, condition.text
    assert skipped


def test_stores_and_files_have_the_rows_of_duckdb(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = rows_of(rng, 60)
    for part in range(2):
        pq.write_table(rows.slice(part * 30, 30), tmp_path / f"{part}.parquet", row_group_size=10)
    for condition in conditions(rng)[:12]:
        expected = ids_of_duckdb(rows, condition)
        build: Any = rng.choice(["never", "always"])
        with ColumnarFiles(
            str(tmp_path / "*.parquet"), key="id", where=condition.text, build=build
        ) as files:
            found = files.contains(list(range(60))).to_pylist()
            assert [at for at in range(60) if found[at]] == expected, condition.text
        with lookupstore.build(
            str(tmp_path / "*.parquet"), tmp_path / "s", key="id", where=condition.text,
            overwrite=True, allow_empty=True,
        ) as store:  # fmt: skip
            assert list(store) == expected, condition.text


def test_scans_of_hudi_tables_have_the_rows_of_duckdb(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = with_plain_names(rows_of(rng, 60))
    table = HudiTable.create(tmp_path / "t", rows, record_key="id")
    table.collect_statistics()
    for part in range(3):
        table.bulk_insert(rows.slice(part * 20, 20))
    for condition in map(plain, conditions(rng)[:12]):
        expected = ids_of_duckdb(rows, condition)
        found = table.scan(columns=["id"], filter=condition.text)["id"].to_pylist()
        assert sorted(found) == expected, condition.text
        table.explain_scan(condition.text, row_groups=True)
    condition = plain(Condition.random(rng, 1))
    table.delete(where=condition.text)
    left = set(range(60)) - set(ids_of_duckdb(rows, condition))
    assert sorted(table.scan(columns=["id"])["id"].to_pylist()) == sorted(left), condition.text


def test_tables_of_other_formats_have_the_rows_of_duckdb(tmp_path: Path, seed: int) -> None:
    deltalake = pytest.importorskip("deltalake")
    memory = pytest.importorskip("pyiceberg.catalog.memory")
    rng = random.Random(seed)
    rows = with_plain_names(rows_of(rng, 40))
    # deltalake aborts the process for slices of structs.
    deltalake.write_deltalake(tmp_path / "delta", rows.take(list(range(25))))
    deltalake.write_deltalake(tmp_path / "delta", rows.take(list(range(25, 40))), mode="append")
    catalog = memory.InMemoryCatalog("c", warehouse=(tmp_path / "iceberg").as_uri())
    catalog.create_namespace("w")
    iceberg = table_of(catalog, rows)
    for condition in map(plain, conditions(rng)[:8]):
        expected = ids_of_duckdb(rows, condition)
        for table in (tmp_path / "delta", iceberg):
            with ColumnarFiles(table, key="id", where=condition.text) as files:
                found = files.contains(list(range(40))).to_pylist()
            assert [at for at in range(40) if found[at]] == expected, condition.text


def test_names_with_dots_in_tuples() -> None:
    rows = rows_of(random.Random(1), 40)
    for given, expected in (
        (("a.city", "=", "Rome"), pc.field("a", "city") == "Rome"),
        (("a.geo.floor", "in", [1]), pc.field("a", "geo", "floor").isin([1])),
        (("a.zip", "=", 3), pc.field("a.zip") == 3),  # a column has that name
        ([("a.city", "is null"), "n = 1"],
         pc.field("a", "city").is_null() & (pc.field("n") == 1)),
    ):  # fmt: skip
        where = filter_expression(given, rows.schema)
        assert str(where) == str(expected)
        assert rows.filter(where)["id"] == rows.filter(expected)["id"]
    price = pa.struct({"x": pa.decimal128(9, 2)})
    prices = pa.table({"p": pa.array([{"x": Decimal("1.50")}], price)})
    assert prices.filter(filter_expression(("p.x", ">", 1), prices.schema)).num_rows == 1
    with pytest.raises(
        TypeError, match=r"where: the column 'a.city' is string, and 5 does not fit"
    ):
        row_filter(("a.city", "=", 5), rows.schema)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a.town = 'x'", "a.town is not read; 'a' has no field 'town'; it has 'city', 'zip'"),
        ("a.geo.lot = 1", "'a.geo' has no field 'lot'; did you mean 'lat'"),
        ("a.CITY = 'x'", "'a' has no field 'CITY'; did you mean 'city'.* whose case counts"),
        ("n.x = 1", "'n' is int64, not a struct with a field 'x'"),
        ("a.city.x = 1", "'a.city' is string, not a struct with a field 'x'"),
        ("b.city = 'x'", "b.city is no column; the table has 'id', 'a', 'p'"),
        ("dot.ted = 1", 'dot.ted is not a field of a struct; write "dot.ted"'),
        ("a = 'x'", "compare one of its fields, such as COLUMN.city"),
        ("lower(n).x = 1", "is not read"),
        ("a.* = 1", "is not read"),
        (("a.town", "=", 1), "'a' has no field 'town'; it has 'city'"),
        (("a.geo.lot", "=", 1), "'a.geo' has no field 'lot'"),
    ],
)
def test_a_missing_field_is_named(given: Any, said: str) -> None:
    columns = COLUMNS.append(pa.field("dot.ted", pa.int8()))
    with pytest.raises(ValueError, match=said):
        filter_expression(given, columns)


def test_a_field_needs_its_column_and_no_bounds() -> None:
    where = (pc.field("a", "zip") > 3) & (pc.field("n") == 1)
    assert names_of(where) == columns_in(where) == {"a", "n"}
    assert parse_expression(pc.field("a", "geo", "lat")) == StructField(("a", "geo", "lat"))
    assert isinstance(predicate_of(pc.field("a", "zip") > 3), Unknown)
    # The column has floats in it, which may be NaN; without them, Arrow may skip row groups.
    assert str(told_to_arrow(where, COLUMNS)) == "(n == 1)"
    plain = pa.schema({"a": pa.struct({"zip": pa.int64()}), "n": pa.int64(), "x": pa.float64()})
    assert told_to_arrow(where, plain) is where


def test_fields_of_any_layout_are_compared() -> None:
    for kind in (pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        texts = pa.array(["x", "y", None]).cast(kind)
        fields = [pa.field("t", kind)]
        mask = pa.array([False, False, True])
        rows = pa.record_batch({"s": pa.StructArray.from_arrays([texts], fields=fields, mask=mask)})
        for part in (rows, rows.slice(1)):
            found = row_filter("s.t = 'y'", part.schema).kept(part)
            assert found.to_pylist() == [False, True, False][3 - len(part) :]


def test_fields_of_both_sides_of_a_merge() -> None:
    struct = pa.struct({"city": pa.string(), "in": pa.struct({"n": pa.int64()})})
    columns = pa.schema({"target.a": struct, "source.a": struct, "source.b": struct})
    names = {"target": {"a": "target.a"}, "source": {"a": "source.a", "b": "source.b"}}
    aliases = Aliases(columns, names)
    rows = pa.table(
        {
            "target.a": [{"city": "x", "in": {"n": 1}}, None],
            "source.a": [{"city": "x", "in": {"n": 2}}] * 2,
            "source.b": [{"city": "z", "in": None}] * 2,
        },
        columns,
    )
    for text, expected in (
        ("source.a.city = target.a.city", [True, None]),
        ("b.city = 'z' and source.a.in.n = 2", [True, True]),
        ("coalesce(target.a.in.n, 0) + 1 = source.a.in.n", [True, False]),
    ):
        found = ds.dataset(rows).to_table(columns={"x": sql_condition(text, aliases)})["x"]
        assert found.to_pylist() == expected, text
    for text, said in (
        ("a.city = 'x'", "is a field of both sides; write target.a.city or source.a.city"),
        ("source.a.town = 'x'", "'source.a' has no field 'town'"),
        ("target.b.city = 'x'", "is no column"),
    ):
        with pytest.raises(ValueError, match=said):
            sql_condition(text, aliases)


def test_a_merge_sets_whole_columns() -> None:
    for sets in ("a = 1", "target.a = 1"):
        assert sql_clause(f"matched then update set {sets}").sets == {"a": "1"}
    for name in ("a.city", "source.a", "target.a.city"):
        with pytest.raises(ValueError, match=f"sets {name}, which is not a column; set a whole"):
            sql_clause(f"matched then update set {name} = 'x'")
