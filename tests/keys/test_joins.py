"""Joins with what callers hold, beside the joins of pandas, polars, Arrow and DuckDB."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.lookups import KINDS

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.keys import joins
from lookupstore.keys.joins import HOWS, How
from lookupstore.keys.lookups import Lookups

pytestmark = pytest.mark.drawn(0.5)

ARROW_HOWS = dict(zip(HOWS, ("left outer", "inner", "left semi", "left anti"), strict=True))


@pytest.fixture(params=KINDS)
def planes(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> Iterator[tuple[Lookups, pa.Table]]:
    """Lookups of a dimension, and the dimension, with nulls among its values."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    rng = random.Random(seed)
    ids = rng.sample(range(1000), 300)
    table = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "seats": pa.array([rng.choice([None, rng.randrange(500)]) for _ in ids], pa.int64()),
            "model": [rng.choice([None, f"model {key}", ""]) for key in ids],
            "range": [rng.choice([None, rng.random()]) for _ in ids],
        }
    )
    make: Callable[[pa.Table, Path], Lookups] = request.param
    with make(table, tmp_path) as lookups:
        yield lookups, table


def flights_of(seed: int, count: int = 700) -> pa.Table:
    """Facts: keys that repeat, are missing, or null; and columns of their own."""
    rng = random.Random(seed + 1)
    return pa.table(
        {
            "row": pa.array(range(count), pa.int64()),
            "plane": pa.array(
                [rng.choice([None, rng.randrange(1000), rng.randrange(50)]) for _ in range(count)],
                pa.int64(),
            ),
            "carrier": [rng.choice(["AA", "UA", None]) for _ in range(count)],
        }
    )


def expected(flights: pa.Table, table: pa.Table, how: How, on: str = "plane") -> pa.Table:
    """Return what Arrow's own join makes, in the order of the facts."""
    joined = flights.join(table, on, "id", join_type=ARROW_HOWS[how]).sort_by("row")
    return joined.select([*flights.column_names, *joined.column_names[3:]])


def args_of(how: How) -> dict[str, Any]:
    return {"how": how} if how in ("semi", "anti") else {"how": how, "columns": ["model", "seats"]}


@pytest.mark.parametrize("how", HOWS)
def test_arrow(planes: tuple[Lookups, pa.Table], seed: int, how: How) -> None:
    lookups, table = planes
    flights = flights_of(seed)
    wanted = expected(flights, table.select(["id", "model", "seats"]), how)
    if how in ("semi", "anti"):
        wanted = wanted.select(flights.column_names)
    pieces = pa.concat_tables([flights[:100], flights[100:101], flights[101:]])
    joined = lookups.join(pieces, {"plane": "id"}, **args_of(how))
    assert isinstance(joined, pa.Table)
    assert joined.equals(wanted)
    assert joined.schema == wanted.schema
    batch = flights.combine_chunks().to_batches()[0]
    one = lookups.join(batch, {"plane": "id"}, **args_of(how))
    assert isinstance(one, pa.RecordBatch)
    assert pa.Table.from_batches([one]).equals(wanted)
    reader = lookups.join(
        pa.RecordBatchReader.from_batches(flights.schema, flights.to_batches(max_chunksize=64)),
        {"plane": "id"},
        **args_of(how),
    )
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema == wanted.schema
    assert reader.read_all().equals(wanted)


@pytest.mark.parametrize("how", HOWS)
def test_pandas(planes: tuple[Lookups, pa.Table], seed: int, how: How) -> None:
    lookups, table = planes
    flights = flights_of(seed).to_pandas()
    flights.index = pd.Index(random.Random(seed).choices("abcdef", k=len(flights)), name="gate")
    flights.attrs["source"] = "random"
    before = flights.copy()
    dimension = table.select(["id", "model", "seats"]).to_pandas()
    is_there = flights["plane"].isin(dimension["id"])
    if how in ("semi", "anti"):
        wanted = flights[is_there if how == "semi" else ~is_there]
    else:
        wanted = flights.merge(dimension, left_on="plane", right_on="id", how=how)
        wanted.index = flights.index if how == "left" else flights.index[is_there]
        wanted = wanted.drop(columns="id")
        wanted["model"] = wanted["model"].replace({np.nan: None})  # merge has both
    joined = lookups.join(flights, {"plane": "id"}, **args_of(how))
    pd.testing.assert_frame_equal(joined, wanted)
    assert joined.attrs == {"source": "random"}
    joined["carrier"] = "XX"
    joined.loc[:, "row"] = -1
    pd.testing.assert_frame_equal(flights, before)  # and not what was given


