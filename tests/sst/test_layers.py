"""Files of buckets that answer as one; the model is a dict of each."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow as pa
import pytest
import xxhash

from lookupstore.errors import ClosedError, CorruptionError
from lookupstore.sst import Reader, Writer
from lookupstore.sst._answers import Found, Values
from lookupstore.sst._changes import MOST_RUNS, Changes
from lookupstore.sst._layer import Layer
from lookupstore.sst._making_places import blocks_added
from lookupstore.sst.layers import Layers
from lookupstore.sst.reader import lookup_of, reads_of

pytestmark = pytest.mark.drawn(0.4)

KEYS = [b"%07d" % i for i in range(9000)]


def bucket_of(key: bytes, buckets: int) -> int:
    return xxhash.xxh64_intdigest(key) % buckets


def written(path: Path, rows: dict[bytes, bytes], block_size: int = 1 << 16) -> Path:
    with Writer(path, compression="none", block_size=block_size) as writer:
        writer.put_many(list(rows), list(rows.values()))
    return path


def answers(layers: Layers, keys: list[bytes | None]) -> list[bytes | None]:
    values, found = Values(len(keys)), Found(len(keys))
    layers.lookup(pa.array(keys, pa.binary()), values)
    layers.lookup(pa.array(keys, pa.binary()), found)
    answered: list[bytes | None] = values.array().to_pylist()
    assert found.array().to_pylist() == [value is not None for value in answered]
    return answered


@pytest.mark.few(2)
@pytest.mark.parametrize("buckets", [1, 2, 3, 7, 8])
def test_each_key_is_asked_of_the_files_of_its_bucket(
    tmp_path: Path, buckets: int, seed: int
) -> None:
    """Keys lie in all files: only what the file of their bucket says is an answer."""
    rng = random.Random(seed)
    readers: dict[int, list[Reader]] = {}
    models: dict[int, dict[bytes, bytes]] = {}
    without_base = set()
    for bucket in range(buckets):
        files, model = [], {}
        if rng.random() < 0.7:
            model = {key: b"%d" % bucket for key in sorted(rng.sample(KEYS, 4000))}
            files.append(Reader(written(tmp_path / f"{bucket}.sst", model)))
        for number in range(rng.randrange(3)):  # of changes, the oldest first
            run = {}
            for key in sorted(rng.sample(KEYS, 500)):
                if rng.random() < 0.3:
                    run[key] = b"\1"
                    model.pop(key, None)
                else:
                    run[key] = b"\0%d" % rng.randrange(1000)
                    model[key] = run[key][1:]
            files.append(Reader(written(tmp_path / f"{bucket}-{number}.sst", run)))
        if not files:
            continue
        if not os.path.exists(tmp_path / f"{bucket}.sst"):
            without_base.add(bucket)
        readers[bucket], models[bucket] = files[::-1], model
    layers = Layers(buckets, readers, without_base)
    for count in (0, 1, 100, 9000, 70_000):
        keys = [rng.choice([*KEYS, b"other", None]) for _ in range(count)]
        expected = [
            None if key is None else models.get(bucket_of(key, buckets), {}).get(key)
            for key in keys
        ]
        assert answers(layers, keys) == expected
    for some in readers.values():
        for reader in some:
            reader.close()


def test_a_file_that_is_cut_is_named_if_it_was_asked(tmp_path: Path) -> None:
    own = [[key for key in KEYS if bucket_of(key, 3) == bucket] for bucket in range(3)]
    paths = [
        written(tmp_path / f"{bucket}.sst", {key: bytes(100) for key in own[bucket]})
        for bucket in range(3)
    ]
    with Reader(paths[0]) as one, Reader(paths[1]) as two, Reader(paths[2]) as three:
        layers = Layers(3, {0: [one], 1: [two], 2: [three]})
        assert answers(layers, [*KEYS]) == [bytes(100)] * len(KEYS)
        os.truncate(paths[1], paths[1].stat().st_size // 2)
        assert answers(layers, [*own[0], *own[2]]) == [bytes(100)] * len(own[0] + own[2])
        with pytest.raises(CorruptionError, match=r"1\.sst.*found"):
            answers(layers, [*KEYS])
        # Its filter, too, may have been read where it is cut.
        with pytest.raises(CorruptionError, match=r"1\.sst.*found"):
            answers(layers, [key for i in range(9) if bucket_of(key := b"no %d" % i, 3) == 1])


def test_a_file_of_many_is_hot_as_early_as_one(tmp_path: Path) -> None:
    """Large calls make its table of places, although few of their keys are in it."""
    own = [[key for key in KEYS if bucket_of(key, 2) == bucket] for bucket in range(2)]
    readers = {}
    for bucket in range(2):
        rows = dict.fromkeys(own[bucket], b"v")
        readers[bucket] = [Reader(written(tmp_path / f"{bucket}.sst", rows, block_size=500))]
    layers = Layers(2, readers)
    keys = pa.array([*(own[1] * 100)[:250_000], own[0][0]], pa.binary())
    data = lookup_of(readers[0][0]).data
    for calls in range(1, 14):
        assert data.table.places is None
        layers.lookup(keys, Found(len(keys)))
        assert (blocks_added(data) > 0) == (2 <= calls < 13)
    assert data.table.places is not None


def test_files_whose_tables_do_not_fit_are_hot_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large calls would make a table of each file; those of few files may fit."""
    own = [[key for key in KEYS if bucket_of(key, 2) == bucket] for bucket in range(2)]
    readers = {}
    for bucket in range(2):
        rows = dict.fromkeys(own[bucket], b"v")
        readers[bucket] = [Reader(written(tmp_path / f"{bucket}.sst", rows, block_size=500))]
    # A table has 8 bytes a record, and may have a quarter of the memory.
    monkeypatch.setattr("lookupstore.sst._layer.memory_limit", lambda: 4 * 8 * len(KEYS) - 1)
    layers = Layers(2, readers)
    keys = pa.array([*(own[1] * 100)[:250_000], own[0][0]], pa.binary())
    for _ in range(14):
        layers.lookup(keys, Found(len(keys)))
    first = lookup_of(readers[0][0]).data
    assert blocks_added(first) == 0
    assert first.table.places is None
    assert lookup_of(readers[1][0]).data.table.places is not None


