"""Sources of CSV, JSON lines and Arrow IPC, and open files: what they had, and what is wrong."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import io
import json
import math
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

import lookupstore
from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi import HudiTable
from lookupstore.source.opening import open_source

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "x": pa.float64(),
        "flag": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "utc": pa.timestamp("us", "UTC"),
        "code": pa.string(),
        "text": pa.string(),
    }
)
TEXTS = ["", "a", "NA", "null", 'say "hi"', "a,b", "two\nlines", "\ttab", "Zoë", " 1", "true"]


def read(source: Any, columns: list[str] | None = None) -> pa.Table:
    opened = open_source(source)
    names = opened.schema.names if columns is None else columns
    schema = pa.schema([opened.schema.field(name) for name in names])
    return pa.Table.from_batches(opened.batches(names), schema)


def some_rows(chance: random.Random, count: int) -> pa.Table:
    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.1 else value

    def moment() -> datetime.datetime:
        return datetime.datetime(2024, 1, 1) + datetime.timedelta(
            microseconds=chance.randrange(10**14)
        )

    rows = [
        {
            "id": chance.choice([0, -1, 7, chance.randrange(-(1 << 63), 1 << 63)]),
            "x": maybe(chance.choice([0.5, -2.25, math.inf, chance.random() * 1e300])),
            "flag": maybe(chance.random() < 0.5),
            "day": maybe(moment().date()),
            "at": maybe(moment()),
            "utc": maybe(moment().replace(tzinfo=datetime.timezone.utc)),
            "code": maybe(f"{chance.randrange(10**5):05}"),
            "text": maybe(chance.choice(TEXTS)),
        }
        for _ in range(count)
    ]
    # What a column is, its first rows say.
    rows[0] |= {"flag": True, "day": moment().date(), "at": moment(), "x": 0.5, "text": "a"}
    rows[0] |= {"utc": moment().replace(tzinfo=datetime.timezone.utc), "code": "02134"}
    return pa.Table.from_pylist(rows, SCHEMA)


def as_csv(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pa_csv.write_csv(table, sink)
    return bytes(sink.getvalue())


def as_ipc(table: pa.Table, *, stream: bool, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    made = (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema, options=options)
    with made as writer:
        writer.write_table(table, max_chunksize=100)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("count", [1, 50, 30_000])
def test_csv_of_every_type(tmp_path: Path, seed: int, count: int) -> None:
    table = some_rows(random.Random(seed), count)
    (tmp_path / "a.csv").write_bytes(as_csv(table))
    for name in ("a.csv.gz", "A.CSV.GZ"):
        (tmp_path / name).write_bytes(gzip.compress(as_csv(table)))
    for name in ("a.csv", "a.csv.gz", "A.CSV.GZ"):
        found = read(tmp_path / name)
        assert found.schema == SCHEMA
        assert found.equals(table)
    assert read(str(tmp_path / "a.csv"), ["text", "id"]).equals(table.select(["text", "id"]))


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["02134", "10001"], ["02134", "10001"]),
        (["1", "007"], ["1", "007"]),
        (["+49 30", "1"], ["+49 30", "1"]),
        (["+49", "1"], ["+49", "1"]),
        (["0x1f", "1"], ["0x1f", "1"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["9999999999999999999", "1"], ["9999999999999999999", "1"]),
        (["1.5", "12345678901234567"], ["1.5", "12345678901234567"]),
        (["-05", "1"], ["-05", "1"]),
        (["9223372036854775807", "-9223372036854775808"], [(1 << 63) - 1, -(1 << 63)]),
        (["0", "-0"], [0.0, -0.0]),
        (["12E3", "1"], ["12E3", "1"]),
        (["1.0e400", "0.5"], ["1.0e400", "0.5"]),
        (["1.5", "12345678901234567.5"], ["1.5", "12345678901234567.5"]),
        (["1.0E10", "-2.5e-7", "1e+300", ".5"], [1e10, -2.5e-7, 1e300, 0.5]),
        (["nan", "Infinity"], ["nan", "Infinity"]),
        (["0.5", "-inf"], [0.5, -math.inf]),
        (["0.5", "10"], [0.5, 10.0]),
        (["1", ""], [1, None]),
        (["", ""], [None, None]),
        (['""', "a"], ["", "a"]),
        (["NA", "1"], ["NA", "1"]),
        (["true", "false"], [True, False]),
        (["12:30", "13:00"], ["12:30", "13:00"]),
    ],
    ids=str,
)
def test_what_text_becomes(texts: list[str], values: list[Any]) -> None:
    rows = "".join(f"{at},{text}\n" for at, text in enumerate(texts))
    found = read(io.BytesIO(f"id,v\n{rows}".encode()))["v"].to_pylist()
    assert found == values
    assert list(map(type, found)) == list(map(type, values))


def test_a_later_value_of_another_type_is_an_error(tmp_path: Path) -> None:
    """More than a megabyte of numbers comes before it."""
    for late in ("x", "007", "1.5", "99999999999999999999"):
        (tmp_path / "a.csv").write_text("id,v\n" + "1,2\n" * 400_000 + f"{late},2\n")
        with pytest.raises(ValueError, match=rf"a\.csv: the column 'id' is int64 and has '{late}'"):
            read(tmp_path / "a.csv")
        # A column that is not asked for does no harm.
        assert read(tmp_path / "a.csv", ["v"]).num_rows == 400_001
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n' * 200_000 + '{"id": "x"}\n')
    with pytest.raises(
        ValueError, match=r"a\.jsonl: JSON parse error: .*id: int64.* values of 'id' in one type"
    ):
        read(tmp_path / "a.jsonl")


def test_long_rows_and_quotes(seed: int) -> None:
    """Rows of megabytes, and quotes that are open where a block ends."""
    chance = random.Random(seed)
    texts = ["x" * 3_000_000, 'a\n"b"\r\n', "", "two\nlines\n" * 200_000, '""\n"', "end"]
    table = pa.table({"id": list(range(6)), "v": chance.sample(texts, 6)})
    assert read(io.BytesIO(as_csv(table))).equals(table)
    assert read(io.BytesIO(as_csv(table)[:-1])).equals(table)
    rows = b"".join(json.dumps(row).encode() + b"\n" for row in table.to_pylist())
    assert read(io.BytesIO(rows)).equals(table)
    with pytest.raises(ValueError, match="row 1 has a quote that is never closed"):
        read(io.BytesIO(b'id,z\n1,"abc\n2,d\n3,e\n'))
    many = [f"c{at}" for at in range(50_000)]
    assert open_source(io.BytesIO(",".join(many).encode())).schema.names == many


def test_tabs_and_windows_lines() -> None:
    rows = [{"id": 1, "a b": "x,y"}, {"id": 2, "a b": "ü"}]
    for text in (
        "id\ta b\n1\tx,y\n2\tü\n",
        '\ufeffid,a b\r\n1,"x,y"\r\n2,ü\r\n',
        '\n\nid,"a b"\n1,"x,y"\n2,ü',
        'id,a b\r1,"x,y"\r2,ü\r',
        'id,"a b"\n1,"x,y"\r\n2,ü\r\n',
    ):
        assert read(io.BytesIO(text.encode())).to_pylist() == rows


def test_json_lines(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    rows = [
        {
            "id": at,
            "text": chance.choice([None, *TEXTS]),
            "x": chance.choice([None, chance.random()]),
            "tags": [chance.randrange(9) for _ in range(chance.randrange(3))],
            "of": {"a": chance.randrange(9)},
        }
        for at in range(5000)
    ]
    rows[0] |= {"x": 0.5, "text": "a", "tags": [1]}
    (tmp_path / "a.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read(tmp_path / "a.ndjson").to_pylist() == rows


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_arrow_ipc(tmp_path: Path, seed: int, compression: str | None) -> None:
    table = some_rows(random.Random(seed), 1000)
    table = table.append_column("kind", table["text"].combine_chunks().dictionary_encode())
    (tmp_path / "a.arrows").write_bytes(as_ipc(table, stream=True, compression=compression))
    (tmp_path / "a.arrow").write_bytes(as_ipc(table, stream=False, compression=compression))
    feather.write_feather(
        table, str(tmp_path / "a.feather"), compression=compression or "uncompressed"
    )
    for name in ("a.arrows", "a.arrow", "a.feather"):
        assert read(tmp_path / name).equals(table)


def test_floats_of_json() -> None:
    rows = b'{"x": 1e300}\n{"x": -0.1}\n{"x": 9007199254740991}\n{"x": null}\n'
    assert read(io.BytesIO(rows))["x"].to_pylist() == [1e300, -0.1, 2.0**53 - 1, None]


def test_iterators_of_frames_that_have_a_read() -> None:
    """As pandas gives them; they are no open files."""
    frames = pd.read_csv(io.StringIO("id,v\n1,a\n2,b\n"), chunksize=1)
    assert read(frames).to_pylist() == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    with pytest.raises(TypeError, match="give a path, URI, glob"):
        open_source(object())


def test_a_table_whose_folder_has_such_a_name(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t.csv", pa.schema({"id": pa.int64()}), record_key="id")
    table.upsert(pa.table({"id": [1]}))
    assert read(tmp_path / "t.csv").to_pylist() == [{"id": 1}]
    (tmp_path / "s.csv").mkdir()
    (tmp_path / "s.csv" / "part-0.csv").write_text("id\n1\n")
    (tmp_path / "s.csv" / "_SUCCESS").touch()
    assert read(tmp_path / "s.csv").to_pylist() == [{"id": 1}]


def test_files_and_globs(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("v,id\n2,1\n,2\n")
    (tmp_path / "a.csv").write_text("id,v\n3,4\n")
    rows = [{"id": 3, "v": 4}, {"id": 1, "v": 2}, {"id": 2, "v": None}]
    uri = f"file://{tmp_path}/*.csv"
    for source in (tmp_path / "*.csv", uri, [tmp_path / "a.csv", tmp_path / "b.csv"]):
        assert read(source if isinstance(source, list) else str(source)).to_pylist() == rows
    described = open_source(str(tmp_path / "*.csv"))
    assert described.description == f"{tmp_path}/*.csv (2 CSV files)"
    assert described.is_files
    assert described.nbytes == 21


def test_a_build_of_files_that_have_not_changed_reads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,v\n1,2\n")
    os.utime(path, (1, 1))

    def rewritten() -> int:
        with lookupstore.build(path, tmp_path / "s", key="id", overwrite=True) as store:
            assert store[1] == {"v": int(path.read_text()[-2])}
            return store.info().rewritten_buckets

    assert [rewritten(), rewritten()] == [1, 0]
    path.write_text("id,v\n1,3\n")
    assert rewritten() == 1


def test_a_file_that_may_change_under_its_time_has_no_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The times of some file systems have a step of two seconds, such as those of FAT."""
    path = tmp_path / "a.csv"
    path.write_text("id,v\n1,2\n")
    written = 1_700_000_000 * 10**9
    os.utime(path, ns=(written, written))
    for later, settled in ((2 * 10**9 - 1, False), (2 * 10**9, True), (-1, False)):
        monkeypatch.setattr("time.time_ns", lambda later=later: written + later)
        assert (open_source(path).fingerprint is not None) == settled, later


