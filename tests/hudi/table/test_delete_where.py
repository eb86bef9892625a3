"""`HudiTable.delete(where=)`: which rows go, on which state of the table, and what is refused."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import date, datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.oracle import assert_same_rows, other_scan
from support.hudi.versions import VERSIONS
from support.hudi.written import check_files
from support.samples import amount

from lookupstore.errors import CommitConflictError, CorruptionError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.read import matching
from lookupstore.hudi.write import write as write_module
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.hudi.write.rows.spilled import SpilledRows
from lookupstore.sorting.runs import MIN_MEMORY

SCHEMA = pa.schema({"id": pa.int64(), "day": pa.string(), "ts": pa.float64(), "page": pa.string()})
NAN = float("nan")


def rows(*values: tuple[int, str, float | None, str | None]) -> pa.Table:
    columns = list(zip(*values, strict=True)) or [()] * 4
    return pa.table(
        [pa.array(list(one), field.type) for one, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def make(path: Path, **arguments: Any) -> HudiTable:
    return HudiTable.create(
        path, SCHEMA, **{"record_key": "id", "partition_by": "day", **arguments}
    )


def ids(table: HudiTable) -> list[int]:
    return sorted(table.scan(columns=["id"])["id"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    made = make(tmp_path / "t")
    made.insert(
        rows((1, "mo", 1, "/a"), (2, "mo", 2, None), (3, "tu", NAN, "/b"), (4, "tu", 4, ""))
    )
    return made


@pytest.mark.parametrize(
    ("where", "left"),
    [
        (pc.field("id") == 1, [2, 3, 4]),
        ("id >= 2 and day = 'mo'", [1, 3, 4]),
        (("page", "=", "/a"), [2, 3, 4]),
        # Where it is null it is not true, negated or not.
        (pc.field("page") != "/a", [1, 2]),
        (~(pc.field("page") == "/a"), [1, 2]),
        ("not page = '/a'", [1, 2]),
        (pc.field("page").is_null(), [1, 3, 4]),
        (pc.is_nan(pc.field("ts")), [1, 2, 4]),
        (~(pc.field("ts") < 3), [1, 2]),
        (pc.field("_hoodie_partition_path") == "tu", [1, 2]),
        (pc.scalar(True), []),
        (pc.scalar(False), [1, 2, 3, 4]),
    ],
)
def test_rows_go_for_which_it_is_true(table: HudiTable, where: Any, left: list[int]) -> None:
    before = len(table.timeline())
    tried = table.delete(where=where, dry_run=True)
    assert (tried.instant, tried.rows_deleted) == (None, 4 - len(left))
    assert ids(table) == [1, 2, 3, 4]
    done = table.delete(where=where)
    assert ids(table) == left
    assert (done.operation, done.rows_read, done.rows_deleted) == ("DELETE", *[4 - len(left)] * 2)
    assert done.files_rewritten == tried.files_rewritten
    assert done.files_unchanged == 2 - len(done.files_rewritten)
    # One commit, as that of keys which are not there.
    assert len(table.timeline()) == before + 1
    assert check_files(Path(table.location.uri)) >= 2


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        ({}, ValueError, "neither of keys and where; give keys, or where=FILTER"),
        ({"keys": [1], "where": "id = 1"}, ValueError, "both of keys and where"),
        ({"where": "pages = 1"}, ValueError, "where: pages is no column"),
        ({"where": pc.field("pages") == 1}, ValueError, "where: .*pages"),
        ({"where": pc.field("id") == "x"}, ValueError, "where: .*equal"),
        ({"where": pc.field("id")}, TypeError, "where: .*bool"),
        ({"where": 5}, TypeError, "where: 5 is no filter"),
    ],
)
def test_what_is_refused(
    table: HudiTable, arguments: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        table.delete(**arguments)
    assert len(table.timeline()) == 1


def test_a_table_without_rows(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    result = table.delete(where="id = 1")
    assert (result.rows_read, result.rows_deleted, result.files_unchanged) == (0, 0, 0)


def test_rows_of_one_key_are_told_apart(table: HudiTable) -> None:
    table.insert(rows((1, "mo", 9, "/twice"), (1, "tu", 9, "/a")))
    assert table.delete(where="page = '/twice'").rows_deleted == 1
    assert table.delete(where="id = 1 and day = 'tu'").rows_deleted == 1
    assert table.scan(filter="id = 1", columns=["day", "page"]).to_pylist() == [
        {"day": "mo", "page": "/a"}
    ]


def test_only_what_is_needed_is_read(table: HudiTable, monkeypatch: pytest.MonkeyPatch) -> None:
    format_ = FileFormat(row_group_bytes=1000)
    many = rows(*((n, "we", float(n), f"/{n}") for n in range(5, 305)))
    table.bulk_insert(many, options=WriteOptions(format=format_))
    read: list[tuple[str, list[str], int]] = []

    opened: list[str] = []

    class Seen(SliceRows):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            opened.append(self.shown)

        def batches(self, group: int) -> Any:
            read.append((self.shown, self.schema.names, group))
            return super().batches(group)

    monkeypatch.setattr(matching, "SliceRows", Seen)
    assert table.delete(where="day = 'we' and ts = 100").rows_deleted == 1
    ((shown, names, group),) = read
    assert "/we/" in shown
    assert (names, group > 0) == (["_hoodie_record_key", "day", "ts"], True)
    assert opened == [shown]
    opened.clear()
    table.collect_statistics(["id"])
    assert table.delete(where="id <= 2").rows_deleted == 2
    (shown,) = opened
    assert "/mo/" in shown


def test_rows_that_do_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizing = FileSizing(small_file_limit=0, split_size=900, auto_split=False)
    many = rows(*((n, f"d{n % 3}", None if n % 7 == 0 else n % 5, None) for n in range(8000)))
    spilled: list[int] = []

    class Seen(SpilledRows):
        def __exit__(self, *error: Any) -> None:
            spilled.append(self.deleted)
            super().__exit__(*error)

    monkeypatch.setattr(write_module, "SpilledRows", Seen)
    found = []
    for name, memory in (("small", MIN_MEMORY), ("large", 1 << 30)):
        table = make(tmp_path / name)
        table.insert(many, options=WriteOptions(sizing=sizing))
        result = table.delete(where="ts >= 2", options=WriteOptions(memory=memory))
        gone = pc.sum(pc.greater_equal(many["ts"], 2)).as_py()
        assert result.rows_read == result.rows_deleted == gone
        assert spilled == [gone]
        assert check_files(tmp_path / name)
        found.append(table.scan(columns=SCHEMA.names).sort_by("id"))
    assert found[0] == found[1] == many.filter(pc.field("ts").is_null() | (pc.field("ts") < 2))


def test_it_is_asked_of_the_state_that_the_write_finds(table: HudiTable, tmp_path: Path) -> None:
    """What was committed since the table was opened counts."""
    old = HudiTable.open(tmp_path / "t")
    assert old.scan().num_rows == 4
    table.upsert(rows((1, "mo", 10, "/a"), (2, "mo", 0, "/a")))
    assert old.delete(where="ts >= 4").rows_deleted == 2
    assert ids(old) == [2, 3]


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Let another writer act once rows have been looked for, before they are deleted."""
    plan = matching.MatchingRows.found

    def found(self: matching.MatchingRows) -> Any:
        everything = list(plan(self))
        monkeypatch.undo()
        act()
        return iter(everything)

    monkeypatch.setattr(matching.MatchingRows, "found", found)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_row_that_changed_meanwhile_stays(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path / "t", version=version)
    table.insert(rows((1, "mo", 1, "/a"), (2, "mo", 1, "/b"), (3, "tu", 1, "/c")))
    other = HudiTable.open(tmp_path / "t")
    meanwhile(monkeypatch, lambda: other.upsert(rows((1, "mo", 5, "/new"))))
    with pytest.raises(CommitConflictError, match="write again") as caught:
        table.delete(where="ts = 1 and day = 'mo'", options=WriteOptions(retries=0))
    _, upserted = other.view().timeline.writes()
    assert caught.value.instant == upserted.time
    assert ids(table) == [1, 2, 3]
    # What was said to be done then does what it should.
    assert table.delete(where="ts = 1 and day = 'mo'").rows_deleted == 1
    assert ids(table) == [1, 3]
    # Nobody is in the way who changes other files.
    meanwhile(monkeypatch, lambda: other.upsert(rows((3, "tu", 7, "/other"))))
    assert table.delete(where="ts = 5").rows_deleted == 1
    assert table.scan(columns=["id", "page"]).to_pylist() == [{"id": 3, "page": "/other"}]
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


