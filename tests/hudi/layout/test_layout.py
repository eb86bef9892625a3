"""Layouts of every type and curve: order, boxes, what is kept of them, and what is refused."""

from __future__ import annotations

import bisect
import copy
import json
import math
import pickle
import random
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.hudi.layout_columns import COLUMNS, CUT, ordered_key, random_column

from lookupstore.errors import CorruptionError
from lookupstore.hudi.layout import Layout
from lookupstore.hudi.layout.curves.layout import CURVES

WAYS = [(curve, "sample") for curve in CURVES] + [("zorder", "value"), ("hilbert", "value")]


def positions(layout: Layout, rows: pa.Table) -> list[bytes]:
    found = layout.positions(rows)
    assert pa.types.is_fixed_size_binary(found.type)
    assert len(found) == rows.num_rows
    listed: list[bytes] = found.to_pylist()
    return listed


def in_order(values: list[Any], found: list[bytes]) -> list[bytes]:
    """Return positions in the order of values, which is the oracle's."""
    pairs = zip(map(ordered_key, values), found, strict=True)
    return [position for _, position in sorted(pairs, key=lambda pair: pair[0])]


# ---- one column ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("curve", CURVES)
def test_one_column_is_sorted_by_plainly(name: str, curve: Any, seed: int) -> None:
    draw = random.Random(seed)
    sample, _ = random_column(name, draw, 300)
    layout = Layout.fit(pa.table({"x": sample}), ["x"], curve, "sample", files=10)
    array, values = random_column(name, draw, 900)
    found = positions(layout, pa.table({"x": array}))
    assert in_order(values, found) == sorted(found)
    if name not in CUT:
        same = {ordered_key(value) for value in values}
        assert len(set(found)) == len(same)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("mapping", ["sample", "value"])
def test_coordinates_ascend_with_values(name: str, mapping: Any, seed: int) -> None:
    draw = random.Random(seed)
    sample, _ = random_column(name, draw, 600, nulls=draw.choice([0, 0.1]))
    rows = pa.table({"x": sample, "y": np.zeros(600)})
    layout = Layout.fit(rows, ["x", "y"], "zorder", mapping, files=10)
    array, values = random_column(name, draw, 900)
    found = positions(layout, pa.table({"x": array, "y": np.zeros(900)}))
    assert in_order(values, found) == sorted(found)
    # A null has no value beside it that is less, whatever the sample had.
    assert all(one == min(found) for one, x in zip(found, values, strict=True) if x is None)
    if mapping == "value" and name in ("half", "float", "double"):
        is_nan = [value is not None and value != value for value in values]
        others = [one for one, nan in zip(found, is_nan, strict=True) if not nan]
        assert all(one > max(others) for one, nan in zip(found, is_nan, strict=True) if nan)


def test_negative_and_positive_zero_are_one() -> None:
    rows = pa.table({"x": [0.0, -0.0, 1.0, -1.0], "y": [0, 0, 0, 0]})
    for curve, mapping in WAYS:
        for by in (["x"], ["x", "y"]):
            found = positions(Layout.fit(rows, by, curve, mapping, files=2), rows)  # type: ignore[arg-type]
            assert found[0] == found[1]
            assert found[3] < found[0] < found[2] or curve != "linear"


def test_long_texts_that_begin_alike_are_told_apart(seed: int) -> None:
    draw = random.Random(seed)
    begin = "x" * 10_000
    texts = [begin + f"{draw.random():.9f}" for _ in range(3000)]
    rows = pa.table({"x": texts, "y": np.zeros(3000)})
    for curve, mapping, least in [
        ("linear", "sample", 2950),  # 8 digits behind those that neighbours share
        ("zorder", "sample", 300),  # so many boundaries of that length are kept
        ("zorder", "value", 2000),
    ]:
        layout = Layout.fit(rows, ["x", "y"], curve, mapping, files=9)  # type: ignore[arg-type]
        found = positions(layout, rows)
        assert in_order(texts, found) == sorted(found)
        assert len(set(found)) > least, curve
        assert len(layout.to_json()) < 5_000_000


# ---- several columns ----------------------------------------------------------------------------


