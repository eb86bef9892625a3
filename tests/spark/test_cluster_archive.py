"""The archive of `docs/how-to/spark-cluster.md`, as typed there, on a cluster with executors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import lookupstore

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "spark-cluster.md"

pytestmark = [pytest.mark.spark, pytest.mark.long]

JOB = """
import sys
from pyspark.sql import SparkSession

import lookupstore
from lookupstore.spark import build_store, lookup_join, register

spark = SparkSession.builder.getOrCreate()
users = spark.createDataFrame([(1, "Ada"), (2, "Grace")], "user_id long, name string")
store = build_store(users, sys.argv[1], key="user_id")
joined = lookup_join(spark.createDataFrame([(2,), (3,)], "user_id long"), store, on="user_id")
print("joined", sorted(str(row.name) for row in joined.collect()))
register(spark)
print("read", spark.read.format("lookupstore").load(sys.argv[1]).count())


def interpreter(batches):
    import sys

    import pyarrow as pa

    for batch in batches:
        yield pa.record_batch({"python": [sys.executable]})


found = spark.range(4, numPartitions=2).mapInArrow(interpreter, "python string").collect()
own = {row.python for row in found}
print("workers", {path.rpartition("/environment/")[2] for path in own}, sys.executable in own)
print("driver", "/environment/bin/" in sys.executable, lookupstore.__version__)
"""


def commands() -> list[str]:
    """Return the lines of the recipe."""
    section = PAGE.read_text().split("## Ship an archive\n")[1]
    block = re.search(r"```console\n(.*?)```", section, re.DOTALL)
    assert block is not None
    lines = [line.removeprefix("$ ") for line in block[1].splitlines()]
    assert [line.split()[0] for line in lines] == [
        "python3.11", "environment/bin/pip", "environment/bin/venv-pack", "export", "spark-submit",
    ]  # fmt: skip
    return lines


def test_an_archive_as_typed(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*wheel, "--wheel-dir", str(tmp_path / "dist"), str(ROOT)], check=True)
    (tmp_path / "job.py").write_text(JOB)
    script = "\n".join(commands())
    script = script.replace("python3.11", sys.executable)
    script = script.replace(
        "spark-submit ", "spark-submit --master 'local-cluster[2,1,1024]' ", 1
    ).replace("job.py", f"job.py {tmp_path / 'store'}")
    environment = {
        **os.environ,
        "PATH": f"{Path(pyspark.__file__).parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PIP_QUIET": "1",
    }
    for name in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        environment.pop(name, None)
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=1200,
    )  # fmt: skip
    said = [line for line in done.stdout.splitlines() if line.split(" ")[0] in (
        "joined", "read", "workers", "driver")]  # fmt: skip
    assert said == [
        "joined ['Grace', 'None']",
        "read 2",
        "workers {'bin/python'} False",
        f"driver True {lookupstore.__version__}",
    ], done.stderr[-5000:]
