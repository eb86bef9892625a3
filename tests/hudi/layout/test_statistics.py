"""Statistics of columns: what they say, how writes keep them, and what is done with wrong ones."""

from __future__ import annotations

import json
import random
import re
import shutil
import warnings
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.footers import with_footer
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.small_tables import SCHEMA, SmallTable, row

from lookupstore.errors import CorruptionError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.clustering.rewrite import Rewrite
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.layout import (
    TableStatistics,
    quarantined,
    read_statistics,
    unreadable_statistics,
)
from lookupstore.hudi.layout.statistics import versions
from lookupstore.hudi.layout.statistics.file_statistics import (
    MOST_TEXT_BYTES,
    FileStatistics,
    data_statistics,
    file_statistics,
    footer_statistics,
)
from lookupstore.hudi.read.scan_funnel import Files
from lookupstore.hudi.services import rollback
from lookupstore.hudi.write import transaction
from lookupstore.parquet.column_statistics import ColumnStatistics
from lookupstore.parquet.footer import read_footer
from lookupstore.parquet.structs import STRUCT

FOLDER = ".hoodie/.lookupstore/statistics"
NAN = float("nan")


def made(path: Path, columns: pa.Schema | None = None, **options: Any) -> HudiTable:
    schema = columns or pa.schema({"id": pa.int64(), "x": pa.float64(), "s": pa.string()})
    return HudiTable.create(path, schema, record_key=["id"], **options)


def rows(first: int, end: int) -> pa.Table:
    ids = list(range(first, end))
    return pa.table({"id": ids, "x": [float(i) for i in ids], "s": [f"k{i:06d}" for i in ids]})


def read(table: HudiTable) -> TableStatistics:
    found = read_statistics(table.location, ())
    assert found is not None
    return found


def said(table: HudiTable, column: str) -> ColumnStatistics:
    """Return what is said of the only file."""
    (group,) = table.file_groups()
    found = read(table).of_file(group.current.path, group.current.bytes)
    assert found is not None
    return found.columns[column]


def kept(path: Path) -> list[str]:
    return sorted(one.name for one in (path / FOLDER).glob("*.stats"))


def test_a_file_of_each_type(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 2, tzinfo=timezone.utc)
    values: dict[pa.DataType, tuple[Any, Any]] = {
        pa.bool_(): (False, True),
        pa.int32(): (-5, 7),
        pa.int64(): (-(2**63), 2**63 - 1),
        pa.float32(): (-1.5, 2.5),
        pa.float64(): (float("-inf"), float("inf")),
        pa.decimal128(9, 2): (Decimal("-1.50"), Decimal("2.25")),
        pa.decimal128(38, 10): (Decimal("-1e20"), Decimal("0.0000000001")),
        pa.date32(): (moment.date(), moment.date()),
        pa.timestamp("us", "UTC"): (moment, moment),
        pa.timestamp("ms", "UTC"): (moment, moment),
        pa.string(): ("", "é"),
        pa.binary(): (b"\x00", b"\xff"),
    }
    names = {kind: f"c{at}" for at, kind in enumerate(values)}
    schema = pa.schema([pa.field("id", pa.int64()), *(pa.field(names[k], k) for k in values)])
    table = made(tmp_path / "t", schema)
    data = {names[kind]: pa.array([*two, None], kind) for kind, two in values.items()}
    table.bulk_insert(pa.table({"id": [1, 2, 3], **data}))
    table.collect_statistics()
    for kind, (least, greatest) in values.items():
        found = said(table, names[kind])
        assert found == ColumnStatistics(
            pa.scalar(least, kind), pa.scalar(greatest, kind), 1, 0, True, True
        )
    assert table.verify().is_ok
    # What the footer says is what the rows say.
    (group,) = table.file_groups()
    columns = pa.schema([one for one in schema if not pa.types.is_floating(one.type)])
    count, of_rows = data_statistics(table.location, group.current, columns)
    assert count == 3
    assert file_statistics(table.location, group.current, columns).columns == of_rows


