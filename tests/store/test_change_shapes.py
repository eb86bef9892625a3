"""Rows and changelogs that stores are changed by; the oracle is a dict, or what Arrow was given."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import random
import re
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from lookupstore import LookupStore, build, upsert

ROWS = {"id": [1, 2, 3], "name": ["one", "two", "three"], "hits": [1, 2, 3]}
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("hits", pa.int64())])

Model = dict[int, tuple[Any, ...]]


@pytest.fixture
def people(tmp_path) -> LookupStore:
    return build(pa.table(ROWS), tmp_path / "people", key="id", buckets=2)


def rows_of(store: LookupStore) -> Model:
    return {row["id"]: (row["name"], row["hits"]) for row in store.scan().read_all().to_pylist()}


# --- types


POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
MOMENT = datetime.datetime(2020, 5, 6, 7, 8, 9)


@pytest.mark.parametrize(
    ("stored", "values", "given", "remedy"),
    [
        (pa.date32(), [MOMENT], pa.timestamp("us"), "cast it to that type"),
        (pa.time64("us"), [MOMENT], pa.timestamp("us"), "cast it to that type"),
        (pa.bool_(), [2], pa.int64(), "cast it to that type"),
        (pa.int64(), ["007"], pa.string(), "cast it to that type"),
        (pa.timestamp("us"), [MOMENT], pa.timestamp("us", "UTC"), "remove the zone of its times"),
        (pa.timestamp("us"), [7], pa.int64(), "cast it to that type"),
        (pa.decimal128(9, 2), [0.125], pa.float64(), "or cast it to that type"),
        (
            POINT,
            [{"x": 1, "z": 2}],
            pa.struct([("x", pa.int64()), ("z", pa.int64())]),
            "add the fields ['y'] to each value",
        ),
        (
            POINT,
            [{"x": 1}],
            pa.struct([("x", pa.int64())]),
            "add the fields ['y'] to each value",
        ),
    ],
)
def test_a_type_of_another_meaning_is_refused(tmp_path, stored, values, given, remedy):
    store = build(pa.table({"id": [1], "v": pa.nulls(1, stored)}), tmp_path / "s", key="id")
    with pytest.raises(TypeError) as caught:
        store.upsert(pa.table({"id": [1], "v": pa.array(values, given)}))
    for part in ("'v'", str(stored), str(given), remedy):
        assert part in str(caught.value)
    assert store.newest().version == 1


def test_a_decimal_that_does_not_fit_says_a_wider_type(tmp_path):
    prices = pa.table({"id": [1], "v": [decimal.Decimal("9.50")]})
    store = build(prices, tmp_path / "s", key="id")
    with pytest.raises(ValueError, match=r"build the store with decimal128\(38, 3\) for it"):
        store.upsert(pa.table({"id": [1], "v": [decimal.Decimal("1234.125")]}))


@pytest.mark.parametrize(
    ("stored", "value", "given", "named"),
    [
        (pa.float32(), 1e300, pa.float64(), []),
        (pa.decimal128(9, 2), decimal.Decimal("0.125"), pa.decimal128(9, 3), []),
        (pa.float64(), 2**53 + 1, pa.int64(), []),
        (pa.int8(), 1.5, pa.float64(), []),
        (
            pa.timestamp("s"),
            MOMENT.replace(microsecond=5),
            pa.timestamp("us"),
            [repr(MOMENT.replace(microsecond=5)), "timestamp[s]", "round the value to 's'"],
        ),
        (
            pa.struct([("x", pa.int8())]),
            {"x": 300},
            pa.struct([("x", pa.int64())]),
            ["the field 'v.x'", "300", "int8", "int64", "change the value"],
        ),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_row(tmp_path, stored, value, given, named):
    store = build(pa.table({"id": [1], "v": pa.nulls(1, stored)}), tmp_path / "s", key="id")
    # Batches, as files have them: the row is that of all changes, as a person counts it.
    schema = pa.schema([("id", pa.int64()), ("v", given)])
    batches = [
        pa.record_batch([pa.array([1, 2, 3]), pa.nulls(3, given)], schema=schema),
        pa.record_batch([pa.array([4, 5]), pa.array([None, value], given)], schema=schema),
    ]
    with pytest.raises(ValueError, match=r"row 5: the (column 'v'|field 'v\.x')") as caught:
        store.upsert(batches)
    for part in named or (repr(value), str(stored), str(given), "change the value"):
        assert part in str(caught.value)
    assert store.newest().version == 1


def test_a_key_that_does_not_fit_is_named_with_its_row(tmp_path):
    store = build(pa.table({"id": pa.array([1], pa.int8())}), tmp_path / "s", key="id")
    batches = [pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [3, 300]})]
    with pytest.raises(ValueError, match=r"row 4: the key column 'id' is 300, .* store, int8"):
        store.upsert(batches)
    batches[1] = pa.record_batch({"id": pa.array([None, 3])})
    with pytest.raises(ValueError, match="row 3: the key column 'id' is null"):
        store.upsert(batches)


def test_the_part_of_a_key_that_does_not_fit_is_named(tmp_path):
    rows = {"site": ["a", None], "number": [1, 2]}
    store = build(pa.table(rows), tmp_path / "s", key=["site", "number"], nullable_keys="site")
    said = (
        r"row 2: the key column 'number' is 1\.5, which its type in the store, int64, cannot hold"
    )
    for site in ("a", None):
        with pytest.raises(ValueError, match=said):
            store.upsert(pa.table({"site": ["b", site], "number": [1.0, 1.5]}))
    with pytest.raises(ValueError, match="row 1: the key column 'number' is null; leave the row"):
        store.upsert(pa.table({"site": [None], "number": pa.array([None], pa.int64())}))
    assert store.newest().version == 1


def test_casts_that_keep_values(tmp_path):
    """What others have narrower or wider is what it was, also with fields in another order."""
    stored = pa.schema([
        ("id", pa.int16()), ("n", pa.int8()), ("f", pa.float32()), ("d", pa.decimal128(9, 2)),
        ("t", pa.timestamp("ns")), ("s", pa.dictionary(pa.int8(), pa.string())), ("p", POINT),
    ])  # fmt: skip
    store = build(stored.empty_table(), tmp_path / "s", key="id", allow_empty=True)
    given = pa.schema([
        ("id", pa.int64()), ("n", pa.float64()), ("f", pa.float64()), ("d", pa.int64()),
        ("t", pa.timestamp("s")), ("s", pa.large_string()),
        ("p", pa.struct([("y", pa.int8()), ("x", pa.uint64())])),
    ])  # fmt: skip
    row = {"id": 7, "n": 3.0, "f": 0.5, "d": 12, "t": MOMENT, "s": "x", "p": {"x": 1, "y": 2}}
    store = store.upsert(pa.Table.from_pylist([row], schema=given))
    assert store.get(7) == {name: value for name, value in row.items() if name != "id"}


@pytest.mark.parametrize("counts", [{"a": 1, "b": None}, [("a", 1), ("b", None)]])
@pytest.mark.parametrize("form", ["rows", "iterator", "columns", "frame"])
def test_maps_of_python_are_read_in_the_type_of_the_store(tmp_path, counts, form):
    """`get` returns pairs, for which Arrow finds no type; dicts would be structs."""
    schema = pa.schema([("id", pa.int64()), ("counts", pa.map_(pa.string(), pa.int32()))])
    store = build(schema.empty_table(), tmp_path / "s", key="id", allow_empty=True)
    columns = {"id": [7, 8], "counts": [counts, None]}
    rows = [{"id": 7, "counts": counts}, {"id": 8, "counts": None}]
    changes = {"rows": rows, "iterator": iter(rows), "columns": columns,
               "frame": pd.DataFrame(columns)}[form]  # fmt: skip
    store = store.upsert(changes)
    assert dict(store) == {7: {"counts": [("a", 1), ("b", None)]}, 8: {"counts": None}}
    again = store.upsert([{"id": 9, **store.get(7)}])
    assert again.get(9) == store.get(7)
    with pytest.raises(TypeError, match="'counts' has 'x' in row 1, which int32 cannot hold"):
        store.upsert([{"id": 7, "counts": {"a": "x"}}])


def test_texts_of_text_files_are_read_in_the_types_of_the_store(people):
    store = people.upsert(io.BytesIO(b"id,name,hits\n7,42,7\n"))
    assert store.get(7) == {"name": "42", "hits": 7}


# --- columns


def test_a_column_that_the_store_lacks_is_an_error(people, tmp_path):
    changes = pa.table({"id": [1], "nmae": ["uno"]})
    for rule in ("partial", {"name": "partial", "hits": "partial"}):
        with pytest.raises(KeyError, match="no column 'nmae'; did you mean 'name'") as caught:
            people.upsert(changes, rule=rule)
    for part in ("'id', 'name', 'hits'", "columns="):
        assert part in str(caught.value)
    with pytest.raises(KeyError, match="no column 'zz'; its columns are 'id'"):
        people.upsert(pa.table({**ROWS, "zz": [1, 2, 3]}))
    with pytest.raises(KeyError, match="columns: the store has no column 'nmae'; did you mean"):
        people.upsert(pa.table(ROWS), columns=["nmae"])
    with pytest.raises(KeyError, match="changes: no column 'name'; they have"):
        people.upsert(changes, columns=["name"], rule="partial")
    with pytest.raises(KeyError, match="changes: no column 'hits', a value column"):
        people.upsert(pa.table(ROWS), columns=["name"])
    with pytest.raises(KeyError, match="pass changes_by='hudi'"):
        people.upsert(pa.table({**ROWS, "_hoodie_is_deleted": [False] * 3}))
    with pytest.raises(KeyError, match="pass changes_by='debezium' or 'hudi'"):
        people.upsert(pa.table({"op": ["c"], "before": [None], "after": [{"id": 1}], "id": [1]}))
    assert people.newest().version == 1


def test_columns_chooses_what_is_taken(people):
    changes = pa.table({"id": [1], "name": ["uno"], "hits": [9], "more": [True]})
    store = people.upsert(changes, columns=["name"], rule="partial")
    assert store.get(1) == {"name": "uno", "hits": 1}
    store = upsert(people.path, changes, columns=["id", "hits", "name"])
    assert store.get(1) == {"name": "uno", "hits": 9}


# --- changelogs: ours


def some_rows(rng: random.Random, keys: int) -> pa.Table:
    ids = rng.sample(range(keys), rng.randrange(keys))
    names = [rng.choice([None, "a", "b", "c"]) for _ in ids]
    return pa.table([ids, names, [rng.randrange(9) for _ in ids]], schema=SCHEMA)


@pytest.mark.parametrize("kind", ["reader", "parquet", "csv"])
def test_what_changed_in_one_store_changes_another(tmp_path, seed, kind):
    rng = random.Random(seed)
    first = pa.concat_tables([some_rows(rng, 40), pa.table([[99], ["z"], [0]], schema=SCHEMA)])
    store = build(first, tmp_path / "s", key="id", buckets=3)
    other = build(store.scan().read_all(), tmp_path / "t", key="id", buckets=2)
    for _ in range(3):
        store = store.upsert(some_rows(rng, 40)).upsert(deletes=rng.sample(range(60), 9))
    # What is there from the beginning, and not at the end.
    store = store.upsert(deletes=[99])
    changes = store.changes(1)
    if kind == "csv":
        pa_csv.write_csv(changes.read_all(), tmp_path / "c.csv")
        # A null and a text without characters are one in CSV.
        with pytest.raises(KeyError, match="columns="):
            other.upsert(tmp_path / "c.csv", changes_by="rows")
    if kind == "parquet":
        pq.write_table(changes.read_all(), tmp_path / "c.parquet", row_group_size=7)
    other = other.upsert(changes if kind == "reader" else str(tmp_path / f"c.{kind}"))
    assert rows_of(other) == rows_of(store)
    assert len(other) == len(store)


def test_events_count_in_their_order(people, tmp_path, seed):
    """The oracle applies an event after the other to a dict."""
    rng = random.Random(seed)
    model = rows_of(people)
    events: list[dict[str, Any]] = []
    for _ in range(200):
        key = rng.randrange(6)
        row = (rng.choice(["x", None]), rng.randrange(9))
        old = model.get(key)
        kinds = [("insert", row)] if old is None else [("delete", old)]
        if old is not None and rng.random() < 0.5:
            kinds = [("update_before", old), ("update_after", row)]
        for kind, (name, hits) in kinds:
            events.append({"change": kind, "id": key, "name": name, "hits": hits})
        if kinds[-1][0] == "delete":
            del model[key]
        else:
            model[key] = row
    schema = pa.schema([("change", pa.string()), *SCHEMA])
    table = pa.Table.from_pylist(events, schema=schema)
    for rule, name in (("replace", "r"), ({"name": "replace", "hits": "min"}, "m")):
        store = build(pa.table(ROWS), tmp_path / name, key="id", buckets=2)
        store = store.upsert(table.to_batches(max_chunksize=13), rule=rule, memory="1MiB")
        found = rows_of(store)
        if rule == "replace":
            assert found == model
        assert {key: row[0] for key, row in found.items()} == {k: r[0] for k, r in model.items()}
        assert len(store) == len(model)


def test_a_row_before_an_update_has_another_key(people):
    changes = pa.table({
        "change": ["update_before", "update_after"], "id": [1, 9], "name": ["one"] * 2,
        "hits": [1, 1],
    })  # fmt: skip
    assert rows_of(people.upsert(changes)) == {2: ("two", 2), 3: ("three", 3), 9: ("one", 1)}


def test_a_row_before_an_update_is_no_delete(people):
    changes = pa.table({
        "change": ["update_before", "update_after"], "id": [1, 1], "name": ["one", None],
        "hits": [1, 5],
    })  # fmt: skip
    assert rows_of(people.upsert(changes, rule="partial"))[1] == ("one", 5)


def test_rules_of_a_changelog(people):
    changes = pa.table({
        "change": ["update_after", "delete", "insert", "insert", "delete", "insert"],
        "id": [1, 2, 2, 9, 9, 9], "name": [None, None, "b", "x", "x", None],
        "hits": [5, 2, 1, 9, 9, 4],
    })  # fmt: skip
    after = {1: ("one", 5), 2: ("b", 1), 3: ("three", 3), 9: (None, 4)}
    partial = people.upsert(changes, rule={"name": "partial", "hits": "max"})
    assert rows_of(partial) == after
    first = upsert(partial.path, changes, rule="first")
    assert rows_of(first) == after
    for error, said, options in (
        (
            ValueError,
            "'sum' for 'hits', but the changes are a changelog",
            {"rule": {"hits": "sum"}},
        ),
        (ValueError, "sequence is given, but the changes are a changelog", {"sequence": "hits"}),
        (ValueError, "a changelog, which has deletes of its own", {"deletes": [1]}),
        (ValueError, "changes_by is 'mysql'; give 'rows'", {"changes_by": "mysql"}),
        (ValueError, "no column 'op'; they have", {"changes_by": "debezium"}),
    ):
        with pytest.raises(error, match=said):
            people.upsert(changes, **options)


def test_a_column_of_that_name_that_says_something_else(people, tmp_path):
    rows = pa.table({**ROWS, "change": ["delete", "insert", "7 %"]})
    with pytest.raises(ValueError, match=r"row 3: the column 'change' is '7 %'; .*by='rows'"):
        people.upsert(rows)
    store = people.upsert(rows, changes_by="rows", columns=["name", "hits"])
    assert rows_of(store) == rows_of(people)
    with pytest.raises(KeyError, match="no column 'change'; its columns"):
        people.upsert(pa.table({**ROWS, "change": [1, 2, 3]}))
    own = build(rows, tmp_path / "own", key="id")
    own = own.upsert(rows.slice(0, 1).set_column(1, "name", pa.array(["uno"])))
    assert own.get(1) == {"name": "uno", "hits": 1, "change": "delete"}
    ops = build(pa.table({"id": [1], "op": ["d"], "v": [1]}), tmp_path / "ops", key="id")
    ops = ops.upsert(pa.table({"id": [1, 2], "op": ["d", "d"], "v": [2, 2]}), columns=["op", "v"])
    assert [row["v"] for row in ops.scan().read_all().to_pylist()] == [2, 2]


def test_a_changelog_whose_changes_are_a_dictionary(people):
    changes = pa.table({
        "change": pa.array(["delete", "insert"]).dictionary_encode(), "id": [1, 9],
        "name": ["one", "nine"], "hits": [1, 9],
    })  # fmt: skip
    assert sorted(rows_of(people.upsert(changes))) == [2, 3, 9]


def test_a_value_of_a_changelog_that_does_not_fit_is_named_with_its_row(people):
    changes = pa.table({
        "change": ["delete", "insert", "insert"], "id": [1, 8, 9], "name": ["a", "b", "c"],
        "hits": [1.0, 2.0, 2.5],
    })  # fmt: skip
    with pytest.raises(ValueError, match="row 3: the column 'hits'"):
        people.upsert(changes)


# --- changelogs: those of others


def image(key: int, name: str | None = None, hits: int | None = None) -> dict[str, Any]:
    return {"id": key, "name": name, "hits": hits}


#: In the shape of Debezium's documentation: snapshot, create, update, delete, message for Kafka.
DEBEZIUM: list[dict[str, Any] | None] = [
    {"op": "r", "before": None, "after": image(1, "uno", 4)},
    {"op": "c", "before": None, "after": image(8, "eight", 8)},
    {"op": "u", "before": image(8, "eight", 8), "after": image(8, "acht", 9)},
    {"op": "d", "before": image(2), "after": None},
    {"op": None, "before": None, "after": None},
    {"op": "d", "before": image(3), "after": None},
    {"op": "c", "before": None, "after": image(3, "tre", 3)},
    {"op": "u", "before": image(3, "tre", 3), "after": image(33, "tre", 3)},
    {"op": "c", "before": None, "after": image(5, "five", 5)},
    {"op": "d", "before": image(5, "five", 5), "after": None},
]
AFTER_DEBEZIUM = {1: ("uno", 4), 8: ("acht", 9), 33: ("tre", 3)}


#: As Kafka Connect's JsonConverter writes it with `schemas.enable`.
ENVELOPE_SCHEMA = {
    "type": "struct",
    "fields": [
        {"type": "struct", "optional": True, "name": "shop.people.Value", "field": "after",
         "fields": [{"type": "int64", "optional": False, "field": "id"}]},
        {"type": "string", "optional": False, "field": "op"},
    ],
    "optional": False,
    "name": "shop.people.Envelope",
}  # fmt: skip


@pytest.mark.parametrize("envelope", [False, True])
@pytest.mark.parametrize("kind", ["arrow", "json"])
def test_events_of_debezium(people, kind, envelope):
    events: list[Any] = [{**one, "ts_ms": 1, "source": {"db": "shop"}} for one in DEBEZIUM]
    if envelope:
        events = [{"schema": ENVELOPE_SCHEMA, "payload": one} for one in events]
        events[4] = {"schema": None, "payload": None}  # what follows a delete
    if kind == "json":
        text = "".join(json.dumps(one) + "\n" for one in events)
        changes: Any = io.BytesIO(text.encode())
    else:
        changes = pa.Table.from_pylist(events).to_batches(max_chunksize=3)
    store = people.upsert(changes, changes_by="debezium")
    assert rows_of(store) == AFTER_DEBEZIUM
    assert len(store) == 3


#: Types of texts as polars and others write them.
VIEW = pa.string_view()
TEXTS = {
    "views": (VIEW, lambda texts: pa.array(texts, VIEW)),
    "dictionaries of views": (
        pa.dictionary(pa.int32(), VIEW),
        lambda texts: pa.DictionaryArray.from_arrays(
            pa.array(texts).dictionary_encode().indices,
            pa.array(texts).dictionary_encode().dictionary.cast(VIEW),
        ),
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_views_in_events(tmp_path, name):
    """Arrow cannot take rows of views; here keys and values in images are views."""
    kind, texts = TEXTS[name]
    row = pa.struct({"id": kind, "raw": pa.binary_view(), "tags": pa.list_(VIEW)})
    events = [
        ("u", ("a", b"1", ["x"]), ("z", b"9", ["y", None])),
        ("d", ("b", None, None), None),
        (None, None, None),
        ("c", None, ("n", b"7", [])),
        ("u", ("c", b"3", None), ("c", b"8", None)),
    ]
    images = [
        pa.StructArray.from_arrays(
            [texts([row and row[0] for row in rows]),
             pa.array([row and row[1] for row in rows], pa.binary_view()),
             pa.array([row and row[2] for row in rows], pa.list_(VIEW))],
            fields=list(row), mask=pa.array([row is None for row in rows]),
        )
        for rows in ([one[1] for one in events], [one[2] for one in events])
    ]  # fmt: skip
    feed = pa.table(
        {"op": texts([one[0] for one in events]), "before": images[0], "after": images[1]}
    )
    stored = pa.schema({"id": pa.string(), "raw": pa.binary(), "tags": pa.list_(pa.string())})
    rows = [{"id": key, "raw": b"0", "tags": None} for key in "abc"]
    envelope = pa.table({"payload": feed.to_struct_array().combine_chunks()})
    for number, changes in enumerate((feed, envelope, feed.slice(1), feed.slice(0, 2))):
        store = build(pa.Table.from_pylist(rows, stored), tmp_path / str(number), key="id")
        store = store.upsert(changes, changes_by="debezium")
        model = {key: (b"0", None) for key in "abc"}
        for _, before, after in events[1:] if number == 2 else events[: 2 if number == 3 else 9]:
            if before is not None:
                del model[before[0]]
            if after is not None:
                model[after[0]] = after[1:]
        found = store.scan().read_all().to_pylist()
        assert {one["id"]: (one["raw"], one["tags"]) for one in found} == model


@pytest.mark.parametrize("shape", ["debezium", "hudi"])
def test_events_in_files_of_polars(people, tmp_path, shape):
    polars = pytest.importorskip("polars")
    events = [one for one in DEBEZIUM if one is not None and one["op"] is not None]
    if shape == "hudi":
        events = [
            {"op": one["op"].replace("c", "i").replace("r", "i"),
             **{name: one[name] and json.dumps(one[name]) for name in ("before", "after")}}
            for one in events
        ]  # fmt: skip
    frame = polars.DataFrame(events, infer_schema_length=None)
    frame.write_ipc(tmp_path / "events.arrow")
    store = people.upsert(tmp_path / "events.arrow", changes_by=shape)
    assert rows_of(store) == AFTER_DEBEZIUM
    store = build(pa.table(ROWS), tmp_path / "frame", key="id").upsert(frame, changes_by=shape)
    assert rows_of(store) == AFTER_DEBEZIUM


def test_texts_in_events_of_text_files_are_read_in_the_types_of_the_store(tmp_path):
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "code": pa.string()})
    store = build(schema.empty_table(), tmp_path / "s", key="id", allow_empty=True)
    row = {"id": 1, "at": "2026-01-02T03:04:05Z", "code": "007"}
    event = {"op": "c", "before": None, "after": row}
    store = store.upsert(io.BytesIO(json.dumps(event).encode()), changes_by="debezium")
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    assert store.get(1) == {"at": at, "code": "007"}
    # In Arrow a text is a text.
    with pytest.raises(TypeError, match="the column 'at' is string"):
        store.upsert(pa.Table.from_pylist([event]), changes_by="debezium")


def test_texts_in_an_envelope_are_read_in_the_types_of_the_store(people, tmp_path):
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "code": pa.string()})
    store = build(schema.empty_table(), tmp_path / "s", key="id", allow_empty=True)
    row = {"id": 1, "at": "2026-01-02T03:04:05Z", "code": "007"}
    event = {"schema": ENVELOPE_SCHEMA, "payload": {"op": "c", "before": None, "after": row}}
    text = json.dumps(event).encode()
    with pytest.raises(KeyError, match=r"no column 'schema'.* pass changes_by='debezium'"):
        store.upsert(io.BytesIO(text))
    store = store.upsert(io.BytesIO(text), changes_by="debezium")
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    assert store.get(1) == {"at": at, "code": "007"}
    with pytest.raises(TypeError, match="the column 'payload' is string; give structs"):
        people.upsert(pa.table({"payload": ["{}"]}), changes_by="debezium")
    # The store may have a column of that name.
    own = build(pa.table({"id": [1], "payload": ["a"]}), tmp_path / "own", key="id")
    events = pa.table({"op": ["c"], "after": [{"id": 2, "payload": "b"}]})
    assert own.upsert(events, changes_by="debezium").get(2) == {"payload": "b"}


@pytest.mark.parametrize("first", ["r", "d"])
def test_a_snapshot_of_more_than_the_first_rows(tmp_path, first):
    """The first megabyte says which types a JSON file has: of columns of nulls alone, none."""
    kinds = {"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "name": pa.string()}
    store = build(pa.schema(kinds).empty_table(), tmp_path / "s", key="id", allow_empty=True)

    def row(at: int, name: str) -> dict[str, Any]:
        return {"id": at, "at": "2026-01-02T03:04:05Z", "name": name}

    if first == "r":
        events = [{"op": "r", "before": None, "after": row(at, "x" * 100)} for at in range(9000)]
    else:
        events = [{"op": "d", "before": row(at, "x" * 100), "after": None} for at in range(9000)]
    events += [
        {"op": "u", "before": row(1, "x" * 100), "after": row(1, "new")},
        {"op": "d", "before": row(2, "x" * 100), "after": None},
        {"op": "c", "before": None, "after": row(9001, "last")},
    ]
    text = "".join(json.dumps(one) + "\n" for one in events).encode()
    assert len(text) > 1 << 20
    store = store.upsert(io.BytesIO(text), changes_by="debezium")
    assert store.get(1)["name"] == "new"
    assert store.get(2) is None
    assert store.get(9001)["at"].year == 2026
    assert len(store) == (9000 if first == "r" else 2)


def test_events_of_debezium_that_are_refused(people):
    struct = pa.struct(SCHEMA)

    def events(*rows: tuple[Any, ...]) -> pa.Table:
        schema = pa.schema([("op", pa.string()), ("before", struct), ("after", struct)])
        return pa.table([list(one) for one in zip(*rows, strict=True)], schema=schema)

    good = ("c", None, image(1, "x", 1))
    for error, said, changes in (
        (ValueError, "row 2: the column 'op' is 't'; .*truncated", events(good, ("t", None, None))),
        (ValueError, "row 2: the column 'op' is 'i'", events(good, ("i", None, image(1)))),
        (ValueError, "row 2: 'before' is null, and 'op' is 'd'", events(good, ("d", None, None))),
        (ValueError, "row 1: 'after' is null", events(("u", image(1), None))),
        (ValueError, "row 1: the key column 'id' is null", events(("d", image(None), None))),
        (KeyError, "no column 'nmae'; did you mean",
         pa.table({"op": ["c"], "after": [{"id": 1, "nmae": "x", "hits": 1}]})),
        (KeyError, "no column 'hits', a value column",
         pa.table({"op": ["c"], "after": [{"id": 1, "name": "x"}]})),
        (ValueError, "neither 'before' nor 'after'", pa.table({"op": ["c"]})),
        (TypeError, "'after' is int64; give structs", pa.table({"op": ["c"], "after": [1]})),
        (TypeError, "'op' is int64; give texts", pa.table({"op": [1], "after": [image(1)]})),
        (TypeError, "'name' is int64",
         pa.table({"op": ["c"], "after": [{"id": 1, "name": 1, "hits": 1}]})),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            people.upsert(changes, changes_by="debezium")
    assert people.newest().version == 1
    extra = pa.table({"op": ["c"], "after": [{**image(1, "x", 1), "more": 1}]})
    store = people.upsert(extra, changes_by="debezium", columns=["name", "hits"])
    assert store.get(1) == {"name": "x", "hits": 1}


@pytest.mark.parametrize("kind", ["structs", "texts"])
def test_change_data_of_hudi(people, kind):
    """Spark shows Hudi's change data with the rows as JSON."""
    ops = {"r": "i", "c": "i", "u": "u", "d": "d"}
    rows = [one for one in DEBEZIUM if one is not None and one["op"] is not None]
    meta = {"_hoodie_commit_time": "20260101000000000"}
    events = []
    for one in rows:
        images = [one[name] and {**meta, **one[name]} for name in ("before", "after")]
        if kind == "texts":
            images = [each and json.dumps(each) for each in images]
        events.append({"op": ops[one["op"]], "ts_ms": "1", "before": images[0], "after": images[1]})
    changes = pa.Table.from_pylist(events).to_batches(max_chunksize=4)
    assert rows_of(people.upsert(changes, changes_by="hudi")) == AFTER_DEBEZIUM


