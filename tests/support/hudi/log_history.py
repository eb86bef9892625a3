"""Random histories of a merge-on-read table of one file group, beside Hudi's rules."""

from __future__ import annotations

import random
from pathlib import Path

from support.hudi.log_tables import (
    AVRO,
    HFILE,
    PARQUET,
    SCHEMA,
    Change,
    LogTable,
    Row,
    merged,
)

from lookupstore.hudi.timeline.commit import WriteStat


def row(key: int, ts: int | None, value: str | None = "a") -> Row:
    return {"id": key, "ts": ts, "value": value}


def by_key(*rows: Row) -> dict[str, Row]:
    return {str(one["id"]): one for one in rows}


class LogHistory:
    """A random history of a table of one file group, and what its rows must be."""

    def __init__(self, path: Path, rng: random.Random, version: int, mode: str) -> None:
        self.rng, self.mode = rng, mode
        self.table = LogTable(path, version, mode)
        self.file_id = "a-0"
        self.base: dict[str, Row] = {}
        self.changes: list[list[Change]] = []
        self.number = 1
        # In version 6, ordering values grow where versions of Hudi differ.
        self.grows = version == 6
        self.ts = 100

    def next_ts(self) -> int:
        if self.grows:
            self.ts += self.rng.randrange(2)
            return self.ts
        return self.rng.randrange(90, 110)

    def random_row(self) -> Row:
        value = self.rng.choice(["x", "", None, "ü" * 3])
        return row(self.rng.randrange(12), self.next_ts(), value)

    def rows(self) -> dict[str, Row]:
        return merged(self.base, [one for some in self.changes for one in some], self.mode)

    def insert(self) -> None:
        """Begin the file group with a base file."""
        rows = by_key(*(self.random_row() for _ in range(self.rng.randrange(8))))
        self.table.base(self.file_id, list(rows.values()))
        self.base = rows

    def content(self, time: str) -> tuple[bytes, list[Change]]:
        content, changes = b"", []
        for _ in range(self.rng.randrange(1, 3)):
            if self.rng.random() < 0.3:
                deletes = []
                for key in self.rng.sample(range(12), 3):
                    ts = None if self.rng.random() < 0.5 else self.next_ts()
                    zero = self.rng.choice([("int", 0), ("null", None)])
                    deletes.append((str(key), *(zero if ts is None else ("long", ts))))
                    changes.append(Change(str(key), ts, None))
                content += self.table.deletes(time, deletes)
            else:
                rows = [self.random_row() for _ in range(self.rng.randrange(1, 6))]
                kind = self.rng.choice([AVRO, PARQUET, HFILE])
                if kind == HFILE:  # sorted, without repeated keys
                    rows = [one for _, one in sorted(by_key(*rows).items())]
                content += self.table.data(time, rows, kind)
                changes += [Change(str(one["id"]), one["ts"], one) for one in rows]
        return content, changes

    def delta(self) -> None:
        instant = self.table.begin("deltacommit")
        content, changes = self.content(instant.time)
        end = self.rng.choice(["commit", "commit", "commit", "pending", "rolled back"])
        name_time = self.table.name_time(instant.time)
        path = self.table.log(self.file_id, name_time, content, self.number)
        if end == "commit":
            self.table.finish(instant, self.stats(path), schema=SCHEMA)
            self.changes.append(changes)
        elif end == "rolled back":
            self.roll_back(instant.time)
        if self.rng.random() < 0.3:
            self.number += 1

    def stats(self, path: Path) -> list[WriteStat]:
        """Return what a commit says of a log file; some writers say nothing."""
        stat = WriteStat(file_id=self.file_id, path=path.name, partition_path="")
        return [stat] if self.rng.random() < 0.5 else []

    def roll_back(self, time: str) -> None:
        for file in (self.table.path / ".hoodie").rglob(f"{time}.deltacommit.*"):
            file.unlink()
        if self.table.version == 6:
            command = self.table.rollback_block(f"{time[:-3]}999", time)
            self.table.log(self.file_id, self.table.name_time(time), command, self.number)
        else:
            for file in self.table.path.glob(f".*{time}.log*"):
                file.unlink()

    def compact(self) -> None:
        """Write a base file; since version 8, a delta commit meanwhile is not part of it."""
        late = None
        if self.table.version != 6 and self.rng.random() < 0.5:
            late = self.table.begin("deltacommit")
        instant = self.table.begin("compaction")
        rows = self.rows()
        stat = self.table.write(instant.time, self.file_id, list(rows.values()), schema=SCHEMA)
        if self.rng.random() < 0.3:
            assert self.table.rows() == rows  # pending: its base file does not count
        self.table.finish(instant, [stat], schema=SCHEMA)
        self.base, self.changes, self.table.slice, self.number = rows, [], instant.time, 1
        if late is not None:
            content, changes = self.content(late.time)
            self.table.log(self.file_id, late.time, content)
            assert self.table.rows() == rows
            self.table.finish(late, schema=SCHEMA)
            self.changes = [changes]
