"""The clauses of a merge, checked against the columns of a table and of given rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.errors import listed
from lookupstore.hudi.keys.missing_columns import MissingColumns
from lookupstore.hudi.layout import Aliases, Filter
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
    """One clause of a merge, as a caller says it.

    Attributes:
        name: the method that was called.
        where: of which rows; None: of all.
        sets: values by column; None: those that rows have, or a deletion.
        deletes: whether rows go.
        without: columns of the rows that are not stored, where `sets` does not say the values.
    """

    name: str
    where: Filter | None = None
    sets: Assigned | None = None
    deletes: bool = False
    without: Sequence[str] = ()


@dataclass(frozen=True)
class GivenMerge:
    """The clauses of a merge, each kind in its order.

    Attributes:
        matched: what becomes of rows of the table whose key is given.
        unmatched: which given rows are inserted whose key the table lacks.
        left: which rows of the table go whose key is not given.
    """

    matched: tuple[GivenClause, ...] = ()
    unmatched: tuple[GivenClause, ...] = ()
    left: tuple[GivenClause, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing would happen."""
        return not (self.matched or self.unmatched or self.left)


@dataclass(frozen=True)
class MergePlan:
    """What a merge does with each row.

    Attributes:
        matched: what becomes of rows of the table whose key is given.
        unmatched: what given rows are inserted whose key the table lacks.
        left: which rows of the table go whose key is not given; None: all.
        columns: of the table.
    """

    matched: tuple[Clause, ...]
    unmatched: tuple[Clause, ...]
    left: tuple[pc.Expression | None, ...]
    columns: pa.Schema

    @property
    def kept(self) -> MissingColumns:
        """Return the columns of which changed rows keep the stored values."""
        return kept_columns(self.columns, self.matched)

    @property
    def deletes(self) -> bool:
        """Return whether rows of the table may go."""
        return bool(self.left) or any(one.sets is None for one in self.matched)

    def new_rows(
        self, given: pa.Table, keys: pa.Array, rows: Rows
    ) -> Iterator[tuple[Rows, pa.Table]]:
        """Yield which given rows are inserted, and what of them is stored.

        Args:
            given: rows, with the names that clauses have for their columns.
            keys: their record keys.
            rows: numbers of those whose key the table lacks.

        Raises:
            ValueError: a value cannot be computed, or does not fit its column.
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
            columns = [
                by_name[one.name] if one.name in by_name else pa.nulls(len(inserted), one.type)
                for one in self.columns
            ]
            yield inserted, pa.table(columns, schema=self.columns)


def planned_merge(
    clauses: GivenMerge, given: pa.Schema, columns: pa.Schema, fixed: Sequence[str]
) -> MergePlan:
    """Plan a merge.

    Args:
        clauses: what happens.
        given: columns of the rows.
        columns: of the table.
        fixed: those of key and partition, which no clause sets.

    Raises:
        TypeError, KeyError: values of a clause do not fit the table.
        ValueError: a clause is not read.
    """
    target = {name: f"{TARGET}{name}" for name in columns.names}
    source = {name: f"{SOURCE}{name}" for name in given.names}
    of_source = [given.field(name).with_name(full) for name, full in source.items()]
    of_target = [columns.field(name).with_name(full) for name, full in target.items()]
    both = Aliases(pa.schema([*of_target, *of_source]), {"target": target, "source": source})
    alone = Aliases(pa.schema(of_source), {"source": source})
    stored = Aliases(columns, {"target": {name: name for name in columns.names}})
    names = _Names(given.names, columns, fixed)
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
    )


class _Names:
    """The columns of given rows and of a table, of which clauses say some."""

    def __init__(self, given: Sequence[str], columns: pa.Schema, fixed: Sequence[str]) -> None:
        self._given = given
        self._columns = columns
        self._fixed = fixed

    def updates(self, clause: GivenClause, aliases: Aliases) -> Assignments:
        """Return what a clause sets in rows of the table."""
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
        """Return what a clause stores of new rows."""
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
                    f"{clause.name}: values: {name!r} says which row it is, or where it is, and is "
                    f"that of the given row: write 'source.{name}', or leave it out"
                )
        sets = {**sets, **{name: pc.field(f"{SOURCE}{name}") for name in fixed}}
        return planned_assignments(sets, columns, (), aliases, f"{clause.name}: values")

    def _stored_names(self, clause: GivenClause) -> list[str]:
        """Return the columns of the rows that a clause stores which does not say any."""
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
