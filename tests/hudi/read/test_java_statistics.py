"""Bounds of columns in Java's metadata tables: those of the rows, and what scans do with them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.hudi.metadata import REDUCE, WITH_METADATA
from support.samples import amount

from lookupstore.hudi import HudiTable
from lookupstore.hudi.layout import quarantine, unreadable_statistics
from lookupstore.hudi.metadata.column_stats import FileColumn, column_hash, read_column_stats
from lookupstore.hudi.metadata.group_files import TIMELINE, group_files
from lookupstore.hudi.options import COLUMN_STATS
from lookupstore.hudi.read import java_statistics

pytestmark = pytest.mark.drawn(0.4)

ONE = "txn_id = 'TXN-001'"


def said_of(table: HudiTable) -> dict[tuple[str, str], FileColumn]:
    view = table.view()
    folder = view.folder.beside(TIMELINE)
    return read_column_stats(view.location, (), folder, view.schema.names)


@pytest.mark.parametrize("name", WITH_METADATA)
def test_what_java_says_is_what_files_have(real_tables: Path, name: str) -> None:
    """The oracle is pyarrow, which reads the files."""
    view = HudiTable.open(real_tables / name).view()
    said = said_of(HudiTable.open(real_tables / name))
    files = [group.current for group in view.groups(None)]
    known = java_statistics.java_statistics(view.location, view.options, (), view.schema, files)
    assert known is not None
    compared = 0
    for file in files:
        rows = pq.read_table(real_tables / name / file.path, partitioning=None)
        found = known.of_file(file.path, file.bytes)
        assert found is not None
        assert found.rows == len(rows)
        for column, one in found.columns.items():
            if (file.name, column) not in said:
                assert one.nulls is None
                continue
            ends = pc.min_max(rows[column])
            compared += 1
            assert one.nulls == rows[column].null_count
            assert [one.least, one.greatest] == [ends["min"], ends["max"]]
    assert compared >= 12 * len(files)


def test_keys_begin_with_the_hash_of_their_column(real_tables: Path) -> None:
    view = HudiTable.open(real_tables / WITH_METADATA[0]).view()
    groups = group_files(view.location, (), view.folder.beside(TIMELINE), COLUMN_STATS)
    assert [one.file_id for one in groups] == ["col-stats-0000-0", "col-stats-0001-0"]
    hashes = {
        entry.key[:12] for group in groups for records in group.records(view.location)
        for entry in records.file.entries
    }  # fmt: skip
    assert hashes <= {column_hash(one) for one in view.schema.names}
    assert len(hashes) >= 12


def random_filter(rng: random.Random, rows: pa.Table) -> pc.Expression:
    """Return a filter in which a value of the rows is compared, or several."""
    name = rng.choice(["txn_id", "txn_date", "txn_datetime", "txn_ts", "is_international", "region",
                       "merchant_name", "amount", "_hoodie_record_key"])  # fmt: skip
    if name not in rows.schema.names:
        name = "currency"
    value, field = pa.scalar(rng.choice(rows[name].to_pylist()), rows[name].type), pc.field(name)
    part = rng.choice(
        [field == value, field < value, field >= value, field != value, field.is_null(),
         field.isin([value]), ~(field <= value)]
    )  # fmt: skip
    if rng.random() < 0.7:
        return part
    return rng.choice([lambda a, b: a & b, lambda a, b: a | b])(part, random_filter(rng, rows))


@pytest.mark.parametrize("name", WITH_METADATA)
def test_filters_leave_out_files_and_no_rows(real_tables: Path, name: str, seed: int) -> None:
    rng = random.Random(seed)
    table = HudiTable.open(real_tables / name)
    rows = table.scan(skipping=False)
    left_out = 0
    for _ in range(amount(60, 2000)):
        where = random_filter(rng, rows)
        found = table.scan(filter=where)
        assert found.equals(rows.filter(where)), where
        funnel = table.explain_scan(where)
        assert funnel.unreadable is None
        left_out += funnel.partitions.count - funnel.statistics.count
        assert table.explain_scan(where, skipping=False).statistics == funnel.partitions
    assert left_out > 0


def test_bounds_that_footers_contradict_are_not_used(
    real_tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*given: Any) -> dict[tuple[str, str], FileColumn]:
        said = read_column_stats(*given)
        return {key: one._replace(least="TXN-900", greatest="TXN-999") for key, one in said.items()}

    monkeypatch.setattr(java_statistics, "read_column_stats", wrong)
    table = HudiTable.open(real_tables / WITH_METADATA[0])
    before = unreadable_statistics()
    with pytest.warns(
        UserWarning, match="skip no files: .*a footer that rules out the file, as the"
    ):
        assert len(table.scan(filter=ONE)) == 1
    assert unreadable_statistics() == before + 1


def test_counts_that_contradict_each_other_are_not_used(
    real_tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*given: Any) -> dict[tuple[str, str], FileColumn]:
        said = read_column_stats(*given)
        return {key: one._replace(values=9 + len(key[1])) for key, one in said.items()}

    monkeypatch.setattr(java_statistics, "read_column_stats", wrong)
    table = HudiTable.open(real_tables / WITH_METADATA[0])
    both = f"{ONE} and currency = 'no such one'"
    assert table.explain_scan(both).without_statistics.count == 5


def test_damage_is_told_and_loses_no_rows(real_table: Callable[[str], Path], seed: int) -> None:
    """Bytes are changed, files cut; the rows of a filter are those of before."""
    rng = random.Random(seed)
    path = real_table(WITH_METADATA[1])
    table = HudiTable.open(path)
    expected = table.scan(filter=ONE)
    files = sorted(
        one for one in (path / ".hoodie/metadata/column_stats").iterdir() if one.stat().st_size > 99
    )
    told = 0
    for _ in range(amount(60, 2000)):
        file = rng.choice(files)
        content = file.read_bytes()
        at = rng.randrange(len(content))
        changed = content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
        file.write_bytes(rng.choice([changed, content[:at]]))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert table.scan(filter=ONE).equals(expected), (file.name, at)
        told += any("statistics of columns cannot be read" in str(one.message) for one in caught)
        file.write_bytes(content)
    assert told > 0


def test_statistics_of_ours_go_first(real_table: Callable[[str], Path]) -> None:
    table = HudiTable.open(real_table(WITH_METADATA[0]))
    amounts = "amount < 10"  # Java's bounds of decimals are bytes
    assert table.explain_scan(amounts).without_statistics.count == 5
    table.collect_statistics(["amount"])
    assert table.explain_scan(amounts).without_statistics.count == 0
    assert table.explain_scan(ONE).statistics.count == 5


def test_what_was_found_wrong_of_a_file_is_not_used(real_table: Callable[[str], Path]) -> None:
    table = HudiTable.open(real_table(WITH_METADATA[0]))
    file = table.view().groups(None)[0].current
    quarantine(table.view().location, file.path, "a row was missed")
    assert table.explain_scan(ONE).without_statistics.count == 1


def test_they_are_not_used_when_a_write_has_taken_them_out(
    real_table: Callable[[str], Path],
) -> None:
    table = HudiTable.open(real_table(WITH_METADATA[0]))
    assert table.explain_scan(ONE).statistics.count == 1
    table.delete(table.scan(filter=ONE), options=REDUCE)
    funnel = table.explain_scan("txn_id = 'TXN-002'")
    assert funnel.without_statistics.count == funnel.files.count == funnel.statistics.count
