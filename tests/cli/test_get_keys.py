"""`get --keys`: keys of files and of standard input, answers in their order."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import os
import random
import threading
import zoneinfo
from pathlib import Path
from typing import Any

import click.testing
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import zstandard

import lookupstore
from lookupstore.cli import answers, key_files, main
from lookupstore.hudi import HudiTable
from lookupstore.sst import Writer

# Without the time, which would give the test another name in each process.
PACKED = gzip.compress(b"3\n", mtime=0)
TEXTS = ["plain", "a,b", 'a "quoted" one', " spaces ", "0x41", "é", "null", ""]


def run(*words: object, given: bytes | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, [str(word) for word in words], input=given)


@pytest.fixture
def rows() -> dict[int, dict[str, Any]]:
    return {3 * i: {"name": TEXTS[i % 8], "score": i / 4} for i in range(2000)}


@pytest.fixture
def store(tmp_path: Path, rows: dict[int, dict[str, Any]]) -> Path:
    table = pa.table({"id": [*rows], "name": [one["name"] for one in rows.values()],
                      "score": [one["score"] for one in rows.values()]})  # fmt: skip
    lookupstore.build(table, tmp_path / "store", key="id", buckets=3).close()
    return tmp_path / "store"


def ipc(table: pa.Table, opened: Any) -> bytes:
    sink = io.BytesIO()
    with opened(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=100)
    return sink.getvalue()


def csv_of(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pa_csv.write_csv(table, sink)
    return sink.getvalue()


def given_keys(keys: list[int], kind: str, folder: Path) -> tuple[str, bytes | None]:
    """Return what `--keys` is given, and what is in standard input."""
    table = pa.table({"why": ["x"] * len(keys), "id": keys})
    path = str(folder / f"keys.{kind}")
    content: bytes | None = None
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=150)
    elif kind == "orc":
        pa.orc.write_table(table, path)
    elif "ipc" in kind:
        content = ipc(table, pa.ipc.new_stream if "stream" in kind else pa.ipc.new_file)
    elif "csv" in kind:
        content = csv_of(table)
    else:
        content = ("\r\n" if "dos" in kind else "\n").join(map(str, keys)).encode()
        content += b"" if "dos" in kind else b"\n"
    if content is not None and "stdin" not in kind:
        Path(path).write_bytes(content)
    return ("-", content) if "stdin" in kind else (path, None)


@pytest.mark.parametrize("kind", [
    "parquet", "orc", "ipc file", "ipc stream", "csv", "lines", "dos lines",
    "stdin ipc stream", "stdin csv", "stdin lines", "stdin ipc file",
])  # fmt: skip
def test_keys_of_every_kind(
    kind: str, store: Path, rows: dict[int, dict[str, Any]], tmp_path: Path, seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(answers, "_AT_ONCE", 170)
    monkeypatch.setattr(key_files, "_BLOCK", 64)
    keys = random.Random(seed).choices(range(6100), k=700)
    named, stdin = given_keys(keys, kind, tmp_path)
    wanted = [{"id": key, **rows[key]} if key in rows else None for key in keys]
    there = [one for one in wanted if one is not None]
    gone = list(dict.fromkeys([key for key in keys if key not in rows][:10]))
    named_keys = ", ".join(f"'{key}'" for key in gone)
    missing = len(keys) - len(there)
    said = f"Error: {store}: {missing} of 700 keys not found: {named_keys}, ...\n"
    result = run("get", store, "--keys", named, "--output", "json", given=stdin)
    assert (result.exit_code, result.stderr) == (1, said)
    assert [json.loads(line) for line in result.stdout.splitlines()] == wanted
    result = run("get", store, "--keys", named, "-o", tmp_path / "out.parquet", given=stdin)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", said)
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == there


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "json"])
def test_files_that_are_written(
    ending: str, store: Path, rows: dict[int, dict[str, Any]], tmp_path: Path
) -> None:
    out = tmp_path / f"out.{ending}"
    out.write_text("what was there before")
    result = run("get", store, "--keys", "-", "-o", out, given=b"id\n6\n0\n6\n")
    assert (result.exit_code, result.output) == (0, "")
    read = {
        "parquet": lambda: pq.read_table(out).to_pylist(),
        "arrow": lambda: pa.ipc.open_file(out).read_all().to_pylist(),
        "csv": lambda: pa_csv.read_csv(out).to_pylist(),
        "json": lambda: [json.loads(line) for line in out.read_text().splitlines()],
    }
    assert read[ending]() == [{"id": key, **rows[key]} for key in (6, 0, 6)]
    assert sorted(os.listdir(tmp_path)) == [out.name, "store"]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "json"])
def test_a_file_is_whole_on_disk_before_it_has_its_name(
    ending: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, synced = tmp_path / f"out.{ending}", []

    def fsync(descriptor: int) -> None:
        assert not out.exists()
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", fsync)
    result = run("get", store, "--keys", "-", "-o", out, given=b"id\n6\n0\n6\n")
    assert (result.exit_code, synced) == (0, [out.stat().st_size])


def test_keys_of_several_fields(tmp_path: Path) -> None:
    table = pa.table({"city": [*TEXTS, None], "day": range(9), "v": range(9)})
    lookupstore.build(table, tmp_path / "s", key=["city", "day"], nullable_keys=["city"]).close()
    keys = table.select(["day", "city"])
    pq.write_table(keys, tmp_path / "k.parquet")
    lines = "".join(f'"{text}",{i}\n' for i, text in enumerate(t.replace('"', '""') for t in TEXTS))
    header = "".join(f'{i},"{text}"\n' for i, text in
                     enumerate(t.replace('"', '""') for t in TEXTS))  # fmt: skip
    for named, given in (
        (tmp_path / "k.parquet", None),
        ("-", (lines + "\\N,8\n").encode()),
        ("-", ("day,city\n" + header + "8,\\N\n").encode()),
    ):
        result = run("get", tmp_path / "s", "--keys", named, "--output", "json", given=given)
        assert (result.exit_code, result.stderr) == (0, "")
        assert [json.loads(line)["v"] for line in result.stdout.splitlines()] == [*range(9)]
    cut = run("get", tmp_path / "s", "--keys", "-", given=b"plain\n")
    assert cut.exit_code == 2
    said = "--keys: standard input: row 1 has 1 fields, and there are names for 2: 'plain'"
    assert f"{said}; quote fields that have a ','" in cut.stderr
    assert "pyarrow" not in cut.stderr
    assert ", or" not in cut.stderr


def test_keys_of_sorted_files(tmp_path: Path) -> None:
    with Writer(tmp_path / "t.sst") as writer:
        writer.put_many([b"a", b"b\xff"], [b"1", b"2"])
    got = run("get", tmp_path / "t.sst", "--keys", "-", "--output", "csv", given=b"0x62ff\nz\na")
    assert got.stdout.splitlines() == ["key,value", "0x62ff,0x32", "0x61,0x31"]
    assert got.stderr == f"Error: {tmp_path}/t.sst: 1 of 3 keys not found: '0x7a'\n"
    with Writer(tmp_path / "n.sst", dialect="paimon", order="int32") as writer:
        for number in (-5, 7):
            writer.put(number.to_bytes(4, "little", signed=True), str(number).encode())
    numbers = pa.table({"key": pa.array([7, None, 9, -5], pa.int32())})
    pq.write_table(numbers, tmp_path / "n.parquet")
    got = run("get", tmp_path / "n.sst", "--order", "int32", "--keys", tmp_path / "n.parquet",
              "--output", "json")  # fmt: skip
    assert got.stdout.splitlines() == [
        '{"key": 7, "value": "0x37"}', "null", "null", '{"key": -5, "value": "0x2d35"}'
    ]  # fmt: skip
    refused = run("get", tmp_path / "t.sst", "--keys", "-", "--hex", given=b"61\n")
    assert (refused.exit_code, "--hex is for keys that are typed" in refused.stderr) == (2, True)


def test_columns_of_views_and_a_column_found(tmp_path: Path) -> None:
    views = pa.array(["x", "y"], pa.string_view())
    table = pa.table({"id": [1, 2], "v": views, "found": [True, False]})
    lookupstore.build(table, tmp_path / "s", key="id").close()
    got = run("get", tmp_path / "s", "--keys", "-", "--output", "arrow", given=b"2\n5\n1\n")
    wanted = [{"id": 2, "v": "y", "found": False}, {"id": 1, "v": "x", "found": True}]
    assert pa.ipc.open_stream(got.stdout_bytes).read_all().to_pylist() == wanted


def test_a_table_shows_the_first_and_reads_no_more(store: Path, tmp_path: Path) -> None:
    """What a pipe has after the rows that are shown is left there."""
    os.mkfifo(tmp_path / "keys")
    took: list[int] = []

    def feed() -> None:
        with open(tmp_path / "keys", "wb", buffering=0) as pipe:
            try:
                for _ in range(1000):
                    took.append(pipe.write(b"3\n" * 50_000))
            except BrokenPipeError:
                pass

    feeder = threading.Thread(target=feed)
    feeder.start()
    result = run("get", store, "--keys", tmp_path / "keys")
    feeder.join()
    assert result.exit_code == 0
    assert result.stdout.count("│  3 │") == 50
    assert result.stderr == "first 50 rows; -o FILE or --output csv writes all\n"
    assert len(took) < 40


def test_nothing_asked(store: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "k.parquet")
    for named in ("-", tmp_path / "k.parquet"):
        result = run("get", store, "--keys", named, "-o", tmp_path / "o.parquet", given=b"")
        assert (result.exit_code, result.output) == (0, "")
        assert pq.read_schema(tmp_path / "o.parquet").names == ["id", "name", "score"]


@pytest.mark.parametrize(("words", "given", "status", "message"), [
    (["1", "--keys", "-"], b"1", 2, "give KEY... or --keys, one of them"),
    (["--keys", "-"], b"PAR1....", 2, "Parquet is not read from standard input; name the file"),
    (["--keys", "-"], b"one\n", 2, "'one' is not int64, the type of the key field 'id'"),
    (["--keys", "-"], b"\xff\n", 1, "standard input is not text in UTF-8; convert it, such as"),
    (["--keys", "-"], PACKED, 2, "standard input is compressed by gzip; decompre"),
    (["--keys", "-"], "3\n".encode("utf-16"), 2, "input is text in UTF-16; convert it to UTF-8"),
    (["--keys", "-", "--output", "csv"], b"one\n", 2, "'one' is not int64, the type of the key"),
    (["--keys", "-", "--output", "arrow"], b"one\n", 2, "'one' is not int64, the type of the key"),
    (["--keys", "none.parquet"], b"", 2, "none.parquet"),
    (["--keys", "-", "-o", "x.txt"], b"1", 2, "-o x.txt: name a file of this machine that"),
    (["--keys", "-", "-o", "s3://b/x.csv"], b"1", 2, "name a file of this machine"),
    (["1", "-o", "x.csv", "--output", "csv"], b"", 2, "give --output or -o"),
])  # fmt: skip
def test_what_is_refused(
    words: list[str], given: bytes, status: int, message: str, store: Path
) -> None:
    result = run("get", store, *words, given=given)
    assert (result.exit_code, result.stdout) == (status, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_files_without_the_key(store: Path, tmp_path: Path) -> None:
    other = pa.table({"x": [1]})
    pq.write_table(other, tmp_path / "k.parquet")
    (tmp_path / "k.arrow").write_bytes(ipc(other, pa.ipc.new_file))
    for name in ("k.parquet", "k.arrow"):
        refused = run("get", store, "--keys", tmp_path / name, "-o", tmp_path / "o.csv")
        assert refused.exit_code == 2
        assert f"--keys {tmp_path / name}: no key column 'id'; it has ['x']" in refused.stderr


def test_names_in_other_case_are_not_keys(store: Path, tmp_path: Path) -> None:
    refused = run("get", store, "--keys", "-", given=b"ID\n3\n")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--keys standard input: no key column 'id'; it has ['ID']" in refused.stderr
    rows = pa.table({"land": ["de", "Nr"], "nr": [5, 6], "v": [1, 2]})
    lookupstore.build(rows, tmp_path / "two", key=["land", "nr"]).close()
    refused = run("get", tmp_path / "two", "--keys", "-", given=b"Land,Nr\nde,5\n")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--keys standard input: no key column 'land'; it has ['Land', 'Nr']" in refused.stderr
    lookupstore.build({"id": ["ID", "x"], "v": [1, 2]}, tmp_path / "texts", key="id").close()
    found = run("get", tmp_path / "texts", "--keys", "-", "--output", "csv", given=b"ID\nx\n")
    assert (found.exit_code, found.stdout) == (0, "id,v\nID,1\nx,2\n")


def test_a_byte_order_mark_is_no_part_of_a_key(store: Path, tmp_path: Path) -> None:
    for name, content in (("a.txt", b"3\n6\n"), ("b.csv", b"id\n3\n6\n"), ("c.txt", b"3\n6")):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content)
        result = run("get", store, "--keys", tmp_path / name, "--output", "json")
        assert result.exit_code == 0, result.output
        assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [3, 6]


def test_text_that_is_no_keys(store: Path, tmp_path: Path) -> None:
    (tmp_path / "no.csv").write_text("number,name\n3,x\n")
    result = run("get", store, "--keys", tmp_path / "no.csv")
    assert result.exit_code == 2
    assert "no.csv: no key column 'id'; it has ['number', 'name']" in result.output
    for content in ('{"id": 3}\n{"id": 6}\n', '{"name": "x", "id": 3}'):
        result = run("get", store, "--keys", "-", given=content.encode())
        assert result.exit_code == 2
        assert "JSON is not read from standard input; give Parquet" in result.output
    deep = run("get", store, "--keys", "-", given=b'{"id":' * 10_000)
    assert isinstance(deep.exception, SystemExit)
    assert "is not int64" in deep.output
    lookupstore.build(pa.table({"id": ['{"a": 1}', "7"]}), tmp_path / "texts", key="id").close()
    result = run("get", tmp_path / "texts", "--keys", "-", given=b'{"a": 1}\n7\n')
    assert result.exit_code == 0, result.output


def test_csv_is_read_as_everywhere(tmp_path: Path) -> None:
    """As `join` reads it: tabs, gzip, a quote inside a field, and fields without anything in them.

    Arrow's reader took quotes out of fields, knew no other separator, and read compressed bytes.
    """
    ids = ["a", "b", '5" pipe', "c\nd", None, ""]
    table = pa.table({"id": ids, "n": range(6)})
    lookupstore.build(table, tmp_path / "s", key="id", nullable_keys="id").close()
    text = 'x,id\n1,b\n2,5" pipe\n\n3,"c\nd"\n4,\n5,""\n6,a\n'
    tabs = text.replace(",", "\t")
    files = {
        "k.csv": text.encode(),
        "k.csv.gz": gzip.compress(text.encode()),
        "k.csv.zst": zstandard.compress(text.encode()),
        "k.tsv": tabs.encode(),
        "t.csv": tabs.encode(),
        "lines": text.encode(),
        "-": tabs.encode(),
    }
    for name, content in files.items():
        given = name if name == "-" else str(tmp_path / name)
        if name != "-":
            Path(given).write_bytes(content)
        result = run("get", tmp_path / "s", "--keys", given, "--output", "json", given=content)
        assert result.exit_code == 0, result.output
        found = [json.loads(line)["n"] for line in result.stdout.splitlines()]
        assert found == [1, 2, 3, 4, 5, 0], name
        if name != "lines":
            words = ["join", given, tmp_path / "s", "--on", "id", "--how", "inner"]
            joined = run(*words, "--output", "json", given=content)
            rows = [json.loads(line) for line in joined.stdout.splitlines()]
            assert [row["n"] for row in rows] == [1, 2, 3, 5, 0]  # a null matches nothing


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id\n1\n2,3\n", "row 2 has 2 fields, and the line of names 1: '2,3'"),
        (b'id,v\n1,2\n"3"x,4\n', "row 2 has text after the quote that closes a field"),
        (b"id,v\n1,2\n\xff,4\n", "the column 'id' is not UTF-8 in row 2"),
        (b"id;v\n1;2\n", "is separated by ';'; give --delimiter ';' (see"),
        (b"id|v\n1|2\n", "is separated by '|'; give --delimiter '|' (see"),
        (b"", "is empty; leave it out"),
    ],
)
def test_errors_of_csv_name_file_and_row(
    store: Path, tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "k.csv"
    path.write_bytes(content)
    result = run("get", store, "--keys", path, "--output", "json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--keys: {path}" in result.stderr
    assert message in result.stderr


def test_json_is_refused_by_its_name(store: Path, tmp_path: Path) -> None:
    for name, content in (("a.jsonl", b'{"id":' * 10_000), ("a.ndjson.gz", gzip.compress(b"{}"))):
        (tmp_path / name).write_bytes(content)
        result = run("get", store, "--keys", tmp_path / name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"JSON is not read from {tmp_path / name}; give Parquet" in result.stderr


def test_keys_that_are_categories_of_views(tmp_path: Path) -> None:
    lookupstore.build(pa.table({"id": ["a", "b"], "n": [1, 2]}), tmp_path / "s", key="id").close()
    pl.DataFrame({"id": pl.Series(["b", "a"], dtype=pl.Categorical)}).write_ipc(
        tmp_path / "k.arrow"
    )
    for command in (["get", tmp_path / "s", "--keys", tmp_path / "k.arrow"],
                    ["join", tmp_path / "k.arrow", tmp_path / "s", "--on", "id"]):  # fmt: skip
        result = run(*command, "--output", "csv")
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines() == ["id,n", "b,2", "a,1"]


def test_a_failure_leaves_no_file(store: Path, tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("before")
    result = run("get", store, "--keys", "-", "-o", tmp_path / "o.csv", given=b"3\nx\n")
    assert result.exit_code == 2
    assert (tmp_path / "o.csv").read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["o.csv", "store"]


def test_errors_name_what_was_given(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "nosuchdir" / "x.parquet"
    result = run("get", store, "3", "-o", out)
    said = f"Error: -o {out}: there is no folder '{out.parent}'; make it: mkdir -p {out.parent}"
    assert (result.exit_code, result.stderr.partition(" (see")[0]) == (2, said)
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    result = run("get", store, "3", "-o", folder)
    assert result.stderr == f"Error: {folder}: Is a directory\n"
    assert sorted(os.listdir(tmp_path)) == ["folder.csv", "store"]
    (tmp_path / "file").touch()
    result = run("get", store, "3", "-o", tmp_path / "file" / "x.csv")
    assert result.stderr.startswith(f"Error: {tmp_path}/file/x.csv: Not a directory")
    missing = tmp_path / "nofile.parquet"
    result = run("get", store, "--keys", missing)
    said = f"Error: --keys: {missing}: no such file or folder (see 'lookupstore get --help')\n"
    assert (result.exit_code, result.stderr) == (2, said)
    result = run("get", store, "--keys", tmp_path / "no*.parquet")
    assert result.stderr.startswith(f"Error: --keys: no file matches {tmp_path}/no*.parquet")


def test_keys_in_csv_of_other_notations(tmp_path: Path) -> None:
    """Each command with `--keys` reads what `join` reads."""
    table = pa.table({"id": ["a;b", "c", None], "n": [1, 2, 3]})
    lookupstore.build(table, tmp_path / "s", key="id", nullable_keys="id").close()
    path = tmp_path / "k.csv"
    path.write_text("n;id\n8;'a;b'\n9;-\n7;c\n")
    words = ["--delimiter", ";", "--quote", "'", "--null", "-", "--output", "json"]
    for given in (path, "-"):
        result = run("get", tmp_path / "s", "--keys", given, *words, given=path.read_bytes())
        assert result.exit_code == 0, result.output
        assert [json.loads(line)["n"] for line in result.stdout.splitlines()] == [1, 3, 2]
    text = b"8|c\n9|a;b\n"
    words = ["--delimiter", "pipe", "--names", "x,id", "--output", "json"]
    result = run("get", tmp_path / "s", "--keys", "-", *words, given=text)
    assert [json.loads(line)["n"] for line in result.stdout.splitlines()] == [2, 1]
    hudi = HudiTable.create(
        tmp_path / "t", pa.schema({"id": pa.int64()}), record_key="id", name="t"
    )
    hudi.insert(pa.table({"id": [1, 2, 3]}))
    path.write_text("v;id\nx;3\ny;1\n")
    for command, more in (("get", ["--columns", "id"]), ("tag", []), ("delete", [])):
        words = ["hudi", command, tmp_path / "t", "--keys", path]
        refused = run(*words, *more)
        assert (refused.exit_code, "give --delimiter ';'" in refused.stderr) == (2, True)
        result = run(*words, *more, "--delimiter", ";")
        assert result.exit_code == 0, result.output
    assert hudi.scan(columns=["id"]).to_pylist() == [{"id": 2}]


def test_keys_in_csv_with_formats_of_dates(tmp_path: Path, seed: int) -> None:
    """Typed columns are read as in `build`; the oracle is Python's own notation of the times."""
    rng = random.Random(seed)
    whole = "%d/%m/%Y %H:%M:%S"
    times = [
        datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=rng.randrange(10**8))
        for _ in range(20)
    ]
    zone = zoneinfo.ZoneInfo("Asia/Tokyo")  # its clocks are never changed
    table = pa.table({
        "day": [one.date() for one in times],
        "at": times,
        "seen": pa.array([one.replace(tzinfo=zone) for one in times], pa.timestamp("us", "UTC")),
        "code": [f"0{number}" for number in range(20)],
        "n": range(20),
    })  # fmt: skip
    keys = ["day", "at", "seen", "code"]
    lookupstore.build(table, tmp_path / "s", key=keys).close()
    asked = rng.sample(range(20), 9)
    lines = [
        f"{times[one]:%d.%m.%Y};{times[one]:{whole}};{times[one]:{whole}};0{one}" for one in asked
    ]
    path = tmp_path / "k.csv"
    path.write_text("\n".join([";".join(keys), *lines]) + "\n")
    types = ["--types", f"day=date(%d.%m.%Y),at=timestamp_ntz({whole})", "--delimiter", ";"]
    types += ["--types", f"seen=timestamp({whole})", "--output", "json"]
    for given in (path, "-"):
        words = ["get", tmp_path / "s", "--keys", given, *types]
        result = run(*words, "--zone", "Asia/Tokyo", given=path.read_bytes())
        assert result.exit_code == 0, result.output
        assert [json.loads(line)["n"] for line in result.stdout.splitlines()] == asked
        refused = run(*words, given=path.read_bytes())
        assert "which names no zone; give --zone with the zone of such times" in refused.stderr
    days = pa.table({"day": sorted({str(one.date()) for one in times})})
    HudiTable.create(tmp_path / "t", days.schema, record_key="day").insert(days)
    path.write_text(f"day\n{times[asked[0]]:%m/%d/%Y}\n")
    words = ["hudi", "get", tmp_path / "t", "--keys", path, "--output", "json"]
    result = run(*words, "--types", "day=date(%m/%d/%Y)")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["day"] == str(times[asked[0]].date())
    result = run(*words, "--types", "dya=date(%m/%d/%Y)")
    assert f"Error: --types: {path} has no column 'dya'; it has ['day']" in result.stderr
    result = run(*words, "--types", "day=date(%d.%m.%Y)")
    assert "which is not in the format '%d.%m.%Y'" in result.stderr


def test_notation_of_other_keys_is_refused(store: Path, tmp_path: Path) -> None:
    table = pa.table({"id": [3]})
    pq.write_table(table, tmp_path / "k.parquet")
    (tmp_path / "k.arrow").write_bytes(ipc(table, pa.ipc.new_file))
    for given in (["3"], ["--keys", tmp_path / "k.parquet"], ["--keys", tmp_path / "k.arrow"]):
        result = run("get", store, *given, "--delimiter", ";")
        assert (result.exit_code, result.stdout) == (2, "")
        said = "; --delimiter, --quote, --null, --names, --types and --zone are for CSV that --keys"
        assert said in result.stderr
        assert said in run("get", store, *given, "--types", "id=int").stderr
    result = run("get", store, "--keys", "-", given=b"id;v\n3;1\n")
    assert "standard input is separated by ';'; give --delimiter ';'" in result.stderr
    result = run("get", store, "--keys", "-", "--delimiter", ";", given=b"3;1\n")
    assert "--keys standard input: no key column 'id'; it has ['3', '1']" in result.stderr
