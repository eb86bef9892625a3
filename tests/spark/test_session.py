"""The session helper: Java found or explained, and executors that can run our code."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as sql_types

from lookupstore.spark import register, session
from lookupstore.spark.sessions import check_java
from lookupstore.spark.types import TIME_SETTING

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def _fake_java(folder: Path, script: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


def test_no_java_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"needs Java.* none on PATH; install Java 17") as error:
        check_java()
    assert "\n" not in str(error.value)


def test_java_home_without_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=f"JAVA_HOME is {tmp_path}.*install Java 17"):
        check_java()


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_old_java(tmp_path, monkeypatch, version):
    _fake_java(tmp_path, f"echo 'openjdk version \"{version}\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=f"{version}.*too old for Spark; install Java 17"):
        check_java()


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.1", "25-ea"])
def test_new_java(tmp_path, monkeypatch, version):
    java = _fake_java(tmp_path, f"echo 'openjdk version \"{version}\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java() == (str(java), version)


def test_java_that_does_not_run(tmp_path, monkeypatch):
    _fake_java(tmp_path, "exit 3")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"does not run .*exit status 3.*install Java 17"):
        check_java()


def test_pyspark_missing_says_what_to_install():
    code = "import sys; sys.modules['pyspark'] = None; import lookupstore.spark"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip().endswith(
        "ImportError: lookupstore.spark needs pyspark: pip install 'lookupstore[spark]'"
    )


def test_a_spark_without_data_sources_says_so(spark, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("pyspark.__version__", "3.5.9")
    with pytest.raises(RuntimeError, match=r"need Spark 4\.0, but this is 3\.5\.9; .* work"):
        register(spark)
    assert session() is spark


def test_active_session_is_returned_as_it_is(spark, caplog):
    assert session("other", "local[1]", **{"spark.x": 1}) is SparkSession.getActiveSession()
    assert "['spark.x']" in caplog.text
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "97"


@pytest.mark.long
def test_what_spark_submit_was_told_goes_first(tmp_path):
    job = tmp_path / "job.py"
    job.write_text(
        "from lookupstore.spark import session\n"
        "spark = session('mine', **{'spark.sql.ansi.enabled': 'false'})\n"
        "names = ('shuffle.partitions', 'session.timeZone', 'ansi.enabled')\n"
        "said = [spark.conf.get(f'spark.sql.{name}') for name in names]\n"
        "print('said', spark.sparkContext.master, spark.sparkContext.appName, *said)\n"
    )
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run(
        [submit, "--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=7", "--conf",
         "spark.sql.ansi.enabled=true", job],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert "said local[1] mine 7 UTC false" in done.stdout, done.stderr


def test_master_and_name_may_be_settings():
    code = (
        "from lookupstore.spark import session\n"
        "settings = {'spark.master': 'local[1]', 'spark.app.name': 'mine'}\n"
        "context = session(**settings).sparkContext\n"
        "print('said', context.master, context.appName)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert "said local[1] mine" in done.stdout, done.stderr


WITHOUT_ACTIVATION = """
import sys
import lookupstore
from pyspark.sql import SparkSession
from lookupstore.spark import lookup_join, register

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
store = lookupstore.build({"id": [1, 2], "name": ["a", "b"]}, sys.argv[1], key="id")
joined = lookup_join(spark.range(3), store, on="id").orderBy("id")
print("joined", [row.name for row in joined.collect()])
register(spark)
print("read", spark.read.format("lookupstore").load(sys.argv[1]).count())
"""


def test_workers_run_the_interpreter_of_the_driver(tmp_path):
    """As `venv/bin/python app.py` does, while PATH has another Python, which lacks the package."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'the wrong Python' >&2\nexit 3\n")
    other.chmod(0o755)
    environment = {**os.environ, "PATH": os.pathsep.join([str(other.parent), os.environ["PATH"]])}
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ACTIVATION, str(tmp_path / "store")],
        env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["joined [None, 'a', 'b']", "read 2"], done.stderr


@pytest.mark.skipif(not hasattr(sql_types, "TimeType"), reason="times came with Spark 4.1")
def test_a_new_session_takes_times(spark):
    assert spark.conf.get(TIME_SETTING) == "true"
    spark.range(1).selectExpr("TIME'01:02:03' AS t").groupBy("t").count().collect()


def test_executors_are_other_processes(spark):
    def processes(batches):
        for _ in batches:
            # The parent of a Python worker is its executor's daemon.
            yield pa.record_batch({"pid": [os.getpid()], "daemon": [os.getppid()]})

    rows = spark.range(8, numPartitions=8).mapInArrow(processes, "pid long, daemon long").collect()
    assert os.getpid() not in {row.pid for row in rows}
    assert len({row.daemon for row in rows}) == 2
