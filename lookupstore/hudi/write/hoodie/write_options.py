"""Options of a write of rows, and of the index that finds their keys.

Source: HoodieWriteConfig, HoodieIndexConfig, HoodieHBaseIndexConfig and DataSourceWriteOptions of
Apache Hudi.
"""

from __future__ import annotations

from lookupstore.hudi.write.hoodie.option import (
    WRITE,
    HudiOption,
    OptionPart,
    choice,
    done,
    nothing,
    of_classes,
    only,
    refused,
)
from lookupstore.hudi.write.kinds import COLUMNS, FLAG, NUMBER, TEXT

_IN_METADATA = "an index in the metadata table is not kept; GLOBAL_BLOOM finds the same keys"
_INDEXES = choice(
    {
        "bloom": "bloom", "simple": "simple", "inmemory": "in-memory",
        "global_bloom": "global-bloom", "global_simple": "global-simple",
    },
    {
        "bucket": "files would have to be buckets of keys; BLOOM finds the same keys",
        "hbase": "HBase is not asked; BLOOM finds the same keys",
        "record_index": _IN_METADATA,
        "record_level_index": _IN_METADATA,
        "global_record_level_index": _IN_METADATA,
        "flink_state": "it is an index of Flink; BLOOM finds the same keys",
    },
)  # fmt: skip
_PARTITIONER = "org.apache.hudi.execution.bulkinsert."
_BY_PATH = "GLOBAL_SORT writes as few files per partition"
_SQL = "Only for statements of Spark SQL."
_BY_JVM = "Only for a JVM or Spark."
_BLOOM = "Only for lookups by Spark."
_OTHER_INDEX = "Only with an index that is refused."

