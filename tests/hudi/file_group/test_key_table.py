"""The hash table of keys against a dict."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.hudi.file_group._key_table import KeyTable

KEYS = st.lists(st.none() | st.binary(max_size=3) | st.sampled_from([b"a", b"ab"]), max_size=80)


@given(keys=KEYS, asked=KEYS, kind=st.sampled_from([pa.binary(), pa.large_binary()]))
def test_it_answers_as_a_dict_does(
    keys: list[bytes | None], asked: list[bytes | None], kind: pa.DataType
) -> None:
    first: dict[bytes | None, int] = {}
    for row, key in enumerate(keys):
        first.setdefault(key, row)
    first.pop(None, None)
    table = KeyTable(BinaryColumn(pa.array(keys, kind)))
    found = table.find(BinaryColumn(pa.array(asked, pa.large_binary())))
    assert found.tolist() == [first.get(key, -1) for key in asked]
    expected = [first.get(key, row) for row, key in enumerate(keys)]
    if table.first is None:
        assert expected == list(range(len(keys)))
    else:
        assert table.first.tolist() == expected != list(range(len(keys)))


def test_many_keys() -> None:
    numbers = np.random.default_rng(5).permutation(200_000)
    keys = pa.array(numbers).cast(pa.string())
    table = KeyTable(BinaryColumn(keys[:100_000]))
    rows = table.find(BinaryColumn(keys))
    assert (rows[:100_000] == np.arange(100_000)).all()
    assert (rows[100_000:] == -1).all()
    assert table.first is None


def test_offsets_that_leave_the_data() -> None:
    offsets = pa.py_buffer(np.array([0, 99, 2], np.int32))
    wrong = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"ab")])
    right = BinaryColumn(pa.array([b"a"]))
    with pytest.raises(ValueError, match=r"keys\[0\]: the Arrow offsets"):
        KeyTable(BinaryColumn(wrong))
    with pytest.raises(ValueError, match=r"keys\[0\]: the Arrow offsets"):
        KeyTable(right).find(BinaryColumn(wrong))
