"""Healthy files of other programs: read as their own readers do, or refused by feature and column.

`tests/golden/sources` has files of public test suites; others are made here by DuckDB and pyarrow.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import lookupstore
from lookupstore import ColumnarFiles, LookupStore
from lookupstore.errors import FormatError
from lookupstore.source.opening import open_source

GOLDEN = Path(__file__).parents[1] / "golden" / "sources"
UTC = dt.timezone.utc


def stored(path: Path, folder: Path, key: str, **options: Any) -> pa.Table:
    lookupstore.build(path, folder, key=key, overwrite=True, **options).close()
    with LookupStore(folder) as store:
        return store.to_arrow()


def looked_up(path: Path, key: str, keys: Any, **options: Any) -> list[dict[str, Any]]:
    """Return the rows at some keys, by lookup files and without them."""
    found = []
    for how in ("always", "never"):
        with ColumnarFiles(path, key=key, build=how, **options) as files:
            found.append(files.lookup(keys).to_pylist())
    assert found[0] == found[1]
    return found[0]


def actions(path: Path, folder: Path, key: str) -> Iterator[Callable[[], Any]]:
    yield lambda: stored(path, folder, key)
    yield lambda: ColumnarFiles(path, key=key, build="always").scan().read_all()


def sorted_rows(table: pa.Table, key: str) -> list[dict[str, Any]]:
    return table.sort_by(key).to_pylist()


def test_the_extension_of_databricks_footers_is_passed_over(tmp_path: Path) -> None:
    path = GOLDEN / "photon-footer-extension.parquet"
    wanted = pq.read_table(path)
    found = stored(path, tmp_path / "s", "image_id")
    names = wanted.column_names
    assert sorted_rows(found.select(names), "image_id") == sorted_rows(wanted, "image_id")
    some = wanted.slice(0, 3)
    values = [name for name in names if name != "image_id"]
    rows = looked_up(path, "image_id", some["image_id"])
    assert rows == some.select(values).to_pylist()


def test_int96_is_an_instant_in_microseconds(tmp_path: Path) -> None:
    path = GOLDEN / "int96-of-spark.parquet"
    instants = [
        dt.datetime(2020, 1, 1, 10, tzinfo=UTC),
        dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    ]
    found = stored(path, tmp_path / "s", "id")
    assert found.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert found["ts"].to_pylist() == instants
    assert [row["ts"] for row in looked_up(path, "id", [1, 2])] == instants
    assert [row["id"] for row in looked_up(path, "ts", instants)] == [1, 2]
    with path.open("rb") as file:
        assert open_source(file).schema.field("ts").type == pa.timestamp("us", "UTC")


def test_int96_inside_of_other_types(tmp_path: Path) -> None:
    when = dt.datetime(2020, 1, 1, 10)
    kind = pa.timestamp("us")
    table = pa.table(
        {
            "id": [1, 2, 3],
            "s": pa.array([{"t": when, "n": 1}, None, {"t": None, "n": 2}],
                          pa.struct([("t", kind), ("n", pa.int8())])),
            "l": pa.array([[when, None], None, []], pa.list_(kind)),
            "m": pa.array([[("k", when)], None, []], pa.map_(pa.string(), kind)),
        }
    )  # fmt: skip
    path = tmp_path / "nested.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    found = stored(path, tmp_path / "s", "id")
    as_instants = when.replace(tzinfo=UTC)
    wanted = table.to_pylist()
    wanted[0] |= {
        "s": {"t": as_instants, "n": 1},
        "l": [as_instants, None],
        "m": [("k", as_instants)],
    }
    assert found.to_pylist() == wanted
    # Other timestamps of the same file are what they say.
    pq.write_table(table, path)
    assert stored(path, tmp_path / "s", "id").to_pylist() == table.to_pylist()


def test_int96_beside_columns_whose_batches_end_elsewhere(tmp_path: Path) -> None:
    when = [dt.datetime(2020, 1, 1, hour) for hour in range(12)]
    lists = pa.array([[hour] * hour for hour in range(12)], pa.list_view(pa.int32()))
    table = pa.table({"id": range(12), "t": when, "l": lists, "text": list("abababababab")})
    path = tmp_path / "f.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=5)
    found = stored(path, tmp_path / "s", "id")
    assert found.schema.field("l").type == lists.type
    assert found["t"].to_pylist() == [one.replace(tzinfo=UTC) for one in when]
    assert found["l"].to_pylist() == lists.to_pylist()


def test_int96_with_nanoseconds_is_refused_by_row(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    micros = rng.integers(-(1 << 60), 1 << 60, 200_000) // 1000 * 1000
    row = int(rng.integers(0, len(micros)))
    path = tmp_path / "f.parquet"

    def write() -> None:
        times = pa.array(micros, pa.timestamp("ns"))
        table = pa.table({"id": range(len(micros)), "t": times})
        pq.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=70_000)

    write()
    found = stored(path, tmp_path / "s", "id", columns=["t"])
    assert found["t"].cast(pa.int64()).to_numpy().tolist() == (micros // 1000).tolist()
    micros[row] += 7
    write()
    said = f"{path}: row {row + 1} of the column 't' has a timestamp of 96 bits with nanoseconds"
    with pytest.raises(FormatError, match=re.escape(said)):
        stored(path, tmp_path / "s", "id", columns=["t"])
    assert stored(path, tmp_path / "s", "id", columns=[]).num_rows == len(micros)


def test_encrypted_files_are_unsupported(tmp_path: Path) -> None:
    path = GOLDEN / "encrypted.parquet"
    for action in actions(path, tmp_path / "s", "id"):
        with pytest.raises(FormatError, match="the file is encrypted; decrypt it"):
            action()


def test_chunks_of_old_writers_have_more_bytes_than_they_say(tmp_path: Path) -> None:
    path = GOLDEN / "parquet-mr-1.2.5.parquet"
    assert pq.read_table(path)["x"].to_pylist() == [b"parquet"] * 3
    assert stored(path, tmp_path / "s", "x", on_duplicate="last")["x"].to_pylist() == [b"parquet"]
    rows = looked_up(path, "x", [b"parquet", b"orc"], mode="position", on_duplicate="last")
    assert [row["_pos"] for row in rows] == [2, None]


def test_groups_of_nothing_are_left_out(tmp_path: Path) -> None:
    path = GOLDEN / "empty-group.parquet"
    rows = [{"id": 1, "optional_data": 100}]
    assert stored(path, tmp_path / "s", "id").to_pylist() == rows
    assert pq.read_table(path).to_pylist() == [rows[0] | {"nested": None}]
    assert looked_up(path, "id", [1]) == [{"optional_data": 100}]


def test_a_bloom_filter_that_contradicts_its_footer_hides_no_key() -> None:
    path = GOLDEN / "bloom-header-short.parquet"
    keys = pq.read_table(path)["r"].unique()
    options = {"mode": "presence", "on_duplicate": "last"}
    assert len(looked_up(path, "r", keys, **options)) == len(keys)
    with ColumnarFiles(path, key="r", build="never", **options) as files:
        assert all(files.contains(keys).to_pylist())


def test_an_unknown_encoding_is_none_as_protobuf_has_it() -> None:
    path = GOLDEN / "spark-encoding-minus-1.orc"
    wanted = orc.read_table(path)
    source = open_source(path)
    found = pa.Table.from_batches(source.batches(wanted.column_names), wanted.schema)
    assert found.equals(wanted)


def test_seconds_of_java_near_1970_are_those_of_its_clock(tmp_path: Path) -> None:
    """Spark shows 05:51:26.883873; Arrow, by itself, a second more."""
    path = GOLDEN / "writer-in-shanghai.orc"
    when = dt.datetime(1970, 1, 1, 5, 51, 26, 883873)
    (found,) = stored(path, tmp_path / "s", "ts")["ts"].cast(pa.timestamp("us")).to_pylist()
    assert found == when
    with ColumnarFiles(path, key="ts") as files:
        assert files.contains([when, when + dt.timedelta(seconds=1)]).to_pylist() == [True, False]


def test_far_timestamps_of_orc_are_refused_by_row_and_column(tmp_path: Path) -> None:
    path = GOLDEN / "far-timestamps.orc"
    for action in actions(path, tmp_path / "s", "_c0"):
        with pytest.raises(FormatError, match="row 1 of the column '_c0' has a timestamp before"):
            action()


def test_uuid_and_json_of_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    duckdb.sql(f"""COPY (SELECT i AS id, uuid() AS u, ('{{"a": ' || i || '}}')::json AS j
                         FROM range(50) t(i)) TO '{path}'""")
    wanted = pq.read_table(path)
    found = stored(path, tmp_path / "s", "id")
    assert found.sort_by("id").to_pylist() == wanted.to_pylist()
    keys = wanted["u"].to_pylist()
    assert isinstance(keys[0], uuid.UUID)
    assert [row["id"] for row in looked_up(path, "u", keys[7:9])] == [7, 8]
    assert [row["id"] for row in looked_up(path, "j", ['{"a": 30}', "{}"])] == [30, None]


@pytest.mark.parametrize("suffix", ["parquet", "orc"])
def test_two_columns_of_one_name_that_nobody_asks_for(tmp_path: Path, suffix: str) -> None:
    arrays = [pa.array([1, 2]), pa.array(["a", "b"]), pa.array([3, 4]), pa.array([5, 6])]
    table = pa.Table.from_arrays(arrays, names=["id", "x", "x", "y"])
    path = tmp_path / f"f.{suffix}"
    (pq if suffix == "parquet" else orc).write_table(table, path)
    assert stored(path, tmp_path / "s", "id", columns=["y"])["y"].to_pylist() == [5, 6]
    assert looked_up(path, "id", [2], columns=["y"]) == [{"y": 6}]
    for action in actions(path, tmp_path / "s", "id"):
        with pytest.raises(ValueError, match=r"'x'.*columns="):
            action()


@pytest.mark.parametrize(
    ("said", "column", "last_common"),
    [
        ({"org.apache.spark.legacyDateTime": ""}, "day", dt.date(1582, 10, 15)),
        ({"org.apache.spark.version": "2.4.8"}, "day", dt.date(1582, 10, 15)),
        ({"org.apache.spark.legacyDateTime": ""}, "time", dt.datetime(1900, 1, 1)),
        ({"org.apache.spark.version": "3.0.3"}, "int96", dt.datetime(1900, 1, 1)),
        ({"org.apache.spark.legacyINT96": ""}, "int96", dt.datetime(1900, 1, 1)),
        ({"org.apache.spark.version": "3.5.0"}, "day", None),
        ({"org.apache.spark.legacyINT96": ""}, "time", None),
        ({"org.apache.spark.legacyDateTime": ""}, "int96", None),
        ({}, "day", None),
    ],
)
def test_days_of_sparks_old_calendar(
    tmp_path: Path, said: dict[str, str], column: str, last_common: Any
) -> None:
    path = tmp_path / "f.parquet"
    kind = pa.date32() if column == "day" else pa.timestamp("us")
    old = dt.date(1582, 10, 4) if column == "day" else dt.datetime(1899, 12, 31, 23)

    def write(value: Any) -> None:
        rows = pa.table({"id": [1, 2], "v": pa.array([None, value], kind)})
        table = rows.replace_schema_metadata(said).append_column(
            "l", pa.array([[], [value]], pa.list_(kind))
        )
        pq.write_table(table, path, use_deprecated_int96_timestamps=column == "int96")

    if last_common is None:
        write(old)
        assert stored(path, tmp_path / "s", "id", columns=["v"]).num_rows == 2
        return
    write(last_common)
    assert stored(path, tmp_path / "s", "id").num_rows == 2
    write(old)
    with pytest.raises(FormatError, match=r"row 2 of the column 'v' has .* by another calendar"):
        stored(path, tmp_path / "s", "id", columns=["v"])
    with pytest.raises(FormatError, match=r"of the column 'l' has .* by another calendar"):
        stored(path, tmp_path / "s", "id", columns=["l"])
    assert stored(path, tmp_path / "s", "id", columns=[]).num_rows == 2


def test_what_arrow_does_not_read_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    duckdb.sql(
        f"COPY (SELECT 1 AS id, [1, 2, 3]::INT[3] AS v UNION ALL SELECT 2, NULL) TO '{path}'"
    )
    with pytest.raises(FormatError, match=r"f\.parquet.* that Arrow does not read: .*choose other"):
        stored(path, tmp_path / "s", "id")
    assert stored(path, tmp_path / "s", "id", columns=[]).num_rows == 2
