"""What a manifest records of the snapshot that a version follows."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lookupstore
from lookupstore import CorruptionError, build, follow, publish, upsert
from lookupstore.store.changed_bucket import CompactionRule
from lookupstore.store.manifest import FollowedSnapshot, fields_hash
from lookupstore.store.version_files import name_of, read_newest

deltalake = pytest.importorskip("deltalake")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    deltalake.write_deltalake(tmp_path / "t", pa.table({"id": range(40), "v": [1] * 40}))
    return tmp_path / "t"


def followed(path: Any) -> FollowedSnapshot | None:
    with lookupstore.open(path) as store:
        return read_newest(store.location).follows


def test_only_changes_of_the_rows_clear_the_snapshot(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = importlib.import_module("lookupstore.following.follower")
    monkeypatch.setattr(follower, "_COMPACTION", CompactionRule(64, math.inf))
    path = tmp_path / "s"
    store = follow(table, path, key="id", buckets=2)
    first = followed(path)
    assert first is not None
    assert first.snapshot == "0"
    deltalake.DeltaTable(table).update(updates={"v": "2"}, predicate="id = 7")
    store = store.sync()
    assert store.info().runs == 1
    second = followed(path)
    assert second is not None
    assert (second.table, second.snapshot, second.columns) == (first.table, "1", first.columns)
    assert second.files != first.files
    store.compact().close()
    assert followed(path) == second
    publish(path, tmp_path / "copy").close()
    assert followed(tmp_path / "copy") == second
    with follow(table, tmp_path / "copy", key="id") as copy:
        assert copy.version == 1
    upsert(path, deletes=[1000]).close()  # which is not there
    assert followed(path) == second
    upsert(path, deletes=[1]).close()
    cleared = followed(path)
    assert cleared is not None
    assert (cleared.table, cleared.snapshot) == (first.table, None)
    with lookupstore.open(path) as changed:
        changed.compact().close()
    assert followed(path) == cleared
    with follow(table, path, key="id") as again:
        assert len(again) == 40
        assert followed(path) == FollowedSnapshot(
            second.table, "1", second.files, second.columns,
            "version 4 has changes that follow did not make; change the table "
            "instead of the store",
            str(table),
        )  # fmt: skip
    build(pa.table({"id": [1], "v": [1]}), path, key="id", overwrite=True).close()
    assert followed(path) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.pop("follows"), r"field follows: .*no such field"),
        (lambda f: f.update(follows=[]), "field follows"),
        (lambda f: f["follows"].pop("table"), r"field follows\.table"),
        (lambda f: f["follows"].update(snapshot=7), r"field follows\.snapshot"),
        (lambda f: f["follows"].update(files="x"), r"field follows\.files"),
        (lambda f: f["follows"].update(columns=None), r"field follows\.columns"),
        (lambda f: f["follows"].update(rebuilt=1), r"field follows\.rebuilt"),
        (lambda f: f["follows"].update(more=1), r"field follows\.more: no such field"),
        (lambda f: f["follows"].update(place=None), r"field follows\.place: text"),
        (lambda f: f["follows"].update(where=1), r"field follows\.where: text"),
        (lambda f: f["follows"].pop("every_column"), r"field follows\.every_column: true or false"),
        (
            lambda f: f.update(format_version=5),
            r"field follows\.every_column: no such field in its",
        ),
        (lambda f: f.update(format_version=4), "field follows: no such field in its format"),
    ],
)
def test_a_manifest_that_contradicts_itself(
    table: Path, tmp_path: Path, change: Callable[[Any], None], said: str
) -> None:
    with follow(table, tmp_path / "s", key="id") as store:
        path = tmp_path / "s" / name_of(read_newest(store.location)).file
    fields = json.loads(path.read_text())
    assert fields["format_version"] == 6
    del fields["xxh64"]
    change(fields)
    path.write_text(json.dumps({**fields, "xxh64": fields_hash(fields)}))
    with pytest.raises(CorruptionError, match=said):
        lookupstore.open(tmp_path / "s")
