"""Kept layouts: where files end along a curve, which are chosen, and the file that says it."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.layout import (
    KeptLayout,
    Layout,
    PlacedFile,
    Waiting,
    cell_ends,
    choose,
    keep_layout,
    read_layout,
)
from lookupstore.hudi.layout.kept.kept_layout import LAYOUTS_FOLDER
from lookupstore.hudi.timeline.names import GroupId


@pytest.mark.parametrize("is_curve", [True, False])
def test_stretches_have_few_rows_and_ends_that_do_not_depend_on_others(
    seed: int, is_curve: bool
) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        width = chance.choice([1, 2, 8, 9])
        top = 1 << chance.choice([3, 7, 8 * width])
        numbers = [chance.randrange(min(top, 1 << 8 * width)) for _ in range(chance.randrange(200))]
        numbers += [chance.choice(numbers or [0])] * chance.choice([0, 30])
        most = chance.choice([1, 3, 10.5, 1000])
        within = sorted(
            {chance.randrange((1 << 8 * width) - 1) for _ in range(chance.randrange(3))}
        )
        given = [one.to_bytes(width, "big") for one in within]
        positions = pa.array([one.to_bytes(width, "big") for one in numbers], pa.binary(width))
        ends = cell_ends(positions, most, is_curve=is_curve, within=given)
        assert set(given) <= set(ends)
        assert ends == sorted(set(ends))
        found = [int.from_bytes(one, "big") for one in ends]
        bounds = [-1, *found, (1 << 8 * width) - 1]
        for after, last in pairwise(bounds):
            inside = [one for one in numbers if after < one <= last]
            assert len(inside) <= most or len(set(inside)) == 1
            if is_curve and not within:
                assert is_box(after + 1, last + 1)


@pytest.mark.parametrize("is_curve", [True, False])
def test_an_empty_sample_has_the_ends_that_are_given(is_curve: bool) -> None:
    none, given = pa.array([], pa.binary(9)), [b"\x01" * 9, b"\xff" * 8 + b"\xfe"]
    assert cell_ends(none, 1, is_curve=is_curve) == []
    assert cell_ends(none, 1, is_curve=is_curve, within=given) == given


def is_box(low: int, high: int) -> bool:
    """Return whether a stretch is one of the halves of halves, or several empty ones and one."""
    size = high - low
    return any(
        low // (1 << bits) * (1 << bits) == low or high % (1 << bits) == 0
        for bits in range(size.bit_length() - 1, size.bit_length() + 1)
    )


def test_files_along_a_curve_are_boxes_that_do_not_overlap(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = pa.table({name: random.integers(0, 1 << 62, 20_000) for name in "ab"})
    layout = Layout.fit(rows, ["a", "b"], "hilbert", "sample", 50)
    positions = layout.positions(rows)
    ends = cell_ends(positions, 500, is_curve=True)
    numbers = np.searchsorted(
        np.array([int.from_bytes(one, "big") for one in ends], np.uint64),
        np.array([int.from_bytes(one, "big") for one in positions.to_pylist()], np.uint64),
    )
    boxes = []
    for number in range(len(ends) + 1):
        own = rows.filter(pa.array(numbers == number))
        boxes.append([(min(own[name].to_pylist()), max(own[name].to_pylist())) for name in "ab"])
    assert len(boxes) > 40
    for at, box in enumerate(boxes):
        for other in boxes[:at]:
            apart = [
                one[1] < two[0] or two[1] < one[0] for one, two in zip(box, other, strict=True)
            ]
            assert any(apart)


def read_of_waiting(regions: list[list[float]], waiting: list[Waiting], columns: int) -> float:
    """Return what queries read of files that wait, by the numbers."""
    rows = [sum(runs) + sum(one.reach[at] for one in waiting) for at, runs in enumerate(regions)]
    found = 0.0
    for one in waiting:
        reached = sum(own for own, there in zip(rows, one.reach, strict=True) if there)
        found += max(one.files, 1.0) * (reached / sum(rows)) ** (1 / columns)
    return found


def read_by_model(regions: list[list[float]], waiting: list[Waiting], columns: int) -> float:
    """Return what queries read, more plainly than `choose` has it."""
    rows = [sum(runs) + sum(one.reach[at] for one in waiting) for at, runs in enumerate(regions)]
    found = read_of_waiting(regions, waiting, columns)
    for runs, own in zip(regions, rows, strict=True):
        for files in (max(one, 1.0) for one in runs):
            found += 0.01 * files + files * (own / sum(rows) / files) ** (1 / columns)
    return found


def most(files: float, columns: int) -> float:
    files = max(files, 1.0)
    return 1.4 * (0.01 * files + files * (1 / files) ** (1 / columns)) + 1


def test_little_is_done_and_enough(seed: int) -> None:
    """Nothing, if queries read little; else so much that they do, or that nothing overlaps."""
    chance = random.Random(seed)
    acted = 0
    for _ in range(500):
        columns = chance.randint(1, 4)
        count = chance.choice([1, 2, 8])
        regions = [
            [chance.choice([0.1, 1, 3, 20]) * chance.random() for _ in range(chance.randrange(5))]
            for _ in range(count)
        ]
        waiting = []
        for _ in range(chance.randrange(4)):
            reach = [chance.choice([0, 0.1, 2]) * chance.random() for _ in range(count)]
            waiting.append(Waiting(sum(reach), reach))
        total = sum(map(sum, regions)) + sum(one.files for one in waiting)
        chosen = choose(regions, waiting, columns)
        if not total or (
            read_by_model(regions, waiting, columns) <= most(total, columns)
            and read_of_waiting(regions, waiting, columns) <= 2
        ):
            assert (chosen.waiting, set(chosen.runs)) == (False, {0})
            continue
        acted += 1
        assert chosen.waiting == bool(waiting)
        after = []
        for at, (runs, last) in enumerate(zip(regions, chosen.runs, strict=True)):
            assert 0 <= last <= len(runs)
            come = sum(one.reach[at] for one in waiting)
            merged = sum(runs[len(runs) - last :]) + come
            after.append([*runs[: len(runs) - last], *([merged] if last or come else [])])
        assert sum(map(sum, after)) == pytest.approx(total)
        is_enough = read_by_model(after, [], columns) <= most(total, columns) + 1e-9
        assert is_enough or all(len(runs) <= 1 for runs in after)
    assert acted > 100


@pytest.mark.parametrize(("in_order", "times"), [(True, 2.5), (False, 3.6)])
@pytest.mark.parametrize("regions", [4, 8])
def test_what_ten_appends_have_written(regions: int, in_order: bool, times: float) -> None:
    """A twentieth each, of 110 files by two columns: a tenth of what writing all anew would."""
    runs = [[110 / regions] for _ in range(regions)]
    waiting: list[Waiting] = []
    written = 0.0
    for _ in range(10):
        if in_order:
            for own in runs:
                own.append(5.5 / regions)
        else:
            waiting.append(Waiting(5.5, [5.5 / regions] * regions))
        chosen = choose(runs, waiting, 2)
        come = sum(one.files for one in waiting) / regions if chosen.waiting else 0.0
        if chosen.waiting:
            waiting = []
        for own, last in zip(runs, chosen.runs, strict=True):
            if last or come:
                merged = sum(own[len(own) - last :]) + come
                own[len(own) - last :] = [merged]
                written += merged
        total = sum(map(sum, runs)) + sum(one.files for one in waiting)
        assert read_by_model(runs, waiting, 2) <= most(total, 2) + 1e-9
    assert 1.2 * 55 <= written <= times * 55


def test_large_badly_laid_files_are_found() -> None:
    """Of the size that was asked for, all over the place: by size nobody would take them."""
    waiting = [Waiting(1.0, [0.25] * 4)] * 40
    assert choose([[1.0]] * 4, waiting, 2).waiting
    # Each of them where no other is: nothing to gain.
    apart = [Waiting(1.0, [float(at == own) for own in range(64)]) for at in range(64)]
    assert not choose([[] for _ in range(64)], apart, 1).waiting


def kept_layout(seed: int) -> KeptLayout:
    random = np.random.default_rng(seed)
    rows = pa.table({"a": random.integers(0, 99, 300), "b": [f"x{at}" for at in range(300)]})
    layout = Layout.fit(rows, ["a", "b"], "hilbert", "sample", 5)
    ends = tuple(cell_ends(layout.positions(rows), 70, is_curve=True))
    files = {
        f"f{at}-0": PlacedFile(f"f{at}-0_0-0-0_2026.parquet", "2026", b"", end, at)
        for at, end in enumerate(ends)
    }
    return KeptLayout("{}", layout, ends, 60, files)


def test_what_is_kept_is_read(tmp_path: Path, seed: int) -> None:
    location = HudiTable.create(
        tmp_path / "t", pa.schema({"a": pa.int64()}), record_key="a", name="t"
    ).location
    kept = kept_layout(seed)
    assert read_layout(location, "day=1", "{}") is None
    keep_layout(location, "day=1", kept, [])
    found = read_layout(location, "day=1", "{}")
    assert found is not None
    assert (found.encode(), found.ends, found.files) == (kept.encode(), kept.ends, kept.files)
    assert [found.region(end) for end in found.ends] == list(range(len(found.ends)))
    # By another choice, or of another partition, there is none.
    assert read_layout(location, "day=1", '{"by": 1}') is None
    assert read_layout(location, "day=2", "{}") is None
    # Of groups that are gone nothing is kept, of others what was known before.
    one, two = list(kept.files)[:2]
    newer = KeptLayout("{}", kept.layout, kept.ends, 60, {"new-0": kept.files[one]})
    keep_layout(location, "day=1", newer, [GroupId("day=1", two)])
    found = read_layout(location, "day=1", "{}")
    assert found is not None
    assert found.files == {two: kept.files[two], "new-0": kept.files[one]}


def test_damage_is_found(tmp_path: Path, seed: int) -> None:
    location = HudiTable.create(
        tmp_path / "t", pa.schema({"a": pa.int64()}), record_key="a", name="t"
    ).location
    kept = kept_layout(seed)
    content = kept.encode()
    chance = random.Random(seed)
    for at in [*range(40), *(chance.randrange(len(content)) for _ in range(100))]:
        for damaged in (content[:at], content[:at] + bytes([content[at] ^ 8]) + content[at + 1 :]):
            with pytest.raises(CorruptionError, match="here"):
                KeptLayout.decode(damaged, "here")
    keep_layout(location, "", kept, [])
    (file,) = (tmp_path / "t" / LAYOUTS_FOLDER).iterdir()
    file.write_bytes(content[:-1])
    with pytest.warns(UserWarning, match="all of it is put in order anew"):
        assert read_layout(location, "", "{}") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ends", ["zz"]), ("ends", ["02", "01"]), ("ends", ["01", "0200"]), ("ends", 3),
        ("rows_per_file", 0), ("rows_per_file", "1"), ("files", {"f": ["n", "r", "", "00"]}),
        ("files", {"f": ["n", "r", "", "00", -1]}), ("files", []), ("layout", "{}"),
    ],
)  # fmt: skip
def test_what_is_kept_says_nothing_else(
    key: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = __import__("json").dumps
    kept = kept_layout(1)
    name = "lookupstore.hudi.layout.kept.kept_layout.json.dumps"
    with monkeypatch.context() as patch:
        patch.setattr(
            name, lambda said: real({**said, key: value} if "rows_per_file" in said else said)
        )
        content = kept.encode()
    with pytest.raises(CorruptionError, match="here"):
        KeptLayout.decode(content, "here")
