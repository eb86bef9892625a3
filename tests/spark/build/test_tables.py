"""Stores of Delta and Iceberg tables that executors build, without packages for these formats.

Beside `lookupstore.build` in one process, and what deltalake and pyiceberg read.
"""

from __future__ import annotations

import importlib
import json
import random
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.object_store import (
    BUCKET,
    KEY,
    SECRET,
    ObjectStore,
    deltalake_names,
    pandas_names,
    writable_object_store,
)

import lookupstore
from lookupstore import CorruptionError, FormatError, StaleStoreError
from lookupstore.spark import build_store

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")
import deltalake
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFileContent, FileFormat
from support.changing_tables import DeltaChanges, IcebergChanges, arrow
from support.delta_tables import with_vectors
from support.histories.delta import DeltaHistory
from support.histories.iceberg import IcebergHistory
from support.iceberg_tables import add_deletes, positions_file, table_of, vectors_file

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def plain_workers(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the workers of executors lack the packages, and read each file in a task of its own."""
    lacking = "deltalake pyiceberg obstore"
    monkeypatch.setitem(spark.sparkContext.environment, "WORKERS_LACK", lacking)
    module = importlib.import_module("lookupstore.spark.build.table_parts")
    monkeypatch.setattr(module, "TASK_BYTES", (1, 1))


@pytest.fixture
def catalog(tmp_path: Path) -> InMemoryCatalog:
    found = InMemoryCatalog("w", warehouse=f"file://{tmp_path}/w")
    found.create_namespace("w")
    return found


def check(
    spark: SparkSession, given: Any, expected: pa.Table, folder: Path, key: str = "id", **asked: Any
) -> None:
    """Build by executors and alone, and compare both with what another reader has."""
    with (
        build_store(given, folder / "s", key=key, buckets=3, overwrite=True, allow_empty=True,
                    spark=spark, **asked) as store,
        lookupstore.build(given, folder / "alone", key=key, overwrite=True, allow_empty=True,
                          **asked) as alone,
    ):  # fmt: skip
        store.verify()
        rows = store.scan().read_all()
        assert rows.equals(alone.scan().read_all())
        assert store.info().source == alone.info().source
        names = rows.schema.names
        found = rows.select(names).to_pylist()
        assert found == sorted(expected.select(names).to_pylist(), key=lambda row: row[key])


def read_by_deltalake(table: Any) -> pa.Table:
    return pa.RecordBatchReader.from_stream(table.scan()).read_all()


@pytest.mark.parametrize("number", range(2))
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_versions_of_random_histories(
    spark: SparkSession, tmp_path: Path, seed: int, number: int, catalog: InMemoryCatalog
) -> None:
    chance = random.Random(seed + number)
    delta, iceberg = DeltaHistory(tmp_path / "d", seed + number), IcebergHistory(catalog, seed)
    for _ in range(8):
        delta.change()
        iceberg.change()
    newest = deltalake.DeltaTable(tmp_path / "d")
    check(spark, tmp_path / "d", read_by_deltalake(newest), tmp_path)
    columns = chance.choice([["s"], ["n", "part"]])
    check(spark, newest, read_by_deltalake(newest), tmp_path, columns=columns)
    former = chance.randint(max(0, newest.version() - 2), newest.version())
    try:
        expected = read_by_deltalake(deltalake.DeltaTable(tmp_path / "d", version=former))
    except OSError:  # a vacuum deleted its files
        with pytest.raises(StaleStoreError, match="gone; a vacuum"):
            check(spark, str(tmp_path / "d"), pa.table({}), tmp_path, version=former)
    else:
        check(spark, str(tmp_path / "d"), expected, tmp_path, version=former)

    table = iceberg.table
    check(spark, table, table.scan().to_arrow(), tmp_path)
    scan = table.scan("id > 10", selected_fields=("id", "s"))
    check(spark, scan, scan.to_arrow(), tmp_path)
    former = chance.choice(table.metadata.snapshots).snapshot_id
    expected = table.scan(snapshot_id=former).to_arrow()
    check(spark, table, expected, tmp_path, version=former)


@pytest.mark.parametrize("changes_of", [DeltaChanges, IcebergChanges])
def test_times_of_commits(
    spark: SparkSession, tmp_path: Path, changes_of: Callable[[Path], Any]
) -> None:
    changes, commits = changes_of(tmp_path), []
    for number in range(3):
        rows = {1: number, 2: number}
        changes.commit(rows)
        commits.append((*changes.latest(), arrow(rows)))
        time.sleep(0.01)
    for seconds, number, expected in commits:
        as_of = datetime.fromtimestamp(seconds + 0.001, timezone.utc)
        check(spark, changes.given, expected, tmp_path, as_of=as_of)
        check(spark, changes.given, expected, tmp_path, version=number)
    with pytest.raises(ValueError, match="before the first commit"):
        build_store(changes.given, tmp_path / "n", key="id", as_of="1999-01-01", spark=spark)
    with pytest.raises(ValueError, match="version is 77, but the"):
        build_store(changes.given, tmp_path / "n", key="id", version=77, spark=spark)


@pytest.mark.parametrize(
    ("name", "key"), [("column-mapping", "Super Name"), ("deletion-vectors", "value")]
)
def test_tables_of_spark(
    spark: SparkSession, tmp_path: Path, golden: Path, name: str, key: str
) -> None:
    with zipfile.ZipFile(golden / "delta" / f"{name}.zip") as archive:
        archive.extractall(tmp_path / "t")
    (log,) = tmp_path.rglob("_delta_log")
    expected = read_by_deltalake(deltalake.DeltaTable(log.parent))
    assert expected.num_rows > 4
    check(spark, log.parent, expected, tmp_path, key=key)


def test_deletes_of_delta(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    chance, folder = random.Random(seed), tmp_path / "d"
    for start in (0, 100):
        rows = pa.table({"id": range(start, start + 100), "day": ["a b", "ü%"] * 50})
        deltalake.write_deltalake(folder, rows, mode="append", partition_by=["day"])
    files = [
        action["path"] for action in
        pa.table(deltalake.DeltaTable(folder).get_add_actions()).to_pylist()
    ]  # fmt: skip
    with_vectors(folder, {one: sorted(chance.sample(range(50), 20)) for one in files[:3]})
    expected = read_by_deltalake(deltalake.DeltaTable(folder))
    assert expected.num_rows == 140
    check(spark, folder, expected, tmp_path)


def test_deletes_of_iceberg(
    spark: SparkSession, tmp_path: Path, catalog: InMemoryCatalog, seed: int
) -> None:
    """Positions, vectors and keys; those of keys pyiceberg does not read."""
    chance = random.Random(seed)
    table = table_of(catalog, pa.table({"id": range(100)}))
    table.append(pa.table({"id": range(100, 200)}))
    first, second = sorted(
        table.inspect.files()["file_path"].to_pylist(),
        key=lambda one: pq.read_table(one.removeprefix("file://"))["id"][0].as_py(),
    )
    positions_file(tmp_path / "0.parquet", second, [1, 2])
    add_deletes(table, tmp_path / "0.parquet", DataFileContent.POSITION_DELETES, 2)
    gone = chance.sample(range(100), 30)
    vectors_file(tmp_path / "1.puffin", {first: sorted(gone)})
    add_deletes(
        table, tmp_path / "1.puffin", DataFileContent.POSITION_DELETES, 30,
        file_format=FileFormat.PUFFIN,
    )  # fmt: skip
    ids = sorted(set(range(200)) - {*gone, 101, 102})
    check(spark, table, pa.table({"id": ids}), tmp_path)
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([[150, 160]], schema=pa.schema([field])), tmp_path / "2.parquet")
    add_deletes(
        table, tmp_path / "2.parquet", DataFileContent.EQUALITY_DELETES, 2, equality_ids=[1]
    )
    check(spark, table, pa.table({"id": sorted(set(ids) - {150, 160})}), tmp_path)
    with table.update_schema() as update:
        update.rename_column("id", "number")
    expected = pa.table({"number": sorted(set(ids) - {150, 160})})
    check(spark, table, expected, tmp_path / "renamed", key="number")


def test_a_table_of_a_catalog_by_its_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, uri = tmp_path / "home", f"sqlite:///{tmp_path}/catalog.db"
    home.mkdir()
    (home / ".pyiceberg.yaml").write_text(
        f"catalog:\n  prod:\n    type: sql\n    uri: {uri}\n    warehouse: file://{tmp_path}/top\n"
    )
    monkeypatch.setenv("PYICEBERG_HOME", str(home))
    catalog = SqlCatalog("prod", uri=uri, warehouse=f"file://{tmp_path}/top")
    catalog.create_namespace("sales")
    rows = pa.table({"id": [1, 2], "s": ["a", "b"]})
    table = catalog.create_table("sales.users", rows.schema)
    table.append(rows)
    name = "iceberg:prod.sales.users"
    check(spark, name, rows, tmp_path)
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_tag(first, "v1").commit()
    table.append(pa.table({"id": [3], "s": ["c"]}))
    check(spark, f"{name}.tag_v1", rows, tmp_path)
    check(spark, name, rows, tmp_path, version=first)
    with pytest.raises(FormatError, match="is an Iceberg table; give it alone"):
        build_store([name, name], tmp_path / "n", key="id", spark=spark)
    with pytest.raises(FileNotFoundError, match="has no table 'userss'"):
        build_store(f"{name}s", tmp_path / "n", key="id", spark=spark)


def test_rules_for_repeated_keys(spark: SparkSession, tmp_path: Path) -> None:
    for n in (1, 2):
        rows = pa.table({"id": [1, 1 + n], "n": [n, n]})
        deltalake.write_deltalake(tmp_path / "d", rows, mode="append")
    path = str(tmp_path / "d")
    with pytest.raises(lookupstore.DuplicateKeyError, match=r"id=1 occurs more than once"):
        build_store(path, tmp_path / "s", key="id", spark=spark)
    with pytest.raises(ValueError, match=r"on_duplicate is 'last', .* have no order"):
        build_store(path, tmp_path / "s", key="id", on_duplicate="last", spark=spark)
    expected = pa.table({"id": [1, 2, 3], "n": [2, 1, 2]})
    check(spark, path, expected, tmp_path, on_duplicate=("max", "n"))
    with pytest.raises(KeyError, match="more"):
        build_store(path, tmp_path / "s", key="id", columns=["more"], spark=spark)


def test_what_is_wrong_is_named(
    spark: SparkSession, tmp_path: Path, catalog: InMemoryCatalog
) -> None:
    rows = pa.table({"id": range(10)})
    deltalake.write_deltalake(tmp_path / "d", rows)
    table = table_of(catalog, rows)
    (delta,), (iceberg,) = ((tmp_path / one).rglob("*.parquet") for one in ("d", "w"))
    for given, file in ((str(tmp_path / "d"), delta), (table, iceberg)):
        content = file.read_bytes()
        file.write_bytes(bytes(len(content)))
        with pytest.raises(CorruptionError, match=file.name) as raised:
            build_store(given, tmp_path / "s", key="id", spark=spark)
        assert raised.value.path == str(file)
        file.unlink()
        with pytest.raises(StaleStoreError, match=rf"{file.name}: gone"):
            build_store(given, tmp_path / "s", key="id", spark=spark)
        assert not list(tmp_path.rglob("*.sst"))
    feature = {"minReaderVersion": 3, "minWriterVersion": 7,
               "readerFeatures": ["clustering-of-mars"], "writerFeatures": []}  # fmt: skip
    line = json.dumps({"protocol": feature})
    (tmp_path / "d" / "_delta_log" / f"{1:020}.json").write_text(line + "\n")
    with pytest.raises(FormatError, match="clustering-of-mars"):
        build_store(tmp_path / "d", tmp_path / "s", key="id", spark=spark)


# ---- object stores


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with writable_object_store() as server:
        yield server


def test_tables_on_s3(
    spark: SparkSession, tmp_path: Path, server: ObjectStore, capfd: pytest.CaptureFixture[str]
) -> None:
    """The credentials are in the URI or the object, and nowhere that people see."""
    rows, own = pa.table({"id": [1, 2], "day": ["a b", "ü%"]}), deltalake_names(server)
    uri = f"s3://{BUCKET}/users"
    written = {**own, "aws_s3_allow_unsafe_rename": "true"}
    deltalake.write_deltalake(uri, rows, partition_by=["day"], storage_options=written)
    catalog = InMemoryCatalog(
        "w",
        warehouse=f"s3://{BUCKET}/w",
        **{
            "s3.endpoint": own["AWS_ENDPOINT_URL"], "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET, "s3.region": "us-east-1",
        },
    )  # fmt: skip
    catalog.create_namespace("w")
    table = table_of(catalog, rows)
    options = pandas_names(server)
    opened = deltalake.DeltaTable(uri, storage_options=own)
    for given in (uri, opened, table):
        asked: dict[str, Any] = {"storage_options": options} if given is uri else {}
        with build_store(
            given, tmp_path / "s", key="id", overwrite=True, spark=spark, **asked
        ) as store:
            assert [store[1]["day"], store[2]["day"]] == ["a b", "ü%"]
            manifest = max((tmp_path / "s" / "versions").iterdir()).read_text()
            assert SECRET not in manifest
    shown = capfd.readouterr()
    assert SECRET not in shown.out + shown.err


def test_a_package_that_executors_lack_is_named(
    spark: SparkSession, tmp_path: Path, server: ObjectStore
) -> None:
    own = {**deltalake_names(server), "aws_s3_allow_unsafe_rename": "true"}
    uri = f"s3://{BUCKET}/others"
    deltalake.write_deltalake(uri, pa.table({"id": [1]}), storage_options=own)
    table = deltalake.DeltaTable(uri, storage_options=own)  # with an option that pyarrow lacks
    with pytest.raises(ImportError, match=r"executor lacks the package deltalake.*; install it"):
        build_store(table, tmp_path / "s", key="id", spark=spark)
