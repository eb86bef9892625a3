"""Merges of rows into a table: clauses, executed in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Protocol

from lookupstore.filters import Filter, merge_clause
from lookupstore.hudi.write.assignments import Assigned
from lookupstore.hudi.write.hoodie.meaning import GivenOptions
from lookupstore.hudi.write.merge_plan import GivenClause, GivenMerge
from lookupstore.hudi.write.options import option_advice
from lookupstore.hudi.write.result import WriteResult
from lookupstore.keywords import with_advice


class Execute(Protocol):
    """A function that executes the clauses of a merge."""

    def __call__(
        self, clauses: GivenMerge, options: GivenOptions | None, dry_run: bool
    ) -> WriteResult:
        """Execute the clauses in one commit."""
        ...


class TableMerge:
    """A merge of rows into a table. Each method adds a clause.

    Use `HudiTable.merge` to make one. If the conditions of several clauses of one kind are true,
    the first of these clauses applies. In conditions and values, `target` is the stored row, and
    `source` the given row. Ordering values are ignored.
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
        """Update stored rows whose key is given.

        Args:
            set: Value of each column to set, such as `{"hits": "target.hits + source.hits"}`; see
                `HudiTable.update`. Other columns keep their stored values. None: sets the columns
                of the given rows, except those of the key and the partition.
            where: Condition, as SQL such as `"source.at > target.at"`, or as an Arrow expression on
                columns with these names. None: every such row.
            except_columns: Columns of the given rows that are not stored if `set` is None.
        """
        clause = GivenClause(
            "when_matched_update", where, set, without=_names(except_columns, set, "set")
        )
        return self._with(replace(self._clauses, matched=(*self._clauses.matched, clause)))

    def when_matched_delete(self, where: Filter | None = None) -> TableMerge:
        """Delete stored rows whose key is given.

        Args:
            where: Condition, as SQL or an Arrow expression. None: every such row.
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
        """Insert given rows whose key is not stored.

        Args:
            values: Value of each column, computed from columns of `source`; see `HudiTable.update`.
                Key and partition columns are always those of the given row. Other columns that are
                not named are null. None: inserts the given rows, which need all columns.
            where: Condition on columns of `source`. None: every such row.
            except_columns: Columns of the given rows that are not stored if `values` is None.
        """
        clause = GivenClause(
            "when_not_matched_insert",
            where,
            values,
            without=_names(except_columns, values, "values"),
        )
        return self._with(replace(self._clauses, unmatched=(*self._clauses.unmatched, clause)))

    def when_not_matched_by_source_delete(self, where: Filter | None = None) -> TableMerge:
        """Delete stored rows whose key is not given.

        Args:
            where: Condition on columns of `target`. None: every such row.
        """
        clause = GivenClause("when_not_matched_by_source_delete", where, deletes=True)
        return self._with(replace(self._clauses, left=(*self._clauses.left, clause)))

    def when(self, clause: str) -> TableMerge:
        """Add a clause in the SQL of `MERGE INTO`.

        Args:
            clause: Text such as `"matched and source.op = 'D' then delete"`, `"matched then update
                set hits = target.hits + source.hits"`, `"not matched then insert"` or `"not matched
                by source then delete"`. A leading `when` is allowed.

        Raises:
            ValueError: If the clause cannot be parsed.
            ImportError: If sqlglot is not installed.
        """
        said = merge_clause(clause)
        if said.kind == "left":
            return self.when_not_matched_by_source_delete(said.where)
        if said.kind == "unmatched":
            return self.when_not_matched_insert(said.sets, where=said.where)
        if said.verb == "delete":
            return self.when_matched_delete(said.where)
        return self.when_matched_update(said.sets, where=said.where)

    @with_advice(option_advice)
    def execute(self, *, options: GivenOptions | None = None, dry_run: bool = False) -> WriteResult:
        """Execute all clauses in one commit.

        Args:
            options: Options of the write: `WriteOptions`, or a dict of options by Hudi's names.
            dry_run: Whether to change nothing, and only return what the merge would do.

        Raises:
            TypeError: If the rows are not rows, or the type of a value does not fit its column.
            KeyError: If the table or the rows do not have a column.
            ValueError: If there is no clause, two rows have the same key, a condition or a value
                cannot be parsed or computed, or the rows do not fit into memory.
            FormatError: If the table cannot be written; the error names the property.
            CommitConflictError: If other writers committed the same files first on every retry.
            CommitUnknownError: If it is unknown whether the commit succeeded.
            LockedError: If other writers held the lock of the table for too long.
            CorruptionError: If the table is damaged.
            StaleStoreError: If a clean deleted a file that the merge had to read.
        """
        if self._clauses.is_empty:
            raise ValueError(
                "merge: there is no clause; add one, such as .when_matched_update() or "
                ".when_not_matched_insert(), before .execute()"
            )
        for kind in (self._clauses.matched, self._clauses.unmatched, self._clauses.left):
            for clause, following in pairwise(kind):
                if clause.where is None:
                    raise ValueError(
                        f"{following.name}: it applies to no row, because {clause.name} before it "
                        "has no condition; give that clause a condition, or put it last"
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
            f"except_columns is given with {argument}, which names all stored columns; give one of "
            "the two"
        )
    return names
