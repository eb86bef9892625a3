"""Bars of verbs that may take long: what they are told, and when they are seen."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.remote import Remote

import lookupstore
from lookupstore import progress
from lookupstore.columnar import ColumnarFiles
from lookupstore.hudi import HudiTable, TableLookup, WriteOptions
from lookupstore.hudi.write.partitioner import FileSizing

VERBS = [
    importlib.import_module(f"lookupstore.{name}")
    for name in (
        "store.store", "store.changing", "store.publishing", "columnar.many_lookups",
        "columnar.file_lookup", "columnar.planned_files", "hudi.table.layout",
        "hudi.table.services", "hudi.table.writes",
    )
]  # fmt: skip


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """What bars were opened: title, total, unit, and how much was done."""
    opened: list[list[Any]] = []

    def open_bar(title: str, total: float | None, unit: str = "rows") -> Callable[[float], None]:
        bar = [title, total, unit, 0]
        opened.append(bar)

        def advance(done: float) -> None:
            bar[3] += done

        return advance

    @contextmanager
    def shown(show: bool | None = None, *, late: bool = False) -> Iterator[Any]:
        assert late or show is not None
        yield None if show is False else open_bar

    for verb in VERBS:
        monkeypatch.setattr(verb, "progress_bars", shown)
    return opened


def table_of(start: int, count: int) -> pa.Table:
    ids = np.arange(start, start + count)
    return pa.table({"id": ids, "name": [f"row {one}" for one in ids]})


def test_bars_are_told_of_all_that_is_done(tmp_path: Path, bars: list[list[Any]]) -> None:
    def told() -> list[tuple[Any, ...]]:
        seen = [tuple(bar) for bar in bars]
        bars.clear()
        return seen

    store = lookupstore.build(table_of(0, 3000), tmp_path / "s", key="id", buckets=3)
    assert told() == []
    assert store.verify().num_rows == 3000
    assert told() == [("Checking", 3000, "rows", 3000)]

    # A run for each bucket, then one that is merged into its base at once.
    twice = pa.concat_tables([table_of(2990, 20)] * 2)
    store = store.upsert(twice, deletes=[1, 2, 7777], max_run_share=9)
    assert told() == [("Reading", 40, "rows", 40), ("Writing changes", 43, "rows", 43)]
    store.verify()
    assert told() == [("Checking", 3022, "rows", 3022)]
    store = store.upsert(deletes=[3], max_runs=0)
    changed, compacted = told()
    assert changed == ("Writing changes", 1, "rows", 1)
    assert compacted[:3] == ("Compacting", None, "rows")
    rows_of_bucket = compacted[3]
    assert 500 < rows_of_bucket < 1500

    # Of the others.
    store = store.compact()
    (bar,) = told()
    assert bar == ("Compacting", 3007 - rows_of_bucket, "rows", 3007 - rows_of_bucket)
    store.verify(progress=False)
    store = store.upsert(table_of(9000, 5), progress=False, max_run_share=9)
    store = store.compact(progress=False)
    lookupstore.publish(store, tmp_path / "quiet", progress=False).close()
    assert told() == []

    size = store.info().bytes / 1e6
    for folder in ("new", "s3"):  # a local folder, and an object store
        place = tmp_path / folder if folder == "new" else Remote(tmp_path, "s3").location()
        lookupstore.publish(store, place).close()
        ((title, total, unit, done),) = told()
        assert (title, unit) == ("Copying", "MB")
        assert total == pytest.approx(size)
        assert done == pytest.approx(size)
        # What is there counts as copied.
        newer = store.upsert(table_of(0, 1), max_run_share=9)
        told()
        lookupstore.publish(newer, place, overwrite=True).close()
        ((_, total, _, done),) = told()
        assert total > size
        assert done == pytest.approx(total)
        store = newer
        size = total


def test_bars_of_files_and_tables(tmp_path: Path, bars: list[list[Any]]) -> None:
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for number, path in enumerate(paths):
        pq.write_table(table_of(100 * number, 100), path)
    table = HudiTable.create(tmp_path / "t", table_of(0, 1), record_key="id")
    for start in (0, 50):
        table.upsert(table_of(start, 100))
    bars.clear()
    checks: list[tuple[Any, int]] = [
        (ColumnarFiles(paths, key="id"), sum(path.stat().st_size for path in paths)),
        (table, sum(group.current.bytes for group in table.file_groups())),
    ]
    for checked, size in checks:
        checked.verify()
        ((title, total, unit, done),) = bars
        assert (title, unit) == ("Checking", "MB")
        assert total == pytest.approx(size / 1e6)
        assert done == pytest.approx(total)
        bars.clear()
        checked.verify(progress=False)
        assert not bars


@pytest.mark.parametrize("order", ["sorted", "random", "late", "repeated"])
def test_a_bar_of_a_lookup_file(
    tmp_path: Path, bars: list[list[Any]], monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """It ends at the number of rows, whatever their order; threads and tags open none each."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    many = 300_000
    rows = table_of(0, many)
    if order == "random":
        rows = rows.take(np.random.default_rng(1).permutation(many))
    elif order == "late":  # most of it is written in the order of the source
        rows = pa.concat_tables([rows.slice(1), rows.slice(0, 1)])
    elif order == "repeated":
        rows = pa.concat_tables([rows.slice(0, many - 5), rows.slice(0, 5)])
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(2):
        pq.write_table(rows.slice(number * 2), folder / f"{number}.parquet")
    one = ColumnarFiles(folder / "0.parquet", key="id", build="always", on_duplicate="last")
    one.lookup([5])
    (made,) = bars
    written = many - 5 if order == "repeated" else many
    assert made[:3] == ["Making a lookup file", many, "rows"]
    assert made[3] == (many if order == "sorted" else (many + written) / 2)
    bars.clear()
    assert one.lookup([7]).num_rows == 1
    assert not bars
    two = ColumnarFiles(folder, key="id", mode="position", on_duplicate="last")
    two.prepare(threads=2, progress=True)
    assert bars == [["Building lookup files", 2 * many - 2, "rows", 2 * many - 2]]
    bars.clear()
    ColumnarFiles(folder, key="id", mode="presence", on_duplicate="last").prepare(progress=False)
    assert not bars


