"""A table as dicts: what each operation makes of its rows, and which of its states stay readable.

Nothing here asks the table: it is what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Key = tuple[str, str]  # partition path, record key
Row = Mapping[str, Any]
Rows = dict[Key, Row]
#: Where a row of the model keeps the time of the commit that wrote it; "" of the one to come.
TIME = "_time"

COLUMNS = {
    "id": pa.int64(),
    "name": pa.string(),
    "p": pa.string(),
    "q": pa.int32(),
    "ts": pa.int64(),
    "value": pa.string(),
    "many": pa.list_(pa.field("element", pa.int32())),
}
#: How the columns evolve; a name that comes again has a wider type from then on.
_EVOLVED: list[dict[str, pa.DataType]] = [
    {"q": pa.int64(), "more": pa.int32(), "ratio": pa.int32()},
    {"more": pa.int64(), "price": pa.decimal128(5, 2), "inner": pa.struct({"n": pa.int32()})},
    {"price": pa.decimal128(9, 2), "score": pa.float32(), "value": pa.binary()},
    {
        "ratio": pa.float64(),
        "score": pa.float64(),
        "inner": pa.struct({"n": pa.int64(), "m": pa.string()}),
    },
]
LEVELS: list[dict[str, pa.DataType]] = [COLUMNS]
for _wider in _EVOLVED:
    LEVELS.append({**LEVELS[-1], **_wider})


@dataclass(frozen=True)
class Layout:
    """How a table is made."""

    version: int
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    hive_style: bool
    ordering: str | None
    url_encode: bool
    merge_mode: str | None = None

    @property
    def compares_stored(self) -> bool:
        """Say whether a row must be as new as the stored one to take its place."""
        return self.ordering is not None and self.merge_mode != "COMMIT_TIME_ORDERING"

    @property
    def compares_batch(self) -> bool:
        """Say whether of rows of a batch the greatest stays: in version 6 in either merge mode."""
        return self.compares_stored or (self.ordering is not None and self.version == 6)


@dataclass(frozen=True)
class State:
    """The table as of a commit: its rows, and how far its columns have evolved."""

    rows: Rows = field(default_factory=dict)
    level: int = 0

    def at_level(self, level: int) -> Rows:
        """Return the rows with the columns of a later time, which older rows lack."""
        return {
            key: {
                TIME: row[TIME],
                **{name: _as(row.get(name), kind) for name, kind in LEVELS[level].items()},
            }
            for key, row in self.rows.items()
        }


class Model:
    """What a table is to be.

    Attributes:
        states: by the time of each commit, in order.
        saved: times of savepoints.
        lost: times of commits of which a clean may have removed files.
        cleaned_to: time of the earliest commit that a clean retained; "" if there was none.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.states: dict[str, State] = {}
        self.saved: set[str] = set()
        self.lost: set[str] = set()
        self.cleaned_to = ""

    @property
    def now(self) -> State:
        """Return the state that readers see."""
        return list(self.states.values())[-1] if self.states else State()

    @property
    def readable(self) -> dict[str, State]:
        """Return the states that time travel shows."""
        return {time: state for time, state in self.states.items() if time not in self.lost}

    def key(self, row: Row) -> Key:
        """Return where a row belongs."""
        parts = []
        for name in self.layout.partition_by:
            value = "__HIVE_DEFAULT_PARTITION__" if row[name] is None else str(row[name])
            if self.layout.url_encode:
                value = value.replace("/", "%2F")
            parts.append(f"{name}={value}" if self.layout.hive_style else value)
        if len(self.layout.record_key) == 1 and len(self.layout.partition_by) < 2:
            return "/".join(parts), str(row["id"])
        texts = {"id": str(row["id"]), "name": row["name"]}
        texts["name"] = {None: "__null__", "": "__empty__"}.get(texts["name"], texts["name"])
        return "/".join(parts), ",".join(f"{name}:{texts[name]}" for name in self.layout.record_key)

    def distinct(self, rows: list[Row], *, deletes: bool = False) -> Rows:
        """Return the row of each key that stays, by the rule of the table's version."""
        kept: Rows = {}
        for row in rows:
            held = kept.get(self.key(row))
            if held is not None and self.layout.compares_batch:
                if row["ts"] < held["ts"]:
                    continue
                if row["ts"] == held["ts"] and self.layout.version == 6:
                    continue
            kept[self.key(row)] = row
        return {key: row for key, row in kept.items() if deletes or not row["_hoodie_is_deleted"]}

    def after(self, verb: str, rows: list[Row], level: int, partitions: list[str]) -> State:
        """Return what a write makes of the table.

        Args:
            verb: of the write.
            rows: that it is given; for `delete` those of the keys.
            level: of the columns from then on.
            partitions: that `delete_partition` is given.
        """
        now = dict(self.now.rows)
        if verb == "delete":
            for row in rows:
                now.pop(self.key(row), None)
            return State(now, level)
        kept = self.distinct(rows, deletes=verb == "upsert")
        if verb == "insert_overwrite_table":
            now = {}
        elif verb == "insert_overwrite":
            partitions = [key[0] for key in kept]
        now = {key: row for key, row in now.items() if key[0] not in partitions}
        for key, row in kept.items():
            held = now.get(key)
            if held is not None and self.layout.compares_stored and row["ts"] < held["ts"]:
                continue
            if row["_hoodie_is_deleted"]:
                now.pop(key, None)
            else:
                # What is not given is null, also where the row had a value.
                columns = LEVELS[level].items()
                now[key] = {TIME: "", **{name: _as(row[name], kind) for name, kind in columns}}
        return State(now, level)

    def updated(self, matches: Callable[[Row], bool], value: Any) -> State:
        """Return what an update makes of the table which sets the value of some rows."""
        level = self.now.level
        rows = {
            key: {**row, TIME: "", "value": value} if matches(row) else row
            for key, row in self.now.at_level(level).items()
        }
        return State(rows, level)

    def merged(self, given: list[Row], number: int) -> State:
        """Return what the merge of a history makes of the table.

        Args:
            given: rows, of which each key comes once; their value is set where the key is there.
            number: greater ids are inserted where it is not; those greater by five are deleted
                whose keys are not given.
        """
        level = self.now.level
        rows = dict(self.now.at_level(level))
        keys = {self.key(row): row for row in given}
        rows = {key: row for key, row in rows.items() if key in keys or row["id"] <= number + 5}
        for key, row in keys.items():
            columns = {name: _as(row[name], kind) for name, kind in LEVELS[level].items()}
            if key in rows:
                rows[key] = {**rows[key], TIME: "", "value": columns["value"]}
            elif row["id"] > number:
                rows[key] = {TIME: "", **columns}
        return State(rows, level)

    def commit(self, time: str, state: State) -> None:
        """Let a state be the one that readers see."""
        rows = {key: {**row, TIME: row[TIME] or time} for key, row in state.rows.items()}
        self.states[time] = State(rows, state.level)

    def clean(self, retain_commits: int) -> None:
        """Take as lost what a clean may remove."""
        times = list(self.states)
        if len(times) >= retain_commits:
            self.cleaned_to = max(self.cleaned_to, times[-retain_commits])
        self.lost |= {time for time in times if time < self.cleaned_to and time not in self.saved}

    def changed(self, since: str, until: str) -> Rows:
        """Return the rows as of a commit that it, and others after an earlier one, wrote."""
        state = self.states[until]
        return {
            key: row
            for key, row in state.at_level(self.now.level).items()
            if since < row[TIME] <= until
        }


def _as(value: Any, kind: pa.DataType) -> Any:
    """Return a value as one of a type, or of one that its own was widened to."""
    if pa.types.is_binary(kind) and isinstance(value, str):
        return value.encode()
    if pa.types.is_struct(kind) and value is not None:
        return {one.name: value.get(one.name) for one in kind}
    return value
