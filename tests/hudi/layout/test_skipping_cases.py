"""Random filters of random tables: what is skipped has no row, says Arrow, and says DuckDB.

Filters change each day; LOOKUPSTORE_TEST_SEED=N repeats a run that printed N.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support.hudi.filter_cases import Case, Cases, random_table

from lookupstore.filters import predicate_of, shown, told_to_arrow
from lookupstore.hudi import HudiTable

FILTERS = 20_000
# Of each table.
_EACH = 50


def ids(rows: pa.Table) -> list[int]:
    """Return the keys of rows, sorted."""
    found: list[int] = sorted(rows["id"].to_pylist())
    return found


class Oracles:
    """What rows a filter leaves, of all rows in memory."""

    def __init__(self, table: HudiTable) -> None:
        self.rows = table.scan()
        self._duckdb: Any = duckdb.connect()
        self._duckdb.execute("set timezone = 'UTC'; set threads = 1")
        self._duckdb.register("t", self.rows)

    def arrow(self, case: Case) -> list[int] | None:
        """Return the keys; None: the filter cannot be asked."""
        try:
            return ids(self.rows.filter(case.where))
        except pa.ArrowException:
            return None

    def duckdb(self, case: Case, literals: list[pa.Scalar]) -> list[int] | None:
        """Return the keys; None: DuckDB cannot say it."""
        if case.sql is None:
            return None
        columns = {f"p{at}": pa.array([one], one.type) for at, one in enumerate(literals)}
        self._duckdb.register("literals", pa.table(columns or {"p": [0]}))
        try:
            found = self._duckdb.execute(f"select id from t, literals where {case.sql}").fetchall()
        except duckdb.Error:
            return None
        return sorted(one for (one,) in found)


@pytest.mark.few(1)
@pytest.mark.parametrize("number", range(FILTERS // _EACH))
def test_what_is_skipped_has_no_row(number: int, tmp_path: Path, seed_of_the_day: int) -> None:
    seed = seed_of_the_day * 100_000 + number
    rng = random.Random(seed)
    table, columns = random_table(rng, tmp_path / "t")
    oracles, cases = Oracles(table), Cases(rng, columns)
    dataset = table.dataset()
    skipped = asked = by_duckdb = by_dataset = 0
    for _ in range(_EACH):
        case = cases.case()
        expected = oracles.arrow(case)
        if expected is None:
            continue
        said = f"seed {seed}: {shown(predicate_of(case.where))} {case.sql} {cases.literals}"
        funnel = table.explain_scan(case.where)
        try:
            found = ids(table.scan(filter=case.where))
            assert found == expected, f"{said}\n{funnel}"
            if told_to_arrow(case.where, table.schema) is case.where:
                # Arrow alone loses rows with NaN of the others.
                found = ids(dataset.to_table(columns=["id"], filter=case.where))
                assert found == expected, said
            left = list(dataset.get_fragments(filter=case.where))
            by_dataset += len(dataset.files) - len(left)
        except pa.ArrowInvalid:  # a bound that Arrow cannot compare, and the rows that it can
            continue
        also = oracles.duckdb(case, cases.literals)
        if also is not None:
            by_duckdb += 1
            assert also == expected, f"{said}: DuckDB"
        asked += 1
        skipped += funnel.partitions.count - funnel.statistics.count
    print(f"seed {seed}: {asked} filters, {by_duckdb} by DuckDB, {skipped} files skipped")
    print(f"{by_dataset} skipped by the dataset")
