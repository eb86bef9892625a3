"""What queries read, by what is said of bounds, against what all rows say."""

from __future__ import annotations

import json
import math
import os
import random
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.errors import CorruptionError
from lookupstore.filters.column_bounds import ColumnBounds
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.clustering.plan import CHOICE
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout import LayoutHealth, layout_health
from lookupstore.hudi.layout.health.spread import ColumnSpread
from lookupstore.hudi.timeline.names import GroupId

SEED = int(os.environ.get("LOOKUPSTORE_TEST_SEED", "23"))
QUERIES = {"one value": 0.0, "1 % of rows": 0.01, "10 % of rows": 0.1}
FILES, ROWS = 12, 300
LIST = pa.list_(pa.int32())
SCHEMA = pa.schema(
    {"id": pa.int64(), "a": pa.int64(), "x": pa.float64(), "s": pa.string(), "l": LIST}
)
Shares = dict[tuple[str, str], float]


def some(chance: np.random.Generator, first: int) -> pa.Table:
    """Return rows with nulls, NaN and texts that are cut."""
    gone = chance.random(ROWS) < 0.1
    x = np.where(chance.random(ROWS) < 0.05, math.nan, chance.lognormal(0, 2, ROWS))
    texts = ["k" * 40 + f"{one:08d}" + "é" * 30 for one in chance.integers(0, 10**8, ROWS)]
    return pa.table(
        {
            "id": np.arange(first, first + ROWS),
            "a": pa.array(np.minimum(chance.zipf(1.2, ROWS), 10**9), mask=gone),
            "x": x,
            "s": texts,
            "l": pa.nulls(ROWS, LIST),
        },
        schema=SCHEMA,
    )


def made(path: Path, seed: int) -> HudiTable:
    chance = np.random.default_rng(seed)
    table = HudiTable.create(path, SCHEMA, record_key="id")
    for at in range(FILES):
        table.bulk_insert(some(chance, at * ROWS))
    return table


