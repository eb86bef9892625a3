"""What is compared in the histories of each format."""

from __future__ import annotations

import operator
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import StaticTable

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.filters.row_filter import RowFilter
from lookupstore.hostcache.cache import Residency
from lookupstore.source.opening import open_source
from lookupstore.source.source import Source, where_rows
from lookupstore.source.table_objects import source_at
from support.changelog import check_changes
from support.histories.delta import DeltaHistory, DuckDbDeltaHistory
from support.histories.delta_log import DeltaLogHistory
from support.histories.foreign import ForeignError, ForeignReader
from support.histories.hudi_writes import HudiHistory
from support.histories.iceberg import IcebergHistory
from support.histories.iceberg_deletes import DeletesHistory
from support.histories.model import Model, model_of
from support.histories.paimon import PaimonHistory
from support.histories.paimon_engines import EngineHistory
from support.histories.paimon_types import TypesHistory
from support.hudi.oracle import other, other_scan

#: What DuckDB cannot read, by its errors.
_DUCKDB_CANNOT = (
    # Deleted keys of a column that a file lacks.
    "INTERNAL Error: Comparison on NULL values"
    # Some changes of a partition spec end its process.
    "|the process of the reader ended"
)
BUILDS: list[Literal["auto", "never", "always"]] = ["auto", "never", "always"]
#: Changes of a history.
CHANGES = 12


class Others:
    """The other readers of one history, and how often they were asked.

    Args:
        foreign: Process of pypaimon and DuckDB. None: they are not asked.
        only_snapshots: Whether nothing is compared after each change, and only snapshots are.

    Attributes:
        counts: Number of snapshots, and of comparisons with each reader.
    """

    def __init__(
        self, foreign: ForeignReader | None = None, *, only_snapshots: bool = False
    ) -> None:
        self._foreign = foreign
        self.only_snapshots = only_snapshots
        self.counts: Counter[str] = Counter()

    def snapshot(self, reader: str) -> None:
        """Count a snapshot that was read by its number, as the reader read it."""
        self.counts.update({"snapshots": 1, reader: 1})

    def duckdb(self, reader: str, path: str, snapshot: int, schema: pa.Schema) -> Model | None:
        """Return the rows of a snapshot that DuckDB reads. None: it is not asked."""
        if self._foreign is None:
            return None
        try:
            rows = self._foreign.rows(reader, path, snapshot)
        except ForeignError as error:
            if not re.search(_DUCKDB_CANNOT, str(error)):
                raise
            self.counts["refused by DuckDB"] += 1
            return None
        self.counts["DuckDB"] += 1
        return model_of(rows.select(schema.names).cast(schema))

    def pypaimon(self, folder: Path, snapshot: int) -> pa.Table | None:
        """Return the rows of a snapshot that pypaimon reads. None: it is not asked."""
        if self._foreign is None:
            return None
        self.counts["pypaimon"] += 1
        return self._foreign.rows("paimon", str(folder), snapshot)

    def append_by_duckdb(self, folder: Path, number: int) -> bool:
        """Return whether DuckDB appends the rows of the file of a number to a Delta table."""
        assert self._foreign is not None
        try:
            self._foreign.rows("insert", str(folder), number)
        except ForeignError as error:  # it writes no maps to some tables
            if "destination type MAP" not in str(error):
                raise
            return False
        self.counts["appended by DuckDB"] += 1
        return True

    def write_by_pypaimon(self, folder: Path, seed: int) -> None:
        """Write a random table into a folder."""
        assert self._foreign is not None
        self._foreign.rows("write", str(folder), seed)


def read(given: Any, version: int | None = None) -> pa.Table:
    """Return all rows that lookupstore reads of a table, or of a version of it."""

    def opened() -> Source:
        return (
            open_source(given) if version is None else source_at(given, version=version, as_of=None)
        )

    source = opened()
    rows = pa.Table.from_batches(source.batches(source.schema.names), source.schema)
    check_conditions(opened, rows, random.Random(f"{version} {rows.num_rows} {source.schema}"))
    return rows


