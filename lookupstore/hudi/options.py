"""A table's options: what `hoodie.properties` says, and what this version of it means.

The only module that knows names of Hudi's properties; of the options that Java's writers are given
it is `write.hoodie_options`.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.properties import first_comments, parse_properties, print_properties
from lookupstore.storage.inside import check_name
from lookupstore.storage.location import Location

#: Folder of a table in which everything is that is not data.
META_FOLDER = ".hoodie"
#: Folder in that where Java has helpers of its own, a lock among them.
AUXILIARY = f"{META_FOLDER}/.aux"
#: Table versions that are read and written.
VERSIONS = (6, 8, 9)
#: Which of two rows with one key stays: the one with the greater ordering value, or the later one.
EVENT_TIME, COMMIT_TIME = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
_CUSTOM = "CUSTOM"
#: Kinds of tables: changes are in base files, or in log files until a compaction.
COPY_ON_WRITE, MERGE_ON_READ = "COPY_ON_WRITE", "MERGE_ON_READ"
#: Kinds of queries: what is committed, or what of it is in base files.
SNAPSHOT, READ_OPTIMIZED = "snapshot", "read_optimized"

#: Where the properties of a table are.
PROPERTIES = f"{META_FOLDER}/hoodie.properties"
_BACKUP = f"{PROPERTIES}.backup"
#: Where its metadata table is, if it has one, and which partition of that lists files.
METADATA_FOLDER = f"{META_FOLDER}/metadata"
FILES = "files"
#: What a write does with a metadata table: nothing, by an error; write its list of files; the same
#: after the other partitions are taken out; delete it first.
REFUSE, MAINTAIN, REDUCE, DROP = METADATA_CHOICES = ("refuse", "maintain", "reduce", "drop")
#: Where a bucket index of Hudi's keeps which file groups are buckets, if they are split.
BUCKETS = f"{META_FOLDER}/.bucket_index"

_NAME = "hoodie.table.name"
_DATABASE = "hoodie.database.name"
_TYPE = "hoodie.table.type"
_VERSION = "hoodie.table.version"
_INITIAL_VERSION = "hoodie.table.initial.version"
_LAYOUT = "hoodie.timeline.layout.version"
TIMELINE = "hoodie.timeline.path"
HISTORY = "hoodie.timeline.history.path"
_ARCHIVE = "hoodie.archivelog.folder"
_FORMAT = "hoodie.table.format"
_BASE_FORMAT = "hoodie.table.base.file.format"
_RECORD_KEY = "hoodie.table.recordkey.fields"
_PARTITION = "hoodie.table.partition.fields"
_ORDERING = "hoodie.table.ordering.fields"
_PRECOMBINE = "hoodie.table.precombine.field"
_MERGE_MODE = "hoodie.record.merge.mode"
_STRATEGY = "hoodie.record.merge.strategy.id"
_PAYLOAD = "hoodie.compaction.payload.class"
_GENERATOR = "hoodie.table.keygenerator.type"
_GENERATOR_CLASS = "hoodie.table.keygenerator.class"
_HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
_URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
_DROP = "hoodie.datasource.write.drop.partition.columns"
CREATE_SCHEMA = "hoodie.table.create.schema"
_CHECKSUM = "hoodie.table.checksum"
TIMEZONE = "hoodie.table.timeline.timezone"
_META_FIELDS = "hoodie.populate.meta.fields"
METADATA = "hoodie.table.metadata.partitions"
_METADATA_INFLIGHT = "hoodie.table.metadata.partitions.inflight"
_BOOTSTRAP = "hoodie.bootstrap.base.path"
_LOG_FORMAT = "hoodie.table.log.file.format"
_READ_FORMAT = "hoodie.table.ro.file.format"
_LOG_READ_FORMAT = "hoodie.table.rt.file.format"
_INDEXES = "hoodie.table.index.defs.path"
_CDC = "hoodie.table.cdc.enabled"
_CDC_MODE = "hoodie.table.cdc.supplemental.logging.mode"
_PARTIAL = "hoodie.table.partial.update.mode"
_MERGE_LIST = "hoodie.table.merge.properties"
_MERGE_PROPERTY = "hoodie.record.merge.property."
_OLD_STRATEGY = "hoodie.compaction.record.merger.strategy"
_FORMATS = "hoodie.table.multiple.base.file.formats.enable"
_SLASHES = "hoodie.datasource.write.slash.separated.date.partitioning"
_ENCODINGS = ("hoodie.table.complex.keygen.encoding", "hoodie.table.complex.keygenerator.encoding")
_LOCK = "hoodie.write.lock."
#: Property that names the lock of writers in Java, if the table says it.
LOCK_PROVIDER = f"{_LOCK}provider"
_LOCK_FOLDER = f"{_LOCK}filesystem.path"
#: Who keeps other writers out: the table's lock alone, or the caller by another one, too.
TABLE_LOCK, EXTERNAL_LOCK = "table", "external"
#: In the extra metadata of a commit: the columns by their ids, for schema on read.
COLUMN_IDS = "latest_schema"

_MODELS = "org.apache.hudi.common.model."
_PAYLOADS = {
    EVENT_TIME: f"{_MODELS}DefaultHoodieRecordPayload",
    COMMIT_TIME: f"{_MODELS}OverwriteWithLatestAvroPayload",
}
_STRATEGIES = {
    EVENT_TIME: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    COMMIT_TIME: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
}
_GENERATORS = {
    "SIMPLE": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "COMPLEX": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "NON_PARTITION": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "TIMESTAMP": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    "CUSTOM": "org.apache.hudi.keygen.CustomKeyGenerator",
}
#: What begins so says how times become folders; the second is what versions of Hudi 0.x have.
TIMES = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")
_TIME_PARSERS = ("hoodie.keygen.datetime.parser.class",
                 "hoodie.deltastreamer.keygen.datetime.parser.class")  # fmt: skip
_TIME_PARSER = "org.apache.hudi.keygen.parser.HoodieDateTimeParser"
# Properties that are fields of `TableOptions`, or follow from these.
_KNOWN = frozenset(
    (
        _NAME, _DATABASE, _TYPE, _VERSION, _LAYOUT, TIMELINE, HISTORY, _RECORD_KEY, _PARTITION,
        _ORDERING, _PRECOMBINE, _MERGE_MODE, _GENERATOR, _GENERATOR_CLASS, _HIVE_STYLE,
        _URL_ENCODE, _DROP, CREATE_SCHEMA, _CHECKSUM, TIMEZONE, _META_FIELDS, METADATA,
        _METADATA_INFLIGHT,
    )
)  # fmt: skip

# What begins so says how rows are written. What is not known to change nothing may change that.
_RULES = ("hoodie.table.", "hoodie.record.", "hoodie.datasource.write.")
_FALSE = frozenset({"", "false"})
# Those that change nothing that is written here: with which values, in lower case; None: with any.
_HARMLESS: Mapping[str, frozenset[str] | None] = {
    _INITIAL_VERSION: None,
    _FORMAT: frozenset({"native"}),
    _BASE_FORMAT: frozenset({"parquet"}),
    _READ_FORMAT: frozenset({"parquet"}),
    # Tables that are written have no log files, and these no changes that are logged.
    _LOG_FORMAT: None,
    _LOG_READ_FORMAT: None,
    _CDC_MODE: None,
    _CDC: _FALSE,
    # Where definitions of indexes are; the indexes are partitions of the metadata table.
    _INDEXES: None,
    _PARTIAL: frozenset({"", "none"}),
    _MERGE_LIST: frozenset({""}),
    _STRATEGY: frozenset(_STRATEGIES.values()),
    _FORMATS: _FALSE,
    _SLASHES: _FALSE,
}
# Hudi's providers whose locks are held here: on local disks, and on S3. Each refuses the other.
_FILE_LOCKS, _OBJECT_LOCKS = "FileSystemBasedLockProvider", "StorageBasedLockProvider"
# What begins so is for one provider of other locks, and says which if no property does.
_OTHER_LOCKS = tuple(f"{_LOCK}{kind}." for kind in ("zookeeper", "dynamodb", "hivemetastore"))
# Why the others are refused that are known.
_REASONS = {
    _CDC: "changes would not be logged for Hudi's CDC queries, which fail then",
    _PARTIAL: "rows would not be merged column by column",
    _MERGE_LIST: "rows would be merged by other rules",
    _MERGE_PROPERTY: "rows would be merged by other rules",
    _FORMATS: "base files may be of several formats",
    _SLASHES: "folders of days would be called otherwise",
    **dict.fromkeys(_ENCODINGS, "keys of one column may be written otherwise"),
}


@dataclass(frozen=True)
class TableOptions:
    """How a table is laid out, and how rows become files of it.

    Attributes:
        name: of the table.
        table_type: `COPY_ON_WRITE` or `MERGE_ON_READ`.
        database: that it belongs to, if any.
        version: of the table: 6, 8 or 9.
        record_key: columns that make the record key.
        partition_by: columns that make the partition path; none: all files are in one folder.
        partition_types: what the properties say of each of these: `SIMPLE`, `TIMESTAMP`, as a
            custom key generator needs it, or ""; empty: nothing of any.
        ordering: columns that say which of two rows with one key is newer.
        merge_mode: how that is used: `EVENT_TIME`, `COMMIT_TIME`, or a rule of somebody's, which
            is not applied here: such a table can only be read.
        hive_style: whether folders are called `name=value`.
        url_encode: whether characters are escaped in folders' names.
        key_generator: `SIMPLE`, `COMPLEX`, `NON_PARTITION`, or what else the table says.
        generator_is_said: whether it says so; if not, that is what Hudi infers.
        timezone: of instants, `UTC` or `LOCAL`; None if the table does not say.
        create_schema: Avro schema of the data columns when the table was made, as JSON.
        metadata_partitions: of the metadata table; if any, readers list files there.
        metadata_inflight: those that another writer is making.
        meta_fields: whether base files have the meta columns.
        drop_partition_columns: whether base files lack the partition columns.
        timeline: folder of instants below the table's, with `/`.
        history: folder of old instants in that one, if the version has it.
        merge_from: property that `merge_mode` was read from, if it is not one of its own.
        from_backup: whether only the backup was there: someone is changing the properties, or
            died doing so.
        saved: the comments at the head of the properties, which a change of the file keeps:
            Java's say when it saved them, and in which zone.
        others: all other properties, which a change of the file keeps.
    """

    name: str
    version: int
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    partition_types: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()
    merge_mode: str = COMMIT_TIME
    table_type: str = COPY_ON_WRITE
    database: str | None = None
    hive_style: bool = False
    url_encode: bool = False
    key_generator: str = "NON_PARTITION"
    generator_is_said: bool = True
    timezone: str | None = None
    create_schema: str | None = None
    metadata_partitions: tuple[str, ...] = ()
    metadata_inflight: tuple[str, ...] = ()
    meta_fields: bool = True
    drop_partition_columns: bool = False
    timeline: str = f"{META_FOLDER}/timeline"
    history: str | None = f"{META_FOLDER}/timeline/history"
    merge_from: str | None = None
    from_backup: bool = False
    saved: tuple[str, ...] = field(default=(), compare=False)
    others: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def record_name(self) -> str:
        """Return the name of the Avro record of its rows."""
        return f"{_plain(self.name)}_record"

    @property
    def namespace(self) -> str:
        """Return the namespace of that record."""
        return f"hoodie.{_plain(self.name)}"

    @property
    def archive(self) -> str:
        """Return the folder of instants that left the timeline."""
        if self.history is not None:
            return self.history
        return f"{META_FOLDER}/{self.others.get(_ARCHIVE, 'archived')}"

    @property
    def time_columns(self) -> tuple[str, ...]:
        """Return the partition columns whose times become folders."""
        if self.key_generator == "TIMESTAMP":
            return self.partition_by
        if self.key_generator != "CUSTOM":
            return ()
        # Those of which nobody knows are among them: who reads their format says so.
        return tuple(one for one, kind in self.typed_columns if kind.upper() != "SIMPLE")

    @property
    def typed_columns(self) -> tuple[tuple[str, str], ...]:
        """Return the partition columns, and what the properties say of each; see above."""
        types = self.partition_types or ("",) * len(self.partition_by)
        return tuple(zip(self.partition_by, types, strict=True))

    @property
    def time_format(self) -> dict[str, tuple[str, str]]:
        """Return the name and value of what says how times become folders, by the name's end."""
        found = {}
        for start in reversed(TIMES):
            for name, value in self.others.items():
                if name.startswith(start):
                    found[name.removeprefix(start)] = name, value.strip()
        return found

    @property
    def time_parser(self) -> tuple[str, str] | None:
        """Return the name and value of a class of somebody's that reads times; None: it is none."""
        for name in _TIME_PARSERS:
            if self.others.get(name, _TIME_PARSER) != _TIME_PARSER:
                return name, self.others[name]
        return None

    @property
    def partition_property(self) -> str:
        """Return the name of the property that has the partition columns."""
        return _PARTITION

    def time_property(self, key: str) -> str:
        """Return the name of a property that says how times become folders."""
        return f"{TIMES[0]}{key}"

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the folders that a new table has."""
        return (self.archive, AUXILIARY)

    def check_readable(self, path: str) -> None:
        """Raise an error if rows of the table cannot be read as they are in its base files.

        Args:
            path: of the table, for the error.

        Raises:
            FormatError: they cannot; the error names the property that says so.
        """
        if self.others.get(_FORMAT, "native") != "native":
            raise _refused_error(path, _FORMAT, self.others[_FORMAT], "native")
        if self.others.get(_BASE_FORMAT, "PARQUET").upper() != "PARQUET":
            raise _refused_error(path, _BASE_FORMAT, self.others[_BASE_FORMAT], "PARQUET")
        if self.drop_partition_columns:
            raise _refused_error(path, _DROP, "true", "false: rows have their partition columns")
        if _BOOTSTRAP in self.others:
            raise _refused_error(
                path, _BOOTSTRAP, self.others[_BOOTSTRAP], "no bootstrapped tables"
            )

    def check_query(self, query_type: str, path: str) -> None:
        """Raise an error if base files alone do not answer a query.

        Args:
            query_type: `SNAPSHOT` or `READ_OPTIMIZED`.
            path: of the table, for the error.

        Raises:
            ValueError: there is no such kind of query.
            FormatError: changes are in log files, too, and it asks for these.
        """
        if query_type not in (SNAPSHOT, READ_OPTIMIZED):
            raise ValueError(
                f"query_type is {query_type!r}; give {SNAPSHOT!r} or {READ_OPTIMIZED!r}"
            )
        if self.table_type != COPY_ON_WRITE and query_type == SNAPSHOT:
            raise FormatError(
                f"{path}: {_TYPE} is {self.table_type!r}: changes since the last compaction are in "
                f"log files, which are not read; query_type={READ_OPTIMIZED!r} of "
                "HudiTable.open reads the rows of base files, without these changes"
            )

    def check_writable(self, path: str, metadata: str = REFUSE) -> None:
        """Raise an error if other readers would not see, or understand, what is written here.

        Args:
            path: of the table, for the error.
            metadata: what is done with a metadata table, one of `METADATA_CHOICES`.

        Raises:
            FormatError: they would not; the error names the property that says so.
        """
        self.check_readable(path)
        if self.table_type != COPY_ON_WRITE:
            raise FormatError(
                f"{path}: {_TYPE} is {self.table_type!r}: such a table can only be read; supported "
                f"for writing: {COPY_ON_WRITE}"
            )
        if self.from_backup:
            raise FormatError(
                f"{path}: only {_BACKUP} exists: another writer is changing the table's "
                f"properties, or died while doing so; wait, or rename that file to {PROPERTIES}"
            )
        if not self.meta_fields:
            raise _refused_error(path, _META_FIELDS, "false", "true")
        self._check_rules(path)
        self._check_metadata(path, metadata)
        if self.key_generator not in _GENERATORS:
            given = self.key_generator
            raise _refused_error(path, self._generator_property, given, ", ".join(_GENERATORS))
        if self.merge_mode not in _PAYLOADS:
            named = self.merge_from or _MERGE_MODE
            given = self.others.get(named, self.merge_mode)
            known = _PAYLOADS if self.merge_from is None else _PAYLOADS.values()
            raise _refused_error(path, named, given, _either([*known]))
        if len(self.ordering) > 1:
            # Readers in Rust refuse such a table as a whole.
            raise _refused_error(
                path, self._ordering_property, ",".join(self.ordering), "one column"
            )
        if self.key_generator == "TIMESTAMP" and len(self.record_key) > 1:
            given = ",".join(self.record_key)
            raise _refused_error(path, _RECORD_KEY, given, "one column, with such a key generator")
        if not self.record_key:
            raise _refused_error(path, _RECORD_KEY, "", "the columns of a record's key")

    def _check_metadata(self, path: str, choice: str) -> None:
        """Check that the metadata table, if there is one, is not made wrong by what is chosen."""
        partitions, inflight = self.metadata_partitions, self.metadata_inflight
        if choice == DROP or not (partitions or inflight):
            return
        shown = f"{path}: {METADATA} is {','.join((*partitions, *inflight))!r}"
        delete = "to delete the metadata table first, pass options=WriteOptions(metadata='drop')"
        if self.version == 6:
            raise FormatError(
                f"{shown}: readers would not see new files, and that of version 6 is not written "
                f"here; {delete}"
            )
        if choice == REFUSE:
            raise FormatError(
                f"{shown}: readers would not see new files; to write these there, too, pass "
                f"options=WriteOptions(metadata='maintain'); {delete}"
            )
        if FILES not in partitions or FILES in inflight:
            raise FormatError(f"{shown}: files are not listed there, or not yet; {delete}")
        if choice == MAINTAIN and (inflight or partitions != (FILES,)):
            raise FormatError(
                f"{shown}: only {FILES!r} is written here; to take the others out first, pass "
                f"options=WriteOptions(metadata='reduce'); {delete}"
            )

    def _check_rules(self, path: str) -> None:
        """Check that each property that may say how rows are written is known not to."""
        for name, value in self.others.items():
            if name in _KNOWN or not (name.startswith(_RULES) or name == _OLD_STRATEGY):
                continue
            allowed = _HARMLESS.get(name, frozenset())
            if name == _STRATEGY and self.version != 6 and self.merge_mode in _STRATEGIES:
                allowed = frozenset({_STRATEGIES[self.merge_mode]})
            elif name == _OLD_STRATEGY:
                allowed = frozenset(_STRATEGIES.values())
            if allowed is None or value.strip().lower() in allowed:
                continue
            known = next((one for one in _REASONS if name.startswith(one)), "")
            reason = _REASONS.get(known, "a rule for writers that is not known here")
            raise FormatError(
                f"{path}: {name} is {value!r}: {reason}; the table can only be read: write with "
                "Apache Hudi, or delete the property if no writer or reader goes by it"
            )

    def check_lock(self, location: Location, lock: str) -> None:
        """Raise an error if writers go by a lock that is not held here, nor by the caller.

        Args:
            location: of the table.
            lock: `EXTERNAL_LOCK` if the caller holds it, else `TABLE_LOCK`.

        Raises:
            FormatError: they do; the error names the property that says so.
            ValueError: `lock` is neither.
        """
        if lock not in (TABLE_LOCK, EXTERNAL_LOCK):
            raise ValueError(f"lock is {lock!r}; give {TABLE_LOCK!r} or {EXTERNAL_LOCK!r}")
        named = self._other_lock(location)
        if named is None or lock == EXTERNAL_LOCK:
            return
        raise FormatError(
            f"{location.uri}: {named} is {self.others[named]!r}: that lock is not taken here, and "
            "writers that go by it would not wait; hold it yourself meanwhile, and pass "
            f"lock={EXTERNAL_LOCK!r}, to a write in options=WriteOptions(lock={EXTERNAL_LOCK!r})"
        )

    def _other_lock(self, location: Location) -> str | None:
        """Return the property that names a lock other than those that are held here."""
        provider = self.others.get(LOCK_PROVIDER, "").strip()
        if not provider:
            # Then writers may be set elsewhere; but whom such a property is for is said.
            found = [one for one in self.others if one.startswith(_OTHER_LOCKS)]
            return min(found) if found else self._other_folder(location)
        name = provider.rpartition(".")[2]
        if name != (_FILE_LOCKS if location.in_place else _OBJECT_LOCKS):
            return LOCK_PROVIDER
        return self._other_folder(location)

    def _other_folder(self, location: Location) -> str | None:
        """Return the property that lets the lock be in another folder than those that have it."""
        if not location.in_place:
            return None
        folder = self.others.get(_LOCK_FOLDER, "").strip()
        known = {location.show(one) for one in (META_FOLDER, AUXILIARY)}
        path = folder.removeprefix("file:").rstrip("/")
        if not folder or (f"/{path.lstrip('/')}" if path.startswith("/") else path) in known:
            return None
        return _LOCK_FOLDER

    def check_same_layout(self, before: TableOptions, path: str) -> None:
        """Raise an error if a change to the table since a write began invalidates its files.

        Args:
            before: options when the write began.
            path: of the table, for the error.

        Raises:
            FormatError: it was; the error names the property.
        """
        for name, now, then in (
            (_VERSION, self.version, before.version),
            (_RECORD_KEY, self.record_key, before.record_key),
            (_PARTITION, self.partition_by, before.partition_by),
            (_PARTITION, self.partition_types, before.partition_types),
            (self._generator_property, self.key_generator, before.key_generator),
            (TIMES[0], self.time_format, before.time_format),
            (_HIVE_STYLE, self.hive_style, before.hive_style),
            (_URL_ENCODE, self.url_encode, before.url_encode),
            (TIMELINE, self.timeline, before.timeline),
            (LOCK_PROVIDER, self.others.get(LOCK_PROVIDER), before.others.get(LOCK_PROVIDER)),
        ):
            if now != then:
                raise FormatError(
                    f"{path}: {name} is {now!r}, but was {then!r} when this write began; nothing "
                    "was committed: write again"
                )

    @property
    def _ordering_property(self) -> str:
        return _ORDERING if self.version == 9 else _PRECOMBINE

    @property
    def _generator_property(self) -> str:
        return _GENERATOR_CLASS if self.version == 6 else _GENERATOR

    def to_properties(self) -> dict[str, str]:
        """Return the pairs that say all of it, the checksum among them.

        >>> options = new_options(name="t", record_key=["id"])
        >>> options.to_properties()["hoodie.table.checksum"]
        '498511606'
        """
        pairs = {_NAME: self.name}
        if self.database is not None:
            pairs[_DATABASE] = self.database
        pairs |= {_TYPE: self.table_type, _VERSION: str(self.version)}
        pairs[_LAYOUT] = str(_layout(self.version))
        if self.history is not None:
            pairs[TIMELINE] = self.timeline.removeprefix(f"{META_FOLDER}/")
            pairs[HISTORY] = self.history.removeprefix(f"{self.timeline}/")
        typed = self.typed_columns
        for name, columns in (
            (_RECORD_KEY, self.record_key),
            (_PARTITION, tuple(f"{one}:{kind}" if kind else one for one, kind in typed)),
            (self._ordering_property, self.ordering),
        ):
            if columns:
                pairs[name] = ",".join(columns)
        if self.version != 6 and self.merge_from is None:
            pairs[_MERGE_MODE] = self.merge_mode
        if self.generator_is_said:
            generator = self.key_generator
            if self.version == 6:
                generator = _GENERATORS.get(generator, generator)
            pairs[self._generator_property] = generator
        pairs[_HIVE_STYLE] = _bool_text(self.hive_style)
        pairs[_URL_ENCODE] = _bool_text(self.url_encode)
        pairs[_DROP] = _bool_text(self.drop_partition_columns)
        if not self.meta_fields:
            pairs[_META_FIELDS] = "false"
        if self.metadata_partitions:
            pairs[METADATA] = ",".join(self.metadata_partitions)
        if self.metadata_inflight:
            pairs[_METADATA_INFLIGHT] = ",".join(self.metadata_inflight)
        if self.create_schema is not None:
            pairs[CREATE_SCHEMA] = self.create_schema
        if self.timezone is not None:
            pairs[TIMEZONE] = self.timezone
        pairs |= self.others
        pairs[_CHECKSUM] = str(checksum(self.name, self.database))
        return pairs


def new_options(
    *,
    name: str,
    record_key: Sequence[str],
    partition_by: Sequence[str] = (),
    ordering: str | None = None,
    merge_mode: str | None = None,
    version: int = 9,
    database: str | None = None,
    hive_style: bool = False,
    url_encode: bool = False,
) -> TableOptions:
    """Return the options of a new table; a string in place of a list is one column.

    Raises:
        ValueError: an argument that no table has, or two that contradict each other.

    >>> new_options(name="t", record_key=["id"], partition_by=["day"]).key_generator
    'SIMPLE'
    """
    if version not in VERSIONS:
        raise ValueError(f"version is {version!r}; give {_either(VERSIONS)}")
    record_key = [record_key] if isinstance(record_key, str) else record_key
    partition_by = [partition_by] if isinstance(partition_by, str) else partition_by
    if not record_key:
        raise ValueError("record_key is empty; give the columns that identify a row")
    for argument, columns in (("record_key", record_key), ("partition_by", partition_by)):
        if len(set(columns)) < len(columns):
            raise ValueError(f"{argument} is {columns!r}; give each column once")
        for column in columns:
            # The properties list columns with commas; Hudi's custom keys have a type after ":".
            if not column or set(column) & set(",:"):
                raise ValueError(f"{argument} has {column!r}; give names without ',' or ':'")
    mode = merge_mode or (COMMIT_TIME if ordering is None else EVENT_TIME)
    if mode not in _PAYLOADS:
        raise ValueError(
            f"merge_mode is {mode!r}; give {_either([repr(one) for one in _PAYLOADS])}"
        )
    if mode == EVENT_TIME and ordering is None:
        raise ValueError(f"merge_mode is {mode!r}, which needs an ordering column; give ordering=")
    others = {_ARCHIVE: "archived"}
    if version != 6:
        others[_INITIAL_VERSION] = str(version)
    if version == 8:
        others |= {_STRATEGY: _STRATEGIES[mode], _PAYLOAD: _PAYLOADS[mode]}
    if version == 6:
        others[_PAYLOAD] = _PAYLOADS[mode]
    if version == 9:
        others[_FORMAT] = "native"
    generator = "NON_PARTITION"
    if partition_by:
        generator = "SIMPLE" if len(record_key) == len(partition_by) == 1 else "COMPLEX"
    options = TableOptions(
        name=name,
        version=version,
        record_key=tuple(record_key),
        partition_by=tuple(partition_by),
        ordering=() if ordering is None else (ordering,),
        merge_mode=mode,
        database=database,
        hive_style=hive_style,
        url_encode=url_encode,
        key_generator=generator,
        # Instants of writers in several zones would not be in the order of time.
        timezone="UTC",
        merge_from=_PAYLOAD if version == 6 else None,
        others=others,
    )
    return replace(options, timeline=META_FOLDER, history=None) if version == 6 else options


def read_options(location: Location) -> TableOptions:
    """Read the options of a table, from their backup if they are not there themselves.

    Raises:
        FileNotFoundError: there is no table.
        CorruptionError: they are damaged.
        FormatError: the table is of a kind that is not read; the error names the property.
    """
    damaged: CorruptionError | None = None
    for name in (PROPERTIES, _BACKUP):
        try:
            content = location.read(name)
        except FileNotFoundError:
            continue
        try:
            options = parse_options(content, location.show(name))
        except CorruptionError as error:
            # A writer that died while it wrote them has left the backup.
            damaged = damaged or error
            continue
        return replace(options, from_backup=True) if name == _BACKUP else options
    if damaged is not None:
        raise damaged
    raise FileNotFoundError(
        f"{location.uri}: not a Hudi table: it has no {PROPERTIES}; give the folder that has one"
    )


def write_options(location: Location, options: TableOptions, written: datetime) -> None:
    """Write the options of a new table.

    Raises:
        FileExistsError: a table is there.
    """
    if location.size(PROPERTIES) is not None or location.size(_BACKUP) is not None:
        raise FileExistsError(f"{location.uri}: there is already a Hudi table")
    when = written.astimezone(timezone.utc)
    comment = f"Properties saved on {when.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
    location.write(PROPERTIES, [print_properties(options.to_properties(), [comment])])


def check_choice(metadata: str) -> None:
    """Check what a caller says is to be done with a metadata table.

    Raises:
        ValueError: it is none of `METADATA_CHOICES`.
    """
    if metadata not in METADATA_CHOICES:
        raise ValueError(
            f"metadata is {metadata!r}; give {_either([repr(one) for one in METADATA_CHOICES])}"
        )


def drop_metadata_table(location: Location, options: TableOptions) -> TableOptions:
    """Make readers list the folders of a table again, and delete its metadata table.

    The caller holds the table's lock. Indexes of Java's that are kept in there are gone as well.

    Args:
        location: of the table.
        options: of the table.

    Raises:
        FormatError: the properties are a backup.
    """
    # First: from then on nobody looks into the folder.
    changed = _with_metadata(location, options, ())
    # One that died here has left it.
    location.delete_folder(METADATA_FOLDER)
    return changed


def reduce_metadata_table(location: Location, options: TableOptions) -> TableOptions:
    """Make readers use the list of files only of a metadata table, and delete its other partitions.

    The caller holds the table's lock. Java makes them again when it is set so.

    Args:
        location: of the table.
        options: of the table, which says that the list is there.

    Raises:
        FormatError: the properties are a backup.
    """
    changed = _with_metadata(location, options, (FILES,))
    for folder in location.folders(METADATA_FOLDER):
        if folder.rpartition("/")[2] not in (FILES, META_FOLDER):
            location.delete_folder(folder)
    return changed


def check_metadata_table(location: Location, options: TableOptions) -> None:
    """Check that the metadata table that a table says it has is there, and of its version.

    Raises:
        FormatError: it is not.
        CorruptionError: its properties are damaged.
    """
    name = f"{METADATA_FOLDER}/{PROPERTIES}"
    shown = location.show(name)
    try:
        pairs = parse_properties(location.read(name), shown)
    except FileNotFoundError:
        pairs = {}
    for wanted, value in (
        (_VERSION, str(options.version)),
        (_LAYOUT, str(_layout(options.version))),
        (TIMELINE, "timeline"),
        (_BASE_FORMAT, "HFILE"),
    ):
        if pairs.get(wanted) != value:
            raise FormatError(
                f"{shown}: {wanted} is {pairs.get(wanted)!r}, not {value!r} as in a metadata table "
                f"of version {options.version}; to delete the metadata table, pass "
                "options=WriteOptions(metadata='drop')"
            )


def _with_metadata(
    location: Location, options: TableOptions, partitions: tuple[str, ...]
) -> TableOptions:
    """Change which partitions of the metadata table readers use, and return the new options."""
    if options.from_backup:
        options.check_writable(location.uri)
    changed = replace(options, metadata_partitions=partitions, metadata_inflight=())
    if changed != options:
        location.replace(PROPERTIES, print_properties(changed.to_properties(), changed.saved))
    return changed


def parse_options(content: bytes, path: str) -> TableOptions:
    """Return the options that a properties file says.

    Args:
        content: of the file.
        path: of the file, for errors.

    Raises:
        CorruptionError: it is damaged, cut short, or not the one of its checksum.
        FormatError: the table is of a kind that is not read; the error names the property.
    """
    pairs = parse_properties(content, path)
    for required in (_NAME, _TYPE, _VERSION):
        if required not in pairs:
            raise CorruptionError(path, len(content), f"a property {required}", "none")
    name, database = pairs[_NAME], pairs.get(_DATABASE)
    expected = str(checksum(name, database))
    if _CHECKSUM not in pairs and not content.endswith((b"\n", b"\r")):
        # Not every writer has a checksum, but each ends its lines: this one was cut.
        raise CorruptionError(path, len(content), "the end of a line", repr(content[-20:]))
    if pairs.get(_CHECKSUM, expected) != expected:
        raise CorruptionError(path, 0, f"{_CHECKSUM}={expected}", pairs[_CHECKSUM])
    types = (COPY_ON_WRITE, MERGE_ON_READ)
    if pairs[_TYPE] not in types:
        raise _refused_error(path, _TYPE, pairs[_TYPE], _either(types))
    if pairs[_VERSION] not in map(str, VERSIONS):
        raise _refused_error(path, _VERSION, pairs[_VERSION], _either(VERSIONS))
    version = int(pairs[_VERSION])
    layout = str(_layout(version))
    if pairs.get(_LAYOUT, layout) != layout:
        raise _refused_error(
            path, _LAYOUT, pairs[_LAYOUT], f"{layout} in a table of version {version}"
        )
    ordering = pairs.get(_ORDERING) or pairs.get(_PRECOMBINE, "")
    mode, mode_from = _merge_mode(pairs, version, bool(ordering))
    timeline, history = META_FOLDER, None
    if version != 6:
        timeline = f"{META_FOLDER}/{_folder(pairs, TIMELINE, path, 'timeline')}"
        history = f"{timeline}/{_folder(pairs, HISTORY, path, 'history')}"
    kinds = tuple(column.partition(":")[2] for column in _names(pairs.get(_PARTITION)))
    options = TableOptions(
        name=name,
        version=version,
        record_key=_names(pairs.get(_RECORD_KEY)),
        partition_by=tuple(column.partition(":")[0] for column in _names(pairs.get(_PARTITION))),
        partition_types=kinds if any(kinds) else (),
        ordering=_names(ordering),
        merge_mode=mode,
        table_type=pairs[_TYPE],
        database=database,
        hive_style=_flag(pairs, _HIVE_STYLE, path, False),
        url_encode=_flag(pairs, _URL_ENCODE, path, False),
        key_generator=_generator(pairs),
        generator_is_said=bool(pairs.get(_GENERATOR) or pairs.get(_GENERATOR_CLASS)),
        timezone=pairs.get(TIMEZONE),
        create_schema=pairs.get(CREATE_SCHEMA),
        metadata_partitions=_names(pairs.get(METADATA)),
        metadata_inflight=_names(pairs.get(_METADATA_INFLIGHT)),
        meta_fields=_flag(pairs, _META_FIELDS, path, True),
        drop_partition_columns=_flag(pairs, _DROP, path, False),
        timeline=timeline,
        history=history,
        merge_from=mode_from,
        saved=first_comments(content),
        others={
            key: value
            for key, value in pairs.items()
            # Since version 8 the class is beside the type, which then only says that there is one.
            if key not in _KNOWN or (key == _GENERATOR_CLASS and version != 6)
        },
    )
    options.check_readable(path)
    return options


def checksum(name: str, database: str | None) -> int:
    """Return the checksum of a table's names.

    >>> checksum("v6_nonpartitioned", "default")
    1363530505
    """
    return zlib.crc32(f"{database or ''}.{name}".encode())


def avro_json(schema: Any) -> str:
    """Return an Avro schema as it is stored in properties and commits.

    >>> avro_json({"type": "int", "logicalType": "date"})
    '{"type":"int","logicalType":"date"}'
    """
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def _merge_mode(pairs: Mapping[str, str], version: int, is_ordered: bool) -> tuple[str, str | None]:
    """Return how rows of one key are merged, and which property says it if not its own."""
    given = pairs.get(_MERGE_MODE)
    if version != 6 and given is not None:
        return given, None
    payload = pairs.get(_PAYLOAD)
    for mode, known in _PAYLOADS.items():
        if payload == known:
            return mode, _PAYLOAD
    if payload is not None:
        return _CUSTOM, _PAYLOAD
    # What Hudi takes if nothing is said: without a column there is nothing to compare.
    return (EVENT_TIME if is_ordered else COMMIT_TIME), _PAYLOAD


def _generator(pairs: Mapping[str, str]) -> str:
    given = pairs.get(_GENERATOR) or pairs.get(_GENERATOR_CLASS)
    if given is None:
        keys, partitions = _names(pairs.get(_RECORD_KEY)), _names(pairs.get(_PARTITION))
        if not partitions:
            return "NON_PARTITION"
        return "SIMPLE" if len(keys) == len(partitions) == 1 else "COMPLEX"
    return next((kind for kind, name in _GENERATORS.items() if name == given), given)


def _layout(version: int) -> int:
    return 1 if version == 6 else 2


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _flag(pairs: Mapping[str, str], name: str, path: str, default: bool) -> bool:
    text = pairs.get(name, _bool_text(default)).strip().lower()
    if text not in ("true", "false"):
        raise CorruptionError(path, 0, f"{name}=true or false", repr(pairs[name]))
    return text == "true"


def _folder(pairs: Mapping[str, str], name: str, path: str, default: str) -> str:
    folder = pairs.get(name) or default
    check_name(folder, path, f"{name}: a folder below {META_FOLDER}")
    return folder


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _plain(name: str) -> str:
    """Return a name of which Avro takes every character."""
    return re.sub("[^A-Za-z0-9_]", "_", name)


def _either(values: Sequence[object]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} or {last}"


def _refused_error(path: str, name: str, value: str, known: str) -> FormatError:
    return FormatError(f"{path}: {name} is {value!r}; supported: {known}")
