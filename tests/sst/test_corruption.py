"""Damaged files: every bit, every length, and files that lie with right checksums.

Whatever the bytes are, a call gives the right answer or raises CorruptionError or FormatError.
The one exception is Paimon's: its filter and the footer's three fields of the filter (the first 20
bytes) have no checksum, so damage there can hide a key (never show a wrong value). In native files
there is no such place.
"""

from __future__ import annotations

import os
import struct
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import zstandard
from crc32c import crc32c
from support.sst_files import (
    CODECS,
    DIALECTS,
    Record,
    Stored,
    block,
    craft,
    fresh,
    properties_of,
    record,
    varint,
    written,
)

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.sst import Reader, Writer
from lookupstore.sst.dump import layout
from lookupstore.sst.format import NATIVE, PAIMON, Footer, pack_footer, unpack_footer

RECORDS: list[Record] = [(b"k%02d" % i, b"%d=" % i + b"v" * 14) for i in range(14)]
MODEL = dict(RECORDS)
ABSENT = [b"", b"k", b"k00\0", b"k075", b"k99", b"zz"]
ASKED = [*MODEL, *ABSENT]

Outcome = Any  # what a call gave, or the exception that it raised


def attempt(call: Callable[[], object]) -> Outcome:
    """Let only the two errors through that damaged bytes may cause."""
    try:
        return call()
    except (CorruptionError, FormatError) as error:
        return error


def failed(outcome: Outcome) -> bool:
    return isinstance(outcome, Exception)


def examine(path: Path) -> dict[str, Outcome]:
    """Open a file and ask it everything."""
    reader = attempt(lambda: fresh(path))
    if not isinstance(reader, Reader):
        return {"open": reader}
    outcomes = {f"get {key!r}": attempt(lambda key=key: reader.get(key)) for key in ASKED}
    outcomes["lookup"] = attempt(lambda: reader.lookup(ASKED).to_pylist())
    outcomes["contains"] = attempt(lambda: reader.contains(ASKED).to_pylist())
    outcomes["items"] = attempt(lambda: list(reader.items()))
    outcomes["reverse"] = attempt(
        lambda: list(reader.items(start=b"k03", stop=b"k11", reverse=True))
    )
    outcomes["len"] = attempt(lambda: len(reader))
    outcomes["verify"] = attempt(lambda: reader.verify())
    return outcomes


def wrong(outcomes: dict[str, Outcome], may_hide: bool) -> list[str]:
    """Name the calls that gave a wrong answer."""
    within = [one for one in RECORDS if b"k03" <= one[0] < b"k11"]
    right: dict[str, Any] = {f"get {key!r}": MODEL.get(key) for key in ASKED}
    right |= {"items": RECORDS, "reverse": within[::-1], "len": len(RECORDS)}
    bad = []
    for call, outcome in outcomes.items():
        if failed(outcome) or call in ("open", "verify"):
            continue
        if call in ("lookup", "contains"):
            expected = [MODEL.get(key) if call == "lookup" else key in MODEL for key in ASKED]
            hidden = None if call == "lookup" else False
            if any(
                found != wanted and not (may_hide and found == hidden)
                for found, wanted in zip(outcome, expected, strict=True)
            ):
                bad.append(call)
        elif outcome != right[call] and not (
            may_hide and call.startswith("get") and outcome is None
        ):
            bad.append(call)
    return bad


def found_by_verify(outcomes: dict[str, Outcome]) -> bool:
    return failed(outcomes.get("open")) or failed(outcomes["verify"])


@pytest.fixture(
    params=[
        pytest.param((dialect, codec, fpp), id=f"{dialect}-{codec}-{'filter' if fpp else 'bare'}")
        for dialect in DIALECTS
        for codec in CODECS
        for fpp in (0.3, 0)
    ]
)
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    dialect, codec, fpp = request.param
    path = written(
        tmp_path / "small.sst",
        RECORDS,
        dialect=dialect,
        compression=codec,
        bloom_fpp=fpp,
        block_size=130,
    )
    info = fresh(path).verify()
    assert info.data_blocks == 3
    assert codec in (info.codecs or {})
    assert path.stat().st_size < 750
    assert wrong(examine(path), may_hide=False) == []
    return path


