"""One bad file among many, and a disk that is full: the error names it, and what to do."""

from __future__ import annotations

import errno
import io
import itertools
import os
import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow import fs, orc
from support.footers import with_rows
from support.remote import Remote

import lookupstore
from lookupstore import CorruptionError
from lookupstore.cli import main
from lookupstore.columnar import ColumnarFiles
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import HudiTable
from lookupstore.sorting import runs
from lookupstore.source import search as file_search
from lookupstore.source.opening import open_source
from lookupstore.source.reading import read_file
from lookupstore.storage import output

FILES = 40


def many_files(folder: Path, extension: str = "parquet") -> None:
    folder.mkdir(parents=True)
    for number in range(FILES):
        rows = pa.table({"id": range(number * 100, number * 100 + 100), "v": ["text"] * 100})
        path = folder / f"{number:03}.{extension}"
        if extension == "orc":
            pa.orc.write_table(rows, path)
        else:
            pq.write_table(rows, path, write_page_checksum=True)


def callers(tmp_path: Path) -> dict[str, Callable[[Any], Any]]:
    residency = Residency(tmp_path / "local", quota=1 << 30)

    def looked_up(source: Any) -> None:
        with ColumnarFiles(source, key="id", residency=residency, build="always") as files:
            files.lookup(list(range(0, FILES * 100, 50)))

    return {
        "build": lambda source: lookupstore.build(source, tmp_path / "store", key="id"),
        "build with threads": lambda source: lookupstore.build(
            source, tmp_path / "store", key="id", threads=2, progress=True
        ),
        "ColumnarFiles": looked_up,
    }


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8:80] = bytes(72)
    path.write_bytes(content)


def other(path: Path) -> None:
    path.write_text("id,v\n1,2\n")


@pytest.mark.parametrize("extension", ["parquet", "orc"])
@pytest.mark.parametrize("harm", [truncated, empty, damaged, other])
def test_one_bad_file_of_many_is_named(
    tmp_path: Path, seed: int, harm: Callable[[Path], None], extension: str
) -> None:
    many_files(tmp_path / "in", extension)
    bad = tmp_path / "in" / f"{random.Random(seed).randrange(FILES):03}.{extension}"
    harm(bad)
    for given in (tmp_path / "in", sorted((tmp_path / "in").iterdir()), f"{tmp_path}/in/*"):
        for name, call in callers(tmp_path).items():
            with pytest.raises(CorruptionError) as raised:
                call(given)
            assert raised.value.path == str(bad), name
            assert not (tmp_path / "store").exists()
    refused = CliRunner().invoke(main, ["build", str(tmp_path / "in"), "s", "--key", "id"])
    assert refused.exit_code == 1
    assert f"Error: {bad} is damaged: offset " in refused.output


def test_the_first_of_many_files_is_named(tmp_path: Path) -> None:
    many_files(tmp_path / "in")
    truncated(tmp_path / "in" / "000.parquet")
    for call in callers(tmp_path).values():
        with pytest.raises(CorruptionError) as raised:
            call(tmp_path / "in")
        assert raised.value.path == str(tmp_path / "in" / "000.parquet")


def test_the_file_and_column_of_another_type_are_named(tmp_path: Path) -> None:
    many_files(tmp_path / "in")
    pq.write_table(pa.table({"id": [1], "v": [2.5]}), tmp_path / "in" / "007.parquet")
    for call in callers(tmp_path).values():
        with pytest.raises(ValueError, match=r"(?s)'v'.*007\.parquet|007\.parquet.*'v'"):
            call(tmp_path / "in")
    pq.write_table(pa.table({"v": ["x"]}), tmp_path / "in" / "007.parquet")
    for call in callers(tmp_path).values():
        with pytest.raises((ValueError, KeyError), match=r"(?s)007\.parquet.*'id'"):
            call(tmp_path / "in")


