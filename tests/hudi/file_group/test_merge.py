"""Merges of one file group, against a loop over rows."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookupstore.errors import CorruptionError, FormatError, StaleStoreError
from lookupstore.hudi.file_group import merging as merge_module
from lookupstore.hudi.file_group import reader as slice_rows
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.file_group.merging import (
    Inserts,
    RowChanges,
    merge,
    row_schema,
    wins,
    write_inserts,
)
from lookupstore.hudi.file_group.reader import SliceRows
from lookupstore.hudi.file_group.writer import BaseFileWriter, NewFile
from lookupstore.hudi.keys.table_schema import TableSchema
from lookupstore.hudi.timeline.names import GroupId
from lookupstore.storage.location import Location

OLD, NEW = "20260307135657661", "20260307135700696"
COLUMNS = pa.schema(
    {"ts": pa.float64(), "value": pa.string(), "many": pa.map_(pa.string(), pa.int32())}
)
SCHEMA = TableSchema(COLUMNS, '{"type":"record","name":"r","fields":[]}')
# Small pieces, so that few rows make many of them.
PIECE = 4
FORMAT = FileFormat(row_group_bytes=300)
VALUES = st.fixed_dictionaries(
    {
        "ts": st.sampled_from([None, -1.0, 0.0, -0.0, 1.0, math.inf, math.nan]),
        "value": st.sampled_from([None, "", "u", "ü" * 20]),
        "many": st.sampled_from([None, [], [("a", 1)], [("b", None), ("c", 2)]]),
    }
)


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, COLUMNS)


def inserts(rows: list[dict[str, Any]], first: int) -> Inserts:
    return Inserts(
        pa.array([f"k{first + at}" for at in range(len(rows))], pa.string()), batch(rows)
    )


def written(folder: str, rows: list[dict[str, Any]]) -> FileSlice:
    location = Location(folder)
    with BaseFileWriter(location, NewFile("", "g-0", 3, OLD), SCHEMA, FORMAT) as into:
        write_inserts(inserts(rows, 0), into)
    return into.result()


def is_newer(incoming: float, stored: float | None) -> bool:
    if stored is None or math.isnan(incoming):
        return True
    return not math.isnan(stored) and stored <= incoming


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_merge_is_a_loop_over_rows(data: st.DataObject) -> None:
    stored = data.draw(st.lists(VALUES, max_size=14))
    changed = sorted(data.draw(st.sets(st.integers(0, len(stored) - 1)))) if stored else []
    explicit = data.draw(st.booleans())
    ordering = None if explicit else data.draw(st.sampled_from([None, "ts"]))
    incoming = [dict(data.draw(VALUES)) for _ in changed]
    for row in incoming:
        row["ts"] = 0.0 if row["ts"] is None else row["ts"]
    flags = [data.draw(st.booleans()) for _ in changed]
    flagged = data.draw(st.booleans())
    added = data.draw(st.lists(VALUES, max_size=9))

    expected, updated, deleted = [], 0, 0
    for place, row in enumerate(stored):
        line = (OLD, f"{OLD}_3_{place}", f"k{place}", row)
        if place in changed:
            at = changed.index(place)
            if explicit:
                deleted += 1
                continue
            if ordering is None or is_newer(incoming[at]["ts"], row["ts"]):
                if flagged and flags[at]:
                    deleted += 1
                    continue
                updated += 1
                line = (NEW, f"{NEW}_5_{len(expected)}", f"k{place}", incoming[at])
        expected.append(line)
    for at, row in enumerate(added):
        expected.append((NEW, f"{NEW}_5_{len(expected)}", f"k{100 + at}", row))

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(slice_rows, "BATCH_ROWS", PIECE)
        if data.draw(st.booleans()):  # texts of few values are read as dictionaries
            texts = frozenset({"value"})
            patched.setattr(slice_rows, "shared_texts", lambda file, schema: texts)
        patched.setattr(merge_module, "PIECE_ROWS", PIECE)
        current = written(folder, stored)
        changes = RowChanges(
            np.array(changed, np.int64),
            None if explicit else batch(incoming),
            np.array(flags, bool) if flagged else None,
            ordering,
        )
        location = Location(folder)
        threads = data.draw(st.booleans())
        rows = SliceRows(location, current, row_schema(COLUMNS), threads=threads)
        assert sum(rows.group_rows) == len(stored)
        with BaseFileWriter(location, NewFile("", "g-0", 5, NEW), SCHEMA, FORMAT) as into:
            counts = merge(rows, changes, inserts(added, 100), into)
        assert (counts.written, counts.inserted) == (len(expected), len(added))
        assert (counts.updated, counts.deleted) == (updated, deleted)
        result = pq.read_table(Path(folder) / into.result().name, partitioning=None).to_pylist()
    found = [
        (*[row[f"_hoodie_{name}"] for name in ("commit_time", "commit_seqno", "record_key")],
         {name: row[name] for name in COLUMNS.names})
        for row in result
    ]  # fmt: skip
    # NaN is not equal to itself, and 0.0 to -0.0.
    names = COLUMNS.names
    assert repr(found) == repr(
        [(*line[:3], {name: line[3][name] for name in names}) for line in expected]
    )
    assert {row["_hoodie_file_name"] for row in result} <= {into.file.name}


def test_texts_of_few_values_stay_in_their_dictionary(tmp_path: Path) -> None:
    stored = [{"ts": 1.0, "value": "ab"[at % 2], "many": None} for at in range(3000)]
    location = Location(tmp_path)
    with BaseFileWriter(location, NewFile("", "g-0", 3, OLD), SCHEMA, FileFormat()) as into:
        write_inserts(inserts(stored, 0), into)
    rows = SliceRows(location, into.result(), row_schema(COLUMNS), threads=False)
    assert rows.shared == {"value"}
    (batch_read,) = rows.batches(0)
    assert pa.types.is_dictionary(batch_read.schema.field("value").type)
    changes = RowChanges(np.array([5], np.int64), batch([{"ts": 2.0, "value": "new", "many": []}]))
    with BaseFileWriter(location, NewFile("", "g-0", 5, NEW), SCHEMA, FileFormat()) as into:
        merge(rows, changes, inserts([{**stored[0], "value": None}], 9000), into)
    found = pq.read_table(tmp_path / into.file.name, partitioning=None)["value"]
    assert found.type == pa.string()
    assert found.to_pylist() == ["new" if at == 5 else "ab"[at % 2] for at in range(3000)] + [None]


def test_who_wins() -> None:
    nan = math.nan
    cases = [(1.0, 1.0, True), (1.0, 2.0, False), (nan, 5.0, True), (5.0, nan, False),
             (nan, nan, True), (0.0, -0.0, True), (-0.0, 0.0, True), (1.0, None, True)]  # fmt: skip
    incoming, stored, expected = map(list, zip(*cases, strict=True))
    assert wins(pa.array(incoming), pa.array(stored)).tolist() == expected
    texts = wins(pa.array(["b", "é", "a"]), pa.array(["a", "z", None]))
    assert texts.tolist() == [True, True, True]


def test_a_slice_that_is_not_as_it_should_be(tmp_path: Path) -> None:
    location = Location(tmp_path)
    current = written(str(tmp_path), [{"ts": 1.0, "value": "v", "many": None}] * 3)
    late = RowChanges(np.array([3], np.int64), None)

    def too_late() -> None:
        with BaseFileWriter(location, NewFile("", "g-0", 5, NEW), SCHEMA, FORMAT) as into:
            rows = SliceRows(location, current, row_schema(COLUMNS), threads=False)
            merge(rows, late, inserts([], 0), into)

    with pytest.raises(CorruptionError, match="a row 3 to change, found 3 rows"):
        too_late()
    # A block that fails leaves no file, and nothing that a reader would take for one.
    assert [one.name for one in tmp_path.iterdir() if one.name != ".hoodie"] == [current.name]
    other = row_schema(pa.schema({"value": pa.int32()}))
    with pytest.raises(FormatError, match="'value' is string, which Hudi does not promote"):
        list(SliceRows(location, current, other, threads=False).batches(0))
    content = bytearray((tmp_path / current.name).read_bytes())
    content[4:300] = bytes(296)
    (tmp_path / current.name).write_bytes(content)
    with pytest.raises(CorruptionError):
        list(SliceRows(location, current, row_schema(COLUMNS), threads=True).batches(0))
    gone = FileSlice(GroupId("", "h-0"), OLD, "h-0_0-0-0_" + OLD + ".parquet", 1)
    with pytest.raises(StaleStoreError, match="deleted by a clean"):
        SliceRows(location, gone, row_schema(COLUMNS), threads=False)


def test_values_that_are_not_in_their_dictionary(tmp_path: Path) -> None:
    """Without checksums Arrow gives their places as they are stored."""
    slice = FileSlice(GroupId("", "g-0"), OLD, f"g-0_0-0-0_{OLD}.parquet", 1)
    path = tmp_path / slice.name
    values = pa.table({"value": ["aaaa", "bbbb", "cccc"] * 200})
    pq.write_table(values, path, compression="none", write_page_checksum=False)
    content = path.read_bytes()
    found = set()
    for at in range(start := content.index(b"cccc") + 4, start + 160):
        path.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
        try:
            rows = SliceRows(Location(tmp_path), slice, values.schema, threads=False)
            assert rows.shared == {"value"}
            for batch in rows.batches(0):
                batch["value"].validate(full=True)
        except CorruptionError as error:
            found.add("places of the column 'value' in its dictionary, 0 to 2" in str(error))
    assert found == {False, True}
