"""Joins with one version of a store or a table, whatever is published later."""

from __future__ import annotations

import time
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.spark import (
    LookupJoin,
    build_store,
    explain_join,
    lookup_join,
    lookup_joins,
    register_lookup,
)

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("fastavro")
from support.changing_tables import CHANGES, DeltaChanges

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


def rows_of(joined: DataFrame) -> dict[int, int | None]:
    return {row.id: row.v for row in joined.select("id", "v").collect()}


def timed(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def published(path: Path) -> list[datetime]:
    """Publish two versions of a store, and return a time at which each was current."""
    times = []
    for version in (1, 2):
        rows = pa.table({"id": range(3), "v": [version] * 3})
        lookupstore.build(rows, path, key="id", overwrite=True).close()
        time.sleep(0.01)
        times.append(datetime.now(timezone.utc))
        time.sleep(0.01)
    return times


def test_a_store(spark: SparkSession, tmp_path: Path) -> None:
    facts, path = spark.range(2), tmp_path / "s"
    times = published(path)
    for number, moment in enumerate(times, 1):
        expected = dict.fromkeys(range(2), number)
        for pin in ({"version": number}, {"as_of": moment}, {"as_of": moment.isoformat()}):
            assert rows_of(lookup_join(facts, path, "id", **pin)) == expected
            said = explain_join(facts, path, "id", **pin, residents=False)
            assert (said.version, said.versions) == (number, (number,))
            assert said.refresh.startswith("never")
            joined = lookup_joins(facts, [LookupJoin(str(path), "id", refresh="never", **pin)])
            assert rows_of(joined) == expected
    lookup_join(facts, path, "id", version=1, max_staleness="1h").collect()
    with pytest.raises(ValueError, match=r"as_of is .*had no version yet; give a later time"):
        lookup_join(facts, path, "id", as_of=times[0] - timedelta(days=1))
    with pytest.raises(FileNotFoundError, match="no version 9; the store has 1, 2"):
        lookup_join(facts, path, "id", version=9)
    with pytest.raises(FileNotFoundError, match="nothing"):
        lookup_join(facts, tmp_path / "nothing", "id", as_of=times[0])


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_table(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table, facts = CHANGES[name](tmp_path), spark.range(2)
    commits = []
    for number in (1, 2):
        table.commit({0: number, 1: number})
        commits.append(table.latest())
        time.sleep(0.02)
    for value, (moment, number) in enumerate(commits, 1):
        for pin in ({"version": number}, {"as_of": timed(moment + 0.005)}):
            assert rows_of(lookup_join(facts, table.given, "id", **pin)) == {0: value, 1: value}
        said = explain_join(facts, table.given, "id", version=number)
        assert (said.format.lower(), said.version) == (f"{name} table", number)
        assert datetime.fromisoformat(said.created or "").timestamp() == pytest.approx(
            moment, abs=0.01
        )
    with pytest.raises(ValueError, match="version is 77, but the"):
        lookup_join(facts, table.given, "id", version=77)


def test_a_hudi_table_by_its_instants(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": range(3), "v": [0] * 3})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id")
    instants = []
    for number in (1, 2):
        found = table.upsert(pa.table({"id": range(3), "v": [number] * 3})).instant
        assert found is not None
        instants.append(found)
    facts = spark.range(2)
    for number, instant in enumerate(instants, 1):
        for store in (table, str(tmp_path / "t")):
            joined = lookup_join(facts, store, "id", as_of=instant.time)
            assert rows_of(joined) == dict.fromkeys(range(2), number)
        said = explain_join(facts, table, "id", as_of=instant.time)
        assert (said.format, said.version) == ("Hudi table", instant.position)
        assert f", commit {instant.position}\n" in str(said)
        with build_store(
            tmp_path / "t", tmp_path / f"s{number}", key="id", as_of=instant.time, spark=spark
        ) as built:
            assert built.lookup([0, 1])["v"].to_pylist() == [number] * 2
    for call in (
        lambda: lookup_join(facts, table, "id", version=1),
        lambda: build_store(tmp_path / "t", tmp_path / "s", key="id", version=1, spark=spark),
    ):
        with pytest.raises(ValueError, match="is a Hudi table, whose commits have times; give the"):
            call()


def test_newer_versions_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    facts, path = spark.range(2), tmp_path / "s"
    times = published(path)
    for refresh in ("per_batch", 60):
        with pytest.raises(ValueError, match=r"newer versions, but version chooses one; leave one"):
            lookup_join(facts, path, "id", version=1, refresh=refresh)
    with pytest.raises(ValueError, match="but as_of chooses one"):
        assert LookupJoin(path, "id", as_of=times[0], refresh="per_batch").freshness
    with pytest.raises(ValueError, match=r"on_miss is 'retry'.*but version chooses one"):
        lookup_join(facts, path, "id", version=1, on_miss=("retry", 1, 0.1))
    with pytest.raises(ValueError, match="version and as_of both choose"):
        lookup_join(facts, path, "id", version=1, as_of=times[0])
    with pytest.raises(TypeError, match="as_of is 1; give a time, or a number as version"):
        lookup_join(facts, path, "id", as_of=1)  # type: ignore[arg-type]
    pq.write_table(pa.table({"id": [1], "v": [1]}), tmp_path / "f.parquet")
    table = HudiTable.create(tmp_path / "t", pa.table({"id": [1]}), record_key="id")
    opened: list[Any] = [
        lookupstore.open(path), ColumnarFiles(tmp_path / "f.parquet", key="id"),
        TableLookup(table.location),
    ]  # fmt: skip
    for one in opened:
        what = rf"as_of is given, but store is an open {type(one).__name__}; open it with as_of"
        if isinstance(one, ColumnarFiles):
            what = (
                r"as_of is given, but .*/f\.parquet names files, which have no versions; leave it"
            )
        with pytest.raises(ValueError, match=what):
            lookup_join(facts, one, "id", as_of=times[0])
        one.close()
    with pytest.raises(ValueError, match="names files, which have no versions; leave it out"):
        lookup_join(facts, tmp_path / "f.parquet", "id", version=1)


def test_a_stream_stays_at_the_version_without_a_warning(
    spark: SparkSession, tmp_path: Path
) -> None:
    published(tmp_path / "s")
    (tmp_path / "facts").mkdir()
    pq.write_table(pa.table({"id": [0, 1]}), tmp_path / "facts" / "1.parquet")
    stream = spark.readStream.schema("id long").parquet(f"file://{tmp_path}/facts")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        joined = lookup_join(stream, tmp_path / "s", "id", version=1)
    found: list[Any] = []
    query = (
        joined.writeStream.foreachBatch(lambda df, _: found.extend(df.collect()))
        .option("checkpointLocation", f"file://{tmp_path}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert {row.id: row.v for row in found} == {0: 1, 1: 1}


def test_sources_of_a_build_without_versions(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "v": [1]}), tmp_path / "f.parquet")

    def built(source: Any, **pin: Any) -> None:
        build_store(source, tmp_path / "s", key="id", spark=spark, **pin)

    with pytest.raises(ValueError, match="version is given, but df_or_path is a DataFrame; read"):
        built(spark.range(2), version=1)
    with pytest.raises(ValueError, match=r"as_of is given, but .* names files"):
        built(tmp_path / "f.parquet", as_of="2026-01-01")
    assert not (tmp_path / "s").exists()


def test_a_function_of_one_version(spark: SparkSession, tmp_path: Path) -> None:
    """Of a store, of a table with numbers, and of a Hudi table, which has instants."""
    path, facts = tmp_path / "s", spark.range(2)
    times = published(path)
    delta, hudi = DeltaChanges(tmp_path), tmp_path / "h"
    table = HudiTable.create(hudi, pa.table({"id": [0], "v": [0]}), record_key="id")
    pins: list[tuple[Any, dict[str, Any]]] = []
    for number, moment in enumerate(times, 1):
        delta.commit({0: number, 1: number})
        instant = table.upsert(pa.table({"id": [0, 1], "v": [number] * 2})).instant
        assert instant is not None
        pins += [
            (path, {"version": number}), (str(path), {"as_of": moment}),
            (delta.given, {"version": delta.latest()[1]}), (str(hudi), {"as_of": instant.time}),
        ]  # fmt: skip
    for at, (given, pin) in enumerate(pins):
        key = None if given in (path, str(path), str(hudi)) else "id"
        function = register_lookup(spark, f"pinned{at}", given, key=key, **pin)
        found = facts.select("id", function("id").v.alias("v")).collect()
        assert {row.id: row.v for row in found} == dict.fromkeys(range(2), 1 + at // 4)
    for given, pin, said in (
        (path, {"version": 1, "as_of": times[0]}, "version and as_of both choose"),
        (lookupstore.open(path), {"version": 1}, "version is given, but store is an open Lookup"),
        (path, {"as_of": times[0] - timedelta(days=1)}, "had no version yet; give a later time"),
        (hudi, {"version": 1}, "is a Hudi table, whose commits have times"),
    ):
        with pytest.raises(ValueError, match=said):
            register_lookup(spark, "never", given, **pin)