def check_conditions(opened: Callable[[], Source], rows: pa.Table, chance: random.Random) -> None:
    """Compare the rows that a source returns for a condition with those of all rows that meet it.

    Files and row groups that statistics rule out are not read.

    Args:
        opened: Function that opens the source.
        rows: All rows of the source.
        chance: Random numbers that choose the condition.
    """
    if not rows.num_rows:
        return
    names = [field.name for field in rows.schema if not pa.types.is_nested(field.type)]
    some = [_random_expression(rows, chance.choice(names), chance) for _ in range(2)]
    expression = chance.choice([some[0], some[0] & some[1], some[0] | some[1], ~some[0]])
    condition = RowFilter(expression, tuple(names))
    found = where_rows(opened(), condition)
    read = pa.Table.from_batches(found.batches(rows.column_names), rows.schema)
    (whole,) = rows.select(names).combine_chunks().to_batches()
    expected = rows.filter(condition.kept(whole))
    texts = [sorted(map(repr, one.to_pylist())) for one in (read, expected)]
    assert texts[0] == texts[1], expression


def _random_expression(rows: pa.Table, name: str, chance: random.Random) -> pc.Expression:
    """Return a condition of a column that some of the rows may meet."""
    column, field = rows[name], pc.field(name)
    value = column[chance.randrange(rows.num_rows)]
    if not value.is_valid or chance.random() < 0.1:
        return chance.choice([field.is_null(), field.is_valid()])
    if pa.types.is_string(column.type) and chance.random() < 0.3:
        return pc.starts_with(field, value.as_py()[:1])
    if chance.random() < 0.2:
        return field.isin(pa.array([value, column[0]], column.type))
    compare = chance.choice([operator.eq, operator.ne, operator.lt, operator.le, operator.gt])
    return compare(field, value)


def check_lookups(given: Any, rows: pa.Table, chance: random.Random, residency: Residency) -> None:
    """Compare lookups of present and missing keys with the rows of a table."""
    may = [field.name for field in rows.schema if _is_key(field.type) and field.name != "id"]
    other_key = chance.choice(may or ["id"])
    key = chance.choice([["id"], ["id"], ["id", other_key], [other_key, "id"]])
    key = [*dict.fromkeys(key)]
    found = rows.to_pylist()
    where = chance.choice([None, None, _condition(chance, found, [*may, "id"])])
    asked = [tuple(row[name] for name in key) for row in found]
    missing = [
        {**row, "id": one} for row, one in zip(found, (-1, 10**6, *range(200)), strict=False)
    ]
    asked += [tuple(row[name] for name in key) for row in missing]
    asked += [tuple(-1 if name == "id" else None for name in key)]
    chance.shuffle(asked)
    names = [name for name in rows.column_names if name not in key]
    expected = {
        tuple(row[name] for name in key): tuple(row[name] for name in names)
        for row in found
        if (where is None or _meets(row, where)) and None not in [row[name] for name in key]
    }
    table = pa.table({
        name: pa.array([one[at] for one in asked], rows.schema.field(name).type)
        for at, name in enumerate(key)
    })  # fmt: skip
    build = chance.choice(BUILDS)
    with ColumnarFiles(given, key=key, where=where, build=build, residency=residency) as files:
        answer = files.lookup(table)
        assert answer.column_names == names
        values = [*zip(*(answer[name].to_pylist() for name in names), strict=True)]
        nothing = (None,) * len(names)
        # A key of all columns leaves no values.
        wanted = [expected.get(one, nothing) for one in asked if names]
        assert values == wanted, (key, where)
        contained = files.contains(table).to_pylist()
        assert contained == [one in expected for one in asked], (key, where)


def _is_key(kind: pa.DataType) -> bool:
    return not (pa.types.is_floating(kind) or pa.types.is_nested(kind))


