"""The command line's `hudi` commands: what they print, and their exit status."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click.testing
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from support.hudi.versions import VERSIONS
from support.remote import Killed

from lookupstore.cli import main
from lookupstore.cli.output import TABLE_ROWS
from lookupstore.hudi import HudiTable
from lookupstore.hudi.locking.heartbeat import Heartbeats
from lookupstore.hudi.options import PARTITION

pytestmark = pytest.mark.drawn(0.5)

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


def pages(path: Path) -> dict[int, str | None]:
    rows = HudiTable.open(path).scan(columns=["id", "page"])
    return dict(zip(rows["id"].to_pylist(), rows["page"].to_pylist(), strict=True))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    made = HudiTable.create(
        tmp_path / "t", VISITS.schema, record_key=["id"], partition_by=["region"]
    )
    made.upsert(VISITS)
    made.upsert(VISITS.slice(0, 1))
    return tmp_path / "t"


def test_base_files_of_merge_on_read_tables(merge_on_read_tables: Path) -> None:
    path = merge_on_read_tables / "mor_v6_nonpartitioned"
    asked = "--query-type", "read_optimized"
    said = printed("info", path)
    assert (said["type"], said["commits"], said["file_groups"]) == ("MERGE_ON_READ", 2, 2)
    assert [one["action"] for one in lines("timeline", path)] == ["deltacommit"] * 2
    files = lines("files", path)
    assert [one["slices"] for one in files] == [1, None, 1]
    assert ".log.1_" in files[1]["file"]
    assert [one["bytes"] for one in files] == [(path / one["file"]).stat().st_size for one in files]
    nbytes = sum(one["bytes"] for one in files)
    assert said["bytes"] == nbytes
    checked = printed("verify", path)
    assert (checked["rows"], checked["files"], checked["bytes"]) == (4, 3, nbytes)
    # In version 6, log files have the time of their slice.
    (first, *_) = lines("timeline", path)
    assert lines("files", path, "--as-of", first["instant"]) == files[:2]
    assert "None" not in run("files", path).stdout
    table = HudiTable.open(path, query_type="read_optimized")
    names = table.scan(columns=["id", "name"]).to_pylist()
    assert lines("scan", path, "--columns", "id,name", *asked) == names
    assert lines("get", path, "1", "--columns", "id,name", *asked) == [
        row for row in names if row["id"] == 1
    ]
    ids = table.scan(columns=["id"])["id"].to_pylist()
    (found,) = lines("tag", path, "1", *asked)
    assert ids[found["_pos"]] == 1
    refused = run("tag", path, "1")
    assert refused.exit_code == 1
    assert "open it with --query-type read_optimized" in refused.stderr


def test_rows_of_merge_on_read_tables(merge_on_read_tables: Path, tmp_path: Path) -> None:
    path = merge_on_read_tables / "mor_v6_nonpartitioned"
    table = HudiTable.open(path)
    rows = table.scan(columns=["id", "name"]).to_pylist()
    assert lines("scan", path, "--columns", "id,name") == rows
    found = [one for one in rows if one["id"] == 1]
    assert lines("scan", path, "--columns", "id,name", "--filter", "id = 1") == found
    assert lines("get", path, "1", "--columns", "id,name") == found
    first = table.timeline()[0].time
    before = table.scan(columns=["id", "name"], as_of=first).to_pylist()
    assert lines("scan", path, "--columns", "id,name", "--as-of", first) == before


@pytest.mark.parametrize("version", VERSIONS)
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
    assert lines("get", table, 3, 2, "--columns", "id,page") == [
        {"id": 3, "page": None}, {"id": 2, "page": "/b"},
    ]  # fmt: skip
    assert lines("get", table, 1) == [{"region": "eu", "id": 1, "page": "/a"}]
    assert lines("get", table, 1, "--columns", "page") == [{"page": "/a"}]
    missing = run("get", table, 1, 7)
    assert missing.exit_code == 1
    assert "no key '7'" in missing.output
    assert "/a" in missing.stdout
    assert run("get", table, "x").exit_code == 2
    assert run("get", table, "1,2").exit_code == 2
    first = lines("timeline", table)[0]["instant"]
    assert lines("get", table, 1, "--as-of", first)[0]["page"] == "/a"


def test_changes(table: Path) -> None:
    opened = HudiTable.open(table)
    since = opened.timeline()[-1].position
    assert lines("changes", table, "--since", since) == []
    more = pa.table({"id": [2, 9], "region": ["us", "us"], "page": ["/other", None]}, VISITS.schema)
    opened.upsert(more)
    found = lines("changes", table, "--since", since)
    assert found == opened.changes(since).read_all().to_pylist()
    assert {one["change"] for one in found} == {"update_before", "update_after", "insert"}
    few = lines("changes", table, "--since", since, "--columns", "id", "--ignore", "page")
    assert few == opened.changes(since, columns=["id"], ignore=["page"]).read_all().to_pylist()
    assert len(lines("changes", table, "--until", since)) == opened.scan(as_of=since).num_rows
    assert lines("changes", table, "--limit", 0) == []
    assert "update_after" in run("changes", table, "--since", since).stdout
    wrong = run("changes", table, "--since", "yesterday")
    assert (wrong.exit_code, "since is 'yesterday'" in wrong.output) == (2, True)


def test_scan(table: Path) -> None:
    everything = lines("scan", table)
    assert sorted(everything, key=lambda row: row["id"]) == VISITS.to_pylist()
    first = lines("timeline", table)[0]["instant"]
    printed("delete", table, 1)
    assert [row["id"] for row in lines("scan", table, "--partition", "eu")] == [3]
    where = "--filter", "id >= 2 and page is not null"
    assert sorted(row["id"] for row in lines("scan", table, *where)) == sorted(
        row["id"] for row in everything if row["id"] >= 2 and row["page"] is not None
    )
    eu = lines("scan", table, "--where", "id > 2", "--partition", "eu")
    assert [row["id"] for row in eu] == [3]
    assert lines("scan", table, "--partition", "none") == []
    old = lines("scan", table, "--as-of", first, "--columns", "page,id", "--partition", "eu")
    assert old == [{"page": "/a", "id": 1}, {"page": None, "id": 3}]
    assert len(lines("scan", table, "--limit", 1)) == 1
    assert "/b" in run("scan", table).stdout
    HudiTable.open(table).insert(
        pa.table({"region": ["eu"] * TABLE_ROWS, "id": range(10, 10 + TABLE_ROWS)}),
        missing="null",
    )
    assert f"first {TABLE_ROWS} rows; --limit N shows more" in run("scan", table).output
    assert len(lines("scan", table)) == TABLE_ROWS + 2
    unknown = run("scan", table, "--columns", "pages")
    assert unknown.exit_code == 2
    assert "the table has no column 'pages'" in unknown.output


def test_keys_of_several_fields(tmp_path: Path) -> None:
    HudiTable.create(tmp_path / "t", VISITS.schema, record_key=["region", "id"]).upsert(VISITS)
    found = lines("get", tmp_path / "t", "eu,3", "us,2", "--columns", "id")
    assert found == [{"id": 2}, {"id": 3}]
    assert run("get", tmp_path / "t", "us,3").exit_code == 1
    # Not what has the first field of one key and the second of another.
    assert lines("get", tmp_path / "t", "eu,1", "us,3", "--columns", "id") == [{"id": 1}]
    keys = pa.table({"id": [2, 1], "region": pa.array(["us", "us"]).dictionary_encode()})
    with pa.ipc.new_file(tmp_path / "keys.arrow", keys.schema) as file:
        file.write_table(keys)
    found = lines("get", tmp_path / "t", "--keys", tmp_path / "keys.arrow", "--columns", "id")
    assert found == [{"id": 2}]
    assert printed("delete", tmp_path / "t", "eu,3")["deleted"] == 1
    assert HudiTable.open(tmp_path / "t").scan(columns=["id"])["id"].to_pylist() == [1, 2]


def test_delete(table: Path) -> None:
    tried = printed("delete", table, 1, 2, 9, "--dry-run")
    assert (tried["instant"], tried["deleted"], tried["dry_run"]) == (None, 2, True)
    assert (tried["rows_read"], tried["rows_deleted"], tried["bytes_written"]) == (3, 2, 0)
    assert "would be deleted" in run("delete", table, 1, "--dry-run").stdout
    done = printed("delete", table, 1, 2, 9)
    assert done["deleted"] == 2
    assert HudiTable.open(table).scan(columns=["id"])["id"].to_pylist() == [3]
    assert run("delete", table, 3, 4).stdout.startswith(f"{table}: 2 keys read, 1 row deleted, ")
    assert HudiTable.open(table).upsert(VISITS).rows_inserted == 3
    assert f"{table}: 1 row deleted, commit 2" in run("delete", table, 3).stdout


def test_indexes_by_their_names_in_hudi(table: Path) -> None:
    pq.write_table(VISITS, table.parent / "visits.parquet")
    refused = run("upsert", table, table.parent / "visits.parquet", "--index", "GLOBAL_BLOOM")
    assert "Error: --index is 'GLOBAL_BLOOM'; did you mean 'global-bloom'? Give" in refused.stderr


def test_partitions_typed_with_keys_that_are_texts(tmp_path: Path) -> None:
    """A key that is a text may have a comma, so that it is looked for as it was typed."""
    rows = pa.table({"id": ["a", "b,mo"], "day": ["mo", "mo"]})
    path = tmp_path / "t"
    HudiTable.create(path, rows, record_key="id", partition_by="day").insert(rows)
    said = (
        "a key in the command has no partition; to name one, use --keys FILE with the columns id, "
        "day"
    )
    found = run("get", path, "a,mo", "b,mo")
    assert found.exit_code == 1
    assert found.stderr == f"Error: {path}: no key 'a,mo'\n{said}\n"
    done = run("delete", path, "a,mo")
    assert (done.exit_code, done.stderr) == (0, f"{said} or --partition PATH\n")
    assert f"{path}: 1 key read, 0 rows deleted, commit 2" in done.stdout
    assert run("delete", path, "b,mo").stderr == ""


def test_keys_of_files(table: Path) -> None:
    pq.write_table(pa.table({"id": [2, 9], "region": ["us", "us"]}), table.parent / "one.parquet")
    orc.write_table(pa.table({"id": [2, 1]}), table.parent / "other.orc")
    tried = printed("delete", table, "--keys", table.parent / "other.orc", "--dry-run")
    assert tried["deleted"] == 2
    elsewhere = table.parent / "elsewhere.parquet"
    pq.write_table(pa.table({"id": [2], "region": ["eu"]}), elsewhere)
    assert printed("delete", table, "--keys", elsewhere)["deleted"] == 0
    assert printed("delete", table, "--keys", table.parent / "one.parquet")["deleted"] == 1
    assert sorted(HudiTable.open(table).scan(columns=["id"])["id"].to_pylist()) == [1, 3]
    for words in ([], [1, "--keys", table.parent / "one.parquet"]):
        refused = run("delete", table, *words)
        assert refused.exit_code == 2
        assert "give KEY..., --keys or --where, one of them" in refused.output
    without = table.parent / "without.parquet"
    pq.write_table(VISITS.select(["page"]), without)
    refused = run("delete", table, "--keys", without)
    assert refused.exit_code == 2
    assert "'id'" in refused.output


def csv_lines(*rows: str) -> bytes:
    return "\n".join([*rows, ""]).encode()


@pytest.mark.parametrize(
    "given",
    [csv_lines("3", "2", "9"), csv_lines("page,id", "x,3", "y,2", "z,9")],
    ids=["lines", "csv"],
)
def test_keys_of_standard_input(table: Path, given: bytes) -> None:
    """As of `lookupstore get`: whatever it reads there, these read."""
    command = click.testing.CliRunner()
    got = command.invoke(
        main, ["hudi", "get", str(table), "--keys", "-", "--columns", "id", "--output", "csv"],
        input=given,
    )  # fmt: skip
    assert (got.stdout, got.exit_code) == ("id\n3\n2\n", 1)
    assert "1 of 3 keys not found" in got.stderr
    tagged = command.invoke(
        main, ["hudi", "tag", str(table), "--keys", "-", "--output", "json"], input=given
    )
    found = [json.loads(line) for line in tagged.stdout.splitlines()]
    assert [(one["id"], one["_partition"]) for one in found] == [(3, "eu"), (2, "us"), (9, None)]
    deleted = command.invoke(main, ["hudi", "delete", str(table), "--keys", "-"], input=given)
    assert "2 rows deleted" in deleted.stdout
    assert pages(table) == {1: "/a"}


def test_partitions_of_keys_of_a_file(table: Path) -> None:
    """A column of the partition counts in CSV, too."""
    file = table.parent / "keys.csv"
    file.write_bytes(csv_lines("region,id", "us,1", "us,2"))
    assert [one["id"] for one in lines("get", table, "--keys", file)] == [2]
    missing = run("get", table, "--keys", file)
    assert (missing.exit_code, "1 of 2 keys not found" in missing.stderr) == (1, True)
    assert [one["_pos"] is None for one in lines("tag", table, "--keys", file)] == [True, False]
    assert printed("delete", table, "--keys", file)["deleted"] == 1
    assert sorted(pages(table)) == [1, 3]


@pytest.mark.parametrize("hive_style", [True, False])
def test_keys_are_found_in_their_partition(tmp_path: Path, hive_style: bool) -> None:
    """A key is in two partitions, and a column both of the key and of the partition."""
    rows = pa.table({
        "area": [1, 1, 2], "id": [7, 7, 8], "city": ["Köln", "Bonn", "Bonn"], "v": [1, 2, 3],
    })  # fmt: skip
    path = tmp_path / "t"
    HudiTable.create(
        path, rows, record_key=["area", "id"], partition_by=["area", "city"], hive_style=hive_style
    ).insert(rows)
    file = tmp_path / "keys.parquet"
    for city, values in (("Köln", [1]), ("Bonn", [2]), ("Ulm", [])):
        pq.write_table(pa.table({"id": [7], "city": [city], "area": [1]}), file)
        assert lines("get", path, "--keys", file, "--columns", "v") == [
            {"v": one} for one in values
        ]
        assert printed("delete", path, "--keys", file, "--dry-run")["deleted"] == len(values)
    folder = "area=1/city=Bonn" if hive_style else "1/Bonn"
    deleted = printed("delete", path, "1,7", "2,8", "--partition", folder)
    assert deleted["deleted"] == 1
    left = HudiTable.open(path).scan(columns="v")["v"].to_pylist()
    assert sorted(left) == [1, 3]


def test_a_file_with_some_partition_columns(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "a": ["x"], "b": ["y"]})
    HudiTable.create(tmp_path / "t", rows, record_key="id", partition_by=["a", "b"]).insert(rows)
    file = tmp_path / "keys.parquet"
    pq.write_table(rows.select(["id", "a"]), file)
    for command in ("get", "tag", "delete"):
        refused = run(command, tmp_path / "t", "--keys", file)
        assert refused.exit_code == 2
        assert "no partition column 'b'; give all of 'a', 'b' or none" in refused.output


def test_delete_in_a_partition(table: Path) -> None:
    assert printed("delete", table, 1, 2, 3, "--partition", "us", "--dry-run")["deleted"] == 1
    where = "--where", "id > 0", "--partition", "eu"
    assert printed("delete", table, *where, "--dry-run")["deleted"] == 2
    file = table.parent / "keys.csv"
    file.write_bytes(csv_lines("id", "1", "2"))
    assert printed("delete", table, "--keys", file, "--partition", "eu")["deleted"] == 1
    assert sorted(pages(table)) == [2, 3]
    placed = table.parent / "placed.csv"
    placed.write_bytes(csv_lines("region,id", "us,2"))
    for words, said in (
        (["--partition", "us"], "call HudiTable.delete_partition('us') in Python"),
        ([2, "--partition", "uk"], "no rows in 'uk'; 'lookupstore hudi files"),
        ([2, "--partition", "us", "--index", "global-bloom"], "an index for all partitions"),
        (["--keys", placed, "--partition", "us"], "--keys has partition columns, and --partition"),
        (["2,us"], "use --keys FILE with the columns id, region or --partition PATH"),
    ):
        refused = run("delete", table, *words)
        assert refused.exit_code == 2
        assert said in " ".join(refused.output.split())
    for command in ("get", "tag"):
        refused = run(command, table, "2,us")
        assert refused.exit_code == 2
        assert "use --keys FILE with the columns id, region" in " ".join(refused.output.split())
    assert sorted(pages(table)) == [2, 3]


def test_keys_of_another_type_are_those_of_the_table(table: Path) -> None:
    keys = table.parent / "keys.arrow"

    def asked(ids: list[int], kind: pa.DataType) -> click.testing.Result:
        rows = pa.table({"id": pa.array(ids, kind).dictionary_encode()})
        with pa.ipc.new_file(keys, rows.schema) as file:
            file.write_table(rows)
        return run("get", table, "--keys", keys, "--output", "json")

    found = asked([2, 7, 2], pa.int8())
    assert [json.loads(line)["id"] for line in found.stdout.splitlines()] == [2]
    assert "1 of 3 keys not found" in found.stderr
    wrong = asked([2, 1 << 63], pa.uint64())
    assert wrong.exit_code == 2
    assert "--keys: not keys of the table" in wrong.output


def test_delete_where(table: Path) -> None:
    where = "--where", "id >= 2 and page is not null"
    assert printed("delete", table, *where, "--dry-run")["deleted"] == 1
    assert printed("delete", table, *where)["deleted"] == 1
    assert sorted(pages(table)) == [1, 3]
    assert "0 rows deleted" in run("delete", table, *where).stdout
    for words in ([1], ["--keys", "k.csv"]):
        refused = run("delete", table, *where, *words)
        assert refused.exit_code == 2
        assert "give KEY..., --keys or --where, one of them" in refused.output
    wrong = run("delete", table, "--where", "pages = 1")
    assert wrong.exit_code == 2
    assert "where: pages is no column" in wrong.output


def test_history(table: Path) -> None:
    printed("delete", table, 2)
    found = lines("history", table)
    assert [one["operation"] for one in found] == ["DELETE", "UPSERT", "UPSERT"]
    assert [one["rows_inserted"] for one in found] == [0, 0, 3]
    assert found == HudiTable.open(table).history().to_pylist()
    assert lines("history", table, "--limit", 1) == found[:1]
    assert "rows_deleted" in run("history", table, "--output", "csv").stdout.splitlines()[0]
    assert found[2]["instant"] in run("history", table).stdout
    assert run("history", table, "--limit", -1).exit_code == 2
    chosen = lines("history", table, "--columns", "rows_deleted, instant")
    assert chosen == [{name: row[name] for name in ("rows_deleted", "instant")} for row in found]
    assert lines("history", table, "--columns", "deleted,instant") == chosen  # as in its table
    failed = run("history", table, "--columns", "rows_lost")
    assert (failed.exit_code, "choose of instant, completed, action" in failed.stderr) == (2, True)


def test_incremental(table: Path) -> None:
    opened = HudiTable.open(table)
    first, second = opened.timeline()
    printed("delete", table, 2)
    (row,) = lines("incremental", table, "--since", first.position)
    assert row == {"region": "eu", "id": 1, "page": "/a"}
    assert lines("incremental", table, "--since", second.position) == []
    everything = lines("incremental", table, "--columns", "id")
    assert everything == opened.incremental(columns=["id"]).to_pylist()
    some = lines("incremental", table, "--filter", "id > 2", "--columns", "page,id")
    assert some == [{"page": None, "id": 3}]
    until = lines("incremental", table, "--until", first.position, "--columns", "id")
    assert until == opened.incremental(until=first.position, columns=["id"]).to_pylist()
    assert len(lines("incremental", table, "--limit", 1)) == 1
    wrong = run("incremental", table, "--since", "yesterday")
    assert (wrong.exit_code, "since is 'yesterday'" in wrong.output) == (2, True)


def test_tag(table: Path) -> None:
    keys = table.parent / "keys.parquet"
    pq.write_table(VISITS, keys)
    groups = {one.id.partition: one for one in HudiTable.open(table).file_groups()}
    rows = lines("tag", table, "--keys", keys)
    assert [(one["id"], one["region"]) for one in rows] == [(1, "eu"), (2, "us"), (3, "eu")]
    for one in rows:
        current = groups[one["region"]].current
        assert (one["_partition"], one["_file_id"], one["_instant"]) == (
            one["region"], groups[one["region"]].id.file_id, current.time,
        )  # fmt: skip
        in_file = pq.read_table(table / current.path, columns=["id"])["id"].to_pylist()
        assert in_file[one["_pos"]] == one["id"]
    places = [{name: one[name] for name in one if name != "region"} for one in rows]
    assert lines("tag", table, 1, 2, 3) == places
    assert run("tag", table, "--keys", keys).exit_code == 0

    missing = run("tag", table, 7, 1, "--output", "json")
    assert missing.exit_code == 1
    assert "1 of 2 keys not found: '" in missing.stderr
    nowhere, there = map(json.loads, missing.stdout.splitlines())
    assert nowhere == {"id": 7, "_partition": None, "_file_id": None, "_instant": None,
                       "_pos": None}  # fmt: skip
    assert there == places[0]
    # Where a partition is known, that one counts.
    pq.write_table(pa.table({"id": [1], "region": ["us"]}), keys)
    assert lines("tag", table, "--keys", keys)[0]["_pos"] is None
    assert lines("tag", table, "--keys", keys, "--index", "global-bloom")[0]["_partition"] == "eu"


def test_tag_shows_a_part_of_many_keys(table: Path) -> None:
    keys = table.parent / "keys.parquet"
    pq.write_table(pa.table({"id": range(1000)}), keys)
    result = run("tag", table, "--keys", keys)
    assert f"first {TABLE_ROWS} keys" in result.stderr
    assert "997 of 1,000 keys not found" in result.stderr
    assert "│ 49 │" in result.stdout
    assert "│ 50 │" not in result.stdout
    assert len(run("tag", table, "--keys", keys, "--output", "csv").stdout.splitlines()) == 1001


def test_explain_a_tag(table: Path, tmp_path: Path) -> None:
    said = printed("tag", table, 1, 7, "--explain")
    wanted = HudiTable.open(table).explain_tag(pa.table({"id": [1, 7]}), index="global-bloom")
    assert said["keys"] == 2
    assert said["found"] == 1
    assert {**said, "seconds": None} == {**dataclasses.asdict(wanted), "seconds": None}
    assert "files_in_range" in run("tag", table, 1, "--explain").stdout
    # A part of the table is no file of keys: it may have rows that are gone.
    assert "inside the Hudi table" in run("tag", table, "--keys", table / "eu").output
    keys = HudiTable.open(table).scan(columns=["id", "region"], filter=pc.field("region") == "eu")
    pq.write_table(keys, tmp_path / "eu.parquet")
    keys_file = tmp_path / "eu.parquet"
    simple = printed("tag", table, "--keys", keys_file, "--explain", "--index", "simple")
    assert simple["files_read"] == simple["files"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing argument 'KEY...', or --keys FILE"),
        ([1, "--keys", "k.csv"], "give KEY... or --keys, one of them"),
        (["x"], "whole number"),
        ([1, "--index", "bloom"], "'region'"),
        ([1, "--index", "quick"], "'global-bloom'"),
        ([1, "--explain", "--output", "csv"], "table or json"),
        (["--keys", "nowhere.parquet"], "no such file"),
    ],
)
def test_a_tag_that_is_typed_wrong(table: Path, words: list[object], said: str) -> None:
    result = run("tag", table, *words)
    assert result.exit_code == 2, result.output
    assert said in result.output


def test_upsert(table: Path) -> None:
    one, other = table.parent / "1.parquet", table.parent / "2.parquet"
    pq.write_table(VISITS.set_column(2, "page", pa.array(["/x", "/y", "/z"])), one)
    pq.write_table(pa.table({"region": ["us"], "id": [4], "page": ["/d"]}), other)
    before = HudiTable.open(table).scan()
    tried = printed("upsert", table, one, other, "--dry-run")
    assert tried["instant"] is None
    assert tried["dry_run"]
    assert (tried["rows_inserted"], tried["rows_updated"], tried["bytes_written"]) == (1, 3, 0)
    assert len(tried["files_rewritten"]) == 2
    assert tried["files_written"] == []
    assert "1 row would be inserted, 3 rows" in run("upsert", table, one, other, "--dry-run").stdout
    assert HudiTable.open(table).scan() == before

    done = printed("upsert", table, one, other)
    assert (done["operation"], done["rows_inserted"], done["rows_updated"]) == ("UPSERT", 1, 3)
    assert done["instant"] == lines("timeline", table)[-1]["instant"]
    assert all((table / name).is_file() for name in done["files_written"])
    assert len(done["files_written"]) == len(done["files_rewritten"]) + done["files_new"]
    rows = {1: "/x", 2: "/y", 3: "/z", 4: "/d"}
    assert pages(table) == rows
    orc.write_table(
        pa.table({"region": ["eu", "eu"], "id": [1, 3], "_hoodie_is_deleted": [True, False],
                  "page": [None, "/o"]}),
        table.parent / "3.orc",
    )  # fmt: skip
    said = run("upsert", table, table.parent / "3.orc").stdout
    assert "1 row updated, 1 row deleted, 1 file rewritten, commit 2" in said
    assert pages(table) == {2: "/y", 3: "/o", 4: "/d"}


@pytest.mark.parametrize(
    ("operation", "rows"),
    [
        ("insert", {1: "/a", 2: "/b", 3: None, 5: "/e"}),
        ("bulk_insert", {1: "/a", 2: "/b", 3: None, 5: "/e"}),
        ("insert_overwrite", {2: "/b", 5: "/e"}),
        ("insert_overwrite_table", {5: "/e"}),
    ],
)
def test_operations(table: Path, operation: str, rows: dict[int, str | None]) -> None:
    new = table.parent / "new.parquet"
    pq.write_table(pa.table({"region": ["eu"], "id": [5], "page": ["/e"]}), new)
    done = printed("upsert", table, new, "--operation", operation)
    assert done["operation"] == operation.upper()
    assert pages(table) == rows
    assert run("upsert", table, new, "--operation", operation).exit_code == 0
    if operation != "insert":
        refused = run("upsert", table, new, "--operation", operation, "--duplicates", "drop")
        assert (refused.exit_code, "is for --operation insert" in refused.output) == (2, True)
        return
    refused = run("upsert", table, new, "--operation", operation, "--duplicates", "fail")
    assert (refused.exit_code, "such as '5'" in refused.output) == (2, True)
    drop = ["--operation", operation, "--duplicates", "drop"]
    said = run("upsert", table, new, *drop, "--dry-run").stdout
    assert f"{table}: 1 row read, 1 row left out\n" in said
    dropped = printed("upsert", table, new, *drop)
    assert dropped["rows_inserted"] == 0
    assert HudiTable.open(table).scan().num_rows == len(rows) + 1


def test_what_was_done_and_what_could_not_be(table: Path) -> None:
    new = table.parent / "new.parquet"
    pq.write_table(
        pa.table(
            {
                "region": ["eu", "eu", "eu", ".."],
                "id": [7, None, 7, 8],
                "page": ["/a", "b", "c", "d"],
            }
        ),
        new,
    )
    refused = run("upsert", table, new)
    assert (refused.exit_code, "row 2 has no record key" in refused.output) == (2, True)
    options = ("--on-error", "collect", "--memory", "64KiB")
    said = run("upsert", table, new, *options, "--dry-run")
    assert "4 rows read, 1 row combined, 2 rows failed, 1 row would be inserted" in said.stdout
    assert said.stderr.splitlines() == [
        "row 2: no record key: id is null or empty",
        "row 4 (8): the partition path '..' does not name a folder of its own: "
        + said.stderr.rpartition(": ")[2].strip(),
    ]
    assert "1 file unchanged, 0 bytes written" in said.stdout
    done = printed("upsert", table, new, *options)
    assert (done["rows_read"], done["rows_combined"], done["rows_failed"]) == (4, 1, 2)
    assert done["errors"][0] == {
        "row": 1, "key": None, "reason": "no record key: id is null or empty",
    }  # fmt: skip
    assert done["seconds"].keys() == {"read", "tag", "plan", "write", "commit"}
    assert pages(table)[7] == "c"


def newest_ids(table: Path) -> list[int]:
    """Return the keys that the last commit wrote, in their order."""
    rows = HudiTable.open(table).scan(columns=["_hoodie_commit_time", "id"]).to_pylist()
    last = max(row["_hoodie_commit_time"] for row in rows)
    return [row["id"] for row in rows if row["_hoodie_commit_time"] == last]


def test_a_bulk_insert_that_sorts(table: Path) -> None:
    new = table.parent / "new.parquet"
    pq.write_table(
        pa.table({"region": ["eu"] * 3, "id": [7, 5, 6], "page": ["/a", None, "/b"]}), new
    )
    words = ("upsert", table, new, "--operation", "bulk_insert", "--sort-mode", "global_sort")
    done = printed(*words)
    assert (done["operation"], done["rows_inserted"]) == ("BULK_INSERT", 3)
    assert newest_ids(table) == [5, 6, 7]
    printed(*words, "--sort-by", "page,id")
    assert newest_ids(table) == [5, 7, 6]
    refused = run("upsert", table, new, "--sort-mode", "global_sort")
    assert (refused.exit_code, "is for --operation bulk_insert" in refused.output) == (2, True)
    refused = run("upsert", table, new, "--operation", "bulk_insert", "--sort-by", "id")
    assert (refused.exit_code, "sort_mode is 'none'" in refused.output) == (2, True)


def test_upsert_of_other_columns(table: Path) -> None:
    wider = table.parent / "wider.parquet"
    pq.write_table(VISITS.append_column("clicks", pa.array([1, 2, 3])), wider)
    refused = run("upsert", table, wider)
    assert refused.exit_code == 2
    assert "to add it, give --evolve" in refused.output
    assert run("upsert", table, wider, "--evolve").exit_code == 0
    assert lines("get", table, 3, "--columns", "clicks") == [{"clicks": 3}]


def test_upserts_of_keys_of_other_partitions(table: Path) -> None:
    moved = table.parent / "moved.parquet"
    pq.write_table(pa.table({"region": ["asia"], "id": [1], "page": ["/m"]}), moved)
    words = ["upsert", table, moved, "--index", "global-simple"]
    assert printed(*words, "--no-update-partition-path")["rows_updated"] == 1
    assert lines("get", table, 1) == [{"region": "eu", "id": 1, "page": "/m"}]
    done = printed(*words)
    assert (done["rows_inserted"], done["rows_deleted"]) == (1, 1)
    assert lines("get", table, 1) == [{"region": "asia", "id": 1, "page": "/m"}]
    pq.write_table(pa.table({"region": ["us"], "id": [1]}), moved)
    assert printed("delete", table, "--keys", moved)["deleted"] == 0
    assert printed("delete", table, "--keys", moved, "--index", "global-bloom")["deleted"] == 1


def test_upserts_that_are_refused(table: Path, tmp_path: Path) -> None:
    before = HudiTable.open(table).timeline()
    damaged = tmp_path / "damaged.parquet"
    pq.write_table(VISITS, damaged)
    content = bytearray(damaged.read_bytes())
    content[4:40] = bytes(36)
    damaged.write_bytes(content)
    unread = run("upsert", table, damaged)
    assert unread.exit_code == 1, unread.output
    assert (
        "damaged.parquet is damaged: offset 4: expected headers of pages, found " in unread.output
    )
    pq.write_table(VISITS, tmp_path / "v.parquet")
    for words, said in (
        ([tmp_path / "none.parquet"], "no such file"),
        ([tmp_path / "v.parquet", "--index", "quick"], "'global-bloom'"),
        ([tmp_path / "v.parquet", "--operation", "replace"], "--operation"),
        ([], "FILE"),
    ):
        refused = run("upsert", table, *words)
        assert refused.exit_code == 2, refused.output
        assert said in refused.output
    assert HudiTable.open(table).timeline() == before


def test_a_metadata_table(real_table: Callable[[str], Path], tmp_path: Path) -> None:
    path = real_table("v9_txns_nonpart_meta")
    rows = HudiTable.open(path).scan()
    keys = tmp_path / "keys.parquet"
    pq.write_table(rows.slice(0, 1), keys)
    for command, words in (("upsert", [keys]), ("delete", ["--keys", keys])):
        copy = shutil.copytree(path, tmp_path / command)
        refused = run(command, copy, *words)
        assert refused.exit_code == 1
        assert "metadata" in refused.output
        done = run(command, copy, *words, "--metadata", "drop")
        assert done.exit_code == 0, done.output
        assert HudiTable.open(copy).scan().num_rows == rows.num_rows - (command == "delete")


def test_rollback(table: Path) -> None:
    opened = HudiTable.open(table)
    view = opened.view()
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


def test_a_rollback_names_writes_of_other_programs_that_stay_pending(table: Path) -> None:
    """Otherwise it has nothing to do, and every write is refused all the same."""
    view = HudiTable.open(table).view()
    pending = view.folder.start(view.folder.request("commit"))
    visits = table.parent / "visits.parquet"
    pq.write_table(VISITS, visits)
    refused = run("upsert", table, visits)
    assert refused.exit_code == 1
    assert f"run 'lookupstore hudi rollback TABLE {pending.time}'. Then write" in refused.stderr
    tried = run("rollback", table)
    assert (tried.exit_code, tried.stdout) == (0, f"{table}: nothing to do\n")
    assert tried.stderr == (
        f"Warning: {table}: still pending: commit {pending.time} of another program; if you know "
        f"that it died, run 'lookupstore hudi rollback TABLE {pending.time}'\n"
    )
    done = run("rollback", table, pending.time)
    assert (done.exit_code, done.stderr) == (0, "")
    assert run("upsert", table, visits).exit_code == 0


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
    tried = printed("clean", table, "--retain-commits", 1, "--dry-run")
    sizes = [(table / one["file"]).stat().st_size for one in tried]
    assert [one["bytes"] for one in tried] == sizes
    shown = run("clean", table, "--retain-commits", 1, "--dry-run").stdout.splitlines()
    assert [line.partition(" (")[0] for line in shown[:-1]] == [one["file"] for one in tried]
    assert f"{table}: {len(tried)} file" in shown[-1]
    assert "would be deleted" in shown[-1]
    cleaned = run("clean", table, "--retain-commits", 1).stdout
    assert "clean 2" in cleaned
    assert cleaned.endswith(shown[-1].partition(": ")[2].replace("would be ", "") + "\n")
    assert not any((table / one["file"]).exists() for one in tried)
    assert "nothing to do" in run("clean", table, "--retain-commits", 1, "--dry-run").stdout
    assert "nothing to do" in run("clean", table, "--retain-hours", 1).stdout
    without = run("clean", table)
    assert without.exit_code == 2
    assert "--retain-commits" in without.output
    assert printed("info", table)["savepoints"] == 0


def test_what_follows_a_write(table: Path, tmp_path: Path) -> None:
    pq.write_table(VISITS.slice(0, 1), tmp_path / "rows.parquet")
    said = "--retain-versions", 1, "--archive"
    done = printed("upsert", table, tmp_path / "rows.parquet", *said)
    assert (len(done["cleans"]), done["archived"], done["service_errors"]) == (1, 0, [])
    assert len(list(table.glob("eu/*.parquet"))) == 1
    deleted = run("delete", table, 3, "--retain-commits", 1)
    assert deleted.exit_code == 0
    assert len(list(table.glob("eu/*.parquet"))) == 1
    upserted = run("upsert", table, tmp_path / "rows.parquet", *said)
    assert ", clean 2" in upserted.stdout
    both = run("upsert", table, tmp_path / "rows.parquet", *said, "--retain-commits", 1)
    assert both.exit_code == 2
    assert "give --retain-versions, or else --retain-commits" in both.output
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lookupstore.hudi.table.services.clean", lambda *_, **__: 1 / 0)
        failed = run("upsert", table, tmp_path / "rows.parquet", *said)
    assert failed.exit_code == 0
    assert "Warning:" in failed.stderr
    assert "clean() after the write failed, which is committed" in failed.stderr
    assert "clean 2" in run("clean", table, "--retain-versions", 1).stdout
    assert run("clean", table, "--retain-versions", 1, "--retain-hours", 1).exit_code == 2


def test_cluster(table: Path, tmp_path: Path) -> None:
    by_page = "cluster", table, "--by", "page,id", "--curve", "linear"
    before = pages(table)
    tried = run(*by_page, "--dry-run")
    assert "3 rows, 2 files become 2, 2 partitions\n" in tried.stdout
    assert "0 files unchanged, " in tried.stdout
    done = printed(*by_page, "--partition", "eu", "--memory", "1MiB")
    assert (done["partitions"], done["files_unchanged"], done["dry_run"]) == (1, 1, False)
    assert lines("timeline", table)[-1] == {
        "instant": done["instant"], "action": "replacecommit", "state": "completed",
        "completed": lines("timeline", table)[-1]["completed"],
    }  # fmt: skip
    assert "1 row, 1 file becomes 1, 1 partition, replacecommit 2" in run(*by_page).stdout
    assert "nothing to do\n" in run(*by_page, "--target-file-size", "120M").stdout
    assert pages(table) == before
    some = "cluster", table, "--by", "id", "--dry-run", "--where"
    assert printed(*some, "region = 'us'")["partitions"] == 1
    assert printed(*some, "region > 'us'")["partitions"] == 0
    wrong = run(*some, "id = 1")
    assert (wrong.exit_code, "where: 'id' is not a partition column" in wrong.output) == (2, True)
    wrong = run("cluster", table, "--by", "x")
    assert (wrong.exit_code, "--by: the table has no column 'x'" in wrong.output) == (2, True)
    assert run(*by_page, "--target-file-size", "much").exit_code == 2
    pq.write_table(VISITS.slice(0, 1), tmp_path / "rows.parquet")
    after = "--cluster-by", "page", "--cluster-commits", 1
    upserted = run("upsert", table, tmp_path / "rows.parquet", *after)
    assert ", clustering 2" in upserted.stdout
    alone = run("upsert", table, tmp_path / "rows.parquet", "--cluster-commits", 1)
    assert (alone.exit_code, "is for --cluster-by" in alone.output) == (2, True)


def test_cluster_incrementally(table: Path) -> None:
    before = pages(table)
    asked = "cluster", table, "--by", "page,id", "--incremental"
    assert "3 rows, 2 files become 2, 2 partitions, replacecommit 2" in run(*asked).stdout
    assert "nothing to do\n" in run(*asked).stdout
    assert pages(table) == before
    wrong = run(*asked, "--curve", "grid")
    assert (wrong.exit_code, "a grid is for one number of files" in wrong.output) == (2, True)


def test_a_scan_without_skipping(table: Path) -> None:
    run("collect-statistics", table)
    (version,) = (
        path for path in (table / ".hoodie" / ".lookupstore").rglob("*")
        if path.is_file() and path.suffix != ".json"
    )  # fmt: skip
    version.write_bytes(b"damaged")
    asked = ("scan", table, "--filter", "id >= 3", "--output", "json")
    shown = run(*asked, "--no-skipping")
    assert (shown.exit_code, shown.stderr) == (0, "")
    with_statistics = run(*asked)
    assert "statistics of columns cannot be read" in with_statistics.stderr
    assert with_statistics.stdout == shown.stdout


@pytest.mark.filterwarnings("ignore:filter. .* finds no row:UserWarning")
def test_collect_statistics_and_explain_scan(table: Path) -> None:
    before = printed("explain-scan", table, "--filter", "id >= 3")
    assert (before["statistics"]["count"], before["without_statistics"]["count"]) == (2, 2)
    assert printed("collect-statistics", table) == {"files": 2}
    assert "t: statistics of 2 files\n" in run("collect-statistics", table).stdout
    shown = run("explain-scan", table, "--filter", "id >= 3", "--filter", "region <> 'us'")
    opened = HudiTable.open(table)
    assert shown.stdout == f"{opened.explain_scan([('id', '>=', 3), ('region', '!=', 'us')])}\n"
    for text, same in {
        "id=3": ("id", "=", 3),
        " id  < 2.5 ": ("id", "<", 3),
        "id = null": ("id", "=", None),
        "id in (2, 4)": ("id", "in", [2, 4]),
        "id NOT  IN (2)": ~pc.field("id").isin([2]) & pc.field("id").is_valid(),
        "id between 3 and 9": ("id", "between", 3, 9),
        "page like '/b%'": ("page", "starts_with", "/b"),
        "starts_with(page, '/b')": ("page", "starts_with", "/b"),
        "page is null": ("page", "is null"),
        "page Is Not Null": ("page", "is not null"),
        "_hoodie_commit_time > '3'": ("_hoodie_commit_time", ">", "3"),
    }.items():
        found = printed("explain-scan", table, "--filter", text)
        expected = opened.explain_scan(same)
        assert found == json.loads(json.dumps(expected.to_json())), text
    first = lines("timeline", table)[0]["instant"]
    past = printed("explain-scan", table, "--filter", "id = 1", "--as-of", first)
    # Of a version of a file that is not the current one nothing was collected.
    assert past["without_statistics"]["count"] == 1
    # Those of one column are kept instead.
    assert printed("collect-statistics", table, "--columns", "page") == {"files": 2}
    assert printed("explain-scan", table, "--filter", "id >= 9")["statistics"]["count"] == 2
    assert printed("explain-scan", table, "--filter", "page > '/c'")["statistics"]["count"] == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id", "id is int64, and no condition"),
        ("", "the text is empty; give a condition"),
        (">= 3", "is no condition in SQL"),
        ("id near 3", "is no condition in SQL"),
        ("id >= 3 and id < 9", None),
        ("page = /a", "is no condition in SQL"),
        ('page = "/a"', "texts are in single quotes"),
        ("id = " + "[" * 100_000, "filter: id = [["),
        ("id => 3", "filter: "),
        ("id + 1 > 3", "length, lower or upper, with a value or a column\n"),
        ("page < now()", "not read; compute the time first, and write it as a text, such as '2"),
        ("id in (select 1)", "and, or, not, in, between, like, is null\n"),
        ("cast(page as int) = 3", "which may lose something; leave out the cast\n"),
        ("id >= 3, 4", "is no condition in SQL"),
        ("id is null 3", "is no condition in SQL"),
        ("id between 3", "is no condition in SQL"),
        ("id in 3", "id IN 3 is not read"),
        ("id = {}", "filter: "),
        ("id = 'x'", "'x' is no number"),
        ("id < 1e999", "is a number that no type has"),
        (f"id < {2**70}", None),
        (f"id in ({-(2**70)})", None),
        ("id like 3", "asks int64 for a text"),
        ("id in ((1, 2))", "filter: "),
        ("x = 3", "x is no column; the table has "),
    ],
)
def test_filters_that_are_wrong(table: Path, text: str, problem: str | None) -> None:
    said = run("explain-scan", table, "--filter", text)
    if problem is None:
        assert said.exit_code == 0, said.output
        return
    assert said.exit_code == 2, said.output
    assert problem in said.stderr


def test_layout_health_and_picture(table: Path, tmp_path: Path) -> None:
    opened = HudiTable.open(table)
    health = opened.layout_health(["page", "id"]).to_json()
    assert printed("layout-health", table, "--by", "page, id")["queries"] == list(health["queries"])
    parts = run("layout-health", table, "--by", "page", "--by-partition").stdout
    assert parts == f"{opened.layout_health('page', by_partition=True)}\n"
    run("cluster", table, "--by", "page")
    assert {one["column"] for one in printed("layout-health", table)["queries"]} == {"page"}
    wrong = run("layout-health", table, "--by", "x")
    assert (wrong.exit_code, "no column 'x'" in wrong.output) == (2, True)
    out = tmp_path / "files.svg"
    drawn = run("layout-picture", table, "--x", "page", "--y", "id", "--out", out)
    assert drawn.stdout == f"{out}: 2 of 2 files\n"
    assert out.read_text("utf-8") == opened.layout_picture("page", "id").svg
    nowhere = run("layout-picture", table, "--x", "id", "--y", "id", "--out", tmp_path / "a" / "b")
    assert nowhere.exit_code != 0


def test_advise_clustering(table: Path) -> None:
    run("collect-statistics", table)
    opened = HudiTable.open(table)
    asked = "id >= 3 and page like '/b%'", "region = 'us'"
    advice = opened.advise_clustering(asked, target_file_sizes=["1KiB", "30MiB"])
    words = "--query", asked[0], "--query", asked[1]
    sizes = "--target-file-size", "1KiB", "--target-file-size", "30MiB"
    assert run("advise-clustering", table, *words, *sizes).stdout == f"{advice}\n"
    found = printed("advise-clustering", table, *words, *sizes, "--columns", "page, id")
    assert {name for one in found["orders"] for name in one["by"]} == {"page", "id"}
    assert found["rows"] == found["rows_sampled"] == opened.scan().num_rows
    wrong = run("advise-clustering", table)
    assert (wrong.exit_code, "give filters that are asked" in wrong.output) == (2, True)
    wrong = run("advise-clustering", table, "--query", "nope = 1")
    assert (wrong.exit_code, "nope is no column" in wrong.output) == (2, True)


def test_restore(table: Path) -> None:
    first = lines("timeline", table)[0]["instant"]
    before = printed("info", table)
    refused = run("restore", table, first)
    assert refused.exit_code == 2
    advice = f"make one by 'lookupstore hudi savepoint TABLE {first}', then restore to it"
    assert f"savepoints: none; {advice}" in " ".join(refused.output.split())
    printed("savepoint", table, first)
    done = printed("restore", table, first)
    assert [one["action"] for one in done][-2:] == ["rollback", "restore"]
    assert printed("info", table)["commits"] == 1 < before["commits"]
    assert "nothing to do" in run("restore", table, first).stdout


def test_archive(table: Path) -> None:
    assert "nothing to do" in run("archive", table).stdout
    first, last = (one["instant"] for one in lines("timeline", table)[:2])
    position = HudiTable.open(table).timeline()[0].position
    printed("savepoint", table, first)
    kept = run("archive", table, "--min-commits", 1, "--max-commits", 1)
    assert f"nothing to do; no more, because of the savepoint of {first}" in kept.stdout
    run("savepoint", table, first, "--delete")
    done = printed("archive", table, "--min-commits", 1, "--max-commits", 1)
    assert done == {
        "instants": [{"instant": first, "action": "commit"}], "first": last, "kept_by": None,
    }  # fmt: skip
    assert [one["instant"] for one in lines("timeline", table)] == [last]
    refused = run("files", table, "--as-of", first)
    assert (refused.exit_code, "are archived" in refused.output) == (1, True)
    refused = run("changes", table, "--since", position)
    assert (refused.exit_code, "are archived" in refused.output) == (1, True), refused.output
    wrong = run("archive", table, "--min-commits", 3, "--max-commits", 2)
    assert (wrong.exit_code, "--min-commits is more" in wrong.output) == (2, True)


def test_a_lock_that_is_taken(table: Path) -> None:
    (table / ".hoodie" / "lock").write_bytes(b"{}")
    result = run("rollback", table, "--wait", 0)
    assert result.exit_code == 1
    assert "still locked by another program" in result.output


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


@pytest.mark.parametrize(
    "words",
    [["info"], ["timeline"], ["files"], ["rollback"], ["verify"], ["upsert", "rows.parquet"],
     ["tag", "1"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_no_table(tmp_path: Path, words: list[str]) -> None:
    result = run(words[0], tmp_path, *words[1:])
    assert result.exit_code == 2
    assert "not a Hudi table" in result.output


def test_rows_that_lack_columns(table: Path) -> None:
    new = table.parent / "new.parquet"
    pq.write_table(pa.table({"region": ["eu", "eu"], "id": [1, 9]}), new)
    before = HudiTable.open(table).timeline()
    for more in ((), ("--dry-run",)):
        refused = run("upsert", table, new, *more)
        said = "'page'; give --missing keep to keep the stored values, give --missing null to store"
        assert (refused.exit_code, said in refused.output) == (2, True), refused.output
    assert HudiTable.open(table).timeline() == before
    tried = run("upsert", table, new, "--missing", "keep", "--dry-run").stdout
    assert "columns that the rows lack (--missing keep): page\n" in tried
    assert printed("upsert", table, new, "--missing", "keep")["columns_missing"] == ["page"]
    assert (pages(table)[1], pages(table)[9]) == ("/a", None)
    printed("upsert", table, new, "--missing", "null")
    assert pages(table)[1] is None


def test_a_data_column_that_is_called_as_a_position(tmp_path: Path) -> None:
    table, new = tmp_path / "t", tmp_path / "new.parquet"
    rows = pa.table({"id": [1, 2], "_pos": [10, 20]})
    HudiTable.create(table, rows, record_key="id").insert(rows)
    pq.write_table(pa.table({"id": [2], "_pos": [21]}), new)
    assert printed("upsert", table, new)["rows_updated"] == 1
    assert lines("get", table, 2) == [{"id": 2, "_pos": 21}]
    assert lines("tag", table, 2)[0]["_pos"] == 1
    assert printed("delete", table, 1)["deleted"] == 1


def test_partitions_that_the_properties_do_not_name(table: Path) -> None:
    before = pages(table)
    (file,) = (table / ".hoodie").glob("*.properties")
    kept = [one for one in file.read_text().splitlines() if "partition.fields" not in one]
    file.write_text("\n".join([*kept, ""]))
    assert pages(table) == before
    new = table.parent / "new.parquet"
    pq.write_table(VISITS, new)
    for more in ((), ("--dry-run",)):
        refused = run("upsert", table, new, *more)
        assert refused.exit_code != 0
        assert f"the table has no {PARTITION}" in refused.output


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_service_that_fails_is_a_warning_of_a_command_that_succeeds(
    table: Path, tmp_path: Path, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise AttributeError("injected")

    monkeypatch.setattr("lookupstore.hudi.table.services.clean", broken)
    pq.write_table(VISITS, tmp_path / "rows.parquet")
    given = "upsert", table, tmp_path / "rows.parquet", "--retain-versions", 1, "--output", output
    for options in (given, ("delete", table, "--where", "id = 2", *given[3:])):
        done = run(*options)
        assert done.exit_code == 0, done.output
        assert "clean() after the write failed, which is committed: AttributeError" in done.stderr
        assert "do not write the rows again: call clean() when" in done.stderr
    assert pages(table) == {1: "/a", 3: None}


def test_keys_of_one_text(tmp_path: Path) -> None:
    table, new = tmp_path / "t", tmp_path / "new.parquet"
    rows = pa.table({"a": ["x,b:y", "x"], "b": ["z", "y,b:z"], "v": [1, 2]})
    HudiTable.create(table, rows, record_key=["a", "b"]).insert(rows.slice(0, 1))
    for given, said in ((rows, "row 1, (a='x,b:y', b='z'), and row 2"), (rows.slice(1), "the row")):
        pq.write_table(given, new)
        refused = run("upsert", table, new, "--dry-run")
        assert (refused.exit_code, said in refused.output) == (2, True), refused.output


def test_files_of_another_type(tmp_path: Path) -> None:
    table = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "x": ["a", "b"]})
    HudiTable.create(table, rows, record_key="id").insert(rows)
    (file,) = table.glob("*.parquet")
    stored = pq.read_table(file)
    at = stored.column_names.index("x")
    pq.write_table(stored.set_column(at, "x", pa.array([5.0, 1e20])), file)
    assert lines("scan", table, "--filter", "x = '1.0E20'") == [{"id": 2, "x": "1.0E20"}]
    pq.write_table(stored.set_column(at, "x", pa.array([True, False])), file)
    refused = run("scan", table)
    said = f"{file.name}: the column 'x' is bool, which Hudi does not promote to string"
    assert (refused.exit_code, said in refused.output) == (1, True), refused.output


def test_floats_for_a_column_of_decimals(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "price": pa.array([1], pa.decimal128(10, 2))})
    HudiTable.create(tmp_path / "t", rows, record_key="id")
    pq.write_table(pa.table({"id": [1], "price": [1.25]}), tmp_path / "rows.parquet")
    refused = run("upsert", tmp_path / "t", tmp_path / "rows.parquet")
    assert refused.exit_code == 2
    said = " ".join(refused.output.split())
    assert "'price' has 1.25 in row 1, a float, and floats are not exact; give a file that" in said
    assert "has it as decimal128(10, 2)" in said


def test_errors_about_rows_of_files_name_no_library(tmp_path: Path) -> None:
    known = {"id": pa.int64(), "day": pa.string(), "at": pa.timestamp("us", "UTC"), "n": pa.int32()}
    table, file = tmp_path / "t", tmp_path / "rows.parquet"
    HudiTable.create(table, pa.schema(known), record_key="id", partition_by="day")
    some = pa.table({"id": [1], "day": ["mo"], "at": ["2026-03-01"], "n": ["7"]})
    texts = pa.array(["2026-03-01"])
    for rows, said in (
        (
            some.drop_columns("n"),
            "'at' is string; give a file that has it as timestamp[us, tz=UTC]",
        ),
        (some.drop_columns("at"), "'n' is string; give a file that has it as int32"),
        (
            some.select(["id"]).append_column("day", texts.cast(pa.date32())),
            "'day' is date32[day]; give a file that has it as string",
        ),
    ):
        pq.write_table(rows, file)
        refused = run("upsert", table, file, "--missing", "null")
        assert refused.stderr.startswith(f"Error: rows: {said}"), refused.stderr
        assert "pandas" not in refused.stderr
    pq.write_table(some.select(["id", "n"]), file)
    refused = run("upsert", table, file)
    said = "add it, or change stored rows by 'id' alone with 'lookupstore hudi merge'; the rows"
    assert said in refused.stderr


def test_a_table_of_times_without_a_zone_is_made_with_a_note(tmp_path: Path) -> None:
    for zone, noted in ((None, True), ("UTC", False)):
        rows = pa.table({"id": [1], "at": pa.array([0], pa.timestamp("us", zone))})
        pq.write_table(rows, tmp_path / "rows.parquet")
        made = run("create", tmp_path / f"t{zone}", "--like", tmp_path / "rows.parquet",
                   "--key", "id", "--output", "json")  # fmt: skip
        assert made.exit_code == 0
        assert json.loads(made.stdout)["record_key"] == "id"
        assert ("hudi-rs 0.5 cannot open the table" in made.stderr) == noted
        assert "tz_localize" not in made.stderr


def test_the_remedy_for_times_without_a_zone_is_an_option(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,at\n1,2026-03-01 10:00:00\n")
    given = ["--like", tmp_path / "rows.csv", "--key", "id"]
    noted = run("create", tmp_path / "a", *given)
    said = " ".join(noted.stderr.split())
    assert "if you need it, give --zone UTC with a file of CSV or JSON lines, or --like" in said
    assert run("create", tmp_path / "b", *given, "--zone", "UTC").stderr == ""
