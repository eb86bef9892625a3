"""Tables that tag rows: rows come back with their places; tables of Apache Hudi among them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hudi.small_tables import SmallTable, row
from support.hudi.tag_tables import indexes
from support.remote import KINDS, Remote

from lookupstore.errors import FormatError
from lookupstore.hostcache.cache import Residency
from lookupstore.hudi import HudiTable
from lookupstore.hudi.index.bloom import BloomIndex

REAL = {
    "v6_complexkeygen_hivestyle": 4,
    "v6_nonpartitioned": 4,
    "v9_txns_nonpart_meta": 1,
    "v9_txns_simple_nometa": 1,
}


def partitioned(path: Path) -> SmallTable:
    """Write a table whose partitions share the key 2."""
    schema = pa.schema({"id": pa.int32(), "value": pa.string()})
    table = SmallTable(path, 9, schema, ["value"])
    table.commit("a-0", [row(1, "x"), row(2, "x")], "value=x")
    table.commit("b-0", [row(2, "y"), row(3, "y")], "value=y")
    return table


def test_rows_come_back_with_their_places(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t")
    times = [group.current.time for group in table.table.file_groups()]
    rows = pa.table(
        {
            "more": [1.5, 2.5, 3.5, 4.5],
            "id": pa.array([3, 2, 1, 2], pa.int64()),
            "value": ["y", "x", "y", "y"],
        }
    )
    for given in (rows, rows.to_batches()[0], rows.to_pydict(), rows.to_reader()):
        found = table.table.tag(given)
        assert found.select(rows.column_names) == rows
        assert found.select(["_partition", "_file_id", "_instant", "_pos"]).to_pylist() == [
            {"_partition": "value=y", "_file_id": "b-0", "_instant": times[1], "_pos": 1},
            {"_partition": "value=x", "_file_id": "a-0", "_instant": times[0], "_pos": 1},
            {"_partition": None, "_file_id": None, "_instant": None, "_pos": None},
            {"_partition": "value=y", "_file_id": "b-0", "_instant": times[1], "_pos": 0},
        ]
    funnel = table.table.explain_tag(rows, index="simple")
    assert (funnel.keys, funnel.partitions, funnel.files, funnel.found) == (4, 2, 2, 3)
    assert "found" in str(funnel)
    assert set(funnel.seconds) == {"list", "read"}


def test_rows_of_a_scan_are_where_they_were(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t").table
    scanned = table.scan(
        columns=["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_time"]
    )
    found = table.tag(scanned)
    assert found["_partition"] == scanned["_hoodie_partition_path"]
    assert found["_instant"] == scanned["_hoodie_commit_time"]
    assert found["_pos"].to_pylist() == [0, 1, 0, 1]


def test_the_global_index_finds_a_key_in_any_partition(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t").table
    found = table.tag([3, 1, 9], index="global-bloom")
    assert found["_partition"].to_pylist() == ["value=y", "value=x", None]
    found = table.tag(pa.table({"id": [3], "value": ["x"]}), index="global-bloom")
    assert found["_partition"].to_pylist() == ["value=y"]
    assert table.tag(pa.table({"id": [3], "value": ["x"]}))["_partition"].to_pylist() == [None]
    with pytest.raises(
        FormatError, match=r"key '2' is in .*/a-0_.* and in .*/b-0_.*within its partition"
    ):
        table.tag([1, 2], index="global-bloom")
    with pytest.raises(KeyError, match="no single column 'value'"):
        table.tag([1, 2])


def test_an_error_says_which_columns_are_needed(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t").table
    said = (
        r"rows: no single column 'value' among 'id'; give the columns {'id': \[...\], "
        r"'value': \[...\]}, or pass index='global-bloom'"
    )
    for given in ([1], {"id": [1]}, pa.array([1])):
        with pytest.raises(KeyError, match=said):
            table.tag(given)
    with pytest.raises(KeyError, match=r"no single column 'id' among 'x'; .*'value': \[...\]}\"$"):
        table.tag({"x": [1]})
    # What it says works.
    assert table.tag({"id": [1], "value": ["x"]})["_pos"].to_pylist() == [0]
    assert table.tag([1], index="global-bloom")["_pos"].to_pylist() == [0]
    assert table.tag([(1, "x"), (1, "y")])["_pos"].to_pylist() == [0, None]
    with pytest.raises(TypeError, match="rows is tuples of 3 values; give a table with 'id', 'val"):
        table.tag([(1, "x", 2)])
    assert table.tag([{"id": 1, "value": "x"}])["_pos"].to_pylist() == [0]
    with pytest.raises(TypeError, match="rows is object; give a list of keys, an Arrow, "):
        table.tag(object())


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (7, TypeError, "rows is int; give a list of keys, an Arrow"),
        ({"id": [1], "value": ["x"], "_pos": [2]}, ValueError, "rows: a column is called '_pos'"),
        ({"other": [1]}, KeyError, "'id'"),
        ({"id": [1, None], "value": ["x", "x"]}, ValueError, "row 2 has no record key"),
        ({"id": [1.5], "value": ["x"]}, TypeError, "'id' is double"),
    ],
)
def test_rows_that_are_none(
    tmp_path: Path, given: object, error: type[Exception], message: str
) -> None:
    table = partitioned(tmp_path / "t").table
    with pytest.raises(error, match=message):
        table.tag(given)


def test_one_column_is_no_key_of_several(tmp_path: Path) -> None:
    schema = pa.schema({"a": pa.int32(), "b": pa.string()})
    table = HudiTable.create(tmp_path / "t", schema, record_key=["a", "b"])
    with pytest.raises(
        TypeError, match="rows is a single column; give a table with 'a', 'b', such"
    ):
        table.tag([1])
    assert table.tag([]).schema.names[:2] == ["a", "b"]
    assert table.tag({"a": [1], "b": ["x"]})["_pos"].to_pylist() == [None]


@pytest.mark.parametrize("named", [True, False])
def test_complex_keys_of_one_column_are_as_the_table_has_them(tmp_path: Path, named: bool) -> None:
    schema = pa.schema({"id": pa.string(), "p": pa.string(), "q": pa.string()})
    table = SmallTable(tmp_path / "t", 9, schema, ["p", "q"])
    assert table.table.options.key_generator == "COMPLEX"
    assert table.table.tag({"id": ["1"], "p": ["x"], "q": ["y"]})["_pos"].to_pylist() == [None]
    rows = [{"id": "1", "p": "x", "q": "y"}]
    instant = table.begin()
    stat = table.write(instant.time, "a-0", rows, "p=x/q=y", schema)
    path = tmp_path / "t" / str(stat.path)
    stored = pq.read_table(path)
    keys = pa.array(["id:1" if named else "1"])
    at = stored.column_names.index("_hoodie_record_key")
    pq.write_table(stored.set_column(at, "_hoodie_record_key", keys), path, store_schema=False)
    table.finish(instant, [stat], schema=schema)
    assert table.table.tag(pa.Table.from_pylist(rows))["_pos"].to_pylist() == [0]


@pytest.mark.parametrize("name", sorted(REAL))
def test_tables_of_apache_hudi(real_tables: Path, residency: Residency, name: str) -> None:
    """Every key is where the Parquet file has it, by every index; others are nowhere."""
    table = HudiTable.open(real_tables / name)
    expected = []
    for group in table.file_groups():
        stored = pq.read_table(real_tables / name / group.current.path)
        expected += [
            (key, partition, group.id.file_id, group.current.time, position)
            for position, (key, partition) in enumerate(
                zip(
                    stored["_hoodie_record_key"].to_pylist(),
                    stored["_hoodie_partition_path"].to_pylist(),
                    strict=True,
                )
            )
        ]
    assert len(expected) >= REAL[name]
    random.Random(1).shuffle(expected)
    names = ["_hoodie_record_key", "_hoodie_partition_path"]
    keys = pa.table([[one[0] for one in expected], [one[1] for one in expected]], names)
    others = pa.table([[f"no-{one[0]}" for one in expected], keys.column(1)], names)
    for index in indexes(residency).values():
        found = table.tag(keys, index=index)
        assert list(
            zip(*(found[column].to_pylist() for column in found.column_names[:2]), strict=True)
        ) == [one[:2] for one in expected]
        places = [found[column].to_pylist() for column in ("_file_id", "_instant", "_pos")]
        assert list(zip(*places, strict=True)) == [one[2:] for one in expected]
        assert table.tag(others, index=index)["_pos"].null_count == len(expected)
    # Hudi's own filters, of a rate of 1e-9, and ranges, which these keys are below or above.
    for prune in ("tree", "off"):
        index = BloomIndex(prune=prune, build="never", residency=residency)
        funnel = table.explain_tag(others, index=index)
        assert (funnel.filter_positives, funnel.files_read) == (0, 0)
        assert funnel.filter_tests == funnel.pairs_in_range
    assert funnel.filter_tests == funnel.pairs > 0
    # From the data columns, keys and partitions are made as Hudi made them.
    columns = [field for field in table.schema.names if not field.startswith("_hoodie")]
    scanned = table.scan(columns=[*names, *columns])
    found = table.tag(scanned.select(columns))
    assert found["_pos"].null_count == 0
    assert found["_partition"] == scanned["_hoodie_partition_path"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_remote_table(real_tables: Path, residency: Residency, kind: str) -> None:
    """Lookup files are local: whoever has one asks the store for nothing but the table's list."""
    name = "v6_complexkeygen_hivestyle"
    remote = Remote(real_tables, kind)
    table = HudiTable.open(remote.location(name))
    rows = HudiTable.open(real_tables / name).scan()
    expected = HudiTable.open(real_tables / name).tag(rows, index="simple")
    for index in indexes(residency).values():
        assert table.tag(rows, index=index) == expected
    index = BloomIndex(build="always", residency=residency)
    assert table.tag(rows, index=index) == expected
    remote.restart()
    assert table.tag(rows, index=index) == expected
    assert not any(path.endswith(".parquet") for _, path in remote.done)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_system_that_fails_is_no_damage(
    real_tables: Path, residency: Residency, kind: str
) -> None:
    """Whichever operation fails: the error is the file system's, and the next try succeeds."""
    remote = Remote(real_tables, kind)
    name = "v9_txns_simple_nometa"
    rows = HudiTable.open(real_tables / name).scan()

    def tag() -> pa.Table:
        index = BloomIndex(build="never", residency=residency, threads=1)
        return HudiTable.open(remote.location(name)).tag(rows, index=index)

    remote.restart()
    expected = tag()
    steps = len(remote.done)
    assert expected["_pos"].null_count == 0
    assert steps > 5
    for at in range(steps):
        remote.restart(fail_at=at)
        with pytest.raises(OSError, match="injected"):
            tag()
        remote.restart()
        assert tag() == expected
