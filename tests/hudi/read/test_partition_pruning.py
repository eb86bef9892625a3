"""Files of partitions that a filter leaves out are not opened, and no row is lost by that.

The oracle is Arrow: all rows of the table, filtered.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.small_tables import SmallTable, row
from support.hudi.versions import VERSIONS
from support.remote import Remote

from lookupstore.hudi import HudiTable
from lookupstore.hudi.keys.key_generator import partition_paths
from lookupstore.hudi.options import TableOptions, new_options
from lookupstore.hudi.properties import print_properties
from lookupstore.hudi.read.partition_pruning import partitions_left

pytestmark = pytest.mark.drawn(0.4)

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "s": (pa.string(), ["a", "b/c", "ü", "x=y", "%41", "A", "a b", "", None, "s=a"]),
    "q": (pa.int32(), [-1, 0, 3, 2**31 - 1, None]),
    "d": (pa.date32(), [date(2024, 5, 1), date(1969, 12, 31), date(2024, 5, 2), None]),
    "x": (pa.int64(), [0, 1, 2, None]),
    "y": (pa.string(), ["a", "b", None]),
}
PARTITIONS = [("s",), ("q",), ("d",), ("s", "q"), ("q", "d"), ("s", "q", "d")]
DEFAULT = "__HIVE_DEFAULT_PARTITION__"
MAKES_NO_FOLDER = {".", "..", ""}


def random_rows(draw: random.Random, count: int, without: Sequence[str] = ()) -> pa.Table:
    columns = {
        name: pa.array([draw.choice([one for one in values if one not in without])
                        for _ in range(count)], kind)
        for name, (kind, values) in COLUMNS.items()
    }  # fmt: skip
    return pa.table({"id": pa.array(range(count), pa.int64()), **columns})


def random_filter(draw: random.Random, names: Sequence[str], depth: int = 3) -> pc.Expression:
    shape = draw.choice(["and", "or", "not", "atom", "atom"]) if depth else "atom"
    if shape == "not":
        return ~random_filter(draw, names, depth - 1)
    if shape in ("and", "or"):
        one, two = (random_filter(draw, names, depth - 1) for _ in range(2))
        return one & two if shape == "and" else one | two
    name = draw.choice(names)
    kind, values = COLUMNS[name]
    field, known = pc.field(name), [one for one in values if one is not None]
    value = pa.scalar(draw.choice(known), kind)
    return draw.choice(
        [
            lambda: field == value,
            lambda: field != value,
            lambda: field < value,
            lambda: field <= value,
            lambda: field > value,
            lambda: field >= value,
            lambda: field.isin(pa.array(draw.sample(values, 2), kind)),
            lambda: field.isin(pa.array([], kind)),
            field.is_null,
            field.is_valid,
            lambda: field == pa.scalar(None, kind),
            lambda: field.cast("string") == str(value),
            lambda: pc.coalesce(field, value) == value,
        ]
    )()


def folders_of(rows: pa.Table, options: TableOptions) -> list[str]:
    """Return the path of each row; dates as Hudi writes them."""
    texts = rows.set_column(
        rows.column_names.index("d"), "d", pc.strftime(rows["d"], format="%Y-%m-%d")
    )
    paths = partition_paths(
        texts, options.partition_by, hive_style=options.hive_style, url_encode=options.url_encode
    )
    found: list[str] = paths.to_pylist()
    return found


@pytest.mark.few(8)
@pytest.mark.parametrize("hive_style", [False, True])
@pytest.mark.parametrize("url_encode", [False, True])
@pytest.mark.parametrize("partition_by", PARTITIONS, ids="-".join)
def test_no_partition_with_rows_is_left_out(
    partition_by: tuple[str, ...], url_encode: bool, hive_style: bool, seed: int
) -> None:
    draw = random.Random(seed)
    options = new_options(
        name="t",
        record_key=["id"],
        partition_by=partition_by,
        hive_style=hive_style,
        url_encode=url_encode,
    )
    rows = random_rows(draw, 60)
    paths = folders_of(rows, options)
    rows = rows.append_column("_hoodie_partition_path", pa.array(paths))
    # What a folder's name does not say for certain: null or "", and a "/" that is not escaped.
    unsure = {
        path
        for path, row in zip(paths, rows.to_pylist(), strict=True)
        if "s" in partition_by
        and (row["s"] in ("", None) or (row["s"] == "b/c" and not url_encode))
    }
    pruned = 0
    for _ in range(150):
        names = draw.choice([list(COLUMNS), partition_by])
        where = random_filter(draw, names)
        matching = set(rows.filter(where)["_hoodie_partition_path"].to_pylist())
        left = partitions_left(paths, where, rows.schema, options)
        assert matching <= left, where
        pruned += len(set(paths) - left)
        if names == partition_by:  # then nothing more is read than must be
            assert left - matching <= unsure, where
    assert pruned > 0


def test_only_what_is_certain_is_left_out() -> None:
    schema = pa.schema({"id": pa.int64(), "s": pa.string(), "q": pa.int32(), "d": pa.date32(),
                        "f": pa.float64(), "b": pa.bool_()})  # fmt: skip

    def left(column: str, value: Any, paths: Sequence[str], **how: Any) -> set[str]:
        options = replace(
            new_options(name="t", record_key=["id"], partition_by=[column]),
            # As in tables of Java's, whose folders may be made of columns of other types.
            **how,
        )
        return partitions_left(paths, pc.field(column) == value, schema, options)

    assert left("s", "a", ["a", "b", DEFAULT, "a/b", "b/a"]) == {"a", DEFAULT, "a/b", "b/a"}
    assert left("q", 1, ["1", "2", DEFAULT]) == {"1"}
    # Not as a number is written: who knows what made it.
    assert left("q", 1, ["01", "+1", " 1", "1_0", "x", "9999999999"]) == {
        "01", "+1", " 1", "1_0", "x", "9999999999"
    }  # fmt: skip
    day = date(2024, 5, 1)
    assert left("d", day, ["2024-05-01", "2024-05-02", "19844", "20240502", "2024-5-2"]) == {
        "2024-05-01", "19844", "20240502", "2024-5-2"
    }  # fmt: skip
    assert left("f", 1.0, ["1.0", "2.0"]) == {"1.0", "2.0"}
    assert left("b", True, ["true", "false"]) == {"true", "false"}
    assert left("s", "a", ["s=a", "s=b", "t=b", "b"], hive_style=True) == {"s=a", "t=b", "b"}
    assert left("s", "a b", ["a b", "a%20b", "b", "a%2"], url_encode=True) == {
        "a b", "a%20b", "a%2"
    }  # fmt: skip
    # Generators that make folders of something else, or of nobody knows what.
    for how in ({"key_generator": "TIMESTAMP"}, {"key_generator": "CUSTOM"},
                {"generator_is_said": False}):  # fmt: skip
        assert left("s", "a", ["a", "b"], **how) == {"a", "b"}
    # What Hudi writes into each row says it whatever made the folders.
    options = replace(
        new_options(name="t", record_key=["id"], partition_by=["s"]), key_generator="TIMESTAMP"
    )
    path, meta = (
        "_hoodie_partition_path",
        schema.append(pa.field("_hoodie_partition_path", pa.string())),
    )
    assert partitions_left(["a", "b"], pc.field(path) == "a", meta, options) == {"a"}
    # A column that is gone from the schema, or is not of the table.
    options = new_options(name="t", record_key=["id"], partition_by=["gone"])
    assert partitions_left(["a", "b"], pc.field("s") == "a", schema, options) == {"a", "b"}
    # What cannot be worked out for a partition is left to those who read it.
    options = new_options(name="t", record_key=["id"], partition_by=["q"])
    assert partitions_left(["0", "1"], (pc.scalar(6) / pc.field("q")) == 6, schema, options) == {
        "0", "1"
    }  # fmt: skip


def opened(remote: Remote) -> list[str]:
    return [path for name, path in remote.done if name == "read" and path.endswith(".parquet")]


@pytest.mark.parametrize("version", [6, 9])
def test_files_that_are_left_out_are_not_opened(
    tmp_path: Path, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    remote = Remote(tmp_path, "s3")
    (tmp_path / "bucket").mkdir()
    local = HudiTable.create(
        tmp_path / "bucket" / "t",
        pa.schema({"id": pa.int64(), "day": pa.string(), "n": pa.int32()}),
        record_key=["id"],
        partition_by=["day"],
        hive_style=True,
        version=version,
    )
    days = [f"2024-05-{day:02}" for day in range(1, 41)]
    rows = pa.table({"id": range(40), "day": days, "n": pa.array([1] * 40, pa.int32())})
    first = local.insert(rows)
    later = local.upsert(rows.slice(0, 2))
    table = HudiTable.open(remote.location("bucket/t"))
    one = pc.field("day") == days[0]
    reads = {
        "scan": lambda: table.scan(filter=one),
        "scan_batches": lambda: pa.Table.from_batches(table.scan_batches(filter=one)),
        "as_of": lambda: table.scan(filter=one, as_of=first.instant.time),
        "incremental": lambda: table.incremental(filter=one),
        "since": lambda: table.incremental(first.instant.position, filter=one),
    }
    for name, read in reads.items():
        remote.restart()
        with caplog.at_level(logging.INFO, "lookupstore"):
            found = read()
        assert found["id"].to_pylist() == [0], name
        assert {path.split("/")[2] for path in opened(remote)} == {f"day={days[0]}"}, name
        of = 2 if name == "since" else 40
        assert f"reading 1 of {of} files" in caplog.text, name
        caplog.clear()
    assert found["_hoodie_commit_time"].to_pylist() == [later.instant.time]
    remote.restart()
    assert table.scan(filter=one & (pc.field("day") == days[1])).num_rows == 0
    assert table.scan(columns=["id"], filter=pc.field("day") == "none").schema.names == ["id"]
    assert not opened(remote)
    # With a column of the files beside it, what is left is looked at.
    assert table.scan(filter=one | (pc.field("n") == 2)).num_rows == 1
    assert len({path for path in opened(remote)}) == 40
    with pytest.raises(ValueError, match="filter: "):
        table.scan(filter=pc.field("day") > 1.5)


@pytest.mark.few(1)
@pytest.mark.parametrize("partition_by", [["s"], ["q"], ["s", "q"]], ids="-".join)
@pytest.mark.parametrize(("hive_style", "url_encode"), [(False, False), (True, True)])
def test_a_filtered_scan_is_a_scan_that_is_filtered(
    tmp_path: Path, partition_by: list[str], hive_style: bool, url_encode: bool, seed: int
) -> None:
    draw = random.Random(seed)
    without = ["%41"] if url_encode else ["b/c", "%41"] if len(partition_by) > 1 else ["%41"]
    table = HudiTable.create(
        tmp_path / "t",
        random_rows(draw, 1).schema,
        record_key=["id"],
        partition_by=partition_by,
        hive_style=hive_style,
        url_encode=url_encode,
        name="t",
    )
    first = table.insert(random_rows(draw, 50, without)).instant
    table.upsert(random_rows(draw, 25, without))
    full = {
        "scan": table.scan(),
        "as_of": table.scan(as_of=first.time),
        "incremental": table.incremental(first.position),
    }
    for _ in range(40):
        where = random_filter(draw, [*COLUMNS])
        for name, found in {
            "scan": table.scan(filter=where),
            "as_of": table.scan(filter=where, as_of=first.time),
            "incremental": table.incremental(first.position, filter=where),
        }.items():
            assert found.equals(full[name].filter(where)), (name, where)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_table_whose_folders_are_dates(tmp_path: Path, version: int, seed: int) -> None:
    # As Hudi writes it; here no write makes folders of dates.
    draw = random.Random(seed)
    schema = pa.schema({"id": pa.int32(), "value": pa.string(), "d": pa.date32()})
    small = SmallTable(tmp_path / "t", version, schema)
    days = COLUMNS["d"][1]
    instant = small.begin()
    stats = [
        small.write(
            instant.time,
            f"file{at}-0",
            [{**row(2 * at + n, draw.choice("ab")), "d": day} for n in range(2)],
            f"d={DEFAULT if day is None else day}",
            schema,
        )
        for at, day in enumerate(days)
    ]
    small.finish(instant, stats, schema=schema)
    options = replace(small.table.options, partition_by=("d",), key_generator="SIMPLE")
    (properties,) = (tmp_path / "t" / ".hoodie").glob("*.properties")
    properties.write_bytes(print_properties(options.to_properties()))
    table = HudiTable.open(tmp_path / "t")
    full = table.scan()
    assert full.num_rows == 2 * len(days)
    for _ in range(60):
        where = random_filter(draw, ["d"])
        assert table.scan(filter=where).equals(full.filter(where)), where
    # The others may even be gone.
    for path in (tmp_path / "t").glob("d=*/*.parquet"):
        if "2024-05-01" not in str(path):
            path.write_bytes(b"")
    assert table.scan(filter=pc.field("d") == days[0]).num_rows == 2


def test_tables_of_hudi(real_tables: Path, seed: int) -> None:
    draw = random.Random(seed)
    pruned = 0
    for path in sorted(real_tables.iterdir()):
        table = HudiTable.open(path)
        full, names = table.scan(), table.options.partition_by
        for name in names:
            for value in full[name].unique().to_pylist():
                where = pc.field(name) == value
                found = table.scan(filter=draw.choice([where, ~where]))
                assert found.num_rows in (full.filter(where).num_rows, full.filter(~where).num_rows)
                assert table.scan(filter=where).equals(full.filter(where)), (path, where)
                assert table.scan(filter=~where).equals(full.filter(~where)), (path, where)
                paths = [group.id.partition for group in table.file_groups()]
                left = partitions_left(paths, where, full.schema, table.options)
                pruned += len(set(paths) - left)
    assert pruned > 0
