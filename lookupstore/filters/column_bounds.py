"""Evaluate predicates on the bounds of a column in many files at once.

There are two answers for each file: whether a predicate may be true of a row, and whether it may be
false. Without bounds, both answers are yes. Null is neither true nor false. Therefore `not` swaps
the answers, and null needs no third one.

Arrow compares the bounds of all files in one call, without a Python loop over files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.filters.predicates import (
    And,
    ColumnRef,
    Compare,
    Constant,
    IsNan,
    IsNull,
    Not,
    OneOf,
    Or,
    Predicate,
    StartsWith,
    Unknown,
)

#: Yes or no for each file.
Answers = npt.NDArray[np.bool_]
# Maximum number of values of a list that are compared one by one; of a longer list, only the least
# and the greatest value are used.
_MOST_VALUES = 64


@dataclass(frozen=True, eq=False)
class ColumnBounds:
    """The bounds and counts of one column in each file.

    Attributes:
        least: Lower bound of all values of each file but NaN. Null: unknown, or no values.
        greatest: Upper bound of all values of each file but NaN. Null: unknown, or no values.
        nulls: Number of nulls in each file: int64. Null: unknown.
        nans: Number of NaN in each file: int64. Null: unknown.
        rows: Number of rows of each file: int64.
    """

    least: pa.Array
    greatest: pa.Array
    nulls: pa.Array
    nans: pa.Array
    rows: pa.Array

    @property
    def type(self) -> pa.DataType:
        """Return the type of the column."""
        return self.least.type

    @property
    def may_have_values(self) -> Answers:
        """Return which files may have a row that is not null."""
        return _or(pc.less(self.nulls, self.rows), unknown=True)

    @property
    def may_have_nulls(self) -> Answers:
        """Return which files may have a null."""
        return _or(pc.greater(self.nulls, 0), unknown=True)

    @property
    def may_have_nans(self) -> Answers:
        """Return which files may have a NaN."""
        if not pa.types.is_floating(self.type):
            return np.zeros(len(self.rows), bool)
        return _or(pc.greater(self.nans, 0), unknown=True)

    def take(self, files: pa.Array) -> ColumnBounds:
        """Return the bounds of some files, by their numbers; null numbers have none."""
        known = (self.least, self.greatest, self.nulls, self.nans, self.rows)
        return ColumnBounds(*(one.take(files) for one in known))

    def in_type(self, kind: pa.DataType) -> ColumnBounds | None:
        """Return the bounds of the column after a cast.

        None: the cast does not keep the order of values.
        """
        if kind == self.type:
            return self
        if not _keeps_order(self.type, kind):
            return None
        options = pc.CastOptions(
            target_type=kind, allow_time_truncate=True, allow_float_truncate=True
        )
        least, greatest = (pc.cast(one, options=options) for one in (self.least, self.greatest))
        return ColumnBounds(least, greatest, self.nulls, self.nans, self.rows)


def may_be(
    predicate: Predicate, known: Mapping[str, ColumnBounds], files: int
) -> tuple[Answers, Answers]:
    """Return for each file whether a predicate may be true, and may be false.

    Args:
        predicate: Predicate to evaluate.
        known: Bounds in each file, by the name of the column; other columns may have any values.
        files: Number of files.
    """
    if isinstance(predicate, (And, Or)):
        (yes, no), (also_yes, also_no) = (
            may_be(one, known, files) for one in (predicate.left, predicate.right)
        )
        if isinstance(predicate, And):
            return yes & also_yes, no | also_no
        return yes | also_yes, no & also_no
    if isinstance(predicate, Not):
        yes, no = may_be(predicate.part, known, files)
        return no, yes
    everything = np.ones(files, bool)
    if isinstance(predicate, Constant):
        return everything & (predicate.value is True), everything & (predicate.value is False)
    if not isinstance(predicate, Unknown):
        try:
            found = _of_column(predicate, known)
        except pa.ArrowException:
            found = None  # reading the rows raises the error
        if found is not None:
            return found
    return everything, everything


def _of_column(
    predicate: Compare | OneOf | StartsWith | IsNull | IsNan, known: Mapping[str, ColumnBounds]
) -> tuple[Answers, Answers] | None:
    bounds = _bounds(predicate.column, known)
    if bounds is None:
        return None
    if isinstance(predicate, IsNull):
        no_value = bounds.may_have_nulls
        if predicate.nan_is_null:
            no_value = no_value | bounds.may_have_nans
        return no_value, bounds.may_have_values
    if isinstance(predicate, IsNan):
        values = bounds.may_have_values
        return bounds.may_have_nans & values, values
    if isinstance(predicate, Compare):
        return _compared(bounds, predicate.operator, predicate.value)
    if isinstance(predicate, OneOf):
        return _one_of(bounds, predicate)
    return _starts_with(bounds, predicate)


def _bounds(column: ColumnRef, known: Mapping[str, ColumnBounds]) -> ColumnBounds | None:
    bounds = known.get(column.name)
    for kind in column.casts:
        bounds = None if bounds is None else bounds.in_type(kind)
    return bounds


def _compared(bounds: ColumnBounds, name: str, value: pa.Scalar) -> tuple[Answers, Answers] | None:
    between = _comparable(bounds.type, value)
    if between is None:
        return None
    low, high = between
    values = bounds.may_have_values
    least, greatest = bounds.least, bounds.greatest
    if name == "==":
        some = _or(pc.less_equal(least, high), unknown=True)
        some &= _or(pc.greater_equal(greatest, low), unknown=True)
        # A number that is converted for a comparison may be equal to several numbers.
        every = np.zeros(len(values), bool)
        if low is high:
            every = _or(pc.equal(least, low), unknown=False)
            every &= _or(pc.equal(greatest, low), unknown=False)
    elif name in ("<", "<="):
        compare = pc.less if name == "<" else pc.less_equal
        some = _or(compare(least, high), unknown=True)
        every = _or(compare(greatest, low), unknown=False)
    else:
        compare = pc.greater if name == ">" else pc.greater_equal
        some = _or(compare(greatest, low), unknown=True)
        every = _or(compare(least, high), unknown=False)
    # Bounds do not include NaN, for which every comparison is false.
    return values & some, values & ~(every & ~bounds.may_have_nans)


def _one_of(bounds: ColumnBounds, predicate: OneOf) -> tuple[Answers, Answers] | None:
    values = predicate.values
    same = values.type == bounds.type
    integers = pa.types.is_signed_integer(bounds.type) and pa.types.is_signed_integer(values.type)
    texts = _is_text(bounds.type) and _is_text(values.type)
    if len(values) and not (same or integers or texts):
        return None
    files = len(bounds.rows)
    some = np.zeros(files, bool)
    every = np.zeros(files, bool)
    is_float = pa.types.is_floating(bounds.type)
    if is_float:
        if pc.any(pc.is_nan(values)).as_py():
            some |= bounds.may_have_nans  # a list, unlike all other predicates, may contain NaN
        values = values.filter(pc.invert(pc.is_nan(values)))
    if len(values) > _MOST_VALUES:
        ends = pc.min_max(values)
        some |= _between(bounds, ends["min"], ends["max"])
    else:
        for value in values:
            inside = _between(bounds, value, value)
            some |= inside
            if not is_float:  # a list distinguishes 0.0 and -0.0
                every |= inside & _is_only(bounds, value)
    there = bounds.may_have_values
    nulls = bounds.may_have_nulls
    yes, no = there & some, there & ~every
    return (yes | nulls, no) if predicate.with_null else (yes, no | nulls)


def _between(bounds: ColumnBounds, low: pa.Scalar, high: pa.Scalar) -> Answers:
    some = _or(pc.less_equal(bounds.least, high), unknown=True)
    return some & _or(pc.greater_equal(bounds.greatest, low), unknown=True)


def _is_only(bounds: ColumnBounds, value: pa.Scalar) -> Answers:
    only = _or(pc.equal(bounds.least, value), unknown=False)
    return only & _or(pc.equal(bounds.greatest, value), unknown=False)


def _starts_with(bounds: ColumnBounds, predicate: StartsWith) -> tuple[Answers, Answers] | None:
    if not _is_text(bounds.type):
        return None
    prefix = predicate.prefix.as_py()
    values = bounds.may_have_values
    # Texts are ordered by their bytes: those with a common prefix are adjacent.
    begins = [
        _or(pc.starts_with(one, pattern=prefix), unknown=False)
        for one in (bounds.least, bounds.greatest)
    ]
    below = _or(pc.less_equal(bounds.least, prefix), unknown=True) | begins[0]
    above = _or(pc.greater_equal(bounds.greatest, prefix), unknown=True)
    every = begins[0] & begins[1] if predicate.is_all else np.zeros(len(values), bool)
    return values & below & above, values & ~every


def _comparable(kind: pa.DataType, value: pa.Scalar) -> tuple[pa.Scalar, pa.Scalar] | None:
    """Return the least and greatest value that Arrow may compare with a column.

    Arrow casts the value, the column, or both. If the cast is exact, both results are the value
    itself. If it rounds, they are the next smaller and the next greater number of the smallest type
    that it may round to. None: the result of the cast is unknown.
    """
    types = pa.types
    other = value.type
    if kind == other or (_is_text(kind) and _is_text(other)):
        return value, value
    integers = types.is_signed_integer(kind), types.is_integer(other)
    decimals = types.is_decimal(kind), types.is_decimal(other)
    if all(integers) or (any(decimals) and all(map(any, zip(integers, decimals, strict=True)))):
        return value, value
    times = (types.is_timestamp(kind), types.is_timestamp(other))
    if all(times) and (kind.tz is None) == (other.tz is None):
        return value, value
    naive = (times[0] and kind.tz is None, times[1] and other.tz is None)
    dates = types.is_date32(kind), types.is_date32(other)
    if (dates[0] and naive[1]) or (naive[0] and dates[1]):
        return value, value
    numbers = (
        integers[0] or types.is_float32(kind) or types.is_float64(kind),
        integers[1] or types.is_float32(other) or types.is_float64(other),
    )
    if not all(numbers):
        return None
    number = float(value.as_py())
    with np.errstate(over="ignore"):
        near = np.float32(number)
        low, high = (float(np.nextafter(near, np.float32(end))) for end in (-np.inf, np.inf))
    return pa.scalar(low), pa.scalar(high)


def _keeps_order(kind: pa.DataType, to: pa.DataType) -> bool:
    """Return whether a cast keeps the order of all values."""
    types = pa.types
    if types.is_signed_integer(kind) and types.is_signed_integer(to):
        return bool(kind.bit_width <= to.bit_width)
    is_float = types.is_float32(to) or types.is_float64(to)
    if types.is_signed_integer(kind) and is_float:
        return True
    if types.is_float32(kind) and types.is_float64(to):
        return True
    if _is_text(kind) and _is_text(to):
        return True
    if types.is_timestamp(kind) and types.is_timestamp(to):
        return bool(kind.tz == to.tz)
    if types.is_timestamp(kind) and types.is_date32(to):
        return kind.tz is None
    if types.is_date32(kind) and types.is_timestamp(to):
        return to.tz is None
    if types.is_decimal(kind) and types.is_decimal(to):
        return bool(to.scale >= kind.scale)
    return False


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _or(answers: pa.Array, *, unknown: bool) -> Answers:
    """Return answers of Arrow, with nulls replaced by `unknown`."""
    found: Answers = answers.fill_null(unknown).to_numpy(zero_copy_only=False)
    return found.astype(bool, copy=False)
