"""Small files that claim to be 20 GiB: an error with path and sizes at once, of whatever they are.

The files are sparse: they have no block on the disk, and would take 20 GiB of memory.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.hudi.metadata import data_of

import lookupstore
from lookupstore.cli import main
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import CorruptionError
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.layout import quarantine, quarantined
from lookupstore.hudi.locking.heartbeat import Heartbeats

SPARSE = 20 << 30
FOUND = "found 21,474,836,480"


def sparse(path: Path) -> None:
    """Let a file have 20 GiB, none of which is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, SPARSE)


def is_refused(path: Path, read: Callable[[], Any]) -> None:
    """Check that reading fails by the size of a file, and names it."""
    with pytest.raises(CorruptionError, match=rf"at most [0-9,]+ bytes, {FOUND}") as caught:
        read()
    assert caught.value.path == str(path)


def rows(ids: range) -> pa.Table:
    return pa.table({"id": list(ids), "a": [i * 7 % 31 for i in ids]})


def test_the_manifest_of_a_store(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    lookupstore.build(rows(range(9)), folder, key="id").close()
    (manifest,) = (folder / "versions").iterdir()
    sparse(manifest)
    for read in (
        lambda: lookupstore.open(folder),
        lambda: lookupstore.versions(folder),
        lambda: lookupstore.publish(folder, tmp_path / "copy"),
    ):
        is_refused(manifest, read)


def test_a_published_lookup_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its description is not read; lookups do without the file, and a publish replaces it."""
    pq.write_table(rows(range(9)), tmp_path / "a.parquet")

    def files(name: str) -> ColumnarFiles:
        residency = Residency(tmp_path / name, quota=1 << 30)
        return ColumnarFiles(str(tmp_path / "*.parquet"), key="id", residency=residency)

    with files("one") as one:
        one.publish()
    (description,) = (tmp_path / "_lookup").glob("*.json")
    sparse(description)
    with files("two") as two:
        assert two.lookup([8, 9])["a"].to_pylist() == [56 % 31, None]
        assert re.search(rf"{description}: .* at most [0-9,]+ bytes, {FOUND}", caplog.text)
        two.publish()
    assert description.stat().st_size < 1000


def test_the_schema_of_paimon_files_on_the_command_line(tmp_path: Path) -> None:
    pq.write_table(rows(range(9)), tmp_path / "a.parquet")
    sparse(tmp_path / "schema-0")
    given = ["paimon-lookup-files", str(tmp_path / "a.parquet"), str(tmp_path / "out")]
    done = CliRunner().invoke(main, [*given, "--key", "id", "--schema", str(tmp_path / "schema-0")])
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert f"{tmp_path}/schema-0" in done.output
    assert FOUND in done.output


# Files of a Hudi table by what they are: a pattern below the table, and whether each is an error
# of what needs it, a warning, or taken for another program's.
KINDS = {
    "properties": (r"\.hoodie/hoodie\.properties", "error"),
    "commit": (r"\.hoodie/(timeline/)?[0-9_]+\.commit", "error"),
    "replace": (r"\.hoodie/(timeline/)?[0-9_]+\.replacecommit", "error"),
    "clean": (r"\.hoodie/(timeline/)?[0-9_]+\.clean", "error"),
    "plan of a clean": (r"\.hoodie/(timeline/)?[0-9]+\.clean\.requested", "error"),
    "savepoint": (r"\.hoodie/(timeline/)?[0-9_]+\.savepoint", "error"),
    "archive": (r"\.hoodie/(timeline/history/manifest_[0-9]+|archived/.*archive.*)", "error"),
    "number of the archive": (r"\.hoodie/timeline/history/_version_", "error"),
    "heartbeat": (r"\.hoodie/\.heartbeat/[0-9]+", "other"),
    "columns": (r"\.hoodie/\.lookupstore/statistics/columns\.json", "warning"),
    "statistics": (r"\.hoodie/\.lookupstore/statistics/.*\.stats", "warning"),
    "wrong statistics": (r"\.hoodie/\.lookupstore/statistics/wrong/.*\.json", "error"),
    "layout": (r"\.hoodie/\.lookupstore/layouts/.*", "warning"),
}
# What reads one of them or another.
VERBS: dict[str, Callable[[Path], Any]] = {
    "scan": lambda path: HudiTable.open(path).scan(filter=("a", "<", 3)),
    "history": lambda path: HudiTable.open(path).history(),
    "savepoints": lambda path: HudiTable.open(path).savepoints(),
    "quarantined": lambda path: quarantined(HudiTable.open(path).location),
    "upsert": lambda path: HudiTable.open(path).upsert(rows(range(2))),
    "rollback": lambda path: HudiTable.open(path).rollback(),
    "clean": lambda path: HudiTable.open(path).clean(retain_commits=1),
    "archive": lambda path: HudiTable.open(path).archive(min_commits=1, max_commits=1),
    "cluster": lambda path: HudiTable.open(path).cluster("a", incremental=True),
}
VERSIONS = (6, 9)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table of each version that has a file of every kind."""
    folder = tmp_path_factory.mktemp("tables")
    for version in VERSIONS:
        path = folder / f"v{version}"
        table = HudiTable.create(path, rows(range(1)), record_key="id", version=version)
        for at in range(4):
            table.upsert(rows(range(at, at + 3)))
        table.archive(min_commits=1, max_commits=2)
        table.collect_statistics()
        table.insert_overwrite(rows(range(20)))
        table.cluster("a", incremental=True)
        table.upsert(rows(range(3)))
        table.clean(retain_commits=1)
        table.savepoint()
        quarantine(table.location, "a.parquet", "it lies")
        Heartbeats(table.location).claim("20200101000000000")
    return folder


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Let memory for a gibibyte more be all that there is."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.few(6)
@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_a_hudi_table(tmp_path: Path, tables: Path, kind: str, version: int) -> None:
    pattern, outcome = KINDS[kind]
    if (kind, version) == ("number of the archive", 6):
        pytest.skip("version 6 has none")
    outcomes: dict[str, str] = {}
    for verb, do in VERBS.items():
        path = tmp_path / verb
        shutil.copytree(tables / f"v{version}", path)
        below = {one.relative_to(path).as_posix(): one for one in path.rglob("*") if one.is_file()}
        files = [below[name] for name in sorted(below) if re.fullmatch(pattern, name)]
        assert files
        sparse(files[-1])
        if kind == "plan of a clean":  # that of one which is not completed
            for name in below:
                if name.endswith((".clean", ".clean.inflight")):
                    below[name].unlink()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                do(path)
            except CorruptionError as error:
                outcomes[verb] = "error"
                told = [str(error)]
            else:
                told = [str(one.message) for one in seen]
                outcomes[verb] = "warning" if told else "other"
        for one in told:
            assert FOUND in one
            assert str(files[-1]) in one
    assert set(outcomes.values()) <= {"other", outcome}, outcomes
    assert outcome in outcomes.values(), outcomes


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "pattern", ["files/*.hfile", "files/.*.log.*", ".hoodie/hoodie.properties"]
)
def test_a_metadata_table(real_table: Callable[[str], Path], pattern: str) -> None:
    path = real_table("v9_txns_complex_meta")
    stored = data_of(HudiTable.open(path).scan())
    HudiTable.open(path).upsert(stored.slice(0, 2), options=WriteOptions(metadata="reduce"))
    for file in (path / ".hoodie" / "metadata").glob(pattern):
        sparse(file)

    def write() -> None:
        table, options = HudiTable.open(path), WriteOptions(metadata="maintain")
        instant = table.upsert(stored.slice(0, 2), options=options).instant
        table.rollback(instant, metadata="maintain")

    with pytest.raises(CorruptionError, match=FOUND) as caught:
        write()
    assert str(path / ".hoodie" / "metadata") in caught.value.path
