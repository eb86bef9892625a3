"""`update` and `merge`, compared with DuckDB's UPDATE and MERGE, and with dicts."""

from __future__ import annotations

import random
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.samples import amount

from lookupstore.errors import CommitConflictError
from lookupstore.hudi import HudiTable, WriteOptions

duckdb = pytest.importorskip("duckdb")

SCHEMA = pa.schema(
    {"id": pa.int64(), "day": pa.string(), "ts": pa.int64(), "v": pa.int32(), "w": pa.string()}
)
DECIMAL = pa.decimal128(14, 2)
NEWS = pa.schema(
    {"id": pa.int64(), "day": pa.string(), "ts": pa.int64(), "v": pa.int32(), "w": pa.string(),
     "op": pa.string()}
)  # fmt: skip
CONDITIONS = [
    "target.v < source.v", "source.op = 'D'", "target.w is null", "source.v > 40 or target.v > 60",
    "target.ts <= source.ts", "source.op in ('U', 'I') and target.v is not null", None,
]  # fmt: skip
VALUES = {
    "v": ["source.v", "target.v + source.v", "coalesce(target.v, 0) + 1", "7", "null",
          "case when source.v > target.v then source.v else target.v end"],
    "w": ["source.w", "upper(target.w)", "target.w || source.w", "'x'", "null"],
    "ts": ["source.ts", "target.ts - 1"],
}  # fmt: skip


def rows_of(rng: random.Random, ids: list[int], schema: pa.Schema) -> pa.Table:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    rows = [
        {"id": at, "day": "ab"[at % 2], "ts": rng.randrange(9), "v": maybe(rng.randrange(99)),
         "w": maybe(rng.choice("pqr")), "op": rng.choice("UID")}
        for at in ids
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema)


def table_of(path: Path, rng: random.Random, rows: pa.Table) -> HudiTable:
    arguments: dict[str, Any] = {"partition_by": "day"} if rng.random() < 0.5 else {}
    table = HudiTable.create(
        path,
        SCHEMA,
        record_key="id",
        ordering=rng.choice(["ts", None]),
        version=rng.choice([6, 9]),
        **arguments,
    )
    table.insert(rows)
    return table


def stored(table: HudiTable) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        HudiTable.open(table.location).scan(columns=SCHEMA.names).sort_by("id").to_pylist()
    )
    return rows


def options_of(rng: random.Random) -> WriteOptions:
    """Return options of a write, in a third of the cases such that its rows go to the disk."""
    return WriteOptions(
        index=rng.choice(["bloom", "simple", "global-bloom"]),
        memory=rng.choice([512 << 20, 512 << 20, 1 << 20]),
    )


def chosen(rng: random.Random, names: list[str]) -> dict[str, str]:
    return {name: rng.choice(VALUES[name]) for name in rng.sample(names, rng.randrange(1, 4))}


def as_sql(sets: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sets.items())


