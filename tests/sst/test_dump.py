"""Dumps of sorted files: the text as tests/sst/data/*.txt has it, and the same verdict as verify.

A case in a data file is a command with its input, ``----``, the output, and ``====``. Commands act
on one file: ``write OPTIONS`` (records as lines ``key=value``, with Python's escapes), ``golden
NAME``, ``damage OFFSET MASK`` (exclusive or), ``insert OFFSET HEX``, ``dump``, ``records`` (with
every record), ``hex``, ``verify``. LOOKUPSTORE_REWRITE=1 writes what the code gives now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from crc32c import crc32c
from support.sst_files import Stored, block, craft

from lookupstore.errors import CorruptionError, FormatError, LookupStoreError
from lookupstore.sst import Reader, Writer, dump
from lookupstore.sst._block import Block
from lookupstore.sst.dump import dump_text, hexdump, layout, text
from lookupstore.sst.format import NATIVE, PAIMON, Dialect
from lookupstore.sst.hex import pieces

DATA = Path(__file__).parent / "data"
# What is said of regions that lie over each other, whose bytes can not be shown once each.
OVERLAPS = ("starts inside", "reaches into")
REWRITE = os.environ.get("LOOKUPSTORE_REWRITE") == "1"


@dataclass
class Case:
    """One command of a data file."""

    line: int
    command: str
    comments: list[str]
    input: list[str]
    output: str

    def __str__(self) -> str:
        head = "".join(f"{line}\n" for line in [*self.comments, self.command, *self.input])
        return f"{head}----\n{self.output}====\n"


def cases_of(content: str) -> Iterator[Case]:
    lines = iter(enumerate(content.splitlines(), start=1))
    for number, line in lines:
        comments = []
        while not line or line.startswith("#"):
            comments.append(line)
            number, line = next(lines)
        head = []
        for _, one in lines:
            if one == "----":
                break
            head.append(one)
        output = []
        for _, one in lines:
            if one == "====":
                break
            output.append(f"{one}\n")
        yield Case(number, line, comments, head, "".join(output))


def unescape(value: str) -> bytes:
    return value.encode("latin-1").decode("unicode_escape").encode("latin-1")


def write(path: Path, options: list[str], records: list[str]) -> None:
    values: dict[str, object] = {}
    for option in options:
        name, _, value = option.partition("=")
        values[name] = float(value) if "." in value else int(value) if value.isdigit() else value
    path.unlink(missing_ok=True)
    with Writer(path, **values) as writer:  # type: ignore[arg-type]
        for record in records:
            key, _, value = record.partition("=")
            writer.put(unescape(key), unescape(value))


def run(case: Case, path: Path, golden: Path) -> str:
    command, *rest = case.command.split()
    order = next((word[6:] for word in rest if word.startswith("order=")), "bytes")
    if command == "write":
        write(path, rest, case.input)
    elif command == "golden":
        path.write_bytes((golden / "paimon" / rest[0]).read_bytes())
    elif command == "damage":
        content = bytearray(path.read_bytes())
        content[int(rest[0])] ^= int(rest[1], 0)
        path.write_bytes(content)
    elif command == "insert":
        content = bytearray(path.read_bytes())
        content[int(rest[0]) : int(rest[0])] = bytes.fromhex(rest[1])
        path.write_bytes(content)
    elif command == "dump":
        return dump_text(layout(path, order))
    elif command == "records":
        return dump_text(layout(path, order, records=True))
    elif command == "hex":
        return hexdump(layout(path, order, records=True))
    elif command == "verify":
        return verdict(path, order).replace(str(path), "FILE") + "\n"
    else:
        raise AssertionError(f"line {case.line}: no command {command!r}")
    return ""


def verdict(path: Path, order: str = "bytes") -> str:
    """Return what `Reader.verify` says of a file: ok, or the error."""
    try:
        with Reader(path, order=order) as reader:
            reader.verify()
    except LookupStoreError as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


@pytest.mark.parametrize("data", sorted(DATA.glob("*.txt")), ids=lambda path: path.stem)
def test_dumps_are_what_the_data_files_say(data: Path, tmp_path: Path, golden: Path) -> None:
    content = data.read_text()
    cases = list(cases_of(content))
    assert "".join(map(str, cases)) == content
    wrong = []
    for case in cases:
        found = run(case, tmp_path / "file.sst", golden)
        if found != case.output:
            wrong.append(f"{data.name}:{case.line}: {case.command}\n{found}")
            case.output = found
    if REWRITE:
        data.write_text("".join(map(str, cases)))
    else:
        assert not wrong, "\n".join(wrong)


def small_file(path: Path, dialect: str, compression: str) -> bytes:
    options = {"block_size": 64, "compression": compression, "dialect": dialect}
    with Writer(path, **options) as writer:  # type: ignore[arg-type]
        for i in range(8):
            writer.put(b"key %02d" % i, b"value " * (3 * i))
    return path.read_bytes()


@pytest.mark.few(2)
@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
@pytest.mark.parametrize("dialect", ["native", "paimon"])
def test_every_flipped_bit_gets_the_verdict_of_verify(
    dialect: str, compression: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.sst"
    good = small_file(path, dialect, compression)
    assert layout(path).ok
    assert set(region.codec for region in layout(path).regions) >= {compression}
    silent = set()
    # 13 and 8 have no common factor: now this bit of a byte, now that.
    for bit in range(0, 8 * len(good), 13):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        try:
            found = layout(path, records=True)
        except FormatError:
            assert bit // 8 >= len(good) - 4, "only without a magic there is no layout"
            continue
        assert found.ok == (verdict(path) == "ok"), bit
        assert dump_text(found).count("\n! ") == sum(len(r.errors) for r in found.regions)
        json.dumps(found.to_json())
        if found.ok:
            silent.add(bit // 8)
        elif not any(e.startswith(OVERLAPS) for r in found.regions for e in r.errors):
            parts = [piece.data for _, part in pieces(found) for piece in part]
            assert b"".join(parts) == bad
        assert hexdump(found)
    if dialect == "native":
        assert not silent
    else:  # the filter and its entries in the footer have no checksum
        at = layout_of_bytes(path, good)
        assert silent <= at


def layout_of_bytes(path: Path, content: bytes) -> set[int]:
    """Return the bytes of a paimon file that no checksum covers: the filter and the footer."""
    path.write_bytes(content)
    found = layout(path)
    return {
        byte
        for region in found.regions
        if region.checksum is None
        for byte in range(region.offset, region.offset + region.size)
    }


@pytest.mark.parametrize("dialect", [NATIVE, PAIMON], ids=["native", "paimon"])
def test_blocks_that_contradict_the_index_are_blamed(dialect: Dialect, tmp_path: Path) -> None:
    """All checksums are right: what is wrong is said at the block, with the keys."""
    path = tmp_path / "lie.sst"
    records = [(b"k%02d" % number, b"value") for number in range(14)]
    low, high = Stored.of(records[:7]), Stored.of(records[7:])
    again = Stored(high.last_key, block(records[6:]))
    before = Stored(high.last_key, block([*records[:3], records[13]]))
    for blocks, at, said in (
        ([Stored(b"k05", low.payload), high], 0, "last key 'k06', the index says 'k05'"),
        ([low, Stored(b"k99", high.payload)], 1, "last key 'k13', the index says 'k99'"),
        ([low, again], 1, "first key 'k06' does not come after 'k06'"),
        ([low, before], 1, "first key 'k00' does not come after 'k06'"),
    ):
        if dialect is PAIMON and again in blocks:
            continue  # there a key may be repeated, also over two blocks
        path.write_bytes(craft(dialect, blocks, records=records))
        found = layout(path)
        data = [region for region in found.regions if region.kind == "data block"]
        assert said in data[at].errors
        assert data[1 - at].errors == []
        assert not found.ok
        assert said in dump_text(found)
        assert verdict(path).startswith("CorruptionError")


@pytest.mark.parametrize("dialect", ["native", "paimon"])
def test_a_damaged_index_is_blamed_and_nothing_else(dialect: str, tmp_path: Path) -> None:
    """Blocks whose checksum is right are not compared with an index whose checksum is wrong."""
    path = tmp_path / "i.sst"
    with Writer(path, dialect=dialect, block_size=1, compression="none", bloom_fpp=0) as writer:
        for i in range(4):
            writer.put(b"key%d" % i, b"value")
    whole = path.read_bytes()
    index = next(one for one in layout(path).regions if one.kind == "index block")
    for offset in range(index.offset, index.offset + index.size):
        path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1]) + whole[offset + 1 :])
        for region in layout(path).regions:
            right = region.checksum is not None and region.checksum.stored == region.checksum.found
            assert (region.kind == "index block") <= bool(region.errors), (offset, region)
            assert not (right and region.errors), (offset, region)


@pytest.mark.parametrize("dialect", ["native", "paimon"])
def test_a_file_without_its_end_has_no_layout(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "file.sst"
    good = small_file(path, dialect, "none")
    for size in range(len(good)):
        path.write_bytes(good[:size])
        with pytest.raises(FormatError, match=f"{size} bytes, no known magic"):
            layout(path)


@pytest.mark.few(1)
@pytest.mark.parametrize("dialect", ["native", "paimon"])
def test_a_file_without_its_start_is_marked(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "file.sst"
    good = small_file(path, dialect, "none")
    footer = 64 if dialect == "native" else 36
    for lost in range(1, len(good) - footer):
        path.write_bytes(good[lost:])
        assert not layout(path).ok


def test_every_golden_file_is_whole(golden: Path) -> None:
    files = sorted((golden / "paimon").glob("sst/*.sst"))
    assert len(files) == 35
    for path in files:
        found = layout(path, records=True)
        assert found.ok, [region.errors for region in found.regions]
        assert b"".join(piece.data for _, part in pieces(found) for piece in part) == (
            path.read_bytes()
        )
        with Reader(path) as reader:
            stored = [(r.key, r.value) for region in found.regions
                      if region.kind == "data block" for r in region.contents]  # fmt: skip
            assert stored == list(reader.items())


def test_a_btree_file_needs_its_order(golden: Path) -> None:
    path = golden / "paimon" / "btree" / "bigint.index"
    assert layout(path, "int64").ok
    wrong = layout(path)
    assert not wrong.ok
    assert wrong.region("index block") is not None


def test_schemas_are_shown_as_fields(tmp_path: Path) -> None:
    key = pa.schema([pa.field("origin", pa.string(), nullable=False), ("hour", pa.timestamp("us"))])
    with Writer(
        tmp_path / "file.sst",
        key_schema=key,
        value_schema=pa.schema([]),
        source="hours.parquet",
        metadata={"one": b"\x00\x01"},
    ) as writer:
        writer.put(b"k", b"v")
    found = layout(tmp_path / "file.sst")
    properties = found.region("properties")
    assert properties is not None
    assert properties.fields["key.schema"] == ["origin: string not null", "hour: timestamp[us]"]
    assert properties.fields["source"] == "hours.parquet"
    assert properties.fields["user.one"] == "0x0001"
    shown = dump_text(found)
    assert "  key.schema        origin: string not null\n" in shown
    assert "                    hour: timestamp[us]\n" in shown
    assert "  value.schema      no fields\n" in shown


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (b"\x07records\x018", b"\x07records\x019", "property records is 9, the blocks have 8"),
        (b"key.min\x06key 00", b"key.min\x06key  0", "property key.min is b'key  0'"),
        (b"key.max\x06key 07", b"key.max\x06key 08", "property key.max is b'key 08'"),
        (b"data.codec.none", b"data.codec.zstd", "property data.codec is {'zstd':"),
        (b"key.order\x05bytes", b"key.order\x05bytos", "property key.order is 'bytos'"),
    ],
)
def test_properties_that_lie(old: bytes, new: bytes, error: str, tmp_path: Path) -> None:
    path = tmp_path / "file.sst"
    good = small_file(path, "native", "none")
    properties = layout(path).region("properties")
    assert properties is not None
    start, end = properties.offset, properties.offset + properties.size - 4
    assert good[start:end].count(old) == 1
    lie = good[start:end].replace(old, new)
    path.write_bytes(good[:start] + lie + crc32c(lie).to_bytes(4, "little") + good[end + 4 :])
    found = layout(path).region("properties")
    assert found is not None
    assert found.checksum is not None
    assert found.checksum.ok
    assert [one for one in found.errors if one.startswith(error)]
    assert verdict(path) != "ok"


def test_names_in_a_schema_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "file.sst"
    with Writer(path, key_schema=pa.schema([("origin", pa.string())])) as writer:
        writer.put(b"k", b"v")
    good = path.read_bytes()
    properties = layout(path).region("properties")
    assert properties is not None
    start, end = properties.offset, properties.offset + properties.size - 4
    lie = good[start:end].replace(b"origin", b"or\x80gin")
    assert lie != good[start:end]
    path.write_bytes(good[:start] + lie + crc32c(lie).to_bytes(4, "little") + good[end + 4 :])
    found = layout(path).region("properties")
    assert found is not None
    assert "6f7280" in found.fields["key.schema"]
    assert dump_text(layout(path))
    with pytest.raises(CorruptionError, match=r"key\.schema"):
        Reader(path)


def test_the_footer_of_a_btree_file(tmp_path: Path) -> None:
    """Section 14 of Paimon's format, which this package only reads."""
    values = ((21, 8), (22, 4), (23, 8), (11, 8), (12, 4), (41, 8), (42, 4), (1, 4))
    footer = b"".join(value.to_bytes(size, "little") for value, size in values)
    (tmp_path / "file.sst").write_bytes(footer + b"ITBP")
    found = layout(tmp_path / "file.sst").region("footer")
    assert found is not None
    assert found.fields == {
        "filter offset": 21,
        "filter size": 22,
        "filter entries": 23,
        "index offset": 11,
        "index size": 12,
        "null bitmap offset": 41,
        "null bitmap size": 42,
        "version": 1,
        "magic": 0x50425449,
    }
    assert len(found.errors) == 3  # no filter, index or bitmap lies before it


