"""The counts of lookup joins, which tasks add to a Spark accumulator for the driver."""

from __future__ import annotations

from typing import Any

from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lookupstore.hostcache.counts import Counts
from lookupstore.html_table import html_table


class LookupMetrics:
    """The sum of the counts that tasks of lookup joins report.

    Pass one to `lookup_join(metrics=...)`, run the query, and read `counts`. If the query runs
    again, its counts are added. If Spark repeats a task, its counts are added again.

    Args:
        spark: Session of the queries, which needs a Spark context.

    Raises:
        TypeError: If the session is one of Spark Connect, which has no accumulators.

    `docs/how-to/spark-missing-keys-and-errors.md` shows an example. On each
    host, `lookupstore stats` prints the same counts.
    """

    def __init__(self, spark: SparkSession) -> None:
        try:
            context = spark.sparkContext
        except PySparkException:
            raise TypeError(
                "spark is a Spark Connect session, which has no accumulators; see the same counts "
                "with `lookupstore stats` on the hosts of the executors"
            ) from None
        self._sum = context.accumulator(Counts(), _CountsParam())

    @property
    def counts(self) -> Counts:
        """Return the sum of the counts that tasks have reported so far."""
        return self._sum.value

    @property
    def accumulator(self) -> Any:
        """Return the accumulator that tasks add to."""
        return self._sum

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain JSON values."""
        return self.counts.to_json()

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in self.to_json().items())
        return f"<LookupMetrics {shown}>"

    def _repr_html_(self) -> str:
        rows = ((name.replace("_", " "), _shown(value)) for name, value in self.to_json().items())
        return html_table("LookupMetrics", [], rows)


def _shown(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


class _CountsParam(AccumulatorParam[Counts]):
    def zero(self, value: Counts) -> Counts:
        return Counts()

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802
        return value1 + value2
