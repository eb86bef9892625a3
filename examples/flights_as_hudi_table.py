"""Keep the flights of 2013 as a Hudi table: months inserted, corrections upserted, deletes, joins.

Every step is compared with what Arrow makes of the same flights, with hudi-rs (`pip install hudi`)
where it is installed, and with Spark SQL where there is Spark. The data are those of the demo.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lookupstore
from lookupstore.demo import write_data
from lookupstore.hudi import HudiTable, Instant

# A flight is known by these within its month, which is a folder of the table.
KEY = ["day", "carrier", "flight", "origin"]
ROW = ["month", *KEY]


def main(folder: Path, *, spark: bool) -> None:
    """Make the table below a folder, change it, and read and join it in all ways there are."""
    files = write_data(folder)
    flights = pq.read_table(files["flights"])
    flights = flights.append_column("revision", pa.array([0] * flights.num_rows, pa.int64()))

    table = HudiTable.create(
        folder / "flights",
        flights.schema,
        record_key=KEY,
        partition_by=["month"],
        ordering="revision",
        hive_style=True,
    )
    instants, expected = write(table, flights)
    print(f"{table.location.uri}: {len(table.file_groups())} files after {len(instants)} commits")
    check(table, instants, expected, flights)
    join(table, flights, files, folder)
    if spark:
        check_in_spark(table, files, folder)


def write(table: HudiTable, flights: pa.Table) -> tuple[list[Instant], pa.Table]:
    """Do all writes; return their instants, and the rows that there should be in the end."""
    # Flights of the last day are reported late, those that were diverted without an arrival.
    is_late = pc.and_(pc.equal(flights["month"], 12), pc.equal(flights["day"], 31))
    is_canceled = pc.is_null(flights["dep_time"])
    is_diverted = pc.and_(pc.is_valid(flights["dep_time"]), pc.is_null(flights["arr_delay"]))

    instants = []
    for month in range(1, 13):
        wanted = pc.and_(pc.equal(flights["month"], month), pc.invert(is_late))
        done = table.insert(flights.filter(wanted))
        instants.append(done.instant)
        print(f"month {month}: {done.rows_inserted:,} flights inserted")

    # One upsert changes rows and inserts others; files of months without either stay.
    corrected = flights.set_column(
        flights.schema.get_field_index("arr_delay"),
        "arr_delay",
        pc.if_else(is_diverted, flights["dep_delay"], flights["arr_delay"]),
    )
    corrected = corrected.set_column(
        flights.schema.get_field_index("revision"),
        "revision",
        pc.cast(is_diverted, pa.int64()),
    )
    done = table.upsert(corrected.filter(pc.or_(is_diverted, is_late)))
    instants.append(done.instant)
    print(f"corrections: {done.rows_updated:,} flights changed, {done.rows_inserted:,} new")
    assert done.rows_inserted == pc.sum(is_late).as_py()

    # What comes again in its first revision is older than what is there.
    stale = flights.filter(pc.and_(is_diverted, pc.equal(flights["month"], 7)))
    done = table.upsert(stale)
    instants.append(done.instant)
    print(f"the first reports of {stale.num_rows:,} of them again: {done.rows_updated:,} changed")
    assert done.rows_updated == 0

    done = table.delete(flights.filter(is_canceled).select(ROW))
    instants.append(done.instant)
    print(f"deletes: {done.rows_deleted:,} flights that were canceled")
    return instants, corrected.filter(pc.invert(is_canceled))


def check(table: HudiTable, instants: list[Instant], expected: pa.Table, flights: pa.Table) -> None:
    """Compare the table, now and as it was in June, with the flights."""
    june, year = instants[5].time, instants[11].position
    first_half = flights.filter(pc.less_equal(flights["month"], 6))
    names = flights.schema.names
    assert same(table.scan(columns=names), expected)
    assert same(table.scan(columns=names, as_of=june), first_half)
    # Each row in its last state: those that were changed or came late, and were not deleted.
    changed = table.incremental(since=year, columns=names)
    is_late = pc.and_(pc.equal(expected["month"], 12), pc.equal(expected["day"], 31))
    assert same(changed, expected.filter(pc.or_(pc.equal(expected["revision"], 1), is_late)))
    assert table.verify().is_ok
    print(f"scan, time travel to June and {changed.num_rows:,} changes since: equal to Arrow's")

    if importlib.util.find_spec("hudi") is None:
        print("hudi-rs is not installed: not compared")
        return
    from hudi import HudiReadOptions, HudiTableBuilder

    other = HudiTableBuilder.from_base_uri(str(Path(table.location.uri).resolve())).build()
    for options, rows in (
        (HudiReadOptions(), expected),
        (HudiReadOptions().with_as_of_timestamp(june), first_half),
    ):
        batches = [pa.record_batch(batch) for batch in other.read(options)]
        assert same(pa.Table.from_batches(batches).select(names), rows)
    print("hudi-rs: the same rows, now and in June")


def join(table: HudiTable, flights: pa.Table, files: dict[str, Path], folder: Path) -> None:
    """Look up planes for the rows of the table, and rows of the table for the year's schedule."""
    store_of_planes = lookupstore.build(files["planes"], folder / "planes.store", key="tailnum")
    rows = table.scan(columns=["tailnum", "flight"])
    with store_of_planes as planes:
        seats = planes.lookup(rows.select(["tailnum"]), ["seats"])["seats"]
    joined = rows.join(pq.read_table(files["planes"], columns=["tailnum", "seats"]), "tailnum")
    assert pc.sum(seats) == pc.sum(joined["seats"])
    print(f"flights joined with planes: {pc.sum(seats).as_py():,} seats flew")

    batches = pa.RecordBatchReader.from_batches(
        pa.schema([table.schema.field(name) for name in [*ROW, "arr_delay"]]),
        table.scan_batches(columns=[*ROW, "arr_delay"]),
    )
    with lookupstore.build(batches, folder / "flights.store", key=ROW) as flown:
        found = flown.contains(flights.select(ROW))
    assert found.to_pylist() == pc.is_valid(flights["dep_time"]).to_pylist()
    print(f"the schedule joined with the table: {found.true_count:,} of {len(found):,} took place")


