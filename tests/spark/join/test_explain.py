"""What a join would do, and what hosts have: compared with the store's own words and its files."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import TableLookup
from lookupstore.spark import JoinExplanation, LookupMetrics, explain_join, lookup_join
from lookupstore.spark.join import explain as spark_explain
from lookupstore.spark.join import trip as spark_trip
from lookupstore.spark.join.host_copies import residents_of
from lookupstore.storage.location import Location

pytestmark = pytest.mark.spark

PEOPLE = pa.table({"id": range(200), "name": [f"n{i}" for i in range(200)]})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[lookupstore.LookupStore]:
    with lookupstore.build(PEOPLE, tmp_path / "people", key="id", buckets=3) as store:
        yield store


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[lookupstore.LookupStore]:
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    # Names of their own make files that no other test has copies of.
    table = PEOPLE.append_column("path", pa.array([str(tmp_path)] * 200))
    with lookupstore.build(
        table, Location("far", filesystem=filesystem), key="id", buckets=3, compression="none"
    ) as store:
        yield store


def test_it_says_what_was_planned(spark: SparkSession, store: lookupstore.LookupStore) -> None:
    facts = spark.createDataFrame([(1, "x")], "user int, page string")
    said = explain_join(
        facts,
        store,
        {"user": "id"},
        "LEFT_OUTER",
        columns=["name"],
        prefix="user_",
        found="known",
        strategy="bucketed",
        on_miss="drop",
        residents=False,
    )
    info = store.info()
    same = ("version", "id", "created", "bytes", "files", "buckets")
    assert {name: getattr(said, name) for name in same} == {
        name: getattr(info, name) for name in same
    }
    assert (said.store, said.rows) == (info.path, info.num_rows)
    assert 0 <= said.age < 60
    assert said.how == "inner"  # as facts without a partner are dropped
    assert dict(said.keys) == {"user": "id"}
    joined = lookup_join(
        facts, store, {"user": "id"}, columns=["name"], prefix="user_", found="known"
    )
    assert dict(said.columns) == dict(joined.dtypes[2:])
    assert (said.strategy, said.reason) == ("bucketed", "asked for")
    assert said.versions == (1,)
    assert said.hosts is None


def test_refresh_says_which_versions_it_looks_at(spark: SparkSession, tmp_path: Path) -> None:
    facts = spark.range(3)
    for size in (100, 150, 200):
        lookupstore.build(PEOPLE[:size], tmp_path / "s", key="id", overwrite=True).close()
    second = lookupstore.open(tmp_path / "s", version=2)
    asked: dict[Any, tuple[str, tuple[int, ...]]] = {
        "never": ("never: the planned version", (2,)),
        "per_batch": ("per_batch", (2, 3)),
        timedelta(minutes=1): ("the newest version at the last multiple of 60 s", (2, 3)),
    }
    with second:
        for refresh, (text, versions) in asked.items():
            said = explain_join(
                facts, second, "id", refresh=refresh, max_staleness=90, residents=False
            )
            assert said.refresh.startswith(text)
            assert said.versions == versions
            assert said.max_staleness == 90.0
            assert "0:01:30" in str(said)


@pytest.mark.parametrize("udf", [None, "there"])
def test_it_names_the_way_through_python(
    spark: SparkSession, store: lookupstore.LookupStore, udf: str | None, monkeypatch: Any
) -> None:
    monkeypatch.setattr(spark_trip, "arrow_udf", udf)
    said = explain_join(spark.range(1), store, "id", residents=False)
    assert ("mapInArrow" in said.transport) == (udf is None)
    assert ("Arrow UDF" in said.transport) == (udf is not None)


def test_hosts_see_a_local_store(spark: SparkSession, store: lookupstore.LookupStore) -> None:
    said = explain_join(spark.range(1), store.path, "id")
    (host,) = said.hosts or ()
    assert host.host == socket.gethostname()
    assert (host.files, host.bytes, host.sees_store) == (said.files, said.bytes, True)
    os.truncate(next(Path(store.path, "data").glob("*.sst")), 100)
    (host,) = explain_join(spark.range(1), store, "id").hosts or ()
    assert (host.files, host.sees_store) == (said.files - 1, True)


def test_a_host_that_does_not_see_the_folder_says_so(
    store: lookupstore.LookupStore, tmp_path: Path
) -> None:
    batches = residents_of(Location(tmp_path / "nowhere"), 1, (), "none", iter(()))
    (found,) = pa.Table.from_batches(batches).to_pylist()
    assert (found["sees_store"], found["files"]) == (False, 0)


def test_hosts_tell_copies_of_a_remote_store(
    spark: SparkSession, remote: lookupstore.LookupStore
) -> None:
    facts = spark.range(200, numPartitions=4)
    (before,) = explain_join(facts, remote, "id").hosts or ()
    assert (before.files, before.coming_files, before.sees_store) == (0, 0, None)
    assert before.cache == Residency().folder
    for _ in range(20):
        # Copies need not be whole when a join has its answers: the next one goes on with them.
        assert lookup_join(facts, remote, "id", how="inner").count() == 200
        said = explain_join(facts, remote, "id")
        (after,) = said.hosts or ()
        if after.files == said.files:
            break
    # These are not removed meanwhile, so the files that are there say the same. Lookup files that
    # other tests had made there are named without a size.
    hashes = {path.stem for path in Path(after.cache).glob("*-*.sst")}
    data = Path(remote.location.resolve("data")[0].base_path, "far", "data")
    sizes = [path.stat().st_size for path in data.glob("*.sst")]
    assert (after.files, after.bytes) == (3, sum(sizes))
    assert {int(name.split("-")[1]) for name in hashes} >= set(sizes)
    assert (after.coming_files, after.coming_bytes) == (0, 0)
    # Copies of other tests may have been evicted for these.
    assert sum(sizes) <= after.used <= after.quota


def test_lookups_in_compressed_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are warm when the host has plain copies, which joins make; and slow without room."""
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    facts = spark.range(4000, numPartitions=2).selectExpr("id * 7919 % 4000 AS id")
    places = {"near": Location(tmp_path / "near"), "far": Location("far", filesystem=filesystem)}
    for name, place in places.items():
        # Equal files would share their copies.
        names = [f"{i} {name} {tmp_path}" for i in range(4000)]
        rows = pa.table({"id": range(4000), "name": names})
        with lookupstore.build(
            rows, place, key="id", buckets=2, compression="zstd", block_size=1024
        ) as store:
            said = explain_join(facts, store, "id")
            assert said.lookups.startswith("in plain copies on each host, since the files are zstd")
            assert ("decompressed as many blocks" in said.lookups) == (name == "near")
            assert not said.warm
            for _ in range(100):
                assert lookup_join(facts, store, "id", how="inner").count() == 4000
                if explain_join(facts, store, "id").warm:
                    break
            else:
                pytest.fail("no plain copies")
            hosts = explain_join(facts, store, "id").hosts or ()
            small = [dataclasses.replace(one, quota=100) for one in hosts]
            with monkeypatch.context() as patch:
                patch.setattr(spark_explain, "hosts_with_copies", Mock(return_value=tuple(small)))
                slow = explain_join(facts, store, "id").lookups
            assert slow.startswith(f"slow on {socket.gethostname()}: ")
            assert "set LOOKUPSTORE_CACHE_BYTES to more" in slow


