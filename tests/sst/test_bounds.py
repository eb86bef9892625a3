"""What a compressed file may become in memory and on disk: what it says, and no more."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pyarrow as pa
import pytest
from support.sst_files import varint

from lookupstore.errors import CorruptionError
from lookupstore.hostcache.recode import write_plain
from lookupstore.sst import Reader, Writer, writer
from lookupstore.sst._load import BlockLoad
from lookupstore.sst.codec import Compressor, decompress
from lookupstore.sst.dump import dump_text, layout
from lookupstore.sst.format import (
    NATIVE,
    TRAILER_SIZE,
    Info,
    pack_properties,
    pack_trailer,
    unpack_properties,
)
from lookupstore.sst.stored import StoredFile

RECORDS = [(b"%04d" % key, bytes(100_000)) for key in range(40)]


def says(path: Path, name: bytes, number: int) -> None:
    """Let the properties of a file say another number, under a right checksum."""
    file = StoredFile(str(path))
    offset, size = file.footer.properties or (0, 0)
    codec, _ = file.payload((offset, size), "properties")
    assert codec == 0
    content = bytearray(path.read_bytes())
    payload = bytes(content[offset : offset + size])
    found = re.search(re.escape(name) + rb".(\d+)", payload, re.DOTALL)
    assert found is not None
    told = b"%0*d" % (len(found[1]), number)
    assert len(told) == len(found[1])
    payload = payload[: found.start(1)] + told + payload[found.end(1) :]
    content[offset : offset + size + TRAILER_SIZE] = payload + pack_trailer(NATIVE, codec, payload)
    path.write_bytes(content)


def made(path: Path, compression: str = "zstd") -> Path:
    with Writer(path, compression=compression, block_size=1000) as writer:
        for key, value in RECORDS:
            writer.put(key, value)
    return path


def test_a_block_is_no_larger_than_what_the_file_holds(tmp_path: Path) -> None:
    path = made(tmp_path / "a.sst")
    assert path.stat().st_size < 65_000
    says(path, b"data.plain_bytes", 1000)
    with Reader(path) as reader:
        for use in (
            lambda: reader.get(b"0001"),
            lambda: reader.lookup([b"0001", b"0030"]),
            lambda: list(reader.scan()),
            reader.verify,
            lambda: write_plain(reader, str(tmp_path / "plain.sst")),
        ):
            with pytest.raises(CorruptionError, match="in a file that holds 1000"):
                use()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.sst"]


def test_a_plain_copy_is_no_larger_than_what_the_file_holds(tmp_path: Path) -> None:
    """Each block is one that the file may hold, all of them are not."""
    path = made(tmp_path / "a.sst")
    says(path, b"data.plain_bytes", 150_000)
    with Reader(path) as reader:
        assert reader.get(b"0001") == RECORDS[1][1]
        with pytest.raises(CorruptionError, match="records of at most 150000 bytes"):
            write_plain(reader, str(tmp_path / "plain.sst"))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.sst"]


def test_a_scan_has_few_blocks_in_memory_whatever_the_file_says(tmp_path: Path) -> None:
    """The recorded size is that of fewer blocks; a batch still has a few of 100 KB."""
    path = made(tmp_path / "a.sst")
    says(path, b"data.plain_bytes", 150_000)
    with Reader(path) as reader:
        for first, last in itertools.combinations([0, 1, 5, 6, 12, 33, 40], 2):
            start = RECORDS[first][0]
            stop = RECORDS[last][0] if last < 40 else None
            for reverse in (False, True):
                batches = list(reader.scan(start=start, stop=stop, reverse=reverse))
                assert max(batch.nbytes for batch in batches) < 700_000
                found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
                assert found == RECORDS[first:last][:: -1 if reverse else 1]


def test_a_plain_copy_of_keys_in_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Reader(made(tmp_path / "a.sst")) as reader:
        monkeypatch.setattr(reader, "scan", lambda: Reader.scan(reader, reverse=True))
        with pytest.raises(CorruptionError, match=r"a\.sst: .*records in key order"):
            write_plain(reader, str(tmp_path / "plain.sst"))


@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
def test_files_as_they_are_written(tmp_path: Path, compression: str) -> None:
    path = made(tmp_path / "a.sst", compression)
    with Reader(path) as reader:
        write_plain(reader, str(tmp_path / "plain.sst"))
    with Reader(tmp_path / "plain.sst") as plain:
        assert list(plain.items()) == RECORDS


def test_what_a_byte_may_stand_for() -> None:
    """Blocks of zeros are as small as zstd makes them; beyond 256 MiB a byte stands for less."""
    block = bytes(20 << 20)
    packed = Compressor("zstd", None, java=True).packed(BlockLoad([block]), NATIVE)
    (codec,), payload = packed.codecs, bytes(packed.written)[:-TRAILER_SIZE]
    assert len(payload) < 3000
    assert decompress(codec, payload) == block
    lying = varint(300 << 20) + bytes(1 << 16)
    with pytest.raises(ValueError, match="bytes that claim to be 314572800"):
        decompress(codec, lying)
    frame = varint(len(block) - 1) + payload[4:]
    with pytest.raises(ValueError, match=r"where 20971519 were promised|broken zstd frame"):
        decompress(codec, frame)


def test_numbers_in_properties(tmp_path: Path) -> None:
    """A number of more digits than C has is none, whatever the checksum says."""
    path = tmp_path / "a.sst"
    with Writer(path, metadata={"x": bytes(64)}) as writer:
        writer.put(b"k", b"v")
    with Reader(path) as reader:
        properties = pack_properties(reader.info())
    assert unpack_properties(properties)["num_records"] == 1
    most = unpack_properties({**properties, b"records": b"9" * 18})
    assert most["num_records"] == 10**18 - 1
    for wrong in (b"9" * 19, b"1" * 5000, b"-1", b"", "²".encode()):
        with pytest.raises(ValueError, match=r"property records is .*, not a number"):
            unpack_properties({**properties, b"records": wrong})
    for schema in (b"", b"\xff" * 40, bytes(8)):
        with pytest.raises(ValueError, match=r"property key\.schema is not an Arrow schema"):
            unpack_properties({**properties, b"key.schema": schema})


def schema_of_no_type() -> bytes:
    """Return a schema with a type that Arrow knows of and does not implement."""
    schema = pa.schema({"id": pa.int64()}).serialize().to_pybytes()
    for at, number in itertools.product(range(len(schema)), (8, 11)):
        changed = schema[:at] + bytes([number]) + schema[at + 1 :]
        try:
            pa.ipc.read_schema(pa.py_buffer(changed))
        except pa.ArrowNotImplementedError:
            return changed
        except (pa.ArrowInvalid, OSError):
            continue
    raise AssertionError("no such schema")


@pytest.mark.parametrize("name", ["records", "key.schema", "value.schema"])
def test_properties_under_a_right_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A number beyond what `len` may return, and a type that Arrow has not, are damage."""
    wrong = b"9" * 19 if name == "records" else schema_of_no_type()

    def said(info: Info) -> dict[bytes, bytes]:
        return dict(sorted({**pack_properties(info), name.encode(): wrong}.items()))

    monkeypatch.setattr(writer, "pack_properties", said)
    path = tmp_path / "a.sst"
    with Writer(path) as new:
        new.put(b"k", b"v")
    with pytest.raises(CorruptionError, match=rf"property {name} is .*not a") as told:
        len(Reader(path))
    assert told.value.path == str(path)
    assert name in dump_text(layout(str(path)))
