"""A table that hudi-rs reads by its metadata table, beside the same one that it lists."""

from __future__ import annotations

import dataclasses
import re
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
from support.hudi.oracle import assert_same_rows, other_scan

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.log.hfile import read_hfile
from lookupstore.hudi.meta_columns import META_COLUMNS
from lookupstore.hudi.metadata.files_partition import FOLDER, files_partition
from lookupstore.hudi.metadata.group_files import TIMELINE
from lookupstore.hudi.metadata.records import FileInfo, changes_bytes
from lookupstore.hudi.timeline.commit import CommitMetadata, WriteStat, commit_bytes
from lookupstore.hudi.timeline.timeline import State

WITH_METADATA = ["v9_txns_complex_meta", "v9_txns_nonpart_meta"]
MAINTAIN = WriteOptions(metadata="maintain", threads=1)
REDUCE = WriteOptions(metadata="reduce", threads=1)
_PROPERTY = re.compile(r"^hoodie\.table\.metadata\.partitions=.*\n", re.MULTILINE)


def listed_scan(path: Path) -> pa.Table | None:
    """Return the rows that hudi-rs reads of a copy of a table without its metadata table."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(path, Path(folder) / "t"))
        properties = copy / ".hoodie/hoodie.properties"
        properties.write_text(_PROPERTY.sub("", properties.read_text()))
        shutil.rmtree(copy / ".hoodie" / "metadata", ignore_errors=True)
        return other_scan(copy)


def check_seen(path: Path) -> pa.Table:
    """Compare what we read by the folders with what hudi-rs reads by the metadata table."""
    table = HudiTable.open(path)
    assert table.options.metadata_partitions == ("files",)
    rows = table.scan()
    assert_same_rows(rows, other_scan(path))
    return rows


def check_listed(path: Path) -> pa.Table:
    """Do the same; and compare with what hudi-rs reads by the folders, and files with the list."""
    rows = check_seen(path)
    assert_same_rows(rows, listed_scan(path))
    table = HudiTable.open(path)
    assert [one for one in table.verify().findings if one.kind != "leftover"] == []
    return rows


def data_of(rows: pa.Table) -> pa.Table:
    """Return rows without the meta columns."""
    return rows.drop_columns(list(META_COLUMNS))


def renamed(rows: pa.Table, *keys: str) -> pa.Table:
    """Return as many rows as there are keys, with these."""
    data = data_of(rows).slice(0, len(keys))
    at = data.schema.get_field_index("txn_id")
    return data.set_column(at, "txn_id", pa.array(list(keys)))


def last_commit(table: HudiTable) -> str:
    """Return the time of the last commit."""
    return [one.time for one in table.timeline() if one.is_completed and one.is_write][-1]


def compact(path: Path, *, completes: bool = True) -> str:
    """Be a writer in Java that compacts the metadata table; return the time of the compaction.

    The new base file has what the log files before it say, as hudi-rs confirms.
    """
    view = HudiTable.open(path).view()
    folder = view.folder.beside(TIMELINE)
    requested = folder.request("compaction")
    started = folder.start(requested)
    if not completes:
        return started.time
    before = files_partition(view.location, view.timeline, folder)
    listing = before.listing(view.location)
    content = changes_bytes(
        {
            partition: {name: FileInfo(size, False) for name, size in files.items()}
            for partition, files in listing.files.items()
        },
        0,
    )
    assert len(read_hfile(content, "").entries) == len(listing.files) + 1
    name = f"{before.file_id}_0-1-2_{started.time}.hfile"
    (path / FOLDER / name).write_bytes(content)
    stat = WriteStat(before.file_id, f"files/{name}", partition_path="files")
    done = CommitMetadata({"files": (stat,)}, operation="COMPACT")
    # Its last state has another action.
    inflight = path / TIMELINE / f"{started.time}.inflight"
    inflight.write_bytes(b"")
    commit = dataclasses.replace(started, action="commit", state=State.INFLIGHT)
    folder.complete(commit, commit_bytes(done, view.options.version))
    inflight.unlink()
    return started.time


def as_of_folders(path: Path) -> dict[str, dict[str, int]]:
    """Return the sizes of the base files in each folder of a table."""
    found: dict[str, dict[str, int]] = {}
    for file in path.rglob("*.parquet"):
        folder = file.parent.relative_to(path).as_posix()
        if not folder.startswith(".hoodie"):
            found.setdefault("" if folder == "." else folder, {})[file.name] = file.stat().st_size
    return found
