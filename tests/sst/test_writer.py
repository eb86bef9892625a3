"""The writer: its bytes, its block cuts, what it refuses, and that nothing half-done is seen."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import random
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from support.sst_files import DIALECTS, Stored, block, craft, cut, fresh, written

from lookupstore.arrow._binary import BinaryColumn
from lookupstore.compacted.rows import CompactedRows
from lookupstore.errors import ClosedError
from lookupstore.sst import Writer
from lookupstore.sst.format import NATIVE, PAIMON, TRAILER_SIZE
from lookupstore.sst.stored import StoredFile

ABC = [(b"a", b"1"), (b"bc", b""), (b"d", b"333")]


def put_all(path: Path, *parts: tuple[Any, Any], **options: Any) -> None:
    """Write parts: of bytes by `put`, of arrays or lists by `put_many`."""
    with Writer(path, **options) as writer:
        for keys, values in parts:
            if isinstance(keys, bytes):
                writer.put(keys, values)
            else:
                writer.put_many(keys, values)


def files_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# -- bytes


def test_paimon_bytes_to_the_last(tmp_path: Path) -> None:
    """A file of three records, from the format note and by hand."""
    path = written(tmp_path / "abc.sst", ABC, dialect="paimon", compression="none", bloom_fpp=0)
    assert path.read_bytes().hex(" ") == (
        # three records, their positions, their number, "unaligned"
        "01 61 01 31  02 62 63 00  01 64 03 33 33 33  "
        "00 00 00 00  04 00 00 00  08 00 00 00  03 00 00 00  01  "
        "00 a2 04 66 d6  "
        # the index: one record of 5 bytes, "d" -> offset 0, size 31
        "01 64 02 00 1f  05 00 00 00  00  00 34 9f a8 9d  "
        # the footer: no filter, index at 36 of 10 bytes, magic
        "00 00 00 00 00 00 00 00  00 00 00 00  00 00 00 00 00 00 00 00  "
        "24 00 00 00 00 00 00 00  0a 00 00 00  61 fd 4e 58"
    ).replace("  ", " ")


def test_native_bytes_by_hand(tmp_path: Path) -> None:
    """The same bytes as the plain encoder of the tests and XXH64 of another library."""
    path = written(tmp_path / "abc.sst", ABC, compression="none", bloom_fpp=0.05)
    salts = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D)
    salts += (0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
    words = [0] * 8
    for key, _ in ABC:
        low = xxhash.xxh64_intdigest(key) & 0xFFFFFFFF
        for i, salt in enumerate(salts):
            words[i] |= 1 << ((low * salt & 0xFFFFFFFF) >> 27)
    bits = b"".join(word.to_bytes(4, "little") for word in words)
    stored = path.read_bytes()
    made = craft(NATIVE, [Stored.of(ABC)], records=ABC, bits=bits)
    at = made.index(b"\x06writer")
    assert stored[:at] == made[:at]  # all but who wrote it, and what lies behind
    assert stored[-4:] == b"LOOK"


RECORDS = st.dictionaries(st.binary(max_size=6), st.binary(max_size=9), max_size=40)


@given(records=RECORDS, block_size=st.integers(1, 120), dialect=st.sampled_from(list(DIALECTS)))
def test_blocks_are_cut_by_the_rule(
    tmp_path_factory: pytest.TempPathFactory,
    records: dict[bytes, bytes],
    block_size: int,
    dialect: str,
) -> None:
    """Cut and encode as the plain Python of the tests does, one by one and in batches."""
    ordered = sorted(records.items())
    folder = tmp_path_factory.mktemp("cut")
    options: dict[str, Any] = {
        "dialect": dialect,
        "block_size": block_size,
        "compression": "none",
        "bloom_fpp": 0,
    }
    one = written(folder / "put.sst", ordered, **options).read_bytes()
    with Writer(folder / "many.sst", **options) as writer:
        keys, values = ([pair[i] for pair in ordered] for i in (0, 1))
        writer.put_many(keys[:7], values[:7])
        writer.put_many(pa.array(keys[7:], pa.binary()), pa.array(values[7:], pa.binary_view()))
    assert (folder / "many.sst").read_bytes() == one
    blocks = [Stored.of(part) for part in cut(ordered, block_size)]
    if dialect == "paimon":
        assert one == craft(PAIMON, blocks)
    else:
        data = b"".join(craft(PAIMON, [part])[: len(part.payload)] for part in blocks)
        info = fresh(folder / "put.sst").verify()
        assert info.data_blocks == len(blocks)
        assert info.plain_bytes == len(data) == info.data_bytes - 5 * len(blocks)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
@pytest.mark.parametrize("bloom_fpp", [0, 0.05])
def test_put_and_put_many_give_the_same_bytes(
    tmp_path: Path, dialect: str, compression: str, bloom_fpp: float, seed: int
) -> None:
    rng = random.Random(seed)
    keys = sorted({rng.randbytes(4) for _ in range(3000)})
    values = [bytes([rng.randrange(4)]) * rng.randrange(30) for _ in keys]
    options: dict[str, Any] = {
        "dialect": dialect,
        "compression": compression,
        "bloom_fpp": bloom_fpp,
        "block_size": 1000,
    }
    one = written(tmp_path / "one", list(zip(keys, values, strict=True)), **options).read_bytes()
    for kind in (pa.binary(), pa.large_binary(), pa.binary(4), pa.binary_view()):
        path = tmp_path / str(kind)
        with Writer(path, **options) as writer:
            at = 0
            while at < len(keys):
                end = at + rng.randrange(700)
                arrow = pa.array([b"junk", *keys[at:end]], kind).slice(1)
                writer.put_many(arrow, pa.array(values[at:end], pa.large_binary()))
                at = end
        assert path.read_bytes() == one, kind


def test_a_codec_is_kept_only_where_it_pays(tmp_path: Path) -> None:
    rng = random.Random(5)
    records = [(b"%04d" % i, bytes(90) if i % 2 else rng.randbytes(90)) for i in range(100)]
    for codec in ("zstd", "lz4"):
        path = written(tmp_path / codec, records, compression=codec, block_size=60)
        assert fresh(path).verify().codecs == {"none": 50, codec: 50}


def test_level(tmp_path: Path) -> None:
    rng = random.Random(6)
    words = [rng.randbytes(5) for _ in range(200)]
    records = [(b"%06d" % i, b" ".join(rng.choices(words, k=9))) for i in range(4000)]
    sizes = [
        written(tmp_path / str(level), records, level=level).stat().st_size
        for level in (-5, None, 1, 19)
    ]
    assert sizes[0] > sizes[1] == sizes[2] > sizes[3]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_huge_record(tmp_path: Path, dialect: str) -> None:
    value = random.Random(7).randbytes(5 << 20)
    records = [(b"a", b"1"), (b"b" * 70_000, value), (b"c", b"3")]
    path = written(tmp_path / "huge.sst", records, dialect=dialect, block_size=4096)
    reader = fresh(path)
    assert list(reader.items()) == records
    assert reader.lookup([b"c", b"b" * 70_000]).to_pylist() == [b"3", value]
    assert reader.verify().data_blocks == 2


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("entries", [None, 10])
def test_an_empty_file(tmp_path: Path, dialect: str, entries: int | None) -> None:
    path = tmp_path / "empty.sst"
    with Writer(path, dialect=dialect, expected_entries=entries):
        pass
    reader = fresh(path)
    info = reader.verify()
    assert (len(reader), info.data_blocks, info.data_bytes) == (0, 0, 0)
    assert (info.min_key, info.max_key, info.codecs) == (None, None, {})
    assert (info.filter_bytes > 0) == (entries is not None)
    assert reader.get(b"") is None
    assert reader.lookup([b"", b"a"]).to_pylist() == [None, None]
    assert list(reader.scan()) == []
    assert list(reader.items(start=b"a", stop=b"b", reverse=True)) == []


def test_info_of_writer_and_reader_are_the_same(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("at", pa.timestamp("us", "UTC"))]
    )
    with Writer(
        tmp_path / "i.sst",
        key_schema=schema,
        value_schema=pa.schema([]),
        source="s3://bucket/päth",
        metadata={"run": b"\x00\xff", "": b""},
    ) as writer:
        with pytest.raises(ValueError, match="has not been closed"):
            _ = writer.info()
        writer.put_many([b"a", b"b"], [b"1", b"2"])
        assert writer.num_records == 2
    assert writer.info() == fresh(tmp_path / "i.sst").info()
    assert writer.info().key_schema == schema
    json = writer.info().to_json()
    assert json["metadata"] == {"run": "00ff", "": ""}
    assert json["key_schema"][0] == {"name": "id", "type": "int64", "nullable": False}


def test_the_filter_keeps_its_promise(tmp_path: Path, seed: int) -> None:
    """Let about as many absent keys pass as asked for, and every key that is there."""
    rng = random.Random(seed)
    keys = sorted({rng.randbytes(8) for _ in range(4000)})
    others = [rng.randbytes(9) for _ in range(8000)]
    for dialect in DIALECTS:
        for fpp in (0.01, 0.2):
            path = tmp_path / f"{dialect}{fpp}"
            with Writer(path, dialect=dialect, bloom_fpp=fpp) as writer:
                writer.put_many(keys, keys)
            one = fresh(path)._filter
            assert one.hides(BinaryColumn(keys)) == 0
            rate = 1 - one.hides(BinaryColumn(others)) / len(others)
            assert 0.6 * fpp < rate < 1.5 * fpp, (dialect, fpp, rate)


# -- refusals


@pytest.mark.parametrize("many", [False, True], ids=["put", "put_many"])
@pytest.mark.parametrize("block_size", [1, 65536])
def test_keys_out_of_order(tmp_path: Path, many: bool, block_size: int) -> None:
    path = tmp_path / "o.sst"

    def put(keys: list[bytes]) -> None:
        with Writer(path, block_size=block_size) as writer:
            writer.put(b"0", b"")
            if many:
                writer.put_many(keys, [b""] * len(keys))
            else:
                for key in keys:
                    writer.put(key, b"")

    where = r"( \(row 2 of this call\))?$"
    with pytest.raises(ValueError, match=rf"^record 3: key b'b' comes after b'c' but.*{where}"):
        put([b"a", b"c", b"b"])
    with pytest.raises(ValueError, match=rf"^record 3: key b'c' is repeated.*{where}"):
        put([b"a", b"c", b"c"])
    where = where.replace("2", "0")
    with pytest.raises(ValueError, match=rf"^record 1: key b'' comes after b'0' but.*{where}"):
        put([b""])
    with pytest.raises(ValueError, match=rf"^record 1: key b'0' is repeated.*{where}"):
        put([b"0"])
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("keys", ["short", "long", "of many sizes", "rows of Paimon's"])
def test_a_key_that_is_repeated_far_inside_a_batch_is_refused(tmp_path: Path, keys: str) -> None:
    """Wherever it is in a block and in the columns; the records before it are in the file."""
    count = 1200
    order = "bytes"
    if keys == "short":
        good = [b"%05d" % i for i in range(count)]
    elif keys == "long":
        good = [b"the same beginning of all keys %08d" % i for i in range(count)]
    elif keys == "of many sizes":
        good = [b"%05d" % i + b"." * (i % 40) for i in range(count)]
    else:
        rows = CompactedRows(pa.schema([("a", pa.int32()), ("b", pa.int64())]))
        columns = [pa.array([i // 7 for i in range(count)], pa.int32()), pa.array(range(count))]
        good, order = rows.encode(columns).to_pylist(), rows.order()
    dialect = "native" if order == "bytes" else "paimon"
    blocks = set()
    for repeated in (1, 2, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 500, 777, 1024, 1198):
        batch = [*good[: repeated + 1], good[repeated], *good[repeated + 1 :]]
        path = tmp_path / f"{repeated}.sst"
        with Writer(path, block_size=1000, dialect=dialect, order=order) as writer:
            with pytest.raises(ValueError, match=rf"^record {repeated + 1}: .* is repeated"):
                writer.put_many(pa.array(batch, pa.binary()), pa.array([b"v"] * len(batch)))
            assert writer.num_records == repeated + 1
        with fresh(path, order) as reader:
            reader.verify()
            assert list(reader) == good[: repeated + 1]
            blocks.add(reader.info().data_blocks)
    assert len(blocks) > 5  # the repeat was in blocks of all kinds


def test_an_empty_key_may_not_be_repeated_either(tmp_path: Path) -> None:
    empty = pa.array([b"", b""], pa.binary())
    for keys in (empty, [b"", b""], pa.array([b"", b""], pa.binary(0))):
        with (
            pytest.raises(ValueError, match=r"record 1: key b'' is repeated"),
            Writer(tmp_path / "e.sst") as writer,
        ):
            writer.put_many(keys, [b"1", b"2"])
    with pytest.raises(ValueError, match="record 1: key b'' is repeated"):
        put_all(tmp_path / "e.sst", (empty[:1], [b"1"]), (b"", b"2"))


def test_rows_before_the_wrong_one_are_in(tmp_path: Path) -> None:
    """Whoever catches the error may go on; filter, count and bounds know the rows before it."""
    with Writer(tmp_path / "p.sst", block_size=1) as writer:
        with pytest.raises(ValueError, match="record 2: key"):
            writer.put_many([b"b", b"c", b"a"], [b"1", b"2", b"3"])
        assert writer.num_records == 2
        with pytest.raises(ValueError, match=r"record 3: values\[1\] is null"):
            writer.put_many([b"d", b"e"], pa.array([b"4", None]))
        writer.put(b"e", b"5")
    reader = fresh(tmp_path / "p.sst")
    reader.verify()
    assert dict(reader.items()) == {b"b": b"1", b"c": b"2", b"d": b"4", b"e": b"5"}


def test_integer_keys(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="takes keys of 4 bytes"),
        Writer(tmp_path / "n.sst", dialect="paimon", order="int32") as writer,
    ):
        writer.put(b"abc", b"")
    with (
        pytest.raises(ValueError, match=r"keys\[1\] has 5 bytes"),
        Writer(tmp_path / "n.sst", dialect="paimon", order="int32") as writer,
    ):
        writer.put_many([b"\1\0\0\0", b"12345"], [b"", b""])
    with (
        pytest.raises(ValueError, match="comes after"),
        Writer(tmp_path / "n.sst", dialect="paimon", order="int16") as writer,
    ):
        writer.put_many([b"\x00\x01", b"\xff\xff"], [b"", b""])  # 256, -1
    path = written(
        tmp_path / "n.sst", [(b"\1\0", b"")], dialect="paimon", order="int16", bloom_fpp=0
    )
    file = StoredFile(str(path))
    index = file.block(file.footer.index, "index", "int16")
    (handle,) = index.handles(file.footer.index[0], TRAILER_SIZE)
    block = file.data_block(handle, 0, "int16")
    for bad in (b"", b"1", b"123", b"x" * 40):
        with pytest.raises(ValueError, match="takes keys of 2 bytes"):
            fresh(path, "int16").get(bad)
        with pytest.raises(ValueError, match=r"keys\[1\] has \d+ bytes"):
            fresh(path, "int16").lookup([b"\1\0", bad])
        with pytest.raises(ValueError, match="takes keys of 2 bytes"):
            list(fresh(path, "int16").scan(start=bad))
        with pytest.raises(ValueError, match="takes keys of 2 bytes"):
            block.lower_bound(bad)


def test_a_filter_does_not_hide_a_key_of_a_wrong_size(tmp_path: Path) -> None:
    """Whether a call is refused must not hang on a hash."""
    path = written(tmp_path / "n.sst", [(b"\1\0", b"")], dialect="paimon", order="int16")
    reader = fresh(path, "int16")
    for i in range(20):
        with pytest.raises(ValueError, match="takes keys of 2 bytes"):
            reader.get(b"abc%d" % i)
        with pytest.raises(ValueError, match=r"keys\[1\] has \d bytes"):
            reader.lookup([b"\1\0", b"abc%d" % i])


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"dialect": "java"}, r"dialect must be 'native' or 'paimon', not 'java'"),
    ({"dialect": "paimon-btree"}, r"dialect must be .*, not 'paimon-btree'"),
    ({"block_size": 0}, r"block_size must be from 1 to 2147483647 bytes, not 0$"),
    ({"block_size": 1 << 31}, r"block_size must be .*, not 2147483648"),
    ({"compression": "snappy"}, r"compression must be 'none', 'zstd' or 'lz4', not 'snappy'"),
    ({"compression": "lz4", "level": 3}, r"level=3 needs compression='zstd', not 'lz4'"),
    ({"compression": "zstd", "level": 99}, r"level=99 is beyond zstd's 22"),
    ({"bloom_fpp": 1}, r"bloom_fpp=1; give a rate from 1e-06 to below 1"),
    ({"bloom_fpp": -0.1}, r"bloom_fpp=-0.1; give a rate"),
    ({"bloom_fpp": float("nan")}, r"bloom_fpp=nan; give a rate"),
    ({"expected_entries": 0}, r"expected_entries=0; give at least 1"),
    ({"order": "utf16"}, r"order must be one of 'bytes', 'int8', .*, not 'utf16'"),
    ({"order": "int64"}, r"order= and allow_repeats= are for dialect='paimon'"),
    ({"allow_repeats": True}, r"order= and allow_repeats= are for dialect='paimon'"),
    ({"dialect": "paimon", "source": "x"}, r"a paimon file has no properties"),
    ({"dialect": "paimon", "metadata": {}}, r"a paimon file has no properties"),
    ({"dialect": "paimon", "key_schema": pa.schema([])}, r"a paimon file has no properties"),
    ({"dialect": "paimon", "expected_entries": 1 << 40}, r"larger than Paimon supports"),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS, ids=lambda one: str(one)[:40])
def test_bad_options(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Writer(tmp_path / "bad.sst", **options)
    assert files_in(tmp_path) == []


def test_bad_records(tmp_path: Path) -> None:
    with Writer(tmp_path / "b.sst") as writer:
        for key, value in (("a", b""), (b"a", "1"), (None, b""), (b"a", None), (b"a", bytearray())):
            with pytest.raises(TypeError, match=r"key|value"):
                writer.put(key, value)  # type: ignore[arg-type]
        for keys, values, error, message in (
            ([b"a"], [], ValueError, "1 keys and 0 values"),
            ([b"a", "b"], [b"", b""], TypeError, r"keys\[1\] is str; give bytes"),
            ([b"a"], [None], TypeError, r"values\[0\] is NoneType"),
            (b"a", [b"1"], TypeError, "keys is bytes; give a list of bytes, or an Arrow"),
            ([b"a"], pa.array([1]), TypeError, "values has the Arrow type int64; give binary"),
            (pa.array([b"a", None]), [b"", b""], ValueError, r"record 1: keys\[1\] is null"),
        ):
            with pytest.raises(error, match=message):
                writer.put_many(keys, values)
        assert writer.num_records == 1  # the row before the null
    assert dict(fresh(tmp_path / "b.sst").items()) == {b"a": b""}


def test_arrow_arrays_that_lie(tmp_path: Path) -> None:
    """Offsets that leave their data are refused, not followed."""
    data = pa.py_buffer(b"abcdef")

    def offsets(*numbers: int) -> pa.Buffer:
        return pa.py_buffer(b"".join(n.to_bytes(4, "little", signed=True) for n in numbers))

    good = fresh(written(tmp_path / "g.sst", [(b"a", b"")], bloom_fpp=0))
    for wild in ((0, 99, 3), (0, -1, 3), (2, 1, 3), (0, 1 << 30, 6)):
        column = pa.Array.from_buffers(pa.binary(), 2, [None, offsets(*wild), data])
        with pytest.raises(ValueError, match="the Arrow offsets point outside their data buffer"):
            good.lookup(column)
        with (
            pytest.raises(ValueError, match="the Arrow offsets point outside their data buffer"),
            Writer(tmp_path / "w.sst") as writer,
        ):
            writer.put_many(column, [b"", b""])
    assert files_in(tmp_path) == ["g.sst"]


# -- publication


def test_nothing_is_seen_before_close(tmp_path: Path) -> None:
    path = tmp_path / "later.sst"
    writer = Writer(path, block_size=1)
    writer.put(b"a", b"1")
    assert not path.exists()
    hidden = files_in(tmp_path)
    assert len(hidden) == 1
    assert hidden[0].startswith(".later.sst.")
    assert hidden[0].endswith(".tmp")
    writer.close()
    assert files_in(tmp_path) == ["later.sst"]
    writer.close()
    writer.abort()
    assert fresh(path).get(b"a") == b"1"


def fail_inside(path: Path, error: type[BaseException], **options: Any) -> None:
    with Writer(path, block_size=1, **options) as writer:
        writer.put(b"a", b"newer")
        raise error


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_an_exception_inside_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error):
        fail_inside(tmp_path / "x.sst", error)
    assert files_in(tmp_path) == []
    with pytest.raises(ValueError, match="repeated"):
        put_all(tmp_path / "x.sst", (b"a", b"1"), (b"a", b"1"))
    assert files_in(tmp_path) == []


def test_a_dropped_writer_leaves_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.sst", block_size=1)
    writer.put(b"a", b"1")
    del writer
    gc.collect()
    assert files_in(tmp_path) == []


def test_use_after_close(tmp_path: Path) -> None:
    with Writer(tmp_path / "x.sst") as writer:
        writer.put(b"a", b"1")
    assert "closed" in repr(writer)
    for call in (
        lambda: writer.put(b"b", b""),
        lambda: writer.put_many([b"b"], [b""]),
        writer.__enter__,
    ):
        with pytest.raises(ClosedError, match=r"x\.sst: the writer is closed"):
            call()
    assert fresh(tmp_path / "x.sst").info().num_records == 1
    aborted = Writer(tmp_path / "y.sst")
    aborted.abort()
    with pytest.raises(ClosedError, match="aborted, or writing has failed; there is no file"):
        aborted.close()
    with pytest.raises(ClosedError):
        aborted.put(b"b", b"")
    assert files_in(tmp_path) == ["x.sst"]


def test_an_existing_file(tmp_path: Path) -> None:
    path = written(tmp_path / "x.sst", [(b"a", b"old")])
    old = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"x\.sst exists; pass overwrite=True"):
        Writer(path)
    writer = Writer(path, overwrite=True)
    writer.put(b"a", b"new")
    assert path.read_bytes() == old
    before = fresh(path)
    writer.close()
    assert fresh(path).get(b"a") == b"new"
    assert before.get(b"a") == b"old"  # an open reader keeps what it opened
    with pytest.raises(RuntimeError):
        fail_inside(path, RuntimeError, overwrite=True)
    assert fresh(path).get(b"a") == b"new"
    assert files_in(tmp_path) == ["x.sst"]


def test_a_dangling_link_exists_too(tmp_path: Path) -> None:
    (tmp_path / "x.sst").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        Writer(tmp_path / "x.sst")


def test_two_writers_race(tmp_path: Path) -> None:
    path = tmp_path / "x.sst"
    first, second = Writer(path), Writer(path)
    first.put(b"a", b"first")
    second.put(b"a", b"second")
    first.close()
    with pytest.raises(FileExistsError, match=r"x\.sst was created meanwhile"):
        second.close()
    assert fresh(path).get(b"a") == b"first"
    assert files_in(tmp_path) == ["x.sst"]
    with pytest.raises(ValueError, match="no file to describe"):
        _ = second.info()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Writer(tmp_path / "no" / "x.sst")
    gc.collect()


def test_a_name_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Writer("here.sst") as writer:
        writer.put(b"a", b"")
        monkeypatch.chdir("/")
    assert files_in(tmp_path) == ["here.sst"]


def test_the_block_of_the_tests_is_the_format_note_s() -> None:
    """Hold the oracle above to exact bytes."""
    assert block([(b"a", b"1"), (b"b", b"2")]).hex(" ") == "01 61 01 31 01 62 01 32 04 00 00 00 00"
    assert block([(b"a" * 128, b"")])[:3] == b"\x80\x01a"
    assert cut([(b"a", b"")] * 4, 10) == [[(b"a", b"")] * 2] * 2
    assert cut([(b"a", b"")] * 4, 11) == [[(b"a", b"")] * 3, [(b"a", b"")]]


def test_a_writer_is_not_copied(tmp_path: Path) -> None:
    """A copy that goes away would take the file with it."""
    with Writer(tmp_path / "x.sst") as writer:
        writer.put(b"a", b"1")
        for call in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="a writer cannot be copied or pickled"):
                call(writer)
        gc.collect()
    assert fresh(tmp_path / "x.sst").get(b"a") == b"1"


def test_threads_take_turns(tmp_path: Path) -> None:
    """A second thread is told, and the file holds what was accepted."""
    keys = [b"%08d" % i for i in range(300_000)]
    column = pa.array(keys, pa.binary())
    told = []
    with Writer(tmp_path / "x.sst", dialect="paimon", allow_repeats=True) as writer:

        def put() -> None:
            try:
                writer.put_many(column, column)
            except (RuntimeError, ValueError) as error:
                told.append(str(error))

        threads = [threading.Thread(target=put) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        count = writer.num_records
    assert all(
        "another thread is using this writer" in text or "give keys in key order" in text
        for text in told
    )
    reader = fresh(tmp_path / "x.sst")
    assert len(reader) == count == len(keys) * (4 - len(told))
    assert told
    reader.verify()


@pytest.mark.parametrize("broken", ["add", "add_many"])
def test_an_error_between_block_and_filter_ends_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Were the writer to go on, the key would be in the block and not in the filter."""
    path = tmp_path / "x.sst"
    writer = Writer(path)
    writer.put(b"a", b"1")

    class Interrupted:
        def add(self, key: bytes) -> None:
            raise KeyboardInterrupt

        def add_many(self, *arguments: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(writer, "_filter", Interrupted())
    put = writer.put if broken == "add" else lambda k, v: writer.put_many([k], [v])
    with pytest.raises(KeyboardInterrupt):
        put(b"b", b"2")
    with pytest.raises(ClosedError):
        writer.close()
    assert files_in(tmp_path) == []
