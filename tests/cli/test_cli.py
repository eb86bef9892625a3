"""The command line: what it prints, where, and its exit status."""

from __future__ import annotations

import csv
import datetime
import errno
import json
import os
import random
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import click.testing
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import lookupstore
from lookupstore import progress
from lookupstore.builder import bucket_count
from lookupstore.cli import main, opened
from lookupstore.cli.key_text import parse_bound, parse_keys
from lookupstore.cli.output import TABLE_ROWS, limited
from lookupstore.hostcache import stats
from lookupstore.hostcache.counts import Counts
from lookupstore.hudi import HudiTable
from lookupstore.sst import Reader, Writer
from lookupstore.storage.local import LocalFolder
from lookupstore.storage.location import Location
from lookupstore.store.version_files import read_newest

PEOPLE = pa.table(
    {
        "region": ["eu", "us", "eu", "a,b"],
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "name": ["Ada", None, "Zoë", "[red]Bob[/red]"],
        "seen": pa.array([0, 1, None, 3], pa.timestamp("ns")),
        "raw": [b"x", b"\xff", b"", None],
    }
)


def run(*words: object) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(word) for word in words])


def command(words: Sequence[object], **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own."""
    root = str(Path(lookupstore.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-m", "lookupstore", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
        **options,  # type: ignore[call-overload]
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    lookupstore.build(PEOPLE, tmp_path / "people", key=["region", "id"]).close()
    return tmp_path / "people"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with Writer(tmp_path / "file.sst") as writer:
        writer.put_many([b"a", b"b\xff", b"c"], [b"1", b"\x00\x01", b"3"])
    return tmp_path / "file.sst"


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    with Writer(tmp_path / "numbers.sst", dialect="paimon", order="int32") as writer:
        for number in (-5, 0, 256):
            writer.put(number.to_bytes(4, "little", signed=True), str(number).encode())
    return tmp_path / "numbers.sst"


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


# ---- build


def test_build_from_parquet(tmp_path: Path) -> None:
    pq.write_table(PEOPLE.slice(0, 2), tmp_path / "1.parquet")
    pq.write_table(PEOPLE.slice(2), tmp_path / "2.parquet")
    result = run(
        *("build", tmp_path / "1.parquet", tmp_path / "2.parquet", tmp_path / "people"),
        *("--key", "region,id", "--columns", "name", "--buckets", 3, "--compression", "none"),
        *("--memory", "1MiB", "--output", "json"),
    )
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["key"] == {"region": "string", "id": "int32"}
    assert told["values"] == {"name": "string"}
    assert (told["num_rows"], told["buckets"]) == (4, 3)
    assert told["options"]["compression"] == "none"
    sizes = [(tmp_path / f"{i}.parquet").stat().st_size for i in (1, 2)]
    data = (tmp_path / "people" / "data").glob("*.sst")
    assert told["source_bytes"] == sum(sizes)
    assert told["bytes"] == sum(path.stat().st_size for path in data)
    with lookupstore.open(tmp_path / "people") as opened:
        assert opened.get(("eu", 3)) == {"name": "Zoë"}
    again = ("build", tmp_path / "1.parquet", tmp_path / "people", "--key", "id")
    refused = run(*again)
    assert refused.exit_code == 2
    assert "pass --overwrite to replace it" in refused.stderr
    refused = run(*again, "--overwrite")
    assert "pass --allow-new-key" in refused.stderr
    replaced = run(*again, "--overwrite", "--allow-new-key")
    assert replaced.exit_code == 0
    assert re.search(r"num_rows +│ 2 ", replaced.stdout)
    source = f"{sizes[0] / 1000:.1f} kB" if sizes[0] >= 1000 else f"{sizes[0]} bytes"
    assert re.search(rf"size +│ [0-9.]+ (kB|bytes), from {source} of source files", replaced.stdout)


def test_get_from_files_with_repeated_keys(tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    words = ("get", tmp_path / "people.parquet", "eu", "--key", "region", "--columns", "id")
    refused = run(*words, "--output", "json")
    assert "pass --on-duplicate first or last to choose the row" in " ".join(refused.stderr.split())
    assert "ColumnarFiles" not in refused.stderr
    for rule, kept in (("first", 1), ("last", 3)):
        got = run(*words, "--on-duplicate", rule, "--output", "json")
        assert json.loads(got.stdout) == {"region": "eu", "id": kept}


@pytest.mark.parametrize(("rule", "kept"), [("first", 1), ("last", 3), ("max:id", 3)])
def test_build_with_repeated_keys(rule: str, kept: int, tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    words = ("build", tmp_path / "people.parquet", tmp_path / "store", "--key", "region")
    refused = run(*words)
    assert refused.exit_code == 2
    assert "region='eu'" in refused.stderr
    assert "pass --on-duplicate first, last or max:COLUMN" in refused.stderr
    assert not (tmp_path / "store").exists()
    assert run(*words, "--on-duplicate", rule).exit_code == 0
    got = run("get", tmp_path / "store", "eu", "--columns", "id", "--output", "json")
    assert json.loads(got.stdout) == {"region": "eu", "id": kept}


def test_build_with_null_keys(tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    words = ("build", tmp_path / "people.parquet", tmp_path / "store", "--key", "name")
    refused = run(*words)
    assert refused.exit_code == 2
    assert "pass --nullable-keys name to store null keys" in refused.stderr
    assert run(*words, "--nullable-keys", "name").exit_code == 0
    got = run("get", tmp_path / "store", r"\N", "--columns", "id", "--output", "json")
    assert json.loads(got.stdout) == {"name": None, "id": 2}


def test_a_build_chooses_the_number_of_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_count, "FILE_BYTES", 8_000)
    rows = "".join(f"{i},name of {i:020d}\n" for i in range(2000))
    (tmp_path / "rows.csv").write_text("id,name\n" + rows)
    words = ["build", tmp_path / "rows.csv", tmp_path / "s", "--key", "id", "--output", "json"]
    assert 6 <= json.loads(run(*words).stdout)["buckets"] <= 20
    again = json.loads(run(*words, "--overwrite", "--buckets", 3).stdout)
    assert (again["buckets"], again["num_rows"]) == (3, 2000)
    assert json.loads(run(*words, "--overwrite").stdout)["buckets"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--key", "nope"], "the source has no column 'nope'"),
        (["--key", "id", "--memory", "much"], "--memory is 'much'; give bytes, or a size"),
        (["--key", "id", "--memory", "1"], "give at least"),
        (["--key", "id", "--on-duplicate", "max"], "give error, first, last or max:COLUMN"),
        (["--key", "id", "--buckets", "0"], "'--buckets'"),
        (["--key", "id", "--compression", "zip"], "'zip' is not one of 'none', 'zstd', 'lz4'"),
        ([], "Missing option '--key'"),
    ],
)
def test_build_refuses(options: list[str], message: str, tmp_path: Path) -> None:
    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    result = run("build", tmp_path / "people.parquet", tmp_path / "store", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert_one_line(result.stderr)
    assert not (tmp_path / "store").exists()


def assert_one_line(errors: str) -> None:
    assert errors.startswith("Error: ")
    assert errors.count("\n") == 1


# ---- get


def test_get_from_a_store(store: Path) -> None:
    result = run("get", store, "eu,1", "us,9", '"a,b",4')
    assert result.exit_code == 1
    assert result.stderr == f"Error: {store}: no key 'us,9'\n"
    assert (
        "│ eu     │  1 │ Ada            │ 1970-01-01 00:00:00           │ 'x'  │" in result.stdout
    )
    assert (
        "│ a,b    │  4 │ [red]Bob[/red] │ 1970-01-01 00:00:00.000000003 │ null │" in result.stdout
    )
    assert "us" not in result.stdout


def test_get_as_json_has_a_line_a_key(store: Path) -> None:
    result = run("get", store, "us,9", "us,2", "eu,3", "--output", "json")
    assert result.exit_code == 1
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        None,
        {"region": "us", "id": 2, "name": None, "seen": "1970-01-01T00:00:00.000000001",
         "raw": "0xff"},
        {"region": "eu", "id": 3, "name": "Zoë", "seen": None, "raw": "0x"},
    ]  # fmt: skip


def test_get_all_there(store: Path) -> None:
    result = run("get", store, "eu,3", "--columns", "name", "--output", "csv")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "region,id,name\neu,3,Zoë\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eu"], "key 'eu' has 1 of 2 fields; give all, separated by commas: region,id"),
        (["eu,1,2"], "has 3 of 2 fields"),
        (["eu,one"], "'one' is not int32, the type of the key field 'id'"),
        (["eu,99999999999"], "'99999999999' is not int32"),
        (["eu,null"], r"a whole number from -2147483648 to 2147483647 (null is \N)"),
        (["e\nu,2"], r"key 'e\nu,2' is not a line of CSV; put a field with a comma"),
        (['"eu,2'], "is not a line of CSV"),
        (["-5"], "put -- before keys that begin with a minus"),
        (["eu,1", "--columns", "nope"], "no value column 'nope'"),
        (
            ["eu,1", "--hex"],
            "--hex is for files, not stores (for bytes in a store's key, type 0x and hex digits)",
        ),
        (["eu,1", "--order", "int8"], "--order is for files, not stores"),
        ([], "Missing argument 'KEY...'"),
    ],
)
def test_get_refuses(words: list[str], message: str, store: Path) -> None:
    result = run("get", store, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert_one_line(result.stderr)


def test_get_from_a_file(file: Path) -> None:
    result = run("get", file, "c", "a", "--output", "json")
    assert result.exit_code == 0
    assert result.stdout == ('{"key": "0x63", "value": "0x33"}\n{"key": "0x61", "value": "0x31"}\n')
    pasted = run("get", file, "0x62ff", "--output", "json")
    assert json.loads(pasted.stdout) == {"key": "0x62ff", "value": "0x0001"}
    refused = run("get", file, "0xyz")
    assert refused.exit_code == 2
    assert "text that starts with 0x is 0x3078797a" in refused.stderr
    result = run("get", file, "--hex", "62ff", "0x63", "00", "--output", "csv")
    assert result.exit_code == 1
    assert result.stdout == "key,value\n62ff,0001\n63,33\n"
    assert result.stderr == f"Error: {file}: no key '00'\n"
    assert run("get", file, "--hex", "6").exit_code == 2
    refused = run("get", file, "a", "--columns", "x")
    assert refused.exit_code == 2
    assert "--columns is for stores" in refused.stderr


def test_get_from_a_file_of_numbers(numbers: Path) -> None:
    result = run("get", numbers, "--order", "int32", "--output", "json", "--", -5, 256, 7)
    assert result.exit_code == 1
    assert (
        result.stdout == '{"key": -5, "value": "0x2d35"}\n{"key": 256, "value": "0x323536"}\nnull\n'
    )
    refused = run("get", numbers, "--order", "int32", "x")
    assert refused.exit_code == 2
    assert "key 'x' is not a number of 32 bits" in refused.stderr


# ---- scan


def ids(result: click.testing.Result) -> list[int]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line)["id"] for line in result.stdout.splitlines()]


def test_scan_a_store(store: Path) -> None:
    def scan(*words: object) -> list[int]:
        return ids(run("scan", store, "--output", "json", *words))

    assert scan() == [4, 1, 3, 2]
    assert scan("--reverse") == [2, 3, 1, 4]
    assert scan("--prefix", "eu") == [1, 3]
    assert scan("--start", "eu,2") == [3, 2]
    assert scan("--start", "eu", "--stop", "eu,3") == [1]
    assert scan("--limit", 2) == [4, 1]
    assert scan("--limit", 0) == []
    assert scan("--starts-with", "e") == [1, 3]
    assert scan("--starts-with", "") == [4, 1, 3, 2]
    hinted = run("scan", store, "--prefix", "e", "--output", "json")
    assert (hinted.exit_code, hinted.stdout) == (0, "")
    assert "Warning: " in hinted.stderr
    assert "give --starts-with 'e'" in hinted.stderr
    refused = run("scan", store, "--prefix", "eu", "--starts-with", "1")
    assert refused.exit_code == 2
    assert "only text and bytes begin with something; give --prefix whole values" in refused.stderr
    assert run("scan", store, "--prefix", "eu", "--start", "eu").exit_code == 2
    assert run("scan", store, "--start", "eu,1,1").exit_code == 2


def test_a_limit_leaves_the_rest_unread() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            assert number < 2
            yield pa.RecordBatch.from_pydict({"id": range(10 * number, 10 * number + 10)})

    found = pa.Table.from_batches(limited(batches(), 12))
    assert found["id"].to_pylist() == list(range(12))
    assert sum(batch.num_rows for batch in limited(batches(), 20)) == 20


def test_bytes_are_one_form_that_is_a_key_again(tmp_path: Path) -> None:
    kinds = {
        "a": pa.binary(),
        "b": pa.binary(2),
        "c": pa.large_binary(),
        "d": pa.dictionary(pa.int8(), pa.binary()),
        "e": pa.binary_view(),
    }
    stored = [b"ab", b"\x00\xff"]
    table = pa.table({name: pa.array(stored, kind) for name, kind in kinds.items()})
    lookupstore.build(table, tmp_path / "store", key="a").close()
    scanned = run("scan", tmp_path / "store", "--output", "json")
    rows = [json.loads(line) for line in scanned.stdout.splitlines()]
    assert rows == [dict.fromkeys(kinds, "0x00ff"), dict.fromkeys(kinds, "0x6162")]
    shown = run("get", tmp_path / "store", *(row["a"] for row in rows), "--output", "csv")
    assert shown.exit_code == 0, shown.stderr
    lines = ["a,b,c,d,e", ",".join(["0x00ff"] * 5), ",".join(["0x6162"] * 5)]
    assert shown.stdout == "\n".join(lines) + "\n"


def test_json_times_are_alike_in_every_unit(tmp_path: Path) -> None:
    whole, part = 1_357_000_000_000_000_000, 1_357_000_000_500_000_000
    expected = {
        None: ["2013-01-01T00:26:40", "2013-01-01T00:26:40.500000"],
        "UTC": ["2013-01-01T00:26:40+00:00", "2013-01-01T00:26:40.500000+00:00"],
        "Asia/Kolkata": ["2013-01-01T05:56:40+05:30", "2013-01-01T05:56:40.500000+05:30"],
    }
    columns, wanted = {"id": pa.array([0, 1, 2])}, {}
    for unit in ("ms", "us", "ns"):
        for zone, forms in expected.items():
            name = f"{unit} {zone}"
            times = pa.array([whole, part, None], pa.timestamp("ns", zone))
            columns[name] = times.cast(pa.timestamp(unit, zone))
            wanted[name] = [*forms, None]
        length = pa.array([1_500_000_000, 0, None], pa.duration("ns"))
        columns[unit] = length.cast(pa.duration(unit))
        wanted[unit] = [1.5, 0.0, None]
    columns["time"] = pa.array([10**9, 10**9 + 1, None], pa.time64("ns"))
    wanted["time"] = ["00:00:01", "00:00:01.000000001", None]
    lookupstore.build(pa.table(columns), tmp_path / "store", key="id").close()
    lines = run("scan", tmp_path / "store", "--output", "json").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    for name, values in wanted.items():
        assert [row[name] for row in found] == values, name
    zoned = pa.schema([("k", pa.timestamp("ns", "Asia/Kolkata"))])
    assert parse_keys([wanted["ns Asia/Kolkata"][0]], zoned)["k"].cast("int64").to_pylist() == [
        whole
    ]


def test_keys_that_are_missing_are_told_apart(store: Path) -> None:
    result = run("get", store, "us,9", "us,8", "us,9")
    assert (result.exit_code, result.stderr) == (1, f"Error: {store}: no key 'us,9', 'us,8'\n")
    lookupstore.build(pa.table({"k": ["a"]}), store.parent / "texts", key="k").close()
    result = run("get", store.parent / "texts", "a\nc")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.endswith(r"no key 'a\nc'" + "\n")
    pairs = pa.table({"zip": ["1", None], "city": ["a", None]})
    lookupstore.build(
        pairs, store.parent / "pairs", key=["zip", "city"], nullable_keys=["zip", "city"]
    ).close()
    for typed in (["52093,\\N", 'it\'s,"a, b"'], ["\\N,x"]):
        said = f"Error: {store.parent}/pairs: no key " + ", ".join(f"'{one}'" for one in typed)
        assert run("get", store.parent / "pairs", *typed).stderr == said + "\n"
    given = pa.table({"zip": ["1", "52093", None], "city": ["a", None, "a, b"]})
    pq.write_table(given, store.parent / "given.parquet")
    said = run("get", store.parent / "pairs", "--keys", store.parent / "given.parquet").stderr
    assert said.endswith(": 2 of 3 keys not found: '52093,\\N', '\\N,\"a, b\"'\n")


def test_a_prefix_is_whole_and_starts_with_is_not(tmp_path: Path) -> None:
    table = pa.table({"a": ["eu", "eu"], "b": ["xy", "z"]})
    lookupstore.build(table, tmp_path / "store", key=["a", "b"]).close()

    def count(*words: str) -> int:
        return run("scan", tmp_path / "store", *words, "--output", "csv").stdout.count("eu")

    assert [count("--prefix", prefix) for prefix in ("e", "eu", "eu,x", "eu,xy")] == [0, 2, 0, 1]
    assert [count("--starts-with", text) for text in ("e", "eu", "eux")] == [2, 2, 0]
    assert [count("--prefix", "eu", "--starts-with", text) for text in ("x", "", "y")] == [1, 2, 0]
    said = run("scan", tmp_path / "store", "--prefix", "eu,x").stderr
    assert "give --prefix 'eu' --starts-with 'x'" in said
    help_text = " ".join(run("scan", "--help").stdout.split())
    assert "Whole values of the first key fields." in help_text


def test_scan_gives_exact_arrow(store: Path) -> None:
    result = run("scan", store, "--columns", "raw,name", "--output", "arrow")
    found = pa.ipc.open_stream(result.stdout_bytes).read_all()
    with lookupstore.open(store) as opened:
        assert found.equals(opened.scan(columns=["raw", "name"]).read_all())


def test_scan_gives_csv_that_reads_back(store: Path) -> None:
    result = run("scan", store, "--columns", "name", "--output", "csv")
    found = pa_csv.read_csv(pa.BufferReader(result.stdout_bytes))
    assert found["name"].to_pylist()[:2] == ["[red]Bob[/red]", "Ada"]
    lookupstore.build(pa.table({"id": [1], "l": [[1]]}), store.parent / "lists", key="id").close()
    refused = run("scan", store.parent / "lists", "--output", "csv")
    assert refused.exit_code == 2
    assert "column 'l': CSV cannot hold list<item: int64>; choose" in refused.stderr
    assert refused.stdout == ""  # not even a header


def test_a_table_of_many_rows_is_cut_and_says_so(tmp_path: Path) -> None:
    many = pa.table({"id": range(1000)})
    lookupstore.build(many, tmp_path / "store", key="id").close()
    result = run("scan", tmp_path / "store")
    assert result.stdout.count("│\n") == TABLE_ROWS
    said = f"first {TABLE_ROWS} rows; --limit N shows more, and -o FILE writes all\n"
    assert result.stderr == said
    result = run("scan", tmp_path / "store", "--limit", 70)
    assert (result.stdout.count("│\n"), result.stderr) == (70, "")
    result = run("scan", tmp_path / "store", "--start", 950)
    assert (result.stdout.count("│\n"), result.stderr) == (50, "")
    assert len(run("scan", tmp_path / "store", "--output", "json").stdout.splitlines()) == 1000


def test_scan_a_file(file: Path, numbers: Path) -> None:
    result = run("scan", file, "--starts-with", "b", "--output", "json")
    assert json.loads(result.stdout) == {"key": "0x62ff", "value": "0x0001"}
    result = run("scan", file, "--start", "b", "--hex", "--output", "csv")
    assert result.exit_code == 2  # with --hex, bounds are in hex, too
    result = run("scan", file, "--start", "62", "--stop", "63", "--hex", "--output", "csv")
    assert result.stdout == "key,value\n62ff,0001\n"
    result = run("scan", numbers, "--order", "int32", "--reverse", "--output", "csv")
    assert result.stdout == "key,value\n256,0x323536\n0,0x30\n-5,0x2d35\n"
    assert "| none" not in run("scan", file, "--limit", 0).stdout


# ---- info, verify, dump


def test_info(store: Path, file: Path, numbers: Path) -> None:
    told = json.loads(run("info", store, "--output", "json").stdout)
    with lookupstore.open(store) as opened:
        assert told == json.loads(json.dumps(opened.info().to_json()))
    shown = run("info", store).stdout
    assert "seen: timestamp[ns]" in shown
    assert re.search(r"num_rows +│ 4 ", shown)
    assert json.loads(run("info", file, "--output", "json").stdout)["num_records"] == 3
    assert re.search(r"max_key +│ 256 ", run("info", numbers, "--order", "int32").stdout)


def test_info_says_what_joins_on_this_host_have_fetched(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    for version, nbytes in ((1, 700), (1, 70), (2, 7)):
        counts = Counts(rows=1, bytes_fetched=nbytes)
        stats.add(tmp_path / "cache", "app", "execution 1", str(store), version, counts)
    assert json.loads(run("info", store, "--output", "json").stdout)["bytes_fetched"] == 770
    (tmp_path / "cache" / stats.FILE_NAME).write_bytes(b"damaged")
    assert json.loads(run("info", store, "--output", "json").stdout)["bytes_fetched"] == 0


def test_verify(store: Path, file: Path, numbers: Path) -> None:
    assert run("verify", store).stdout.startswith(f"ok: {store}: 4 rows in 1 file, ")
    assert run("verify", file).stdout.startswith(f"ok: {file}: 3 records in 1 block, ")
    assert run("verify", numbers, "--order", "int32").exit_code == 0
    assert run("verify", numbers).exit_code == 1  # -5 is the greatest as bytes
    assert json.loads(run("verify", store, "--output", "json").stdout)["ok"] is True
    (store / "data" / "stray.sst").write_bytes(b"")
    result = run("verify", store)
    assert result.exit_code == 0
    assert result.stderr == f"{store}: data/stray.sst is not part of the store\n"


def test_files_with_typed_keys(tmp_path: Path) -> None:
    """With the order of their keys they are checked and read as bytes."""
    path = tmp_path / "typed.sst"
    keys = pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.date32())])
    rows = {"id": [-7, 3, 300], "day": [None, 20000, 5]}
    with Writer(path, dialect="paimon", key_types=keys, mode="empty") as writer:
        writer.put_many(rows, None)
    order = ("--order", "row(int64,int32)")
    checked = run("verify", path, *order)
    assert checked.exit_code == 0
    assert "3 records" in checked.stdout
    with Reader(path, order="row(int64,int32)") as reader:
        stored = [key.hex() for key, _ in reader.items()]
    assert stored != sorted(stored)
    scanned = run("scan", path, *order, "--output", "json", "--hex")
    assert [json.loads(line)["key"] for line in scanned.stdout.splitlines()] == stored
    for key in (f"0x{stored[1]}", stored[1]):
        hexadecimal = () if key.startswith("0x") else ("--hex",)
        got = run("get", path, key, *order, *hexadecimal, "--output", "json")
        assert got.exit_code == 0, got.stderr
        assert json.loads(got.stdout)["key"].removeprefix("0x") == stored[1]
    assert "row(int64,int32)" in run("info", path, *order).stdout
    assert run("dump", path, *order).exit_code == 0
    assert run("verify", path).exit_code == 1
    for wrong in ("row(int64,x)", "text", "row("):
        refused = run("verify", path, "--order", wrong)
        assert refused.exit_code != 0
        assert "order" in refused.stderr
        assert "int64" in refused.stderr


def test_verify_tells_programs_of_damage(store: Path) -> None:
    (data,) = (store / "data").iterdir()
    flip(data, 3)
    result = run("verify", store, "--output", "json")
    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert_one_line(result.stderr)
    assert f"Error: {told['error']}\n" == result.stderr
    assert (told["ok"], told["path"], told["file"], told["offset"]) == (
        False, str(store), str(data), 0
    )  # fmt: skip
    (version,) = (store / "versions").iterdir()
    version.unlink()
    result = run("verify", store, "--output", "json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["ok"]) == (1, False)
    assert "file" not in told


@pytest.mark.few(1)
@pytest.mark.parametrize("dialect", ["native", "paimon"])
def test_one_byte_changed_is_an_error_with_path_and_offset(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "file.sst"
    with Writer(path, dialect=dialect, block_size=20) as writer:
        writer.put_many([b"key 1", b"key 2", b"key 3"], [b"a" * 20] * 3)
    assert command(["verify", path]).returncode == 0
    flip(path, 40)
    result = command(["verify", path])
    assert (result.returncode, result.stdout) == (1, "")
    assert re.fullmatch(
        rf"Error: {re.escape(str(path))} is damaged: offset 37: expected data block 1 of CRC-32C? "
        r"\w+, found \w+ \(see https://\S+/how-to/repair-damage.md\)\n",
        result.stderr,
    )
    dumped = command(["dump", path])
    assert dumped.returncode == 1
    assert "\n! data block 1 at offset 37: CRC-32" in dumped.stdout
    assert re.fullmatch(
        rf"Error: {re.escape(str(path))}: damaged, first at offset 37 \(data block 1\) "
        r"\(see https://\S+/how-to/repair-damage.md\)\n",
        dumped.stderr,
    )


def test_a_changed_byte_in_a_store_names_its_file(store: Path) -> None:
    (data,) = (store / "data").iterdir()
    flip(data, 3)
    result = run("verify", store)
    assert result.exit_code == 1
    assert_one_line(result.stderr)
    assert str(data) in result.stderr
    assert "offset 0" in result.stderr
    flip(data, 3)
    (version,) = (store / "versions").iterdir()
    flip(version, 100)
    assert run("info", store).exit_code == 1


def test_dump(file: Path, store: Path, numbers: Path) -> None:
    result = run("dump", file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("native file of ")
    assert "'a' .. 'c'" in result.stdout
    assert "record  at  key" not in result.stdout
    assert "record  at  key" in run("dump", file, "--records").stdout
    assert "  0000  01 61    " in run("dump", file, "--hex").stdout
    assert json.loads(run("dump", file, "--output", "json").stdout)["regions"][0]["records"] == 3
    assert "-5 .. 256" in run("dump", numbers, "--order", "int32").stdout
    (data,) = (store / "data").iterdir()
    shown = run("dump", data).stdout
    assert "  key.schema        region: string not null\n" in shown
    assert "seen: timestamp[ns]\n" in shown


def test_dump_of_a_store_without_one_of_its_files(tmp_path: Path) -> None:
    store = tmp_path / "s"
    lookupstore.build(pa.table({"id": range(100)}), store, key="id", buckets=3).close()
    first, *others = sorted(read_newest(Location(store)).files, key=lambda one: one.bucket)
    (store / first.name).unlink()
    dumped = run("dump", store, "--output", "json")
    assert dumped.exit_code == 1
    gone, *rest = json.loads(dumped.stdout)
    said = "expected a data file that the manifest names, found no file"
    assert gone["path"] == str(store / first.name)
    assert [one["errors"] for one in gone["regions"]] == [[said]]
    assert [one["path"] for one in rest] == [str(store / one.name) for one in others]
    assert dumped.stderr.count("damaged, first at offset 0 (the file)") == 1
    for how in ((), ("--hex",)):
        shown = run("dump", store, *how)
        assert shown.exit_code == 1
        assert said in shown.stdout
        assert all(str(store / one.name) in shown.stdout for one in others)


def test_dump_of_all_that_a_path_stands_for(tmp_path: Path) -> None:
    rows = pa.table({"id": range(100), "name": ["n"] * 100})
    store = tmp_path / "store"
    lookupstore.build(rows, store, key="id", buckets=2).close()
    lookupstore.upsert(store, pa.table({"id": [5], "name": ["x"]}), max_run_share=9.0).close()
    data = sorted(str(path) for path in (store / "data").iterdir())
    shown = run("dump", store).stdout.splitlines()
    titles = [line for line in shown if line.startswith(str(store))]
    assert sorted(line.partition(": ")[0] for line in titles) == data
    kinds = [line.partition(": ")[2] for line in titles]
    assert sorted(kinds) == ["base of bucket 0", "base of bucket 1", f"run of {kinds[0][-8:]}"]
    assert kinds[0].startswith("run of ") or kinds[1].startswith("run of ")
    said = json.loads(run("dump", store, "--output", "json").stdout)
    assert sorted(one["path"] for one in said) == data
    first = json.loads(run("dump", store, "--version", "1", "--output", "json").stdout)
    assert len(first) == 2
    flip(Path(titles[0].partition(": ")[0]), 3)
    damaged = run("dump", store)
    assert (damaged.exit_code, damaged.stderr.count("damaged, first at offset 0")) == (1, 1)
    assert damaged.stdout.count(": ok\n") == 2

    whole = Path(titles[1].partition(": ")[0])
    content, see = whole.read_bytes(), r"\(see https://\S+/how-to/repair-damage.md\)"
    for size in (len(content) - 9, 40, 0):
        whole.write_bytes(content[:size])
        said = f"expected {len(content)} bytes, found {size} bytes"
        cut = run("dump", store)
        assert (cut.exit_code, cut.stdout.count(": ok\n")) == (1, 1)
        assert f"! end of the file at offset {size}: {said}\n" in cut.stdout
        first = rf"Error: {whole}: damaged, first at offset {size} \(end of the file\) {see}\n"
        assert re.search(first, cut.stderr)
        alone = run("dump", whole)
        assert (alone.exit_code, alone.stderr) == (1, re.search(first, cut.stderr)[0])
        assert f"found {size} bytes" in run("dump", whole, "--hex").stdout
        assert not json.loads(run("dump", whole, "--output", "json").stdout)["ok"]
    whole.unlink()
    gone = run("dump", store)
    assert gone.exit_code == 1
    assert f"Error: {whole}: damaged, first at offset 0 (the file)" in gone.stderr
    assert "! the file at offset 0: expected a data file that the manifest names" in gone.stdout

    files = tmp_path / "files"
    files.mkdir()
    pq.write_table(rows, files / "a.parquet", row_group_size=60)
    orc.write_table(rows, files / "b.orc")
    alone = run("dump", files / "a.parquet").stdout
    assert alone.startswith("Parquet file of ")
    assert "row group 1, name" in alone
    both = run("dump", files).stdout
    assert f"{files}/a.parquet\nParquet file of " in both
    assert f"\n\n{files}/b.orc\nORC file of " in both
    assert isinstance(json.loads(run("dump", f"{files}/*.orc", "--output", "json").stdout), list)
    assert json.loads(run("dump", files / "b.orc", "--output", "json").stdout)["rows"] == 100
    content = (files / "a.parquet").read_bytes()
    (files / "a.parquet").write_bytes(content[:-9])
    cut = run("dump", files)
    assert cut.exit_code == 1
    assert f"Error: {files}/a.parquet: damaged, first at offset 0 (other) (see " in cut.stderr
    for option in (["--hex"], ["--records"], ["--order", "int32"]):
        refused = run("dump", files / "b.orc", *option)
        assert refused.exit_code == 2
        assert "leave out --records, --hex and --order" in refused.stderr
    refused = run("dump", files, "--version", "1")
    assert f"--version is given, but {files} names files, which have no versions" in refused.stderr

    table = HudiTable.create(tmp_path / "table", rows, record_key=["id"], name="t")
    table.insert(rows)
    shown_table = run("dump", tmp_path / "table").stdout
    assert "Parquet file of " in shown_table
    assert "row group 0, _hoodie_record_key" in shown_table
    (base,) = (tmp_path / "table").glob("*.parquet")
    assert run("dump", base).stdout == shown_table.partition("\n")[2]


# ---- versions


@pytest.fixture
def versioned(tmp_path: Path) -> Path:
    """A store of three versions, which have 1, 2 and 3 rows."""
    for rows in (1, 2, 3):
        pq.write_table(pa.table({"id": range(rows), "v": [rows] * rows}), tmp_path / "t.parquet")
        built = run("build", tmp_path / "t.parquet", tmp_path / "s", "--key", "id", "--overwrite")
        assert built.exit_code == 0
    return tmp_path / "s"


def test_versions(versioned: Path) -> None:
    told = json.loads(run("versions", versioned, "--output", "json").stdout)
    assert told == [one.to_json() for one in lookupstore.versions(versioned)]
    assert [(one["number"], one["num_rows"], one["current"]) for one in told] == [
        (1, 1, False), (2, 2, False), (3, 3, True)
    ]  # fmt: skip
    shown = run("versions", versioned).stdout
    assert len(re.findall(r"│ +[123] │ 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", shown)) == 3
    assert shown.count("*") == 1
    # Only the damaged version is left out.
    for numbers in ([2], [2, 3], [1, 2, 3]):
        for number in numbers:
            (manifest,) = (versioned / "versions").glob(f"*{number}-*.json")
            manifest.write_text("{")
        some = run("versions", versioned, "--output", "json")
        assert some.exit_code == run("versions", versioned).exit_code == 1
        assert [one["number"] for one in json.loads(some.stdout)] == [
            number for number in (1, 2, 3) if number not in numbers
        ]
        assert all(one["current"] == (one["number"] == 3) for one in json.loads(some.stdout))
        assert some.stderr.count("\n") == some.stderr.count(" is damaged: ") == len(numbers)


def test_one_version(versioned: Path, file: Path) -> None:
    got = run("get", versioned, 0, "--version", 2, "--output", "json")
    assert json.loads(got.stdout) == {"id": 0, "v": 2}
    assert run("scan", versioned, "--version", 1, "--output", "json").stdout.count("\n") == 1
    assert json.loads(run("info", versioned, "--version", 2, "--output", "json").stdout)[
        "version"
    ] == 2  # fmt: skip
    assert run("verify", versioned, "--version", 2).stdout.startswith(f"ok: {versioned}: 2 rows")
    assert run("verify", versioned, "--version", 2).stderr == ""
    missing = run("info", versioned, "--version", 9)
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "no version 9; the store has 1, 2, 3" in missing.stderr
    refused = run("get", file, "a", "--version", 1)
    assert refused.exit_code == 2
    assert f"{file} is a sorted file, and --version is for stores and tables" in refused.stderr


def test_versions_as_csv(versioned: Path) -> None:
    rows = [*csv.DictReader(run("versions", versioned, "--output", "csv").stdout.splitlines())]
    known = json.loads(run("versions", versioned, "--output", "json").stdout)
    assert [int(one["version"]) for one in rows] == [one["number"] for one in known] == [1, 2, 3]
    assert [one["current"] for one in rows] == ["false", "false", "true"]
    assert [one["same_as"] for one in rows] == ["", "", ""]
    for name in ("bytes", "files", "buckets"):
        assert [int(one[name]) for one in rows] == [one[name] for one in known]


def test_expire(versioned: Path) -> None:
    kept = run("expire", versioned)
    assert kept.stdout == (
        f"{versioned}: removed 0 versions and 0 files, 0 bytes; --retain 1h keeps 2 replaced "
        "versions\n"
    )
    assert run("expire", versioned, "--keep", 3).stdout.endswith(" 0 bytes\n")
    before = sorted(versioned.rglob("*"))
    would = run("expire", versioned, "--retain", 0, "--dry-run")
    assert would.stdout.startswith(f"{versioned}: would remove 2 versions (1, 2) and 2 files, ")
    assert would.stdout.endswith(" bytes\n")
    would = run("expire", versioned, "--retain", 0, "--keep", 2, "--dry-run", "--output", "json")
    assert sorted(versioned.rglob("*")) == before
    told = json.loads(
        run("expire", versioned, "--retain", 0, "--keep", 2, "--output", "json").stdout
    )
    assert (told["versions"], told["files"]) == ([1], 1)
    assert json.loads(would.stdout) == told
    assert run("expire", versioned, "--retain", "0s").stdout.startswith(
        f"{versioned}: removed 1 version and 1 file, "
    )
    assert len(list((versioned / "data").iterdir())) == 1
    for wrong in ("soon", "-1", "1w"):
        refused = run("expire", versioned, f"--retain={wrong}")
        assert refused.exit_code == 2
        assert f"--retain is {wrong!r}; give seconds, or a time" in refused.stderr


def test_expire_that_could_not_remove(
    versioned: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Root removes files of any folder, so the read-only folder is simulated."""

    def refuse(_: LocalFolder, name: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", name)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFolder, "delete", refuse)
        failed = run("expire", versioned, "--retain", 0, "--output", "json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout) == {"versions": [], "files": 0, "bytes": 0, "failed": 2}
    assert caplog.text.count("could not remove versions/") == 1
    assert caplog.text.count("no longer needed: Permission denied\n") == 1
    assert failed.stderr.endswith(
        f"Error: {versioned}: could not remove 2 files, no longer needed\n"
    )
    done = run("expire", versioned, "--retain", 0, "--output", "json")
    assert (done.exit_code, json.loads(done.stdout)["failed"], done.stderr) == (0, 0, "")


@pytest.mark.parametrize(
    ("given", "seconds"), [("90", 90), ("1.5m", 90), ("2h", 7200), ("7d", 604800), ("0", 0)]
)
def test_times(given: str, seconds: float, versioned: Path, monkeypatch) -> None:
    asked = []

    def expire(path: str, *, retain: float, keep: int, dry_run: bool) -> lookupstore.Expired:
        asked.append((retain, keep))
        return lookupstore.Expired((), 0, 0)

    monkeypatch.setattr("lookupstore.store.expiry.expire", expire)
    assert run("expire", versioned, "--retain", given).exit_code == 0
    assert asked == [(seconds, 1)]


def test_publish(versioned: Path, tmp_path: Path) -> None:
    first = run("publish", versioned, tmp_path / "copy", "--version", 2, "--output", "json")
    assert first.exit_code == 0, first.stderr
    assert json.loads(first.stdout)["num_rows"] == 2
    refused = run("publish", versioned, tmp_path / "copy")
    assert refused.exit_code == 2
    assert "pass --overwrite to replace it" in refused.stderr
    again = run("publish", versioned, (tmp_path / "copy").as_uri(), "--overwrite", "--retain", 0)
    assert again.exit_code == 0
    assert re.search(r"version +│ 2 ", again.stdout)
    with lookupstore.open(tmp_path / "copy") as opened:
        assert (len(opened), opened.verify().stray) == (3, ())
    assert len(lookupstore.versions(tmp_path / "copy")) == 1
    same = run("publish", versioned, tmp_path / "copy", "--overwrite")
    assert same.stdout == f"{tmp_path}/copy: version 2 is already there, nothing copied\n"
    same = run("publish", versioned, tmp_path / "copy", "--output", "json")
    assert json.loads(same.stdout)["version"] == 2


def test_build_with_retain(versioned: Path, tmp_path: Path) -> None:
    words = ("build", tmp_path / "t.parquet", versioned, "--key", "id", "--overwrite")
    assert run(*words, "--retain", "0").exit_code == 0
    assert [one.number for one in lookupstore.versions(versioned)] == [4]


def test_stats(tmp_path: Path) -> None:
    host = tmp_path / "host"
    nothing = run("stats", "--cache", tmp_path)
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert nothing.stderr == f"{tmp_path}: no lookups by Spark in the last week\n"
    assert json.loads(run("stats", "--cache", tmp_path, "--output", "json").stdout) == []
    assert run("stats", "--cache", tmp_path / "none").exit_code == 2
    here = str(tmp_path / "s")
    stats.add(host, "app", "execution 1", here, 3, Counts(rows=10, hits=4, refreshes=2))
    stats.add(
        host, "app", "execution 2", "s3://***@b/s", 1, Counts(rows=9, hits=9, bytes_fetched=7)
    )
    for _ in range(2):
        counts = Counts(
            rows=50, hits=30, filter_negatives=15, blocks_read=4, block_uses=32, seconds=0.12345
        )
        stats.add(host, "app", "execution 3", here, 3, counts)
    told = json.loads(run("stats", "--cache", host, "--output", "json").stdout)
    assert told == [one.to_json() for one in stats.read(host)]
    assert [one["query"][-1] for one in told] == ["3", "2", "1"]
    assert (told[0]["rows"], told[0]["misses"], told[0]["cache_hit_rate"]) == (100, 40, 0.875)
    assert told[1]["cache_hit_rate"] is None
    only = run("stats", "--cache", host, "--store", here, "--limit", 1)
    head, row = (
        [cell.strip() for cell in line[1:-1].replace("┃", "│").split("│")]
        for line in only.stdout.splitlines()
        if line[0] in "┃│"
    )
    assert dict(zip(head[1:], row[1:], strict=True)) == {
        "query": "execution 3",
        "store": here,
        "version": "3",
        "rows": "100",
        "hits": "60",
        "misses": "40",
        "filter negatives": "30",
        "blocks read": "8",
        "bytes fetched": "0",
        "cache hit rate": "0.875",
        "refreshes": "0",
        "failed refreshes": "0",
        "seconds": "0.247",
    }
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\+00:00", row[0])
    stats.add(host, "app", "execution 4", "/f.parquet", None, Counts(rows=1))
    assert re.search(r"/f\.parquet +│ +null +│", run("stats", "--cache", host, "--limit", 1).stdout)
    stats.add(host, "app", "execution 5", "iceberg:prod.sales.users", 7, Counts(rows=1))
    for given, query in (("s3://K:S@b/s", 2), ("iceberg:prod.sales.users", 5)):
        only = run("stats", "--cache", host, "--store", given, "--output", "json")
        assert [one["query"] for one in json.loads(only.stdout)] == [f"execution {query}"]
    (host / stats.FILE_NAME).write_bytes(b"damaged " * 1000)
    damaged = run("stats", "--cache", host)
    assert damaged.exit_code == 1
    assert damaged.stderr.startswith(f"Error: {host / stats.FILE_NAME}: the statistics cannot be")


def test_stats_are_those_of_the_host_unless_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path))
    stats.add(tmp_path, "app", "execution 1", "/s", 1, Counts(rows=10))
    assert json.loads(run("stats", "--output", "json").stdout)[0]["rows"] == 10


@pytest.mark.parametrize("given", ["endpoint_url", "=http://minio:9000", "="])
def test_a_storage_option_has_a_name_and_a_value(given: str) -> None:
    done = click.testing.CliRunner().invoke(main, ["--storage-option", given, "info", "none"])
    assert done.exit_code == 2
    assert "--storage-option" in done.stderr
    assert "is not NAME=VALUE: put a name" in done.stderr
    right = ["--storage-option", "endpoint_url=http://minio:9000/?a=b", "info", "none"]
    assert "NAME=VALUE" not in click.testing.CliRunner().invoke(main, right).stderr


def test_a_uri_is_shown_without_its_secrets() -> None:
    for words in (["info"], ["versions"], ["verify", "--output", "json"], ["expire"]):
        verb, *options = words
        result = run(verb, "nfs://AKIA123:s3cr3t@host/store", *options)
        assert result.exit_code == 2
        assert "nfs://***@host/store" in result.stderr
        assert "s3cr3t" not in result.stderr + result.stdout
        assert "AKIA123" not in result.stderr + result.stdout


# ---- errors and the rest


@pytest.mark.parametrize("verb", ["get", "scan", "info", "verify", "dump"])
def test_what_is_not_there(verb: str, tmp_path: Path) -> None:
    words = ["key"] if verb == "get" else []
    result = run(verb, tmp_path / "nothing", *words)
    assert result.exit_code == 2
    assert f"{tmp_path / 'nothing'}: No such file or directory" in result.stderr
    assert_one_line(result.stderr)
    (tmp_path / "text").write_text("this is no sorted file")
    result = run(verb, tmp_path / "text", *words)
    assert result.exit_code == 1
    assert "not a sorted lookup file (22 bytes, no known magic)" in result.stderr
    assert_one_line(result.stderr)
    result = run(verb, tmp_path, *words)
    assert result.exit_code == 1
    assert "not a lookupstore store: no version found" in result.stderr


@pytest.mark.parametrize("damage", ["cut", "flipped", "other kind"])
def test_a_source_that_can_not_be_read_is_named(damage: str, tmp_path: Path) -> None:
    source = tmp_path / "source.parquet"
    pq.write_table(pa.table({"id": range(100)}), source, compression="none", use_dictionary=False)
    content = bytearray(source.read_bytes())
    if damage == "cut":
        del content[-20:]
    elif damage == "flipped":
        content[10:60] = bytes(one ^ 0x5A for one in content[10:60])
    else:
        content[:] = b"this is text, and not too short"
    source.write_bytes(content)
    result = run("build", source, tmp_path / "store", "--key", "id")
    assert (result.exit_code, result.stdout) == (1, "")
    assert_one_line(result.stderr)
    assert str(source) in result.stderr
    missing = run("build", tmp_path / "no.parquet", tmp_path / "store", "--key", "id")
    assert missing.exit_code == 2


@pytest.mark.few(2)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a disk that is always full")
@pytest.mark.parametrize("output", ["table", "json", "csv", "arrow"])
def test_a_full_disk_is_an_error_of_the_machine(output: str, store: Path) -> None:
    code = "import sys; from lookupstore.cli import main; sys.exit(main())"
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [sys.executable, "-c", code, "scan", str(store), "--output", output,
             "--columns", "name"],
            stdout=full, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parent.parent)},
        )  # fmt: skip
    assert process.returncode == 1
    assert process.stderr == "Error: standard output: No space left on device\n"


