"""What is wrong with a file of very many columns is said in few words."""

from __future__ import annotations

import json
from pathlib import Path

import click.testing
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.errors import listed
from lookupstore.source.opening import open_source

NAMES = [f"column_{i}" for i in range(500)]
# More than this, nobody reads.
MOST = 2_000


def test_a_key_of_a_csv_of_very_many_columns(tmp_path: Path) -> None:
    names = [f"column_{i}" for i in range(200_000)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n")
    result = click.testing.CliRunner().invoke(
        main, ["build", f"{tmp_path}/a.csv", f"{tmp_path}/store", "--key", "id"]
    )
    assert result.exit_code == 2
    assert "no column 'id'" in result.stderr
    assert "'column_19' and 199,980 more" in result.stderr
    assert len(result.stderr) < MOST


@pytest.mark.parametrize("words", [
    "build wide.csv new --key id",
    "build wide.csv new --key column_1 --columns id",
    "upsert store --deletes wide.csv",
    "upsert wide-store --rule id:sum wide.csv",
    "upsert wide-store --sequence id wide.csv",
    "upsert wide-store other.csv",
    "get store --keys wide.csv",
    "get store --keys wide.parquet",
    "get wide.parquet --key id 1",
    "get wide.parquet --key column_1 1 --columns id",
    "get wide-store 1 --columns id",
    "join wide.csv store --on id",
    "join wide.csv wide-store --on column_1",
    "publish-lookup-files wide.parquet --key id",
    "hudi create table --like wide.parquet --key id",
])  # fmt: skip
def test_no_error_lists_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: Path, words: str
) -> None:
    monkeypatch.chdir(wide)
    monkeypatch.setenv("HOME", str(tmp_path))
    result = click.testing.CliRunner().invoke(main, words.split())
    assert result.exit_code == 2, result.output
    assert "more" in result.stderr
    assert len(result.stderr) < MOST


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    table = pa.table({name: [1] for name in NAMES})
    pq.write_table(table, folder / "wide.parquet")
    (folder / "wide.csv").write_text(",".join(NAMES) + "\n" + ",".join("1" * len(NAMES)) + "\n")
    (folder / "other.csv").write_text("column_1,other\n1,2\n")
    lookupstore.build({"id": [1], "v": [2]}, folder / "store", key="id").close()
    lookupstore.build(table, folder / "wide-store", key="column_1").close()
    return folder


def test_errors_of_rows(tmp_path: Path) -> None:
    lines = [dict.fromkeys(NAMES, 1), dict.fromkeys([*NAMES, "more"], 1)]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(lines[0]) + "\n" * 1_200_000 + json.dumps(lines[1]) + "\n")
    opened = open_source(path)
    with pytest.raises(ValueError, match=r"unexpected field: row 2, column 'more'.*480 more") as of:
        list(opened.batches(["column_1"]))
    assert len(str(of.value)) < MOST
    (tmp_path / "twice.csv").write_text(",".join(NAMES * 2) + "\n")
    with pytest.raises(ValueError, match=r"names columns twice: column_0.* and 480 more") as of:
        open_source(tmp_path / "twice.csv")
    assert len(str(of.value)) < MOST


def test_names_are_cut() -> None:
    assert listed([]) == ""
    assert listed(NAMES[:20]) == ", ".join(map(repr, NAMES[:20]))
    assert listed(NAMES[:21]).endswith("'column_19' and 1 more")
    assert listed(["x" * 1000]) == "'" + "x" * 99 + "..."