def _condition(chance: random.Random, rows: list[dict[str, Any]], names: list[str]) -> Any:
    """Return a condition that some of the rows may meet. None: there are no rows."""
    name = chance.choice(names)
    values = [row[name] for row in rows if row[name] is not None]
    if not values:
        return None
    return name, chance.choice(["=", "!=", "<", ">="]), chance.choice(values)


def _meets(row: Mapping[str, Any], where: tuple[str, str, Any]) -> bool:
    name, sign, value = where
    compare = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, ">=": operator.ge}[sign]
    return row[name] is not None and bool(compare(row[name], value))


def delta(folder: Path, seed: int, others: Others) -> None:
    """Check a history of a Delta table."""
    _check_delta(DeltaHistory(folder / "t", seed), folder, seed, others)


def delta_duckdb(folder: Path, seed: int, others: Others) -> None:
    """Check a history of a Delta table to which DuckDB appends."""
    history = DuckDbDeltaHistory(folder / "t", seed, others.append_by_duckdb)
    _check_delta(history, folder, seed, others)


def _check_delta(history: DeltaHistory, folder: Path, seed: int, others: Others) -> None:
    def scanned(table: deltalake.DeltaTable | None = None) -> Model:
        table = deltalake.DeltaTable(folder / "t") if table is None else table
        names = pa.schema(table.schema().to_arrow()).names
        return model_of(pa.RecordBatchReader.from_stream(table.scan()).read_all().select(names))

    make_changes(history.change, others, lambda: Follower(folder, folder / "t", scanned, seed))
    newest = deltalake.DeltaTable(folder / "t").version()
    for version in range(newest + 1):
        table = deltalake.DeltaTable(folder / "t", version=version)
        try:
            expected = scanned(table)
        except Exception as error:  # a vacuum has removed files
            assert "not found" in str(error).lower(), error  # noqa: PT017
            continue
        found = read(folder / "t", version) if version % 2 else read(table)
        assert model_of(found) == expected, version
        others.snapshot("deltalake")
        rows = others.duckdb("delta", str(folder / "t"), version, found.schema)
        assert rows in (None, expected), version


def delta_log(folder: Path, seed: int, others: Others) -> None:
    """Check a history of a Delta table with deletion vectors and column mapping."""
    history = DeltaLogHistory(folder / "t", seed)
    make_changes(
        history.change, others, lambda: Follower(folder, folder / "t", history.expected, seed)
    )
    for version, expected in history.snapshots.items():
        table = deltalake.DeltaTable(folder / "t", version=version)
        found = read(folder / "t", version) if version % 2 else read(table)
        assert model_of(found) == expected, version
        others.snapshot("model of Delta")
        rows = pa.RecordBatchReader.from_stream(table.scan()).read_all()
        assert model_of(rows.select(found.schema.names)) == expected, version
        others.counts["deltalake"] += 1
        # DuckDB finds no partitions of columns that have other names in the log.
        if history.table.mapping == "none" or not history.table.by:
            duck = others.duckdb("delta", str(folder / "t"), version, found.schema)
            assert duck in (None, expected), version


def hudi(folder: Path, seed: int, others: Others) -> None:
    """Check a history of a Hudi table."""
    history = HudiHistory(folder / "t", seed)
    make_changes(
        history.change, others, lambda: Follower(folder, folder / "t", history.expected, seed)
    )
    names = history.schema.names
    theirs = other(folder / "t")
    for time in history.snapshots:
        expected = history.expected_at(time)
        assert model_of(history.table.scan(as_of=time).select(names)) == expected, time
        rows = other_scan(theirs, time)
        found = {} if rows is None else model_of(rows.select(names))
        assert found == expected, time
        others.snapshot("hudi-rs")


