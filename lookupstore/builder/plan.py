"""Plan a build: check its arguments against the source, and encode rows."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import has_part
from lookupstore.errors import DuplicateKeyError, listed, meant
from lookupstore.keys.schema import KeySchema
from lookupstore.keywords import column_names
from lookupstore.rows.schema import RowSchema
from lookupstore.sorting.runs import KEEP_RULES, Keep

OnDuplicate = Literal["error", "first", "last"] | tuple[Literal["max"], str]

_REMEDY = "pass on_duplicate='first', 'last' or ('max', column) to choose the row to keep"
# The same for a source without order.
_NO_ORDER = "pass on_duplicate=('max', column) to choose the row to keep"

_RANK_AND_ROW = KeySchema(pa.schema({"rank": pa.binary(), "row": pa.binary()}))


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BuildPlan:
    """The plan of a build, which encodes every batch.

    `plan_build` makes it.

    Attributes:
        key_schema: Key columns and their encoding.
        row_schema: Value columns and their layout.
        keep: Rule for repeated keys: `"error"`, `"first"`, `"last"` or `"max"`.
        rank_schema: Under the rule `max`, the column that decides, as a nullable key. None: another
            rule.
        in_order: Whether the order of rows decides between equal values of that column. Otherwise
            the bytes of the rows' values decide, which are the same in any order.
    """

    key_schema: KeySchema
    row_schema: RowSchema
    keep: Keep
    rank_schema: KeySchema | None
    in_order: bool = True

    @property
    def columns(self) -> list[str]:
        """Return the names of the source columns that the build reads, each once."""
        rank = () if self.rank_schema is None else self.rank_schema.names
        return list(dict.fromkeys([*self.key_schema.names, *self.row_schema.schema.names, *rank]))

    @property
    def on_duplicate(self) -> str | list[str]:
        """Return the rule for repeated keys as a plain JSON value."""
        return self.keep if self.rank_schema is None else [self.keep, *self.rank_schema.names]

    def encode(self, batch: pa.RecordBatch, first_row: int | None = 0) -> pa.RecordBatch:
        """Encode a batch as bytes: `key`, `value` and, under the rule `max`, `rank`.

        Raises:
            ValueError: If a key column that is not in `nullable_keys` holds a null. The error
                counts rows from `first_row`, or names no row if that is None.
        """
        for name in self.key_schema.names:
            column = batch.column(name)
            if column.null_count and name not in self.key_schema.nullable:
                row = pc.index(column.is_null(), True).as_py()
                where = "a row" if first_row is None else f"row {first_row + row + 1}"
                raise ValueError(
                    f"key column {name!r} is null in {where} of the source; pass "
                    f"nullable_keys=[{name!r}] to store null keys, or filter those rows out"
                )
        columns = {"key": self.key_schema.encode(batch.select(self.key_schema.names))}
        if self.rank_schema is not None:
            columns["rank"] = self.rank_schema.encode(batch.select(self.rank_schema.names))
        columns["value"] = self.row_schema.pack(batch.select(self.row_schema.schema.names))
        if self.rank_schema is not None and not self.in_order:
            columns["rank"] = _RANK_AND_ROW.encode([columns["rank"], columns["value"]])
        return pa.RecordBatch.from_pydict(columns)

    def repeated_error(self, key: bytes, remedy: str | None = None) -> DuplicateKeyError:
        """Return the error for a repeated key, which shows the key as its columns.

        Args:
            key: Bytes of the key.
            remedy: Remedy that the error names. Default: the rules that the source allows.
        """
        if remedy is None:
            remedy = _REMEDY if self.in_order else _NO_ORDER
        values = self.key_schema.decode(pa.array([key], pa.large_binary())).to_pylist()[0]
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        return DuplicateKeyError(
            f"the key {shown} occurs more than once in the source; {remedy}", key=shown
        )


def plan_build(
    schema: pa.Schema,
    *,
    key: str | Sequence[str],
    columns: Sequence[str] | None = None,
    on_duplicate: OnDuplicate = "error",
    nullable_keys: str | Sequence[str] = (),
    source: str | None = None,
    is_lookup_file: bool = False,
) -> BuildPlan:
    """Check the arguments of a build against the schema of its source.

    Args:
        schema: Schema of the source.
        source: Name of the source in errors about its columns. None: These errors name no source.
        is_lookup_file: Whether the plan is of a lookup file, which never gets upserts.

    `key`, `columns`, `on_duplicate` and `nullable_keys` are arguments of `build`.

    Raises:
        KeyError: If the source does not have a column.
        ValueError: If there are no key columns, a column is named twice, or the rule is unknown.
        TypeError: If the type of a key column cannot be ordered, or an argument has a wrong type.

    >>> plan = plan_build(pa.schema({"id": "int64", "name": "string"}), key="id")
    >>> plan.row_schema.schema.names
    ['name']
    """
    counts = Counter(schema.names)
    structs = {field.name for field in schema if pa.types.is_struct(field.type)}
    keys = column_names("key", key)
    if not keys:
        raise ValueError("key is empty; name at least one column of the source")
    for name in keys:
        _check_column(counts, name, "key", structs)
    if columns is None:
        values = [name for name in schema.names if name not in keys]
    else:
        values = [name for name in column_names("columns", columns) if name not in keys]
    for name in values:
        _check_column(counts, name, "columns", structs)
    nullable = column_names("nullable_keys", nullable_keys)
    for name in nullable:
        if name not in keys:
            raise KeyError(f"nullable_keys: {name!r} is not a key column; the key is {keys}")
    keep, rank = _keep_rule(on_duplicate)
    rank_schema = None
    if rank is not None:
        _check_column(counts, rank, "on_duplicate", structs)
        rank_schema = KeySchema(_fields(schema, [rank], nullable=[rank]), nullable=[rank])
    try:
        key_schema = KeySchema(_fields(schema, keys, nullable=nullable), nullable=nullable)
        row_schema = RowSchema(_fields(schema, values, nullable=None))
    except TypeError as error:
        if source is None:
            raise
        raise TypeError(f"source: {source}: {error}") from None
    for field in row_schema.schema:
        if not is_lookup_file and has_part(field.type, pa.types.is_null):
            _log.warning(
                "the column %r is %s: it has no values yet, and upserts cannot give it any; give "
                "it a type, as pa.Table.from_pandas(frame, schema=...) does",
                field.name, field.type,
            )  # fmt: skip
    return BuildPlan(key_schema, row_schema, keep, rank_schema)


def _check_column(counts: Counter[str], name: str, argument: str, structs: set[str]) -> None:
    count = counts[name]
    struct, dot, inner = name.partition(".")
    if count == 0 and dot and struct in structs:
        raise KeyError(
            f"{argument}: {name!r} is a field of the struct {struct!r}, not a column; make it a "
            f"column of the source, for example in DuckDB: SELECT *, {name} AS {inner}"
        )
    if count == 0:
        others = meant(name, counts, f"it has [{listed(counts.elements())}]")
        raise KeyError(f"{argument}: the source has no column {name!r}{others}")
    if count > 1:
        raise ValueError(
            f"{argument}: the source has {count} columns named {name!r}; rename them, or choose "
            "the others with columns=[...]"
        )


def _keep_rule(on_duplicate: object) -> tuple[Keep, str | None]:
    if isinstance(on_duplicate, (tuple, list)) and len(on_duplicate) == 2:
        rule, column = on_duplicate
        if rule == "max" and isinstance(column, str):
            return "max", column
    for keep in KEEP_RULES:
        if on_duplicate == keep and keep != "max":
            return keep, None
    raise ValueError(
        f"on_duplicate is {on_duplicate!r}; give 'error', 'first', 'last' or ('max', column)"
    )


def _fields(
    schema: pa.Schema, names: Sequence[str], *, nullable: Sequence[str] | None
) -> pa.Schema:
    """Return the named fields without the metadata of their file."""
    fields = [schema.field(name).remove_metadata() for name in names]
    if nullable is not None:
        fields = [field.with_nullable(field.name in nullable) for field in fields]
    return pa.schema(fields)
