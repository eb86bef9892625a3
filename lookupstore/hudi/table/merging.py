"""``TableMerge``: the clauses of a merge, said one after the other, and then executed at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Protocol

from lookupstore.hudi.layout import Filter, merge_clause
from lookupstore.hudi.write.assignments import Assigned
from lookupstore.hudi.write.hoodie.meaning import GivenOptions
from lookupstore.hudi.write.merge_plan import GivenClause, GivenMerge
from lookupstore.hudi.write.result import WriteResult


class Execute(Protocol):
    """What executes the clauses of a merge."""

    def __call__(
        self, clauses: GivenMerge, options: GivenOptions | None, dry_run: bool
    ) -> WriteResult:
        """Execute them in one commit."""
        ...


class TableMerge:
    """A merge of rows into a table, of which each method adds a clause.

    Made by `HudiTable.merge`. Of the clauses of one kind the first applies whose condition is true.
    Conditions and values see the row of the table as `target`, and the given one as `source`.
    Ordering values make no difference.
    """

    def __init__(self, execute: Execute, clauses: GivenMerge | None = None) -> None:
        self._execute = execute
        self._clauses = GivenMerge() if clauses is None else clauses

    def when_matched_update(
        self,
        set: Assigned | None = None,
        *,
        where: Filter | None = None,
        except_columns: str | Sequence[str] = (),
    ) -> TableMerge:
        """Change rows of the table whose keys are given.

        Args:
            set: the value of each column that is set, as of `HudiTable.update`, such as
                `{"hits": "target.hits + source.hits"}`; None: the columns that the rows have, but
                those of the key. Other columns keep what is stored.
            where: of which of them, in SQL such as `"source.at > target.at"`, or as an expression
                on columns with such names; None: of all.
            except_columns: columns of the rows that are not stored, if `set` is None.
        """
        clause = GivenClause(
            "when_matched_update", where, set, without=_names(except_columns, set, "set")
        )
        return self._with(replace(self._clauses, matched=(*self._clauses.matched, clause)))

    def when_matched_delete(self, where: Filter | None = None) -> TableMerge:
        """Delete rows of the table whose keys are given.

        Args:
            where: which of them, as of `when_matched_update`; None: all.
        """
        clause = GivenClause("when_matched_delete", where, deletes=True)
        return self._with(replace(self._clauses, matched=(*self._clauses.matched, clause)))

    def when_not_matched_insert(
        self,
        values: Assigned | None = None,
        *,
        where: Filter | None = None,
        except_columns: str | Sequence[str] = (),
    ) -> TableMerge:
        """Insert given rows whose keys the table does not have.

        Args:
            values: the value of each column, as of `HudiTable.update`, from columns of `source`;
                columns that are not named are null, but those of the key, which are the row's.
                None: the columns of the row, which has to have all of the table's.
            where: which of them, on columns of `source`; None: all.
            except_columns: columns of the rows that are not stored, if `values` is None.
        """
        clause = GivenClause(
            "when_not_matched_insert",
            where,
            values,
            without=_names(except_columns, values, "values"),
        )
        return self._with(replace(self._clauses, unmatched=(*self._clauses.unmatched, clause)))

    def when_not_matched_by_source_delete(self, where: Filter | None = None) -> TableMerge:
        """Delete rows of the table whose keys are not given.

        Args:
            where: which of them, on columns of `target`; None: all.
        """
        clause = GivenClause("when_not_matched_by_source_delete", where, deletes=True)
        return self._with(replace(self._clauses, left=(*self._clauses.left, clause)))

    def when(self, clause: str) -> TableMerge:
        """Add a clause in SQL, as behind `when` of `merge into`.

        Args:
            clause: such as `"matched and source.op = 'D' then delete"`, `"matched then update set
                hits = target.hits + source.hits"`, `"not matched then insert"` or `"not matched by
                source then delete"`.

        Raises:
            ValueError: it is no such clause.
            ImportError: what parses SQL is not installed.
        """
        said = merge_clause(clause)
        if said.kind == "left":
            return self.when_not_matched_by_source_delete(said.where)
        if said.kind == "unmatched":
            return self.when_not_matched_insert(said.sets, where=said.where)
        if said.verb == "delete":
            return self.when_matched_delete(said.where)
        return self.when_matched_update(said.sets, where=said.where)

    def execute(self, *, options: GivenOptions | None = None, dry_run: bool = False) -> WriteResult:
        """Do what the clauses say, in one commit.

        Args:
            options: how it is done, as of `HudiTable.upsert`.
            dry_run: change nothing, and return what would be done.

        Raises:
            TypeError: `rows` gives no rows; or a value of a clause is not of the column's type.
            KeyError: a column that the table, or the rows, do not have.
            ValueError: there is no clause; rows have a key twice; a condition or a value is not
                read, or a value that is computed does not fit its column; or the rows do not fit
                into memory.
            FormatError, CommitConflictError, CommitUnknownError, LockedError: as of
                `HudiTable.upsert`.
            CorruptionError, StaleStoreError: as of `HudiTable.upsert`.
        """
        if self._clauses.is_empty:
            raise ValueError(
                "merge: no clause says what happens; add one, such as .when_matched_update() or "
                ".when_not_matched_insert(), before .execute()"
            )
        for kind in (self._clauses.matched, self._clauses.unmatched, self._clauses.left):
            for clause, following in pairwise(kind):
                if clause.where is None:
                    raise ValueError(
                        f"{following.name}: no row is left for it after {clause.name} without a "
                        "condition; give that one a where, or put it last"
                    )
        return self._execute(self._clauses, options, dry_run)

    def __repr__(self) -> str:
        clauses = self._clauses
        names = [one.name for one in (*clauses.matched, *clauses.unmatched, *clauses.left)]
        return f"<TableMerge {', '.join(names) or 'without a clause'}; .execute() does it>"

    def _with(self, clauses: GivenMerge) -> TableMerge:
        return TableMerge(self._execute, clauses)


def _names(given: str | Sequence[str], values: Assigned | None, argument: str) -> Sequence[str]:
    names = (given,) if isinstance(given, str) else tuple(given)
    if names and values is not None:
        raise ValueError(
            f"except_columns is given with {argument}, which says what is stored; give one of them"
        )
    return names
