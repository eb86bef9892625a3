"""Wrong values of the variables that `docs/reference/environment.md` lists."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import click.testing
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore.cli import main
from lookupstore.hudi import HudiTable

ROOT = Path(lookupstore.__file__).parent
PAGE = ROOT.parent / "docs" / "reference" / "environment.md"
WRONG = {
    "LOOKUPSTORE_CACHE_BYTES": {
        "abc": "LOOKUPSTORE_CACHE_BYTES is 'abc'; give bytes, or a size such as 512MiB or 1GB",
        "-1": "LOOKUPSTORE_CACHE_BYTES is '-1'; give bytes, or a size such as 512MiB or 1GB",
        "0": "LOOKUPSTORE_CACHE_BYTES is '0'; give at least 1 bytes",
    },
    "LOOKUPSTORE_CACHE_SHARED": {"yes": "LOOKUPSTORE_CACHE_SHARED is 'yes'; give 1 or 0"},
}
COMMANDS = [
    "build rows.parquet new --key id",
    "build rows.parquet store --key id --overwrite",
    "follow table new --key id",
    "follow table follows --key id --overwrite",
    "sync follows",
    "upsert store rows.parquet",
    "upsert store --deletes rows.parquet",
    "compact store",
    "changes store",
    "publish store new",
    "get store 1",
    "get rows.parquet 1 --key id",
    "scan store",
    "head store",
    "join rows.parquet store --on id",
    "info store",
    "verify store",
    "warm store",
    "publish-lookup-files rows.parquet --key id",
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, line.split())


def make() -> None:
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    pq.write_table(rows, "rows.parquet")
    lookupstore.build(rows, "store", key="id").close()
    HudiTable.create("table", rows, record_key="id", name="t").insert(rows)
    lookupstore.follow("table", "follows", key="id").close()


def files() -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in Path().rglob("*")}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_an_error_before_anything_is_written(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that fails when its store is complete would have to be made again."""
    make()
    before = files()
    for value, said in WRONG[name].items():
        monkeypatch.setenv(name, value)
        for line in COMMANDS:
            result = run(line)
            assert (result.exit_code, result.stdout) == (2, ""), line
            assert result.stderr == f"Error: {said}\n", line
            assert files() == before, line
        result = run("doctor --output json")
        found = {one["what"]: one for one in json.loads(result.stdout)}["cache folder"]
        assert (result.exit_code, found["verdict"], found["found"]) == (1, "error", said)


def test_a_folder_that_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only commands that make files in it need the folder."""
    make()
    Path("file").write_text("")
    monkeypatch.setenv("LOOKUPSTORE_CACHE", os.path.abspath("file"))
    for line in ("build rows.parquet new --key id", "get store 1", "sync follows"):
        assert run(line).exit_code == 0, line
    assert run("doctor").exit_code == 1
    with (
        lookupstore.columnar.ColumnarFiles("rows.parquet", key="id", build="always") as lookups,
        pytest.raises(OSError, match="set LOOKUPSTORE_CACHE to a writable folder"),
    ):
        lookups.get(1)


def test_the_page_has_all_variables() -> None:
    known = {
        name
        for path in ROOT.rglob("*.py")
        for name in re.findall(r"\bLOOKUPSTORE_[A-Z_]+[A-Z]\b", path.read_text())
    }
    documented = re.findall(r"^\| `(LOOKUPSTORE_[A-Z_]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert known == {*documented} == {"LOOKUPSTORE_CACHE", *WRONG}