def write_ipc(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


WRITERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "parquet": lambda table, path: pl.from_arrow(table).write_parquet(path),
    "orc": orc.write_table,
    "csv": lambda table, path: pl.from_arrow(table).write_csv(path),
    "jsonl": lambda table, path: pl.from_arrow(table).write_ndjson(path),
    "arrows": write_ipc,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_column_that_the_first_file_lacks_is_not_left_out(tmp_path: Path, kind: str) -> None:
    given = [tmp_path / f"{name}.{kind}" for name in "ab"]
    WRITERS[kind](pa.table({"id": [1], "v": ["a"]}), given[0])
    WRITERS[kind](pa.table({"id": [2], "more": [1.5], "v": ["b"]}), given[1])
    empty = {"id": pa.array([], pa.int64()), "v": pa.array([], pa.string())}
    calls: dict[str, Callable[..., Any]] = {
        "build": lambda **more: lookupstore.build(given, tmp_path / "s", key="id", **more),
        "upsert": lambda **more: lookupstore.upsert(tmp_path / "empty", given, **more),
    }
    lookupstore.build(empty, tmp_path / "empty", key="id", allow_empty=True).close()
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf"b\.{kind} has the column 'more', which the first"):
            call()
        with call(columns=["v"]) as store:
            assert [store[1], store[2]] == [{"v": "a"}, {"v": "b"}], name
    joined = ["join", f"{tmp_path}/*.{kind}", str(tmp_path / "s"), "--on", "id", "--prefix", "s_"]
    refused = CliRunner().invoke(main, [*joined, "-o", str(tmp_path / "out.json")])
    assert refused.exit_code == 2, refused.output
    assert "has the column 'more'" in refused.output
    table = HudiTable.create(tmp_path / "t", empty, record_key="id", name="t")
    with pytest.raises(ValueError, match="has the column 'more'"):
        table.upsert(given)
    assert HudiTable.open(tmp_path / "t").scan().num_rows == 0


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    many_files(tmp_path / "bucket" / "in")

    class Closed(Remote):
        def open_input_file(self, path: str) -> pa.NativeFile:
            if path.endswith("007.parquet"):
                raise OSError("HTTP 503")
            return super().open_input_file(path)

    def opened(uri: str) -> tuple[fs.FileSystem, str]:
        return fs.PyFileSystem(Closed(tmp_path, "s3")), uri.partition("://")[2]

    monkeypatch.setattr(file_search, "open_uri", opened)
    for call in callers(tmp_path).values():
        with pytest.raises(OSError, match="HTTP 503") as raised:
            call("s3://bucket/in")
        assert "bucket/in/007.parquet" in str(raised.value)


SECRET_URI = "s3://AKIA123:s3cr3t@bucket/in"


@pytest.mark.parametrize(
    ("error", "kind", "shown"),
    [
        (OSError(f"cannot list {SECRET_URI}"), OSError, r"cannot list s3://\*\*\*@bucket/in"),
        (PermissionError(13, "denied to s3cr3t"), PermissionError, r"denied to \*\*\*"),
        (pa.ArrowInvalid("s3cr3t is no key"), ValueError, r"\*\*\* is no key"),
    ],
    ids=["list", "denied", "invalid"],
)
def test_a_search_that_fails_shows_no_secret(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: type[Exception],
    shown: str,
) -> None:
    raised = searched(SECRET_URI, tmp_path, monkeypatch, error)
    assert type(raised) is kind
    assert "s3://***@bucket/in" in str(raised)
    assert re.search(shown, str(raised))
    assert "s3cr3t" not in str(raised) + repr(raised)
    assert raised.__suppress_context__


def test_a_search_that_fails_without_a_secret_raises_what_the_server_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = OSError("HTTP 503")
    assert searched(SECRET_URI, tmp_path, monkeypatch, error) is error
    remote = Remote(tmp_path, "s3")
    monkeypatch.setattr(remote, "step", failing(error))
    with pytest.raises(OSError, match="HTTP 503") as raised:
        open_source(remote.location("bucket/in"))
    assert type(raised.value) is OSError


def failing(error: Exception) -> Callable[..., str]:
    def fail(*_: object) -> str:
        raise error

    return fail


