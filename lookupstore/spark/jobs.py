"""Spark jobs as people see them: named in Spark's UI, and with a bar on a terminal."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lookupstore.progress import called_every, is_watched, shown
from lookupstore.spark.context import context_of, run_driver_python

_GROUP = "spark.jobGroup.id"
_DESCRIPTION = "spark.job.description"
#: Setting that decides whether Spark shows a progress bar of its own.
OWN_BAR = "spark.ui.showConsoleProgress"
#: Seconds between two checks of the progress of jobs.
PAUSE = 0.2


@contextmanager
def named_jobs(spark: SparkSession, description: str) -> Iterator[str | None]:
    """Describe the jobs that a block starts, unless the caller has, and return their group.

    Over Spark Connect, the group is None, because jobs have no names.
    """
    run_driver_python(spark)
    context = context_of(spark)
    if context is None:
        yield None
        return
    before = {name: context.getLocalProperty(name) for name in (_GROUP, _DESCRIPTION)}
    group = before[_GROUP] or f"lookupstore-{uuid.uuid4().hex}"
    _set(context, {_GROUP: group, _DESCRIPTION: before[_DESCRIPTION] or description})
    try:
        yield group
    finally:
        _set(context, before)


@contextmanager
def watched_jobs(spark: SparkSession, description: str, title: str) -> Iterator[Any]:
    """Describe the jobs that a block starts, and show their progress.

    Yields the accumulator to which tasks add the number of rows that they have done; None if no
    user would see it: this is neither a terminal nor a notebook, Spark shows a bar of its own, or
    the session is one of Spark Connect, whose client does.
    """
    with named_jobs(spark, description) as group:
        context = context_of(spark)
        if context is None or group is None or not _is_ours_to_show(context):
            yield None
            return
        rows = context.accumulator(0)
        with _bar(context, group, title, rows):
            yield rows


@contextmanager
def _bar(context: SparkContext, group: str, title: str, rows: Any) -> Iterator[None]:
    # It is imported here: importing rich takes longer than all other steps of a build before its
    # jobs.
    from rich import progress

    tracker = context.statusTracker()
    earlier = set(tracker.getJobIdsForGroup(group))
    with shown(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.completed:,.0f} of {task.fields[known]:,} tasks"),
        progress.TextColumn("{task.fields[rows]:,} rows"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    ) as display:
        bar = display.add_task(title, total=None, known=0, rows=0)

        def look() -> None:
            with suppress(Py4JError):  # a stopped session makes the block fail, not the bar
                done, known = _tasks(tracker, set(tracker.getJobIdsForGroup(group)) - earlier)
                total = known or None
                display.update(bar, completed=done, total=total, known=known, rows=rows.value)

        with called_every(PAUSE, look):
            yield


def _tasks(tracker: Any, jobs: set[int]) -> tuple[int, int]:
    """Return the number of completed tasks, and of all tasks in stages that have begun.

    A later job also lists the stages whose results it reuses from an earlier one: they never begin.
    """
    infos = [tracker.getJobInfo(job) for job in jobs]
    stages = {stage for info in infos if info is not None for stage in info.stageIds}
    begun = [
        stage
        for stage in map(tracker.getStageInfo, stages)
        if stage is not None and stage.numActiveTasks + stage.numCompletedTasks > 0
    ]
    return (
        sum(stage.numCompletedTasks for stage in begun),
        sum(stage.numTasks for stage in begun),
    )


def _is_ours_to_show(context: SparkContext) -> bool:
    return is_watched() and context.getConf().get(OWN_BAR) != "true"


def streaming_query(spark: SparkSession) -> str | None:
    """Return the id of the streaming query whose batch this thread processes. None: unknown.

    Over Spark Connect there is no context to ask.
    """
    context = context_of(spark)
    return None if context is None else context.getLocalProperty("sql.streaming.queryId") or None


def _set(context: SparkContext, properties: dict[str, str | None]) -> None:
    for name, value in properties.items():
        context.setLocalProperty(name, value)  # type: ignore[arg-type]


def parallelism(spark: SparkSession) -> int:
    """Return the number of tasks that Spark can run at a time."""
    context = context_of(spark)
    if context is not None:
        return int(context.defaultParallelism)
    # Over Connect there is no context to ask, but Spark splits a range into that number of parts.
    explained = spark.range(1)._explain_string(mode="simple")  # type: ignore[operator]
    return max(1, *map(int, re.findall(r"splits=(\d+)", explained)))
