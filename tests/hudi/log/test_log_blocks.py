"""Damaged log files: what a killed writer left is skipped, everything else is an error."""

from __future__ import annotations

import itertools
import random
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from support.hudi.log_tables import AVRO, HFILE, MAGIC, PARQUET, LogTable, block, deletes_content

from lookupstore.errors import CorruptionError, LookupStoreError
from lookupstore.hudi.log.blocks import DamagedBlock, LogBlock, log_blocks, read_blocks
from lookupstore.hudi.log.deletes import deleted_keys

ROWS = [{"id": 1, "ts": 5, "value": "new"}, {"id": 3, "ts": 5, "value": None}]


def table_with_log(path: Path, version: int, kind: int = AVRO) -> tuple[LogTable, Path, list[int]]:
    """Return a table, its log file, and the offsets at which the blocks of the file end."""
    table = LogTable(path, version)
    base = [{"id": key, "ts": 1, "value": "old"} for key in (1, 2)]
    time = table.base("a-0", base).time
    instant = table.begin("deltacommit")
    parts = [
        table.data(instant.time, ROWS, kind),
        table.deletes(instant.time, [("2", "long", 7)]),
        table.data(instant.time, [{"id": 4, "ts": 5, "value": "last"}], kind),
    ]
    log = table.log("a-0", time if version == 6 else instant.time, b"".join(parts))
    table.finish(instant, schema=table.schema)
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    return table, log, ends


def test_blocks_one_after_the_other(tmp_path: Path) -> None:
    _, log, ends = table_with_log(tmp_path / "t", 9)
    content = log.read_bytes()
    blocks = list(read_blocks(content, "the/log"))
    assert [one.kind for one in blocks] == [AVRO, 1, AVRO]
    assert [one.at + len(one.content) + 12 for one in blocks] == ends[1:]
    assert [content[one.at_schema : one.at_schema + len(one.schema)] for one in blocks] == [
        one.schema for one in blocks
    ]


def structure_of(content: bytes, ends: list[int]) -> set[int]:
    """Return the offsets of bytes that say where things are, and what they are."""
    found: set[int] = set()
    for start, end in itertools.pairwise(ends):
        found |= set(range(start, start + 14 + 12))
        at = start + 26
        for _ in range(struct.unpack_from(">i", content, start + 22)[0]):
            name, size = struct.unpack_from(">ii", content, at)
            found |= set(range(at, at + 8))
            if name == 0:  # the instant
                found |= set(range(at + 8, at + 8 + size))
            at += 8 + size
        found |= set(range(at, at + 8))
        found |= set(range(end - 12, end))
    return found


def assert_names(error: CorruptionError, log: Path) -> None:
    assert error.path == str(log)
    assert error.offset >= 0


@pytest.mark.parametrize("kind", [AVRO, PARQUET, HFILE])
@pytest.mark.parametrize("version", [6, 9])
def test_a_wrong_byte_is_an_error_or_a_wrong_value(
    tmp_path: Path, version: int, kind: int, seed: int
) -> None:
    """A log file has no checksums: only what is between the values can be found wrong."""
    rng = random.Random(seed)
    table, log, ends = table_with_log(tmp_path / "t", version, kind)
    content = log.read_bytes()
    right = table.rows()
    structure = structure_of(content, ends)
    tried = {rng.randrange(len(content)) for _ in range(150)}
    tried |= set(rng.sample(sorted(structure), 150))
    for at in sorted(tried):
        wrong = bytearray(content)
        wrong[at] ^= 1 << rng.randrange(8)
        log.write_bytes(wrong)
        try:
            rows = table.rows()
        except CorruptionError as error:
            assert_names(error, log)
            continue
        except LookupStoreError:
            continue
        if at in structure:
            # In version 6, a block may look like one that a killed writer left, or like one of an
            # instant that was rolled back: it is skipped, as by Hudi.
            assert version == 6 or rows == right, (at, content[at], wrong[at])


