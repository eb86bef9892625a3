"""The files that Java Paimon wrote: read, searched, verified, and written again byte for byte."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.paimon_filters import filter_of, murmur3
from support.sst_files import fresh, lets_pass

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.sst import Writer
from lookupstore.sst._filter import Filter, FilterBuilder, paimon_size
from lookupstore.sst.dump import layout
from lookupstore.sst.format import unpack_varint
from lookupstore.sst.reader import lookup_of
from lookupstore.sst.stored import StoredFile

GOLDEN = Path(__file__).parents[1] / "golden" / "paimon"
FILES: list[dict[str, Any]] = json.loads((GOLDEN / "manifest.json").read_text())["files"]
BTREE: list[dict[str, Any]] = json.loads((GOLDEN / "btree" / "manifest.json").read_text())["files"]
BTREE_ORDER = {"int64 little-endian": "int64", "utf-8": "bytes"}

#: Files that our writer cannot make, by the reason.
NOT_REPRODUCED = {"lzo": "lookupstore does not write lzo: no library here makes Java's bytes"}


def lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path) as file:
        return [json.loads(line) for line in file]


def pairs_of(entry: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    return [
        (bytes.fromhex(one["k"]), bytes.fromhex(one["v"])) for one in lines(GOLDEN / entry["pairs"])
    ]


needs_lzo = pytest.mark.skipif(
    importlib.util.find_spec("lzallright") is None, reason="lzallright is for Python 3.11 or later"
)


def by_file(entries: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize(
        "entry",
        [
            pytest.param(
                entry,
                id=Path(entry["file"]).stem,
                marks=[needs_lzo] if "lzo" in entry["file"] else [],
            )
            for entry in entries
        ],
    )


def test_all_files_are_listed() -> None:
    assert len(FILES) == 35
    assert {entry["file"] for entry in FILES} == {f"sst/{p.name}" for p in GOLDEN.glob("sst/*")}


@by_file(FILES)
def test_read(entry: dict[str, Any]) -> None:
    pairs = pairs_of(entry)
    reader = fresh(GOLDEN / entry["file"])
    assert list(reader.items()) == pairs
    assert list(reader.items(reverse=True)) == pairs[::-1]
    assert len(reader) == entry["records"] == len(pairs)
    info = reader.verify()
    assert (info.min_key, info.max_key) == ((pairs[0][0], pairs[-1][0]) if pairs else (None, None))
    assert (info.dialect, info.order, info.writer) == ("paimon", "bytes", None)


@by_file(FILES)
def test_look_up(entry: dict[str, Any]) -> None:
    """Answer as Java does where keys repeat; there `get` and `lookup` must agree as well."""
    reader = fresh(GOLDEN / entry["file"])
    if "java_lookup" in entry:
        answers = {
            bytes.fromhex(key): bytes.fromhex(value) for key, value in entry["java_lookup"].items()
        }
    else:
        answers = dict(pairs_of(entry))
    keys = list(answers)
    assert [reader.get(key) for key in keys] == list(answers.values())
    assert reader.lookup(keys).to_pylist() == list(answers.values())
    backwards = [key for key in reversed(keys) for _ in range(2)]
    assert reader.lookup(backwards).to_pylist() == [answers[key] for key in backwards]
    # A batch of one key takes the same path as a batch of all.
    assert [reader.lookup([key])[0].as_py() for key in keys[:50]] == list(answers.values())[:50]

    probes = [bytes.fromhex(one["k"]) for one in lines(GOLDEN / entry["probes"])]
    assert [reader.get(key) for key in probes] == [None] * len(probes)
    assert reader.lookup(probes).null_count == len(probes)
    assert reader.contains(probes).true_count == 0
    assert all(reader.contains(keys).to_pylist())


@by_file([entry for entry in FILES if "probe_bloom" in entry])
def test_filter_lets_the_same_keys_pass(entry: dict[str, Any]) -> None:
    at = entry["layout"]
    stored = (GOLDEN / entry["file"]).read_bytes()
    bits = stored[at["bloom_offset"] : at["bloom_offset"] + at["bloom_bytes"]]
    one = Filter("paimon-murmur3", bits, at["bloom_entries"])
    probes = lines(GOLDEN / entry["probes"])
    passed = "".join(str(int(lets_pass(one, bytes.fromhex(probe["k"])))) for probe in probes)
    assert passed == entry["probe_bloom"]
    assert all(lets_pass(one, key) for key, _ in pairs_of(entry))


@by_file(FILES)
def test_layout(entry: dict[str, Any]) -> None:
    """Find the blocks, codecs and handles that Java reports."""
    expected = entry["layout"]
    path = GOLDEN / entry["file"]
    info = fresh(path).verify()
    assert info.file_bytes == expected["file_bytes"]
    assert info.data_blocks == expected["data_blocks"]
    assert info.codecs == {
        name.lower(): count for name, count in expected["data_block_types"].items()
    }
    assert info.plain_bytes == expected["data_plain_bytes"]
    assert info.data_bytes == expected["data_payload_bytes"] + 5 * expected["data_blocks"]
    assert info.filter_bytes == expected["bloom_bytes"]
    assert (info.filter_entries or 0) == expected["bloom_entries"]
    reader = fresh(path)
    file = StoredFile(str(path))
    index = file.block(file.footer.index, "index block", "bytes")
    assert len(index.data) == expected["index_plain_bytes"]
    assert index.aligned == expected["index_aligned"]
    assert file.footer.index == (expected["index_offset"], expected["index_size"])
    if expected["bloom_bytes"]:
        assert file.footer.filter == (expected["bloom_offset"], expected["bloom_bytes"])
    else:
        assert file.footer.filter is None
    blocks = lookup_of(reader).data.scanned(list(range(info.data_blocks)), 1 << 30)
    aligned = [block.aligned for block in blocks]
    assert sum(aligned) == expected["aligned_data_blocks"]


def test_lzo_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lzallright", None)
    reader_error = (
        r"fixed-lzo\.sst: offset \d+: (index block|data block 0): codec lzo needs lzallright: pip"
    )
    with pytest.raises(FormatError, match=reader_error):
        list(fresh(GOLDEN / "sst" / "fixed-lzo.sst").items())


# -- writing the same bytes


def rewritten(entry: dict[str, Any], path: Path, many: bool) -> bytes:
    options = entry["options"]
    codec = options["compression"]
    with Writer(
        path,
        dialect="paimon",
        block_size=options["block_size"],
        compression=codec,
        level=options["zstd_level"] if codec == "zstd" else None,
        bloom_fpp=options["bloom_fpp"],
        expected_entries=options["bloom_entries"] or None,
        allow_repeats="java_lookup" in entry,
    ) as writer:
        pairs = pairs_of(entry)
        if many:
            writer.put_many(
                pa.array([key for key, _ in pairs], pa.binary()),
                pa.array([value for _, value in pairs], pa.binary()),
            )
        else:
            for key, value in pairs:
                writer.put(key, value)
    return path.read_bytes()


@pytest.mark.parametrize("many", [False, True], ids=["put", "put_many"])
def test_same_bytes_as_java(tmp_path: Path, many: bool) -> None:
    same, other = [], {}
    for number, entry in enumerate(FILES):
        name = entry["file"]
        codec = entry["options"]["compression"]
        if codec in NOT_REPRODUCED:
            other[name] = NOT_REPRODUCED[codec]
            with pytest.raises(ValueError, match=r"compression must be .*, not 'lzo'"):
                rewritten(entry, tmp_path / f"{number}.sst", many)
            continue
        if rewritten(entry, tmp_path / f"{number}.sst", many) == (GOLDEN / name).read_bytes():
            same.append(name)
        else:
            other[name] = "unexplained"
    print(f"byte-identical with Java: {len(same)} of {len(FILES)}")
    print("".join(f"  {name}\n" for name in same), end="")
    print(f"not byte-identical: {len(other)}")
    print("".join(f"  {name}: {reason}\n" for name, reason in other.items()), end="")
    assert len(same) == 34
    assert list(other) == ["sst/fixed-lzo.sst"]


# -- Java's tables


def test_murmur() -> None:
    """The bits of a key alone are those of Java's hash, which plain Python finds, too."""
    table = lines(GOLDEN / "murmur.jsonl.gz")
    assert len(table) > 100
    for entry in FILES:
        table += lines(GOLDEN / entry["probes"])
    size, entries = 1009, 900  # of so many bytes a key has 6 bits, nearly never those of another
    for one in table:
        key = bytes.fromhex(one["k"])
        builder = FilterBuilder("paimon-murmur3", size, entries)
        builder.add(key)
        assert builder.finish(size, entries) == filter_of([one["h"]], size, 6), one
        assert murmur3(key) == one["h"] % 2**32, one


