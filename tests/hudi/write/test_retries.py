"""Two writers are normal: the one that comes second writes again, and loses no row."""

from __future__ import annotations

import io
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from support.hudi.in_processes import upsert_often
from support.hudi.kills import leftovers, rows_of
from support.hudi.oracle import other_scan
from support.hudi.small_tables import SCHEMA

from lookupstore.errors import CommitConflictError, StaleStoreError
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.view import table_view
from lookupstore.hudi.write import retries as retries_module
from lookupstore.hudi.write.write import Write
from lookupstore.source import kept

pytestmark = pytest.mark.drawn(0.4)


def some(*ids: int, value: str) -> pa.Table:
    return pa.table({"id": list(ids), "value": [value] * len(ids)}, schema=SCHEMA)


def new_table(path: Path) -> HudiTable:
    table = HudiTable.create(path, SCHEMA, record_key="id")
    table.upsert(some(1, 2, value="old"))
    return table


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries_module, "_PAUSE", 0)


@pytest.fixture
def meet(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let another writer commit, a few times, after a write of the verb has found its keys."""

    def arrange(verb: str, *acts: Callable[[], object]) -> None:
        left, acting = list(acts), list[Callable[[], object]]()
        run = Write._run

        def late(self: Write, operation: str, *rest: Any) -> Any:
            # The other writer writes by the same verb, perhaps.
            if operation == verb and left and not acting:
                acting.append(left.pop(0))
                acting[0]()
                acting.clear()
            return run(self, operation, *rest)

        monkeypatch.setattr(Write, "_run", late)

    return arrange


Given = Callable[[pa.Table], Any]
GIVEN: dict[str, Given] = {
    "table": lambda rows: rows,
    "reader": lambda rows: rows.to_reader(),
    "generator": lambda rows: (one for one in rows.to_batches(max_chunksize=1)),
    "pandas": lambda rows: rows.to_pandas(),
    "polars": pl.from_arrow,
    "csv": lambda rows: io.BytesIO(
        b"id,value\n" + b"".join(b"%(id)d,%(value)s\n" % {
            b"id": one["id"], b"value": one["value"].encode()} for one in rows.to_pylist())
    ),
}  # fmt: skip


@pytest.mark.parametrize("memory", [None, 0], ids=["in memory", "in a file"])
@pytest.mark.parametrize("given", GIVEN)
def test_an_upsert_that_was_overtaken_is_done_again(
    tmp_path: Path,
    meet: Callable[..., None],
    given: str,
    memory: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With its rows, however they were given, on what the other one wrote."""
    if memory is not None:
        monkeypatch.setattr(kept, "MEMORY", memory)
    table = new_table(tmp_path / "t")
    other = HudiTable.open(tmp_path / "t")
    meet(
        "UPSERT",
        lambda: other.insert_overwrite_table(some(1, 3, value="other")),
        lambda: other.insert_overwrite_table(some(1, 4, value="another")),
    )
    done = table.upsert(GIVEN[given](some(1, 5, 6, value="mine")))
    assert (done.retries, done.rows_read, done.rows_updated, done.rows_inserted) == (2, 3, 1, 2)
    expected = {1: "mine", 4: "another", 5: "mine", 6: "mine"}
    assert rows_of(tmp_path / "t") == expected
    found = other_scan(tmp_path / "t")
    assert dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True)) == expected
    assert leftovers(tmp_path / "t") == []


