"""A Hudi table as the source of a stream: each change once, or an error that says what to do.

The oracles are what each commit was given, hudi-rs, and the table itself.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.hudi.oracle import other_incremental
from support.hudi.spark_rows import SCHEMA, Row, local_rows, make, values
from support.hudi.versions import VERSIONS

import lookupstore.spark
from lookupstore.errors import FormatError, StaleStoreError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.options import META_FOLDER
from lookupstore.hudi.read import positions_after
from lookupstore.hudi.write.transaction import begun

pytest.importorskip("pyspark.sql.datasource", reason="sources came with Spark 4.0")

from lookupstore.hudi.timeline.commit import CommitMetadata
from lookupstore.spark.hudi import changes
from lookupstore.spark.hudi.format import HudiSource

needs_limits = pytest.mark.skipif(
    changes.ReadMaxFiles is None, reason="limits of streams came with Spark 4.2"
)
pytestmark = [
    pytest.mark.spark,
    # PySpark 4.0 leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

FORMAT = "lookupstore.hudi"
Take = Callable[[int, list[Row]], None]


def follow(spark: SparkSession, path: Path, take: Take, checkpoint: Path, **options: Any) -> None:
    """Run a query until it has taken what there is."""

    def write(df: DataFrame, batch: int) -> None:
        take(batch, [tuple(row) for row in df.select(*SCHEMA.names).collect()])

    stream = spark.readStream.format(FORMAT).options(**options).load(str(path))
    query = (
        stream.writeStream.foreachBatch(write)
        .option("checkpointLocation", f"file://{checkpoint}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)


def reader(path: Path, **options: Any) -> changes.ChangesReader:
    given = {"path": str(path)} | {name: str(one) for name, one in options.items()}
    source = HudiSource(given)
    found = source.streamReader(source.schema())
    assert isinstance(found, changes.ChangesReader)
    return found


def rows_between(found: changes.ChangesReader, start: Any, end: Any) -> Counter[Row]:
    rows: list[Row] = []
    for part in found.partitions(start, end):
        for batch in found.read(part):
            rows += [tuple(row[name] for name in SCHEMA.names) for row in batch.to_pylist()]
    return Counter(rows)


@pytest.mark.few(1)
@needs_limits
@pytest.mark.parametrize("version", VERSIONS)
def test_each_change_comes_once(
    spark: SparkSession, tmp_path: Path, version: int, seed: int
) -> None:
    rng = random.Random(seed)
    path = tmp_path / "t"
    table = make(path, ordering="ts", version=version)
    given: list[set[Row]] = []
    taken: list[list[Row]] = []
    positions = [""]

    def commit() -> None:
        step = len(given)
        keys = rng.sample([(n, day) for n in range(40) for day in "ab"], 25)
        rows = {(*key, float(step), f"{step}") for key in keys}
        if step % 4 == 3:
            table.delete(local_rows([(*key, 0.0, "") for key in keys]))
            rows = set()
        elif step % 4 == 2:
            table.insert_overwrite(local_rows(sorted(rows)))
        else:
            table.upsert(local_rows(sorted(rows)))
        given.append(rows)
        positions.append(table.timeline()[-1].position)

    def take(batch: int, rows: list[Row]) -> None:
        assert batch == len(taken)
        taken.append(rows)

    def fail(batch: int, rows: list[Row]) -> None:
        seen.append((batch, rows))
        raise RuntimeError("the query dies for a test")

    for _ in range(5):
        commit()
    follow(spark, path, take, tmp_path / "one", max_commits=1)
    assert [set(rows) for rows in taken] == given
    assert all(len(rows) == len(set(rows)) for rows in taken)
    for _ in range(4):
        commit()
    seen: list[tuple[int, list[Row]]] = []
    with pytest.raises(Exception, match="the query dies for a test"):
        follow(spark, path, fail, tmp_path / "one", max_commits=1)
    commit()  # what comes meanwhile is not in the batch that comes again
    follow(spark, path, take, tmp_path / "one", max_commits=1)
    assert [set(rows) for rows in taken] == given
    (again,) = seen
    assert again[0] == 5
    assert set(again[1]) == given[5]
    # Nothing is new.
    follow(spark, path, take, tmp_path / "one", max_commits=1)
    assert len(taken) == len(given)
    # Several commits give each row in its newest state.
    several: list[list[Row]] = []
    follow(spark, path, lambda _, rows: several.append(rows), tmp_path / "few", max_commits=4)
    assert len(several) == 3
    for number, rows in enumerate(several):
        ends = positions[4 * number], positions[min(4 * number + 4, len(given))]
        theirs = other_incremental(path, *ends) if ends[0] else None
        if theirs is not None:
            assert set(rows) == {
                tuple(one[name] for name in SCHEMA.names) for one in theirs.to_pylist()
            }
    # Without a limit one batch is the rows that are there.
    whole: list[list[Row]] = []
    follow(spark, path, lambda _, rows: whole.append(rows), tmp_path / "all")
    (rows,) = whole
    assert {row[:2]: row[2:] for row in rows} == values(path)
    late: list[list[Row]] = []
    start = positions[-2]
    follow(spark, path, lambda _, rows: late.append(rows), tmp_path / "late", start=start)
    assert list(map(set, late)) == ([given[-1]] if given[-1] else [set()])


def test_columns_and_where_a_query_begins(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path)
    latest = reader(path, start="latest")
    assert latest.latestOffset(latest.initialOffset()) == latest.initialOffset() == {"position": ""}
    for step in range(3):
        table.insert(local_rows([(step, "a", 1.0, f"{step}")]))
    first = latest.latestOffset(latest.initialOffset())
    assert rows_between(latest, {"position": ""}, first) == Counter(values_of(table))
    assert reader(path, start="latest").initialOffset() == first
    assert reader(path, start=first["position"]).initialOffset() == first
    assert latest.partitions(first, first) == []
    read = spark.readStream.format(FORMAT).option("columns", "value,_hoodie_commit_time")
    assert read.option("start", "latest").load(str(path)).columns == [
        "value",
        "_hoodie_commit_time",
    ]


def values_of(table: HudiTable) -> list[Row]:
    return [tuple(one.values()) for one in table.scan(columns=SCHEMA.names).to_pylist()]


class GivesUpError(Exception):
    """Raised by a writer that leaves its instant."""


def test_nothing_is_passed_over_that_is_pending(tmp_path: Path) -> None:
    for version in (6, 9):
        path = tmp_path / f"{version}"
        table = make(path, version=version)
        table.insert(local_rows([(0, "a", 1.0, "first")]))
        found = reader(path)
        known = found.latestOffset({"position": ""})
        view = table.writable(WriteOptions())
        with (
            suppress(GivesUpError),
            begun(view, "INSERT", CommitMetadata(operation="INSERT"), replaces=False),
        ):
            # It was requested before this one, which is complete before it.
            table.insert(local_rows([(1, "b", 1.0, "second")]))
            offset = found.latestOffset(known)
            assert (offset == known) == (version == 6)
            assert len(positions_after(table.view(), None)) == (1 if version == 6 else 2)
            raise GivesUpError
        offset = found.latestOffset(known)
        assert rows_between(found, known, offset) == Counter([(1, "b", 1.0, "second")])


def test_what_is_not_there_any_more(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path)
    for step in range(6):
        table.upsert(local_rows([(1, "a", float(step), f"{step}"), (step, "b", 1.0, "x")]))
    positions = positions_after(table.view(), None)
    remedy = rf"option\('start', '{positions[-1]}'\) and another checkpoint"
    found = reader(path)
    table.clean(retain_commits=1)
    (part,) = found.partitions({"position": positions[0]}, {"position": positions[1]})[:1]
    with pytest.raises(StaleStoreError, match=remedy):
        list(found.read(part))
    table.archive(min_commits=2, max_commits=2)
    with pytest.raises(StaleStoreError, match=f"archived.*{remedy}"):
        found.partitions({"position": positions[1]}, {"position": positions[5]})
    # From the newest archived commit on, it is not known what rows were.
    images = reader(path, changes="true")
    with pytest.raises(StaleStoreError, match=f"archived.*{remedy}"):
        images.partitions({"position": positions[3]}, {"position": positions[5]})
    with pytest.raises(StaleStoreError, match="archived"):
        lookupstore.spark.read_table(spark, str(path), since=positions[3], changes=True)
    with pytest.raises(PySparkException, match=remedy):
        follow(spark, path, lambda *_: None, tmp_path / "checkpoint")
    # The remedy.
    begun_anew: list[list[Row]] = []

    def take(batch: int, rows: list[Row]) -> None:
        begun_anew.append(rows)

    table.upsert(local_rows([(1, "a", 9.0, "new")]))
    follow(spark, path, take, tmp_path / "anew", start=positions[-1])
    assert begun_anew == [[(1, "a", 9.0, "new")]]


def test_errors_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(path)
    table.insert(local_rows([(1, "a", 1.0, "x")]))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"since": "1"}, "no option 'since'; a stream of a Hudi table has path, columns, start"),
        ({"maxcommits": 1}, r"'maxcommits'; did you mean 'max_commits'\? A stream of a Hudi"),
        ({"start": "soon"}, "start is 'soon'; give earliest, latest, or the position"),
        ({"max_commits": 0}, "max_commits is 0; give at least 1"),
        ({"max_commits": "x"}, "max_commits is 'x'; give a whole number"),
    ]
    schema = spark.read.format(FORMAT).load(str(path)).schema
    for options, text in refused:
        source = HudiSource({"path": str(path)} | {k: str(v) for k, v in options.items()})
        with pytest.raises(ValueError, match=text):
            source.streamReader(schema)
    with pytest.raises(PySparkException, match="no option 'start'; reading a Hudi table has"):
        spark.read.format(FORMAT).option("start", "latest").load(str(path)).collect()
    # A column that was widened.
    found = reader(path)
    start = found.latestOffset({"position": ""})
    wider = pa.table({"id": pa.array([2], pa.int64()), "day": ["a"], "ts": [1.0], "value": ["y"]})
    table.upsert(wider, options=WriteOptions(evolve=True))
    end = found.latestOffset(start)
    with pytest.raises(TypeError, match="'id' was int when the query started, and is bigint; star"):
        found.partitions(start, end)
    assert rows_between(reader(path), start, end) == Counter([(2, "a", 1.0, "y")])


def test_merge_on_read_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(path)
    (properties,) = (path / META_FOLDER).glob("*.properties")
    text = properties.read_text().replace("COPY_ON_WRITE", "MERGE_ON_READ")
    kept = [one for one in text.splitlines(keepends=True) if "checksum" not in one]
    properties.write_text("".join(kept))
    with pytest.raises(FormatError, match="MERGE_ON_READ"):
        reader(path, start="latest")


def became(before: dict[Any, Any], after: dict[Any, Any]) -> Counter[tuple[Any, ...]]:
    """Compare two states of a table in full: what a batch of changes has to say."""
    said: Counter[tuple[Any, ...]] = Counter()
    for key in {*before, *after}:
        if before.get(key) == after.get(key):
            continue
        if key not in before:
            said[("insert", *key, *after[key])] += 1
        elif key not in after:
            said[("delete", *key, *before[key])] += 1
        else:
            said[("update_before", *key, *before[key])] += 1
            said[("update_after", *key, *after[key])] += 1
    return said


@pytest.mark.long
@needs_limits
@pytest.mark.parametrize("version", VERSIONS)
def test_what_became_of_rows_comes_once(
    spark: SparkSession, tmp_path: Path, version: int, seed: int
) -> None:
    """Each batch is a full comparison of the table at its two ends, also after a restart."""
    rng = random.Random(seed)
    path = tmp_path / "t"
    table = make(path, ordering="ts", version=version)
    states: list[dict[Any, Any]] = [{}]
    taken: list[Counter[tuple[Any, ...]]] = []

    def commit() -> None:
        keys = rng.sample([(n, day) for n in range(30) for day in "ab"], 20)
        rows = local_rows([(*key, float(rng.randrange(2)), f"{rng.randrange(3)}") for key in keys])
        verb = rng.choice(["upsert", "upsert", "delete", "insert_overwrite"])
        if verb == "delete" and not states[-1].keys() & set(keys):
            verb = "upsert"  # what deletes nothing
        getattr(table, verb)(rows)
        states.append(values(path))

    def follow_changes(take: Any, checkpoint: str, **options: Any) -> None:
        stream = spark.readStream.format(FORMAT).option("changes", True).options(**options)
        query = (
            stream.load(str(path))
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", f"file://{tmp_path}/{checkpoint}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)

    def take(df: DataFrame, batch: int) -> None:
        assert df.columns == ["change", *SCHEMA.names]
        assert batch == len(taken)
        taken.append(Counter(map(tuple, df.collect())))

    def fail(df: DataFrame, batch: int) -> None:
        seen.append(Counter(map(tuple, df.collect())))
        raise RuntimeError("the query dies for a test")

    for _ in range(4):
        commit()
    follow_changes(take, "one", max_commits=1)
    seen: list[Counter[tuple[Any, ...]]] = []
    for _ in range(3):
        commit()
    with pytest.raises(Exception, match="the query dies for a test"):
        follow_changes(fail, "one", max_commits=2)
    commit()  # what comes meanwhile is not in the batch that comes again
    follow_changes(take, "one", max_commits=2)
    ends = [0, 1, 2, 3, 4, 6, 8]
    assert taken == [became(states[a], states[b]) for a, b in itertools.pairwise(ends)]
    assert seen == [taken[4]]
    whole: list[Counter[tuple[Any, ...]]] = []
    follow_changes(lambda df, _: whole.append(Counter(map(tuple, df.collect()))), "all")
    assert whole == [became({}, states[-1])]
    # A column in which a change does not count, and columns by name.
    start = table.timeline()[-2].position
    few: list[Counter[tuple[Any, ...]]] = []
    follow_changes(
        lambda df, _: few.append(Counter(map(tuple, df.collect()))),
        "few", start=start, columns="id,day", ignore="value",
    )  # fmt: skip
    told = table.changes(start, columns=["id", "day"], ignore=["value"]).read_all().to_pylist()
    assert few == ([Counter(tuple(row.values()) for row in told)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changes": "maybe"}, "changes is 'maybe'; give true or false"),
        ({"ignore": "value"}, "ignore is for option"),
        ({"changes": True, "ignore": "none"}, "none"),
        ({"changes": True, "columns": "none"}, "none"),
    ],
)
def test_options_of_changes_that_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    make(tmp_path / "t").insert(local_rows([(1, "a", 0.0, "x")]))
    with pytest.raises((ValueError, KeyError), match=message):
        reader(tmp_path / "t", **options)
