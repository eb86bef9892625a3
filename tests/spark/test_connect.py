"""Lookup joins and Hudi tables over Spark Connect: a real server, a client that has no JVM."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import lookupstore
from lookupstore.hudi import HudiTable
from lookupstore.keys.joins import HOWS
from lookupstore.spark.sessions import check_java

pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")
pytest.importorskip("pyspark.sql.pandas.functions", reason="needs pandas")

pytestmark = [pytest.mark.spark, pytest.mark.long]

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
CLIENT = """
import json, sys
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from lookupstore.spark import (
    LookupJoin, build_store, explain_join, lookup_join, lookup_joins, register_lookup,
    update_store,
)
from lookupstore.spark.jobs import parallelism

address, store, facts, built = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
assert "connect" in type(spark).__module__
rows = spark.createDataFrame([tuple(row) for row in json.loads(facts)], "n int, k bigint")
found = {}
for strategy in ("replicated", "bucketed"):
    for how in ("left", "inner", "semi", "anti"):
        joined = lookup_join(rows, store, {"k": "id"}, how, strategy=strategy)
        found[f"{strategy} {how}"] = [list(row) for row in joined.orderBy("n").collect()]
filtered = lookup_join(rows, store, {"k": "id"}).where("name > 'n5' AND n < 100")
found["filtered"] = [row.n for row in filtered.select("n", "name").orderBy("n").collect()]
register_lookup(spark, "person", store)
rows.createOrReplaceTempView("rows")
found["function"] = [
    [row.n, row.name] for row in
    spark.sql("SELECT n, person(k).name AS name FROM rows ORDER BY n").collect()
]
first = lookup_join(rows, store, {"k": "id"})
second = LookupJoin(store, {"n": "id"}, "inner", prefix="n_")
for joined in (lookup_join(first, store, {"n": "id"}, "inner", prefix="n_"),
               lookup_joins(rows, [LookupJoin(store, {"k": "id"}), second])):
    found.setdefault("together", []).append(
        [[list(row) for row in joined.orderBy("n").collect()],
         joined._explain_string().count("EvalPython [")])
made = build_store(rows.dropna().dropDuplicates(["k"]), built, key="k")
found["built"] = made.num_rows
pq.write_table(made.scan().read_all(), f"{built}.parquet")
again = build_store(f"{built}.parquet", f"{built}-again", key="k")
found["built again"] = again.scan().read_all().to_pylist() == made.scan().read_all().to_pylist()
for batch in (0, 1, 1):
    count = spark.sql("SELECT -1L AS k, 1 AS n")
    updated = update_store(count, built, rule={"n": "sum"}, batch=("connect", batch))
found["updated"] = [updated.version, updated.get(-1)]
try:
    update_store(count, built, batch=7)
except ValueError as error:
    found["refused"] = str(error)
found["parallelism"] = parallelism(spark)
found["explained"] = explain_join(rows, store, {"k": "id"}).to_json()
print(json.dumps(found))
"""

HUDI_CLIENT = """
import json, sys
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from lookupstore.hudi import WriteOptions
from lookupstore.spark import (
    cluster_table, lookup_join, read_table, register, tag_location, upsert,
)

address, table = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()

def rows(ids, value):
    return spark.createDataFrame([(id, value) for id in ids], "id bigint, value string")

def listed(df):
    return sorted([list(row) for row in df.collect()], key=lambda row: row[0])

found = {"rows": listed(read_table(spark, table, columns=["id", "value"]))}
second = read_table(spark, table, columns=["id"], filter=pc.field("value") == "second")
found["filtered"] = listed(second)
register(spark)
source = spark.read.format("lookupstore.hudi").load(table)
found["source"] = listed(source.select("id", "value"))
joined = lookup_join(rows([3, 5, 99], "fact").select("id"), table, {"id": "id"})
found["joined"] = listed(joined.select("id", "value"))
found["tagged"] = listed(tag_location(rows([39, 7, 1000], "any").select("id"), table))
done = upsert(rows([3, 40, 41], "third"), table)
deleted = upsert(rows([0, 1], "any").select("id"), table, operation="delete")
found["counts"] = [done.rows_updated, done.rows_inserted, deleted.rows_deleted]
found["refused"] = []
for df, operation, options in (
    (rows([5, 50], "new"), "insert", WriteOptions(duplicates="fail")),
    (rows([None], "new"), "upsert", None),
):
    try:
        upsert(df, table, operation=operation, options=options)
    except ValueError as error:
        found["refused"].append(str(error))
