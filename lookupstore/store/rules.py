"""Rules per value column for keys that are already stored or occur more than once in the changes.

Rules are folded over rows from the oldest to the newest: the stored row, then changes by sequence
and arrival. All groups of a batch are folded at once, column by column.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.taking import take
from lookupstore.arrow.types import unwrap
from lookupstore.errors import listed
from lookupstore.keys.schema import KeySchema

#: The rule of a column. Of the values of one key, `replace` takes the newest, `first` the oldest,
#: `partial` the newest that is not null; `sum`, `min` and `max` leave nulls out.
ColumnRule: TypeAlias = Literal["replace", "first", "partial", "sum", "min", "max"]
#: One rule for all value columns, or rules by column; columns without a rule have `replace`.
Rule: TypeAlias = "ColumnRule | Mapping[str, ColumnRule]"

RULES: tuple[ColumnRule, ...] = ("replace", "first", "partial", "sum", "min", "max")
# Rules that leave nulls out, so that changes need not have their columns.
_NULL_MEANS_NOTHING = ("partial", "sum", "min", "max")
_OF_ANY_ORDER = ("sum", "min", "max")

_Places: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True)
class MergeRules:
    """The rules of an upsert; made by `merge_rules`.

    Attributes:
        columns: Rule of each value column, in the order of the store.
        sequence: Name of the column that decides which of two rows is newer, the one with the
            greater value. None: the later row is newer.
    """

    columns: Mapping[str, ColumnRule]
    sequence: str | None

    @property
    def whole(self) -> Literal["replace", "first"] | None:
        """Return the rule if it applies to whole rows, so that rows need not be unpacked."""
        rules = {rule for name, rule in self.columns.items() if name != self.sequence}
        if not rules or rules == {"replace"}:
            return "replace"
        return "first" if rules == {"first"} else None

    @property
    def needs_order(self) -> bool:
        """Return whether the order of rows with one key, and one sequence, decides a value."""
        others = [rule for name, rule in self.columns.items() if name != self.sequence]
        return any(rule not in _OF_ANY_ORDER for rule in others)

    def fold(self, rows: pa.RecordBatch, starts: _Places) -> pa.RecordBatch:
        """Return one row for each group of rows.

        Args:
            rows: All value columns of n rows, group by group, the oldest row of each first.
            starts: Index of the first row of each group, ascending from 0.

        Raises:
            ValueError: If a column cannot hold its sum; the error names the column.
        """
        ends = np.append(starts[1:], rows.num_rows)
        columns = []
        for field, column in zip(rows.schema, rows.columns, strict=True):
            rule = self.columns[field.name]
            if field.name == self.sequence or rule == "replace":
                columns.append(take(column, pa.array(ends - 1)))
            elif rule == "first":
                columns.append(take(column, pa.array(starts)))
            elif rule == "sum":
                columns.append(_sums(column, starts, field.name))
            else:
                places = _newest_valid(column, starts)
                if rule != "partial":
                    places = _extremes(column, starts, least=rule == "min")
                columns.append(take(column, pa.array(places)))
        return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def merge_rules(
    rule: Rule,
    schema: pa.Schema,
    given: Sequence[str],
    sequence: str | None,
    *,
    is_changelog: bool = False,
) -> MergeRules:
    """Check the rules of an upsert against a store.

    Args:
        rule: Rule for all value columns, or rules by column.
        schema: Arrow schema of the value columns of the store.
        given: Names of the columns of the changes.
        sequence: Name of the value column that orders rows. None: there is none.
        is_changelog: Whether the changes are a changelog, which has an order and no amounts to add.

    Raises:
        ValueError: If a rule does not exist, or a changelog cannot have it; or if a changelog has a
            sequence.
        KeyError: If the store or the changes lack a column.
        TypeError: If the type of a column has no sum or no order that its rule or the sequence
            needs.

    >>> rules = merge_rules({"hits": "sum"}, pa.schema({"hits": "int64", "at": "int64"}),
    ...                     ["hits", "at"], None)
    >>> rules.columns["hits"], rules.columns["at"], rules.whole
    ('sum', 'replace', None)
    """
    columns: dict[str, ColumnRule] = dict.fromkeys(schema.names, "replace")
    asked = dict.fromkeys(schema.names, rule) if isinstance(rule, str) else rule
    if not isinstance(asked, Mapping):
        raise TypeError(f"rule is {rule!r}; give one of {', '.join(RULES)}, or a dict by column")
    for name, one in asked.items():
        if name not in columns:
            raise KeyError(
                f"rule: no value column {name!r}; value columns: [{listed(schema.names)}]"
            )
        if one not in RULES:
            raise ValueError(f"rule is {one!r} for {name!r}; give one of {', '.join(RULES)}")
        if one == "sum" and is_changelog:
            raise ValueError(
                f"rule is 'sum' for {name!r}, but the changes are a changelog, whose updates have "
                "whole values; give another rule"
            )
        columns[name] = one
    if sequence is not None and is_changelog:
        raise ValueError(
            "sequence is given, but the changes are a changelog, which is applied in its own "
            "order; sort the changelog and leave sequence= out"
        )
    if sequence is not None:
        _check_sequence(schema, given, sequence)
        columns[sequence] = "replace"
    _check_given(columns, given)
    for field in schema:
        _check_rule(field, columns[field.name])
    return MergeRules(columns, sequence)


def sequence_key(field: pa.Field) -> KeySchema:
    """Return the encoding of a sequence column, in which greater means newer.

    Raises:
        TypeError: The type has no order.
    """
    return KeySchema(pa.schema([pa.field(field.name, field.type)]), nullable=[field.name])


def _check_sequence(schema: pa.Schema, given: Sequence[str], sequence: str) -> None:
    if sequence not in schema.names:
        raise KeyError(
            f"sequence: no value column {sequence!r}; value columns: [{listed(schema.names)}]: the "
            "store has to hold the column that orders its rows"
        )
    if sequence not in given:
        raise KeyError(f"sequence: the changes have no column {sequence!r}")
    sequence_key(schema.field(sequence))


def _check_given(columns: Mapping[str, ColumnRule], given: Sequence[str]) -> None:
    needed = {
        name: rule
        for name, rule in columns.items()
        if name not in given and rule not in _NULL_MEANS_NOTHING
    }
    if len(needed) == 1:
        [(name, rule)] = needed.items()
        raise KeyError(
            f"changes: no column {name!r}, a value column of the store with the rule {rule!r}; "
            "add it, or give it the rule 'partial', which keeps the stored value"
        )
    if needed:
        rules = " or ".join(map(repr, dict.fromkeys(needed.values())))
        raise KeyError(
            f"changes: no columns {listed(needed)}, value columns of the store with the rule "
            f"{rules}; add them, or give each the rule 'partial', which keeps the stored values"
        )


def _check_rule(field: pa.Field, rule: ColumnRule) -> None:
    name, kind = field.name, field.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if rule == "sum" and not is_number and not pa.types.is_decimal(kind):
        raise TypeError(
            f"rule: 'sum' of the column {name!r}, which is {kind}, not a number; give each "
            f"column its rule, such as rule={{{name!r}: 'partial', 'hits': 'sum'}}"
        )
    if rule in ("min", "max"):
        try:
            pc.sort_indices(unwrap(pa.array([], kind)))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            raise TypeError(
                f"rule: {rule!r} of the column {name!r}, whose type {kind} has no order"
            ) from None


def _newest_valid(column: pa.Array, starts: _Places) -> _Places:
    """Return for each group the index of its last valid value, or its first row if all are null."""
    valid = np.asarray(column.is_valid())
    places = np.where(valid, np.arange(len(column)), -1)
    newest = np.maximum.reduceat(places, starts)
    return np.where(newest < 0, starts, newest)


def _extremes(column: pa.Array, starts: _Places, *, least: bool) -> _Places:
    """Return for each group the index of its least or greatest value; NaN is greatest."""
    order = np.asarray(pc.sort_indices(unwrap(column))).astype(np.int64)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    if least:
        return order[np.minimum.reduceat(ranks, starts)]
    greatest = np.maximum.reduceat(np.where(np.asarray(column.is_valid()), ranks, -1), starts)
    return np.where(greatest < 0, starts, order[greatest])


def _sums(column: pa.Array, starts: _Places, name: str) -> pa.Array:
    """Return the sum of each group, null if all its values are null."""
    valid = np.asarray(column.is_valid())
    some = np.logical_or.reduceat(valid, starts)
    kind = column.type
    try:
        if pa.types.is_integer(kind):
            sums = _integer_sums(column.fill_null(0).to_numpy(), starts)
        elif pa.types.is_floating(kind):
            values = column.fill_null(0).to_numpy().astype(np.float64)
            sums = np.add.reduceat(values, starts).astype(kind.to_pandas_dtype())
        else:
            return _decimal_sums(column, starts, some)
    except (OverflowError, pa.ArrowInvalid):
        raise ValueError(
            f"rule: a sum of the column {name!r} is beyond what {kind} can hold; build the store "
            "with a wider type"
        ) from None
    return pa.array(sums, kind, mask=~some)


def _integer_sums(values: npt.NDArray[Any], starts: _Places) -> npt.NDArray[Any]:
    # Both halves are summed separately and cannot overflow; sums of numpy would overflow silently.
    wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)
    high = np.add.reduceat((wide >> wide.dtype.type(32)).astype(np.int64), starts)
    low = np.add.reduceat((wide & wide.dtype.type(0xFFFFFFFF)).astype(np.int64), starts)
    high += low >> 32
    low &= 0xFFFFFFFF
    half = 32 if wide.dtype == np.uint64 else 31
    if (high >= 1 << half).any() or (high < (0 if half == 32 else -(1 << half))).any():
        raise OverflowError
    sums = (high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)).view(wide.dtype)
    bounds = np.iinfo(values.dtype)
    if (sums > bounds.max).any() or (sums < bounds.min).any():
        raise OverflowError
    narrow: npt.NDArray[Any] = sums.astype(values.dtype)
    return narrow


def _decimal_sums(column: pa.Array, starts: _Places, some: npt.NDArray[np.bool_]) -> pa.Array:
    group = np.zeros(len(column), np.int64)
    group[starts[1:]] = 1
    none = pa.scalar(decimal.Decimal(0), column.type)
    wide = column.fill_null(none).cast(pa.decimal256(76, column.type.scale))
    table = pa.table({"group": np.cumsum(group), "value": wide})
    sums = table.group_by("group", use_threads=False).aggregate([("value", "sum")])
    found = sums["value_sum"].combine_chunks().cast(column.type)
    return pc.if_else(pa.array(some), found, pa.scalar(None, column.type))