def test_linear_sorts_by_one_column_after_the_other(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(12):
        names = draw.sample([name for name in COLUMNS if name not in CUT], 3)
        made = [random_column(name, draw, 500, nulls=0.3) for name in names]
        rows = pa.table({f"c{i}": array for i, (array, _) in enumerate(made)})
        layout = Layout.fit(rows.slice(0, 100), ["c2", "c0", "c1"], "linear", "sample", files=4)
        found = positions(layout, rows)
        keys = list(
            zip(*([ordered_key(one) for one in made[i][1]] for i in (2, 0, 1)), strict=True)
        )
        pairs = sorted(zip(keys, found, strict=True), key=lambda pair: pair[0])
        assert [one for _, one in pairs] == sorted(found)
        assert len(set(keys)) == len(set(found))


def cell_and_key(slabs: dict[str, Any], values: tuple[Any, ...]) -> tuple[int, int]:
    """Return the cell of a row and how many there are: the naive way through a grid of integers."""
    slab = 0 if values[0] is None else bisect.bisect_right(slabs["cuts"], values[0])
    if "inner" not in slabs:
        return slab, len(slabs["cuts"]) + 1
    counts = [cell_and_key(one, values[1:])[1] for one in slabs["inner"]]
    cell, count = cell_and_key(slabs["inner"][slab], values[1:])
    return sum(counts[:slab]) + (count - 1 - cell if slab % 2 else cell), sum(counts)


@pytest.mark.parametrize("columns", [2, 3, 4, 5])
def test_a_grid_goes_through_its_cells_to_and_fro(columns: int, seed: int) -> None:
    draw = random.Random(seed)
    count = 3000
    data = {
        f"c{i}": [draw.choice([None, 7, *[draw.randrange(10**6)] * 4]) for _ in range(count)]
        for i in range(columns)
    }
    rows = pa.table(data)
    layout = Layout.fit(rows, list(data), "grid", "sample", files=60)
    slabs = json.loads(layout.to_json())["learned"]["slabs"]

    def key(row: tuple[Any, ...]) -> tuple[int, int]:
        cell, _ = cell_and_key(slabs, row[:-1])
        last = -1 if row[-1] is None else row[-1]
        return cell, -last if cell % 2 else last

    keys = [key(row) for row in zip(*data.values(), strict=True)]
    found = positions(layout, rows)
    assert [one for _, one in sorted(zip(keys, found, strict=True))] == sorted(found)
    assert len(set(keys)) == len(set(found))
    cells = np.bincount([cell for cell, _ in keys])
    assert 60 ** ((columns - 1) / columns) * 0.5 < len(cells) < 60 * 4


def test_slabs_begin_where_another_value_does(seed: int) -> None:
    draw = random.Random(seed)
    a = [*[1] * 300, *[2] * 500, *(draw.randrange(3, 10**6) for _ in range(200))]
    rows = pa.table({"a": a, "b": [draw.random() for _ in a]})
    layout = Layout.fit(rows, ["a", "b"], "grid", "sample", files=25)
    cuts = json.loads(layout.to_json())["learned"]["slabs"]["cuts"]
    assert cuts[0] == 2
    assert cuts[1] == min(one for one in a if one > 2)


def files_of(layout: Layout, rows: pa.Table, files: int) -> list[pa.Table]:
    order = np.argsort(np.array(positions(layout, rows), "S40"), kind="stable")
    assert len(order) == rows.num_rows
    return [rows.take(pa.array(part)) for part in np.array_split(order, files)]


def share_read(files: list[pa.Table], column: str, seed: int) -> float:
    """Return the mean share of files that have values of random 1 % of the rows in a column."""
    draw = random.Random(seed)
    every = sorted(one for file in files for one in file[column].to_pylist())
    bounds = [(min(one), max(one)) for one in (file[column].to_pylist() for file in files)]
    shares: list[float] = []
    for _ in range(60):
        first = draw.randrange(len(every) * 99 // 100)
        low, high = every[first], every[first + len(every) // 100]
        shares.append(sum(a <= high and low <= b for a, b in bounds) / len(files))
    return sum(shares) / len(shares)


@pytest.mark.parametrize("skew", ["uniform", "heavy", "uneven"])
@pytest.mark.parametrize(("curve", "most"), [("grid", 0.2), ("hilbert", 0.23), ("zorder", 0.32)])
def test_few_files_are_read_by_each_column(curve: Any, most: float, skew: str, seed: int) -> None:
    """An ideal grid of 64 files has 13.5 %, a linear order 100 % by the second column."""
    rng = np.random.default_rng(seed)
    count = 20_000
    a, b = rng.integers(0, 2**60, count), rng.random(count)
    if skew == "heavy":  # half of all rows are one value
        a = np.where(rng.random(count) < 0.5, 5, rng.zipf(1.4, count) % 10**9)
    elif skew == "uneven":
        a, b = rng.integers(0, 1000, count), np.exp(40 * b)
    rows = pa.table({"a": a, "b": b})
    layout = Layout.fit(rows.slice(0, 5000), ["a", "b"], curve, "sample", files=64)
    files = files_of(layout, rows, 64)
    assert share_read(files, "b", seed) < most
    # Of a heavy value all rows are asked for, where 1 % begins in it.
    assert share_read(files, "a", seed) < most + (0.4 if skew == "heavy" else 0)


def test_a_range_of_values_wastes_no_bits(seed: int) -> None:
    """By value, uniform columns of narrow and far ranges are cut as evenly as by sample."""
    rng = np.random.default_rng(seed)
    rows = pa.table(
        {
            "a": rng.integers(2**50, 2**50 + 10**6, 20_000),
            "b": rng.random(20_000) * 1e-3 + 5,
        }
    )
    layout = Layout.fit(rows, ["a", "b"], "hilbert", "value", files=64)
    files = files_of(layout, rows, 64)
    assert share_read(files, "a", seed) < 0.23
    assert share_read(files, "b", seed) < 0.23


# ---- kept as JSON -------------------------------------------------------------------------------


@pytest.mark.parametrize(("curve", "mapping"), WAYS)
def test_what_is_kept_gives_the_same_positions(curve: Any, mapping: Any, seed: int) -> None:
    draw = random.Random(seed)
    names = list(COLUMNS)
    draw.shuffle(names)
    for at in range(0, len(names), 3):
        chosen = {f"c {name}": name for name in names[at : at + draw.choice([1, 2, 3])]}
        sample = {key: random_column(name, draw, 200)[0] for key, name in chosen.items()}
        layout = Layout.fit(pa.table(sample), list(chosen), curve, mapping, files=20)
        text = layout.to_json()
        again = Layout.from_json(text, "a.json")
        assert again.to_json() == text
        assert (again.by, again.curve, again.mapping) == (tuple(chosen), curve, mapping)
        rows = pa.table({key: random_column(name, draw, 300)[0] for key, name in chosen.items()})
        assert positions(again, rows) == positions(layout, rows)
        assert positions(pickle.loads(pickle.dumps(layout)), rows) == positions(layout, rows)


def test_boundaries_can_be_read_by_people() -> None:
    rows = pa.table(
        {
            "day": pa.array([0, 1, 2], pa.int32()).view(pa.date32()),
            "price": pa.array([0.5, math.inf, math.nan]),
            "name": ["Ab c", "Ab%d", "Aé"],
        }
    )
    layout = Layout.fit(rows, rows.schema.names, "hilbert", "sample", files=3)
    learned = json.loads(layout.to_json())["learned"]
    assert [one["boundaries"] for one in learned] == [[1, 2], ["inf", "nan"], ["Ab%25", "A%C3"]]
    assert [one["coordinates"] for one in learned] == [[0, 21845, 43690]] * 3


def test_the_first_column_of_a_z_order_has_three_quarters_of_the_coordinates() -> None:
    """Files along the curve are longer by the later columns: this makes them nearly even."""
    rows = pa.table({"a": range(1000), "b": range(1000)})
    layout = Layout.fit(rows, ["a", "b"], "zorder", "sample", files=3)
    first, second = (one["coordinates"][-1] for one in json.loads(layout.to_json())["learned"])
    assert first == int(999 * 0.75 * 65536 / 1000)
    assert second == int(999 * 65536 / 1000)


JUNK: list[Any] = [
    None, True, -1, 0, 1.5, 10**400, "", "nan", "%zz", "é", [], [[]], [None], {}, {"cuts": []},
    "grid", "linear", [1, 0], ["b", "a"], 2**16, 2**63, [2**70], math.inf,
]  # fmt: skip


def places_in(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all that is in a JSON value, but only some of a long list."""
    found = [path] if path else []
    if isinstance(data, dict):
        items = list(data.items())
    else:
        items = list(enumerate(data))[:3] if isinstance(data, list) else []
    return found + [one for key, inner in items for one in places_in(inner, (*path, key))]


def changed(data: Any, path: tuple[Any, ...], value: Any, *, remove: bool) -> str:
    data = copy.deepcopy(data)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(data)


def load(text: str, rows: pa.Table) -> bool:
    """Load a layout that may be damaged, and use it; say whether it could be loaded."""
    damage = None
    try:
        layout = Layout.from_json(text, "folder/layout.json")
    except CorruptionError as error:
        damage = error
    if damage is not None:
        assert damage.path == "folder/layout.json"
        return False
    try:
        found = layout.positions(rows)
    except (KeyError, TypeError, ValueError):  # it is one of other columns
        return True
    assert len(found) == rows.num_rows
    assert Layout.from_json(layout.to_json(), "").to_json() == layout.to_json()
    return True


@pytest.mark.few(2)
@pytest.mark.parametrize(("curve", "mapping"), WAYS)
def test_damaged_layouts_are_corruption(curve: Any, mapping: Any, seed: int) -> None:
    draw = random.Random(seed)
    kinds = {"i": "int16", "f": "float", "t": "string", "b": "binary(5)", "w": "binary(50)"}
    rows = pa.table({key: random_column(name, draw, 60)[0] for key, name in kinds.items()})
    refused = 0
    for by in (["i", "t"], ["f", "b", "w"], ["t", "i", "f"]):
        data = json.loads(Layout.fit(rows, by, curve, mapping, files=12).to_json())
        assert load(json.dumps(data), rows)
        for path in places_in(data):
            texts = [changed(data, path, one, remove=False) for one in JUNK]
            refused += sum(not load(text, rows) for text in texts)
            # Of what people read nothing is used, and a boundary may be one of fewer.
            if path[0] != "fields" and type(path[-1]) is not int:
                assert not load(changed(data, path, None, remove=True), rows)
        text = json.dumps(data)
        for _ in range(300):
            at = draw.randrange(len(text))
            cut = text[:at] + chr(draw.randrange(300)) + text[at + draw.randrange(3) :]
            refused += not load(cut, rows)
    assert refused > 1000


@pytest.mark.parametrize(
    ("curve", "mapping", "path", "value", "why"),
    [
        ("hilbert", "sample", (0, "boundaries", 0), 99, "'i' do not ascend"),
        ("hilbert", "sample", (0, "boundaries", 0), 2**15, "32768 is not a value of the column"),
        ("hilbert", "sample", (1, "boundaries", 0), "%zz", "'%zz' is not a value of the column"),
        ("hilbert", "sample", (1, "boundaries", 0), "é", "'é' is not a value of the column 't'"),
        ("hilbert", "sample", (0, "coordinates", 1), 65535, "'i' do not ascend"),
        ("hilbert", "sample", (0, "coordinates", 1), 65536, "'i' have other bits"),
        ("hilbert", "sample", (0, "coordinates"), [0], "a coordinate per interval"),
        ("hilbert", "value", (0, "low"), 99, "the least of the column 'i' is not the least"),
        ("hilbert", "value", (2, "high"), math.inf, "not between finite floats"),
        ("hilbert", "value", (2, "low"), 0, "not between finite floats"),
        ("linear", "sample", (0,), {"boundaries": []}, "nothing is learned of the column 'i'"),
        ("grid", "sample", ("slabs", "inner"), [], "slabs by 'i' need slabs in each"),
        ("grid", "sample", ("slabs", "cuts", 0), 1.5, "1.5 is not a value"),
        ("grid", "sample", ("last",), [], "nothing is learned of the column 'f'"),
    ],
)
def test_what_cannot_have_been_learned_is_corruption(
    curve: Any, mapping: Any, path: tuple[Any, ...], value: Any, why: str
) -> None:
    rows = pa.table(
        {
            "i": pa.array([1, 2, 3, 4], pa.int16()),
            "t": ["a", "b", "c", "d"],
            "f": [0.5, 1.5, 2.5, 3.5],
        }
    )
    layout = Layout.fit(rows, rows.schema.names, curve, mapping, files=8)
    text = changed(json.loads(layout.to_json()), ("learned", *path), value, remove=False)
    with pytest.raises(CorruptionError, match=why):
        Layout.from_json(text, "a.json")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "in JSON"),
        ("\ud800", "in UTF-8"),
        ("[" * 100_000, "nested deeper"),
        ("[]", "a layout"),
        ("null", "a layout"),
        ('{"version": 2}', "version 2, not 1"),
        ('{"version": 1}', "'schema'"),
    ],
)
def test_what_is_no_layout_is_corruption(text: str, why: str) -> None:
    with pytest.raises(CorruptionError, match=why):
        Layout.from_json(text, "a.json")


# ---- arguments ----------------------------------------------------------------------------------


def test_wrong_arguments_are_refused() -> None:
    rows = pa.table({"a": [1, 2], "b": ["x", "y"], "l": [[1], [2]]})

    def fit(by: Any, curve: Any = "hilbert", mapping: Any = "sample", files: int = 3) -> Layout:
        return Layout.fit(rows, by, curve, mapping, files)

    with pytest.raises(KeyError, match="by: the rows have no column 'z'; they have 'a', 'b', 'l'"):
        fit(["a", "z"])
    with pytest.raises(TypeError, match="by is the string 'ab'"):
        fit("ab")
    with pytest.raises(ValueError, match="names no column"):
        fit([])
    with pytest.raises(ValueError, match="'a' twice"):
        fit(["a", "b", "a"])
    with pytest.raises(ValueError, match="curve is 'peano'; give one of linear, zorder, hilbert"):
        fit(["a"], curve="peano")
    with pytest.raises(ValueError, match="mapping is 'best'; give one of sample, value"):
        fit(["a"], mapping="best")
    with pytest.raises(ValueError, match="a grid is cut by sample"):
        fit(["a", "b"], curve="grid", mapping="value")
    with pytest.raises(ValueError, match="files is 0"):
        fit(["a"], files=0)
    many = pa.table({str(i): [1] for i in range(9)})
    with pytest.raises(ValueError, match="9 columns; give at most 8 for a zorder"):
        Layout.fit(many, many.schema.names, "zorder", "sample", 3)
    assert len(Layout.fit(many, many.schema.names, "linear", "sample", 3).positions(many)) == 1


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int8()),
        pa.struct([("x", pa.int8())]),
        pa.map_(pa.string(), pa.int8()),
        pa.dictionary(pa.int8(), pa.list_(pa.int8())),
        pa.null(),
        pa.month_day_nano_interval(),
    ],
    ids=str,
)
def test_types_without_an_order_are_named(kind: pa.DataType) -> None:
    sample = pa.schema([("a", pa.int8()), ("what", kind)]).empty_table()
    wanted = f"the column 'what' is {re.escape(str(kind))}, which has no order"
    with pytest.raises(TypeError, match=wanted):
        Layout.fit(sample, ["a", "what"], "grid", "sample", files=2)


@pytest.mark.parametrize(("curve", "mapping"), WAYS)
def test_no_rows_and_only_nulls_have_a_layout(curve: Any, mapping: Any) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float32())])
    nulls = pa.table([pa.nulls(5, field.type) for field in schema], schema=schema)
    some = pa.table([[1, 2], ["x", None], [math.nan, 1.0]], schema=schema)
    for sample in (schema.empty_table(), nulls):
        layout = Layout.fit(sample, schema.names, curve, mapping, files=7)
        again = Layout.from_json(layout.to_json(), "")
        for rows in (schema.empty_table(), nulls, some):
            assert positions(again, rows) == positions(layout, rows)


def test_rows_may_come_in_types_that_the_layout_can_hold() -> None:
    sample = pa.table({"a": pa.array([1, 2, 3], pa.int32()), "b": ["x", "y", "z"]})
    layout = Layout.fit(sample, ["a", "b"], "grid", "sample", files=4)
    wide = pa.table({"b": pa.array(["x", "y", "z"]).dictionary_encode(), "a": [1, 2, 3]})
    assert positions(layout, wide) == positions(layout, sample)
    chunks = pa.concat_tables([sample.slice(2), sample.slice(0, 2)])
    assert positions(layout, chunks) == [positions(layout, sample)[i] for i in (2, 0, 1)]
    (batch,) = sample.slice(1).to_batches()
    assert layout.positions(batch).to_pylist() == positions(layout, sample)[1:]
    assert Layout.fit(chunks, ["a", "b"], "grid", "sample", files=4).to_json() == layout.to_json()
    words = [pa.array(one).dictionary_encode() for one in (["x"], ["z", "y"])]
    chunked = pa.table({"a": pa.array([1, 3, 2], pa.int32()), "b": pa.chunked_array(words)})
    by_words = Layout.fit(chunked, ["a", "b"], "grid", "sample", files=4)
    assert positions(by_words, sample) == positions(layout, sample)
    with pytest.raises(ValueError, match="'a' is int32, which cannot hold 1099511627776 of row 2"):
        layout.positions(pa.table({"a": [1, 2**40], "b": ["x", "y"]}))
    with pytest.raises(TypeError, match="the field 'a' is int32; found string"):
        layout.positions(pa.table({"a": ["1"], "b": ["x"]}))
    with pytest.raises(KeyError, match="no single column 'b'"):
        layout.positions(pa.table({"a": [1]}))