def test_json_texts_with_other_fields(people):
    for text, said in (
        ({**image(1, "x", 1), "nmae": 1}, "no column 'nmae'; did you mean"),
        ({"id": 1, "name": "x"}, "no field 'hits'"),
    ):
        changes = pa.table({"op": ["i"], "after": [json.dumps(text)]})
        with pytest.raises(KeyError, match=said):
            people.upsert(changes, changes_by="hudi")


# --- changelogs: one row per change, with the operation in a column


@pytest.mark.parametrize(
    "name",
    ["Op", "op", "_op", "__op", "__deleted", "op_type", "operation", "change_type", "RowKind",
     "row_kind", "METADATA$ACTION"],
)  # fmt: skip
def test_rows_with_their_operation_are_not_taken_without_it(people, name):
    """Without the column, the deletions of AWS DMS would be upserted."""
    feed = pa.table({name: ["I", "D"], "id": [7, 1], "name": ["x", "one"], "hits": [7, 1]})
    own = re.escape(name)
    named = f"says what became of each row, pass kinds='{own}'"
    with pytest.raises(KeyError, match=f"no column '{own}'.*if it {named}") as caught:
        people.upsert(feed)
    assert "columns= which" not in str(caught.value)
    for shape in ("debezium", "hudi", "changelog"):
        with pytest.raises(ValueError, match=f"leave out .*, and if '{own}' {named}"):
            people.upsert(feed, changes_by=shape)
    with pytest.raises(ValueError, match=f"columns= leaves out '{own}'; if it {named}, otherwise"):
        people.upsert(feed, columns=["name", "hits"])
    assert people.newest().version == 1
    store = people.upsert(feed, kinds=name)
    assert rows_of(store) == {2: ("two", 2), 3: ("three", 3), 7: ("x", 7)}
    store = store.upsert(feed, columns=["name", "hits"], changes_by="rows")
    assert sorted(rows_of(store)) == [1, 2, 3, 7]


