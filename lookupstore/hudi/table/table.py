"""``HudiTable``: a table of Apache Hudi, without a JVM."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from lookupstore.hudi.keys.avro_types import avro_schema
from lookupstore.hudi.keys.new_columns import check_columns, columns_of
from lookupstore.hudi.locking.lock import check_place
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.options import (
    SNAPSHOT,
    avro_json,
    check_query,
    check_writable,
    new_options,
    read_options,
    write_options,
)
from lookupstore.hudi.table.layout import LayoutVerbs
from lookupstore.hudi.table.reads import ReadVerbs
from lookupstore.hudi.table.writes import WriteVerbs
from lookupstore.hudi.write.hoodie.meaning import check_generator, table_arguments
from lookupstore.keywords import ABSENT, Absent, only_given
from lookupstore.storage.location import Location, as_location

Path = str | os.PathLike[str] | Location


class HudiTable(ReadVerbs, LayoutVerbs, WriteVerbs):
    """A table of Apache Hudi, to read, and to write if it is copy-on-write.

    Each call sees what is committed when it is made, and returns the table of that moment: writers
    do not wait for readers, nor readers for writers.

    Made by `HudiTable.create` and `HudiTable.open`.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> schema = pa.schema({"id": pa.int64(), "day": pa.string()})
    >>> table = HudiTable.create(tempfile.mkdtemp(), schema, record_key=["id"], name="visits")
    >>> table.scan().num_rows, table.timeline()
    (0, [])
    """

    @classmethod
    def create(
        cls,
        path: Path,
        schema: Any,
        *,
        record_key: str | Sequence[str] | Absent = ABSENT,
        partition_by: str | Sequence[str] | Absent = ABSENT,
        ordering: str | Absent | None = ABSENT,
        merge_mode: str | Absent | None = ABSENT,
        version: int | Absent = ABSENT,
        name: str | Absent | None = ABSENT,
        database: str | Absent | None = ABSENT,
        hive_style: bool | Absent = ABSENT,
        url_encode: bool | Absent = ABSENT,
        options: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> HudiTable:
        """Make an empty table.

        Args:
            path: folder or URI of the table; made if missing, else without files.
            schema: of the data columns, all of which become nullable; or rows with these columns,
                as `upsert` takes them: none of them is written.
            record_key: columns that identify a row within its partition; strings or integers.
            partition_by: partition columns, whose values name the folders; strings or integers.
                Default: none.
            ordering: the ordering (precombine) column: of two rows with one key, the one with the
                greater value is newer; None, the default: the one that is written later.
            merge_mode: `EVENT_TIME_ORDERING` or `COMMIT_TIME_ORDERING`; None, the default: the
                first if there is an ordering column.
            version: of the table: 9, the default, 8, or 6 for engines with Hudi 0.x.
            name: of the table; None, the default: that of the folder.
            database: of the table. None, the default: the table has none.
            hive_style: whether folders are called `name=value`. Default: False.
            url_encode: whether characters are escaped in folders' names. Default: False.
            options: what a writer in Java would be given: values by Hudi's names, `hoodie.*`, which
                say arguments that are not given. One that contradicts a given argument is an error.
            storage_options: of a URI, as of `lookupstore.Location`.

        Raises:
            FileExistsError: the folder has a table, or any other file.
            FormatError: no write could follow: `path` is where files are not made on the condition
                that there is none, as on HDFS.
            ImportError: `path` is on an object store, and obstore is not installed.
            KeyError: a column that `schema` does not have.
            TypeError: `schema` is not a schema; or a column has a type that Hudi tables do not
                have, or that cannot be a key, partition or ordering column.
            ValueError: an argument is out of range, or contradicts another.

        Source: HoodieTableMetaClient.PropertyBuilder of Apache Hudi.
        """
        location = as_location(path, storage_options)
        schema = columns_of(schema)
        for column, count in Counter(schema.names).items():
            if column in META_COLUMNS or count > 1:
                raise ValueError(
                    f"schema: the name {column!r} is one of Hudi's own, or given twice; rename it, "
                    "or leave it out"
                )
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
            raise FileExistsError(f"{location.uri}: not empty; give an empty or new folder")
        check_place(location)
        for folder in made.folders:
            location.make_folder(folder)
        # Last: who sees it sees a table.
        write_options(location, made, datetime.now(timezone.utc))
        return cls(location, made)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        query_type: str = SNAPSHOT,
        storage_options: Mapping[str, Any] | None = None,
    ) -> HudiTable:
        """Open a table.

        Args:
            path: folder or URI of the table.
            query_type: `snapshot`, or `read_optimized`, which is the rows of base files: all of a
                copy-on-write table; of a merge-on-read table those of the last compactions and of
                new files, without the changes since, which are in log files. Such a table cannot be
                opened otherwise, and not be written to.
            storage_options: of a URI, as of `lookupstore.Location`.

        Raises:
            FileNotFoundError: there is no table.
            CorruptionError: its properties are damaged.
            FormatError: the table is of a kind that is not read; the error names the property.
            ValueError: there is no such kind of query.

        Source: DataSourceReadOptions.QUERY_TYPE of Apache Hudi.
        """
        location = as_location(path, storage_options)
        options = read_options(location)
        check_query(options, query_type, location.uri)
        return cls(location, options, query_type)


def _folder_name(location: Location) -> str:
    return location.uri.partition("?")[0].rstrip("/").rpartition("/")[2]