def test_a_damaged_file_is_named(table: HudiTable, tmp_path: Path) -> None:
    (file,) = [one.current for one in table.file_groups() if one.id.partition == "tu"]
    path = tmp_path / "t" / file.path
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptionError) as caught:
        table.delete(where="id = 3")
    assert caught.value.path == str(path)
    assert len(table.timeline()) == 1


COLUMNS = pa.schema(
    {"id": pa.int64(), "p": pa.string(), "value": pa.float64(), "text": pa.string()}
)


def drawn(chance: random.Random, count: int) -> pa.Table:
    return pa.table(
        {
            "id": [chance.randrange(60) for _ in range(count)],
            "p": [chance.choice("xyz") for _ in range(count)],
            "value": [chance.choice([None, NAN, 0.0, -0.0, 1.0, 2.0, 3.0]) for _ in range(count)],
            "text": [chance.choice([None, "", "a", "b", "ab"]) for _ in range(count)],
        },
        COLUMNS,
    )


def filter_of(chance: random.Random) -> pc.Expression:
    def one() -> pc.Expression:
        return chance.choice(
            [
                pc.field("id") == chance.randrange(60),
                pc.field("id") < chance.randrange(60),
                pc.field("p") == chance.choice("xyz"),
                pc.field("value") > chance.randrange(3),
                pc.field("value") != 1,
                pc.field("value").isin([0.0, 2.0]),
                pc.field("value").is_null(nan_is_null=chance.random() < 0.5),
                pc.field("text") == "a",
                pc.field("text").is_null(),
                pc.starts_with(pc.field("text"), "a"),
            ]
        )

    found = one()
    for _ in range(chance.randrange(3)):
        found = found & one() if chance.random() < 0.6 else found | ~one()
    return ~found if chance.random() < 0.3 else found


