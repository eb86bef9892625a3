"""What footers say of record keys: kept and added to as if made at once, checked, or made anew."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable, key_files
from lookupstore.hudi.bloom import (
    DEFAULT_ERROR_RATE,
    FILTER_KEY,
    MOST_BITS,
    BloomBuilder,
    BloomFilter,
    bloom_bits,
    entries_with_room,
)
from lookupstore.hudi.encoding import FileFormat
from lookupstore.hudi.key_entries import (
    CHECKSUM_KEY,
    GREATEST_KEY,
    LEAST_KEY,
    KeyEntries,
    check_entries,
    checksum_of,
)
from lookupstore.hudi.key_files import read_key_file
from lookupstore.hudi.slice_rows import SliceRows
from lookupstore.hudi.write_options import WriteOptions

HIGH = "\ufb01"
SCHEMA = pa.schema({"id": pa.string(), "value": pa.int64()})


def entries_of(keys: list[str], error_rate: float = DEFAULT_ERROR_RATE) -> dict[bytes, bytes]:
    made = KeyEntries(error_rate)
    made.add(pa.array(keys, pa.string()))
    return made.entries()


def kept(said: Mapping[bytes, bytes], rows: int, more: int = 0, rate: float = 1e-9) -> KeyEntries:
    return KeyEntries.keep(said, "f.parquet", rate, rows, more)


def test_keys_that_come_later_are_as_if_they_had_come_at_once(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        keys = [f"{rng.choice(['k', 'é', 'z'])}{at}" for at in range(rng.randrange(1, 300))]
        rng.shuffle(keys)
        cut = rng.randrange(len(keys)) + 1
        said = entries_of(keys[:cut])
        made = kept(said, cut, len(keys) - cut)
        room = entries_with_room(cut, DEFAULT_ERROR_RATE)
        assert made.keeps == (len(keys) <= room)
        if not made.keeps:
            made.add(pa.array(keys[:cut]))
            room = entries_with_room(len(keys), DEFAULT_ERROR_RATE)
        for start in range(cut, len(keys), 7):
            made.add(pa.array(keys[start : min(start + 7, len(keys))]))
        found = made.entries()
        oracle = BloomBuilder(room, most_entries=room)
        oracle.add(pa.array(keys))
        ends = {LEAST_KEY: min(keys).encode(), GREATEST_KEY: max(keys).encode()}
        expected = oracle.finish().footer() | ends
        assert found == expected | {CHECKSUM_KEY: checksum_of(expected)}
        check_entries(found, "f.parquet")


def test_room_is_an_eighth_if_java_can_count_its_bits() -> None:
    assert [entries_with_room(count, 1e-9) for count in (1, 7, 8, 1000)] == [1, 7, 9, 1125]
    for rate in (0.5, 1e-9, 1e-300):
        most = MOST_BITS // bloom_bits(1, rate)
        for count in (most - 1, most, most // 9 * 8, most + 1):
            room = entries_with_room(count, rate)
            assert count <= room <= max(count, most)
            assert count > most or bloom_bits(room, rate) <= MOST_BITS


def test_what_is_made_anew() -> None:
    keys = [f"k{at}" for at in range(80)]
    said = entries_of(keys)
    assert kept(said, 80).keeps
    assert kept(said, 80, 10).keeps
    assert not kept(said, 80, 11).keeps  # no room
    assert not kept(said, 79).keeps  # of other rows
    assert not kept(said, 80, rate=1e-3).keeps
    assert not kept({}, 80).keeps
    without = {key: value for key, value in said.items() if key != CHECKSUM_KEY}
    assert not kept(without, 80).keeps  # of another writer
    java = BloomBuilder(50, most_entries=100)
    java.add(pa.array(keys))
    rows = java.finish().footer()
    assert not kept(rows | {CHECKSUM_KEY: checksum_of(rows)}, 80).keeps
    assert not kept(rows | {CHECKSUM_KEY: checksum_of(rows)}, 30).keeps  # keys of the last row
    simple = BloomFilter.of(pa.array(keys), kind="SIMPLE").footer()
    assert not kept(simple | {CHECKSUM_KEY: checksum_of(simple)}, 80).keeps


def test_no_range_where_java_orders_otherwise() -> None:
    high = entries_of(["a", HIGH])
    assert not {LEAST_KEY, GREATEST_KEY} & set(high)
    keys = [f"k{at}" for at in range(40)]
    for before, after in (([*keys, HIGH], "b"), (keys, HIGH)):
        made = kept(entries_of(before), len(before), 1)
        assert made.keeps
        made.add(pa.array([after]))
        found = made.entries()
        assert not {LEAST_KEY, GREATEST_KEY} & set(found)
        bloom = BloomFilter.from_footer(found)
        assert bloom is not None
        assert bloom.test(pa.array([*before, after])).all()
    empty = KeyEntries(DEFAULT_ERROR_RATE).entries()
    assert not {LEAST_KEY, GREATEST_KEY} & set(empty)
    made = kept(empty, 0, 1)  # nothing to keep: the range is that of the key that comes
    made.add(pa.array(["k"]))
    assert made.entries()[LEAST_KEY] == b"k"


@pytest.mark.parametrize("key", [FILTER_KEY, LEAST_KEY, GREATEST_KEY, CHECKSUM_KEY])
def test_changed_entries_are_found(key: bytes) -> None:
    said = entries_of(["k1", "k2"])
    for at in range(len(said[key])):
        value = bytearray(said[key])
        value[at] ^= 1
        changed = said | {key: bytes(value)}
        with pytest.raises(CorruptionError, match=r"f\.parquet") as error:
            check_entries(changed, "f.parquet")
        assert "CRC-32C" in str(error.value)
        with pytest.raises(CorruptionError):
            kept(changed, 2)
    if key != CHECKSUM_KEY:
        with pytest.raises(CorruptionError):
            check_entries({one: said[one] for one in said if one != key}, "f.parquet")
    moved = said | {LEAST_KEY: b"k1k", GREATEST_KEY: b"2"}
    with pytest.raises(CorruptionError):
        check_entries(moved, "f.parquet")


def table_of(path: Path, rows: int) -> HudiTable:
    table = HudiTable.create(path, SCHEMA, record_key=["id"])
    table.upsert(numbered(range(rows)))
    return table


def numbered(ids: range, value: int = 0) -> pa.Table:
    return pa.table({"id": [f"k{at}" for at in ids], "value": [value] * len(ids)}, schema=SCHEMA)


def footer_of(table: HudiTable) -> tuple[Path, dict[bytes, bytes]]:
    (group,) = table.file_groups()
    path = Path(str(table.location.local)) / group.current.path
    return path, pq.read_metadata(path).metadata


def test_an_upsert_keeps_the_filter_and_reads_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = WriteOptions(format=FileFormat(row_group_bytes=1 << 18))
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"])
    table.upsert(numbered(range(20_000)), options=options)
    _, before = footer_of(table)
    read: list[str] = []
    read_group = SliceRows.read_group

    def noted(rows: SliceRows, group: int, names: list[str]) -> dict[str, pa.Array]:
        read.extend(names)
        return read_group(rows, group, names)

    monkeypatch.setattr(SliceRows, "read_group", noted)
    table.upsert(numbered(range(15_000, 15_100), 1), options=options)
    path, after = footer_of(table)
    assert {
        key: before[key] for key in (FILTER_KEY, LEAST_KEY, CHECKSUM_KEY)
    }.items() <= after.items()
    assert read
    assert "_hoodie_record_key" not in read
    table.upsert(numbered(range(19_990, 20_010), 2), options=options)
    path, after = footer_of(table)
    bloom = BloomFilter.from_footer(after)
    assert bloom is not None
    assert (bloom.last_keys, bloom.row_keys) == (20_010, 22_500)
    assert bloom.test(pq.read_table(path)["_hoodie_record_key"]).all()
    table.delete([f"k{at}" for at in range(100)], options=options)
    _, after = footer_of(table)
    bloom = BloomFilter.from_footer(after)
    assert bloom is not None
    assert (bloom.last_keys, bloom.row_keys) == (19_910, 22_398)
    assert not bloom.test(pa.array([f"k{at}" for at in range(100)])).any()
    assert table.verify().findings == ()


def test_a_damaged_filter_is_not_kept(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", 1000)
    path, said = footer_of(table)
    data = bytearray(path.read_bytes())
    at = data.index(said[FILTER_KEY]) + 400
    data[at : at + 4] = b"AAAA"
    path.write_bytes(data)
    for index in ("simple", "bloom"):
        with pytest.raises(CorruptionError, match=path.name):
            table.upsert(numbered(range(5), 1), options=WriteOptions(index=index))
    assert table.scan().num_rows == 1000


def test_keys_of_our_files_are_taken_from_their_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for compression in ("none", "snappy", "zstd", "gzip", "lz4"):
        table = HudiTable.create(tmp_path / compression, SCHEMA, record_key=["id"])
        options = WriteOptions(format=FileFormat(compression=compression))
        table.upsert(numbered(range(5000)), options=options)
        (group,) = table.file_groups()
        file, _ = read_key_file(table.location, group.current)
        assert (file.chunks is None) == (compression == "lz4")
        assert pa.chunked_array(file.batches()).to_pylist() == [f"k{at}" for at in range(5000)]
    table = HudiTable.open(tmp_path / "none")
    (group,) = table.file_groups()
    with monkeypatch.context() as patched:
        patched.setattr(key_files, "_MOST_CHUNK_BYTES", 1000)
        assert read_key_file(table.location, group.current)[0].chunks is None
    path, _ = footer_of(table)
    data = bytearray(path.read_bytes())
    data[data.index(b"k4999")] = ord("x")
    path.write_bytes(data)
    file, _ = read_key_file(table.location, group.current)
    with pytest.raises(CorruptionError, match="checksum") as error:
        list(file.batches())
    assert error.value.path == str(path)


@pytest.mark.parametrize("null", [False, True])
@pytest.mark.parametrize(
    ("pages", "keeps_checksum"),
    [
        ({}, True),
        ({"use_dictionary": False}, False),
        ({"use_dictionary": False, "data_page_version": "2.0"}, False),
        ({"use_dictionary": False}, True),
    ],
)
def test_keys_of_other_pages_are_read_by_arrow(
    tmp_path: Path, pages: dict[str, Any], keeps_checksum: bool, null: bool
) -> None:
    """Dictionaries, pages of another version, and nulls, which no file of ours has."""
    table = table_of(tmp_path / "t", 100)
    path, said = footer_of(table)
    if not keeps_checksum:
        del said[CHECKSUM_KEY]
    rows = pq.read_table(path).replace_schema_metadata(None)
    if null:
        keys = pa.array([None, *rows["_hoodie_record_key"].to_pylist()[1:]])
        rows = rows.set_column(2, "_hoodie_record_key", keys)
    with pq.ParquetWriter(path, rows.schema, **pages) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(said)
    (group,) = table.file_groups()
    file, _ = read_key_file(table.location, group.current)
    is_plain = not pages.get("use_dictionary", True) and keeps_checksum
    assert (file.chunks is None) == (null or not is_plain)
    if null:
        with pytest.raises(CorruptionError, match="_hoodie_record_key in each row"):
            list(file.batches())
    else:
        found = pa.chunked_array(file.batches())
        assert found.equals(rows["_hoodie_record_key"])
