"""Options of tables: `HudiTable.create` stores them, and a write compares them.

Source: HoodieTableConfig, KeyGeneratorOptions, HoodiePayloadConfig and HoodieCommonConfig of Apache
Hudi.
"""

from __future__ import annotations

from lookupstore.hudi.options.names import COMMIT_TIME, EVENT_TIME, STRATEGIES
from lookupstore.hudi.write.hoodie.option import (
    TIME_FORMAT,
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

_MODEL = "org.apache.hudi.common.model."
_OWN_RULE = "rows would be merged by a rule that lookupstore does not have; leave it out"
_MODES = choice(
    {"event_time_ordering": EVENT_TIME, "commit_time_ordering": COMMIT_TIME},
    {"custom": _OWN_RULE},
)
_EVENT_PAYLOADS = of_classes(f"{_MODEL}DefaultHoodieRecordPayload", f"{_MODEL}EventTimeAvroPayload")
_COMMIT_PAYLOADS = of_classes(f"{_MODEL}OverwriteWithLatestAvroPayload")
_OTHER_PAYLOADS = {
    f"{_MODEL}PartialUpdateAvroPayload": "pass missing='keep' to upsert instead",
    f"{_MODEL}OverwriteNonDefaultsWithLatestAvroPayload": _OWN_RULE,
    f"{_MODEL}AWSDmsAvroPayload": _OWN_RULE,
    f"{_MODEL}EmptyHoodieRecordPayload": "call delete instead",
}
_PAYLOADS = choice(
    {**dict.fromkeys(_EVENT_PAYLOADS, EVENT_TIME), **dict.fromkeys(_COMMIT_PAYLOADS, COMMIT_TIME)},
    dict(zip(of_classes(*_OTHER_PAYLOADS), _OTHER_PAYLOADS.values(), strict=True)),
)
_PAYLOAD_TYPES = choice(
    {
        "hoodie_avro_default": EVENT_TIME,
        "event_time_avro": EVENT_TIME,
        "overwrite_latest_avro": COMMIT_TIME,
    }
)
_COPY = "lookupstore writes copy-on-write tables; leave it out"
_BY_WRITER = "leave it out: each writer makes it of what it writes"

OPTIONS: tuple[HudiOption, ...] = (
    done(f"hoodie.table.name {WRITE}table.name", TEXT, "",
         "Name of the table. In a write, this and the next options must agree with the table.",
         OptionPart.TABLE, "name"),
    done("hoodie.database.name", TEXT, "", "Name of the database.", OptionPart.TABLE, "database"),
    done(f"hoodie.table.recordkey.fields {WRITE}recordkey.field", COLUMNS, "",
         "Columns of the record key.", OptionPart.TABLE, "record_key"),
    done(f"hoodie.table.partition.fields {WRITE}partitionpath.field", COLUMNS, "",
         "Columns of the partition path.", OptionPart.TABLE, "partition_by"),
    done(f"hoodie.table.ordering.fields hoodie.table.precombine.field {WRITE}precombine.field "
         "hoodie.payload.ordering.field", COLUMNS, "",
         "Column that tells which of two rows is newer.", OptionPart.TABLE, "ordering"),
    done(f"hoodie.record.merge.mode hoodie.write.record.merge.mode {WRITE}record.merge.mode",
         _MODES, "", "Rule by which rows of one key are merged.", OptionPart.TABLE, "merge_mode"),
    done(f"{WRITE}payload.class hoodie.compaction.payload.class", _PAYLOADS,
         f"{_MODEL}DefaultHoodieRecordPayload", "Merge mode of this payload class.",
         OptionPart.TABLE, "merge_mode"),
    done(f"{WRITE}payload.type hoodie.compaction.payload.type", _PAYLOAD_TYPES,
         "HOODIE_AVRO_DEFAULT", "Merge mode of this type of payload.",
         OptionPart.TABLE, "merge_mode"),
    done("hoodie.record.merge.strategy.id hoodie.write.record.merge.strategy.id "
         f"{WRITE}record.merger.strategy hoodie.compaction.record.merger.strategy",
         choice({identifier: mode for mode, identifier in STRATEGIES.items()}), "",
         "Merge mode of this strategy.", OptionPart.TABLE, "merge_mode"),
    only(of_classes(f"{_MODEL}HoodieAvroRecordMerger", "org.apache.hudi.HoodieSparkRecordMerger",
                    "org.apache.hudi.DefaultSparkRecordMerger"),
         f"{WRITE}record.merger.impls hoodie.write.record.merge.custom.implementation.classes",
         "", "Hudi's own mergers follow the merge mode.",
         "lookupstore runs no Java class; leave it out"),
    done("hoodie.table.version hoodie.write.table.version", NUMBER, "9",
         "Version of the table: 9, 8 or 6.", OptionPart.TABLE, "version"),
    only("false", "hoodie.write.auto.upgrade", "true", "A write never changes a table's version.",
         "leave it out"),
    done(f"{WRITE}hive_style_partitioning", FLAG, "false",
         "Whether folders are called `name=value`.", OptionPart.TABLE, "hive_style"),
    done(f"{WRITE}partitionpath.urlencode", FLAG, "false",
         "Whether characters are escaped in folders' names.", OptionPart.TABLE, "url_encode"),
    done(f"{WRITE}keygenerator.class {WRITE}keygenerator.type hoodie.table.keygenerator.class "
         "hoodie.table.keygenerator.type", TEXT, "org.apache.hudi.keygen.SimpleKeyGenerator",
         "Key generator; must follow from the columns of key and partition.",
         OptionPart.GENERATOR, ""),
    TIME_FORMAT,
    only(of_classes("org.apache.hudi.keygen.parser.HoodieDateTimeParser"),
         "hoodie.keygen.datetime.parser.class hoodie.deltastreamer.keygen.datetime.parser.class",
         "org.apache.hudi.keygen.parser.HoodieDateTimeParser", "Hudi's own parser of times.",
         "lookupstore runs no Java class; leave it out"),
    done("hoodie.table.timeline.timezone", choice({"utc": "UTC", "local": "LOCAL"}), "LOCAL",
         "Zone of instants. New tables have UTC.", OptionPart.TABLE, "timezone"),
    only("copy_on_write", f"hoodie.table.type {WRITE}table.type {WRITE}storage.type",
         "COPY_ON_WRITE", "Type of the table.", _COPY),
    only("parquet",
         "hoodie.table.base.file.format hoodie.base.file.format hoodie.table.ro.file.format",
         "PARQUET", "Format of base files.", "lookupstore writes Parquet; leave it out"),
    only("true", "hoodie.populate.meta.fields", "true",
         "Rows get Hudi's meta columns.", "leave it out"),
    only("false", f"{WRITE}drop.partition.columns", "false",
         "Files have all columns of a row.", "leave it out"),
    only("false", "hoodie.table.cdc.enabled", "false",
         "No logs of changes are written.",
         "leave it out, and read changes with changes()"),
    only("default", "hoodie.storage.layout.type", "DEFAULT", "A key may be in any file.",
         "leave it out"),
    only("", "hoodie.storage.layout.partitioner.class", "", "No class of Java is run.",
         "leave it out"),
    only("native", "hoodie.table.format", "native", "Format of the table.", "leave it out"),
    only("timeline", "hoodie.timeline.path", "timeline", "Folder of instants.", "leave it out"),
    only("history", "hoodie.timeline.history.path", "history", "Folder of old instants.",
         "leave it out"),
    only("archived", "hoodie.archivelog.folder", "archived",
         "Folder of old instants in version 6.", "leave it out"),
    only("false", "hoodie.partition.metafile.use.base.format", "false",
         "Partition metadata is a properties file.", "leave it out"),
    only("false", "hoodie.table.multiple.base.file.formats.enable", "false",
         "All base files are Parquet.", "leave it out"),
    only("none", "hoodie.table.partial.update.mode", "NONE",
         "Rows are written whole.", "pass missing='keep' to upsert for partial updates"),
    refused("hoodie.table.merge.properties hoodie.record.merge.property. "
            "hoodie.write.partial.update.custom.marker",
            "they change how rows are merged", "leave it out"),
    only("false", f"{WRITE}slash.separated.date.partitioning", "false",
         "Folders of days are not split.", "leave it out"),
    only("false", "hoodie.allow.operation.metadata.field", "false",
         "Rows have no column for the operation.", "leave it out"),
    only("false", "hoodie.schema.on.read.enable", "false", "Columns are matched by name.",
         "add columns with WriteOptions(evolve=True)"),
    only("false", f"{WRITE}schema.allow.auto.evolution.column.drop", "false",
         "A write never drops a column.", "leave it out"),
    refused("hoodie.table.create.schema hoodie.avro.schema hoodie.write.schema "
            "hoodie.internal.schema hoodie.write.partial.update.schema",
            "the schema is that of the rows",
            "pass a schema to create, and cast rows before you write them"),
    refused("hoodie.table.checksum hoodie.table.metadata.partitions "
            "hoodie.table.metadata.partitions.inflight hoodie.table.initial.version "
            "hoodie.table.index.defs.path hoodie.table.secondary.indexes.metadata "
            "hoodie.table.legacy.payload.class", "it is a property that writers keep",
            _BY_WRITER),
    refused("hoodie.bootstrap.base.path", "tables made of other files in place are not written",
            "write the rows of these files with bulk_insert"),
    *nothing("Only for bootstrapped tables.",
             {"hoodie.bootstrap.": ""}),
    *nothing("Follows from the table's version.", {"hoodie.timeline.layout.version": ""}),
    *nothing("Only for log files.",
             {"hoodie.table.log.file.format hoodie.table.rt.file.format": "HOODIE_LOG"}),
    *nothing("Only with CDC.",
             {"hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER",
              "hoodie.cdc.file.group.iterator.memory.spill.bytes": ""}),
    *nothing("Keys are written as in the table's rows.",
             {"hoodie.write.complex.keygen.new.encoding": "false",
              "hoodie.write.complex.keygen.validation.enable": "true",
              "hoodie.table.complex.keygen.encoding hoodie.table.complex.keygenerator.encoding":
              ""}),
    *nothing("Key columns are strings or whole numbers.",
             {f"{WRITE}keygenerator.consistent.logical.timestamp.enabled": "false"}),
    *nothing("Only for catalogs.",
             {"hoodie.table.partition_extractor_class": ""}),
    *nothing("Every write checks columns; new columns may be null.",
             {"hoodie.avro.schema.validate": "false", f"{WRITE}new.columns.nullable": "false",
              "hoodie.avro.schema.external.transformation "
              "hoodie.avro.schema.externalTransformation": "false",
              "hoodie.write.concurrency.schema.conflict.resolution.enable": "true",
              "hoodie.skip.default.partition.validation": "false"}),
    *nothing("The path says where the table is.", {"hoodie.base.path": ""}),
    *nothing("Commits keep no event times.", {"hoodie.payload.event.time.field": "ts"}),
    only("false", "hoodie.write.track.event.time.watermark", "false",
         "Commits keep no event times.", "leave it out"),
)  # fmt: skip
