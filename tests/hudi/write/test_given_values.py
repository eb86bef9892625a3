"""Values of frames and objects that a table gets: equal in its types, or refused with their row.

The oracle is the values in Python, compared with what hudi-rs reads.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
import re
from collections.abc import Callable
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import hudi
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from lookupstore.hudi import HudiTable, WriteOptions

NAN = float("nan")
UTC = dt.timezone.utc
NOON = dt.datetime(2026, 1, 2, 12, 0, 0, 123456, tzinfo=UTC)
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "n": pa.int32(),
        "big": pa.int64(),
        "x": pa.float64(),
        "f": pa.float32(),
        "s": pa.string(),
        "at": pa.timestamp("us", "UTC"),  # hudi-rs reads no times without a zone
        "zoned": pa.timestamp("ms", "UTC"),
        "day": pa.date32(),
        "price": pa.decimal128(10, 2),
        "ok": pa.bool_(),
        "raw": pa.binary(),
        "tags": pa.list_(pa.int32()),
        "point": pa.struct({"a": pa.int32(), "b": pa.string()}),
        "scores": pa.map_(pa.string(), pa.int32()),
    }
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "n": 7, "big": 2**40, "x": 1.5, "f": 0.25, "s": "a", "at": NOON,
        "zoned": dt.datetime(2026, 1, 2, 12, tzinfo=UTC), "day": dt.date(2026, 1, 2),
        "price": Decimal("1.5"), "ok": True, "raw": b"\xff", "tags": [1, None, 3],
        "point": {"a": 1, "b": None}, "scores": {"x": 1, "y": None},
    },
    {name: 2 if name == "id" else None for name in SCHEMA.names},
    {
        "id": 3, "n": -7, "big": -1, "x": 2.0, "f": 3.0, "s": "", "at": NOON,
        "zoned": dt.datetime(1969, 1, 2, 12, tzinfo=UTC), "day": dt.date(1, 1, 1),
        "price": Decimal(-3), "ok": False, "raw": b"", "tags": [],
        "point": {"a": None, "b": "q"}, "scores": {},
    },
]  # fmt: skip


def make(path: Path, schema: pa.Schema = SCHEMA) -> HudiTable:
    return HudiTable.create(path, schema, record_key="id")


def stored(path: Path, table: HudiTable) -> list[dict[str, Any]]:
    """Return the rows as hudi-rs and a scan have them."""
    theirs = (
        pa.Table.from_batches(hudi.HudiTable(str(path)).read()).select(SCHEMA.names).to_pylist()
    )
    ours = table.scan(columns=SCHEMA.names).to_pylist()
    key = itemgetter("id")
    assert sorted(theirs, key=key) == sorted(ours, key=key)
    rows = sorted(ours, key=key)
    for row in rows:
        row["scores"] = None if row["scores"] is None else dict(row["scores"])
    return rows


def pandas_rows(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return rows as pandas has them if nobody says a type: integers beside a null are floats."""
    frame = pd.DataFrame(rows)
    assert frame["n"].dtype == "float64"
    return frame