def test_bloom_sizes() -> None:
    table = json.loads((GOLDEN / "bloom-sizes.json").read_text())
    assert len(table) > 10
    for one in table:
        size = paimon_size(one["entries"], one["fpp"])
        assert size == one["bytes"], one
        found = Filter("paimon-murmur3", bytes(size), one["entries"])
        assert found.hashes == one["hash_functions"], one


def test_filter_bits_of_every_file() -> None:
    """Build each filter from the keys alone: the bits are Java's."""
    for entry in FILES:
        at = entry["layout"]
        if not at["bloom_bytes"]:
            continue
        builder = FilterBuilder("paimon-murmur3")
        for key, _ in pairs_of(entry):
            builder.add(key)
        stored = (GOLDEN / entry["file"]).read_bytes()
        bits = stored[at["bloom_offset"] : at["bloom_offset"] + at["bloom_bytes"]]
        assert builder.finish(at["bloom_bytes"], at["bloom_entries"]) == bits, entry["file"]


# -- BTree index files


def row_ids(value: bytes) -> list[int]:
    count, at = unpack_varint(value, 0)
    rows = []
    for _ in range(count):
        row, at = unpack_varint(value, at)
        rows.append(row)
    assert at == len(value)
    return rows


@by_file(BTREE)
def test_btree(entry: dict[str, Any]) -> None:
    order = BTREE_ORDER[entry["key_encoding"]]
    reader = fresh(GOLDEN / "btree" / entry["file"], order)
    entries = {
        bytes.fromhex(one["k"]): one["rows"] for one in lines(GOLDEN / "btree" / entry["entries"])
    }
    info = reader.verify()
    assert (info.dialect, info.order, info.num_records) == ("paimon-btree", order, entry["keys"])
    assert {key: row_ids(value) for key, value in reader.items()} == entries
    assert list(reader) == list(entries)
    keys = list(entries)[::-1]
    assert [row_ids(reader.get(key)) for key in keys] == [entries[key] for key in keys]
    assert [row_ids(value) for value in reader.lookup(keys).to_pylist()] == [
        entries[key] for key in keys
    ]
    assert info.min_key == bytes.fromhex(entry["first_key"])
    assert info.max_key == bytes.fromhex(entry["last_key"])
    footer = StoredFile(reader.path).footer
    assert list(footer.index) == entry["footer"]["index"]
    bloom = entry["footer"]["bloom"]
    assert footer.filter == (tuple(bloom[:2]) if bloom else None)
    assert footer.filter_entries == (bloom[2] if bloom else 0)
    bitmap = entry["footer"]["null_bitmap"]
    assert footer.null_bitmap == (tuple(bitmap) if bitmap else None)


