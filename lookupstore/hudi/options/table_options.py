"""``TableOptions``: the options of a table, and the properties that store them."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lookupstore.hudi.options.names import (
    ARCHIVE,
    AUXILIARY,
    CHECKSUM,
    COMMIT_TIME,
    COPY_ON_WRITE,
    CREATE_SCHEMA,
    DATABASE,
    DROP_COLUMNS,
    GENERATOR,
    GENERATOR_CLASS,
    GENERATORS,
    HISTORY,
    HIVE_STYLE,
    LAYOUT,
    MERGE_MODE,
    META_FIELDS,
    META_FOLDER,
    METADATA,
    METADATA_INFLIGHT,
    NAME,
    ORDERING,
    PARTITION,
    PRECOMBINE,
    RECORD_KEY,
    TIME_PARSER,
    TIME_PARSERS,
    TIMELINE,
    TIMES,
    TIMEZONE,
    TYPE,
    URL_ENCODE,
    VERSION,
)

# Properties that are fields of `TableOptions`, or are derived from them.
KNOWN = frozenset(
    (
        NAME, DATABASE, TYPE, VERSION, LAYOUT, TIMELINE, HISTORY, RECORD_KEY, PARTITION,
        ORDERING, PRECOMBINE, MERGE_MODE, GENERATOR, GENERATOR_CLASS, HIVE_STYLE,
        URL_ENCODE, DROP_COLUMNS, CREATE_SCHEMA, CHECKSUM, TIMEZONE, META_FIELDS, METADATA,
        METADATA_INFLIGHT,
    )
)  # fmt: skip


@dataclass(frozen=True)
class TableOptions:
    """The options of a table: its columns, its layout, and its rules for writers.

    Attributes:
        name: Name of the table.
        table_type: Type of the table: `COPY_ON_WRITE` or `MERGE_ON_READ`.
        database: Database of the table. None: the properties do not name one.
        version: Version of the table: 6, 8, 9, or 10, which can only be read.
        record_key: Columns of the record key.
        partition_by: Columns of the partition path. Empty: all files are in one folder.
        partition_types: Type of each partition column, for a custom key generator: `SIMPLE`,
            `TIMESTAMP`, or an empty text. Empty: the properties contain no types.
        ordering: Columns that decide which of two rows with the same key is newer.
        merge_mode: Rule that decides which of two rows with the same key is kept:
            `EVENT_TIME_ORDERING`, `COMMIT_TIME_ORDERING`, or another rule. A table with another
            rule can only be read.
        hive_style: Whether folders of partitions are named `name=value`.
        url_encode: Whether special characters in the names of folders are escaped.
        key_generator: Key generator: `SIMPLE`, `COMPLEX`, `NON_PARTITION`, or another one that the
            properties name.
        generator_is_said: Whether the properties name the key generator. If not, it is inferred as
            in Hudi.
        timezone: Time zone of instants, `UTC` or `LOCAL`. None: the properties do not name one.
        create_schema: Avro schema of the data columns when the table was made, as JSON.
        metadata_partitions: Partitions of the metadata table. If there are any, readers list files
            there.
        metadata_inflight: Partitions of the metadata table that another writer is making.
        meta_fields: Whether base files have the meta columns.
        drop_partition_columns: Whether base files lack the partition columns.
        timeline: Folder of instants, relative to the table.
        history: Folder of archived instants, relative to the table. None: the table has version 6,
            and its archive is in another folder.
        merge_from: Property that stores the merge mode instead of `hoodie.record.merge.mode`. None:
            that property does.
        from_backup: Whether the options are from the backup of the properties, because a writer is
            changing the properties, or died while it did.
        saved: Comments at the head of the properties file, which are kept when it changes. Those of
            Java contain the time and time zone of the change.
        others: All other properties, which are kept when the file changes.
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
        """Return the name of the Avro record of the table's rows."""
        return f"{_plain(self.name)}_record"

    @property
    def namespace(self) -> str:
        """Return the namespace of the Avro record of the table's rows."""
        return f"hoodie.{_plain(self.name)}"

    @property
    def archive(self) -> str:
        """Return the folder of archived instants, relative to the table."""
        if self.history is not None:
            return self.history
        return f"{META_FOLDER}/{self.others.get(ARCHIVE, 'archived')}"

    @property
    def time_columns(self) -> tuple[str, ...]:
        """Return the partition columns with times that are formatted as folder names."""
        if self.key_generator == "TIMESTAMP":
            return self.partition_by
        if self.key_generator != "CUSTOM":
            return ()
        # Unknown properties are among them; readers of their format raise errors.
        return tuple(one for one, kind in self.typed_columns if kind.upper() != "SIMPLE")

    @property
    def typed_columns(self) -> tuple[tuple[str, str], ...]:
        """Return the partition columns, each with its type in the properties."""
        types = self.partition_types or ("",) * len(self.partition_by)
        return tuple(zip(self.partition_by, types, strict=True))

    @property
    def time_format(self) -> dict[str, tuple[str, str]]:
        """Return the properties that format times as folders: name and value, by suffix."""
        found = {}
        for start in reversed(TIMES):
            for name, value in self.others.items():
                if name.startswith(start):
                    found[name.removeprefix(start)] = name, value.strip()
        return found

    @property
    def time_parser(self) -> tuple[str, str] | None:
        """Return the property with a custom class that parses times. None: there is none."""
        for name in TIME_PARSERS:
            if self.others.get(name, TIME_PARSER) != TIME_PARSER:
                return name, self.others[name]
        return None

    @property
    def partition_property(self) -> str:
        """Return the name of the property with the partition columns."""
        return PARTITION

    def time_property(self, key: str) -> str:
        """Return the name of a property that formats times as folder names."""
        return f"{TIMES[0]}{key}"

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the folders of a new table."""
        return (self.archive, AUXILIARY)

    @property
    def ordering_property(self) -> str:
        """Return the name of the property with the ordering columns."""
        return ORDERING if self.version >= 9 else PRECOMBINE

    @property
    def generator_property(self) -> str:
        """Return the name of the property with the key generator."""
        return GENERATOR_CLASS if self.version == 6 else GENERATOR

    def to_properties(self) -> dict[str, str]:
        """Return the properties that store the options, including the checksum.

        >>> from lookupstore.hudi.options import new_options
        >>> options = new_options(name="t", record_key=["id"])
        >>> options.to_properties()["hoodie.table.checksum"]
        '498511606'
        """
        pairs = {NAME: self.name}
        if self.database is not None:
            pairs[DATABASE] = self.database
        pairs |= {TYPE: self.table_type, VERSION: str(self.version)}
        pairs[LAYOUT] = str(layout_of(self.version))
        if self.history is not None:
            pairs[TIMELINE] = self.timeline.removeprefix(f"{META_FOLDER}/")
            pairs[HISTORY] = self.history.removeprefix(f"{self.timeline}/")
        typed = self.typed_columns
        for name, columns in (
            (RECORD_KEY, self.record_key),
            (PARTITION, tuple(f"{one}:{kind}" if kind else one for one, kind in typed)),
            (self.ordering_property, self.ordering),
        ):
            if columns:
                pairs[name] = ",".join(columns)
        if self.version != 6 and self.merge_from is None:
            pairs[MERGE_MODE] = self.merge_mode
        if self.generator_is_said:
            generator = self.key_generator
            if self.version == 6:
                generator = GENERATORS.get(generator, generator)
            pairs[self.generator_property] = generator
        pairs[HIVE_STYLE] = bool_text(self.hive_style)
        pairs[URL_ENCODE] = bool_text(self.url_encode)
        pairs[DROP_COLUMNS] = bool_text(self.drop_partition_columns)
        if not self.meta_fields:
            pairs[META_FIELDS] = "false"
        if self.metadata_partitions:
            pairs[METADATA] = ",".join(self.metadata_partitions)
        if self.metadata_inflight:
            pairs[METADATA_INFLIGHT] = ",".join(self.metadata_inflight)
        if self.create_schema is not None:
            pairs[CREATE_SCHEMA] = self.create_schema
        if self.timezone is not None:
            pairs[TIMEZONE] = self.timezone
        pairs |= self.others
        pairs[CHECKSUM] = str(checksum(self.name, self.database))
        return pairs


def checksum(name: str, database: str | None) -> int:
    """Return the checksum of a table's names.

    >>> checksum("v6_nonpartitioned", "default")
    1363530505
    """
    return zlib.crc32(f"{database or ''}.{name}".encode())


def avro_json(schema: Any) -> str:
    """Return an Avro schema in the form used in properties and commits.

    >>> avro_json({"type": "int", "logicalType": "date"})
    '{"type":"int","logicalType":"date"}'
    """
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def layout_of(version: int) -> int:
    return 1 if version == 6 else 2


def bool_text(value: bool) -> str:
    return "true" if value else "false"


def _plain(name: str) -> str:
    """Return a name with characters that Avro does not accept replaced by `_`."""
    return re.sub("[^A-Za-z0-9_]", "_", name)
