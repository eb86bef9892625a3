"""Files at paths that are listed again: only those that changed are read."""

from __future__ import annotations

import os
import pickle
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.object_store import BUCKET, pandas_names, writable_object_store

from lookupstore import CorruptionError, StaleStoreError
from lookupstore.columnar import ColumnarFiles, ruled_out, source_file
from lookupstore.storage import file_identity
from lookupstore.storage.file_identity import FileIdentity

NOW = datetime.now(timezone.utc)


class Folder:
    """A folder of files, and the names of those whose footers were read.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: Path, patch: pytest.MonkeyPatch) -> None:
        self.path = path
        self._read: list[str] = []
        footer_of = source_file._read

        def read(one: Any, ranges_of: str | None) -> Any:
            self._read.append(one.info.path.removeprefix(f"{path}/"))
            return footer_of(one, ranges_of)

        patch.setattr(source_file, "_read", read)

    def write(self, name: str, rows: dict[int, int], age: float = 100, **columns: Any) -> None:
        """Write a file of rows that was last changed some seconds before `NOW`."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [*rows], "v": [*rows.values()], **columns}), path)
        self.set_age(name, age)

    def set_age(self, name: str, age: float) -> None:
        written = NOW.timestamp() - age
        os.utime(self.path / name, (written, written))

    def read(self) -> list[str]:
        """Return the files whose footers were read since the last call."""
        found, self._read[:] = sorted(self._read), []
        return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    made = Folder(tmp_path / "dim", monkeypatch)
    made.write("a.parquet", {1: 10})
    made.write("b.parquet", {2: 20})
    return made


def answers(files: ColumnarFiles) -> dict[int, int]:
    found = files.lookup(range(9))["v"].to_pylist()
    return {key: value for key, value in enumerate(found) if value is not None}


@pytest.mark.parametrize("glob", [False, True])
def test_only_files_that_changed_are_read(folder: Folder, glob: bool) -> None:
    path = str(folder.path / "*.parquet" if glob else folder.path)
    files: ColumnarFiles = pickle.loads(pickle.dumps(ColumnarFiles(path, key="id")))
    assert folder.read() == ["a.parquet", "b.parquet"]
    assert files.listed_before(NOW) is files.newest() is files.at() is files
    assert folder.read() == []
    folder.write("c.parquet", {3: 30})
    more = files.listed_before(NOW)
    assert answers(more) == {1: 10, 2: 20, 3: 30}
    assert answers(files) == {1: 10, 2: 20}
    assert folder.read() == ["c.parquet"]
    folder.write("b.parquet", {2: 21}, age=50)
    os.unlink(folder.path / "a.parquet")
    newer = more.listed_before(NOW)
    assert answers(newer) == {2: 21, 3: 30}
    assert newer.committed_at() == pytest.approx(NOW.timestamp() - 50, abs=0.01)
    assert folder.read() == ["b.parquet"]
    assert newer.listed_before(NOW) is newer
    assert answers(files.newest()) == {2: 21, 3: 30}


def test_a_file_counts_from_the_time_on_at_which_it_was_written(folder: Folder) -> None:
    """A query whose tasks list the folder one after the other finds the same files."""
    files = ColumnarFiles(folder.path, key="id")
    folder.write("c.parquet", {3: 30}, age=-1)
    assert files.listed_before(NOW) is files
    assert answers(files.newest()) == {1: 10, 2: 20, 3: 30}
    folder.write("a.parquet", {1: 11}, age=-1)  # rows of what it replaced may be in added files
    assert answers(files.listed_before(NOW)) == {1: 11, 2: 20, 3: 30}


def test_a_file_that_is_being_written_is_not_yet_read(folder: Folder) -> None:
    files = ColumnarFiles(folder.path, key="id")
    (folder.path / "c.parquet").write_bytes(b"PAR1 and a half of what")
    folder.set_age("c.parquet", -1)
    assert files.listed_before(NOW) is files
    folder.set_age("c.parquet", 100)
    with pytest.raises(CorruptionError):
        files.listed_before(NOW)


