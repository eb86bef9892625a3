"""The Spark context of a session, and the Python interpreter that its workers run."""

from __future__ import annotations

import os
import sys

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

# Setting of a session for the interpreter of its workers: Spark 3.5 and later.
_WORKER_PYTHON = "spark.sql.execution.pyspark.python"


def context_of(spark: SparkSession) -> SparkContext | None:
    """Return the context of a session. None: the session is one of Spark Connect."""
    try:
        return spark.sparkContext
    except PySparkException:
        return None


def run_driver_python(spark: SparkSession) -> None:
    """Let workers on the driver's machine run its interpreter, unless another one was chosen.

    Spark would run the `python3` of `PATH`. That one lacks this package if the environment of the
    driver is not activated, as with `venv/bin/python app.py`.
    """
    if "PYSPARK_PYTHON" in os.environ or not sys.executable:
        return
    context = context_of(spark)
    if context is None:
        # Spark sets the variable when it starts a Connect server on this machine by itself.
        if "SPARK_LOCAL_REMOTE" in os.environ and not spark.conf.get(_WORKER_PYTHON, ""):
            spark.conf.set(_WORKER_PYTHON, sys.executable)
        return
    is_chosen = context.getConf().contains("spark.pyspark.python")
    if (context.master or "").startswith("local") and not is_chosen:
        context.pythonExec = sys.executable
