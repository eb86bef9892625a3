"""Columns of given rows: the ones that a table takes, in the types of the table.

A value is stored if the type of the table's column has an equal value. Other values are not
rounded, but raise an error that names the column and row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import pyarrow as pa

from lookupstore.arrow.exact_casts import cast_exactly, is_castable
from lookupstore.arrow.fitting import UnfitPart, UnfitValueError, is_list
from lookupstore.arrow.types import is_text, plain_type, unwrap
from lookupstore.errors import listed, meant
from lookupstore.hudi.keys.avro_types import in_microseconds
from lookupstore.hudi.keys.column_names import check_new_names
from lookupstore.hudi.keys.missing_columns import MissingColumns
from lookupstore.hudi.keys.table_schema import TableSchema, is_wider
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.source.source import Source

# Name of a column in which pandas and pyarrow write an index without a name.
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_EVOLVE = "pass options=WriteOptions(evolve=True)"

# Part of a remedy with casts of times, which depend on a setting of these programs.
_SESSION = "; Spark and DuckDB use the time zone of their session"
# Names of types of numbers in polars, and in Spark and DuckDB.
_NUMBERS = {
    pa.int32(): ("Int32", "int"),
    pa.int64(): ("Int64", "bigint"),
    pa.float32(): ("Float32", "float"),
    pa.float64(): ("Float64", "double"),
}

#: Choice for the table's columns that rows lack: stored rows keep their values.
KEEP = "keep"
#: Name of the column that marks rows to delete, in the table or only in given rows.
IS_DELETED = "_hoodie_is_deleted"


def given_columns(source: Source, known: pa.Schema) -> pa.Schema:
    """Return the columns of rows, without a type if they have only nulls.

    A frame gives such columns an arbitrary type. Columns that the table does not have keep this
    type, because nothing else is known of them.

    Args:
        source: Rows with the columns.
        known: Columns of the table.
    """
    if source.table is None:
        return source.schema

    def has_nulls_alone(name: str, column: pa.ChunkedArray) -> bool:
        return name in known.names and 0 < len(column) == column.null_count

    return pa.schema(
        field.with_type(pa.null()) if has_nulls_alone(field.name, column) else field
        for field, column in zip(source.schema, source.table.columns, strict=True)
    )


def columns_after(
    source: Source,
    known: TableSchema,
    needed: Collection[str],
    *,
    evolve: bool,
    key: Collection[str] = (),
) -> TableSchema:
    """Return the columns of a table after rows are written to it.

    Args:
        source: Rows to write.
        known: Columns of the table.
        needed: Names of the columns of keys, folders and order.
        evolve: Whether to add new columns to the table, and to widen types.
        key: Names of the columns by which a merge could change the stored rows instead. Empty: A
            merge would not do the same.

    Raises:
        TypeError: If the type of a column does not fit the table's.
        ValueError: If a column is repeated, a new one is not allowed by `evolve`, or a needed one
            is missing.
    """
    columns = known.columns
    given = given_columns(source, columns)
    if len(set(given.names)) < len(given.names):
        raise ValueError(f"rows have a column twice: {listed(given.names)}; give each one name")
    absent = [name for name in columns.names if name in needed and name not in given.names]
    if absent:
        raise _absent_error(absent, given.names, key)
    others = []
    for field in given:
        at = columns.get_field_index(field.name)
        if field.name in META_COLUMNS:
            continue  # rows were read from a table
        if field.name == IS_DELETED:
            kind = plain_type(field.type)
            if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
                raise TypeError(f"rows: {IS_DELETED} is {field.type}; give bool")
            if at < 0:
                continue
        if at < 0:
            others.append(in_microseconds(field))
        elif pa.types.is_null(field.type):
            kind, typed = columns.field(at).type, source.schema.field(field.name)
            # A wider type was requested, even if these rows have no such values.
            if evolve and is_wider(typed.type, kind, exact=field.name in needed):
                others.append(_with_integers(typed, kind, source))
        elif not _always_fits(field.type, columns.field(at).type):
            others.append(
                _with_integers(field, columns.field(at).type, source) if evolve else field
            )
    if not evolve:
        for field in others:
            at = columns.get_field_index(field.name)
            if at < 0 or not is_castable(field.type, columns.field(at).type):
                in_index = field.name in _index_names(source)
                lacking = [name for name in columns.names if name not in given.names]
                raise _refused_error("rows", field, columns, needed, lacking, in_index=in_index)
    if not evolve or not others:
        return known
    check_new_names(pa.schema(others), columns, "rows")
    # If a type is not wider, the table keeps its own, and each value is checked.
    schema = known.evolved(pa.schema(others), needed, "rows")
    for field in others:
        if not is_castable(field.type, schema.columns.field(field.name).type):
            raise type_error("rows", field, columns)
    return schema


def _absent_error(absent: Sequence[str], given: Sequence[str], key: Collection[str]) -> ValueError:
    """Return the error for rows without columns that every row needs.

    Args:
        absent: Names of these columns.
        given: Names of the columns of the rows.
        key: Names of the columns that a merge needs. Empty: A merge would not do the same.

    >>> print(_absent_error(["day"], ["id", "hits"], ["id"]))
    rows have no column 'day', which is required; add it, or change stored rows by 'id' alone with \
