"""Files and row groups that a condition rules out by statistics are not read."""

from __future__ import annotations

import datetime
import math
import operator
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.random_columns import random_value

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import CorruptionError
from lookupstore.filters.row_filter import RowFilter, row_filter
from lookupstore.source.opening import open_source
from lookupstore.source.skipping import StatisticsFilter, constant_statistics
from lookupstore.source.source import where_rows

GROUP = 100


def write(path: Path, first: int = 0, groups: int = 4) -> None:
    """Write rows in ascending order of `id`, some at a time to a row group."""
    ids = range(first, first + groups * GROUP)
    rows = pa.table({"id": ids, "name": [f"n{one}" for one in ids]})
    pq.write_table(rows, path, row_group_size=GROUP)


def damage(path: Path, group: int) -> None:
    """Change all pages of a row group."""
    chunks = pq.read_metadata(path).row_group(group)
    content = bytearray(path.read_bytes())
    for number in range(chunks.num_columns):
        chunk = chunks.column(number)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        for at in range(start, start + chunk.total_compressed_size):
            content[at] ^= 0x5A
    path.write_bytes(content)


def read(given: Path, where: Any, columns: list[str] | None = None) -> pa.Table:
    source = open_source(given)
    found = where_rows(source, row_filter(where, source.schema))
    names = columns or source.schema.names
    schema = pa.schema([source.schema.field(name) for name in names])
    return pa.Table.from_batches(found.batches(names), schema)


@pytest.mark.parametrize("groups", [4, 3000])
def test_damaged_row_groups_that_the_condition_rules_out(groups: int, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, groups=groups)  # a large file is read otherwise than a small one
    damage(path, 1)
    damage(path, 3)
    assert read(path, "id < 100 or id between 200 and 299").num_rows == 200
    assert read(path, ("id", "in", [5, 299]), ["name"])["name"].to_pylist() == ["n5", "n299"]
    with lookupstore.build(path, tmp_path / "s", key="id", where="id < 100") as store:
        assert list(store) == [*range(100)]
    with pytest.raises(CorruptionError, match=r"a\.parquet"):
        read(path, "id < 101")
    with pytest.raises(CorruptionError, match=r"a\.parquet"):
        read(path, "name = 'n5' or id > 0")


def test_an_error_names_the_damage_of_a_row_group_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, groups=3000)
    damage(path, 1)
    damage(path, 3)
    with pytest.raises(CorruptionError) as caught:
        read(path, "id between 300 and 310", ["id"])
    chunk = pq.read_metadata(path).row_group(3).column(0)
    assert caught.value.offset == (chunk.dictionary_page_offset or chunk.data_page_offset)


def test_errors_count_the_rows_of_row_groups_that_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    first = pa.table({"id": range(10), "n": pa.array([0] * 10, pa.int32())})
    pq.write_table(first, tmp_path / "0.parquet")
    wide = pa.table({"id": range(300), "n": [0] * 250 + [1 << 40] + [0] * 49})
    pq.write_table(wide, path, row_group_size=GROUP)
    source = open_source([tmp_path / "0.parquet", path])
    found = where_rows(source, row_filter("id >= 200", source.schema))
    with pytest.raises(ValueError, match=r"of row 251"):
        list(found.batches(["id", "n"]))
    texts = pa.array([b"x"] * 250 + [b"\xff"] + [b"x"] * 49)
    bad = pa.StringArray.from_buffers(300, texts.buffers()[1], texts.buffers()[2])
    pq.write_table(pa.table({"id": range(300), "t": bad}), path, row_group_size=GROUP)
    with pytest.raises(ValueError, match=r"row 251\b"):
        read(path, "id >= 200")


