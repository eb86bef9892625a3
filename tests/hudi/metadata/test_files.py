"""Files of Java's metadata tables: read, written again, and damaged at every place."""

from __future__ import annotations

import random
import shutil
import struct
import zlib
from pathlib import Path

import pytest
from support.hudi.metadata import WITH_METADATA, as_of_folders

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.log.blocks import (
    DELETES,
    HFILE,
    INSTANT_HEADER,
    NO_DELETES,
    SCHEMA_HEADER,
    block_bytes,
    read_blocks,
)
from lookupstore.hudi.log.hfile import hfile_bytes, read_hfile
from lookupstore.hudi.metadata.files_partition import FilesPartition, files_partition
from lookupstore.hudi.metadata.group_files import TIMELINE
from lookupstore.hudi.metadata.records import FileInfo, Listing, changes_bytes, schema_bytes
from lookupstore.storage.location import Location

TRIES = 3000


def files_of(tables: Path, pattern: str) -> list[Path]:
    found = [
        path for name in WITH_METADATA
        for path in sorted((tables / name / ".hoodie" / "metadata" / "files").glob(pattern))
        if path.suffix != ".crc"
    ]  # fmt: skip
    assert found
    return found


def logs_of(tables: Path) -> list[Path]:
    return [path for path in files_of(tables, ".files*.log*") if path.stat().st_size > 100]


@pytest.mark.parametrize("name", WITH_METADATA)
def test_what_is_listed_is_what_is_there(real_tables: Path, name: str) -> None:
    view = HudiTable.open(real_tables / name).view()
    partition = files_partition(view.location, view.timeline, view.folder.beside(TIMELINE))
    listing = partition.listing(view.location)
    assert listing.files == as_of_folders(real_tables / name)
    assert listing.partitions == set(listing.files)
    assert partition.base is not None
    assert len(partition.logs) > 1


@pytest.mark.parametrize(
    ("size", "length"),
    [(3, "03"), (127, "7f"), (128, "8f80"), (255, "8fff"), (256, "8e0100"), (300, "8e012c")],
)
def test_lengths_in_the_index_are_those_of_hadoop(size: int, length: str) -> None:
    """What `WritableUtils.writeVInt` of Hadoop writes: one byte up to 127."""
    row = struct.pack(">h", size - 2) + b"k" * (size - 2)
    content = hfile_bytes([(row[2:], b"v")], schema_bytes(), 0)
    blocks = [
        zlib.decompressobj(wbits=31).decompress(content[at:])
        for at in range(len(content))
        if content.startswith(b"\x1f\x8b\x08", at)
    ]
    index = next(block for block in blocks if block.startswith(bytes(8)))
    assert index[12:] == bytes.fromhex(length) + row
    assert [one.key for one in read_hfile(content, "").entries] == [row[2:]]


def test_a_block_that_deletes_nothing_is_passed_over(tmp_path: Path) -> None:
    """A new file group begins with one, and records may come behind it."""

    def of_kind(kind: int, content: bytes) -> bytes:
        block = block_bytes(HFILE, {INSTANT_HEADER: b"1", SCHEMA_HEADER: schema_bytes()}, content)
        at = len(b"#HUDI#") + 8 + 4  # after its size and version
        return block[:at] + struct.pack(">i", kind) + block[at + 4 :]

    files = {"p": {"a.parquet": FileInfo(9, False)}}
    records = changes_bytes(files, 0)
    place = Location(tmp_path)
    partition = FilesPartition("files-0", None, ("log",), ("1",))
    nothing = of_kind(DELETES, NO_DELETES)
    (tmp_path / "log").write_bytes(nothing + of_kind(HFILE, records) + nothing)
    assert partition.listing(place).files == {"p": {"a.parquet": 9}}
    for other in (of_kind(DELETES, records), of_kind(2, NO_DELETES)):
        (tmp_path / "log").write_bytes(other + of_kind(HFILE, records))
        with pytest.raises(FormatError, match=r"log: a log block of kind \d, which Hudi does not"):
            partition.listing(place)


@pytest.mark.parametrize("name", ["", "a/b.parquet", "/etc/passwd"])
def test_a_name_that_is_no_file_of_the_folder_is_damage(name: str) -> None:
    """What a metadata table lists is read, and may be deleted."""
    content = changes_bytes(
        {"p": {"good.parquet": FileInfo(9, False), name: FileInfo(9, False)}}, 0
    )
    with pytest.raises(CorruptionError, match="the name of a file, found"):
        Listing().add(read_hfile(content, "f"), schema_bytes(), "f", 0)


def test_a_log_file_of_java_is_written_again_to_the_byte(real_tables: Path) -> None:
    """But for the gzip of its blocks, of which a reader takes any."""
    for path in logs_of(real_tables):
        content = path.read_bytes()
        (block,) = read_blocks(content, str(path))
        assert block.kind == HFILE
        assert block.schema == schema_bytes()
        assert block_bytes(HFILE, block.headers, block.content) == content
        file = read_hfile(block.content, str(path), block.at)
        millis = struct.unpack(">q", file.info[b"hfile.CREATE_TIME_TS"])[0]
        again = hfile_bytes([(one.key, one.value) for one in file.entries], block.schema, millis)
        read = read_hfile(again, "")
        assert read.info == file.info
        assert list(read.info) == list(file.info)
        assert [one[:2] for one in read.entries] == [one[:2] for one in file.entries]
        assert again[-4096:] == block.content[-4096:]
        # The records, too, are as Java has them.
        listing = Listing()
        listing.add(file, block.schema, str(path), 0)
        ours = read_hfile(
            changes_bytes(
                {
                    partition: {name: FileInfo(size, False) for name, size in files.items()}
                    for partition, files in listing.files.items()
                },
                millis,
            ),
            "",
        )
        # A map of Java's has no order.
        if [len(files) for files in listing.files.values()] == [1]:
            assert [one[:2] for one in ours.entries] == [one[:2] for one in file.entries]


