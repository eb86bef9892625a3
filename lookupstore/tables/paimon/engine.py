"""Merge engines that make a row of several: `partial-update` and `aggregation`.

The options of a table name a function for each column, and columns that order the updates of
others. What a function cannot do as Paimon does is refused by its name.

Source: "Merge Engine" in the documentation of Paimon; `PartialUpdateMergeFunction`,
`AggregateMergeFunction` and `FieldAggregatorFactory` of Apache Paimon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lookupstore.arrow.types import is_bytes, is_text
from lookupstore.errors import FormatError
from lookupstore.tables.paimon.metadata import PaimonSchema

PARTIAL_UPDATE, AGGREGATION = "partial-update", "aggregation"

#: Function of columns that a group protects and that have none: the value of the newest row.
REPLACE = ""
LAST, LAST_NON_NULL = "last_value", "last_non_null_value"
FIRST, FIRST_NON_NULL = "first_value", "first_non_null_value"
SUM, PRODUCT, MAX, MIN = "sum", "product", "max", "min"
BOOL_AND, BOOL_OR = "bool_and", "bool_or"
LISTAGG, COLLECT, MERGE_MAP = "listagg", "collect", "merge_map"

_OLD_NAMES = {"first_not_null_value": FIRST_NON_NULL}
_ANY_TYPE = (LAST, LAST_NON_NULL, FIRST, FIRST_NON_NULL)
# A product of two decimals has twice as many digits, and decimals of Arrow have up to 76.
_MOST_PRODUCT_DIGITS = 37

_GROUP = re.compile(r"fields\.(.+)\.sequence-group")
_DEFAULT_FUNCTION = "fields.default-aggregate-function"
_REMOVE_ON_GROUP = "partial-update.remove-record-on-sequence-group"
_IGNORE_DELETE = (
    "ignore-delete",
    "first-row.ignore-delete",
    "deduplicate.ignore-delete",
    "partial-update.ignore-delete",
)


def refused_error(description: str, what: str) -> FormatError:
    """Return the error for a feature of a table.

    Args:
        description: Description of the table.
        what: The feature.
    """
    return FormatError(
        f"source: the {description} uses {what}, which is not supported; pass the rows that "
        "pypaimon or Spark reads, as Arrow batches"
    )


def ignores_deletes(schema: PaimonSchema) -> bool:
    """Return whether rows that delete a key have no effect."""
    given = [schema.option(name) for name in _IGNORE_DELETE if name in schema.options]
    return bool(given) and given[0] == "true"


@dataclass(frozen=True)
class ColumnMerge:
    """How the values of a column become one.

    Attributes:
        function: Name of the function.
        ignores_retractions: Whether rows that take a value back have no effect.
        group: Names of the columns that order the updates. Empty: rows are merged in their order.
        delimiter: Text between the values of `listagg`.
        distinct: Whether `listagg` and `collect` have each value once.
        required: Whether the column has no nulls.
    """

    function: str
    ignores_retractions: bool = False
    group: tuple[str, ...] = ()
    delimiter: str = ","
    distinct: bool = False
    required: bool = False


@dataclass(frozen=True)
class MergeEngine:
    """How the rows of a key become one.

    Attributes:
        description: Description of the table.
        is_partial: Whether the engine is `partial-update`; otherwise it is `aggregation`.
        columns: How each column is merged that is neither in the key nor of the partition.
        groups: Names of the columns of each sequence group.
        ignores_deletes: Whether rows that delete a key have no effect.
        removes: Whether a row that deletes a key removes the row.
        removing: Names of columns of sequence groups whose deletions remove the row.
    """

    description: str
    is_partial: bool
    columns: Mapping[str, ColumnMerge]
    groups: tuple[tuple[str, ...], ...]
    ignores_deletes: bool
    removes: bool
    removing: frozenset[str]

    @property
    def identity(self) -> str:
        """Return a text that differs between engines that make other rows."""
        parts = [self.is_partial, self.groups, self.ignores_deletes, self.removes]
        columns = sorted((name, repr(one)) for name, one in self.columns.items())
        return repr([*parts, sorted(self.removing), columns])

    def needed(self, names: Iterable[str]) -> list[str]:
        """Return the names of columns that decide about some columns, and those of the columns."""
        found = dict.fromkeys(names)
        groups = [self.columns[name].group for name in found if name in self.columns]
        groups += [group for group in self.groups if not self.removing.isdisjoint(group)]
        return list(dict.fromkeys([*found, *(name for group in groups for name in group)]))

    def error(self, what: str) -> FormatError:
        """Return the error for something that Paimon does not merge, or not in one way."""
        return refused_error(self.description, what)


def merge_engine(
    schema: PaimonSchema, columns: pa.Schema, sequence: Sequence[str], description: str
) -> MergeEngine:
    """Return the merge engine of a table, which is `partial-update` or `aggregation`.

    Args:
        schema: Schema of the table.
        columns: Columns of the table.
        sequence: Names of the columns of `sequence.field`.
        description: Description of the table.

    Raises:
        FormatError: If a function, or a combination of options, is not supported.
    """
    return _Options(schema, columns, sequence, description).engine()


class _Options:
    """The options of a table that decide how rows are merged."""

    def __init__(
        self, schema: PaimonSchema, columns: pa.Schema, sequence: Sequence[str], description: str
    ) -> None:
        self._schema, self._columns, self._sequence = schema, columns, sequence
        self._description = description
        self._is_partial = schema.option("merge-engine") == PARTIAL_UPDATE
        self._fixed = {*schema.primary_keys, *schema.partition_keys}
        self._groups: dict[str, tuple[str, ...]] = {}

    def engine(self) -> MergeEngine:
        schema = self._schema
        if not {*schema.partition_keys} <= {*schema.primary_keys}:
            raise self._error("a primary key without the partition columns")
        self._groups = self._sequence_groups()
        if self._groups and not self._is_partial:
            raise self._error("sequence groups with the merge engine 'aggregation'")
        ignored = ignores_deletes(schema)
        engine = PARTIAL_UPDATE if self._is_partial else AGGREGATION
        required = {field["name"] for field in schema.fields if _is_required(field["type"])}
        removes = schema.option(f"{engine}.remove-record-on-delete") == "true"
        removing = self._removing()
        if (removes or removing) and ignored and self._is_partial:
            raise self._error("deletions that are both ignored and applied")
        if removes and self._groups:
            raise self._error(f"sequence groups with '{engine}.remove-record-on-delete'")
        if removing:
            for group in self._groups.values():
                if 0 < len(required.intersection(group)) < len(group):
                    raise self._error(
                        f"{_REMOVE_ON_GROUP!r} with a sequence group of which some columns have "
                        f"no nulls ({', '.join(group)})"
                    )
        merged = {
            name: self._column(name, name in required)
            for name in self._columns.names
            if name not in self._fixed
        }
        if removes and any(one.ignores_retractions for one in merged.values()):
            raise self._error(f"'ignore-retract' with '{engine}.remove-record-on-delete'")
        return MergeEngine(
            self._description,
            self._is_partial,
            merged,
            tuple(dict.fromkeys(self._groups.values())),
            ignored and self._is_partial,
            removes,
            removing,
        )

    def _sequence_groups(self) -> dict[str, tuple[str, ...]]:
        """Return the columns of the sequence group of each column that is in one."""
        found: dict[str, tuple[str, ...]] = {}
        for option, value in self._schema.options.items():
            match = _GROUP.fullmatch(option)
            if match is None:
                continue
            group = tuple(match[1].split(","))
            for name in (*group, *str(value).split(",")):
                if name not in self._columns.names:
                    raise self._error(f"the option {option!r} with the column {name!r}")
                if name in self._fixed:
                    raise self._error(f"a sequence group with a column of the key ({name!r})")
                if name in found:
                    raise self._error(f"a column in several sequence groups ({name!r})")
                found[name] = group
        return found

    def _removing(self) -> frozenset[str]:
        """Return the columns of sequence groups whose deletions remove the row."""
        text = self._schema.options.get(_REMOVE_ON_GROUP)
        if text is None or not self._is_partial:
            return frozenset()
        names = frozenset(str(text).split(","))
        sequences = {name for group in self._groups.values() for name in group}
        if not names <= sequences:
            raise self._error(f"the option {_REMOVE_ON_GROUP!r} ({text!r})")
        return names

    def _column(self, name: str, required: bool) -> ColumnMerge:
        group = self._groups.get(name, ())
        options = self._schema.options
        given = options.get(f"fields.{name}.aggregate-function", options.get(_DEFAULT_FUNCTION))
        if name in group:
            given = REPLACE
        elif name in self._sequence and not self._is_partial:
            given = LAST
        elif given is None:
            given = LAST_NON_NULL if not group else REPLACE
        function = _OLD_NAMES.get(str(given), str(given))
        if self._is_partial and not group and function != LAST_NON_NULL:
            raise self._error(
                f"the aggregate function {function!r} of a column without a sequence group "
                f"({name!r})"
            )
        distinct = self._schema.option(f"fields.{name}.distinct") == "true"
        self._check(name, function, distinct)
        return ColumnMerge(
            function,
            self._schema.option(f"fields.{name}.ignore-retract") == "true",
            group,
            str(options.get(f"fields.{name}.list-agg-delimiter", ",")),
            distinct,
            required,
        )

    def _check(self, name: str, function: str, distinct: bool) -> None:
        """Check that values of the column can be merged by the function."""
        kind = self._columns.field(name).type
        fits = _FITS.get(function)
        if fits is None:
            raise self._error(f"the aggregate function {function!r} ({name!r})")
        if not fits(kind):
            raise self._error(f"the aggregate function {function!r} of {kind} ({name!r})")
        is_long = pa.types.is_decimal(kind) and kind.precision > _MOST_PRODUCT_DIGITS
        if function == PRODUCT and is_long:
            raise self._error(f"the aggregate function 'product' of {kind} ({name!r})")
        # Java compares such values by their identity, or not, depending on its version.
        if function == COLLECT and distinct and is_bytes(kind.value_type):
            raise self._error(f"the aggregate function 'collect' of distinct bytes ({name!r})")
        if function == MERGE_MAP and is_bytes(kind.key_type):
            raise self._error(f"the aggregate function 'merge_map' with keys of bytes ({name!r})")
        delimiter = self._schema.options.get(f"fields.{name}.list-agg-delimiter", ",")
        if function == LISTAGG and distinct and not delimiter:
            raise self._error(f"the aggregate function 'listagg' without delimiter ({name!r})")

    def _error(self, what: str) -> FormatError:
        return refused_error(self._description, what)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_ordered(kind: pa.DataType) -> bool:
    return _is_number(kind) or is_text(kind) or bool(pa.types.is_temporal(kind))


def _is_any(_: pa.DataType) -> bool:
    return True


_FITS: Mapping[str, Callable[[pa.DataType], bool]] = {
    REPLACE: _is_any,
    **dict.fromkeys(_ANY_TYPE, _is_any),
    **dict.fromkeys((SUM, PRODUCT), _is_number),
    **dict.fromkeys((MAX, MIN), _is_ordered),
    **dict.fromkeys((BOOL_AND, BOOL_OR), pa.types.is_boolean),
    LISTAGG: is_text,
    COLLECT: pa.types.is_list,
    MERGE_MAP: pa.types.is_map,
}


def _is_required(kind: object) -> bool:
    """Return whether a type of a schema has no nulls."""
    text = kind.get("type") if isinstance(kind, Mapping) else kind
    return str(text).endswith("NOT NULL")