def test_pandas_whose_index_is_the_key(planes: tuple[Lookups, pa.Table], seed: int) -> None:
    lookups, table = planes
    flights = flights_of(seed).to_pandas()
    by_plane = flights.set_index("plane")
    joined = lookups.join(by_plane, {"plane": "id"}, "inner", ["seats"])
    wanted = lookups.join(flights, {"plane": "id"}, "inner", ["seats"]).set_index("plane")
    pd.testing.assert_frame_equal(joined, wanted)
    arrow = flights_of(seed).to_pandas(types_mapper=pd.ArrowDtype)
    of_arrow = lookups.join(arrow, {"plane": "id"}, columns="seats")["seats"]
    assert of_arrow.dtype == pd.ArrowDtype(pa.int64())
    assert pa.array(of_arrow).equals(
        expected(flights_of(seed), table, "left")["seats"].combine_chunks()
    )


def test_pandas_whose_columns_have_levels(planes: tuple[Lookups, pa.Table], seed: int) -> None:
    """The appended columns have empty lower levels, as pandas names them."""
    lookups, _ = planes
    flights = flights_of(seed).to_pandas()
    plain = lookups.join(flights, {"plane": "id"}, columns=["seats"])
    flights.columns = pd.MultiIndex.from_tuples([("given", name) for name in flights.columns])
    joined = lookups.join(flights, {("given", "plane"): "id"}, columns=["seats"])
    assert list(joined.columns) == [*flights.columns, ("seats", "")]
    assert joined["seats"].equals(plain["seats"])
    pd.testing.assert_frame_equal(joined[["given"]], flights)
    with pytest.raises(KeyError, match="the facts have no column"):
        lookups.join(flights, "plane")
    with pytest.raises(TypeError, match="found a tuple"):
        lookups.join(flights, {("given", "plane"): ("id",)})


def test_polars_looks_up_only_what_a_filter_of_facts_leaves(
    planes: tuple[Lookups, pa.Table], seed: int
) -> None:
    lookups, _ = planes
    lazy = lookups.join(pl.DataFrame(flights_of(seed)).lazy(), {"plane": "id"}, columns=["seats"])
    plan = lazy.filter(pl.col("row") == 3).explain()
    # The plan is a tree with its root first: the filter is below the lookup.
    assert plan.index("python_udf") < plan.index("FILTER"), plan


@pytest.mark.parametrize("how", HOWS)
def test_polars(planes: tuple[Lookups, pa.Table], seed: int, how: How) -> None:
    lookups, table = planes
    flights = pl.DataFrame(flights_of(seed))
    dimension = pl.DataFrame(table.select(["id", "model", "seats"]))
    wanted = flights.join(dimension, left_on="plane", right_on="id", how=how, maintain_order="left")
    joined = lookups.join(flights, {"plane": "id"}, **args_of(how))
    assert isinstance(joined, pl.DataFrame)
    polars.testing.assert_frame_equal(joined, wanted)
    lazy = lookups.join(flights.lazy(), {"plane": "id"}, **args_of(how))
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect_schema() == wanted.schema
    polars.testing.assert_frame_equal(lazy.collect(), wanted)
    streamed = lazy.filter(pl.col("row") % 3 > 0).collect(engine="streaming")
    polars.testing.assert_frame_equal(
        streamed, wanted.filter(pl.col("row") % 3 > 0), check_row_order=False
    )
    if how in ("left", "inner"):
        some = lazy.filter(pl.col("seats") > 100, pl.col("carrier") == "AA").select("row", "model")
        some_wanted = wanted.filter(pl.col("seats") > 100, pl.col("carrier") == "AA")
        polars.testing.assert_frame_equal(some.collect(), some_wanted.select("row", "model"))
        polars.testing.assert_frame_equal(lazy.slice(5, 9).collect(), wanted.slice(5, 9))