def test_columnar_files(spark: SparkSession, tmp_path: Path) -> None:
    for i in range(2):
        pq.write_table(PEOPLE[i * 100 : i * 100 + 100], tmp_path / f"{i}.parquet")
    said = explain_join(spark.range(3), f"{tmp_path}/*.parquet", "id", columns=["name"])
    size = sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    assert (said.rows, said.files, said.bytes) == (200, 2, size)
    assert (said.version, said.created, said.age) == (None, None, None)
    assert said.format == "columnar files"
    assert (said.strategy, said.versions, dict(said.columns)) == (
        "replicated",
        (),
        {"name": "string"},
    )
    assert str(said).startswith(f"lookup join with {tmp_path}/*.parquet\n")
    assert "columnar files, as they are now" in str(said)
    assert said.lookups.startswith("in lookup files, which a host makes")
    assert not said.warm


def dimensions(folder: Path) -> dict[str, tuple[Any, int]]:
    """Return files and tables with the rows of `PEOPLE`, and the number of their data files."""
    found: dict[str, tuple[Any, int]] = {}
    for i in range(2):
        pq.write_table(PEOPLE[i * 100 : i * 100 + 100], folder / f"{i}.parquet")
    found["columnar files"] = f"{folder}/*.parquet", 2
    deltalake = pytest.importorskip("deltalake")
    for i in range(3):
        part = PEOPLE[i * 70 : i * 70 + 70]
        deltalake.write_deltalake(folder / "delta", part, mode="append")
    found["Delta table"] = str(folder / "delta"), 3
    hudi = pytest.importorskip("lookupstore.hudi")
    table = hudi.HudiTable.create(folder / "hudi", PEOPLE, record_key="id")
    table.insert(PEOPLE)
    found["Hudi table"] = table, 1
    return found


