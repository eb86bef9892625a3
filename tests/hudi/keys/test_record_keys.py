"""Record keys and partition paths against plain Python and files of Apache Hudi."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookupstore.hudi.keys.key_generator import partition_paths, record_keys

# The fields of each table, as its properties say.
TABLES = {
    "v6_complexkeygen_hivestyle": (["id", "name"], ["byteField", "shortField"]),
    "v6_nonpartitioned": (["id"], []),
    "v8_nonpartitioned": (["id"], []),
    "v9_txns_complex_meta": (["txn_id", "account_id"], ["region"]),
    "v9_txns_nonpart_meta": (["txn_id"], []),
    "v9_txns_simple_nometa": (["txn_id"], ["region"]),
}
INTEGERS = st.none() | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.none() | st.text(max_size=5)
ROWS = st.lists(st.tuples(INTEGERS, TEXTS, TEXTS), max_size=20)


def cut(table: pa.Table, at: int) -> pa.Table:
    """Return the same rows in other chunks, one of them with an offset."""
    return pa.concat_tables([table.slice(0, at), table.slice(at)])


def table_of(rows: list[tuple[int | None, str | None, str | None]], at: int) -> pa.Table:
    columns = {
        "a": pa.array([row[0] for row in rows], pa.int64()),
        "b": pa.array([row[1] for row in rows], pa.large_string()),
        "c": pa.array([row[2] for row in rows], pa.string()).dictionary_encode(),
    }
    return cut(pa.table(columns), at)


def key_of(names: str, values: tuple[object, ...]) -> str:
    texts = ["__null__" if v is None else str(v) or "__empty__" for v in values]
    return ",".join(f"{name}:{text}" for name, text in zip(names, texts, strict=True))


@given(rows=ROWS, at=st.integers(0, 20))
def test_keys_of_several_fields(
    rows: list[tuple[int | None, str | None, str | None]], at: int
) -> None:
    table = table_of(rows, at)
    bad = [i for i, row in enumerate(rows) if all(value in (None, "") for value in row)]
    if bad:
        with pytest.raises(
            ValueError, match=rf"^row {bad[0] + 1} has no record key: c, a, b are all"
        ):
            record_keys(table, ["c", "a", "b"])
        return
    expected = [key_of("cab", (c, a, b)) for a, b, c in rows]
    found = record_keys(table, ["c", "a", "b"])
    assert found.type == pa.string()
    assert found.to_pylist() == expected


@given(rows=ROWS, at=st.integers(0, 20), named=st.none() | st.booleans())
def test_keys_of_one_field(
    rows: list[tuple[int | None, str | None, str | None]], at: int, named: bool | None
) -> None:
    table = table_of(rows, at)
    for number, name in enumerate("abc"):
        values = [row[number] for row in rows]
        bad = [i for i, value in enumerate(values) if value in (None, "")]
        if bad:
            with pytest.raises(
                ValueError, match=rf"^row {bad[0] + 1} has .* {name} is null or empty"
            ):
                record_keys(table, [name], named=named)
        else:
            expected = [f"{name}:{value}" if named else str(value) for value in values]
            assert record_keys(table, [name], named=named).to_pylist() == expected


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
def test_integers_are_printed_as_java_does(kind: pa.DataType) -> None:
    most = 2 ** (kind.bit_width - 1) - 1
    values = [0, -1, most, -most - 1]
    table = pa.table({"id": pa.array(values, kind)})
    assert record_keys(table, ["id"]).to_pylist() == [str(value) for value in values]


def test_keys_and_paths_of_apache_hudi(real_tables: Path, real_base_files: list[Path]) -> None:
    for path in real_base_files:
        table = pq.read_table(path, partitioning=None)
        keys, partitions = TABLES[path.relative_to(real_tables).parts[0]]
        assert record_keys(table, keys).to_pylist() == table["_hoodie_record_key"].to_pylist()
        paths = partition_paths(table, partitions, hive_style=True)
        assert paths.to_pylist() == table["_hoodie_partition_path"].to_pylist()
    assert len(real_base_files) > 20


def test_bad_key_columns() -> None:
    table = pa.table({"a": [1.5], "b": pa.array([1], pa.uint8()), "c": [True], "s": ["x"]})
    table = table.append_column("d", pa.array([0], pa.date32()))
    table = table.append_column("t", pa.array([0], pa.timestamp("us")))
    for name in "abcdt":
        for call in (record_keys, partition_paths):
            with pytest.raises(TypeError, match=rf"the column '{name}' is .*cast it to string"):
                call(table, ["s", name])
    for call in (record_keys, partition_paths):
        with pytest.raises(KeyError, match="no single column 'nope'; there are 'a', 'b'"):
            call(table, ["nope"])
        with pytest.raises(ValueError, match="fields names 's' twice"):
            call(table, ["s", "s"])
        with pytest.raises(TypeError, match="fields is the string 's'"):
            call(table, "s")
    with pytest.raises(ValueError, match="fields is empty"):
        record_keys(table, [])
    with pytest.raises(ValueError, match="named=False with 2 fields"):
        record_keys(pa.table({"x": ["1"], "y": ["2"]}), ["x", "y"], named=False)
    twice = pa.Table.from_arrays([pa.array(["1"])] * 2, names=["x", "x"])
    with pytest.raises(KeyError, match="no single column 'x'"):
        record_keys(twice, ["x"])


ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


def path_of(values: tuple[object, ...], hive_style: bool, url_encode: bool) -> str:
    folders = []
    for name, value in zip("abc", values, strict=True):
        text = "" if value is None else str(value)
        if url_encode:
            text = ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
        text = text or "__HIVE_DEFAULT_PARTITION__"
        folders.append(f"{name}={text}" if hive_style else text)
    return "/".join(folders)


def is_refused(path: str) -> bool:
    parts = path.split("/")
    return parts[0] == ".hoodie" or any(part in ("", ".", "..") for part in parts)


@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.integers(-3, 3),
            st.none() | st.text("ab/.%=^\x01\x7fé", max_size=3),
            st.none() | st.text("ab/.", max_size=3),
        ),
        max_size=20,
    ),
    at=st.integers(0, 20),
    hive_style=st.booleans(),
    url_encode=st.booleans(),
)
def test_paths(
    rows: list[tuple[int | None, str | None, str | None]],
    at: int,
    hive_style: bool,
    url_encode: bool,
) -> None:
    table = table_of(rows, at)
    expected = [path_of(row, hive_style, url_encode) for row in rows]
    options = {"hive_style": hive_style, "url_encode": url_encode}
    if any(is_refused(path) for path in expected):
        with pytest.raises(ValueError, match="the partition path"):
            partition_paths(table, ["a", "b", "c"], **options)
        return
    found = partition_paths(table, ["a", "b", "c"], **options)
    assert found.type == pa.dictionary(pa.int32(), pa.string())
    assert found.to_pylist() == expected
    assert sorted(found.dictionary.to_pylist()) == sorted(set(expected))


def test_every_escape() -> None:
    text = "".join(map(chr, range(128))) + "é名"
    [path] = partition_paths(pa.table({"p": [text]}), ["p"], url_encode=True).to_pylist()
    control = "".join(f"%{code:02X}" for code in range(32))
    assert path == (
        control + " !%22%23$%25&%27()%2A+,-.%2F0123456789%3A;<%3D>%3F@ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        "%5B%5C%5D%5E_`abcdefghijklmnopqrstuvwxyz%7B|}~%7Fé名"
    )


def test_paths_of_a_table_without_partitions() -> None:
    assert partition_paths(pa.table({"a": [1, 2]}), []).to_pylist() == ["", ""]
    assert len(partition_paths(pa.table({"a": pa.array([], pa.int64())}), ["a"])) == 0
    assert len(partition_paths(pa.table({"a": pa.array([], pa.int64())}), [])) == 0
    batch = pa.record_batch({"a": ["x"]})
    assert partition_paths(batch, ["a"]).to_pylist() == ["x"]
    assert record_keys(batch, ["a"]).to_pylist() == ["x"]


@pytest.mark.parametrize(
    "value", ["..", "a/..", "../a", "/etc", "a//b", "a/", ".", ".hoodie", ".hoodie/x"]
)
def test_paths_that_lead_elsewhere_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"the partition path '.*' (does not name|is inside)"):
        partition_paths(pa.table({"p": ["fine", value]}), ["p"])