def test_the_latest_partition_and_the_condition_are_chosen_again(folder: Folder) -> None:
    for day in (1, 2):
        folder.write(f"days/day={day}/0.parquet", {1: day, 2: 100 + day})
    days = folder.path / "days"
    latest = ColumnarFiles(days, key="id", latest_partition="day", columns=["v"])
    some = ColumnarFiles(days, key="id", where="day = 2", columns=["v"])
    assert answers(latest) == answers(some) == {1: 2, 2: 102}
    some.listed_before(NOW)
    folder.read()
    folder.write("days/day=3/0.parquet", {1: 3})
    assert answers(latest.listed_before(NOW)) == answers(latest.newest()) == {1: 3}
    assert some.listed_before(NOW) is some
    assert folder.read() == ["days/day=3/0.parquet"] * 3
    assert some.listed_before(NOW) is some
    assert folder.read() == []


def test_footers_decide_once_about_a_condition(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    decide = ruled_out._may_match
    monkeypatch.setattr(
        ruled_out,
        "_may_match",
        lambda file, by_statistics: asked.append(file.uri[-1]) or decide(file, by_statistics),
    )
    for number in range(3):
        folder.write(f"files/a{number}", {number: number})
    files = ColumnarFiles(folder.path / "files", key="id", where="v > 0")
    assert files.num_files == 2
    assert sorted(asked) == ["0", "1", "2"]
    asked.clear()
    assert files.listed_before(NOW) is files
    folder.write("files/a0", {7: 7}, age=50)
    folder.write("files/a3", {8: 0})
    assert answers(files.listed_before(NOW)) == {1: 1, 2: 2, 7: 7}
    assert sorted(asked) == ["0", "3"]


def test_other_columns_are_stale(folder: Folder) -> None:
    files = ColumnarFiles(folder.path, key="id")
    folder.write("a.parquet", {1: 10}, more=["x"])  # of columns that are not asked for
    assert answers(files.listed_before(NOW)) == {1: 10, 2: 20}
    pq.write_table(pa.table({"id": [1], "v": ["ten"]}), folder.path / "a.parquet")
    pq.write_table(pa.table({"id": [2], "v": ["two"]}), folder.path / "b.parquet")
    with pytest.raises(StaleStoreError, match="columns have other types since it was opened"):
        files.listed_before(NOW)
    pq.write_table(pa.table({"id": [1]}), folder.path / "a.parquet")
    pq.write_table(pa.table({"id": [2]}), folder.path / "b.parquet")
    with pytest.raises(StaleStoreError, match="have no column 'v'"):
        files.at()


def test_an_object_is_read_again_until_its_time_tells_versions_apart() -> None:
    """Objects have times of whole seconds, by the clock of another machine."""
    written = int(time.time()) - 1000
    one = FileIdentity("b/a.parquet", 9, written * 1_000_000_000, etag="1")
    assert not one.is_settled_at(written + 30)
    assert one.is_settled_at(written + 70)


def test_objects_that_did_not_change_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    with writable_object_store() as server:
        folder = Folder(Path(BUCKET, "dim"), monkeypatch)
        system = server.filesystem()

        def put(name: str, rows: dict[int, int]) -> None:
            with system.open_output_stream(f"{folder.path}/{name}") as stream:
                pq.write_table(pa.table({"id": [*rows], "v": [*rows.values()]}), stream)

        put("a.parquet", {1: 10})
        put("b.parquet", {2: 20})
        uri = f"s3://{folder.path}"
        files = ColumnarFiles(uri, key="id", storage_options=pandas_names(server))
        folder.read()
        assert files.newest() is files
        assert folder.read() == ["a.parquet", "b.parquet"]  # they could be replaced unseen
        monkeypatch.setattr(file_identity, "_CLOCKS_DIFFER_NS", 0)
        monkeypatch.setattr(file_identity, "_COARSEST_NS", 0)
        time.sleep(1.1)
        assert files.newest() is files.newest() is files
        folder.read()
        put("c.parquet", {3: 30})
        assert files.listed_before(NOW) is files
        assert folder.read() == []
        assert answers(files.newest()) == {1: 10, 2: 20, 3: 30}
        assert folder.read() == ["c.parquet"]
