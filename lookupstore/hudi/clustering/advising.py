"""Try orders of rows on a sample, by columns, curve and file size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lookupstore.filters import Filter, predicate_of, shown
from lookupstore.filters.column_bounds import ColumnBounds, may_be
from lookupstore.filters.predicates import (
    And,
    ColumnRef,
    Compare,
    Predicate,
    columns_of,
)
from lookupstore.hudi.clustering.advice import GAIN, OPEN_BYTES, ClusterAdvice, SimulatedOrder
from lookupstore.hudi.clustering.simulation import (
    NumberedColumn,
    SampledPartition,
    simulated_bounds,
)
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.layout import fitting_filter, known_bounds
from lookupstore.hudi.layout.choice import Curve
from lookupstore.hudi.layout.sample import Sample
from lookupstore.hudi.layout.statistics.file_statistics import has_bounds
from lookupstore.hudi.view import TableView

# Maximum number of columns to consider, those with most queries first, and of columns per order.
_MOST_COLUMNS, _MOST_TOGETHER = 6, 4
_MOST_PARTITIONS = 12
# Maximum size of the sample in bytes, and maximum number of rows to read for it: with more rows,
# only some row groups are read.
_MOST_BYTES, _MOST_READ = 256 << 20, 8 << 20
# Number of queries of each kind that are made up for a column.
_EACH = 8
# Name of the column of partition numbers in the sample; no other column has this name.
_PARTITION = "#"


@dataclass(frozen=True)
class _Query:
    """A query of one predicate, or of several of one kind, with its weight."""

    text: str
    predicates: tuple[Predicate, ...]
    weight: float


@dataclass(frozen=True, eq=False)
class _Sampled:
    """A sample of the rows of a table."""

    rows: int
    rows_sampled: int
    partitions: tuple[SampledPartition, ...]
    columns: Mapping[str, NumberedColumn]
    unsampled: float


def advise(
    view: TableView,
    queries: Sequence[Filter],
    columns: Sequence[str] | None,
    weights: Sequence[float] | None,
    target_file_sizes: Sequence[int],
) -> ClusterAdvice:
    """Try orders of the rows of a table.

    Args:
        view: View of the table.
        queries: Filters of your queries. Empty: made-up queries for one value and for 1 % of the
            rows, on each of `columns`.
        columns: Columns to order rows by. Default: the columns of the queries.
        weights: Relative frequency of each query. Default: the same for all.
        target_file_sizes: Target file sizes to try, in bytes.

    Raises:
        KeyError: If the table does not have a column.
        TypeError: If the values of a column have no order, or a query is not a filter.
        ValueError: If a query does not fit the columns, `weights` is not one number above 0 for
            each query, or both `queries` and `columns` are missing.
        ImportError: If a query is SQL, and sqlglot is not installed.
        CorruptionError: If the timeline or a file is damaged.
        FormatError: If a column of a file cannot be widened to the type in the table.
        StaleStoreError: If a file was deleted.
        OSError: If a file cannot be read.
    """
    asked = _given(view, queries, weights)
    if columns is None and not asked:
        raise ValueError("queries and columns are empty; give filters that are asked, or columns")
    weight_of: dict[str, float] = {}
    for one in asked:
        for name in dict.fromkeys(n for part in one.predicates for n in columns_of(part)):
            weight_of[name] = weight_of.get(name, 0) + one.weight
    names = list(weight_of) if columns is None else view.names(columns)
    for name in names if columns is not None else ():
        if not has_bounds(view.schema.field(name).type):
            raise TypeError(f"columns: {name!r} is {view.schema.field(name).type}: without order")
    known = [n for n in dict.fromkeys([*names, *weight_of]) if n in view.schema.names]
    known = [n for n in known if has_bounds(view.schema.field(n).type)]
    slices = [group.current for group in view.groups(None)]
    sampled = _sample(view, slices, known)
    if not asked:
        # There are no queries for a column without values.
        asked = [one for name in names for one in _made_up(name, sampled.columns[name])]
        weight_of = dict.fromkeys(names, 1.0)
    # The columns with most queries are first, which matters if rows are sorted column by column.
    by = [n for n in names if n in known and weight_of.get(n, 0) > 0]
    by = sorted(by, key=lambda name: -weight_of[name])
    now = _as_it_is(slices, known_bounds(view, slices, known), asked)
    orders = [
        _tried(sampled, columns_tried, curve, size, asked, now)
        for columns_tried, curve, size in _candidates(by[:_MOST_COLUMNS], target_file_sizes)
    ]
    unique = {(one.by, one.curve, one.files): one for one in orders}
    best = sorted(unique.values(), key=lambda one: (round(one.cost, 4), len(one.by)))
    return ClusterAdvice(
        rows=sampled.rows,
        rows_sampled=sampled.rows_sampled,
        partitions=len({one.group.partition for one in slices}),
        partitions_sampled=len(sampled.partitions),
        queries=tuple(one.text for one in asked),
        now=replace(now, cost=1.0),
        orders=tuple(best),
        useless=tuple(_useless(names, by, best)),
    )


def _given(
    view: TableView, queries: Sequence[Filter], weights: Sequence[float] | None
) -> list[_Query]:
    if weights is not None and not _are_weights(weights, len(queries)):
        raise ValueError(
            "weights are not one for each query, a number above 0; give as many, or none"
        )
    found = []
    for one, weight in zip(queries, weights or [1.0] * len(queries), strict=True):
        predicate = predicate_of(fitting_filter(one, view.schema, view.location))
        text = one if isinstance(one, str) else shown(predicate)
        found.append(_Query(text, (predicate,), weight))
    return found


def _are_weights(given: Sequence[float], count: int) -> bool:
    try:
        return len(given) == count and all(0 < one < math.inf for one in given)
    except TypeError:  # not a number
        return False


def _made_up(name: str, column: NumberedColumn) -> Iterator[_Query]:
    """Yield queries for one value and for 1 % of the rows, evenly over the rows."""
    numbers = np.sort(column.numbers[column.numbers >= 0])
    if not len(numbers):
        return
    for text, share in (("one value", 0.0), ("1 % of rows", 0.01)):
        evenly = (np.arange(_EACH) + 0.5) / _EACH * (1 - share)
        first = (evenly * len(numbers)).astype(np.int64)
        last = np.minimum(first + int(share * len(numbers)), len(numbers) - 1)
        low, high = (column.values.take(pa.array(numbers[at])) for at in (first, last))
        parts = (
            And(Compare(ColumnRef(name), ">=", one), Compare(ColumnRef(name), "<=", other))
            for one, other in zip(low, high, strict=True)
        )
        yield _Query(f"{name}: {text}", tuple(parts), 1.0)


def _candidates(
    by: Sequence[str], sizes: Sequence[int]
) -> Iterator[tuple[tuple[str, ...], Curve, int]]:
    for count in range(1, min(len(by), _MOST_TOGETHER) + 1):
        for columns in combinations(by, count):
            curves: tuple[Curve, ...] = get_args(Curve) if count > 1 else ("linear",)
            for curve in curves:
                for size in sorted(sizes, reverse=True):
                    yield columns, curve, size


def _sample(view: TableView, slices: Sequence[FileSlice], names: Sequence[str]) -> _Sampled:
    """Return a sample of the rows of some partitions.

    All partitions are sampled if there are few. Otherwise they are chosen evenly by their bytes.
    """
    files: dict[str, list[FileSlice]] = {}
    for one in slices:
        files.setdefault(one.group.partition, []).append(one)
    paths = sorted(files)
    sizes = np.array([sum(one.bytes for one in files[path]) for path in paths], np.int64)
    chosen = np.arange(len(paths))
    if len(paths) > _MOST_PARTITIONS:
        evenly = (np.arange(_MOST_PARTITIONS) + 0.5) / _MOST_PARTITIONS * sizes.sum()
        chosen = np.unique(np.searchsorted(np.cumsum(sizes), evenly, side="right"))
    fields = [view.schema.field(name) for name in names]
    fields = [
        one.with_type(one.type.value_type) if pa.types.is_dictionary(one.type) else one
        for one in fields
    ]
    schema = pa.schema(fields)
    sample = Sample(schema.append(pa.field(_PARTITION, pa.int32())), _MOST_BYTES)
    opened = [
        (number, SliceRows(view.location, one, schema, threads=True))
        for number, at in enumerate(chosen)
        for one in files[paths[at]]
    ]
    rows = sum(sum(one.group_rows) for _, one in opened)
    step, seen = -(-rows // _MOST_READ) or 1, 0
    for number, stored in opened:
        for group in range(len(stored.group_rows)):
            seen += 1
            if seen % step == 0:
                for batch in stored.batches(group):
                    sample.add(_numbered(batch, schema, number))
    table = sample.rows().combine_chunks().sort_by(_PARTITION)
    numbers = table[_PARTITION].to_numpy()
    partitions = []
    every = len(chosen) == len(paths)
    for number, at in enumerate(chosen):
        first, end = np.searchsorted(numbers, [number, number + 1])
        # If not all partitions are sampled, each sampled one represents as many bytes.
        times = 1.0 if every else float(sizes.sum() / len(chosen) / max(1, sizes[at]))
        own = table.slice(first, end - first)
        partitions.append(SampledPartition(int(sizes[at]), times, own, int(first)))
    columns = {name: NumberedColumn.of(table[name]) for name in names}
    unsampled = 1 - table.num_rows / max(1, rows)
    if not every:
        rows = round(rows * sizes.sum() / max(1, sizes[chosen].sum()))
    return _Sampled(rows, table.num_rows, tuple(partitions), columns, unsampled)


def _numbered(batch: pa.RecordBatch, schema: pa.Schema, number: int) -> pa.RecordBatch:
    """Return rows without dictionaries, with the number of their partition."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    columns.append(pa.array(np.full(batch.num_rows, number, np.int32)))
    return pa.RecordBatch.from_arrays(
        columns, schema=schema.append(pa.field(_PARTITION, pa.int32()))
    )


