"""Small questions to a store, as programs ask them every day: one key, or a few of them in a call.

get          a Python loop of single keys, all stored, in random order: a row of Python values
get column   the same, one column of three
get nested   single keys of rows with a list and a struct; and `nested number`, one flat column
in           a Python loop: is this key there?
call of N    `lookup` of N keys in an Arrow array, calls a second; of the stages, what each takes
list of N    the same keys as a list of Python's
lookup of N  a large call, keys a second; and `contains of N`, which are there
typed        `lookup` of many keys in a call, of stores of the same rows under keys of other types

Rows are an int64 key, an int64, a double and a text; nested ones a number, a list of up to five
texts, and a struct of a text and two doubles. Ours are the lines of the README:
`lookupstore.build(...)`, `store.get`, `in` and `store.lookup`. README.md says how to read it.
"""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from bars import OURS, Bar, Measurement, Subject
from harness import Run, add_choice, add_json_lines, clocked, command_line, in_turns
from report import aligned

import lookupstore
from lookupstore.keys.arguments import encode_keys
from lookupstore.sst import Reader

#: Of rows, as a workload is called in results.
ROWS = "W1"
SIZES = (1, 10, 100, 1000)
#: Keys of large calls; the last ones are all keys that `--queries` gives, which a run may lower.
LARGE = (10_000, 100_000, 1_000_000)
BUCKETS = (1, 8, 64)
#: What keys are called that those of other types are compared with.
INT64, TEXT = "int64 key", "text key"
SQLITE = "sqlite in memory"
SQLITE_FILE = "sqlite, mapped file"
READER = "Reader.get"
PICKLED, JSON = "lmdb with pickle", "sqlite with JSON"
#: Most rows with lists and structs, which take rivals long to write.
MOST_NESTED = 200_000
#: What fills a round of calls, in keys, and in calls at most.
KEYS_A_ROUND, CALLS_A_ROUND = 20_000, 500
QUERY = "SELECT a, b, c FROM records WHERE id = ?"


def buckets_name(buckets: int) -> str:
    """Return what a store of some buckets is called."""
    return OURS if buckets == 1 else f"{OURS}, {buckets} buckets"


def _bars() -> tuple[Bar, ...]:
    bars = [
        Bar("get / sqlite in memory", ROWS, "get", OURS, 2, SQLITE),
        Bar("get / sqlite, mapped file", ROWS, "get", OURS, 2, SQLITE_FILE),
        Bar("in / Reader.get", ROWS, "in", OURS, 1, READER),
        Bar("get nested / lmdb with pickle", ROWS, "get nested", OURS, 1, PICKLED),
        Bar("get nested / sqlite with JSON", ROWS, "get nested", OURS, 1, JSON),
    ]
    for size in SIZES[:3]:
        most = 12e-6 + 0.1e-6 * size
        bars.append(Bar(f"call of {size}: rate", ROWS, f"call of {size}", OURS, 1 / most))
        bars.append(Bar(f"list of {size}: rate", ROWS, f"list of {size}", OURS, 1 / (3 * most)))
    for size in SIZES:
        for buckets in BUCKETS[1:]:
            name = buckets_name(buckets)
            verb = f"call of {size}"
            bars.append(Bar(f"{verb}, {buckets} / 1 bucket", ROWS, verb, name, 1 / 1.3, OURS))
    for size in LARGE:
        least = 0.85 if size == LARGE[-1] else 1 / 1.3
        for verb in (f"lookup of {size}", f"contains of {size}"):
            for buckets in BUCKETS[1:]:
                name = f"{verb}, {buckets} / 1 bucket"
                bars.append(Bar(name, ROWS, verb, buckets_name(buckets), least, OURS))
    for name in (INT64, *typed_keys(0)):
        if name != TEXT:
            bars.append(Bar(f"typed: {name} / {TEXT}", ROWS, "typed", name, 0.5, TEXT))
    return tuple(bars)