def test_open_files(tmp_path: Path) -> None:
    table = pa.table({"id": [2, 1], "v": ["b", None]})
    pq.write_table(table, tmp_path / "p")
    orc.write_table(table, str(tmp_path / "o"))
    (tmp_path / "i").write_bytes(as_ipc(table, stream=False))
    (tmp_path / "s").write_bytes(as_ipc(table, stream=True))
    (tmp_path / "c").write_bytes(as_csv(table))
    for name in "poisc":
        with open(tmp_path / name, "rb") as file:
            assert read(file).equals(table)
        assert read(io.BytesIO((tmp_path / name).read_bytes())).equals(table)
    with (
        open(tmp_path / "c") as text,
        pytest.raises(TypeError, match="c is open for text; open it for bytes"),
    ):
        open_source(text)


@pytest.mark.parametrize("kind", ["csv", "stream", "file", "parquet"])
def test_a_pipe(kind: str) -> None:
    table = pa.table({"id": list(range(200_000)), "v": ["x"] * 200_000})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    stored = {
        "csv": as_csv(table),
        "stream": as_ipc(table, stream=True),
        "file": as_ipc(table, stream=False),
        "parquet": bytes(sink.getvalue()),
    }[kind]
    reads, writes = os.pipe()

    def write() -> None:
        with open(writes, "wb") as end:
            try:
                end.write(stored)
            except BrokenPipeError:
                assert kind in ("file", "parquet")

    writer = threading.Thread(target=write)
    writer.start()
    with open(reads, "rb") as end:
        if kind in ("csv", "stream"):
            assert read(end).equals(table)
        else:
            with pytest.raises(ValueError, match=r"is not read from .*name the file"):
                open_source(end)
    writer.join()


