"""Paimon tables of all merge engines: random histories beside a model, and rules one by one."""

from __future__ import annotations

import importlib
import json
import random
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.changelog import check_changes
from support.histories.merge_model import MergeModel, NotMergedError, Row
from support.histories.paimon_engines import EngineHistory
from support.paimon_tables import PaimonTable

import lookupstore
from lookupstore import CorruptionError, FormatError, StaleStoreError
from lookupstore.columnar import ColumnarFiles
from lookupstore.compacted.schema import paimon_schema
from lookupstore.source.opening import open_source
from lookupstore.tables.paimon.functions import identity, ranks


def read(folder: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    source = open_source(folder)
    names = source.schema.names if columns is None else list(columns)
    schema = pa.schema([source.schema.field(name) for name in names])
    return pa.Table.from_batches(source.batches(names), schema).to_pylist()


def plain(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return rows as texts in one order."""
    return sorted(
        str([(name, plain_value(value)) for name, value in sorted(row.items())]) for row in rows
    )


def plain_value(value: Any) -> Any:
    """Return a value, with maps as lists of pairs, as Arrow has them."""
    return list(value.items()) if isinstance(value, dict) else value


@pytest.mark.parametrize("number", range(40))
def test_every_snapshot_of_a_random_history_has_the_rows_of_the_rules(
    tmp_path: Path, seed: int, number: int
) -> None:
    history = EngineHistory(tmp_path / "t", seed + number)
    chance = random.Random(seed + number)
    for turn in range(8):
        history.change()
        expected = history.expected()
        assert plain(read(tmp_path / "t")) == plain(expected), (number, turn, history.options)
        some = chance.sample(history.schema.names, 3)
        assert plain(read(tmp_path / "t", some)) == plain(
            [{name: row[name] for name in some} for row in expected]
        )
    keys = history.table.primary_keys
    with lookupstore.build(
        tmp_path / "t",
        tmp_path / "s",
        key=keys,
        nullable_keys=history.table.partition_keys,
        where=pc.field("g") > 1,
        allow_empty=True,
    ) as store:
        some_rows = [row for row in expected if (row["g"] or 0) > 1]
        assert plain(store.scan().read_all().to_pylist()) == plain(some_rows)


@pytest.mark.parametrize("number", range(10))
def test_lookups_and_followers_have_the_merged_rows(tmp_path: Path, seed: int, number: int) -> None:
    chance = random.Random(seed + number)
    history = EngineHistory(tmp_path / "t", seed + number)
    keys = history.table.primary_keys
    history.change()
    where = chance.choice([None, "g > 1"])
    store = lookupstore.follow(
        tmp_path / "t", tmp_path / "s", key=keys, where=where,
        nullable_keys=history.table.partition_keys,
    )  # fmt: skip
    for _ in range(5):
        before = model_of(store, keys)
        history.change()
        rows = [row for row in history.expected() if where is None or (row["g"] or 0) > 1]
        newer = store.sync()
        assert plain(newer.scan().read_all().to_pylist()) == plain(rows), history.options
        assert (newer.info().follows or {}).get("rebuilt") is None
        check_changes(newer.changes(store.version), before, model_of(newer, keys), len(keys))
        store = newer
        known = [row for row in rows if None not in [row[name] for name in keys]]
        given = pa.table({
            name: pa.array([row[name] for row in known], history.schema.field(name).type)
            for name in keys
        })  # fmt: skip
        build = chance.choice(["auto", "never", "always"])
        with ColumnarFiles(tmp_path / "t", key=keys, where=where, build=build) as files:
            # Rows with a null in the key may count, and are not found.
            assert len(known) <= len(files) <= len(rows)
            found = files.lookup(given).to_pylist()
            others = [name for name in history.schema.names if name not in keys]
            wanted = [{name: row[name] for name in others} for row in known]
            assert list(map(plain_row, found)) == list(map(plain_row, wanted))


def plain_row(row: Mapping[str, Any]) -> str:
    return plain([row])[0]


def model_of(store: Any, keys: Sequence[str]) -> dict[Any, tuple[Any, ...]]:
    found = {}
    for row in store.scan().read_all().to_pylist():
        own = tuple(row[name] for name in keys)
        rest = tuple(value for name, value in row.items() if name not in keys)
        found[own if len(own) > 1 else own[0]] = rest
    return found


# ---- rules one by one

FIELDS = {"id": "INT NOT NULL", "v": "BIGINT", "w": "STRING", "g": "INT"}
TYPES = pa.schema([
    pa.field("id", pa.int32(), nullable=False), ("v", pa.int64()), ("w", pa.string()),
    ("g", pa.int32()),
])  # fmt: skip


def table_of(
    folder: Path,
    options: Mapping[str, str],
    *files: Sequence[tuple[Any, ...]],
    fields: Mapping[str, Any] = FIELDS,
    schema: pa.Schema = TYPES,
    levels: Sequence[int] = (),
) -> PaimonTable:
    """Return a table, each of whose files has rows of a kind and values."""
    table = PaimonTable(folder, fields, ["id"], options=options)
    number = 0
    made = []
    for at, rows in enumerate(files):
        columns = list(zip(*(row[1:] for row in rows), strict=True))
        arrays = [pa.array(one, field.type) for one, field in zip(columns, schema, strict=True)]
        made.append(
            table.add(
                pa.table(arrays, schema=schema),
                kinds=[row[0] for row in rows],
                sequence=range(number, number + len(rows)),
                level=levels[at] if levels else 0,
            )
        )
        number += len(rows)
    table.commit(*made)
    return table


def values(folder: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in read(folder))


PARTIAL = {"merge-engine": "partial-update"}
AGGREGATION = {"merge-engine": "aggregation"}


def test_the_examples_of_the_documentation(tmp_path: Path) -> None:
    """Source: "Partial Update" and "Aggregation" in the documentation of Paimon."""
    fields = {"k": "INT NOT NULL", "a": "INT", "b": "INT", "g_1": "INT", "c": "INT", "d": "INT",
              "g_2": "INT"}  # fmt: skip
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False),
                        *((name, pa.int32()) for name in list(fields)[1:])])  # fmt: skip

    def merged(name: str, options: Mapping[str, str], *rows: tuple[Any, ...]) -> tuple[Any, ...]:
        table = PaimonTable(tmp_path / name, fields, ["k"], options={**PARTIAL, **options})
        files = [
            table.add(
                pa.table([pa.array([one], pa.int32()) for one in row], schema=schema),
                sequence=[at],
            )
            for at, row in enumerate(rows)
        ]
        table.commit(*files)
        (found,) = read(tmp_path / name)
        return tuple(found.values())

    groups = {"fields.g_1.sequence-group": "a,b", "fields.g_2.sequence-group": "c,d"}
    rows = [(1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, None), (1, 3, 3, 1, 3, 3, 3)]
    assert merged("one", groups, *rows[:2]) == (1, 2, 2, 2, 1, 1, 1)
    assert merged("two", groups, *rows) == (1, 2, 2, 2, 3, 3, 3)
    functions = {
        "fields.a.sequence-group": "b", "fields.b.aggregate-function": "first_value",
        "fields.c.sequence-group": "d", "fields.d.aggregate-function": "sum",
    }  # fmt: skip
    rows = [
        (1, 1, 1, None, None, None, None), (1, None, None, None, 1, 1, None),
        (1, 2, 2, None, None, None, None), (1, None, None, None, 2, 2, None),
    ]  # fmt: skip
    assert merged("three", functions, *rows) == (1, 2, 1, None, 2, 3, None)
    several = {"fields.g_1,g_2.sequence-group": "a", "fields.a.aggregate-function": "sum"}
    rows = [(1, 1, 1, 1, None, None, 1), (1, 2, 2, 2, None, None, 2), (1, 3, 3, 2, None, None, 1)]
    assert merged("four", several, *rows) == (1, 6, 3, 2, None, None, 2)
    options = {
        **AGGREGATION, "fields.v.aggregate-function": "max", "fields.g.aggregate-function": "sum",
    }  # fmt: skip
    table_of(tmp_path / "five", options, [(0, 1, 23, "a", 15)], [(0, 1, 30, None, 20)])
    assert values(tmp_path / "five") == [(1, 30, "a", 35)]


def test_a_row_alone_is_as_it_is(tmp_path: Path) -> None:
    """Functions see rows only together with others."""
    options = {**PARTIAL, "fields.g.sequence-group": "v,w"}
    alone = [(0, 1, 5, "x", None), (3, 2, 5, "x", 1), (1, 3, 5, "x", 1), (2, 4, 5, "x", 1)]
    table_of(tmp_path / "t", options, alone, [(0, 9, 0, "", 0), (0, 0, 0, "", 0)])
    assert values(tmp_path / "t")[1:-1] == [(1, 5, "x", None), (4, 5, "x", 1)]
    # Without a value in `g`, a row has no effect on its group.
    table_of(tmp_path / "u", options, alone, [(0, 1, None, None, None)])
    assert values(tmp_path / "u") == [(1, None, None, None), (4, 5, "x", 1)]


def test_deletions_that_nothing_says_how_to_merge_are_refused(tmp_path: Path) -> None:
    rows = [(0, 1, 5, "x", 1), (0, 2, 5, "x", 1)]
    table_of(tmp_path / "t", PARTIAL, rows, [(3, 1, 5, "x", 1)])
    with pytest.raises(FormatError, match="deletions without an option for the engine 'partial"):
        read(tmp_path / "t")
    options = {**AGGREGATION, "fields.v.aggregate-function": "max"}
    table_of(tmp_path / "u", options, rows, [(1, 1, 5, "x", 1)])
    with pytest.raises(FormatError, match="retractions with the aggregate function 'max'"):
        read(tmp_path / "u")
    # A column that nobody asks for is not merged.
    assert len(read(tmp_path / "u", ["id", "g"])) == 2
    options["fields.v.ignore-retract"] = "true"
    table_of(tmp_path / "w", options, rows, [(1, 1, 5, "x", 1)])
    assert values(tmp_path / "w") == [(1, 5, None, None), (2, 5, "x", 1)]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({**AGGREGATION, "fields.v.aggregate-function": "count"}, "function 'count'"),
        ({**AGGREGATION, "fields.v.aggregate-function": "rbm32"}, "function 'rbm32'"),
        ({**AGGREGATION, "fields.v.aggregate-function": "rbm64"}, "function 'rbm64'"),
        ({**AGGREGATION, "fields.v.aggregate-function": "hll_sketch"}, "function 'hll_sketch'"),
        ({**AGGREGATION, "fields.v.aggregate-function": "theta_sketch"}, "'theta_sketch'"),
        ({**AGGREGATION, "fields.v.aggregate-function": "nested_update"}, "'nested_update'"),
        ({**AGGREGATION, "fields.v.aggregate-function": "nested_partial_update"}, "'nested_p"),
        ({**AGGREGATION, "fields.v.aggregate-function": "merge_map_with_keytime"}, "keytime"),
        ({**AGGREGATION, "fields.v.aggregate-function": "mine"}, "function 'mine'"),
        ({**AGGREGATION, "fields.default-aggregate-function": "sum"}, "'sum' of string"),
        ({**AGGREGATION, "fields.v.aggregate-function": "listagg"}, "'listagg' of int64"),
        ({**AGGREGATION, "fields.g.sequence-group": "v"}, "sequence groups with the merge engine"),
        ({**PARTIAL, "fields.v.aggregate-function": "sum"}, "without a sequence group"),
        ({**PARTIAL, "fields.x.sequence-group": "v"}, "with the column 'x'"),
        ({**PARTIAL, "fields.g.sequence-group": "id"}, "a column of the key"),
        (
            {**PARTIAL, "fields.g.sequence-group": "v", "fields.w.sequence-group": "v"},
            "in several sequence groups",
        ),
        (
            {**PARTIAL, "fields.g.sequence-group": "v", "ignore-delete": "true",
             "partial-update.remove-record-on-sequence-group": "g"},
            "both ignored and applied",
        ),
        (
            {**PARTIAL, "fields.g.sequence-group": "v",
             "partial-update.remove-record-on-delete": "true"},
            "sequence groups with 'partial-update.remove",
        ),
        (
            {**PARTIAL, "fields.g.sequence-group": "v",
             "partial-update.remove-record-on-sequence-group": "v"},
            "remove-record-on-sequence-group' \\('v'\\)",
        ),
        (
            {**AGGREGATION, "aggregation.remove-record-on-delete": "true",
             "fields.v.ignore-retract": "true"},
            "'ignore-retract' with",
        ),
    ],
)  # fmt: skip
def test_what_is_not_merged_is_refused_by_name(
    tmp_path: Path, options: Mapping[str, str], what: str
) -> None:
    table_of(tmp_path / "t", options, [(0, 1, 5, "x", 1)])
    with pytest.raises(FormatError, match=rf"Paimon table .* uses .*{what}.*; pass the rows that"):
        open_source(tmp_path / "t")


@pytest.mark.parametrize(
    ("kind", "function", "parts"),
    [
        ("TINYINT", "sum", [100, 100]),
        ("BIGINT", "sum", [2**62, 2**62]),
        ("INT", "product", [2**20, 2**20]),
        ("DECIMAL(3, 2)", "sum", [Decimal("9.99"), Decimal("0.01")]),
        ("DECIMAL(3, 1)", "product", [Decimal("10.0"), Decimal("10.0")]),
    ],
)
def test_a_number_that_its_type_does_not_hold_is_an_error(
    tmp_path: Path, kind: str, function: str, parts: Sequence[Any]
) -> None:
    """Versions of Paimon differ: it wraps around, is null, or is an error."""
    fields = {"id": "INT NOT NULL", "v": kind}
    schema = paimon_schema([{"name": name, "type": one} for name, one in fields.items()])
    options = {**AGGREGATION, "fields.v.aggregate-function": function}
    files = [[(0, 1, part)] for part in parts]
    table_of(tmp_path / "t", options, *files, fields=fields, schema=schema)
    with pytest.raises(FormatError, match=f"function '{function}' of .* with values beyond"):
        read(tmp_path / "t")


def test_empty_texts_are_not_listed(tmp_path: Path) -> None:
    """Versions of Paimon differ: an empty text is a part, is left out, or is null."""
    options = {**AGGREGATION, "fields.w.aggregate-function": "listagg"}
    distinct = {**options, "fields.w.distinct": "true"}
    for at, (more, text, is_read) in enumerate([
        (options, "", False), (options, " ", False), (options, None, True),
        (options, "a, ,b", True), (distinct, "a, ,b", False), (distinct, "a,,b", True),
        (distinct, "", False),
    ]):  # fmt: skip
        table_of(
            tmp_path / f"{at}", more, [(0, 1, 1, "a", 1), (0, 2, 1, "", 1)], [(0, 1, 1, text, 1)]
        )
        if is_read:
            assert read(tmp_path / f"{at}")[1]["w"] == ""
        else:
            with pytest.raises(FormatError, match="'listagg' with empty texts"):
                read(tmp_path / f"{at}")


def test_decimals_are_rounded_as_paimon_rounds_them(tmp_path: Path) -> None:
    fields = {"id": "INT NOT NULL", "v": "DECIMAL(38, 2)", "w": "DECIMAL(9, 1)"}
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False),
                        ("v", pa.decimal128(38, 2)), ("w", pa.decimal128(9, 1))])  # fmt: skip
    options = {**AGGREGATION, "fields.v.aggregate-function": "sum",
               "fields.w.aggregate-function": "product"}  # fmt: skip
    huge = Decimal(10**36 - 1).scaleb(-2)
    table_of(
        tmp_path / "t", options,
        [(0, 1, huge, Decimal("0.5")), (0, 2, huge, Decimal("-1.5"))],
        [(0, 1, huge, Decimal("0.5")), (0, 2, None, Decimal("1.5"))],
        fields=fields, schema=schema,
    )  # fmt: skip
    assert values(tmp_path / "t") == [
        (1, huge * 2, Decimal("0.3")), (2, huge, Decimal("-2.3")),
    ]  # fmt: skip


def test_floats_are_compared_as_java_compares_them() -> None:
    numbers = [float("-inf"), -1.0, -0.0, 0.0, 1.0, float("inf"), float("nan"), None]
    for kind in (pa.float32(), pa.float64()):
        column = pa.array(numbers, kind)
        assert ranks(column)[:-1].tolist() == list(range(1, 8))
        assert ranks(column, "descending")[:-1].tolist() == list(range(7, 0, -1))
    assert identity({"a": [0.0]}) != identity({"a": [-0.0]})
    assert identity((float("nan"),)) == identity((float("nan"),))


def test_upper_levels_have_what_those_above_them_have(tmp_path: Path) -> None:
    """With lookups, a compaction merges what it finds in upper levels."""
    options = {**AGGREGATION, "fields.v.aggregate-function": "sum"}
    files = [[(0, 1, 1, "a", 1)], [(0, 1, 11, "b", 1)], [(0, 1, 100, None, 1)]]
    for more, expected in (
        ({}, 112),
        ({"changelog-producer": "lookup"}, 111),
        ({"force-lookup": "true"}, 111),
        ({"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"}, 111),
    ):
        name = "-".join(more) or "none"
        table_of(tmp_path / name, {**options, **more}, *files, levels=[5, 3, 0])
        assert values(tmp_path / name) == [(1, expected, "b", 1)]


def test_a_row_that_a_compaction_wrote_again_is_no_tie(tmp_path: Path) -> None:
    options = {"changelog-producer": "lookup", "sequence.field": "g"}
    table = PaimonTable(tmp_path / "t", FIELDS, ["id"], options=options)

    def file(level: int, number: int, *row: Any) -> Any:
        arrays = [pa.array([one], field.type) for one, field in zip(row, TYPES, strict=True)]
        return table.add(pa.table(arrays, schema=TYPES), level=level, sequence=[number])

    # The row of level 5 was the newest one when level 3 was written.
    table.commit(file(5, 1, 1, 5, "x", 9), file(3, 1, 1, 5, "x", 9), file(0, 3, 1, 6, "y", 8))
    assert values(tmp_path / "t") == [(1, 5, "x", 9)]


def test_a_file_must_have_its_keys_in_order_and_once(tmp_path: Path) -> None:
    rows = [(0, 1, 5, "x", 1), (0, 2, 5, "x", 1)]
    table = table_of(tmp_path / "t", AGGREGATION, rows, rows[:1])
    file = next(iter(table.files.values()))
    path = table.path(file)

    def written(stored: pa.Table) -> None:
        pq.write_table(stored, path)
        table.commit(removed=[file])
        file.entry["_FILE"]["_FILE_SIZE"] = path.stat().st_size
        table.commit(file)

    written(file.rows.take([1, 0]))
    with pytest.raises(CorruptionError, match=rf"{file.name}.*rows in the order of the key"):
        read(tmp_path / "t")
    written(file.rows.take([0, 0]))
    with pytest.raises(FormatError, match=rf"several rows of one key in a file .*{file.name}"):
        read(tmp_path / "t")


def test_rows_are_merged_a_part_of_each_file_at_a_time(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of the files end at different keys."""
    reading = importlib.import_module("lookupstore.source.reading")
    merged = importlib.import_module("lookupstore.tables.paimon.merged_rows")
    monkeypatch.setattr(reading, "_BATCH_ROWS", 100)
    sizes = []
    chunk = merged._Chunk
    monkeypatch.setattr(
        merged, "_Chunk", lambda *given: sizes.append(given[-1].num_rows) or chunk(*given)
    )
    chance = random.Random(seed)
    options = {**AGGREGATION, "fields.v.aggregate-function": "sum"}
    files = [
        [(0, one, 1, "x", 1) for one in sorted(chance.sample(range(3000), count))]
        for count in (1000, 300, 50, 1)
    ]
    table_of(tmp_path / "t", options, *files)
    counts = Counter(row[1] for rows in files for row in rows)
    assert {row[0]: row[1] for row in values(tmp_path / "t")} == counts
    assert [row["id"] for row in read(tmp_path / "t")] == sorted(counts)
    assert len(sizes) > 9
    assert max(sizes) <= 400


def test_older_rows_of_a_group_are_put_before_newer_ones(tmp_path: Path) -> None:
    """Only `collect` adds their values at the end."""
    fields = {"id": "INT NOT NULL", "g": "INT", "t": "STRING", "u": "STRING",
              "l": {"type": "ARRAY", "element": "INT"},
              "m": {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}}  # fmt: skip
    schema = paimon_schema([{"name": name, "type": kind} for name, kind in fields.items()])
    options = {
        **PARTIAL, "fields.g.sequence-group": "t,u,l,m", "fields.t.aggregate-function": "listagg",
        "fields.u.aggregate-function": "first_value", "fields.l.aggregate-function": "collect",
        "fields.m.aggregate-function": "merge_map",
    }  # fmt: skip
    table_of(
        tmp_path / "t", options,
        [(0, 1, 5, "a", "a", [1, 2], [("x", 1)])], [(0, 1, 3, "b", "b", [3], [("x", 2), ("y", 3)])],
        fields=fields, schema=schema,
    )  # fmt: skip
    (row,) = read(tmp_path / "t")
    assert (row["g"], row["t"], row["u"], row["l"]) == (5, "b,a", "b", [1, 2, 3])
    assert dict(row["m"]) == {"x": 1, "y": 3}


@pytest.mark.parametrize("required", [True, False])
def test_a_removed_row_keeps_the_values_of_columns_without_nulls(
    tmp_path: Path, required: bool
) -> None:
    """Therefore a row that is older than the deletion does not change its group."""
    kind = "INT NOT NULL" if required else "INT"
    options = {
        **PARTIAL, "fields.g.sequence-group": "v",
        "partial-update.remove-record-on-sequence-group": "g",
    }  # fmt: skip
    files = [[(0, 1, 5, "x", 5)], [(3, 1, 6, None, 7)], [(0, 1, 9, "y", 6)]]
    table_of(tmp_path / "t", options, *files, fields={**FIELDS, "g": kind})
    assert values(tmp_path / "t") == [(1, None, "y", 7) if required else (1, 9, "y", 6)]
    table_of(tmp_path / "u", options, *files[:2], fields={**FIELDS, "g": kind})
    assert values(tmp_path / "u") == []
    several = {
        **PARTIAL, "fields.g,h.sequence-group": "v",
        "partial-update.remove-record-on-sequence-group": "g",
    }  # fmt: skip
    table = PaimonTable(tmp_path / "w", {**FIELDS, "g": kind, "h": "INT"}, ["id"], options=several)
    table.commit()
    if required:
        with pytest.raises(FormatError, match="a sequence group of which some columns have no nul"):
            open_source(tmp_path / "w")
    else:
        assert read(tmp_path / "w") == []


def test_another_function_makes_a_follower_read_all_rows(tmp_path: Path) -> None:
    options = {**AGGREGATION, "fields.v.aggregate-function": "sum"}
    table = table_of(tmp_path / "t", options, [(0, 1, 2, "a", 1)], [(0, 1, 3, "b", 1)])
    store = lookupstore.follow(tmp_path / "t", tmp_path / "s", key="id")
    assert store[1]["v"] == 5
    table.options = {**AGGREGATION, "fields.v.aggregate-function": "max"}
    table.evolve(FIELDS)
    table.commit()
    store = store.sync()
    assert store[1]["v"] == 3
    reason = (store.info().follows or {})["rebuilt"]
    assert reason.startswith("snapshot 1, which the store has, has other files in the table now")


def test_merged_rows_have_no_position(tmp_path: Path) -> None:
    table_of(tmp_path / "t", AGGREGATION, [(0, 1, 2, "a", 1)], [(0, 1, 3, "b", 1)])
    for mode in ("position", "value_and_position"):
        with pytest.raises(ValueError, match="made of rows of several files, and have no position"):
            ColumnarFiles(tmp_path / "t", key="id", mode=mode)
    with ColumnarFiles(tmp_path / "t", key="id", mode="presence") as files:
        assert files.contains([1, 2]).to_pylist() == [True, False]


def test_columns_of_older_schemas_are_merged(tmp_path: Path) -> None:
    options = {**AGGREGATION, "fields.v.aggregate-function": "sum"}
    table = table_of(tmp_path / "t", options, [(0, 1, 2, "a", 1)])
    fields = {"id": "INT NOT NULL", "w": "STRING", "v": "BIGINT", "more": "INT", "g": "BIGINT"}
    table.evolve(fields)
    rows = pa.table({
        "id": pa.array([1], pa.int32()), "w": pa.array([None], pa.string()), "v": [5],
        "more": pa.array([7], pa.int32()), "g": [2**40],
    })  # fmt: skip
    table.commit(table.add(rows, sequence=[9]))
    assert read(tmp_path / "t") == [{"id": 1, "w": "a", "v": 7, "more": 7, "g": 2**40}]


def test_a_file_of_a_section_that_is_gone_is_named(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", AGGREGATION, [(0, 1, 2, "a", 1)], [(0, 1, 3, "b", 1)])
    file = list(table.files.values())[1]
    table.path(file).unlink()
    with pytest.raises(StaleStoreError, match=file.name):
        read(tmp_path / "t")


def test_tables_of_pypaimon_have_the_rows_that_it_reads(golden: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(golden / "paimon" / "tables" / "engines.zip") as archive:
        archive.extractall(tmp_path)
    tables = sorted(tmp_path.rglob("rows.json"))
    assert len(tables) == 4
    for expected in tables:
        found = json.loads(json.dumps(read(expected.parent), default=str))
        assert found
        assert plain(found) == plain(json.loads(expected.read_text())), expected.parent.name


def test_the_model_is_that_of_the_documentation() -> None:
    """The oracle of the random histories merges the example of the documentation."""
    model = MergeModel({"id": "INT", "a": "INT", "b": "INT"}, ["id"], PARTIAL)
    rows = [Row({"id": 1, "a": a, "b": b}, 0, at) for at, (a, b) in enumerate([(1, 2), (None, 3)])]
    assert model.rows(rows) == [{"id": 1, "a": 1, "b": 3}]
    with pytest.raises(NotMergedError):
        model.rows([*rows, Row({"id": 1, "a": 1, "b": 1}, 3, 9)])