@pytest.mark.parametrize("kind", ["columnar files", "Delta table", "Hudi table"])
def test_hosts_tell_their_lookup_files(
    spark: SparkSession, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, count = dimensions(tmp_path)[kind]
    facts = spark.range(400, numPartitions=2)
    before = explain_join(facts, given, "id")
    (host,) = before.hosts or ()
    assert (before.format, before.files, before.lookup_files) == (kind, count, count)
    assert (host.files, host.bytes, host.sees_store) == (0, 0, True)
    assert not before.warm
    metrics = LookupMetrics(spark)
    if kind == "Hudi table":
        opened = TableLookup(given, key="id", build="always")
    else:
        opened = ColumnarFiles(given, key="id", build="always")
    files = set(Path(Residency().folder).glob("*.sst"))
    found = lookup_join(facts, opened, "id", how="inner", metrics=metrics)
    assert {(row.id, row.name) for row in found.collect()} == {(i, f"n{i}") for i in range(200)}
    assert (metrics.counts.rows, metrics.counts.hits) == (400, 200)
    assert metrics.counts.blocks_read > 0
    made = set(Path(Residency().folder).glob("*.sst")) - files
    after = explain_join(facts, opened, "id")
    (host,) = after.hosts or ()
    assert len(made) == count
    assert (host.files, host.bytes) == (count, sum(path.stat().st_size for path in made))
    assert (host.host, host.plain_files) == (socket.gethostname(), count)
    assert after.warm
    heads, line = str(after).splitlines()[-2:]
    assert line[heads.index("lookup files") :].startswith(f"{count} of {count} ")
    assert f"format     {kind}\n" in str(after)
    assert f"files: {count}\n" in str(after)
    if kind == "Delta table":
        assert (after.version, after.versions) == (2, (2,))
    next(iter(made)).unlink()
    (host,) = explain_join(facts, opened, "id").hosts or ()
    assert host.files == count - 1
    assert explain_join(facts, opened, "id", residents=False).hosts is None


def test_texts(spark: SparkSession, store: lookupstore.LookupStore) -> None:
    facts = spark.createDataFrame([], StructType.fromDDL("`<b>` int"))
    said = explain_join(facts, store, {"<b>": "id"})
    lines = str(said).splitlines()
    assert repr(said) == str(said)
    assert lines[0] == f"lookup join with {store.path}, version 1"
    named = dict(line.split(None, 1) for line in lines[1:14])
    assert named["format"] == "store"
    assert named["lookups"] == "in place, in the files of the store"
    assert said.warm
    assert named["key"] == "<b> = id"
    assert named["appends"] == "name string"
    heads, host = lines[-2:]
    # The bytes of the disk may hold these digits too: "1,830,933 of 3,145,728".
    counts = [found.start() for found in re.finditer(r"(?<!\d)3 of 3(?!,)", host)]
    assert counts == [heads.index("files here"), heads.index("plain")]
    assert host.endswith("seen")
    assert "&lt;b&gt; = id" in said._repr_html_()
    assert "<b>" not in said._repr_html_()
    assert socket.gethostname() in said._repr_html_()
    again = json.loads(json.dumps(said.to_json()))
    assert sorted(again) == sorted(field.name for field in dataclasses.fields(JoinExplanation))
    assert again["hosts"][0]["files"] == 3


def test_arguments_are_those_of_lookup_join(
    spark: SparkSession, store: lookupstore.LookupStore
) -> None:
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (TypeError, {"df": PEOPLE}),
        (TypeError, {"store": 7}),
        (FileNotFoundError, {"store": "/nowhere/at/all"}),
        (KeyError, {"on": "nothing"}),
        (KeyError, {"columns": ["nothing"]}),
        (ValueError, {"how": "outer"}),
        (ValueError, {"strategy": "fast"}),
        (ValueError, {"refresh": -1}),
        (ValueError, {"max_staleness": "old"}),
        (ValueError, {"on_miss": "ignore"}),
    ]
    for kind, arguments in wrong:
        given = {"df": spark.range(1), "store": store, "on": "id", **arguments}
        with pytest.raises(kind) as explained:
            explain_join(**given, residents=False)
        with pytest.raises(kind) as joined:
            lookup_join(**given)
        assert str(explained.value) == str(joined.value)
