"""What tests kill: the actions on a table, what they make of its rows, and who dies in them.

Run as a program it makes a process for each line of its input that says what to do, and prints how
that ended: the modules are read once, and no thread runs when a process is made.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pyarrow as pa
from support.remote import FaultyDisk

import lookupstore.storage.local
import lookupstore.storage.lock_file
import lookupstore.storage.naming
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.timeline.timeline import TimelineFolder

SCHEMA = pa.schema({"id": pa.int32(), "p": pa.string(), "value": pa.string()})
# One after the other, so that operations have an order.
ONE = WriteOptions(threads=1)
Act = Callable[[HudiTable], object]
Values = dict[int, str]

OLD = {0: "old", 1: "old", 2: "old"}


class MortalDisk(FaultyDisk):
    """A disk that lets the process die at an operation, as a power failure would."""

    def die(self, name: str) -> None:
        _die()


def rows(ids: range, value: str) -> pa.Table:
    """Return rows of two partitions."""
    return pa.table(
        {
            "id": pa.array(list(ids), pa.int32()),
            "p": [f"p{at % 2}" for at in ids],
            "value": [value] * len(ids),
        }
    )


def nothing(table: HudiTable) -> None:
    """Leave a table as it is."""


@dataclass(frozen=True)
class Action:
    """One that can be killed, and done again after that.

    Attributes:
        act: does it, also if it was done in part or wholly.
        new: the rows after it.
        prepare: is done before, in a process of its own, which may die at that.
        old: the rows before it.
        is_left: nobody else ends it, if it was killed: it has to be done again.
        is_of_dead: who prepares it dies at that.
    """

    act: Act
    new: Values
    prepare: Act = nothing
    old: Values | None = None
    is_left: bool = False
    is_of_dead: bool = False

    @property
    def before(self) -> Values:
        """Return the rows that are there before it."""
        return OLD if self.old is None else self.old


def make(path: Path, version: int) -> HudiTable:
    """Make a table of three rows, one of which was written twice."""
    table = HudiTable.create(path, SCHEMA, record_key=["id"], partition_by=["p"], version=version)
    table.insert(rows(range(3), "older"), options=ONE)
    table.upsert(rows(range(3), "old"), options=ONE)
    return table


def values(table: HudiTable) -> Values:
    """Return the rows as we see them."""
    found = table.scan(columns=["id", "value"])
    return dict(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))


def _commits(table: HudiTable) -> list[str]:
    return [one.time for one in table.timeline() if one.is_completed and one.is_write]


def _insert(verb: str) -> Act:
    """Insert two rows; of what was inserted before it died nobody but its writer knows."""

    def act(table: HudiTable) -> object:
        if 5 in values(table):
            return None
        return getattr(table, verb)(rows(range(5, 7), "new"), options=ONE)

    return act


def _delete_partition(table: HudiTable) -> None:
    if any(one.id.partition == "p0" for one in table.file_groups()):
        table.delete_partition(["p0"], options=ONE)


def _rollback_last(table: HudiTable) -> None:
    """Whoever comes next ends what has begun, and does not know what was wanted."""
    table.rollback()
    if 3 in values(table):
        table.rollback(_commits(table)[-1])


def _savepoint(table: HudiTable) -> None:
    first = _commits(table)[0]
    if first not in table.savepoints():
        table.savepoint(first, user="me")


def _delete_savepoint(table: HudiTable) -> None:
    if any(one.action == "savepoint" for one in table.timeline()):
        table.delete_savepoint(_commits(table)[0])


def _save_and_upsert(table: HudiTable) -> None:
    table.savepoint(user="me")
    _upsert(table)


def _restore(table: HudiTable) -> None:
    (saved,) = table.savepoints()
    table.restore(saved)


def _upsert(table: HudiTable) -> object:
    return table.upsert(rows(range(1, 4), "new"), options=ONE)


def _merge(table: HudiTable) -> object:
    merge = table.merge(rows(range(1, 4), "new")).when_matched_delete("target.id = 2")
    merge = merge.when_matched_update().when_not_matched_insert(where="source.id = 3")
    return merge.when_not_matched_by_source_delete().execute(options=ONE)


def _die_before_it_is_seen(table: HudiTable) -> None:
    """Die when all files of a write are there, and the completed one is not."""
    with mock.patch.object(TimelineFolder, "complete", _die):
        _upsert(table)


def _die(*args: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _move(table: HudiTable) -> None:
    """Upsert rows of another partition than the table has them in."""
    given = rows(range(4), "new").set_column(1, "p", pa.array(["p1", "p0"] * 2))
    table.upsert(given, options=WriteOptions(threads=1, index="global-bloom"))


def _more_files(table: HudiTable) -> None:
    """Let one of the partitions have two files."""
    table.bulk_insert(rows(range(5, 7), "more"), options=ONE)


def _cluster(table: HudiTable) -> object:
    # Rows that are there in some order already are put in another one.
    return table.cluster(["value", "id"], curve="linear", options=ONE)


def _die_before_clustering_is_seen(table: HudiTable) -> None:
    _more_files(table)
    with mock.patch.object(TimelineFolder, "complete", _die):
        _cluster(table)


def _more_files_and_cluster(table: HudiTable) -> None:
    _more_files(table)
    _cluster(table)


def _cluster_incrementally(table: HudiTable) -> object:
    return table.cluster(["value", "id"], incremental=True, options=ONE)


def _cluster_and_append(table: HudiTable) -> None:
    """Let one of the partitions have so many new files that they are to be put in order."""
    _cluster_incrementally(table)
    for at in APPENDED:
        table.bulk_insert(rows(range(at, at + 1), "more"), options=ONE)


def _rollback_clustering(table: HudiTable) -> None:
    table.rollback()
    if any(one.action == "replacecommit" for one in table.timeline()):
        table.rollback(_commits(table)[-1])


APPENDED = range(5, 19, 2)
MORE = {**OLD, 5: "more", 6: "more"}
UPSERTED = {0: "old", 1: "new", 2: "new", 3: "new"}
ACTIONS = {
    "upsert": Action(_upsert, UPSERTED),
    "upsert_that_moves": Action(_move, dict.fromkeys(range(4), "new")),
    "insert": Action(_insert("insert"), {**OLD, 5: "new", 6: "new"}),
    "bulk_insert": Action(_insert("bulk_insert"), {**OLD, 5: "new", 6: "new"}),
    # Into a partition that keeps a layout, which is to have the new files.
    "bulk_insert_in_order": Action(
        _insert("bulk_insert"), {**OLD, 5: "new", 6: "new"}, prepare=_cluster_incrementally
    ),
    "insert_in_order": Action(
        _insert("insert"), {**OLD, 5: "new", 6: "new"}, prepare=_cluster_incrementally
    ),
    "delete": Action(lambda table: table.delete([0, 1], options=ONE), {2: "old"}),
    "update": Action(
        lambda table: table.update({"value": "'new'"}, where="id > 0", options=ONE),
        {0: "old", 1: "new", 2: "new"},
    ),
    "merge": Action(_merge, {1: "new", 3: "new"}),
    "insert_overwrite": Action(
        lambda table: table.insert_overwrite(rows(range(4, 5), "new"), options=ONE),
        {1: "old", 4: "new"},
    ),
    "insert_overwrite_table": Action(
        lambda table: table.insert_overwrite_table(rows(range(4, 5), "new"), options=ONE),
        {4: "new"},
    ),
    "delete_partition": Action(_delete_partition, {1: "old"}),
    # Of one who died when all files were there, but before anybody saw them.
    "rollback": Action(HudiTable.rollback, OLD, prepare=_die_before_it_is_seen, is_of_dead=True),
    "rollback_of_the_last_commit": Action(_rollback_last, OLD, prepare=_upsert, old=UPSERTED),
    "restore": Action(_restore, OLD, prepare=_save_and_upsert, old=UPSERTED, is_left=True),
    "clean": Action(lambda table: table.clean(retain_commits=1), OLD, is_left=True),
    "savepoint": Action(_savepoint, OLD, is_left=True),
    "delete_savepoint": Action(_delete_savepoint, OLD, prepare=_savepoint, is_left=True),
    "cluster": Action(_cluster, MORE, prepare=_more_files, old=MORE),
    "rollback_of_a_clustering": Action(
        HudiTable.rollback, MORE, _die_before_clustering_is_seen, old=MORE, is_of_dead=True
    ),
    "rollback_of_the_last_clustering": Action(
        _rollback_clustering, MORE, prepare=_more_files_and_cluster, old=MORE
    ),
    "collect_statistics": Action(
        lambda table: table.collect_statistics(["id", "value"]),
        OLD,
        prepare=HudiTable.collect_statistics,
        is_left=True,
    ),
    "cluster_incrementally": Action(
        _cluster_incrementally,
        {**OLD, **dict.fromkeys(APPENDED, "more")},
        prepare=_cluster_and_append,
        old={**OLD, **dict.fromkeys(APPENDED, "more")},
    ),
}


def act_on(path: str, action: str, at: int | None) -> None:
    """Do an action, and die at one of its file operations; None: do what comes before it."""
    if at is None:
        ACTIONS[action].prepare(HudiTable.open(path))
        return
    disk = MortalDisk(at, kill=True)
    lookupstore.storage.local.os = disk  # type: ignore[attr-defined]
    lookupstore.storage.naming.os = disk  # type: ignore[attr-defined]
    lookupstore.storage.lock_file.os = disk  # type: ignore[attr-defined]
    ACTIONS[action].act(HudiTable.open(path))


def serve() -> None:
    """Do what each line says, in a process of its own."""
    mock.patch("os.fsync", os.fstat).start()  # as in tests/conftest.py
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                act_on(*json.loads(line))
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