def test_a_block_that_is_damaged_names_its_file(tmp_path: Path) -> None:
    own = [[key for key in KEYS if bucket_of(key, 3) == bucket] for bucket in range(3)]
    readers = {}
    for bucket in range(3):
        path = written(tmp_path / f"{bucket}.sst", {key: bytes(100) for key in own[bucket]})
        if bucket == 2:
            content = bytearray(path.read_bytes())
            content[100] ^= 1
            path.write_bytes(content)
        readers[bucket] = [Reader(path)]
    layers = Layers(3, readers)
    assert answers(layers, [*own[0], *own[1]]) == [bytes(100)] * len(own[0] + own[1])
    with pytest.raises(CorruptionError, match=r"2\.sst"):
        answers(layers, [*KEYS])
    uses = [reads_of(some[0]).block_uses for some in readers.values()]
    assert uses == [2 * len(own[0]), 2 * len(own[1]), 0]  # what fails is not counted


def test_what_layers_are_made_of_is_checked(tmp_path: Path) -> None:
    path = written(tmp_path / "a.sst", {b"a": b"1"})
    with Reader(path) as reader:
        pass
    with pytest.raises(ClosedError):
        Layers(2, {0: [reader]})
    with pytest.raises(ValueError, match="0 files; give 1 or more"):
        Layer(())
    with Writer(tmp_path / "b.sst", dialect="paimon", order="int32") as writer:
        writer.put((1).to_bytes(4, "little"), b"1")
    with Reader(tmp_path / "b.sst", order="int32") as other:
        assert Layer((lookup_of(other),)).lookups == (lookup_of(other),)
        with pytest.raises(ValueError, match="in the order of their bytes"):
            Layer((None, lookup_of(other)))


def changed(rng: random.Random, model: dict[bytes, bytes], count: int) -> dict[bytes, bytes]:
    """Return a run of changes, in key order, and apply it to the model."""
    run = {}
    for key in sorted(rng.sample(KEYS, count)):
        if rng.random() < 0.3:
            run[key] = b"\1"
            model.pop(key, None)
        else:
            run[key] = b"\0%d" % rng.randrange(1000)
            model[key] = run[key][1:]
    return run


def warm(layers: Layers, asked: list[bytes], times: int = 60) -> bool:
    """Look keys up until tables have the changes, or so many times; return whether they have."""
    keys = pa.array(asked, pa.binary())
    for _ in range(times):
        layers.lookup(keys, Values(len(keys)))
        if not layers._asked[1]:
            return True
    return False


