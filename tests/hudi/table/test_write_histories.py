"""Random histories of everything that a table does, and of writers that are killed at it.

After each operation a model of dicts, hudi-rs and we agree: on the table as it is, on every instant
that is retained, on what changed in ranges of instants. (No range ends within a commit here, where
hudi-rs answers otherwise: docs/how-to/hudi-read-changes.md.)

LOOKUPSTORE_HISTORIES=N makes N histories for each version of tables, and compares everything after
each operation; LOOKUPSTORE_TEST_SEED=N repeats a run; LOOKUPSTORE_QUICK=1 shows a failure as it was
found, where making it small would take minutes.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st
from support.hudi.kills import leftovers, on_disk
from support.hudi.oracle import assert_same_rows, other, other_incremental, other_scan
from support.hudi.table_model import LEVELS, TIME, Key, Layout, Model, Row, Rows, State
from support.hudi.versions import VERSIONS
from support.hudi.written import check_files
from support.remote import FaultyDisk, Killed
from support.samples import amount

from lookupstore.errors import StaleStoreError
from lookupstore.hudi import HudiTable, WriteOptions, WriteResult
from lookupstore.hudi.clustering import ClusterResult
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.write.partitioner import FileSizing
from lookupstore.sorting.runs import MIN_MEMORY

HISTORIES = int(os.environ.get("LOOKUPSTORE_HISTORIES") or amount(0, 40))
QUICK = "LOOKUPSTORE_QUICK" in os.environ
LENGTH = 30
# What is done, rows as `row_of` takes them, a choice, and at which file operation it dies.
Step = tuple[str, list[tuple[Any, ...]], int, int | None]
BEGINNING = "20000101000000000"
PLACE = ("_hoodie_partition_path", "_hoodie_record_key")


def layouts(version: int) -> st.SearchStrategy[Layout]:
    return st.builds(
        Layout,
        st.just(version),
        st.sampled_from([("id",), ("id", "name")]),
        st.sampled_from([(), ("p",), ("p", "q")]),
        st.booleans(),
        st.sampled_from([None, "ts"]),
        st.booleans(),
        st.sampled_from([None, "COMMIT_TIME_ORDERING"]),
    )


def row_of(values: tuple[Any, ...]) -> Row:
    number, name, p, q, ts, value, many, deleted = values
    return {
        "id": number,
        "name": name,
        "p": p,
        "q": q,
        "ts": ts,
        "value": value,
        "many": many,
        "_hoodie_is_deleted": deleted,
        # Those of evolved columns, which have no need to be independent.
        "more": None if value is None else number,
        "ratio": q,
        "price": Decimal(ts) + Decimal("0.25"),
        "score": None if ts == 0 else ts / 2,
        "inner": None if value == "w" else {"n": number, "m": name},
    }


ROWS = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.sampled_from(["x", "", "ü", None]),
        st.sampled_from(["a", "b/c", None]),
        st.integers(1, 2),
        st.integers(0, 3),
        st.sampled_from(["u", "v", "w", None]),
        st.sampled_from([None, [], [1], [2, None]]),
        st.sampled_from([False, False, False, None, True]),
    ),
    max_size=8,
)
VERBS = (
    "look",  # what shrinking makes of steps that do not matter
    "upsert", "upsert", "upsert", "upsert", "insert", "bulk_insert", "delete", "delete",
    "insert_overwrite", "insert_overwrite_table", "delete_partition", "evolve", "failed",
    "rollback", "rollback", "savepoint", "delete_savepoint", "restore", "clean", "clean",
    "cluster", "cluster", "update", "merge",
)  # fmt: skip
SERVICES = ("rollback", "savepoint", "delete_savepoint", "restore", "clean", "cluster")
# Every fourth operation is killed: at one of its file operations, of which writes have about 45,
# and twice as many if there is something to take back first.
CRASHES = st.one_of(st.none(), st.none(), st.none(), st.integers(0, 70))
STEPS = st.lists(
    st.tuples(st.sampled_from(VERBS), ROWS, st.integers(0, 7), CRASHES),
    min_size=LENGTH,
    max_size=LENGTH,
)


def arrow(rows: list[Row], level: int = 0) -> pa.Table:
    schema = pa.schema({**LEVELS[level], "_hoodie_is_deleted": pa.bool_()})
    columns = {
        name: pa.array([row[name] for row in rows], kind)
        if not pa.types.is_binary(kind)
        else pa.array([row[name] for row in rows], pa.string()).cast(kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    }
    return pa.table(columns, schema=schema)


def ids() -> Iterator[str]:
    # Eight digits would be the number of a bucket.
    return (f"a{number:07x}-0000-0000-0000-000000000000-0" for number in count())


class History:
    """Operations on a table and on the model."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path = path
        self.model = Model(layout)
        self.table = HudiTable.create(
            path,
            pa.schema(LEVELS[0]),
            record_key=layout.record_key,
            partition_by=layout.partition_by,
            ordering=layout.ordering,
            merge_mode=layout.merge_mode,
            version=layout.version,
            hive_style=layout.hive_style,
            url_encode=layout.url_encode,
            name="t",
        )
        self.ids = ids()
        #: Which savepoint the last restore was to.
        self._restored = ""
        #: How often each operation was done, refused, or killed.
        self.counts: Counter[str] = Counter()

    def step(self, verb: str, rows: list[Row], number: int, crash: int | None) -> None:
        """Do one operation, or die in it."""
        level = self.model.now.level
        if verb == "evolve":
            verb = ("upsert", "upsert", "bulk_insert", "insert_overwrite")[number % 4]
            level = min(level + 1, len(LEVELS) - 1)
        if verb == "look":
            return
        with pytest.MonkeyPatch.context() as patch:
            if crash is not None:
                on_disk(patch, FaultyDisk(crash, kill=True))
            if verb == "failed":
                self._fail(rows, level)
            elif verb in SERVICES:
                getattr(self, f"_{verb}")(number)
            elif verb in ("update", "merge"):
                self._state(verb, rows, number)
            else:
                self._write(verb, rows, level, number)
        if verb == "restore":
            self._end_restore()

    def _tried(self, what: str, act: Callable[[], Any]) -> Any:
        """Return what an operation returns, or None if it dies."""
        try:
            result = act()
        except Killed:
            self.counts[f"{what} killed"] += 1
            return None
        except ValueError:
            self.counts[f"{what} refused"] += 1
            raise
        self.counts[what] += 1
        return result

    def _told(self, what: str, act: Callable[[], Any]) -> tuple[Any, str | None]:
        """Return what an operation returns, and why it was refused, if it was."""
        try:
            return self._tried(what, act), None
        except ValueError as error:
            return None, str(error)

    def _commits(self) -> list[str]:
        return [one.time for one in self.table.timeline() if one.is_completed and one.is_write]

    def _write(self, verb: str, rows: list[Row], level: int, number: int) -> None:
        # With few bytes to a file a write has several in a partition.
        sizing = FileSizing(max_file_size=3, small_file_limit=0, record_size=1)
        options = WriteOptions(
            sizing=sizing if number % 2 else FileSizing(),
            new_file_id=lambda: next(self.ids),
            evolve=True,
            threads=1,
            # The model has each key once.
            duplicates="drop" if number % 4 else "fail",
            # Row groups that are large enough to be copied, or not.
            format=FileFormat(row_group_bytes=1000) if number % 3 else FileFormat(),
        )
        model, table = self.model, self.table
        before = model.now.rows
        paths: list[str] = []
        is_there = any(key in before for key in model.distinct(rows))
        if verb == "insert" and options.duplicates == "fail" and is_there:
            given = arrow(rows, level)
            done, refusal = self._told(verb, lambda: table.insert(given, options=options))
            assert done is None
            assert refusal is None or "have keys that the table already has" in refusal
            return
        given: Any = arrow(rows, level)
        if verb in ("insert", "bulk_insert"):
            rows = [row for key, row in model.distinct(rows).items() if key not in before]
        if verb == "bulk_insert":
            given = arrow(rows, level)
        if verb == "delete":
            given = given.select([*model.layout.record_key, *model.layout.partition_by])
        elif verb == "delete_partition":
            given = paths = sorted({one.id.partition for one in table.file_groups()})[:1]
        elif level == len(LEVELS) - 1:
            # Whole floats of a table widen no column of integers; of a stream its types decide.
            given = given.to_reader()
        after = model.after(verb, rows if verb != "delete_partition" else [], level, paths)
        known = self._commits()
        result = self._tried(verb, lambda: getattr(table, verb)(given, options=options))
        new = self._commits()
        if result is not None:
            assert result.instant is not None
            assert new == [*known, result.instant.time]
            if verb in ("upsert", "insert", "bulk_insert", "delete"):
                assert result.rows_inserted == len(set(after.rows) - set(before))
                assert result.rows_deleted == len(set(before) - set(after.rows))
        if new != known:
            assert new[:-1] == known
            model.commit(new[-1], after)

    def _state(self, verb: str, rows: list[Row], number: int) -> None:
        """Update rows by a condition, or merge rows of which each key comes once."""
        model, table = self.model, self.table
        level = model.now.level
        options = WriteOptions(new_file_id=lambda: next(self.ids), threads=1)
        value: Any = "new" if LEVELS[level]["value"] == pa.string() else b"new"
        once = list({model.key(row): row for row in rows}.values())

        def act() -> WriteResult:
            if verb == "update":
                sets = {"value": pa.scalar(value)}
                return table.update(sets, where=f"id < {number}", options=options)
            given = arrow(once, level).drop_columns(["_hoodie_is_deleted"])
            merge = table.merge(given).when_matched_update({"value": "source.value"})
            merge = merge.when_not_matched_insert(where=f"source.id > {number}")
            merge = merge.when_not_matched_by_source_delete(f"target.id > {number + 5}")
            return merge.execute(options=options)

        if verb == "update":
            after = model.updated(lambda row: row["id"] < number, value)
        else:
            after = model.merged(once, number)
        known = self._commits()
        result = self._tried(verb, act)
        new = self._commits()
        if result is not None:
            assert result.instant is not None
            assert new == [*known, result.instant.time]
            assert result.rows_inserted == len(set(after.rows) - set(model.now.rows))
            assert result.rows_deleted == len(set(model.now.rows) - set(after.rows))
        if new != known:
            assert new[:-1] == known
            model.commit(new[-1], after)

    def _fail(self, rows: list[Row], level: int) -> None:
        """Let a write end in the middle."""
        given = arrow(rows, level)

        def broken() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_struct_array(given.to_struct_array().combine_chunks())
            raise RuntimeError("stopped")

        options = WriteOptions(new_file_id=lambda: next(self.ids), threads=1)
        with suppress(RuntimeError):
            self._tried("failed", lambda: self.table.bulk_insert(broken(), options=options))

    def _rollback(self, number: int) -> None:
        """Take the last commit back."""
        model = self.model
        if not model.states:
            return
        *others, last = model.states
        _, refusal = self._told("rollback", lambda: self.table.rollback(last))
        is_there = last in self._commits()
        if refusal is None:
            if not is_there:
                assert last not in model.saved
                del model.states[last]
            return
        assert is_there
        if "a savepoint keeps it" in refusal:
            assert last in model.saved | self._half_saved()
        else:
            assert "a clean removed files that it replaced" in refusal
            assert model.cleaned_to > max(others, default="")

    def _half_saved(self) -> set[str]:
        """Return the times of savepoints whose maker died, or who died deleting them."""
        pending = self.table.view().timeline.pending()
        return {one.time for one in pending if one.action == "savepoint"}

    def _savepoint(self, number: int) -> None:
        model = self.model
        times = [time for time in model.states if time not in model.saved]
        if not times:
            return
        time = times[-1 - number % len(times)]
        _, refusal = self._told("savepoint", lambda: self.table.savepoint(time, user="me"))
        if refusal is not None:
            assert "a clean removed files of it" in refusal
            assert time < model.cleaned_to
        if time in self.table.savepoints():
            model.saved.add(time)

    def _delete_savepoint(self, number: int) -> None:
        saved = sorted(self.model.saved | self._half_saved())
        if saved:
            time = saved[number % len(saved)]
            self._tried("delete_savepoint", lambda: self.table.delete_savepoint(time))
            if time not in self.table.savepoints():
                self.model.saved.discard(time)

    def _restore(self, number: int) -> None:
        """Go back to a savepoint."""
        saved = sorted(self.model.saved)
        if not saved:
            return
        self._restored = saved[number % len(saved)]
        _, refusal = self._told("restore", lambda: self.table.restore(self._restored))
        if refusal is not None:
            assert "savepoints keep later commits" in refusal
            assert max(self.model.saved | self._half_saved()) > self._restored

    def _end_restore(self) -> None:
        """Do again what was killed when it had begun: nothing else can be done before."""
        if any(one.action == "restore" for one in self.table.view().timeline.pending()):
            self.counts["restores done again"] += 1
            self.table.restore(self._restored)
        if self.model.states and self._commits()[-1] < max(self.model.states):
            times = [time for time in self.model.states if time <= self._restored]
            self.model.states = {time: self.model.states[time] for time in times}

    def _clean(self, number: int) -> None:
        retained = 1 + number % 5
        self.model.clean(retained)
        if self._tried("clean", lambda: self.table.clean(retain_commits=retained)):
            self.counts["cleans that removed files"] += 1

    def _cluster(self, number: int) -> None:
        """Put all rows in another order, in files of one row or of many; no row changes."""
        by = (["id"], ["ts", "name"], ["value", "q"], ["p"])[number % 4]
        partitions = sorted({one.id.partition for one in self.table.file_groups()})
        options = WriteOptions(
            new_file_id=lambda: next(self.ids),
            threads=1,
            # So little that rows are spilled, or more than there are.
            memory=MIN_MEMORY if number % 2 else 1 << 20,
        )
        known = self._commits()

        def act() -> ClusterResult:
            return self.table.cluster(
                by,
                curve="linear",
                target_file_size=1 if number % 2 else 1 << 20,
                partitions=partitions[:1] if number % 3 == 1 else None,
                options=options,
            )

        self._tried("cluster", act)
        new = self._commits()
        if new != known:
            assert new[:-1] == known
            self.model.commit(new[-1], self.model.now)
            self.counts["clusterings"] += 1

    def check(self, *, everything: bool) -> None:
        """Compare the model with what both readers see."""
        table, theirs, model = HudiTable.open(self.path), other(self.path), self.model
        assert self._commits() == list(model.states)
        assert set(table.savepoints()) == model.saved
        ours = table.scan()
        assert_same_rows(ours, other_scan(theirs))
        assert [str(one.type) for one in ours.schema][5:] == [
            str(kind) for kind in LEVELS[model.now.level].values()
        ]
        assert_rows(ours, model.now.at_level(model.now.level))
        readable = list(model.readable.items())
        for time, state in readable if everything else readable[-3:]:
            scanned = table.scan(as_of=time)
            assert_rows(scanned, state.at_level(model.now.level))
            assert_same_rows(scanned, other_scan(theirs, time))
        positions = {
            one.time: one.position for one in table.timeline() if one.is_completed and one.is_write
        }
        times = list(positions)
        for until in [time for time in times if time not in model.lost][-3 if everything else -1 :]:
            at = times.index(until)
            for since in ["", *times[max(0, at - 3) : at]]:
                begin, end = positions.get(since, BEGINNING), positions[until]
                changed = table.incremental(begin, end)
                assert_rows(changed, model.changed(since, until))
                assert_same_rows(changed, other_incremental(theirs, begin, end))
        if times:
            assert table.incremental(positions[times[-1]]).num_rows == 0
        ends = readable if everything else readable[-3:]
        for at, (until, state) in enumerate(ends):
            for since, before in [("", State()), *ends[max(0, at - 3) : at + 1]]:
                known = before.at_level(model.now.level)
                found = table.changes(
                    positions.get(since),
                    positions[until],
                    columns=[*PLACE, *LEVELS[model.now.level]],
                )
                assert applied(found.read_all(), known) == images(
                    state.at_level(model.now.level)
                ), (since, until)
        # What a clean has taken from is told, or whole.
        for time in sorted(model.lost & set(positions))[:: 1 if everything else 5]:
            try:
                scanned = table.scan(as_of=time)
                found = table.changes(positions[time], columns=[*PLACE, *LEVELS[model.now.level]])
            except StaleStoreError:
                self.counts["moments that are lost"] += 1
                continue
            before = model.states[time].at_level(model.now.level)
            assert_rows(scanned, before)
            now = images(model.now.at_level(model.now.level))
            assert applied(found.read_all(), before) == now
            self.counts["moments that are whole after a clean"] += 1

    def end(self) -> None:
        """Check what is left when the next writers have put away what the dead ones left."""
        for time in self._half_saved():
            self.table.delete_savepoint(time)
            self.model.saved.discard(time)
        self._write("delete", [], self.model.now.level, 0)
        self.table.clean(retain_commits=1000)
        self.check(everything=True)
        assert leftovers(self.path) == []
        check_files(self.path)
        findings = HudiTable.open(self.path).verify().findings
        # Of a file that was not finished only those of rows are large.
        assert [one for one in findings if not one.path.endswith(".tmp")] == []
        assert not list(self.path.glob(".*.parquet.*.tmp"))


