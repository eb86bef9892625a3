"""A file with one table of places, and while it is made: against a dict."""

from __future__ import annotations

import gc
import os
import random
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.sst_files import Stored, craft, cut, run_all, written

from lookupstore.errors import CorruptionError
from lookupstore.sst import Reader, Writer
from lookupstore.sst._making_places import blocks_added
from lookupstore.sst.format import PAIMON
from lookupstore.sst.stored import StoredFile

BLOCK = 500  # bytes


def records_of(rng: random.Random, count: int) -> list[tuple[bytes, bytes]]:
    """Return records of keys and values of any sizes, some of them empty."""
    keys = {rng.randbytes(rng.choice([0, 1, 3, 8, 8, 8, 12, 25, 40])) for _ in range(count)}
    return [(key, rng.randbytes(rng.choice([0, 1, 32, 32, 200]))) for key in sorted(keys)]


def numbered(count: int) -> list[tuple[bytes, bytes]]:
    return [(b"%06d" % (3 * i), b"%d" % i) for i in range(count)]


def asked_of(rng: random.Random, records: list[tuple[bytes, bytes]], count: int) -> list[bytes]:
    """Return keys, most of them there, some of them twice."""
    keys = [rng.choice(records)[0] for _ in range(count)]
    return [key if rng.random() < 0.7 else key[:-1] + rng.randbytes(1) for key in keys]


def has_moved(reader: Reader) -> bool:
    return reader._search().data.table.places is not None


def look_up_all(reader: Reader, records: list[tuple[bytes, bytes]], times: int = 30) -> None:
    """Look all keys up until their slots have moved, or so many times."""
    keys, values = (pa.array(column, pa.large_binary()) for column in zip(*records, strict=True))
    for _ in range(times):
        assert reader.lookup(keys).equals(values)
        if has_moved(reader):
            break


def test_small_tables_share_pages(tmp_path: Path, seed: int) -> None:
    """Readers open and close in any order; each finds the records of its own file only."""
    rng = random.Random(seed)
    held: list[tuple[Reader, pa.Array, pa.Array]] = []
    moved = 0
    for number in range(30):
        # A table takes 8 bytes a record: 128 KiB and more are in pages that tables share.
        count = rng.choice([8_000, 20_000, 50_000, 90_000])
        numbers = np.unique(np.random.default_rng(rng.getrandbits(64)).integers(0, 1 << 40, count))
        keys = pa.array([b"%013d" % one for one in numbers.tolist()], pa.large_binary())
        values = pa.array([b"%d %d" % (number, i) for i in range(len(keys))], pa.large_binary())
        with Writer(tmp_path / f"{number}.sst", compression="none") as writer:
            writer.put_many(keys, values)
        reader = Reader(tmp_path / f"{number}.sst")
        for _ in range(12):
            if rng.random() < 0.9:  # others begin meanwhile
                assert reader.lookup(keys).equals(values)
        moved += has_moved(reader)
        held.append((reader, keys, values))
        rng.shuffle(held)
        while len(held) > 8 or (held and rng.random() < 0.4):
            held.pop()[0].close()
        for reader, keys, values in held:
            assert reader.lookup(keys).equals(values)
            if others := [keys for other, keys, _ in held if other is not reader]:
                assert reader.contains(rng.choice(others)).true_count < 5
    assert moved > 20


@pytest.mark.parametrize("dialect", ["native", "paimon"])
@pytest.mark.parametrize("filtered", [True, False])
def test_lookups_while_slots_move(tmp_path: Path, seed: int, dialect: str, filtered: bool) -> None:
    rng = random.Random(seed)
    for n in range(4):
        records = records_of(rng, rng.choice([1, 30, 3000]))
        model = dict(records)
        path = written(
            tmp_path / f"{n}.sst", records, block_size=BLOCK, compression="none", dialect=dialect
        )
        reader = Reader(path)
        for _ in range(400):
            keys = asked_of(rng, records, rng.choice([1, 10, 300]))
            if filtered:  # few misses, and the filter is not asked
                keys = [key for key in keys if key in model or rng.random() < 0.05]
            answers = reader.lookup(pa.array([*keys, None], pa.binary()))
            assert answers.to_pylist() == [*map(model.get, keys), None]
            key = rng.choice([*keys, b"?"])
            assert reader.get(key) == model.get(key)
            assert reader.contains(keys).to_pylist() == [key in model for key in keys]
        assert has_moved(reader)
        assert list(reader.items()) == records
        look_up_all(reader, records)


def test_all_readers_of_a_file_share_its_places(tmp_path: Path) -> None:
    records = numbered(2000)
    path = written(tmp_path / "x.sst", records, block_size=BLOCK, compression="none")
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    reader, other = Reader(path), Reader(path)
    look_up_all(reader, records)
    assert has_moved(other)
    reader.close()
    look_up_all(other, records)
    assert other.get(records[7][0]) == records[7][1]