@pytest.mark.few(1)
@pytest.mark.parametrize("buckets", [1, 3, 8])
def test_changes_above_hot_files_are_in_one_table(tmp_path: Path, buckets: int, seed: int) -> None:
    """All versions of a bucket are right at any time, also those without its newest run."""
    rng = random.Random(seed)
    readers: dict[int, list[Reader]] = {}
    versions: list[dict[int, dict[bytes, bytes]]] = [{} for _ in range(4)]
    without_base = set()
    for bucket in range(buckets):
        model: dict[bytes, bytes] = {}
        files = []
        if bucket % 3 == 2:  # its oldest run is below the others
            without_base.add(bucket)
            rows = changed(rng, model, 3000)
        else:
            model = {key: b"%d" % bucket for key in sorted(rng.sample(KEYS, 6000))}
            rows = model
        files.append(Reader(written(tmp_path / f"{bucket}.sst", rows)))
        for number in range(4):
            if number > 0 and bucket % 4 != 1:  # others have no newer runs
                run = changed(rng, model, rng.choice([1, 300, 2000]))
                files.append(Reader(written(tmp_path / f"{bucket}-{number}.sst", run)))
            versions[number][bucket] = dict(model)
        readers[bucket] = files[::-1]
    layers = [
        Layers(
            buckets,
            {b: files[max(0, len(files) - 1 - number) :] for b, files in readers.items()},
            without_base,
        )
        for number in range(4)
    ]
    hot = [False] * 4
    for turn in range(80):
        number = rng.randrange(4)
        keys = [rng.choice([*KEYS, b"other", None]) for _ in range(rng.choice([1, 50, 9000]))]
        models = versions[number]
        assert answers(layers[number], keys) == [
            None if key is None else models[bucket_of(key, buckets)].get(key) for key in keys
        ]
        if turn > 40:
            hot[number] = hot[number] or warm(layers[number], KEYS)
    assert all(hot), hot
    for some in readers.values():
        for reader in some:
            reader.close()


def test_files_are_hot_as_early_with_runs_as_without(tmp_path: Path, seed: int) -> None:
    """Keys that runs answer pay for the places below, which come with the table of changes."""
    rng = random.Random(seed)
    model = {key: b"old" for key in KEYS}
    alone, base = (written(tmp_path / name, model, 1024) for name in ("alone.sst", "base.sst"))
    runs = [written(tmp_path / f"{n}.sst", changed(rng, model, 300)) for n in range(2)]
    calls = [rng.sample(KEYS, 200) for _ in range(60)]

    def calls_until_hot(files: list[Reader]) -> int:
        layers, last = Layers(1, {0: files}), lookup_of(files[-1]).data
        for number, keys in enumerate(calls):
            layers.lookup(pa.array(keys, pa.binary()), Values(len(keys)))
            if last.table.places is not None:
                assert not layers._asked[1], "the base has places, its runs no table"
                return number
        raise AssertionError("no places")

    with Reader(alone) as plain, Reader(base) as below, Reader(runs[0]) as b, Reader(runs[1]) as a:
        without = calls_until_hot([plain])
        assert without > 3
        assert calls_until_hot([a, b, below]) <= without


def test_a_second_reader_of_old_files_has_the_table_too(tmp_path: Path, seed: int) -> None:
    """Blocks of files that do not change any more are those of whoever has read them first."""
    rng = random.Random(seed)
    model = {key: b"old" for key in KEYS}
    paths = [written(tmp_path / "base.sst", model)]
    paths.extend(written(tmp_path / f"{n}.sst", changed(rng, model, 900)) for n in range(2))
    for path in paths:
        os.utime(path, (1_700_000_000, 1_700_000_000))
    first, second = ([Reader(path) for path in paths[::-1]] for _ in range(2))
    for files in (first, second):
        layers = Layers(1, {0: files})
        assert warm(layers, KEYS)
        assert answers(layers, [*KEYS]) == [model.get(key) for key in KEYS]


