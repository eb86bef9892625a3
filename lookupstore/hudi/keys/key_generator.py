"""Record keys and partition paths: the texts that Hudi makes of key and partition columns.

Source: org.apache.hudi.keygen (KeyGenUtils, SimpleKeyGenerator, ComplexKeyGenerator,
CustomKeyGenerator),
org.apache.hudi.common.util.PartitionPathEncodeUtils.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import plain_type, unwrap
from lookupstore.errors import listed
from lookupstore.hudi.keys.time_paths import TimeFaultError, TimePaths, time_paths
from lookupstore.hudi.options import TableOptions
from lookupstore.storage.inside import fault_of

NULL_TEXT = "__null__"
EMPTY_TEXT = "__empty__"
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

# Hive's set of characters that a folder's name must not have, with their escapes.
_ESCAPES = {code: f"%{code:02X}" for code in [*range(0x20), 0x7F, *map(ord, "\"#%'*/:=?\\{[]^")]}
_ESCAPED = re.compile("%([0-9A-F]{2})")


def record_keys(
    table: pa.Table | pa.RecordBatch,
    fields: Sequence[str],
    *,
    named: bool | None = None,
    first_row: int | None = 0,
) -> pa.ChunkedArray:
    """Make the record key of each row.

    One field gives its text, several give `a:1,b:2` with `__null__` and `__empty__` for what is
    missing. Nothing in a value is escaped, so that values with commas can share a key, as in Hudi.

    Args:
        table: holds the fields as columns of string, int8, int16, int32 or int64.
        fields: names of the key fields, in the order of the table's properties.
        named: write `a:1` for one field as well; Hudi's versions differ when their key generator is
            COMPLEX. None: only for several fields.
        first_row: number of the first row, from 0, for errors; None: they name no row.

    Returns:
        string, chunked as the table is.

    Raises:
        KeyError: a field is not exactly one column.
        TypeError: a column has a type whose text depends on Hudi's settings.
        ValueError: no fields, or a row in which all of them are null or empty.

    >>> table = pa.table({"id": [1, 2], "name": ["Alice", None]})
    >>> record_keys(table, ["id"]).to_pylist()
    ['1', '2']
    >>> record_keys(table, ["id", "name"]).to_pylist()
    ['id:1,name:Alice', 'id:2,name:__null__']
    """
    _check_names(table, fields, "a record key")
    if not fields:
        raise ValueError("fields is empty; a record key has at least one field")
    if named is None:
        named = len(fields) > 1
    elif not named and len(fields) > 1:
        raise ValueError(
            f"named=False with {len(fields)} fields; a key of several fields always has their names"
        )
    parts = []
    row = 0
    for batch in table.to_batches() if isinstance(table, pa.Table) else [table]:
        texts = [_text(batch.column(name), name, "a record key") for name in fields]
        first = pc.index(_all_missing(texts), True).as_py()
        if first >= 0:
            where = "a row" if first_row is None else f"row {first_row + row + first + 1}"
            raise ValueError(f"{where} has {no_key(fields)}")
        parts.append(_joined(fields, texts) if named else texts[0])
        row += batch.num_rows
    return pa.chunked_array(parts, pa.string())


def without_key(table: pa.Table, fields: Sequence[str]) -> list[int]:
    """Return the rows that have no record key.

    Args:
        table: holds the fields.
        fields: names of the key fields.
    """
    texts = [
        pa.chunked_array(
            [_text(one, name, "a record key") for one in table.column(name).chunks], pa.string()
        )
        for name in fields
    ]
    rows: list[int] = np.flatnonzero(_all_missing(texts).to_numpy()).tolist()
    return rows


def no_key(fields: Sequence[str]) -> str:
    """Return what a row has whose key is missing.

    >>> no_key(["id"])
    'no record key: id is null or empty'
    """
    missing = "is null or empty" if len(fields) == 1 else "are all null or empty"
    return f"no record key: {', '.join(fields)} {missing}"


def partition_paths(
    table: pa.Table | pa.RecordBatch,
    fields: Sequence[str],
    *,
    hive_style: bool = False,
    url_encode: bool = False,
    times: TimePaths | None = None,
    check: bool = True,
    first_row: int | None = 0,
) -> pa.DictionaryArray:
    """Make the partition path of each row, as rows of a dictionary of the different paths.

    Values are joined with `/`; what is null or empty is `__HIVE_DEFAULT_PARTITION__`. A value that
    has a `/` makes a path of more levels, as in Hudi, unless `url_encode` is set.

    Args:
        table: holds the fields as columns of string, int8, int16, int32 or int64.
        fields: names of the partition fields; none: every path is empty.
        hive_style: write `name=value`.
        url_encode: escape as `%XX` what a folder's name should not have.
        times: how columns of times become texts, if there are some.
        check: refuse paths that are not folders of their own.
        first_row: number of the first row, from 0, for errors; None: they name no row.

    Returns:
        dictionary(int32, string), no nulls; every path is in use, and in it once.

    Raises:
        KeyError: a field is not exactly one column.
        TypeError: a column has a type whose text depends on Hudi's settings.
        ValueError: a path with a part `..`, `.` or without characters, or one in Hudi's own folder:
            it would not be the folder that its name says.

    >>> table = pa.table({"region": ["eu", None], "day": ["2024/05", "b"]})
    >>> partition_paths(table, ["region", "day"], hive_style=True).to_pylist()
    ['region=eu/day=2024/05', 'region=__HIVE_DEFAULT_PARTITION__/day=b']
    >>> partition_paths(table, ["day"], url_encode=True).to_pylist()
    ['2024%2F05', 'b']
    """
    _check_names(table, fields, "a partition path")
    codes = np.zeros(table.num_rows, np.int64)
    paths = [""] if table.num_rows else []
    for name in fields:
        column = table.column(name)
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        segments: Sequence[str | None]
        if times is not None and name in times.columns:
            try:
                segments, rows = times.segments(pa.chunked_array(chunks, column.type), name)
            except TimeFaultError as error:
                where = "" if first_row is None else f"row {first_row + error.row + 1}: "
                raise ValueError(f"{where}{error}") from error
        else:
            texts = [_text(chunk, name, "a partition path") for chunk in chunks]
            segments, rows = _different(pa.chunked_array(texts, pa.string()))
        folders = [_folder(name, segment, hive_style, url_encode) for segment in segments]
        pairs = pa.array(codes * len(folders) + rows).dictionary_encode()
        codes = pairs.indices.to_numpy().astype(np.int64)
        joined = [divmod(pair, len(folders)) for pair in pairs.dictionary.to_pylist()]
        paths = [f"{paths[i]}/{folders[j]}" if paths[i] else folders[j] for i, j in joined]
    # Two lists of values may be one path: null and "", or "a/b", "c" and "a", "b/c".
    numbers = {path: number for number, path in enumerate(dict.fromkeys(paths))}
    for path in numbers if fields and check else ():
        if (fault := path_fault(path)) is not None:
            raise ValueError(fault)
    renumbered = np.array([numbers[path] for path in paths], np.int32)[codes]
    return pa.DictionaryArray.from_arrays(
        pa.array(renumbered, pa.int32()), pa.array(list(numbers), pa.string())
    )


def paths_of(
    table: pa.Table | pa.RecordBatch,
    options: TableOptions,
    *,
    check: bool = True,
    first_row: int | None = 0,
) -> pa.DictionaryArray:
    """Make the partition path of each row of a table of Hudi's; see `partition_paths`.

    Raises:
        FormatError: the table makes paths in a way that is not followed here.
    """
    return partition_paths(
        table,
        options.partition_by,
        hive_style=options.hive_style,
        url_encode=options.url_encode,
        times=time_paths(options, options.name),
        check=check,
        first_row=first_row,
    )


def folder_texts(
    path: str, fields: Sequence[str], *, hive_style: bool, url_encode: bool
) -> list[str] | None:
    """Return the texts that `partition_paths` makes a path of; None: unknown.

    Args:
        path: of a partition.
        fields: names of the partition fields.
        hive_style: whether folders are called `name=value`.
        url_encode: whether characters are escaped in folders' names.

    >>> folder_texts("day=2024%2F05", ["day"], hive_style=True, url_encode=True)
    ['2024/05']
    >>> folder_texts("a/b/c", ["region", "day"], hive_style=False, url_encode=False)
    """
    folders = path.split("/")
    if len(folders) != len(fields):  # a value has a "/", and nobody knows which
        return None
    texts = []
    for name, folder in zip(fields, folders, strict=True):
        text = folder.removeprefix(f"{name}=") if hive_style else folder
        if url_encode:
            text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
        if _folder(name, text, hive_style, url_encode) != folder:
            return None
        texts.append(text)
    return texts


def _check_names(table: pa.Table | pa.RecordBatch, fields: Sequence[str], what: str) -> None:
    if isinstance(fields, str):
        raise TypeError(f"fields is the string {fields!r}; give a sequence of column names")
    for name in fields:
        if list(fields).count(name) > 1:
            raise ValueError(f"fields names {name!r} twice; give each field once")
        if table.schema.get_field_index(name) < 0:
            raise KeyError(
                f"no single column {name!r} among {listed(table.schema.names) or 'none'}"
            )


def _text(array: pa.Array, name: str, what: str) -> pa.Array:
    """Return the values as Java prints them."""
    kind = plain_type(array.type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return unwrap(array).cast(pa.string())
    if pa.types.is_signed_integer(kind):
        return unwrap(array).cast(pa.string())
    raise TypeError(
        f"the column {name!r} is {array.type}; {what} is made of strings and signed integers, "
        "because the text of other types depends on settings: cast it to string"
    )


def _all_missing(texts: Sequence[pa.Array]) -> pa.Array:
    missing = _missing(texts[0])
    for other in texts[1:]:
        missing = pc.and_(missing, _missing(other))
    return missing


def _missing(text: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(pc.binary_length(text), 0), True)


def _joined(fields: Sequence[str], texts: Sequence[pa.Array]) -> pa.Array:
    pieces: list[pa.Array | pa.Scalar] = []
    for number, (name, text) in enumerate(zip(fields, texts, strict=True)):
        full = pc.if_else(pc.equal(pc.binary_length(text), 0), EMPTY_TEXT, text)
        pieces += [pa.scalar(f"{',' if number else ''}{name}:"), pc.fill_null(full, NULL_TEXT)]
    return pc.binary_join_element_wise(*pieces, pa.scalar(""))


def _different(texts: pa.ChunkedArray) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """Return the different values, and for each row which one it has."""
    coded = texts.dictionary_encode(null_encoding="encode").combine_chunks()
    if isinstance(coded, pa.ChunkedArray):  # what pyarrow makes of no chunks
        coded = pa.array([], texts.type).dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def _folder(name: str, value: str | None, hive_style: bool, url_encode: bool) -> str:
    folder = value or DEFAULT_PARTITION
    if url_encode:
        folder = folder.translate(_ESCAPES)
    return f"{name}={folder}" if hive_style else folder


def path_fault(path: str) -> str | None:
    """Return why a partition path cannot be one, None if it can.

    >>> path_fault("2024/05"), path_fault("a/../b") is None
    (None, False)
    """
    fault = fault_of(path) if path else "it is empty"
    if fault is not None:
        return f"the partition path {path!r} does not name a folder of its own: {fault}"
    if path.partition("/")[0] == ".hoodie":
        return f"the partition path {path!r} is inside .hoodie, the table's own folder"
    return None