#: What tools write for inserts, rows before and after updates, and deletes. None: they write none.
NAMES_OF_KINDS = {
    "AWS DMS": ("I", None, "U", "D"),
    "Debezium": ("c", None, "u", "d"),
    "Debezium, snapshot": ("r", None, "u", "d"),
    "Debezium, __deleted": ("false", None, "false", "true"),
    "Flink, Paimon": ("+I", "-U", "+U", "-D"),
    "Flink, in full": ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"),
    "Delta": ("insert", "update_preimage", "update_postimage", "delete"),
    "words": ("Insert", None, "Update", "Delete"),
}


def some_events(rng: random.Random, model: Model) -> list[tuple[int, int, tuple[Any, ...]]]:
    """Change a dict, and return the kinds, keys and rows of the events; some updates move a key."""
    events = []
    for _ in range(200):
        key, row = rng.randrange(8), (rng.choice(["x", "y", None]), rng.randrange(9))
        old = model.pop(key, None)
        if old is None:
            events.append((0, key, row))
            model[key] = row
        elif rng.random() < 0.5:
            moved = rng.choice([one for one in range(8) if one not in model])
            events += [(1, key, old), (2, moved, row)]
            model[moved] = row
        else:
            events.append((3, key, old))
    return events


@pytest.mark.parametrize("tool", NAMES_OF_KINDS)
def test_a_column_says_what_became_of_each_row(people, tmp_path, seed, tool):
    rng, names = random.Random(seed), NAMES_OF_KINDS[tool]
    model = rows_of(people)
    events = some_events(rng, model)
    if names[1] is None:  # without rows before updates, an update must keep its key
        events = [(3, *one[1:]) if one[0] == 1 else one for one in events]
    feed = pa.Table.from_pylist(
        [{"kind": names[kind], "id": key, "name": row[0], "hits": row[1]}
         for kind, key, row in events],
        schema=pa.schema([("kind", pa.string()), *SCHEMA]),
    )  # fmt: skip
    with pytest.raises(KeyError, match="no column 'kind'"):
        people.upsert(feed)
    store = people.upsert(feed.to_batches(max_chunksize=13), kinds="kind", memory="1MiB")
    assert rows_of(store) == model
    pa_csv.write_csv(feed, tmp_path / "feed.csv")
    csv = build(pa.table(ROWS), tmp_path / "csv", key="id").upsert(
        tmp_path / "feed.csv", kinds="kind", columns="hits", rule={"name": "partial"}
    )
    assert {key: row[1] for key, row in rows_of(csv).items()} == {
        key: row[1] for key, row in model.items()
    }


