"""What a base file of ours holds: pages, dictionaries, footer, and the name that it gets last."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.remote import KINDS, Remote

from lookupstore.hudi.file_group.bloom import BloomFilter
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.file_group.merging import Inserts, write_inserts
from lookupstore.hudi.file_group.writer import BaseFileWriter, NewFile
from lookupstore.hudi.keys.avro_types import avro_schema
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.options import avro_json
from lookupstore.storage.location import Location

TIME = "20260307135657661"
FILE = NewFile("p=1", "g-0", 2, TIME)


def schema_of(columns: dict[str, pa.DataType]) -> TableSchema:
    schema = pa.schema(columns)
    return TableSchema(schema, avro_json(avro_schema(schema, "r", "n")))


def write(
    location: Location, columns: dict[str, pa.Array], keys: pa.Array, **how: Any
) -> pq.ParquetFile:
    schema = schema_of({name: column.type for name, column in columns.items()})
    batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema.columns)
    with BaseFileWriter(location, FILE, schema, FileFormat(**how)) as into:
        write_inserts(Inserts(keys, batch), into)
    assert into.result().bytes == location.size(FILE.path)
    return pq.ParquetFile(Path(location.uri) / FILE.path)


def test_types_are_stored_as_hudi_stores_them(tmp_path: Path) -> None:
    columns = {
        "dec": pa.array([Decimal("1.25")], pa.decimal128(15, 2)),
        "ts": pa.array([1], pa.timestamp("us", "UTC")),
        "ms": pa.array([1], pa.timestamp("ms", "UTC")),
        "day": pa.array([1], pa.date32()),
        "list": pa.array([[1]], pa.list_(pa.field("element", pa.int32()))),
        "flag": pa.array([True]),
        "raw": pa.array([b"x"]),
    }
    file = write(Location(tmp_path), columns, pa.array(["k"]))
    said = {}
    for at in range(file.metadata.num_columns):
        column = file.schema.column(at)
        said[column.path] = f"{column.physical_type} {column.logical_type}"
        assert column.max_definition_level >= 1
        assert file.metadata.row_group(0).column(at).compression == "SNAPPY"
    assert said["dec"] == "FIXED_LEN_BYTE_ARRAY Decimal(precision=15, scale=2)"
    assert file.schema.column(5).length == 7
    assert said["ts"].startswith("INT64 Timestamp(isAdjustedToUTC=true, timeUnit=microseconds")
    assert said["ms"].startswith("INT64 Timestamp(isAdjustedToUTC=true, timeUnit=milliseconds")
    assert said["day"] == "INT32 Date"
    assert "list.list.element" in said
    assert said["raw"] == "BYTE_ARRAY None"
    assert said["_hoodie_file_name"] == "BYTE_ARRAY String"
    assert set(file.metadata.metadata) == {
        b"hoodie_min_record_key", b"hoodie_max_record_key", b"org.apache.hudi.bloomfilter",
        b"lookupstore.record_keys",
        b"hoodie_bloom_filter_type_code", b"parquet.avro.schema", b"writer.model.name",
    }  # fmt: skip


def test_dictionaries_where_they_pay(tmp_path: Path) -> None:
    rows = 5000
    columns = {
        "few": pa.array([f"v{at % 7}" for at in range(rows)]),
        "many": pa.array([f"v{at}" for at in range(rows)]),
        "deep": pa.array([{"n": 1}] * rows, pa.struct({"n": pa.int32()})),
        "map": pa.array([[("a", 1)]] * rows, pa.map_(pa.string(), pa.int32())),
    }
    keys = pa.array([f"k{at:05}" for at in range(rows)])
    file = write(Location(tmp_path), columns, keys, row_group_bytes=100_000)
    assert file.metadata.num_row_groups > 3
    for group in range(file.metadata.num_row_groups):
        for at in range(file.metadata.num_columns):
            column = file.metadata.row_group(group).column(at)
            plain = column.path_in_schema in ("_hoodie_commit_seqno", "_hoodie_record_key", "many")
            assert column.has_dictionary_page is not plain, column.path_in_schema
    assert file.read(["few", "many"]).to_pydict() == {
        "few": columns["few"].to_pylist(), "many": columns["many"].to_pylist(),
    }  # fmt: skip


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4"])
def test_columns_are_compressed_where_it_pays(tmp_path: Path, codec: str) -> None:
    """A fast codec leaves out what it does not make smaller; one that is for size, nothing."""
    rows = 3000
    random = np.random.default_rng(5)
    digits = random.integers(0, 10, (rows, 12))
    columns = {
        "random": pa.array(random.integers(0, 1 << 62, rows)),
        "digits": pa.array(["".join(map(str, row)) for row in digits.tolist()]),
        "alike": pa.array([f"always the same, but for {at}" for at in range(rows)]),
        "few": pa.array(random.integers(0, 5, rows)),
        "deep": pa.array(
            [{"n": one} for one in random.random(rows)], pa.struct({"n": pa.float64()})
        ),
    }
    keys = pa.array([f"key-of-a-row-{at:05}" for at in range(rows)])
    for count in (rows, 500):
        (tmp_path / FILE.path).unlink(missing_ok=True)
        some = {name: column[:count] for name, column in columns.items()}
        file = write(Location(tmp_path), some, keys[:count], compression=codec)
        assert file.read(list(columns)).to_pydict() == pa.table(some).to_pydict()
        group = file.metadata.row_group(0)
        said = {
            group.column(at).path_in_schema: group.column(at).compression
            for at in range(group.num_columns)
        }
        plain = {name for name, one in said.items() if one == "UNCOMPRESSED"}
        if codec == "none":
            assert plain == set(said)
        elif codec in ("snappy", "lz4") and count == rows:
            assert plain >= {"random", "digits"}
            assert not plain & {"alike", "few", "_hoodie_record_key", "_hoodie_commit_time"}
        else:
            assert not plain  # few rows tell nothing


def test_a_file_is_read_row_group_by_row_group(tmp_path: Path) -> None:
    """What waits in memory is written as soon as it makes a row group."""
    schema = schema_of({"n": pa.int64()})
    with BaseFileWriter(Location(tmp_path), FILE, schema, FileFormat(row_group_bytes=1)) as into:
        for at in range(5):
            batch = pa.RecordBatch.from_arrays([pa.array([at])], schema=schema.columns)
            write_inserts(Inserts(pa.array([f"k{at}"]), batch), into)
            assert into.waiting_bytes == 0
        assert into.written_bytes > 0
        # Nobody sees a part of it.
        assert not list(tmp_path.rglob("*.parquet"))
        assert list(tmp_path.glob(".*.tmp"))
    file = pq.ParquetFile(tmp_path / FILE.path)
    assert file.metadata.num_row_groups == 5
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.parametrize("high", ["\ue000", "\U0001f600"])
def test_keys_that_java_orders_otherwise_have_no_range(tmp_path: Path, high: str) -> None:
    keys = pa.array(["a", f"b{high}"])
    footer = write(Location(tmp_path), {"n": pa.array([1, 2])}, keys).metadata.metadata
    assert b"hoodie_min_record_key" not in footer
    bloom = BloomFilter.from_footer(footer)
    assert bloom is not None
    assert bloom.test(keys).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_remote_file(tmp_path: Path, kind: str) -> None:
    remote = Remote(tmp_path, kind)
    location = remote.location("t")
    location.make_folder("p=1")
    schema = schema_of({"n": pa.int64()})
    batch = pa.RecordBatch.from_arrays([pa.array([1])], schema=schema.columns)

    def once() -> None:
        with BaseFileWriter(location, FILE, schema, FileFormat()) as into:
            write_inserts(Inserts(pa.array(["k"]), batch), into)
        assert into.result().bytes == (tmp_path / "t" / FILE.path).stat().st_size

    remote.restart()
    once()
    steps = len(remote.done)
    assert pq.read_table(tmp_path / "t" / FILE.path, partitioning=None).num_rows == 1
    for at in range(steps):
        (tmp_path / "t" / FILE.path).unlink(missing_ok=True)
        remote.restart(fail_at=at)
        with pytest.raises(OSError, match="injected"):
            once()
        remote.restart()
        assert not (tmp_path / "t" / FILE.path).exists()


@pytest.mark.parametrize(
    "arguments", [{"compression": "brotli"}, {"row_group_bytes": 0}, {"error_rate": 1.0}], ids=str
)
def test_formats_that_there_are_not(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(ValueError, match=f"{name} is "):
        FileFormat(**arguments)
