"""Folders of files as other programs leave them, and what each of their readers is to find.

A case says which files are in a folder, which of them are rows, and what their folders say of them.
The expected types and values are those of Spark 4.3, which tests/spark asks about all cases.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

UTC = datetime.timezone.utc
PARQUET, ORC, TEXT, EMPTY = "Parquet", "ORC", "text", "empty"
NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Case:
    """A folder, and what is to be found in it.

    Attributes:
        name: of the case.
        files: what is in each file, by path below the folder.
        rows: the files that count, with the values that their folders give.
        types: of these.
        given: what is read: a path or glob below the folder.
        refused: what the error says; empty: it is read.
        options: of Spark's reader, with which it reads what the case expects.
        spark: whether Spark reads it so; else the case says why not in its name.
        duckdb: whether DuckDB's rule for names and values of folders is Spark's.
    """

    name: str
    files: dict[str, str]
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    types: dict[str, pa.DataType] = field(default_factory=dict)
    given: str = ""
    refused: str = ""
    options: dict[str, str] = field(default_factory=dict)
    spark: bool = True
    duckdb: bool = True

    def write(self, folder: Path) -> str:
        """Write the folder, and return the path that is to be given."""
        for number, (path, content) in enumerate(self.files.items()):
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            table = pa.table({"id": [number], "v": [path]})
            if content == PARQUET:
                pq.write_table(table, file)
            elif content == ORC:
                orc.write_table(table, file)
            else:
                file.write_bytes(b"" if content == EMPTY else b"some text, longer than a footer")
        return str(folder / self.given) if self.given else str(folder)

    def expected(self) -> list[dict[str, Any]]:
        """Return the rows, by `v`, in which a folder decides over a column of the file."""
        numbers = {path: number for number, path in enumerate(self.files)}
        found = [
            {"id": numbers[path], "v": path, **values} for path, values in sorted(self.rows.items())
        ]
        return [comparable(row) for row in found]

    @property
    def file_format(self) -> str:
        """Return the format of the files that count, as Spark calls it."""
        return self.files[next(iter(self.rows))].lower()


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of which a float that is not a number equals another one."""
    return {
        name: "NaN" if isinstance(value, float) and math.isnan(value) else value
        for name, value in row.items()
    }


def _value(text: str, kind: pa.DataType, value: Any, **more: Any) -> Case:
    path = f"c={text}/f.parquet"
    return Case(f"value {text}", {path: PARQUET}, {path: {"c": value}}, {"c": kind}, **more)


def _values(kind: pa.DataType, **values: Any) -> Case:
    paths = {f"c={text}/f.parquet": {"c": value} for text, value in values.items()}
    name = f"values {', '.join(values)}"
    return Case(name, dict.fromkeys(paths, PARQUET), paths, {"c": kind})


def _plain(name: str, *paths: str, content: str = PARQUET, also: Any = (), **more: Any) -> Case:
    files = {**dict.fromkeys(paths, content), **dict(also)}
    return Case(name, files, {path: {} for path in paths}, **more)


def _refused(name: str, refused: str, *paths: str, **more: Any) -> Case:
    return Case(name, dict.fromkeys(paths, PARQUET), refused=refused, **more)


_DAY = datetime.date(2026, 11, 20)
_NOON = datetime.datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
_MIDNIGHT = datetime.datetime(2026, 11, 20, tzinfo=UTC)
_TIME = pa.timestamp("us", "UTC")
_INTS = {"a=1/f.parquet": {"a": 1}, "a=2/x/g.parquet": {"a": 2}}

