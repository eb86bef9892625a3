"""Every program in examples/ runs, and finds its result equal to Spark's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.object_store import writable_object_store

import lookupstore
from lookupstore.spark.sessions import check_java

pytestmark = [pytest.mark.spark, pytest.mark.long]

EXAMPLES = Path(__file__).parents[2] / "examples"
ON_S3 = "dimension_on_s3.py"
# These are run by tests/project/test_join_example.py and test_web_service.py.
WITHOUT_SPARK = (
    "flight_server.py", "join_in_pandas.py", "lookups_in_asyncio.py", "web_service.py",
)  # fmt: skip


def run(name: str, argument: str, environment: dict[str, str]) -> str:
    try:
        check_java()
    except RuntimeError as error:
        pytest.skip(str(error))
    # Spark in another process: it does not share the one of the other tests.
    inherited = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / name), argument],
        env={
            **inherited,
            "PYTHONPATH": str(Path(lookupstore.__file__).parents[1]),
            "PYSPARK_PYTHON": sys.executable,  # for the workers of a Connect server
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


@pytest.mark.parametrize(
    "name",
    sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in (ON_S3, *WITHOUT_SPARK)),
)
def test_an_example(name: str, tmp_path: Path) -> None:
    assert run(name, str(tmp_path), {"LOOKUPSTORE_CACHE": str(tmp_path / "cache")})


def test_the_example_of_an_object_store(tmp_path: Path) -> None:
    with writable_object_store() as server:
        environment = {**server.environment(), "LOOKUPSTORE_CACHE": str(tmp_path / "cache")}
        said = run(ON_S3, "s3://bucket/example", environment)
    assert "published 2 lookup files of 200,000 rows" in said