@pytest.mark.parametrize("memory", [1 << 20, 0], ids=["in memory", "in a file"])
def test_rows_that_do_not_parse_are_left_out_again(
    tmp_path: Path, meet: Callable[..., None], memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MEMORY", memory)
    table = new_table(tmp_path / "t")
    other = HudiTable.open(tmp_path / "t")
    meet("UPSERT", lambda: other.upsert(some(1, 3, value="other")))
    rows = io.BytesIO(b"id,value\n1,mine\nx,lost\n5,mine\n")
    done = table.upsert(rows, options=WriteOptions(on_error="collect"))
    assert (done.retries, done.rows_read, done.rows_failed) == (1, 3, 1)
    assert [(one.row, one.key) for one in done.errors] == [(1, None)]
    assert done.errors[0].reason.endswith("is int32 and has 'x' in row 2")
    assert rows_of(tmp_path / "t") == {1: "mine", 2: "old", 3: "other", 5: "mine"}


@pytest.mark.parametrize("verb", ["insert", "delete"])
def test_other_verbs_are_done_again(tmp_path: Path, meet: Callable[..., None], verb: str) -> None:
    table = new_table(tmp_path / "t")
    other = HudiTable.open(tmp_path / "t")
    meet(verb.upper(), lambda: other.upsert(some(1, 3, value="other")))
    options = WriteOptions(duplicates="drop")
    done = getattr(table, verb)(some(1, 9, value="mine").to_reader(), options=options)
    assert done.retries == 1
    assert (
        rows_of(tmp_path / "t")
        == {
            "insert": {1: "other", 2: "old", 3: "other", 9: "mine"},
            "delete": {2: "old", 3: "other"},
        }[verb]
    )


def test_a_delete_by_filter_sees_what_the_other_one_wrote(
    tmp_path: Path, meet: Callable[..., None]
) -> None:
    table = new_table(tmp_path / "t")
    other = HudiTable.open(tmp_path / "t")
    meet("DELETE", lambda: other.upsert(some(1, 3, value="old2")))
    assert table.delete(where="value = 'old'").retries == 1
    assert rows_of(tmp_path / "t") == {1: "old2", 3: "old2"}


@pytest.mark.parametrize("verb", ["insert_overwrite", "insert_overwrite_table"])
def test_an_overwrite_is_not_done_again(
    tmp_path: Path, meet: Callable[..., None], verb: str
) -> None:
    """Its rows may have been made of those that were there: what came since would be lost."""
    table = new_table(tmp_path / "t")
    other = HudiTable.open(tmp_path / "t")
    meet(verb.upper(), lambda: other.upsert(some(1, 3, value="other")))
    with pytest.raises(CommitConflictError, match="nothing was committed: read the table again"):
        getattr(table, verb)(some(1, 9, value="mine"))
    assert rows_of(tmp_path / "t") == {1: "other", 2: "old", 3: "other"}


@pytest.mark.parametrize("given", [{"retain_versions": 1}, {"retain_commits": 1}], ids=str)
def test_a_clean_that_removes_files_before_they_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, int]
) -> None:
    """The write has read the timeline, and finds the files of a later one."""
    table = new_table(tmp_path / "t")
    acts = [lambda at=at: table.upsert(some(2, value=f"theirs {at}")) for at in range(2)]
    listed = table_view.list_data_files

    def late(*args: Any, **options: Any) -> Any:
        if acts:
            act = acts.pop()
            left, acts[:] = acts[:], []  # the other writer lists files, too
            act()
            HudiTable.open(tmp_path / "t").clean(**given)
            acts[:] = left
        return listed(*args, **options)

    monkeypatch.setattr(table_view, "list_data_files", late)
    result = table.upsert(some(1, 3, value="ours"))
    assert (result.retries, result.rows_updated, result.rows_inserted) == (2, 1, 1)
    assert rows_of(tmp_path / "t") == {1: "ours", 2: "theirs 0", 3: "ours"}


def test_given_files_that_change_are_not_read_again() -> None:
    tries = []

    def write(attempt: int) -> None:
        tries.append(attempt)
        raise StaleStoreError("rows.parquet changed")

    with pytest.raises(StaleStoreError):
        retries_module.retried(write, 3)
    assert tries == [0]
    with pytest.raises(StaleStoreError):
        retries_module.retried(write, 3, has_changed=lambda: True)
    assert tries == [0, 0, 1, 2, 3]