@pytest.mark.parametrize("output", ["table", "json", "csv", "arrow"])
def test_a_disk_with_room_for_a_part_is_an_error_without_buffers_too(
    output: str, tmp_path: Path
) -> None:
    """Python's own unbuffered output drops what the disk had no room for."""
    room = 10_000
    lookupstore.build(pa.table({"id": range(5000)}), tmp_path / "store", key="id").close()
    words = ["scan", str(tmp_path / "store"), "--output", output, "--limit", "5000"]
    code = "import sys; from lookupstore.cli import main; sys.exit(main())"
    with open(tmp_path / "rows", "wb") as rows:
        process = subprocess.run(
            [sys.executable, "-c", code, *words],
            stdout=rows, stderr=subprocess.PIPE, text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(Path(lookupstore.__file__).parent.parent),
                "PYTHONUNBUFFERED": "1",
            },
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
        )  # fmt: skip
    assert (tmp_path / "rows").stat().st_size == room
    assert process.returncode == 1
    assert process.stderr == "Error: standard output: File too large\n"


def test_a_command_without_a_standard_output_does_its_work(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "ids.parquet")
    words = ["build", str(tmp_path / "ids.parquet"), str(tmp_path / "store"), "--key", "id"]
    code = "import sys; from lookupstore.cli import main; sys.exit(main())"
    process = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", code, *words],
        stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parent.parent)},
    )  # fmt: skip
    assert (process.returncode, process.stderr) == (0, "")
    with lookupstore.open(tmp_path / "store") as store:
        assert list(store) == [1, 2]


