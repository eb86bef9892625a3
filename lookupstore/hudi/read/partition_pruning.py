"""Which partitions can have rows of a filter, by what the names of their folders say of columns.

Nothing is left out that might match: where a name does not say for certain which values its rows
have, its files are read. What follows from the values that are certain, Arrow works out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from lookupstore.errors import listed
from lookupstore.hudi.keys.key_generator import DEFAULT_PARTITION, folder_texts
from lookupstore.hudi.layout import Filter, filter_expression
from lookupstore.hudi.meta_columns import PARTITION_PATH
from lookupstore.hudi.options import TableOptions
from lookupstore.hudi.view import TableView

# Key generators that make folders of the texts of columns, and of nothing else.
_OF_COLUMNS = ("SIMPLE", "COMPLEX")
_FORMAT = ds.ParquetFileFormat()


def partitions_left(
    paths: Iterable[str], where: pc.Expression, schema: pa.Schema, options: TableOptions
) -> set[str]:
    """Return the partitions that can have rows of a filter.

    Args:
        paths: of partitions.
        where: the filter, which fits the columns.
        schema: all columns of the table, meta columns included.
        options: of the table.

    >>> from lookupstore.hudi.options import new_options
    >>> options = new_options(name="t", record_key=["id"], partition_by=["day"])
    >>> schema = pa.schema({"id": pa.int64(), "day": pa.int32()})
    >>> where = (pc.field("day") > 1) & (pc.field("id") == 7)
    >>> sorted(partitions_left(["1", "2", "3"], where, schema, options))
    ['2', '3']
    """
    known = list(dict.fromkeys(paths))
    # Arrow prunes fragments by what is known of each; these stand for folders, and are not opened.
    nowhere = fs.LocalFileSystem()
    folders = [
        _FORMAT.make_fragment(str(at), nowhere, known_of(path, schema, options))
        for at, path in enumerate(known)
    ]
    dataset = ds.FileSystemDataset(folders, schema, _FORMAT, nowhere)
    try:
        return {known[int(one.path)] for one in dataset.get_fragments(where)}
    except pa.ArrowException:
        # Such as a division by a value of the partition: whoever reads the rows is told.
        return set(known)


def partitions_of(
    view: TableView, given: Filter, partitions: Sequence[str] | None = None
) -> list[str]:
    """Return the partitions of a table that can have rows of a filter on partition columns.

    Args:
        view: of the table.
        given: the filter.
        partitions: paths of those that are asked about; None: all. Those that the table does not
            have are returned, for who looks for them.

    Raises:
        ValueError: the filter does not fit these columns, is on others, or is none.
        ImportError: it is SQL, and what parses that is not installed.
    """
    names = [PARTITION_PATH, *view.options.partition_by]
    columns = pa.schema([one for one in view.schema if one.name in names])
    try:
        where = filter_expression(given, columns)
        ds.dataset(columns.empty_table()).scanner(filter=where)
    except (pa.ArrowException, TypeError, ValueError) as error:
        known = listed(columns.names)
        said = " ".join(str(error).removeprefix("filter: ").split())
        raise ValueError(f"where: {said}; give a filter on {known}") from None
    paths = sorted({group.id.partition for group in view.groups(None)})
    left = partitions_left(paths, where, view.schema, view.options)
    if partitions is None:
        return [path for path in paths if path in left]
    return [path for path in partitions if path in left or path not in paths]


def known_of(path: str, schema: pa.Schema, options: TableOptions) -> pc.Expression | None:
    """Return what is true of every row of a partition; None: nothing is known.

    Args:
        path: of the partition.
        schema: all columns of the table.
        options: of the table.
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
    """Return what the text of a folder says of a column; None: it does not."""
    is_text, is_date = pa.types.is_string(kind), pa.types.is_date32(kind)
    if not (is_text or is_date or pa.types.is_signed_integer(kind)):
        return None
    if text == DEFAULT_PARTITION:
        # A text may be null, empty, or just this one.
        return None if is_text else pc.field(name).is_null()
    try:
        value = text if is_text else date.fromisoformat(text) if is_date else int(text)
        # Texts that are not what Hudi writes of the value may be what it writes of another one.
        return pc.field(name) == pa.scalar(value, kind) if str(value) == text else None
    except (ValueError, OverflowError, pa.ArrowException):
        return None