def typed_keys(records: int) -> dict[str, Callable[[], dict[str, pa.Array]]]:
    """Return what makes the key columns of so many rows, by what such keys are called.

    Texts are of 24 to 26 bytes and share prefixes, as those of the second workload of the core.
    """
    numbers = np.random.default_rng(23).permutation(3 * records // 2)[:records].astype(np.int64)
    places = ["user/eu/", "user/us/", "user/asia/", "item/eu/", "item/us/", "order/eu/"]

    def texts() -> pa.Array:
        return pa.array([f"{places[one % len(places)]}{one:016d}" for one in numbers.tolist()])

    def decimals() -> pa.Array:
        return pa.array(numbers).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))

    return {
        TEXT: lambda: {"key": texts()},
        "text and int64 key": lambda: {
            "place": pa.array(places).take(pa.array(numbers % len(places))),
            "number": pa.array(numbers),
        },
        "decimal128 key": lambda: {"key": decimals()},
        "timestamp key": lambda: {"key": pa.array(numbers * 1_000_003).cast(pa.timestamp("us"))},
        "date key": lambda: {"key": pa.array(numbers.astype(np.int32)).cast(pa.date32())},
    }


BARS = _bars()


def table_of(records: int) -> pa.Table:
    """Return rows under random keys, half of all keys up to twice as many."""
    rng = np.random.default_rng(21)
    ids = rng.permutation(2 * records)[:records].astype(np.int64)
    texts = pa.array([f"name {i}" for i in range(1000)])
    return pa.table(
        {
            "id": ids,
            "a": rng.integers(0, 1 << 40, records),
            "b": rng.random(records),
            "c": texts.take(pa.array(np.arange(records) % 1000)),
        }
    )


def nested_table_of(records: int) -> pa.Table:
    """Return rows under keys from 0 on, with a list and a struct in each."""
    rng = np.random.default_rng(26)
    sizes = rng.integers(0, 6, records)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    tags = pa.array([f"tag {i}" for i in range(100)])
    cities = pa.array([f"city {i}" for i in range(1000)])
    columns = [
        cities.take(pa.array(rng.integers(0, 1000, records))),
        pa.array(rng.random(records)),
        pa.array(rng.random(records)),
    ]
    return pa.table(
        {
            "id": np.arange(records),
            "number": rng.integers(0, 1 << 40, records),
            "tags": pa.ListArray.from_arrays(
                offsets, tags.take(pa.array(rng.integers(0, 100, int(sizes.sum()))))
            ),
            "place": pa.StructArray.from_arrays(columns, ["city", "x", "y"]),
        }
    )


def loop(one: Callable[[Any], object], keys: Sequence[Any]) -> Callable[[], float]:
    """Return a round of single keys."""

    def run() -> None:
        for key in keys:
            one(key)

    return clocked(run, run)  # nobody pays for what others threw out of the processor's caches


def asked_in(store: Any, keys: Sequence[Any]) -> Callable[[], float]:
    """Return a round of `in`."""

    def run() -> None:
        for key in keys:
            key in store  # noqa: B015

    return clocked(run, run)


