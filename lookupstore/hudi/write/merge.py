"""Match given rows with stored rows by key, and apply the clauses of a merge.

A stored row matches at most one given row, because no two given rows may have the same key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lookupstore.arrow.types import concat, plain_type, unwrap
from lookupstore.errors import listed
from lookupstore.hudi.index.row_tags import written_name
from lookupstore.hudi.index.tagging import Tagged
from lookupstore.hudi.keys.incoming import Incoming, IncomingKeys, ordering_of
from lookupstore.hudi.keys.key_generator import paths_of
from lookupstore.hudi.keys.missing_columns import MissingColumns
from lookupstore.hudi.meta_columns import META_COLUMNS, RECORD_KEY
from lookupstore.hudi.view import TableView
from lookupstore.hudi.write.assignments import fixed_columns
from lookupstore.hudi.write.merge_plan import GivenMerge, MergePlan, planned_merge
from lookupstore.hudi.write.options import WriteOptions
from lookupstore.hudi.write.placing import check_same_keys
from lookupstore.hudi.write.rows.stored import Found, StoredRows
from lookupstore.hudi.write.statements import SOURCE, TARGET, ClauseRows
from lookupstore.source.kept import opened
from lookupstore.source.opening import in_types, with_every_column

Rows = npt.NDArray[np.int64]
#: Function that finds the rows of a table for which a condition is true.
FindRows = Callable[[TableView, pc.Expression], Iterable[StoredRows]]
#: Function that finds the places of keys. The second argument is whether keys have partitions.
FindKeys = Callable[[Incoming, bool], tuple[Tagged, Rows]]


class MergedRows:
    """The rows that a merge changes, deletes and inserts.

    Args:
        given: Given rows, in any form that `HudiTable.upsert` takes.
        clauses: Clauses of the merge.
        view: The table.
        options: Options of the write.
        on: Key columns that rows are matched by. None: the record key, and the partition columns if
            the given rows have them.
        is_global: Whether keys are looked up in all partitions.

    Raises:
        TypeError: If the rows, or the values of a clause, do not fit the table.
        KeyError: If the table does not have a column that a clause sets.
        ValueError: If two rows have the same key, or a clause cannot be parsed.
    """

    def __init__(
        self,
        given: Any,
        clauses: GivenMerge,
        view: TableView,
        options: WriteOptions,
        *,
        on: Sequence[str] | None,
        is_global: bool,
    ) -> None:
        self._view = view
        columns = view.table_schema.columns
        source = opened(given, lambda rows: in_types(with_every_column(rows), columns))
        names = [name for name in source.schema.names if name not in META_COLUMNS]
        for name, count in Counter(names).items():
            if count > 1:
                raise ValueError(f"rows have the column {name!r} twice; rename one of them")
        for name in on or view.options.record_key:
            if name not in names:
                raise ValueError(
                    f"rows have no column {name!r}, which is in the key; they have {listed(names)}"
                )
        self._rows = _table(source.batches(names), source.schema, names, options.memory)
        keys = IncomingKeys(
            self._rows if on is None else self._rows.select(list(on)),
            columns,
            view.options,
            named=written_name(view),
            is_global=is_global,
        )
        self._has_partitions = keys.has_partitions
        #: Record key and partition of each given row.
        self.keys: Incoming = Incoming.joined(list(keys.batches()), pa.schema([]))
        self._check_each_once(self.keys)
        fixed = fixed_columns(view.options)
        self._plan: MergePlan = planned_merge(
            clauses, self._rows.schema, columns, fixed, ordering_of(view.options)
        )
        #: Columns whose stored values changed rows keep.
        self.kept: MissingColumns = self._plan.kept

    def found(self, find_keys: FindKeys, find_rows: FindRows) -> Iterator[Found]:
        """Yield changed, deleted and new rows, with their places.

        Args:
            find_keys: Function that finds the places of keys.
            find_rows: Function that finds the stored rows that meet a condition.

        Raises:
            ValueError: If a value cannot be computed, or does not fit its column.
            CorruptionError: If a base file is damaged.
            StaleStoreError: If a clean or a rollback deleted a base file.
        """
        tagged, rows = find_keys(self.keys, self._has_partitions)
        self._check_same_keys(tagged, rows)
        where = np.flatnonzero(tagged.found)
        rows = rows[where]
        numbers, positions = tagged.slice_numbers[where], tagged.positions[where]
        order = np.lexsort((positions, numbers))
        plan = self._plan
        changed = ClauseRows(
            self._view.location, plan.columns, plan.matched, TARGET, flagged=plan.deletes
        )
        given = self._rows.rename_columns([f"{SOURCE}{one}" for one in self._rows.column_names])
        keys = concat(self.keys.keys.chunks, pa.string())
        for number in np.unique(numbers).tolist() if plan.matched else ():
            which = order[numbers[order] == number]
            at = pa.array(rows[which])
            file = tagged.slices[number]
            yield from changed.of_file(file, keys.take(at), positions[which], given.take(at))
        lacking = np.setdiff1d(np.arange(len(self.keys)), rows)
        for new, stored in plan.new_rows(given, keys, lacking):
            texts = self.keys.keys.take(pa.array(new))
            yield changed.inserted(stored, texts, paths_of(stored, self._view.options))
        if plan.left:
            met = {
                tagged.slices[number].path: positions[numbers == number]
                for number in np.unique(numbers).tolist()
            }
            yield from changed.deleted(self._not_met(find_rows, met))

    def _not_met(self, find_rows: FindRows, met: Mapping[str, Rows]) -> Iterator[StoredRows]:
        """Yield stored rows whose key is not given, and that a clause deletes."""
        where = pc.scalar(False)
        for one in self._plan.left:
            where = pc.field(RECORD_KEY).is_valid() if one is None else where | one
            if one is None:
                break
        for file, keys, positions in find_rows(self._view, where):
            stays = ~np.isin(positions, met.get(file.path, np.empty(0, np.int64)))
            if stays.any():
                yield file, keys.filter(pa.array(stays)), positions[stays]

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
            f"rows: rows {one + 1} and {other + 1} both have the key {key!r}; give each key once"
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
    """Read the given rows into memory, in types that conditions and values can be computed of.

    Arrow compares neither views, which polars has, nor dictionaries with texts.

    Raises:
        ValueError: If they need more memory than the option allows.
    """
    read, nbytes = [], 0
    wanted = pa.schema([_plain(schema.field(name)) for name in names])
    for given in batches:
        columns = [
            given[field.name] if given[field.name].type == field.type else unwrap(given[field.name])
            for field in wanted
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=wanted)
        read.append(batch)
        nbytes += batch.nbytes
        if nbytes > memory:
            raise ValueError(
                f"rows: a merge keeps its rows in memory, and these have more than {memory:,} "
                "bytes; give options=WriteOptions(memory=...), or merge them in parts"
            )
    return pa.Table.from_batches(read, wanted)


def _plain(field: pa.Field) -> pa.Field:
    is_extension = isinstance(field.type, pa.BaseExtensionType)
    return field if is_extension else field.with_type(plain_type(field.type))
