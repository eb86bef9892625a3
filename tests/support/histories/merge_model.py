"""A model of the merge engines of Paimon, row after row, as its documentation describes them.

It knows no files and no Arrow: rows are dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)


class NotMergedError(Exception):
    """Paimon raises an error, too."""


@dataclass(frozen=True)
class Row:
    """A row that was written.

    Attributes:
        values: Its values.
        kind: Its kind.
        number: Its sequence number.
        level: Level of its file.
    """

    values: Mapping[str, Any]
    kind: int
    number: int
    level: int = 0

    @property
    def adds(self) -> bool:
        return self.kind in (INSERT, UPDATE_AFTER)


class MergeModel:
    """The rules of a table.

    Args:
        types: Types of its columns, as Paimon writes them.
        fixed: Columns of the key and of the partition.
        options: Options of the table.
    """

    def __init__(
        self, types: Mapping[str, str], fixed: Sequence[str], options: Mapping[str, str]
    ) -> None:
        self.types, self.fixed, self.options = types, fixed, options
        self.sequence = [one for one in options.get("sequence.field", "").split(",") if one]
        self.groups: dict[str, tuple[str, ...]] = {}
        for option, value in options.items():
            if option.endswith(".sequence-group"):
                group = tuple(option.split(".")[1].split(","))
                self.groups.update(dict.fromkeys([*group, *value.split(",")], group))

    def is_on(self, option: str) -> bool:
        return self.options.get(option, "false") == "true"

    @property
    def engine(self) -> str:
        return self.options.get("merge-engine", "deduplicate")

    @property
    def looks_up(self) -> bool:
        return self.options.get("changelog-producer") == "lookup"

    def function(self, name: str) -> str | None:
        given = self.options.get(
            f"fields.{name}.aggregate-function",
            self.options.get("fields.default-aggregate-function"),
        )
        if self.engine == "partial-update":
            return None if name in self.groups.get(name, ()) else given
        return "last_value" if name in self.sequence else given or "last_non_null_value"

    def newest_last(self, rows: Sequence[Row]) -> list[Row]:
        def place(row: Row) -> list[Any]:
            sign = -1 if self.options.get("sequence.field.sort-order") == "descending" else 1
            values = [row.values[name] for name in self.sequence]
            return [*((one is not None, sign * (one or 0)) for one in values), row.number]

        return sorted(rows, key=place)

    def merged(self, rows: Sequence[Row], level: int) -> Row | None:
        """Return the row of one key, which may be a deletion. None: there is none."""
        rows = self.newest_last(rows)
        if len(rows) == 1:
            return Row(rows[0].values, rows[0].kind, rows[0].number, level)
        if self.looks_up:
            upper = [row for row in rows if row.level > 0]
            least = min(upper, key=lambda row: row.level, default=None)
            rows = [row for row in rows if row.level <= 0 or row is least]
        if self.engine == "deduplicate":
            ignored = self.is_on("ignore-delete")
            rows = [row for row in rows if row.adds or not ignored]
            return Row(rows[-1].values, rows[-1].kind, rows[-1].number, level) if rows else None
        state = (_Partial if self.engine == "partial-update" else _Aggregated)(self)
        for row in rows:
            state.add(row)
        values = {**state.values, **{name: rows[0].values[name] for name in self.fixed}}
        return Row(values, INSERT if state.is_row else DELETE, rows[-1].number, level)

    def rows(self, rows: Sequence[Row]) -> list[Mapping[str, Any]]:
        """Return the rows of the table, of all rows that its files have."""
        keys: dict[Any, list[Row]] = {}
        for row in rows:
            keys.setdefault(tuple(row.values[name] for name in self.fixed), []).append(row)
        found = (self.merged(those, 0) for those in keys.values())
        return [one.values for one in found if one is not None and one.adds]


class _Function:
    """The function of a column, for one key."""

    def __init__(self, model: MergeModel, name: str, function: str) -> None:
        self._name, self._function, self._kind = name, function, model.types[name]
        self._ignores = model.is_on(f"fields.{name}.ignore-retract")
        self._distinct = model.is_on(f"fields.{name}.distinct")
        self._delimiter = model.options.get(f"fields.{name}.list-agg-delimiter", ",")
        self._has_first = False

    def older(self, old: Any, new: Any) -> Any:
        if self._function == "collect":
            return self.add(old, new)
        return self.add(new, old)

    def add(self, old: Any, new: Any) -> Any:
        match self._function:
            case "last_value":
                return new
            case "first_value":
                if self._has_first:
                    return old
                self._has_first = True
                return new
            case "first_non_null_value":
                if self._has_first or new is None:
                    return old
                self._has_first = True
                return new
        if self._function == "collect" and self._distinct:
            return None if old is None and new is None else _unique([*(old or ()), *(new or ())])
        if old is None or new is None:
            return new if old is None else old
        return self._of_two(old, new)

    def _of_two(self, old: Any, new: Any) -> Any:
        match self._function:
            case "last_non_null_value":
                return new
            case "sum":
                return old + new
            case "product":
                if isinstance(old, Decimal):
                    # Java's decimals have no negative zero.
                    return (old * new).quantize(Decimal("0.01"), ROUND_HALF_UP) + 0
                return old * new
            case "max" | "bool_or":
                return max(old, new)
            case "min" | "bool_and":
                return min(old, new)
            case "collect":
                return [*old, *new]
            case "merge_map":
                return {**old, **new}
            case "listagg":
                if not self._distinct:
                    return self._delimiter.join([old, new])
                known = old.split(self._delimiter)
                more = [one for one in _unique(new.split(self._delimiter)) if one]
                return self._delimiter.join([old, *(one for one in more if one not in known)])
        raise AssertionError(self._function)

    def take_back(self, old: Any, new: Any) -> Any:
        if self._ignores:
            return old
        match self._function:
            case "last_value":
                return None
            case "last_non_null_value":
                return old if new is None else None
            case "sum":
                if old is None or new is None:
                    return None if old is None and new is None else -new if old is None else old
                return old - new
            case "product":
                if old is None or new is None:
                    return old
                if isinstance(old, Decimal):
                    raise NotMergedError
                return old / new if isinstance(old, float) else _towards_zero(old, new)
            case "collect":
                gone = list(new or ())
                return old if old is None else [one for one in old if not _taken(gone, one)]
            case "merge_map":
                if old is None or not new:
                    return old
                return {key: value for key, value in old.items() if key not in new}
        raise NotMergedError


class _Aggregated:
    """The engine `aggregation`."""

    def __init__(self, model: MergeModel) -> None:
        self._model = model
        names = [name for name in model.types if name not in model.fixed]
        self._functions = {
            name: _Function(model, name, model.function(name) or "") for name in names
        }
        self.values: dict[str, Any] = dict.fromkeys(names)
        self.is_row = True

    def add(self, row: Row) -> None:
        removes = self._model.is_on("aggregation.remove-record-on-delete")
        self.is_row = not (removes and row.kind == DELETE)
        if not self.is_row:
            self.values = dict.fromkeys(self.values)
            return
        for name, function in self._functions.items():
            change = function.add if row.adds else function.take_back
            self.values[name] = change(self.values[name], row.values[name])


class _Partial:
    """The engine `partial-update`."""

    def __init__(self, model: MergeModel) -> None:
        self._model = model
        names = [name for name in model.types if name not in model.fixed]
        chosen = {name: model.function(name) for name in names}
        self._functions: dict[str, _Function] = {
            name: _Function(model, name, function) for name, function in chosen.items() if function
        }
        self.values: dict[str, Any] = dict.fromkeys(names)
        self._inserted = self._removed = False

    @property
    def is_row(self) -> bool:
        return self._inserted and not self._removed

    def add(self, row: Row) -> None:
        self._removed = False
        if row.adds:
            self._inserted = True
            self._update(row, self._added)
            return
        if self._model.is_on("ignore-delete") or self._model.is_on("partial-update.ignore-delete"):
            return
        if self._model.groups:
            if self._is_removed_by(row):
                self._remove()
            else:
                self._update(row, self._taken_back)
        elif self._model.is_on("partial-update.remove-record-on-delete"):
            if row.kind == DELETE:
                self._remove()
        else:
            raise NotMergedError

    def _remove(self) -> None:
        self._removed = True
        self.values = dict.fromkeys(self.values)

    def _is_removed_by(self, row: Row) -> bool:
        names = self._model.options.get("partial-update.remove-record-on-sequence-group", "")
        groups = {self._model.groups[name] for name in names.split(",") if name}
        return row.kind == DELETE and any(self._age(row, group) == "newer" for group in groups)

    def _age(self, row: Row, group: Sequence[str]) -> str:
        def place(values: Mapping[str, Any]) -> list[Any]:
            return [(values[name] is not None, values[name] or 0) for name in group]

        if all(row.values[name] is None for name in group):
            return "none"
        return "newer" if place(row.values) >= place(self.values) else "older"

    def _update(self, row: Row, change: Callable[..., Any]) -> None:
        ages = {group: self._age(row, group) for group in self._model.groups.values()}
        for name in self.values:
            group = self._model.groups.get(name)
            age = None if group is None else ages[group]
            old, new = self.values[name], row.values[name]
            if group is not None and name in group:
                self.values[name] = new if age == "newer" else old
            elif age != "none":
                self.values[name] = change(name, age, old, new)

    def _added(self, name: str, age: str | None, old: Any, new: Any) -> Any:
        function = self._functions.get(name)
        if age is None:
            return old if new is None else new
        if function is None:
            return new if age == "newer" else old
        return function.add(old, new) if age == "newer" else function.older(old, new)

    def _taken_back(self, name: str, age: str | None, old: Any, new: Any) -> Any:
        function = self._functions.get(name)
        if age is None:
            return old
        if function is None:
            return None if age == "newer" else old
        return function.take_back(old, new)


def _unique(values: Sequence[Any]) -> list[Any]:
    return [one for at, one in enumerate(values) if one not in values[:at]]


def _taken(gone: list[Any], one: Any) -> bool:
    if one in gone:
        gone.remove(one)
        return True
    return False


def _towards_zero(old: int, new: int) -> int:
    found = abs(old) // abs(new)
    return found if (old < 0) == (new < 0) else -found
