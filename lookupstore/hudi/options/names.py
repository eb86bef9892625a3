"""The names of Hudi's properties, and their possible values."""

from __future__ import annotations

#: Name of the folder of a table that contains everything except data.
META_FOLDER = ".hoodie"
#: Path of the folder of Java's auxiliary files, among them a lock.
AUXILIARY = f"{META_FOLDER}/.aux"
#: Table versions that can be read and written.
VERSIONS = (6, 8, 9)
#: Table versions that can be read. Version 10 differs in log files, and in the properties below.
READ_VERSIONS = (*VERSIONS, 10)
#: Merge modes, which decide between rows with one key: the greater ordering value, or the later
#: row.
EVENT_TIME, COMMIT_TIME = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
CUSTOM = "CUSTOM"
#: Types of tables: changes are written to base files, or to log files until a compaction.
COPY_ON_WRITE, MERGE_ON_READ = "COPY_ON_WRITE", "MERGE_ON_READ"
#: Types of queries: all committed rows, or only those in base files.
SNAPSHOT, READ_OPTIMIZED = "snapshot", "read_optimized"

#: Path of the properties of a table.
PROPERTIES = f"{META_FOLDER}/hoodie.properties"
BACKUP = f"{PROPERTIES}.backup"
#: Path of the metadata table, and names of its partitions with the list of files and with bounds of
#: columns.
METADATA_FOLDER = f"{META_FOLDER}/metadata"
FILES, COLUMN_STATS = "files", "column_stats"
#: Treatments of a metadata table by a write: raise an error; update its list of files; remove the
#: other partitions and then do the same; delete it first.
REFUSE, MAINTAIN, REDUCE, DROP = METADATA_CHOICES = ("refuse", "maintain", "reduce", "drop")
#: Path of the folder in which Hudi's bucket index stores the file groups of split buckets.
BUCKETS = f"{META_FOLDER}/.bucket_index"

NAME = "hoodie.table.name"
DATABASE = "hoodie.database.name"
TYPE = "hoodie.table.type"
VERSION = "hoodie.table.version"
INITIAL_VERSION = "hoodie.table.initial.version"
LAYOUT = "hoodie.timeline.layout.version"
TIMELINE = "hoodie.timeline.path"
HISTORY = "hoodie.timeline.history.path"
ARCHIVE = "hoodie.archivelog.folder"
FORMAT = "hoodie.table.format"
BASE_FORMAT = "hoodie.table.base.file.format"
RECORD_KEY = "hoodie.table.recordkey.fields"
PARTITION = "hoodie.table.partition.fields"
ORDERING = "hoodie.table.ordering.fields"
PRECOMBINE = "hoodie.table.precombine.field"
MERGE_MODE = "hoodie.record.merge.mode"
STRATEGY = "hoodie.record.merge.strategy.id"
PAYLOAD = "hoodie.compaction.payload.class"
LEGACY_PAYLOAD = "hoodie.table.legacy.payload.class"
GENERATOR = "hoodie.table.keygenerator.type"
GENERATOR_CLASS = "hoodie.table.keygenerator.class"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
DROP_COLUMNS = "hoodie.datasource.write.drop.partition.columns"
CREATE_SCHEMA = "hoodie.table.create.schema"
CHECKSUM = "hoodie.table.checksum"
DATA_SKIPPING = "hoodie.enable.data.skipping"
TIMEZONE = "hoodie.table.timeline.timezone"
META_FIELDS = "hoodie.populate.meta.fields"
META_FIELDS_MODE = "hoodie.meta.fields.mode"
STORAGE_LAYOUT = "hoodie.table.storage.layout"
METADATA = "hoodie.table.metadata.partitions"
METADATA_INFLIGHT = "hoodie.table.metadata.partitions.inflight"
BOOTSTRAP = "hoodie.bootstrap.base.path"
LOG_FORMAT = "hoodie.table.log.file.format"
READ_FORMAT = "hoodie.table.ro.file.format"
LOG_READ_FORMAT = "hoodie.table.rt.file.format"
INDEXES = "hoodie.table.index.defs.path"
EXTRACTOR = "hoodie.table.partition_extractor_class"
CDC = "hoodie.table.cdc.enabled"
CDC_MODE = "hoodie.table.cdc.supplemental.logging.mode"
PARTIAL = "hoodie.table.partial.update.mode"
MERGE_LIST = "hoodie.table.merge.properties"
MERGE_PROPERTY = "hoodie.record.merge.property."
OLD_STRATEGY = "hoodie.compaction.record.merger.strategy"
FORMATS = "hoodie.table.multiple.base.file.formats.enable"
SLASHES = "hoodie.datasource.write.slash.separated.date.partitioning"
ENCODINGS = ("hoodie.table.complex.keygen.encoding", "hoodie.table.complex.keygenerator.encoding")
LOCK = "hoodie.write.lock."
#: Name of the property for the lock of writers in Java, if the table sets it.
LOCK_PROVIDER = f"{LOCK}provider"
LOCK_FOLDER = f"{LOCK}filesystem.path"
#: Locks against other writers: only the table's lock, or also another lock of the caller.
TABLE_LOCK, EXTERNAL_LOCK = "table", "external"
#: Key in the extra metadata of a commit for the columns by id, for schema on read.
COLUMN_IDS = "latest_schema"

_MODELS = "org.apache.hudi.common.model."
PAYLOADS = {
    EVENT_TIME: f"{_MODELS}DefaultHoodieRecordPayload",
    COMMIT_TIME: f"{_MODELS}OverwriteWithLatestAvroPayload",
}
#: Payload classes with the same rule as a merge mode.
SAME_PAYLOADS = {
    EVENT_TIME: (PAYLOADS[EVENT_TIME], f"{_MODELS}EventTimeAvroPayload"),
    COMMIT_TIME: (PAYLOADS[COMMIT_TIME],),
}
STRATEGIES = {
    EVENT_TIME: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    COMMIT_TIME: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
}
GENERATORS = {
    "SIMPLE": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "COMPLEX": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "NON_PARTITION": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "TIMESTAMP": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    "CUSTOM": "org.apache.hudi.keygen.CustomKeyGenerator",
}
#: Prefixes of properties that define how times become folders; the second is that of Hudi 0.x.
TIMES = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")
TIME_PARSERS = ("hoodie.keygen.datetime.parser.class",
                 "hoodie.deltastreamer.keygen.datetime.parser.class")  # fmt: skip
TIME_PARSER = "org.apache.hudi.keygen.parser.HoodieDateTimeParser"
#: Prefixes of properties that define how rows are written. Unknown ones may have an effect.
RULES = ("hoodie.table.", "hoodie.record.", "hoodie.datasource.write.")
#: Name in the plan of a clustering for the columns by which a writer in Java sorts.
SORT_COLUMNS = "hoodie.clustering.plan.strategy.sort.columns"