@pytest.mark.parametrize("dialect", ["native", "paimon"])
def test_footers_of_both_dialects(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "file.sst"
    small_file(path, dialect, "none")
    found = layout(path)
    footer, index, filter = (found.region(kind) for kind in ("footer", "index block", "filter"))
    assert footer is not None
    assert index is not None
    assert filter is not None
    assert (footer.fields["index offset"], footer.fields["index size"] + 5) == (
        index.offset, index.size,
    )  # fmt: skip
    assert footer.fields["filter offset"] == filter.offset
    info = Reader(path).info()
    assert footer.fields["filter size"] == info.filter_bytes
    assert len(found.index) == info.data_blocks


def test_no_record_copies_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of 16 MiB may have a million records."""
    copies = []

    class Counted(Block):
        @property
        def data(self) -> bytes:
            copies.append(self.offset)
            return super().data

    monkeypatch.setattr(dump, "Block", Counted)
    with Writer(tmp_path / "file.sst", block_size=1000) as writer:
        writer.put_many([b"%03d" % i for i in range(300)], [bytes(i % 7) for i in range(300)])
    found = layout(tmp_path / "file.sst", records=True)
    blocks = [region for region in found.regions if region.name.startswith("data block")]
    assert sum(len(region.contents) for region in blocks) == 300
    assert len(copies) <= len(found.regions)


def test_arguments(tmp_path: Path) -> None:
    path = tmp_path / "file.sst"
    small_file(path, "native", "none")
    with pytest.raises(ValueError, match=r"order must be one of 'bytes', .*, not 'up'"):
        layout(path, "up")
    with pytest.raises(ValueError, match="is a native file, whose order is 'bytes'"):
        layout(path, "int32")
    with pytest.raises(FileNotFoundError):
        layout(tmp_path / "nothing")


def test_text_of_keys() -> None:
    assert text(b"") == "''"
    assert text(b"a" * 50) == "'" + "a" * 40 + "...'"
    assert text(b"\xff\x00") == "0xff00"
    assert text((-5).to_bytes(8, "little", signed=True), "int64") == "-5"