def with_dictionary(records: Sequence[Record] = RECORDS, **parts: Any) -> bytes:
    """Return a file of three blocks whose frames need its dictionary, of which parts are others."""
    blocks = []
    zstd = zstandard.ZstdCompressor(
        level=1, dict_data=zstandard.ZstdCompressionDict(DICTIONARY), write_dict_id=False
    )
    for some in (records[:5], records[5:10], records[10:]):
        plain = block(some)
        blocks.append(Stored(some[-1][0], varint(len(plain)) + zstd.compress(plain), 1))
    properties = properties_of(records, blocks) | {
        b"data.codec.zstd": b"3",
        b"data.plain_bytes": b"%d"
        % sum(len(block(some)) for some in (records[:5], records[5:10], records[10:])),
    }
    del properties[b"data.codec.none"]
    given = {"dictionary": DICTIONARY, "properties": block(sorted(properties.items()))}
    return craft(NATIVE, blocks, **{**given, **parts})


DICTIONARY = zstandard.train_dictionary(
    256, [block([(b"k%02d" % i, b"%d=" % i + b"v" * 14)]) for i in range(200)], k=32, d=8
).as_bytes()


def test_every_bit_of_a_file_with_a_dictionary(path: Path) -> None:
    made = with_dictionary()
    path.write_bytes(made)
    info = fresh(path).verify()
    assert (info.format_version, info.codecs) == (2, {"zstd": 3})
    assert wrong(examine(path), may_hide=False) == []
    with open(path, "r+b", buffering=0) as file:
        for at in range(len(made)):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([made[at] ^ 1 << bit]), at)
                outcomes = examine(path)
                place = f"bit {bit} of byte {at} of {len(made)}"
                assert wrong(outcomes, may_hide=False) == [], place
                assert found_by_verify(outcomes), place
            os.pwrite(file.fileno(), made[at : at + 1], at)
    for size in range(len(made)):
        path.write_bytes(made[:size])
        assert failed(examine(path)["open"]), size


OTHER = zstandard.train_dictionary(
    256, [b"%d, quite another dictionary %d" % (i, i * i) * 3 for i in range(200)], k=32, d=8
).as_bytes()
DICTIONARIES = {
    "no byte": {"dictionary": b""},
    "no dictionary": {"dictionary": b"content alone, without tables"},
    "tables cut": {"dictionary": DICTIONARY[:40]},
    "tables changed": {"dictionary": DICTIONARY[:9] + b"\xff" * 30 + DICTIONARY[39:]},
    "of other blocks": {"dictionary": OTHER},
    "beyond the file": {"dictionary_handle": (1 << 40, 256)},
    "before the file": {"dictionary_handle": (-1, 256)},
    "of a negative size": {"dictionary_handle": (10, -1)},
    "with a codec": {"dictionary_codec": 1},
}


@pytest.mark.parametrize("parts", DICTIONARIES.values(), ids=DICTIONARIES)
def test_dictionaries_that_lie(path: Path, parts: dict[str, Any]) -> None:
    outcomes = lie(path, with_dictionary(**parts))
    assert wrong(outcomes, may_hide=False) == []
    assert found_by_verify(outcomes)


@pytest.mark.parametrize("what", ["no dictionary", "tables cut"])
def test_a_dump_blames_a_dictionary_that_lies(path: Path, what: str) -> None:
    path.write_bytes(with_dictionary(**DICTIONARIES[what]))
    found = layout(path).region("dictionary")
    assert found is not None
    assert found.errors


def unchecked(stored: bytes) -> tuple[range, range]:
    """Return where a file's bytes have no checksum: filter, and the footer's fields of it."""
    if stored[-4:] == NATIVE.magic.to_bytes(4, "little"):
        return range(0), range(0)
    start = len(stored) - PAIMON.footer_size
    offset, size = unpack_footer(PAIMON, stored[start:]).filter or (0, 0)
    return range(offset, offset + size), range(start, start + 20)


@pytest.mark.few(2)
def test_every_bit(small: Path) -> None:
    stored = small.read_bytes()
    bits, fields = unchecked(stored)
    with open(small, "r+b", buffering=0) as file:
        for at in range(len(stored)):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([stored[at] ^ 1 << bit]), at)
                outcomes = examine(small)
                place = f"bit {bit} of byte {at} of {len(stored)}"
                assert wrong(outcomes, at in bits or at in fields) == [], place
                # `verify` misses only what it cannot know: a bit more in a filter without checksum,
                # and other fields that give the same filter.
                unseen = at in fields or (at in bits and not stored[at] >> bit & 1)
                assert unseen or found_by_verify(outcomes), place
            os.pwrite(file.fileno(), stored[at : at + 1], at)
    assert wrong(examine(small), may_hide=False) == []


@pytest.mark.few(2)
def test_every_length(small: Path) -> None:
    stored = small.read_bytes()
    for size in range(len(stored)):
        small.write_bytes(stored[:size])
        assert failed(examine(small)["open"]), size


