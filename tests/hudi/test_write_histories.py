"""Random histories of writes: a dict, hudi-rs and we agree after each of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st
from oracle import assert_same_rows, other_incremental, other_scan
from written import check_files

from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.partitioner import FileSizing

SEED = int(os.environ.get("LOOKUPSTORE_SEED", "7"))
EXAMPLES = int(os.environ.get("LOOKUPSTORE_EXAMPLES", "25"))
COLUMNS = {
    "id": pa.int64(),
    "name": pa.string(),
    "p": pa.string(),
    "q": pa.int32(),
    "ts": pa.int64(),
    "value": pa.string(),
    "many": pa.list_(pa.field("element", pa.int32())),
}
Key = tuple[str, str]  # partition path, record key


@dataclass(frozen=True)
class Layout:
    """How a table is made."""

    version: int
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    hive_style: bool
    ordering: str | None
    url_encode: bool


LAYOUTS = st.builds(
    Layout,
    st.sampled_from([6, 8, 9]),
    st.sampled_from([("id",), ("id", "name")]),
    st.sampled_from([(), ("p",), ("p", "q")]),
    st.booleans(),
    st.sampled_from([None, "ts"]),
    st.booleans(),
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 12),
            "name": st.sampled_from(["x", "", "ü", None]),
            "p": st.sampled_from(["a", "b/c", None]),
            "q": st.integers(1, 2),
            "ts": st.integers(0, 3),
            "value": st.sampled_from(["u", "v", "w", None]),
            "many": st.sampled_from([None, [], [1], [2, None]]),
            "_hoodie_is_deleted": st.sampled_from([False, False, False, None, True]),
        }
    ),
    max_size=10,
)
VERBS = (
    "upsert", "upsert", "upsert", "insert", "bulk_insert", "delete", "delete", "insert_overwrite",
    "insert_overwrite_table", "delete_partition", "failed",
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(VERBS), ROWS, st.booleans()), min_size=1, max_size=8)


class Model:
    """The table as a dict: rows by partition and key."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rows: dict[Key, dict[str, Any]] = {}
        #: Partitions that have file groups, also ones without rows.
        self.partitions: set[str] = set()

    def key(self, row: dict[str, Any]) -> Key:
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

    def distinct(self, rows: list[dict[str, Any]]) -> dict[Key, dict[str, Any]]:
        """Return the row of each key that stays, by the rule of the table's version."""
        kept: dict[Key, dict[str, Any]] = {}
        for row in rows:
            held = kept.get(self.key(row))
            if held is not None and self.layout.ordering is not None:
                if row["ts"] < held["ts"]:
                    continue
                if row["ts"] == held["ts"] and self.layout.version == 6:
                    continue
            kept[self.key(row)] = row
        return kept

    def put(self, kept: dict[Key, dict[str, Any]]) -> None:
        for key, row in kept.items():
            held = self.rows.get(key)
            if held is not None and self.layout.ordering is not None and row["ts"] < held["ts"]:
                continue
            if row["_hoodie_is_deleted"]:
                self.rows.pop(key, None)
            else:
                self.rows[key] = {name: row[name] for name in COLUMNS}
                self.partitions.add(key[0])


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema({**COLUMNS, "_hoodie_is_deleted": pa.bool_()}))


def ids() -> Iterator[str]:
    return (f"{number:08x}-0000-0000-0000-000000000000-0" for number in count())


