"""Paimon's lookup files as typed keys and rows, beside the same rows in the native dialect.

build none     store all rows from Arrow columns in key order, until they are on the disk
lookup         the columns at many typed keys in random order, all of them stored, in one call
lookup 10,000  the same, 10,000 keys per call
get row        a Python loop of single keys; a dict of Python values
scan           pass over all rows, in key order, as columns

Rows are the four columns of a workload with a sequence number and a row kind. In the native dialect
keys and rows are encoded as a store does it, by the same calls, without what a store is besides.

With --before, what bytes cost in the tree of files of an older commit, with its extensions built in
place, is measured as well: `sst_once.py` in processes that take turns, ours and the older ones.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from bars import Bar, Measurement, Subject, bar
from harness import (
    Run,
    add_choice,
    add_json_lines,
    add_workload,
    chosen_workloads,
    command_line,
    in_a_process,
    in_turns,
)
from measures import Measuring, Timed, Verb
from rivals import CACHE_BYTES, Contender, Handle
from workloads import WORKLOADS, Workload

import lookupstore
from lookupstore.keys.schema import KeySchema
from lookupstore.rows.schema import RowSchema
from lookupstore.sst import Reader, Writer
from lookupstore.sst.cache import BlockCache

PAIMON = "paimon, typed"
NATIVE = "native, typed"
NOW = "this commit"
BEFORE = "before"

#: Single keys in a round, and keys in a call of `lookup 10,000`.
MOST_GETS = 20_000
KEYS_PER_CALL = 10_000
#: Rows of a call of `put_many`, and so of what is encoded at a time.
ROWS_PER_CALL = 1 << 16

# ---- contenders ---------------------------------------------------------------------------------


def added(rows: int) -> dict[str, pa.Array]:
    """Return the columns that the mode `value` adds."""
    return {
        "_SEQUENCE_NUMBER": pa.array(range(rows), pa.int64()),
        "_VALUE_KIND": pa.repeat(pa.scalar(0, pa.int8()), rows),
    }


class Typed(Contender):
    """Rows in key order become one sorted file, which is asked by typed keys."""

    module = "lookupstore"

    def __init__(self) -> None:
        self._made: tuple[str, list[pa.RecordBatch]] = ("", [])

    def prepare_build(self, workload: Workload) -> None:
        _ = self.batches(workload)

    def batches(self, workload: Workload) -> list[pa.RecordBatch]:
        """Return the rows in key order."""
        name, batches = self._made
        if name != workload.name:
            table = workload.table.sort_by("id")
            for column, values in added(len(table)).items():
                table = table.append_column(column, values)
            batches = table.combine_chunks().to_batches(max_chunksize=ROWS_PER_CALL)
            self._made = workload.name, batches
        return batches

    def check(self, folder: Path, workload: Workload) -> None:
        with self.open(folder, workload) as handle:
            check_all(handle, pa.Table.from_batches(self.batches(workload)))


class PaimonHandle(Handle):
    def __init__(self, reader: Any) -> None:
        self.reader = reader
        self.get = reader.get

    def lookup(self, keys: pa.Array) -> pa.RecordBatch:
        found: pa.RecordBatch = self.reader.lookup(keys)
        return found

    def scan(self) -> Iterator[pa.RecordBatch]:
        return iter(self.reader.scan())


class Paimon(Typed):
    """A lookup file of Paimon's."""

    name = PAIMON

    def types(self, workload: Workload) -> dict[str, pa.Schema]:
        schema = self.batches(workload)[0].schema
        values = [field for field in schema if field.name not in ("id", *added(0))]
        return {"key_types": pa.schema([schema.field("id")]), "value_types": pa.schema(values)}

    def build(self, folder: Path, workload: Workload, codec: str) -> None:
        path = folder / "records.sst"
        with Writer(path, dialect="paimon", compression=codec, **self.types(workload)) as writer:
            for batch in self.batches(workload):
                writer.put_many(batch, batch)

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        cache: BlockCache[Any] = BlockCache(CACHE_BYTES)
        with Reader(folder / "records.sst", cache=cache, **self.types(workload)) as reader:
            yield PaimonHandle(reader)