@pytest.mark.parametrize("version", [6, 9])
def test_a_truncated_file_is_damaged(tmp_path: Path, version: int) -> None:
    table, log, ends = table_with_log(tmp_path / "t", version)
    content = log.read_bytes()
    for end in range(len(content)):
        log.write_bytes(content[:end])
        if end in ends:
            table.rows()
            continue
        with pytest.raises(CorruptionError) as caught:
            table.rows()
        assert caught.value.path == str(log)
        assert caught.value.offset >= max(one for one in ends if one <= end)


@pytest.mark.parametrize("is_followed", [False, True])
def test_what_a_killed_writer_left_is_skipped(tmp_path: Path, is_followed: bool) -> None:
    """Files of version 6 are appended to, by a writer after one that was killed as well."""
    table = LogTable(tmp_path / "t", 6)
    time = table.base("a-0", [{"id": 1, "ts": 1, "value": "old"}]).time
    killed = table.begin("deltacommit")
    whole = table.data(killed.time, ROWS)
    for left in (6, 13, 14, 40, len(whole) // 2, len(whole) - 1):
        for file in table.path.glob(".a-0*"):
            file.unlink()
        log = table.log("a-0", time, whole[:left])
        if is_followed:
            instant = table.begin("deltacommit")
            table.log("a-0", time, table.data(instant.time, ROWS[:1]))
            table.finish(instant, schema=table.schema)
            assert table.rows()["1"]["value"] == "new"
        elif left <= 40:  # not even the instant can be read
            with pytest.raises(CorruptionError, match=str(log)):
                table.rows()
        else:
            assert table.rows()["1"]["value"] == "old"


def test_a_damaged_block_of_a_completed_instant_is_an_error(tmp_path: Path) -> None:
    """Since version 8, nobody appends to a file of another instant."""
    table, log, ends = table_with_log(tmp_path / "t", 9)
    content = log.read_bytes()
    log.write_bytes(content[: ends[1] - 30] + content[ends[1] :])
    with pytest.raises(CorruptionError) as caught:
        table.rows()
    assert (caught.value.path, caught.value.offset < ends[1]) == (str(log), True)


def test_the_search_for_the_next_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookupstore.hudi.log.blocks._SEARCHED", 7)
    good = block(1, {0: b"20260101000000000", 2: b"{}"}, deletes_content([]))
    for gap in range(40):
        left = MAGIC + struct.pack(">q", 10_000) + b"#HUD" * (gap // 4) + bytes(gap % 4)
        found = list(log_blocks(pa.BufferReader(left + good), "the/log"))
        assert isinstance(found[0], DamagedBlock)
        assert isinstance(found[1], LogBlock)
        assert (found[0].is_followed, found[0].at, len(found)) == (True, 0, 2)
    with pytest.raises(CorruptionError, match="the/log"):
        list(read_blocks(left + good, "the/log"))


def test_bytes_between_blocks_are_damage(tmp_path: Path) -> None:
    table, log, ends = table_with_log(tmp_path / "t", 9)
    content = log.read_bytes()
    log.write_bytes(b"x" + content)
    with pytest.raises(CorruptionError, match="#HUDI#") as caught:
        table.rows()
    assert caught.value.offset == 0
    log.write_bytes(content[: ends[1]] + b"between" + content[ends[1] :])
    with pytest.raises(CorruptionError):
        table.rows()


def test_deletes_in_every_kind() -> None:
    content = deletes_content(
        [("a", "null", None), ("b", "int", 0), ("c", "int", 7), ("é", "int", 9)]
    )
    block_of = LogBlock(1, "", b"", 0, content, 0, {})
    found = deleted_keys(block_of, "the/log", pa.int32())
    assert found.keys.to_pylist() == ["a", "b", "c", "é"]
    assert found.ordering.to_pylist() == [None, None, 7, 9]
    assert deleted_keys(block_of, "the/log", None).keys == found.keys
    for end in range(len(content)):
        with pytest.raises(CorruptionError):
            deleted_keys(block_of._replace(content=content[:end]), "the/log", pa.int32())