@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize("version", VERSIONS)
def test_random_histories(tmp_path: Path, version: int, seed: int) -> None:
    """Rows that are left are those that Arrow's filter leaves of the rows before, each once."""
    chance = random.Random(seed)
    table = HudiTable.create(
        tmp_path / "t", COLUMNS, record_key="id", partition_by="p", version=version
    )
    deleted = 0
    for turn in range(amount(7, 14)):
        options = WriteOptions(
            sizing=FileSizing(small_file_limit=0, split_size=12, auto_split=False),
            format=FileFormat(row_group_bytes=chance.choice([300, 1 << 20])),
        )
        given = drawn(chance, chance.randrange(1, 60))
        verb = chance.choice([table.insert, table.upsert, table.bulk_insert])
        verb(given, options=options)
        if turn == chance.randrange(5):
            table.collect_statistics()
        before, where = table.scan(), filter_of(chance)
        numbers = pa.array(range(before.num_rows))
        true = before.append_column("#", numbers).filter(where)["#"]
        left = before.filter(pa.array(~np.isin(numbers, true)))
        result = table.delete(where=where)
        assert result.rows_deleted == len(true), where
        deleted += len(true)
        assert seen(table.scan()) == seen(left), where
        if turn % 5 == 0:
            table.clean(retain_commits=2)
    assert deleted
    theirs = other_scan(tmp_path / "t")
    assert seen(table.scan()) == ([] if theirs is None else seen(theirs))
    assert {one.kind for one in table.verify().findings} <= {"duplicate"}