def test_bytes_added(small: Path) -> None:
    stored = small.read_bytes()
    footer = stored[-64:] if b"LOOK" in stored[-4:] else stored[-36:]
    for more in (b"\0", stored[-4:], stored[-36:], stored[-64:], footer, stored, bytes(4096)):
        small.write_bytes(stored + more)
        outcomes = examine(small)
        assert wrong(outcomes, may_hide=False) == []
        assert found_by_verify(outcomes), more
        small.write_bytes(more + stored)
        outcomes = examine(small)
        # Paimon's filter is where its offset says, and there something else may be now.
        assert wrong(outcomes, may_hide=unchecked(stored) != (range(0), range(0))) == []
        assert found_by_verify(outcomes), more


@pytest.mark.few(2)
def test_holes(small: Path) -> None:
    """Zero runs of bytes, as a crash of a machine leaves them."""
    stored = small.read_bytes()
    bits, fields = unchecked(stored)
    for size in (8, 64):
        for at in range(0, len(stored), 4):
            hole = bytearray(stored)
            hole[at : at + size] = bytes(len(hole[at : at + size]))
            if bytes(hole) == stored:
                continue
            small.write_bytes(hole)
            touched = range(at, at + size)
            may_hide = any(set(touched) & set(one) for one in (bits, fields))
            outcomes = examine(small)
            assert wrong(outcomes, may_hide) == [], (at, size)
            if not may_hide:
                assert found_by_verify(outcomes), (at, size)


def check_cut(reader: Reader, size: int) -> None:
    """Cut the file under an open reader; what it has read before stays right."""
    os.truncate(reader.path, size)
    for key in ASKED:
        answer = attempt(lambda key=key: reader.get(key))
        assert failed(answer) or answer == MODEL.get(key)
    answers = attempt(lambda: reader.lookup(ASKED).to_pylist())
    assert isinstance(answers, CorruptionError) or answers == [MODEL.get(key) for key in ASKED]
    scanned = attempt(lambda: list(reader.items()))
    assert isinstance(scanned, CorruptionError) or scanned == RECORDS
    if size < reader.info().data_bytes - 5:
        assert isinstance(scanned, CorruptionError)
        assert reader.path in str(scanned)


@pytest.mark.few(4)
def test_cut_while_open(small: Path) -> None:
    stored = small.read_bytes()
    for size in range(0, len(stored), 3):
        small.write_bytes(stored)
        check_cut(fresh(small), size)


def test_an_error_says_where(tmp_path: Path) -> None:
    path = written(tmp_path / "w.sst", RECORDS, compression="none", block_size=130)
    stored = bytearray(path.read_bytes())
    stored[200] ^= 4
    path.write_bytes(stored)
    with pytest.raises(CorruptionError) as caught:
        fresh(path).verify()
    error = caught.value
    assert error.path == str(path)
    assert 0 < error.offset <= 200
    assert str(error).startswith(
        f"{path}: offset {error.offset}: expected data block 1 of CRC-32C "
    )


# -- files that lie, with right checksums

GOOD = Stored.of(RECORDS[:7]), Stored.of(RECORDS[7:])


def lie(path: Path, made: bytes) -> dict[str, Outcome]:
    path.write_bytes(made)
    return examine(path)


