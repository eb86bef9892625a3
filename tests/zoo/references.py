"""Read files and tables with libraries that are not this project's.

The first reader of a kind that reads a file decides what is right: the format's own library, or
pyarrow with the microseconds that Spark reads from INT96. What the others read otherwise is noted.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from zoo import finding
from zoo.values import Rows, float_value, rows_of

Reader = Callable[[str], Rows]


class UnreadableError(Exception):
    """A reader gives no rows, for a reason that it does not raise itself."""


# ---- Parquet ----


def parquet_by_pyarrow(path: str) -> Rows:
    """Read Parquet with pyarrow."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
        return rows_of(file.read())


def parquet_by_duckdb(path: str) -> Rows:
    """Read Parquet with DuckDB."""
    return rows_of(_duckdb("from read_parquet(?, hive_partitioning = false)", path))


def int96_columns(path: str) -> set[str]:
    """Return the top-level columns of a Parquet file that have INT96 in them."""
    import pyarrow.parquet as pq

    schema = pq.ParquetFile(path).schema
    columns = [schema.column(i) for i in range(len(schema))]
    return {one.path.split(".")[0] for one in columns if one.physical_type == "INT96"}


def is_of_old_calendar(path: str) -> bool:
    """Whether Spark wrote the dates of a Parquet file in the calendar before 1582, as it notes."""
    import pyarrow.parquet as pq

    noted = pq.read_metadata(path).metadata or {}
    return b"org.apache.spark.legacyDateTime" in noted or b"org.apache.spark.legacyINT96" in noted


# ---- ORC ----

#: What Spark writes to a column of integers that are microseconds of a local time.
SPARK_TYPE, LOCAL_TIME = "spark.sql.catalyst.type", "timestamp_ntz"


def orc_by_pyarrow(path: str) -> Rows:
    """Read ORC with pyarrow."""
    from pyarrow import orc

    table = orc.ORCFile(path).read()
    told = [field.metadata or {} for field in table.schema]
    local = pa.timestamp("us")
    for at, field in enumerate(table.schema):
        if told[at].get(SPARK_TYPE.encode()) == LOCAL_TIME.encode():
            table = table.set_column(at, field.with_type(local), table.column(at).cast(local))
    return rows_of(table)


def orc_by_pyorc(path: str) -> Rows:
    """Read ORC with pyorc, which is ORC's own C++ library."""
    import pyorc
    from pyorc.converters import ORCConverter
    from pyorc.enums import StructRepr, TypeKind

    class Nanoseconds(ORCConverter):
        @staticmethod
        def from_orc(seconds: int, nanoseconds: int, timezone: Any) -> int:
            return seconds * 1_000_000_000 + nanoseconds

        @staticmethod
        def to_orc(*given: Any) -> Any:
            raise NotImplementedError

    class Days(ORCConverter):
        @staticmethod
        def from_orc(days: int) -> int:
            return days

        @staticmethod
        def to_orc(*given: Any) -> Any:
            raise NotImplementedError

    converters = {
        TypeKind.TIMESTAMP: Nanoseconds,
        TypeKind.TIMESTAMP_INSTANT: Nanoseconds,
        TypeKind.DATE: Days,
    }
    with open(path, "rb") as file:
        reader = pyorc.Reader(file, struct_repr=StructRepr.TUPLE, converters=converters)
        if reader.schema.kind is not TypeKind.STRUCT:
            raise UnreadableError("the root is not a struct")
        fields = list(reader.schema.fields.items())
        rows = list(reader)
    columns = [[_of_orc(row[i], kind) for row in rows] for i, (_, kind) in enumerate(fields)]
    families = [_orc_family(kind) for _, kind in fields]
    return Rows([name for name, _ in fields], families, ["" for _ in fields], columns)


_ORC_FAMILIES = {
    "BOOLEAN": "bool",
    "BYTE": "int",
    "SHORT": "int",
    "INT": "int",
    "LONG": "int",
    "FLOAT": "float",
    "DOUBLE": "float",
    "STRING": "text",
    "CHAR": "text",
    "VARCHAR": "text",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "local",
    "TIMESTAMP_INSTANT": "instant",
    "DECIMAL": "decimal",
    "UNION": "union",
}


