"""The size of the rows of a DataFrame, as far as Spark knows it before it runs anything.

Spark's statistics are read as text from the output of `DataFrame.explain("cost")`, the only way
over Spark Connect.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

_LINE = re.compile(
    r"(?P<depth>[ :+-]*)(?P<node>\w.*), Statistics\(sizeInBytes=(?P<size>[\dE.+]+) (?P<unit>\w+)"
)
_UNITS = {
    name: 1 << 10 * i for i, name in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
}
# Size that Spark uses for unknown ones: 8 EiB, or the setting `spark.sql.defaultSizeInBytes`.
_UNKNOWN = 1 << 60
# Operators whose number of rows is unrelated to the size of their input.
_MADE = re.compile("MapIn|MapPartitions|FlatMap|Generate|Python")
# Relations for which Spark uses the size of the files as that of their rows.
_COLUMNAR = re.compile(r"^Relation .*\] (parquet|orc)$")
#: Estimated ratio of the size of rows to that of compressed and encoded Parquet and ORC files.
COLUMNAR_RATIO = 3


class _Node(NamedTuple):
    depth: int
    text: str
    nbytes: float


def plan_bytes(df: DataFrame) -> int | None:
    """Return the approximate size of the rows of a DataFrame. None: Spark does not know it.

    No job is run.
    """
    try:
        return _estimated(_explained(df))
    except PySparkException:
        return None


def _explained(df: Any) -> str:
    """Return the output of `df.explain("cost")`."""
    if hasattr(df, "_explain_string"):  # Spark Connect
        return str(df._explain_string(mode="cost"))
    explain = df.sparkSession.sparkContext._jvm.PythonSQLUtils.explainString
    return str(explain(df._jdf.queryExecution(), "cost"))


def _estimated(text: str) -> int | None:
    """Return the size in an optimized plan with statistics.

    >>> _estimated('''== Optimized Logical Plan ==
    ... Project [id#2L], Statistics(sizeInBytes=2.5 KiB)
    ... +- Relation [id#2L,s#3] parquet, Statistics(sizeInBytes=6.0 KiB)
    ... ''')
    7680
    """
    plan = text.partition("== Physical Plan ==")[0]
    nodes = [
        _Node(len(one["depth"]), one["node"], float(one["size"]) * _UNITS.get(one["unit"], 1))
        for one in map(_LINE.match, plan.splitlines())
        if one is not None
    ]
    leaves = [
        one
        for one, after in zip(nodes, [*nodes[1:], None], strict=True)
        if after is None or after.depth <= one.depth
    ]
    if not leaves or any(one.nbytes >= _UNKNOWN for one in leaves):
        return None
    if any(_MADE.match(one.text) for one in nodes):
        return None
    ratio = COLUMNAR_RATIO if any(_COLUMNAR.match(one.text) for one in leaves) else 1
    # Spark estimates the rows of a join as the product of its sides.
    known = sum(one.nbytes for one in leaves)
    return int(ratio * (nodes[0].nbytes if len(leaves) == 1 else min(nodes[0].nbytes, known)))
