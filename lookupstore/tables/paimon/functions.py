"""Functions that merge the values of a column, for many keys at a time.

Rows of a key are merged one after the other, as Paimon does. A turn takes the next row of each key
that has one, so that each step is one of NumPy or Arrow. A key has at most one row per file.

The keys are in descending order of the numbers of their rows: those of a turn come first.

Source: `FieldAggregator` of Apache Paimon, and its subclasses.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.tables.paimon.columns import Refuse
from lookupstore.tables.paimon.engine import (
    BOOL_AND,
    BOOL_OR,
    COLLECT,
    FIRST,
    FIRST_NON_NULL,
    LAST,
    LAST_NON_NULL,
    LISTAGG,
    MAX,
    MERGE_MAP,
    MIN,
    PRODUCT,
    REPLACE,
    SUM,
    ColumnMerge,
)

#: Numbers of rows. Those that are no row are -1.
Numbers: TypeAlias = "npt.NDArray[np.int64]"
Mask: TypeAlias = "npt.NDArray[np.bool_]"

NO_ROW = -1


@dataclass(frozen=True)
class Turn:
    """One row of each of the first keys, and its effect on a column.

    Attributes:
        rows: Number of the row of each key.
        adds: Whether the row adds its value.
        adds_older: Whether the row adds a value that is older than those before.
        retracts: Whether the row takes its value back.
        retracts_older: Whether the row takes a value back that is older than those before.
    """

    rows: Numbers
    adds: Mask
    adds_older: Mask
    retracts: Mask
    retracts_older: Mask

    @property
    def added(self) -> Mask:
        """Return whether each row adds its value."""
        found: Mask = self.adds | self.adds_older
        return found

    @property
    def retracted(self) -> Mask:
        """Return whether each row takes its value back."""
        found: Mask = self.retracts | self.retracts_older
        return found


class MergedColumn(Protocol):
    """The values of a column that were merged so far, for each key."""

    def apply(self, turn: Turn) -> None:
        """Merge the values of some rows.

        Raises:
            FormatError: If Paimon raises an error, too.
        """

    def clear(self, which: Mask, rows: Numbers) -> None:
        """Forget the values of some of the first keys.

        Args:
            which: Keys to clear.
            rows: Row of each key whose value a column without nulls gets.
        """

    def values(self) -> pa.Array:
        """Return the value of each key."""


def merged_column(rule: ColumnMerge, column: pa.Array, count: int, refuse: Refuse) -> MergedColumn:
    """Return the state of a column before rows are merged.

    Args:
        rule: How its values are merged.
        column: Values of all rows.
        count: Number of keys.
        refuse: Function that returns the error for a feature.
    """
    return _COLUMNS[rule.function](rule, column, count, refuse)


class _Column:
    """The parts of a state that all functions have."""

    def __init__(self, rule: ColumnMerge, column: pa.Array, count: int, refuse: Refuse) -> None:
        self._rule, self._column, self._refuse, self._count = rule, column, refuse, count

    def _check_retractions(self, turn: Turn) -> bool:
        """Return whether values have to be taken back; raise an error if they cannot be."""
        if self._rule.ignores_retractions or not turn.retracted.any():
            return False
        if self._rule.function not in _RETRACTABLE:
            raise self._refuse(f"retractions with the aggregate function {self._rule.function!r}")
        return True


class _Picked(_Column):
    """A value of one of the rows of each key."""

    def __init__(self, rule: ColumnMerge, column: pa.Array, count: int, refuse: Refuse) -> None:
        super().__init__(rule, column, count, refuse)
        self._rows: Numbers = np.full(count, NO_ROW, np.int64)
        self._valid: Mask = column.is_valid().to_numpy(False)

    def apply(self, turn: Turn) -> None:
        rows = self._rows[: len(turn.rows)]
        given = np.where(self._valid[turn.rows], turn.rows, NO_ROW)
        merged = np.where(turn.adds, self._merged(rows, given, turn.adds), rows)
        if turn.adds_older.any():
            merged = np.where(turn.adds_older, self._older(rows, given, turn.adds_older), merged)
        if self._check_retractions(turn):
            merged = np.where(turn.retracts, self._retracted(rows, given), merged)
            merged = np.where(turn.retracts_older, self._retracted_older(rows, given), merged)
        rows[:] = merged

    def clear(self, which: Mask, rows: Numbers) -> None:
        self._rows[: len(which)][which] = rows[which] if self._rule.required else NO_ROW

    def values(self) -> pa.Array:
        return self._column.take(pa.array(self._rows, mask=self._rows == NO_ROW))

    def _merged(self, old: Numbers, new: Numbers, which: Mask) -> Numbers:
        """Return the rows of two that count, of which the second are the newer ones."""
        raise NotImplementedError

    def _older(self, old: Numbers, new: Numbers, which: Mask) -> Numbers:
        return self._merged(new, old, which)

    def _retracted(self, old: Numbers, _: Numbers) -> Numbers:
        return np.full_like(old, NO_ROW)

    def _retracted_older(self, old: Numbers, new: Numbers) -> Numbers:
        return self._retracted(old, new)


class _Last(_Picked):
    def _merged(self, _: Numbers, new: Numbers, which: Mask) -> Numbers:
        return new


class _Replaced(_Last):
    """The value of the newest row: older rows have no effect."""

    def _retracted_older(self, old: Numbers, _: Numbers) -> Numbers:
        return old


class _LastNonNull(_Picked):
    def _merged(self, old: Numbers, new: Numbers, which: Mask) -> Numbers:
        return np.where(new == NO_ROW, old, new)

    def _retracted(self, old: Numbers, new: Numbers) -> Numbers:
        return np.where(new == NO_ROW, old, NO_ROW)


class _First(_Picked):
    """The value of the first row, or the first one that is not null.

    As in Paimon, a key keeps in mind that it had a first row when its row is removed.
    """

    def __init__(self, rule: ColumnMerge, column: pa.Array, count: int, refuse: Refuse) -> None:
        super().__init__(rule, column, count, refuse)
        self._has_first: Mask = np.zeros(count, np.bool_)
        self._skips_nulls = rule.function == FIRST_NON_NULL

    def _merged(self, old: Numbers, new: Numbers, which: Mask) -> Numbers:
        has_first = self._has_first[: len(old)]
        is_first = which & ~has_first
        if self._skips_nulls:
            is_first &= new != NO_ROW
        has_first |= is_first
        return np.where(is_first, new, old)


class _Extreme(_Picked):
    """The greatest or the least value."""

    def __init__(self, rule: ColumnMerge, column: pa.Array, count: int, refuse: Refuse) -> None:
        super().__init__(rule, column, count, refuse)
        order = "ascending" if rule.function in (MAX, BOOL_OR) else "descending"
        self._rank = ranks(column, order)

    def _merged(self, old: Numbers, new: Numbers, which: Mask) -> Numbers:
        is_greater = (new != NO_ROW) & ((old == NO_ROW) | (self._rank[new] > self._rank[old]))
        return np.where(is_greater, new, old)


class _Computed(_Column):
    """A value that is computed from those of the rows of each key."""

    def __init__(self, rule: ColumnMerge, column: pa.Array, count: int, refuse: Refuse) -> None:
        super().__init__(rule, column, count, refuse)
        self._now: pa.Array = pa.nulls(count, column.type)
        # Values of the keys that have no more rows, the last ones first.
        self._done: list[pa.Array] = []

    def apply(self, turn: Turn) -> None:
        count = len(turn.rows)
        self._shorten(count)
        given = self._column.take(pa.array(turn.rows))
        try:
            if turn.adds.any():
                self._now = self._merged(self._now, _only(given, turn.adds))
            if turn.adds_older.any():
                self._now = self._merged(_only(given, turn.adds_older), self._now)
            if self._check_retractions(turn):
                self._now = self._retracted(self._now, _only(given, turn.retracted))
        except pa.ArrowInvalid as error:
            what = f"the aggregate function {self._rule.function!r} of {self._column.type}"
            raise self._refuse(f"{what} with values beyond its range ({error})") from None

    def clear(self, which: Mask, rows: Numbers) -> None:
        self._shorten(len(which))
        new = pa.nulls(len(which), self._column.type)
        if self._rule.required:
            new = self._column.take(pa.array(rows))
        self._now = pc.if_else(pa.array(which), new, self._now)

    def values(self) -> pa.Array:
        return pa.concat_arrays([self._now, *reversed(self._done)])

    def _shorten(self, count: int) -> None:
        """Keep the values of the first keys, which have more rows."""
        if count < len(self._now):
            self._done.append(self._now[count:])
            self._now = self._now[:count]

    def _merged(self, old: pa.Array, new: pa.Array) -> pa.Array:
        """Return merged values, of which the second are the newer ones."""
        raise NotImplementedError

    def _retracted(self, old: pa.Array, new: pa.Array) -> pa.Array:
        raise NotImplementedError


class _Sum(_Computed):
    def _merged(self, old: pa.Array, new: pa.Array) -> pa.Array:
        return pc.coalesce(_exact(pc.add_checked, old, new), old, new)

    def _retracted(self, old: pa.Array, new: pa.Array) -> pa.Array:
        less = _exact(pc.subtract_checked, old, new)
        return pc.coalesce(less, old, pc.negate_checked(new))


class _Product(_Computed):
    def _merged(self, old: pa.Array, new: pa.Array) -> pa.Array:
        return pc.coalesce(_exact(pc.multiply_checked, old, new), old, new)

    def _retracted(self, old: pa.Array, new: pa.Array) -> pa.Array:
        kind = old.type
        if pa.types.is_decimal(kind):
            raise self._refuse("retractions with the aggregate function 'product' of decimals")
        divide = pc.divide if pa.types.is_floating(kind) else pc.divide_checked
        return pc.coalesce(divide(old, new), old)


class _Listed(_Computed):
    """Texts with a delimiter between them."""

    def apply(self, turn: Turn) -> None:
        given = self._column.take(pa.array(turn.rows)).filter(pa.array(turn.added))
        parts = given.drop_null()
        if self._rule.distinct:
            parts = pc.split_pattern(parts, self._rule.delimiter).flatten()
            parts = pa.concat_arrays([given, parts.filter(pc.not_equal(parts, ""))])
        if pc.any(pc.equal(pc.utf8_trim_whitespace(parts), "")).as_py():
            raise self._refuse(
                "the aggregate function 'listagg' with empty texts, which depend on the version"
            )
        super().apply(turn)

    def _merged(self, old: pa.Array, new: pa.Array) -> pa.Array:
        joined = pc.binary_join_element_wise(old, new, self._rule.delimiter)
        return pc.coalesce(joined, old, new)


class _DistinctTexts(_Listed):
    """Texts with a delimiter between them, each once."""

    def _merged(self, old: pa.Array, new: pa.Array) -> pa.Array:
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return pa.array([self._joined(*pair) for pair in pairs], old.type)

    def _joined(self, old: str | None, new: str | None) -> str | None:
        if old is None or new is None:
            return new if old is None else old
        delimiter = self._rule.delimiter
        known = dict.fromkeys(old.split(delimiter))
        parts = [part for part in new.split(delimiter) if part and part not in known]
        return delimiter.join([old, *dict.fromkeys(parts)])


class _Objects(_Column):
    """Values with elements, lists or maps, that are made of those of the rows of each key."""

    def __init__(self, rule: ColumnMerge, column: pa.Array, count: int, refuse: Refuse) -> None:
        if column.offset:  # the elements of a slice are those of the whole array
            column = column.take(pa.array(np.arange(len(column))))
        super().__init__(rule, column, count, refuse)
        # Numbers of elements by their identities. None: null.
        self._found: list[list[tuple[Any, int]] | None] = [None] * count
        self._starts = column.offsets.to_numpy()
        self._valid: Mask = column.is_valid().to_numpy(False)
        is_map = pa.types.is_map(column.type)
        parts = [column.keys, column.items] if is_map else [column.values]
        self._parts = parts
        self._identities = [identity(one) for one in parts[0].to_pylist()]

    def apply(self, turn: Turn) -> None:
        retracts = self._check_retractions(turn)
        for at in np.flatnonzero(turn.added | (turn.retracted & retracts)).tolist():
            old, new = self._found[at], self._elements(int(turn.rows[at]))
            if turn.retracted[at]:
                self._found[at] = self._retracted(old, new)
            elif turn.adds_older[at]:
                self._found[at] = self._older(old, new)
            else:
                self._found[at] = self._merged(old, new)

    def clear(self, which: Mask, rows: Numbers) -> None:
        for at in np.flatnonzero(which).tolist():
            self._found[at] = self._elements(int(rows[at])) if self._rule.required else None

    def values(self) -> pa.Array:
        lengths = [0 if one is None else len(one) for one in self._found]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        numbers = pa.array([number for one in self._found for _, number in one or ()], pa.int64())
        parts = [part.take(numbers) for part in self._parts]
        kind = self._column.type
        is_null = [one is None for one in self._found]
        starts = pa.array(offsets, pa.int32(), mask=np.array([*is_null, False]))
        make = pa.MapArray if pa.types.is_map(kind) else pa.ListArray
        return make.from_arrays(starts, *parts, type=kind)

    def _elements(self, row: int) -> list[tuple[Any, int]] | None:
        if not self._valid[row]:
            return None
        numbers = range(int(self._starts[row]), int(self._starts[row + 1]))
        return [(self._identities[number], number) for number in numbers]

    def _merged(self, old: Any, new: Any) -> Any:
        raise NotImplementedError

    def _older(self, old: Any, new: Any) -> Any:
        raise NotImplementedError

    def _retracted(self, old: Any, new: Any) -> Any:
        raise NotImplementedError


class _Collected(_Objects):
    def _merged(self, old: Any, new: Any) -> Any:
        if self._rule.distinct:
            both = [*(old or ()), *(new or ())]
            return None if old is None and new is None else _distinct(both)
        return new if old is None else [*old, *(new or ())]

    def _older(self, old: Any, new: Any) -> Any:
        return self._merged(old, new)

    def _retracted(self, old: Any, new: Any) -> Any:
        gone = [one for one, _ in new or ()]
        return old if old is None else [one for one in old if not _removed(gone, one[0])]


class _MergedMaps(_Objects):
    def _merged(self, old: Any, new: Any) -> Any:
        if old is None or new is None:
            return new if old is None else old
        return list((dict(old) | dict(new)).items())

    def _older(self, old: Any, new: Any) -> Any:
        return self._merged(new, old)

    def _retracted(self, old: Any, new: Any) -> Any:
        if old is None or not new:
            return old
        gone = dict(new)
        return [one for one in old if one[0] not in gone]


def ranks(column: pa.Array, order: str = "ascending") -> Numbers:
    """Return the ranks of values, the same for equal ones, as Java compares them.

    The ranks of nulls have no meaning.
    """
    kind = column.type
    if pa.types.is_floating(kind):
        column = _float_order(column)
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_time(kind):
        column = column.view(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    found: Numbers = (
        pc.rank(column, sort_keys=order, tiebreaker="dense").to_numpy().astype(np.int64)
    )
    return found


def identity(value: Any) -> Any:
    """Return a hashable object that is equal for equal values, as Java compares them.

    >>> identity(0.0) == identity(-0.0), identity([float("nan")]) == identity([float("nan")])
    (False, True)
    """
    if isinstance(value, float):
        return "float", struct.pack(">d", value)
    if isinstance(value, Mapping):
        return tuple((name, identity(one)) for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(identity(one) for one in value)
    return value


def _float_order(column: pa.Array) -> pa.Array:
    """Return integers in the order that Java has for floats: -0 before 0, NaN after infinity."""
    kind = np.int32 if column.type == pa.float32() else np.int64
    values = column.fill_null(0).to_numpy(False)
    values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    bits = np.ascontiguousarray(values).view(kind)
    ordered = np.where(bits < 0, np.bitwise_xor(bits, np.iinfo(kind).max), bits)
    return pa.array(ordered, mask=column.is_null().to_numpy(False))


def _exact(operation: Callable[..., pa.Array], old: pa.Array, new: pa.Array) -> pa.Array:
    """Return the result of an operation of two arrays of one type in this type.

    Raises:
        pa.ArrowInvalid: If a value is beyond the type.
    """
    kind = old.type
    if not pa.types.is_decimal(kind):
        return operation(old, new)
    wide = pa.decimal256(kind.precision, kind.scale)
    found = operation(old.cast(wide), new.cast(wide))
    if found.type.scale != kind.scale:
        found = pc.round(found, kind.scale, round_mode="half_towards_infinity")
        found = found.cast(pa.decimal256(found.type.precision, kind.scale))
    return found.cast(kind)


def _only(values: pa.Array, which: Mask) -> pa.Array:
    """Return values, of which others are null."""
    return pc.if_else(pa.array(which), values, pa.scalar(None, values.type))


def _distinct(elements: Sequence[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """Return elements, each once, in the order in which they were first."""
    found: dict[Any, int] = {}
    for one, number in elements:
        found.setdefault(one, number)
    return list(found.items())


def _removed(elements: list[Any], one: Any) -> bool:
    """Remove an element from a list once, and return whether it was there."""
    if one in elements:
        elements.remove(one)
        return True
    return False


def _listed(rule: ColumnMerge, *rest: Any) -> MergedColumn:
    return _DistinctTexts(rule, *rest) if rule.distinct else _Listed(rule, *rest)


_COLUMNS: Mapping[str, Callable[..., MergedColumn]] = {
    REPLACE: _Replaced,
    LAST: _Last,
    LAST_NON_NULL: _LastNonNull,
    FIRST: _First,
    FIRST_NON_NULL: _First,
    **dict.fromkeys((MAX, MIN, BOOL_AND, BOOL_OR), _Extreme),
    SUM: _Sum,
    PRODUCT: _Product,
    LISTAGG: _listed,
    COLLECT: _Collected,
    MERGE_MAP: _MergedMaps,
}
_RETRACTABLE = frozenset({REPLACE, LAST, LAST_NON_NULL, SUM, PRODUCT, COLLECT, MERGE_MAP})