def _is_local_time(kind: Any) -> bool:
    return kind.kind.name == "LONG" and kind.attributes.get(SPARK_TYPE) == LOCAL_TIME


def _orc_family(kind: Any) -> str:
    if _is_local_time(kind):
        return "local"
    if kind.kind.name == "LIST":
        return f"list<{_orc_family(kind.type)}>"
    if kind.kind.name == "MAP":
        return f"map<{_orc_family(kind.key)}, {_orc_family(kind.value)}>"
    if kind.kind.name == "STRUCT":
        parts = (f"{name}: {_orc_family(part)}" for name, part in kind.fields.items())
        return f"struct<{', '.join(parts)}>"
    return _ORC_FAMILIES[kind.kind.name]


def _of_orc(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    name = kind.kind.name
    if _is_local_time(kind):
        return value * 1000
    if name in ("FLOAT", "DOUBLE"):
        return float_value(value)
    if name == "LIST":
        return tuple(_of_orc(item, kind.type) for item in value)
    if name == "MAP":
        return tuple((_of_orc(k, kind.key), _of_orc(v, kind.value)) for k, v in value.items())
    if name == "STRUCT":
        parts = zip(kind.fields.items(), value, strict=True)
        return tuple((part, _of_orc(item, inner)) for (part, inner), item in parts)
    return value


# ---- Arrow IPC ----


def ipc_by_pyarrow(path: str) -> Rows:
    """Read a file or stream of Arrow IPC, or Feather of version 1, with pyarrow."""
    with open(path, "rb") as file:
        head = file.read(4)
    if head == b"FEA1":
        from pyarrow import feather

        return rows_of(feather.read_table(path))
    with pa.OSFile(path) as file:
        opened = pa.ipc.open_stream(file) if head == b"\xff" * 4 else pa.ipc.open_file(file)
        return rows_of(opened.read_all())


def ipc_by_polars(path: str) -> Rows:
    """Read Arrow IPC with polars."""
    import polars as pl

    with open(path, "rb") as file:
        is_stream = file.read(4) == b"\xff" * 4
    read = pl.read_ipc_stream if is_stream else pl.read_ipc
    return rows_of(read(path, **({} if is_stream else {"memory_map": False})).to_arrow())


# ---- text ----


def plain_bytes(path: str) -> bytes:
    """Return the bytes of a file, decompressed as its extension says."""
    content = Path(path).read_bytes()
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":
        return gzip.decompress(content)
    if suffix == ".bz2":
        return bz2.decompress(content)
    if suffix in (".zst", ".lz4"):
        codec = {".zst": "zstd", ".lz4": "lz4"}[suffix]
        with pa.CompressedInputStream(pa.BufferReader(content), codec) as stream:
            return stream.read()
    return content


def csv_by_python(path: str) -> Rows:
    """Read CSV with Python's own module; every column is text, and an empty field null."""
    text = plain_bytes(path).decode("utf-8-sig")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(path, text))
    rows = [row for row in reader if row]
    if not rows:
        raise UnreadableError("it is empty")
    names, *rest = rows
    ragged = next((i for i, row in enumerate(rest, 2) if len(row) != len(names)), None)
    if ragged is not None:
        raise UnreadableError(f"row {ragged} has another number of fields than the names")
    columns = [[row[i] or None for row in rest] for i in range(len(names))]
    return _texts(names, columns)


