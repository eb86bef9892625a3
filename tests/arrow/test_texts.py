"""UTF-8 as Python decodes it, in arrays of every kind that have texts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lookupstore.arrow.texts import check_texts, first_bad_text

# Bytes at the ends of the ranges that have rules.
EDGES = bytes.fromhex("00417f808f909fa0bfc0c1c2dfe0e1ecedeeeff0f1f3f4f5f8ff")


def is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def texts(values: list[bytes | None], kind: pa.DataType) -> pa.Array:
    """Return bytes as strings without a look at them."""
    binary = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(kind)
    if binary is None:
        return pa.array(values, pa.binary_view()).cast(pa.binary()).view(pa.string()).cast(kind)
    return pa.array(values, binary).view(kind)


def some_value(chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return bytes(chance.choice(EDGES) for _ in range(chance.randrange(5)))
    word = "".join(chance.choice("aé日😀") for _ in range(chance.randrange(9))).encode()
    return word * chance.choice([1, 1, 1, 200])


def test_every_sequence_of_edges() -> None:
    """All of two and of four bytes, or the first of four."""
    for one in EDGES:
        for two in EDGES:
            for rest in (b"", b"\x80", b"\x80\x80", b"a", b"\xbf\xc0"):
                value = bytes([one, two]) + rest
                found = first_bad_text(texts([value], pa.string()), "t")
                assert (found is None) == is_utf8(value), value


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_the_first_bad_text(seed: int, kind: pa.DataType) -> None:
    chance = random.Random(seed)
    outcomes = set()
    for _ in range(300):
        values = [chance.choice([None, some_value(chance)]) for _ in range(chance.randrange(8))]
        if chance.random() < 0.5:
            values = [one if one is None or is_utf8(one) else b"ok" for one in values]
        start = chance.randrange(len(values) + 1)
        found = first_bad_text(texts(values, kind).slice(start), "t")
        bad = [at for at, one in enumerate(values[start:]) if one is not None and not is_utf8(one)]
        assert (None if found is None else found.row) == (bad[0] if bad else None)
        assert found is None or found.value == values[start + bad[0]]
        outcomes.add(bool(bad))
    assert outcomes == {True, False}


def test_two_halves_of_a_character_are_no_texts() -> None:
    """Their bytes together are UTF-8."""
    found = first_bad_text(texts([b"a\xc3", b"\xa9"], pa.string()), "t")
    assert found is not None
    assert found.row == 0


def test_what_lies_under_nulls_is_no_text() -> None:
    offsets, data = pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\xffa")
    array = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x02"), offsets, data])
    assert array.to_pylist() == [None, "a"]
    assert first_bad_text(array, "t") is None


def nested() -> dict[str, Any]:
    bad = texts([b"a", b"b", None, b"\xe9", b"c"], pa.string())
    ends = pa.array([0, 2, 2, 3, 5], pa.int32())
    return {
        "dictionary": (pa.DictionaryArray.from_arrays(pa.array([0, 1, 4, 3]), bad), "t"),
        "struct": (pa.StructArray.from_arrays([bad.slice(0, 4)], ["a"]), "t.a"),
        "list": (pa.ListArray.from_arrays(ends, bad), "t"),
        "large list": (pa.LargeListArray.from_arrays(ends.cast(pa.int64()), bad), "t"),
        "map": (pa.MapArray.from_arrays(ends, texts([b"k"] * 5, pa.string()), bad), "t.value"),
        "list of structs": (
            pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays([bad], ["a"])),
            "t.a",
        ),
        "fixed list": (pa.FixedSizeListArray.from_arrays(texts([b"x"] * 6, pa.string()), 2), None),
    }


@pytest.mark.parametrize("name", list(nested()))
def test_texts_inside_others(name: str) -> None:
    array, path = nested()[name]
    found = first_bad_text(array, "t")
    if path is None:
        assert found is None
        return
    assert found is not None
    assert (found.row, found.path, found.value) == (3, path, b"\xe9")
    assert first_bad_text(array.slice(0, 3), "t") is None


def test_a_value_that_no_row_has() -> None:
    values = texts([b"a", b"\xff", b"\xfe"], pa.string())
    assert first_bad_text(pa.DictionaryArray.from_arrays(pa.array([0, 0]), values), "t") is None
    found = first_bad_text(pa.DictionaryArray.from_arrays(pa.array([0, 2]), values), "t")
    assert found is not None
    assert (found.row, found.value) == (1, b"\xfe")


def test_the_error_names_column_row_and_remedy() -> None:
    batch = pa.record_batch([pa.array([1, 2]), texts([b"a", b"\xff"], pa.string())], ["id", "city"])
    message = r"users: the column 'city' has text that is not UTF-8 in row 12: b'\\xff'; .* binary"
    with pytest.raises(ValueError, match=message):
        check_texts(batch, "users", 10)
