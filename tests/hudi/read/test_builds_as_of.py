"""Stores of a Hudi table as it was at a time, beside what scans of that time return."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lookupstore
from lookupstore import StaleStoreError
from lookupstore.hudi import HudiTable

pytestmark = pytest.mark.drawn(0.5)


def rows_of(rows: pa.Table, names: list[str]) -> list[dict[str, Any]]:
    return sorted(rows.select(names).to_pylist(), key=str)


def test_each_moment_of_tables_of_java(
    merge_on_read_tables: Path, tmp_path: Path, seed: int
) -> None:
    """One store is replaced, in any order: no moment is taken for another one."""
    chance = random.Random(seed)
    for path in sorted(merge_on_read_tables.iterdir()):
        table = HudiTable.open(path)
        times = [one.time for one in table.timeline() if one.is_completed and one.is_write]
        columns = [one for one in table.schema.names if not one.startswith("_hoodie_")]
        key = [*table.options.record_key, *table.options.partition_by]
        some = table.scan(columns=key).column(0)[0].as_py()
        moments = [*times, *times, None]
        chance.shuffle(moments)
        store = tmp_path / path.name
        for moment in moments:
            where = chance.choice([None, (key[0], "!=", some)])
            expected = table.scan(columns=columns, as_of=moment, filter=where)
            with lookupstore.build(
                path, store, key=key, as_of=moment, where=where, overwrite=True, allow_empty=True
            ) as built:
                found = built.scan().read_all()
                assert rows_of(found, columns) == rows_of(expected, columns), (path.name, moment)
                assert (moment is None) == ("as of" not in built.info().source)
                assert moment is None or moment in built.info().source


def test_moments_that_a_table_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = HudiTable.create(path, pa.schema({"id": pa.int64()}), record_key="id")
    instants = [table.upsert(pa.table({"id": [number]})).instant for number in range(3)]
    assert instants[0] is not None
    given: dict[str, Any] = {"key": "id", "overwrite": True}
    with lookupstore.build(path, tmp_path / "s", as_of=instants[0].time, **given) as store:
        assert list(store) == [0]
    with pytest.raises(ValueError, match="as_of is 'soon'"):
        lookupstore.build(path, tmp_path / "s", as_of="soon", **given)
    with pytest.raises(ValueError, match="when the table had no commit yet; give"):
        lookupstore.build(path, tmp_path / "new", as_of="2000-01-01", key="id")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="whose commits have times; give the time of an instant"):
        lookupstore.build(path, tmp_path / "s", version=1, **given)
    table.clean(retain_versions=1)
    with pytest.raises(StaleStoreError):
        lookupstore.build(path, tmp_path / "s", as_of=instants[0].time, **given)
    assert table.archive(min_commits=1, max_commits=2).instants
    with pytest.raises(StaleStoreError):
        lookupstore.build(path, tmp_path / "s", as_of="2000-01-01", **given)
    with lookupstore.open(tmp_path / "s") as store:
        assert list(store) == [0]