def test_a_run_that_is_closed_does_not_cost_answers(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    model = {key: b"old" for key in KEYS}
    files = [Reader(written(tmp_path / "base.sst", model))]
    files.append(Reader(written(tmp_path / "0.sst", changed(rng, model, 100))))
    layers = Layers(1, {0: files[::-1]})
    above = layers._above[0]
    above.count(10_000_000)
    files[1].close()
    with Reader(tmp_path / "base.sst") as base:
        assert warm(Layers(1, {0: [base]}), KEYS)  # has no runs
        for _ in range(60):
            base.lookup(pa.array(KEYS, pa.binary()))
        assert lookup_of(base).data.table.places is not None
        assert above.changes_above(lookup_of(base)) is None


def test_more_runs_than_a_table_has(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    model = {key: b"old" for key in KEYS}
    files = [Reader(written(tmp_path / "base.sst", model))]
    for number in range(MOST_RUNS + 1):
        files.append(Reader(written(tmp_path / f"{number}.sst", changed(rng, model, 100))))
    layers = Layers(1, {0: files[::-1]})
    assert not warm(layers, KEYS)
    assert answers(layers, [*KEYS]) == [model.get(key) for key in KEYS]
    fewer = Layers(1, {0: files[-2::-1]})
    assert warm(fewer, KEYS)


@pytest.mark.parametrize("damage", ["kind", "length", "cut"])
def test_a_run_that_is_damaged_when_it_is_in_a_table(
    tmp_path: Path, seed: int, damage: str
) -> None:
    rng = random.Random(seed)
    model = {key: b"old" for key in KEYS}
    base = written(tmp_path / "base.sst", model)
    runs = [written(tmp_path / f"{n}.sst", changed(rng, model, 900)) for n in range(2)]
    with Reader(base) as oldest, Reader(runs[0]) as older, Reader(runs[1]) as newer:
        layers = Layers(1, {0: [newer, older, oldest]})
        assert warm(layers, KEYS)
        assert answers(layers, [*KEYS]) == [model.get(key) for key in KEYS]
        own = next(key for key, _ in older.items() if newer.get(key) is None)
        others = [key for key in KEYS if older.get(key) is None and newer.get(key) is None]
        at = runs[0].read_bytes().index(own)
        if damage == "cut":
            os.truncate(runs[0], 100)
        else:  # the byte behind the key is the value's length, then comes its kind
            with open(runs[0], "r+b") as file:
                file.seek(at + len(own) + (damage == "kind"))
                file.write(b"\7" if damage == "kind" else b"\xff")
        with pytest.raises(CorruptionError, match=r"0\.sst"):
            layers.lookup(pa.array([own], pa.binary()), Values(1))
        if damage != "cut":
            assert answers(layers, others) == [b"old"] * len(others)


def test_a_run_whose_records_change_before_a_table_is_made(tmp_path: Path, seed: int) -> None:
    """There is no table then: of a key in one, the damage would hide that it was changed."""
    rng = random.Random(seed)
    model = {key: b"old" for key in KEYS}
    base = written(tmp_path / "base.sst", model)
    run = written(tmp_path / "run.sst", changed(rng, model, 900), 512)
    with Reader(base) as below, Reader(run) as above:
        for _ in range(60):
            below.lookup(pa.array(KEYS, pa.binary()))
        file, changes = lookup_of(below).data, lookup_of(above).data
        assert file.table.places is not None
        assert len(changes.all_blocks()) > 20  # ready from now on
        offset, size = above._handles[7]
        with open(run, "r+b") as content:
            content.seek(offset)
            content.write(b"\xff" * size)
        with pytest.raises(CorruptionError, match="records of the block") as caught:
            Changes(file, [changes])
        assert caught.value.offset == offset
        layers = Layers(1, {0: [above, below]})
        layers._above[0].count(10_000_000)  # so that a table is due
        for _ in range(3):
            with pytest.raises(CorruptionError, match=r"run\.sst.*data block 7 of"):
                layers.lookup(pa.array(KEYS, pa.binary()), Values(len(KEYS)))
        assert layers._above[0]._changes is None


@pytest.mark.parametrize("cut_file", ["a run", "the base"])
@pytest.mark.parametrize("cut_at", ["in a block", "behind all blocks"])
def test_a_file_that_is_cut_while_a_table_is_made(
    tmp_path: Path, seed: int, cut_file: str, cut_at: str
) -> None:
    """There is no table then, and whoever looks into the file is told."""
    rng = random.Random(seed)
    model = {key: b"old" for key in KEYS}
    base = written(tmp_path / "base.sst", model)
    run = written(tmp_path / "run.sst", changed(rng, model, 900), 512)
    with Reader(base) as below, Reader(run) as above:
        for _ in range(60):
            below.lookup(pa.array(KEYS, pa.binary()))
        file, blocks = lookup_of(below).data, lookup_of(above).data
        assert file.table.places is not None
        assert len(blocks.all_blocks()) == above.info().data_blocks > 20  # ready from now on
        assert Changes(file, [blocks]) is not None
        path, reader = (run, above) if cut_file == "a run" else (base, below)
        last = reader._handles[-1]
        size = path.stat().st_size
        os.truncate(path, last[0] + last[1] // 2 if cut_at == "in a block" else size - 4)
        with pytest.raises((ValueError, CorruptionError), match=r"cut while|a file of"):
            Changes(file, [blocks])
        layers = Layers(1, {0: [above, below]})
        layers._above[0].count(10_000_000)  # so that a table is due
        for _ in range(3):
            with pytest.raises(CorruptionError, match=rf"{path.name}: .*a file of {size} bytes"):
                layers.lookup(pa.array(KEYS, pa.binary()), Values(len(KEYS)))
        assert layers._above[0]._changes is None