merge (hudi_merge in Spark); the rows have 'id', 'hits'
    """
    which, remedy = f"column {absent[0]!r}, which is required", "add it"
    if len(absent) > 1:
        which, remedy = f"columns {listed(absent)}, which are required", "add them"
    if key and not set(key) & set(absent):
        by = listed(key)
        remedy += f", or change stored rows by {by} alone with merge (hudi_merge in Spark)"
    have = listed(given) or "no columns"
    return ValueError(
        f"rows have no {which}{meant(absent[0], given, f'{remedy}; the rows have {have}')}"
    )


def check_missing(missing: MissingColumns, given: str | None, *, keeps: bool = True) -> None:
    """Check that there is a choice for the columns that rows lack.

    Args:
        missing: Columns that the rows lack.
        given: Choice for these columns, `keep` or `null`. None: no choice.
        keeps: Whether the write may replace stored rows, whose values it could keep.

    Raises:
        ValueError: If there is no choice, or values of these columns cannot be kept.
    """
    names = ", ".join(map(repr, missing.names()))
    keep = "set missing to 'keep' to keep the stored values, "
    if missing.repeated or not keeps:
        keep = ""
    if missing and given is None:
        raise ValueError(
            f"rows lack columns of the table: {names}; {keep}set missing to 'null' to store nulls, "
            "or add the columns to the rows"
        )
    if missing.repeated and given == KEEP:
        names = ", ".join(map(repr, missing.repeated))
        raise ValueError(
            f"rows lack fields of list elements or map values: {names}; missing='keep' cannot keep "
            "those: set missing to 'null' to store nulls, or add the fields to the rows"
        )


def type_error(what: str, field: pa.Field, columns: pa.Schema) -> TypeError:
    """Return the error for a column with values of another meaning than the table's.

    Args:
        what: Text for the rows, `rows` or `keys`.
        field: Column of the rows.
        columns: Columns of the table.
    """
    kind = columns.field(field.name).type
    hint = _conversions(plain_type(field.type), kind)
    return TypeError(f"{what}: {field.name!r} is {field.type}; give {kind}{hint}")


def _conversions(given: pa.DataType, kind: pa.DataType) -> str:
    """Return how programs convert values of one type to another, for errors. Empty: unknown."""
    types = pa.types
    if types.is_timestamp(kind) and types.is_timestamp(given):
        if kind.tz:
            return (
                ", such as .dt.tz_localize('UTC') in pandas, .dt.replace_time_zone('UTC') in "
                "polars, .cast('timestamp') in Spark, column at time zone 'UTC' in DuckDB, or "
                "pyarrow.compute.assume_timezone(column, 'UTC'); Spark uses the time zone of its "
                "session"
            )
        return (
            ", such as .dt.tz_localize(None) in pandas, .dt.replace_time_zone(None) in polars, "
            ".cast('timestamp_ntz') in Spark, or column at time zone 'UTC' in DuckDB; Spark uses "
            "the time zone of its session"
        )
    if types.is_date(kind) and types.is_timestamp(given):
        return _casts(".dt.date", ".dt.date()", "date") + (_SESSION if given.tz else "")
    if types.is_string(kind) and types.is_timestamp(given):
        return (
            ", such as .dt.strftime('%Y-%m-%d') in pandas and polars, "
            "date_format(column, 'yyyy-MM-dd') in Spark, or strftime(column, '%Y-%m-%d') in "
            "DuckDB, if days are enough"
        )
    if types.is_string(kind) and (types.is_integer(given) or types.is_date(given)):
        return (
            ", such as .astype('string') in pandas, .cast(polars.String) in polars, "
            ".cast('string') in Spark and Arrow, or column::string in DuckDB"
        )
    if is_text(given) and kind in _NUMBERS:
        polars, sql = _NUMBERS[kind]
        return _casts(f".astype('{polars.lower()}')", f".cast(polars.{polars})", sql)
    if is_text(given) and types.is_decimal(kind):
        return _decimal_casts("decimal.Decimal", kind)
    if is_text(given) and types.is_timestamp(kind):
        zone, sql = ("time_zone='UTC'", "timestamp") if kind.tz else ("", "timestamp_ntz")
        return (
            f", such as by pandas.to_datetime(column{', utc=True' if kind.tz else ''}), "
            f".str.to_datetime({zone}) in polars, .cast('{sql}') in Spark, or "
            f"column::{'timestamptz' if kind.tz else 'timestamp'} in DuckDB"
            f"{_SESSION if kind.tz else ''}"
        )
    if is_text(given) and types.is_date(kind):
        return (
            ", such as by pandas.to_datetime(column).dt.date, .str.to_date() in polars, "
            ".cast('date') in Spark, or column::date in DuckDB"
        )
    if types.is_map(kind) and types.is_struct(given):
        return ", as dicts or lists of structs of key and value"
    return ""


def _casts(pandas: str, polars: str, sql: str) -> str:
    """Return how a column is cast to a type.

    Args:
        pandas: Cast in pandas.
        polars: Cast in polars.
        sql: Name of the type in Spark and DuckDB.
    """
    return (
        f", such as {pandas} in pandas, {polars} in polars, .cast('{sql}') in Spark, or "
        f"column::{sql} in DuckDB"
    )


def _decimal_casts(function: str, kind: pa.DataType) -> str:
    size = f"{kind.precision}, {kind.scale}"
    return _casts(
        f".map({function}, na_action='ignore')",
        f".cast(polars.Decimal({size}))",
        f"decimal({size})",
    )


def cast_column(
    what: str,
    column: pa.ChunkedArray,
    field: pa.Field,
    *,
    first_row: int | None = None,
    fixed: Collection[str] | None = None,
    evolve: bool = False,
) -> pa.ChunkedArray:
    """Return a given column in the type of the table.

    Args:
        what: Text for the rows, `rows` or `keys`.
        column: Column as given.
        field: Column of the table.
        first_row: Number of the first row, from 0, for errors. None: errors name no row.
        fixed: Names of the columns of keys, folders and order. None: no column can be widened.
        evolve: Whether the caller asked to widen types.

    Raises:
        ValueError: If the type of the table cannot hold a value.

    >>> hits = pa.field("hits", pa.int32())
    >>> cast_column("rows", pa.chunked_array([[7.0, None]]), hits).to_pylist()
    [7, None]
    >>> cast_column("rows", pa.chunked_array([[7.0, 0.5]]), hits, first_row=0)
    Traceback (most recent call last):
    ValueError: rows: 'hits' has 0.5 in row 2, which int32 cannot hold; give whole numbers
    """
    chunks = []
    before = 0
    for chunk in column.chunks:
        try:
            chunks.append(cast_exactly(chunk, field.type))
        except UnfitValueError as error:
            where = "" if first_row is None else f" in row {first_row + before + error.row + 1}"
            part = error.part
            said = f"{what}: {field.name + part.path!r} has {part.shown}{where}, "
            is_float = pa.types.is_floating(plain_type(part.given))
            if pa.types.is_decimal(part.kind) and is_float:
                raise ValueError(said + _float_in_decimals(part.kind)) from error
            remedy = _remedy(part, unwrap(chunk[:0]).type, field, fixed, evolve=evolve)
            raise ValueError(f"{said}which {part.kind} cannot hold; {remedy}") from error
        before += len(chunk)
    return pa.chunked_array(chunks, field.type)


def _float_in_decimals(kind: pa.DataType) -> str:
    return (
        f"a float, and floats are not exact; give {kind}"
        f"{_decimal_casts('lambda x: decimal.Decimal(str(x))', kind)}"
    )


def _remedy(
    part: UnfitPart,
    column: pa.DataType,
    field: pa.Field,
    fixed: Collection[str] | None,
    *,
    evolve: bool,
) -> str:
    """Return what to do about a value that the type of a column cannot hold.

    Args:
        part: Part of the value that does not fit.
        column: Type of the given column.
        field: Column of the table.
        fixed: Names of the columns of keys, folders and order; see `cast_column`.
        evolve: Whether the caller asked to widen types.
    """
    given, kind, types = plain_type(part.given), part.kind, pa.types
    remedy = "change the value"
    if types.is_timestamp(kind) or types.is_time(kind):
        remedy = f"round it, such as with .dt.floor({kind.unit!r})"
        if part.path:
            remedy = f"round it to {kind.unit!r}"
    elif types.is_floating(given) and types.is_integer(kind):
        remedy = "give whole numbers"
        if evolve and types.is_int64(kind) and field.name not in (fixed or ()):
            remedy += (
                ", or write to a new column or table: types are widened from int to long, and from "
                "int or float to double, but not from long to double, which would round"
            )
    elif types.is_decimal(given) and types.is_floating(kind):
        remedy = (
            f"convert the column to {kind}, which rounds, such as with "
            f".astype('float{kind.bit_width}') in pandas"
        )
    elif types.is_floating(given) and types.is_floating(kind):
        bits = kind.bit_width
        remedy = f"round it, such as with .astype('float{bits}'), or numpy.float{bits}(value)"
    if fixed is not None and is_wider(column, field.type, exact=field.name in fixed):
        remedy += f", or widen the column to {column} for good: {_EVOLVE}"
    return remedy


def _index_names(source: Source) -> list[str]:
    """Return the names of columns that are the index of a pandas DataFrame."""
    said = None if source.table is None else source.table.schema.pandas_metadata
    return [one for one in (said or {}).get("index_columns", ()) if isinstance(one, str)]


def _refused_error(
    what: str,
    field: pa.Field,
    columns: pa.Schema,
    fixed: Collection[str],
    lacking: Collection[str],
    *,
    in_index: bool = False,
) -> Exception:
    """Return the error for a column that `evolve` may allow.

    Args:
        what: Text for the rows, `rows`.
        field: Column of the rows.
        columns: Columns of the table.
        fixed: Names of the columns of keys, folders and order.
        lacking: Names of the columns that the rows lack.
        in_index: Whether the column is in the index of a pandas DataFrame.
    """
    at = columns.get_field_index(field.name)
    if at < 0:
        for name in columns.names:
            if name.casefold() == field.name.casefold():
                return ValueError(
                    f"{what}: the table has no column {field.name!r}, but {name!r}; rename it"
                )
        leave = f"drop it from the {what}"
        if in_index:
            leave = "call .reset_index(drop=True): it is the index of the frame"
        elif _PANDAS_INDEX.fullmatch(field.name):
            leave = (
                "write the file with to_parquet(index=False) of pandas, or make the table with "
                "pyarrow.Table.from_pandas(frame, preserve_index=False)"
            )
        elif not field.name:
            leave = "write the file without the index, such as by to_csv(index=False) of pandas"
        others = f"to add it, {_EVOLVE}; to leave it out, {leave}"
        remedy = meant(field.name, lacking, others)
        return ValueError(f"{what}: the table has no column {field.name!r}{remedy}")
    kind = columns.field(at).type
    if is_wider(field.type, kind, exact=field.name in fixed):
        return TypeError(
            f"{what}: {field.name!r} is {field.type}, in the table {kind}; to widen it, {_EVOLVE}"
        )
    return type_error(what, field, columns)


def _always_fits(given: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a type fits another one without widening it."""
    if not is_castable(given, kind):
        return False
    given, types = plain_type(given), pa.types
    if types.is_integer(kind) and types.is_integer(given):
        room = kind.bit_width - int(types.is_unsigned_integer(given))
        return bool(given.bit_width <= room)
    if types.is_decimal(kind) and types.is_decimal(given):
        return is_wider(kind, given)
    if types.is_float64(kind):
        return bool(types.is_floating(given) or (types.is_integer(given) and given.bit_width <= 32))
    if types.is_struct(kind) and types.is_struct(given):
        return all(_always_fits(field.type, kind.field(field.name).type) for field in given)
    if types.is_list(kind) and is_list(given):
        return _always_fits(given.value_type, kind.value_type)
    if types.is_map(kind) and types.is_map(given):
        items = _always_fits(given.item_type, kind.item_type)
        return items and _always_fits(given.key_type, kind.key_type)
    numbers = types.is_integer(kind) or types.is_floating(kind)
    return not numbers or given == kind or bool(types.is_null(given))


def _with_integers(field: pa.Field, kind: pa.DataType, source: Source) -> pa.Field:
    """Return a column with the table's integers, if all of its floats are whole.

    pandas uses floats for integers next to a null. These floats alone widen no column.
    """
    wanted = _integers_for_floats(field.type, kind)
    if source.table is None or not source.table.num_rows or wanted == field.type:
        return field
    try:
        for chunk in source.table.column(field.name).chunks:
            cast_exactly(chunk, wanted)
    except UnfitValueError:
        return field
    return field.with_type(wanted)


def _integers_for_floats(given: pa.DataType, kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_floating(given) and types.is_integer(kind):
        return kind
    if types.is_struct(given) and types.is_struct(kind):
        known = {field.name: field.type for field in kind}
        return pa.struct(
            field.with_type(_integers_for_floats(field.type, known.get(field.name, field.type)))
            for field in given
        )
    if is_list(given) and types.is_list(kind):
        return pa.list_(_integers_for_floats(given.value_type, kind.value_type))
    if types.is_map(given) and types.is_map(kind):
        return pa.map_(given.key_type, _integers_for_floats(given.item_type, kind.item_type))
    return given
