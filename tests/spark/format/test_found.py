"""The formats in a session that is not ours, in which nobody has registered them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lookupstore
from lookupstore.hudi import HudiTable

pytest.importorskip("pyspark.sql.datasource", reason="data sources came with Spark 4.0")

pytestmark = pytest.mark.spark

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession

store, table, built = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
)
found = {}

def listed(df):
    return sorted([list(row) for row in df.collect()])

def read(format, path, **options):
    return spark.read.format(format).options(**options).load(path)

for name, path in (("lookupstore", store), ("lookupstore.hudi", table)):
    found[name] = listed(read(name, path).select("id", "v"))
    found[name + " filtered"] = listed(read(name, path).where("id = 2").select("id", "v"))
rows = spark.createDataFrame([(7, "seven")], "id bigint, v string")
rows.write.format("lookupstore").option("key", "id").mode("overwrite").save(built)
found["built"] = listed(read("lookupstore", built))
try:
    read("lookupstore", built, pushdown="true").where("id = 7").collect()
except Exception as error:
    found["pushdown"] = "spark.sql.python.filterPushdown.enabled" in str(error)
from lookupstore.spark import register

register(spark)
register(spark)
for name, path in (("lookupstore", store), ("lookupstore.hudi", table)):
    pushed = read(name, path, pushdown="true").where("id = 2").select("id", "v")
    found[name + " pushed"] = listed(pushed)
print(json.dumps(found))
"""


def run(
    *arguments: Path, program: str = PROGRAM, path: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program as in a terminal in which the environment is active."""
    root = str(Path(lookupstore.__file__).parents[1])
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": path or root,
    }
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.long
def test_spark_finds_the_formats_by_itself(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "v": ["one", "two", None]})
    lookupstore.build(rows, tmp_path / "store", key="id").close()
    table = HudiTable.create(tmp_path / "table", rows.schema, record_key=["id"])
    table.upsert(rows)
    done = run(tmp_path / "store", tmp_path / "table", tmp_path / "built")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for name in ("lookupstore", "lookupstore.hudi"):
        assert found[name] == [[1, "one"], [2, "two"], [3, None]]
        assert found[f"{name} filtered"] == found[f"{name} pushed"] == [[2, "two"]]
    assert found["built"] == [[7, "seven"]]
    assert found["pushdown"] is True
    assert "replaced" not in done.stderr


def test_without_what_they_need_nothing_is_said(tmp_path: Path) -> None:
    """Spark imports the packages for formats of others, too: no error of ours may be in the way."""
    program = """
import sys
sys.modules["lookupstore"] = None
import pyspark_lookupstore, pyspark_lookupstore_hudi
for one in (pyspark_lookupstore, pyspark_lookupstore_hudi):
    assert not hasattr(one, "DefaultSource")
"""
    done = run(program=program)
    assert (done.returncode, done.stderr) == (0, "")