def clustered(table: HudiTable, by: list[str], curve: Any = "hilbert") -> None:
    size = sum(one.current.bytes for one in table.file_groups())
    table.cluster(by, curve=curve, target_file_size=size // len(table.file_groups()))


def shares(health: LayoutHealth) -> Shares:
    return {(one.column, one.query): one.files for one in health.queries}


def by_rows(table: HudiTable, columns: list[str]) -> Shares:
    """Return the shares of files whose rows reach over what queries ask, by all rows."""
    rows = table.scan()
    names = rows["_hoodie_file_name"].to_pylist()
    found = {}
    for column in columns:
        files: dict[str, list[Any]] = {name: [] for name in names}
        for name, value in zip(names, rows[column].to_pylist(), strict=True):
            if value is not None and value == value:
                files[name].append(value)
        ends = [(min(one), max(one)) for one in files.values() if one]
        values = sorted(value for one in files.values() for value in one)
        for query, share in QUERIES.items():
            read = 0
            for at in range(200):
                start = (at + 0.5) / 200 * (1 - share)
                low = values[int(start * len(values))]
                high = values[min(int((start + share) * len(values)), len(values) - 1)]
                read += sum(one <= high and other >= low for one, other in ends)
            found[column, query] = read / 200 / len(files)
    return found


def assert_near(health: LayoutHealth, expected: Shares, within: float) -> None:
    found = shares(health)
    assert found.keys() == expected.keys()
    for query, share in expected.items():
        assert abs(found[query] - share) < within, f"{query}: {share} by rows\n{health}"


@pytest.mark.few(3)
@pytest.mark.parametrize("by", [[], ["a"], ["a", "x"], ["s", "x"]], ids=",".join)
@pytest.mark.parametrize("number", range(2))
def test_what_is_expected_is_what_rows_say(tmp_path: Path, by: list[str], number: int) -> None:
    seed = SEED + number
    print(f"seed {seed}")
    table = made(tmp_path / "t", seed)
    columns = ["a", "x", "s"]
    if by:
        clustered(table, by)
    of_footers = table.layout_health(columns)
    table.collect_statistics()
    of_statistics = table.layout_health(columns)
    assert_near(of_statistics, by_rows(table, columns), 0.12)
    assert_near(of_footers, shares(of_statistics), 0.02)
    for at in range(4):
        table.bulk_insert(some(np.random.default_rng(seed + at), (FILES + at) * ROWS))
    assert_near(table.layout_health(columns), by_rows(table, columns), 0.12)


def test_no_file_is_opened_where_there_are_statistics(tmp_path: Path) -> None:
    table = made(tmp_path / "t", SEED)
    table.collect_statistics(["a", "x"])
    before = table.layout_health()
    assert {one.column for one in before.queries} == {"a", "x"}
    for one in table.file_groups():
        path = tmp_path / "t" / one.current.path
        path.write_bytes(b"\0" * path.stat().st_size)
    assert table.layout_health(["a", "x"]) == table.layout_health() == before
    with pytest.raises(CorruptionError):
        table.layout_health(["s"])


def test_files_without_statistics_count_as_read(tmp_path: Path) -> None:
    table = made(tmp_path / "t", SEED)
    clustered(table, ["a"], "linear")
    table.collect_statistics(["a"])
    alone = {one.query: one for one in table.layout_health("a").queries}
    # As another writer does, who keeps none.
    columns = tmp_path / "t" / ".hoodie/.lookupstore/statistics/columns.json"
    kept = columns.rename(tmp_path / "kept")
    for at in range(4):
        table.bulk_insert(some(np.random.default_rng(at), (FILES + at) * ROWS))
    kept.rename(columns)
    found = table.layout_health("a")
    assert found.files == FILES + 4
    for one in found.queries:
        assert one.unknown == 4
        before = alone[one.query]
        assert before.unknown == 0
        assert one.files == pytest.approx((before.files * FILES + 4) / (FILES + 4))


def test_a_clustering_makes_it_better_and_says_the_columns(tmp_path: Path) -> None:
    table = made(tmp_path / "t", SEED)
    before = table.layout_health()
    assert {one.column for one in before.queries} == {"id", "a", "x", "s"}
    worse = {key: one for key, one in shares(table.layout_health(["x", "s"])).items()}
    assert min(worse.values()) > 0.8
    clustered(table, ["x", "s"], "grid")
    after = table.layout_health()
    assert list(dict.fromkeys(one.column for one in after.queries)) == ["x", "s"]
    for one in after.queries:
        assert one.files < 0.6 < worse[one.column, one.query]
        # As good as is possible, about.
        assert one.files < one.grid + 0.15
        assert one.sorted < one.grid


def slices(count: int, partition: str = "") -> list[FileSlice]:
    return [FileSlice(GroupId(partition, f"f{at}"), "1", f"f{at}", 100) for at in range(count)]


def bounds(ends: list[tuple[int, int] | None], rows: int = 1000) -> ColumnBounds:
    """Return bounds of files; None: only nulls."""
    return ColumnBounds(
        pa.array([None if one is None else one[0] for one in ends], pa.int64()),
        pa.array([None if one is None else one[1] for one in ends], pa.int64()),
        pa.array([rows if one is None else 0 for one in ends], pa.int64()),
        pa.array([0] * len(ends), pa.int64()),
        pa.array([rows] * len(ends), pa.int64()),
    )


def test_files_in_order_are_ideal() -> None:
    known = {"a": bounds([(at * 10, at * 10 + 9) for at in range(20)])}
    for one in layout_health(slices(20), known, by_partition=False).queries:
        assert one.files == one.bytes == pytest.approx(one.sorted, abs=0.006)
        assert one.grid == one.sorted


def test_a_value_of_many_rows_is_read_with_all_of_them() -> None:
    known = {"a": bounds([(5, 5)] * 10 + [(10 * at, 10 * at + 9) for at in range(1, 11)])}
    one_value = layout_health(slices(20), known, by_partition=False).queries[0]
    # Half of the queries ask for 5.
    assert one_value.files == pytest.approx(0.5 * 0.5 + 0.5 * 0.05, abs=0.01)
    assert one_value.sorted == pytest.approx(0.5 * 0.55 + 0.5 * 0.05, abs=0.01)


def test_files_of_nulls_are_not_read_and_unknown_ones_are() -> None:
    nulls = layout_health(slices(4), {"a": bounds([(1, 9), None, None, None])}, by_partition=False)
    assert [(one.files, one.unknown) for one in nulls.queries] == [(0.25, 0)] * 3
    unknown = bounds([(1, 9), (1, 9)]).take(pa.array([0, None, None, 1]))
    found = layout_health(slices(4), {"a": unknown}, by_partition=False)
    assert [(one.files, one.bytes, one.unknown) for one in found.queries] == [(1, 1, 2)] * 3
    nothing = layout_health(slices(2), {"a": unknown.take(pa.array([1, 2]))}, by_partition=False)
    assert [(one.files, one.unknown) for one in nothing.queries] == [(1, 2)] * 3
    assert nothing.queries[0].sorted == 0.5
    only = layout_health(slices(2), {"a": bounds([None, None])}, by_partition=False)
    assert [one.files for one in only.queries] == [0, 0, 0]
    assert layout_health([], {"a": bounds([])}, by_partition=False).files == 0


def test_partitions_are_put_in_order_alone() -> None:
    """Ten partitions by time, of a file each, that have all of `b`."""
    files = [one for at in range(10) for one in slices(1, f"p{at}")]
    known = {
        "time": bounds([(10 * at, 10 * at + 9) for at in range(10)]),
        "b": bounds([(at, 1000 - at) for at in range(10)]),
    }
    found = {(one.column, one.query): one for one in
             layout_health(files, known, by_partition=False).queries}  # fmt: skip
    assert found["time", "one value"].files == pytest.approx(0.1, abs=0.01)
    assert found["time", "one value"].sorted == pytest.approx(0.1, abs=0.01)
    assert found["b", "one value"].sorted > 0.95
    alone = layout_health(files, known, by_partition=True)
    assert [one.partition for one in alone.queries[::6]] == [f"p{at}" for at in range(10)]
    assert all(one.files == 1 for one in alone.queries)
    assert str(alone).splitlines()[2].startswith("partition  column  query")


def test_what_no_file_of_a_partition_has_is_not_read_of_it() -> None:
    """Partitions take turns: of each of 20 values in a row, one of the two has the file."""
    files = [slices(1, f"p{at % 2}")[0] for at in range(20)]
    known = {"a": bounds([(10 * at, 10 * at + 9) for at in range(20)])}
    one_value = layout_health(files, known, by_partition=False).queries[0]
    assert one_value.files == pytest.approx(0.05, abs=0.006)
    assert one_value.sorted == pytest.approx(0.05, abs=0.006)


def test_ranges_of_cells_against_a_loop(seed_of_the_day: int) -> None:
    chance = random.Random(seed_of_the_day)
    for _ in range(200):
        count = chance.randint(1, 12)
        ends: list[tuple[int, int] | None] = []
        for _ in range(count):
            low = chance.randint(0, 20)
            ends.append(chance.choice([(low, low + chance.choice([0, 1, 5])), None]))
        spread = ColumnSpread.of(bounds(ends, chance.choice([1, 2, 50])))
        assert (np.diff(spread.edges) >= 0).all()
        assert (spread.edges[0], spread.edges[-1]) == (0, 1)
        points = sorted({end for one in ends if one is not None for end in one})
        weights = np.array([chance.randint(1, 9) for _ in range(count)], float)
        for low in range(len(points)):
            for high in range(low, len(points)):
                cells = (np.array([2 * low]), np.array([2 * high]))
                expected = sum(
                    weight
                    for one, weight in zip(ends, weights, strict=True)
                    if one is not None and one[0] <= points[high] and one[1] >= points[low]
                )
                assert spread.read(*cells, weights)[0] == pytest.approx(expected)


def test_a_wrong_column(tmp_path: Path) -> None:
    table = made(tmp_path / "t", SEED)
    with pytest.raises(KeyError, match="no column 'y'"):
        table.layout_health("y")
    with pytest.raises(TypeError, match="no bounds are kept of 'l', which is list"):
        table.layout_health(["a", "l"])


def test_damaged_statistics_are_not_used(tmp_path: Path) -> None:
    table = made(tmp_path / "t", SEED)
    expected = table.layout_health("a")
    table.collect_statistics()
    (version,) = (tmp_path / "t" / ".hoodie/.lookupstore/statistics").glob("*.stats")
    version.write_bytes(version.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="statistics of columns cannot be read"):
        assert table.layout_health("a") == expected


@pytest.mark.parametrize("said", ["[", "{}", '{"by": 3}', "[]", '"a"', "\ud800"])
def test_a_choice_of_a_clustering_that_is_none(tmp_path: Path, said: str) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id")
    table.bulk_insert(some(np.random.default_rng(1), 0))
    table.cluster("a")
    view = table.view()
    last = view.timeline.writes()[-1]
    extra = view.commit(last).extra_metadata
    assert extra is not None
    assert json.loads(extra[CHOICE])["by"] == ["a"]
    extra[CHOICE] = said  # type: ignore[index]
    with pytest.raises(CorruptionError):
        table.layout_health()


def test_it_is_shown(tmp_path: Path) -> None:
    known = {"<a\n>": bounds([(1, 2), (2, 3)])}
    health = layout_health(slices(2), known, by_partition=False)
    assert len({len(line) for line in str(health).splitlines()[2:]}) == 1
    assert "<a\\n>   1 % of rows" in str(health)
    page = ElementTree.fromstring(f"<p>{health._repr_html_()}</p>")
    assert [one.text for one in page.iter("td")][:2] == ["<a\\n>", "one value"]
    assert LayoutHealth(**{**health.to_json(), "queries": health.queries}) == health


def test_a_picture(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "s": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")
    for at in range(5):
        texts = [f"\x1b{at}{'<é>' * 40}", f"\x1b{at}z", None]
        ids = [3 * at, 3 * at + 1, 3 * at + 2]
        table.bulk_insert(pa.table({"id": ids, "s": texts}, schema=schema))
    nothing = pa.table({"id": [99], "s": [None]}, schema=schema)
    table.bulk_insert(nothing)
    picture = table.layout_picture("id", "s")
    assert (picture.files, picture.drawn) == (6, 5)
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text("utf-8") == picture.svg == picture._repr_svg_()
    root = ElementTree.fromstring(picture.svg)
    space = "{http://www.w3.org/2000/svg}"
    boxes = [one for one in root.iter(f"{space}rect") if one.find(f"{space}title") is not None]
    assert len(boxes) == 5
    # Files in the order of both columns: from the bottom left to the top right, side by side.
    across = [float(one.get("x", "")) for one in boxes]
    down = [float(one.get("y", "")) for one in boxes]
    order = np.argsort(across)
    assert len(set(across)) == 5
    assert [down[at] for at in order] == sorted(down, reverse=True)
    for one in boxes:
        x, y, width, height = (float(one.get(name, "")) for name in ("x", "y", "width", "height"))
        assert 48 <= x <= x + width <= 528.01
        assert 48 <= y <= y + height <= 528.01
        assert width < 200 > height
    words = [one.text for one in root.iter(f"{space}text")]
    assert {"id", "s", "0", "99", "\\x1b4z"} <= set(words)


def test_a_picture_of_nothing(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key="id")
    picture = table.layout_picture("a", "a")
    assert (picture.files, picture.drawn) == (0, 0)
    ElementTree.fromstring(picture.svg)
    assert table.layout_health().files == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.bulk_insert(some(np.random.default_rng(1), 0), options=WriteOptions())
        assert table.layout_picture("a", "a").drawn == 1