def images(rows: Rows) -> dict[Key, Row]:
    """Return rows without the times of their commits."""
    return {key: {**row, TIME: ""} for key, row in rows.items()}


def applied(changes: pa.Table, rows: Rows) -> dict[Key, Row]:
    """Apply changes to rows, from the first to the last, each of which has to fit."""
    now = images(rows)
    seen = Counter[Key]()
    before: Row | None = None
    for row in changes.to_pylist():
        change, *key = (row.pop(name) for name in ("change", *PLACE))
        at, image = (key[0], key[1]), {TIME: "", **row}
        if change in ("delete", "update_before"):
            assert now.pop(at) == image
            before = image if change == "update_before" else None
        else:
            assert at not in now
            assert (change == "update_after") == (before is not None)
            assert image != before
            now[at], before = image, None
        seen[at] += change != "update_after"
    assert all(number == 1 for number in seen.values())
    return now


def assert_rows(table: pa.Table, expected: Rows) -> None:
    """Compare rows with those of the model, and name those that differ."""
    found = {
        (row["_hoodie_partition_path"], row["_hoodie_record_key"]): {
            TIME: row["_hoodie_commit_time"],
            **{name: value for name, value in row.items() if not name.startswith("_hoodie_")},
        }
        for row in table.to_pylist()
    }
    assert len(found) == table.num_rows
    differ = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
    assert [(key, found.get(key), expected.get(key)) for key in differ] == []