@pytest.mark.parametrize("how", HOWS)
def test_duckdb(planes: tuple[Lookups, pa.Table], seed: int, how: How) -> None:
    lookups, table = planes
    flights, dimension = flights_of(seed), table.select(["id", "model", "seats"])
    with duckdb.connect() as connection:
        connection.register("flights", flights)
        connection.register("dimension", dimension)
        more = ", model, seats" if how in ("left", "inner") else ""
        wanted = connection.sql(
            f"SELECT flights.*{more} FROM flights {how} JOIN dimension ON plane = id ORDER BY row"
        ).fetchall()
        facts = connection.sql("FROM flights")
        joined = lookups.join(facts, {"plane": "id"}, **args_of(how))
        assert isinstance(joined, duckdb.DuckDBPyRelation)
        assert joined.fetchall() == joined.order("row").fetchall() == wanted
        # It is of the same connection, and goes on without the variables of the join.
        both = connection.sql("SELECT count(*) FROM joined JOIN flights USING (row)").fetchall()
        assert both == [(len(wanted),)]
        odd = connection.sql(
            """SELECT row, plane, uuid() AS u, plane::hugeint AS "H i", {'a': 1}::json AS j,
                'x'::enum('x', 'y') AS e FROM flights"""
        )
        named = lookups.join(odd, {"H i": "id"}, **args_of(how))
        assert named.types[: len(odd.types)] == odd.types
        assert named.columns[: len(odd.columns)] == odd.columns
        assert len(named.fetchall()) == len(wanted)
        with pytest.raises(ValueError, match=r"both have the columns \['seats'\]"):
            lookups.join(connection.sql("SELECT *, 1 AS Seats FROM flights"), {"plane": "id"})


@pytest.mark.parametrize(
    ("kind", "lossless"), [(pa.uuid(), False), (pa.uuid(), True), (pa.string(), False)]
)
def test_uuids_of_duckdb(tmp_path: Path, kind: pa.DataType, lossless: bool) -> None:
    ids = [uuid.UUID(int=number << 64 | 7) for number in range(3)]
    keys = ids if kind == pa.uuid() else list(map(str, ids))
    rows = pa.table({"id": pa.array(keys, kind), "place": ["a", "b", "c"], "v": [0, 1, 2]})
    with duckdb.connect() as connection:
        facts = connection.sql(
            f"""SELECT place, id::UUID AS id FROM (VALUES ('c', '{ids[2]}'), ('a', NULL),
                ('a', '{uuid.UUID(int=5)}'), ('b', '{ids[1]}')) AS t(place, id)"""
        )
        connection.execute(f"SET arrow_lossless_conversion = {lossless}")
        with lookupstore.build(rows, tmp_path / "s", key=["place", "id"]) as store:
            joined = store.join(facts, ["id", "place"])
            assert joined.types[:2] == facts.types
            given = [
                (*fact, v) for fact, v in zip(facts.fetchall(), (2, None, None, 1), strict=True)
            ]
            assert joined.fetchall() == given
            found = store.join(facts, ["id", "place"], "semi")
            assert found.fetchall() == [row[:2] for row in (given[0], given[3])]
        with (
            lookupstore.build({"id": [1], "v": [2]}, tmp_path / "n", key="id") as numbers,
            pytest.raises(TypeError, match=r"the fact column 'id' is \S+, the key column 'id'"),
        ):
            numbers.join(facts, "id")


@pytest.mark.parametrize("how", HOWS)
def test_numpy(planes: tuple[Lookups, pa.Table], seed: int, how: How) -> None:
    lookups, table = planes
    flights = flights_of(seed)
    plane = pc.fill_null(flights["plane"], -1).to_numpy()
    facts = {"plane": plane, "pairs": np.arange(2 * len(plane)).reshape(-1, 2)}
    rows = {row["id"]: row for row in table.to_pylist()}
    found = np.array([key in rows for key in plane.tolist()])
    kept = {"left": found | True, "inner": found, "semi": found, "anti": ~found}[how]
    joined = lookups.join(facts, {"plane": "id"}, **args_of(how))
    names = ["model", "seats"] if how in ("left", "inner") else []
    assert list(joined) == ["plane", "pairs", *names]
    assert joined["plane"].tolist() == plane[kept].tolist()
    assert joined["pairs"].tolist() == facts["pairs"][kept].tolist()
    if names:
        if how == "left":
            assert joined["pairs"] is facts["pairs"]
        at = [rows.get(key, {"model": None, "seats": None}) for key in plane[kept].tolist()]
        assert joined["model"].tolist() == [row["model"] for row in at]
        seats = [None if np.isnan(value) else value for value in joined["seats"].tolist()]
        assert seats == [row["seats"] for row in at]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", [np.ndarray, np.recarray])
