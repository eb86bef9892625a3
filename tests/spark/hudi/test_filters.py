"""Filters as Spark pushes them: no row is left out that Spark would keep, and files are.

The oracle is what each filter means to Spark, row by row, in Python; there is no session. What
Spark itself makes of conditions is in `test_read` and `test_statistics`.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lookupstore.hudi import HudiTable
from lookupstore.hudi.options import DATA_SKIPPING
from lookupstore.hudi.read.scan_plan import plan_scan
from lookupstore.spark.hudi.filters import arrow_filter
from lookupstore.spark.hudi.read import planned_read, spark_columns

pytest.importorskip("pyspark.sql.datasource")

from pyspark.sql import datasource

from lookupstore.spark.hudi import source
from lookupstore.spark.hudi.source import planned_scan

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not hasattr(datasource, "EqualTo"), reason="filters come since Spark 4.1"),
]

SCHEMA = pa.schema(
    {
        "id": pa.int32(),
        "part": pa.string(),
        "big": pa.int64(),
        "yes": pa.bool_(),
        "x": pa.float64(),
        "narrow": pa.float32(),
        "price": pa.decimal128(9, 2),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "ms": pa.timestamp("ms", "UTC"),
        "text": pa.string(),
        "raw": pa.binary(),
    }
)
FIRST = datetime(2026, 3, 1)


def value_of(name: str, number: int) -> Any:
    """Return a value of a column; those of greater numbers are greater, but of a bool."""
    moment = FIRST + timedelta(hours=number)
    return {
        "id": number,
        "part": f"p{number // 200}",
        "big": number << 33,
        "yes": number > 300,
        "x": [number / 8, -0.0][number == 0],
        "narrow": number / 8,
        "price": Decimal(number) / 4,
        "day": date(2026, 3, 1) + timedelta(days=number),
        "at": moment.replace(tzinfo=timezone.utc),
        "ms": moment.replace(tzinfo=timezone.utc, microsecond=number % 2 * 1000),
        "text": f"é{number:04}",
        "raw": number.to_bytes(3, "big"),
    }[name]


def made(path: Path, rng: random.Random) -> HudiTable:
    """Make a table of files that each have some range of every column, nulls and NaN in a few."""
    table = HudiTable.create(path, SCHEMA, record_key="id", partition_by="part")
    for start in range(0, 600, 50):
        rows = [
            {name: value_of(name, number) for name in SCHEMA.names}
            for number in range(start, start + 50)
        ]
        for name in SCHEMA.names[2:]:
            if rng.random() < 0.3:
                rows[rng.randrange(50)][name] = None
        for name in ("x", "narrow"):
            if rng.random() < 0.3:
                rows[rng.randrange(50)][name] = math.nan
        table.bulk_insert(pa.Table.from_pylist(rows, SCHEMA))
    table.collect_statistics()
    return table


def order(value: Any) -> Any:
    """Return what Spark orders values by: NaN after all numbers, texts by their bytes."""
    if isinstance(value, float):
        return math.isnan(value), 0 if math.isnan(value) else value
    return value.encode() if isinstance(value, str) else value


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda one, other: one == other,
    "GreaterThan": lambda one, other: one > other,
    "GreaterThanOrEqual": lambda one, other: one >= other,
    "LessThan": lambda one, other: one < other,
    "LessThanOrEqual": lambda one, other: one <= other,
}


def is_kept(given: Any, row: dict[str, Any]) -> bool | None:
    """Return what a filter is of a row to Spark: true, false or null."""
    kind = type(given).__name__
    if kind == "Not":
        found = is_kept(given.child, row)
        return None if found is None else not found
    value, asked = row[given.attribute[0]], getattr(given, "value", None)
    if kind in ("IsNull", "IsNotNull"):
        return (value is None) == (kind == "IsNull")
    if kind == "EqualNullSafe":
        return value is asked or (None not in (value, asked) and order(value) == order(asked))
    if value is None:
        return None
    if kind == "In":
        is_in = any(order(value) == order(one) for one in asked if one is not None)
        return is_in or (None if None in asked else False)
    if kind.startswith("String"):
        does = {"StringStartsWith": str.startswith, "StringEndsWith": str.endswith,
                "StringContains": str.__contains__}[kind]  # fmt: skip
        return does(value, asked)
    return COMPARED[kind](order(value), order(asked))


def some_filter(rng: random.Random) -> Any:
    name = rng.choice(SCHEMA.names)
    kind = rng.choice([*COMPARED, "EqualNullSafe", "In", "IsNull", "IsNotNull", "StringStartsWith",
                       "StringEndsWith", "StringContains"])  # fmt: skip

    def value() -> Any:
        is_float = name in ("x", "narrow")
        if name == "ms" and rng.random() < 0.3:  # between two values of the column
            return value_of("at", rng.randrange(600)) + timedelta(microseconds=500)
        if is_float and rng.random() < 0.2:
            return rng.choice([math.nan, 0.0, math.inf])
        return value_of(name, rng.randrange(600))

    if kind.startswith("String"):
        text = rng.choice(["é", "é03", "é0317", "17", "", "x"])
        given = getattr(datasource, kind)(("text",), text)
    elif kind in ("IsNull", "IsNotNull"):
        given = getattr(datasource, kind)((name,))
    elif kind == "In":
        given = datasource.In((name,), [value() for _ in range(rng.randrange(1, 5))])
        if rng.random() < 0.3:
            given.value.append(None)
    elif kind == "EqualNullSafe" and rng.random() < 0.2:
        given = datasource.EqualNullSafe((name,), None)
    else:
        given = getattr(datasource, kind)((name,), value())
    return datasource.Not(given) if rng.random() < 0.35 else given


def is_odd(value: Any) -> bool:
    """Return whether a value is none that bounds are compared with."""
    if isinstance(value, datetime):
        return value.microsecond % 1000 > 0
    return isinstance(value, float) and math.isnan(value)


def test_no_row_is_lost_to_a_filter_of_any_kind(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    table = made(tmp_path / "t", rng)
    plan = plan_scan(table.view(), SCHEMA.names)
    rows = plan.table().to_pylist()
    skipped: Counter[str] = Counter()
    for _ in range(300):
        given = some_filter(rng)
        where = arrow_filter(plan.schema, given)
        inner = given.child if type(given).__name__ == "Not" else given
        kind = type(inner).__name__
        column = plan.schema.field(inner.attribute[0]).type
        if where is None:
            # What has no bounds, and values that the column cannot have.
            values = getattr(inner, "value", None)
            values = values if isinstance(values, list) else [values]
            assert kind in ("StringEndsWith", "StringContains") or any(map(is_odd, values)), given
            continue
        left = plan.narrowed(where)
        found = Counter(repr(row) for row in left.table().to_pylist())
        expected = Counter(repr(row) for row in rows if is_kept(given, row))
        assert expected <= found, given
        extra = sum((found - expected).values())
        # A list with a null that is negated leaves nothing: Spark does not push it.
        asked = getattr(inner, "value", None)
        if not (isinstance(asked, list) and None in asked):
            assert extra <= sum(row[inner.attribute[0]] is None for row in rows), given
        if len(left.files) < len(plan.files):
            skipped[kind] += 1
            skipped[str(column)] += 1
    kinds = [*COMPARED, "EqualNullSafe", "In", "StringStartsWith", "IsNull"]
    assert {*kinds, *(str(one.type) for one in SCHEMA)} <= set(skipped), skipped


def test_filters_that_nobody_knows() -> None:
    schema = pa.schema({"many": pa.list_(pa.int32()), "narrow": pa.float32(), "ms": pa.timestamp(
        "ms", "UTC"), "s": pa.string()})  # fmt: skip
    unknown = [
        datasource.EqualTo(("many",), [1]),
        datasource.EqualTo(("narrow",), 0.1),  # no number of this width
        datasource.EqualTo(("ms",), FIRST),  # of no zone
        datasource.EqualTo(("ms",), FIRST.replace(microsecond=1, tzinfo=timezone.utc)),
        datasource.EqualTo(("no",), 1),
        datasource.EqualTo(("s", "t"), 1),
        datasource.In(("narrow",), [0.5, 0.1]),
        datasource.StringStartsWith(("many",), "x"),
    ]
    for one in unknown:
        assert arrow_filter(schema, one) is None
        assert arrow_filter(schema, datasource.Not(one)) is None


def test_skipping_is_turned_off_by_an_option(tmp_path: Path, seed: int) -> None:
    table = made(tmp_path / "t", random.Random(seed))
    where = pc.field("id") < 10
    files = len(table.file_groups())
    for name in ("skipping", DATA_SKIPPING):
        for value in ("true", "False"):
            plan = planned_scan({"path": str(tmp_path / "t"), name: value}).filtered(where)
            assert (plan.funnel.statistics.count == plan.funnel.partitions.count) == (
                value == "False"
            )
            assert plan.funnel.files.count == files
        with pytest.raises(ValueError, match=f"{name} is 'no'; give true or false"):
            planned_scan({"path": str(tmp_path / "t"), name: "no"})
    plan = planned_read(table.view(), filter=where, skipping=False)
    assert len(plan.files) == plan.funnel.partitions.count


@pytest.mark.parametrize("separate", [True, False])
def test_what_is_not_pushed_is_said_once(
    tmp_path: Path,
    seed: int,
    separate: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where Spark can tell scans of one DataFrame apart, `where` prunes without an option."""
    made(tmp_path / "t", random.Random(seed))
    monkeypatch.setattr(source, "SCANS_ARE_SEPARATE", separate)
    source._say_that_nothing_is_pushed.cache_clear()
    options = {"path": str(tmp_path / "t")}
    plan = planned_scan(options)
    columns = spark_columns(plan.wanted)
    readers = [source.reader_of(options, columns, plan) for _ in range(3)]
    assert {isinstance(one, source.PushingHudiReader) for one in readers} == {separate}
    said = [one for one in caplog.messages if "read all of its files" in one]
    assert len(said) == (0 if separate else 1)
    assert separate or "read_table(spark, path, filter=" in said[0]
    if separate:
        files = sum(len(one.files) for one in readers[0].partitions())
        readers[0].pushFilters([datasource.LessThan(("id",), 10)])
        assert sum(len(one.files) for one in readers[0].partitions()) < files
    source.reader_of({**options, "pushdown": "false"}, columns, plan)
    assert len([one for one in caplog.messages if "read all of its files" in one]) == len(said)
