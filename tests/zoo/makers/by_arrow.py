"""Parquet, ORC, Arrow IPC and CSV by pyarrow, with every setting of its writers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyarrow import feather, orc
from zoo.makers.made import Made
from zoo.sample_columns import columns, table_of, wide_table

NOT_IN_PARQUET = ("union", "run_end", "interval", "struct_empty", "decimal_negative", "duration")
NOT_IN_ORC = (
    *NOT_IN_PARQUET,
    *("uint", "uuid", "float16", "time_", "null", "decimal32", "decimal64", "decimal256"),
    *("string_view", "binary_view", "dictionary", "json", "opaque", "bool8"),
)
NOT_IN_CSV = ("list", "large_list", "struct", "map", "union", "fixed_list", "run_end", "interval")

PARQUET: dict[str, dict[str, Any]] = {
    "default": {},
    **{
        f"version-{v}": {
            "version": v,
            "coerce_timestamps": "us",
            "allow_truncated_timestamps": True,
        }
        for v in ("1.0", "2.4")
    },
    "version-2.6": {"version": "2.6"},
    **{f"page-{v}": {"data_page_version": v} for v in ("1.0", "2.0")},
    **{
        f"codec-{codec}-page-{page}": {"compression": codec, "data_page_version": page}
        for codec in ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
        for page in ("1.0", "2.0")
    },
    "no-dictionary": {"use_dictionary": False},
    "small-pages": {"data_page_size": 64, "write_batch_size": 3, "use_dictionary": False},
    "small-dictionary": {"dictionary_pagesize_limit": 16, "write_batch_size": 3},
    "row-groups": {"row_group_size": 5},
    "int96": {"use_deprecated_int96_timestamps": True},
    "millis": {"coerce_timestamps": "ms", "allow_truncated_timestamps": True},
    "micros": {"coerce_timestamps": "us", "allow_truncated_timestamps": True},
    "page-index": {"write_page_index": True, "data_page_size": 64, "write_batch_size": 3},
    "page-checksums": {"write_page_checksum": True},
    "no-statistics": {"write_statistics": False},
    "statistics-of-one": {"write_statistics": ["id"]},
    "sorting": {"sorting_columns": [pq.SortingColumn(0)]},
    "no-arrow-schema": {"store_schema": False},
    "flavor-spark": {"flavor": "spark"},
    "lists-of-2.1": {"use_compliant_nested_type": False},
    "decimals-as-integers": {"store_decimal_as_integer": True},
    "content-defined": {"use_content_defined_chunking": True},
    "bloom": {"bloom_filter_options": {"id": {"ndv": 100}, "string": {"ndv": 100}}},
}
# Encodings that are for some types only.
ENCODINGS = {
    "int32": ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    "int64": ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    "uint8": ("DELTA_BINARY_PACKED",),
    "timestamp_us_utc": ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    "date32": ("DELTA_BINARY_PACKED",),
    "float32": ("PLAIN", "BYTE_STREAM_SPLIT"),
    "float64": ("PLAIN", "BYTE_STREAM_SPLIT"),
    "float16": ("BYTE_STREAM_SPLIT",),
    "fixed_binary": ("BYTE_STREAM_SPLIT", "DELTA_BYTE_ARRAY"),
    "decimal_38_10": ("BYTE_STREAM_SPLIT", "DELTA_BYTE_ARRAY"),
    "string": ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    "binary": ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    "bool": ("PLAIN", "RLE"),
}


def make(made: Made) -> None:
    """Write all files."""
    parquet(made)
    orcs(made)
    ipc(made)
    csvs(made)


def parquet(made: Made) -> None:
    """Write Parquet: each type alone, then all types with each setting, then encodings."""
    for name in columns():
        for called, settings in (("", {}), ("-plain-schema", {"store_schema": False})):
            with made.file(f"parquet/types/{name}{called}.parquet") as path:
                pq.write_table(table_of(name), path, **settings)
    table, few = wide_table(NOT_IN_PARQUET), ("id", "string", "timestamp_ns_utc", "list", "float64")
    for name, settings in PARQUET.items():
        with made.file(f"parquet/settings/{name}.parquet") as path:
            pq.write_table(table, path, **settings)
        with made.file(f"parquet/settings-few/{name}.parquet") as path:
            pq.write_table(wide_table(NOT_IN_PARQUET, 200).select(few), path, **settings)
    for name, encodings in ENCODINGS.items():
        for encoding in encodings:
            for page in ("1.0", "2.0"):
                with made.file(f"parquet/encodings/{name}-{encoding}-{page}.parquet") as path:
                    pq.write_table(
                        wide_table(NOT_IN_PARQUET, 30).select(["id", name]),
                        path,
                        use_dictionary=False,
                        column_encoding={"id": "DELTA_BINARY_PACKED", name: encoding},
                        data_page_version=page,
                    )
    for name in ("no-rows", "no-columns", "a-row"):
        rows = table_of("string").slice(0, 1 if name == "a-row" else 0)
        with made.file(f"parquet/small/{name}.parquet") as path:
            pq.write_table(rows.select([]) if name == "no-columns" else rows, path)
    twice = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], ["id", "id"])
    odd = {"twice": twice, "dots": pa.table({"a.b": [1, 2], "a": [3, 4]})}
    odd |= {"case": pa.table({"id": [1, 2], "ID": [3, 4]}), "empty-name": pa.table({"": [1, 2]})}
    odd |= {"required": table_of("int64").slice(0, 2).cast(REQUIRED)}
    for name, one in odd.items():
        with made.file(f"parquet/names/{name}.parquet") as path:
            pq.write_table(one, path)
    for name in ("users.parquet.gzip", "part-0", "000001_0", "users.pqt"):
        with made.file(f"parquet/file-names/{name}") as path:
            pq.write_table(table_of("string"), path)


REQUIRED = pa.schema([pa.field("id", pa.int32(), False), pa.field("value", pa.int64(), False)])


def orcs(made: Made) -> None:
    """Write ORC: each type alone, then all types with each setting."""
    for name in columns():
        if name == "decimal_negative_scale":  # ORC's library ends the process
            continue
        with made.file(f"orc/types/{name}.orc") as path:
            orc.write_table(table_of(name), path)
    table = wide_table((*NOT_IN_ORC, "map", "list", "large_list", "fixed_list"), 100)
    settings: dict[str, dict[str, Any]] = {
        f"{codec}-{version}": {"compression": codec, "file_version": version}
        for codec in ("uncompressed", "zlib", "snappy", "lz4", "zstd")
        for version in ("0.11", "0.12")
    }
    settings |= {
        "small-blocks": {"compression": "zlib", "compression_block_size": 65536},
        "compression-strategy": {"compression": "zstd", "compression_strategy": "compression"},
        "small-stripes": {"stripe_size": 4096, "batch_size": 100},
        "stride": {"row_index_stride": 1000},
        "dictionary": {"dictionary_key_size_threshold": 1.0},
        "bloom": {"bloom_filter_columns": [0, 1, 5], "bloom_filter_fpp": 0.01},
        "padding": {"padding_tolerance": 0.5},
    }
    far = [
        name
        for name in table.schema.names
        if name.startswith(("timestamp_", "date64")) and "_ns_" not in name
    ]
    for name, setting in settings.items():
        with made.file(f"orc/settings/{name}.orc") as path:
            orc.write_table(table, path, **setting)
        with made.file(f"orc/settings-near/{name}.orc") as path:
            orc.write_table(table.drop_columns(far), path, **setting)


def ipc(made: Made) -> None:
    """Write Arrow IPC: each type alone as a file and a stream, and Feather, compressed or not."""
    for name in columns():
        with made.file(f"ipc/types/{name}.arrow") as path:
            write_ipc(table_of(name), path)
    table = wide_table(("union", "run_end"), 20)
    for codec in (None, "lz4", "zstd"):
        for extension in ("arrow", "arrows", "ipc"):
            with made.file(f"ipc/settings/{codec}.{extension}") as path:
                options = pa.ipc.IpcWriteOptions(compression=codec)
                write_ipc(table, path, extension == "arrows", options)
    for codec in ("uncompressed", "lz4", "zstd"):
        with made.file(f"ipc/feather/{codec}.feather") as path:
            feather.write_feather(wide_table(("union", "run_end", "interval")), path, codec)
    with made.file("ipc/feather/version-1.feather") as path:
        feather.write_feather(table_of("string"), path, version=1)
    old = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with made.file("ipc/settings/version-4.arrow") as path:
        write_ipc(table_of("string"), path, options=old)
    for name in ("deltas", "replaced"):  # dictionaries that grow, or change from batch to batch
        parts = [["a", "b"], ["a", "b", "c"] if name == "deltas" else ["c", "a"]]
        batches = [
            pa.table(
                {"id": range(2 * i, 2 * i + 2), "value": pa.DictionaryArray.from_arrays([1, 0], p)}
            )
            for i, p in enumerate(parts)
        ]
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        with (
            made.file(f"ipc/settings/dictionaries-{name}.arrows") as path,
            pa.ipc.new_stream(path, batches[0].schema, options=options) as writer,
        ):
            for batch in batches:
                writer.write_table(batch)


def write_ipc(table: pa.Table, path: str, is_stream: bool = False, options: Any = None) -> None:
    """Write a table as a file or stream of Arrow IPC."""
    new = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with new(path, table.schema, options=options) as writer:
        writer.write_table(table)


def csvs(made: Made) -> None:
    """Write CSV: each type alone, and each setting."""
    for name in columns():
        with made.file(f"csv/types/{name}.csv") as path:
            pa_csv.write_csv(table_of(name), path)
    table = wide_table(NOT_IN_CSV)
    for style in ("needed", "all_valid"):
        for delimiter, extension in ((",", "csv"), ("\t", "tsv"), (";", "csv")):
            options = pa_csv.WriteOptions(delimiter=delimiter, quoting_style=style)
            name = {",": "comma", "\t": "tab", ";": "semicolon"}[delimiter]
            with made.file(f"csv/settings/{style}-{name}.{extension}") as path:
                pa_csv.write_csv(table.select(["id", "string", "int8", "bool"]), path, options)
    for codec, extension in (("gzip", "gz"), ("bz2", "bz2"), ("zstd", "zst"), ("lz4", "lz4")):
        with (
            made.file(f"csv/compressed/users.csv.{extension}") as path,
            pa.CompressedOutputStream(path, codec) as stream,
        ):
            pa_csv.write_csv(table_of("string"), stream)
    for name, content in ODD_TEXTS.items():
        with made.file(f"csv/odd/{name}") as path, open(path, "wb") as file:
            file.write(content)


ODD_TEXTS = {
    "latin-1.csv": "id,name\n1,Zoë\n2,é\n".encode("latin-1"),
    "utf-16.csv": "id,name\n1,Zoë\n".encode("utf-16"),
    "bom.csv": b"\xef\xbb\xbfid,name\n1,a\n2,b\n",
    "ragged.csv": b"id,name\n1,a\n2\n3,c,d\n",
    "inch.csv": b'id,name\n1,5" pipe\n2,b\n3,"6"" pipe"\n',
    "inches.csv": b'id,name\n1,5" pipe\n2,6" pipe\n3,c\n',
    "crlf.csv": b"id,name\r\n1,a\r\n2,b\r\n",
    "cr.csv": b"id,name\r1,a\r2,b\r",
    "blank-lines.csv": b"id,name\n\n1,a\n\n2,b\n\n",
    "no-newline.csv": b"id,name\n1,a\n2,b",
    "leading-zeros.csv": b"id,zip\n1,02134\n2,10001\n",
    "mixed.csv": b"id,code\n1,7\n2,x7\n",
    "late-text.csv": b"id,code\n"
    + b"".join(b"%d,%d\n" % (i, i) for i in range(200_000))
    + b"x,y\n",
    "big-integers.csv": b"id,n\n1,18446744073709551616\n2,1\n",
    "nulls.csv": b'id,a,b\n1,,\n2,NA,null\n3,"",x\n',
    "header-only.csv": b"id,name\n",
    "empty.csv": b"",
    "numbers-of-lines.csv": b'id,name\n1,"a\nb"\n2,"c\r\nd"\n',
    "true-false.csv": b"id,t\n1,true\n2,FALSE\n3,True\n",
    "times.csv": b"id,t\n1,2020-01-01 00:00:00\n2,2020-01-01T10:00:00.5\n",
    "zones.csv": b"id,t\n1,2020-01-01 00:00:00Z\n2,2020-01-01 10:00:00+02:00\n",
    "far-times.csv": b"id,t\n1,9999-12-31 23:59:59\n2,0001-01-01 00:00:00\n",
    "nanoseconds.csv": b"id,t\n1,2020-01-01 00:00:00.123456789\n2,2020-01-01 00:00:00.5\n",
    "exponents.csv": b"id,x\n1,1e300\n2,1e-400\n3,1E5\n",
    "digits.csv": b"id,x\n1,0.1234567890123456789\n2,12345678901234567.5\n",
    "spaces.csv": b"id,x\n1, 2\n2,3 \n",
    "names-with-spaces.csv": b"id, name\n1,a\n",
    "big-integers.jsonl": b'{"id": 1, "n": 18446744073709551616}\n{"id": 2, "n": 1}\n',
    "nested-integers.jsonl": b'{"id": 1, "s": {"n": 9007199254740993}}\n{"id": 2, "s": {"n": 1}}\n',
    "int64-edge.jsonl": b'{"id": 9223372036854775807}\n{"id": -9223372036854775808}\n',
    "float-after-int.jsonl": b'{"id": 1, "n": 1}\n{"id": 2, "n": 1.5}\n',
    "mixed.jsonl": b'{"id": 1, "n": 1}\n{"id": 2, "n": "x"}\n',
    "missing.jsonl": b'{"id": 1, "n": 1}\n{"id": 2}\n{"id": 3, "m": null}\n',
    "repeated-names.jsonl": b'{"id": 1, "n": 1, "n": 2}\n',
    "times.jsonl": b'{"id": 1, "t": "2020-01-01 00:00:00"}\n{"id": 2, "t": "2020-01-01T10:00Z"}\n',
    "dates.jsonl": b'{"id": 1, "t": "2020-01-01"}\n{"id": 2, "t": "0001-01-01"}\n',
    "far-times.jsonl": b'{"id": 1, "t": "9999-12-31 23:59:59"}\n{"id": 2, "t": "1500-01-01"}\n',
    "escapes.jsonl": b'{"id": 1, "t": "\\u0000\\ud834\\udd1e\\n"}\n{"id": 2, "t": "\\ud834"}\n',
    "lists.jsonl": b'{"id": 1, "l": [1, null, 2.5]}\n{"id": 2, "l": []}\n{"id": 3, "l": null}\n',
    "list-of-lists.jsonl": b'{"id": 1, "l": [[1], [], null]}\n{"id": 2, "l": [[{"a": 1}]]}\n',
    "array.json": b'[{"id": 1}, {"id": 2}]\n',
    "pretty.json": b'{\n  "id": 1\n}\n{\n  "id": 2\n}\n',
    "digits.jsonl": b'{"id": 1, "x": 0.1234567890123456789}\n{"id": 2, "x": 1e400}\n',
    "late-field.jsonl": b"".join(b'{"id": %d}\n' % i for i in range(150_000))
    + b'{"id": -1, "n": 5}\n',
    "nan.jsonl": b'{"id": 1, "x": NaN}\n{"id": 2, "x": Infinity}\n',
    "not-utf-8.jsonl": b'{"id": 1, "x": "\xff"}\n{"id": 2, "x": "a"}\n',
}