def with_nan(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return rows with NaN, NA and NaT for nulls, and arrays of NumPy for lists."""
    frame = pd.DataFrame(rows)
    frame["tags"] = [NAN if one is None else np.array(one, float) for one in frame["tags"]]
    frame["s"] = frame["s"].fillna(pd.NA).astype("string")
    frame["day"] = [pd.NaT if one is None else one for one in frame["day"]]
    frame["price"] = [pd.NA if one is None else one for one in frame["price"]]
    frame["x"] = frame["x"].astype("float32")
    frame["big"] = [None if pd.isna(one) else int(one) for one in frame["big"]]
    frame["big"] = frame["big"].astype(object)
    frame["point"] = [
        one if one is None else {k: NAN if v is None else v for k, v in one.items()}
        for one in frame["point"]
    ]
    return frame


def categories(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pandas_rows(rows)
    for name in ("n", "s", "x"):
        frame[name] = frame[name].astype("category")
    frame["at"] = frame["at"].astype("datetime64[ns, UTC]")
    return frame


def nullable(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pandas_rows(rows).convert_dtypes()
    frame["s"] = frame["s"].astype("string[pyarrow]")
    return frame


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in SCHEMA.names}


def polars_rows(rows: list[dict[str, Any]]) -> pl.DataFrame:
    columns = columns_of(rows)
    maps = columns.pop("scores")
    pairs = [
        None if one is None else [{"key": k, "value": v} for k, v in one.items()] for one in maps
    ]
    kind = pl.List(pl.Struct({"key": pl.String, "value": pl.Int64}))
    frame = pl.DataFrame(columns, strict=False).with_columns(pl.col("n").cast(pl.Float64))
    return frame.with_columns(pl.Series("scores", pairs, dtype=kind))


def duckdb_rows(rows: list[dict[str, Any]]) -> duckdb.DuckDBPyRelation:
    given = pa.Table.from_pylist([row | {"scores": None} for row in rows], schema=SCHEMA)
    maps = [None if row["scores"] is None else list(row["scores"].items()) for row in rows]
    given = given.set_column(14, "scores", pa.array(maps, SCHEMA.field("scores").type))
    return duckdb.sql(
        "select * replace (n::double as n, big::hugeint as big, x::float as x, "
        'price::decimal(20, 4) as price, "at"::timestamptz as "at") from given'
    )


FORMS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "pandas": pandas_rows,
    "pandas with NaN": with_nan,
    "pandas categories": categories,
    "pandas nullable": nullable,
    "polars": polars_rows,
    "polars lazy": lambda rows: polars_rows(rows).lazy(),
    "duckdb": duckdb_rows,
    "dict": columns_of,
    "list of dicts": lambda rows: rows,
    "dicts": iter,
    "frames": lambda rows: (pd.DataFrame([row]) for row in rows),
}


@pytest.mark.parametrize("form", FORMS)
def test_values_become_those_of_the_table(tmp_path: Path, form: str) -> None:
    table = make(tmp_path)
    for verb in ("upsert", "insert_overwrite", "bulk_insert"):
        if verb == "bulk_insert":
            table.delete([1, 2, 3])
        getattr(table, verb)(FORMS[form](ROWS))
        assert stored(tmp_path, table) == ROWS
    assert table.schema.field("n").type == pa.int32()
    keys = pd.DataFrame({"id": [1.0, 3.0]}) if form == "pandas" else [{"id": 1}, {"id": 3.0}]
    assert table.delete(keys).rows_deleted == 2


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("n", [1, None, 1.5], "rows: 'n' has 1.5 in row 3, which int32 cannot hold; give whole"),
        ("n", [1, 2**31, None], r"'n' has 2147483648[.0]* in row 2, which int32 cannot hold"),
        ("big", [NAN, 2.0**63, 1], r"'big' has 9.22.*e\+18 in row 2, which int64 cannot hold"),
        ("f", [0.1, 1, 1], r"\.astype\('float32'\), or numpy\.float32\(value\)"),
        (
            "x",
            [Decimal("1.5"), Decimal("1.1"), None],
            r"'x' has Decimal\('1.1'\) in row 2, which double .* column to double, which rounds",
        ),
        ("x", [1, 2**53 + 1, 3], "'x' has 9007199254740993 in row 2, which double cannot hold"),
        ("at", pd.to_datetime([1, 2000, 3000], utc=True), r"row 1, .*\.dt\.floor\('us'\)"),
        ("price", [Decimal("1.005"), None, 1], r"'price' has Decimal\('1.005'\) in row 1, "),
        ("price", [1, None, 1.5], r"'price' has 1.5 in row 3, a float, .*; give decimal128\("),
        ("tags", [[1], None, [1, 1.5]], r"'tags\[\]' has 1.5 in row 3, which int32 cannot hold; g"),
        ("point", [{"a": 1.5}, None, None], r"'point.a' has 1.5 in row 1, which int32 cannot hold"),
        ("scores", [{"x": 1}, {"y": 0.5}, None], r"'scores.value' has 0.5 in row 2, which int32 c"),
        ("scores", [{"x": 1}, "text", None], "'scores' has 'text' in row 2, which map<"),
        ("n", [1, "text", None], "'n' has 'text' in row 2, which int32 cannot hold"),
        (
            "n",
            ["1", "2", "3"],
            r"'n' is string; give int32, .*'int32'\) in pandas, .* or column::int in D",
        ),
        ("s", [1, 2, 3], r"\.astype\('string'\) in pandas, \.cast\(polars\.String\) in p"),
        (
            "at",
            pd.to_datetime(["2026-01-01"] * 3),
            r"\.dt\.tz_localize\('UTC'\) in pandas, \.dt\.replace_time_zone\('UTC'\) in p",
        ),
        ("day", pd.to_datetime(["2026-01-01"] * 3), r"'day' is .*such as \.dt\.date"),
        ("id", [1, None, 3], "row 2 has no record key: .*; give it one, or leave the row out$"),
        ("id", [1, 2, 3.5], "'id' has 3.5 in row 3, which int64 cannot hold; give whole numbers$"),
    ],
)
def test_what_would_be_lost_is_refused(tmp_path: Path, name: str, values: Any, said: str) -> None:
    table = make(tmp_path, pa.schema([SCHEMA.field(0), SCHEMA.field(name)])
                 if name != "id" else SCHEMA.empty_table().select(["id"]).schema)  # fmt: skip
    frame = pd.DataFrame({"id": [1, 2, 3], name: values})
    forms = [frame, {one: list(frame[one]) for one in frame}]
    if not isinstance(values, pd.DatetimeIndex):
        forms.append([{"id": at + 1} | {name: one} for at, one in enumerate(values)])
    for form in forms[: 1 if isinstance(values, pd.DatetimeIndex) else 3]:
        missing = "null" if name == "point" else None
        with pytest.raises((ValueError, TypeError), match=said):
            table.upsert(form, missing=missing)
    assert table.scan().num_rows == 0


def test_nanoseconds_inside_of_other_values_are_named(tmp_path: Path) -> None:
    def kind(unit: str) -> pa.DataType:
        return pa.struct({"at": pa.timestamp(unit), "all": pa.list_(pa.timestamp(unit))})

    table = make(tmp_path / "t", pa.schema({"id": pa.int64(), "s": kind("us")}))
    for value, said in (
        (
            {"at": 1001, "all": None},
            r"'s.at' has Timestamp\(.*1001'\) in row 1, which timestamp\[us",
        ),
        (
            {"at": 1000, "all": [1000, 1002]},
            r"'s.all\[\]' has Timestamp\(.*1002'\) in row 1, which",
        ),
    ):
        rows = pa.table({"id": [1], "s": pa.array([value], kind("ns"))})
        with pytest.raises(ValueError, match=f"{said}.* cannot hold; round it to 'us'"):
            table.upsert(rows)
    fits = pa.table({"id": [1], "s": pa.array([{"at": 1000, "all": [2000]}], kind("ns"))})
    table.upsert(fits)
    found = table.scan(columns=["s"])["s"]
    assert found.cast(kind("ns")).to_pylist() == fits["s"].to_pylist()
    for name, part in (("s.at", kind("ns")), ("s[]", pa.list_(pa.timestamp("ns")))):
        columns = pa.schema({"id": pa.int64(), "s": part})
        with pytest.raises(TypeError, match=f"{re.escape(name)}' is timestamp.ns.; give timestamp"):
            make(tmp_path / "u", columns)


def test_a_frame_without_rows_has_the_types_of_the_table(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.insert(ROWS)
    before = stored(tmp_path, table)
    for kind in (object, "float64", "datetime64[ns]"):
        frame = pd.DataFrame({name: pd.Series(dtype=kind) for name in SCHEMA.names})
        for verb in ("upsert", "insert", "bulk_insert"):
            done = getattr(table, verb)(frame)
            assert (done.rows_inserted, done.rows_updated) == (0, 0)
        assert table.delete(frame[["id"]]).rows_deleted == 0
    assert stored(tmp_path, table) == before
    frame["more"] = []
    with pytest.raises(ValueError, match="rows: the table has no column 'more'; to add it, pass"):
        table.upsert(frame)
    with pytest.raises(ValueError, match="rows have no column 'id', which is required"):
        table.upsert(frame[["n"]])
    similar = frame.rename(columns={"n": "nn"})[["id", "nn"]]
    with pytest.raises(ValueError, match=r"no column 'nn'; did you mean 'n'\? To add it, pass opt"):
        table.upsert(similar)
    with pytest.raises(ValueError, match="no column 'nn'; to add it, pass"):  # the rows have n
        table.upsert(similar.assign(n=1))
    typed = pa.table({"id": pa.array([], pa.int64()), "n": pa.array([], pa.timestamp("us"))})
    with pytest.raises(TypeError, match=r"'n' is timestamp\[us\]; give int32"):  # not of pandas
        table.upsert(typed, missing="null")


def test_remedies_for_floats_in_a_column_of_decimals_work(tmp_path: Path) -> None:
    table = make(tmp_path, pa.schema({"id": pa.int64(), "price": pa.decimal128(10, 2)}))
    frame = pd.DataFrame({"id": [1, 2], "price": [1.25, NAN]})
    with pytest.raises(ValueError, match="in row 1, a float, and floats are not exact") as raised:
        table.upsert(frame)
    said = str(raised.value)
    assert "cannot hold" not in said
    in_pandas, in_polars = re.search(r"as (\..*) in pandas, (\..*) in polars, ", said).groups()
    names = {"decimal": decimal, "polars": pl}
    made = eval(f"column{in_pandas}", names, {"column": frame["price"]})
    table.upsert(frame.assign(price=made))
    assert table.scan(columns="price")["price"].to_pylist() == [Decimal("1.25"), None]
    made = eval(f"column{in_polars}", names, {"column": pl.Series([2.25, None])})
    table.upsert(pl.DataFrame({"id": [1, 2], "price": made}))
    assert table.scan(columns="price")["price"].to_pylist() == [Decimal("2.25"), None]


def test_rows_without_columns_are_named_as_such(tmp_path: Path) -> None:
    table = make(tmp_path, pa.schema({"id": pa.int64(), "v": pa.string()}))
    with pytest.raises(ValueError, match=r"which is required; add it; the rows have no columns$"):
        table.upsert({})


def test_a_named_index_of_pandas_is_no_column_for_its_user(tmp_path: Path) -> None:
    table = make(tmp_path, pa.schema({"id": pa.int64(), "v": pa.string()}))
    frame = pd.DataFrame({"id": [1], "v": ["a"], "more": [1]}, index=pd.Index([7], name="row"))
    with pytest.raises(ValueError, match=r"'more'; .* to leave it out, drop it from the rows$"):
        table.upsert(frame)
    frame = frame.drop(columns="more")
    said = (
        r"'row'; .* to leave it out, call .reset_index\(drop=True\): it is the index of the frame"
    )
    with pytest.raises(ValueError, match=said):
        table.upsert(frame)
    assert table.upsert(frame.reset_index(drop=True)).rows_inserted == 1


def test_an_index_that_pandas_wrote_to_a_file_is_named_as_such(tmp_path: Path) -> None:
    table = make(tmp_path / "t", pa.schema({"id": pa.int64(), "v": pa.string()}))
    frame = pd.DataFrame({"id": [1, 2], "v": ["a", "b"]}).iloc[1:].set_index([[7]])
    frame.to_parquet(tmp_path / "rows.parquet")
    stream = pa.Table.from_pandas(frame).to_reader()
    for rows in (tmp_path / "rows.parquet", stream):
        with pytest.raises(ValueError, match=r"'__index_level_0__'; .* to_parquet\(index=False\)"):
            table.upsert(rows)
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    assert table.upsert(tmp_path / "rows.parquet").rows_inserted == 1
    kept = pa.Table.from_pandas(frame, preserve_index=False)
    assert table.upsert(kept.to_reader()).rows_updated == 1


def test_a_series_that_is_an_arrow_stream_is_one_column(tmp_path: Path) -> None:
    """As from pandas 3 on, where a stream of a row with several types fails in Arrow."""

    class Series(pd.Series):  # type: ignore[misc]
        def __arrow_c_stream__(self, *_: object) -> object:
            raise pa.ArrowTypeError("Expected bytes, got a 'numpy.float64' object")

    table = make(tmp_path, pa.schema({"id": pa.int64(), "v": pa.string()}))
    with pytest.raises(TypeError, match=r"^rows is .*Series, one column; give a table or frame"):
        table.upsert(Series({"id": 1.0, "v": "a"}))


def test_long_is_not_widened_to_double(tmp_path: Path) -> None:
    known = pa.schema({"id": pa.int64(), "big": pa.int64(), "n": pa.int32()})
    table = make(tmp_path, known)
    table.upsert({"id": [1], "big": [2**53 + 1], "n": [1]})
    evolve = WriteOptions(evolve=True)
    said = r"'big' has 5.5 in row 1, which int64 cannot hold; give whole numbers, or write to a new"
    with pytest.raises(ValueError, match=said + " column or table: .*not from long to double, wh"):
        table.upsert({"id": [1], "big": [5.5], "n": [1]}, options=evolve)
    with pytest.raises(ValueError, match=r"int64 cannot hold; give whole numbers$"):
        table.upsert({"id": [1.5], "big": [5], "n": [1]}, options=evolve)
    # What it says works.
    table.upsert({"id": [1], "big": [5], "n": [1.5], "bigger": [5.5]}, options=evolve)
    assert table.get(1) == {"big": 5, "n": 1.5, "bigger": 5.5}


def test_evolving_makes_no_floats_of_integers(tmp_path: Path) -> None:
    """Whole numbers stay integers, at any depth; a fraction widens the column, as it was asked."""
    kinds = {"id": pa.int64(), "n": pa.int32(), "l": pa.list_(pa.int32()),
             "p": pa.struct({"a": pa.int32()})}  # fmt: skip
    table = make(tmp_path, pa.schema(kinds))
    evolve = WriteOptions(evolve=True)
    frame = pd.DataFrame(
        {"id": [1, 2], "n": [5, None], "l": [np.array([1.0, NAN]), None],
         "p": [{"a": 1.0}, {"a": None}], "new": ["x", None]}
    )  # fmt: skip
    for given in (frame, pl.from_pandas(frame), frame.to_dict("list"), frame.to_dict("records")):
        table.upsert(given, options=evolve)
        assert table.scan(columns=["id", "n", "l", "p", "new"]).to_pylist() == [
            {"id": 1, "n": 5, "l": [1, None], "p": {"a": 1}, "new": "x"},
            {"id": 2, "n": None, "l": None, "p": {"a": None}, "new": None},
        ]
    assert table.schema.field("n").type == pa.int32()
    table.upsert(pd.DataFrame({"id": [1], "n": [0.5]}), missing="keep", options=evolve)
    assert table.schema.field("n").type == pa.float64()
    assert table.scan(columns=["n"]).column(0).to_pylist() == [0.5, None]


@pytest.mark.parametrize("first", [{"_hoodie_is_deleted": [False]}, {"n": [None]}], ids=list)
def test_columns_after_one_without_a_type_are_added(tmp_path: Path, first: dict[str, Any]) -> None:
    table = make(tmp_path, pa.schema({"id": pa.int64(), "n": pa.int32()}))
    rows = pa.table(first | {"id": [1], "new": ["x"]})
    table.upsert(rows, missing="null", options=WriteOptions(evolve=True))
    wanted = [{"id": 1, "n": None, "new": "x"}]
    assert table.scan(columns=["id", "n", "new"]).to_pylist() == wanted


def test_a_column_of_nulls_is_of_any_type(tmp_path: Path) -> None:
    table = make(tmp_path)
    nulls = {name: [None, None] for name in SCHEMA.names[1:]}
    frame = pd.DataFrame({"id": [1, 2], **nulls})
    floats = frame.astype(float)
    for given in (frame, floats, pl.from_pandas(floats), floats.drop(columns=["x", "f"])
                  .to_dict("list") | {"x": [None, None], "f": [None, None]}):  # fmt: skip
        table.upsert(given)
        wanted = [dict.fromkeys(SCHEMA.names) | {"id": at} for at in (1, 2)]
        assert stored(tmp_path, table) == wanted


@pytest.mark.parametrize(
    ("kind", "given", "after"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.string(), pa.binary(), pa.binary()),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(9, 2)),
        (pa.struct({"a": pa.int32()}), pa.struct({"a": pa.int64(), "b": pa.string()}),
         pa.struct({"a": pa.int64(), "b": pa.string()})),
        (pa.int64(), pa.int32(), pa.int64()),
        # Those of pandas, which say nothing.
        (pa.int32(), pa.float64(), pa.int32()),
        (pa.string(), pa.float64(), pa.string()),
    ],
    ids=str,
)  # fmt: skip
def test_evolving_widens_a_column_to_the_type_of_nulls(
    tmp_path: Path, kind: pa.DataType, given: pa.DataType, after: pa.DataType
) -> None:
    table = make(tmp_path, pa.schema({"id": pa.int64(), "n": kind}))
    table.upsert(pa.table({"id": [1], "n": pa.nulls(1, given)}), options=WriteOptions(evolve=True))
    assert table.schema.field("n").type == after
    assert table.scan(columns=["id", "n"]).to_pylist() == [{"id": 1, "n": None}]


def test_nan_stays_in_a_column_of_floats(tmp_path: Path) -> None:
    table = make(tmp_path, pa.schema({"id": pa.int64(), "x": pa.float64()}))
    table.upsert({"id": [1], "x": [NAN]})
    assert str(table.scan(columns=["x"]).column(0).to_pylist()) == "[nan]"
    table.upsert(pd.DataFrame({"id": [1], "x": [NAN]}))  # which has no other null
    assert table.scan(columns=["x"]).column(0).to_pylist() == [None]


def test_dicts_have_the_same_keys(tmp_path: Path) -> None:
    table = make(tmp_path, pa.schema({"id": pa.int64(), "n": pa.int32()}))
    with pytest.raises(ValueError, match=r"row 2 has no 'n', which row 1 has; .*None for a null"):
        table.upsert([{"id": 1, "n": 1}, {"id": 2}])
    with pytest.raises(ValueError, match="row 1 has no 'n', which row 2 has"):
        table.upsert([{"id": 1}, {"id": 2, "n": 1}])
    with pytest.raises(TypeError, match="row 2 is int, and row 1 a dict"):
        table.upsert([{"id": 1}, 5])


def test_a_table_of_a_frame_with_times(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [1], "at": pd.to_datetime([NOON]).astype("datetime64[ns, UTC]")})
    for number, given in enumerate((frame, pl.from_pandas(frame), [{"id": 1, "at": NOON}])):
        table = make(tmp_path / str(number), given)
        table.insert(given)
        assert table.scan(columns=["at"]).column(0).to_pylist() == [NOON]
    frame["at"] += pd.Timedelta(1, "ns")
    for given in (frame, pa.Table.from_pandas(frame), pa.RecordBatch.from_pandas(frame)):
        with pytest.raises(
            TypeError, match=r"'at' is timestamp\[ns, tz=UTC\]; give .*without nanoseconds"
        ):
            make(tmp_path / "ns", given)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_of_files_in_nanoseconds(tmp_path: Path, zone: str | None) -> None:
    """Files of pandas have nanoseconds, which become microseconds if no digit is lost."""
    file, noon = tmp_path / "rows.parquet", NOON if zone else NOON.replace(tzinfo=None)
    kind = pa.timestamp("ns", zone)
    rows = pa.table({"id": [1], "at": pa.array([noon], kind)})
    pq.write_table(rows, file)
    assert pq.read_schema(file).field("at").type == kind
    for number, given in enumerate((file, str(file), ds.dataset(file), rows, rows.to_batches()[0])):
        table = make(tmp_path / str(number), given)
        assert table.schema.field("at").type == pa.timestamp("us", zone)
        table.insert(given)
        assert table.scan(columns=["at"]).column(0).to_pylist() == [noon]

        added = make(tmp_path / f"{number} added", pa.schema({"id": pa.int64()}))
        added.upsert(given, options=WriteOptions(evolve=True))
        assert added.schema.field("at").type == pa.timestamp("us", zone)
        assert added.scan(columns=["at"]).column(0).to_pylist() == [noon]

    pq.write_table(pa.table({"id": [1], "at": pa.array([1], kind)}), file)
    table = make(tmp_path / "finer", file)
    with pytest.raises(ValueError, match=r"rows: 'at' has .*000000001.* in row 1, .*dt\.floor"):
        table.insert(file)
    assert len(table) == 0


def test_random_numbers(tmp_path: Path, seed: int) -> None:
    """A number is stored as it is, or refused: Python compares numbers of all classes."""
    rng = random.Random(seed)
    kinds = {"n": pa.int32(), "big": pa.int64(), "x": pa.float64(), "f": pa.float32(),
             "price": pa.decimal128(12, 2)}  # fmt: skip
    pool: list[Any] = [0, 1, -7, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**60, 1.0, 0.5, 0.1, -3.25,
                       1e300, Decimal("1.25"), Decimal("1.255"), Decimal(8), None, NAN]  # fmt: skip
    table = make(tmp_path, pa.schema({"id": pa.int64(), **kinds}))
    outcomes, refused = set(), []
    for _ in range(12):
        name = rng.choice(list(kinds))
        values = rng.sample(pool, rng.randrange(1, 4))
        frame = pd.DataFrame({"id": range(len(values)), name: pd.Series(values, dtype=rng.choice(
            [object, None]))})  # fmt: skip
        given = rng.choice([frame, frame.to_dict("records")])
        real = [None if pd.isna(one) else one for one in frame[name].tolist()]
        try:
            table.insert_overwrite_table(given, missing="null")
        except (ValueError, TypeError) as error:
            refused.append(name in str(error))
            outcomes.add("refused")
            continue
        found = table.scan(columns=["id", name]).sort_by("id").column(name).to_pylist()
        found = [None if one is None or one != one else one for one in found]
        assert found == real, (name, values)
        outcomes.add("stored")
    assert outcomes == {"refused", "stored"}
    assert all(refused)