def test_debug_shows_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("this is no sorted file")
    plain, debug = command(["verify", path]), command(["--debug", "verify", path])
    assert plain.returncode == debug.returncode == 1
    assert "Traceback" not in plain.stderr
    assert debug.stderr.startswith("Traceback")
    assert debug.stderr.endswith(plain.stderr)


def test_a_bug_is_one_line_too(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> object:
        raise ZeroDivisionError("zero")

    monkeypatch.setattr(lookupstore.LookupStore, "verify", broken)
    result = run("verify", store)
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: ZeroDivisionError: zero (run 'lookupstore --debug ...' for the traceback)\n"
    )


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    many = pa.table({"id": range(100_000), "text": ["x" * 20] * 100_000})
    lookupstore.build(many, tmp_path / "store", key="id").close()
    code = "import sys; from lookupstore.cli import main; sys.exit(main())"
    for words in (["--output", "json"], ["--output", "csv"], ["--limit", "20000"]):
        process = subprocess.Popen(
            [sys.executable, "-c", code, "scan", str(tmp_path / "store"), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parent.parent)},
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait() == 0


def test_help_and_version() -> None:
    assert run("--version").stdout == f"lookupstore {lookupstore.__version__}\n"
    for words in ([], ["--help"], ["-h"]):
        result = run(*words)
        assert result.exit_code == 0
        for verb in ("build", "get", "scan", "info", "dump", "verify", "demo"):
            assert f"\n  {verb} " in result.stdout
            assert run(verb, "--help").exit_code == 0
    result = run("nope")
    assert result.exit_code == 2
    assert result.stderr == "Error: No such command 'nope'. (see 'lookupstore --help')\n"


