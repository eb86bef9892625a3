"""Range pruning against a look at every key and file; by tree, by list and not at all."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.hudi.file_group._key_ranges import Ranges, high_characters
from lookupstore.hudi.file_group.key_ranges import Candidates, KeyRanges, Prune

# Few letters, so that ends meet keys; the last three are where Java's order is not that of bytes.
LETTERS = "ab\x00z\u00e9\ud7ff\ue000\uffee\U00010000"
TEXTS = st.text(LETTERS, max_size=4)
ENDS = st.lists(st.tuples(st.none() | TEXTS, st.none() | TEXTS), max_size=12)


def is_high(key: str) -> bool:
    return any(char >= "\ue000" for char in key)


def may_be_in(key: str, least: str | None, greatest: str | None) -> bool:
    if least is None or greatest is None or least.encode() > greatest.encode() or is_high(key):
        return True
    return least.encode() <= key.encode() <= greatest.encode()


def asked(ends: list[tuple[str | None, str | None]], keys: list[str], prune: Prune) -> Candidates:
    ranges = KeyRanges([least for least, _ in ends], [last for _, last in ends], prune=prune)
    assert len(ranges) == len(ends)
    found = ranges.candidates(pa.array(keys, pa.string()))
    assert len(found) == len(ends)
    assert found.counts.tolist() == [len(found.rows(file)) for file in range(len(ends))]
    assert sorted(found.order.tolist()) == list(range(len(keys)))
    assert found.keys.to_pylist() == [keys[row].encode() for row in found.order.tolist()]
    for file in range(len(ends)):
        assert (found.order[found.places(file)] == found.rows(file)).all()
    return found


@given(ends=ENDS, keys=st.lists(TEXTS, max_size=30))
def test_tree_and_list_find_what_a_look_at_each_finds(
    ends: list[tuple[str | None, str | None]], keys: list[str]
) -> None:
    tree, plain, off = (asked(ends, keys, prune) for prune in ("tree", "list", "off"))
    assert (tree.spans == plain.spans).all()
    for file, (least, greatest) in enumerate(ends):
        expected = [i for i, key in enumerate(keys) if may_be_in(key, least, greatest)]
        assert sorted(tree.rows(file).tolist()) == expected
        assert sorted(off.rows(file).tolist()) == list(range(len(keys)))
        pruned = tree.rows(file)[: tree.spans[file, 1] - tree.spans[file, 0]].tolist()
        assert [keys[i].encode() for i in pruned] == sorted(keys[i].encode() for i in pruned)


@pytest.mark.parametrize("prune", ["tree", "list"])
@given(files=st.lists(st.lists(TEXTS, min_size=1, max_size=6), min_size=1, max_size=8))
def test_no_key_is_lost_whoever_compared_the_ends(prune: Prune, files: list[list[str]]) -> None:
    """Ends by Java's order (UTF-16 units) and by Python's (code points), in one table."""
    ends: list[tuple[str | None, str | None]] = []
    for number, keys in enumerate(files):
        encoding = "utf-16-be" if number % 2 else "utf-8"
        ordered = sorted(keys, key=lambda key: key.encode(encoding))
        ends.append((ordered[0], ordered[-1]))
    everything = [key for keys in files for key in keys]
    found = asked(ends, everything, prune)
    for file, keys in enumerate(files):
        assert set(keys) <= {everything[i] for i in found.rows(file).tolist()}


@pytest.mark.parametrize("files", [0, 1, 2, 3, 7, 64, 1000])
def test_many_files(files: int, seed: int) -> None:
    draw = random.Random(seed)

    def text() -> str:
        return str(draw.randrange(5000))

    pairs = [sorted((text(), text())) for _ in range(files)]
    ends: list[tuple[str | None, str | None]] = [(least, last) for least, last in pairs]
    keys = [text() for _ in range(300)]
    tree, plain = asked(ends, keys, "tree"), asked(ends, keys, "list")
    assert (tree.spans == plain.spans).all()
    expected = [sum(may_be_in(key, *end) for key in keys) for end in ends]
    assert tree.counts.tolist() == expected


def test_keys_of_one_file_touch_one_file() -> None:
    """A table whose files are ordered by key."""
    ends: list[tuple[str | None, str | None]] = [(f"{n:04}000", f"{n:04}999") for n in range(1000)]
    for prune in ("tree", "list"):
        found = asked(ends, [f"0517{n:03}" for n in range(1000)], prune)
        assert np.flatnonzero(found.counts).tolist() == [517]


def test_the_product_of_keys_and_files_is_never_held() -> None:
    keys = pa.array([f"{n:08}" for n in range(100_000)])
    ranges = KeyRanges(["00000000"] * 1000, ["99999999"] * 1000)
    before = pa.total_allocated_bytes()
    found = ranges.candidates(keys)
    assert int(found.counts.sum()) == 100_000_000
    assert found.keys.nbytes + found.order.nbytes + found.spans.nbytes < 1 << 21
    assert pa.total_allocated_bytes() - before < 1 << 22
    assert found.rows(999).base is not None  # a view: a file's candidates are no copy


def test_types_of_arrays() -> None:
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()):
        ends = pa.array([None, b"b", b"d"], pa.binary()).cast(kind)
        ranges = KeyRanges(ends[1:], ends[1:])
        found = ranges.candidates(pa.array([b"x", b"d", b"b"], pa.binary()).cast(kind)[1:])
        assert [found.rows(file).tolist() for file in range(2)] == [[1], [0]]
    chunks = pa.chunked_array([["d"], ["b", "c"]])
    assert KeyRanges(["b"], ["c"]).candidates(chunks).rows(0).tolist() == [1, 2]


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="prune is 'no'"):
        KeyRanges([], [], prune="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="least has 1 keys, greatest 0"):
        KeyRanges(["a"], [])
    with pytest.raises(ValueError, match=r"keys\[1\] is null"):
        KeyRanges(["a"], ["b"]).candidates(pa.array(["a", None]))
    with pytest.raises(TypeError, match="int64"):
        KeyRanges(["a"], ["b"]).candidates(pa.array([1]))
    column = BinaryColumn([b"a"])
    with pytest.raises(ValueError, match="1 least keys, 0 greatest"):
        Ranges(column, BinaryColumn([]))
    with pytest.raises(ValueError, match="null"):
        Ranges(column, BinaryColumn(pa.array([None], pa.binary())))
    with pytest.raises(IndexError, match="beyond the 1"):
        Ranges(column, column).spans(column, np.array([1], np.uint32), tree=True)


def test_high_characters() -> None:
    texts = ["", "a", "\ud7ff", "\ue000", "\uffff", "\U00010000", "a\U0010ffff", "é" * 40]
    found = high_characters(BinaryColumn(pa.array(texts)))
    assert found.tolist() == [is_high(text) for text in texts]