def iceberg(folder: Path, seed: int, others: Others) -> None:
    """Check a history of an Iceberg table."""
    catalog = InMemoryCatalog("w", warehouse=f"file://{folder}/w")
    catalog.create_namespace("w")
    history = IcebergHistory(catalog, seed)
    given = catalog.load_table("w.t")

    def scanned() -> Model:
        return model_of(history.table.scan().to_arrow())

    make_changes(
        history.change,
        others,
        lambda: Follower(folder, given, scanned, seed, newest=lambda: history.table),
    )
    for at, snapshot in enumerate(history.table.metadata.snapshots):
        scan = history.table.scan(snapshot_id=snapshot.snapshot_id)
        found = read(history.table, snapshot.snapshot_id) if at % 2 else read(scan)
        expected = model_of(scan.to_arrow())
        assert model_of(found) == expected, snapshot.snapshot_id
        others.snapshot("pyiceberg")
        file = history.table.metadata_location.removeprefix("file://")
        rows = others.duckdb("iceberg", file, snapshot.snapshot_id, found.schema)
        assert rows in (None, expected), snapshot.snapshot_id


def iceberg_deletes(folder: Path, seed: int, others: Others) -> None:
    """Check a history of an Iceberg table that merges on read."""
    history = DeletesHistory(folder / "t", seed)
    make_changes(
        history.change, others, lambda: Follower(folder, folder / "t", history.expected, seed)
    )
    file = str(history.table.metadata_file)
    table = StaticTable.from_metadata(file)
    for number, expected in history.snapshots.items():
        found = read(folder / "t", number)
        assert model_of(found) == expected, number
        others.snapshot("model of Iceberg")
        if not history.has_keys[number]:  # pyiceberg reads none
            assert model_of(table.scan(snapshot_id=number).to_arrow()) == expected, number
            others.counts["pyiceberg"] += 1
        if not history.duckdb_may_differ[number]:
            rows = others.duckdb("iceberg", file, number, found.schema)
            assert rows in (None, expected), number


def paimon(folder: Path, seed: int, others: Others) -> None:
    """Check a history of a Paimon table."""
    _check_paimon(PaimonHistory(folder / "t", seed), folder, seed, others)


def paimon_types(folder: Path, seed: int, others: Others) -> None:
    """Check a history of a Paimon table whose columns change."""
    history = TypesHistory(folder / "t", seed)
    make_changes(
        history.change, others, lambda: Follower(folder, folder / "t", history.expected, seed)
    )
    for number, expected in history.snapshots.items():
        found = read(folder / "t", number)
        assert model_of(found) == expected, number
        others.snapshot("model of Paimon")
        if history.has_pypaimon:
            rows = others.pypaimon(folder / "t", number)
            assert rows is None or model_of(rows.select(found.schema.names)) == expected, number


def paimon_engines(folder: Path, seed: int, others: Others) -> None:
    """Check a history of a Paimon table of any engine."""
    _check_paimon(EngineHistory(folder / "t", seed), folder, seed, others)


def _check_paimon(
    history: PaimonHistory | EngineHistory, folder: Path, seed: int, others: Others
) -> None:
    """Compare rows and lookups with a model after each change."""
    chance, residency = random.Random(seed), Residency(folder / "cache", quota=64 << 20)
    keys = list(history.table.primary_keys)
    snapshots: dict[int, list[str]] = {}
    for _ in range(CHANGES):
        history.change()
        expected = history.expected()
        snapshots[history.table.snapshot] = texts_of(expected)
        if others.only_snapshots:
            continue
        assert texts_of(read(folder / "t").to_pylist()) == texts_of(expected)
        rows = [row for row in expected if None not in [row[name] for name in keys]]
        given = pa.table({
            name: pa.array([row[name] for row in rows], pa.int32() if name == "id" else pa.string())
            for name in keys
        })  # fmt: skip
        build = chance.choice(BUILDS)
        with ColumnarFiles(folder / "t", key=keys, build=build, residency=residency) as files:
            answers = map(comparable, files.lookup(given).to_pylist())
            those = [{name: row[name] for name in row if name not in keys} for row in rows]
            assert list(answers) == list(map(comparable, those))
    for number, texts in snapshots.items():
        assert texts_of(read(folder / "t", number).to_pylist()) == texts, number
        others.snapshot("model of Paimon")
        # pypaimon reads no sequence groups.
        if isinstance(history, PaimonHistory):
            found = others.pypaimon(folder / "t", number)
            assert found is None or texts_of(found.to_pylist()) == texts, number