def test_long_texts_are_truncated_and_stay_bounds(tmp_path: Path) -> None:
    rng = random.Random(5)
    characters = ["a", "é", "\ud7ff", "\uffff", "\U0010ffff", "\x00"]
    for number in range(30):
        texts = ["".join(rng.choices(characters, k=rng.choice((0, 3, 40, 200)))) for _ in range(3)]
        table = made(tmp_path / str(number))
        table.bulk_insert(pa.table({"id": [1, 2, 3], "x": [0.0] * 3, "s": texts}))
        table.collect_statistics()
        found = said(table, "s")
        assert found.least is not None
        assert found.least.as_py() <= min(texts)
        assert len(found.least.as_py().encode()) <= MOST_TEXT_BYTES
        assert found.least_is_exact == (found.least.as_py() == min(texts))
        if found.greatest is None:
            assert max(texts).startswith("\U0010ffff" * (MOST_TEXT_BYTES // 4))
        else:
            assert max(texts) <= found.greatest.as_py()
            assert found.greatest_is_exact == (found.greatest.as_py() == max(texts))
        assert table.verify().is_ok


def test_nan_is_counted_and_in_no_bound(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.bulk_insert(pa.table({"id": [1, 2, 3], "x": [NAN, 2.0, None], "s": ["a"] * 3}))
    table.collect_statistics()
    one = pa.scalar(2.0)
    assert said(table, "x") == ColumnStatistics(one, one, 1, 1, True, True)


def test_footers_of_others_are_believed_by_writer_and_type(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.commit("f-0", [row(1, "a"), row(2, "b")])
    (group,) = table.table.file_groups()
    file = group.current
    path = tmp_path / "t" / file.path
    # Arrow says who wrote it, at the end of the footer.
    data = path.read_bytes()
    start = data.rindex(b"parquet-cpp-arrow version ")
    other = b"parquet-mr version 1.9.0 ("
    wrong = data[:start] + other + data[start + len(other) :]
    # Bounds of text that nobody should believe.
    assert wrong.count(b"b") > 2
    path.write_bytes(wrong)
    assert pq.read_metadata(path).created_by.startswith("parquet-mr version 1.9.0")
    found = file_statistics(table.table.location, file, SCHEMA)
    assert found.columns["value"].greatest == pa.scalar("b")


@pytest.mark.parametrize(
    ("writer", "believed"),
    [
        ("parquet-mr version 1.8.15 ", set()),
        ("parquet-mr version 1.9.99 ", set()),
        ("parquet-mr version 1.10.0 ", {"id", "value"}),
        ("parquet-mr version 1.13.1 ", {"id", "value"}),
        ("parquet-mr version 2.0.0 ( ", {"id", "value"}),
        ("parquet-rs version 58.1.0 ", {"id", "value"}),
        ("impala version 4.1.0-RELE  ", set()),
        ("parquet-cpp-arrow version ", {"id", "value", "x", "y"}),
    ],
)
def test_a_footer_is_believed_by_writer_and_type(
    tmp_path: Path, writer: str, believed: set[str]
) -> None:
    """Floating numbers are believed of Arrow alone: in Java, NaN may be among the bounds."""
    schema = pa.schema(
        {"id": pa.int32(), "value": pa.string(), "x": pa.float64(), "y": pa.float32()}
    )
    table = SmallTable(tmp_path / "t", 9, schema)
    values = [{"id": at, "value": "ab"[at], "x": at + 0.5, "y": at + 0.5} for at in range(2)]
    table.commit("f-0", values, schema=schema)
    (group,) = table.table.file_groups()
    path = tmp_path / "t" / group.current.path
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow version ", writer[:26].encode()))
    assert pq.read_metadata(path).created_by.startswith(writer.strip(" ("))
    location = table.table.location
    assert set(footer_statistics(location, group.current, schema).columns) == believed
    # What the footer is not believed of is read from the rows.
    found = file_statistics(location, group.current, schema).columns
    assert [found[name].greatest for name in schema.names] == [
        pa.scalar(1, pa.int32()), pa.scalar("b"), pa.scalar(1.5), pa.scalar(1.5, pa.float32()),
    ]  # fmt: skip


def test_a_footer_without_the_number_of_nulls_says_nothing_of_them(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.commit("f-0", [row(1, "a"), row(2, None)])
    (group,) = table.table.file_groups()
    path = tmp_path / "t" / group.current.path
    footer = read_footer(pa.BufferReader(path.read_bytes()), "f")
    statistics = {one.path: dict(one.meta[12][1]) for one in footer.groups[0].columns}
    assert statistics["value",].pop(3) is not None  # the field null_count of Statistics
    path.write_bytes(
        with_footer(path.read_bytes(), lambda _, name: {12: (STRUCT, statistics[name])})
    )
    assert pq.read_metadata(path).row_group(0).column(6).statistics.null_count is None
    location = table.table.location
    assert set(footer_statistics(location, group.current, SCHEMA).columns) == {"id"}
    assert file_statistics(location, group.current, SCHEMA).columns["value"].nulls == 1
    table.table.collect_statistics()
    assert table.table.scan(filter="value is null")["id"].to_pylist() == [2]


def test_row_groups_of_nulls_have_no_bounds(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    texts = ["b", None, "a", None, "c"]
    table.commit("f-0", [row(at, text) for at, text in enumerate(texts)])
    (group,) = table.table.file_groups()
    path = tmp_path / "t" / group.current.path
    pq.write_table(pq.read_table(path), path, row_group_size=1)
    found = footer_statistics(table.table.location, group.current, SCHEMA).columns["value"]
    assert (found.least, found.greatest, found.nulls) == (pa.scalar("a"), pa.scalar("c"), 2)


def test_a_value_that_nobody_has_any_more_may_be_a_bound(tmp_path: Path) -> None:
    """Arrow takes a null for a use of a value of a dictionary, and says that bounds are exact."""
    table = made(tmp_path / "t")
    table.collect_statistics()
    texts = [*["a", None, "b"] * 500, "c"]
    table.bulk_insert(pa.table({"id": range(len(texts)), "s": texts}), missing="null")
    # Rows are copied with the dictionary of the file that they are from.
    table.delete([len(texts) - 1])
    known = said(table, "s")
    assert known.greatest == pa.scalar("b") or not known.greatest_is_exact
    assert table.verify().findings == ()
    assert table.scan(filter=("s", "=", "c")).num_rows == 0


def test_every_write_keeps_them_current(tmp_path: Path) -> None:
    table = made(tmp_path / "t", partition_by=["s"], hive_style=True)
    table.collect_statistics()
    assert kept(tmp_path / "t") == []
    table.bulk_insert(rows(0, 5))
    table.insert(rows(5, 8))
    table.upsert(rows(2, 6))
    table.delete(rows(0, 1))
    table.insert_overwrite(rows(7, 8))
    table.delete_partition("s=k000003")
    current = {group.current.path for group in table.file_groups()}
    assert set(read(table).table["path"].to_pylist()) == current
    assert len(kept(tmp_path / "t")) == 2
    assert table.explain_scan(("id", "=", 4)).statistics.count == 1
    assert table.verify().findings == ()


def test_columns_that_are_named_wrongly(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.bulk_insert(rows(0, 5))
    for given in (5, 0.5):
        with pytest.raises(TypeError, match=f"columns is {given}; give names of columns"):
            table.collect_statistics(given)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="no column 'y'"):
        table.collect_statistics(["x", "y"])
    with pytest.raises(ValueError, match="columns: 'x' is named twice; name each column once"):
        table.collect_statistics(["x", "x"])
    assert table.collect_statistics(["x"]) == 1
    assert read(table).columns.names == ["x"]


def test_the_funnel_shows_texts_as_texts(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.bulk_insert(rows(0, 5))
    table.collect_statistics()
    funnel = table.explain_scan(("s", ">", "a\nb"))
    assert funnel.parts == (("s > 'a\\nb'", 0),)
    assert len(str(funnel).split("\n")) == 5


def test_a_table_without_statistics_is_read(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.bulk_insert(rows(0, 5))
    assert not (tmp_path / "t" / FOLDER).exists()
    funnel = table.explain_scan(("id", "=", 9))
    assert (funnel.statistics.count, funnel.without_statistics.count) == (1, 1)


def test_a_rollback_takes_them_back(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.collect_statistics()
    table.bulk_insert(rows(0, 5))
    before = kept(tmp_path / "t")
    last = table.bulk_insert(rows(5, 9)).instant
    assert last is not None
    table.rollback(last.time if hasattr(last, "time") else last)
    assert kept(tmp_path / "t") == before
    assert table.explain_scan(("id", "=", 3)).without_statistics.count == 0
    assert table.scan(filter=("id", ">=", 0)).num_rows == 5


def test_a_rollback_does_not_fail_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    table.collect_statistics()
    table.bulk_insert(rows(0, 5))
    last = table.bulk_insert(rows(5, 9)).instant
    assert last is not None

    def broken(*_: Any) -> None:
        raise OSError("injected")

    monkeypatch.setattr(rollback, "delete_version", broken)
    said = rf"t: statistics of the instant {last.time}, .*, are not deleted: injected; the next wri"
    with pytest.warns(UserWarning, match=said):
        table.rollback(last)
    assert table.scan(filter=("id", ">=", 0)).num_rows == 5


def test_a_version_of_a_pending_write_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t")
    table.collect_statistics()
    table.bulk_insert(rows(0, 5))

    def keep_and_die(now: Any, time: str, new: TableStatistics, replaced: Any) -> None:
        keep(now, time, new, replaced)
        assert len(kept(tmp_path / "t")) == 2
        shutil.copytree(tmp_path / "t", tmp_path / "dead")
        raise KeyboardInterrupt

    keep = transaction.keep_statistics
    monkeypatch.setattr(transaction, "keep_statistics", keep_and_die)
    with pytest.raises(KeyboardInterrupt):
        table.upsert(rows(2, 3))
    monkeypatch.undo()
    dead = HudiTable.open(tmp_path / "dead")
    assert dead.explain_scan(("id", "=", 99)).statistics.count == 0
    assert dead.scan(filter=("id", ">=", 0)).num_rows == 5


def test_writes_that_end_in_another_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a clustering, during which rows are inserted: it begins first, and ends last."""
    table = made(tmp_path / "t")
    table.collect_statistics()
    table.bulk_insert(rows(0, 400))
    write_all = Rewrite.write_all

    def while_others_insert(rewrite: Rewrite, plans: Any) -> Any:
        HudiTable.open(tmp_path / "t").bulk_insert(rows(400, 500))
        return write_all(rewrite, plans)

    monkeypatch.setattr(Rewrite, "write_all", while_others_insert)
    assert table.cluster("x", target_file_size=3000).files_after > 1
    inserted, clustered = sorted(table.view().timeline.writes(), key=lambda one: one.position)[-2:]
    assert clustered.time < inserted.time

    def check(expected: int) -> None:
        funnel = table.explain_scan("id = 450")
        assert funnel.without_statistics.count == 0
        # One file has it, and the file that was filled since may.
        assert funnel.statistics.count <= 1 + expected - 500
        assert table.scan(filter="id = 450").num_rows == 1
        assert set(read(table).table["path"].to_pylist()) == {
            group.current.path for group in table.file_groups()
        }
        assert len(kept(tmp_path / "t")) == 2
        assert table.scan().num_rows == expected

    check(500)
    table.upsert(rows(500, 501))
    check(501)
    assert table.verify().findings == ()


def test_a_write_does_not_fail_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    table.collect_statistics()
    table.bulk_insert(rows(0, 5))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(TableStatistics, "encode", full)
    with pytest.warns(UserWarning, match="not kept.*no space left"):
        table.bulk_insert(rows(5, 9))
    monkeypatch.undo()
    assert table.explain_scan(("id", "=", 6)).without_statistics.count == 1
    assert table.scan(filter=("id", "=", 6)).num_rows == 1
    assert table.collect_statistics() == 2


def test_damage_is_told_and_everything_is_read(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.collect_statistics()
    table.bulk_insert(rows(0, 5))
    table.bulk_insert(rows(5, 9))
    path = tmp_path / "t" / FOLDER / kept(tmp_path / "t")[-1]
    good = path.read_bytes()
    rng = random.Random(3)
    damaged = [good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1 :]
               for at in range(len(good))]  # fmt: skip
    damaged += [good[:at] for at in (0, 7, 8, 31, 32, 33, len(good) // 2, len(good) - 1)]
    damaged += [good + b"x"]
    for data in damaged:
        with pytest.raises(CorruptionError):
            TableStatistics.decode(data, "p")
    before = unreadable_statistics()
    for data in rng.sample(damaged, 20):
        path.write_bytes(data)
        with pytest.warns(UserWarning, match="cannot be read"):
            assert table.scan(filter=("id", "=", 6))["id"].to_pylist() == [6]
        with pytest.warns(UserWarning, match="cannot be read"):
            funnel = table.explain_scan(("id", "=", 6))
        assert funnel.statistics.count == 2
        assert funnel.unreadable is not None
    assert unreadable_statistics() - before == 40
    assert [one.kind for one in table.verify().findings] == ["columns"]
    with pytest.warns(UserWarning, match="not kept"):
        table.bulk_insert(rows(9, 12))
    assert table.scan(filter=("id", "=", 6))["id"].to_pylist() == [6]
    assert table.collect_statistics() == 3
    assert table.explain_scan(("id", "=", 6)).statistics.count == 1


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"columns": 3}', b'{"columns": [1]}'])
def test_columns_that_are_not_named(tmp_path: Path, content: bytes) -> None:
    table = made(tmp_path / "t")
    table.collect_statistics("id")
    (tmp_path / "t" / FOLDER / "columns.json").write_bytes(content)
    with pytest.warns(UserWarning, match="not kept"):
        table.bulk_insert(rows(0, 5))
    assert table.scan().num_rows == 5


@pytest.mark.parametrize("names", [["id", "id"], ["x", "s", "x"], ("s", "s", "s")])
def test_a_column_that_is_named_twice(tmp_path: Path, names: list[str]) -> None:
    table = made(tmp_path / "t")
    table.bulk_insert(rows(0, 5))
    with pytest.raises(ValueError, match=f"columns: '{names[0]}' is named twice; name each"):
        table.collect_statistics(names)
    assert not (tmp_path / "t" / FOLDER).exists()
    assert table.upsert(rows(3, 9)).rows_updated == 2


@pytest.mark.parametrize("names", [["id", "id"], ["s", "gone", "id", "s", "gone"]])
def test_columns_that_a_file_names_twice_count_once(tmp_path: Path, names: list[str]) -> None:
    """A hostile file, or one of a version that took names twice: writes go on, and keep them."""
    table = made(tmp_path / "t")
    table.bulk_insert(rows(0, 5))
    table.collect_statistics(["id", "s"])
    (tmp_path / "t" / FOLDER / "columns.json").write_text(json.dumps({"columns": names}))
    for first in (5, 10, 15):
        with pytest.warns(UserWarning, match=r"columns\.json: names a column twice .*collect_stat"):
            table.bulk_insert(rows(first, first + 5))
    assert read(table).columns.names == [one for one in ("s", "id") if one in names]
    funnel = table.explain_scan(("id", "=", 12))
    assert (funnel.statistics.count, funnel.without_statistics.count) == (1, 0)
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))
    assert table.collect_statistics("id") == 4
    table.bulk_insert(rows(20, 21))  # the file is right again


@pytest.mark.parametrize(
    "content",
    [
        b"\xff", b"[" * 100_000, b'{"columns": [[]]}', b'{"columns": "id"}', b'{"columns": {}}',
        b'{"columns": ["\\ud800"]}', json.dumps({"columns": ["id"] * 400_000}).encode(),
        json.dumps({"columns": ["", "\0", ".", "id" * 5000]}).encode(),
    ],
)  # fmt: skip
def test_hostile_names_of_columns(tmp_path: Path, content: bytes) -> None:
    table = made(tmp_path / "t")
    table.bulk_insert(rows(0, 5))
    table.collect_statistics("id")
    (tmp_path / "t" / FOLDER / "columns.json").write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table.bulk_insert(rows(5, 9))
        table.upsert(rows(0, 2))
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))
    assert table.scan(filter=("id", "=", 7)).num_rows == 1
    assert table.collect_statistics("id") == 2
    assert table.explain_scan(("id", "=", 7)).statistics.count == 1


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError(), RecursionError("x"), OSError(5)])
def test_statistics_that_cannot_be_used_are_not(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete by a filter is a write, and skips files by statistics."""
    table = made(tmp_path / "t")
    table.bulk_insert(rows(0, 5))
    table.collect_statistics()

    def broken(*_: Any, **__: Any) -> None:
        raise error

    for what in ("decode", "may_match"):
        with monkeypatch.context() as patch:
            patch.setattr(TableStatistics, what, broken)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                assert table.delete(where=f"id = {len(what) % 4}").rows_deleted == 1
        assert re.search(r"cannot be read.*collect_statistics\(\) makes", str(seen[0].message))
        table.collect_statistics()


def test_row_groups_that_footers_leave(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.collect_statistics()
    of_one_row = WriteOptions(format=FileFormat(row_group_bytes=1))
    table.bulk_insert(rows(0, 40), options=of_one_row)
    table.bulk_insert(rows(40, 50), options=of_one_row)
    paths = [tmp_path / "t" / one.current.path for one in table.file_groups()]
    footers = [pq.read_metadata(path) for path in paths]
    sizes = [
        [
            sum(one.row_group(at).column(n).total_compressed_size for n in range(one.num_columns))
            for at in range(one.num_row_groups)
        ]
        for one in footers
    ]
    large, small = sorted(sizes, key=len, reverse=True)
    assert (len(large), len(small)) == (40, 10)
    where = ("id", "<", 7)
    assert table.explain_scan(where).row_groups is None
    funnel = table.explain_scan(where, row_groups=True)
    assert funnel.row_groups == (Files(40, sum(large)), Files(7, sum(large[:7])))
    assert str(funnel).split("\n")[4:6] == [
        f"row_groups                   40 {sum(large):>15,} bytes",
        f"row_groups_left               7 {sum(large[:7]):>15,} bytes",
    ]
    # Of NaN footers say nothing: none is left out by it.
    funnel = table.explain_scan(pc.field("x") != 1.0, row_groups=True)
    assert funnel.row_groups is not None
    assert funnel.row_groups[1].count == 50
    paths[0].write_bytes(b"PAR1")
    with pytest.raises(CorruptionError, match=paths[0].name):
        table.explain_scan(pc.field("x") != 1.0, row_groups=True)


def lie(table: HudiTable, column: str, **change: Any) -> None:
    """Let the newest statistics say something else of the only file."""
    (group,) = table.file_groups()
    found = read(table).of_file(group.current.path, group.current.bytes)
    assert found is not None
    known = {**found.columns, column: ColumnStatistics(**{**vars(found.columns[column]), **change})}
    wrong = TableStatistics.of(
        [FileStatistics(found.path, found.bytes, found.rows, known)], read(table).columns
    )
    name = f"{FOLDER}/{kept(Path(table.location.uri))[-1]}"
    table.location.replace(name, wrong.encode())


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b"\xff", b'{"path": "x", "problem": "y"}'])
def test_a_damaged_mark_of_wrong_statistics(tmp_path: Path, damage: bytes) -> None:
    """The statistics are as wrong as before, and all others are used."""
    table = made(tmp_path / "t")
    table.collect_statistics()
    table.bulk_insert(rows(0, 5))
    lie(table, "id", greatest=pa.scalar(1))
    table.bulk_insert(rows(5, 10))
    assert not table.verify().is_ok
    (mark,) = (tmp_path / "t" / FOLDER / "wrong").iterdir()
    mark.write_bytes(damage)
    funnel = table.explain_scan(("id", "=", 3))
    assert (funnel.unreadable, funnel.statistics.count, funnel.without_statistics.count) == (
        None, 1, 1,
    )  # fmt: skip
    assert table.scan(filter=("id", "=", 3)).num_rows == 1
    assert table.collect_statistics() == 2
    assert table.verify().is_ok
    assert mark.exists()
    table.insert_overwrite_table(rows(0, 3))
    table.clean(retain_versions=1)
    table.collect_statistics()
    assert not mark.exists()


def test_an_audit_finds_rows_that_were_missed(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.collect_statistics()
    table.bulk_insert(rows(0, 5))
    lie(table, "id", greatest=pa.scalar(2))
    assert table.scan(filter=("id", "=", 4), audit=0).num_rows == 0
    with pytest.warns(UserWarning, match="1 skipped files were read again.*1 rows were missed"):
        table.scan(filter=("id", "=", 4), audit=1)
    # From now on nobody uses it, nor does the next version have it.
    assert table.scan(filter=("id", "=", 4)).num_rows == 1
    assert list(quarantined(table.location)) == [table.file_groups()[0].current.path]
    table.bulk_insert(rows(5, 9))
    assert table.explain_scan(("id", "=", 99)).without_statistics.count == 1
    table.collect_statistics()
    assert table.explain_scan(("id", "=", 99)).without_statistics.count == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.scan(filter=("id", "=", 7), audit=1).num_rows == 1


@pytest.mark.parametrize(
    ("column", "change", "problem"),
    [
        ("id", {"greatest": pa.scalar(3)}, "that 3 is the greatest value, it has 4"),
        ("id", {"least": pa.scalar(1)}, "that 1 is the least value, it has 0"),
        ("id", {"least": pa.scalar(-1)}, "that -1 is the least value, it has 0"),
        ("s", {"nulls": 5}, "5 nulls, it has 0"),
        ("x", {"nans": 1}, "1 NaNs, it has 0"),
    ],
)
def test_verify_finds_what_is_wrong(
    tmp_path: Path, column: str, change: dict[str, Any], problem: str
) -> None:
    table = made(tmp_path / "t")
    table.collect_statistics()
    table.bulk_insert(rows(0, 5))
    assert table.verify().findings == ()
    lie(table, column, **change)
    (finding,) = table.verify().findings
    assert finding.kind == "columns"
    assert finding.problem == f"statistics of the column {column!r} say {problem}"
    assert table.explain_scan(("id", "=", 99)).without_statistics.count == 1
    assert json.loads(next((tmp_path / "t" / FOLDER / "wrong").iterdir()).read_text())["problem"]


def test_a_file_of_the_same_name_and_another_size_is_another(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.collect_statistics()
    table.bulk_insert(rows(0, 5))
    (group,) = table.file_groups()
    with (tmp_path / "t" / group.current.path).open("ab") as file:
        file.write(b"more")
    assert table.explain_scan(("id", "=", 99)).without_statistics.count == 1


def test_files_of_others_are_read_until_they_are_collected(tmp_path: Path) -> None:
    table = SmallTable(tmp_path / "t", 9)
    table.table.collect_statistics()
    table.commit("f-0", [row(1, "a")])
    table.commit("f-1", [row(7, "b")])
    assert table.table.explain_scan(("id", "=", 9)).statistics.count == 2
    assert table.table.collect_statistics() == 2
    table.commit("f-2", [row(9, "b")])
    funnel = table.table.explain_scan(("id", "=", 9))
    assert (funnel.statistics.count, funnel.without_statistics.count) == (1, 1)
    assert table.table.scan(filter=("id", "=", 9)).num_rows == 1
    assert versions.kept_columns(table.table.location) == versions.KeptColumns(None)


def test_columns_are_named_or_the_first(tmp_path: Path) -> None:
    many = pa.schema([pa.field(f"c{at}", pa.int64()) for at in range(40)])
    many = pa.schema([pa.field("id", pa.int64()), *many])
    table = made(tmp_path / "t", many)
    table.bulk_insert(pa.table({name: [1] for name in many.names}))
    table.collect_statistics()
    assert read(table).columns.names == many.names[:32]
    table.collect_statistics(["c39", "_hoodie_record_key"])
    assert read(table).columns.names == ["c39", "_hoodie_record_key"]
    with pytest.raises(KeyError, match="no column 'd'"):
        table.collect_statistics("d")


@pytest.mark.parametrize("audit", [-1, True, 1.5])
def test_audits_that_are_no_number(tmp_path: Path, audit: Any) -> None:
    with pytest.raises(ValueError, match="audit is"):
        made(tmp_path / "t").scan(filter=pc.field("id") == 1, audit=audit)


def test_skipping_is_turned_off_for_one_read(tmp_path: Path) -> None:
    """As if the table had no statistics: all files are read, and wrong statistics lose no row."""
    table = made(tmp_path / "t")
    for start in (0, 100, 200):
        table.bulk_insert(rows(start, start + 5))
    table.collect_statistics(["id"])
    where = pc.field("id") < 3
    files = len(table.file_groups())
    assert table.explain_scan(where).statistics.count < files
    assert table.explain_scan(where, skipping=False).statistics.count == files
    assert len(list(table.dataset().get_fragments(where))) < files
    assert len(list(table.dataset(skipping=False).get_fragments(where))) == files
    expected = table.scan(filter=where)
    assert table.scan(filter=where, skipping=False) == expected
    assert table.scan_batches(filter=where, skipping=False).read_all() == expected
    # Nor are they read.
    for path in (tmp_path / "t" / ".hoodie" / ".lookupstore").rglob("*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="statistics of columns cannot be read"):
        assert table.scan(filter=where) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.scan(filter=where, skipping=False) == expected
