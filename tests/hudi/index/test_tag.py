"""Tagging against a dict of where every key is."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.hudi.small_tables import SmallTable
from support.hudi.tag_tables import SCHEMA, any_footer, indexes, whole_footer, write

from lookupstore.errors import DuplicateKeyError, FormatError, StaleStoreError
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.index.bloom import BloomIndex
from lookupstore.hudi.index.funnel import Tally
from lookupstore.hudi.index.interface import Hits
from lookupstore.hudi.index.simple import SimpleIndex
from lookupstore.hudi.index.tagging import Tagged, tag
from lookupstore.hudi.view import TableView

# Partition and key, to file id, instant and row.
Places = dict[tuple[str, str], tuple[str, str, int]]


def places_of(tagged: Tagged, partitions: list[str], keys: list[str]) -> Places:
    """Return the places of the keys that were found."""
    found = {}
    for row, number in enumerate(tagged.slice_numbers.tolist()):
        if number >= 0:
            file = tagged.slices[number]
            place = file.group.file_id, file.time, int(tagged.positions[row])
            found[partitions[row], keys[row]] = place
            assert file.group.partition == partitions[row]
        else:
            assert tagged.positions[row] == -1
    return found


def random_key(rng: random.Random) -> str:
    return f"{rng.choice(['k', 'key-', 'é', '名', 'x' * 30])}{rng.randrange(400)}"


@pytest.mark.few(3)
@pytest.mark.parametrize("number", range(12))
def test_random_tables_are_as_a_dict_says(
    tmp_path: Path, residency: Residency, number: int, seed_of_the_day: int
) -> None:
    rng = random.Random(seed_of_the_day * 1000 + number)
    every = indexes(residency)
    partitions = [f"day={day}" for day in range(rng.choice([1, 3]))] if number % 2 else [""]
    table = SmallTable(tmp_path / "t", 9, SCHEMA, ["value"] if number % 2 else [])
    expected: Places = {}
    for commit in range(6):  # more than it takes for `auto` to make lookup files
        files: dict[tuple[str, str], list[str]] = {}
        for partition in partitions:
            for group in rng.sample(range(4), rng.randrange(1, 4)):
                name = f"{len(partition)}{partition[-1:]}{group}-0"
                old = [key for key, place in expected.items() if place[0] == name]
                kept = {key for _, key in old if rng.random() < 0.8}
                for place in old:
                    del expected[place]
                new = {random_key(rng) for _ in range(rng.randrange(30))}
                new = {key for key in new if (partition, key) not in expected}
                keys = list(kept | new)
                rng.shuffle(keys)
                files[partition, name] = keys
                expected |= {(partition, key): (name, "", row) for row, key in enumerate(keys)}
        time = write(table, files, any_footer(rng))
        written = {name for _, name in files}
        expected = {
            key: (name, time if name in written else old, row)
            for key, (name, old, row) in expected.items()
        }
        asked = [(rng.choice(partitions), random_key(rng)) for _ in range(100)]
        asked += rng.sample(sorted(expected), len(expected) // 2)
        asked += asked[:5]  # once more
        rng.shuffle(asked)
        asked_partitions, keys = map(list, zip(*asked, strict=True))
        view = table.view()
        for name, index in every.items():
            tagged = tag(view, pa.array(asked_partitions), pa.array(keys), index=index)
            found = places_of(tagged, asked_partitions, keys)
            assert found == {key: expected[key] for key in asked if key in expected}, (name, commit)
            assert tagged.funnel.keys == len(asked)
            assert tagged.funnel.found == sum(place in expected for place in asked)
            assert tagged.found.sum() == tagged.funnel.found
            if name.startswith("bloom"):
                check_funnel(tagged)


def check_funnel(tagged: Tagged) -> None:
    """Check that no step lets more through than came to it."""
    funnel = tagged.funnel
    assert funnel.files_in_range <= funnel.files == len(tagged.slices)
    assert funnel.found <= funnel.pairs_in_range <= funnel.pairs
    assert funnel.false_positives <= funnel.filter_positives <= funnel.filter_tests
    assert funnel.filter_positives - funnel.false_positives <= funnel.found
    assert funnel.files_looked_up + funnel.files_read <= funnel.files


def test_no_keys_and_no_files(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    none = pa.array([], pa.string())
    assert len(tag(table.view(), none, none).slice_numbers) == 0
    assert tag(table.view(), pa.array([""]), pa.array(["k"])).slice_numbers.tolist() == [-1]
    write(table, {("", "a-0"): ["k", "m"]})
    assert len(tag(table.view(), none, none).positions) == 0
    tagged = tag(table.view(), pa.chunked_array([[""], [""]]), pa.chunked_array([["m"], ["z"]]))
    assert tagged.positions.tolist() == [1, -1]
    assert tagged.slice_numbers.dtype == np.int32
    assert tagged.positions.dtype == np.int64


def test_only_the_partitions_of_the_keys_are_looked_at(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA, ["value"])
    write(table, {("value=1", "a-0"): ["k"], ("value=2", "b-0"): ["k"], ("value=3", "c-0"): ["m"]})
    partitions = pa.array(["value=2", "value=4"]).dictionary_encode()
    tagged = tag(table.view(), partitions, pa.array(["k", "k"]))
    assert [file.group.file_id for file in tagged.slices] == ["b-0"]
    assert tagged.positions.tolist() == [0, -1]
    funnel = tagged.funnel
    assert (funnel.keys, funnel.partitions, funnel.files, funnel.found) == (2, 1, 1, 1)


def test_files_that_are_known_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA, ["value"])
    write(table, {("value=1", "a-0"): ["k"], ("value=2", "b-0"): ["k"], ("value=3", "c-0"): ["m"]})
    view = table.view()
    slices = [group.current for group in view.groups(None)]
    monkeypatch.setattr(TableView, "files", None)
    partitions = pa.array(["value=2", "value=3"])
    for index in ("bloom", "global-bloom"):
        keys = pa.array(["m", "m"] if index == "global-bloom" else ["k", "k"])
        tagged = tag(view, partitions, keys, index=index, slices=slices)
        found = [tagged.slices[at].group.file_id if at >= 0 else None
                 for at in tagged.slice_numbers]  # fmt: skip
        assert found == (["c-0", "c-0"] if index == "global-bloom" else ["b-0", None])


def test_partitions_that_no_key_has_are_not_looked_at(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA, ["value"])
    write(table, {("value=1", "a-0"): ["k"], ("value=2", "b-0"): ["k"]})
    partitions = pa.DictionaryArray.from_arrays(pa.array([1]), pa.array(["value=1", "value=2"]))
    tagged = tag(table.view(), partitions, pa.array(["k"]))
    assert [file.group.file_id for file in tagged.slices] == ["b-0"]


def test_many_partitions(tmp_path: Path, residency: Residency) -> None:
    """Footers of all partitions are read before the first is asked; then each has its own keys."""
    table = SmallTable(tmp_path / "t", 9, SCHEMA, ["value"])
    files = {(f"value={day:03}", f"{day:03}-0"): [f"k{day}", "k"] for day in range(120)}
    write(table, files, whole_footer)
    days = list(range(119, -1, -1)) * 3
    partitions = [f"value={day:03}" for day in days]
    keys = [f"k{day}" for day in days[:120]] + ["k"] * 120 + ["no"] * 120
    for name, index in indexes(residency).items():
        tagged = tag(table.view(), pa.array(partitions), pa.array(keys), index=index)
        assert tagged.positions.tolist() == [0] * 120 + [1] * 120 + [-1] * 120, name
        assert tagged.slice_numbers[:240].tolist() == days[:240]
        assert (tagged.funnel.partitions, tagged.funnel.files) == (120, 120)


def test_an_index_is_told_of_all_files_before_it_is_asked(tmp_path: Path) -> None:
    class Told(SimpleIndex):
        def __init__(self) -> None:
            self.done: list[list[str]] = []

        def prepare(self, view: TableView, files: Sequence[FileSlice], tally: Tally) -> None:
            self.done.append([file.group.file_id for file in files])

        def locate(
            self, view: TableView, files: Sequence[FileSlice], keys: pa.Array, tally: Tally
        ) -> Iterator[Hits]:
            self.done.append([file.group.file_id for file in files])
            return super().locate(view, files, keys, tally)

    table = SmallTable(tmp_path / "t", 9, SCHEMA, ["value"])
    write(table, {(f"value={name}", f"{name}-0"): ["k"] for name in "abc"})
    index = Told()
    tag(table.view(), pa.array(["value=c", "value=a"]), pa.array(["k", "k"]), index=index)
    assert index.done == [["a-0", "c-0"], ["a-0"], ["c-0"]]


@pytest.mark.parametrize(
    ("keys", "partitions", "message"),
    [
        (["a", None], ["", ""], r"keys\[1\] is null"),
        (["a", "", "b"], ["", "", ""], r"keys\[1\] is empty"),
        (["a"], [None], "partitions contains a null"),
        (["a"], ["", ""], "partitions has 2 rows, keys 1"),
    ],
)
def test_keys_that_are_none(
    tmp_path: Path, keys: list[str | None], partitions: list[str | None], message: str
) -> None:
    view = SmallTable(tmp_path / "t", 9, SCHEMA).view()
    with pytest.raises(ValueError, match=message):
        tag(view, pa.array(partitions, pa.string()), pa.array(keys, pa.string()))


def test_a_null_in_the_dictionary_of_partitions(tmp_path: Path) -> None:
    view = SmallTable(tmp_path / "t", 9, SCHEMA).view()
    partitions = pa.DictionaryArray.from_arrays(pa.array([1]), pa.array(["", None]))
    with pytest.raises(ValueError, match="partitions contains a null"):
        tag(view, partitions, pa.array(["k"]))


def test_an_index_that_there_is_not(tmp_path: Path) -> None:
    view = SmallTable(tmp_path / "t", 9, SCHEMA).view()
    for name, said in (
        ("blom", "did you mean 'bloom'? Give 'in-memory', 'simple'"),
        ("GLOBAL_BLOOM", "did you mean 'global-bloom'? Give"),
        ("btree", "give 'in-memory', 'simple', .* of a class, 'package.module.Class'$"),
        ("no.Such", r".* of a class, 'package.module.Class' \(No module named 'no'\)$"),
    ):
        with pytest.raises(ValueError, match=f"index is '{name}'; {said.replace('?', '.')}"):
            tag(view, pa.array([""]), pa.array(["k"]), index=name)


def test_a_key_in_two_files_is_a_fault_of_the_table(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    write(table, {("", "a-0"): ["k", "m"], ("", "b-0"): ["n", "m"]})
    assert tag(table.view(), pa.array([""]), pa.array(["k"])).funnel.found == 1
    with pytest.raises(DuplicateKeyError, match=r"'m' is in .*/a-0_.* and in .*/b-0_"):
        tag(table.view(), pa.array(["", ""]), pa.array(["k", "m"]))


def test_a_key_twice_in_a_file_is_a_fault_of_the_file(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    write(table, {("", "a-0"): ["k", "m", "m"]})
    with pytest.raises(DuplicateKeyError, match=r"'m' is in rows 1 and 2 of .*/a-0_"):
        tag(table.view(), pa.array(["", ""]), pa.array(["k", "m"]))


def test_a_file_that_a_clean_took_away(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    write(table, {("", "a-0"): ["k"]})
    view = table.view()
    files = view.current()
    (tmp_path / "t" / files[0].path).unlink()
    object.__setattr__(view, "current", lambda: files)
    with pytest.raises(StaleStoreError, match=r"/a-0_.*deleted by a clean"):
        tag(view, pa.array([""]), pa.array(["k"]))


def test_threads_share_an_index(tmp_path: Path, residency: Residency) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    keys = [f"k{number}" for number in range(4000)]
    write(table, {("", f"{part}-0"): keys[part::8] for part in range(8)}, whole_footer)
    view = table.view()
    index = BloomIndex(residency=residency)  # reads, makes and asks lookup files

    def one(start: int) -> bool:
        own = keys[start : start + 400]
        found = tag(view, pa.array([""] * 400), pa.array(own), index=index)
        rows = 8 * found.positions + found.slice_numbers
        return rows.tolist() == list(range(start, start + 400)) and found.funnel.found == 400

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(one, [400 * (step % 10) for step in range(60)]))


def test_a_table_without_meta_columns(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9, SCHEMA)
    view = table.view()
    object.__setattr__(view.options, "meta_fields", False)
    with pytest.raises(FormatError, match="no record keys"):
        tag(view, pa.array([""]), pa.array(["k"]))