OPTIONS: tuple[HudiOption, ...] = (
    done(f"{WRITE}operation", TEXT, "upsert",
         "Must be the method that is called. In `df.write` and `lookupstore hudi upsert`, it "
         "chooses the method.", OptionPart.OPERATION, ""),
    done(f"{WRITE}insert.drop.duplicates", choice({"true": "drop", "false": "allow"}), "false",
         "`true`: rows whose keys exist are left out.", OptionPart.WRITE, "duplicates"),
    done("hoodie.datasource.insert.dup.policy",
         choice({"none": "allow", "drop": "drop", "fail": "fail"}), "none",
         "What `insert` does with rows whose keys exist.", OptionPart.WRITE, "duplicates"),
    done("hoodie.combine.before.insert", FLAG, "false",
         "Whether inserts and overwrites keep one row per key.", OptionPart.COMBINE,
         "INSERT INSERT_OVERWRITE INSERT_OVERWRITE_TABLE"),
    done("hoodie.combine.before.upsert", FLAG, "true", "Whether upserts keep one row per key.",
         OptionPart.COMBINE, "UPSERT"),
    done("hoodie.combine.before.delete", FLAG, "true",
         "Repeated keys of a delete make no difference.", OptionPart.COMBINE, ""),
    done("hoodie.write.ignore.failed", choice({"true": "collect", "false": "raise"}), "true",
         "`true`: invalid rows are left out and reported. `false`, the default here: they are "
         "an error.", OptionPart.WRITE, "on_error"),
    done("hoodie.write.set.null.for.missing.columns", choice({"true": "null", "false": None}),
         "false", "Whether columns that rows lack become null; otherwise, such rows are refused.",
         OptionPart.WRITE, "missing"),
    done(f"{WRITE}reconcile.schema", choice({"true": "null", "false": None}), "false",
         "Whether columns that rows lack become null; otherwise, such rows are refused.",
         OptionPart.WRITE, "missing"),
    done("hoodie.bulkinsert.sort.mode",
         choice({one: one for one in ("none", "global_sort", "partition_sort")},
                {"partition_path_repartition": _BY_PATH,
                 "partition_path_repartition_and_sort": _BY_PATH}), "NONE",
         "How `bulk_insert` sorts rows.", OptionPart.WRITE, "sort_mode"),
    done("hoodie.bulkinsert.user.defined.partitioner.sort.columns", COLUMNS, "",
         "Columns that `bulk_insert` sorts by; implies GLOBAL_SORT if no mode is given.",
         OptionPart.WRITE, "sort_by"),
    only(of_classes(f"{_PARTITIONER}RDDCustomColumnsSortPartitioner",
                    f"{_PARTITIONER}RowCustomColumnsSortPartitioner",
                    f"{_PARTITIONER}JavaCustomColumnsSortPartitioner"),
         "hoodie.bulkinsert.user.defined.partitioner.class", "",
         "Sorts by the sort columns.",
         "name the columns in hoodie.bulkinsert.user.defined.partitioner.sort.columns"),
    only("false", "hoodie.bulkinsert.sort.suffix.record_key", "false",
         "Rows with equal sort columns keep their order.",
         "add the key columns to the sort columns"),
    done("hoodie.write.num.retries.on.conflict.failures", NUMBER, "0",
         "How often a write is tried again after a conflict; default here: 10.",
         OptionPart.WRITE, "retries"),
    only("true", "hoodie.auto.commit", "true", "Each call commits.",
         "leave it out: a call that returns has committed"),
    only("true", "hoodie.merge.allow.duplicate.on.inserts", "true",
         "Inserts never update rows.", "call upsert instead"),
    only("_", f"{WRITE}commitmeta.key.prefix", "_", "Options with this prefix are unknown.",
         "pass WriteOptions(extra_metadata=) instead"),
    only("false", "hoodie.merge.prefer.old.record", "false",
         "Of two rows with equal ordering values, the later one wins.",
         "leave it out"),
    refused(f"{WRITE}partitions.to.delete", "partitions are chosen by arguments",
            "call delete_partition(), or write rows of these partitions with that operation"),
    refused(f"{WRITE}streaming.checkpoint.identifier", "a sink names its query",
            "pass query= to hudi_sink"),
    only("false", f"{WRITE}streaming.ignore.failed.batch", "false",
         "A batch that fails ends the query.", "leave it out"),
    *nothing("Spark repeats a batch that failed.",
             {f"{WRITE}streaming.retry.count": "3", f"{WRITE}streaming.retry.interval.ms": "2000",
              f"{WRITE}streaming.disable.compaction": "false"}),
    *nothing("Every write checks numbers of rows.",
             {"hoodie.merge.data.validation.enabled": "false"}),
    *nothing("A write without rows changes no row.", {"hoodie.allow.empty.commit": "true"}),
    *nothing(_SQL, {
        "hoodie.spark.sql.insert.into.operation": "insert", "hoodie.sql.insert.mode": "upsert",
        "hoodie.sql.bulk.insert.enable": "false", "hoodie.datasource.overwrite.mode": "",
        "hoodie.spark.sql.": "", "hoodie.sql.": "",
        "hoodie.spark.sql.optimized.writes.enable": "true",
        "hoodie.spark.sql.merge.into.partial.updates": "true",
    }),
    *nothing(_BY_JVM, {
        "hoodie.upsert.shuffle.parallelism": "0", "hoodie.insert.shuffle.parallelism": "0",
        "hoodie.bulkinsert.shuffle.parallelism": "0", "hoodie.delete.shuffle.parallelism": "0",
        "hoodie.finalize.write.parallelism": "200", "hoodie.file.listing.parallelism": "200",
        "hoodie.write.executor.": "", "hoodie.write.buffer.": "",
        "hoodie.write.status.storage.level": "MEMORY_AND_DISK_SER",
        "hoodie.write.tagged.record.storage.level": "MEMORY_AND_DISK_SER",
        "hoodie.writestatus.class": "", "hoodie.write.merge.handle.": "",
        "hoodie.write.concat.handle.class": "", "hoodie.bulkinsert.schema.ddl": "",
        "hoodie.bulkinsert.are.partitioner.records.sorted": "false",
        f"{WRITE}row.writer.enable": "true", "hoodie.release.resource.on.completion.enable": "true",
        "hoodie.fileid.prefix.provider.class": "",
        "hoodie.fail.job.on.duplicate.data.file.detection": "false",
        "hoodie.write.record.positions": "true", "hoodie.sensitive.config.keys": "",
        "hoodie.merge.small.file.group.candidates.limit": "1",
    }),
    done("hoodie.index.type", _INDEXES, "SIMPLE", "Index that finds keys; default here: BLOOM.",
         OptionPart.WRITE, "index"),
    only("", "hoodie.index.class", "", "No class of Java is run.",
         "pass WriteOptions(index='package.module.Class') instead"),
    done("hoodie.bloom.index.update.partition.path", FLAG, "true",
         "With GLOBAL_BLOOM: whether a row moves to its new partition.",
         OptionPart.MOVES, "global-bloom"),
    done("hoodie.simple.index.update.partition.path", FLAG, "true",
         "With GLOBAL_SIMPLE: whether a row moves to its new partition.",
         OptionPart.MOVES, "global-simple"),
    only("dynamic_v0", "hoodie.bloom.index.filter.type", "DYNAMIC_V0",
         "Type of written filters.", "leave it out"),
    *nothing("Filters fit the number of keys.",
             {"hoodie.index.bloom.num_entries": "60000",
              "hoodie.bloom.index.filter.dynamic.max.entries": "100000"}),
    *nothing(_BLOOM, {
        "hoodie.bloom.index.parallelism": "0", "hoodie.bloom.index.use.caching": "true",
        "hoodie.bloom.index.use.treebased.filter": "true",
        "hoodie.bloom.index.prune.by.ranges": "true",
        "hoodie.bloom.index.bucketized.checking": "true",
        "hoodie.bloom.index.bucketized.checking.enable.dynamic.parallelism": "false",
        "hoodie.bloom.index.keys.per.bucket": "10000000",
        "hoodie.bloom.index.fileid.key.sorting.enable": "false",
        "hoodie.bloom.index.input.storage.level": "MEMORY_AND_DISK_SER",
        "hoodie.bloom.index.use.metadata": "false",
    }),
    *nothing("Only for lookups by Spark.", {
        "hoodie.simple.index.use.caching": "true", "hoodie.simple.index.parallelism": "0",
        "hoodie.simple.index.input.storage.level": "MEMORY_AND_DISK_SER",
        "hoodie.global.simple.index.parallelism": "0",
        "hoodie.global.index.reconcile.parallelism": "60",
    }),
    *nothing(_OTHER_INDEX, {
        "hoodie.record.index.": "", "hoodie.bucket.index.": "", "hoodie.index.bucket.": "",
        "hoodie.index.hbase.": "", "hoodie.hbase.index.": "",
    }),
)  # fmt: skip
