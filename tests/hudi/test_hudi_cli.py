"""The command line's `hudi` commands: what they print, and their exit status."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from remote import Killed

from lookupstore.cli import main
from lookupstore.hudi import HudiTable
from lookupstore.hudi.heartbeat import Heartbeats

VISITS = pa.table(
    {
        "region": ["eu", "us", "eu"],
        "id": pa.array([1, 2, 3], pa.int64()),
        "page": ["/a", "/b", None],
    }
)


def run(*words: object) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["hudi", *map(str, words)])


def printed(*words: object) -> Any:
    """Run a command that succeeds, and return the JSON that it prints."""
    result = run(*words, "--output", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def lines(*words: object) -> list[Any]:
    result = run(*words, "--output", "json")
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    made = HudiTable.create(
        tmp_path / "t", VISITS.schema, record_key=["id"], partition_by=["region"]
    )
    made.upsert(VISITS)
    made.upsert(VISITS.slice(0, 1))
    return tmp_path / "t"


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_create_and_info(tmp_path: Path, version: int, kind: str) -> None:
    like = tmp_path / f"visits.{kind}"
    (pq.write_table if kind == "parquet" else orc.write_table)(VISITS, like)
    said = printed("create", tmp_path / "t", "--like", like, "--key", "region,id", "--name", "v",
                   "--partition-by", "region", "--hive-style", "--ordering", "id",
                   "--table-version", version)  # fmt: skip
    assert said == printed("info", tmp_path / "t")
    assert said["path"] == str(tmp_path / "t")
    assert (said["name"], said["version"], said["record_key"]) == ("v", version, "region,id")
    assert (said["commits"], said["file_groups"], said["last_commit"]) == (0, 0, "")
    assert said["columns"] == "region: string, id: int64, page: string"
    assert HudiTable.open(tmp_path / "t").options.hive_style
    shown = run("info", tmp_path / "t").stdout
    assert "record_key" in shown
    assert "last_commit" not in shown
    again = run("create", tmp_path / "t", "--like", like, "--key", "id")
    assert again.exit_code == 2
    assert "not empty" in again.output


def test_timeline_and_files(table: Path) -> None:
    instants = lines("timeline", table)
    assert [one["action"] for one in instants] == ["commit", "commit"]
    assert [one["instant"] for one in instants] == [
        one.time for one in HudiTable.open(table).timeline()
    ]
    now, then = lines("files", table), lines("files", table, "--as-of", instants[0]["instant"])
    assert [one["partition"] for one in now] == [one["partition"] for one in then] == ["eu", "us"]
    assert [one["slices"] for one in now] == [2, 1]
    for one in now:
        assert (table / one["partition"] / one["file"]).stat().st_size == one["bytes"]
    assert "commit" in run("timeline", table).stdout
    assert run("files", table, "--as-of", "yesterday").exit_code == 2


def test_get(table: Path) -> None:
    assert lines("get", table, "--key", 3, "--key", 2, "--columns", "id,page") == [
        {"id": 3, "page": None}, {"id": 2, "page": "/b"},
    ]  # fmt: skip
    assert lines("get", table, "--key", 1) == [{"region": "eu", "id": 1, "page": "/a"}]
    assert lines("get", table, "--key", 1, "--columns", "page") == [{"page": "/a"}]
    missing = run("get", table, "--key", 1, "--key", 7)
    assert missing.exit_code == 1
    assert "no key '7'" in missing.output
    assert "/a" in missing.stdout
    assert run("get", table, "--key", "x").exit_code == 2
    assert run("get", table, "--key", "1,2").exit_code == 2
    first = lines("timeline", table)[0]["instant"]
    assert lines("get", table, "--key", 1, "--as-of", first)[0]["page"] == "/a"


def test_keys_of_several_fields(tmp_path: Path) -> None:
    HudiTable.create(tmp_path / "t", VISITS.schema, record_key=["region", "id"]).upsert(VISITS)
    found = lines("get", tmp_path / "t", "--key", "eu,3", "--key", "us,2", "--columns", "id")
    assert found == [{"id": 2}, {"id": 3}]
    assert run("get", tmp_path / "t", "--key", "us,3").exit_code == 1
    assert printed("delete", tmp_path / "t", "--key", "eu,3")["deleted"] == 1
    assert HudiTable.open(tmp_path / "t").scan(["id"])["id"].to_pylist() == [1, 2]


def test_delete(table: Path) -> None:
    tried = printed("delete", table, "--key", 1, "--key", 2, "--key", 9, "--dry-run")
    assert tried == {"instant": None, "deleted": 2, "dry_run": True}
    assert "would be deleted" in run("delete", table, "--key", 1, "--dry-run").stdout
    done = printed("delete", table, "--key", 1, "--key", 2, "--key", 9)
    assert done["deleted"] == 2
    assert HudiTable.open(table).scan(["id"])["id"].to_pylist() == [3]
    assert "1 row deleted" in run("delete", table, "--key", 3).stdout


def test_rollback(table: Path) -> None:
    opened = HudiTable.open(table)
    view = opened._view()
    with (
        suppress(Killed),
        Heartbeats(opened.location).request(view.folder, "commit"),
    ):
        raise Killed
    (done,) = printed("rollback", table)
    assert done["action"] == "rollback"
    assert "nothing to do" in run("rollback", table).stdout
    first, last = lines("timeline", table)[:2]
    refused = run("rollback", table, first["instant"])
    assert refused.exit_code == 2
    assert "came after it" in refused.output
    assert "rollback 2" in run("rollback", table, last["instant"]).stdout
    assert last["instant"] not in {one["instant"] for one in lines("timeline", table)}


def test_savepoint_and_clean(table: Path) -> None:
    first = lines("timeline", table)[0]["instant"]
    (made,) = printed("savepoint", table, first, "--comment", "before")
    assert made == {"instant": first, "action": "savepoint"}
    assert printed("savepoint", table, "--list")[0]["comment"] == "before"
    assert "before" in run("savepoint", table, "--list").stdout
    assert run("savepoint", table, first).exit_code == 2
    assert printed("clean", table, "--retain-commits", 1) == []
    assert run("savepoint", table, "--delete").exit_code == 2
    assert "savepoint deleted" in run("savepoint", table, first, "--delete").stdout
    assert "clean 2" in run("clean", table, "--retain-commits", 1).stdout
    assert "nothing to do" in run("clean", table, "--retain-hours", 1).stdout
    without = run("clean", table)
    assert without.exit_code == 2
    assert "--retain-commits" in without.output
    assert printed("info", table)["savepoints"] == 0


def test_a_lock_that_is_taken(table: Path) -> None:
    (table / ".hoodie" / "lock").write_bytes(b"{}")
    result = run("rollback", table, "--wait", 0)
    assert result.exit_code == 1
    assert "another program has it" in result.output


def test_verify(table: Path) -> None:
    said = printed("verify", table)
    assert said["ok"]
    assert (said["rows"], said["files"], said["findings"]) == (3, 2, [])
    assert run("verify", table).stdout.startswith(f"ok: {table}: 3 rows in 2 files")
    (table / ".left.0.tmp").touch()
    left = run("verify", table)
    assert left.exit_code == 0
    assert ".left.0.tmp" in left.stderr
    path = next((table / "us").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-20])
    damaged = run("verify", table)
    assert damaged.exit_code == 1
    assert path.name in damaged.output
    assert "of damage" in damaged.output
    result = run("verify", table, "--output", "json")
    assert result.exit_code == 1
    assert {one["kind"] for one in json.loads(result.stdout)["findings"]} >= {"file"}


@pytest.mark.parametrize("command", ["info", "timeline", "files", "rollback", "verify"])
def test_no_table(tmp_path: Path, command: str) -> None:
    result = run(command, tmp_path)
    assert result.exit_code == 2
    assert "no Hudi table" in result.output
