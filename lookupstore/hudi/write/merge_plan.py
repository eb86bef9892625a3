"""The clauses of a merge, checked against the columns of table and given rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import listed
from lookupstore.filters import Aliases, Filter
from lookupstore.hudi.keys.missing_columns import MissingColumns
from lookupstore.hudi.write.assignments import (
    Assigned,
    Assignments,
    condition,
    holds,
    planned_assignments,
)
from lookupstore.hudi.write.statements import SOURCE, TARGET, Clause, kept_columns

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GivenClause:
    """One clause of a merge, as a caller gives it.

    Attributes:
        name: Name of the method that the caller called.
        where: Condition. None: every row.
        sets: Values by column name. None: the columns of the given rows, or a deletion.
        deletes: Whether the clause deletes rows.
        without: Columns of the given rows that are not stored if `sets` is None.
    """

    name: str
    where: Filter | None = None
    sets: Assigned | None = None
    deletes: bool = False
    without: Sequence[str] = ()


@dataclass(frozen=True)
class GivenMerge:
    """The clauses of a merge, as a caller gives them.

    Attributes:
        matched: Clauses for stored rows whose key is given.
        unmatched: Clauses for given rows whose key is not stored.
        left: Clauses for stored rows whose key is not given.
    """

    matched: tuple[GivenClause, ...] = ()
    unmatched: tuple[GivenClause, ...] = ()
    left: tuple[GivenClause, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there is no clause."""
        return not (self.matched or self.unmatched or self.left)


@dataclass(frozen=True)
class MergePlan:
    """The checked clauses of a merge.

    Attributes:
        matched: Clauses for stored rows whose key is given.
        unmatched: Clauses for given rows whose key is not stored.
        left: Conditions for the deletion of stored rows whose key is not given. None: every row.
        columns: Data columns of the table.
        ordering: Name of the column in which each new row needs a value. None: no such column.
    """

    matched: tuple[Clause, ...]
    unmatched: tuple[Clause, ...]
    left: tuple[pc.Expression | None, ...]
    columns: pa.Schema
    ordering: str | None

    @property
    def kept(self) -> MissingColumns:
        """Return the columns that no clause sets; rows keep their stored values."""
        return kept_columns(self.columns, self.matched)

    @property
    def deletes(self) -> bool:
        """Return whether stored rows may be deleted."""
        return bool(self.left) or any(one.sets is None for one in self.matched)

    def new_rows(
        self, given: pa.Table, keys: pa.Array, rows: Rows
    ) -> Iterator[tuple[Rows, pa.Table]]:
        """Yield the numbers of the given rows to insert, and the rows as they are stored.

        Args:
            given: Given rows, with the column names that clauses use.
            keys: Record keys of these rows.
            rows: Numbers of the rows whose key is not stored.

        Raises:
            ValueError: If a value cannot be computed, does not fit its column, or is null in the
                ordering column.
        """
        for clause in self.unmatched:
            assert clause.sets is not None
            some = given.take(pa.array(rows))
            taken = holds(some, clause.where)
            inserted, rows = rows[taken], rows[~taken]
            if not len(inserted):
                continue
            values = clause.sets.computed(
                some.filter(pa.array(taken)), keys.take(pa.array(inserted))
            )
            by_name = dict(zip((one.name for one in clause.sets.fields), values, strict=True))
            if self.ordering is not None and by_name[self.ordering].null_count:
                first = pc.index(by_name[self.ordering].is_null(), True).as_py()
                raise ValueError(
                    f"the ordering column {self.ordering!r} of the row with the key "
                    f"{keys[inserted[first]].as_py()!r} is null; give a value, or leave the row out"
                )
            columns = [
                by_name[one.name] if one.name in by_name else pa.nulls(len(inserted), one.type)
                for one in self.columns
            ]
            yield inserted, pa.table(columns, schema=self.columns)


