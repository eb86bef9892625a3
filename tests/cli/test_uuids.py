"""UUIDs as people write them: in keys, in files of keys, in CSV and in what commands print."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import click.testing
import duckdb
import pyarrow as pa
import pytest

import lookupstore
from lookupstore.cli import main

pytestmark = pytest.mark.skipif(not hasattr(pa, "uuid"), reason="this pyarrow has no UUIDs")

IDS = [uuid.UUID(int=int("415500f682c84f3ab4ee0509a146ae82", 16) ^ (i << 124)) for i in range(4)]


def run(*words: object, given: str | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(word) for word in words], input=given)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "users"
    ids = pa.array([one.bytes for one in IDS], pa.uuid())
    friends = pa.array([None, *(one.bytes for one in IDS[:3])], pa.uuid())
    rows = pa.table({"id": ids, "n": range(4), "friend": friends})
    lookupstore.build(rows, made, key="id").close()
    return made


def test_keys_are_typed_with_dashes_without_or_as_bytes(store: Path) -> None:
    one = IDS[2]
    for typed in (str(one), str(one).upper(), one.hex, f"0x{one.hex}"):
        got = run("get", store, typed, "--output", "json")
        assert got.exit_code == 0, got.output
        assert json.loads(got.stdout) == {"id": str(one), "n": 2, "friend": str(IDS[1])}
    for wrong in (str(one)[:-1], "0123456789abcdef", f"{one}0", str(one).replace("a", "g")):
        got = run("get", store, wrong)
        assert got.exit_code == 2
        assert "write 32 hex digits, such as 01234567-89ab-cdef-0123-456789abcdef" in got.stderr
    missing = uuid.UUID(int=7)
    got = run("get", store, missing)
    assert (got.exit_code, got.stderr) == (1, f"Error: {store}: no key '{missing}'\n")


def test_files_of_keys_of_duckdb(store: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    rows = ", ".join(f"('{IDS[i]}'::uuid)" for i in (3, 1))
    duckdb.sql(f"COPY (SELECT * FROM (VALUES {rows}) AS t(id)) TO '{keys}' (HEADER)")
    for file, given in ((keys, None), ("-", keys.read_text()), ("-", f"{IDS[3]}\n{IDS[1]}\n")):
        got = run("get", store, "--keys", file, "--output", "csv", given=given)
        assert got.exit_code == 0, got.output
        assert got.stdout == f"id,n,friend\n{IDS[3]},3,{IDS[2]}\n{IDS[1]},1,{IDS[0]}\n"


def test_what_is_printed_is_read_again(store: Path, tmp_path: Path) -> None:
    for kind in ("csv", "jsonl"):
        out = tmp_path / f"out.{kind}"
        assert run("scan", store, "-o", out).exit_code == 0
        with lookupstore.open(store) as before:
            rows = before.scan().read_all()
        assert run("delete", store, *IDS).exit_code == 0
        got = run("upsert", store, out)
        assert got.exit_code == 0, got.output
        with lookupstore.open(store) as after:
            assert after.scan().read_all() == rows
        options = ("--on", "id", "--columns", "n", "--prefix", "s_", "--output", "json")
        joined = run("join", out, store, *options).stdout.splitlines()
        assert [json.loads(one)["s_n"] for one in joined] == rows["n"].to_pylist()


def test_text_that_is_not_a_uuid_is_refused(store: Path) -> None:
    got = run("upsert", store, "-", given="id,n,friend\n0123456789abcdef,1,\n")
    assert got.exit_code == 2
    assert "has '0123456789abcdef' in row 1" in got.stderr


def test_scans_by_uuids(store: Path) -> None:
    ordered = sorted(IDS)
    for options, wanted in (
        (("--start", ordered[1]), ordered[1:]),
        (("--stop", ordered[1]), ordered[:1]),
        (("--starts-with", str(ordered[1])[:11]), ordered[1:2]),
        (("--prefix", ordered[2]), ordered[2:3]),
    ):
        got = run("scan", store, *options, "--columns", "n", "--output", "csv")
        found = [line.split(",")[0] for line in got.stdout.splitlines()[1:]]
        assert found == [str(one) for one in wanted], got.output
    got = run("scan", store, "--starts-with", "415")
    assert got.exit_code == 2
    assert "'415' is not the beginning of a UUID; write an even number of hex digits" in got.stderr
