"""Lookups and scans in queries of polars, beside what polars does with the same rows."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal, assert_series_equal
from support.engines import KEY_TYPES, VALUE_TYPES, column_of, planes_of, values_of
from support.lookups import KINDS

import lookupstore
import lookupstore.polars
from lookupstore.keys import at_hand
from lookupstore.keys.lookups import Lookups
from lookupstore.keys.schema import KeySchema
from lookupstore.polars import ALL, NOTHING, ScanPart, lookup, part_of, scan_store

pytestmark = pytest.mark.drawn(0.5)

ENGINES = ("in-memory", "streaming")


#: Of a test of what is read when polars asks.
SCANNED = pytest.mark.parametrize("small", [False], indirect=True)


@pytest.fixture(autouse=True, params=[True, False], ids=["at hand", "scanned"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether rows of small stores are read at once, as they are, or no store is a small one."""
    if not request.param:
        monkeypatch.setattr(at_hand, "MOST_ROWS", -1)
    return bool(request.param)


@pytest.fixture(params=KINDS)
def planes(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> Iterator[tuple[Lookups, pl.DataFrame]]:
    """Lookups of a dimension, and the dimension in the order of its key."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    table = planes_of(seed)
    make: Callable[[pa.Table, Path], Lookups] = request.param
    with make(table, tmp_path) as lookups:
        yield lookups, pl.DataFrame(table).sort("id")


def facts_of(seed: int, count: int = 700) -> pl.DataFrame:
    """Facts: keys that repeat, are missing, or null."""
    rng = random.Random(seed + 1)
    keys = [rng.choice([None, rng.randrange(1000), rng.randrange(50)]) for _ in range(count)]
    return pl.DataFrame({"row": range(count), "plane": pl.Series(keys, dtype=pl.Int64)})


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lookup_is_a_left_join(
    planes: tuple[Lookups, pl.DataFrame], seed: int, engine: Any
) -> None:
    lookups, dimension = planes
    facts = facts_of(seed)
    joined = facts.join(
        dimension.with_columns(known=pl.lit(True)), left_on="plane", right_on="id", how="left"
    )
    found = facts.lazy().with_columns(found=lookup("plane", lookups))
    schema = found.collect_schema()
    known = found.with_columns(known=pl.col("found").is_not_null()).unnest("found")
    result = known.collect(engine=engine)
    wanted = joined.with_columns(pl.col("known").fill_null(False)).sort("row")
    assert_frame_equal(result.sort("row"), wanted, check_column_order=False)
    assert schema == found.collect(engine=engine).schema
    assert schema["found"] == pl.Struct({"seats": pl.Int64, "model": pl.String})
    one = facts.select(lookup(pl.col("plane") + 1, lookups, columns=["model"]).struct.unnest())
    shifted = facts.with_columns(pl.col("plane") + 1)
    same = shifted.join(
        dimension, left_on="plane", right_on="id", how="left", maintain_order="left"
    )
    assert_frame_equal(one, same.select("model"))


def test_a_lookup_in_every_place(planes: tuple[Lookups, pl.DataFrame], seed: int) -> None:
    lookups, dimension = planes
    facts = facts_of(seed)
    joined = facts.join(dimension, left_on="plane", right_on="id", how="left")
    seats = lookup("plane", lookups, columns=["seats"]).struct.field("seats")
    assert_frame_equal(
        facts.filter(seats > 200).sort("row"),
        joined.filter(pl.col("seats") > 200).select("row", "plane").sort("row"),
    )
    group = (pl.col("row") % 7).alias("group")
    assert_frame_equal(
        facts.group_by(group).agg(seats.sum()).sort("group"),
        joined.group_by(group).agg(pl.col("seats").sum()).sort("group"),
    )
    assert facts.clear().select(seats).schema == {"seats": pl.Int64}
    assert facts.clear().lazy().select(lookup("plane", lookups)).collect().height == 0
    key = dimension["id"][0]
    assert (
        pl.select(lookup(pl.lit(key), lookups).struct.field("seats")).item()
        == dimension["seats"][0]
    )


def test_more_keys_than_one_call_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookupstore.polars, "CALL_KEYS", 7)
    table = pa.table({"id": range(100), "x": range(100, 200)})
    with lookupstore.build(table, tmp_path / "store", key="id") as store:
        frame = pl.DataFrame({"id": [*range(50, 150)]})
        wanted = [key + 100 if key < 100 else None for key in range(50, 150)]
        assert frame.select(lookup("id", store).struct.unnest())["x"].to_list() == wanted
        some = scan_store(store).filter(pl.col("id").is_in([*range(90, 110), 5])).collect()
        assert some["x"].to_list() == [105, *range(190, 200)]


def test_keys_of_several_fields(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    keys = sorted({(rng.choice("abc"), rng.randrange(20)) for _ in range(40)})
    table = pa.table(
        {"place": [key[0] for key in keys], "hour": [key[1] for key in keys], "x": range(len(keys))}
    )
    facts = pl.DataFrame(
        {
            "hour": [rng.choice([None, rng.randrange(25)]) for _ in range(200)],
            "place": [rng.choice([None, *"abcd"]) for _ in range(200)],
        },
        schema={"hour": pl.Int64, "place": pl.String},
    )
    wanted = facts.join(
        pl.DataFrame(table), on=["place", "hour"], how="left", maintain_order="left"
    )["x"]
    renamed = facts.rename({"hour": "when", "place": "where"})
    with lookupstore.build(table, tmp_path / "store", key=["place", "hour"]) as store:
        for frame, given in (
            (facts, ["hour", "place"]),
            (facts, ["place", pl.col("hour")]),
            (renamed, ["where", "when"]),
            (renamed, {"when": "hour", "where": "place"}),
            (renamed, (pl.col("where"), pl.col("when"))),
        ):
            expression = lookup(given, store)
            assert frame.select(expression).columns == ["place"]
            found = frame.lazy().select(expression.struct.field("x")).collect()
            assert_series_equal(found["x"], wanted)
        with pytest.raises(ValueError, match=r"1 are given; the key of the store is \['place'"):
            lookup("place", store)
        with pytest.raises(KeyError, match="no key column 'when'"):
            lookup({"when": "when", "where": "place"}, store)
        with pytest.raises(KeyError, match="no fact column for the key column 'place'"):
            lookup({"when": "hour"}, store)
        with pytest.raises(TypeError, match="found a int; give names of columns or expressions"):
            lookup(["place", 7], store)  # type: ignore[list-item]
        for none in (7, store.to_pandas()):
            with pytest.raises(TypeError, match=r"store is .*TableLookup\(PATH\)"):
                lookup("place", none)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=r"store is .*TableLookup\(PATH\)"):
                scan_store(none)  # type: ignore[arg-type]


@pytest.mark.few(30)
@pytest.mark.parametrize("kind", KEY_TYPES, ids=str)
def test_every_type_of_key(kind: pa.DataType, tmp_path: Path, seed: int, small: bool) -> None:
    keys, others = values_of(kind, seed)
    table = pa.table({"key": column_of(keys, kind), "x": range(len(keys))})
    with lookupstore.build(table, tmp_path / "store", key="key") as store:
        rows = pl.DataFrame(store)
        given = pl.DataFrame(
            {
                "key": pl.DataFrame(pa.table([column_of([*others, *keys, None], kind)], ["key"]))[
                    "key"
                ]
            }
        )
        found = given.select(lookup("key", store).struct.field("x"))["x"]
        assert found.to_list() == [*[None] * len(others), *range(len(keys)), None]
        lazy = scan_store(store)
        assert lazy.collect_schema() == rows.schema
        assert_frame_equal(lazy.collect(), rows)
        rng = random.Random(seed)
        for _ in range(20):
            predicate = random_predicate(rng, given["key"])
            wanted = rows.filter(predicate)
            assert_frame_equal(lazy.filter(predicate).collect(engine=rng.choice(ENGINES)), wanted)
            assert_frame_equal(lazy.filter(predicate).select("x").collect(), wanted.select("x"))
        one = pl.lit(rows["key"][0], rows["key"].dtype)
        # The order of categories is not that of keys; and `key == True` becomes `key`.
        is_whole = pa.types.is_dictionary(kind) or pa.types.is_boolean(kind)
        if not small:
            assert (part_for(lazy.filter(pl.col("key") == one)) == ALL) == is_whole


@pytest.mark.few(30)
@pytest.mark.parametrize("kind", VALUE_TYPES, ids=str)
def test_every_type_of_value(kind: pa.DataType, tmp_path: Path, seed: int) -> None:
    values, _ = values_of(kind, seed)
    table = pa.table({"id": range(len(values) + 1), "x": column_of([*values, None], kind)})
    with lookupstore.build(table, tmp_path / "store", key="id") as store:
        if pa.types.is_interval(kind) or pa.types.is_decimal256(kind):
            with pytest.raises(TypeError, match=r"'x' is .*, which polars does not have; leave it"):
                lookup("id", store)
            with pytest.raises(TypeError, match=r"'x' is .*, which polars does not have; give "):
                scan_store(store)
            return
        rows = pl.DataFrame(store)
        frame = pl.DataFrame({"id": [3, None, 0, 999, len(values)]})
        wanted = frame.join(rows, on="id", how="left", maintain_order="left")["x"]
        lazy = frame.lazy().select(lookup("id", store).struct.field("x"))
        assert lazy.collect_schema()["x"] == rows["x"].dtype
        assert_series_equal(lazy.collect()["x"], wanted)
        assert_frame_equal(scan_store(store).collect(), rows)


def test_types_inside_of_others(tmp_path: Path) -> None:
    inner = pa.struct([("interval", pa.map_(pa.string(), pa.decimal128(7, 2)))])
    for number, (kind, is_there) in enumerate(
        (
            (inner, True),
            (pa.list_(pa.struct([("a", pa.month_day_nano_interval())])), False),
            (pa.map_(pa.string(), pa.decimal256(50, 2)), False),
        )
    ):
        table = pa.table({"id": [1], "x": pa.nulls(1, kind)})
        with lookupstore.build(table, tmp_path / str(number), key="id") as store:
            if is_there:
                assert scan_store(store).collect().rows() == [(1, None)]
                continue
            with pytest.raises(TypeError, match="'x' is"):
                scan_store(store)


def random_predicate(rng: random.Random, values: pl.Series, depth: int = 2) -> pl.Expr:
    """Return a predicate of a column, of every form that chooses keys, and of some others.

    Args:
        rng: what chooses.
        values: some values of the column, with its name.
        depth: how many predicates may be inside one another.
    """
    if depth and rng.random() < 0.5:
        parts = [random_predicate(rng, values, depth - 1) for _ in range(2)]
        return parts[0] & parts[1] if rng.random() < 0.7 else parts[0] | parts[1]
    column = pl.col(values.name)
    known = values.drop_nulls()
    a, b = (pl.lit(rng.choice(known), known.dtype) for _ in range(2))
    some = pl.Series(rng.choices(values, k=rng.randrange(5)), dtype=values.dtype).implode()
    return rng.choice(
        [
            column == a,
            column != a,
            column < a,
            column <= a,
            column > a,
            column >= a,
            a < column,
            a >= column,
            column.is_between(a, b, closed=rng.choice(["both", "left", "right", "none"])),
            column.is_in(some),
            column.is_in(some, nulls_equal=True),
            ~column.is_in(some),
            column.eq_missing(a),
            column == rng.choice(known),
            column == pl.lit(None, values.dtype),
            column.is_null(),
            ~((column <= a) & (column != b)),
        ]
    )


def part_for(query: pl.LazyFrame) -> ScanPart:
    """Return the part of a store that a query reads."""
    parts = []

    def noted(*given: Any) -> ScanPart:
        parts.append(part_of(*given))
        return parts[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookupstore.polars, "part_of", noted)
        query.collect()
    (part,) = parts
    return part


def test_predicates_of_several_key_columns(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    keys = {(rng.choice(["a", "ab", "b", "", None]), rng.randrange(12)) for _ in range(40)}
    texts, numbers = ([key[at] for key in keys] for at in range(2))
    table = pa.table({"text": texts, "number": numbers, "x": [rng.random() for _ in keys]})
    with lookupstore.build(
        table, tmp_path / "store", key=["text", "number"], nullable_keys="text", buckets=3
    ) as store:
        lazy, rows = scan_store(store), pl.DataFrame(store)
        given = [rows["text"], pl.Series("number", range(-1, 14)), rows["x"]]
        for _ in range(300):
            predicate = random_predicate(rng, rng.choice(given))
            for _ in range(rng.randrange(3)):
                predicate &= random_predicate(rng, rng.choice(given))
            found = lazy.filter(predicate).collect(engine=rng.choice(ENGINES))
            assert_frame_equal(found, rows.filter(predicate))


def test_a_key_column_between_others_that_is_not_compared(tmp_path: Path) -> None:
    keys = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]
    table = pa.table({name: [key[at] for key in keys] for at, name in enumerate("abc")})
    with lookupstore.build(table, tmp_path / "store", key=["a", "b", "c"]) as store:
        found = scan_store(store).filter(pl.col("a") == 1, pl.col("c") == 2).collect()
    assert found.rows() == [(1, b, 2) for b in range(3)]


@SCANNED
def test_a_predicate_chooses_what_is_read(tmp_path: Path) -> None:
    table = pa.table({"text": ["a", "a", "b", "c"], "number": [1, 2, 1, 1], "x": range(4)})
    text, number = pl.col("text"), pl.col("number")
    with lookupstore.build(table, tmp_path / "store", key=["text", "number"]) as store:
        lazy = scan_store(store)

        def read(*predicates: pl.Expr) -> int:
            """Return how many rows a part has before polars filters them."""
            part = part_for(lazy.filter(*predicates))
            return sum(batch.num_rows for batch in part.batches(store, [], store.key_schema.schema))

        assert read(text == "a") == 2
        assert read(text == "a", number == 2) == 1
        assert read(number > 1, text == "a", pl.col("x") < 9) == 1
        assert read(text > "a") == 2
        assert read(text > "a", text <= "b", text >= "") == 1
        assert read(text.is_between(pl.lit("a"), pl.lit("c"), closed="none")) == 1
        assert read(text.is_between(pl.lit("a"), pl.lit("c"), closed="left")) == 3
        assert read(text > "b", text < "b") == 0
        assert read(text >= "b", text < "c") == 1
        assert read(text.is_between(pl.lit("b"), pl.lit("bb"))) == 1
        assert read(text.is_in(["b", "c", "d"])) == 2
        assert read(text.is_in(pl.Series([], dtype=pl.String).implode())) == 0
        assert read(text == "a", number.is_in([2, 5])) == 1
        assert read(pl.lit("b") < text) == 1
        assert read(number == 1) == 4
        assert read((text == "a") | (number == 1)) == 4
        assert read(text.str.to_uppercase() == "A") == 4
        assert read(text != "a") == 4
    ends = pa.table({"number": pa.array([1, 2, 255], pa.uint8()), "text": ["a", "b", "c"]})
    with lookupstore.build(ends, tmp_path / "ends", key=["number", "text"]) as store:
        found = scan_store(store).filter(
            number.is_in(pl.Series([2, 255], dtype=pl.UInt8).implode())
        )
        assert found.collect()["text"].to_list() == ["b", "c"]
        assert part_for(found).bounds == (b"\x02", None)
    with lookupstore.build(table.slice(1), tmp_path / "one", key="text") as store:
        part = part_for(scan_store(store).filter(text.is_in(["c", "a", "x", "c"])))
        assert part.keys.to_pylist() == [b"a", b"c", b"x"]


def test_a_constant_that_is_not_understood_narrows_nothing() -> None:
    schema = KeySchema(pa.schema([("id", pa.int64())]))
    types = {"id": pl.Int64()}
    column = pl.col("id")
    narrow = column == pl.lit(7, pl.Int64)
    assert part_of(narrow, schema, types) != ALL
    for wide in (
        column == 7.5,
        column == pl.lit(7, pl.Int32),
        column.cast(pl.Int32) == pl.lit(7, pl.Int64),
        column == pl.col("other"),
        column == column,
        narrow | narrow,
        ~narrow,
        pl.lit(True),
        pl.lit(None),
        column.is_in([7, 8], nulls_equal=True),
        column.is_in(pl.col("other").implode()),
        column == pl.lit(7, pl.Int64) + 1,
        column.alias("other") == pl.lit(7, pl.Int64),
        pl.col("other") == pl.lit(7, pl.Int64),
        pl.when(narrow).then(True),
        column.map_batches(lambda one: one == 7, pl.Boolean),
    ):
        assert part_of(wide, schema, types) == ALL, wide
        assert part_of(wide & narrow, schema, types) == part_of(narrow, schema, types)
    for nothing in (column < pl.lit(None, pl.Int64), column == pl.lit(None, pl.Int64)):
        assert part_of(nothing, schema, types) == NOTHING
    two = KeySchema(pa.schema([("id", pa.binary(2)), ("number", pa.uint8())]))
    longer = column == pl.lit(b"abc", pl.Binary)
    assert part_of(longer, two, {"id": pl.Binary(), "number": pl.UInt8()}) == NOTHING
    # A text for a number: no key understands it, even if polars did.
    assert part_of(column == "7", schema, {"id": pl.String()}) == ALL


@SCANNED
@pytest.mark.parametrize(
    ("kind", "finer"),
    [
        (pa.timestamp("s"), pl.Datetime("ms")),
        (pa.duration("s"), pl.Duration("ms")),
        (pa.time32("s"), pl.Time()),
        (pa.binary(2), pl.Binary()),
    ],
    ids=str,
)
def test_constants_between_keys(
    kind: pa.DataType, finer: pl.DataType, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    if pa.types.is_fixed_size_binary(kind):
        keys = column_of([bytes(one) for one in ((0, 0), (0, 9), (9, 255), (255, 255))], kind)
        others = [b"", b"\0", b"\0\0\0", b"\0\x09\0", b"\xff\xff", b"\xff\xff\xff"]
        given = pl.Series("key", others, dtype=finer)
    else:
        keys = column_of([0, 1, 2, 5, 8], kind)
        scale = 10**9 if finer == pl.Time() else 1000
        given = pl.Series("key", [one * scale // 4 for one in range(40)]).cast(finer)
    table = pa.table({"key": keys, "x": range(len(keys))})
    with lookupstore.build(table, tmp_path / "store", key="key") as store:
        lazy, rows = scan_store(store), pl.DataFrame(store)
        for _ in range(200):
            predicate = random_predicate(rng, given)
            assert_frame_equal(lazy.filter(predicate).collect(), rows.filter(predicate))
        assert part_for(lazy.filter(pl.col("key") < pl.lit(given[3], finer))) != ALL


@SCANNED
def test_a_scan_that_a_query_has_twice_is_read_once(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "x": [3, 4]})
    with lookupstore.build(table, tmp_path / "store", key="id") as store:
        lazy = scan_store(store)
        assert lazy.join(lazy, on="id").collect().height == 2
        part_for(pl.concat([lazy.filter(pl.col("id") > 1), lazy.filter(pl.col("id") > 1)]))


def test_first_rows_are_taken_before_a_filter(planes: tuple[Lookups, pl.DataFrame]) -> None:
    lookups, dimension = planes
    lazy = scan_store(lookups)
    middle = pl.col("id") > dimension["id"][5]
    for engine in ENGINES:
        for count in (0, 1, 10, 299, 300, 400):
            assert_frame_equal(lazy.head(count).collect(engine=engine), dimension.head(count))
            assert_frame_equal(
                lazy.head(count).filter(middle).collect(engine=engine),
                dimension.head(count).filter(middle),
            )
            assert_frame_equal(
                lazy.filter(middle).head(count).collect(engine=engine),
                dimension.filter(middle).head(count),
            )
    assert_frame_equal(lazy.slice(7, 5).collect(), dimension.slice(7, 5))
    assert_frame_equal(lazy.tail(3).collect(), dimension.tail(3))


@SCANNED
def test_few_rows_and_columns_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 80_000
    table = pa.table({"id": range(count), "x": range(count), "y": range(count)})
    with lookupstore.build(table, tmp_path / "store", key="id") as store:
        read: list[tuple[list[str], int]] = []
        scan = store._scan

        def noted(names: Any, *given: Any) -> Iterator[pa.RecordBatch]:
            for batch in scan(names, *given):
                read.append((list(names), batch.num_rows))
                yield batch

        monkeypatch.setattr(store, "_scan", noted)
        lazy = scan_store(store)
        assert lazy.select("x").head(10).collect().height == 10
        assert {tuple(names) for names, _ in read} == {("x",)}
        assert sum(rows for _, rows in read) < count / 2
        read.clear()
        assert lazy.filter(pl.col("y") < 5).select("id", "x").collect().height == 5
        assert {tuple(names) for names, _ in read} == {("x", "y")}
        read.clear()
        assert lazy.select(pl.len()).collect().item() == count
        assert {tuple(names) for names, _ in read} == {()}
        source = lookupstore.polars._Source(store, pl.DataFrame(store).schema)
        (nothing,) = source(["y"], pl.col("id") > pl.lit(count, pl.Int64), None, None)
        assert nothing.schema == {"y": pl.Int64}
        frames = list(source(["y"], None, None, 10_000))
        assert len(frames) > 3
        assert sum(frame.height for frame in frames) == count
        assert max(frame.height for frame in frames) < 20_000
        (nothing,) = source(["y", "id"], pl.col("id") == pl.lit(-1, pl.Int64), None, None)
        assert nothing.schema == {"y": pl.Int64, "id": pl.Int64}


def test_a_store_without_rows_or_values(tmp_path: Path) -> None:
    empty = pa.table({"id": pa.array([], pa.int64()), "x": pa.array([], pa.string())})
    with lookupstore.build(empty, tmp_path / "empty", key="id") as store:
        assert_frame_equal(scan_store(store).collect(), pl.DataFrame(empty))
        assert pl.DataFrame({"id": [1]}).select(lookup("id", store)).item() is None
    keys = pa.table({"id": [1, 2]})
    with lookupstore.build(keys, tmp_path / "keys", key="id") as store:
        assert scan_store(store).filter(pl.col("id") > 1).collect().rows() == [(2,)]
        with pytest.raises(ValueError, match="columns is empty"):
            lookup("id", store)


def test_paths_and_versions(tmp_path: Path) -> None:
    path = tmp_path / "store"
    lookupstore.build(pa.table({"id": [1], "x": ["old"]}), path, key="id").close()
    lookupstore.upsert(path, pa.table({"id": [1], "x": ["new"]})).close()
    frame = pl.DataFrame({"id": [1]})
    assert frame.select(lookup("id", path)).item() == {"x": "new"}
    assert scan_store(str(path)).select("x").collect().item() == "new"
    assert scan_store(path, version=1).select("x").collect().item() == "old"
    with pytest.raises(FileNotFoundError):
        scan_store(path, version=9)
    with lookupstore.open(path) as store, pytest.raises(ValueError, match="is open already"):
        scan_store(store, version=1)


def test_a_lookup_of_another_kind_of_key(tmp_path: Path) -> None:
    with lookupstore.build(pa.table({"id": [1], "x": [2]}), tmp_path / "s", key="id") as store:
        for wrong in (pl.Series(["1"]), pl.Series([object()], dtype=pl.Object)):
            frame = pl.DataFrame({"id": wrong})
            with pytest.raises(TypeError, match="'id' is"):
                frame.select(lookup("id", store))
        with pytest.raises(KeyError, match="no value column 'y'"):
            lookup("id", store, columns=["y"])
    with pytest.raises(lookupstore.ClosedError):
        pl.DataFrame({"id": [1]}).select(lookup("id", store))


def test_threads_share_an_expression_and_a_scan(
    planes: tuple[Lookups, pl.DataFrame], seed: int
) -> None:
    lookups, dimension = planes
    facts = facts_of(seed)
    query = facts.lazy().with_columns(lookup("plane", lookups).struct.field("seats"))
    wanted = query.collect()
    rows = scan_store(lookups)
    assert_frame_equal(rows.collect(), dimension)
    wrong = []

    def work() -> None:
        for _ in range(10):
            if not query.collect(engine="streaming").sort("row").equals(wanted):
                wrong.append("lookup")
            if not rows.collect().equals(dimension):
                wrong.append("scan")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
