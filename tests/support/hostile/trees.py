"""Trees that somebody made to do harm: each is a good store, table or folder, and one trick.

A trick changes `tree`, a copy of a good one; `beside` is the folder that nobody may change.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.hudi import HudiTable, Instant, State, options
from lookupstore.hudi.locking.owner import Owner
from lookupstore.hudi.timeline.commit import CommitMetadata, WriteStat, commit_bytes
from lookupstore.hudi.timeline.plans import (
    ActionInstant,
    CleanerPlan,
    CleanFile,
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    InstantInfo,
    RequestedReplace,
    RestorePlan,
    RollbackPlan,
    RollbackRequest,
    SavepointMetadata,
    SavepointPartition,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import (
    CLEAN,
    CLUSTERING,
    COMMIT,
    REPLACE,
    RESTORE,
    ROLLBACK,
    SAVEPOINT,
)
from lookupstore.store import manifest

Trick = Callable[[Path, Path], object]

ROWS = pa.table({"id": [1, 2, 3], "part": ["a", "b", "a"], "name": ["x", "y", "z"]})
#: From the tree, where the folder of canaries is.
OUT = "../beside/important"
_TIME, _LATER, _LAST = "20240101000000001", "20240101000000005", "99991231235959999"
_DEEP = "[" * 200_000


def make_templates(folder: Path) -> None:
    """Make one good tree of each kind."""
    for version in range(2):
        rows = ROWS.slice(version)
        store = folder / "store"
        lookupstore.build(rows, store, key="id", buckets=2, overwrite=bool(version)).close()
    for kind, version, partition_by in (
        ("table", 9, ()),
        ("table6", 6, ()),
        ("partitioned", 9, ("part",)),
    ):
        table = HudiTable.create(
            folder / kind, ROWS.schema, record_key="id", partition_by=partition_by, version=version
        )
        table.insert(ROWS)
        table.upsert(ROWS.slice(0, 1))
    (folder / "files" / "day=1").mkdir(parents=True)
    pq.write_table(ROWS, folder / "files" / "day=1" / "a.parquet")


def make_beside(beside: Path) -> None:
    """Make the folder of canaries: files and folders that a trick might lead to."""
    for name in ("important/inner/kept", f"important/{_TIME}/kept", "x/kept", "versions/kept"):
        (beside / name).parent.mkdir(parents=True, exist_ok=True)
        (beside / name).write_text("kept")
    lookupstore.build(ROWS, beside / "store", key="id").close()
    pq.write_table(ROWS, beside / "important" / "secret.parquet")
    os.chmod(beside / "important" / "inner" / "kept", 0o640)


def _link(name: str, to: str) -> Trick:
    """Put a link in the place of what has a name, or where nothing is."""

    def trick(tree: Path, beside: Path) -> None:
        path = next(iter(sorted(tree.glob(name))), tree / name)
        _remove(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(Path(os.path.abspath(tree / to)) if to.startswith(OUT) else to)

    return trick


def _pipe(name: str) -> Trick:
    def trick(tree: Path, beside: Path) -> None:
        path = next(iter(sorted(tree.glob(name))), tree / name)
        _remove(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)

    return trick


def _folder(name: str) -> Trick:
    def trick(tree: Path, beside: Path) -> None:
        path = next(iter(sorted(tree.glob(name))), tree / name)
        _remove(path)
        path.mkdir(parents=True)
        (path / "inner").write_text("a file")

    return trick


def _file(name: str, content: bytes) -> Trick:
    def trick(tree: Path, beside: Path) -> None:
        path = next(iter(sorted(tree.glob(name))), tree / name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return trick


def _published(trick: Trick) -> Trick:
    """Publish lookup files of a folder, whose names are of this folder alone, before a trick."""

    def both(tree: Path, beside: Path) -> None:
        with ColumnarFiles(tree, key="id") as files:
            files.publish()
        trick(tree, beside)

    return both


def _described(**fields: object) -> Trick:
    """Let the description of a lookup file say something else."""

    def trick(tree: Path, beside: Path) -> None:
        for path in (tree / "_lookup").glob("*.json"):
            path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return _published(trick)


def _loops(*names: str) -> Trick:
    def trick(tree: Path, beside: Path) -> None:
        for name in names:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).symlink_to("..")

    return trick


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _said(**fields: Any) -> Trick:
    """Let the manifest of the current version say something else, under a right checksum."""

    def trick(tree: Path, beside: Path) -> None:
        path = max((tree / "versions").iterdir())
        said = json.loads(path.read_text())
        del said["xxh64"]
        for name, value in fields.items():
            if name.startswith("file_"):
                said["files"][0][name.removeprefix("file_")] = value
            else:
                said[name] = value
        said["xxh64"] = manifest.fields_hash(said)
        path.write_text(json.dumps(said))

    return trick


def _numbered(tree: Path, beside: Path) -> None:
    """Give the current version the greatest number that a name has room for."""
    path = max((tree / "versions").iterdir())
    _said(version=9_999_999_999)(tree, beside)
    path.rename(path.with_name(f"9999999999-{path.name.partition('-')[2]}"))


def _property(name: str, value: str) -> Trick:
    def trick(tree: Path, beside: Path) -> None:
        path = tree / options.PROPERTIES
        lines = [one for one in path.read_text().splitlines() if not one.startswith(f"{name}=")]
        path.write_text("\n".join([*lines, f"{name}={value}", ""]))

    return trick


def _timeline(tree: Path) -> Path:
    return tree / options.parse_options((tree / options.PROPERTIES).read_bytes(), "").timeline


def _instant(
    time: str, action: str, content: bytes, *, dead: bool = True, done: bytes | None = None
) -> Trick:
    """Put an instant into the timeline: pending, of a dead writer, or completed."""

    def trick(tree: Path, beside: Path) -> None:
        version = options.parse_options((tree / options.PROPERTIES).read_bytes(), "").version
        folder = _timeline(tree)
        states = {State.REQUESTED: content, State.INFLIGHT: b""}
        for state, held in states.items():
            if not (action == SAVEPOINT and state is State.REQUESTED):
                (folder / Instant(time, action, state).file_name).write_bytes(held)
        if done is not None:
            completed = None if version == 6 else _now()
            last = REPLACE if action == CLUSTERING else action
            name = Instant(time, last, State.COMPLETED, completed).file_name
            (folder / name).write_bytes(done)
        if dead:
            beat = tree / ".hoodie" / ".heartbeat" / time
            beat.parent.mkdir(exist_ok=True)
            beat.write_bytes(replace(Owner.here(), started="long ago").to_json())

    return trick


def _now() -> str:
    return f"{datetime.now(timezone.utc):%Y%m%d%H%M%S}999"


def _rollback(time: str, action: str = COMMIT, files: tuple[str, ...] = ()) -> Trick:
    requests = (RollbackRequest("", files),) if files else ()
    plan = plan_bytes(RollbackPlan(InstantInfo(time, action), requests))
    # A path leads up from the markers of others.
    others = _file(f".hoodie/.temp/{_TIME}/a.marker.CREATE", b"")
    return _both(others, _instant(_LATER, ROLLBACK, plan))


def _restore(plan: bytes) -> Trick:
    """Let a restore to a savepoint of the last commit be planned by another program."""

    def trick(tree: Path, beside: Path) -> None:
        saved = HudiTable.open(tree).savepoint()
        said = plan.replace(_TIME.encode(), saved.time.encode())
        _instant(_LATER, RESTORE, said, dead=False)(tree, beside)

    return trick


def _clean(earliest: str | None, files: dict[str, tuple[str, ...]]) -> Trick:
    retained = None if earliest is None else ActionInstant(earliest, COMMIT, "COMPLETED")
    planned = {key: tuple(map(CleanFile, names)) for key, names in files.items()}
    return _instant(_LATER, CLEAN, plan_bytes(CleanerPlan(retained, "KEEP", planned)))


def _commit(*stats: WriteStat, partition: str = "", replaced: Any = None) -> Trick:
    """Complete a commit whose file says what it likes."""

    def trick(tree: Path, beside: Path) -> None:
        version = options.parse_options((tree / options.PROPERTIES).read_bytes(), "").version
        metadata = CommitMetadata({partition: stats}, extra_metadata={}, replaced=replaced)
        action = COMMIT if replaced is None else REPLACE
        content = commit_bytes(metadata, version)
        _instant(_now(), action, b"", dead=False, done=content)(tree, beside)

    return trick


def _stat(path: str, partition: str = "") -> WriteStat:
    return WriteStat(file_id="a-0", path=path, partition_path=partition, file_size_in_bytes=1)


def _both(*tricks: Trick) -> Trick:
    def trick(tree: Path, beside: Path) -> None:
        for one in tricks:
            one(tree, beside)

    return trick


def _clustering(partition: str, path: str) -> bytes:
    one = ClusteringSlice(path, "a-0", partition)
    plan = ClusteringPlan((ClusteringGroup((one,), 1),), None)
    return plan_bytes(RequestedReplace("CLUSTER", plan))


def _savepoint(partition: str, name: str) -> bytes:
    kept = {partition: SavepointPartition(partition, (name,))}
    return plan_bytes(SavepointMetadata("me", 1, "", kept))


def _bytes_name(tree: Path, beside: Path) -> None:
    """Put files with names that are no Unicode, or that a terminal would act on, into a table."""
    names = [b"a\x1b[2J.parquet", b"\x1b/\n.parquet"]
    if sys.platform == "linux":  # others refuse such names
        names += [b"\xff\xfe.parquet", b"\xff/\n.parquet"]
    for name in names:
        path = os.path.join(os.fsencode(tree), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"PAR1")


def _dead_write(trick: Trick) -> Trick:
    """Let a dead writer have left a commit, and do something to its traces."""
    return _both(_instant(_TIME, COMMIT, b""), trick)


_BASE = f"a-0_0-0-0_{_TIME}.parquet"
_UNFINISHED = f".a-0_0-0-0_{_TIME}.parquet.{'0' * 32}.tmp"
_COMPLETING = f".{_TIME}_{_LATER}.commit.{'0' * 32}.tmp"

#: Name of each hostile tree -> the good one that it was, and the trick.
TREES: dict[str, tuple[str, Trick]] = {
    "store: good": ("store", _both()),
    "store: file name above": ("store", _said(file_name=f"{OUT}/secret.parquet")),
    "store: file name absolute": ("store", _said(file_name="/etc/passwd")),
    "store: file name up inside": ("store", _said(file_name=f"data/../{OUT}/x.sst")),
    "store: file name with NUL": ("store", _said(file_name="data/a\0.sst")),
    "store: file name for a terminal": ("store", _said(file_name="data/\x1b[2J.sst")),
    "store: huge numbers": ("store", _said(file_bytes=10**30, file_num_records=10**30)),
    "store: huge buckets": ("store", _said(buckets=10**18)),
    "store: last number": ("store", _numbered),
    "store: manifest of nothing": ("store", _file("versions/*", b"")),
    "store: manifest a folder": ("store", _folder("versions/*")),
    "store: manifest a pipe": ("store", _pipe("versions/*")),
    "store: manifest a link": ("store", _link("versions/*", f"{OUT}/inner/kept")),
    "store: versions a link": ("store", _link("versions", "../beside/store/versions")),
    "store: versions a link out": ("store", _link("versions", OUT)),
    "store: data a link": ("store", _link("data", OUT)),
    "store: data file a link": ("store", _link("data/*.sst", f"{OUT}/secret.parquet")),
    "store: data file a pipe": ("store", _pipe("data/*.sst")),
    "store: data file a folder": ("store", _folder("data/*.sst")),
    "store: loops": ("store", _loops("a", "b", "data/c", "data/d", "versions/e", ".x.tmp/f")),
    "store: leftovers are links": (
        "store",
        _both(_link("data/.old.tmp", OUT), _link(".left.tmp", OUT), _link("data/.1-runs", OUT)),
    ),
    "table: good": ("table", _both()),
    "table6: good": ("table6", _both()),
    "partitioned: good": ("partitioned", _both()),
    "table: rollback of a path": ("table", _rollback("../../../beside/important")),
    "table6: rollback of a path": ("table6", _rollback("../../../beside/important")),
    "table: rollback of all": ("table", _rollback("..")),
    "table: rollback of nothing": ("table", _rollback("")),
    "table: rollback of an action": ("table", _rollback(_TIME, f"../../{OUT}")),
    "table: rollback without a plan": ("table", _instant(_LATER, ROLLBACK, b"")),
    "table: rollback of no instant": (
        "table",
        _instant(_LATER, ROLLBACK, plan_bytes(RollbackPlan(None, ()))),
    ),
    "table: restore without a plan": ("table", _restore(b"")),
    "table: restore of an action": (
        "table",
        _restore(
            plan_bytes(RestorePlan((InstantInfo(_LATER, f"../../{OUT}"),), 2, _TIME)),
        ),
    ),
    "table6: restore of a path": (
        "table6",
        _restore(
            plan_bytes(RestorePlan((InstantInfo("../../../beside/important", COMMIT),), 2, _TIME)),
        ),
    ),
    "table: restore of all": (
        "table",
        _restore(plan_bytes(RestorePlan((InstantInfo(_TIME, COMMIT),), 2, _TIME))),
    ),
    "table: rollback of other files": ("table", _rollback(_TIME, COMMIT, (f"{OUT}/inner/kept",))),
    "table: clean of other files": ("table", _clean(_LATER, {"": (f"{OUT}/inner/kept",)})),
    "table: clean of another place": ("table", _clean(_LATER, {"../beside": (_BASE,)})),
    "table: clean of the table's own": ("table", _clean(_LATER, {".hoodie": (_BASE,)})),
    "table: clean to the end of time": ("table", _clean(_LAST, {"": (_BASE,)})),
    "table: clean without an instant": ("table", _clean(None, {})),
    "table: clean to no instant": ("table", _clean("../..", {})),
    "table: markers a link": ("table", _dead_write(_link(f".hoodie/.temp/{_TIME}", OUT))),
    "table: all markers a link": ("table", _dead_write(_link(".hoodie/.temp", OUT))),
    "table: a marker a link": ("table", _dead_write(_link(f".hoodie/.temp/{_TIME}/p", OUT))),
    "table: markers lead up": ("table", _dead_write(_loops(f".hoodie/.temp/{_TIME}/p"))),
    "table: markers lead up two": ("table", _dead_write(_link(f".hoodie/.temp/{_TIME}", "../.."))),
    "table: metadata table a link": ("table", _link(".hoodie/metadata", OUT)),
    "table: metadata table said, a link": (
        "table",
        _both(_link(".hoodie/metadata", OUT), _property(options.METADATA, "files")),
    ),
    "table: timeline path up": ("table", _property(options.TIMELINE, f"../{OUT}")),
    "table: timeline path absolute": ("table", _property(options.TIMELINE, "/etc")),
    "table: timeline path for a terminal": ("table", _property(options.TIMELINE, "a\\u001b/..")),
    "table: history path up": ("table", _property(options.HISTORY, f"../../{OUT}")),
    "table: timeline a link": ("table", _link(".hoodie/timeline", OUT)),
    "table: history a link": ("table", _link(".hoodie/timeline/history", OUT)),
    "table: all but data a link": ("table", _link(".hoodie", OUT)),
    "table: properties a link": ("table", _link(options.PROPERTIES, f"{OUT}/inner/kept")),
    "table: properties a pipe": ("table", _pipe(options.PROPERTIES)),
    "table: properties a folder": ("table", _folder(options.PROPERTIES)),
    "table: properties of noise": (
        "table",
        _file(options.PROPERTIES, bytes(range(256)) * 4096),
    ),
    "table: properties of one line": (
        "table",
        _file(options.PROPERTIES, b"a=" + b"\\u0041" * 500_000),
    ),
    "table: deep schema": ("table", _property(options.CREATE_SCHEMA, _DEEP)),
    "table: commit of a path up": ("table", _commit(_stat(f"{OUT}/{_BASE}"))),
    "table6: commit of a path up": ("table6", _commit(_stat(f"{OUT}/{_BASE}"))),
    "table: commit of an absolute path": ("table", _commit(_stat(f"/etc/{_BASE}"))),
    "table: commit for a terminal": ("table", _commit(_stat(f"\x1b[2J\r/{_BASE}"))),
    "table: commit with NUL": ("table", _commit(_stat(f"a\0/{_BASE}"))),
    "table: commit of a partition up": ("table", _commit(_stat(_BASE), partition=OUT)),
    "table: commit replaces outside": ("table", _commit(replaced={OUT: ("a-0",)})),
    "table: commit replaces a path": ("table", _commit(replaced={"": (f"{OUT}/inner",)})),
    "table6: commit nested deeply": (
        "table6",
        _instant(_now(), COMMIT, b"", dead=False, done=_DEEP.encode()),
    ),
    "table: commit of noise": (
        "table",
        _instant(_now(), COMMIT, b"", dead=False, done=b"Obj\x01" + bytes(range(256)) * 16),
    ),
    "table: commit cut short": (
        "table",
        _instant(
            _now(), COMMIT, b"", dead=False, done=commit_bytes(CommitMetadata(), version=9)[:-40]
        ),
    ),
    "table: commit of another kind": (
        "table",
        _instant(_now(), COMMIT, b"", dead=False, done=_savepoint("", _BASE)),
    ),
    "table: instant at the end of time": ("table", _instant(_LAST, COMMIT, b"", dead=False)),
    "table: dead instant at the end of time": ("table", _instant(_LAST, COMMIT, b"")),
    "table: instant of no date": ("table", _instant("20241399000000000", COMMIT, b"", dead=False)),
    "table: instant of many digits": ("table", _instant("1" * 200, COMMIT, b"", dead=False)),
    "table: instant of year 0": ("table", _instant("0" * 17, COMMIT, b"", dead=False)),
    "table: instant of a bootstrap": ("table", _instant(f"{1:014d}", COMMIT, b"", dead=False)),
    "table: instant a pipe": ("table", _pipe(".hoodie/timeline/*.commit")),
    "table: instant a link": ("table", _link(".hoodie/timeline/*.commit", f"{OUT}/inner/kept")),
    "table: clustering of other files": (
        "table",
        _instant(_LATER, CLUSTERING, _clustering("../..", f"{OUT}/{_BASE}"), dead=False),
    ),
    "table: savepoint of other files": (
        "table",
        _instant(_LATER, SAVEPOINT, b"", dead=False, done=_savepoint("../..", f"{OUT}/x")),
    ),
    "table: lock a link": ("table", _link(".hoodie/lock", f"{OUT}/inner/kept")),
    "table: lock a link to nothing": ("table", _link(".hoodie/lock", f"{OUT}/new")),
    "table: lock a pipe": ("table", _pipe(".hoodie/lock")),
    "table: lock a folder": ("table", _folder(".hoodie/lock")),
    "table: second lock a link": ("table", _link(".hoodie/.aux/lock", f"{OUT}/inner/kept")),
    "table: second lock a link to nothing": ("table", _link(".hoodie/.aux/lock", f"{OUT}/new")),
    "table: second lock a pipe": ("table", _pipe(".hoodie/.aux/lock")),
    "table: folder of the second lock a link": ("table", _link(".hoodie/.aux", OUT)),
    "table: heartbeats a link": ("table", _link(".hoodie/.heartbeat", OUT)),
    "table: heartbeat a link": (
        "table",
        _both(_dead_write(_both()), _link(f".hoodie/.heartbeat/{_TIME}", f"{OUT}/inner/kept")),
    ),
    "table: heartbeat a pipe": (
        "table",
        _both(_dead_write(_both()), _pipe(f".hoodie/.heartbeat/{_TIME}")),
    ),
    "table: heartbeat of no process": (
        "table",
        _both(
            _dead_write(_both()),
            _file(
                f".hoodie/.heartbeat/{_TIME}",
                Owner("", "", Owner.here().machine, 2**80, "", "").to_json(),
            ),
        ),
    ),
    "table: heartbeat nested deeply": (
        "table",
        _file(f".hoodie/.heartbeat/{_TIME}", _DEEP.encode()),
    ),
    "table: unfinished files are links": (
        "table",
        _both(_link(_UNFINISHED, f"{OUT}/inner/kept"), _link(_COMPLETING, OUT)),
    ),
    "table: base file a link": ("table", _link("*.parquet", f"{OUT}/secret.parquet")),
    "table: base file a pipe": ("table", _pipe("*.parquet")),
    "table: base file a folder": ("table", _folder("*.parquet")),
    "table: base file of noise": ("table", _file("*.parquet", b"PAR1" + b"\xff" * 300 + b"PAR1")),
    "table: names of no text": ("table", _bytes_name),
    "partitioned: names of no text": ("partitioned", _bytes_name),
    "partitioned: partition a link": ("partitioned", _link("a", OUT)),
    "partitioned: loops": ("partitioned", _loops("x", "a/y", "a/z", "b/w")),
    "partitioned: a dead write through a link": (
        "partitioned",
        _dead_write(_both(_link("a", OUT), _link(f".hoodie/.temp/{_TIME}", OUT))),
    ),
    "partitioned: its mark a link": (
        "partitioned",
        _link("a/.hoodie_partition_metadata", f"{OUT}/new"),
    ),
    "partitioned: its mark a pipe": ("partitioned", _pipe("a/.hoodie_partition_metadata")),
    "partitioned: commit of a partition up": ("partitioned", _commit(_stat(_BASE), partition="..")),
    "partitioned: rollback of a path": ("partitioned", _rollback("../../../beside/important")),
    "files: good": ("files", _both()),
    "files: a link": ("files", _link("day=1/b.parquet", f"{OUT}/secret.parquet")),
    "files: loops": ("files", _loops("day=1/a", "day=1/b", "day=1/c", "d")),
    "files: hidden loops": ("files", _loops("_a", "_b", "day=1/.c")),
    "files: a pipe": ("files", _pipe("day=1/b.parquet")),
    "files: a folder": ("files", _folder("day=1/b.parquet")),
    "files: noise": ("files", _file("day=1/b.parquet", b"PAR1" + b"\xff" * 300 + b"PAR1")),
    "files: names of no text": ("files", _bytes_name),
    "files: lookup files a link": ("files", _link("_lookup", OUT)),
    "files: a lookup file a link": (
        "files",
        _published(_link("_lookup/*.sst", f"{OUT}/secret.parquet")),
    ),
    "files: a lookup file a pipe": ("files", _published(_pipe("_lookup/*.sst"))),
    "files: a description a link": (
        "files",
        _published(_link("_lookup/*.json", f"{OUT}/inner/kept")),
    ),
    "files: a description of noise": ("files", _published(_file("_lookup/*.json", b"\xff{"))),
    "files: a description of a path": ("files", _described(xxh64=f"../../{OUT}/new")),
    "files: a description of a size": ("files", _described(bytes=10**30)),
    "files: a description of a name": ("files", _described(name=f"../{OUT}/new")),
}