def test_keys_of_every_type_as_text() -> None:
    utc = datetime.timezone.utc
    cases: list[tuple[pa.DataType, str, object]] = [
        (pa.bool_(), "true", True),
        (pa.int8(), "-128", -128),
        (pa.uint64(), str(2**64 - 1), 2**64 - 1),
        (pa.float16(), "0.5", 0.5),
        (pa.float64(), "1e300", 1e300),
        (pa.decimal128(9, 2), "-1.25", Decimal("-1.25")),
        (pa.date32(), "2013-01-31", datetime.date(2013, 1, 31)),
        (pa.time64("us"), "05:06:07", datetime.time(5, 6, 7)),
        (pa.timestamp("s"), "2013-01-01 05:00:00", datetime.datetime(2013, 1, 1, 5)),
        (pa.timestamp("us", "UTC"), "2013-01-01T05:00:00Z",
         datetime.datetime(2013, 1, 1, 5, tzinfo=utc)),
        (pa.duration("s"), "90", datetime.timedelta(seconds=90)),
        (pa.string(), "", ""),
        (pa.large_string(), "a,b", "a,b"),
        (pa.binary(), "0x00ff", b"\x00\xff"),
        (pa.binary(2), "ab", b"ab"),
        (pa.dictionary(pa.int8(), pa.string()), "eu", "eu"),
    ]  # fmt: skip
    for kind, typed, wanted in cases:
        schema = pa.schema([("k", kind)])
        assert parse_keys([typed, "\\N"], schema)["k"].to_pylist() == [wanted, None], kind
        assert parse_bound(typed, schema) == (wanted,)
    for kind, typed in ((pa.int8(), "128"), (pa.date32(), "31.1."), (pa.binary(), "0xf"),
                        (pa.binary(2), "abc"), (pa.bool_(), "maybe")):  # fmt: skip
        with pytest.raises(ValueError, match=f"'{re.escape(typed)}' is not .*the key field 'k'"):
            parse_keys([typed], pa.schema([("k", kind)]))


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.bool_(), pa.int8(), pa.uint16(), pa.float64(), pa.decimal128(9, 2), pa.date32()),
        *(pa.time32("ms"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ns")),
        *(pa.timestamp("us", "UTC"), pa.timestamp("ms", "Europe/Paris"), pa.duration("s")),
        *(pa.binary(), pa.binary(4)),
    ],
    ids=str,
)
def test_a_key_that_is_none_is_answered_with_the_form(kind: pa.DataType) -> None:
    schema = pa.schema([("k", kind)])
    with pytest.raises(ValueError, match=r"; write (?!text$)") as caught:
        parse_keys(["0xx"], schema)
    for example in re.findall(r"such as (\S+)(?: or (\S+))?$", str(caught.value)):
        for form in filter(None, example):  # the form that is shown is one that is read
            assert parse_keys([form], schema)["k"].null_count == 0