def test_structured_arrays(
    planes: tuple[Lookups, pa.Table], seed: int, how: How, kind: type
) -> None:
    lookups, _ = planes
    plane = pc.fill_null(flights_of(seed)["plane"], -1).to_numpy()
    fields = [("plane", plane.dtype), ("pair", "f4", (2,)), ("text", "U3"), ("at", "M8[ms]")]
    rows = np.zeros(len(plane), fields).view(kind)
    rows["plane"] = plane
    rows["pair"][:, 1] = np.arange(len(plane))
    rows["text"] = "abc"
    whole = lookups.join({name: rows[name] for name in rows.dtype.names}, {"plane": "id"}, how)
    for given in (rows, rows[::2], rows[:0]):
        joined = lookups.join(given, {"plane": "id"}, how)
        assert type(joined) is kind
        assert list(joined.dtype.names) == list(whole)
        assert [joined.dtype[name] for name in rows.dtype.names] == [
            rows.dtype[name] for name in rows.dtype.names
        ]
        if given is rows:
            for name, column in whole.items():
                np.testing.assert_array_equal(joined[name], column)
    with pytest.raises(TypeError, match=r"rows is numpy\.ndarray; give a pandas DataFrame"):
        lookups.join(plane, {"plane": "id"})
    with pytest.raises(TypeError, match=r"rows is numpy\.ma"):
        lookups.join(np.ma.MaskedArray(np.array(rows)), {"plane": "id"})


def test_what_is_appended(planes: tuple[Lookups, pa.Table], seed: int) -> None:
    lookups, table = planes
    flights = flights_of(seed)
    on = {"plane": "id"}
    everything = lookups.join(flights, on, prefix="plane_", found="known")
    assert everything.column_names == [
        *("row", "plane", "carrier", "plane_seats", "plane_model", "plane_range", "known"),
    ]
    known = pc.is_in(flights["plane"], table["id"].combine_chunks())
    assert everything["known"].to_pylist() == known.to_pylist()
    assert lookups.join(flights, on, "inner", [], found="known")["known"].to_pylist() == [
        True
    ] * known.to_pylist().count(True)
    assert lookups.join(flights, on, columns=[]) is flights
    assert lookups.join(flights, on, "LEFT_SEMI").equals(flights.filter(known))
    for rows in (flights.slice(0, 0), flights.to_pandas().iloc[:0], pl.DataFrame(flights[:0])):
        for how in HOWS:
            assert len(lookups.join(rows, on, **args_of(how))) == 0
    same = flights.rename_columns(["row", "id", "carrier"])
    assert lookups.join(same, "id").equals(lookups.join(same, ["id"]))