def searched(
    uri: str, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> Exception:
    """Return what is raised where every request of a remote file system fails with an error."""
    remote = Remote(folder, "s3")
    monkeypatch.setattr(remote, "step", failing(error))
    monkeypatch.setattr(file_search, "open_uri", lambda _: (fs.PyFileSystem(remote), "bucket/in"))
    with pytest.raises((OSError, ValueError)) as raised:
        open_source(uri)
    return raised.value


class FullDisk:
    """A stand-in for what makes files: they take some bytes, and then there is no room."""

    def __init__(self, make: Callable[..., Any], room: int) -> None:
        self.make = make
        self.room = room

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _File(self, self.make(*arguments, **named))


class _File:
    def __init__(self, disk: FullDisk, file: Any) -> None:
        self._disk = disk
        self._file = file

    def write(self, data: Any) -> int:
        self._disk.room -= len(data)
        if self._disk.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(self._file.write(data))

    def close(self) -> None:
        self._file.close()
        if self._disk.room < 0 and isinstance(self._file, io.BufferedIOBase):  # it writes the rest
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_disk_that_is_full_while_rows_are_spilled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": range(50_000), "v": [f"value {at}" for at in range(50_000)]})
    shuffled = rows.take(pa.array(random.Random(1).sample(range(50_000), 50_000)))
    pq.write_table(shuffled, tmp_path / "in.parquet")
    spilled = {"memory": 1 << 20, "key": "id"}
    command = ["build", str(tmp_path / "in.parquet"), str(tmp_path / "s"), "--key", "id"]
    command += ["--memory", "1MiB"]
    (tmp_path / "spill").mkdir()
    with monkeypatch.context() as patched:
        full = FullDisk(tempfile.TemporaryFile, 200_000)
        patched.setattr(runs.tempfile, "TemporaryFile", full)
        with pytest.raises(OSError, match=r"pass temp_dir= with a folder") as raised:
            lookupstore.build(tmp_path / "in.parquet", tmp_path / "s", **spilled)
        assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(tmp_path))
        full.room = 200_000
        refused = CliRunner().invoke(main, command)
        assert refused.exit_code == 1
        assert f"Error: {tmp_path}: No space left on device" in refused.output
        assert "pass --temp-dir with a folder that has room" in refused.output
    assert not (tmp_path / "s").exists()
    # The remedy, as it is named.
    folders: list[str] = []
    make = tempfile.TemporaryFile

    def seen(*arguments: Any, **named: Any) -> Any:
        folders.append(named["dir"])
        return make(*arguments, **named)

    monkeypatch.setattr(runs.tempfile, "TemporaryFile", seen)
    built = CliRunner().invoke(main, [*command, "--temp-dir", str(tmp_path / "spill")])
    assert built.exit_code == 0, built.output
    assert set(folders) == {str(tmp_path / "spill")}
    none = CliRunner().invoke(main, [*command, "--overwrite", "--temp-dir", "nowhere"])
    assert none.exit_code == 2
    assert "--temp-dir: nowhere: no such folder" in none.output


def test_a_disk_that_is_full_while_a_store_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": range(50_000), "v": range(50_000)})
    monkeypatch.setattr(output, "open", FullDisk(open, 100_000), raising=False)
    for threads in (1, 3):
        with pytest.raises(OSError, match="No space left on device") as raised:
            lookupstore.build(rows, tmp_path / "s", key="id", threads=threads)
        assert str(raised.value.filename).startswith(str(tmp_path / "s"))
        assert "temp_dir" not in str(raised.value)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_rows_without_columns_are_those_that_there_are(tmp_path: Path, kind: str) -> None:
    """A footer may claim any number of rows; a file lacks all columns that are asked for."""
    path = tmp_path / f"f.{kind}"
    rows = pa.table({"a": range(270_000)})
    if kind == "orc":
        orc.write_table(rows, path)
        content = path.read_bytes()
    else:
        pq.write_table(rows, path)
        content = with_rows(path.read_bytes(), 1 << 62)
        assert len(content) > 1 << 20, "of a smaller file the footer is looked at first"
    batches = read_file(pa.BufferReader(content), kind, ["b"], "f")
    counts = [(batch.num_rows, batch.num_columns) for batch in itertools.islice(batches, 1000)]
    assert sum(rows for rows, _ in counts) == 270_000
    assert {columns for _, columns in counts} == {0}


def test_rows_that_are_not_there(tmp_path: Path) -> None:
    """Arrow takes memory for the rows of a row group before it reads one."""
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": range(1000), "b": [[1, 2]] * 1000}), path)
    good = path.read_bytes()
    lookupstore.build(path, tmp_path / "good", key="a").close()
    for rows in (1 << 40, 1001, 999):
        path.write_bytes(with_rows(good, rows))
        with pytest.raises(CorruptionError, match=r"f\.parquet: offset"):
            lookupstore.build(path, tmp_path / "s", key="a")


@pytest.mark.parametrize("kind", ["parquet", "orc"])
@pytest.mark.parametrize("name", [b"other", b"inner"])
def test_a_name_that_is_no_text(tmp_path: Path, name: bytes, kind: str) -> None:
    path = tmp_path / f"f.{kind}"
    rows = pa.table({"id": [1, 2], "other": [{"inner": 1}, {"inner": 2}]})
    if kind == "orc":
        orc.write_table(rows, path, compression="uncompressed")
    else:
        pq.write_table(rows, path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(name, b"\xff" + name[1:]))
    for build in (
        lambda: lookupstore.build(path, tmp_path / "s", key="id"),
        lambda: ColumnarFiles(path, key="id"),
    ):
        with pytest.raises(CorruptionError, match=rf"f\.{kind}: offset \d+: .*utf-8"):
            build()