def test_a_flag_that_marks_deletes(people):
    feed = pa.table({"__deleted": [True, False], "id": [1, 2], "name": ["a", "b"], "hits": [0, 0]})
    assert rows_of(people.upsert(feed, kinds="__deleted")) == {2: ("b", 0), 3: ("three", 3)}


def test_two_columns_say_what_became_of_each_row(people, tmp_path):
    """As Debezium flattens events if it rewrites deletes: the remedy for one column works."""
    feed = pa.table({
        "__op": ["c", "d"], "__deleted": ["false", "true"], "_hoodie_is_deleted": [False, True],
        "id": [7, 1], "name": ["x", "one"], "hits": [7, 1],
    })  # fmt: skip
    for kinds, other in (("__op", "__deleted"), ("__deleted", "__op")):
        with pytest.raises(KeyError) as caught:
            people.upsert(feed, kinds=kinds)
        said = f"the store has no column '{other}', and kinds is '{kinds}'; to leave '{other}' out"
        assert f"{said}, pass columns=['name', 'hits']" in str(caught.value.args[0])
        store = build(pa.table(ROWS), tmp_path / kinds, key="id")
        store = store.upsert(feed, kinds=kinds, columns=["name", "hits"])
        assert rows_of(store) == {2: ("two", 2), 3: ("three", 3), 7: ("x", 7)}
    misspelt = feed.rename_columns({"name": "nmae"})
    with pytest.raises(KeyError, match="no column 'nmae'; did you mean 'name'"):
        people.upsert(misspelt, kinds="__op")
    # A store may have such a column itself, or keys alone.
    own = build(pa.table({"id": [1], "__deleted": ["?"]}), tmp_path / "own", key="id")
    own = own.upsert(feed.select(["id", "__op", "__deleted"]), kinds="__op")
    assert own.scan().read_all().to_pylist() == [{"id": 7, "__deleted": "false"}]
    keys = build(pa.table({"id": [1]}), tmp_path / "keys", key="id")
    ops = feed.select(["id", "__op", "__deleted"])
    with pytest.raises(KeyError, match=r"pass columns=\[\]"):
        keys.upsert(ops, kinds="__op")
    found = keys.upsert(ops, kinds="__op", columns=[]).scan().read_all()
    assert found.to_pylist() == [{"id": 7}]