def test_a_field_of_several_lines(tmp_path: Path) -> None:
    table = pa.table({"a": ["e\nu", 'q"'], "b": [1, 2]})
    lookupstore.build(table, tmp_path / "store", key=["a", "b"]).close()
    assert ids_of(run("get", tmp_path / "store", '"e\nu",1', '"q""",2', "--output", "json")) == [
        1,
        2,
    ]


def ids_of(result: click.testing.Result) -> list[int]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line)["b"] for line in result.stdout.splitlines()]


def test_paimons_lookup_files(tmp_path: Path) -> None:
    rows = {"id": [3, 1], "name": ["c", None], "_SEQUENCE_NUMBER": [5, 6]}
    source = tmp_path / "data.parquet"
    pq.write_table(pa.table(rows), source)
    fields = [{"id": 0, "name": "id", "type": "INT NOT NULL"}, {"name": "name", "type": "STRING"}]
    (tmp_path / "schema-0").write_text(json.dumps({"version": 3, "id": 0, "fields": fields}))
    command = ("paimon-lookup-files", source, tmp_path / "out", "--key", "id", "--kind", 0)
    made = run(*command, "--schema", tmp_path / "schema-0")
    assert made.exit_code == 0, made.stderr
    (name,) = os.listdir(tmp_path / "out")
    assert made.stdout == f"{tmp_path / 'out' / name}\n"
    reader = Reader(
        tmp_path / "out" / name, key_types=pa.schema([("_KEY_id", pa.int32())]), value_types=fields
    )
    assert [row for _, row in reader.items()] == [
        {"id": 1, "name": None, "_SEQUENCE_NUMBER": 6, "_VALUE_KIND": 0},
        {"id": 3, "name": "c", "_SEQUENCE_NUMBER": 5, "_VALUE_KIND": 0},
    ]
    again = run(*command, "--schema", tmp_path / "schema-0")
    assert (again.exit_code, "exists; pass --overwrite" in again.stderr) == (2, True), again.stderr
    other = run(*command, "--mode", "presence", "--overwrite", "--output", "json")
    (written,) = json.loads(other.stdout)["written"]
    assert Path(written).name.endswith(".empty.v1.lookup")
    lacking = run("paimon-lookup-files", source, tmp_path / "out", "--key", "id", "--overwrite")
    assert (lacking.exit_code, "--kind takes a column" in lacking.stderr) == (2, True)
    (tmp_path / "schema-1").write_text('{"fields": [{"name": "id"}]}')
    wrong = run(*command, "--schema", tmp_path / "schema-1")
    assert (wrong.exit_code, "no list `fields`" in wrong.stderr) == (2, True)


