"""Values that SQL computes from the columns of a row, as Arrow expressions.

Updates and merges set such values: `hits + 1`, `coalesce(source.page, target.page)`. The dialect
and the results are DuckDB's, but integers are computed with 64 bits; an overflow is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from sqlglot import exp

from lookupstore.errors import listed
from lookupstore.filters.sides import Aliases
from lookupstore.filters.sql import ConditionReader, Operand, is_text
from lookupstore.filters.sql_text import (
    COMPUTED,
    is_value,
    parsed_sql,
    path_in_sql,
    plain_node,
    refused_error,
)
from lookupstore.filters.sql_values import Number, scalar_of

_ARITHMETIC: Mapping[type[exp.Expression], Callable[..., pc.Expression]] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
}
_CONDITIONS = (
    exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Is,
    exp.Between, exp.Like, exp.Escape, exp.StartsWith, exp.IsNan,
)  # fmt: skip
# Maximum number of digits of a decimal, and of one that Arrow computes with.
_MOST_DIGITS, _MOST_WIDE = 38, 76


def computed_value(text: str, aliases: Aliases) -> pc.Expression:
    """Parse a value in SQL, and return it as an Arrow expression.

    Args:
        text: SQL, such as `case when km > 5 then 'far' else lower(name) end`.
        aliases: Names of the columns of a row.

    Raises:
        ValueError: If the text cannot be parsed, or has a part that is not supported; the error
            names the part.

    >>> columns = pa.schema({"km": pa.int32(), "name": pa.string()})
    >>> aliases = Aliases(columns, {"target": {"km": "km", "name": "name"}})
    >>> row = pa.table({"km": [3], "name": ["A"]}, schema=columns)
    >>> ds.dataset(row).to_table(columns={"km": computed_value("target.km * 2", aliases)})["km"][0]
    <pyarrow.Int64Scalar: 6>
    """
    tree = parsed_sql(text, COMPUTED).transform(lambda node: _resolved(node, aliases))
    return _ValueReader(aliases.columns).computed(tree).expression


def computed_condition(text: str, aliases: Aliases) -> pc.Expression:
    """Parse a condition in SQL; see `computed_value`."""
    tree = parsed_sql(text).transform(lambda node: _resolved(node, aliases))
    return _ValueReader(aliases.columns).condition(tree, whole=False)


def _resolved(node: exp.Expression, aliases: Aliases) -> exp.Expression:
    """Return a column or field node with the name in the row, and other nodes unchanged."""
    if not isinstance(node, (exp.Column, exp.Dot)):
        return node
    path = path_in_sql(node)
    if path[0] in aliases.sides and path[1:]:
        sides, path = [aliases.sides[path[0]]], path[1:]
    else:
        sides = list(aliases.sides.values())
    name, *fields = path
    found = list(dict.fromkeys(side[name] for side in sides if name in side))
    if len(found) > 1:
        some = " or ".join(".".join((key, *path)) for key in aliases.sides)
        what = "field" if fields else "column"
        raise refused_error(node, f"is a {what} of both sides", f"write {some}")
    if not found:
        both = len(aliases.sides) > 1
        names = [(key, one) for key, side in aliases.sides.items() for one in side]
        known = listed([f"{key}.{one}" if both else one for key, one in names])
        raise refused_error(
            node,
            "is no column",
            f"there are {known}, whose case counts; texts are in single quotes",
        )
    resolved: exp.Expression = exp.Column(this=exp.to_identifier(found[0], quoted=True))
    for field in fields:
        resolved = exp.Dot(this=resolved, expression=exp.to_identifier(field, quoted=True))
    return resolved


class _ValueReader(ConditionReader):
    """A parser of values, and of conditions on computed values."""

    _remedy = COMPUTED

    def computed(self, node: exp.Expression) -> Operand:
        """Return the value of a node, and its type."""
        with self.level(node):
            return self._computed(plain_node(node, COMPUTED))

    def operand_of(self, node: exp.Expression) -> Operand:
        """Return the value of a node, which may be computed."""
        is_name = isinstance(node, (exp.Column, exp.Dot))
        is_known = is_name or (isinstance(node, exp.Cast) and is_value(node))
        return super().operand_of(node) if is_known else self._computed(node)

    def _computed(self, node: exp.Expression) -> Operand:
        if is_value(node):
            return self._literal(node)
        if isinstance(node, _CONDITIONS):
            return Operand(self.condition(node, whole=True), pa.bool_())
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, _ARITHMETIC[type(node)])
        known = {
            exp.Div: self._quotient, exp.Neg: self._negated, exp.Abs: self._absolute,
            exp.Round: self._rounded, exp.DPipe: self._joined, exp.Trim: self._trimmed,
            exp.Coalesce: self._coalesced, exp.Nullif: self._nullif, exp.Greatest: self._extreme,
            exp.Least: self._extreme, exp.Case: self._case, exp.If: self._if, exp.Cast: self._cast,
        }  # fmt: skip
        if isinstance(node, (exp.Column, exp.Dot, exp.Lower, exp.Upper, exp.Length)):
            return super().operand_of(node)
        function = known.get(type(node))
        if function is None:
            raise refused_error(node, "is not read", COMPUTED)
        return function(node)

    def _literal(self, node: exp.Expression) -> Operand:
        if isinstance(node, exp.Cast):
            kind, value = self.type_of(node), self.value(node)
        else:
            value = self.value(node)
            kind = _kind_of_literal(node, value)
        try:
            scalar = scalar_of(kind, value) if kind != pa.null() else pa.scalar(None)
        except ValueError as error:
            raise refused_error(node, f"is no {kind}", str(error)) from None
        return Operand(pc.scalar(scalar), kind)

    def _arithmetic(self, node: exp.Expression, function: Callable[..., pc.Expression]) -> Operand:
        sides = [self.computed(node.this), self.computed(node.args["expression"])]
        kind = self._number_type(node, sides)
        if pa.types.is_decimal(kind):
            return self._decimal(node, sides, function)
        left, right = (_converted(one, kind) for one in sides)
        return Operand(function(left, right), kind)

    def _decimal(
        self, node: exp.Expression, sides: Sequence[Operand], function: Callable[..., pc.Expression]
    ) -> Operand:
        """Return a sum, difference or product of decimals, with at most 38 digits as in DuckDB."""
        sizes = [_decimal_size(_not_null(one.kind)) for one in sides]
        scales = [scale for _, scale in sizes]
        if function is pc.multiply_checked:
            scale, digits = sum(scales), sum(digits for digits, _ in sizes) + 1
        else:
            scale = max(scales)
            digits = max(digits - own for digits, own in sizes) + scale + 1
        values = [_as_decimal(one) for one in sides]
        if digits <= _MOST_DIGITS or scale > _MOST_DIGITS:
            # Arrow determines the number of digits of the result.
            return self._typed(node, function(*values))
        if digits > _MOST_WIDE:  # Arrow refuses two types of 38 digits, whatever the values
            sizes[0] = (_MOST_DIGITS - 1, scales[0])
        wide = [value.cast(pa.decimal256(*size)) for value, size in zip(values, sizes, strict=True)]
        # Values that do not fit raise an error.
        return self._typed(node, function(*wide).cast(pa.decimal128(_MOST_DIGITS, scale)))

    def _quotient(self, node: exp.Expression) -> Operand:
        sides = [self.computed(node.this), self.computed(node.args["expression"])]
        kind = self._number_type(node, sides)
        kind = kind if pa.types.is_float32(kind) else pa.float64()
        left, right = (_converted(one, kind) for one in sides)
        return Operand(pc.divide(left, right), kind)

    def _negated(self, node: exp.Expression) -> Operand:
        one = self.computed(node.this)
        kind = self._number_type(node, [one])
        return Operand(pc.negate_checked(_converted(one, kind)), kind)

    def _absolute(self, node: exp.Expression) -> Operand:
        one = self.computed(node.this)
        kind = self._number_type(node, [one])
        return Operand(pc.abs_checked(_converted(one, kind)), kind)

    def _rounded(self, node: exp.Expression) -> Operand:
        one = self.computed(node.this)
        kind = self._number_type(node, [one])
        given = node.args.get("decimals")
        value = Number(Fraction(0))
        if given is not None:
            found = self.value(given) if is_value(given) else None
            if not isinstance(found, Number) or found.value.denominator != 1:
                raise refused_error(node, "is not read", "round to a number of digits, such as 2")
            value = found
        if pa.types.is_integer(kind) and value.value >= 0:
            return one
        if pa.types.is_null(one.kind):
            return Operand(pc.scalar(pa.scalar(None, kind)), kind)
        options = {"ndigits": int(value.value), "round_mode": "half_towards_infinity"}
        return Operand(pc.round(one.expression, **options), kind)

    def _joined(self, node: exp.Expression) -> Operand:
        sides = [self.computed(node.this), self.computed(node.args["expression"])]
        for one in sides:
            if pa.types.is_integer(one.kind):
                raise refused_error(node, "joins texts and numbers", "write cast(... as varchar)")
            if not pa.types.is_null(one.kind):
                self.check_text(one, node)
        left, right = (one.expression.cast(pa.string()) for one in sides)
        return Operand(pc.binary_join_element_wise(left, right, ""), pa.string())

    def _trimmed(self, node: exp.Expression) -> Operand:
        one = self.computed(node.this)
        self.check_text(one, node)
        return Operand(pc.utf8_trim(one.expression, characters=" "), one.kind)

    def _coalesced(self, node: exp.Expression) -> Operand:
        parts = [self.computed(one) for one in (node.this, *node.args["expressions"])]
        kind = self._common(node, parts)
        return Operand(pc.coalesce(*(_converted(one, kind) for one in parts)), kind)

    def _extreme(self, node: exp.Expression) -> Operand:
        parts = [self.computed(one) for one in (node.this, *node.args["expressions"])]
        kind = self._common(node, parts)
        if pa.types.is_null(kind):  # Arrow compares no nulls
            return Operand(pc.scalar(pa.scalar(None)), kind)
        find = pc.max_element_wise if isinstance(node, exp.Greatest) else pc.min_element_wise
        return Operand(find(*(_converted(one, kind) for one in parts), skip_nulls=True), kind)

    def _nullif(self, node: exp.Expression) -> Operand:
        one = self.computed(node.this)
        same = self.condition(
            exp.EQ(this=node.this, expression=node.args["expression"]), whole=True
        )
        nothing = pc.scalar(pa.scalar(None, one.kind))
        is_same = pc.coalesce(same, pc.scalar(False))
        return Operand(pc.if_else(is_same, nothing, one.expression), one.kind)

    def _case(self, node: exp.Expression) -> Operand:
        conditions, answers = [], []
        for branch in node.args["ifs"]:
            when = branch.this
            if node.this is not None:
                when = exp.EQ(this=node.this, expression=when)
            conditions.append(self.condition(when, whole=True))
            answers.append(self.computed(branch.args["true"]))
        default = node.args.get("default")
        answers.append(self.computed(exp.Null() if default is None else default))
        return self._chosen(node, conditions, answers)

    def _if(self, node: exp.Expression) -> Operand:
        default = node.args.get("false")
        answers = [node.args["true"], exp.Null() if default is None else default]
        condition = self.condition(node.this, whole=True)
        return self._chosen(node, [condition], [self.computed(one) for one in answers])

    def _chosen(
        self,
        node: exp.Expression,
        conditions: Sequence[pc.Expression],
        answers: Sequence[Operand],
    ) -> Operand:
        kind = self._common(node, answers)
        *values, found = (_converted(one, kind) for one in answers)
        for condition, value in zip(reversed(conditions), reversed(values), strict=True):
            found = pc.if_else(pc.coalesce(condition, pc.scalar(False)), value, found)
        return Operand(found, kind)

    def _cast(self, node: exp.Expression) -> Operand:
        if type(node) is not exp.Cast:
            raise refused_error(node, "is not read", "write cast(... as ...)")
        one, kind = self.computed(node.this), self.type_of(node)
        types = pa.types
        if pa.types.is_null(one.kind):
            return Operand(pc.scalar(pa.scalar(None, kind)), kind)
        if types.is_integer(one.kind) and is_text(kind):
            return Operand(one.expression.cast(kind), kind)
        if types.is_integer(one.kind) and types.is_integer(kind):
            return Operand(one.expression.cast(kind), kind)  # values that do not fit raise an error
        if types.is_floating(one.kind) and types.is_integer(kind):
            rounded = pc.round(one.expression, ndigits=0, round_mode="half_to_even")
            return Operand(rounded.cast(kind), kind)
        if _is_number(one.kind) and types.is_floating(kind):
            return Operand(_approximated(one, kind), kind)
        if types.is_floating(one.kind) and types.is_decimal(kind):
            return Operand(one.expression.cast(kind), kind)
        if types.is_decimal(one.kind) and (types.is_decimal(kind) or types.is_integer(kind)):
            scale = kind.scale if types.is_decimal(kind) else 0
            value = one.expression
            if scale < one.kind.scale:
                value = pc.round(value, ndigits=scale, round_mode="half_towards_infinity")
            return Operand(value.cast(kind), kind)  # values that do not fit raise an error
        return super().operand_of(node)

    def _number_type(self, node: exp.Expression, sides: Sequence[Operand]) -> pa.DataType:
        """Return the type to compute in; for decimals, the type of one of them."""
        for one in sides:
            if not (_is_number(one.kind) or pa.types.is_null(one.kind)):
                raise refused_error(node, f"computes with {one.kind}", "compute with numbers")
        return _number_type([one.kind for one in sides])

    def _common(self, node: exp.Expression, parts: Sequence[Operand]) -> pa.DataType:
        """Return a type that can hold the values of all parts."""
        kinds = [one.kind for one in parts if not pa.types.is_null(one.kind)]
        if all(kind == kinds[0] for kind in kinds):
            return kinds[0] if kinds else pa.null()
        if all(map(_is_number, kinds)):
            found = _number_type(kinds)
            return _wide_decimal(kinds) if pa.types.is_decimal(found) else found
        if all(map(is_text, kinds)):
            return pa.large_string()
        dates = [pa.types.is_date32(kind) for kind in kinds]
        times = [pa.types.is_timestamp(kind) and kind.tz is None for kind in kinds]
        if all(one or other for one, other in zip(dates, times, strict=True)):
            return next(kind for kind, is_time in zip(kinds, times, strict=True) if is_time)
        some = " and ".join(dict.fromkeys(map(str, kinds)))
        raise refused_error(node, f"may be {some}", "cast them to one type")

    def _typed(self, node: exp.Expression, expression: pc.Expression) -> Operand:
        rows = ds.dataset(self._columns.empty_table())
        try:
            scanner = rows.scanner(columns={"value": expression})
        except (pa.ArrowException, TypeError) as error:
            raise refused_error(node, "cannot be computed", str(error)) from None
        return Operand(expression, scanner.projected_schema.field(0).type)


def _kind_of_literal(node: exp.Expression, value: Any) -> pa.DataType:
    """Return the type that DuckDB gives to a literal."""
    if isinstance(value, Number):
        number = value.value
        if value.is_double:
            return pa.float64()
        if number.denominator == 1 and -(2**63) <= number < 2**63:
            return pa.int64()
        scale = 0
        while (number * 10**scale).denominator != 1 and scale <= _MOST_DIGITS:
            scale += 1
        precision = max(len(str(abs(int(number * 10**scale)))), scale)
        if precision > _MOST_DIGITS:
            raise refused_error(node, "has too many digits", "write it with an exponent, 1.5e3")
        return pa.decimal128(max(1, precision), scale)
    if isinstance(node, exp.Null):
        return pa.null()
    return pa.bool_() if isinstance(node, exp.Boolean) else pa.string()


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_signed_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _number_type(kinds: Sequence[pa.DataType]) -> pa.DataType:
    types = pa.types
    if any(types.is_float64(kind) for kind in kinds):
        return pa.float64()
    if any(types.is_floating(kind) for kind in kinds):
        return pa.float32()
    decimals = [kind for kind in kinds if types.is_decimal(kind)]
    return decimals[0] if decimals else pa.int64()


def _wide_decimal(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """Return a decimal type that can hold all values of decimal and integer types."""
    sizes = [_decimal_size(kind) for kind in kinds]
    scale = max(scale for _, scale in sizes)
    digits = max(precision - own for precision, own in sizes)
    return pa.decimal128(min(_MOST_DIGITS, digits + scale), scale)


def _decimal_size(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_decimal(kind):
        return kind.precision, kind.scale
    return len(str(2 ** (kind.bit_width - 1))), 0


def _as_decimal(one: Operand) -> pc.Expression:
    if pa.types.is_decimal(one.kind):
        return one.expression
    return one.expression.cast(pa.decimal128(*_decimal_size(_not_null(one.kind))))


def _not_null(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_null(kind) else kind


def _converted(one: Operand, kind: pa.DataType) -> pc.Expression:
    """Return an expression in the type of a computation; floats are approximate."""
    if one.kind == kind:
        return one.expression
    if pa.types.is_floating(kind):
        return _approximated(one, kind)
    return one.expression.cast(kind)


def _approximated(one: Operand, kind: pa.DataType) -> pc.Expression:
    """Return numbers as the nearest floats."""
    if pa.types.is_decimal(one.kind):
        # Arrow scales the digits as a float, so the result may not be the nearest number.
        return one.expression.cast(pa.string()).cast(kind)
    return one.expression.cast(kind, safe=False)
