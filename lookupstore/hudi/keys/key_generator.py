"""Record keys and partition paths: texts that Hudi makes of columns.

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
from lookupstore.errors import listed, meant
from lookupstore.hudi.keys.time_paths import TimeFaultError, TimePaths, time_paths
from lookupstore.hudi.options import TableOptions
from lookupstore.storage.inside import fault_of

NULL_TEXT = "__null__"
EMPTY_TEXT = "__empty__"
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

# Characters that Hive does not allow in the name of a folder, with their escapes.
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

    A key of one field is its text. A key of several fields is `a:1,b:2`, with `__null__` and
    `__empty__` for missing values. Nothing in a value is escaped, so that values with commas can
    share a key, as in Hudi.

    Args:
        table: Rows with the fields as columns of string, int8, int16, int32 or int64.
        fields: Names of the key fields, in the order of the table's properties.
        named: Whether to write `a:1` for one field as well; Hudi's versions differ when their key
            generator is COMPLEX. None: only for several fields.
        first_row: Number of the first row, from 0, for errors. None: errors name no row.

    Returns:
        Record keys, string, chunked as the table is.

    Raises:
        KeyError: If a field is not exactly one column.
        TypeError: If the text of a column's type depends on Hudi's settings.
        ValueError: If there are no fields, or all fields of a row are null or empty.

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
            raise ValueError(f"{where} has {no_key(fields)}; give it one, or leave the row out")
        parts.append(_joined(fields, texts) if named else texts[0])
        row += batch.num_rows
    return pa.chunked_array(parts, pa.string())


def without_key(table: pa.Table, fields: Sequence[str]) -> list[int]:
    """Return the numbers of the rows without a record key.

    Args:
        table: Rows with the fields.
        fields: Names of the key fields.
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
    """Return the reason that a row has no key.

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
    """Make the partition path of each row, as a dictionary of the different paths.

    Values are joined with `/`; null or empty values become `__HIVE_DEFAULT_PARTITION__`. A value
    with a `/` makes more levels, as in Hudi, unless `url_encode` is set.

    Args:
        table: Rows with the fields as columns of string, int8, int16, int32 or int64.
        fields: Names of the partition fields. Empty: every path is empty.
        hive_style: Whether to write `name=value`.
        url_encode: Whether to escape special characters as `%XX`.
        times: Rules for columns of times. None: no column has times.
        check: Whether to check that each path is a valid folder.
        first_row: Number of the first row, from 0, for errors. None: errors name no row.

    Returns:
        Partition paths, dictionary(int32, string), without nulls. Every path in the dictionary is
        used, and is in it once.

    Raises:
        KeyError: If a field is not exactly one column.
        TypeError: If the text of a column's type depends on Hudi's settings.
        ValueError: If a path has a part that is `..`, `.` or empty, or is in Hudi's own folder, so
            that it would lead to another folder than its name says.

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
    # Different values may have the same path: null and "", or "a/b", "c" and "a", "b/c".
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
    """Make the partition path of each row of a Hudi table; see `partition_paths`.

    Raises:
        FormatError: If lookupstore does not support the table's rules for paths.
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
    """Return the texts in a partition path. None: unknown.

    Args:
        path: Path of a partition.
        fields: Names of the partition fields.
        hive_style: Whether folders are named `name=value`.
        url_encode: Whether special characters in folder names are escaped.

    >>> folder_texts("day=2024%2F05", ["day"], hive_style=True, url_encode=True)
    ['2024/05']
    >>> folder_texts("a/b/c", ["region", "day"], hive_style=False, url_encode=False)
    """
    folders = path.split("/")
    if len(folders) != len(fields):  # a value has a "/", and it is unknown which
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
            names = table.schema.names
            others = meant(name, names, f"there are {listed(names) or 'none'}")
            raise KeyError(f"there is no single column {name!r}{others}")


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
    """Return the different values, and the number of the value of each row."""
    coded = texts.dictionary_encode(null_encoding="encode").combine_chunks()
    if isinstance(coded, pa.ChunkedArray):  # pyarrow returns this for zero chunks
        coded = pa.array([], texts.type).dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def _folder(name: str, value: str | None, hive_style: bool, url_encode: bool) -> str:
    folder = value or DEFAULT_PARTITION
    if url_encode:
        folder = folder.translate(_ESCAPES)
    return f"{name}={folder}" if hive_style else folder


def path_fault(path: str) -> str | None:
    """Return the reason that a partition path is invalid. None: it is valid.

    >>> path_fault("2024/05"), path_fault("a/../b") is None
    (None, False)
    """
    fault = fault_of(path) if path else "it is empty"
    if fault is not None:
        return f"the partition path {path!r} does not name a folder of its own: {fault}"
    if path.partition("/")[0] == ".hoodie":
        return f"the partition path {path!r} is inside .hoodie, the table's own folder"
    return None