@pytest.mark.few(1)
@pytest.mark.parametrize("version", VERSIONS)
def test_histories_are_those_of_a_dict_and_of_hudi_rs(version: int, seed_of_the_day: int) -> None:
    counts: Counter[str] = Counter()

    @seed(10 * seed_of_the_day + version)
    @settings(
        max_examples=HISTORIES or 2,  # the first of them does nothing
        deadline=None,
        phases=[one for one in Phase if not (QUICK and one in (Phase.shrink, Phase.explain))],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(layouts(version), STEPS)
    def histories(
        layout: Layout, steps: list[tuple[str, list[tuple[Any, ...]], int, int | None]]
    ) -> None:
        note(f"LOOKUPSTORE_TEST_SEED={seed_of_the_day}")
        with tempfile.TemporaryDirectory() as folder:
            history = History(Path(folder) / "t", layout)
            for step in steps:
                verb, rows, number, crash = step
                history.step(verb, [row_of(one) for one in rows], number, crash)
                history.check(everything=bool(HISTORIES))
            history.end()
        counts.update(history.counts, histories=1)

    histories()
    killed = sum(number for what, number in counts.items() if what.endswith("killed"))
    print(f"version {version}, LOOKUPSTORE_TEST_SEED={seed_of_the_day}: {killed} killed")
    print(", ".join(f"{what}: {number}" for what, number in sorted(counts.items())))