found["clustered"] = cluster_table(spark, table, ["value", "id"], curve="linear").rows
print(json.dumps(found))
"""
HUDI_SCHEMA = pa.schema({"id": pa.int64(), "value": pa.string()})


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start a Connect server, and give its address."""
    try:
        check_java()
    except RuntimeError as error:
        pytest.skip(str(error))
    home = Path(pyspark.__file__).parent
    if not list(home.glob("jars/spark-connect_*.jar")):
        pytest.skip("this PySpark comes without the server: it does since Spark 4.0")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        # No number of buckets, nor of other tasks, comes from it.
        "spark.sql.shuffle.partitions": 5,
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    process = subprocess.Popen(
        # What `sbin/start-connect-server.sh` runs, which PySpark 4.0 comes without.
        [str(home / "bin" / "spark-submit"), "--class", SERVER, "--master", "local[2]", *options,
         "spark-internal"],
        env={**environment(), "SPARK_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(port, process)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def environment() -> dict[str, str]:
    """Return an environment where the lookupstore under test is found by all processes."""
    found = [str(Path(lookupstore.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, found)),
        "PYSPARK_PYTHON": sys.executable,
    }


LOCAL = """
import sys
import lookupstore
from pyspark.sql import SparkSession
from lookupstore.spark import build_store, lookup_join

spark = SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false").getOrCreate()
store = lookupstore.build({"id": [1, 2], "name": ["a", "b"]}, sys.argv[1], key="id")
joined = lookup_join(spark.range(3), store, on="id").orderBy("id")
print("joined", [row.name for row in joined.collect()])
print("built", len(build_store(joined, sys.argv[1] + "-built", key="id")))
"""


def test_a_local_server_runs_the_interpreter_of_the_driver(tmp_path: Path) -> None:
    """As `venv/bin/python app.py` does, while PATH has another Python, which lacks the package."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'the wrong Python' >&2\nexit 3\n")
    other.chmod(0o755)
    found = environment()
    del found["PYSPARK_PYTHON"]
    found["PATH"] = os.pathsep.join([str(other.parent), found["PATH"]])
    done = subprocess.run(
        [sys.executable, "-c", LOCAL, str(tmp_path / "store")],
        env=found, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["joined [None, 'a', 'b']", "built 3"], done.stderr


def wait_for(port: int, process: subprocess.Popen[Any]) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server does not listen")


def test_joins_and_builds_over_connect(server: str, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    names = {key: f"n{key}" for key in range(0, 300, 2)}
    table = pa.table({"id": list(names), "name": list(names.values())})
    lookupstore.build(table, tmp_path / "store", key="id", buckets=3).close()
    facts = [(n, rng.choice([None, *range(300)])) for n in range(500)]
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, server, str(tmp_path / "store"), json.dumps(facts),
         str(tmp_path / "built")],
        env=environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    expected = {
        "left": [[n, k, names.get(k)] for n, k in facts],
        "inner": [[n, k, names[k]] for n, k in facts if k in names],
        "semi": [[n, k] for n, k in facts if k in names],
        "anti": [[n, k] for n, k in facts if k not in names],
    }
    for how in HOWS:
        for strategy in ("replicated", "bucketed"):
            assert found[f"{strategy} {how}"] == expected[how], (strategy, how)
    assert found["filtered"] == [n for n, k in facts[:100] if k in names and names[k] > "n5"]
    assert found["function"] == [[n, names.get(k)] for n, k in facts]
    both = [[n, k, names.get(k), names[n]] for n, k in facts if n in names]
    assert found["together"] == [[both, 1], [both, 1]]
    assert found["built"] == len({k for _, k in facts} - {None})
    assert found["built again"]
    (host,) = found["explained"]["hosts"]
    assert (host["host"], host["sees_store"]) == (socket.gethostname(), True)
    assert host["files"] == found["explained"]["files"] == 3
    assert found["updated"] == [3, {"n": 2}]
    assert "cannot tell which streaming query" in found["refused"]
    with lookupstore.open(tmp_path / "built") as built:
        assert built.info().buckets == 1
    assert found["parallelism"] == 2


def test_hudi_tables_over_connect(server: str, tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", HUDI_SCHEMA, record_key=["id"])
    expected: dict[int, str] = {}
    for ids, value in ((range(40), "first"), (range(0, 40, 5), "second")):
        rows = {"id": list(ids), "value": [value] * len(ids)}
        table.upsert(pa.table(rows, schema=HUDI_SCHEMA))
        expected |= dict.fromkeys(ids, value)
    tagged = table.tag(pa.table({"id": [7, 39, 1000]}))
    done = subprocess.run(
        [sys.executable, "-c", HUDI_CLIENT, server, str(tmp_path / "t")],
        env=environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["rows"] == found["source"] == [list(row) for row in expected.items()]
    assert found["filtered"] == [[key] for key in range(0, 40, 5)]
    assert found["joined"] == [[3, "first"], [5, "second"], [99, None]]
    assert found["tagged"] == [list(row.values()) for row in tagged.to_pylist()]
    assert found["counts"] == [1, 2, 2]
    there, no_key = found["refused"]
    assert "have keys that the table already has" in there
    assert "is null or empty" in no_key
    expected |= dict.fromkeys((3, 40, 41), "third")
    del expected[0], expected[1]
    rows = table.scan(columns=["id", "value"]).to_pydict()
    assert dict(zip(rows["id"], rows["value"], strict=True)) == expected
    assert found["clustered"] == len(rows["id"]) == len(expected)
    assert rows["value"] == sorted(rows["value"])
    assert table.verify().is_ok