def test_random_merges_are_those_of_duckdb(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(amount(6, 2500)):
        given = rows_of(rng, rng.sample(range(40), rng.randrange(1, 30)), SCHEMA)
        news = rows_of(rng, rng.sample(range(50), rng.randrange(1, 30)), NEWS)
        table = table_of(tmp_path / str(number), rng, given)
        merge = table.merge(news, on=rng.choice([None, "id"]))
        sql = "merge into t as target using news as source on target.id = source.id"
        for _ in range(rng.randrange(3)):
            where = rng.choice(CONDITIONS)
            also = f" and {where}" if where else ""
            if rng.random() < 0.3:
                merge = merge.when_matched_delete(where)
                sql += f" when matched{also} then delete"
            else:
                sets = chosen(rng, ["v", "w", "ts"])
                merge = merge.when_matched_update(sets, where=where)
                sql += f" when matched{also} then update set {as_sql(sets)}"
            if where is None:
                break  # nothing is left for others
        if rng.random() < 0.7:
            where = rng.choice(["source.op = 'I'", "source.v > 20", None])
            also = f" and {where}" if where else ""
            if rng.random() < 0.5:
                merge = merge.when_not_matched_insert(where=where, except_columns="op")
                names = list(SCHEMA.names)
                values = [f"source.{name}" for name in names]
            else:
                said = {"v": "source.v + 1", "w": "coalesce(source.w, 'new')", "ts": "source.ts"}
                merge = merge.when_not_matched_insert(said, where=where)
                names = ["id", *(["day"] if table.options.partition_by else []), *said]
                values = [said.get(name, f"source.{name}") for name in names]
            pairs = f"({', '.join(names)}) values ({', '.join(values)})"
            sql += f" when not matched{also} then insert {pairs}"
        if rng.random() < 0.3 or "when" not in sql:
            where = rng.choice(["target.v > 50", "target.w is null", None])
            merge = merge.when_not_matched_by_source_delete(where)
            also = f" and {where}" if where else ""
            sql += f" when not matched by source{also} then delete"
        base = duckdb.connect()
        base.register("given", given)
        base.register("news", news)
        base.sql("create table t as from given")
        base.sql(sql)
        names = ", ".join(SCHEMA.names)
        expected = pa.table(base.sql(f"select {names} from t order by id").arrow()).to_pylist()
        before = stored(table)
        done = merge.execute(options=options_of(rng))
        assert stored(table) == expected, sql
        assert not table.verify().findings
        there = {row["id"] for row in before}
        after = {row["id"] for row in expected}
        assert (done.rows_inserted, done.rows_deleted) == (len(after - there), len(there - after))
        assert done.rows_read == len(news)


def test_random_updates_are_those_of_duckdb(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    conditions = ["v > 50", "w is null or w = 'p'", "ts between 2 and 5", "id in (1, 2, 3)", None]
    values = {"v": ["v + 1", "null", "ts", "length(w)"], "w": ["w || 'z'", "'x'", "lower(w)"],
              "ts": ["ts - 5", "v", "id"]}  # fmt: skip
    for number in range(amount(5, 2500)):
        given = rows_of(rng, rng.sample(range(40), rng.randrange(1, 40)), SCHEMA)
        table = table_of(tmp_path / str(number), rng, given)
        where = rng.choice(conditions)
        names = rng.sample(["v", "w", "ts"], rng.randrange(1, 4))
        sets = {name: rng.choice(values[name]) for name in names}
        base = duckdb.connect()
        base.register("given", given)
        base.sql("create table t as from given")
        base.sql(f"update t set {as_sql(sets)}" + (f" where {where}" if where else ""))
        expected = pa.table(base.sql("select * from t order by id").arrow()).to_pylist()
        dry = table.update(sets, where=where, dry_run=True)
        done = table.update(sets, where=where, options=options_of(rng))
        assert stored(table) == expected, (sets, where)
        count = base.sql(f"select count(*) from given where {where or 'true'}").fetchall()[0][0]
        assert (done.rows_read, done.rows_updated) == (count, count)
        assert (dry.instant, dry.rows_read) == (None, count)


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    rows = pa.table(
        {"id": [1, 2, 3], "day": ["a", "a", "b"], "ts": [5, 5, 5], "v": [7, None, 9],
         "w": ["x", "y", None]}, SCHEMA
    )  # fmt: skip
    made = HudiTable.create(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="day", ordering="ts"
    )
    made.insert(rows)
    return made


def test_values_of_python_and_of_arrow(table: HudiTable) -> None:
    table.update({"v": 5, "w": None, "ts": pc.field("ts") - 1}, where=pc.field("id") < 3)
    assert table.get(1) == {"day": "a", "ts": 4, "v": 5, "w": None}
    assert table.get(3) == {"day": "b", "ts": 5, "v": 9, "w": None}
    table.update({"w": "'it''s'", "v": pa.scalar(8, pa.int8())}, where=[("id", "=", 3)])
    assert table.get(3) == {"day": "b", "ts": 5, "v": 8, "w": "it's"}


def test_what_is_nested(tmp_path: Path) -> None:
    schema = pa.schema(
        {
            "id": pa.int64(),
            "at": pa.struct({"x": pa.int32(), "y": pa.string()}),
            "tags": pa.list_(pa.string()),
        }
    )
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")
    rows = [{"id": 1, "at": {"x": 1, "y": "a"}, "tags": ["p"]}, {"id": 2, "at": None, "tags": []}]
    table.insert(pa.Table.from_pylist(rows, schema))
    table.update({"at": {"x": 5, "y": "b"}}, where="id = 2")
    table.update({"tags": ["q", None]}, where="id = 1")
    assert table.head().to_pylist() == [
        {"id": 1, "at": {"x": 1, "y": "a"}, "tags": ["q", None]},
        {"id": 2, "at": {"x": 5, "y": "b"}, "tags": []},
    ]
    news = pa.table({"id": [1, 3], "at": [{"x": 9, "y": "n"}] * 2, "tags": [["r"], None]})
    news = news.cast(schema)
    table.merge(news).when_matched_update({"at": "source.at"}).when_not_matched_insert().execute()
    assert table.head().to_pylist()[0] == {"id": 1, "at": {"x": 9, "y": "n"}, "tags": ["q", None]}
    assert table.get(3) == {"at": {"x": 9, "y": "n"}, "tags": None}


def test_no_value_is_cut(table: HudiTable) -> None:
    before = table.scan()
    for sets, error, problem in (
        (
            {"v": "v * 1000000000"},
            ValueError,
            r"'v' of the row with the key '1': the value does not fit",
        ),
        ({"v": "v / 2"}, ValueError, r"'v' of the row with the key '1': .* int32 cannot hold 3.5"),
        ({"v": "v / 2"}, ValueError, r"hold 3.5; to round it, write cast\(... as bigint\)$"),
        ({"v": 2.5}, TypeError, r"set: 'v' is int32, and the value 2.5 does not fit"),
        ({"v": True}, TypeError, "and the value True does not fit"),
        ({"v": "w"}, TypeError, r"set: 'v' is int32, and the value is string"),
        ({"w": "v"}, TypeError, r"'w' is string, and the value is int32; write cast\(.* varchar"),
        ({"v": ""}, ValueError, r"set: 'v': the text is empty; write columns, values, \+ - "),
        ({"v": "v +"}, ValueError, r"set: 'v': v \+ is no SQL: .*; write columns, values, \+ - "),
        ({"w": "done"}, ValueError, "done is no column; .* texts are in single quotes"),
        ({"id": "id + 1"}, ValueError, "'id' is a column of the key, the partition or Hudi"),
        ({"day": "'c'"}, ValueError, "cannot be set; delete the row, and insert another one"),
        ({"_hoodie_commit_time": "'c'"}, KeyError, "the table has no column"),
        ({"x": 1}, KeyError, "the table has no column 'x'; it has 'id'"),
        ({"dya": "'c'"}, KeyError, "no column 'dya'; did you mean 'day'"),
        ({}, ValueError, "set is empty"),
        ("v = 1", TypeError, "set is str; give a dict of values by column"),
    ):
        with pytest.raises(error, match=problem):
            table.update(sets)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"where: .* no column"):
        table.update({"v": 1}, where="z = 1")
    assert table.scan().equals(before)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_timestamp_of_the_other_kind_is_refused(tmp_path: Path, zone: str | None) -> None:
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", zone)})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")
    table.insert(pa.table({"id": [1], "at": [None]}, schema))
    right = "timestamp '2026-03-07 12:30:00'"
    wrong = "timestamptz '2026-03-07 12:30:00Z'"
    if zone is not None:
        right, wrong = wrong, right
    with pytest.raises(TypeError, match=f"; write {right}, or convert the column of your rows$"):
        table.update({"at": wrong})
    kind = "without" if zone is None else "with"
    said = f"to set a time, write {right}, or give a datetime {kind} tzinfo$"
    with pytest.raises(ValueError, match=f"CURRENT_TIMESTAMP.* is not read.*; {said}"):
        table.update({"at": "current_timestamp"})
    table.update({"at": right})
    moment = datetime(2026, 3, 7, 12, 30, tzinfo=None if zone is None else timezone.utc)
    assert table.get(1) == {"at": moment}