def test_columnar_files_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        pq.write_table(pa.table({"id": [1, 2], "t": ["x", None]}), f"{name}.parquet")
    size = sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    said = json.loads(run("info", "*.parquet", "--output", "json").stdout)
    columns = {"id": "int64", "t": "string"}
    assert said == {"path": "*.parquet", "num_rows": 4, "bytes": size, "columns": columns}
    assert "id: int64, t: string" in run("info", "a.parquet").stdout
    assert run("verify", "*.parquet").stdout == f"ok: *.parquet: 4 rows, {size:,} bytes\n"
    said = json.loads(run("verify", "*.parquet", "--output", "json").stdout)
    assert said == {"ok": True, "num_rows": 4, "bytes": size}
    damaged = bytearray((tmp_path / "b.parquet").read_bytes())
    damaged[5] ^= 1
    (tmp_path / "b.parquet").write_bytes(damaged)
    done = run("verify", "*.parquet", "--output", "json")
    said = json.loads(done.stdout)
    assert (done.exit_code, said["ok"]) == (1, False)
    assert said["file"].endswith("b.parquet")
    for words in (["--on-duplicate", "last"], ["--latest-partition", "day"], ["--order", "int64"]):
        for verb in ("info", "verify"):
            done = run(verb, "a.parquet", *words)
            assert (done.exit_code, "--key" in done.stderr) == (2, True)


def test_a_key_is_of_columnar_files_and_tables(tmp_path: Path, store: Path) -> None:
    with Writer(tmp_path / "f.sst") as writer:
        writer.put(b"a", b"b")
    for path, kind in ((store, "store"), (tmp_path / "f.sst", "sorted file")):
        for words in (["info"], ["verify"], ["get", "1"], ["scan"]):
            verb, *keys = words
            done = run(verb, path, *keys, "--key", "id")
            assert done.exit_code == 2
            assert f"is a {kind}, which has its key; leave out --key" in done.stderr
            for key in ([], ["--key", "id"]):
                if (verb, kind, key) == ("scan", "store", []):  # prints rows of a store
                    continue
                done = run(verb, path, *keys, *key, "--where", "id = 1")
                assert (done.exit_code, "leave out" in done.stderr) == (2, False)
                assert (
                    f"is a {kind}, and --where is for columnar files; build a store with "
                    "'lookupstore build --where', or filter the output"
                ) in done.stderr
    assert "For columnar files and tables: use only" in run("get", "--help").stdout
    assert "For columnar files and tables: use only" not in run("build", "--help").stdout


