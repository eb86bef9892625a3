"""Files of deletion vectors of Iceberg, beside pyiceberg, which checks no checksum."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyarrow import fs

from lookupstore import CorruptionError, FormatError, StaleStoreError
from lookupstore.storage.file_address import FileAddress
from lookupstore.tables.iceberg.puffin import vectors_of
from lookupstore.tables.roaring import Positions

pytest.importorskip("pyiceberg")
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from support.iceberg_tables import vectors_file


def read(path: Path) -> dict[str, Positions]:
    address = FileAddress.on(fs.LocalFileSystem(), str(path))
    return dict(vectors_of(address, path.stat().st_size))


def test_vectors_are_those_that_pyiceberg_reads(tmp_path: Path, seed: int) -> None:
    chance, path = random.Random(seed), tmp_path / "v.puffin"
    for _ in range(20):
        vectors_file(path, {
            f"file:///{number}.parquet": chance.sample(range(1 << 20), chance.choice([0, 1, 9000]))
            for number in range(chance.randrange(4))
        })  # fmt: skip
        expected = {
            one.referenced_data_file: one.to_vector().to_pylist()
            for one in deletion_vectors_from_puffin_file(PuffinFile(path.read_bytes()))
        }
        assert {name: found.tolist() for name, found in read(path).items()} == expected


def test_damage_is_found(tmp_path: Path, seed: int) -> None:
    chance, path = random.Random(seed), tmp_path / "v.puffin"
    vectors_file(path, {"a": [1, 5], "b": [70_000]})
    content = path.read_bytes()
    vectors = content.index(b"PFA1", 4)
    for at in range(vectors + 4):
        path.write_bytes(
            content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
        )
        with pytest.raises(CorruptionError, match=path.name):
            read(path)
    for end in range(len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(CorruptionError, match=path.name):
            read(path)
    for old, new in (
        (b'"cardinality": "2"', b'"cardinality": "3"'),
        (b'"offset": 4', b'"offset": 5'),
        (b'"offset": 4', b'"offset": 0'),
        (b'"referenced-data-file"', b'"referenced-data-fil?"'),
        (b'{"blobs"', b'["blobs"'),
    ):
        assert old in content
        path.write_bytes(content.replace(old, new, 1))
        with pytest.raises(CorruptionError, match=path.name):
            read(path)
    path.unlink()
    with pytest.raises(StaleStoreError, match="gone"):
        vectors_of(FileAddress.on(fs.LocalFileSystem(), str(path)), len(content))


def test_what_is_compressed_is_refused_by_name(tmp_path: Path) -> None:
    path, said = tmp_path / "v.puffin", r"v\.puffin: a compressed footer or deletion vector"
    vectors_file(path, {"a": [1, 5]}, **{"compression-codec": "zstd"})
    with pytest.raises(FormatError, match=said):
        read(path)
    vectors_file(path, {"a": [1, 5]})
    content = path.read_bytes()
    path.write_bytes(content[:-8] + b"\1\0\0\0" + content[-4:])
    with pytest.raises(FormatError, match=said):
        read(path)
