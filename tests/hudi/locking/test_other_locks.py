"""Tables whose properties name a lock that is not held here: who says that he holds it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.object_store import ObjectStore, writable_object_store

from lookupstore.cli import main
from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.options import read_options
from lookupstore.hudi.write.transaction import Transaction

ROWS = pa.table({"id": [1], "v": ["a"]})
PROVIDER = "hoodie.write.lock.provider"
CLIENT = "org.apache.hudi.client.transaction.lock."

# Of each: the lines, and the property that the error names.
OTHER = {
    "zookeeper": ({PROVIDER: f"{CLIENT}ZookeeperBasedLockProvider"}, PROVIDER),
    "zookeeper by path": (
        {PROVIDER: f"{CLIENT}ZookeeperBasedImplicitBasePathLockProvider"},
        PROVIDER,
    ),
    "dynamodb": (
        {PROVIDER: "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider"},
        PROVIDER,
    ),
    "metastore": (
        {PROVIDER: "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider"},
        PROVIDER,
    ),
    "in one process": ({PROVIDER: f"{CLIENT}InProcessLockProvider"}, PROVIDER),
    "none": ({PROVIDER: f"{CLIENT}NoopLockProvider"}, PROVIDER),
    "somebody's": ({PROVIDER: "com.example.MyFileSystemBasedLockProvider"}, PROVIDER),
    "zookeeper by its settings": (
        {"hoodie.write.lock.zookeeper.url": "zk1", "hoodie.write.lock.zookeeper.port": "2181"},
        "hoodie.write.lock.zookeeper.port",
    ),
    "dynamodb by its settings": (
        {"hoodie.write.lock.dynamodb.table": "locks"},
        "hoodie.write.lock.dynamodb.table",
    ),
    "metastore by its settings": (
        {"hoodie.write.lock.hivemetastore.table": "t"},
        "hoodie.write.lock.hivemetastore.table",
    ),
}
FILES = {PROVIDER: f"{CLIENT}FileSystemBasedLockProvider"}
OBJECTS = {PROVIDER: f"{CLIENT}StorageBasedLockProvider"}
FOLDER = "hoodie.write.lock.filesystem.path"

ACTS: dict[str, Callable[[HudiTable, str], object]] = {
    "upsert": lambda table, lock: table.upsert(ROWS, options=WriteOptions(lock=lock)),
    "dry run": lambda table, lock: table.upsert(
        ROWS, options=WriteOptions(lock=lock), dry_run=True
    ),
    "bulk insert": lambda table, lock: table.bulk_insert(ROWS, options=WriteOptions(lock=lock)),
    "delete": lambda table, lock: table.delete([7], options=WriteOptions(lock=lock)),
    "drop": lambda table, lock: table.delete([7], options=WriteOptions(lock=lock, metadata="drop")),
    "clean": lambda table, lock: table.clean(retain_commits=1, lock=lock),
    "archive": lambda table, lock: table.archive(lock=lock),
    "rollback": lambda table, lock: table.rollback(lock=lock),
    "savepoint": lambda table, lock: table.savepoint(lock=lock),
    "delete savepoint": lambda table, lock: table.delete_savepoint(saved(table), lock=lock),
}


def saved(table: HudiTable) -> str:
    """Return the commit that has a savepoint, or would."""
    return next(iter(table.savepoints()), table.timeline()[0].time)


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with writable_object_store() as server:
        yield server


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    table = HudiTable.create(tmp_path / "t", ROWS, record_key="id", name="t")
    table.upsert(ROWS)
    return table


def say(table: HudiTable, lines: dict[str, str]) -> None:
    """Add lines to the properties."""
    name = ".hoodie/hoodie.properties"
    text = table.location.read(name).decode()
    said = "".join(f"{key}={value}\n" for key, value in lines.items())
    table.location.replace(name, (text + said).encode())


def stored(path: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in path.rglob("*") if one.is_file()}


@pytest.mark.parametrize("what", OTHER)
def test_a_lock_that_is_not_held_here(table: HudiTable, tmp_path: Path, what: str) -> None:
    lines, named = OTHER[what]
    say(table, lines)
    before = stored(tmp_path)
    for name, act in ACTS.items():
        with pytest.raises(FormatError) as caught:
            act(table, "table")
        said = str(caught.value)
        assert f"{named} is {lines[named]!r}: that lock is not taken here" in said, name
        assert "options=WriteOptions(lock='external')" in said
        assert stored(tmp_path) == before, name
    assert table.scan().num_rows == 1


def test_a_lock_that_the_caller_holds(table: HudiTable) -> None:
    say(table, OTHER["dynamodb"][0])
    for name, act in ACTS.items():
        if name != "bulk insert":
            act(table, "external")
    # The lines stay: the next one has to hold it, too.
    assert read_options(table.location).others[PROVIDER] == OTHER["dynamodb"][0][PROVIDER]
    with pytest.raises(FormatError, match="lock is not taken here"):
        table.upsert(ROWS)


def test_who_has_said_it_once_has_not_said_it_for_the_table(table: HudiTable) -> None:
    table.upsert(ROWS, options=WriteOptions(lock="external"))
    say(table, OTHER["zookeeper"][0])
    with pytest.raises(FormatError, match="Zookeeper"):
        table.upsert(ROWS)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("lines", [{}, OTHER["zookeeper"][0]])
def test_another_word_is_refused(table: HudiTable, act: str, lines: dict[str, str]) -> None:
    say(table, lines)
    with pytest.raises(ValueError, match="lock is 'mine'; give 'table' or 'external'"):
        ACTS[act](table, "mine")


def test_locks_that_are_held_here(table: HudiTable, tmp_path: Path) -> None:
    inside = f"{tmp_path}/t/.hoodie"
    held = [
        {PROVIDER: ""},
        FILES,
        # A provider says which of the settings count.
        {**FILES, "hoodie.write.lock.zookeeper.url": "zk1"},
        {"hoodie.write.lock.wait_time_ms": "1000", "hoodie.write.lock.num_retries": "3"},
        {"hoodie.write.lock.filesystem.expire": "1"},
        *({**FILES, FOLDER: one} for one in (inside, f"{inside}/", f"{inside}/.aux")),
        *({**FILES, FOLDER: f"{begin}{inside}"} for begin in ("file:", "file://", "file:/")),
        {FOLDER: inside},
    ]
    text = table.location.read(".hoodie/hoodie.properties")
    for lines in held:
        table.location.replace(".hoodie/hoodie.properties", text)
        say(table, lines)
        assert table.upsert(ROWS).rows_updated == 1, lines
    for folder in (
        "/elsewhere",
        f"{tmp_path}/t",
        "s3://bucket/t/.hoodie",
        f"{inside}/x",
        ".hoodie",
    ):
        for lines in ({**FILES, FOLDER: folder}, {FOLDER: folder}):
            table.location.replace(".hoodie/hoodie.properties", text)
            say(table, lines)
            with pytest.raises(FormatError, match=rf"filesystem\.path is '{folder}'"):
                table.upsert(ROWS)


def test_each_provider_is_for_one_kind_of_place(
    table: HudiTable, server: ObjectStore, tmp_path: Path
) -> None:
    """Java refuses the other one; forced to take it, it would not meet ours."""
    remote = HudiTable.create(server.uri(tmp_path.name), ROWS, record_key="id", name="t")
    text = remote.location.read(".hoodie/hoodie.properties")
    say(table, OBJECTS)
    with pytest.raises(FormatError, match=r"lock\.provider is '.*StorageBasedLockProvider'"):
        table.upsert(ROWS)
    say(remote, FILES)
    with pytest.raises(FormatError, match=r"lock\.provider is '.*FileSystemBasedLockProvider'"):
        remote.upsert(ROWS)
    remote.location.replace(".hoodie/hoodie.properties", text)
    say(remote, {**OBJECTS, FOLDER: "/elsewhere"})
    assert remote.upsert(ROWS).rows_inserted == 1


def test_a_lock_that_is_named_while_a_write_is_on_its_way(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Transaction.complete

    def complete(*args: Any) -> Any:
        say(table, OTHER["zookeeper"][0])
        return real(*args)

    monkeypatch.setattr(Transaction, "complete", complete)
    with pytest.raises(FormatError, match=rf"{PROVIDER} is .* when this write began"):
        table.upsert(pa.table({"id": [2], "v": ["b"]}))
    assert table.scan().num_rows == 1


COMMANDS = [
    "hudi upsert {t} {rows}",
    "hudi delete {t} 7",
    "hudi clean {t} --retain-commits 1",
    "hudi rollback {t}",
    "hudi savepoint {t}",
    "hudi savepoint {t} {instant} --delete",
]


def test_the_command_line(table: HudiTable, tmp_path: Path) -> None:
    say(table, OTHER["zookeeper"][0])
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    words = {"t": tmp_path / "t", "rows": tmp_path / "rows.parquet"}
    for command in COMMANDS:
        typed = command.format(**words, instant=saved(table)).split()
        refused = click.testing.CliRunner().invoke(main, typed)
        assert refused.exit_code == 1, refused.output
        assert f"{PROVIDER} is" in refused.output
        assert "hold it yourself meanwhile, and give --lock external" in refused.output
        done = click.testing.CliRunner().invoke(main, [*typed, "--lock", "external"])
        assert done.exit_code == 0, done.output
