"""What footers say of record keys: kept and added to as if made at once, checked, or made anew."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.footers import with_footer
from support.hudi.tag_tables import vouched_for

from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.file_group import key_files
from lookupstore.hudi.file_group.bloom import (
    DEFAULT_ERROR_RATE,
    FILTER_KEY,
    MOST_BITS,
    BloomBuilder,
    BloomFilter,
    bloom_bits,
    entries_with_room,
)
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.file_group.key_entries import (
    GREATEST_KEY,
    LEAST_KEY,
    OWN_KEY,
    KeyChunk,
    KeyEntries,
    OwnEntry,
    own_entry,
)
from lookupstore.hudi.file_group.key_files import read_key_file
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.write.options import WriteOptions

HIGH = "\ufb01"
SCHEMA = pa.schema({"id": pa.string(), "value": pa.int64()})


def entries_of(keys: list[str], error_rate: float = DEFAULT_ERROR_RATE) -> dict[bytes, bytes]:
    made = KeyEntries(error_rate)
    if keys:
        made.add(pa.array(keys, pa.string()))
    return made.entries("f.parquet", None)


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
        found = made.entries("f.parquet", None)
        oracle = BloomBuilder(room, most_entries=room)
        oracle.add(pa.array(keys))
        ends = {LEAST_KEY: min(keys).encode(), GREATEST_KEY: max(keys).encode()}
        expected = oracle.finish().footer() | ends
        assert found == expected | vouched_for(expected, "f.parquet")
        assert own_entry(found, "f.parquet", "p") == OwnEntry(None)


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
    assert not kept(said, 81).keeps  # of other rows
    assert not kept(said, 80, rate=1e-3).keeps
    assert not kept({}, 80).keeps
    java = BloomBuilder(50, most_entries=100)
    java.add(pa.array(keys))
    assert not kept(java.finish().footer(), 30).keeps  # two rows, 30 keys in the last
    assert not kept(BloomFilter.of(pa.array(keys), kind="SIMPLE").footer(), 80).keeps
    large = BloomBuilder(91, most_entries=91)
    large.add(pa.array(keys))
    assert not kept(large.finish().footer(), 80).keeps  # more than an eighth
    assert kept(large.finish().footer(), 80, 1).keeps


def test_more_room_than_another_error_rate_has() -> None:
    """Of so many keys Java counts the bits at one rate, but not with room at the other."""
    rows = 1_400_000
    builder = BloomBuilder(entries_with_room(rows, 0.1), error_rate=0.1, most_entries=rows)
    builder.add(pa.array(np.arange(rows)).cast(pa.string()))
    assert kept(builder.finish().footer(), rows, rate=0.1).keeps
    assert not kept(builder.finish().footer(), rows, rate=1e-300).keeps


def test_no_range_where_java_orders_otherwise() -> None:
    high = entries_of(["a", HIGH])
    assert not {LEAST_KEY, GREATEST_KEY} & set(high)
    keys = [f"k{at}" for at in range(40)]
    for before, after in (([*keys, HIGH], "b"), (keys, HIGH)):
        made = kept(entries_of(before), len(before), 1)
        assert made.keeps
        made.add(pa.array([after]))
        found = made.entries("f.parquet", None)
        assert not {LEAST_KEY, GREATEST_KEY} & set(found)
        bloom = BloomFilter.from_footer(found)
        assert bloom is not None
        assert bloom.test(pa.array([*before, after])).all()
    empty = entries_of([])
    assert not {LEAST_KEY, GREATEST_KEY} & set(empty)
    made = kept(empty, 0, 1)  # nothing to keep: the range is that of the key that comes
    made.add(pa.array(["k"]))
    assert made.entries("f.parquet", None)[LEAST_KEY] == b"k"


@pytest.mark.parametrize("key", [FILTER_KEY, LEAST_KEY, GREATEST_KEY, OWN_KEY])
def test_changed_entries_are_found(key: bytes) -> None:
    said = entries_of(["k1", "k2"])
    name_at = said[OWN_KEY].index(b"f.parquet")
    for at in range(len(said[key])):
        value = bytearray(said[key])
        value[at] ^= 1
        changed = said | {key: bytes(value)}
        if key == OWN_KEY and name_at <= at < name_at + len("f.parquet"):
            assert own_entry(changed, "f.parquet", "p") is None  # of another file
            continue
        with pytest.raises(CorruptionError, match=r"^p: "):
            own_entry(changed, "f.parquet", "p")
    if key != OWN_KEY:
        with pytest.raises(CorruptionError, match="CRC-32C"):
            own_entry({one: said[one] for one in said if one != key}, "f.parquet", "p")
    moved = said | {LEAST_KEY: b"k1k", GREATEST_KEY: b"2"}
    with pytest.raises(CorruptionError, match="CRC-32C"):
        own_entry(moved, "f.parquet", "p")


def test_entries_that_lie_under_a_right_checksum() -> None:
    chunk = [4, 10, 2, 12, "snappy"]
    for chunks in ([chunk], [chunk, [14, 0, 0, 0, None]], [], None):
        made = None if chunks is None else tuple(KeyChunk(*one) for one in chunks)
        assert own_entry(vouched_for({}, "f", chunks), "f", "p") == OwnEntry(made)
    wrong: list[Any] = [1, [1], [[1]], [[-1, *chunk[1:]]], [[*chunk, 1]], [[*chunk[:4], "lzo"]],
                        [["4", *chunk[1:]]], [[4.0, *chunk[1:]]], [[True, *chunk[1:]]],
                        [[*chunk[:4], []]]]  # fmt: skip
    for chunks in wrong:
        with pytest.raises(CorruptionError, match="column chunks in"):
            own_entry(vouched_for({}, "f", chunks), "f", "p")
    for entry in (
        b"",
        b"0",
        b"00000000 [1]",
        b"00000000 " + b"[" * 100_000,
        b'00000000 {"file":1}',
    ):
        with pytest.raises(CorruptionError, match="a file and chunks"):
            own_entry({OWN_KEY: entry}, "f", "p")


@pytest.mark.parametrize("chunks", [
    [[4, 1 << 40, 1000, 20, None]],  # behind the end of the file
    [[1 << 40, 4, 1000, 20, None]],
    [[4, 100, 999, 20, None]],  # fewer rows
    [],
    [[5, 100, 1000, 20_000, None]],  # no page
    [[4, 0, 1000, 20_000, "snappy"]],
    [[4, 100, 1000, 1 << 20, "zstd"]],
])  # fmt: skip
def test_chunks_that_are_not_there(tmp_path: Path, chunks: Any) -> None:
    table = table_of(tmp_path / "t", 1000)
    path, said = footer_of(table)
    data = path.read_bytes()
    own = vouched_for(said, path.name, chunks)[OWN_KEY]
    path.write_bytes(with_entry(data, own))
    for index in ("simple", "bloom", "in-memory"):
        with pytest.raises(CorruptionError, match=path.name):
            table.explain_tag(numbered(range(5)), index=index)


def with_entry(data: bytes, own: bytes) -> bytes:
    """Return a file with another entry of ours in its footer."""
    entries = pq.read_metadata(io.BytesIO(data)).metadata | {OWN_KEY: own}
    return with_footer(data, entries=entries)


def test_a_filter_that_nobody_vouches_for_is_made_anew(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", 1000)
    path, said = footer_of(table)
    said |= {FILTER_KEY: entries_of([f"x{at}" for at in range(1000)])[FILTER_KEY]}
    del said[OWN_KEY]
    rows = pq.read_table(path).replace_schema_metadata(None)
    with pq.ParquetWriter(path, rows.schema) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(said)
    assert "filter" in {one.kind for one in table.verify().findings}
    table.upsert(numbered(range(5), 1), options=WriteOptions(index="simple"))
    assert "filter" not in {one.kind for one in table.verify().findings}


def test_files_that_hudi_puts_together_are_none_of_ours(tmp_path: Path) -> None:
    """Its binary copy has the entries of the last file, and filters and ranges of all."""
    table = table_of(tmp_path / "t", 100)
    path, said = footer_of(table)
    other = KeyEntries(DEFAULT_ERROR_RATE)
    other.add(pa.array([f"x{at}" for at in range(100)]))
    merged = other.entries("other.parquet", None)
    rows = pq.read_table(path).replace_schema_metadata(None)
    with pq.ParquetWriter(path, rows.schema) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(
            said | {OWN_KEY: merged[OWN_KEY], FILTER_KEY: said[FILTER_KEY], GREATEST_KEY: b"x"}
        )
    assert "filter" not in {one.kind for one in table.verify().findings}
    table.upsert(numbered(range(50, 150), 1))
    assert table.scan().num_rows == 150
    assert OWN_KEY in footer_of(table)[1]
    assert {one.kind for one in table.verify().findings} == {"statistics"}  # of the first file


def table_of(path: Path, rows: int) -> HudiTable:
    table = HudiTable.create(path, SCHEMA, record_key=["id"])
    table.upsert(numbered(range(rows)))
    return table


def numbered(ids: range, value: int = 0) -> pa.Table:
    return pa.table({"id": [f"k{at}" for at in ids], "value": [value] * len(ids)}, schema=SCHEMA)


def footer_of(table: HudiTable) -> tuple[Path, dict[bytes, bytes]]:
    (group,) = table.file_groups()
    path = Path(table.location.uri) / group.current.path
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
        key: before[key] for key in (FILTER_KEY, LEAST_KEY, GREATEST_KEY)
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
        assert file.chunks is not None
        assert pa.chunked_array(file.batches()).to_pylist() == [f"k{at}" for at in range(5000)]
    table = HudiTable.open(tmp_path / "none")
    (group,) = table.file_groups()
    with monkeypatch.context() as patched:
        patched.setattr(key_files, "MOST_CHUNK_BYTES", 1000)
        assert read_key_file(table.location, group.current)[0].chunks is None
    path, _ = footer_of(table)
    data = bytearray(path.read_bytes())
    data[data.index(b"k4999")] = ord("x")
    path.write_bytes(data)
    file, _ = read_key_file(table.location, group.current)
    with pytest.raises(CorruptionError, match="checksum") as error:
        list(file.batches())
    assert error.value.path == str(path)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_files_of_other_writers_are_read_and_written_through_arrow(
    tmp_path: Path, version: str
) -> None:
    """Pages of the second version are not copied, nor are keys taken from them."""
    options = WriteOptions(format=FileFormat(row_group_bytes=1 << 16))
    table = HudiTable.create(tmp_path / "t", SCHEMA, record_key=["id"])
    table.upsert(numbered(range(5000)), options=options)
    path, said = footer_of(table)
    del said[OWN_KEY]
    rows = pq.read_table(path).replace_schema_metadata(None)
    with pq.ParquetWriter(
        path, rows.schema, use_dictionary=False, data_page_version=version
    ) as writer:
        writer.write_table(rows, row_group_size=1500)
        writer.add_key_value_metadata(said)
    (group,) = table.file_groups()
    assert read_key_file(table.location, group.current)[0].chunks is None
    table.insert(numbered(range(5000, 5001)), options=options)
    table.delete(["k7"], options=options)
    table.upsert(numbered(range(8, 20), 1), options=options)
    assert {one.kind for one in table.verify().findings} <= {"statistics"}  # of the first file
    expected = {f"k{at}": int(8 <= at < 20) for at in range(5001) if at != 7}
    found = table.scan(columns=["id", "value"]).to_pydict()
    assert dict(zip(found["id"], found["value"], strict=True)) == expected
