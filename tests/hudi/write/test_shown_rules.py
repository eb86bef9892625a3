"""Rules that no property says: what writers in Java leave in a table refuses writing, by name."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from support.hudi.oracle import other_scan
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS

from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable
from lookupstore.hudi.keys.avro_types import avro_schema
from lookupstore.hudi.timeline.commit import CommitMetadata, commit_bytes
from lookupstore.hudi.write import new_file_id

SCHEMA = pa.schema({"id": pa.int32(), "day": pa.string(), "value": pa.string()})


def given(one: dict[str, Any]) -> pa.Table:
    return pa.table({name: [value] for name, value in one.items()})


def assert_refused(table: HudiTable, message: str) -> None:
    """Check that every write is refused, changes nothing, and reading goes on."""
    path = Path(table.location.uri)
    before = {str(one): one.stat().st_mtime_ns for one in path.rglob("*") if one.is_file()}
    for write in (
        lambda: table.upsert(given(row(1, "x"))),
        lambda: table.upsert(given(row(1, "x")), dry_run=True),
        lambda: table.bulk_insert(given(row(9, "x"))),
        lambda: table.delete([1]),
        lambda: table.insert_overwrite_table(given(row(1, "x"))),
    ):
        with pytest.raises(FormatError, match=message) as caught:
            write()
        assert "write with Apache Hudi" in str(caught.value)
    assert before == {str(one): one.stat().st_mtime_ns for one in path.rglob("*") if one.is_file()}


@pytest.mark.parametrize("version", VERSIONS)
def test_buckets_of_a_bucket_index(tmp_path: Path, version: int) -> None:
    """Java looks for a key in the file group of its hash, and parses the id's first 8 digits."""
    small = SmallTable(tmp_path / "t", version)
    instant = small.begin()
    stats = [
        small.write(instant.time, f"0000000{at}-52f5-4b3c-8d1e-aa0e1c4c6f0a-0", [row(at, "one")])
        for at in range(3)
    ]
    small.finish(instant, stats)
    small.finish(small.begin())  # a commit without files tells nothing
    assert_refused(HudiTable.open(small.path), "the file id '00000000-52f5-")
    assert small.values() == {at: "one" for at in range(3)}
    found = other_scan(small.path)
    assert found is not None
    assert found.num_rows == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_buckets_that_are_split(tmp_path: Path, version: int) -> None:
    """With consistent hashing, ids are random; which are buckets is in a folder."""
    small = SmallTable(tmp_path / "t", version)
    small.commit("9a8b7c6d-0", [row(1, "one")])
    folder = small.path / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata"
    folder.mkdir(parents=True)
    (folder / "00000000000000.hashing_meta").write_text("{}")
    assert_refused(HudiTable.open(small.path), r"\.bucket_index: file groups are the buckets")
    assert small.values() == {1: "one"}


def test_random_ids_of_eight_digits_are_no_buckets(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t", 9)
    small.commit("12345678-52f5-4b3c-8d1e-aa0e1c4c6f0a-0", [row(1, "one")])
    table = HudiTable.open(small.path)
    assert table.upsert(given(row(1, "two"))).rows_updated == 1
    assert small.values() == {1: "two"}


def test_a_file_whose_random_id_is_as_a_bucket_is(tmp_path: Path) -> None:
    """One of 43,000 begins with three zeros and five digits; others of the table do not."""
    small = SmallTable(tmp_path / "t", 9)
    for at, file_id in enumerate(("9a8b7c6d", "0d8f6c1e", "00088198")):
        small.commit(f"{file_id}-d1c4-485f-b321-9d598cc07845-0", [row(at, "one")])
    table = HudiTable.open(small.path)
    assert table.upsert(given(row(2, "two"))).rows_updated == 1
    assert small.values() == {0: "one", 1: "one", 2: "two"}


def test_new_ids_are_never_those_of_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [UUID(int=(0x00088198 << 96) + at) for at in range(3)]
    right = UUID("0008819a-d1c4-485f-b321-9d598cc07845")
    monkeypatch.setattr(uuid, "uuid4", iter([*drawn, right]).__next__)
    assert new_file_id() == f"{right}-0"


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_that_go_by_ids(tmp_path: Path, version: int) -> None:
    small = SmallTable(tmp_path / "t", version)
    instant = small.begin()
    stat = small.write(instant.time, "a-0", [row(1, "one")])
    options = small.table.options
    avro = avro_schema(pa.schema({"id": pa.int32(), "value": pa.string()}), "r", "n")
    metadata = CommitMetadata(
        stats={"": (stat,)},
        extra_metadata={"schema": json.dumps(avro), "latest_schema": '{"max_column_id":1}'},
        operation="UPSERT",
    )
    small.folder.complete(instant, commit_bytes(metadata, options.version))
    assert_refused(HudiTable.open(small.path), rf"{instant.time}.*commit: it has latest_schema")
    assert small.values() == {1: "one"}


@pytest.mark.parametrize("version", VERSIONS)
def test_keys_that_are_written_in_two_ways(tmp_path: Path, version: int) -> None:
    """Hudi 0.14.0 wrote `id:1`, 0.14.1 the value alone: whoever follows one doubles the other."""
    path = tmp_path / "t"
    table = HudiTable.create(
        path, SCHEMA, record_key=["id"], partition_by=["day", "value"], version=version
    )
    rows = pa.table({"id": [1], "day": ["mo"], "value": ["v"]})
    assert table.options.key_generator == "COMPLEX"
    table.upsert(rows)
    assert table.scan()["_hoodie_record_key"].to_pylist() == ["id:1"]
    # What a writer of the other version adds, by a table that is only told apart by its generator.
    small = SmallTable(tmp_path / "small", version, SCHEMA, ["day", "value"])
    small.path, small.table, small.folder = path, table, table.view().folder
    instant = small.begin()
    stat = small.write(instant.time, "b-0", [{"id": 2, "day": "tu", "value": "v"}], "tu/v", SCHEMA)
    small.finish(instant, [replace(stat, partition_path="tu/v")], schema=SCHEMA)
    with pytest.raises(FormatError, match=r"record keys are 'id:1' in mo/v/.* and '2' in tu/v/b"):
        table.upsert(rows)
    assert table.scan().num_rows == 2


@pytest.mark.parametrize("suffix", ["orc", "hfile"])
def test_base_files_of_another_format_are_not_passed_over(tmp_path: Path, suffix: str) -> None:
    small = SmallTable(tmp_path / "t", 9)
    time = small.commit("a-0", [row(1, "one")]).time
    (small.path / f"b-0_0-1-2_{time}.{suffix}").write_bytes(b"rows")
    with pytest.raises(FormatError, match=f"{suffix}: a base file that is not Parquet"):
        HudiTable.open(small.path).scan()
