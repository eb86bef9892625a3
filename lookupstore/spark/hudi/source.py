"""The reader of ``spark.read.format("lookupstore.hudi")``: the files of a plan, read by tasks.

Spark asks for partitions on the driver, in a Python process of its own, and reads each of them in a
worker of an executor. Both use the plan that was made with the DataFrame.
"""

from __future__ import annotations

import functools
import logging
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyspark
from pyspark.sql import datasource
from pyspark.sql.types import StructType

from lookupstore.hudi import FileSlice, HudiTable
from lookupstore.hudi.options import DATA_SKIPPING, SNAPSHOT
from lookupstore.hudi.read import ScanPlan
from lookupstore.hudi.write import read_arguments, told_apart
from lookupstore.spark.hudi.filters import arrow_filter
from lookupstore.spark.hudi.read import part_rows, planned_read, spark_columns
from lookupstore.spark.options import (
    SCANS_ARE_SEPARATE,
    given_location,
    given_names,
    unknown_option_error,
)
from lookupstore.spark.types import arrow_schema

_log = logging.getLogger(__name__)

# Names of `as_of` in Hudi's own format and in Spark.
AS_OF_OF_JAVA = "as.of.instant"
AS_OF_OF_SPARK = "timestampAsOf"
READ_OPTIONS = (
    "path",
    "columns",
    "query_type",
    "as_of",
    AS_OF_OF_JAVA,
    AS_OF_OF_SPARK,
    "since",
    "until",
    "pushdown",
    "skipping",
    DATA_SKIPPING,
    "storage_options",
)
# Maximum size of the files that one task reads, if there are several, in bytes: less than Spark's
# own, since a source does not know how many tasks run at a time.
_TASK_BYTES = 32 << 20


def planned_scan(options: Mapping[str, str]) -> ScanPlan:
    """Plan the read that options describe.

    Raises the errors of `read_table`, and ValueError if an option is unknown.
    """
    return _planned(options, given_names(options, "columns"))


def reader_of(
    options: Mapping[str, str], schema: StructType, pinned: ScanPlan | None
) -> datasource.DataSourceReader:
    """Return a reader of the columns of `schema`, with an earlier plan if there is one.

    Raises:
        KeyError: If the table lacks a column.
        TypeError: If a column has another type than in the table.
        ValueError: If an option is unknown or has a bad value.
    """
    if pinned is None:
        plan = _planned(options, schema.names)
    else:
        plan = replace(pinned, columns=tuple(schema.names))
    for given, right in zip(schema, spark_columns(plan.wanted), strict=True):
        if given.dataType != right.dataType:
            raise TypeError(
                f"schema: the column {given.name!r} is {given.dataType.simpleString()}; "
                f"in the table it is {right.dataType.simpleString()}"
            )
    scan = HudiScan(plan, arrow_schema(schema))
    asked = read_options(options)
    if "pushdown" not in asked and not SCANS_ARE_SEPARATE and len(plan.files) > 1:
        _say_that_nothing_is_pushed(pyspark.__version__)
    pushes = asked.get("pushdown", str(SCANS_ARE_SEPARATE)).lower()
    return PushingHudiReader(scan) if pushes == "true" else HudiReader(scan)


@functools.lru_cache(maxsize=1)
def _say_that_nothing_is_pushed(version: str) -> None:
    """Say that filters skip no files, the first time in a process."""
    _log.warning(
        "lookupstore.hudi: with Spark %s, where() and filter() of a loaded table read all of its "
        "files: this Spark keeps the filters of one scan for the next. To skip partitions and "
        "files, use lookupstore.spark.read_table(spark, path, filter=...), or the option "
        "pushdown=true and one load() per filter; pushdown=false ends this message",
        version,
    )


@dataclass(frozen=True)
class HudiScan:
    """The plan of a read, and its columns in Spark's types."""

    plan: ScanPlan
    schema: pa.Schema


@dataclass
class SlicesPartition(datasource.InputPartition):
    """The files that one task reads."""

    files: tuple[FileSlice, ...]


class HudiReader(datasource.DataSourceReader):
    """A reader of the rows of a scan."""

    def __init__(self, scan: HudiScan) -> None:
        self.scan: HudiScan = scan

    def partitions(self) -> Sequence[datasource.InputPartition]:
        """Return a partition for each file, or for several small ones."""
        return [SlicesPartition(files) for files in self.scan.plan.parts(_TASK_BYTES)]

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition; see `ScanPlan.batches`."""
        if isinstance(partition, SlicesPartition):  # other objects have no files
            yield from part_rows(self.scan.plan, partition.files, self.scan.schema)


class PushingHudiReader(HudiReader):
    """A reader that skips files and row groups in which filters leave nothing."""

    def pushFilters(  # noqa: N802  (the name is Spark's)
        self, filters: list[datasource.Filter]
    ) -> Iterable[datasource.Filter]:
        """Use filters on files and row groups; Spark checks rows with all of them."""
        plan = self.scan.plan
        known = [arrow_filter(plan.schema, one) for one in filters]
        wanted = [one for one in known if one is not None]
        if wanted:
            plan = plan.narrowed(functools.reduce(operator.and_, wanted))
        self.scan: HudiScan = replace(self.scan, plan=plan)
        return filters


def _planned(options: Mapping[str, str], columns: Sequence[str] | None) -> ScanPlan:
    """Check the names of options, and plan the read that they describe."""
    ours = read_options(options)
    location = given_location(ours, "load() the folder or URI of a Hudi table")
    table = HudiTable.open(location, query_type=ours.get("query_type", SNAPSHOT))
    times = {name: ours.get(name) for name in ("as_of", "since", "until")}
    return planned_read(table.view(), columns, **times, skipping=_flag(ours, "skipping"))


def read_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read, also those of Hudi, under the names of lookupstore.

    Raises:
        ValueError: If an option is unknown or has a bad value, or two contradict each other.
    """
    hudi, ours = told_apart(options)
    # Spark passes the names of options in lower case.
    unknown = sorted(set(ours) - {name.lower() for name in READ_OPTIONS})
    if "versionasof" in unknown:
        raise ValueError(
            f"versionAsOf is given, but commits of Hudi tables have times; give {AS_OF_OF_SPARK}, "
            "an instant or a time"
        )
    if unknown:
        raise unknown_option_error(
            unknown[0], (*READ_OPTIONS, "and hoodie.*"), "reading a Hudi table"
        )
    for name in ("pushdown", "skipping"):
        _flag(ours, name)
    for name in (AS_OF_OF_JAVA, AS_OF_OF_SPARK):
        if name.lower() in ours:
            if "as_of" in ours:
                raise ValueError(
                    f"as_of, {AS_OF_OF_JAVA} and {AS_OF_OF_SPARK} are one option; give one of them"
                )
            ours["as_of"] = ours.pop(name.lower())
    for name, value in read_arguments(hudi).items():
        text = value if isinstance(value, str) else str(value).lower()
        if ours.setdefault(name, text).lower() != text:
            raise ValueError(
                f"{name} is {ours[name]!r}, but options under Hudi's names say {text!r}; "
                "give one of them"
            )
    return ours


def _flag(options: Mapping[str, str], name: str) -> bool:
    """Return whether an option is true; a missing option counts as true."""
    given = options.get(name, "true")
    if given.lower() not in ("true", "false"):
        raise ValueError(f"{name} is {given!r}; give true or false")
    return given.lower() == "true"
