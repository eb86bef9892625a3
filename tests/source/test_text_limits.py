"""Text that nests too deeply, or goes on for too long, is an error before it takes memory."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pytest
import zstandard

import lookupstore
from lookupstore import FormatError
from lookupstore.cli import main
from lookupstore.source.opening import open_source
from lookupstore.source.text_limits import MOST_DEPTH, TextLimits

pytestmark = pytest.mark.drawn(0.5)


def lz4(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
    ".lz4": lz4,
}


def nested(brackets: int, kind: str = "[]") -> bytes:
    """Return a row with so many brackets open at once, with those of the row."""
    opening, closing = ("[", "]") if kind == "[]" else ('{"a":', "}")
    inner = "" if kind == "[]" else "null"
    times = brackets - 1
    return f'{{"id": 1, "v": {opening * times}{inner}{closing * times}}}\n'.encode()


def rows_of(given: Any, **limits: Any) -> pa.Table:
    opened = open_source(given, **limits)
    return pa.Table.from_batches(opened.batches(opened.schema.names), opened.schema)


class Generated(io.RawIOBase):
    """A file without an end, which counts what was read of it."""

    def __init__(self, first: bytes, then: bytes) -> None:
        self._blocks: Iterator[bytes] = itertools.chain([first], itertools.repeat(then))
        self.taken = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = next(self._blocks)
        assert len(block) <= size
        self.taken += len(block)
        return block


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.parametrize("kind", ["[]", "{}"])
def test_the_row_that_nests_too_deeply_is_named(tmp_path: Path, kind: str, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    good = b'{"id": 7, "v": null}\n'
    path.write_bytes(COMPRESSED[suffix](good * 41 + nested(2000, kind) + good))
    with pytest.raises(FormatError, match=rf"source: {path}: row 42 nests more than 256 brackets;"):
        rows_of(path)
    path.write_bytes(COMPRESSED[suffix](good * 41 + nested(MOST_DEPTH + 1, kind) + good))
    with pytest.raises(FormatError, match=rf"source: {path}: row 42 nests more than 256"):
        lookupstore.build(path, tmp_path / "store", key="id")
    path.write_bytes(COMPRESSED[suffix](nested(MOST_DEPTH, kind)))
    assert rows_of(path)["id"].to_pylist() == [1]


def test_rows_before_it_may_be_many_or_on_one_line() -> None:
    many = b'{"id": 1, "text": "[[[{\\"[[["}\n' * 60_000  # of more than one piece
    with pytest.raises(FormatError, match="row 60001 nests"):
        rows_of(io.BytesIO(many + nested(300)))
    with pytest.raises(FormatError, match="row 3 nests"):
        rows_of(io.BytesIO(b'{"id": 1}\n{"id": 1} ' + nested(300)))
    printed = json.dumps({"id": 1, "v": [[2]]}, indent=1).encode()
    with pytest.raises(FormatError, match="row 3 nests"):
        rows_of(io.BytesIO(printed + b"\n" + printed + b'\n{\n"v":\n' + b"[\n" * 300))


def test_random_rows_are_refused_by_their_depth(seed: int) -> None:
    """As Python's parser sees it: brackets within texts are none, whatever stands before quotes."""
    chance = random.Random(seed)
    outcomes = set()
    for _ in range(12):
        rows = []
        for _ in range(chance.randrange(1, 5)):
            value: Any = "".join(chance.choices('[{}]"\\ aü', k=chance.randrange(200)))
            for _ in range(chance.choice([0, 3, 200, 254, 255, 256, 300])):
                value = [value]
            rows.append({"id": 1, "v": value})
        shown = (json.dumps(row, ensure_ascii=chance.random() < 0.5) for row in rows)
        text = "".join(f"{row}\n" for row in shown).encode()
        depths = [depth_of(row) for row in rows]
        deep = next((i for i, depth in enumerate(depths, 1) if depth > MOST_DEPTH), None)
        if deep is not None:
            with pytest.raises((FormatError, ValueError), match=rf"row ([1-{deep}])\b"):
                rows_of(io.BytesIO(text))
        elif len(set(depths)) == 1:
            assert rows_of(io.BytesIO(text)).to_pylist() == rows
        outcomes.add(deep is None)
    assert outcomes == {True, False}


def depth_of(value: Any) -> int:
    depth = 0
    while isinstance(value, (dict, list)):
        value = value["v"] if isinstance(value, dict) else value[0]
        depth += 1
    return depth


