"""Files of the timeline: what Apache Hudi wrote is read, and written again byte for byte."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pytest
from support.hudi.versions import VERSIONS

from lookupstore.errors import CorruptionError
from lookupstore.hudi.timeline.avro_file import MAGIC, read_record
from lookupstore.hudi.timeline.commit import (
    CommitMetadata,
    RuntimeStats,
    WriteStat,
    commit_bytes,
    parse_commit,
)
from lookupstore.hudi.timeline.plans import (
    ActionInstant,
    CleanerPlan,
    CleanFile,
    CleanMetadata,
    CleanPartition,
    InstantInfo,
    Plan,
    RequestedReplace,
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    SavepointMetadata,
    SavepointPartition,
    parse_plan,
    plan_bytes,
)

MARKER = 16


def without_marker(content: bytes) -> tuple[bytes, bytes]:
    """Return an Avro file without the random bytes that end its header and its block."""
    marker = content[-MARKER:]
    header, body, end = content.split(marker)
    assert end == b""
    return header, body


def timeline_files(tables: Path) -> list[Path]:
    """Return the files of commits and plans that are not empty."""
    return [
        path
        for folder in ("v6_*/.hoodie", "v[89]_*/.hoodie/timeline")
        for path in sorted(tables.glob(f"{folder}/2*"))
        if path.stat().st_size and "indexing" not in path.name
    ]


def test_every_real_file_is_written_again_as_it_was(real_tables: Path) -> None:
    kinds = {"json": 0, "commit": 0, "plan": 0}
    for path in timeline_files(real_tables):
        content = path.read_bytes()
        if path.name.endswith((".replacecommit.requested", ".clustering.requested")):
            plan = parse_plan(RequestedReplace, content, str(path))
            assert without_marker(plan_bytes(plan)) == without_marker(content)
            kinds["plan"] += 1
        elif content.startswith(MAGIC):
            commit = parse_commit(content, str(path))
            assert without_marker(commit_bytes(commit, 9)) == without_marker(content)
            kinds["commit"] += 1
        else:
            commit = parse_commit(content, str(path))
            assert commit_bytes(commit, 6) == content
            kinds["json"] += 1
    assert kinds == {"json": 8, "commit": 71, "plan": 5}


def test_a_real_commit_says_what_it_did(real_tables: Path) -> None:
    folder = real_tables / "v9_txns_simple_nometa" / ".hoodie" / "timeline"
    path = folder / "20260307135709297_20260307135709818.replacecommit"
    commit = parse_commit(path.read_bytes(), str(path))
    assert commit.operation == "CLUSTER"
    assert commit.stats is not None
    assert commit.replaced is not None
    assert sorted(commit.stats) == sorted(commit.replaced) == [
        "region=apac", "region=eu", "region=us",
    ]  # fmt: skip
    (stat,) = commit.stats["region=eu"]
    assert (stat.num_writes, stat.num_inserts, stat.prev_commit) == (2, 2, "null")
    assert (
        stat.path
        == "region=eu/54893091-ea2c-4ad4-aee4-1fd87f68ad8c-0_1-59-122_20260307135709297.parquet"
    )
    assert json.loads(commit.schema or "")["name"] == "v9_txns_cow_simple_nometa_record"
    requested = (folder / "20260307135709297.clustering.requested").read_bytes()
    plan = parse_plan(RequestedReplace, requested, "").clustering_plan
    assert plan is not None
    assert plan.input_groups is not None
    assert [len(group.slices or ()) for group in plan.input_groups] == [2, 1, 2]


COMMITS = [
    CommitMetadata(),
    CommitMetadata(
        stats={
            "": (WriteStat(file_id="a-0", path="a-0_0-0-0_1.parquet", num_writes=2**40),),
            '名="x"\n': (WriteStat(runtime_stats=RuntimeStats(1, 2, 3)),),
        },
        extra_metadata={"schema": '{"é": "\\"}', "": "\x01"},
        operation="UPSERT",
    ),
    CommitMetadata(replaced={"p=1": ("a-0", "b-0"), "p=2": ()}, operation="DELETE_PARTITION"),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit", COMMITS)
def test_a_commit_of_ours_comes_back(commit: CommitMetadata, version: int) -> None:
    assert parse_commit(commit_bytes(commit, version), "") == commit


PLANS = [
    RequestedReplace(),
    RollbackPlan(
        InstantInfo("20260307135709297", "commit"),
        (RollbackRequest("p", ("file:/t/p/a-0_0-0-0_20260307135709297.parquet",)),),
    ),
    RollbackMetadata(
        start_rollback_time="20260307135709298",
        time_taken_in_millis=3,
        total_files_deleted=1,
        commits_rollback=("20260307135709297",),
        partition_metadata={"p": RollbackPartition("p", ("a",), ("b",))},
        instants_rollback=(InstantInfo("20260307135709297", "commit"),),
    ),
    CleanerPlan(
        ActionInstant("20260307135709297", "commit", "COMPLETED"),
        "KEEP_LATEST_COMMITS",
        {"p": (CleanFile("file:/t/p/a"),)},
    ),
    CleanMetadata(
        policy="KEEP_LATEST_COMMITS",
        start_clean_time="20260307135709298",
        time_taken_in_millis=3,
        total_files_deleted=1,
        earliest_commit_to_retain="20260307135709297",
        last_completed_commit_timestamp="20260307135709297",
        partition_metadata={"p": CleanPartition("p", "KEEP_LATEST_COMMITS", ("a",), ("a",))},
        bootstrap_partition_metadata={},
    ),
    SavepointMetadata("somebody", 1, "before the change", {"p": SavepointPartition("p", ("a",))}),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: type(plan).__name__)
def test_a_plan_of_ours_comes_back(plan: Plan) -> None:
    content = plan_bytes(plan)
    assert parse_plan(type(plan), content, "") == plan
    # As Hudi's own: the schema, and not even the name of a codec.
    assert list(fastavro.reader(io.BytesIO(content)).metadata) == ["avro.schema"]


def test_a_plan_of_another_kind_is_an_error() -> None:
    with pytest.raises(CorruptionError, match="SavepointMetadata"):
        parse_plan(SavepointMetadata, plan_bytes(RequestedReplace()), "t.savepoint")


@pytest.mark.parametrize("stat", ['"fileId": "a", "added": 1', '"added": {}, "fileId": "a"'])
def test_fields_of_other_versions_are_passed_over(stat: str) -> None:
    content = f'{{"more": {{}}, "partitionToWriteStats": {{"": [{{{stat}}}]}}, "most": 1}}'
    (found,) = (parse_commit(content.encode(), "").stats or {})[""]
    assert found == WriteStat(file_id="a")


@pytest.mark.parametrize("size", [57, 58, 59, 10_000])
def test_a_wrong_value_is_shown_up_to_60_characters(size: int) -> None:
    content = f'{{"partitionToWriteStats": {{"": [{{"numWrites": "{"3" * size}"}}]}}}}'
    with pytest.raises(CorruptionError) as raised:
        parse_commit(content.encode(), "t.commit")
    shown = f"'{'3' * size}'" if size <= 58 else f"'{'3' * 56}..."
    assert str(raised.value).endswith(f"found WriteStat.numWrites is {shown}")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"partitionToWriteStats": []}',
        b'{"partitionToWriteStats": {"": [{"numWrites": "3"}]}}',
        b'{"partitionToWriteStats": {"": [{"numWrites": true}]}}',
        b'{"extraMetadata": {"schema": 5}}',
        b'{"partitionToReplaceFileIds": {"": "a"}}',
        b"[" * 100_000,
        MAGIC,
        MAGIC + b"\x00" * 40,
    ],
)
def test_damaged_commits_are_said_to_be(content: bytes) -> None:
    with pytest.raises(CorruptionError) as caught:
        parse_commit(content, "t.commit")
    assert caught.value.path == "t.commit"


def test_every_wrong_byte_of_a_real_commit_is_an_answer_or_an_error(real_tables: Path) -> None:
    """No byte is checksummed: what may not happen is another kind of error, or a hang."""
    path = next(real_tables.glob("v9_txns_simple_nometa/.hoodie/timeline/*08214.commit"))
    content = path.read_bytes()
    failed = 0
    for at in range(0, len(content), 3):
        for bit in (0x01, 0x80):
            damaged = bytearray(content)
            damaged[at] ^= bit
            try:
                parse_commit(bytes(damaged), str(path))
            except CorruptionError:
                failed += 1
    assert failed > 100
    for length in range(0, len(content), 7):
        with pytest.raises(CorruptionError):
            parse_commit(content[:length], str(path))


def test_a_file_of_two_records_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "two"
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [{"a": 1}, {"a": 2}])
    with pytest.raises(CorruptionError, match="2 records"):
        read_record(path.read_bytes(), str(path), "HoodieRollbackPlan")
