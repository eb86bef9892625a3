"""A table's options: what its properties mean, and the properties that say it."""

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

# Properties that are fields of `TableOptions`, or follow from these.
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
        return f"{META_FOLDER}/{self.others.get(ARCHIVE, 'archived')}"

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
        for name in TIME_PARSERS:
            if self.others.get(name, TIME_PARSER) != TIME_PARSER:
                return name, self.others[name]
        return None

    @property
    def partition_property(self) -> str:
        """Return the name of the property that has the partition columns."""
        return PARTITION

    def time_property(self, key: str) -> str:
        """Return the name of a property that says how times become folders."""
        return f"{TIMES[0]}{key}"

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the folders that a new table has."""
        return (self.archive, AUXILIARY)

    @property
    def ordering_property(self) -> str:
        """Return the name of the property that has the ordering columns."""
        return ORDERING if self.version == 9 else PRECOMBINE

    @property
    def generator_property(self) -> str:
        """Return the name of the property that says which key generator there is."""
        return GENERATOR_CLASS if self.version == 6 else GENERATOR

    def to_properties(self) -> dict[str, str]:
        """Return the pairs that say all of it, the checksum among them.

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
    """Return an Avro schema as it is stored in properties and commits.

    >>> avro_json({"type": "int", "logicalType": "date"})
    '{"type":"int","logicalType":"date"}'
    """
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def layout_of(version: int) -> int:
    return 1 if version == 6 else 2


def bool_text(value: bool) -> str:
    return "true" if value else "false"


def _plain(name: str) -> str:
    """Return a name of which Avro takes every character."""
    return re.sub("[^A-Za-z0-9_]", "_", name)