@pytest.mark.parametrize("words", [
    ["build", "deep.jsonl", "new", "--key", "id"],
    ["build", "-", "new", "--key", "id"],
    ["upsert", "store", "deep.jsonl"],
    ["upsert", "store", "--deletes", "deep.jsonl"],
    ["join", "deep.jsonl", "store", "--on", "id"],
    ["join", "-", "store", "--on", "id"],
], ids=" ".join)  # fmt: skip
def test_every_command_says_which_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lookupstore.build({"id": [1]}, "store", key="id").close()
    text = b'{"id": 1}\n' + nested(2000)
    Path("deep.jsonl").write_bytes(text)
    result = click.testing.CliRunner().invoke(main, words, input=text)
    assert result.exit_code != 0
    name = "" if "-" in words else "deep.jsonl: "
    assert f"{name}row 2 nests more than 256 brackets" in result.stderr
    assert "recursion" not in result.stderr


def test_rows_of_a_hudi_upsert_and_keys_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.jsonl").write_text('{"id": 1, "v": 2}\n')
    Path("deep.jsonl").write_bytes(nested(2000))
    run = click.testing.CliRunner().invoke
    assert run(main, ["hudi", "create", "t", "--like", "good.jsonl", "--key", "id"]).exit_code == 0
    for words in ("upsert t deep.jsonl", "create u --like deep.jsonl --key id"):
        result = run(main, ["hudi", *words.split()])
        assert "deep.jsonl: row 1 nests more than 256 brackets" in result.stderr
    lookupstore.build("good.jsonl", "store", key="id").close()
    result = run(main, ["get", "store", "--keys", "deep.jsonl"])
    assert (result.exit_code, "deep.jsonl" in result.stderr) == (2, True)
    assert "recursion" not in result.stderr


def test_forty_kilobytes_of_brackets_do_not_end_the_process(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(nested(20_000))
    words = ["-m", "lookupstore", "build", str(path), str(tmp_path / "s"), "--key", "id"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert f"{path}: row 1 nests more than 256 brackets" in done.stderr


def test_what_no_store_can_hold_names_file_and_column(tmp_path: Path) -> None:
    """Arrow reads no schema of so many levels: the store was published, and called damaged."""
    for brackets in (110, 150, 250):
        path = tmp_path / f"{brackets}.jsonl"
        path.write_bytes(nested(brackets))
        with pytest.raises(
            TypeError, match=rf"{path} .*: the column 'v' is nested {brackets - 1} levels deep"
        ):
            lookupstore.build(path, tmp_path / "store", key="id")
        assert not (tmp_path / "store").exists()
    path.write_bytes(nested(101))
    with lookupstore.build(path, tmp_path / "store", key="id") as store:
        assert store.get(1) == {"v": json.loads(path.read_text())["v"]}


# ---- values, and rows, that are too long


CSV_TEXT = b"id,long\n1,a\n2," + b"x" * 3000 + b"\n3,b\n"
CSV_QUOTED = b'id,long\n1,a\n2,"' + b'x\n""' * 1000 + b'"\n3,b\n'
JSON_TEXT = b'{"id": 1, "long": "a"}\n{"id": 2, "long": "' + b"\\n" * 1500 + b'"}\n'


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", CSV_TEXT), ("a.csv", CSV_QUOTED), ("a.jsonl", JSON_TEXT)]
)
def test_a_long_text_is_named(tmp_path: Path, name: str, text: bytes, suffix: str) -> None:
    path = tmp_path / (name + suffix)
    path.write_bytes(COMPRESSED[suffix](text))
    column = ", column 'long'" if "csv" in name else ""
    with pytest.raises(
        FormatError, match=rf"source: {path}: row 2{column} has a text of more than 1.0 kB; if"
    ):
        rows_of(path, max_text=1000)
    assert rows_of(path, max_text=4096)["id"].to_pylist()[:2] == [1, 2]
    assert rows_of(path)["id"].to_pylist()[:2] == [1, 2]


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        (b"id,long\n7,8\n1,", b"x" * 60_000, "row 2, column 'long' has a text of more than 1.0 MB"),
        (b'id,"a', b"x\n" * 30_000, "the line of names has a text of more than 1.0 MB"),
        (b'id,v,long\n1,"a,","', b'x""\n' * 9_000, "row 1, column 'long' has a text of more than"),
        (b'{"id": 1}\n{"id": 2, "v": "', b"x" * 60_000, "row 2 has a text of more than 1.0 MB"),
        (b'{"id": 1}\n{"id": 2, "v": {"n', b"[" * 60_000, "row 2 has a text of more than 1.0 MB"),
    ],
)
def test_no_more_is_read_than_the_limit(first: bytes, then: bytes, message: str) -> None:
    """Once a text is too long, however much of it may come."""
    file = Generated(first, then)
    with pytest.raises(FormatError, match=message):
        rows_of(file, max_text=1_000_000)
    assert file.taken < 1_200_000