@pytest.mark.parametrize("size", [0, 8, 4095])
def test_a_file_shorter_than_its_trailer(size: int) -> None:
    with pytest.raises(CorruptionError) as caught:
        read_hfile(b"x" * size, "the/path")
    said = f"the/path: offset 0: expected 4096 bytes of a trailer, found {size}"
    assert str(caught.value) == said


def test_any_damage_is_found_or_harmless(real_tables: Path, seed: int) -> None:
    """Random bytes, bits and ends: an error with the path, or a listing, and nothing else."""
    chosen = random.Random(seed)
    base = files_of(real_tables, "files*_2026*.hfile")[0].read_bytes()
    log = logs_of(real_tables)[0].read_bytes()
    refused = taken = 0
    for _ in range(TRIES):
        is_log = chosen.random() < 0.5
        content = bytearray(log if is_log else base)
        # Most of the bytes are schema and padding.
        near = chosen.choice([60, 600, len(content)])
        for _ in range(chosen.randint(1, 3)):
            at = chosen.randrange(near) if chosen.random() < 0.5 else -chosen.randrange(1, near)
            flipped = content[at] ^ 1 << chosen.randrange(8)
            content[at] = chosen.choice([0, 1, 127, 128, 255, flipped])
        if chosen.random() < 0.2:
            del content[chosen.randrange(len(content)) :]
        try:
            read_all(bytes(content), is_log)
        except (CorruptionError, FormatError) as error:
            refused += str(error).startswith("the/path: ")
        else:
            taken += 1
    assert refused + taken == TRIES
    assert refused > TRIES / 3


def read_all(content: bytes, is_log: bool) -> Listing:
    listing = Listing()
    if not is_log:
        file = read_hfile(content, "the/path")
        listing.add(file, file.info.get(b"schema", b""), "the/path", 0)
        return listing
    for block in read_blocks(content, "the/path"):
        if block.kind == HFILE:
            file = read_hfile(block.content, "the/path", block.at)
            listing.add(file, block.schema, "the/path", block.at_schema)
    return listing


def test_blocks_of_other_writers_have_checksums(real_tables: Path) -> None:
    """Apache HBase's: a sum of each 16 KiB, of the header as well."""
    raw = files_of(real_tables, "files*_2026*.hfile")[0].read_bytes()
    size = struct.unpack(">i", raw[29:33])[0]
    content = bytearray(raw)
    content[24] = 1
    content[size : size + 4] = struct.pack(">I", zlib.crc32(bytes(content[:size])))
    assert read_hfile(bytes(content), "").entries
    content[size] ^= 1
    with pytest.raises(CorruptionError, match="a block with the checksums"):
        read_hfile(bytes(content), "")


def test_later_records_add_and_delete(seed: int) -> None:
    """Against sets of files, changed by random instants."""
    chosen = random.Random(seed)
    expected: dict[str, dict[str, int]] = {}
    listing = Listing()
    for _ in range(200):
        changes: dict[str, dict[str, FileInfo]] = {}
        for partition in chosen.sample(["", "a", "a/b", "é"], chosen.randint(0, 4)):
            there = expected.setdefault(partition, {})
            files = changes.setdefault(partition, {})
            for name in chosen.sample([f"f{number}" for number in range(9)], chosen.randint(0, 5)):
                if name in there:
                    files[name] = FileInfo(0, True)
                    del there[name]
                else:
                    there[name] = chosen.randrange(1 << 40)
                    files[name] = FileInfo(there[name], False)
        file = read_hfile(changes_bytes(changes, 0), "")
        listing.add(file, schema_bytes(), "", 0)
        assert listing.files == expected
        assert listing.partitions == set(expected)
    with pytest.raises(FormatError, match="a partition called '__all_partitions__'"):
        changes_bytes({"__all_partitions__": {}}, 0)


def test_a_wrong_entry_is_found(real_tables: Path, tmp_path: Path) -> None:
    """A file that is not listed, one that is not there, another size, a damaged log file."""

    def findings(change: str) -> list[tuple[str, str]]:
        path = Path(shutil.copytree(real_tables / "v9_txns_nonpart_meta", tmp_path / change))
        folder = path / ".hoodie" / "metadata" / "files"
        last = max(folder.glob(".files*.log*"), key=lambda one: one.name)
        (log,) = read_blocks(last.read_bytes(), "")
        listing = Listing()
        listing.add(read_hfile(log.content, ""), log.schema, "", 0)
        ((name, size),) = listing.files[""].items()
        files = {
            "absent": {},
            "more": {name: FileInfo(size, False), "other.parquet": FileInfo(1, False)},
            "size": {name: FileInfo(size + 1, False)},
        }.get(change, {name: FileInfo(size, False)})
        content = block_bytes(HFILE, log.headers, changes_bytes({"": files}, 0))
        last.write_bytes(content[:-1] if change == "damage" else content)
        found = HudiTable.open(path).verify()
        assert found.is_ok == (change == "same")
        return [(one.kind, one.problem) for one in found.findings]

    assert findings("same") == []
    for change, problem in (
        ("absent", "committed, but the metadata table does not list it"),
        ("more", "listed in .hoodie/metadata/files, but missing"),
        ("size", "as .hoodie/metadata/files lists"),
        ("damage", "bytes"),
    ):
        ((kind, found),) = findings(change)
        assert kind == "metadata"
        assert problem in found