BAD_ROW = 69_998


def latin(rows: pa.Table, folder: Path, kind: str) -> Any:
    """Return rows as a source of some kind."""
    path = folder / f"f.{kind}"
    if kind == "parquet":
        pq.write_table(rows, path)
    elif kind == "orc":
        orc.write_table(rows, path)
    return {"table": rows, "batches": rows.to_batches(10_000)}.get(kind, path)


@pytest.mark.parametrize("kind", ["parquet", "orc", "table", "batches"])
def test_a_text_that_is_not_utf8_is_named_by_its_row(tmp_path: Path, kind: str) -> None:
    """The row is counted from 1, through all batches; other columns can be read."""
    for bad in (1, BAD_ROW):
        texts = [b"Bern"] * (bad - 1) + [b"Z\xfcrich", b"Ulm"]
        rows = pa.table({"id": range(bad + 1), "city": pa.array(texts).view(pa.string())})
        source = open_source(latin(rows, tmp_path, kind))
        with pytest.raises(ValueError, match=rf"the column 'city' .* not UTF-8 in row {bad}: "):
            list(source.batches(["id", "city"]))
        source = open_source(latin(rows, tmp_path, kind))
        assert sum(batch.num_rows for batch in source.batches(["id"])) == bad + 1


def test_rows_of_large_texts_are_read_in_small_batches(tmp_path: Path) -> None:
    """Rows of 64 KiB are read some megabytes at a time, and small ones 65,536 at a time."""
    path = tmp_path / "f.parquet"
    texts = [str(at) * (1 << 14) for at in range(1000, 1300)]
    pq.write_table(pa.table({"v": texts}), path, use_dictionary=False, compression="none")
    batches = list(open_source(path).batches(["v"]))
    assert max(batch.nbytes for batch in batches) < 8 << 20
    assert len(batches) < 10
    assert [text for batch in batches for text in batch["v"].to_pylist()] == texts
    pq.write_table(pa.table({"v": range(100_000)}), path)
    counts = [batch.num_rows for batch in open_source(path).batches(["v"])]
    assert counts == [65_536, 100_000 - 65_536]


def test_a_damaged_store_that_is_a_source_is_damage(tmp_path: Path) -> None:
    rows = pa.table({"id": range(9), "v": ["text"] * 9})
    with lookupstore.build(rows, tmp_path / "s", key="id") as store:
        (path,) = (tmp_path / "s" / "data").iterdir()
        content = path.read_bytes()
        path.write_bytes(content[:3] + bytes([content[3] ^ 1]) + content[4:])
        for use in (
            lambda: lookupstore.build(store, tmp_path / "t", key="id"),
            lambda: lookupstore.upsert(tmp_path / "u", store),
            lambda: (
                lookupstore.open(tmp_path / "u").join(store.scan(), "id", prefix="s_").read_all()
            ),
        ):
            lookupstore.build(rows, tmp_path / "u", key="id", overwrite=True).close()
            with pytest.raises(CorruptionError) as caught:
                use()
            assert caught.value.path == str(path)


def test_an_empty_path_is_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unset variable in a script must not read, or delete, what is in the current folder."""
    people = {"id": [1, 2], "name": ["ada", "alan"]}
    store = lookupstore.build(people, tmp_path / "store", key="id")
    table = HudiTable.create(tmp_path / "table", pa.table(people), record_key="id")
    table.insert(people)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    pq.write_table(pa.table(people).slice(1), "some.parquet")
    calls: dict[str, Callable[[], object]] = {
        "source": lambda: lookupstore.build("", tmp_path / "new", key="id"),
        "rows": lambda: table.upsert(["some.parquet", ""]),
        "keys": lambda: table.delete(""),
        "changes": lambda: store.upsert(""),
    }
    for argument, call in calls.items():
        with pytest.raises(ValueError, match=f"^{argument} is an empty path; give a path"):
            call()
    for line in (
        ["upsert", str(tmp_path / "store"), "--deletes", ""],
        ["hudi", "delete", str(tmp_path / "table"), "--keys", ""],
    ):
        result = CliRunner().invoke(main, line)
        assert (result.exit_code, "is an empty path" in result.stderr) == (2, True), result.output
    assert len(store.newest()) == len(table) == 2
    assert lookupstore.build(".", tmp_path / "new", key="id").version == 1