def pypaimon(folder: Path, seed: int, others: Others) -> None:
    """Check a history of a Paimon table that pypaimon wrote."""
    others.write_by_pypaimon(folder / "w", seed)
    (table,) = (folder / "w" / "w.db").iterdir()
    names = (table / "snapshot").glob("snapshot-*")
    for number in sorted(int(one.name.removeprefix("snapshot-")) for one in names):
        rows = others.pypaimon(table, number)
        assert rows is not None
        expected = rows.to_pylist()
        if table.name == "key":  # pypaimon returns deleted rows of files that it need not merge
            expected = [row for row in expected if row["change"] != "-D"]
        assert texts_of(read(table, number).to_pylist()) == texts_of(expected), number
        others.counts["snapshots"] += 1


def make_changes(
    change: Callable[[], str], others: Others, follower: Callable[[], Follower]
) -> None:
    """Make the changes of a history, and compare all readers after each, if that is wanted."""
    if not others.only_snapshots:
        follower().check(change)
        return
    for _ in range(CHANGES):
        change()


def texts_of(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return rows as texts, in an order of their own."""
    return sorted(map(comparable, rows))


def comparable(row: Mapping[str, Any]) -> str:
    """Return a row as a text, with maps as lists of pairs, as Arrow has them."""
    pairs = {
        name: list(value.items()) if isinstance(value, dict) else value
        for name, value in row.items()
    }
    return str(sorted(pairs.items()))


class Follower:
    """A store that follows a table, and lookups in its files, beside another reader.

    Args:
        folder: Folder for the store and lookup files.
        given: Table that the store follows.
        scanned: Function that returns the rows of the newest snapshot by the other reader.
        seed: Seed of the choices.
        newest: Function that returns the table at its newest snapshot. None: `given` is it.
    """

    def __init__(
        self,
        folder: Path,
        given: Any,
        scanned: Callable[[], Model],
        seed: int,
        *,
        newest: Callable[[], Any] | None = None,
    ) -> None:
        self.chance = random.Random(seed)
        self.residency = Residency(folder / "cache", quota=64 << 20)
        self.scanned = scanned
        self.newest = newest or (lambda: given)
        buckets = self.chance.choice([1, 3])
        #: Condition of the rows of the store.
        self.where = self.chance.choice([None, None, ("id", "<", self.chance.choice([5, 25]))])
        self.store = lookupstore.follow(
            given, folder / "s", key="id", buckets=buckets, where=self.where
        )

    def check(self, change: Callable[[], str]) -> None:
        """Make changes, and compare all readers after each."""
        before = model_of(self.store.scan().read_all())
        for _ in range(CHANGES):
            done = [change() for _ in range(self.chance.choice([1, 1, 2]))]
            expected = self.scanned()
            found = read(self.newest())
            assert model_of(found) == expected, done
            check_lookups(self.newest(), found, self.chance, self.residency)
            newer = self.store.sync()
            after = model_of(newer.scan().read_all())
            if self.where is not None:
                expected = {one: row for one, row in expected.items() if one < self.where[2]}
            assert after == expected, (done, self.where)
            if newer.value_schema == self.store.value_schema:
                check_changes(newer.changes(self.store.version), before, after)
            newer.verify()
            self.store, before = newer, after


FORMATS: dict[str, Callable[[Path, int, Others], None]] = {
    "delta": delta,
    "delta-duckdb": delta_duckdb,
    "delta-log": delta_log,
    "hudi": hudi,
    "iceberg": iceberg,
    "iceberg-deletes": iceberg_deletes,
    "paimon": paimon,
    "paimon-engines": paimon_engines,
    "paimon-types": paimon_types,
    "pypaimon": pypaimon,
}
#: Formats whose tables the process of another environment writes.
FOREIGN = {"delta-duckdb", "pypaimon"}