class History:
    """Do writes on a table and on the model."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path = path
        self.model = Model(layout)
        self.table = HudiTable.create(
            path,
            pa.schema(COLUMNS),
            record_key=layout.record_key,
            partition_by=layout.partition_by,
            ordering=layout.ordering,
            version=layout.version,
            hive_style=layout.hive_style,
            url_encode=layout.url_encode,
            name="t",
        )
        self.ids = ids()
        self.seen: dict[str, dict[Key, dict[str, Any]]] = {}

    def step(self, verb: str, rows: list[dict[str, Any]], small: bool) -> None:
        # With few bytes to a file a write has several in a partition.
        sizing = FileSizing(max_file_size=3, small_file_limit=0, record_size=1)
        options = WriteOptions(
            sizing=sizing if small else FileSizing(), new_file_id=lambda: next(self.ids)
        )
        model, table = self.model, self.table
        before = dict(model.rows)
        if verb == "failed":
            self._fail(rows, options)
            return
        if verb in ("upsert", "insert", "bulk_insert"):
            kept = model.distinct(rows)
            if verb != "upsert":
                kept = {key: row for key, row in kept.items() if not row["_hoodie_is_deleted"]}
            if verb == "insert" and any(key in model.rows for key in kept):
                with pytest.raises(ValueError, match="have keys that are in the table"):
                    table.insert(arrow(rows), options=options)
                return
            if verb == "bulk_insert":
                kept = {key: row for key, row in kept.items() if key not in model.rows}
                rows = list(kept.values())
            model.put(kept)
            result = getattr(table, verb)(arrow(rows), options=options)
        elif verb == "delete":
            for row in rows:
                model.rows.pop(model.key(row), None)
            names = [*model.layout.record_key, *model.layout.partition_by]
            result = table.delete(arrow(rows).select(names), options=options)
        elif verb == "delete_partition":
            paths = sorted(model.partitions)[:1]
            model.rows = {key: row for key, row in model.rows.items() if key[0] not in paths}
            model.partitions -= set(paths)
            result = table.delete_partition(paths, options=options)
        else:
            kept = {
                key: row
                for key, row in model.distinct(rows).items()
                if not row["_hoodie_is_deleted"]
            }
            gone = {key[0] for key in kept}
            if verb == "insert_overwrite_table":
                gone = {*model.partitions}
            model.rows = {key: row for key, row in model.rows.items() if key[0] not in gone}
            model.partitions -= gone
            model.put(kept)
            result = getattr(table, verb)(arrow(rows), options=options)
        assert result.instant is not None
        self.seen[result.instant.time] = dict(model.rows)
        if verb in ("upsert", "insert", "bulk_insert", "delete"):
            new = set(model.rows) - set(before)
            assert result.rows_inserted == len(new)
            assert result.rows_deleted == len(set(before) - set(model.rows))

    def _fail(self, rows: list[dict[str, Any]], options: WriteOptions) -> None:
        """Let a write end in the middle."""

        def broken() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pylist(rows, arrow([]).schema)
            raise RuntimeError("stopped")

        with pytest.raises(RuntimeError, match="stopped"):
            self.table.bulk_insert(broken(), options=options)

    def check(self) -> None:
        """Compare the model with what both readers see, now and at every instant."""
        table = HudiTable.open(self.path)
        ours = table.scan()
        assert_same_rows(ours, other_scan(self.path))
        assert self.as_dict(ours) == self.model.rows
        for time, rows in self.seen.items():
            scanned = table.scan(as_of=time)
            assert self.as_dict(scanned) == rows
            assert_same_rows(scanned, other_scan(self.path, time))
        positions = sorted(
            one.position for one in table.timeline() if one.is_completed and one.is_write
        )
        for since in ["20000101000000000", *positions[-3:]]:
            changed = table.incremental(since)
            assert_same_rows(changed, other_incremental(self.path, since))

    def as_dict(self, rows: pa.Table) -> dict[Key, dict[str, Any]]:
        found = {
            (row["_hoodie_partition_path"], row["_hoodie_record_key"]): {
                name: row[name] for name in COLUMNS
            }
            for row in rows.to_pylist()
        }
        assert len(found) == rows.num_rows
        return found


@seed(SEED)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=(Phase.explicit, Phase.generate) if "LOOKUPSTORE_QUICK" in os.environ else tuple(Phase),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(LAYOUTS, STEPS)
def test_histories_are_those_of_a_dict_and_of_hudi_rs(
    layout: Layout, steps: list[tuple[str, list[dict[str, Any]], bool]]
) -> None:
    note(f"LOOKUPSTORE_SEED={SEED}")
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / "t", layout)
        for step in steps:
            history.step(*step)
            history.check()
        check_files(history.path)
        assert HudiTable.open(history.path).verify().findings == ()
        assert not [
            one for one in (history.path / ".hoodie" / ".heartbeat").glob("*") if one.is_file()
        ]