CASES = [
    # Which files count.
    _plain("names that no reader knows", "part-0.parquet", "000001_0", "b.parquet.gzip", "c.pqt"),
    _plain("ORC by its first bytes", "000000_0", "part-1", "a.orc", content=ORC, duckdb=False),
    _plain(
        "hidden files",
        "f.parquet",
        also={
            ".none.parquet.crc": TEXT,
            "_SUCCESS": EMPTY,
            "_h.parquet": PARQUET,
            ".i.parquet": PARQUET,
        },
    ),
    _plain("hidden folders", "f.parquet", also={"_t/f.parquet": PARQUET, ".t/g.parquet": PARQUET}),
    _plain("a copy that is not complete", "f.parquet", also={"g.parquet._COPYING_": PARQUET}),
    _plain("summaries", "f.parquet", also={"_metadata": PARQUET, "_common_metadata": PARQUET}),
    _plain("files without bytes", "f.parquet", also={"marker": EMPTY, "part-1": EMPTY}),
    _plain("a file with a sign in its name", "c=5.parquet", "_c=6.parquet", duckdb=False),
    _plain(
        "folders without meaning",
        "f.parquet",
        "x/g.parquet",
        "x/y/h.parquet",
        options={"recursiveFileLookup": "true"},
    ),
    _plain("a glob", "f.parquet", "g.parquet", also={"h.txt": TEXT}, given="*.parquet"),
    _plain("a file", "f", given="f", also={"g.parquet": PARQUET}),
    _plain("a folder in a partition", "a=1/f.parquet", given="a=1"),
    _plain("a file in a partition", "a=1/f.parquet", given="a=1/f.parquet"),
    Case("text", {"f.parquet": PARQUET, "README.md": TEXT}, refused=r"README\.md is neither"),
    Case("compressed", {"f": PARQUET, "f.parquet.gz": TEXT}, refused=r"f\.parquet\.gz is neither"),
    # What folders are called.
    Case("partitions", dict.fromkeys(_INTS, PARQUET), _INTS, {"a": pa.int32()}),
    Case(
        "nested partitions",
        {"a=1/b=x/f": PARQUET, "a=2/b=y/g": PARQUET},
        {"a=1/b=x/f": {"a": 1, "b": "x"}, "a=2/b=y/g": {"a": 2, "b": "y"}},
        {"a": pa.int32(), "b": pa.string()},
    ),
    Case(
        "partitions of ORC",
        {"a=1/000000_0": ORC, "a=2/000000_0": ORC},
        {"a=1/000000_0": {"a": 1}, "a=2/000000_0": {"a": 2}},
        {"a": pa.int32()},
        duckdb=False,
    ),
    Case(
        "a glob of partitions",
        {"a=1/f.parquet": PARQUET, "a=2/f.parquet": PARQUET, "a=2/g.txt": TEXT},
        {"a=1/f.parquet": {"a": 1}, "a=2/f.parquet": {"a": 2}},
        {"a": pa.int32()},
        given="a=*/*.parquet",
        options={"basePath": ""},
    ),
    Case(
        "a name that begins with an underscore",
        {"_p=1/f.parquet": PARQUET, "_t/p=1/f.parquet": PARQUET},
        {"_p=1/f.parquet": {"_p": 1}},
        {"_p": pa.int32()},
    ),
    Case(
        "an escaped name",
        {"a%20b=1/f": PARQUET},
        {"a%20b=1/f": {"a b": 1}},
        {"a b": pa.int32()},
        duckdb=False,
    ),
    Case("the name of a column", {"id=7/f": PARQUET}, {"id=7/f": {"id": 7}}, {"id": pa.int32()}),
    Case("a folder above", {"x/a=1/f": PARQUET}, {"x/a=1/f": {"a": 1}}, {"a": pa.int32()}),
    Case(
        "a gap between folders",
        {"a=1/x/b=2/f": PARQUET},
        {"a=1/x/b=2/f": {"b": 2}},
        {"b": pa.int32()},
        duckdb=False,
    ),
    Case(
        "an empty file in a folder",
        {"a=1/f": PARQUET, "a=x/g": EMPTY},
        {"a=1/f": {"a": "1"}},
        {"a": pa.string()},
    ),
    _refused("other names", "have the columns 'a' of their folders", "a=1/f", "b=1/f"),
    _refused("other depths", "have the columns 'a', 'b'", "a=1/f", "a=1/b=2/f"),
    _refused("other bases", "files in y/a=1 have", "x/a=1/f", "y/a=1/f"),
    _refused("an empty value", "has an empty value", "a=/f"),
    _refused("an empty name", "has an empty name", "=1/f"),
    _refused(
        "Spark has a leap day beyond", "a date beyond the years", "c=+10000-02-29/f", spark=False
    ),
    _refused("one name twice", "give one column", "a=1/a=2/f"),
    _refused("Spark leaves out the first", "the folder itself have no", "f", "a=1/f", spark=False),
    _refused(
        "Spark takes either name", "have the columns 'Day'", "Day=1/f", "day=2/f", spark=False
    ),
    # What one value is.
    _value("1", pa.int32(), 1),
    _value("007", pa.int32(), 7),
    _value("+5", pa.int32(), 5),
    _value("-2147483648", pa.int32(), -(1 << 31)),
    _value("2147483648", pa.int64(), 1 << 31),
    _value("20261120123456", pa.int64(), 20261120123456),
    _value("9223372036854775808", pa.decimal128(19, 0), Decimal(1 << 63)),
    _value("5.", pa.decimal128(1, 0), Decimal(5)),
    _value("1e5", pa.decimal128(6, 0), Decimal(100000)),
    _value("0e5", pa.decimal128(6, 0), Decimal(0)),
    _value("9" * 39, pa.float64(), 1e39),
    _value("0x10", pa.string(), "0x10"),
    _value("0x1.8p1d", pa.float64(), 3.0),
    _value("1.50", pa.float64(), 1.5),
    _value(" 5", pa.float64(), 5.0),
    _value("1f", pa.float64(), 1.0),
    _value("1e400", pa.float64(), math.inf),
    _value("NaN", pa.float64(), math.nan),
    _value("-Infinity", pa.float64(), -math.inf),
    _value("nan", pa.string(), "nan"),
    _value("1_000", pa.string(), "1_000"),
    _value("true", pa.string(), "true"),
    _value("2026-11-20", pa.date32(), _DAY),
    _value("2026-1-5", pa.string(), "2026-1-5"),
    _value("2026-02-30", pa.string(), "2026-02-30"),
    _value("0000-00-00", pa.string(), "0000-00-00"),
    _value("2026-11-20 12%3A00%3A00", _TIME, _NOON),
    _value("2026-11-20 12:00:00.5", _TIME, _NOON + datetime.timedelta(milliseconds=500)),
    _value("2026-11-20 12%3A00%3A00.123", pa.string(), "2026-11-20 12:00:00.123"),
    _value("2026-11-20 24%3A00%3A00", pa.string(), "2026-11-20 24:00:00"),
    _value("2026-11-20T12%3A00%3A00", pa.string(), "2026-11-20T12:00:00"),
    _value("a%2Fb", pa.string(), "a/b"),
    _value("a=b", pa.string(), "a=b", duckdb=False),
    _value("%31", pa.string(), "1"),
    _value("100%", pa.string(), "100%", duckdb=False),
    _value("é", pa.string(), "é"),
    _value("%C3%A9", pa.string(), "é", spark=False),  # to Spark two letters; DuckDB writes it so
    _value("__null__", pa.string(), "__null__"),
    # What several are.
    _values(pa.int64(), **{"1": 1, "2147483648": 1 << 31}),
    _values(pa.float64(), **{"1": 1.0, "1.5": 1.5}),
    _values(pa.string(), **{"2147483648": "2147483648", "1.5": "1.5"}),
    _values(pa.decimal128(20, 0), **{"7": Decimal(7), "9" * 20: Decimal("9" * 20)}),
    _values(pa.string(), **{"1.5": "1.5", "9" * 20: "9" * 20}),
    _values(pa.string(), **{"007": "007", "x": "x"}),
    _values(pa.string(), **{"1": "1", "2026-11-20": "2026-11-20"}),
    _values(_TIME, **{"2026-11-20": _MIDNIGHT, "2026-11-20 12%3A00%3A00": _NOON}),
    _values(pa.int32(), **{"1": 1, NULL: None}),
    _values(pa.date32(), **{"2026-11-20": _DAY, NULL: None}),
    _value(NULL, pa.string(), None, spark=False),  # to Spark a column without a type
]