def test_facts_in_parts(
    planes: tuple[Lookups, pa.Table], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More facts than are looked up at once are looked up in parts."""
    lookups, _ = planes
    flights = flights_of(seed)
    ours = flights.to_pandas(), pl.DataFrame(flights), flights
    whole = [lookups.join(one, {"plane": "id"}, how) for one in ours for how in HOWS]
    for size in (flights.num_rows - 1, random.Random(seed).randrange(20, 300)):
        monkeypatch.setattr(joins, "CALL_KEYS", size)
        parts = [lookups.join(one, {"plane": "id"}, how) for one in ours for how in HOWS]
        assert all(one.equals(other) for one, other in zip(whole, parts, strict=True)), size


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Joins of few facts in three threads, and the names of those that had some."""
    names: set[str] = set()
    look_up = joins.look_up

    def named(*args: Any) -> joins.Found:
        names.add(threading.current_thread().name)
        time.sleep(0.002)  # that others begin before this one has done it all
        return look_up(*args)

    monkeypatch.setattr(joins, "THREAD_KEYS", 50)
    monkeypatch.setattr(joins, "MOST_THREADS", 3)
    monkeypatch.setattr(joins, "look_up", named)
    yield names
    assert not [one for one in threading.enumerate() if one.name.startswith("lookupstore-join")]


@pytest.mark.few(1)
def test_facts_in_threads(
    planes: tuple[Lookups, pa.Table],
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    in_threads: set[str],
) -> None:
    """The answers to many facts come from several threads, and are as from one."""
    lookups, _ = planes
    flights = flights_of(seed)
    ours = flights.to_pandas(), pl.DataFrame(flights), flights

    def joined() -> list[Any]:
        keys = flights["plane"], flights["plane"].to_pylist()
        maps = [pa.array(lookups.map(one, "model")) for one in keys]
        return [lookups.join(one, {"plane": "id"}, how) for one in ours for how in HOWS] + maps

    monkeypatch.setattr(joins, "MOST_THREADS", 1)
    whole = joined()
    assert in_threads == {threading.current_thread().name}
    for threads in (2, 3):
        for size in (joins.CALL_KEYS, 30):  # a part for each thread, and many
            with monkeypatch.context() as patch:
                patch.setattr(joins, "MOST_THREADS", threads)
                patch.setattr(joins, "CALL_KEYS", size)
                parts = joined()
            for one, other in zip(whole, parts, strict=True):
                assert one.equals(other), (threads, size)
    kinds = lookupstore.LookupStore, ColumnarFiles
    assert len(in_threads) > 1 or not isinstance(lookups, kinds)


def test_a_thread_that_fails(tmp_path: Path, seed: int, in_threads: set[str]) -> None:
    """An error of a thread is that of the join; where no thread can be had, the caller does all."""
    table = pa.table({"id": pa.array(range(300), pa.int64()), "name": ["x"] * 300})
    with lookupstore.build(table, tmp_path / "store", key="id") as store:
        facts = pa.table({"id": range(299, -1, -1)})
        wanted = store.join(facts, "id")
        until = time.monotonic() + 60
        while len(in_threads) == 1 and time.monotonic() < until:  # a thread may begin late
            assert store.join(facts, "id").equals(wanted)
        assert len(in_threads) > 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading.Thread, "start", _refuse)
            in_threads.clear()
            assert store.join(facts, "id").equals(wanted)
            assert in_threads == {threading.current_thread().name}
    (file,) = (tmp_path / "store").rglob("*.sst")
    damaged = bytearray(file.read_bytes())
    damaged[random.Random(seed).randrange(200)] ^= 1  # of the only block
    file.write_bytes(damaged)
    with (
        lookupstore.open(tmp_path / "store") as store,
        pytest.raises(lookupstore.CorruptionError, match=file.name),
    ):
        store.join(facts, "id")


def test_an_error_ends_all_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_threads: set[str]
) -> None:
    """The others go no further when one has failed."""
    monkeypatch.setattr(joins, "CALL_KEYS", 8)
    table = pa.table({"id": pa.array(range(300), pa.int64()), "name": ["x"] * 300})
    calls: list[int] = []
    look_up = joins.look_up

    def failing(*args: Any) -> joins.Found:
        calls.append(1)
        if len(calls) == 3:
            raise OSError("injected")
        return look_up(*args)

    monkeypatch.setattr(joins, "look_up", failing)
    with lookupstore.build(table, tmp_path / "store", key="id") as store:
        with pytest.raises(OSError, match="injected"):
            store.join(pa.table({"id": range(3000)}), "id")
        assert len(calls) < 100  # of 375


def _refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_reader_is_read_as_it_is_joined(planes: tuple[Lookups, pa.Table], seed: int) -> None:
    lookups, _ = planes
    flights = flights_of(seed)
    read = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for batch in flights.to_batches(max_chunksize=50):
            read += 1
            yield batch

    reader = pa.RecordBatchReader.from_batches(flights.schema, batches())
    joined = lookups.join(reader, {"plane": "id"})
    assert read == 0
    for wanted in (1, 2, 3):
        joined.read_next_batch()
        assert read == wanted
    lazy = pl.LazyFrame({"plane": [1]}).map_batches(lambda _: pytest.fail("it was collected"))
    lookups.join(lazy.with_columns(pl.col("plane").cast(pl.Int64)), {"plane": "id"})


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["N1", "N2", "N9"])], ids=str)
def test_categories_of_polars_are_keys(tmp_path: Path, kind: Any) -> None:
    rows = pa.table({"tailnum": ["N1", "N2"], "seats": [55, 182]})
    facts = pl.DataFrame({"tailnum": pl.Series(["N2", None, "N9", "N1"], dtype=kind)})
    wanted = facts.with_columns(seats=pl.Series([182, None, None, 55], dtype=pl.Int64))
    with lookupstore.build(rows, tmp_path / "store", key="tailnum") as store:
        assert_frame_equal = polars.testing.assert_frame_equal
        assert_frame_equal(store.join(facts, "tailnum"), wanted)
        assert_frame_equal(store.join(facts.lazy(), "tailnum").collect(), wanted)
        assert store.join(facts, "tailnum", "inner")["seats"].to_list() == [182, 55]