def test_blocks_that_nobody_asked_for(tmp_path: Path) -> None:
    """Their keys have places, too. If one is damaged, the others answer without places."""
    records = numbered(4000)
    keys = [key for key, _ in records]
    path = written(tmp_path / "x.sst", records, block_size=BLOCK, compression="none")
    most = records[: len(records) * 15 // 16]
    whole = Reader(path)
    look_up_all(whole, most)
    assert has_moved(whole)
    assert whole.lookup(keys).null_count == 0
    whole.close()
    with open(path, "r+b") as file:
        file.seek(whole._handles[-1][0] + 3)
        file.write(b"!")
    reader = Reader(path)
    look_up_all(reader, most)
    assert not has_moved(reader)
    for key, value in most[::50]:
        assert reader.get(key) == value
    with pytest.raises(CorruptionError, match="block"):
        reader.get(records[-1][0])
    with pytest.raises(CorruptionError, match="block"):
        reader.lookup(keys)
    before = reader._index.record(len(reader._handles) - 2)[0]
    assert reader.lookup([key for key in keys if key <= before]).null_count == 0


@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_files_whose_slots_stay(tmp_path: Path, seed: int, compression: str) -> None:
    """Compressed blocks may go; among repeated keys the index decides, as in Java."""
    rng = random.Random(seed)
    records = numbered(1500)
    path = tmp_path / "x.sst"
    if compression == "zstd":
        written(path, records, block_size=BLOCK)
    else:
        records = sorted([*records, *((key, b"again") for key, _ in rng.sample(records, 300))])
        path.write_bytes(craft(PAIMON, [Stored.of(part) for part in cut(records, BLOCK)]))
    reader = Reader(path)
    keys = [key for key, _ in records]
    first = reader.lookup(keys)
    for _ in range(40):
        assert reader.lookup(keys).equals(first)
    assert [reader.get(key) for key in keys] == first.to_pylist()
    assert not has_moved(reader)


@pytest.mark.parametrize("moved", [True, False])
def test_a_file_that_is_cut(tmp_path: Path, moved: bool) -> None:
    records = numbered(4000)
    path = written(tmp_path / "x.sst", records, block_size=BLOCK, compression="none")
    reader = Reader(path)
    keys = [key for key, _ in records]
    assert reader.lookup(keys).null_count == 0
    if moved:
        look_up_all(reader, records)
        assert has_moved(reader)
    os.truncate(path, reader._handles[len(reader._handles) // 2][0])
    for _ in range(3):
        with pytest.raises(CorruptionError, match="a file of"):
            reader.lookup(keys)
        with pytest.raises(CorruptionError, match="a file of"):
            reader.get(keys[-1])


@pytest.mark.parametrize("begun", [False, True], ids=["before", "while places are made"])
@pytest.mark.parametrize("cut_at", ["in a block", "at the last block", "behind all blocks"])
def test_a_file_that_is_cut_after_answers_were_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_at: str, begun: bool
) -> None:
    """Places are made when a call has its answers. A file that is cut just then gets none."""
    records = numbered(4000)
    # A cut takes the filter first. Without one, keys are still looked for in blocks.
    path = written(tmp_path / "x.sst", records, block_size=BLOCK, compression="none", bloom_fpp=0.0)
    check_whole = StoredFile.check_whole
    is_checked = True
    monkeypatch.setattr(
        StoredFile, "check_whole", lambda file: check_whole(file) if is_checked else None
    )
    reader = Reader(path)
    data = reader._search().data
    keys = [key for key, _ in records]
    few, right = keys[:9], [value for _, value in records[:9]]
    lasts = [reader._index.record(number)[0] for number in range(len(reader._handles))]
    assert reader.lookup(lasts).null_count == 0  # all blocks are checked, and no record has a place
    while begun and blocks_added(data) == 0:
        assert reader.lookup(few).to_pylist() == right
    size, blocks = path.stat().st_size, reader._handles
    places = {
        "in a block": blocks[len(blocks) // 2][0] + 100,
        "at the last block": blocks[-1][0],
        "behind all blocks": size - 4,
    }
    tail = path.read_bytes()[size - 4 :]
    os.truncate(path, places[cut_at])
    is_checked = False
    for _ in range(150):  # more than it takes for all records to have places
        assert reader.lookup(few).to_pylist() == right
        assert data.table.places is None
    is_checked = True
    for _ in range(2):
        with pytest.raises(CorruptionError, match=f"a file of {size} bytes"):
            reader.lookup(few)
        with pytest.raises(CorruptionError, match=f"a file of {size} bytes"):
            reader.get(keys[-1])
    if cut_at == "behind all blocks":  # whoever wrote it writes the rest again
        with open(path, "ab") as file:
            file.write(tail)
        assert reader.lookup(keys).to_pylist() == [value for _, value in records]
    monkeypatch.undo()


def test_a_file_that_is_damaged_while_slots_move(tmp_path: Path) -> None:
    """No table is made; once the bytes are right again, all blocks answer as before."""
    records = numbered(4000)
    path = written(tmp_path / "x.sst", records, block_size=4000, compression="none")
    reader = Reader(path)
    keys, values = [key for key, _ in records], [value for _, value in records]
    lasts = [reader._index.record(number)[0] for number in range(len(reader._handles))]
    assert reader.lookup(lasts).null_count == 0  # all blocks are checked
    while blocks_added(reader._search().data) == 0:
        assert reader.lookup(keys[:9]).to_pylist() == values[:9]
    offset, size = reader._handles[len(reader._handles) // 2]
    content = path.read_bytes()
    damaged = offset + size // 2  # records before it are read and fit
    with open(path, "r+b") as file:
        file.seek(damaged)
        file.write(b"\xff" * 40)
        file.flush()
        for _ in range(len(reader._handles) * 3 // 4):  # each adds a block
            assert reader.lookup(keys[:9]).to_pylist() == values[:9]
        file.seek(damaged)
        file.write(content[damaged : damaged + 40])
    for _ in range(40):
        assert reader.lookup(keys[:9]).to_pylist() == values[:9]
    assert not has_moved(reader)
    assert reader.lookup(keys).to_pylist() == values
    assert [reader.get(key) for key in keys] == values


def test_records_that_change_after_they_moved(tmp_path: Path) -> None:
    """Lengths of a mapped file are checked whenever they are read."""
    records = numbered(4000)
    path = written(tmp_path / "x.sst", records, block_size=BLOCK, compression="none")
    reader = Reader(path)
    look_up_all(reader, records)
    offset, size = reader._handles[3]
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * size)
    keys = [key for key, _ in records]
    with pytest.raises(CorruptionError, match="records of the block") as caught:
        reader.lookup(keys)
    assert caught.value.offset == offset
    failed = 0
    for key, value in records:
        try:
            answer = reader.get(key)
        except CorruptionError as error:  # a few of other blocks, too, that have like hashes
            assert error.offset == offset  # noqa: PT017
            failed += 1
        else:
            assert answer == value
    assert 0 < failed < len(records) // 10


def test_threads_while_slots_move(tmp_path: Path, seed: int) -> None:
    records = numbered(20_000)
    model = dict(records)
    for n in range(3):
        path = written(tmp_path / f"{n}.sst", records, block_size=BLOCK, compression="none")
        an_hour_ago = time.time() - 3600
        os.utime(path, (an_hour_ago, an_hour_ago))
        kept = Reader(path)

        def use(number: int, path: Path = path) -> None:
            rng = random.Random(seed + number)
            for _ in range(60):
                with Reader(path) as reader:
                    keys = asked_of(rng, records, rng.choice([10, 3000]))
                    answers = reader.lookup(pa.array(keys, pa.binary()))
                    assert answers.to_pylist() == [model.get(key) for key in keys]
                    assert reader.get(keys[0]) == model.get(keys[0])

        run_all([lambda number=number: use(number) for number in range(4)])
        assert has_moved(kept)


def test_threads_that_come_in_between(tmp_path: Path) -> None:
    """The garbage collector runs Python's code, and with it other threads, at any new object."""
    records = numbered(6000)
    keys, values = (pa.array(column, pa.large_binary()) for column in zip(*records, strict=True))
    before = gc.get_threshold()

    def let_others_in(*_: object) -> None:
        time.sleep(0.0001)

    gc.callbacks.append(let_others_in)
    gc.set_threshold(20)
    try:
        for n in range(5):
            path = written(tmp_path / f"{n}.sst", records, block_size=BLOCK, compression="none")
            reader = Reader(path)
            assert reader.lookup(keys).equals(values)

            def use(reader: Reader = reader) -> None:
                for _ in range(40):
                    assert reader.lookup(keys[:2000]).equals(values[:2000])

            run_all([use] * 4)
            assert has_moved(reader)
            assert reader.lookup(keys).equals(values)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(let_others_in)


def test_a_table_that_is_too_large_for_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table takes a quarter of the memory at most; without one, blocks answer."""
    records = numbered(4000)
    path = written(tmp_path / "x.sst", records, block_size=BLOCK, compression="none")
    for memory, moves in ((4 * 32_000, False), (4 * 33_000, True)):  # 8 bytes a record
        monkeypatch.setattr("lookupstore.sst._table.memory_limit", lambda memory=memory: memory)
        reader = Reader(path)
        look_up_all(reader, records)
        assert has_moved(reader) == moves
        assert [reader.get(key) for key, _ in records] == [value for _, value in records]


def test_a_call_for_a_sixteenth_of_the_records_makes_all_places(tmp_path: Path) -> None:
    records = numbered(16_000)
    path = written(tmp_path / "x.sst", records, block_size=BLOCK, compression="none")
    with Reader(path) as reader:
        assert reader.lookup([key for key, _ in records[:999]]).null_count == 0
        assert blocks_added(reader._search().data) == 0
    with Reader(path) as reader:
        assert reader.lookup([key for key, _ in records[:1000]]).null_count == 0
        assert has_moved(reader)
