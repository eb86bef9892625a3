"""Random histories, read by us and by hudi-rs at every instant and over every range."""

from __future__ import annotations

import tempfile
from itertools import combinations
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hudi.oracle import assert_same_rows, other_incremental, other_scan
from support.hudi.small_tables import SmallTable

from lookupstore.hudi import HudiTable, Instant, State
from lookupstore.hudi.timeline.commit import WriteStat

SCHEMA = pa.schema({"id": pa.int32(), "value": pa.string(), "p": pa.int32()})
GROUPS = ("a-0", "b-0", "c-0")

# What is done, to which group, of which partition; "end" completes what "begin" left, in any order.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["commit", "commit", "begin", "end", "replace", "cluster", "stray", "empty"]
        ),
        st.integers(0, len(GROUPS) - 1),
        st.integers(1, 2),
    ),
    max_size=10,
)


class History:
    """Steps on a table. Each group has one row of its own, so that keys stay unique."""

    def __init__(self, path: Path, version: int) -> None:
        self.table = SmallTable(path, version, SCHEMA, ["p"])
        self.version = version
        self.open: list[tuple[Instant, WriteStat]] = []
        self.live: dict[tuple[str, int], str] = {}
        self.made = 0

    def write(self, instant: Instant, file_id: str, p: int, times: list[str]) -> WriteStat:
        key = p * 100 + GROUPS.index(file_id[:3])
        rows = [{"id": key, "value": f"{file_id} {self.made}", "p": p}]
        self.made += 1
        return self.table.write(instant.time, file_id, rows, f"p={p}", SCHEMA, times)

    def end(self, at: int) -> None:
        instant, stat = self.open.pop(at)
        self.table.finish(instant, [stat], schema=SCHEMA)
        assert stat.file_id is not None
        assert stat.partition_path is not None
        self.live[stat.file_id[:3], int(stat.partition_path[2:])] = stat.file_id

    def step(self, what: str, group: int, p: int) -> None:
        key = GROUPS[group % len(GROUPS)], p  # of "end", a number of those that are open
        file_id = self.live.get(key, key[0])
        busy = {(stat.file_id, stat.partition_path) for _, stat in self.open}
        if what == "end":
            if self.open:
                self.end(group % len(self.open))
        elif (file_id, f"p={p}") in busy:
            return  # no two writers at one group: one of them would lose what it wrote
        elif what == "empty":
            self.table.finish(self.table.begin(), schema=SCHEMA)
        elif what in ("replace", "cluster"):
            if key not in self.live:
                return
            moves = what == "cluster"
            clustering = moves and self.version != 6
            instant = self.table.begin("clustering" if clustering else "replacecommit")
            replaced = {f"p={p}": (file_id,)}
            stats = []
            del self.live[key]
            if moves:
                moved = f"{GROUPS[group]}x{self.made}"
                before = HudiTable.open(self.table.path).scan(columns=["id", "_hoodie_commit_time"])
                times = [
                    row["_hoodie_commit_time"]
                    for row in before.to_pylist()
                    if row["id"] == p * 100 + group
                ]
                stats = [self.write(instant, moved, p, times)]
                self.live[key] = moved
            self.table.finish(instant, stats, replaced, SCHEMA)
        elif what == "stray":
            old = Instant("20200101000000000", "commit", State.COMPLETED)
            if not any(self.table.path.rglob(f"{file_id}_*_{old.time}.parquet")):
                self.write(old, file_id, p, [old.time])
        else:
            instant = self.table.begin()
            stat = self.write(instant, file_id, p, [instant.time])
            self.open.append((instant, stat))
            if what == "commit":
                self.end(len(self.open) - 1)


@settings(max_examples=40)
@given(st.sampled_from([6, 8, 9]), STEPS)
def test_histories_are_what_hudi_rs_reads(version: int, steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / "t", version)
        for what, group, p in steps:
            history.step(what, group, p)
        path = history.table.path
        table = HudiTable.open(path)
        assert_same_rows(table.scan(), other_scan(path))
        writes = [one for one in table.timeline() if one.is_completed and one.is_write]
        for instant in writes:
            assert_same_rows(table.scan(as_of=instant.time), other_scan(path, instant.time))
        positions = sorted(["20000101000000000", *(one.position for one in writes)])
        for since, until in combinations(positions, 2):
            ours, theirs = table.incremental(since, until), other_incremental(path, since, until)
            if any(one.time < until < one.position for one in writes):
                # Of a group that is written again and completed later, hudi-rs reads the later
                # file, and passes over what changed before `until`.
                known = ours.to_pylist()
                assert all(row in known for row in (theirs.to_pylist() if theirs else ()))
            else:
                assert_same_rows(ours, theirs)
