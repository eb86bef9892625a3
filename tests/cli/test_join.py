"""`join`: rows of files beside columns of a store, against Arrow's own join."""

from __future__ import annotations

import json
import random
from pathlib import Path

import click.testing
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.sst import Writer

HOWS = {"left": "left outer", "inner": "inner", "semi": "left semi", "anti": "left anti"}


def run(*words: object) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def facts(tmp_path: Path, seed: int) -> pa.Table:
    rng = random.Random(seed)
    table = pa.table(
        {
            "row": list(range(5000)),
            "plane": [rng.choice([None, *range(200)]) for _ in range(5000)],
        }
    )
    pq.write_table(table, tmp_path / "facts.parquet", row_group_size=700)
    return table


@pytest.fixture
def planes(tmp_path: Path) -> pa.Table:
    table = pa.table({"id": list(range(0, 200, 2)), "seats": [i / 4 for i in range(100)]})
    lookupstore.build(table, tmp_path / "store", key="id", buckets=2).close()
    pq.write_table(table, tmp_path / "planes.parquet")
    return table


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "json"])
def test_the_join_is_that_of_arrow(
    tmp_path: Path, facts: pa.Table, planes: pa.Table, how: str, ending: str
) -> None:
    out = tmp_path / f"out.{ending}"
    result = run(
        "join", tmp_path / "facts.parquet", tmp_path / "store", "--on", "plane=id", "--how", how,
        "-o", out,
    )  # fmt: skip
    assert (result.exit_code, result.output) == (0, "")
    if ending == "parquet":
        found = pq.read_table(out)
    elif ending == "arrow":
        with pa.ipc.open_file(out) as file:
            found = file.read_all()
    elif ending == "csv":
        found = pa_csv.read_csv(out)
    else:
        found = pa.Table.from_pylist([json.loads(line) for line in out.read_text().splitlines()])
    expected = facts.join(planes, "plane", "id", join_type=HOWS[how]).sort_by("row")
    assert found.select(expected.column_names).to_pylist() == expected.to_pylist()
    assert found["row"].to_pylist() == sorted(found["row"].to_pylist())


def test_names_and_columnar_files(tmp_path: Path, facts: pa.Table, planes: pa.Table) -> None:
    words = ["--on", "plane=id", "--prefix", "p_", "--found", "known", "--output", "json"]
    of_store = run("join", tmp_path / "facts.parquet", tmp_path / "store", *words)
    of_files = run(
        "join", tmp_path / "facts.parquet", tmp_path / "planes.parquet", "--key", "id", *words
    )
    assert of_store.exit_code == of_files.exit_code == 0
    assert of_store.output == of_files.output
    rows = [json.loads(line) for line in of_store.output.splitlines()]
    seats = dict(zip(planes["id"].to_pylist(), planes["seats"].to_pylist(), strict=True))
    assert rows == [
        {**fact, "p_seats": seats.get(fact["plane"]), "known": fact["plane"] in seats}
        for fact in facts.to_pylist()
    ]
    shown = run("join", tmp_path / "facts.parquet", tmp_path / "store", "--on", "plane=id")
    assert shown.exit_code == 0
    assert "first 50 rows; -o FILE has all" in shown.output


def test_what_cannot_be_joined(tmp_path: Path, facts: pa.Table, planes: pa.Table) -> None:
    given = tmp_path / "facts.parquet"
    store = tmp_path / "store"
    with Writer(tmp_path / "a.sst") as writer:
        writer.put(b"a", b"1")
    for words, said in (
        ([given, store, "--on", "plane"], "the store has no key column 'plane'"),
        ([given, store, "--on", "where=id"], "the facts have no column 'where'"),
        ([given, store, "--on", "plane=id", "--how", "anti", "--columns", "seats"], "adds no"),
        ([given, store, "--on", "plane=id", "-o", "x.txt"], "name a file"),
        ([given, store, "--on", "plane=id", "-o", "x.csv", "--output", "csv"], "-o, whose"),
        ([given, tmp_path / "a.sst", "--on", "plane=id"], "join with a store"),
        ([tmp_path / "none.parquet", store, "--on", "plane=id"], "none.parquet"),
    ):
        result = run("join", *words)
        assert result.exit_code in (1, 2)
        assert said in result.output, (words, result.output)
    assert not (tmp_path / "x.csv").exists()
