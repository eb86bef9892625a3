"""Names that differ by case only: refused in new tables, and when rows bring new columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lookupstore.hudi import HudiTable, WriteOptions

EVOLVE = WriteOptions(evolve=True, missing="null")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ID": pa.int64()}, "the names 'id' and 'ID' differ by case only"),
        ({"p": pa.struct({"x": pa.int8(), "X": pa.int8()})}, "'x' and 'X' in 'p' differ"),
        ({"l": pa.list_(pa.struct({"e": pa.int8(), "E": pa.int8()}))}, "'e' and 'E' in 'l' differ"),
        ({"_HOODIE_COMMIT_TIME": pa.string()}, "'_hoodie_commit_time' and '_HOODIE_COMMIT_TIME'"),
    ],
)
def test_a_new_table(tmp_path: Path, more: dict[str, pa.DataType], said: str) -> None:
    with pytest.raises(ValueError, match=f"^schema: .*{said}.* rename one of them"):
        HudiTable.create(tmp_path / "t", pa.schema({"id": pa.int64(), **more}), record_key="id")
    assert not (tmp_path / "t").exists()


def test_a_new_column(tmp_path: Path) -> None:
    kinds = {"id": pa.int64(), "hits": pa.int32(), "p": pa.struct({"x": pa.int32()})}
    table = HudiTable.create(tmp_path / "t", pa.schema(kinds), record_key="id")
    for given, said in (
        ({"id": [1], "Hits": [2]}, "the names 'hits' and 'Hits' differ"),
        ({"id": [1], "a": [1], "A": [2]}, "the names 'a' and 'A' differ"),
        ({"id": [1], "p": [{"X": 1}]}, "the names 'x' and 'X' in 'p' differ"),
    ):
        with pytest.raises(ValueError, match=f"rows: {said}"):
            table.upsert(given, options=EVOLVE)
    with pytest.raises(ValueError, match="the table has no column 'Hits', but 'hits'; rename it"):
        table.upsert({"id": [1], "Hits": [2]}, missing="null")
    table.upsert({"id": [1], "p": [{"x": 1, "y": 2}], "other": ["z"]}, options=EVOLVE)
    assert table.scan(columns=["p", "other"]).to_pylist() == [{"p": {"x": 1, "y": 2}, "other": "z"}]
