"""A merge: given rows meet the rows of a table that have their keys, and clauses say what happens.

Each row of the table meets at most one given row, since no two of these may have one key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat
from lookupstore.errors import listed
from lookupstore.hudi.index.row_tags import written_name
from lookupstore.hudi.index.tagging import Tagged
from lookupstore.hudi.keys.incoming import Incoming, IncomingKeys
from lookupstore.hudi.keys.key_generator import paths_of
from lookupstore.hudi.keys.missing_columns import MissingColumns
from lookupstore.hudi.layout import Aliases, Filter
from lookupstore.hudi.meta_columns import META_COLUMNS, RECORD_KEY
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.assignments import (
    Assigned,
    Assignments,
    condition,
    fixed_columns,
    holds,
    planned_assignments,
)
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.placing import check_same_keys
from lookupstore.hudi.write.rows.stored import Found, StoredRows
from lookupstore.hudi.write.statements import (
    SOURCE,
    TARGET,
    ChangedRows,
    Clause,
    kept_columns,
)
from lookupstore.source.kept import opened
from lookupstore.source.source import in_types, with_every_column

Rows = npt.NDArray[np.int64]
#: Finds the rows of a table for which a condition holds.
FindRows = Callable[[TableView, pc.Expression], Iterable[StoredRows]]
#: Finds where keys are; whether they come with their partitions.
FindKeys = Callable[[Incoming, bool], tuple[Tagged, Rows]]


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


class MergedRows:
    """The rows that a merge changes, deletes and inserts.

    Args:
        given: rows, as an upsert takes them; each key once.
        clauses: what happens.
        view: of the table.
        options: of the write.
        on: the key columns by which rows meet; None: also those of the partition, if given.
        everywhere: whether keys are looked for in all partitions.

    Raises:
        TypeError, KeyError: the rows, or values of a clause, do not fit the table.
        ValueError: a key is given twice, or a clause is not read.
    """

    def __init__(
        self,
        given: Any,
        clauses: GivenMerge,
        view: TableView,
        options: WriteOptions,
        *,
        on: Sequence[str] | None,
        everywhere: bool,
    ) -> None:
        self._view = view
        columns = view.table_schema.columns
        source = opened(given, lambda rows: in_types(with_every_column(rows), columns))
        names = [name for name in source.schema.names if name not in META_COLUMNS]
        self._rows = _table(source.batches(names), source.schema, names, options.memory)
        for name in on or ():
            if name not in names:
                raise KeyError(f"on: the rows have no column {name!r}; they have {listed(names)}")
        keys = IncomingKeys(
            self._rows if on is None else self._rows.select(list(on)),
            columns,
            view.options,
            named=written_name(view),
            everywhere=everywhere,
        )
        self._has_partitions = keys.has_partitions
        #: The record key of each row, and its partition.
        self.keys: Incoming = Incoming.joined(list(keys.batches()), pa.schema([]))
        self._check_each_once(self.keys)
        self._plan(clauses, columns)

    def _plan(self, clauses: GivenMerge, columns: pa.Schema) -> None:
        given = self._rows.schema
        fixed = fixed_columns(self._view.options)
        target = {name: f"{TARGET}{name}" for name in columns.names}
        source = {name: f"{SOURCE}{name}" for name in given.names}
        both = Aliases(
            pa.schema([
                *(columns.field(name).with_name(full) for name, full in target.items()),
                *(given.field(name).with_name(full) for name, full in source.items()),
            ]),
            {"target": target, "source": source},
        )  # fmt: skip
        alone = Aliases(
            pa.schema([given.field(name).with_name(full) for name, full in source.items()]),
            {"source": source},
        )
        stored = Aliases(columns, {"target": {name: name for name in columns.names}})
        self._matched = [
            Clause(
                condition(one.where, both, f"{one.name}: where"),
                None if one.deletes else self._updates(one, columns, fixed, both),
            )
            for one in clauses.matched
        ]
        self._unmatched = [
            Clause(
                condition(one.where, alone, f"{one.name}: where"),
                self._inserts(one, columns, fixed, alone),
            )
            for one in clauses.unmatched
        ]
        self._left = [condition(one.where, stored, f"{one.name}: where") for one in clauses.left]
        #: Columns of which changed rows keep the stored values.
        self.kept: MissingColumns = kept_columns(columns, self._matched)

    def found(self, find_keys: FindKeys, find_rows: FindRows) -> Iterator[Found]:
        """Yield the rows that change, go or are new, with their places.

        Args:
            find_keys: finds where keys are.
            find_rows: finds rows of the table.

        Raises:
            ValueError: a value cannot be computed, or does not fit its column.
            CorruptionError: a base file is damaged.
            StaleStoreError: one is gone: a clean came between.
        """
        tagged, rows = find_keys(self.keys, self._has_partitions)
        self._check_same_keys(tagged, rows)
        where = np.flatnonzero(tagged.found)
        rows = rows[where]
        numbers, positions = tagged.slice_numbers[where], tagged.positions[where]
        order = np.lexsort((positions, numbers))
        flagged = bool(self._left) or any(one.sets is None for one in self._matched)
        changed = ChangedRows(self._view, self._matched, TARGET, flagged=flagged)
        named = self._rows.rename_columns([f"{SOURCE}{one}" for one in self._rows.column_names])
        keys = concat(self.keys.keys.chunks, pa.string())
        for number in np.unique(numbers).tolist() if self._matched else ():
            which = order[numbers[order] == number]
            at = pa.array(rows[which])
            file = tagged.slices[number]
            yield from changed.of_file(file, keys.take(at), positions[which], named.take(at))
        yield from self._new(changed, named, np.setdiff1d(np.arange(len(self.keys)), rows))
        if self._left:
            met = {
                tagged.slices[number].path: positions[numbers == number]
                for number in np.unique(numbers).tolist()
            }
            yield from changed.deleted(self._not_met(find_rows, met))

    def _new(self, changed: ChangedRows, named: pa.Table, rows: Rows) -> Iterator[Found]:
        """Yield given rows that clauses insert."""
        columns = self._view.table_schema.columns
        for clause in self._unmatched:
            assert clause.sets is not None
            given = named.take(pa.array(rows))
            taken = holds(given, clause.where)
            at = pa.array(rows[taken])
            keys = self.keys.keys.take(at)
            values = clause.sets.computed(
                given.filter(pa.array(taken)), concat(keys.chunks, pa.string())
            )
            by_name = dict(zip((one.name for one in clause.sets.fields), values, strict=True))
            count = len(at)
            table = pa.table(
                [
                    by_name[one.name] if one.name in by_name else pa.nulls(count, one.type)
                    for one in columns
                ],
                schema=columns,
            )
            if count:
                yield changed.inserted(table, keys, paths_of(table, self._view.options))
            rows = rows[~taken]

    def _not_met(self, find_rows: FindRows, met: Mapping[str, Rows]) -> Iterator[StoredRows]:
        """Yield rows of the table whose keys are not given, and that a clause deletes."""
        where = pc.scalar(False)
        for one in self._left:
            where = pc.field(RECORD_KEY).is_valid() if one is None else where | one
            if one is None:
                break
        for file, keys, positions in find_rows(self._view, where):
            stays = ~np.isin(positions, met.get(file.path, np.empty(0, np.int64)))
            if stays.any():
                yield file, keys.filter(pa.array(stays)), positions[stays]

    def _updates(
        self, clause: GivenClause, columns: pa.Schema, fixed: Sequence[str], aliases: Aliases
    ) -> Assignments:
        sets = clause.sets
        if sets is None:
            names = self._stored_names(clause, columns)
            sets = {name: pc.field(f"{SOURCE}{name}") for name in names if name not in fixed}
            if not sets:
                raise ValueError(
                    f"{clause.name}: the rows have key columns only; say what is set, as in "
                    "set={'hits': 'target.hits + 1'}"
                )
        return planned_assignments(sets, columns, fixed, aliases, f"{clause.name}: set")

    def _inserts(
        self, clause: GivenClause, columns: pa.Schema, fixed: Sequence[str], aliases: Aliases
    ) -> Assignments:
        given = self._rows.column_names
        lacking = [name for name in fixed if name not in given]
        if lacking:
            raise ValueError(
                f"{clause.name}: the rows have no column {lacking[0]!r}, which every new row "
                "needs; add it to the rows"
            )
        sets = clause.sets
        if sets is None:
            sets = {name: f"source.{name}" for name in self._stored_names(clause, columns)}
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

    def _stored_names(self, clause: GivenClause, columns: pa.Schema) -> list[str]:
        """Return the columns of the rows that a clause stores which does not say any."""
        given = self._rows.column_names
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

    def _check_each_once(self, keys: Incoming) -> None:
        texts = concat(keys.keys.chunks, pa.string())
        table = pa.table({"key": texts, "path": keys.partitions.dictionary_decode()})
        counts = table.group_by(["key", "path"]).aggregate([([], "count_all")])
        if counts.num_rows == len(texts):
            return
        again = counts.filter(pc.greater(counts["count_all"], 1)).slice(0, 1)
        key = again["key"][0].as_py()
        same = pc.and_(pc.equal(texts, key), pc.equal(table["path"], again["path"][0]))
        one, other = np.flatnonzero(same.to_numpy())[:2].tolist()
        raise ValueError(
            f"rows: rows {one + 1} and {other + 1} both have the key {key!r}, so that it is open "
            "which of them a row of the table meets; give each key once"
        )

    def _check_same_keys(self, tagged: Tagged, rows: Rows) -> None:
        columns = self._view.table_schema.columns
        names = self._view.options.record_key
        key = pa.table({name: self._rows[name].cast(columns.field(name).type) for name in names})
        again = replace(tagged, rows=rows)
        check_same_keys(self._view, replace(self.keys, rows=key), again)


def _table(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, names: Sequence[str], memory: int
) -> pa.Table:
    """Read rows of a merge, which have to fit into memory.

    Raises:
        ValueError: they do not.
    """
    read, nbytes = [], 0
    for batch in batches:
        read.append(batch)
        nbytes += batch.nbytes
        if nbytes > memory:
            raise ValueError(
                f"rows: a merge keeps its rows in memory, and these have more than {memory:,} "
                "bytes; give options=WriteOptions(memory=...), or merge them in parts"
            )
    wanted = pa.schema([schema.field(name) for name in names])
    return pa.Table.from_batches(read, wanted)
