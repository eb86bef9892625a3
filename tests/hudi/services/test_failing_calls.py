"""No exception of statistics, layouts or services, at whichever call, fails a write or harms it.

A write is run once, and each call of a function of `hudi/layout` and `hudi/services` is recorded.
Then it is run again and again, and one of these calls raises an exception. What decides whether the
write may happen at all is a door of its own: then nothing has changed.
"""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.hudi.failing_calls import Call, calls_of, failing
from support.hudi.oracle import assert_same_rows, other, other_scan
from support.samples import some_of

from lookupstore.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptionError,
    FormatError,
    LockedError,
    StaleStoreError,
)
from lookupstore.hudi import HudiTable, TableServices, WriteOptions

FOLDERS = ("hudi/layout", "hudi/services")
SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "a": pa.int64(), "b": pa.string()})

KINDS: list[Callable[[], Exception]] = [
    lambda: OSError(5, "injected"),
    lambda: FileNotFoundError(2, "injected"),
    lambda: FileExistsError(17, "injected"),
    lambda: KeyError("injected"),
    lambda: ValueError("injected"),
    lambda: TypeError("injected"),
    lambda: AttributeError("injected"),
    lambda: IndexError("injected"),
    lambda: MemoryError("injected"),
    lambda: RecursionError("injected"),
    lambda: ZeroDivisionError("injected"),
    lambda: AssertionError("injected"),
    lambda: StopIteration("injected"),
    lambda: ImportError("injected"),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "injected"),
    lambda: UserWarning("injected"),
    lambda: pa.ArrowInvalid("injected"),
    lambda: pa.ArrowKeyError("injected"),
    lambda: pa.ArrowNotImplementedError("injected"),
    lambda: pa.ArrowMemoryError("injected"),
    lambda: CorruptionError("injected", 0, "this", "that"),
    lambda: FormatError("injected"),
    lambda: StaleStoreError("injected"),
    lambda: LockedError("injected"),
    lambda: CommitConflictError("injected"),
    lambda: CommitUnknownError("injected"),
]
# What says that a write must not happen: it is asked before the commit. `pending_writes` itself is
# asked by the plan of which rows to delete; for statistics, `keep_statistics` asks it.
DECIDES = {
    "roll_back_pending", "check_not_restored", "check_not_rolled_back", "check_completed",
    "pending_writes",
}  # fmt: skip
SERVICES = TableServices(
    retain_versions=1,
    archive=True,
    min_commits=2,
    max_commits=3,
    cluster_by=["a", "id"],
    cluster_incremental=True,
    cluster_commits=1,
    cluster_file_size=2000,
)
OPTIONS = WriteOptions(services=SERVICES)
VERSIONS = (6, 9)


def rows(ids: range | list[int], value: str) -> pa.Table:
    return pa.table(
        {
            "id": list(ids),
            "p": ["p"] * len(ids),
            "a": [i * 7 % 31 for i in ids],
            "b": [f"{value}{i}" for i in ids],
        },
        schema=SCHEMA,
    )


Values = dict[int, str]
# Each write, and what becomes of the rows.
WRITES: dict[str, tuple[Callable[[HudiTable], Any], Callable[[Values], Values]]] = {
    "upsert": (
        lambda table: table.upsert(rows([1, 100, 101], "z"), options=OPTIONS),
        lambda before: before | {i: f"z{i}" for i in (1, 100, 101)},
    ),
    "bulk_insert": (
        lambda table: table.bulk_insert(rows(range(200, 209), "z"), options=OPTIONS),
        lambda before: before | {i: f"z{i}" for i in range(200, 209)},
    ),
    "delete where": (
        lambda table: table.delete(where=pc.field("a") < 9, options=OPTIONS),
        lambda before: {i: value for i, value in before.items() if i * 7 % 31 >= 9},
    ),
    "insert_overwrite": (
        lambda table: table.insert_overwrite(rows(range(5), "o"), options=OPTIONS),
        lambda before: {i: f"o{i}" for i in range(5)},
    ),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table of each version, all of which have what writes go on with."""
    folder = tmp_path_factory.mktemp("tables")
    for version in VERSIONS:
        table = HudiTable.create(
            folder / f"v{version}", SCHEMA, record_key="id", partition_by="p", version=version
        )
        table.insert(rows(range(20), "x"))
        table.collect_statistics(["id", "a"])
        table.cluster(["a", "id"], incremental=True, target_file_size=2000)
        table.bulk_insert(rows(range(20, 24), "x"))
        table.upsert(rows(range(3), "y"))
    return folder


def values(path: Path) -> Values:
    """Return the rows as hudi-rs reads them, which are those that we read."""
    ours = HudiTable.open(path).scan()
    assert_same_rows(ours, other_scan(other(path)))
    return dict(zip(ours["id"].to_pylist(), ours["b"].to_pylist(), strict=True))


def is_of_write(call: Call) -> bool:
    """Return whether a call is of a filter, which a write is given, or of what lets it go on."""
    own = ("filters/", "hudi/layout/unfailing.py", "hudi/layout/statistics/usable.py")
    return call.function.startswith(own)


def distinct(calls: list[Call]) -> list[Call]:
    """Return the first and last call of each function by each door, if it may fail."""
    first: dict[tuple[str, str], Call] = {}
    last: dict[tuple[str, str], Call] = {}
    for call in calls:
        first.setdefault((call.function, call.door), call)
        last[call.function, call.door] = call
    found = dict.fromkeys([*first.values(), *last.values()])
    return [call for call in found if not is_of_write(call)]


# Python calls a generator that nobody reads to its end once more, when it closes it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.sampled
@pytest.mark.few(2)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("write", WRITES)
def test_no_call_fails_a_write(
    tmp_path: Path, tables: Path, write: str, version: int, seed: int
) -> None:
    path, chance = tmp_path / "t", random.Random(seed)
    do, becomes = WRITES[write]
    before = values(tables / f"v{version}")
    shutil.copytree(tables / f"v{version}", path)
    calls = distinct(calls_of(lambda: do(HudiTable.open(path)), FOLDERS))
    after = becomes(before)
    assert values(path) == after
    assert {"keep_statistics", "clean", "archive"} <= {call.door for call in calls}
    for call in some_of(calls, 4):
        kind = chance.choice(KINDS)
        shutil.rmtree(path)
        shutil.copytree(tables / f"v{version}", path)
        error = kind()
        with warnings.catch_warnings(), failing(call, error, FOLDERS) as raised:
            warnings.simplefilter("ignore")
            try:
                do(HudiTable.open(path))
                wrote = True
            except Exception as found:
                if call.door not in DECIDES:
                    raise AssertionError(f"{call}: {error!r} fails the write") from found
                wrote = False
        assert raised or call.number, call
        assert values(path) == (after if wrote else before), call
        assert HudiTable.open(path).upsert(rows([7], "later")).rows_written > 0
        # What a service that failed had begun, a later one completes.
        findings = HudiTable.open(path).verify().findings
        assert [one for one in findings if one.kind != "leftover"] == [], call