def planned_merge(
    clauses: GivenMerge,
    given: pa.Schema,
    columns: pa.Schema,
    fixed: Sequence[str],
    ordering: str | None,
) -> MergePlan:
    """Check the clauses of a merge against the columns of both sides.

    Args:
        clauses: Clauses, as the caller gave them.
        given: Columns of the given rows.
        columns: Data columns of the table.
        fixed: Names of the key and partition columns, which no clause sets.
        ordering: Name of the column in which each new row needs a value. None: no such column.

    Raises:
        TypeError: If the type of a value does not fit its column.
        KeyError: If the table does not have a column that a clause sets.
        ValueError: If a clause cannot be parsed, names a column that does not exist, or inserts
            rows without an ordering value.
    """
    target = {name: f"{TARGET}{name}" for name in columns.names}
    source = {name: f"{SOURCE}{name}" for name in given.names}
    of_source = [given.field(name).with_name(full) for name, full in source.items()]
    of_target = [columns.field(name).with_name(full) for name, full in target.items()]
    both = Aliases(pa.schema([*of_target, *of_source]), {"target": target, "source": source})
    alone = Aliases(pa.schema(of_source), {"source": source})
    stored = Aliases(columns, {"target": {name: name for name in columns.names}})
    names = _Names(given.names, columns, fixed, ordering)
    return MergePlan(
        tuple(
            Clause(
                condition(one.where, both, f"{one.name}: where"),
                None if one.deletes else names.updates(one, both),
            )
            for one in clauses.matched
        ),
        tuple(
            Clause(condition(one.where, alone, f"{one.name}: where"), names.inserts(one, alone))
            for one in clauses.unmatched
        ),
        tuple(condition(one.where, stored, f"{one.name}: where") for one in clauses.left),
        columns,
        ordering,
    )


class _Names:
    """Assignments of clauses, with the columns of both sides as defaults."""

    def __init__(
        self,
        given: Sequence[str],
        columns: pa.Schema,
        fixed: Sequence[str],
        ordering: str | None,
    ) -> None:
        self._given = given
        self._columns = columns
        self._fixed = fixed
        self._ordering = ordering

    def updates(self, clause: GivenClause, aliases: Aliases) -> Assignments:
        """Return the assignments of a clause that updates."""
        columns, fixed, sets = self._columns, self._fixed, clause.sets
        if sets is None:
            names = self._stored_names(clause)
            sets = {name: pc.field(f"{SOURCE}{name}") for name in names if name not in fixed}
            if not sets:
                raise ValueError(
                    f"{clause.name}: the rows have key columns only; say what is set, as in "
                    "set={'hits': 'target.hits + 1'}"
                )
        return planned_assignments(sets, columns, fixed, aliases, f"{clause.name}: set")

    def inserts(self, clause: GivenClause, aliases: Aliases) -> Assignments:
        """Return the assignments of a clause that inserts."""
        columns, fixed, given = self._columns, self._fixed, self._given
        lacking = [name for name in fixed if name not in given]
        if lacking:
            raise ValueError(
                f"{clause.name}: the rows have no column {lacking[0]!r}, which every new row "
                "needs; add it to the rows"
            )
        sets = clause.sets
        if sets is None:
            sets = {name: f"source.{name}" for name in self._stored_names(clause)}
            sets = {name: pc.field(f"{SOURCE}{name}") for name in sets}
            missing = [name for name in columns.names if name not in sets]
            if missing:
                raise ValueError(
                    f"{clause.name}: the rows lack columns of the table: {listed(missing)}; name "
                    "what new rows get, as in values={'id': 'source.id', 'hits': 1}, in which "
                    "columns that are not named are null; or add the columns to the rows"
                )
            return planned_assignments(sets, columns, (), aliases, f"{clause.name}: values")
        for name in fixed:
            said = sets.get(name, "")
            if name in sets and said not in (f"source.{name}", name):
                raise ValueError(
                    f"{clause.name}: values: {name!r} is part of the key or the partition, which "
                    f"new rows keep: write 'source.{name}', or leave it out"
                )
        if self._ordering is not None and self._ordering not in (*sets, *fixed):
            # As in Hudi's MERGE INTO; later upserts compare with the value.
            raise ValueError(
                f"{clause.name}: values: no {self._ordering!r}, the ordering column; give every "
                f"new row a value, such as 'source.{self._ordering}'"
            )
        sets = {**sets, **{name: pc.field(f"{SOURCE}{name}") for name in fixed}}
        return planned_assignments(sets, columns, (), aliases, f"{clause.name}: values")

    def _stored_names(self, clause: GivenClause) -> list[str]:
        """Return the columns that a clause stores if it does not name any."""
        given, columns = self._given, self._columns
        for name in clause.without:
            if name not in given:
                raise KeyError(
                    f"{clause.name}: except_columns: the rows have no column {name!r}; they have "
                    f"{listed(given)}"
                )
        names = [name for name in given if name not in clause.without]
        for name in names:
            if name not in columns.names:
                raise ValueError(
                    f"{clause.name}: the rows have a column {name!r}, and the table does not; say "
                    "what each column gets, or leave this one out: "
                    f"except_columns=[{name!r}]"
                )
        return names
