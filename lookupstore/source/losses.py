"""List what each kind of source may lose in a store or lookup, and the outcome.

The command `lookupstore formats` prints the list. `docs/reference/sources.md` has a table of what
is refused or may change; the pages of Delta, Iceberg and Paimon have those of their tables.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Outcomes for values that may be lost.
EXACT, REFUSED, NOTED = "exact", "refused", "noted"


@dataclass(frozen=True)
class Loss:
    """One thing that a source may lose.

    Attributes:
        source: Kind of the source.
        what: Values, rows or columns that may be lost.
        outcome: `exact`: the value is read unchanged; `refused`: an error names it; `noted`: it may
            change, and nothing in the input shows it.
        how: Result of the reading, or the remedy.
    """

    source: str
    what: str
    outcome: str
    how: str


_AS_SPARK = "pass the rows that Spark reads"
_OTHERS = "choose other columns"
_KEYS = "decrypt it, or pass the table that pyarrow reads with the keys"

LOSSES = (
    Loss("every source", "text that is not UTF-8", REFUSED,
         "recode it, or cast the column to binary"),
    Loss("every source", "unions and run-end encoded columns", REFUSED, f"cast them, or {_OTHERS}"),
    Loss("every source", "more than 100 levels of lists, structs and maps", REFUSED,
         f"store them as text, or {_OTHERS}"),
    Loss("every source", "metadata of the schema", NOTED, "left out"),
    # ---- files with types
    Loss("Parquet", "INT96 timestamps", EXACT,
         "timestamp[us, UTC], also before 1677 and after 2262"),
    Loss("Parquet", "nanoseconds in INT96", REFUSED,
         "write TIMESTAMP(NANOS); to drop the digits, pass "
         '`pyarrow.parquet.read_table(path, coerce_int96_timestamp_unit="us")`'),
    Loss("Parquet", "Spark's old calendar: dates before 1582-10-15, times before 1900", REFUSED,
         _AS_SPARK),
    Loss("Parquet", "UUID and JSON", EXACT, "Arrow's types of these names"),
    Loss("Parquet", "INTERVAL", EXACT, "its 12 bytes"),
    Loss("Parquet", "groups without fields", EXACT, "left out"),
    Loss("Parquet", "unknown fields of the footer", EXACT, "skipped"),
    Loss("Parquet", "keys behind a Bloom filter that contradicts the footer", EXACT,
         "found in the pages"),
    Loss("Parquet", "encrypted files and columns", REFUSED, _KEYS),
    Loss("Parquet", "summary files (`_metadata`)", REFUSED, "give the files that they list"),
    Loss("Parquet", "null arrays as DuckDB writes them", REFUSED,
         f"{_OTHERS}, or pass the DuckDB relation"),
    Loss("ORC", "timestamps before 1677 and after 2262", REFUSED,
         f"write Parquet, or {_AS_SPARK}"),
    Loss("ORC", "Java's old calendar: dates before 1582-10-15", REFUSED, _AS_SPARK),
    Loss("ORC", "Spark's TIMESTAMP_NTZ", EXACT, "timestamp[us]"),
    Loss("ORC", "timestamps written in another time zone", EXACT,
         "the writer's local time, without a zone"),
    Loss("ORC", "encodings that are not known", EXACT,
         "the default encoding"),
    Loss("ORC", "encrypted columns", REFUSED,
         f"{_OTHERS}, or pass rows that are read with the key"),
    Loss("ORC", "files compressed with LZO or Brotli", REFUSED, "write them with zstd"),
    Loss("ORC", "types that are not known", REFUSED, "pass the rows that another program reads"),
    Loss("Parquet, ORC", "Spark's intervals", NOTED,
         f"integers of months or microseconds; for durations, {_AS_SPARK}"),
    Loss("Parquet, ORC", "two columns of one name", REFUSED, "choose columns with `columns=`"),
    Loss("Parquet, ORC", "files below 1 MiB with hundreds of MiB of rows", REFUSED,
         "read the file yourself, and pass its rows"),
    Loss("Arrow IPC", "Feather of version 1", REFUSED, "write it as version 2"),
    # ---- text
    Loss("CSV", "codes such as 02134, +49, 0x1f and 12E3", EXACT, "text"),
    Loss("CSV", "integers beyond int64", EXACT, "text"),
    Loss("CSV", "fractions with more digits than a float64", NOTED,
         "the nearest float64; to keep all digits, pass decimals"),
    Loss("CSV", "offsets of timestamps, such as +01:00", NOTED, "the instant, in UTC"),
    Loss("CSV", "later values of another type", REFUSED,
         "pass `pyarrow.csv.open_csv(...)` with `convert_options`, or give `--types`"),
    Loss("CSV", "rows with more or fewer fields than names", REFUSED,
         "quote the separator, or pass `pyarrow.csv.read_csv(...)`"),
    Loss("CSV", "quotes not closed at the end of a field", REFUSED,
         "double quotes within quotes, or parse with `quote_char=False`, `--quote none`"),
    Loss("CSV", 'quotes inside a field, such as 5" pipe', EXACT, "text"),
    Loss("CSV", "fields separated by semicolons", REFUSED,
         "pass `pyarrow.csv.open_csv(...)` with `parse_options`, or give `--delimiter`"),
    Loss("CSV", "empty lines", NOTED, "skipped, also where the file has one column"),
    Loss("JSON lines", "integers beyond int64", EXACT,
         "uint64 or decimal, also in lists and structs"),
    Loss("JSON lines", "integers that float64 cannot represent, next to floats",
         REFUSED,
         "pass `pyarrow.json.read_json(...)` with an `explicit_schema`, or give `--types`"),
    Loss("JSON lines", "fractions with more digits than a float64", NOTED,
         "the nearest float64; to keep all digits, write text"),
    Loss("JSON lines", "times", EXACT, "text"),
    Loss("JSON lines", "fields that no row of the first megabyte has", REFUSED,
         "pass `pyarrow.json.read_json(...)` with an `explicit_schema`, or give `--types`"),
    Loss("JSON lines", "arrays, or one array of all rows", REFUSED,
         "write an object in each line"),
    Loss("JSON lines", "rows that nest more than 256 brackets", REFUSED,
         "write deeper values as text"),
    Loss("CSV, JSON lines", "values of more than 64 MiB", REFUSED, "pass `max_text=`"),
    Loss("CSV, JSON lines", "rows of more than 1 GiB", REFUSED,
         "read the file yourself, and pass its rows"),
    Loss("compressed CSV, JSON lines", "rows above 64 MiB and 100 times the size of the file",
         REFUSED, "decompress the file"),
    Loss("CSV, JSON lines", "text in Latin-1 or UTF-16", REFUSED, "recode it with `iconv`"),
    # ---- frames and relations
    Loss("pandas", "NaN in columns of floats", NOTED,
         "null; to keep NaN, pass NumPy arrays"),
    Loss("pandas", "an index without a name", NOTED, "left out; name the index to store it"),
    Loss("pandas", "integers beyond 64 bits", REFUSED, "make them `decimal.Decimal` or text"),
    Loss("pandas", "objects of several types", REFUSED, "give the column one type"),
    Loss("pandas, dict", "other objects beside dates or times", REFUSED,
         "give the column one type"),
    Loss("polars", "Int128, UInt128, Object", REFUSED, "cast the column, or drop it"),
    Loss("DuckDB relation", "BIT, TIMETZ, UHUGEINT, BIGNUM, VARIANT", REFUSED,
         "cast it: `v::VARCHAR`"),
    Loss("DuckDB relation", "numbers of 39 digits in HUGEINT, the time 24:00", REFUSED,
         "cast it: `v::VARCHAR`"),
    Loss("DuckDB relation", "HUGEINT, UUID, JSON", EXACT, "decimal128(38, 0), text, text"),
    Loss("DuckDB relation", "INTERVAL with more than 292 years of microseconds", NOTED,
         "DuckDB overflows without an error; cast it: `v::VARCHAR`"),
    Loss("DuckDB relation", "types in this list, after `.arrow()`", NOTED,
         "values that DuckDB has already converted; pass the relation"),
    # ---- several files
    Loss("folders", "values of `name=value` folders such as 007", NOTED, "the number, as in Spark"),
    Loss("folders", "columns of files with the names of folder columns", NOTED,
         "the value of the folder, as in Spark"),
    Loss("folders", "files next to `name=value` folders, `Day=` next to `day=`", REFUSED,
         "give one folder or glob for the files of each"),
    Loss("folders", "files that are neither Parquet nor ORC", REFUSED,
         "begin their names with `_`, or give a glob"),
    Loss("folders", "values that the type in the first file cannot hold", REFUSED,
         "give files whose types agree"),
    Loss("folders", "columns that a later file lacks", REFUSED,
         "choose columns that all files have; `ColumnarFiles` returns nulls"),
    Loss("folders", "columns that the first file lacks", REFUSED,
         "choose with `columns=`, or pass a DuckDB relation with `union_by_name=True`; "
         "`ColumnarFiles` returns them"),
    Loss("folders", "structs with other fields than in the first file", REFUSED,
         "give files whose types agree"),
    # ---- tables
    Loss("Delta, Iceberg", "deleted rows; columns that were renamed, added or widened", EXACT, ""),
    Loss("Delta", "a path into a table", REFUSED, "give the folder of the table"),
    Loss("Delta", "an empty text in a partition column", NOTED, "null, as in Delta's protocol"),
    Loss("Delta", "other reader features", REFUSED, _AS_SPARK),
    Loss("Delta", "columns of type VARIANT", REFUSED, _AS_SPARK),
    Loss("Delta", "partition columns of type binary", REFUSED, _AS_SPARK),
    Loss("Delta", "files outside the table, as in shallow clones", REFUSED, _AS_SPARK),
    Loss("Delta", "deletion vectors that deltalake does not return", REFUSED,
         "install a newer deltalake"),
    Loss("Delta", "a file system with other options than S3", REFUSED,
         "pass `deltalake.DeltaTable(uri, storage_options=...)`"),
    Loss("Iceberg", "Avro files", REFUSED, _AS_SPARK),
    Loss("Iceberg", "encrypted files", REFUSED, _AS_SPARK),
    Loss("Iceberg", "equality deletes on a nested or dropped column", REFUSED, _AS_SPARK),
    Loss("Iceberg", "files without field ids, if the table has no name mapping", REFUSED,
         _AS_SPARK),
    Loss("Iceberg", "scans with a limit", REFUSED, "pass `scan.to_arrow_batch_reader()`"),
    Loss("Iceberg", "filters on a struct field", REFUSED, "pass `scan.to_arrow_batch_reader()`"),
    Loss("Iceberg", "pyiceberg before 0.12", REFUSED, "install pyiceberg 0.12 or newer"),
    Loss("Iceberg", "a file system other than S3, by its path", REFUSED,
         "pass `pyiceberg.table.StaticTable.from_metadata(...)`"),
    Loss("Paimon", "replaced and deleted rows; columns that were renamed, added or widened", EXACT,
         ""),
    Loss("Paimon", "a path into a table", REFUSED, "give the folder of the table"),
    Loss("Paimon", "merge engines `partial-update` and `aggregation`", REFUSED, _AS_SPARK),
    Loss("Paimon", "options that change which rows are read, such as `ignore-delete`", REFUSED,
         _AS_SPARK),
    Loss("Paimon", "postponed buckets (`bucket` = -2)", REFUSED, _AS_SPARK),
    Loss("Paimon", "branches", REFUSED, _AS_SPARK),
    Loss("Paimon", "columns of type VARIANT, BLOB or VECTOR", REFUSED, _AS_SPARK),
    Loss("Paimon", "timestamps finer than microseconds", REFUSED, _AS_SPARK),
    Loss("Paimon", "type changes other than widening", REFUSED, _AS_SPARK),
    Loss("Paimon", "a key or sequence of floats", REFUSED, _AS_SPARK),
    Loss("Paimon", "partition columns of timestamps, decimals, floats or bytes", REFUSED,
         _AS_SPARK),
    Loss("Paimon", "files outside its folder (external paths)", REFUSED, _AS_SPARK),
    Loss("Paimon", "files with some of the columns (data evolution)", REFUSED, _AS_SPARK),
    Loss("Paimon", "Avro files", REFUSED, _AS_SPARK),
    Loss("Paimon", "CHAR, TIME and timestamps with a time zone in ORC files", REFUSED, _AS_SPARK),
    Loss("Paimon", "deleted rows with the merge engine `first-row`", REFUSED, _AS_SPARK),
    Loss("Paimon", "deletion vectors that `deletion-vectors.enabled` turns off", REFUSED,
         _AS_SPARK),
    Loss("Paimon", "two rows with one key and one sequence number", REFUSED,
         "compact the table"),
    Loss("Paimon", "newer versions of metadata files", REFUSED, _AS_SPARK),
    Loss("Paimon", "deletion vectors or `first-row`: rows not yet compacted", NOTED,
         "left out, as in Paimon"),
    Loss("Delta, Iceberg, Paimon", '`on_duplicate="first"` or `"last"`', REFUSED,
         'use `on_duplicate=("max", column)` in a build'),
    Loss("tables, sets of paths", "an upsert of a key with several rows that differ", REFUSED,
         "use `sequence=`"),
    Loss("Iceberg", "a path into a table, or to one of a catalog", REFUSED,
         "pass a `pyiceberg` table or scan"),
    Loss("Hudi", "a path inside a table, or a table in a list with other paths", REFUSED,
         "give the table's folder alone"),
    Loss("Hudi", "custom merge rules, partial updates or CDC blocks in log files", REFUSED,
         "compact the table with Apache Hudi"),
    Loss("sink of a Spark stream", "a path to a sink or into one", REFUSED, _AS_SPARK),
    # ---- Spark and stores
    Loss("Spark", "text of a collation, as a key or a stored column", REFUSED,
         '`F.collate(column, "UTF8_BINARY")`'),
    Loss("Spark", "the collation of an argument of `register_lookup`", NOTED,
         "compared as bytes; use `lookup_join`"),
    Loss("Spark", "VARIANT, intervals of years or of the calendar", REFUSED,
         "cast the column, or leave it out"),
    Loss("Spark", "ORC timestamps, where the zone of the JVM is not UTC", REFUSED,
         "start Spark with `-Duser.timezone=UTC`, or pass `spark.read.orc(...)`"),
    Loss("Spark", "stored times finer than a microsecond", REFUSED,
         "leave the column out, or store it in microseconds"),
    Loss("upsert", "values that the type of the store cannot hold", REFUSED,
         "change the value, or build the store with another type"),
    Loss("upsert", "columns of another kind, such as text for numbers", REFUSED,
         "cast the column to the type of the store"),
    Loss("upsert", "columns that the store lacks", REFUSED,
         "rename them, or choose with `columns=`"),
)  # fmt: skip
