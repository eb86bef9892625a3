"""Which row of a batch stays, and which of it and the stored one, against a model of dicts.

The rules are Hudi's: `preCombine` within a batch, `combineAndGetUpdateValue` with the stored row.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.table_model import LEVELS, TIME, Layout, Model, Row

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.source.opening import open_source

EVENT, COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
DELETED = "_hoodie_is_deleted"
# Of rows 0 to 3 of one key, with the ordering values 1, 3, 3, 2: which one stays.
BATCH = (1, 3, 3, 2)
STAYS = {
    (6, EVENT): 1,  # the greatest; of equal ones the earlier
    (6, COMMIT): 1,  # the same: only the stored row is not compared
    (8, EVENT): 2,  # of equal ones the later
    (8, COMMIT): 3,  # the last one
    (9, EVENT): 2,
    (9, COMMIT): 3,
}
EVERY = pytest.mark.parametrize(("version", "mode"), STAYS)


def make(path: Path, version: int, mode: str | None, ordering: str | None = "ts") -> HudiTable:
    return HudiTable.create(
        path,
        pa.schema(LEVELS[0]),
        record_key=["id"],
        partition_by=["p"],
        ordering=ordering,
        merge_mode=mode,
        version=version,
        name="t",
    )


def rows_of(values: list[tuple[Any, ...]]) -> list[Row]:
    names = ("id", "p", "ts", "value", DELETED)
    empty = dict.fromkeys(LEVELS[0])
    return [{**empty, **dict(zip(names, one, strict=True))} for one in values]


def arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema({**LEVELS[0], DELETED: pa.bool_()}))


def batch(*values: tuple[int, bool]) -> pa.Table:
    """Return rows of one key, by ordering value and whether they delete; they count themselves."""
    return arrow(rows_of([(1, "a", ts, str(at), gone) for at, (ts, gone) in enumerate(values)]))


def value_of(table: HudiTable) -> list[str]:
    found: list[str] = table.scan(columns=["value"])["value"].to_pylist()
    return found


@EVERY
@pytest.mark.parametrize("verb", ["upsert", "insert", "insert_overwrite", "insert_overwrite_table"])
def test_which_row_of_a_batch_stays(tmp_path: Path, version: int, mode: str, verb: str) -> None:
    table = make(tmp_path / "t", version, mode)
    # An insert combines rows only if their keys may not be there.
    options = WriteOptions(duplicates="fail")
    write = getattr(HudiTable.open(tmp_path / "t"), verb)
    write(batch(*((ts, False) for ts in BATCH)), options=options)
    assert value_of(table) == [str(STAYS[version, mode])]
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


@EVERY
def test_which_row_stays_beside_the_stored_one(tmp_path: Path, version: int, mode: str) -> None:
    table = make(tmp_path / "t", version, mode)
    stored = arrow(rows_of([(1, "a", 9, "stored", False)]))
    table.insert(stored)
    table.upsert(batch(*((ts, False) for ts in BATCH)))
    # By commit time the one of the batch that stays takes its place, although it is older.
    assert value_of(table) == ["stored" if mode == EVENT else str(STAYS[version, mode])]


@pytest.mark.few(2)
@EVERY
def test_rows_of_a_batch_that_delete(tmp_path: Path, version: int, mode: str) -> None:
    table = make(tmp_path / "t", version, mode)
    compares = (version, mode) in ((6, EVENT), (6, COMMIT), (8, EVENT), (9, EVENT))
    # One that deletes and stays: of a row that is not there, nothing is left.
    table.upsert(batch((5, True), (4, False)))
    assert value_of(table) == ([] if compares else ["1"])
    table.insert_overwrite_table(batch((1, False)))
    table.upsert(batch((5, True), (4, False)))
    assert value_of(table) == ([] if compares else ["1"])
    # One that deletes and does not stay.
    table.insert_overwrite_table(batch((1, False)))
    table.upsert(batch((5, False), (4, True)))
    assert value_of(table) == (["0"] if compares else [])
    # Equal values: the earlier one in version 6, else the later one.
    table.insert_overwrite_table(batch((1, False)))
    table.upsert(batch((5, True), (5, False)))
    assert value_of(table) == ([] if version == 6 else ["1"])
    # A delete of keys, which may come twice, asks for no ordering value.
    table.insert_overwrite_table(batch((9, False)))
    assert table.delete(pa.table({"id": [1, 1], "p": ["a", "a"]})).rows_deleted == 1
    assert value_of(table) == []


@EVERY
def test_rows_without_an_ordering_value(tmp_path: Path, version: int, mode: str) -> None:
    table = make(tmp_path / "t", version, mode)
    rows = arrow(rows_of([(1, "a", 1, "x", False), (1, "a", None, "y", False)]))
    if version != 6 and mode == COMMIT:  # nobody asks for it
        table.upsert(rows)
        assert value_of(table) == ["y"]
        table.upsert(rows.drop_columns(["ts"]).slice(0, 1), missing="null")
        assert value_of(table) == ["x"]
        return
    with pytest.raises(ValueError, match="row 2: the ordering column 'ts' is null"):
        table.upsert(rows)
    with pytest.raises(ValueError, match="rows have no column 'ts'"):
        table.upsert(rows.drop_columns(["ts"]))
    assert table.timeline() == []


@EVERY
def test_a_stored_null_gives_way(tmp_path: Path, version: int, mode: str) -> None:
    table = make(tmp_path / "t", version, mode)
    table.bulk_insert(arrow(rows_of([(1, "a", None, "stored", False)])))
    table.upsert(batch((-5, False)))
    assert value_of(table) == ["0"]


@pytest.mark.few(2)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize(("ordering", "mode"), [("ts", EVENT), ("ts", COMMIT), (None, None)])
def test_random_batches(
    tmp_path: Path, version: int, ordering: str | None, mode: str | None, seed: int
) -> None:
    draw = random.Random(seed)
    table = make(tmp_path / "t", version, mode, ordering)
    model = Model(Layout(version, ("id",), ("p",), False, ordering, False, mode))
    verbs = ["upsert"] * 6 + ["delete", "insert_overwrite"]
    for step in range(12):
        verb = draw.choice(verbs)
        rows = rows_of(
            [
                (draw.randrange(12), draw.choice("ab"), draw.randrange(-2, 3), f"{step}-{at}",
                 draw.choice([True, False, False, None]))
                for at in range(draw.randrange(40))
            ]
        )  # fmt: skip
        given = arrow(rows)
        if verb == "delete":
            rows, given = rows[:3], given.slice(0, 3).select(["id", "p"])
        after = model.after(verb, rows, 0, [])
        model.commit(getattr(table, verb)(given).instant.time, after)
        expected = {
            key: (row["ts"], row["value"], row[TIME]) for key, row in model.now.rows.items()
        }
        found = table.scan().to_pylist()
        assert len(found) == len(expected), (step, verb)
        assert {
            (one["_hoodie_partition_path"], one["_hoodie_record_key"]): (
                one["ts"], one["value"], one["_hoodie_commit_time"],
            )
            for one in found
        } == expected, (step, verb)  # fmt: skip


@pytest.mark.parametrize("memory", [1 << 26, 1 << 16])
def test_rows_without_order_are_not_decided_by_chance(tmp_path: Path, memory: int) -> None:
    """Also in pieces; and with an ordering column, which decides."""
    rows = [(at % 300, "a", at, f"{at}" * 20, False) for at in range(301)]
    source = replace(open_source(arrow(rows_of(rows)).drop_columns([DELETED])), in_order=False)
    table = make(tmp_path / "t", 8, COMMIT)
    options = WriteOptions(memory=memory)
    said = r"rows: 1 of 301 repeat the record key \(id\).* have no order; give each key once"
    with pytest.raises(ValueError, match=said):
        table.upsert(source, options=options)
    assert table.scan().num_rows == 0
    assert table.upsert(replace(source, in_order=True), options=options).rows_inserted == 300
    other = make(tmp_path / "other", 8, EVENT)
    other.upsert(source, options=options)
    assert other.scan().filter(pc.field("id") == 0)["ts"].to_pylist() == [300]
