"""Rows that lack columns of the table: refused, kept as stored, or null.

The oracle is a dict of rows; the other reader is hudi-rs.
"""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi.oracle import assert_same_rows, other_scan
from support.samples import amount

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.write.rows.spilled import SpilledRows

POINT = pa.struct({"x": pa.int32(), "y": pa.string()})
SCHEMA = pa.schema(
    {"id": pa.int32(), "day": pa.string(), "ts": pa.int64(), "value": pa.string(),
     "hits": pa.int32(), "at": POINT}
)  # fmt: skip
HOODIE = "hoodie"
NULLS = f"{HOODIE}.write.set.null.for.missing.columns"
Row = dict[str, Any]


def make(path: Path, **arguments: Any) -> HudiTable:
    given = {"record_key": ["id"], "partition_by": ["day"], **arguments}
    return HudiTable.create(path, SCHEMA, **given)


def first_rows() -> pa.Table:
    rows = [
        {"id": at, "day": "a", "ts": 1, "value": f"v{at}", "hits": at, "at": {"x": at, "y": "s"}}
        for at in range(3)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def stored(table: HudiTable) -> list[Row]:
    names = [name for name in table.schema.names if not name.startswith("_hoodie")]
    return sorted(table.scan(columns=names).to_pylist(), key=lambda row: (row["day"], row["id"]))


@pytest.mark.parametrize(
    "verb", ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"]
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_rows_that_lack_columns_are_refused(tmp_path: Path, verb: str, dry_run: bool) -> None:
    table = make(tmp_path)
    table.insert(first_rows())
    lacking = first_rows().drop_columns(["value", "hits"]).slice(0, 1)
    write = getattr(table, verb)
    # New rows have no stored values to keep.
    keep = "set missing to 'keep' to keep the stored values, " if verb == "upsert" else ""
    expected = (
        rf"^rows lack columns of the table: 'value', 'hits'; {keep}set missing to 'null' to store "
        "nulls, or add the columns to the rows$"
    )
    for options in (None, {NULLS: "false"}):
        with pytest.raises(ValueError, match=expected):
            write(lacking, options=options, dry_run=dry_run)
    assert len(table.timeline()) == 1
    for remedy in ("keep", "null"):
        tried = write(lacking, missing=remedy, dry_run=True)
        assert tried.columns_missing == ("value", "hits")
    assert write(first_rows(), dry_run=True).columns_missing == ()


def test_each_remedy(tmp_path: Path) -> None:
    before = first_rows().to_pylist()
    lacking = pa.Table.from_pylist(
        [
            {"id": 1, "day": "a", "ts": 2, "at": {"x": 9}},
            {"id": 5, "day": "a", "ts": 2, "at": None},
        ],
        pa.schema([*list(SCHEMA)[:3], pa.field("at", pa.struct({"x": pa.int32()}))]),
    )
    new = {"id": 5, "day": "a", "ts": 2, "value": None, "hits": None, "at": None}
    kept = {**before[1], "ts": 2, "at": {"x": 9, "y": "s"}}
    null = {**kept, "value": None, "hits": None, "at": {"x": 9, "y": None}}
    ways: list[tuple[dict[str, Any], Row]] = [
        ({"missing": "keep"}, kept),
        ({"options": WriteOptions(missing="keep")}, kept),
        ({"missing": "null"}, null),
        ({"options": WriteOptions(missing="null")}, null),
        ({"options": {NULLS: "true"}}, null),
    ]
    for number, (arguments, expected) in enumerate(ways):
        table = make(tmp_path / f"{number}")
        table.insert(first_rows())
        table.upsert(lacking, **arguments)
        assert stored(table) == [before[0], expected, before[2], new]


def test_rows_without_the_flag_of_deletions_lack_nothing(tmp_path: Path) -> None:
    """A table that has the column, as those that Debezium feeds, takes rows without it."""
    rows = pa.table({"id": [1, 2], "v": ["a", "b"], "_hoodie_is_deleted": [False, False]})
    table = HudiTable.create(tmp_path / "t", rows.schema, record_key="id")
    table.insert(rows)
    done = table.upsert(pa.table({"id": [2, 3], "v": ["c", "d"]}))
    assert (done.rows_updated, done.rows_inserted, done.columns_missing) == (1, 1, ())
    assert dict(zip(*table.scan(columns=["id", "v"]).to_pydict().values(), strict=True)) == {
        1: "a", 2: "c", 3: "d",
    }  # fmt: skip


def test_what_contradicts_itself(tmp_path: Path) -> None:
    table = make(tmp_path)
    with pytest.raises(ValueError, match="missing is 'keep', but options say 'null'"):
        table.upsert(first_rows(), missing="keep", options=WriteOptions(missing="null"))
    with pytest.raises(ValueError, match="missing is 'some'; give 'keep', 'null' or None"):
        table.upsert(first_rows(), missing="some")  # type: ignore[arg-type]


def test_fields_of_elements_cannot_be_kept(tmp_path: Path) -> None:
    whole, part = pa.struct({"p": pa.int32(), "q": pa.int32()}), pa.struct({"p": pa.int32()})
    schema = pa.schema({"id": pa.int32(), "l": pa.list_(whole), "m": pa.map_(pa.string(), whole)})
    table = HudiTable.create(tmp_path, schema, record_key="id")
    lists = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "l": pa.array([[{"p": 1}]], pa.list_(part)),
            "m": pa.array([[("a", {"p": 1})]], pa.map_(pa.string(), part)),
        }
    )
    names = "'l.element.q', 'm.value.q'"
    with pytest.raises(ValueError, match=f"{names}; set missing to 'null'"):
        table.upsert(lists)
    with pytest.raises(ValueError, match=f"{names}; missing='keep' cannot keep those: set missing"):
        table.upsert(lists, missing="keep")
    table.upsert(lists, missing="null")
    assert table.scan(columns=["l"])["l"].to_pylist() == [[{"p": 1, "q": None}]]


