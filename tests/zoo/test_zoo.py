"""`make zoo`: the verdicts on real files, and that each wrong answer has its verdict."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from zoo import faulty_workers, finding, make, run, workers
from zoo.comparing import difference
from zoo.examination import Examination
from zoo.finding import Specimen, specimens
from zoo.meaning import Unlike, meaning
from zoo.sample_columns import columns
from zoo.values import rows_of, values

import lookupstore
from lookupstore.errors import CorruptionError, FormatError

GOLDEN = Path(__file__).resolve().parents[1] / "golden"

# What comes of the files that other programs wrote; `damaged` and worse are faults of this project.
SOURCES = {
    "bloom-header-short.parquet": "same",
    "empty-group.parquet": "same",
    "encrypted.parquet": "refused",
    "far-timestamps.orc": "refused",
    "int96-of-spark.parquet": "same",
    "old-days-of-spark.orc": "refused",
    "parquet-mr-1.2.5.parquet": "same",
    "photon-footer-extension.parquet": "same",
    "spark-encoding-minus-1.orc": "same",
    "writer-in-shanghai.orc": "same",
}
TABLES = {
    "delta/column-mapping.zip": "same",
    "delta/deletion-vectors.zip": "same",
    "hudi/hudi-rs/v6_nonpartitioned.zip": "same",
    "hudi/hudi-rs/v8_nonpartitioned.zip": "same",
    "hudi/hudi-rs/v9_txns_simple_nometa.zip": "same",
    # Without pypaimon no key is known to be unique, and rows of a table have no first one.
    "paimon/tables/replaced-row.zip": "refused",
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))


def verdict(specimen: Specimen, scratch: Path) -> dict[str, Any]:
    scratch.mkdir(parents=True, exist_ok=True)
    return Examination(specimen, scratch, lambda stage: None, {}).run()


@pytest.mark.few(4)
@pytest.mark.parametrize("name", SOURCES)
def test_files_of_other_programs(name: str, tmp_path: Path) -> None:
    if name.endswith(".orc"):
        pytest.importorskip("pyorc")  # in the extra `zoo`; it decides what is right in ORC
    path = GOLDEN / "sources" / name
    kind = finding.file_kind(path)
    assert kind is not None
    outcome = verdict(Specimen(name, str(path), kind), tmp_path)
    assert (outcome["verdict"], outcome["says"]) == (SOURCES[name], outcome["says"])


@pytest.mark.few(2)
@pytest.mark.parametrize("name", TABLES)
def test_tables_of_other_programs(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(GOLDEN / name) as archive:
        archive.extractall(tmp_path / "unpacked")
    shutil.rmtree(tmp_path / "unpacked" / "__MACOSX", ignore_errors=True)
    (specimen,) = specimens(tmp_path / "unpacked", tmp_path)
    outcome = verdict(specimen, tmp_path / "scratch")
    assert (outcome["verdict"], outcome["says"]) == (TABLES[name], outcome["says"])


def test_what_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a" / "part-0")
    shutil.copy(tmp_path / "a" / "part-0", tmp_path / "a" / "_metadata")
    (tmp_path / "b.csv.gz").write_bytes(b"")
    (tmp_path / "c.txt").write_text("id\n1\n")
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    (tmp_path / "delta" / "_delta_log" / "0.json").write_text("{}")
    (tmp_path / "paimon" / "schema").mkdir(parents=True)
    (tmp_path / "paimon" / "schema" / "schema-0").write_text("{}")
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.write(tmp_path / "a" / "part-0", "inside/x.parquet")
    found = specimens(tmp_path, tmp_path.parent / f"{tmp_path.name}-scratch")
    assert {one.name: one.kind for one in found} == {
        "a/part-0": finding.PARQUET,
        "b.csv.gz": finding.CSV,
        "d.zip/inside/x.parquet": finding.PARQUET,
        "delta": finding.DELTA,
        "paimon": finding.PAIMON,
    }


def parquet(tmp_path: Path, table: pa.Table) -> Specimen:
    pq.write_table(table, tmp_path / "users.parquet")
    return Specimen("users.parquet", str(tmp_path / "users.parquet"), finding.PARQUET)


USERS = pa.table({"id": [2, 1, 3], "name": ["b", "a", None], "score": [0.5, -0.0, 1.5]})


def test_a_table_that_is_the_same(tmp_path: Path) -> None:
    outcome = verdict(parquet(tmp_path, USERS), tmp_path / "scratch")
    assert (outcome["verdict"], outcome["says"], outcome["key"]) == ("same", "", ["id"])


def test_keys_that_repeat(tmp_path: Path) -> None:
    rows = pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "c": [[1], [2], [3]]})
    outcome = verdict(parquet(tmp_path, rows), tmp_path / "scratch")
    assert (outcome["verdict"], outcome["key"]) == ("same", ["a", "b"])
    outcome = verdict(parquet(tmp_path, rows.drop_columns("b")), tmp_path / "scratch")
    assert (outcome["verdict"], outcome["key"]) == ("same", ["a"])
    outcome = verdict(parquet(tmp_path, rows.select(["c"])), tmp_path / "scratch")
    assert (outcome["verdict"], outcome["key"]) == ("same", [])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (USERS.set_column(1, "name", pa.array(["b", "x", None])), "column 'name', row 0: 'a'"),
        (USERS.set_column(1, "name", pa.array([b"b", b"a", None])), "is text by pyarrow, binary"),
        (USERS.set_column(2, "score", pa.array([0.5, 0.0, 1.5])), "'-0.0' by pyarrow, 0.0"),
        (USERS.slice(0, 2), "pyarrow reads the key (3,), which is not there"),
        (USERS.set_column(0, "id", pa.array([2, 1, 4])), "the key (4,), which pyarrow does not"),
        (USERS.rename_columns(["id", "n", "score"]), "columns ['id', 'n', 'score']"),
    ],
    ids=["value", "type", "zero", "row", "key", "name"],
)
def test_what_differs(
    wrong: pa.Table, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specimen, build = parquet(tmp_path, USERS), lookupstore.build
    monkeypatch.setattr(lookupstore, "build", lambda source, *a, **k: build(wrong, *a, **k))
    outcome = verdict(specimen, tmp_path / "scratch")
    assert outcome["verdict"] == "different"
    assert says in outcome["says"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CorruptionError("users.parquet", 4, "a page", "none"), "suspicious"),
        (FormatError("users.parquet: 'name' is a thing; write it as text"), "refused"),
        (ValueError("no"), "refused"),
        (pa.ArrowInvalid("no"), "crash"),
        (OSError("no"), "crash"),
        (AssertionError("no"), "crash"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else one,
)
def test_errors(
    error: Exception, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*given: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(lookupstore, "build", build)
    outcome = verdict(parquet(tmp_path, USERS), tmp_path / "scratch")
    assert outcome["verdict"] == expected
    if expected == "refused":
        named = isinstance(error, FormatError)
        assert outcome["lacks"] == ([] if named else ["file", "column", "remedy"])


def test_damage(tmp_path: Path) -> None:
    specimen = parquet(tmp_path, USERS)
    content = Path(specimen.path).read_bytes()
    Path(specimen.path).write_bytes(content[: len(content) // 2])
    outcome = verdict(specimen, tmp_path / "scratch")
    assert outcome["verdict"] == "damaged"
    assert all(outcome["readers"].values())


def test_lookups_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = lookupstore.ColumnarFiles.lookup

    def wrong(files: Any, keys: Any, *given: Any, **options: Any) -> pa.Table:
        answer = lookup(files, keys, *given, **options)
        return answer.set_column(0, "name", pa.nulls(answer.num_rows, pa.string()))

    monkeypatch.setattr(lookupstore.ColumnarFiles, "lookup", wrong)
    outcome = verdict(parquet(tmp_path, USERS), tmp_path / "scratch")
    assert outcome["verdict"] == "different"
    assert outcome["says"].startswith("ColumnarFiles(build='never'): column 'name', row ")


# A child of fork can wait for ever for a lock that a thread of this process held: workers are new
# processes, as they are in `make zoo`.
def test_aborts_and_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "work", faulty_workers.work_of_crashes)
    names = ["abort", "fine", "hang", "fine"]
    found = [Specimen(name, name, finding.CSV) for name in names]
    outcomes = workers.examine_all(found, 1, 3, lambda _: None)
    assert [one["verdict"] for one in outcomes] == ["crash", "same", "crash", "same"]
    assert outcomes[0]["says"] == "build: the process ended with SIGABRT"
    assert outcomes[2]["says"] == "build: 3 s and no end"


def test_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, report = tmp_path / "folder", tmp_path / "report.json"
    folder.mkdir()
    (folder / "fine.csv").write_text("id,name\n1,a\n2,b\n")
    arguments = [str(folder), "--json", str(report), "--processes", "1"]
    assert run.main(arguments) == 0
    (folder / "wrong.csv").write_text("id,name\n1,a\n2,c\n")
    monkeypatch.setattr(workers, "work", faulty_workers.work_that_reads_wrong)
    assert run.main(arguments) == 1
    printed = capsys.readouterr().out
    assert "wrong.csv" in printed
    told = {one["name"]: one["verdict"] for one in json.loads(report.read_text())}
    assert told == {"fine.csv": "same", "wrong.csv": "different"}
    with pytest.raises(SystemExit):
        run.main([str(folder), "--only", "no such file"])


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in make.MAKERS if name != "spark"])
def test_makers(name: str, tmp_path: Path) -> None:
    if name in ("fastparquet", "pyorc"):
        pytest.importorskip(name)
    # In a process of its own: what writers warn of is theirs.
    line = [sys.executable, Path(make.__file__), tmp_path, "--only", name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run(line, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found = specimens(tmp_path, tmp_path / "scratch")
    made = re.match(rf"{name}: (\d+) files and tables, (\d+) not written", printed.stdout)
    assert made is not None
    assert len(found) >= int(made[1]) > 30
    assert int(made[2]) < int(made[1]) / 4


def test_values_of_all_types() -> None:
    for name, column in columns().items():
        array = column()
        whole = values(array)
        assert len(whole) == len(array), name
        assert values(array.slice(1, 5)) == whole[1:6], name
        hash(tuple(whole))


def test_values_are_exact() -> None:
    def differ(one: pa.Array, other: pa.Array) -> str | None:
        return difference(rows_of(pa.table({"x": one})), rows_of(pa.table({"x": other})), "a", "b")

    utc, here = pa.timestamp("us", "UTC"), pa.timestamp("ms", "America/New_York")
    assert differ(pa.array([1_000_000], utc), pa.array([1000], here)) is None
    assert differ(pa.array([1], pa.timestamp("us")), pa.array([1], utc)) is not None
    assert (
        differ(
            pa.array(["1.50"]).cast(pa.decimal128(5, 2)),
            pa.array(["1.5"]).cast(pa.decimal128(3, 1)),
        )
        is None
    )
    assert differ(pa.array([float("nan")]), pa.array([float("nan")])) is None
    assert differ(pa.array([0.0]), pa.array([-0.0])) is not None
    assert differ(pa.array([1]), pa.array([1.0])) is not None
    assert differ(pa.array([2**63 - 1]), pa.array([2**63 - 2])) is not None
    assert differ(pa.array(["a"]), pa.array(["a"]).dictionary_encode()) is None
    assert differ(pa.array([1, 2]), pa.array([1])) == "2 rows by a, 1 by b"
    assert differ(pa.array([True]), pa.array([1])) is not None
    assert differ(pa.array([1], pa.date32()), pa.array([86_400_000], pa.date64())) is None
    one, other = (rows_of(pa.table({"x": [zero]})) for zero in (0.0, -0.0))
    assert difference(one, other, "a", "b", keys=["x"]) is None
    one, other = (rows_of(pa.table({name: [1]})) for name in "xy")
    assert difference(one, other, "a", "b") == "columns ['x'] by a, ['y'] by b"
    two, swapped = (rows_of(pa.table({name: [name] for name in names})) for names in ("xy", "yx"))
    assert difference(two, swapped, "a", "b") is None


def test_meanings_of_text() -> None:
    assert meaning("007", pa.int64()) == Unlike("007")
    assert meaning("-7", pa.int64()) == -7
    assert meaning("9007199254740993", pa.float64()) == Unlike("9007199254740993")
    assert meaning(2**64, pa.float64()) == 1.8446744073709552e19
    assert meaning(2**64 + 1, pa.float64()) == Unlike(2**64 + 1)
    assert meaning("1970-01-02", pa.date32()) == 1
    assert meaning("1970-01-01 01:00:00.5+01:00", pa.timestamp("us", "UTC")) == 500_000_000
    assert meaning("1970-01-01 00:00:00-01:00", pa.timestamp("us", "UTC")) == 3_600_000_000_000
    assert meaning(True, pa.int64()) == Unlike(True)
    assert meaning(True, pa.bool_()) is True
    assert meaning("1970-01-01 00:00:01", pa.timestamp("us")) == 1_000_000_000
    assert meaning("1970-01-01 00:00:01", pa.timestamp("us", "UTC")) == Unlike(
        "1970-01-01 00:00:01"
    )
    struct = pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())})
    assert meaning({"b": ["x", None]}, struct) == (("a", None), ("b", ("x", None)))
    assert meaning({"c": 1}, struct) == Unlike("{'c': 1}")
