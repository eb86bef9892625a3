"""A Spark session that works on one machine without further settings."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import types as sql

from lookupstore.spark.catalog_tables import refuse_catalog_tables
from lookupstore.spark.context import context_of, run_driver_python
from lookupstore.spark.types import TIME_SETTING

JAVA_MIN = 17

_INSTALL = (
    f"install Java {JAVA_MIN} or later (Debian and Ubuntu: apt install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17), or set JAVA_HOME to its folder"
)
_VERSION = re.compile(r'version "((?:1\.)?(\d+)[^"]*)')

# Names of the data sources, whose modules import builds and therefore this module.
_SOURCES = (
    ("lookupstore.spark.format.source", "StoreSource"),
    ("lookupstore.spark.hudi.format", "HudiSource"),
)
# Setting with which Spark calls `pushFilters`; without it, Spark refuses sources that define it.
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
# Own setting of a session that has the data source: registering it again would log a warning.
_REGISTERED = "spark.lookupstore.dataSource"

# Logger that tells which formats are replaced.
_REGISTRY = "org.apache.spark.sql.execution.datasources.DataSourceManager"
# Setting of Spark 4.2 and later, without effect before. With it, rows in columns that are not
# Arrow's, such as those of Parquet, would be converted to columns after the UDF and back.
_COLUMNAR_INPUT = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"

_log = logging.getLogger(__name__)


def session(
    app_name: str = "lookupstore", master: str | None = None, **conf: object
) -> SparkSession:
    """Return the active Spark session, or start one with defaults that suit lookups.

    Either session has the data sources (see `register`). An active session is otherwise returned as
    it is. A new one has Arrow and adaptive execution on, UTC as its time zone, times as a type
    where Spark has it (4.1 and later), few shuffle partitions, the web UI off, and the log level
    WARN. It does not convert rows of files to Arrow columns before a UDF (4.2 and later). With a
    local `master` it listens on 127.0.0.1 only. Its Python workers run this interpreter. Settings
    of `spark-submit` take precedence over all this. `SPARK_HOME` and `PYSPARK_PYTHON` are set in
    this process where they are not yet: executors in processes of their own need them.

    Args:
        app_name: Name of the application.
        master: Master of Spark: `local[*]`, `local-cluster[2,1,1024]` or `spark://host:port`.
            Default: that of `spark-submit`, or else `local[*]`.
        conf: Further settings, which take precedence: `session(**{"spark.driver.memory": "4g"})`.

    Raises:
        RuntimeError: If there is no Java, or it is too old. The error names what to install.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        if conf:
            _log.warning(
                "a Spark session is already active; these settings have no effect: %s", sorted(conf)
            )
        return _with_source(active)
    check_java()
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings: dict[str, object] = {
        "spark.log.level": "WARN",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 2 * (os.cpu_count() or 1),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
    }
    submitted = _submitted()
    given = {name: str(value) for name, value in {**submitted, **conf}.items()}
    master = master or given.get("spark.master", "local[*]")
    if hasattr(sql, "TimeType"):
        settings[TIME_SETTING] = "true"
        settings[_COLUMNAR_INPUT] = "false"
    if master.startswith("local"):
        settings["spark.driver.bindAddress"] = "127.0.0.1"
        settings["spark.driver.host"] = "127.0.0.1"
    builder = SparkSession.builder
    for name, value in {**settings, **given}.items():
        builder = builder.config(name, str(value))
    name = str(conf.get("spark.app.name", app_name))
    return _with_source(builder.appName(name).master(master).getOrCreate())


def _submitted() -> dict[str, str]:
    """Return the settings that `spark-submit` was given, if it has started this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext  # which a client of Spark Connect alone lacks

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def register(spark: SparkSession) -> None:
    """Register the data sources ``lookupstore`` and ``lookupstore.hudi``.

    Doing so again does nothing. On one machine, workers run the driver's interpreter, unless
    `PYSPARK_PYTHON` chooses another. Where Spark can push filters down (4.1 and later), the session
    is set to do it: `spark.sql.python.filterPushdown.enabled`.

    Args:
        spark: Session to register the data sources with. `session()` has registered its own.

    Raises:
        RuntimeError: If Spark is older than 4.0, the first version with data sources in Python.
    """
    if not _has_sources():
        raise RuntimeError(
            f"data sources in Python need Spark 4.0, but this is {pyspark.__version__}; "
            "build_store and lookup_join work without them"
        )
    run_driver_python(spark)
    if spark.conf.get(_REGISTERED, "") == "true":
        return
    active = SparkSession.getActiveSession()
    # Spark looks for the name in the active session, and refuses it to another if it is there.
    _activate(spark)
    sources = [getattr(importlib.import_module(module), name) for module, name in _SOURCES]
    with _quiet(spark):
        for source in sources:
            spark.dataSource.register(source)
    refuse_catalog_tables([source.name() for source in sources])
    if active is not None:
        _activate(active)
    spark.conf.set(_PUSHDOWN, "true")
    spark.conf.set(_REGISTERED, "true")


@contextmanager
def _quiet(spark: SparkSession) -> Iterator[None]:
    """Keep Spark from warning that a format replaces itself: it may have found it by itself."""
    context = context_of(spark)
    jvm = None if context is None else context._jvm
    if jvm is None:
        yield
        return
    log4j = jvm.org.apache.logging.log4j
    before = log4j.LogManager.getLogger(_REGISTRY).getLevel()
    log4j.core.config.Configurator.setLevel(_REGISTRY, log4j.Level.ERROR)
    try:
        yield
    finally:
        log4j.core.config.Configurator.setLevel(_REGISTRY, before)


def _activate(spark: SparkSession) -> None:
    spark.createDataFrame([], "none int")  # makes its session the active one


def _with_source(spark: SparkSession) -> SparkSession:
    if _has_sources():
        register(spark)
    return spark


def _has_sources() -> bool:
    return importlib.util.find_spec("pyspark.sql.datasource") is not None


def check_java() -> tuple[str, str]:
    """Return the Java program that Spark will run, and its version.

    Raises:
        RuntimeError: If there is none, or it is too old. The error names what to install.
    """
    java = _find_java()
    try:
        # Java prints its version to standard error.
        shown = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=True, timeout=60
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise RuntimeError(f"{java} does not run ({error}); {_INSTALL}") from None
    version = _VERSION.search(shown)
    if version is None or int(version[2]) < JAVA_MIN:
        found = shown.partition("\n")[0].strip() or "nothing"
        raise RuntimeError(f"{java} is {found}, too old for Spark; {_INSTALL}")
    return java, version[1]


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = os.path.join(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise RuntimeError(f"JAVA_HOME is {home}, which has no bin/java; {_INSTALL}")
        return java
    found = shutil.which("java")
    if found is None:
        raise RuntimeError(f"Spark needs Java, but there is none on PATH; {_INSTALL}")
    return found