def test_columnar_files_as_they_are(tmp_path: Path) -> None:
    for day in ("2026-11-19", "2026-11-20"):
        folder = tmp_path / "dim" / f"day={day}"
        folder.mkdir(parents=True)
        table = pa.table({"id": [1, 2], "region": ["eu", "us"], "v": [day[-2:], None]})
        pq.write_table(table, folder / "0.parquet")
    dim = tmp_path / "dim"
    found = run("get", dim, "eu,1", "--key", "region,id", "--latest-partition", "day",
                "--columns", "v", "--output", "json")  # fmt: skip
    assert json.loads(found.stdout) == {"region": "eu", "id": 1, "v": "20"}
    missing = run("get", dim, 5, "--key", "id", "--latest-partition", "day")
    assert (missing.exit_code, missing.stderr) == (1, f"Error: {dim}: no key '5'\n")
    twice = run("get", f"{dim}/*/*.parquet", 1, "--key", "id")
    assert twice.exit_code == 2
    assert "the key id=1 is in " in twice.stderr
    unknown = run("get", f"{dim}/*/*.parquet", 1)
    assert (unknown.exit_code, "give --key" in unknown.stderr) == (2, True)
    refused = run("get", dim, 1, "--latest-partition", "day")
    assert (refused.exit_code, "with --key" in refused.stderr) == (2, True)
    first = run("publish-lookup-files", dim, "--key", "day,id", "--threads", 2)
    assert first.stdout == f"{dim}: 2 lookup files written, 0 already there\n"
    again = run("publish-lookup-files", dim, "--key", "day,id", "--output", "json")
    assert json.loads(again.stdout) == {"source": str(dim), "files": 2, "written": 0}
    assert len(list((dim / "_lookup").glob("*.sst"))) == 2
    rows = run("scan", dim, "--key", "id", "--latest-partition", "day", "--start", 2,
               "--columns", "v", "--output", "json")  # fmt: skip
    assert [json.loads(line) for line in rows.stdout.splitlines()] == [{"id": 2, "v": None}]
    told = run("info", dim, "--key", "day,id", "--output", "json")
    assert {"files": 2, "num_rows": 4}.items() <= json.loads(told.stdout).items()
    checked = run("verify", dim, "--key", "day,id", "--output", "json")
    assert {"ok": True, "num_rows": 4, "lookup_files": 2}.items() <= json.loads(
        checked.stdout
    ).items()
    path = dim / "day=2026-11-20" / "0.parquet"
    pages = path.read_bytes()
    path.write_bytes(bytes(200) + pages[200:])
    damaged = run("verify", dim, "--key", "day,id", "--output", "json")
    assert (damaged.exit_code, json.loads(damaged.stdout)["ok"]) == (1, False)
    refused = run("scan", dim)
    assert (refused.exit_code, "give --key" in refused.stderr) == (2, True)
    assert run("info", dim).exit_code == 0
    assert run("verify", dim).exit_code == 1  # with the damage


