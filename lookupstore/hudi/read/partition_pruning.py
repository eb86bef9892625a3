"""Partitions that can have rows of a filter, by the names of their folders.

Partitions that might match are never left out: files are read if the name of their folder does not
determine the values of their rows. Arrow derives the rest from the known values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from lookupstore.errors import listed
from lookupstore.filters import Filter, columns_in, filter_expression
from lookupstore.hudi.keys.key_generator import DEFAULT_PARTITION, folder_texts
from lookupstore.hudi.meta_columns import PARTITION_PATH
from lookupstore.hudi.options import TableOptions
from lookupstore.hudi.view import TableView

# Key generators that make folders only from the texts of columns.
_OF_COLUMNS = ("SIMPLE", "COMPLEX")
_FORMAT = ds.ParquetFileFormat()


def partitions_left(
    paths: Iterable[str], where: pc.Expression, schema: pa.Schema, options: TableOptions
) -> set[str]:
    """Return the partitions that can have rows of a filter.

    Args:
        paths: Paths of the partitions.
        where: Filter, which fits the columns.
        schema: Schema of all columns of the table, including meta columns.
        options: Options of the table.

    >>> from lookupstore.hudi.options import new_options
    >>> options = new_options(name="t", record_key=["id"], partition_by=["day"])
    >>> schema = pa.schema({"id": pa.int64(), "day": pa.int32()})
    >>> where = (pc.field("day") > 1) & (pc.field("id") == 7)
    >>> sorted(partitions_left(["1", "2", "3"], where, schema, options))
    ['2', '3']
    """
    known = list(dict.fromkeys(paths))
    # Arrow prunes fragments by their known values; these fragments stand for folders, and are not
    # opened.
    nowhere = fs.LocalFileSystem()
    folders = [
        _FORMAT.make_fragment(str(at), nowhere, known_of(path, schema, options))
        for at, path in enumerate(known)
    ]
    dataset = ds.FileSystemDataset(folders, schema, _FORMAT, nowhere)
    try:
        return {known[int(one.path)] for one in dataset.get_fragments(where)}
    except pa.ArrowException:
        # For example a division by a value of the partition: reading the rows raises the error.
        return set(known)


def partitions_of(
    view: TableView, given: Filter, partitions: Sequence[str] | None = None
) -> list[str]:
    """Return the partitions that can match a filter on partition columns.

    Args:
        view: State of the table.
        given: Filter on partition columns.
        partitions: Paths of the partitions to choose from. None: all. Paths that the table does not
            have are returned, so that the caller can report them.

    Raises:
        ValueError: If `given` is not a filter on partition columns.
        ImportError: If `given` is SQL, and sqlglot is not installed.
    """
    names = [PARTITION_PATH, *view.options.partition_by]
    columns = pa.schema([one for one in view.schema if one.name in names])
    known = listed(columns.names)
    try:
        where = filter_expression(given, view.schema)
        others = sorted(columns_in(where) - set(columns.names))
        if others:
            what = "is not a partition column" if others[0] in view.schema.names else "is no column"
            raise ValueError(f"{others[0]!r} {what}, and whole partitions are chosen")
        ds.dataset(columns.empty_table()).scanner(filter=where)
    except (pa.ArrowException, TypeError, ValueError) as error:
        said = " ".join(str(error).removeprefix("filter: ").split())
        raise ValueError(f"where: {said}; give a filter on {known}") from None
    paths = sorted({group.id.partition for group in view.groups(None)})
    left = partitions_left(paths, where, view.schema, view.options)
    if partitions is None:
        return [path for path in paths if path in left]
    return [path for path in partitions if path in left or path not in paths]


def known_of(path: str, schema: pa.Schema, options: TableOptions) -> pc.Expression | None:
    """Return an expression that is true for every row of a partition. None: unknown.

    Args:
        path: Path of the partition.
        schema: Schema of all columns of the table.
        options: Options of the table.
    """
    facts = []
    if options.meta_fields and PARTITION_PATH in schema.names:
        facts.append(pc.field(PARTITION_PATH) == path)
    names = options.partition_by
    texts = None
    if options.generator_is_said and options.key_generator in _OF_COLUMNS:
        texts = folder_texts(
            path, names, hive_style=options.hive_style, url_encode=options.url_encode
        )
    for name, text in zip(names, texts or (), strict=False):
        if name in schema.names:
            fact = _fact(name, text, schema.field(name).type)
            if fact is not None:
                facts.append(fact)
    if not facts:
        return None
    first, *others = facts
    for other in others:
        first = first & other
    return first


def _fact(name: str, text: str, kind: pa.DataType) -> pc.Expression | None:
    """Return what the text in a folder's name shows about a column. None: nothing."""
    is_text, is_date = pa.types.is_string(kind), pa.types.is_date32(kind)
    if not (is_text or is_date or pa.types.is_signed_integer(kind)):
        return None
    if text == DEFAULT_PARTITION:
        # The value of the text may be null, empty, or exactly the text.
        return None if is_text else pc.field(name).is_null()
    try:
        value = text if is_text else date.fromisoformat(text) if is_date else int(text)
        # If Hudi does not write this text for its value, it may write it for another value.
        return pc.field(name) == pa.scalar(value, kind) if str(value) == text else None
    except (ValueError, OverflowError, pa.ArrowException):
        return None