class NativeHandle(Handle):
    def __init__(self, reader: Reader, keys: KeySchema, rows: RowSchema) -> None:
        self.reader = reader
        self.keys = keys
        self.rows = rows
        self.get = self.get_row

    def lookup(self, keys: pa.Array) -> pa.RecordBatch:
        return self.rows.unpack(self.reader.lookup(self.keys.encode([keys])))

    def get_row(self, key: Any) -> dict[str, Any] | None:
        encoded = self.keys.encode([pa.array([key], self.keys.schema.field(0).type)])
        row = self.reader.get(encoded[0].as_py())
        if row is None:
            return None
        found: dict[str, Any] = self.rows.unpack(pa.array([row], pa.large_binary())).to_pylist()[0]
        return found

    def scan(self) -> Iterator[pa.RecordBatch]:
        for batch in self.reader.scan():
            keys = self.keys.decode(batch.column("key"))
            rows = self.rows.unpack(batch.column("value"))
            yield pa.RecordBatch.from_arrays(
                [*keys.columns, *rows.columns], names=[*keys.schema.names, *rows.schema.names]
            )


class Native(Typed):
    """A file of the native dialect, with keys and rows as a store has them."""

    name = NATIVE

    def codecs_of(self, workload: Workload) -> tuple[KeySchema, RowSchema]:
        schema = self.batches(workload)[0].schema
        return KeySchema(pa.schema([schema.field("id").with_nullable(False)])), RowSchema(
            pa.schema([field for field in schema if field.name != "id"])
        )

    def build(self, folder: Path, workload: Workload, codec: str) -> None:
        keys, rows = self.codecs_of(workload)
        with Writer(folder / "records.sst", compression=codec) as writer:
            for batch in self.batches(workload):
                writer.put_many(keys.encode([batch.column("id")]), rows.pack(batch))

    @contextmanager
    def open(self, folder: Path, workload: Workload) -> Iterator[Handle]:
        cache: BlockCache[Any] = BlockCache(CACHE_BYTES)
        with Reader(folder / "records.sst", cache=cache) as reader:
            yield NativeHandle(reader, *self.codecs_of(workload))


# ---- verbs --------------------------------------------------------------------------------------


def check_all(handle: Handle, expected: pa.Table) -> None:
    """Compare all rows that are scanned with those that are there."""
    found = pa.Table.from_batches(handle.scan())
    assert found.cast(expected.schema).equals(expected)


def check_answer(handle: Handle, keys: pa.Array, expected: pa.Table) -> None:
    """Compare the rows at typed keys with those that are there, in the columns of the workload."""
    found = handle.lookup(keys)
    assert found.schema.names == [*expected.column_names, *added(0)]
    assert pa.table(found).select(expected.column_names).cast(expected.schema).equals(expected)


def calls(handle: Handle, workload: Workload, size: int) -> Timed:
    """Check and return calls of at most `size` typed keys each."""
    ids, expected = workload.ids, workload.expected_rows
    size = min(size, len(ids))
    starts = range(0, len(ids) - size + 1, size)
    parts = [ids.slice(at, size) for at in starts]
    for at, part in zip(starts, parts, strict=True):
        check_answer(handle, part, expected.slice(at, size))
    return Timed(size * len(parts), lambda: [handle.lookup(part) for part in parts])


def gets(handle: Handle, workload: Workload) -> Timed:
    """Check and return a loop of single typed keys."""
    get, keys = handle.get, workload.ids.slice(0, MOST_GETS).to_pylist()
    rows = workload.expected_rows.slice(0, MOST_GETS)
    for key, row in zip(keys[:1000], rows.slice(0, 1000).to_pylist(), strict=True):
        found = get(key)
        assert {name: found[name] for name in row} == row
    assert get(workload.missing_ids[0].as_py()) is None
    return Timed(len(keys), lambda: [get(key) for key in keys])