@pytest.fixture(params=list(DIALECTS.values()), ids=list(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lie.sst"


def test_the_crafted_file_is_right(path: Path, dialect: Any) -> None:
    """Hold the tests below to one change each: without it nothing is wrong."""
    outcomes = lie(path, craft(dialect, GOOD, records=RECORDS))
    assert not any(map(failed, outcomes.values()))
    assert wrong(outcomes, may_hide=False) == []


HANDLES = {
    "nothing": b"",
    "no size": varint(0),
    "a byte more": varint(0) + varint(len(GOOD[0].payload)) + b"\0",
    "beyond the file": varint(1 << 40) + varint(9),
    "beyond the index": varint(0) + varint(100_000),
    "size 2 GiB": varint(0) + varint((1 << 31) - 1),
    "size 16 EiB": varint(0) + varint((1 << 64) - 1),
    "offset 2^63": varint(1 << 63) + varint(9),
    "a gap": varint(1) + varint(len(GOOD[0].payload)),
    "varint of 11 bytes": b"\x80" * 10 + b"\0" + varint(9),
    "varint cut": b"\x80",
}


@pytest.mark.parametrize("handle", HANDLES.values(), ids=HANDLES)
def test_handles(path: Path, dialect: Any, handle: bytes) -> None:
    first = Stored(GOOD[0].last_key, GOOD[0].payload, handle=handle)
    outcomes = lie(path, craft(dialect, [first, GOOD[1]], records=RECORDS))
    assert isinstance(outcomes["open"], CorruptionError)


def test_overlapping_blocks(path: Path, dialect: Any) -> None:
    handle = varint(0) + varint(len(GOOD[0].payload))
    second = Stored(GOOD[1].last_key, GOOD[1].payload, handle=handle)
    outcomes = lie(path, craft(dialect, [GOOD[0], second], records=RECORDS))
    assert isinstance(outcomes["open"], CorruptionError)


def test_a_long_form_of_a_handle_is_read(path: Path, dialect: Any) -> None:
    """Java takes 80 00 for 0, and so do we."""
    handle = b"\x80\x00" + varint(len(GOOD[0].payload))
    first = Stored(GOOD[0].last_key, GOOD[0].payload, handle=handle)
    outcomes = lie(path, craft(dialect, [first, GOOD[1]], records=RECORDS))
    assert wrong(outcomes, may_hide=False) == []
    assert not any(map(failed, outcomes.values()))


INDEX_HANDLES = [(-1, 5), (0, -1), (0, 1 << 30), (1 << 60, 5), (3, 5), (-(1 << 62), 1 << 30)]


@pytest.mark.parametrize("handle", INDEX_HANDLES, ids=str)
def test_index_handles(path: Path, dialect: Any, handle: tuple[int, int]) -> None:
    outcomes = lie(path, craft(dialect, GOOD, records=RECORDS, index_handle=handle))
    assert isinstance(outcomes["open"], CorruptionError)


def unaligned(body: bytes, positions: Sequence[int], count: int | None = None) -> bytes:
    return (
        body
        + b"".join(struct.pack("<I", one) for one in positions)
        + struct.pack("<IB", len(positions) if count is None else count, 1)
    )


ONE, TWO = record(b"a", b"11"), record(b"b", b"2")
BODY = ONE + TWO  # 5 and 4 bytes
BLOCKS = {
    "no byte": b"",
    "four bytes": bytes(4),
    "aligned, record size 0": ONE + struct.pack("<IB", 0, 0),
    "aligned, record size 1": b"\0" * 8 + struct.pack("<IB", 1, 0),
    "aligned, a size that does not divide": ONE * 2 + struct.pack("<IB", 3, 0),
    "aligned, larger than the block": ONE + struct.pack("<IB", 6, 0),
    "aligned, negative": ONE + struct.pack("<iB", -5, 0),
    "aligned, no record": struct.pack("<IB", 5, 0),
    "flag 2": ONE + struct.pack("<IB", 5, 2),
    "flag 255": ONE + struct.pack("<IB", 5, 255),
    "more positions than bytes": unaligned(BODY, [0, 5], 100),
    "2^30 positions": unaligned(BODY, [0, 5], 1 << 30),
    "2^32 - 1 positions": unaligned(BODY, [0, 5], (1 << 32) - 1),
    "no positions but records": unaligned(BODY, []),
    "first position not 0": unaligned(BODY, [1, 5]),
    "positions descend": unaligned(BODY * 2, [0, 9, 5, 14]),
    "positions repeat": unaligned(BODY, [0, 5, 5]),
    "position beyond": unaligned(BODY, [0, 10]),
    "position 2^32 - 1": unaligned(BODY, [0, (1 << 32) - 1]),
    "position inside a record": unaligned(BODY, [0, 3]),
    "position at the end": unaligned(BODY, [0, 9]),
    "only positions": unaligned(b"", [0]),
    "key longer than its record": unaligned(b"\x09a\x01b", [0]),
    "key of 2 GiB": unaligned(varint((1 << 31) - 1) + b"a\x01b", [0]),
    "key of 4 GiB": unaligned(varint((1 << 32) - 1) + b"a\x01b", [0]),
    "varint of 6 bytes": unaligned(b"\x80" * 5 + b"\0" + b"\0", [0]),
    "varint without end": unaligned(b"\x80", [0]),
    "no value size": unaligned(b"\x01a", [0]),
    "value longer than its record": unaligned(b"\x01a\x05b", [0]),
    "value shorter than its record": unaligned(b"\x01a\x01bb", [0]),
    "value of 2 GiB": unaligned(b"\x01a" + varint((1 << 31) - 1) + b"b", [0]),
    "keys descend": block([(b"b", b""), (b"a", b"")]),
}


@pytest.mark.parametrize("payload", BLOCKS.values(), ids=BLOCKS)
def test_data_blocks(path: Path, dialect: Any, payload: bytes) -> None:
    made = craft(dialect, [Stored(b"b", payload)], records=[(b"a", b""), (b"b", b"")])
    path.write_bytes(made)
    reader = attempt(lambda: fresh(path))
    if failed(reader):
        assert isinstance(reader, CorruptionError)
        return
    for key in (b"", b"a", b"aa", b"b"):
        attempt(lambda key=key: reader.get(key))
        attempt(lambda key=key: reader.lookup([key, b"a", b"b"]))
    attempt(lambda: list(reader.items()))
    attempt(lambda: list(reader.items(start=b"a", stop=b"b", reverse=True)))
    attempt(lambda: len(reader))
    assert isinstance(attempt(reader.verify), CorruptionError)


@pytest.mark.parametrize("payload", BLOCKS.values(), ids=BLOCKS)
def test_index_blocks(path: Path, dialect: Any, payload: bytes) -> None:
    outcomes = lie(path, craft(dialect, GOOD, records=RECORDS, index=(0, payload)))
    assert isinstance(outcomes["open"], CorruptionError)


@pytest.mark.parametrize("payload", BLOCKS.values(), ids=BLOCKS)
def test_properties_blocks(path: Path, payload: bytes) -> None:
    # b"" would stand for right properties.
    handle = (0, 0) if payload == b"" else None
    made = craft(NATIVE, GOOD, records=RECORDS, properties=payload, properties_handle=handle)
    assert isinstance(lie(path, made)["open"], CorruptionError)


def test_blocks_that_contradict_the_index(path: Path, dialect: Any) -> None:
    low, high = Stored.of(RECORDS[:7]), Stored.of(RECORDS[7:])
    for blocks in (
        [Stored(high.last_key, low.payload), Stored(b"k99", high.payload)],
        [Stored(low.last_key, high.payload), Stored(high.last_key, low.payload)],
        [Stored(RECORDS[5][0], low.payload), high],
        [Stored(low.last_key, block(RECORDS[:7])), Stored(high.last_key, block(RECORDS[6:]))],
        [low, Stored(high.last_key, bytes.fromhex("0000000001"))],
    ):
        made = craft(dialect, blocks, records=RECORDS)
        if dialect is PAIMON and blocks[1].payload == block(RECORDS[6:]):
            continue  # there a key may be repeated, also over two blocks
        outcomes = lie(path, made)
        assert found_by_verify(outcomes)


def test_an_index_out_of_order(path: Path, dialect: Any) -> None:
    index = block([(b"z", varint(0) + varint(9)), (b"a", varint(14) + varint(9))])
    outcomes = lie(path, craft(dialect, GOOD, records=RECORDS, index=(0, index)))
    assert isinstance(outcomes["open"], CorruptionError)


def test_a_native_file_with_a_repeated_key(path: Path) -> None:
    twice = [RECORDS[0], *RECORDS]
    outcomes = lie(path, craft(NATIVE, [Stored.of(twice)], records=twice))
    assert isinstance(outcomes["verify"], CorruptionError)


# -- compressed payloads

PLAIN = block(RECORDS)


def lz4(packed_size: int, plain_size: int, body: bytes, claim: int | None = None) -> bytes:
    return (
        varint(plain_size if claim is None else claim)
        + struct.pack("<ii", packed_size, plain_size)
        + body
    )


ZSTD = zstandard.ZstdCompressor().compress(PLAIN)
#: A frame without content size whose window is 2 GiB, and one empty raw block.
HUGE_WINDOW = bytes.fromhex("28b52ffd 00 a8 010000")
PAYLOADS = {
    "no byte": (1, b""),
    "zstd: no frame": (1, varint(len(PLAIN))),
    "zstd: no zstd": (1, varint(len(PLAIN)) + b"not a frame at all"),
    "zstd: cut": (1, varint(len(PLAIN)) + ZSTD[:-3]),
    "zstd: bytes after the frame": (1, varint(len(PLAIN)) + ZSTD + b"x"),
    "zstd: two frames": (1, varint(2 * len(PLAIN)) + ZSTD + ZSTD),
    "zstd: claims less": (1, varint(len(PLAIN) - 1) + ZSTD),
    "zstd: claims more": (1, varint(len(PLAIN) + 1) + ZSTD),
    "zstd: claims 0": (1, varint(0) + ZSTD),
    "zstd: claims 2 GiB": (1, varint((1 << 31) - 1) + ZSTD),
    "zstd: claims 4 EiB": (1, varint(1 << 62) + ZSTD),
    "zstd: length without end": (1, b"\xff" * 20),
    "zstd: window of 2 GiB": (1, varint(5) + HUGE_WINDOW),
    "zstd: skippable frame": (1, varint(5) + bytes.fromhex("502a4d18 04000000 00000000")),
    "lz4: nothing": (2, b""),
    "lz4: no lengths": (2, varint(9) + b"1234"),
    "lz4: lengths cut": (2, varint(9) + bytes(7)),
    "lz4: no body": (2, lz4(0, 0, b"")),
    "lz4: no LZ4": (2, lz4(4, 100, b"\xff\xff\xff\xff")),
    "lz4: a match before the start": (2, lz4(8, 30, b"\x1fa\xff\xff\x00\x00\x00\x00")),
    "lz4: lengths differ": (2, lz4(3, 100, b"\x10a\0", claim=99)),
    "lz4: body longer": (2, lz4(2, 1, b"\x10a" + b"b")),
    "lz4: negative": (2, lz4(-1, -1, b"\x10a", claim=1)),
    "lz4: claims 2 GiB": (2, lz4(2, (1 << 31) - 1, b"\x10a")),
    "lz4: literal too short": (2, lz4(2, 5, b"\x10a")),
    "lzo: junk": (3, lz4(3, 100, b"\xff\xff\xff")),
    "codec 4": (4, PLAIN),
    "codec 255": (255, PLAIN),
    "a compressed payload under codec none": (0, varint(len(PLAIN)) + ZSTD),
    "a plain block under codec zstd": (1, PLAIN),
    "a plain block under codec lz4": (2, PLAIN),
}


@pytest.mark.parametrize(("codec", "payload"), PAYLOADS.values(), ids=PAYLOADS)
def test_payloads(path: Path, dialect: Any, codec: int, payload: bytes) -> None:
    lie(path, craft(dialect, GOOD, records=RECORDS))  # some modules are imported when they are used
    tracemalloc.start()
    try:
        made = craft(dialect, [Stored(RECORDS[-1][0], payload, codec)], records=RECORDS)
        outcomes = lie(path, made)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20  # no memory is asked for on the word of a file
    assert found_by_verify(outcomes)
    if "open" not in outcomes:
        assert failed(outcomes["items"])
        assert failed(outcomes["len"]) or dialect is NATIVE  # whose properties say it
        assert isinstance(outcomes["lookup"], (CorruptionError, FormatError))
    outcomes = lie(path, craft(dialect, GOOD, records=RECORDS, index=(codec, payload)))
    assert failed(outcomes["open"])


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_a_long_claim_is_refused_outside_of_python_too(path: Path) -> None:
    """Arrow's memory is not Python's: watch the process."""

    def peak() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) << 10

    before = peak()
    payload = lz4(8000, (1 << 31) - 1, bytes(8000))
    outcomes = lie(path, craft(NATIVE, [Stored(RECORDS[-1][0], payload, 2)], records=RECORDS))
    assert isinstance(outcomes["items"], CorruptionError)
    assert peak() - before < 64 << 20


# -- filters

FILTERS: dict[str, tuple[Any, bytes, int]] = {
    "native, 31 bytes": (NATIVE, bytes(31), 0),
    "native, 33 bytes": (NATIVE, bytes(33), 0),
    "paimon, no byte": (PAIMON, b"", 5),
    "paimon, no entries": (PAIMON, bytes(8), 0),
    "paimon, negative entries": (PAIMON, bytes(8), -1),
    "paimon, least entries": (PAIMON, bytes(8), -(1 << 63)),
    "paimon, a million bits for one entry": (PAIMON, b"\xff" * (1 << 17), 1),
}


@pytest.mark.parametrize(("kind", "bits", "entries"), FILTERS.values(), ids=FILTERS)
def test_impossible_filters(path: Path, kind: Any, bits: bytes, entries: int) -> None:
    made = craft(
        kind,
        GOOD,
        records=RECORDS,
        bits=bits,
        filter_entries=entries,
        filter_handle=(1, 0) if bits == b"" else None,
    )
    assert isinstance(lie(path, made)["open"], CorruptionError)


@pytest.mark.parametrize("handle", [(-1, 32), (0, -32), (1 << 40, 32), (0, 1 << 30)], ids=str)
def test_filter_handles(path: Path, dialect: Any, handle: tuple[int, int]) -> None:
    made = craft(dialect, GOOD, records=RECORDS, filter_handle=handle, filter_entries=7)
    assert isinstance(lie(path, made)["open"], CorruptionError)


def test_a_filter_that_hides_keys(path: Path, dialect: Any) -> None:
    """Only a writer that is wrong makes such a file; `verify` finds it."""
    outcomes = lie(path, craft(dialect, GOOD, records=RECORDS, bits=bytes(32), filter_entries=14))
    assert isinstance(outcomes["verify"], CorruptionError)
    assert wrong(outcomes, may_hide=True) == []


def test_entries_beyond_all_bounds(path: Path) -> None:
    made = craft(PAIMON, GOOD, bits=b"\xff" * 32, filter_entries=(1 << 63) - 1)
    outcomes = lie(path, made)
    assert wrong(outcomes, may_hide=False) == []
    assert not any(map(failed, outcomes.values()))


def test_a_filter_that_lies_over_a_block(path: Path) -> None:
    made = craft(PAIMON, GOOD, filter_handle=(0, 32), filter_entries=14)
    outcomes = lie(path, made)
    assert wrong(outcomes, may_hide=True) == []
    assert isinstance(outcomes["verify"], CorruptionError)


# -- properties and footer of native files

RIGHT = properties_of(RECORDS, GOOD)
PROPERTIES: dict[str, dict[bytes, bytes | None]] = {
    "no order": {b"key.order": None},
    "an order that is none": {b"key.order": b"descending"},
    "an order that is not bytes": {b"key.order": b"int64"},
    "order not UTF-8": {b"key.order": b"\xff\xfe"},
    "no count": {b"records": None},
    "count no number": {b"records": b"many"},
    "count negative": {b"records": b"-14"},
    "count with Arabic digits": {b"records": "١٤".encode()},
    "count of 5000 digits": {b"records": b"9" * 5000},
    "count 0 with keys": {b"records": b"0"},
    "no smallest key": {b"key.min": None},
    "no largest key": {b"key.max": None},
    "another largest key": {b"key.max": b"k99"},
    "no plain bytes": {b"data.plain_bytes": None},
    "blocks of a codec no number": {b"data.codec.none": b"two"},
    "codec name not UTF-8": {b"data.codec.\xff": b"1"},
    "key schema junk": {b"key.schema": b"junk"},
    "key schema empty": {b"key.schema": b""},
    "key schema of wild length": {b"key.schema": b"\xff\xff\xff\xff\xff\xff\xff\x7f" + bytes(64)},
    "value schema junk": {b"value.schema": bytes(range(256))},
    "writer not UTF-8": {b"writer": b"\xc3"},
    "source not UTF-8": {b"source": b"\xff"},
    "user property not UTF-8": {b"user.\xff": b""},
}
FOUND_BY_VERIFY: dict[str, dict[bytes, bytes | None]] = {
    "another count": {b"records": b"13"},
    "other plain bytes": {b"data.plain_bytes": b"1"},
    "another smallest key": {b"key.min": b"k"},
    "another codec": {b"data.codec.none": None, b"data.codec.zstd": b"2"},
    "a codec more": {b"data.codec.lz4": b"0"},
}


def with_properties(changed: dict[bytes, bytes | None]) -> bytes:
    merged = {**RIGHT, **changed}
    kept = [(name, value) for name, value in sorted(merged.items()) if value is not None]
    return craft(NATIVE, GOOD, records=RECORDS, properties=block(kept))


@pytest.mark.parametrize("changed", PROPERTIES.values(), ids=PROPERTIES)
def test_properties(path: Path, changed: dict[bytes, bytes | None]) -> None:
    assert isinstance(lie(path, with_properties(changed))["open"], CorruptionError)


@pytest.mark.parametrize("changed", FOUND_BY_VERIFY.values(), ids=FOUND_BY_VERIFY)
def test_properties_that_only_reading_all_disproves(
    path: Path, changed: dict[bytes, bytes | None]
) -> None:
    outcomes = lie(path, with_properties(changed))
    assert isinstance(outcomes["verify"], CorruptionError)
    assert "property" in str(outcomes["verify"])


def footer_with(**fields: int) -> bytes:
    """Return a native footer of small handles, with other fields and a right checksum."""
    footer = bytearray(pack_footer(NATIVE, Footer((0, 5), properties=(10, 5))))
    for at, name in ((48, "version"), (52, "reserved")):
        footer[at : at + 4] = struct.pack("<I", fields.get(name, 1 if name == "version" else 0))
    footer[56:60] = struct.pack("<I", crc32c(bytes(footer[60:]), crc32c(bytes(footer[:56]))))
    return bytes(footer)


def test_footer_of_another_version(path: Path) -> None:
    error = lie(path, craft(NATIVE, GOOD, footer=footer_with(version=3)))["open"]
    assert isinstance(error, FormatError)
    assert "format version 3; this release reads 1 and 2" in str(error)
    error = lie(path, craft(NATIVE, GOOD, footer=footer_with(version=2)))["open"]
    assert isinstance(error, CorruptionError)  # its checksum is that of a footer of version 1
    path.write_bytes(footer_with(version=2))
    with pytest.raises(CorruptionError, match="a file of 64 bytes, and a footer of 80"):
        Reader(path)


def test_footer_with_something_reserved(path: Path) -> None:
    error = lie(path, craft(NATIVE, GOOD, footer=footer_with(reserved=1)))["open"]
    assert isinstance(error, CorruptionError)
    assert "reserved" in str(error)


def test_btree_footers(path: Path) -> None:
    """Paimon's BTree index: version, bitmap handle and bitmap checksum."""
    body = craft(PAIMON, GOOD)[: -PAIMON.footer_size]
    index = unpack_footer(PAIMON, craft(PAIMON, GOOD)[-PAIMON.footer_size :]).index

    def btree(bitmap: tuple[int, int], version: int = 1, more: bytes = b"") -> Outcome:
        footer = struct.pack(
            "<qiqqiqiiI", 0, 0, 0, index[0], index[1], *bitmap, version, 0x50425449
        )
        path.write_bytes(body + more + footer)
        return attempt(lambda: fresh(path))

    assert isinstance(btree((0, 0)), Reader)
    assert isinstance(btree((0, 0), version=2), FormatError)
    for bitmap in ((-1, 4), (0, -4), (1 << 50, 4), (0, 1 << 30), (0, 4)):
        assert isinstance(btree(bitmap), CorruptionError), bitmap
    bits = b"roaring"
    right = bits + struct.pack("<I", zlib.crc32(bits))
    assert isinstance(btree((len(body), len(bits)), more=right), Reader)
    assert isinstance(btree((len(body), len(bits)), more=right[:-1] + b"?"), CorruptionError)


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", bytes(35), bytes(100), b"LOOK", b"x" * 59 + b"LOOK", b"PAR1" * 40],
    ids=["empty", "4 bytes", "35 zeros", "100 zeros", "magic", "short", "parquet"],
)
def test_other_files(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(FormatError, match="not a sorted lookup file"):
        fresh(path)


FRAMES = {
    "no content size": zstandard.ZstdCompressor(write_content_size=False),
    "with a checksum": zstandard.ZstdCompressor(write_checksum=True),
    "a long window": zstandard.ZstdCompressor(level=19),
}


@pytest.mark.parametrize("zstd", FRAMES.values(), ids=FRAMES)
def test_other_frames_are_read(path: Path, zstd: zstandard.ZstdCompressor) -> None:
    """A frame may say more or less than ours: what does not know it leaves it to what does."""
    blocks = []
    for some in (RECORDS[:5], RECORDS[5:10], RECORDS[10:]):
        plain = block(some)
        blocks.append(Stored(some[-1][0], varint(len(plain)) + zstd.compress(plain), 1))
    properties = properties_of(RECORDS, blocks) | {b"data.codec.zstd": b"3"}
    del properties[b"data.codec.none"]
    size = sum(len(block(some)) for some in (RECORDS[:5], RECORDS[5:10], RECORDS[10:]))
    properties[b"data.plain_bytes"] = b"%d" % size
    made = craft(NATIVE, blocks, properties=block(sorted(properties.items())))
    outcomes = lie(path, made)
    assert not any(map(failed, outcomes.values()))
    assert wrong(outcomes, may_hide=False) == []


def test_a_file_is_checked_one_block_at_a_time(tmp_path: Path) -> None:
    """Its blocks take 4 MiB when they are decompressed; one of them takes 64 KiB."""
    path = tmp_path / "a.sst"
    keys = [b"%04d" % number for number in range(1024)]
    with Writer(path, compression="lz4", block_size=1 << 16) as writer:
        writer.put_many(keys, [bytes(4096)] * len(keys))
    with Reader(path) as reader:
        tracemalloc.start()
        try:
            info = reader.verify()
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert info.plain_bytes is not None
    assert info.plain_bytes > 4 << 20
    assert most < 1 << 20


@pytest.mark.parametrize("at_once", [1, 256 << 10], ids=["block by block", "all at once"])
def test_verify_names_the_block_of_a_key_that_the_filter_hides(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter is that of a file with another key in its third block, and whole in itself."""
    monkeypatch.setattr("lookupstore.sst.verification._BYTES_AT_ONCE", at_once)
    options = {"compression": "none", "block_size": 300, "bloom_fpp": 0.0001}
    keys = [b"%05d" % (2 * number) for number in range(100)]
    path = written(tmp_path / "a.sst", [(key, b"v" * 20) for key in keys], **options)
    regions = layout(path).regions
    third = [one for one in regions if one.kind == "data block"][2]
    assert third.first_key is not None
    hidden = keys.index(third.first_key) + 1
    keys[hidden] = b"%05d" % (2 * hidden + 1)
    other = written(tmp_path / "b.sst", [(key, b"v" * 20) for key in keys], **options)
    (place,) = (one for one in regions if one.kind == "filter")
    content, theirs = bytearray(path.read_bytes()), other.read_bytes()
    span = slice(place.offset, place.offset + place.size)
    content[span] = theirs[span]
    path.write_bytes(content)
    with Reader(path) as reader, pytest.raises(CorruptionError, match="a lookup finds") as error:
        reader.verify()
    assert error.value.offset == third.offset
