"""Options of base files: their size, and how they are encoded.

Source: HoodieStorageConfig and HoodieCompactionConfig of Apache Hudi.
"""

from __future__ import annotations

from lookupstore.hudi.write.hoodie.option import HudiOption, OptionPart, choice, done, nothing, only
from lookupstore.hudi.write.kinds import FLAG, NUMBER, RATE

_CODECS = choice(
    {"uncompressed": "none", "lz4_raw": "lz4"}
    | {one: one for one in ("snappy", "gzip", "zstd")},
    {"lz4": "Hadoop's own form of LZ4 is not written; lz4_raw is the standard one"},
)  # fmt: skip
_OTHER_FORMAT = "Base files are Parquet."

OPTIONS: tuple[HudiOption, ...] = (
    done("hoodie.parquet.max.file.size", NUMBER, "125829120", "Maximum bytes of a file, about.",
         OptionPart.SIZING, "max_file_size"),
    done("hoodie.parquet.small.file.limit", NUMBER, "104857600",
         "Bytes below which a file is filled up; 0: never.",
         OptionPart.SIZING, "small_file_limit"),
    done("hoodie.copyonwrite.record.size.estimate", NUMBER, "1024",
         "Bytes of a row, if no commit records them.", OptionPart.SIZING, "record_size"),
    done("hoodie.copyonwrite.insert.split.size", NUMBER, "500000",
         "Rows of a new file, if the next option is `false`.", OptionPart.SIZING, "split_size"),
    done("hoodie.copyonwrite.insert.auto.split", FLAG, "true",
         "Whether the average size of a row decides how many fit into a new file.",
         OptionPart.SIZING, "auto_split"),
    done("hoodie.record.size.estimation.threshold", RATE, "1.0",
         "Which commits count for the average size of a row.", OptionPart.SIZING, "threshold"),
    done("hoodie.parquet.compression.codec", _CODECS, "gzip",
         "Compression of pages; default here: snappy.", OptionPart.FORMAT, "compression"),
    done("hoodie.parquet.block.size", NUMBER, "125829120",
         "Bytes of rows in memory per row group; default here: 32 MiB.",
         OptionPart.FORMAT, "row_group_bytes"),
    done("hoodie.index.bloom.fpp", RATE, "0.000000001", "Error rate of the filter of keys.",
         OptionPart.FORMAT, "error_rate"),
    only("true", "hoodie.parquet.dictionary.enabled", "true",
         "Columns whose values repeat get a dictionary.", "leave it out"),
    only("true", "hoodie.parquet.bloom.filter.enabled", "true", "Files have a filter of keys.",
         "leave it out: writers find keys by these filters"),
    only("false", "hoodie.parquet.writelegacyformat.enabled", "false",
         "Decimals and lists follow the Parquet standard.", "leave it out"),
    only("timestamp_micros", "hoodie.parquet.outputtimestamptype", "TIMESTAMP_MICROS",
         "Timestamps are integers in the unit of their column.", "leave it out"),
    only("true", "hoodie.parquet.write.utc-timezone.enabled", "true",
         "Local timestamps are stored as they are.", "leave it out"),
    *nothing("File sizes are measured.",
             {"hoodie.parquet.compression.ratio": "0.1", "hoodie.record.size.estimator.": "",
              "_hoodie.record.size.estimator.max.commits": "5"}),
    *nothing("Arrow chooses the page size.", {"hoodie.parquet.page.size": "1048576"}),
    *nothing("Only for a JVM.",
             {"hoodie.parquet.field_id.write.enabled": "true",
              "hoodie.avro.write.support.class": "", "hoodie.parquet.spark.": "",
              "hoodie.parquet.flink.": "", "hoodie.storage.class": "",
              "hoodie.io.factory.class": ""}),
    *nothing(_OTHER_FORMAT, {"hoodie.orc.": "", "hoodie.hfile.": ""}),
    *nothing("Only for log files.",
             {"hoodie.logfile.": ""}),
)  # fmt: skip