def scan(handle: Handle, workload: Workload) -> Timed:
    """Check and return a pass over all rows."""
    check_all(handle, pa.Table.from_batches(handle.scan()))
    return Timed(len(workload), lambda: deque(handle.scan(), maxlen=0))


ANSWERS: dict[str, Verb] = {
    "lookup": partial(calls, size=1 << 62),
    "lookup 10,000": partial(calls, size=KEYS_PER_CALL),
    "get row": gets,
    "scan": scan,
}
PHASES = (("build none",), tuple(ANSWERS))
TABLE = ("build none", *ANSWERS)

#: What typed files may cost, and by how much files of bytes may differ between two commits: a
#: tenth is noise of the machine.
BARS: tuple[Bar, ...] = tuple(
    one
    for verb in TABLE
    for one in bar(f"{verb}, typed / native", verb, PAIMON, NATIVE, w1=0.5, w2=0.5)
)
BYTES = tuple(
    f"bytes {dialect} {verb}"
    for dialect in ("native", "paimon")
    for verb in ("build", "lookup", "get", "scan")
)
BEFORE_BARS: tuple[Bar, ...] = tuple(
    one for verb in BYTES for one in bar(f"{verb} / before", verb, NOW, BEFORE, w1=0.9, w2=0.9)
)


def bytes_in_turns(
    before: Path, name: str, records: int, queries: int, rounds: int
) -> Iterator[Measurement]:
    """Measure what bytes cost in this commit and in another, by processes that take turns."""
    folders = {NOW: Path(lookupstore.__file__).parents[1], BEFORE: before.resolve()}

    def once(folder: Path) -> Callable[[], dict[str, Any]]:
        arguments = (name, str(records), str(queries))
        path = os.pathsep.join([str(folder), str(Path(__file__).parent)])
        return lambda: in_a_process("sst_once.py", *arguments, PYTHONPATH=path)

    runs = {who: once(folder) for who, folder in folders.items()}
    for who, found in in_turns(runs, rounds, to_and_fro=True).items():
        if any(Path(one["package"]) != folders[who] for one in found):
            raise RuntimeError(f"{folders[who]}: what was imported is not from there")
        for verb in BYTES:
            seconds = tuple(one["seconds"][verb] for one in found)
            yield Measurement(Subject(name, verb, who), seconds, found[0]["operations"][verb])


def main(given: Sequence[str] | None = None) -> None:
    """Measure typed files, and bytes beside an older commit if one is given."""
    parser = command_line(
        "make bench-paimon", __doc__, records=2_000_000, queries=500_000, rounds=5
    )
    add_workload(parser)
    add_choice(parser, "bars")
    add_json_lines(parser, "bench-paimon.jsonl")
    parser.add_argument(
        "--before", type=Path, metavar="FOLDER", help="of an older commit, with its extensions"
    )
    asked = parser.parse_args(given)
    names = chosen_workloads(asked)
    known = BARS + (BEFORE_BARS if asked.before else ())
    bars = [one for one in known if one.workload in names and asked.only in one.name]
    subjects = dict.fromkeys(subject for one in bars for subject in one.subjects)
    run = Run({name: getattr(asked, name) for name in ("records", "queries", "rounds")})
    for name in names:
        wanted = [one for one in subjects if one.workload == name and one.verb in TABLE]
        if wanted:
            workload = WORKLOADS[name](asked.records, asked.queries)
            every = {one.name: one for one in (Paimon(), Native())}
            with TemporaryDirectory(prefix="bench-paimon-") as folder:
                measuring = Measuring(workload, Path(folder), every, ANSWERS, asked.rounds)
                for one in measuring.run(PHASES, wanted):
                    run.add(one)
            del workload, measuring  # before the next one is made
        if any(Subject(name, verb, NOW) in subjects for verb in BYTES):
            sizes = (asked.records, asked.queries, asked.rounds)
            for one in bytes_in_turns(asked.before, name, *sizes):
                run.add(one)
    run.judge(bars, {})
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
