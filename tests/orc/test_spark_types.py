"""Local times that Spark writes to ORC as integers, of which attributes say what they are."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc
import pytest
from pyarrow import orc

import lookupstore
from lookupstore import ColumnarFiles
from lookupstore.orc.arrow_file import orc_schema
from lookupstore.orc.spark_types import in_spark_types
from lookupstore.source.opening import open_source

LOCAL = {"spark.sql.catalyst.type": "timestamp_ntz"}
TIMES = pa.timestamp("us")
EPOCH = dt.datetime(1970, 1, 1)


def after(micros: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=micros)


def local_time() -> Any:
    kind = pyorc.BigInt()
    kind.set_attributes(LOCAL)
    return kind


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with local times at every depth, and an integer beside them."""
    inner = pyorc.Struct(x=local_time(), l=pyorc.Array(local_time()), n=pyorc.BigInt())
    kind = pyorc.Struct(
        at=local_time(), n=pyorc.BigInt(), s=inner, m=pyorc.Map(pyorc.String(), local_time())
    )
    with open(tmp_path / "f.orc", "wb") as file, pyorc.Writer(file, kind) as writer:
        writer.write((5, 5, (6, [7, None], 6), [("a", 8)]))
        writer.write((-(10**15), 9, None, None))
    return tmp_path / "f.orc"


def test_local_times_at_every_depth(path: Path) -> None:
    source = open_source(path)
    struct = pa.struct({"x": TIMES, "l": pa.list_(TIMES), "n": pa.int64()})
    assert source.schema.types == [TIMES, pa.int64(), struct, pa.map_(pa.string(), TIMES)]
    found = pa.Table.from_batches(source.batches(source.schema.names))
    assert found.schema.types == source.schema.types
    assert found.to_pylist() == [
        {
            "at": after(5),
            "n": 5,
            "s": {"x": after(6), "l": [after(7), None], "n": 6},
            "m": [("a", after(8))],
        },
        {"at": after(-(10**15)), "n": 9, "s": None, "m": None},
    ]


def test_a_local_time_is_a_key(path: Path, tmp_path: Path) -> None:
    keys = [after(-(10**15)), after(5), after(6)]
    with ColumnarFiles(path, key="at", columns=["n"]) as files:
        assert files.lookup(keys).to_pylist() == [{"n": 9}, {"n": 5}, {"n": None}]
    with lookupstore.build(path, tmp_path / "s", key="at", columns=["n"]) as store:
        assert store.lookup(keys).to_pylist() == [{"n": 9}, {"n": 5}, {"n": None}]


def test_other_types_are_those_of_arrow(tmp_path: Path) -> None:
    """Texts that Spark calls `timestamp_ntz` are none of its."""
    told = pa.field("at", pa.string(), metadata=LOCAL)
    assert in_spark_types(pa.schema([told])).types == [pa.string()]
    table = pa.table(
        {
            "n": [1],
            "t": [EPOCH],
            "l": [[1]],
            "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    orc.write_table(table, tmp_path / "f.orc")
    with pa.OSFile(str(tmp_path / "f.orc")) as file:
        assert orc_schema(file) == orc.ORCFile(file).schema