@pytest.mark.parametrize("suffix", [one for one in COMPRESSED if one])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", b"id,v\n1,2\n3" + b",4" * 1_500_000 + b"\n"),
        ("a.jsonl", b'{"id": 1, "v": []}\n{"id": 3, "v": [4' + b",4" * 1_500_000 + b"]}\n"),
        ("a.jsonl", b'{"id": 1}\n{"id": 3' + b" " * 3_000_000 + b"}\n"),
    ],
    ids=["fields", "items", "blanks"],
)
def test_a_row_in_few_compressed_bytes(tmp_path: Path, name: str, text: bytes, suffix: str) -> None:
    """No text in it is long, and the decompressed file is read."""
    path = tmp_path / (name + suffix)
    path.write_bytes(COMPRESSED[suffix](text))
    with pytest.raises(
        FormatError, match=rf"{path}: row 2 has more than .*, in a compressed file of .*decompress"
    ):
        rows_of(path, max_text=1000)
    (tmp_path / name).write_bytes(text)
    if name == "a.jsonl":
        assert rows_of(tmp_path / name, max_text=1000)["id"].to_pylist() == [1, 3]
        assert rows_of(path, max_text=3_500_000)["id"].to_pylist() == [1, 3]


def test_small_compressed_files_are_read_however_small(tmp_path: Path) -> None:
    for suffix, compress in COMPRESSED.items():
        for name, text in (("a.csv", f"id,v\n1,{'x' * 10**6}\n"), ("a.jsonl", long_line(10**6))):
            path = tmp_path / (name + suffix)
            path.write_bytes(compress(text.encode()))
            assert rows_of(path).to_pylist() == [{"id": 1, "v": "x" * 10**6}]


def long_line(size: int) -> str:
    return json.dumps({"id": 1, "v": "x" * size}) + "\n"


def test_the_limits_by_default(tmp_path: Path) -> None:
    assert (TextLimits().text, TextLimits().row) == (64 << 20, 1 << 30)
    assert TextLimits(compressed=10).row == 64 << 20
    assert TextLimits(compressed=1 << 20).row == 100 << 20
    for wrong in (0, 63, "much"):
        with pytest.raises(ValueError, match="max_text"):
            open_source(tmp_path / "a.csv", max_text=wrong)


@pytest.mark.parametrize("name", ["a.csv.zst", "a.jsonl.zst"])
def test_a_bomb_takes_little_memory(tmp_path: Path, name: str) -> None:
    """400 MB of one text in 40 kB: its peak is that of what it reads until it is too long."""
    path = tmp_path / name
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    start = b"id,v\n1," if ".csv" in name else b'{"id": 1, "v": "'
    with path.open("wb") as file:
        file.write(packer.compress(start))
        for _ in range(100):
            file.write(packer.compress(b"x" * 4_000_000))
        file.write(packer.flush())
    assert os.path.getsize(path) < 100_000
    script = (
        "import resource, sys\n"
        "from lookupstore.source.opening import open_source\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        "    opened = open_source(sys.argv[1])\n"
        "    list(opened.batches(opened.schema.names))\n"
        "except Exception as error:\n"
        "    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    print(after - before, type(error).__name__, error)\n"
    )
    words = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    kibibytes, error, message = done.stdout.split(" ", 2)
    assert (error, "has a text of more than 67.1 MB" in message) == ("FormatError", True)
    assert int(kibibytes) < 300_000


def test_max_text_of_builds_and_upserts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python and on the command line; the error names the option of the one that was called."""
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("id,v\n1," + "x" * 2000 + "\n")
    with pytest.raises(FormatError, match=r"row 1, column 'v' .*; if this is intended, raise max"):
        lookupstore.build("a.csv", "s", key="id", max_text=1000)
    with lookupstore.build("a.csv", "s", key="id", max_text="2KiB") as store:
        for changes in (lookupstore.upsert, lambda _, *a, **b: store.upsert(*a, **b)):
            with pytest.raises(FormatError, match="row 1, column 'v'"):
                changes("s", "a.csv", max_text=1000)
            changes("s", "a.csv", max_text=2048).close()
    run = click.testing.CliRunner().invoke
    assert run(main, ["hudi", "create", "t", "--like", "a.csv", "--key", "id"]).exit_code == 0
    for line in (
        "build a.csv new --key id",
        "upsert s a.csv",
        "join a.csv s --on id --prefix p_",
        "join - s --on id --prefix p_",
        "hudi upsert t a.csv",
    ):
        words = [*line.split(), "--max-text"]
        refused = run(main, [*words, "1kB"], input=Path("a.csv").read_text())
        assert refused.exit_code == 1, line
        assert "more than 1.0 kB; if this is intended, raise --max-text\n" in refused.stderr
        wrong = run(main, [*words, "much"])
        assert "--max-text is 'much'; give bytes, or a size" in wrong.stderr
        done = run(main, [*words, "2KiB"], input=Path("a.csv").read_text())
        assert done.exit_code == 0, done.output