def run_in(folder: Path, given: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line with a standard input."""
    command = [str(Path(sys.executable).with_name("lookupstore")), *arguments]
    return subprocess.run(command, input=given, capture_output=True, cwd=folder, check=False)


def test_times_in_json_are_texts() -> None:
    rows = [{"at": "2020-01-01T10:00:00+05:00", "of": {"day": ["2020-01-01"]}, "none": None}]
    assert read(io.BytesIO(json.dumps(rows[0]).encode())).to_pylist() == rows


def test_a_column_has_the_types_of_the_place_where_it_goes(tmp_path: Path) -> None:
    """Not those that a few changed rows look like."""
    rows = pa.table(
        {
            "zip": ["02134", "x"],
            "v": ["a", "1.50"],
            "n": pa.array([1, 2], pa.int16()),
            "at": pa.array([1, 2], pa.timestamp("ns", "UTC")),
        }
    )
    texts = {"zip": "10001", "v": "1e5", "n": 7, "at": "2020-01-01T10:00:00.000000001Z"}
    stored = {"v": "1e5", "n": 7, "at": pd.Timestamp(texts["at"])}
    header, values = ",".join(texts), ",".join(map(str, texts.values()))
    for kind, content in (("csv", f"{header}\n{values}\n"), ("jsonl", json.dumps(texts))):
        (tmp_path / f"c.{kind}").write_text(content)
        lookupstore.build(rows, tmp_path / kind, key="zip").close()
        store = lookupstore.upsert(tmp_path / kind, tmp_path / f"c.{kind}")
        assert store["10001"] == stored
        assert len(store) == 3
        (tmp_path / f"d.{kind}").write_text(content.replace("7", "70000"))
        with pytest.raises(ValueError, match=r"the column 'n' .*int16"):
            lookupstore.upsert(tmp_path / kind, tmp_path / f"d.{kind}")
    table = HudiTable.create(
        tmp_path / "t", pa.schema({"id": pa.string(), "v": pa.string()}), record_key="id"
    )
    table.upsert(io.BytesIO(b"id,v\n1,007\n2,1.50\n"))
    assert table.scan(columns=["id", "v"]).to_pylist() == [
        {"id": "1", "v": "007"},
        {"id": "2", "v": "1.50"},
    ]


def test_a_command_that_ends_before_its_input(tmp_path: Path) -> None:
    """An error comes while the producer is still at work; nothing waits for it."""
    command = [str(Path(sys.executable).with_name("lookupstore"))]
    with subprocess.Popen(
        [*command, "build", "-", "s", "--key", "nope"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"id,v\n" + b"1,2\n" * 500_000)
            process.stdin.flush()
        said = process.stderr.read()
        assert process.wait(30) == 2
        assert said.startswith(b"Error: --key: standard input has no column 'nope'")
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def test_without_a_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert read(io.BytesIO(b"id\n1\n")).to_pylist() == [{"id": 1}]


def test_changes_of_text_from_standard_input(tmp_path: Path) -> None:
    zips = b"zip,city\n02134,Boston\n"
    assert run_in(tmp_path, zips, "build", "-", "z", "--key", "zip").returncode == 0
    assert run_in(tmp_path, b"zip,city\n10001,1\n", "upsert", "z", "-").returncode == 0
    joined = run_in(tmp_path, b"zip\n10001\n", "join", "-", "z", "--on", "zip", "--output", "csv")
    assert joined.stdout == b"zip,city\n10001,1\n"


def test_standard_input(tmp_path: Path) -> None:
    def run(given: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return run_in(tmp_path, given, *arguments)

    assert run(b"id,v\n1,a\n2,b\n", "build", "-", "s", "--key", "id").returncode == 0
    more = as_ipc(pa.table({"id": [2, 3], "v": ["B", "C"]}), stream=True)
    assert run(more, "upsert", "s", "-").returncode == 0
    joined = run(b'{"id": 3}\n{"id": 9}\n', "join", "-", "s", "--on", "id", "--output", "json")
    assert list(map(json.loads, joined.stdout.splitlines())) == [
        {"id": 3, "v": "C"},
        {"id": 9, "v": None},
    ]
    wrong = run(b"", "build", "-", "x.parquet", "t", "--key", "id")
    assert b"- is standard input, and stands alone" in wrong.stderr
    assert b"standard input is empty" in run(b"", "build", "-", "t", "--key", "id").stderr


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("a.csv", b"", ValueError, "a.csv is empty; leave it out, or write the line with"),
        ("a.csv", b"id,v,id\n1,2,3\n", ValueError, "a.csv names columns twice: id"),
        ("a.csv", b"id,v\n1,2\n3\n", ValueError, "row 2 has 1 fields, and the line of names 2"),
        ("a.csv", b"id,v\n1,\xff\n", ValueError, "the column 'v' is not UTF-8 in row 1: "),
        ("a.csv", b'id,"v\n1,2\n', ValueError, "the line of names has a quote that is never"),
        ("a.csv", b"id;v\n1;2\n", ValueError, "a.csv is separated by ';'; pass pyarrow"),
        ("a.csv", b"id|v\n1|2\n", ValueError, r"by '\|'; .* with convert_options where codes such"),
        ("a.csv", b"Sales,,\nid,v,w\n", ValueError, "line does not name all columns: 'Sales,,'"),
        ("a.csv", b"\xff\xfei\0d\0", ValueError, "a.csv is text in UTF-16; convert it to UTF-8"),
        ("a.csv", b"\x1f\x8b\x08", ValueError, "a.csv is compressed by gzip"),
        ("a.feather", b"FEA1\0\0", ValueError, "a.feather is Feather of version 1"),
        ("a.jsonl", b'[{"id": 1}]', ValueError, "a.jsonl is a JSON array; convert it"),
        (
            "a.jsonl",
            b'{"x": 0.5}\n{"x": 9007199254740993}\n',
            ValueError,
            "9007199254740993 in row 2",
        ),
        ("a.jsonl", b'{"id": 1\n', ValueError, "JSON parse error: .*: row 1: "),
        ("a.arrow", b"ARROW1", CorruptionError, "an Arrow IPC file"),
        ("a.arrows", b"\xff\xff\xff\xff\x10\0\0\0", CorruptionError, "an Arrow IPC file"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, name: str, content: bytes, error: type[Exception], message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        read(tmp_path / name)


def test_kinds_are_not_mixed(tmp_path: Path) -> None:
    for name in ("a.csv", "b.jsonl", "c.parquet"):
        (tmp_path / name).write_text("id\n1\n")
    with pytest.raises(ValueError, match="source mixes CSV and JSON lines files"):
        open_source([tmp_path / "a.csv", tmp_path / "b.jsonl"])
    for paths in ([tmp_path / "a.csv", tmp_path / "c.parquet"], tmp_path / "a*"):
        with pytest.raises(ValueError, match=r"a\.csv is CSV; give it alone, or with .* in \.csv"):
            open_source(paths)
    (tmp_path / "b.csv").write_text("v\n1\n")
    with pytest.raises(ValueError, match=r"b\.csv lacks the column 'id', which the first file has"):
        read([tmp_path / "a.csv", tmp_path / "b.csv"])


def test_a_size_of_ipc_beyond_all_memory_is_damage(tmp_path: Path) -> None:
    """A compressed buffer says how large it is without: here a petabyte."""
    path = tmp_path / "a.arrow"
    content = as_ipc(pa.table({"v": range(99)}), stream=False, compression="zstd")
    size = (8 * 99).to_bytes(8, "little")
    assert content.count(size) == 1
    path.write_bytes(content.replace(size, (1 << 50).to_bytes(8, "little")))
    with pytest.raises(CorruptionError, match=r"a\.arrow: .* more memory than there is"):
        read(path)


def test_what_arrow_believes_of_ipc_is_looked_at(tmp_path: Path) -> None:
    """An index of a dictionary, and an offset of a list, that lead outside."""
    texts = pa.array(["a", "b"])
    index = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), texts, safe=False)
    outside = pa.py_buffer(np.array([0, 9, 2], np.int32))
    lists = pa.Array.from_buffers(pa.list_(pa.string()), 2, [None, outside], children=[texts])
    for column in (index, lists):
        path = tmp_path / "a.arrow"
        path.write_bytes(as_ipc(pa.table({"id": [1, 2], "v": column}), stream=True))
        with pytest.raises(CorruptionError, match=r"a\.arrow: offset"):
            read(path)
        assert read(path, ["id"])["id"].to_pylist() == [1, 2]


def outcome_of(path: Path) -> str:
    """Read a file; return the kind of error, which names it, or that there were rows."""
    try:
        read(path).validate(full=True)
    except (CorruptionError, FormatError, ValueError) as error:
        return type(error).__name__ if str(path) in str(error) else repr(error)
    return "rows"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow", "arrows"])
def test_changed_files_do_no_harm(tmp_path: Path, seed: int, kind: str) -> None:
    """What is read of them is rows, or one of the errors that reading has."""
    chance = random.Random(seed)
    table = some_rows(chance, 40)
    stored = {
        "csv": lambda: as_csv(table),
        "jsonl": lambda: b"".join(
            json.dumps(row, default=str).encode() + b"\n"
            for row in table.select(["id", "code", "text", "flag"]).to_pylist()
        ),
        "arrow": lambda: as_ipc(table, stream=False),
        "arrows": lambda: as_ipc(table, stream=True),
    }[kind]()
    path = tmp_path / f"a.{kind}"
    outcomes = set()
    for _ in range(150):
        changed = bytearray(stored)
        for _ in range(chance.choice([1, 1, 3])):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        path.write_bytes(changed[: chance.choice([len(changed), chance.randrange(len(changed))])])
        outcomes.add(outcome_of(path))
    # Text is never said to be damaged: it has no checksum to contradict.
    error = "CorruptionError" if kind.startswith("arrow") else "ValueError"
    # By chance, bytes say something that Arrow does not read.
    assert {error} <= outcomes <= {error, "ValueError", "FormatError", "rows"}


def test_an_unknown_extension_lists_all_that_are_read(tmp_path: Path) -> None:
    for name in ("a.txt", "a.csv.xz"):
        (tmp_path / name).write_text("id\n1\n")
        with pytest.raises(ValueError, match=rf"{name} has the extension '\.(txt|xz)'") as raised:
            open_source(tmp_path / name)
        for one in (".parquet", ".orc", ".csv", ".tsv", ".jsonl", ".ndjson", ".arrow", ".gz"):
            assert f"{one}" in str(raised.value).partition("supported: ")[2]
        advice = f"; if it is CSV, give it open: open('{tmp_path / name}', 'rb')"
        assert str(raised.value).endswith(advice) == (name == "a.txt")
        with pytest.raises(ValueError, match="supported: ") as raised:  # which reads no text
            lookupstore.ColumnarFiles(tmp_path / name, key="id")
        assert ".csv," not in str(raised.value)
    (tmp_path / "b.jsonl").write_text('{"id": 1}')
    with pytest.raises(ValueError, match=r"lookupstore\.build makes a store of JSON lines$"):
        lookupstore.ColumnarFiles(tmp_path / "b.jsonl", key="id")
    parts = (pa.table({"id": [n], "v": [value]}) for n, value in enumerate((None, "x")))
    with pytest.raises(TypeError, match=r"give them one schema, as pa\.Table\.from_pandas"):
        lookupstore.build(parts, tmp_path / "parts", key="id")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.csv").write_text("id\n1\n")
    with pytest.raises(
        FileNotFoundError, match=r"it has a\.csv; for CSV, give a glob: '.*/folder/\*\.csv'$"
    ):
        open_source(folder)
    assert read(f"{folder}/*.csv").to_pylist() == [{"id": 1}]


def test_columns_that_no_store_can_hold_name_the_file(tmp_path: Path) -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2])] * 2)
    ends = pa.RunEndEncodedArray.from_arrays([1, 2], ["a", "b"])
    for number, column in enumerate([union, ends]):
        path = tmp_path / f"{number}.arrows"
        table = pa.table({"id": [1, 2], "v": column})
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
        for given, name in ((path, f"{path} .*"), (table, "Arrow table of 2 rows")):
            with pytest.raises(TypeError, match=f"source: {name}: the column 'v' is .*cast it, or"):
                lookupstore.build(given, tmp_path / "store", key="id")
        with pytest.raises(TypeError, match=f"source: {path} .*: .*'v'"):
            lookupstore.build(path, tmp_path / "store", key="v")