def test_a_row_group_is_copied_but_for_the_columns_that_come(tmp_path: Path) -> None:
    """Pages of columns that rows keep are those of the file before."""
    count = 5_000
    rows = pa.table(
        {
            "id": pa.array(range(count), pa.int32()),
            "value": [f"value {at}" for at in range(count)],
            "hits": pa.array(range(count), pa.int32()),
            "at": pa.array([{"x": at, "y": f"{at}"} for at in range(count)], POINT),
        }
    )
    table = HudiTable.create(tmp_path, rows.schema, record_key="id")
    small = WriteOptions(format=FileFormat(row_group_bytes=1 << 17), missing="keep")
    table.insert(rows, options=small)
    table.upsert(
        {"id": pa.array([7, count - 1], pa.int32()), "hits": pa.array([-1, -2], pa.int32()),
         "at": pa.array([{"x": 0}, None], pa.struct({"x": pa.int32()}))},
        options=small,
    )  # fmt: skip
    expected = rows.to_pylist()
    expected[7] |= {"hits": -1, "at": {"x": 0, "y": "7"}}
    expected[-1] |= {"hits": -2, "at": None}
    assert table.scan(columns=rows.column_names).to_pylist() == expected


def lacking_rows(rng: random.Random, ordering: bool, extra: bool) -> tuple[list[Row], pa.Schema]:
    """Return rows without some columns, and their schema."""
    gone = {name for name in ("ts", "value", "hits", "at") if rng.random() < 0.4}
    gone -= {"ts"} if ordering else set()
    point = POINT if rng.random() < 0.5 else pa.struct({"x": pa.int32()})
    fields = [one for one in SCHEMA if one.name not in gone]
    fields = [one.with_type(point) if one.name == "at" else one for one in fields]
    if extra:
        fields.append(pa.field("extra", pa.string()))
    fields.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    schema = pa.schema(fields)
    rows = []
    for number in range(rng.randrange(1, 12)):
        row: Row = {
            "id": rng.randrange(14),
            "day": rng.choice("ab"),
            "ts": rng.randrange(50) * 100 + number,
            "value": rng.choice([None, f"n{number}"]),
            "hits": rng.choice([None, number]),
            "at": rng.choice([None, {"x": number, **({"y": None} if point is POINT else {})}]),
            "extra": "e",
            "_hoodie_is_deleted": rng.random() < 0.1,
        }
        rows.append({name: row[name] for name in schema.names})
    return rows, schema


def upserted(
    table: dict[tuple[str, int], Row], rows: list[Row], *, ordering: bool, moves: bool | None
) -> None:
    """Upsert rows into a dict; `moves`: of an index for all partitions, whether rows move."""
    last: dict[Any, Row] = {}
    for row in rows:
        key = row["id"] if moves is not None else (row["day"], row["id"])
        if key not in last or not ordering or row["ts"] >= last[key]["ts"]:
            last[key] = row
    for row in last.values():
        place = (row["day"], row["id"])
        if moves is not None:
            place = next((one for one in table if one[1] == row["id"]), place)
        old = table.get(place)
        if old is not None and ordering and old["ts"] > row["ts"]:
            continue
        table.pop(place, None)
        if row["_hoodie_is_deleted"]:
            continue
        new = {**dict.fromkeys(SCHEMA.names), **(old or {})}
        for name, value in row.items():
            if name == "at" and value is not None and "y" not in value:
                new["at"] = {**value, "y": ((old or {}).get("at") or {}).get("y")}
            elif name != "_hoodie_is_deleted":
                new[name] = value
        if moves is False and old is not None:
            new["day"] = old["day"]
        table[new["day"], new["id"]] = new