def test_kinds_that_are_refused(people):
    feed = pa.table({"Op": ["I", "X"], "id": [1, 2], "name": ["a", "b"], "hits": [0, 0]})
    number = feed.set_column(0, "Op", pa.array([1, 2]))
    null = feed.set_column(0, "Op", pa.array([None, "I"]))
    cut = feed.set_column(0, "Op", pa.array(["I", "T"]))
    for error, said, changes, options in (
        (ValueError, "row 2: the column 'Op' is 'X'; expected 'i', .*leave such rows", feed, {}),
        (ValueError, "row 1: the column 'Op' is None", null, {}),
        (ValueError, "row 2: the column 'Op' is 'T'; .*the table was truncated", cut, {}),
        (TypeError, "'Op' is int64; give texts or bool", number, {}),
        (KeyError, "kinds: the changes have no column 'op'; did you mean 'Op'", feed,
         {"kinds": "op"}),
        (ValueError, "kinds is 'Op', and changes_by is 'rows'; give one", feed,
         {"changes_by": "rows"}),
        (ValueError, "a changelog, which has deletes of its own", feed, {"deletes": [1]}),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            people.upsert(changes, **{"kinds": "Op", **options})
    assert people.newest().version == 1


#: Columns of the feeds of Delta and Iceberg: kinds, version, and one more.
FEEDS = {
    "delta": ("Delta", "_commit_version", "_commit_timestamp"),
    "iceberg": ("Flink, in full", "_change_ordinal", "_commit_snapshot_id"),
}


def feed_of(rng: random.Random, model: Model, tool: str) -> pa.Table:
    """Change a dict in some versions, and return the feed of these, in any order of its rows."""
    kinds, version, more = FEEDS[tool]
    rows = []
    for number in range(1, 9):
        for key in rng.sample(range(8), 4):
            old, row = model.pop(key, None), (rng.choice(["x", None]), rng.randrange(9))
            if old is None:
                told = [(0, row)]
            elif rng.random() < 0.4:  # a version may delete a row and insert another of its key
                told = rng.choice([[(3, old)], [(3, old), (0, row)]])
            else:
                told = [(1, old), (2, row)]
            if told[-1][0] != 3:
                model[key] = row
            rows += [
                {"_change_type": NAMES_OF_KINDS[kinds][kind], version: number, more: number * 7,
                 "id": key, "name": name, "hits": hits}
                for kind, (name, hits) in told
            ]  # fmt: skip
    rng.shuffle(rows)
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("tool", FEEDS)
def test_a_change_feed_counts_in_the_order_of_its_versions(people, tmp_path, seed, tool):
    model = rows_of(people)
    feed = feed_of(random.Random(seed), model, tool)
    store = people.upsert(feed.to_batches(max_chunksize=5), memory="1MiB")
    assert rows_of(store) == model
    for number, options in enumerate(({"changes_by": "changelog"}, {"kinds": "_change_type"})):
        other = build(pa.table(ROWS), tmp_path / str(number), key="id")
        assert rows_of(other.upsert(feed, columns=["name", "hits"], **options)) == model


def test_change_feeds_that_are_refused(people):
    feed = pa.table({
        "_change_type": ["insert", "insert"], "_commit_version": [4, 4], "id": [8, 8],
        "name": ["a", "b"], "hits": [0, 0],
    })  # fmt: skip
    with pytest.raises(ValueError, match="the key id=8 has several rows in one version"):
        people.upsert(feed)
    for name, values, error, said in (
        ("_commit_version", [4, None], ValueError, "'_commit_version' has a row without a version"),
        ("_commit_version", [-1, 4], ValueError, "'_commit_version' has a row without a version"),
        ("_commit_version", ["4", "5"], TypeError, "'_commit_version' is string; give integers"),
        ("_change_type", ["insert", "upserted"], ValueError, "row 2: .* is 'upserted'; expected"),
    ):
        at = feed.schema.names.index(name)
        with pytest.raises(error, match=said):
            people.upsert(feed.set_column(at, name, pa.array(values)))
    # Without versions there is no order.
    bare = feed.drop_columns("_commit_version")
    upper = bare.rename_columns({"_change_type": "_CHANGE_TYPE"})
    load = r"load '_commit_version' \(Delta\) or '_change_ordinal' \(Iceberg\) too"
    for error, said, changes, options in (
        (KeyError, f"no column '_change_type'.*became of each row, {load}", bare, {}),
        (ValueError, f"columns= leaves out '_change_type'.*, {load}, otherwise", bare,
         {"columns": ["name"]}),
        (ValueError, f"leave out changes_by, .*, {load}", bare, {"changes_by": "changelog"}),
        (ValueError, f"kinds is '_change_type', but .* lack the versions .*; {load}", bare,
         {"kinds": "_change_type"}),
        (ValueError, f"kinds is '_CHANGE_TYPE', but .*; {load}", upper, {"kinds": "_CHANGE_TYPE"}),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            people.upsert(changes, **options)
    assert people.newest().version == 1
    last = feed.set_column(1, "_commit_version", pa.array([5, 4]))
    assert people.upsert(last).get(8) == {"name": "a", "hits": 0}


def test_the_change_feed_of_a_delta_table(people, tmp_path, seed):
    """As delta-rs reads it; the oracle is the table."""
    deltalake = pytest.importorskip("deltalake")
    rng, folder = random.Random(seed), str(tmp_path / "delta")
    deltalake.write_deltalake(
        folder, pa.table(ROWS), configuration={"delta.enableChangeDataFeed": "true"}
    )
    table = deltalake.DeltaTable(folder)
    for _ in range(4):
        merged = table.merge(some_rows(rng, 9), "s.id = t.id", source_alias="s", target_alias="t")
        merged.when_matched_update_all().when_not_matched_insert_all().execute()
        table.delete(f"id = {rng.randrange(9)}")
    feed = table.load_cdf(starting_version=1)
    with people.upsert(feed) as store:
        assert rows_of(store) == {
            row["id"]: (row["name"], row["hits"])
            for row in pa.table(table.to_pyarrow_table()).to_pylist()
        }


def test_rows_of_hudi_that_mark_deletes(people):
    rows = pa.table({
        "_hoodie_record_key": ["1", "2", "9"], "id": [1, 2, 9], "name": ["uno", None, "nine"],
        "hits": [1, None, 9], "_hoodie_is_deleted": [False, True, None],
    })  # fmt: skip
    after = {1: ("uno", 1), 3: ("three", 3), 9: ("nine", 9)}
    assert rows_of(people.upsert(rows, changes_by="hudi")) == after
    with pytest.raises(ValueError, match=r"leaves out '_hoodie_is_deleted'; if .*'hudi', oth"):
        people.upsert(rows, columns=["name", "hits"])
    rows = rows.drop_columns("_hoodie_is_deleted")
    assert 2 in upsert(people.path, rows, changes_by="hudi")
    with pytest.raises(
        ValueError, match="changes_by is 'hudi', but the changes have no column 'op'"
    ):
        people.upsert(pa.table(ROWS), changes_by="hudi")


def test_changes_of_a_hudi_table(tmp_path):
    """What became of the rows of a table, as `HudiTable.changes` tells it."""
    hudi = pytest.importorskip("lookupstore.hudi")
    rows = pa.table(ROWS)
    table = hudi.HudiTable.create(tmp_path / "t", rows.schema, record_key=["id"])
    first = table.upsert(rows)
    store = build(table.to_arrow().select(rows.schema.names), tmp_path / "s", key="id")
    table.upsert(pa.table({"id": [2, 7], "name": ["zwei", "sieben"], "hits": [2, 7]}))
    table.delete(pa.table({"id": [3]}))
    store = store.upsert(table.changes(first.instant))
    assert rows_of(store) == {1: ("one", 1), 2: ("zwei", 2), 7: ("sieben", 7)}