def test_nulls_match_nothing(tmp_path: Path, seed: int) -> None:
    """Not even the nulls that a store has in its key, as in SQL."""
    rng = random.Random(seed)
    keys = [(rng.choice([None, "a", "b"]), rng.choice([None, 1, 2, 3])) for _ in range(9)]
    keys = sorted(set(keys), key=str)
    columns = list(zip(*keys, strict=True))
    table = pa.table(
        {
            "a": pa.array(columns[0], pa.string()),
            "b": pa.array(columns[1], pa.int64()),
            "n": list(range(len(keys))),
        }
    )
    store = lookupstore.build(table, tmp_path / "s", key=["a", "b"], nullable_keys=["a", "b"])
    model = {key: at for at, key in enumerate(keys) if None not in key}
    asked = [(rng.choice([None, "a", "b", "c"]), rng.choice([None, 1, 2, 9])) for _ in range(200)]
    facts = pa.table(
        {
            "x": pa.array([one[1] for one in asked], pa.int64()),
            "y": pa.array([one[0] for one in asked], pa.string()),
        }
    )
    wanted = [model.get(key) for key in asked]
    on = {"x": "b", "y": "a"}
    assert store.join(facts, on)["n"].to_pylist() == wanted
    assert store.join(facts, on, "anti").num_rows == wanted.count(None)
    there = [number for number in wanted if number is not None]
    assert store.join(facts, on, "inner")["n"].to_pylist() == there
    polars_frame = pl.DataFrame(facts)
    assert store.join(polars_frame, on)["n"].to_list() == wanted
    assert store.join(polars_frame.lazy(), on).collect()["n"].to_list() == wanted
    frame = facts.to_pandas()
    assert [None if n != n else n for n in store.join(frame, on)["n"]] == wanted
    arrays = {name: frame[name].to_numpy(dtype=object) for name in frame}
    # Of two kinds: no one type of Arrow has them.
    numbers = [one[1] and rng.choice([int, Decimal])(one[1]) for one in asked]
    arrays["x"] = np.array(numbers, dtype=object)
    arrays["y"] = np.array([one[0] for one in asked], dtype=object)
    assert [None if n != n else n for n in store.join(arrays, on)["n"].tolist()] == wanted
    with pytest.raises(ValueError, match=r"the key is \['a', 'b'\]; use join"):
        store.map(["a"], "n")


