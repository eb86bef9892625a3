"""What `HudiTable.create` takes for columns, and which it refuses since no write takes them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from lookupstore.hudi import HudiTable, TableLookup

ROWS = pa.table({"id": [1, 2], "day": ["mo", "tu"], "n": pa.array([1, None], pa.int8())})


def of(package: str, make: Callable[[Any], Any]) -> Callable[[Path], Any]:
    return lambda folder: make(pytest.importorskip(package))


def parquet_file(folder: Path) -> str:
    pq.write_table(ROWS, folder / "rows.parquet")
    return str(folder / "rows.parquet")


def orc_file(folder: Path) -> Path:
    orc.write_table(ROWS, folder / "rows.orc")
    return folder / "rows.orc"


KINDS: dict[str, Callable[[Path], Any]] = {
    "schema": lambda folder: ROWS.schema,
    "table": lambda folder: ROWS,
    "batch": lambda folder: ROWS.to_batches()[0],
    "batches": lambda folder: ROWS.to_batches(),
    "reader": lambda folder: ROWS.to_reader(),
    "dataset": lambda folder: ds.dataset(ROWS),
    "pandas": of("pandas", lambda pandas: ROWS.to_pandas()),
    "polars": of("polars", lambda polars: polars.from_arrow(ROWS)),
    "lazy polars": of("polars", lambda polars: polars.from_arrow(ROWS).lazy()),
    "duckdb": of("duckdb", lambda duckdb: duckdb.from_arrow(ROWS)),
    "parquet": parquet_file,
    "orc": orc_file,
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind_say_the_columns(tmp_path: Path, kind: str) -> None:
    given = KINDS[kind](tmp_path)
    table = HudiTable.create(tmp_path / "t", given, record_key="id", partition_by="day")
    assert table.schema.names[5:] == ["id", "day", "n"]
    assert table.scan().num_rows == 0
    # A reader still has its rows.
    table.insert(ROWS if kind == "schema" else given)
    assert table.scan(columns=["id", "day", "n"]).sort_by("id").to_pydict() == ROWS.to_pydict()


def test_a_column_with_values_of_two_types_is_named(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    for given in (
        pandas.DataFrame({"id": [1, 2], "m": ["a", 1]}, dtype=object),
        [{"id": 1, "m": "a"}, {"id": 2, "m": 1}],
        {"id": [1, 2], "m": ["a", 1]},
    ):
        with pytest.raises(TypeError, match=r"^schema: .*'m'"):
            HudiTable.create(tmp_path / "t", given, record_key="id")


def test_names_in_one_text_and_columns_of_nulls(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"give several columns as a list: \['id', 'day'\]"):
        HudiTable.create(tmp_path / "t", ROWS, record_key="id, day")
    with pytest.raises(TypeError, match=r"'x' is null; give it a type in a pyarrow.Schema, or"):
        HudiTable.create(tmp_path / "t", {"id": [1], "x": [None]}, record_key="id")


def test_rows_whose_columns_are_named_or_typed_otherwise(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "day": pa.date32()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")
    with pytest.raises(ValueError, match=r"no column 'id', .*; did you mean 'ID'\? Add it; the"):
        table.upsert({"ID": [1], "at": [None], "day": [None]})
    for name, remedy in (("at", r"column, utc=True\)"), ("day", r"column\).dt.date")):
        for kind in (pa.string(), pa.large_string()):
            rows = pa.table({"id": [1], name: pa.array(["2026-03-01"], kind)})
            with pytest.raises(TypeError, match=f"'{name}' is .*, such as by pandas.*{remedy}, "):
                table.upsert(rows, missing="null")
    texts = HudiTable.create(tmp_path / "texts", pa.schema({"id": pa.string()}), record_key="id")
    for kind, remedy in (
        (pa.timestamp("ns"), r"\.dt\.strftime\('%Y-%m-%d'\) in .*, if days are enough$"),
        (pa.date32(), r"\.astype\('string'\) in pandas"),
    ):
        with pytest.raises(TypeError, match=rf"'id' is .*; give string, such as {remedy}"):
            texts.upsert(pa.table({"id": pa.array(["2026-03-01"]).cast(kind)}))


def test_remedies_for_arrow_work_in_arrow(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.string(), "at": pa.timestamp("us", "UTC")})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")
    noon = datetime(2026, 3, 1, 12)
    rows = pa.table({"id": pa.array([date(2026, 3, 1)]), "at": [noon]})
    with pytest.raises(
        TypeError, match=r"'id' is date32\[day\]; .* \.cast\('string'\) in Spark and Arrow, or "
    ):
        table.upsert(rows)
    rows = rows.set_column(0, "id", rows["id"].cast("string"))
    with pytest.raises(TypeError, match=r"pyarrow\.compute\.assume_timezone\(column, 'UTC'\); Sp"):
        table.upsert(rows)
    table.upsert(rows.set_column(1, "at", pc.assume_timezone(rows["at"], "UTC")))
    wanted = {"id": ["2026-03-01"], "at": [noon.replace(tzinfo=timezone.utc)]}
    assert table.scan(columns=["id", "at"]).to_pydict() == wanted


def test_a_copy_of_a_table(tmp_path: Path) -> None:
    """Rows of another table have its meta columns, which a copy makes anew."""
    table = HudiTable.create(tmp_path / "t", ROWS, record_key="id", ordering=["n"])
    assert table.options.ordering == ("n",)
    table.insert(ROWS)
    for at, given in enumerate((table.scan(), table.schema, table)):
        copy = HudiTable.create(tmp_path / f"{at}", given, record_key="id")
        assert copy.schema == table.schema
        copy.bulk_insert(table.scan_batches())
        assert copy.scan(columns=["id", "day", "n"]).to_pydict() == ROWS.to_pydict()


def test_a_table_of_a_folder_with_days(tmp_path: Path) -> None:
    """The names of folders are texts: partition columns cannot be dates, nor lose a zero."""
    for day, month in (("2026-11-20", "07"), ("2026-11-21", "08")):
        folder = tmp_path / "src" / f"day={day}" / f"month={month}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2], "n": [1, 2]}), folder / "1.parquet")
    made = HudiTable.create(
        tmp_path / "t", tmp_path / "src", record_key="id", partition_by=["day", "month"]
    )
    assert made.schema.field("day").type == pa.string()
    assert made.schema.field("month").type == pa.int32()
    schema = pa.schema(
        {"id": pa.int64(), "n": pa.int64(), "day": pa.string(), "month": pa.string()}
    )
    texts = HudiTable.create(tmp_path / "texts", schema, record_key="id", partition_by=["day"])
    for table, month in ((made, 7), (texts, "07")):
        assert table.bulk_insert(str(tmp_path / "src")).rows_inserted == 4
        assert table.upsert([str(tmp_path / "src")]).rows_updated == 4
        found = table.scan(columns=["id", "month", "day"], filter="day = '2026-11-20'")
        assert found.sort_by("id").to_pydict() == {
            "id": [1, 2], "month": [month] * 2, "day": ["2026-11-20"] * 2,
        }  # fmt: skip
        merge = table.merge(tmp_path / "src").when_matched_update({"n": "source.n + 1"})
        assert merge.execute().rows_updated == 4
    with pytest.raises(TypeError, match="record_key: the column 'day' is date32"):
        HudiTable.create(tmp_path / "key", tmp_path / "src", record_key="day")


def test_a_series_is_no_rows(tmp_path: Path) -> None:
    series = [pytest.importorskip(name).Series([1, 2]) for name in ("pandas", "polars")]
    table = HudiTable.create(tmp_path / "t", ROWS, record_key="id")
    for given in (*series, pa.chunked_array([[1, 2]])):
        with pytest.raises(TypeError, match=r"one column; give a table or frame, such as"):
            table.upsert(given)


TEXTS = [
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())
]  # fmt: skip
INTEGERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()
]  # fmt: skip
OTHERS: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.float32(): [1, 2],
    pa.float64(): [1, 2],
    pa.binary(): [b"a", b"b"],
    pa.binary(2): [b"aa", b"ab"],
    pa.decimal128(5, 2): [Decimal(1), Decimal(2)],
    pa.date32(): [date(2024, 5, 1), date(1960, 1, 1)],
    pa.timestamp("us", "UTC"): [1, 2],
    pa.time64("us"): [1, 2],
}
NESTED = [pa.list_(pa.int32()), pa.struct({"x": pa.int32()}), pa.map_(pa.string(), pa.int32())]


@pytest.mark.parametrize("role", ["record_key", "partition_by", "ordering"])
@pytest.mark.parametrize("kind", [*TEXTS, *INTEGERS, *OTHERS, *NESTED], ids=str)
def test_what_can_be_made_can_be_written(tmp_path: Path, kind: pa.DataType, role: str) -> None:
    """A table is refused, or rows are written to it: none is made that takes none."""
    schema = pa.schema({"id": pa.int64(), "x": kind})
    arguments: dict[str, Any] = {"record_key": ["id"], role: "x"}
    if kind in NESTED or (kind in OTHERS and role != "ordering"):
        with pytest.raises(TypeError, match=f"{role}: the column 'x' is "):
            HudiTable.create(tmp_path / "t", schema, **arguments)
        assert not (tmp_path / "t").exists()
        return
    table = HudiTable.create(tmp_path / "t", schema, **arguments)
    values = OTHERS.get(kind, [1, 2] if kind in INTEGERS else ["a", "b"])
    x = pa.array(values, kind) if kind in OTHERS else pa.array(values).cast(kind)
    rows = pa.table({"id": [1, 2], "x": x})
    table.insert(rows)
    table.upsert(rows)
    assert table.scan().num_rows == 2


def test_a_string_is_one_column(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", ROWS, record_key="id", partition_by="day")
    assert (table.options.record_key, table.options.partition_by) == (("id",), ("day",))
    table.insert(ROWS)
    assert table.scan(columns="day").schema.names == ["day"]
    assert table.incremental(columns="day").schema.names == ["day"]
    with TableLookup(tmp_path / "t", key="id", columns="day") as lookup:
        assert lookup.lookup([2], "day").to_pydict() == {"day": ["tu"]}
    assert table.delete_partition("mo").files_replaced
    assert table.scan(columns="id")["id"].to_pylist() == [2]


def test_a_key_that_is_no_integer_deletes_nothing(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", ROWS, record_key="id")
    table.insert(ROWS)
    with pytest.raises(
        ValueError, match=r"'id' has 1\.5 in row 1, which int64 cannot hold; give whole"
    ):
        table.delete([1.5])
    for keys in (["1"], [2**70], [1, "2"]):
        with pytest.raises(TypeError, match="give int64"):
            table.delete(keys)
    assert table.delete([]).rows_deleted == 0
    assert table.scan().num_rows == 2


def test_a_key_of_integers_next_to_a_missing_one(tmp_path: Path) -> None:
    """pandas has floats for these; the remedy makes integers of them."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"nr": [1, None, 3], "v": ["a", "b", "c"]})
    said = r"'nr' is double, .* leave out rows without one and give integers, .*\.astype\('int64'\)"
    for argument in ({"record_key": "nr"}, {"record_key": "v", "partition_by": "nr"}):
        with pytest.raises(TypeError, match=said):
            HudiTable.create(tmp_path, frame, **argument)
    known = frame.dropna(subset="nr").astype({"nr": "int64"})
    table = HudiTable.create(tmp_path, known, record_key="nr")
    assert table.upsert(known).rows_inserted == 2
    assert table.get(3) == {"v": "c"}


def test_times_without_a_zone_are_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """hudi-rs opens what is not noted, and cannot open what is."""
    hudi = pytest.importorskip("hudi")
    caplog.set_level(logging.INFO, logger="lookupstore")
    at, zoned = pa.timestamp("us"), pa.timestamp("us", "UTC")
    for kind, noted in (
        (zoned, False),
        (pa.list_(zoned), False),
        (at, True),
        (pa.struct({"at": pa.timestamp("ms")}), True),
    ):
        caplog.clear()
        path = tmp_path / f"t{len([*tmp_path.iterdir()])}"
        schema = pa.schema({"id": pa.int64(), "at": kind})
        HudiTable.create(path, schema, record_key="id").insert({"id": [1], "at": [None]})
        said = [one.getMessage() for one in caplog.records if "hudi-rs" in one.getMessage()]
        assert len(said) == noted
        if noted:
            assert f"{path}: timestamps without a time zone ('at')" in said[0]
            with pytest.raises(BaseException, match="not yet implemented"):  # a panic of Rust
                hudi.HudiTable(str(path)).read()
        else:
            assert sum(len(one) for one in hudi.HudiTable(str(path)).read()) == 1
