"""What people see of jobs: names in Spark's UI, and a bar on a terminal alone."""

from __future__ import annotations

import io
import logging
import re
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lookupstore.spark import build_store, explain_join, jobs
from lookupstore.spark.jobs import named_jobs

pytestmark = pytest.mark.spark


class Terminal(io.StringIO):
    """A stand-in for standard error on a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal; pytest would take it back from a fixture."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    return terminal


def described(spark: SparkSession) -> list[tuple[str, str]]:
    """Return group and description of all jobs, as the UI shows them."""
    listed = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [listed.apply(i) for i in range(listed.size())]
    return [
        (
            job.jobGroup().get() if job.jobGroup().isDefined() else "",
            job.description().get() if job.description().isDefined() else "",
        )
        for job in found
    ]


def test_a_terminal_shows_tasks_and_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(jobs, "PAUSE", 60)  # what is shown at the end does not wait for its turn
    df = spark.range(0, 5000, numPartitions=3)
    build_store(df, tmp_path / "s", key="id", buckets=2).close()
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).split("Building")[-1]
    # Each partition is read by a task, each bucket written by one.
    assert re.search(r"5 of 5 tasks 5,000 rows", last)


def test_nothing_is_shown_elsewhere(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: object
) -> None:
    assert isinstance(caplog, pytest.LogCaptureFixture)
    with caplog.at_level(logging.INFO, "lookupstore.spark.build.build"):
        store = build_store(spark.range(10), tmp_path / "s", key="id", buckets=2)
        store.close()
        path = tmp_path / "t.parquet"
        pq.write_table(pa.table({"id": [1, 2]}), path)
        build_store(path, tmp_path / "t", key="id", buckets=1, spark=spark).close()
    assert capsys.readouterr() == ("", "")
    assert caplog.messages[:-1] == [
        f"{tmp_path}/s: building 2 buckets of Spark DataFrame",
        f"{tmp_path}/s: 10 rows in 2 files, {store.info().bytes} bytes",
        f"{tmp_path}/t: building 1 buckets of {path}, {path.stat().st_size} bytes",
    ]


def test_two_bars_would_overwrite_each_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "OWN_BAR", "spark.sql.adaptive.enabled")  # which is true
    terminal = on_terminal(monkeypatch)
    build_store(spark.range(10), tmp_path / "s", key="id", buckets=2).close()
    assert terminal.getvalue() == ""


def test_a_build_that_fails_ends_its_bar(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = on_terminal(monkeypatch)
    with pytest.raises(ValueError, match="occurs more than once"):
        build_store(spark.range(9).selectExpr("id % 3 AS id"), tmp_path / "s", key="id", buckets=1)
    assert terminal.getvalue().endswith("\x1b[?25h"), "the cursor is back"


def test_jobs_have_names(spark: SparkSession, tmp_path: Path) -> None:
    with build_store(spark.range(10), tmp_path / "s", key="id", buckets=2) as store:
        explain_join(spark.range(3), store, "id")
    names = {description for _, description in described(spark)}
    assert f"lookupstore: build {tmp_path}/s" in names
    assert f"lookupstore: what hosts have of {tmp_path}/s" in names


def test_what_the_caller_said_stays(spark: SparkSession, tmp_path: Path) -> None:
    context = spark.sparkContext
    before = context.getLocalProperty("spark.jobGroup.id")
    with named_jobs(spark, "ours"):
        spark.range(1).collect()
    assert context.getLocalProperty("spark.jobGroup.id") == before
    assert context.getLocalProperty("spark.job.description") is None
    context.setJobGroup("theirs", "nightly")
    try:
        build_store(spark.range(10), tmp_path / "s", key="id", buckets=2).close()
        assert context.getLocalProperty("spark.jobGroup.id") == "theirs"
        assert context.getLocalProperty("spark.job.description") == "nightly"
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]
    assert ("theirs", "nightly") in described(spark)
    assert f"lookupstore: build {tmp_path}/s" not in {name for _, name in described(spark)}