class Rounds:
    """Rounds of every contender at every verb.

    Args:
        table: the rows.
        queries: single keys in a round.
        folder: for files.
        stack: closes what is open.
    """

    def __init__(self, table: pa.Table, queries: int, folder: Path, stack: ExitStack) -> None:
        self.table, self.folder, self.stack = table, folder, stack
        places = np.random.default_rng(22).integers(0, len(table), queries)
        self.rows = table.take(pa.array(places)).to_pylist()
        self.keys = [row["id"] for row in self.rows]
        self.nested_rows = nested_table_of(min(len(table), MOST_NESTED))
        self.nested_keys = [key % len(self.nested_rows) for key in self.keys]
        self.runs: dict[tuple[str, str], tuple[Callable[[], float], int]] = {}
        self.stores = {
            buckets: stack.enter_context(
                lookupstore.build(table, folder / f"store-{buckets}", key="id", buckets=buckets)
            )
            for buckets in BUCKETS
        }

    def add(self, verb: str, name: str, run: Callable[[], float], operations: int) -> None:
        """Take note of a round."""
        self.runs[verb, name] = run, operations

    def single(self, verb: str, name: str, one: Callable[[Any], Any], keys: Any = None) -> None:
        """Take note of a loop of single keys."""
        keys = self.keys if keys is None else keys
        self.add(verb, name, loop(one, keys), len(keys))

    def ours(self) -> None:
        """Check and add what stores do."""
        for buckets, store in self.stores.items():
            name = buckets_name(buckets)
            for row in self.rows[:1000]:
                values = {column: row[column] for column in "abc"}
                assert store.get(row["id"]) == values
                assert row["id"] in store
            assert store.get(-1) is None
            assert -1 not in store
            self.single("get", name, store.get)
            self.single("get column", name, lambda key, get=store.get: get(key, columns=["a"]))
            self.add("in", name, asked_in(store, self.keys), len(self.keys))
            for size in SIZES:
                count = max(1, min(CALLS_A_ROUND, KEYS_A_ROUND // size, len(self.keys) // size))
                parts = [self.keys[i * size :][:size] for i in range(count)]
                arrays = [pa.array(part) for part in parts]
                assert store.lookup(arrays[0])["a"].to_pylist() == [
                    row["a"] for row in self.rows[: len(parts[0])]
                ]
                assert store.lookup(parts[0]).equals(store.lookup(arrays[0]))
                self.add(f"call of {size}", name, loop(store.lookup, arrays), count)
                self.add(f"list of {size}", name, loop(store.lookup, parts), count)

    def nested(self, name: str, get: Callable[[int], Any]) -> None:
        """Check and add a contender that gives dicts of rows with a list and a struct."""
        places = pa.array(self.nested_keys[:1000])
        rows = self.nested_rows.drop_columns("id").take(places).to_pylist()
        assert [get(key) for key in self.nested_keys[:1000]] == rows
        self.single("get nested", name, get, self.nested_keys)

    def nested_ours(self) -> None:
        """Add a store of rows with a list and a struct, and one of its columns that is flat."""
        store = self.stack.enter_context(
            lookupstore.build(self.nested_rows, self.folder / "nested", key="id", buckets=1)
        )
        self.nested(OURS, store.get)
        self.single(
            "nested number", OURS, lambda key: store.get(key, None, ["number"]), self.nested_keys
        )

    def nested_sqlite(self) -> None:
        """Add SQLite in memory, with lists and structs as JSON."""
        connection = self.stack.enter_context(closing(sqlite3.connect(":memory:")))
        connection.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, number, tags, place)")
        rows = (
            (row["id"], row["number"], json.dumps(row["tags"]), json.dumps(row["place"]))
            for row in self.nested_rows.to_pylist()
        )
        connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
        execute = connection.execute

        def get(key: int) -> dict[str, Any]:
            asked = "SELECT number, tags, place FROM records WHERE id = ?"
            number, tags, place = execute(asked, (key,)).fetchone()
            return {"number": number, "tags": json.loads(tags), "place": json.loads(place)}

        self.nested(JSON, get)

    def nested_lmdb(self) -> None:
        """Add LMDB, with rows as pickle writes them."""
        import lmdb

        environment = self.stack.enter_context(
            lmdb.open(str(self.folder / "lmdb-nested"), map_size=4 << 30)
        )
        keys = self.nested_rows["id"].to_pylist()
        rows = self.nested_rows.drop_columns("id").to_pylist()
        with environment.begin(write=True) as transaction:
            pairs = (
                (key.to_bytes(8, "big"), pickle.dumps(row, pickle.HIGHEST_PROTOCOL))
                for key, row in zip(keys, rows, strict=True)
            )
            transaction.cursor().putmulti(pairs, append=True)
        find, loads = self.stack.enter_context(environment.begin()).get, pickle.loads
        self.nested(PICKLED, lambda key: loads(find(key.to_bytes(8, "big"))))

    def large(self, queries: int) -> None:
        """Check and add large calls: Arrow in and out, and which keys there are."""
        ids = self.table["id"].to_numpy()
        places = np.random.default_rng(24).integers(0, len(ids), min(queries, LARGE[-1]))
        for size in LARGE:
            some = places[:size]
            keys = pa.array(ids[some])
            right = self.table["a"].take(pa.array(some)).combine_chunks()
            for buckets, store in self.stores.items():
                name = buckets_name(buckets)
                assert store.lookup(keys)["a"].combine_chunks().equals(right)
                assert store.contains(keys).true_count == len(some)
                for verb, ask in (("lookup", store.lookup), ("contains", store.contains)):
                    run = partial(ask, keys)
                    self.add(f"{verb} of {size}", name, clocked(run, run), len(some))

    def typed(self, queries: int) -> None:
        """Check and add stores of the same values under keys of other types."""
        values = self.table.select(["a", "b", "c"])
        places = np.random.default_rng(25).integers(0, len(values), min(queries, LARGE[-1]))
        wanted = values["a"].take(pa.array(places)).combine_chunks()
        made = typed_keys(len(values))
        for name, make in {INT64: lambda: {"id": self.table["id"]}, **made}.items():
            keys = make()
            table = pa.table({**keys, **dict(zip("abc", values.columns, strict=True))})
            folder = self.folder / name.replace(" ", "-")
            store = self.stack.enter_context(
                lookupstore.build(table, folder, key=list(keys), buckets=1)
            )
            asked: Any = table.select(list(keys)).take(pa.array(places)).combine_chunks()
            if len(keys) == 1:
                asked = asked.column(0).combine_chunks()
            assert store.lookup(asked)["a"].combine_chunks().equals(wanted)
            run = partial(store.lookup, asked)
            self.add("typed", name, clocked(run, run), len(places))

    def reader(self) -> None:
        """Add the sorted file of the store of one bucket, asked for encoded keys."""
        (path,) = (self.folder / "store-1").glob("**/*.sst")
        reader = self.stack.enter_context(Reader(path))
        encode = self.stores[1].key_schema.encode_one
        keys = [encode(key) for key in self.keys]
        assert all(reader.get(key) is not None for key in keys[:100])
        self.single("in", READER, reader.get, keys)

    def sqlite(self, name: str, path: str) -> None:
        """Add SQLite, with the same columns out."""
        connection = self.stack.enter_context(closing(sqlite3.connect(path)))
        connection.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, a, b, c)")
        rows = zip(*(column.to_pylist() for column in self.table.columns), strict=True)
        connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
        connection.commit()
        if path != ":memory:":  # it is complete: no locks are needed
            connection = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
            self.stack.enter_context(closing(connection))
            connection.execute("PRAGMA mmap_size = 4000000000")
        execute = connection.execute
        self.single("get", name, lambda key: execute(QUERY, (key,)).fetchone())
        exists = "SELECT 1 FROM records WHERE id = ?"
        self.single("in", name, lambda key: execute(exists, (key,)).fetchone())

    def python(self) -> None:
        """Add a dict of dicts."""
        rows = self.table.select(["a", "b", "c"]).to_pylist()
        held = dict(zip(self.table["id"].to_pylist(), rows, strict=True))
        self.single("get", "dict", held.get)
        self.add("in", "dict", asked_in(held, self.keys), len(self.keys))

    def lmdb(self) -> None:
        """Add LMDB, which gives bytes."""
        import lmdb

        environment = self.stack.enter_context(
            lmdb.open(str(self.folder / "lmdb"), map_size=16 << 30)
        )
        ids = np.sort(self.table["id"].to_numpy())
        with environment.begin(write=True) as transaction:
            pairs = ((int(one).to_bytes(8, "big"), bytes(24)) for one in ids)
            transaction.cursor().putmulti(pairs, append=True)
        transaction = self.stack.enter_context(environment.begin())
        keys = [key.to_bytes(8, "big") for key in self.keys]
        assert transaction.get(keys[0]) is not None
        self.single("in", "lmdb", transaction.get, keys)

    def pandas(self) -> None:
        """Add a DataFrame's `.loc`, of fewer keys: it is slow."""
        frame = self.table.to_pandas().set_index("id")
        few = self.keys[: max(1, len(self.keys) // 20)]
        assert frame.loc[few[0]]["a"] == self.rows[0]["a"]
        self.single("get", "pandas", lambda key: frame.loc[key].to_dict(), few)

    def duckdb(self) -> None:
        """Add DuckDB with an index, of fewer keys: it is slow."""
        import duckdb

        connection = self.stack.enter_context(duckdb.connect())
        connection.register("given", self.table)
        connection.execute("CREATE TABLE records AS SELECT * FROM given")
        connection.execute("CREATE UNIQUE INDEX by_id ON records (id)")
        few = self.keys[: max(1, len(self.keys) // 100)]
        execute = connection.execute
        assert execute(QUERY, (few[0],)).fetchone() is not None
        self.single("get", "duckdb", lambda key: execute(QUERY, (key,)).fetchone(), few)


def stages(store: Any, keys: list[int]) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Yield what a `get` and a call of 100 keys consist of: the whole, the stage, what runs it."""
    key, array = keys[0], pa.array(keys[:100])
    schema, rows = store.key_schema, store._manifest.row_schema
    names = store.value_schema.names
    reader = store._files.in_place[0]
    encoded = schema.encode_one(key)
    row = reader.get(encoded)
    decoder = rows.decoder(names)
    many = encode_keys(array, schema)
    batch = store._buckets.lookup_few(many, rows.small_plan(names)).batch()
    yield "get", "all", lambda: store.get(key)
    yield "get", "key to bytes", lambda: schema.encoder.encode(key)
    yield "get", "find the row (Reader.get)", lambda: reader.get(encoded)
    yield "get", "row to a dict", lambda: decoder.decode(row)
    yield "call of 100", "all", lambda: store.lookup(array)
    yield "call of 100", "keys to bytes", lambda: encode_keys(array, schema)
    yield "call of 100", "find the rows (contains)", lambda: store._buckets.contains(many)
    yield (
        "call of 100",
        "find and read the rows",
        lambda: store._buckets.lookup_few(many, store._plan(None)).batch(),
    )
    yield "call of 100", "batch to table", lambda: pa.Table.from_batches([batch])


def print_stages(store: Any, keys: list[int], rounds: int, repeats: int) -> None:
    """Print the microseconds of each stage."""
    runs = {}
    for whole, stage, run in stages(store, keys):

        def repeated(run: Callable[[], object] = run) -> None:
            for _ in range(repeats):
                run()

        runs[whole, stage] = clocked(repeated)
    lines: list[Sequence[str]] = [("", "stage", "us")]
    for (whole, stage), found in in_turns(runs, rounds).items():
        median = sorted(found)[len(found) // 2] / repeats * 1e6
        lines.append((whole, stage, f"{median:.2f}"))
    print(f"\n{aligned(lines, left=(0, 1))}")


def main(given: Sequence[str] | None = None) -> None:
    """Measure single keys and small calls beside rivals, and print how they meet the bars."""
    parser = command_line(
        "make bench-everyday", __doc__, records=2_000_000, queries=20_000, rounds=7
    )
    parser.add_argument(
        "--large", type=int, default=LARGE[-1], help="keys that the largest calls ask for"
    )
    add_choice(parser, "verbs")
    add_json_lines(parser, "bench-everyday.jsonl")
    asked = parser.parse_args(given)
    run = Run({name: getattr(asked, name) for name in ("records", "queries", "rounds")})
    table = table_of(asked.records)
    absent: dict[Subject, str] = {}
    with TemporaryDirectory(prefix="bench-everyday-") as path, ExitStack() as stack:
        rounds = Rounds(table, asked.queries, Path(path), stack)
        rounds.ours()
        rounds.large(asked.large)
        rounds.typed(asked.large)
        rounds.reader()
        rounds.sqlite(SQLITE, ":memory:")
        rounds.sqlite(SQLITE_FILE, str(Path(path, "table.sqlite")))
        rounds.python()
        rounds.nested_ours()
        rounds.nested_sqlite()
        try:
            rounds.nested_lmdb()
        except ImportError as error:
            absent[Subject(ROWS, "get nested", PICKLED)] = f"{error.name}: not installed"
        for rival in (rounds.lmdb, rounds.pandas, rounds.duckdb):
            try:
                rival()
            except ImportError as error:
                print(f"{error.name}: not installed")
        wanted = {key: one for key, one in rounds.runs.items() if asked.only in key[0]}
        timed = {key: one[0] for key, one in wanted.items()}
        for key, found in in_turns(timed, asked.rounds, uncounted=1, to_and_fro=True).items():
            run.add(Measurement(Subject(ROWS, *key), found, wanted[key][1]))
        run.judge([one for one in BARS if asked.only in one.verb], absent)
        print_stages(rounds.stores[1], rounds.keys, asked.rounds, min(2000, asked.queries))
    run.end(asked.json_lines)


if __name__ == "__main__":
    main()
