"""Parquet, CSV and JSON by DuckDB: each of its types, and each setting of its writers."""

from __future__ import annotations

import duckdb
from zoo.makers.made import Made

PARQUET = {
    **{f"version-{v}": f"parquet_version {v}" for v in ("v1", "v2")},
    **{
        f"{codec}-{version}": f"codec '{codec}', parquet_version {version}"
        for codec in ("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw")
        for version in ("v1", "v2")
    },
    "row-groups": "row_group_size 2048",
    "no-dictionary": "dictionary_size_limit 1",
    "string-dictionary": "string_dictionary_page_size_limit 64",
    "bloom": "bloom_filter_false_positive_ratio 0.001",
    "no-bloom": "write_bloom_filter false",
    "field-ids": "field_ids 'auto'",
    "encrypted": "encryption_config {footer_key: 'key'}",
}
CSV = {
    "default": "header",
    "semicolon": "header, delimiter ';'",
    "tab": "header, delimiter '\t'",
    "force-quote": "header, force_quote *",
    "single-quotes": "header, quote ''''",
    "null-as-text": "header, nullstr 'NULL'",
    "no-header": "header false",
    "dates": "header, dateformat '%d.%m.%Y', timestampformat '%d.%m.%Y %H:%M'",
    "escape": "header, escape '\\', quote '\"'",
    "prefix": "header, prefix '\ufeff', suffix ''",
}


def make(made: Made) -> None:
    """Write all files."""
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.execute(
            "create table every as select row_number() over ()::int as id, * from test_all_types()"
        )
        described = connection.execute("describe every").fetchall()
        kinds = {name: kind for name, kind, *_ in described if name != "id"}
        for name in kinds:
            column = f'(select id, "{name}" as value from every)'
            for kind, options in (
                ("parquet", "format parquet"),
                ("csv", "format csv, header"),
                ("jsonl", "format json"),
            ):
                with made.file(f"types/{name}.{kind}") as path:
                    connection.execute(f"copy {column} to '{path}' ({options})")
        wide = (
            "(select range::int as id, range % 7 as few, 'n' || range % 5000 as name, "
            "date '2020-01-01' + range::int as day, range / 7 as part, "
            "timestamp '2020-01-01' + interval (range) second as moment, "
            "case when range % 3 = 0 then null else range * 1.25::decimal(18,2) end as price, "
            "[range, null] as list, {'a': range, 'b': [range::varchar]} as record, "
            "map {range % 3: 'x'} as entries "
            "from range(5000))"
        )
        for name, options in PARQUET.items():
            if name == "encrypted":
                connection.execute("pragma add_parquet_key('key', '0123456789abcdef')")
            with made.file(f"parquet/{name}.parquet") as path:
                connection.execute(f"copy {wide} to '{path}' (format parquet, {options})")
        flat = f"(select id, name, day, moment, price, part from {wide})"
        for name, options in CSV.items():
            with made.file(f"csv/{name}.csv") as path:
                connection.execute(f"copy {flat} to '{path}' (format csv, {options})")
        for codec, extension in (("gzip", "gz"), ("zstd", "zst")):
            with made.file(f"csv/users.csv.{extension}") as path:
                connection.execute(
                    f"copy {flat} to '{path}' (format csv, header, compression {codec})"
                )
            with made.file(f"json/users.jsonl.{extension}") as path:
                connection.execute(f"copy {wide} to '{path}' (format json, compression {codec})")
        for name, options in {"lines": "array false", "array": "array true"}.items():
            with made.file(f"json/{name}.jsonl") as path:
                connection.execute(f"copy {wide} to '{path}' (format json, {options})")
