"""Parquet, ORC, CSV and JSON by Spark, with the settings of its writers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from zoo.makers.made import Made

# A column of each type of Spark.
COLUMNS = """
id, cast(id % 100 as byte) as byte, cast(id as short) as short, cast(id as int) as int,
cast(if(id % 3 = 0, null, id) as double) as double, cast(id as float) as float,
if(id % 2 = 0, float('nan'), double('-0.0')) as zeros, id % 2 = 0 as bool,
concat('Zoë ', id % 50) as string, cast(concat('b', id) as binary) as binary,
cast(id as decimal(9,2)) as decimal9, cast(id as decimal(18,3)) as decimal18,
cast(id as decimal(38,10)) as decimal38, date_add(date'2020-01-01', cast(id as int)) as date,
element_at(array(date'0001-01-01', date'1582-10-04', date'9999-12-31', null),
    cast(id % 4 as int) + 1) as far_date,
timestamp_micros(id * 1000000123) as timestamp,
element_at(array(timestamp'0001-01-02 00:00:00', timestamp'1582-10-04 00:00:00',
    timestamp'9999-12-30 23:59:59.999999', timestamp'1900-01-01 00:00:00', null),
    cast(id % 5 as int) + 1) as far_timestamp,
cast(timestamp_micros(id * 1000000123) as timestamp_ntz) as local,
array(id, null) as list, map(string(id), id) as map,
named_struct('a', id, 'b', array(named_struct('c', string(id)))) as struct,
make_dt_interval(cast(id as int)) as days, make_ym_interval(cast(id as int)) as months,
cast(null as int) as nulls
"""
PARQUET: dict[str, dict[str, str]] = {
    "default": {},
    "legacy-format": {"spark.sql.parquet.writeLegacyFormat": "true"},
    **{
        f"times-{kind.lower()}": {"spark.sql.parquet.outputTimestampType": kind}
        for kind in ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")
    },
    **{
        f"rebase-{mode.lower()}": {
            "spark.sql.parquet.datetimeRebaseModeInWrite": mode,
            "spark.sql.parquet.int96RebaseModeInWrite": mode,
        }
        for mode in ("LEGACY", "CORRECTED")
    },
    **{
        f"rebase-{mode.lower()}-micros": {
            "spark.sql.parquet.datetimeRebaseModeInWrite": mode,
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        }
        for mode in ("LEGACY", "CORRECTED")
    },
    "no-field-ids": {"spark.sql.parquet.fieldId.write.enabled": "false"},
    "zone-new-york": {"spark.sql.session.timeZone": "America/New_York"},
}
PARQUET_OPTIONS: dict[str, dict[str, str]] = {
    **{
        f"codec-{codec}": {"compression": codec}
        for codec in ("none", "snappy", "gzip", "lz4", "lz4_raw", "zstd", "brotli", "lzo")
    },
    "pages-2": {"parquet.writer.version": "PARQUET_2_0"},
    "no-dictionary": {"parquet.enable.dictionary": "false"},
    "small-pages": {"parquet.page.size": "256", "parquet.page.row.count.limit": "20"},
    "small-groups": {"parquet.block.size": "4096"},
    "bloom": {"parquet.bloom.filter.enabled": "true"},
    "bloom-of-id": {"parquet.bloom.filter.enabled#id": "true"},
    "page-checksums": {"parquet.page.write-checksum.enabled": "true"},
    "byte-stream-split": {
        "parquet.enable.bytestreamsplit": "true",
        "parquet.enable.dictionary": "false",
    },
    "pages-2-zstd-no-dictionary": {
        "parquet.writer.version": "PARQUET_2_0",
        "parquet.enable.dictionary": "false",
        "compression": "zstd",
    },
}
ORC_OPTIONS: dict[str, dict[str, str]] = {
    **{
        f"codec-{codec}": {"compression": codec}
        for codec in ("none", "snappy", "zlib", "lzo", "lz4", "zstd", "brotli")
    },
    "version-0.11": {"orc.write.format": "0.11"},
    "bloom": {"orc.bloom.filter.columns": "id,string"},
    "small-stripes": {"orc.stripe.size": "4096", "orc.row.index.stride": "1000"},
    "no-row-index": {"orc.create.index": "false"},
    "dictionary": {"orc.dictionary.key.threshold": "1.0"},
    "compression-strategy": {"orc.compression.strategy": "COMPRESSION"},
    "direct-strings": {"orc.column.encoding.direct": "string"},
}


def make(made: Made) -> None:
    """Write all files; starts Spark."""
    from lookupstore.spark import session

    spark = session()
    rows = spark.range(0, 300, 1, 1).selectExpr(*split_columns())

    def write(kind: str, name: str, frame: Any, options: dict[str, str]) -> None:
        extension = {"text": "txt", "json": "jsonl"}.get(kind, kind)
        with made.file(f"{kind}/{name}.{extension}") as path:
            folder = Path(f"{path}.folder")
            frame.write.format(kind).options(**options).mode("overwrite").save(str(folder))
            (part,) = [one for one in folder.iterdir() if one.name.startswith("part-")]
            last = f".{part.suffix[1:]}" if part.suffix in (".gz", ".bz2", ".zst", ".lz4") else ""
            part.rename(path + last)
            shutil.rmtree(folder)

    for name, settings in PARQUET.items():
        before = {key: spark.conf.get(key) for key in settings}
        for key, value in settings.items():
            spark.conf.set(key, value)
        write("parquet", name, rows, {})
        for key, value in before.items():
            spark.conf.set(key, value)
    for name, options in PARQUET_OPTIONS.items():
        write("parquet", name, rows, options)
    # Of these columns a reader refuses the whole file: they have files of their own.
    far = ("far_date", "far_timestamp")
    without_intervals = rows.drop("days", "months", *far)
    of_hive = without_intervals.drop("local")
    for name in far:
        write("orc", f"native-{name}", rows.select("id", name), {})
    for implementation in ("native", "hive"):
        spark.conf.set("spark.sql.orc.impl", implementation)
        for name, options in ORC_OPTIONS.items():
            frame = without_intervals if implementation == "native" else of_hive
            write("orc", f"{implementation}-{name}", frame, options)
    spark.conf.set("spark.sql.orc.impl", "native")
    for zone in ("America/New_York", "Asia/Shanghai"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        write("orc", f"zone-{zone.partition('/')[2]}", rows.select("id", "timestamp", "local"), {})
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    flat = rows.select("id", "double", "string", "date", "timestamp", "decimal38", "bool", "local")
    for name, options in {
        "default": {"header": "true"},
        "no-header": {},
        "quote-all": {"header": "true", "quoteAll": "true"},
        "null": {"header": "true", "nullValue": "NULL"},
        "gzip": {"header": "true", "compression": "gzip"},
        "bzip2": {"header": "true", "compression": "bzip2"},
    }.items():
        write("csv", name, flat, options)
    texts = spark.createDataFrame(
        [(1, 'a"b'), (2, "a\\b"), (3, "a\nb"), (4, ""), (5, None), (6, 'x,"y'), (7, " s ")],
        "id int, text string",
    ).coalesce(1)
    for name, options in {"texts": {}, "texts-standard": {"escape": '"'}}.items():
        write("csv", name, texts, {"header": "true", **options})
    for name, options in {"default": {}, "nulls": {"ignoreNullFields": "false"}}.items():
        # Its texts for NaN and numbers are of two types.
        of_types = rows.drop("zeros")
        write("json", name, of_types, options)
        write("json", f"{name}-gzip", of_types, {**options, "compression": "gzip"})
    write("json", "zeros", rows.select("id", "zeros"), {})
    write("json", "texts", texts, {})


def split_columns() -> list[str]:
    """Return the columns as expressions of their own."""
    found, depth, begin = [], 0, 0
    for at, sign in enumerate(COLUMNS):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            found.append(COLUMNS[begin:at].strip())
            begin = at + 1
    return [*found, COLUMNS[begin:].strip()]
