"""Keys that keep their hashes are found as others are, in every file that is asked."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.sst import Reader, Writer
from lookupstore.sst.reader import hashed_keys, reads_of

KEYS = st.sets(st.binary(max_size=4), max_size=60)
ASKED = st.lists(st.none() | st.binary(max_size=4), max_size=90)


@pytest.mark.parametrize("dialect", ["native", "paimon"])
@given(files=st.lists(KEYS, min_size=1, max_size=3), asked=ASKED, skipped=st.integers(0, 5))
@settings(max_examples=40)
def test_they_are_found_as_others_are(
    tmp_path_factory: pytest.TempPathFactory,
    dialect: str,
    files: list[set[bytes]],
    asked: list[bytes | None],
    skipped: int,
) -> None:
    folder = tmp_path_factory.mktemp("hashed")
    keys = pa.array(asked, pa.large_binary())[skipped:]
    hashed = hashed_keys(keys)
    for number, stored in enumerate(files):
        path = folder / f"{number}.sst"
        with Writer(path, dialect=dialect, block_size=64) as writer:
            for key in sorted(stored):
                writer.put(key, b"v" + key)
        with Reader(path) as reader:
            expected = [None if key not in stored else b"v" + key for key in keys.to_pylist()]
            assert reader.lookup(hashed).to_pylist() == expected
            assert reader.lookup(keys).to_pylist() == expected


def test_many_keys(tmp_path: Path) -> None:
    """More than a piece of a batch; most are absent, so that the filter is asked."""
    keys = pa.array([f"{number:07}".encode() for number in range(200_000)])
    with Writer(tmp_path / "a.sst") as writer:
        writer.put_many(keys[::10], keys[::10])
    with Reader(tmp_path / "a.sst") as reader:
        hashed = hashed_keys(keys)
        hashed.hash()  # once more does nothing
        assert reader.lookup(hashed).equals(reader.lookup(keys))
        assert reader.lookup(hashed).null_count == 180_000
        assert reads_of(reader).filter_negatives > 400_000


def test_offsets_that_leave_the_data(tmp_path: Path) -> None:
    offsets = pa.py_buffer(b"".join(end.to_bytes(4, "little") for end in (0, 99, 2)))
    wrong = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"ab")])
    with pytest.raises(ValueError, match=r"keys\[0\]: the Arrow offsets"):
        BinaryColumn(wrong).hash()