def test_floats_are_the_nearest_ones(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    schema = pa.schema({"id": pa.int64(), "f": pa.float64(), "g": pa.float32(), "d": DECIMAL})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")
    texts = [f"{rng.randrange(10 ** rng.randrange(1, 12)) / 100:.2f}" for _ in range(40)]
    rows = pa.table(
        {"id": range(40), "f": [1.0] * 40, "g": [1.0] * 40, "d": [Decimal(t) for t in texts]},
        schema,
    )
    table.insert(rows)
    table.update({"f": "d", "g": "d"})
    found = table.head(40)
    assert found["f"].to_pylist() == [float(text) for text in texts]
    assert found["g"].to_pylist() == np.array(texts, np.float64).astype(np.float32).tolist()
    for text in (*texts[:5], "19.99", "-100.10"):
        table.update({"f": text}, where="id = 1")
        assert table.get(1)["f"] == float(text)
    table.update({"f": "9007199254740993", "g": "16777217"}, where="id = 1")
    assert (table.get(1)["f"], table.get(1)["g"]) == (2.0**53, 2.0**24)
    with pytest.raises(TypeError, match=r"'g' is float, and the value 1e.300 does not fit"):
        table.update({"g": 1e300})
    with pytest.raises(ValueError, match=r"'g' of the row with the key '0': .* is too large"):
        table.update({"g": "1e300"})


def test_casts_in_an_update(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "d": pa.decimal128(8, 2), "n": pa.int64()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")
    table.insert(pa.table([[1], [Decimal("1.25")], [3]], schema=schema))
    with pytest.raises(ValueError, match=r"makes int32 of string, which may lose something"):
        table.update({"d": "cast(cast(id as varchar) as int)"})
    assert table.update({"d": "cast(d * 2 as decimal(8, 2))"}).rows_updated == 1
    assert table.get(1)["d"] == Decimal("2.50")
    assert table.update({"d": "d * 2"}).rows_updated == 1
    assert table.get(1)["d"] == Decimal("5.00")
    with pytest.raises(
        ValueError, match=r"cannot hold Decimal\('5.62500'\); to round it, .*, 2\)$"
    ):
        table.update({"d": "d * 1.125"})
    assert table.update({"d": "round(d * 1.125, 2)"}).rows_updated == 1
    assert table.get(1)["d"] == Decimal("5.63")
    with pytest.raises(ValueError, match=r"cannot hold Decimal.*; to round it, .* as bigint\)$"):
        table.update({"n": "n * 1.5"})
    assert table.update({"n": "cast(n * 1.5 as bigint)"}).rows_updated == 1
    assert table.get(1)["n"] == 5
    with pytest.raises(ValueError, match=r"'1': the value does not fit .*: .* in precision 38$"):
        table.update({"d": f"d * {'9' * 37} * 1.0"})


def test_values_that_are_typed_wrong(table: HudiTable) -> None:
    for value, problem in (
        ("", "to set a text, write it in single quotes, those in it twice"),
        ("O'Brien", "to set a text, write it in single quotes"),
        ("O", r"is no column; .* texts are in single quotes"),
        (pc.field("nope"), "there is no column 'nope'"),
    ):
        with pytest.raises(ValueError, match=problem):
            table.update({"w": value})
    twice = table.merge(pa.table([[1], [3.0], [4.0]], names=["id", "f", "f"])).when_matched_delete()
    with pytest.raises(ValueError, match="rows have the column 'f' twice"):
        twice.execute()
    upper = table.merge({"ID": [1]}).when_matched_delete()
    with pytest.raises(ValueError, match=r"rows have no column 'id', which is in the key; .* 'ID'"):
        upper.execute()
    assert table.merge({"id": [1]}).when("WHEN matched THEN delete").execute().rows_deleted == 1


def test_merges_that_are_not_one(table: HudiTable) -> None:
    news = {"id": [1, 1], "day": ["a", "a"], "ts": [9, 9], "v": [1, 2], "w": ["n", "m"]}
    with pytest.raises(ValueError, match="rows 1 and 2 both have the key '1'"):
        table.merge(news).when_matched_update().execute()
    with pytest.raises(ValueError, match="there is no clause"):
        table.merge(news).execute()
    with pytest.raises(ValueError, match=r"on is \['v'\]; rows are matched by key"):
        table.merge(news, on="v")
    one = {"id": [1], "v": [3], "op": ["U"]}
    for merge, error, problem in (
        (table.merge(one).when_matched_update(), ValueError, r"have a column 'op', and the table"),
        (
            table.merge(one).when_not_matched_insert(except_columns="op"),
            ValueError,
            "no column 'day'",
        ),
        (table.merge(one).when_matched_update(where="v > 1"), ValueError, "column of both sides"),
        (table.merge(one).when_matched_delete("source.z = 1"), ValueError, "is no column"),
        (
            table.merge(one, on=["id", "day"]).when_matched_delete(),
            ValueError,
            "no column 'day', which",
        ),
        (table.merge({"v": [1]}).when_matched_delete(), ValueError, "no column 'id'"),
        (table.merge(one).when_matched_update(except_columns=["z"]), KeyError, "no column 'z'"),
        (table.merge(news).when_not_matched_insert({"id": 5}), ValueError, "both have the key"),
    ):
        with pytest.raises(error, match=problem):
            merge.execute()
    ordered = HudiTable.create(
        Path(table.location.uri.removeprefix("file://")).with_name("ordered"),
        SCHEMA, record_key="id", ordering="ts",
    )  # fmt: skip
    no_time = {"id": [8, 9], "day": ["a", "a"], "ts": [1, None], "v": [1, 2], "w": ["x", "y"]}
    new = ordered.merge(pa.table(no_time, SCHEMA))
    with pytest.raises(ValueError, match=r"no 'ts', the ordering column; .* 'source.ts'"):
        new.when_not_matched_insert({"v": "source.v"}).execute()
    with pytest.raises(ValueError, match="'ts' of the row with the key '9' is null"):
        new.when_not_matched_insert().execute()
    assert new.when_not_matched_insert({"ts": "3"}).execute().rows_inserted == 2
    lacks = {"id": [9], "day": ["a"], "v": [1]}
    with pytest.raises(ValueError, match="rows lack columns of the table: 'ts', 'w'; "):
        table.merge(lacks).when_not_matched_insert().execute()
    with pytest.raises(ValueError, match="except_columns is given with set"):
        table.merge(one).when_matched_update({"v": 1}, except_columns="op")
    with pytest.raises(ValueError, match="'id' is part of the key"):
        table.merge(lacks).when_not_matched_insert({"id": "source.v"}).execute()
    many = table.merge(pa.table({"id": range(200_000)})).when_matched_delete()
    with pytest.raises(ValueError, match="a merge keeps its rows in memory"):
        many.execute(options=WriteOptions(memory=1 << 20))
    merge = table.merge(one).when_matched_delete().when_matched_update({"v": 1})
    with pytest.raises(
        ValueError, match="applies to no row, because when_matched_delete before it"
    ):
        merge.execute()
    assert repr(table.merge(one).when_matched_delete()) == (
        "<TableMerge when_matched_delete; .execute() does it>"
    )


@pytest.mark.parametrize("form", ["eager", "lazy", "categories", "views"])
def test_conditions_on_texts_of_polars(table: HudiTable, form: str) -> None:
    given = pa.table({"id": [1, 2, 3, 4], "day": ["a", "a", "b", "b"], "ts": [6, 6, 6, 6],
                      "w": ["p", "q", "r", "s"], "op": ["D", "U", "upper", None]})  # fmt: skip
    code = pa.array([b"D", b"U", b"X", None], pa.binary_view())
    rows: Any = pl.from_arrow(given)
    if form == "lazy":
        rows = rows.lazy()
    elif form == "categories":
        rows = rows.with_columns(pl.col("op").cast(pl.Categorical))
    elif form == "views":
        views = [pa.field(one.name, pa.string_view()) if one.type == pa.string() else one
                 for one in given.schema]  # fmt: skip
        rows = given.cast(pa.schema(views)).append_column("code", code)
    done = (
        table.merge(rows)
        .when_matched_delete(where="source.code = 'D'" if form == "views" else "source.op = 'D'")
        .when_matched_update({"w": "source.w"}, where="source.op like 'u%' or target.w = source.op")
        .when_matched_update({"w": "source.op"}, where="source.op in ('U')")
        .when_not_matched_insert({"w": "source.w", "ts": "source.ts"}, where="source.w <> 'p'")
        .execute()
    )
    assert done.rows_deleted == 1
    found = {one["id"]: one["w"] for one in stored(table)}
    assert found == {2: "U", 3: "r", 4: "s"}


def test_rows_lacking_columns_keep_them(table: HudiTable) -> None:
    news = {"id": [2], "v": [1]}
    done = table.merge(news).when_matched_update().execute()
    assert (done.rows_updated, table.get(2)) == (1, {"day": "a", "ts": 5, "v": 1, "w": "y"})


def test_an_older_row_is_changed_too(table: HudiTable) -> None:
    news = {"id": [1], "day": ["a"], "ts": [1], "v": [0], "w": ["old"]}
    table.upsert(news)
    assert table.get(1)["w"] == "x"  # the ordering value decides
    table.merge(news).when_matched_update().execute()
    assert table.get(1) == {"day": "a", "ts": 1, "v": 0, "w": "old"}


def test_conflicts_are_retried_and_races_lose_nothing(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lookupstore.hudi.write import write

    true = write.Write._run
    other = HudiTable.open(table.location)
    left = [2]

    def disturbed(self: Any, *given: Any) -> Any:
        if left[0]:
            left[0] -= 1
            with monkeypatch.context() as patch:
                patch.setattr(write.Write, "_run", true)
                other.update({"v": "coalesce(v, 0) + 100"})
        return true(self, *given)

    monkeypatch.setattr(write.Write, "_run", disturbed)
    done = table.update({"v": "coalesce(v, 0) + 1"})
    assert done.retries == 2
    assert [table.get(key)["v"] for key in (1, 2, 3)] == [208, 201, 210]
    left[0] = 1
    news = pa.RecordBatchReader.from_batches(
        pa.schema({"id": pa.int64(), "v": pa.int32()}),
        iter([pa.record_batch({"id": pa.array([1]), "v": pa.array([5], pa.int32())})]),
    )
    done = table.merge(news).when_matched_update({"v": "target.v + source.v"}).execute()
    assert (done.retries, table.get(1)["v"]) == (1, 313)
    left[0] = 1
    with pytest.raises(CommitConflictError):
        table.update({"v": 0}, options=WriteOptions(retries=0))


def test_only_files_with_such_rows_are_written(table: HudiTable) -> None:
    before = {one.group: one.path for one in (g.current for g in table.file_groups())}
    table.update({"w": "'z'"}, where="id = 3")
    after = {one.group: one.path for one in (g.current for g in table.file_groups())}
    assert sum(before[one] != after[one] for one in before) == 1
    done = table.update({"w": "'z'"}, where="id = 30")
    assert done.rows_read == 0
    assert {one.group: one.path for one in (g.current for g in table.file_groups())} == after


def test_changes_show_what_a_merge_did(table: HudiTable) -> None:
    since = table.timeline()[-1].position
    news = {"id": [1, 9], "day": ["a", "a"], "ts": [5, 5], "v": [1, 1], "w": ["n", "n"]}
    merge = table.merge(news).when_matched_update().when_not_matched_insert()
    merge.when_not_matched_by_source_delete("target.day = 'b'").execute()
    rows = table.changes(since, columns=["id", "v"]).read_all().to_pylist()
    kinds = sorted((row["change"], row["id"]) for row in rows)
    assert kinds == [("delete", 3), ("insert", 9), ("update_after", 1), ("update_before", 1)]