def test_btree_scans_in_the_order_of_the_numbers() -> None:
    reader = fresh(GOLDEN / "btree" / "bigint.index", "int64")
    numbers = [int.from_bytes(key, "little", signed=True) for key in reader]
    assert numbers == sorted(numbers)
    assert numbers[0] < 0 < numbers[-1]
    low, high = numbers[100], numbers[1500]
    start, stop = (n.to_bytes(8, "little", signed=True) for n in (low, high))
    found = [
        int.from_bytes(key, "little", signed=True)
        for key, _ in reader.items(start=start, stop=stop)
    ]
    assert found == numbers[100:1500]
    missing = next(n for n in range(low, high) if n not in set(numbers))
    assert reader.get(missing.to_bytes(8, "little", signed=True)) is None


def test_btree_in_the_wrong_order() -> None:
    """Bytes are not the order of little-endian numbers, and the index shows it at once."""
    with pytest.raises(CorruptionError, match="a key that does not come after"):
        fresh(GOLDEN / "btree" / "bigint.index")
    with pytest.raises(CorruptionError, match="key whose size does not fit the key order"):
        fresh(GOLDEN / "btree" / "string-nulls-bloom.index", "int32")


def value_of_v1(i: int) -> bytes:
    """Return a value of `native/v1-zstd.sst`, as the README beside it says."""
    if i // 50 % 4 == 3:
        return b"".join(hashlib.sha512(b"%d/%d" % (i, j)).digest() for j in range(4))
    return b"value %d of the golden file;" % i * (1 + i % 5)


def test_native_files_of_format_version_1_are_read(golden: Path) -> None:
    path = golden / "native" / "v1-zstd.sst"
    expected = {b"key-%06d" % (7 * i): value_of_v1(i) for i in range(400)}
    with fresh(path) as reader:
        info = reader.verify()
        assert (info.format_version, info.source) == (1, "golden")
        assert info.metadata == {"made": b"by hand"}
        assert info.codecs == {"zstd": 8, "none": 6}
        assert dict(reader.items()) == expected
        asked = [b"key-%06d" % i for i in range(2900)]
        assert reader.lookup(asked).to_pylist() == [expected.get(key) for key in asked]
        assert [reader.get(key) for key in asked] == [expected.get(key) for key in asked]
    assert layout(path).ok