def _as_it_is(
    slices: Sequence[FileSlice], known: Mapping[str, ColumnBounds], asked: Sequence[_Query]
) -> SimulatedOrder:
    sizes = np.array([one.bytes for one in slices], np.float64)
    weights = np.ones(len(slices))
    queries = [_shares(known, one, weights, sizes) for one in asked]
    read_files, read_bytes = _mean(queries, asked)
    cost = read_bytes * float(sizes.sum()) + read_files * len(slices) * OPEN_BYTES
    return SimulatedOrder(
        (), None, 0, len(slices), read_files, read_bytes, cost, 0.0, tuple(queries)
    )


def _tried(
    sampled: _Sampled,
    by: tuple[str, ...],
    curve: Curve,
    target_file_size: int,
    asked: Sequence[_Query],
    now: SimulatedOrder,
) -> SimulatedOrder:
    """Return the cost of queries in a tried order, relative to the current cost."""
    read = np.zeros((len(asked), 2))
    files, nbytes, rows_per_file = 0.0, 0.0, []
    for one in sampled.partitions:
        count = one.files(target_file_size)
        rows = one.in_order(by, curve, count)
        files += one.times * count
        nbytes += one.times * one.bytes
        if not len(rows):
            read += np.array([one.times * count, one.times * one.bytes])
            continue
        bounds, boxes = simulated_bounds(rows, count, sampled.columns, sampled.unsampled)
        even = np.full(boxes, 1 / boxes)
        shares = np.array([_shares(bounds, query, even, even)[0] for query in asked])
        read += shares[:, None] * np.array([one.times * count, one.times * one.bytes])
        rows_per_file.append(len(rows) / count)
    queries = [(float(a), float(b)) for a, b in read / np.array([max(files, 1), max(nbytes, 1)])]
    read_files, read_bytes = _mean(queries, asked)
    cost = read_bytes * nbytes + read_files * files * OPEN_BYTES
    least = min(rows_per_file, default=0.0)
    return SimulatedOrder(
        by,
        curve,
        target_file_size,
        round(files),
        read_files,
        read_bytes,
        cost / now.cost if now.cost else 1.0,
        least,
        tuple(queries),
    )