@pytest.mark.sampled
def test_what_is_kept_as_a_dict_has_it(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spilled = 0
    keep = SpilledRows._keep

    def counted(*arguments: Any) -> Any:
        nonlocal spilled
        spilled += 1
        return keep(*arguments)

    monkeypatch.setattr(SpilledRows, "_keep", counted)
    for case in range(amount(4, 2000)):
        rng = random.Random(f"{seed} {case}")
        ordering = rng.random() < 0.5
        moves = rng.choice([None, True, False])
        table = make(
            tmp_path / f"t{case}",
            version=rng.choice([6, 8, 9]),
            ordering="ts" if ordering else None,
            hive_style=rng.random() < 0.5,
        )
        model: dict[tuple[str, int], Row] = {}
        index = "bloom" if moves is None else rng.choice(["global-bloom", "global-simple"])
        options = WriteOptions(
            index=index, update_partition_path=moves is not False, missing="keep", evolve=True,
            threads=1,
        )  # fmt: skip
        for step in range(3):
            rows, schema = lacking_rows(rng, ordering, extra=step == 2)
            given = pa.Table.from_pylist(rows, schema)
            if rng.random() < 0.4:  # more than fits into memory, of one piece
                monkeypatch.setattr("lookupstore.hudi.write.write.held", lambda parts, _: (
                    [next(parts)], False))  # fmt: skip
            table.upsert(given, options=options)
            monkeypatch.undo()
            monkeypatch.setattr(SpilledRows, "_keep", counted)
            upserted(model, rows, ordering=ordering, moves=moves)
            if "extra" in table.schema.names:
                for row in model.values():
                    row.setdefault("extra", None)
            assert stored(table) == [model[place] for place in sorted(model)], (case, step)
        assert_same_rows(table.scan(), other_scan(tmp_path / f"t{case}"))
    assert spilled


def as_lines(*rows: Any) -> io.BytesIO:
    return io.BytesIO("\n".join(map(json.dumps, rows)).encode())


def test_lines_of_json_that_lack_a_field_keep_no_value(tmp_path: Path) -> None:
    """Arrow reads the field as null, and a null would replace the stored value."""
    table = make(tmp_path / "t", partition_by=[])
    table.insert(first_rows())
    before = stored(table)
    mixed = [{"id": 0, "day": "a", "hits": 7}, {"id": 1, "day": "a", "value": "new"}]
    (tmp_path / "mixed.jsonl").write_bytes(as_lines(*mixed).read())
    for rows in (as_lines(*mixed), str(tmp_path / "mixed.jsonl")):
        with pytest.raises(ValueError, match=r"row 1 has no 'value', which other rows have, so"):
            table.upsert(rows, missing="keep")
    nested = [
        {"id": 0, "at": {"x": 5, "y": None}},
        {"id": 1, "at": None},
        {"id": 2, "at": {"y": "t"}},
    ]
    with pytest.raises(ValueError, match=r"row 3 has no 'at\.x', which other rows have"):
        table.upsert(as_lines(*nested), missing="keep")
    assert stored(table) == before

    # The remedies: rows with the same fields, one write each, or a null.
    table.upsert(as_lines(mixed[0]), missing="keep")
    table.upsert(as_lines({**mixed[1], "hits": None}), missing="keep")
    assert stored(table)[:2] == [
        before[0] | {"hits": 7},
        before[1] | {"value": "new", "hits": None},
    ]
    # Elsewhere a field that a line lacks is null: no stored value is to be kept.
    table.insert(as_lines({"id": 8, "day": "a", "hits": 7}, {"id": 9, "day": "a"}), missing="keep")
    table.upsert(as_lines({"id": 0, "day": "a", "hits": 1}, {"id": 1, "day": "a"}), missing="null")
    assert [row["hits"] for row in stored(table) if row["id"] in (0, 1, 8, 9)] == [1, None, 7, None]
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


def test_lines_of_json_that_delete_need_their_key_only(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=[])
    table.insert(first_rows())
    rows = as_lines({"id": 0, "hits": 7}, {"id": 2, "_hoodie_is_deleted": True})
    done = table.upsert(rows, missing="keep")
    assert (done.rows_updated, done.rows_deleted) == (1, 1)
    assert [row["hits"] for row in stored(table)] == [7, 1]


def test_structs_in_json_lines_may_lack_fields_that_are_kept(tmp_path: Path) -> None:
    table = make(tmp_path / "t", partition_by=[])
    table.insert(first_rows())
    with pytest.raises(ValueError, match=r"rows lack columns of the table: .*'at\.x'"):
        table.upsert(as_lines({"id": 1, "at": {"y": "t"}}))
    table.upsert(as_lines({"id": 1, "at": {"y": "t"}}), missing="keep")
    assert stored(table)[1]["at"] == {"x": 1, "y": "t"}
    table.upsert(as_lines({"id": 1, "at": {"y": "u", "x": 3}}), missing="keep")
    assert stored(table)[1]["at"] == {"x": 3, "y": "u"}
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))