def seen(found: pa.Table) -> list[str]:
    """Return rows as texts, sorted; in which files they are makes no difference."""
    return sorted(map(repr, found.drop_columns(["_hoodie_file_name"]).to_pylist()))


@pytest.mark.few(1)
@pytest.mark.parametrize("version", [8, 9])
def test_beside_upserts(tmp_path: Path, version: int, seed: int) -> None:
    """Each commit of a delete removed nothing but rows for which its filter was true then."""
    schema = pa.schema({"id": pa.int64(), "value": pa.int64()})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id", version=version)
    # Small files, so that writers meet in some of them.
    sizing = FileSizing(small_file_limit=0, split_size=10, auto_split=False)
    first = pa.table({"id": range(60), "value": [5] * 60}, schema)
    table.upsert(first, options=WriteOptions(sizing=sizing))
    failures: list[BaseException] = []
    done = {"upsert": 0, "delete": 0, "conflict": 0, "rows": 0}

    def write(number: int) -> None:
        chance = random.Random(seed + number)
        own = HudiTable.open(tmp_path / "t")
        tried = 0
        try:
            # They may meet each time: each goes on until it has done something.
            while tried < 15 or not done["rows" if number else "upsert"]:
                tried += 1
                least = chance.randrange(8)
                options = WriteOptions(sizing=sizing, extra_metadata={"least": str(least)})
                keys = chance.sample(range(60), 3)
                values = [chance.randrange(10) for _ in keys]
                try:
                    if number:
                        done["rows"] += own.delete(
                            where=(pc.field("value") >= least) & (pc.field("id") > keys[0]),
                            options=options,
                        ).rows_deleted
                    else:
                        own.upsert(pa.table({"id": keys, "value": values}, schema), options=options)
                    done["delete" if number else "upsert"] += 1
                except CommitConflictError:
                    done["conflict"] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    view = table.view()
    instants = sorted(view.timeline.writes(), key=lambda one: one.position)
    removed = 0
    for before, after in pairwise(instants):
        found = table.changes(before.position, after.position).read_all()
        commit = view.commit(after)
        kinds = set(found["change"].to_pylist())
        if commit.operation == "DELETE":
            assert kinds <= {"delete"}
            least = int((commit.extra_metadata or {})["least"])
            assert all(value >= least for value in found["value"].to_pylist())
            removed += found.num_rows
        else:
            assert "delete" not in kinds
    assert removed
    assert done["upsert"]
    assert done["delete"]
    assert_same_rows(table.scan(), other_scan(tmp_path / "t"))


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (("at", "<", datetime(2026, 3, 1)), r"'at' is timestamp\[us, tz=UTC\], and .* tzinfo"),
        (("local", "<", datetime(2026, 3, 1, tzinfo=timezone.utc)), "a datetime without tzinfo"),
        (("day", "=", date(2026, 3, 1)), r"'day' is string, and datetime.date.*; give a text"),
        ([("id", ">", 0), ("id", "in", ["x"])], r"'id' is int64, and \['x'\] does not fit; give a"),
        ([[("id", ">", 0)], [("id", "between", "a", "b")]], "'a' and 'b' does not fit"),
        (("id", "like", "a%"), "'id' is int64, and 'like' needs texts"),
    ],
)
def test_values_that_do_not_fit_their_columns(tmp_path: Path, where: Any, said: str) -> None:
    stamps = {"at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us")}
    schema = pa.schema({"id": pa.int64(), "day": pa.string(), **stamps})
    table = HudiTable.create(tmp_path / "t", schema, record_key="id")
    now = datetime(2026, 3, 1)
    table.insert(pa.table([[1], ["a"], [now], [now]], schema=schema))
    with pytest.raises(ValueError, match=f"^where: the column .*{said}"):
        table.delete(where=where)
    with pytest.raises(ValueError, match=f"^filter: the column .*{said}"):
        table.scan(filter=where)
