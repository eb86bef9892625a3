"""A version or time of a table, for commands that need no key, and their errors."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click.testing
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.hudi import HudiTable

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("fastavro")
from support.changing_tables import DeltaChanges, PaimonChanges, arrow

MIDNIGHT = datetime(2024, 3, 7, tzinfo=timezone.utc).timestamp()


def run(*words: object) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(word) for word in words])


def lines(*words: object) -> list[dict[str, Any]]:
    done = run(*words, "--output", "json")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def value(*words: object) -> Any:
    done = run(*words, "--output", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refusal(*words: object) -> str:
    done = run(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    return " ".join(done.stderr.split())


@pytest.mark.parametrize("kind", [DeltaChanges, PaimonChanges])
def test_former_rows_need_no_key(kind: Any, tmp_path: Path) -> None:
    table = kind(tmp_path)
    path = table.given
    table.commit({1: 10, 2: 20}, MIDNIGHT - 5)
    _, version = table.latest()
    table.commit({3: 30}, MIDNIGHT + 5)
    before = [{"id": 1, "v": 10}, {"id": 2, "v": 20}]
    for which in (("--version", version), ("--as-of", "2024-03-07")):
        assert lines("head", path, *which) == before
        assert lines("head", path, "-n", 1, "--columns", "v", *which) == [{"v": 10}]
        assert value("info", path, *which)["num_rows"] == 2
        assert value("verify", path, *which)["num_rows"] == 2
        (former,) = {one["path"] for one in value("dump", path, *which)}
        assert pq.read_table(former)["id"].to_pylist() == [1, 2]
        assert lines("get", path, 1, "--key", "id", *which) == before[:1]
    for which in ((), ("--as-of", "2024-03-07 00:00:06")):
        assert lines("head", path, *which) == [{"id": 3, "v": 30}]
        assert value("info", path, *which)["num_rows"] == 1
    for verb in ("head", "info", "verify", "dump"):
        said = refusal(verb, path, "--as-of", "yesterday")
        assert said.startswith(
            "Error: --as-of is 'yesterday'; give a time such as '2026-03-07 13:56:57+01:00', which "
            "is in UTC if it has no zone, or a date such as '2026-03-07' for its beginning; give a "
            "number as --version"
        )
        assert "--version is 99, but the" in refusal(verb, path, "--version", 99)


def test_a_version_whose_files_are_gone(tmp_path: Path) -> None:
    table = DeltaChanges(tmp_path)
    table.commit({1: 10}, MIDNIGHT - 5)
    _, version = table.latest()
    (old,) = tmp_path.rglob("*.parquet")
    table.commit({3: 30}, MIDNIGHT + 5)
    old.unlink()
    gone = run("head", table.given, "--version", version)
    assert gone.exit_code == 1
    assert gone.stderr.endswith(
        "gone; a vacuum or expiry of the table deleted it; run the command again, with a newer "
        "--version or --as-of if you gave one\n"
    )
    assert lines("head", table.given) == [{"id": 3, "v": 30}]


def test_former_rows_of_a_hudi_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = HudiTable.create(path, arrow({}).schema, record_key="id")
    first = table.insert(arrow({1: 10})).instant
    table.upsert(arrow({1: 11, 2: 20}))
    assert first is not None
    which = ("--as-of", first.time)
    assert lines("head", path, *which) == [{"id": 1, "v": 10}]
    assert lines("head", path, "--columns", "v", *which) == [{"v": 10}]
    for verb in (("info",), ("hudi", "info")):
        now, then = value(*verb, path), value(*verb, path, *which)
        assert (now["commits"], then["commits"], then["last_commit"]) == (2, 1, first.time)
        assert 0 < then["bytes"] != now["bytes"]
    (former,) = value("dump", path, *which)
    assert pq.read_table(former["path"])["v"].to_pylist() == [10]
    (now,) = value("dump", path)
    assert pq.read_table(now["path"]).num_rows == 2
    for verb in (("head", path), ("dump", path), ("info", path), ("get", path, 1)):
        assert "is a Hudi table" in refusal(*verb, "--version", 1)
        assert "2026-03-07 13:56:57" in refusal(*verb, "--as-of", "yesterday")
    for given, expected in ((which, {1: 10}), ((), {1: 11, 2: 20})):
        value("build", path, tmp_path / "s", "--key", "id", "--overwrite", *given)
        with lookupstore.open(tmp_path / "s") as store:
            assert {key: row["v"] for key, row in store.items()} == expected
    said = refusal("build", path, tmp_path / "n", "--key", "id", "--version", 1)
    assert "is a Hudi table, whose commits have times; give the time of an instant as --as" in said
    said = refusal("build", path, tmp_path / "n", "--key", "id", "--as-of", "yesterday")
    assert "--as-of is 'yesterday'" in said


def test_former_versions_of_a_store(tmp_path: Path) -> None:
    path = tmp_path / "s"
    lookupstore.build(arrow({1: 10}), path, key="id").close()
    time.sleep(0.002)
    with lookupstore.upsert(path, arrow({1: 11, 2: 20})) as store:
        created = store.created
    before = created - timedelta(milliseconds=1)
    for moment, version, expected in ((before, 1, {1: 10}), (created, 2, {1: 11, 2: 20})):
        which = ("--as-of", moment.isoformat())
        assert lines("head", path, *which) == [{"id": id, "v": v} for id, v in expected.items()]
        assert lines("scan", path, *which) == lines("head", path, *which)
        assert lines("get", path, 1, *which) == [{"id": 1, "v": expected[1]}]
        assert value("info", path, *which)["version"] == version
        assert value("verify", path, *which)["num_rows"] == len(expected)
        assert value("dump", path, *which) == value("dump", path, "--version", version)
    for verb in (("head", path), ("dump", path), ("info", path), ("get", path, 1)):
        for given, said in (
            (("--as-of", "2000-01-01"), "when the store had no version yet; give a later time"),
            (("--as-of", "2200-01-01"), "after now"),
            (("--as-of", "yesterday"), "--as-of is 'yesterday'; give a time such as 2026-"),
            (("--as-of", "2"), "--as-of is '2'; give 2 as --version"),
            (("--as-of", created.isoformat(), "--version", 1), "--version and --as-of both choose"),
        ):
            assert said in refusal(*verb, *given)


def test_files_are_refused(tmp_path: Path) -> None:
    pq.write_table(arrow({1: 10}), tmp_path / "f.parquet")
    lookupstore.build(arrow({1: 10}), tmp_path / "s", key="id").close()
    (one,) = (tmp_path / "s" / "data").glob("*.sst")
    for verb in ("head", "info", "dump", "verify"):
        for option in (("--as-of", "2026-01-01"), ("--version", 1)):
            said = refusal(verb, tmp_path / "f.parquet", *option)
            assert f"{option[0]} is given, but {tmp_path}/f.parquet names files, which have" in said
            assert f"is a sorted file, and {option[0]} is for" in refusal(verb, one, *option)
            assert "is a store, and" not in refusal(verb, tmp_path / "missing", *option)
    two = "head", tmp_path / "f.parquet", tmp_path / "f.parquet", "--version", 1
    assert "--version and --as-of are for one store or table" in refusal(*two)


def test_conditions_of_lookups_in_hudi_tables(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = HudiTable.create(path, arrow({}).schema, record_key="id")
    table.insert(arrow({1: 10, 2: 20, 3: 30}))
    for verb in (("get",), ("hudi", "get")):
        done = run(*verb, path, 1, 3, "--where", "v > 10", "--output", "json")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert [one for one in found if one is not None] == [{"id": 3, "v": 30}]
        assert (done.exit_code, done.stderr) == (1, f"Error: {path}: no key '1'\n")
        assert "x is no column" in refusal(*verb, path, 1, "--where", "x = 1")
    both = "hudi", "get", path, 2, 3, "--columns", "id", "--where", "v > 10", "--filter", "v < 30"
    assert run(*both, "--output", "csv").stdout == "id\n2\n"
