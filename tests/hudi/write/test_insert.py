"""Inserts that do not look for keys: rows of one key side by side, and what writes do with them.

The oracle is a list of rows, in which a key may be several times; the other reader is hudi-rs.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.versions import VERSIONS

from lookupstore.errors import CommitConflictError, CorruptionError, DuplicateKeyError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.index.bloom import BloomIndex
from lookupstore.hudi.write import files as file_writes
from lookupstore.hudi.write.partitioner import FileSizing

SCHEMA = pa.schema({"id": pa.int32(), "day": pa.string(), "ts": pa.int32(), "value": pa.string()})
Row = tuple[int, str, int, str]
#: No file is filled up.
NEW_FILES = FileSizing(small_file_limit=0)


def make(path: Path, **arguments: Any) -> HudiTable:
    return HudiTable.create(
        path, SCHEMA, record_key=["id"], partition_by=["day"], ordering="ts", **arguments
    )


def arrow(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 4
    arrays = [pa.array(list(one), kind) for one, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.table(arrays, schema=SCHEMA)


def stored(table: HudiTable) -> Counter[Row]:
    found = table.scan()
    assert_same_rows(found, other_scan(Path(table.location.uri.removeprefix("file://"))))
    return Counter(tuple(one.values()) for one in found.select(SCHEMA.names).to_pylist())


def newest(rows: list[Row]) -> dict[tuple[int, str], Row]:
    """Return the row of each key that an upsert of several keeps, but in version 6."""
    kept: dict[tuple[int, str], Row] = {}
    for row in rows:
        if row[:2] not in kept or row[2] >= kept[row[:2]][2]:
            kept[row[:2]] = row
    return kept


def upserted(rows: list[Row], given: list[Row]) -> list[Row]:
    wanted = newest(given)
    there = {row[:2] for row in rows}
    changed = [
        wanted[row[:2]] if row[:2] in wanted and wanted[row[:2]][2] >= row[2] else row
        for row in rows
    ]
    return changed + [row for key, row in wanted.items() if key not in there]


@pytest.mark.few(1)
@pytest.mark.parametrize("version", VERSIONS)
def test_histories_with_repeated_keys(tmp_path: Path, version: int, seed: int) -> None:
    rng = random.Random(seed)
    table = make(tmp_path / "t", version=version)
    model: list[Row] = []
    serial = iter(range(10**6))

    def some(most: int) -> list[Row]:
        # Ordering values are different, so that no rule for equal ones matters.
        return [
            (rng.randrange(12), rng.choice("ab"), rng.randrange(1000) * 1000 + at % 1000, f"v{at}")
            for at in (next(serial) for _ in range(rng.randint(1, most)))
        ]

    for _ in range(16):
        verb = rng.choice(["insert", "insert", "bulk_insert", "upsert", "upsert", "delete", "drop"])
        options = WriteOptions(
            sizing=rng.choice([NEW_FILES, FileSizing()]),
            index=rng.choice(["simple", "in-memory", "bloom", BloomIndex(build="always")]),
            duplicates="drop" if verb == "drop" else "allow",
        )
        given = some(3) if verb == "delete" else some(8)
        there = {row[:2] for row in model}
        if verb == "delete":
            keys = {row[:2] for row in given}
            done = table.delete(arrow(given).select(["id", "day"]), options=options)
            left = [row for row in model if row[:2] not in keys]
            assert done.rows_deleted == len(model) - len(left)
            model = left
        elif verb == "upsert":
            table.upsert(arrow(given), options=options)
            model = upserted(model, given)
        elif verb == "drop":
            done = table.insert(arrow(given), options=options)
            new = [row for key, row in newest(given).items() if key not in there]
            assert done.rows_inserted == len(new)
            model = model + new
        else:
            done = getattr(table, verb)(arrow(given), options=options)
            assert done.rows_inserted == len(given)
            model = model + given
        assert stored(table) == Counter(model), verb
        repeated = len(model) - len({row[:2] for row in model})
        assert [one.kind for one in table.verify().findings] == ["duplicate"] * repeated


@pytest.mark.parametrize("memory", [1 << 30, 1 << 20])
def test_a_key_that_is_stored_several_times_is_named_once(tmp_path: Path, memory: int) -> None:
    table = make(tmp_path / "t")
    for _ in range(3):
        table.insert(arrow([(1, "a", 1, "x"), (2, "a", 1, "x")]))
    options = WriteOptions(duplicates="fail", memory=memory)
    with pytest.raises(ValueError, match=r"^rows have keys .*, such as '1', '2'; to change"):
        table.insert(arrow([(1, "a", 2, "y"), (2, "a", 1, "x"), (3, "a", 1, "z")]), options=options)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_insert_looks_into_no_file(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version=version)
    table.insert(arrow([(1, "a", 1, "x")]))
    (file,) = (tmp_path / "t" / "a").glob("*.parquet")
    whole = file.read_bytes()
    file.write_bytes(b"none")
    done = table.insert(arrow([(1, "a", 2, "y")]), options=WriteOptions(sizing=NEW_FILES))
    assert (done.rows_inserted, done.files_new) == (1, 1)
    for duplicates in ("drop", "fail"):
        with pytest.raises(CorruptionError):
            table.insert(arrow([(1, "a", 2, "y")]), options=WriteOptions(duplicates=duplicates))
    file.write_bytes(whole)
    assert stored(table) == Counter([(1, "a", 1, "x"), (1, "a", 2, "y")])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_small_file_is_filled_with_rows_of_its_keys(tmp_path: Path, version: int) -> None:
    table = make(tmp_path / "t", version=version)
    table.insert(arrow([(1, "a", 1, "x"), (2, "a", 1, "x")]))
    done = table.insert(arrow([(1, "a", 3, "y"), (1, "a", 2, "z")]))
    assert (done.rows_inserted, done.rows_updated, len(done.files_rewritten)) == (2, 0, 1)
    # Rows that were there come first, and the others as they were given.
    assert table.scan(columns=["id", "value"]).to_pydict() == {
        "id": [1, 2, 1, 1],
        "value": ["x", "x", "y", "z"],
    }
    assert len(stored(table)) == 4
    # Each row of the key is compared on its own.
    assert table.upsert(arrow([(1, "a", 2, "new")])).rows_updated == 2
    assert table.scan(columns=["value"])["value"].to_pylist() == ["new", "x", "y", "new"]
    assert table.delete(arrow([(1, "a", 0, "")]).select(["id"])).rows_deleted == 3
    assert stored(table) == Counter([(2, "a", 1, "x")])


def test_who_gives_one_place_a_key_refuses_a_repeated_one(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.insert(arrow([(1, "a", 1, "x"), (2, "a", 1, "x"), (3, "a", 1, "x"), (2, "a", 2, "y")]))
    table.insert(arrow([(3, "a", 2, "y")]), options=WriteOptions(sizing=NEW_FILES))
    keys = arrow([(1, "a", 0, ""), (2, "a", 0, ""), (3, "a", 0, "")])
    assert table.tag(keys.slice(0, 1))["_pos"].to_pylist() == [0]
    for index in ("simple", "in-memory", "bloom"):
        with pytest.raises(
            DuplicateKeyError,
            match=r"record key '2' is in rows 1 and 3 of .*delete the key and upsert",
        ):
            table.tag(keys.slice(0, 2), index=index)
        with pytest.raises(DuplicateKeyError, match=r"record key '3' is in .* and in "):
            table.tag(keys.slice(2), index=index)


@pytest.mark.parametrize("version", VERSIONS)
def test_which_rows_of_one_write_are_combined(tmp_path: Path, version: int) -> None:
    given = arrow([(1, "a", 2, "x"), (1, "a", 1, "y")])
    for number, (options, expected) in enumerate(
        [
            (WriteOptions(), ["x", "y"]),
            (WriteOptions(combine=True), ["x"]),
            (WriteOptions(duplicates="fail"), ["x"]),
            (WriteOptions(duplicates="drop"), ["x"]),
            (WriteOptions(duplicates="drop", combine=False), ["x", "y"]),
        ]
    ):
        table = make(tmp_path / f"{number}", version=version)
        table.insert(given, options=options)
        assert table.scan(columns=["value"])["value"].to_pylist() == expected
    table = make(tmp_path / "t", version=version)
    apart = WriteOptions(combine=False)
    assert table.upsert(given, options=apart).rows_inserted == 2
    before = table.timeline()
    # Two rows that change one have no order.
    with pytest.raises(ValueError, match=r"repeat the key '1', and would change a row .* twice"):
        table.upsert(given, options=apart)
    assert [one for one in table.timeline() if one.is_write] == before
    assert table.delete(arrow([(1, "a", 0, "")] * 2).select(["id"])).rows_deleted == 2
    assert table.insert_overwrite(given).rows_inserted == 1
    assert table.insert_overwrite(given, options=apart).rows_inserted == 2


def test_an_ordering_value_is_needed_where_rows_are_combined(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    null = arrow([(1, "a", 1, "x")]).set_column(2, "ts", pa.array([None], pa.int32()))
    assert table.insert(null).rows_inserted == 1
    with pytest.raises(ValueError, match="row 1: the ordering column 'ts' is null"):
        table.insert(null, options=WriteOptions(combine=True))
    with pytest.raises(ValueError, match="duplicates is 'ignore'; give one of 'allow', 'drop'"):
        WriteOptions(duplicates="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
def test_two_who_insert_one_key(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who allows duplicates has no conflict with who inserts the same; who does not has one."""
    table, other = (make(tmp_path / "t", version=version), HudiTable.open(tmp_path / "t"))
    write = file_writes.FileWrites.write
    between: list[Any] = []

    def slow(self: Any, files: Any, advance: Any) -> Any:
        stats = write(self, files, advance)
        if between:
            between.pop()()
        return stats

    monkeypatch.setattr(file_writes.FileWrites, "write", slow)
    between.append(lambda: other.insert(arrow([(1, "a", 1, "theirs")])))
    table.insert(arrow([(1, "a", 1, "ours")]))
    both = Counter([(1, "a", 1, "theirs"), (1, "a", 1, "ours")])
    assert stored(table) == both
    for duplicates in ("drop", "fail"):
        key = len(duplicates)
        between.append(lambda key=key: other.insert(arrow([(key, "b", 1, "theirs")])))
        with pytest.raises(CommitConflictError, match="keys that this write inserts"):
            table.insert(
                arrow([(key, "b", 1, "ours")]),
                options=WriteOptions(duplicates=duplicates, sizing=NEW_FILES, retries=0),
            )
        if duplicates == "drop":
            table.delete_partition("b")
    assert np.sum(list(stored(table).values())) == 3