def test_lookups_in_files_whose_statistics_meet_the_condition(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    for number in range(3):
        write(folder / f"{number}.parquet", first=number * 1000)
    for group in range(4):
        damage(folder / "2.parquet", group)
    where = "id > 350 and id < 1100"
    with ColumnarFiles(folder, key="id", where=where) as files:
        assert files.num_files == 2
        assert files.lookup([351, 350, 1099, 1100])["name"].to_pylist() == [
            "n351", None, "n1099", None,
        ]  # fmt: skip
    with ColumnarFiles(folder, key="id", where="name = 'n5' and id = 7") as files:
        assert files.num_files == 1


def test_folders_are_not_read_if_their_values_rule_them_out(tmp_path: Path) -> None:
    for day in ("2024-01-01", "2024-01-02"):
        (tmp_path / f"day={day}").mkdir()
        write(tmp_path / f"day={day}" / "a.parquet")
    (tmp_path / "day=2024-01-02" / "a.parquet").write_bytes(b"PAR1 not Parquet PAR1")
    found = read(tmp_path, "day < date '2024-01-02' and id = 3")
    assert found.to_pylist() == [
        {"id": 3, "name": "n3", "day": datetime.date(2024, 1, 1)}
    ]  # fmt: skip


def test_a_value_of_all_rows_that_is_nan_or_null() -> None:
    columns = pa.schema({"x": pa.float64()})
    values = [pa.scalar(one, pa.float64()) for one in (math.nan, None, 1.0)]
    known = [{"x": constant_statistics(one, 3)} for one in values]

    def may_match(expression: pc.Expression) -> list[bool]:
        by_statistics = StatisticsFilter(RowFilter(expression, ("x",)), columns)
        return by_statistics.may_match(known, [3, 3, 3]).tolist()

    x = pc.field("x")
    assert may_match(x.isin([math.nan])) == [True, False, False]
    assert may_match(x != 2) == [True, False, True]
    assert may_match(x.is_null()) == [False, True, False]


def by_arrow(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, row_group_size=20)


def by_duckdb(rows: pa.Table, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("given", rows)
        connection.execute(f"copy given to '{path}' (format parquet, row_group_size 20)")


@pytest.mark.parametrize("write_rows", [by_arrow, by_duckdb])
def test_random_conditions_find_the_rows_that_arrow_finds(
    write_rows: Callable[[pa.Table, Path], None], tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    kinds = [pa.int8(), pa.float64(), pa.string(), pa.decimal128(5, 2), pa.date32()]
    ruled_out = 0
    for number in range(15):
        names = [f"c{at}" for at in range(3)]
        columns = {}
        for name in names:
            kind = chance.choice(kinds)
            base = pa.int32() if kind == pa.date32() else kind
            some = [random_value(base, chance) for _ in range(chance.randrange(1, 60))]
            values = pa.array(sorted(some * 3, key=repr)[:100], base).cast(kind)
            columns[name] = pa.concat_arrays([values, pa.nulls(180 - len(values), kind)])
        path = tmp_path / f"{number}.parquet"
        write_rows(pa.table(columns), path)
        rows = pq.read_table(path)
        for _ in range(10):
            one, other = (random_condition(rows, chance.choice(names), chance) for _ in range(2))
            expression = chance.choice([one, ~one, one & other, one | other, ~(one & ~other)])
            condition = RowFilter(expression, tuple(names))
            found = where_rows(open_source(path), condition)
            batches = list(found.batches(names))
            ruled_out += not batches
            expected = rows.filter(condition.kept(rows.combine_chunks().to_batches()[0]))
            read = pa.Table.from_batches(batches, rows.schema)
            assert repr(read.to_pylist()) == repr(expected.to_pylist()), expression
    assert ruled_out


def random_condition(rows: pa.Table, name: str, chance: random.Random) -> pc.Expression:
    column = rows[name]
    value = column[chance.randrange(rows.num_rows)]
    if not value.is_valid:
        return pc.field(name).is_null()
    if chance.random() < 0.3:
        return pc.field(name).isin(pa.array([value, column[0]], column.type))
    compare = chance.choice([operator.eq, operator.ne, operator.lt, operator.le, operator.ge])
    return compare(pc.field(name), value)
