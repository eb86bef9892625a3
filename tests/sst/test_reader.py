"""The reader's arguments and small promises; test_model.py checks its answers against a dict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.sst_files import fresh, written

from lookupstore.sst import Reader, Writer
from lookupstore.sst.scans import after_prefix

RECORDS = [(b"a", b"1"), (b"ab", b"2"), (b"ab\xff", b"3"), (b"ac", b"4"), (b"\xff\xff", b"5")]


@pytest.fixture(params=["native", "paimon"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Reader:
    return fresh(written(tmp_path / "r.sst", RECORDS, dialect=request.param, block_size=1))


def test_bad_keys(reader: Reader) -> None:
    bad: Any
    for bad in ("a", None, 7, bytearray(b"a")):
        with pytest.raises(TypeError, match="key"):
            reader.get(bad)
    for bad, message in (
        ("ab", "keys is str; give a list of bytes, or an Arrow binary array"),
        (b"ab", "keys is bytes"),
        (None, "keys is NoneType"),
        ([b"a", "b"], r"keys\[1\] is str; give bytes"),
        ([b"a", None], r"keys\[1\] is NoneType"),
        (pa.array([1]), "keys has the Arrow type int64; give binary"),
        (pa.array([b"a"]).dictionary_encode(), "keys has the Arrow type dictionary"),
        (pa.chunked_array([[1.5]]), "keys has the Arrow type double"),
    ):
        for call in (reader.lookup, reader.contains):
            with pytest.raises(TypeError, match=message):
                call(bad)


def test_bad_ranges(reader: Reader) -> None:
    for bounds in ({"start": b"a"}, {"stop": b"a"}, {"start": b"a", "stop": b"b"}):
        with pytest.raises(ValueError, match="give starts_with, or start and stop, not both"):
            reader.scan(starts_with=b"a", **bounds)
    bad: Any
    for bad in ("a", 7):
        for name in ("start", "stop", "starts_with"):
            with pytest.raises((TypeError, AttributeError)):
                list(reader.scan(**{name: bad}))


@pytest.mark.parametrize("kind", [Reader, Writer])
def test_a_uri_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"path is a URI, of s3://; give a file") as caught:
        kind("s3://name:secret@bucket/a.sst")
    assert "secret" not in str(caught.value)


def test_bad_order(tmp_path: Path) -> None:
    path = written(tmp_path / "r.sst", RECORDS)
    with pytest.raises(ValueError, match=r"order must be one of 'bytes', 'int8', .*, not 'utf8'"):
        Reader(path, order="utf8")
    with pytest.raises(
        ValueError, match=r"order='int8': .*r\.sst is a native file, whose order is"
    ):
        Reader(path, order="int8")
    path = written(tmp_path / "n.sst", [(b"1", b"")], dialect="paimon", order="int8")
    with pytest.raises(ValueError, match="starts_with needs the key order 'bytes'; this one"):
        fresh(path, "int8").scan(starts_with=b"1")


def test_a_scan_takes_keyword_arguments_only(reader: Reader) -> None:
    form = r"\(start=..., stop=..., starts_with=..., reverse=...\)"
    for name, call in (("scan", reader.scan), ("items", reader.items)):
        message = f"{name} takes keyword arguments only: {name}{form}; got bytes b'a' without"
        with pytest.raises(TypeError, match=message):
            call(b"a")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=f"{name} has no argument 'prefix': {name}{form}"):
            call(prefix=b"a")  # type: ignore[call-arg]


def test_prefixes(reader: Reader) -> None:
    def keys(prefix: bytes) -> list[bytes]:
        return [key for key, _ in reader.items(starts_with=prefix)]

    assert keys(b"") == [key for key, _ in RECORDS]
    assert keys(b"a") == [b"a", b"ab", b"ab\xff", b"ac"]
    assert keys(b"ab") == [b"ab", b"ab\xff"]
    assert keys(b"ab\xff") == [b"ab\xff"]
    assert keys(b"\xff") == keys(b"\xff\xff") == [b"\xff\xff"]
    assert keys(b"\xff\xff\xff") == keys(b"b") == []
    assert after_prefix(b"a\xff\xff") == b"b"
    assert after_prefix(b"\xff") is after_prefix(b"") is None


def test_a_range_that_is_empty_or_backwards(reader: Reader) -> None:
    assert list(reader.scan(start=b"b", stop=b"b")) == []
    assert list(reader.scan(start=b"ac", stop=b"a")) == []
    assert list(reader.scan(start=b"ac", stop=b"a", reverse=True)) == []


def test_defaults(reader: Reader) -> None:
    marker = object()
    assert reader.get(b"none") is None
    assert reader.get(b"none", marker) is marker
    assert reader.get(b"a", marker) == b"1"
    assert b"a" in reader
    assert b"none" not in reader


def test_a_path_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "päth with space.sst", RECORDS)
    assert Reader(str(path)).get(b"a") == b"1"
    monkeypatch.chdir(tmp_path)
    reader = Reader("päth with space.sst")
    assert reader.path == str(path)
    monkeypatch.chdir("/")
    assert reader.get(b"a") == b"1"


def test_info(tmp_path: Path) -> None:
    path = written(tmp_path / "i.sst", RECORDS, block_size=1, compression="none")
    info = fresh(path).info()
    assert (info.path, info.dialect, info.order) == (str(path), "native", "bytes")
    assert (info.num_records, info.data_blocks, info.codecs) == (5, 5, {"none": 5})
    assert (info.min_key, info.max_key) == (b"a", b"\xff\xff")
    assert info.file_bytes == path.stat().st_size
    assert info.filter_kind == "split-block-xxh64"
    assert info.filter_bytes == 32
    assert info.writer.startswith("lookupstore ")  # type: ignore[union-attr]
    with pytest.raises(AttributeError):
        info.path = "x"  # type: ignore[misc]
    plain = json.loads(json.dumps(info.to_json()))
    assert plain["min_key"] == "61"
    assert plain["key_schema"] is None


def test_the_count_of_a_paimon_file_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path / "i.sst", RECORDS, dialect="paimon", compression="none")
    reader = fresh(path)
    assert reader.info().num_records is reader.info().codecs is None
    assert "records" not in repr(reader)
    assert len(reader) == 5
    assert reader.info().num_records == 5
    assert "5 records" in repr(reader)
    assert reader.info().filter_entries == 5


def test_as_a_context(tmp_path: Path) -> None:
    path = written(tmp_path / "i.sst", RECORDS)
    with fresh(path) as reader:
        assert reader.get(b"a") == b"1"
    assert repr(reader).startswith("<closed")
    assert len(reader) == 5  # which has been read


def test_arrow_answers_are_whole(reader: Reader) -> None:
    """Null rows, empty values, and no row more than asked."""
    answers = reader.lookup([b"none", b"a", b"none", b"\xff\xff"] * 5)
    answers.validate(full=True)
    assert answers.null_count == 10
    assert answers.slice(1, 3).to_pylist() == [b"1", None, b"5"]
    assert reader.contains([b"a"] * 9).type == pa.bool_()


@pytest.mark.parametrize("name", ["start", "stop", "starts_with"])
def test_bounds_of_a_scan_are_bytes(tmp_path: Path, name: str) -> None:
    reader = Reader(written(tmp_path / "a.sst", [(b"a", b"1")]))
    with pytest.raises(TypeError, match=f"{name} is str; give bytes"):
        reader.scan(**{name: "a"})  # type: ignore[arg-type]


def test_a_scan_is_an_arrow_reader(tmp_path: Path) -> None:
    with Writer(tmp_path / "x.sst") as writer:
        writer.put_many([b"a", b"b", b"c"], [b"1", b"", b"3"])
    reader = Reader(tmp_path / "x.sst")
    found = reader.scan(start=b"b")
    assert found.schema == reader.schema == pa.schema(
        {"key": pa.large_binary(), "value": pa.large_binary()}
    )  # fmt: skip
    assert found.read_all().to_pylist() == [
        {"key": b"b", "value": b""},
        {"key": b"c", "value": b"3"},
    ]
    assert reader.scan(start=b"d").read_all().schema == reader.schema