def test_a_hudi_table_by_its_record_key(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", pa.schema({"id": pa.int64()}), record_key="id")
    table.insert(pa.table({"id": [10, 9, 8]}))
    assert run("get", tmp_path / "t", 9, "--output", "json").stdout == '{"id": 9}\n'
    found = run("scan", tmp_path / "t", "--key", "id", "--start", 9, "--output", "csv")
    assert found.stdout.splitlines() == ["id", "9", "10"]
    refused = run("scan", tmp_path / "t")
    assert refused.exit_code == 2
    assert f"run 'lookupstore hudi scan {tmp_path}/t'" in refused.stderr
    for verb in ("info", "verify"):
        for output in ("table", "json"):
            said = run(verb, tmp_path / "t", "--output", output)
            assert said.exit_code == 0
            assert said.stdout == run("hudi", verb, tmp_path / "t", "--output", output).stdout
        for option, remedy in (
            (("--version", 1), "leave out --version"),
            (("--order", "int32", "--version", 1), "leave out --version, --order"),
            (("--latest-partition", "day"), "need --key"),
            (("--on-duplicate", "last"), "need --key"),
        ):
            refused = run(verb, tmp_path / "t", *option)
            assert (refused.exit_code, remedy in refused.stderr) == (2, True)
    assert "leave out --as-of" in run("verify", tmp_path / "t", "--as-of", "2020-01-01").stderr
    (base,) = tmp_path.glob("t/**/*.parquet")
    base.write_bytes(base.read_bytes()[:-4])
    damaged = run("verify", tmp_path / "t")
    assert (damaged.exit_code, base.name in damaged.stderr) == (1, True)


def test_an_upsert_says_how_many_rows_there_are_now(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": [1, 2, 3], "n": [1, 1, 1]}), "all.parquet")
    pq.write_table(pa.table({"id": [3], "n": [4]}), "one.parquet")
    lookupstore.build("one.parquet", "s", key="id").close()
    for words, told in (
        (["all.parquet"], "s: 3 rows, 2 more than version 1; 'lookupstore changes STORE --since "),
        (["one.parquet"], "s: 3 rows, as many as version 2; "),
        (["--deletes", "one.parquet"], "s: 2 rows, 1 fewer than version 3; "),
    ):
        done = click.testing.CliRunner().invoke(main, ["upsert", "s", *words])
        assert done.exit_code == 0, done.output
        assert done.stdout.startswith(told)


def test_upsert_compact_and_what_versions_say(tmp_path, monkeypatch):
    """Changes by files, rules by column, keys that go, and the runs that they leave."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(
        pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "n": [1, 1, 1]}), "s.parquet"
    )
    pq.write_table(pa.table({"id": [2, 9], "name": [None, "z"], "n": [4, 5]}), "c.parquet")
    pq.write_table(pa.table({"id": [3], "why": ["old"]}), "d.parquet")

    def run(*words: str, status: int = 0) -> object:
        done = click.testing.CliRunner().invoke(main, list(words))
        assert done.exit_code == status, done.output
        return json.loads(done.stdout) if status == 0 else done.stderr

    run("build", "s.parquet", "s", "--key", "id", "--output", "json")
    told = run(
        "upsert", "s", "c.parquet", "--deletes", "d.parquet", "--rule", "n:sum",
        "--rule", "name:partial", "--max-run-share", "99", "--max-run-age", "1h",
        "--output", "json",
    )  # fmt: skip
    assert (told["version"], told["num_rows"], told["runs"]) == (2, 3, 1)
    rows = {"id": [1, 2, 9], "name": ["a", "b", "z"], "n": [1, 5, 5]}
    assert lookupstore.open("s").scan().read_all().to_pydict() == rows
    listed = run("versions", "s", "--output", "json")
    assert [one["runs"] for one in listed] == [0, 1]
    assert listed[1]["run_bytes"] == told["run_bytes"] > 0
    assert listed[1]["source"] == "changes: c.parquet (1 Parquet file), and deletes"
    same = click.testing.CliRunner().invoke(main, ["upsert", "s", "--deletes", "d.parquet"])
    assert same.stdout == "s: nothing changed, version 2 stays\n"
    (tmp_path / "gone.txt").write_text("3\n")
    refused = run("upsert", "s", "--deletes", "gone.txt", status=2)
    assert "gone.txt has the extension '.txt'; supported: .parquet" in refused
    assert refused.startswith("Error: --deletes: ")
    assert "; for lines of keys, give CSV whose first line is id (see" in refused
    assert "run_bytes" in click.testing.CliRunner().invoke(main, ["versions", "s"]).stdout
    told = run("compact", "s", "--output", "json")
    assert (told["version"], told["runs"], told["num_rows"]) == (3, 0, 3)

    def changes(*words: str) -> list[dict[str, object]]:
        done = click.testing.CliRunner().invoke(main, ["changes", "s", *words, "--output", "json"])
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    assert changes("--since", "1") == [
        {"change": "update_before", "id": 2, "name": "b", "n": 1},
        {"change": "update_after", "id": 2, "name": "b", "n": 5},
        {"change": "delete", "id": 3, "name": "c", "n": 1},
        {"change": "insert", "id": 9, "name": "z", "n": 5},
    ]
    assert changes("--since", "1", "--until", "2", "--ignore", "n", "--columns", "name") == [
        {"change": "delete", "id": 3, "name": "c"},
        {"change": "insert", "id": 9, "name": "z"},
    ]
    assert changes("--since", "2") == []
    assert changes("--since", listed[1]["created"]) == []
    printed = click.testing.CliRunner().invoke(main, ["versions", "s"]).stdout
    created = re.findall(r"20\S+Z", printed)
    assert [changes("--since", one) for one in created] == [changes("--since", n) for n in "123"]
    too_early = run("changes", "s", "--since", "2020-01-01", status=2)
    assert "before version 1 (" in too_early
    assert "leave --since out" in too_early
    assert len(changes("--limit", "2")) == 2
    assert "no version 7" in run("changes", "s", "--since", "7", status=2)
    assert "--since is 'x'" in run("changes", "s", "--since", "x", status=2)
    assert "argument (1) (write it after --since or --until)" in run("changes", "s", "1", status=2)
    missing = run("upsert", "s", "--deletes", "7", status=2)
    assert f"7: no such file or folder (looked for {tmp_path}/7); give a file of keys" in missing
    assert lookupstore.open("s").scan().read_all().to_pydict() == rows
    assert "give a SOURCE, --deletes FILE" in run("upsert", "s", status=2)
    for rule in ("n:last", "n=sum"):
        said = run("upsert", "s", "c.parquet", "--rule", rule, status=2)
        assert "give one of replace" in said
        assert "or COLUMN:RULE, such as hits:sum" in said
    said = run("upsert", "s", "c.parquet", "--rule", "sum", status=2)
    assert "--rule: 'sum' of the column 'name', which is string, not a number; " in said
    assert said.rstrip().endswith("such as --rule name:partial --rule hits:sum")
    assert "give it alone" in run(
        "upsert", "s", "c.parquet", "--rule", "first", "--rule", "n:sum", status=2
    )
    # The changes, as the command prints them, make the old store the new one.
    run("build", "s.parquet", "t", "--key", "id", "--output", "json")
    for output, name in (("csv", "changes.csv"), ("json", "changes.jsonl")):
        done = click.testing.CliRunner().invoke(
            main, ["changes", "s", "--since", "1", "--output", output]
        )
        Path(name).write_text(done.stdout)
        told = run("upsert", "t", name, "--output", "json")
        assert told["num_rows"] == 3
        assert lookupstore.open("t").scan().read_all().to_pydict() == rows
    Path("dbz.jsonl").write_text(
        '{"op": "d", "before": {"id": 9, "name": "z", "n": 5}, "after": null}\n'
        '{"op": "c", "before": null, "after": {"id": 7, "name": "q", "n": 7}}\n'
    )
    assert "give --changes-by debezium" in run("upsert", "t", "dbz.jsonl", status=2)
    run("upsert", "t", "dbz.jsonl", "--changes-by", "debezium", "--output", "json")
    assert lookupstore.open("t").get(7) == {"name": "q", "n": 7}
    assert 9 not in lookupstore.open("t")
    Path("ops.csv").write_text("__op,__deleted,id,name,n\nc,false,8,r,8\nd,true,7,q,7\n")
    for more, said in (
        (["--deletes", "d.parquet", "--columns", "name,n"], "give --deletes in another command"),
        (["--sequence", "n", "--columns", "name,n"], "--sequence is given, but the changes are a "
         "changelog, which is applied in its own order; sort the changelog and leave --sequence "
         "out"),
        ([], "no column '__deleted', and --kinds is '__op'; to leave '__deleted' out, give "
         "--columns name,n"),
    ):  # fmt: skip
        told = run("upsert", "t", "ops.csv", "--kinds", "__op", *more, status=2)
        assert said in told
        assert "=" not in told
    run("upsert", "t", "ops.csv", "--kinds", "__op", "--columns", "name,n", "--output", "json")
    assert lookupstore.open("t").get(8) == {"name": "r", "n": 8}
    assert 7 not in lookupstore.open("t")
    Path("feed.csv").write_text("_change_type,id,name,n\ninsert,9,x,1\n")
    told = run("upsert", "t", "feed.csv", "--kinds", "_change_type", status=2)
    assert "--kinds is '_change_type', but the changes lack the versions" in told
    pq.write_table(pa.table({"id": [1], "nmae": ["x"], "n": [2]}), "m.parquet")
    assert "did you mean 'name'" in run("upsert", "t", "m.parquet", status=2)
    run("upsert", "t", "m.parquet", "--columns", "n", "--rule", "name:partial", "--output", "json")
    assert lookupstore.open("t").get(1) == {"name": "a", "n": 2}
    pq.write_table(pa.table({"x": [1]}), "e.parquet")
    assert "no key column 'id'" in run("upsert", "s", "--deletes", "e.parquet", status=2)


@pytest.mark.parametrize("extension", ["csv", "csv.gz", "jsonl", "arrow"])
def test_text_is_not_looked_up_in(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"people.{extension}"
    path.write_bytes(b"id,name\n1,Ada\n")
    for words in (
        ["get", path, 1], ["get", path, 1, "--key", "id"], ["scan", path], ["verify", path],
        ["info", path], ["join", path, path, "--key", "id", "--on", "id"],
    ):  # fmt: skip
        done = run(*words)
        assert done.exit_code == 2
        assert f"make a store of it: lookupstore build {path} STORE --key NAME" in done.stderr


def _refuse_to_write(path: str, **_: object) -> None:
    raise OSError(errno.EROFS, "Read-only file system", path)


def test_lookup_files_are_told_of_or_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of small files nothing is printed; without a cache the files are read each time."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    numbers = list(range(30_000))
    random.Random(1).shuffle(numbers)
    pq.write_table(pa.table({"id": numbers, "n": numbers}), tmp_path / "f.parquet")
    words = ["get", tmp_path / "f.parquet", *range(0, 30_000, 100), "--key", "id"]
    read = run(*words, "--output", "csv", "--no-cache")
    assert (read.exit_code, read.stderr) == (0, "")
    assert not list(tmp_path.glob("cache/**/*.sst"))
    asked = tmp_path / "asked.parquet"
    pq.write_table(pa.table({"id": [7, 5]}), asked)
    joined = run("join", asked, tmp_path / "f.parquet", "--key", "id", "--on", "id", "--no-cache",
                 "--output", "csv")  # fmt: skip
    assert (joined.stdout, joined.stderr) == ("id,n\n7,7\n5,5\n", "")
    assert not list(tmp_path.glob("cache/**/*.sst"))
    monkeypatch.setattr(opened, "_LARGE", 1000)
    made = run(*words, "--output", "csv")
    assert made.stdout == read.stdout
    assert made.stderr == (
        f"{tmp_path}/f.parquet: making a lookup file, which is kept in {tmp_path}/cache\n"
    )
    assert run(*words, "--output", "csv").stderr == ""
    assert len(list(tmp_path.glob("cache/**/*.sst"))) == 1
    # In a terminal a bar follows, if it takes long.
    for cache, late, shown in (("fast", 60, False), ("slow", 0, True)):
        with monkeypatch.context() as terminal:
            terminal.setenv("LOOKUPSTORE_CACHE", str(tmp_path / cache))
            terminal.setattr(progress, "is_watched", lambda: True)
            terminal.setattr(progress, "LATE", late)
            seen = run(*words, "--output", "csv")
        assert seen.stdout == read.stdout
        line, _, bar = seen.stderr.partition("\n")
        assert line.endswith(f"making a lookup file, which is kept in {tmp_path}/{cache}")
        assert ("Making a lookup file" in bar) == shown
        assert ("30,000 rows" in bar) == shown
    monkeypatch.setattr(opened, "_LARGE", 1 << 20)
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "other"))
    assert run(*words, "--output", "csv").stderr == ""
    # Errors of a cache folder name the file, and what works without the folder.
    (tmp_path / "none").mkdir(mode=0o700)
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "none"))
    monkeypatch.setenv("LOOKUPSTORE_CACHE_BYTES", "100KB")
    too_large = f"{tmp_path}/f.parquet: its lookup file takes"
    for said in (too_large, "Read-only file system: cannot keep local copies and lookup files"):
        if said != too_large:
            monkeypatch.setattr(os, "makedirs", _refuse_to_write)
        path, key = words[1], ["--key", "id"]
        facts = ["join", path, path, *key, "--on", "id", "--prefix", "x_"]
        for verb, has in ((words, True), (facts, True), (["scan", path, *key], False)):
            told = run(*verb, "--output", "csv").stderr
            assert (said in told, ", or give --no-cache" in told) == (True, has), (verb[0], told)
    refused = run("get", tmp_path / "f.parquet", 1, "--no-cache")
    assert "--no-cache is an option of columnar files, with --key" in refused.stderr


def test_a_table_at_a_version_or_a_time(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    table = tmp_path / "t"
    for value in (1, 2):
        rows = pa.table({"id": [7], "v": [value]})
        deltalake.write_deltalake(str(table), rows, mode="overwrite")
    first = table / "_delta_log" / f"{0:020}.json"
    os.utime(first, (1_000_000_000, 1_000_000_000))
    for options, value in (([], 2), (["--version", 0], 1), (["--as-of", "2002-01-01"], 1)):
        found = run("get", table, 7, "--key", "id", *options, "--output", "json")
        assert json.loads(found.stdout)["v"] == value
        store = tmp_path / f"s{len(options)}{options[:1]}"
        assert run("build", table, store, "--key", "id", *options).exit_code == 0
        assert json.loads(run("get", store, 7, "--output", "json").stdout)["v"] == value
    for options, text in (
        (["--version", 9], "--version is 9, but the Delta table"),
        (["--as-of", "2000-01-01"], "--as-of is 2000-01-01 00:00:00+00:00, before the first"),
        (["--as-of", "then"], "--as-of is 'then'; give a time such as"),
        (["--as-of", "2002-01-01", "--version", 0], "--version and --as-of both choose a commit"),
    ):
        refused = run("get", table, 7, "--key", "id", *options)
        assert (refused.exit_code, text in refused.stderr) == (2, True), refused.stderr
    pq.write_table(rows, tmp_path / "1.parquet")
    refused = run("get", tmp_path / "1.parquet", 7, "--key", "id", "--version", 1)
    assert "--version is given, but" in refused.stderr
    refused = run("get", tmp_path / "s0[]", 7, "--as-of", "2002-01-01")
    assert "--as-of is '2002-01-01', when the store had no version yet" in refused.stderr


def test_a_hudi_table_at_a_time(tmp_path: Path) -> None:
    rows = pa.table({"id": [7], "v": [1]})
    table = HudiTable.create(tmp_path / "t", rows, record_key="id")
    first = table.upsert(rows).instant
    table.upsert(pa.table({"id": [7], "v": [2]}))
    for options, value in (([], 2), (["--as-of", first.time], 1)):
        found = run("get", tmp_path / "t", 7, *options, "--output", "json")
        assert json.loads(found.stdout)["v"] == value