def check_in_spark(table: HudiTable, files: dict[str, Path], folder: Path) -> None:
    """Read the table in Spark and join the schedule with it; compare both with Spark SQL."""
    from lookupstore.spark import lookup_join, session

    spark = session("flights as a Hudi table")
    read(spark, table).createOrReplaceTempView("flown")
    spark.read.parquet(str(files["flights"].resolve())).createOrReplaceTempView("schedule")
    columns = ", ".join([*ROW, "tailnum", "arr_delay"])
    corrected = spark.sql(
        f"SELECT {', '.join([*ROW, 'tailnum'])}, coalesce(arr_delay, dep_delay) AS arr_delay "
        "FROM schedule WHERE dep_time IS NOT NULL"
    )
    found = spark.sql(f"SELECT {columns} FROM flown").cache()
    assert same_in_spark(found, corrected)
    print(f"Spark reads {found.count():,} flights: equal to Spark SQL over the schedule")

    # The delay of each flight of the schedule; null for those that are no longer in the table.
    schedule = spark.sql(f"SELECT {', '.join(ROW)} FROM schedule")
    delays = lookup_join(schedule, folder / "flights.store", on=ROW).cache()
    wanted = spark.sql(
        f"SELECT {', '.join(ROW)}, coalesce(arr_delay, dep_delay) AS arr_delay FROM schedule"
    )
    assert same_in_spark(delays, wanted)
    print("and the schedule joined with the table: equal as well")


def read(spark: Any, table: HudiTable) -> Any:
    """Return the rows of a table as a Spark DataFrame: those of its current base files."""
    paths = [group.current.path for group in table.file_groups()]
    return spark.read.parquet(*(str(Path(table.location.uri, path).resolve()) for path in paths))


def same_in_spark(found: Any, wanted: Any) -> bool:
    """Return whether two DataFrames have the same rows."""
    # Of two of one size, neither has a row that the other lacks if one has none.
    return bool(found.count() == wanted.count() and found.exceptAll(wanted).isEmpty())


def same(found: pa.Table, wanted: pa.Table) -> bool:
    """Return whether two tables have the same rows, in whatever order."""
    order = [(name, "ascending") for name in ROW]
    return bool(
        found.sort_by(order).cast(wanted.schema).combine_chunks()
        == wanted.sort_by(order).combine_chunks()
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="a new one; temporary if missing")
    parser.add_argument("--no-spark", action="store_true", help="leave out what needs Spark")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        main(given.folder or Path(temporary), spark=not given.no_spark)
