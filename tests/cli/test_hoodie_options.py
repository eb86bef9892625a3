"""`--hoodie NAME=VALUE` of commands that write: Hudi's names, errors in words of a shell."""

from __future__ import annotations

import json
from pathlib import Path

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lookupstore.cli import main
from lookupstore.hudi import HudiTable

ROWS = pa.table({"id": [1, 2, 3], "day": ["mo", "tu", "mo"], "ts": pa.array([1, 2, 3])})
NAME = "hoodie"
WRITE = f"{NAME}.datasource.write"
PLAN = f"{NAME}.clustering.plan.strategy"


def run(*words: object) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["hudi", *map(str, words)])


def by_name(**options: object) -> list[str]:
    """Return words for options, whose names have `__` for points."""
    pairs = (f"{NAME}.{name.replace('__', '.')}={value}" for name, value in options.items())
    return [word for pair in pairs for word in ("--hoodie", pair)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    HudiTable.create(tmp_path / "t", ROWS, record_key="id", partition_by="day").insert(ROWS)
    return tmp_path / "t"


def test_a_table_from_its_options_to_its_clustering(tmp_path: Path, file: Path) -> None:
    path = tmp_path / "t"
    new = [
        "--hoodie", f"{WRITE}.recordkey.field=id", "--hoodie", f"{WRITE}.precombine.field=ts",
        "--hoodie", f"{WRITE}.partitionpath.field=day",
        *by_name(table__version=8, table__name="trips", upsert__shuffle__parallelism=2),
    ]  # fmt: skip
    made = run("create", path, "--like", file, *new)
    assert made.exit_code == 0, made.output
    options = HudiTable.open(path).options
    assert (options.name, options.version, options.ordering) == ("trips", 8, ("ts",))
    assert (options.record_key, options.partition_by) == (("id",), ("day",))
    # The operation is that of the options; an insert does not look for keys.
    for _ in range(2):
        inserted = run(
            "upsert", path, file, *new, "--hoodie", f"{WRITE}.operation=insert", "--output", "json"
        )
        assert inserted.exit_code == 0, inserted.output
        assert json.loads(inserted.stdout)["rows_inserted"] == 3
    ordered = run("cluster", path, "--hoodie", f"{PLAN}.sort.columns=ts", "--output", "json")
    assert json.loads(ordered.stdout)["rows"] == 6
    deleted = run("delete", path, 1, *by_name(index__type="GLOBAL_SIMPLE"))
    assert deleted.exit_code == 0, deleted.output
    kept = HudiTable.open(path).scan(columns=["id"])["id"].to_pylist()
    assert sorted(kept) == [2, 2, 3, 3]


def test_flags_and_options_that_agree_or_are_of_other_things(table: Path, file: Path) -> None:
    words = ["--index", "bloom", "--retain-commits", 7, "--memory", "1GB"]
    said = by_name(index__type="BLOOM", clean__commits__retained=7, metrics__on="true")
    done = run("upsert", table, file, *words, *said)
    assert done.exit_code == 0, done.output
    assert run("upsert", table, file, *by_name(index__type="SIMPLE")).exit_code == 0


CREATE = ("create", "NEW", "--like", "FILE", "--key", "id")
CONTRADICTIONS: dict[str, tuple[tuple[object, ...], str]] = {
    "version": ((*CREATE, "--table-version", 9, *by_name(table__version=8)),
                "--table-version is 9, but --hoodie says 8 in hoodie.table.version"),
    "key": ((*CREATE, "--hoodie", f"{WRITE}.recordkey.field=ts"),
            r"--key is ('id',), but --hoodie says ('ts',) in hoodie.datasource.write.recordkey"),
    "index": (("upsert", "TABLE", "FILE", "--index", "bloom", *by_name(index__type="SIMPLE")),
              "--index is 'bloom', but --hoodie says 'simple' in hoodie.index.type"),
    "retries": (("delete", "TABLE", 1, "--retries", 10,
                 *by_name(write__num__retries__on__conflict__failures=3)),
                "--retries is 10, but --hoodie says 3"),
    "clean": (("upsert", "TABLE", "FILE", "--retain-commits", 5,
               *by_name(clean__commits__retained=7)),
              "--retain-commits is 5, but --hoodie says 7 in hoodie.clean.commits.retained"),
    "services": (("upsert", "TABLE", "FILE", "--archive",
                  *by_name(table__services__enabled="false")),
                 "--archive is True, but --hoodie says False in hoodie.table.services.enabled"),
    "mapping": (("cluster", "TABLE", "--by", "ts", "--mapping", "sample",
                 *by_name(layout__optimize__curve__build__method="direct")),
                "--mapping is 'sample', but --hoodie says 'value'"),
    "size": (("cluster", "TABLE", "--by", "ts", "--target-file-size", "120MiB",
              "--hoodie", f"{PLAN}.target.file.max.bytes=7"),
             "--target-file-size is 125829120, but --hoodie says 7"),
    "operation": (("upsert", "TABLE", "FILE", "--operation", "upsert",
                   "--hoodie", f"{WRITE}.operation=insert"),
                  "--hoodie: hoodie.datasource.write.operation is 'insert', but this is upsert"),
}  # fmt: skip


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_flag_that_is_its_default_counts(
    tmp_path: Path, table: Path, file: Path, what: str
) -> None:
    words, message = CONTRADICTIONS[what]
    places: dict[object, object] = {"NEW": tmp_path / "new", "TABLE": table, "FILE": file}
    refused = run(*(places.get(one, one) for one in words))
    assert (refused.exit_code, message in refused.stderr) == (2, True), refused.output
    assert len(HudiTable.open(table).timeline()) == 1
    assert not (tmp_path / "new").exists()


WRONG: dict[str, tuple[list[str], str]] = {
    "no value": (["--hoodie", f"{NAME}.index.type"], "give NAME=VALUE, such as hoodie.index.type"),
    "another name": (["--hoodie", "index=bloom"], "'index=bloom': give NAME=VALUE"),
    "twice": ([*by_name(index__type="BLOOM"), *by_name(index__type="SIMPLE")], "give it once"),
    "unknown": (by_name(index__types="BLOOM"),
                f"--hoodie: unknown names '{NAME}.index.types' (nearest: hoodie.index.type)"),
    "sync": (by_name(datasource__hive_sync__enable="true"),
             f"{NAME}.datasource.hive_sync.enable is 'true'; supported: false; run Hudi's"),
    "lock": (by_name(write__lock__zookeeper__url="zk"), "and give --lock external"),
    "clean": (by_name(clean__async="true"), "run 'lookupstore hudi clean' in a process of its own"),
    "index": (by_name(index__class="a.B"), "give --index package.module.Class instead"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_told_in_words_of_a_shell(table: Path, file: Path, what: str) -> None:
    words, message = WRONG[what]
    refused = run("upsert", table, file, *words)
    assert (refused.exit_code, message in refused.stderr) == (2, True), refused.output


def test_what_has_to_be_given_somewhere(table: Path, tmp_path: Path, file: Path) -> None:
    refused = run("create", tmp_path / "new", "--like", file)
    assert (refused.exit_code, "--key is not given: give the" in refused.stderr) == (2, True)
    refused = run("cluster", table)
    assert (refused.exit_code, "--by is not given: give the" in refused.stderr) == (2, True)
