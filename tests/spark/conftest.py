"""One Spark cluster for all tests here: two executors, each a process of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.object_store import FOR_WRITES

import lookupstore
from lookupstore.spark.sessions import check_java, session

# What Python runs first there.
WORKERS = Path(__file__).parents[1] / "support" / "spark" / "workers"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give a session whose executors are other processes, and whose batches are small."""
    try:
        check_java()
    except RuntimeError as error:
        pytest.skip(str(error))
    if (other := SparkSession.getActiveSession()) is not None:
        other.stop()  # left by an example of the documents
    os.environ.update(FOR_WRITES)  # for all processes that Spark starts
    paths = [str(Path(lookupstore.__file__).parents[1]), str(WORKERS)]
    with pytest.MonkeyPatch.context() as patched:
        # For workers of the driver, which plan reads and writes.
        patched.setenv("PYTHONPATH", os.pathsep.join(paths))
        spark = session(
            "lookupstore tests",
            "local-cluster[2,1,1024]",
            **{
                "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
                "spark.executorEnv.PYTHONPATH": os.pathsep.join(paths),
                # Local copies of remote stores: join/test_cluster.py fills the quota.
                "spark.executorEnv.LOOKUPSTORE_CACHE_BYTES": 3 << 20,
                "spark.log.level": "OFF",  # tasks fail here on purpose
                "spark.sql.shuffle.partitions": 2,
                "spark.sql.execution.arrow.maxRecordsPerBatch": 97,
                "spark.task.maxFailures": 4,
            },
        )
    # Where executors of a local cluster run; Spark leaves it behind.
    work = Path(os.environ["SPARK_HOME"], "work", spark.sparkContext.applicationId)
    yield spark
    spark.stop()
    shutil.rmtree(work, ignore_errors=True)