def _shares(
    known: Mapping[str, ColumnBounds],
    query: _Query,
    files: npt.NDArray[np.float64],
    nbytes: npt.NDArray[np.float64],
) -> tuple[float, float]:
    """Return the shares of files and bytes that a query reads."""
    read = [may_be(one, known, len(files))[0] for one in query.predicates]
    mean = np.mean(read, axis=0)
    return float(mean @ files / max(files.sum(), 1e-9)), float(
        mean @ nbytes / max(nbytes.sum(), 1e-9)
    )


def _mean(queries: Sequence[tuple[float, float]], asked: Sequence[_Query]) -> tuple[float, float]:
    if not queries:
        return 0.0, 0.0
    weights = np.array([one.weight for one in asked])
    files, nbytes = np.average(np.array(queries), axis=0, weights=weights)
    return float(files), float(nbytes)


def _useless(
    names: Sequence[str], by: Sequence[str], orders: Sequence[SimulatedOrder]
) -> Iterator[tuple[str, str]]:
    """Yield the columns that are not worth ordering by, each with the reason."""
    for name in names:
        if name not in by:
            yield name, "no query asks for it in a way that bounds of files answer"
            continue
        if name not in by[:_MOST_COLUMNS]:
            yield name, f"others are asked for more; no more than {_MOST_COLUMNS} were tried"
            continue
        with_it = min((one.cost for one in orders if name in one.by), default=1.0)
        without = min((one.cost for one in orders if name not in one.by), default=1.0)
        if with_it > min(without, 1.0) * (1 - GAIN):
            yield name, "queries read as little without it in the order"
