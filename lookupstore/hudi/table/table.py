"""Tables of Apache Hudi, without a JVM."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from lookupstore.hudi.keys.avro_types import avro_schema
from lookupstore.hudi.keys.new_columns import (
    check_columns,
    columns_of,
    note_times_without_zone,
)
from lookupstore.hudi.locking.lock import check_place
from lookupstore.hudi.options import (
    PROPERTIES,
    SNAPSHOT,
    avro_json,
    check_query,
    check_writable,
    new_options,
    read_options,
    write_options,
)
from lookupstore.hudi.table.advice import CREATE
from lookupstore.hudi.table.layout import LayoutVerbs
from lookupstore.hudi.table.reads import ReadVerbs
from lookupstore.hudi.table.writes import WriteVerbs
from lookupstore.hudi.write.hoodie.meaning import check_generator, table_arguments
from lookupstore.keywords import ABSENT, Absent, only_given, with_advice
from lookupstore.storage.location import Location, as_location

Path = str | os.PathLike[str] | Location


class HudiTable(ReadVerbs, LayoutVerbs, WriteVerbs):
    """A table of Apache Hudi. Only copy-on-write tables can be written.

    Each call uses the newest commit when it starts. Writers do not wait for readers, nor readers
    for writers.

    Use `HudiTable.create` or `HudiTable.open` to make one.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> schema = pa.schema({"id": pa.int64(), "day": pa.string()})
    >>> table = HudiTable.create(tempfile.mkdtemp(), schema, record_key=["id"], name="visits")
    >>> table.scan().num_rows, table.timeline()
    (0, [])
    """

    @classmethod
    @with_advice(CREATE.get)
    def create(
        cls,
        path: Path,
        schema: Any,
        *,
        record_key: str | Sequence[str] | Absent = ABSENT,
        partition_by: str | Sequence[str] | Absent | None = ABSENT,
        ordering: str | Sequence[str] | Absent | None = ABSENT,
        merge_mode: str | Absent | None = ABSENT,
        version: int | Absent = ABSENT,
        name: str | Absent | None = ABSENT,
        database: str | Absent | None = ABSENT,
        hive_style: bool | Absent = ABSENT,
        url_encode: bool | Absent = ABSENT,
        options: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> HudiTable:
        """Create an empty table.

        Args:
            path: Folder or URI of the new table. It is created if missing, and must not contain
                files.
            schema: Schema of the data columns, which all become nullable; or rows with these
                columns, in any form that `upsert` takes. No row is written. Meta columns
                (`_hoodie_...`) are ignored.
            record_key: Names of the columns that identify a row within its partition, or one name;
                strings or integers. Required, here or in `options`.
            partition_by: Names of the partition columns, or one name; strings or integers. Their
                values name the folders. None, the default: no partitions.
            ordering: Name of the ordering (precombine) column: of two rows with the same key, the
                one with the greater value wins. None, the default: the later row wins.
            merge_mode: `EVENT_TIME_ORDERING` or `COMMIT_TIME_ORDERING`. None, the default:
                `EVENT_TIME_ORDERING` if there is an ordering column, or else
                `COMMIT_TIME_ORDERING`.
            version: Version of the table format: 9, the default, 8, or 6 for engines with Hudi 0.x.
            name: Name of the table. None, the default: the name of the folder.
            database: Name of the database that the table belongs to. None, the default: no
                database.
            hive_style: Whether to name folders `name=value`. Default: False.
            url_encode: Whether to escape special characters in folder names. Default: False.
            options: Options by Hudi's names, `hoodie.*`, such as a Java writer takes. They set
                arguments that you leave out. An option that contradicts an argument is an error.
            storage_options: Credentials, region, endpoint and other options of a URI, by the names
                that pandas or deltalake have for them; see `lookupstore.Location`.

        Raises:
            FileExistsError: If the folder contains a table or any other file.
            FormatError: If the file system cannot lock a table, such as HDFS.
            ImportError: If `path` is on an object store, and obstore is not installed.
            KeyError: If `schema` does not have a column.
            TypeError: If `schema` is not a schema, or the type of a column is not supported in Hudi
                tables, or not as a key, partition or ordering column.
            ValueError: If an argument is out of range, or contradicts another.

        Source: HoodieTableMetaClient.PropertyBuilder of Apache Hudi.
        """
        location = as_location(path, storage_options)
        arguments = only_given(
            name=name,
            record_key=record_key,
            partition_by=partition_by,
            ordering=ordering,
            merge_mode=merge_mode,
            version=version,
            database=database,
            hive_style=hive_style,
            url_encode=url_encode,
        )
        if options is not None:
            arguments = table_arguments(options, arguments)
        by = arguments.get("partition_by") or ()
        schema = columns_of(schema, [by] if isinstance(by, str) else by)
        for column, count in Counter(schema.names).items():
            if count > 1:
                raise ValueError(f"schema: {count} columns are called {column!r}; rename them")
        if arguments.get("name") is None:
            arguments["name"] = _folder_name(location)
        arguments.setdefault("record_key", ())
        made = new_options(**arguments)
        check_generator(options or {}, made)
        avro = avro_schema(schema, made.record_name, made.namespace)
        made = replace(made, create_schema=avro_json(avro))
        check_columns(made, location.uri)
        check_writable(made, location.uri)
        if location.is_file() or location.files(recursive=True):
            has_table = location.size(PROPERTIES) is not None
            what = ": it is a Hudi table already; open that one, or" if has_table else ";"
            raise FileExistsError(f"{location.uri}: not empty{what} give an empty or new folder")
        check_place(location)
        for folder in made.folders:
            location.make_folder(folder)
        # This is last: once it exists, readers see a complete table.
        write_options(location, made, datetime.now(timezone.utc))
        note_times_without_zone(avro, location.uri)
        return cls(location, made)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        query_type: str = SNAPSHOT,
        storage_options: Mapping[str, Any] | None = None,
    ) -> HudiTable:
        """Open an existing table.

        Args:
            path: Folder or URI of the table.
            query_type: `snapshot`, or `read_optimized`, which reads base files only. For a
                copy-on-write table, both return all rows. A merge-on-read table cannot be written.
                With `read_optimized`, it has the rows of the last compactions and of new files,
                without the later changes, which are in log files. With `snapshot`, scans merge
                these changes, and lookups are refused.
            storage_options: Credentials, region, endpoint and other options of a URI, by the names
                that pandas or deltalake have for them; see `lookupstore.Location`.

        Raises:
            FileNotFoundError: If there is no table at `path`.
            CorruptionError: If the properties of the table are damaged.
            FormatError: If tables of this kind cannot be read; the error names the property.
            ValueError: If `query_type` is unknown.

        Source: DataSourceReadOptions.QUERY_TYPE of Apache Hudi.
        """
        location = as_location(path, storage_options)
        options = read_options(location)
        check_query(options, query_type, location.uri)
        return cls(location, options, query_type)


def _folder_name(location: Location) -> str:
    return location.uri.partition("?")[0].rstrip("/").rpartition("/")[2]