def test_retries_end(tmp_path: Path, meet: Callable[..., None]) -> None:
    table = new_table(tmp_path / "t")
    other = HudiTable.open(tmp_path / "t")
    acts = [lambda: other.upsert(some(1, value="other"))] * 5
    meet("UPSERT", *acts)
    with pytest.raises(CommitConflictError, match="changed file groups") as caught:
        table.upsert(some(1, value="mine"), options=WriteOptions(retries=0))
    assert not caught.value.is_pending
    with pytest.raises(CommitConflictError, match="changed file groups"):
        table.upsert(some(1, value="mine"), options=WriteOptions(retries=1))
    assert table.upsert(some(1, value="mine"), options=WriteOptions(retries=2)).retries == 2
    assert leftovers(tmp_path / "t") == []
    for wrong in (-1, 1.5, True, None):
        with pytest.raises(ValueError, match=r"retries is .*; give a whole number, at least 0"):
            WriteOptions(retries=wrong)  # type: ignore[arg-type]


def test_a_pending_write_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying again would fail as well, after all files were written again."""
    table = new_table(tmp_path / "t")
    tries = []
    upsert = Write.upsert

    def refused(self: Write, given: Any) -> Any:
        tries.append(1)
        upsert(self, given)
        raise CommitConflictError("a clustering is pending", is_pending=True)

    monkeypatch.setattr(Write, "upsert", refused)
    with pytest.raises(CommitConflictError, match="pending") as caught:
        table.upsert(some(1, value="mine"))
    assert len(tries) == 1
    assert pickle.loads(pickle.dumps(caught.value)).is_pending


def test_a_writer_pauses_before_it_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(retries_module, "time", SimpleNamespace(sleep=pauses.append))

    def write(attempt: int) -> int:
        if attempt < 9:
            raise CommitConflictError("met")
        return attempt

    assert retries_module.retried(write, 9) == len(pauses) == 9
    assert all(0 <= pause <= min(5, 0.05 * 2**n) for n, pause in enumerate(pauses))


def generator() -> Iterator[pa.RecordBatch]:
    yield from some(7, value="once").to_batches()


@pytest.mark.parametrize("make", [lambda: some(7, value="once").to_reader(), generator])
@pytest.mark.parametrize("verb", ["upsert", "insert", "bulk_insert", "insert_overwrite_table"])
def test_a_reader_that_was_read_is_refused(
    tmp_path: Path, make: Callable[[], Any], verb: str
) -> None:
    """It would look like no rows: nothing would be committed, or a table emptied."""
    table = new_table(tmp_path / "t")
    rows = make()
    table.upsert(rows, dry_run=True)
    before = rows_of(tmp_path / "t")
    with pytest.raises(ValueError, match=r"was read by an earlier write.*read_all.*from_batches"):
        getattr(table, verb)(rows)
    assert rows_of(tmp_path / "t") == before


def test_a_file_that_was_read_can_be_read_from_its_beginning(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    file = io.BytesIO(b"id,value\n7,once\n")
    table.upsert(file)
    file.seek(0)
    assert table.upsert(file).rows_updated == 1
    with pytest.raises(ValueError, match="empty"):
        table.upsert(file)  # at its end


def test_a_reader_of_which_nothing_was_read_can_be_given_again(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    wide = some(7, value="once").append_column("new", pa.array([1.5])).to_reader()
    with pytest.raises(ValueError, match="evolve"):
        table.upsert(wide)
    table.upsert(wide, options=WriteOptions(evolve=True))
    assert rows_of(tmp_path / "t")[7] == "once"


def test_two_processes_never_see_a_conflict(tmp_path: Path) -> None:
    """Both insert new keys into one small file, as in the report of two workers."""
    table = new_table(tmp_path / "t")
    path, mine, others = str(tmp_path / "t"), list(range(100, 106)), list(range(200, 206))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        retries = pool.starmap(upsert_often, [(path, mine), (path, others)])
    assert set(rows_of(tmp_path / "t")) == {1, 2, *mine, *others}
    assert table.verify().findings == ()
    print(f"12 upserts, {sum(map(sum, retries))} retries")