def test_a_bar_of_a_lookup_file_of_a_table(
    tmp_path: Path, bars: list[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    table = HudiTable.create(tmp_path / "t", table_of(0, 1), record_key="id")
    table.upsert(table_of(0, 1000))
    bars.clear()
    with TableLookup(table, build="always") as lookup:
        assert lookup.get(7) == {"name": "row 7"}
    assert bars == [["Making a lookup file", 1000, "rows", 1000]]
    bars.clear()
    table.upsert(table_of(5, 1), options=WriteOptions(progress=False))
    assert not bars


def test_bars_of_writes(tmp_path: Path, bars: list[list[Any]]) -> None:
    def told() -> list[tuple[Any, ...]]:
        seen = [tuple(bar) for bar in bars]
        bars.clear()
        return seen

    def rows_of(start: int, count: int) -> pa.Table:
        table = table_of(start, count)
        return table.append_column("half", pa.array([f"{one % 2}" for one in range(count)]))

    table = HudiTable.create(tmp_path / "t", rows_of(0, 1), record_key="id", partition_by="half")
    table.upsert(rows_of(0, 100))
    # There are no files to look for keys in.
    assert told() == [("Reading", 100, "rows", 100), ("Writing", 2, "files", 2)]
    # A third file, which has none of the keys that come, and is not opened.
    table.insert(rows_of(1000, 1), options=WriteOptions(sizing=FileSizing(small_file_limit=0)))
    assert told() == [("Reading", 1, "rows", 1), ("Writing", 1, "files", 1)]
    table.upsert(rows_of(0, 100).slice(0, 4).to_reader())
    assert told() == [
        ("Reading", None, "rows", 4),
        ("Finding keys", 3, "files", 3),
        ("Writing", 2, "files", 2),
    ]
    table.delete([5, 7, 7777])
    assert told() == [
        ("Reading", 3, "rows", 3),
        ("Finding keys", 3, "files", 3),
        ("Writing", 1, "files", 1),
    ]
    table.delete(where="id < 2")
    assert told() == [("Writing", 2, "files", 2)]
    for sort_mode, written in (("none", False), ("global_sort", True), ("partition_sort", True)):
        options = WriteOptions(sort_mode=sort_mode, on_error="collect")
        rows = pa.concat_tables(
            [rows_of(2000, 10), pa.table({"id": [None]})], promote_options="default"
        )
        assert len(table.bulk_insert(rows, options=options).errors) == 1
        titles = ["Reading", "Writing"] if written else ["Reading"]
        assert told() == [(title, 11, "rows", 11) for title in titles]
    # Equal rows make more files than were planned; then a partition has no rows left.
    table.upsert(rows_of(0, 400).set_column(1, "name", pa.array(["same"] * 400)))
    for where in ("half = '1'", "half = '0'"):
        told()
        size = sum(group.current.bytes for group in table.file_groups()) / 1e6
        assert table.cluster("name", target_file_size=2000).instant is not None
        (_, total, _, _), _ = seen = told()
        assert 0 < total <= size
        whole = (total, "MB", pytest.approx(total))
        assert seen == [("Sorting", *whole), ("Writing", *whole)]
        table.delete(where=where)
    told()
    table.delete_partition("0")
    assert told() == []
    table.insert_overwrite(rows_of(0, 10))
    assert told() == [("Reading", 10, "rows", 10), ("Writing", 2, "files", 2)]
    # Of more than there is memory for, keys are looked for piece by piece, once rows are combined.
    many = 60_000
    twice = pa.concat_tables([rows_of(0, many), rows_of(0, 100)])
    for write, title in ((table.upsert, "Finding keys"), (table.insert_overwrite, "Sorting")):
        write(twice, options=WriteOptions(memory=1 << 20))
        reading, placing, writing = told()
        assert reading == ("Reading", many + 100, "rows", many + 100)
        assert placing == (title, many + 100, "rows", many + 100)
        assert writing[0] == "Writing"
        assert writing[1] == writing[3] >= 2
    table.upsert(rows_of(0, 10), dry_run=True)
    assert [one[0] for one in told()] == ["Reading", "Finding keys"]
    quiet = WriteOptions(progress=False)
    table.upsert(rows_of(0, 10), options=quiet)
    table.cluster("id", options=quiet)
    assert told() == []


def test_a_bar_that_is_late(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done soon shows nothing, unless a bar is asked for; what goes on does."""
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setattr(progress, "LATE", 0.2)

    def work(seconds: float, show: bool | None = None) -> str:
        with progress.progress_bars(show, late=True) as open_bar:
            assert open_bar is not None
            advance = open_bar("Working", 2)
            advance(1)
            time.sleep(seconds)
            advance(1)
        return capfd.readouterr().err

    assert work(0) == ""
    assert "Working" in work(0, True)
    long = work(0.8)
    assert "Working" in long
    assert "2 rows" in long
    with pytest.raises(KeyError), progress.progress_bars(None, late=True):
        raise KeyError
    time.sleep(0.3)
    assert capfd.readouterr().err == ""

    with lookupstore.build(table_of(0, 10), tmp_path / "s", key="id", progress=False) as store:
        store.verify()
        assert capfd.readouterr().err == ""
        store.verify(progress=True)
        assert "Checking" in capfd.readouterr().err


def test_bars_inside_of_bars(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are lines of one display, and as late as if they were alone."""
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setattr(progress, "LATE", 0.2)
    displays = []
    shown = progress.shown

    @contextmanager
    def counted(*columns: Any, after: float = 0) -> Iterator[Any]:
        with shown(*columns, after=after) as display:
            displays.append(display)
            yield display

    monkeypatch.setattr(progress, "shown", counted)
    for seconds, seen in ((0, False), (0.3, True)):
        with progress.progress_bars() as outer:
            assert outer is not None
            outer("Looking up", 2)(2)
            with progress.progress_bars(late=True) as inner:
                assert inner is not None
                advance = inner("Making", 5)
                time.sleep(seconds)
                advance(5)
        printed = capfd.readouterr().err
        assert "Looking up" in printed
        assert ("Making" in printed) == seen
    assert len(displays) == 2
    # The next one is a display of its own again, also after an error, and in a child.
    with pytest.raises(KeyError), progress.progress_bars():
        raise KeyError
    with progress.progress_bars() as outer:
        assert len(displays) == 4
        progress._after_fork()
        with progress.progress_bars():
            assert len(displays) == 5


@pytest.mark.parametrize("show", [None, True])
def test_a_bar_leaves_the_programs_output_alone(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, show: bool | None
) -> None:
    """What is printed while a bar is seen on a terminal goes where the program has it go."""
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setattr(progress, "LATE", 0.1)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes that for a terminal
    streams = sys.stdout, sys.stderr
    with progress.progress_bars(show, late=True) as open_bar:
        assert open_bar is not None
        open_bar("Working", 2)(1)
        time.sleep(0.5)
        assert (sys.stdout, sys.stderr) == streams
        print("printed", flush=True)
    assert (sys.stdout, sys.stderr) == streams
    out, err = capfd.readouterr()
    assert out == "printed\n"
    assert "Working" in err


def test_a_late_bar_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Output:
        def update(self, text: dict[str, str], **_: Any) -> None:
            shown.append(text["text/plain"])

    def put(text: dict[str, str], **_: Any) -> Output:
        shown.append(text["text/plain"])
        return Output()

    monkeypatch.setattr(progress, "_notebook_display", lambda: put)
    monkeypatch.setattr(progress, "LATE", 0.2)
    monkeypatch.setattr(progress, "_PAUSE", 0.05)
    for seconds, seen in ((0, False), (0.5, True)):
        with progress.progress_bars(late=True) as open_bar:
            assert open_bar is not None
            advance = open_bar("Copying", 2.5, "MB")
            time.sleep(seconds)
            advance(2.5)
        assert bool(shown) == seen
    assert "2 MB" in shown[-1]