def csv_by_duckdb(path: str) -> Rows:
    """Read CSV with DuckDB; every column is text, and an empty field null."""
    content = plain_bytes(path)
    text = content.decode("utf-8-sig")
    query = (
        "from read_csv(?, all_varchar = true, header = true, delim = ?, quote = '\"', "
        "escape = '\"', nullstr = '', auto_detect = false, columns = ?)"
    )
    separator = _separator(path, text)
    names = next(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    table = _duckdb(query, path, separator, {name: "VARCHAR" for name in names})
    found = rows_of(table)
    return _texts(found.names, [[v or None for v in column] for column in found.columns])


def _separator(path: str, text: str) -> str:
    line = text.partition("\n")[0]
    return "\t" if ".tsv" in Path(path).suffixes or line.count("\t") > line.count(",") else ","


def json_by_python(path: str) -> Rows:
    """Read JSON lines with Python's own module: integers of any size, fractions as decimals."""
    text = plain_bytes(path).decode("utf-8-sig")
    rows = [json.loads(line, parse_float=Decimal) for line in text.splitlines() if line.strip()]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise UnreadableError("not every line is an object")
    names = list(dict.fromkeys(name for row in rows for name in row))
    return _texts(names, [[row.get(name) for row in rows] for name in names])


def _texts(names: list[str], columns: list[list[Any]]) -> Rows:
    return Rows(names, ["untyped"] * len(names), [""] * len(names), columns)


# ---- tables ----


def delta_by_deltalake(path: str) -> Rows:
    """Read a Delta table with deltalake."""
    from deltalake import DeltaTable

    return rows_of(pa.table(DeltaTable(path).scan().read_all()))


def iceberg_metadata(path: str) -> str:
    """Return the newest metadata file of an Iceberg table."""
    files = Path(path, "metadata").glob("*.metadata.json*")
    return str(max(files, key=lambda one: int(one.name.lstrip("v").split(".")[0].split("-")[0])))


def iceberg_by_pyiceberg(path: str) -> Rows:
    """Read an Iceberg table with pyiceberg."""
    from pyiceberg.table import StaticTable

    return rows_of(StaticTable.from_metadata(iceberg_metadata(path)).scan().to_arrow())


def paimon_by_pypaimon(path: str) -> Rows:
    """Read a Paimon table with pypaimon, if it is installed."""
    from pypaimon.table.file_store_table import FileStoreTable  # type: ignore[import-not-found]

    builder = FileStoreTable.from_path(path).new_read_builder()
    return rows_of(builder.new_read().to_arrow(builder.new_scan().plan().splits()))


def hudi_by_hudi_rs(path: str) -> Rows:
    """Read the data columns of a Hudi table with hudi-rs."""
    from hudi import HudiReadOptions, HudiTableBuilder

    table = HudiTableBuilder.from_base_uri(str(Path(path).resolve())).build()
    batches = table.read(HudiReadOptions())
    if not batches:
        raise UnreadableError("hudi-rs finds no rows")
    read = pa.Table.from_batches([pa.record_batch(batch) for batch in batches])
    return rows_of(read.select([n for n in read.schema.names if not n.startswith("_hoodie_")]))


def sink_by_its_log(path: str) -> Rows:
    """Read the files that the log of a Spark stream's sink names."""
    import pyarrow.parquet as pq

    files: dict[str, bool] = {}
    logs = [one for one in Path(path, "_spark_metadata").iterdir() if one.name[0].isdigit()]
    for log in sorted(logs, key=lambda one: (int(one.name.split(".")[0]), one.suffix == "")):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            files[entry["path"].rpartition("/")[2]] = entry.get("action", "add") == "add"
    added = [name for name, there in files.items() if there]
    return rows_of(pa.concat_tables([pq.read_table(Path(path, name)) for name in added]))


def _duckdb(query: str, *arguments: Any) -> pa.Table:
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("set timezone = 'UTC'")
        return connection.sql(query, params=list(arguments)).to_arrow_table()


#: The readers of each kind, with their names; the first that reads a file decides.
READERS: dict[str, dict[str, Reader]] = {
    finding.PARQUET: {"pyarrow": parquet_by_pyarrow, "duckdb": parquet_by_duckdb},
    finding.ORC: {"pyorc": orc_by_pyorc, "pyarrow": orc_by_pyarrow},
    finding.IPC: {"pyarrow": ipc_by_pyarrow, "polars": ipc_by_polars},
    finding.CSV: {"csv": csv_by_python, "duckdb": csv_by_duckdb},
    finding.JSON: {"json": json_by_python},
    finding.DELTA: {"deltalake": delta_by_deltalake},
    finding.ICEBERG: {"pyiceberg": iceberg_by_pyiceberg},
    finding.PAIMON: {"pypaimon": paimon_by_pypaimon},
    finding.HUDI: {"hudi-rs": hudi_by_hudi_rs},
    finding.SINK: {"its log": sink_by_its_log},
}
