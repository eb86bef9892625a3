"""Convert columns of Python objects to Arrow, for a destination of a known type.

Arrow infers the type of objects, and then each value is cast exactly. It cannot do so if maps are
dicts, which look like structs, or if a column has objects of several classes, such as integers and
decimals. Such columns are converted here, by the type of the destination. If Arrow converted to
that type itself, 1.5 would become 1, and a time a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.exact_casts import cast_exactly, is_castable
from lookupstore.arrow.fitting import UnfitValueError, is_list
from lookupstore.arrow.objects import check_objects

_Values = npt.NDArray[np.object_]
_Rows = npt.NDArray[np.int64]
# Integers of the most digits, which is more than any number of a table has.
_INTEGERS = pa.decimal256(76, 0)


def is_of_objects(column: Any) -> bool:
    """Return whether a column contains Python objects, for which Arrow infers a type.

    >>> is_of_objects([1, None]), is_of_objects(np.array([1.5]))
    (True, False)
    """
    if isinstance(column, (list, tuple)):
        return True
    kind = getattr(column, "dtype", None)
    return isinstance(kind, np.dtype) and kind.kind == "O"


def has_map(kind: pa.DataType) -> bool:
    """Return whether a type is or contains a map type.

    >>> has_map(pa.list_(pa.map_(pa.string(), pa.int8())))
    True
    """
    if pa.types.is_map(kind):
        return True
    inner = range(kind.num_fields) if pa.types.is_nested(kind) else ()
    return any(has_map(kind.field(at).type) for at in inner)


def typed_column(column: Any, kind: pa.DataType, name: object, what: str) -> pa.Array:
    """Return Python objects as Arrow, in a type that can be cast to a wanted one.

    Args:
        column: Objects to convert: a list, a tuple, a NumPy array or a pandas Series.
        kind: Wanted type.
        name: Name of the column, which errors name.
        what: Name of the source, which errors name.

    Raises:
        TypeError: If an object has no equal in the type. The error names its row.

    >>> scores = pa.map_(pa.string(), pa.int32())
    >>> typed_column([{"a": 1, "b": None}, None], scores, "scores", "source").to_pylist()
    [[('a', 1), ('b', None)], None]
    """
    # NaN is a number in a Python list, and a missing value in a frame.
    keeps_nan = not hasattr(column, "isna")
    if not has_map(kind):
        try:
            found = pa.array(column, from_pandas=not keeps_nan)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        else:
            check_objects(column, found.type, name, what)
            if pa.types.is_floating(found.type) and not pa.types.is_floating(kind):
                return pc.if_else(pc.is_nan(found), None, found)
            return found
    objects = np.fromiter(column, object, len(column))
    try:
        return _Objects(keeps_nan).typed(objects, kind, np.arange(len(objects)))
    except _UnfitObjectError as error:
        raise TypeError(
            f"{what}: the column {name!r} has {error.shown} in row {error.row + 1}, which "
            f"{error.kind} cannot hold; give the column one type"
        ) from error


class _UnfitObjectError(ValueError):
    """An object that has no equal in a type."""

    def __init__(self, row: int, shown: str, kind: pa.DataType) -> None:
        super().__init__(f"{kind} cannot hold {shown}")
        self.row = row
        self.shown = shown
        self.kind = kind


class _Objects:
    """The conversion of objects to columns.

    Args:
        keeps_nan: Whether NaN is a value among floats. If not, it becomes null.
    """

    def __init__(self, keeps_nan: bool) -> None:
        self._keeps_nan = keeps_nan

    def typed(self, objects: _Values, kind: pa.DataType, rows: _Rows) -> pa.Array:
        """Return objects as Arrow.

        Args:
            objects: Objects at any depth of the column.
            kind: Wanted type of the objects.
            rows: Number of the row that contains each object.
        """
        if pa.types.is_map(kind):
            return self._maps(objects, kind, rows)
        if is_list(kind):
            return self._lists(objects, kind, rows)
        if pa.types.is_struct(kind):
            return self._structs(objects, kind, rows)
        try:
            found = self._array(objects)
            if is_castable(found.type, kind) and not pa.types.is_temporal(found.type):
                return found
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        return self._values(objects, kind, rows)

    def _array(self, objects: _Values) -> pa.Array:
        """Return objects in the type that Arrow infers, with nulls of all libraries."""
        if self._keeps_nan and any(issubclass(one, float) for one in _classes(objects)):
            return pa.array(objects)
        return pa.array(objects, from_pandas=True)

    def _values(self, objects: _Values, kind: pa.DataType, rows: _Rows) -> pa.Array:
        """Return values of several classes as Arrow, in the type of their place."""
        whole = pa.nulls(len(objects), kind)
        for mine in _classes(objects).values():
            values = objects.copy()
            values[~mine] = None
            found = self._of_one_class(values, mine, kind, rows)
            whole = pc.coalesce(whole, found)
        return whole

    def _of_one_class(
        self, objects: _Values, mine: npt.NDArray[np.bool_], kind: pa.DataType, rows: _Rows
    ) -> pa.Array:
        """Return values of one class as Arrow, in the type of their place, and nulls."""
        try:
            try:
                found = self._array(objects)
            except OverflowError:
                found = pa.array(objects, _INTEGERS)
            check_objects(objects, found.type, "", "")
            if found.null_count < len(found) and not is_castable(found.type, kind):
                floats = pa.types.is_floating(found.type) and pc.is_nan(found)
                if floats is False or floats.false_count:
                    raise TypeError(f"{found.type} is not {kind}")
            return cast_exactly(found, kind)
        except UnfitValueError as error:
            raise _UnfitObjectError(int(rows[error.row]), repr(objects[error.row]), kind) from error
        except (pa.ArrowException, TypeError, ValueError) as error:
            at = int(np.flatnonzero(mine)[0])
            raise _UnfitObjectError(int(rows[at]), repr(objects[at]), kind) from error

    def _maps(self, objects: _Values, kind: pa.MapType, rows: _Rows) -> pa.Array:
        there = _of_class(objects, (Mapping, list, tuple, np.ndarray), kind, rows)
        pairs = [list(_pairs(one)) for one in objects[there]]
        lengths = _lengths(pairs, there)
        inner = np.repeat(rows, lengths)
        flat = list(chain.from_iterable(pairs))
        if any(not isinstance(one, (tuple, list, np.ndarray)) or len(one) != 2 for one in flat):
            at = next(at for at, one in enumerate(flat) if len(np.atleast_1d(one)) != 2)
            raise _UnfitObjectError(int(inner[at]), repr(flat[at]), kind)
        keys = self.typed(_flat(map(itemgetter(0), flat), len(flat)), kind.key_type, inner)
        items = self.typed(_flat(map(itemgetter(1), flat), len(flat)), kind.item_type, inner)
        if keys.null_count:
            at = pc.index(keys.is_null(), True).as_py()
            raise _UnfitObjectError(int(inner[at]), f"the key {flat[at][0]!r}", kind)
        return pa.MapArray.from_arrays(_offsets(lengths, there), keys, items)

    def _lists(self, objects: _Values, kind: pa.DataType, rows: _Rows) -> pa.Array:
        there = _of_class(objects, (list, tuple, np.ndarray), kind, rows)
        lists = objects[there]
        lengths = _lengths(lists, there)
        flat = _flat(chain.from_iterable(lists), int(lengths.sum()))
        values = self.typed(flat, kind.value_type, np.repeat(rows, lengths))
        return pa.ListArray.from_arrays(_offsets(lengths, there), values)

    def _structs(self, objects: _Values, kind: pa.StructType, rows: _Rows) -> pa.Array:
        there = _of_class(objects, (Mapping,), kind, rows)
        whole = objects.copy()
        whole[~there] = [{}]
        known = {field.name: field.type for field in kind}
        # Other fields, which the destination lacks, are kept, so that its owner sees them.
        names = list(dict.fromkeys(chain.from_iterable(whole))) or list(known)
        columns = []
        for name in names:
            values = _flat(map(methodcaller("get", name), whole), len(whole))
            columns.append(
                self.typed(values, known[name], rows) if name in known else self._array(values)
            )
        return pa.StructArray.from_arrays(columns, names, mask=pa.array(~there))


def _pairs(one: Any) -> Iterable[Any]:
    return one.items() if isinstance(one, Mapping) else one


def _of_class(
    objects: _Values, classes: tuple[type, ...], kind: pa.DataType, rows: _Rows
) -> npt.NDArray[np.bool_]:
    """Return whether each object is of some classes.

    The others must be nulls.

    Raises:
        _UnfitObjectError: If another object is not a null.
    """
    there = np.zeros(len(objects), bool)
    for one, mine in _classes(objects).items():
        if issubclass(one, classes):
            there |= mine
        elif not _is_null(objects[mine]):
            at = np.flatnonzero(mine)[0]
            raise _UnfitObjectError(int(rows[at]), repr(objects[at]), kind)
    return there


def _classes(objects: _Values) -> dict[type, npt.NDArray[np.bool_]]:
    """Return a mask of the objects of each class."""
    numbers: dict[type, int] = {}
    found = np.fromiter(
        (numbers.setdefault(type(one), len(numbers)) for one in objects), np.int64, len(objects)
    )
    return {one: found == number for one, number in numbers.items()}


def _is_null(objects: _Values) -> bool:
    try:
        found = pa.array(objects, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return bool(found.null_count == len(found))


def _flat(objects: Iterable[Any], count: int) -> _Values:
    return np.fromiter(objects, object, count)


def _lengths(values: Sequence[Any] | _Values, there: npt.NDArray[np.bool_]) -> _Rows:
    lengths = np.zeros(len(there), np.int64)
    lengths[there] = np.fromiter(map(len, values), np.int64, len(values))
    return lengths


def _offsets(lengths: _Rows, there: npt.NDArray[np.bool_]) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return pa.array(ends, pa.int32(), mask=np.append(~there, False))