def test_one_column(planes: tuple[Lookups, pa.Table], seed: int) -> None:
    lookups, table = planes
    flights = flights_of(seed)
    plane = flights["plane"]
    wanted = expected(flights, table, "left")["seats"].to_pylist()
    for column in (plane, pa.chunked_array([plane.chunk(0)[:9], plane.chunk(0)[9:]])):
        found = lookups.map(column, "seats")
        assert isinstance(found, pa.ChunkedArray)
        assert found.to_pylist() == wanted
    array = lookups.map(plane.combine_chunks(), "seats")
    assert isinstance(array, pa.Array)
    assert array.to_pylist() == wanted
    assert lookups.map(plane.to_pylist(), "seats") == wanted
    frame = flights.to_pandas().set_index("row", drop=False)[::-1]
    series = lookups.map(frame["plane"], "seats")
    pd.testing.assert_series_equal(
        series, frame["plane"].map(table.to_pandas().set_index("id")["seats"]).rename("seats")
    )
    index = lookups.map(pd.Index(frame["plane"]), "model")
    assert isinstance(index, pd.Index)
    assert index.name == "model"
    of_polars = lookups.map(pl.DataFrame(flights)["plane"], "seats")
    polars.testing.assert_series_equal(of_polars, pl.Series("seats", wanted, pl.Int64))
    given = pc.fill_null(plane, -1).to_numpy()
    numbers = lookups.map(given, "seats")
    assert isinstance(numbers, np.ndarray)
    assert [None if n != n else n for n in numbers.tolist()] == wanted
    with pytest.raises(KeyError, match="no value column 'wings'"):
        lookups.map([1], "wings")
    with pytest.raises(TypeError, match="give the name of one value column"):
        lookups.map([1], ["seats"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="column is set; give an Arrow array"):
        lookups.map({1}, "seats")
    with pytest.raises(TypeError, match="'id'"):
        lookups.map(["N1"], "seats")


def test_errors_name_a_column_that_is_meant(planes: tuple[Lookups, pa.Table], seed: int) -> None:
    lookups, _ = planes
    flights = flights_of(seed)
    for given, said in (
        ({"Plane": "id"}, "no column 'Plane'; did you mean 'plane'. They have"),
        ({"plain": "id"}, "no column 'plain'; did you mean 'plane'. They have"),
        ({"plane": "ID"}, r"no key column 'ID'; did you mean 'id'. Its key is \['id'\]; if the"),
        ({"plane": "tail"}, r"no key column 'tail'; its key is \['id'\]; if the names differ"),
    ):
        with pytest.raises(KeyError, match=said):
            lookups.join(flights, given)
    with pytest.raises(KeyError, match=r"no value column 'seat'; did you mean 'seats'\? Val"):
        lookups.join(flights, {"plane": "id"}, columns=["seat"])
    with pytest.raises(KeyError, match=r"no value column 'id' \(it is a key .*\); value columns: "):
        lookups.join(flights, {"plane": "id"}, columns=["id"])


def test_what_is_refused(planes: tuple[Lookups, pa.Table], seed: int) -> None:
    lookups, _ = planes
    flights = flights_of(seed)
    kinds: list[Any] = [flights, flights.to_pandas(), pl.DataFrame(flights)]
    kinds += [kinds[-1].lazy(), flights.to_batches()[0], duckdb.from_arrow(flights)]
    kinds.append({"row": np.arange(3), "plane": np.arange(3), "carrier": np.array(["a"] * 3)})
    on = {"plane": "id"}
    for rows in kinds:
        with pytest.raises(KeyError, match="on: the facts have no column 'tail'; they have"):
            lookups.join(rows, {"tail": "id"})
        with pytest.raises(KeyError, match=r"fact column comes first: {'plane': 'id'}"):
            lookups.join(rows, {"id": "plane"})
        with pytest.raises(KeyError, match="on: the store has no key column 'tail'"):
            lookups.join(rows, {"plane": "tail"})
        with pytest.raises(KeyError, match="on: no fact column for the key column 'id'"):
            lookups.join(rows, [])
        with pytest.raises(TypeError, match=r"on: the fact column 'carrier' is .*string"):
            lookups.join(rows, {"carrier": "id"})
        with pytest.raises(KeyError, match="no value column 'wings'"):
            lookups.join(rows, on, columns=["wings"])
        with pytest.raises(ValueError, match="give one of 'left', 'inner', 'semi', 'anti'"):
            lookups.join(rows, on, "outer")
        with pytest.raises(ValueError, match="semi joins add no columns: leave it out"):
            lookups.join(rows, on, "semi", ["seats"])
        with pytest.raises(ValueError, match="found='row': the facts have a column 'row'; give"):
            lookups.join(rows, on, columns=[], found="row")
        with pytest.raises(ValueError, match="there is a value column 'seats'"):
            lookups.join(rows, on, found="seats")
        with pytest.raises(TypeError, match="found is True; give the name"):
            lookups.join(rows, on, found=True)  # type: ignore[arg-type]
    for rows in kinds[:3]:
        with pytest.raises(TypeError, match="on: found a int; give names"):
            lookups.join(rows, 3)  # type: ignore[arg-type]
    twice = pa.table([flights["plane"], flights["plane"]], names=["plane", "plane"])
    with pytest.raises(ValueError, match="more than one column 'plane'; rename"):
        lookups.join(twice, on)
    with pytest.raises(TypeError, match=r"rows is list; give a pandas DataFrame"):
        lookups.join([1, 2], on)
    with pytest.raises(TypeError, match="the column 'plane' is a list; give a dict of NumPy"):
        lookups.join({"plane": [1]}, on)
    with pytest.raises(ValueError, match="arrays of different lengths"):
        lookups.join({"plane": np.arange(2), "b": np.arange(3)}, on)
    with pytest.raises(TypeError, match=r"RecordBatchReader.from_stream\(rows\)"):
        lookups.join(pl.Series([1]), on)
