"""Data columns whose names are those of columns that are added on the way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hudi.oracle import assert_same_rows, other_scan

from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.index.bloom import BloomIndex

NAMES = ["_pos", "_file", "_partition", "_file_id", "_instant", "slice", "pos", "moved", "row"]


@pytest.mark.parametrize("key", ["id", "_pos"])
@pytest.mark.parametrize("build", ["always", "never"])
def test_every_verb(tmp_path: Path, residency: Residency, key: str, build: str) -> None:
    schema = pa.schema([("id", pa.int32()), *((name, pa.int32()) for name in NAMES)])
    table = HudiTable.create(tmp_path / "t", schema, record_key=key)
    first = [dict.fromkeys(schema.names, 100 + at) for at in range(4)]
    table.insert(pa.Table.from_pylist(first, schema))
    options = WriteOptions(index=BloomIndex(residency=residency, build=build))  # type: ignore[arg-type]
    second = [{**first[1], "_file": -1, "moved": -2}, dict.fromkeys(schema.names, 104)]
    done = table.upsert(pa.Table.from_pylist(second, schema), options=options)
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    assert table.delete([102], options=options).rows_deleted == 1
    expected = [first[0], second[0], first[3], second[1]]
    assert table.scan(columns=schema.names).to_pylist() == expected
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))
    keys = table.scan(columns=["_hoodie_record_key", "_hoodie_partition_path"])
    tagged = table.tag(keys, index=options.index)
    assert tagged["_pos"].to_pylist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"rows: a column is called '_partition'.*_record_key"):
        table.tag(table.scan())
    with ColumnarFiles(str(tmp_path / "t"), key=key, build=build, residency=residency) as files:
        found = files.lookup([101, 104])
    assert found.select(["_file", "moved"]).to_pylist() == [
        {"_file": -1, "moved": -2}, {"_file": 104, "moved": 104},
    ]  # fmt: skip
    if key == "id":
        assert found["_pos"].to_pylist() == [101, 104]


@pytest.mark.parametrize("build", ["always", "never"])
def test_lookups_in_columnar_files(tmp_path: Path, residency: Residency, build: str) -> None:
    rows = pa.table({"id": [7, 8], "_pos": [70, 80], "_file": ["a", "b"], "v": [1, 2]})
    path = str(tmp_path / "f.parquet")
    pq.write_table(rows, path)

    def files(**given: object) -> ColumnarFiles:
        return ColumnarFiles(path, build=build, residency=residency, **given)  # type: ignore[arg-type]

    with files(key="id") as every:
        assert every.lookup([8]).to_pylist() == [{"_pos": 80, "_file": "b", "v": 2}]
    with files(key="_pos") as every:
        assert every.lookup([80]).to_pylist() == [{"id": 8, "_file": "b", "v": 2}]
    # In another mode than by value, these names are of places.
    with files(key="id", mode="value_and_position", columns=["v"]) as every:
        assert every.lookup([8], ["v", "_pos"]).to_pylist() == [{"v": 2, "_pos": 1}]
    with files(key="id", mode="position") as every:
        assert every.lookup([8])["_pos"].to_pylist() == [1]
    for given, name in (
        ({"key": "id", "mode": "value_and_position", "columns": ["_file"]}, "_file"),
        ({"key": "id", "mode": "value_and_position", "columns": ["_pos"]}, "_pos"),
        ({"key": "_pos", "mode": "position"}, "_pos"),
    ):
        with pytest.raises(ValueError, match=f"adds a column '{name}', but the files have one"):
            files(**given)
