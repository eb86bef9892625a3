"""Statistics in the footers of files that other programs wrote, compared with the rows."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.footers import with_footer

from lookupstore.parquet import column_statistics
from lookupstore.parquet.arrow_file import ParquetRows
from lookupstore.parquet.column_statistics import ColumnStatistics, group_statistics
from lookupstore.parquet.ending import ParquetEnding

KINDS = {
    "tiny": pa.int8(),
    "id": pa.int64(),
    "text": pa.string(),
    "data": pa.binary(),
    "day": pa.date32(),
    "local": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
    "price": pa.decimal128(7, 2),
    "wide": pa.decimal128(25, 3),
    "ratio": pa.float64(),
    "flag": pa.bool_(),
}


def random_value(kind: pa.DataType, chance: random.Random) -> Any:
    number = chance.randrange(-100, 100)
    if chance.random() < 0.2:
        return None
    if pa.types.is_string(kind):
        return "".join(chance.choices("aeé中😀", k=chance.randrange(90)))
    if pa.types.is_binary(kind):
        return chance.randbytes(chance.randrange(4))
    if pa.types.is_date(kind):
        return datetime.date(2000, 1, 1) + datetime.timedelta(number)
    if pa.types.is_timestamp(kind):
        return datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=number)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(number).scaleb(-kind.scale)
    if pa.types.is_floating(kind):
        return chance.choice([math.nan, 0.0, -0.0, number / 4])
    return number > 0 if pa.types.is_boolean(kind) else number


def random_rows(chance: random.Random) -> pa.Table:
    count = chance.randrange(1, 200)
    return pa.table(
        {
            name: pa.array([random_value(kind, chance) for _ in range(count)], kind)
            for name, kind in KINDS.items()
        }
    )


def by_arrow(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, row_group_size=50)


def by_polars(rows: pa.Table, path: Path) -> None:
    polars.from_arrow(rows).write_parquet(path, row_group_size=50)  # type: ignore[union-attr]


def by_duckdb(rows: pa.Table, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("given", rows)
        connection.execute(f"copy given to '{path}' (format parquet, row_group_size 50)")


def by_delta(rows: pa.Table, path: Path) -> None:
    folder = path.parent / "delta"
    deltalake.write_deltalake(folder, rows, mode="overwrite")
    (file,) = deltalake.DeltaTable(folder).file_uris()
    Path(file.removeprefix("file://")).rename(path)


def statistics_of(path: Path, name: str, kind: pa.DataType) -> list[ColumnStatistics] | None:
    with pa.OSFile(str(path)) as file:
        return group_statistics(ParquetEnding(file, str(path)).footer, name, kind)


def check(path: Path) -> int:
    """Compare the statistics of a file with its rows, and return how many bounds there are."""
    found = 0
    with pa.OSFile(str(path)) as file:
        reader = ParquetRows(file, str(path))
        for field in reader.schema:
            kind = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(
                field.type, field.type
            )
            for number, said in enumerate(statistics_of(path, field.name, kind) or ()):
                batches = reader.batches([field.name], [[number]], 1 << 20)
                rows = pa.Table.from_batches(batches).column(0).cast(kind)
                check_one(said, rows)
                found += said.least is not None
    return found


def check_one(said: ColumnStatistics, rows: pa.ChunkedArray) -> None:
    """Compare the statistics of a column with its values."""
    assert said.nulls in (None, rows.null_count)
    values = rows.drop_null()
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    if said.least is None or said.greatest is None or not len(values):
        return
    assert pc.all(pc.less_equal(said.least, values)).as_py(), said
    assert pc.all(pc.greater_equal(said.greatest, values)).as_py(), said
    ends = pc.min_max(values)
    if said.least_is_exact:
        assert pc.equal(ends["min"], said.least).as_py(), said
    if said.greatest_is_exact:
        assert pc.equal(ends["max"], said.greatest).as_py(), said


@pytest.mark.parametrize("write", [by_arrow, by_polars, by_duckdb, by_delta])
def test_bounds_are_around_the_values_of_each_row_group(
    write: Callable[[pa.Table, Path], None], tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    found = 0
    for number in range(8):
        path = tmp_path / f"{number}.parquet"
        write(random_rows(chance), path)
        found += check(path)
    # Some versions of polars wrote wrong ones, so they are not used.
    assert (found == 0) if write is by_polars else (found > 20)


def files_in(archive: Path, folder: Path) -> Iterator[Path]:
    with zipfile.ZipFile(archive) as given:
        given.extractall(folder)
    yield from (path for path in folder.rglob("*.parquet") if ".hoodie" not in path.parts)


def test_files_of_spark_java_and_databricks(golden: Path, tmp_path: Path) -> None:
    archives = [*(golden / "delta").glob("*.zip"), *(golden / "paimon" / "tables").glob("java.zip")]
    archives += (golden / "hudi" / "java").glob("v?-types.zip")
    assert len(archives) == 5
    counts = {}
    for archive in archives:
        files = files_in(archive, tmp_path / archive.stem)
        counts[archive.stem] = sum(map(check, files))
    # Photon of Databricks does not say that its bounds have the defined order.
    assert [name for name, count in counts.items() if not count] == ["column-mapping"], counts


def test_bounds_of_a_type_that_became_wider(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": pa.array([1, 300], pa.int16()), "f": [0.5, None]}), path)
    (said,) = statistics_of(path, "n", pa.int64()) or ()
    assert (said.least, said.greatest) == (pa.scalar(1), pa.scalar(300))
    (said,) = statistics_of(path, "n", pa.int8()) or ()
    assert (said.least, said.greatest) == (None, None)  # 300 does not fit
    assert statistics_of(path, "n", pa.float64()) is None
    assert statistics_of(path, "f", pa.float32()) is None
    assert statistics_of(path, "other", pa.int64()) is None


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_any_unit(unit: str, tmp_path: Path) -> None:
    """Parquet has no seconds: Arrow writes milliseconds, and reads them as seconds again."""
    path = tmp_path / "a.parquet"
    rows = pa.table({"t": pa.array([5, 7], pa.timestamp(unit))})
    pq.write_table(rows, path)
    (said,) = statistics_of(path, "t", pa.timestamp(unit)) or ()
    assert [said.least, said.greatest] == [rows["t"][0], rows["t"][1]]
    assert statistics_of(path, "t", pa.timestamp(unit, "UTC")) is None


@pytest.mark.parametrize(
    ("entries", "has_bounds"),
    [
        ({}, True),
        ({b"org.apache.spark.version": b"3.5.1"}, True),
        ({b"org.apache.spark.version": b"2.4.8"}, False),
        ({b"org.apache.spark.legacyDateTime": b""}, False),
    ],
)
def test_days_of_the_old_calendar_have_no_bounds(
    entries: dict[bytes, bytes], has_bounds: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    days = [datetime.date(1500, 1, 1), datetime.date(2020, 1, 1)]
    pq.write_table(pa.table({"day": days, "late": [days[1]] * 2}), path)
    path.write_bytes(with_footer(path.read_bytes(), entries={**entries, b"x": b"y"}))
    (said,) = statistics_of(path, "day", pa.date32()) or ()
    assert (said.least is not None) == has_bounds
    (said,) = statistics_of(path, "late", pa.date32()) or ()
    assert said.least == pa.scalar(days[1])


def test_logical_types_that_are_damaged_or_unknown_have_no_bounds() -> None:
    day, struct, number = (6, (12, {})), 12, (5, 1)
    for logical in ([day, (8, (12, {}))], [(6, (5, 1))], [(99, (12, {}))]):
        element = {1: number, 10: (struct, dict(logical))}
        assert column_statistics._conversion(element, pa.date32()) is None
    assert column_statistics._conversion({1: number, 10: (struct, dict([day]))}, pa.date32())
