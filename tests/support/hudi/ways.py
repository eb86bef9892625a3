"""Ways to go wrong with Hudi tables: what is done, what the error says, and the remedy it names.

`test_remedies.py` goes wrong in each of these ways, reads the error, and does what it says. The two
are given the same folder, which is empty before.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click.testing
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lookupstore.cli import main
from lookupstore.errors import CommitConflictError, FormatError, LockedError
from lookupstore.hudi import HudiTable, TableLookup, WriteOptions
from lookupstore.hudi.file_group.encoding import FileFormat
from lookupstore.hudi.options import LOCK_PROVIDER
from lookupstore.hudi.properties import print_properties
from lookupstore.hudi.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    RequestedReplace,
    plan_bytes,
)
from lookupstore.hudi.timeline.timeline import CLUSTERING
from lookupstore.hudi.write.options import Duplicates
from lookupstore.hudi.write.partitioner import FileSizing

SCHEMA = pa.schema({"id": pa.int32(), "day": pa.string(), "page": pa.string()})
ROWS = pa.table({"id": [1, 2], "day": ["mo", "tu"], "page": ["/a", "/b"]})
MORE = ROWS.append_column("more", pa.array([1, 2]))
WIDE = ROWS.set_column(0, "id", pa.array([1, 2**40]))
EVOLVE = WriteOptions(evolve=True)
TWICE = pa.concat_tables([ROWS, ROWS])


class RefusedError(Exception):
    """A command of the command line that ended with an error, whose text this has."""


@dataclass(frozen=True)
class Way:
    """One way to go wrong.

    Attributes:
        what: was done.
        provoke: does it, in an empty folder.
        error_type: what is raised.
        says: part of its text that names the remedy.
        remedy: does what that says, in the same folder.
    """

    what: str
    provoke: Callable[[Path], Any]
    error_type: type[Exception]
    says: str
    remedy: Callable[[Path], Any]


def new(folder: Path, schema: Any = SCHEMA, **arguments: Any) -> HudiTable:
    """Make the table of the folder."""
    arguments = {"record_key": ["id"], "partition_by": ["day"], **arguments}
    return HudiTable.create(folder / "t", schema, **arguments)


def table(folder: Path, **arguments: Any) -> HudiTable:
    """Return the table of the folder, with rows."""
    if (folder / "t").exists():
        return HudiTable.open(folder / "t")
    made = new(folder, **arguments)
    made.insert(ROWS)
    return made


def ordered(folder: Path) -> HudiTable:
    """Return a table with an ordering column."""
    if (folder / "t").exists():
        return HudiTable.open(folder / "t")
    return new(folder, pa.schema({**dict(zip(SCHEMA.names, SCHEMA.types, strict=True)),
                                  "ts": pa.int64()}), ordering="ts")  # fmt: skip


def with_metadata_table(folder: Path) -> HudiTable:
    """Return a table that says that it has a metadata table."""
    made = table(folder)
    options = replace(made.options, metadata_partitions=("files",))
    (properties,) = (folder / "t" / ".hoodie").glob("*.properties")
    properties.write_bytes(print_properties(options.to_properties()))
    return made


def with_zookeeper(folder: Path) -> HudiTable:
    """Return a table whose properties name a lock of ZooKeeper."""
    made = table(folder)
    lock = {LOCK_PROVIDER: "ZookeeperBasedLockProvider"}
    (properties,) = (folder / "t" / ".hoodie").glob("*.properties")
    properties.write_bytes(print_properties(made.options.to_properties() | lock))
    return made


def locked(folder: Path) -> HudiTable:
    """Return a table whose lock another program made."""
    made = table(folder)
    (folder / "t" / ".hoodie" / "lock").write_bytes(b"another program")
    return made


def without_lock(folder: Path) -> HudiTable:
    """Delete the lock, as the error says."""
    (folder / "t" / ".hoodie" / "lock").unlink()
    return HudiTable.open(folder / "t")


def being_clustered(folder: Path) -> HudiTable:
    """Return a table of which another program has planned a clustering."""
    made = table(folder)
    slices = tuple(
        ClusteringSlice("", group.id.file_id, group.id.partition) for group in made.file_groups()
    )
    plan = ClusteringPlan((ClusteringGroup(slices, 1),), None)
    content = plan_bytes(RequestedReplace("CLUSTER", plan, {}, 1))
    made.view().folder.request(CLUSTERING, content)
    return made


def not_clustered_any_more(folder: Path) -> HudiTable:
    """Roll the clustering back, as the error says."""
    made = table(folder)
    made.rollback(next(one.time for one in made.timeline() if not one.is_completed))
    return made


def same_key_twice(folder: Path) -> HudiTable:
    """Return a table in which two partitions have a key."""
    made = table(folder)
    made.upsert(pa.table({"id": pa.array([1], pa.int32()), "day": ["tu"], "page": ["/c"]}))
    return made


def elsewhere(folder: Path, duplicates: Duplicates) -> Any:
    """Insert a key that another partition has."""
    rows = pa.table({"id": pa.array([1], pa.int32()), "day": ["tu"], "page": ["/c"]})
    options = WriteOptions(index="global-bloom", duplicates=duplicates)
    return table(folder).insert(rows, options=options)


def saved(folder: Path) -> HudiTable:
    """Return a table whose last commit a savepoint keeps."""
    made = table(folder)
    if not made.savepoints():
        made.savepoint()
    return made


def delete_and_roll_back(folder: Path) -> None:
    """Delete the savepoint, then roll back its commit."""
    made = table(folder)
    (kept,) = made.savepoints()
    made.delete_savepoint(kept)
    made.rollback(kept)


def saved_twice(folder: Path) -> HudiTable:
    """Return a table of two commits, both of which savepoints keep."""
    made = saved(folder)
    if len(made.savepoints()) < 2:
        made.upsert(ROWS)
        made.savepoint()
    return made


def first_saved(folder: Path) -> str:
    """Return the time of the first savepoint."""
    return min(saved_twice(folder).savepoints())


def delete_and_restore(folder: Path) -> None:
    """Delete the later savepoint, then go back to the first."""
    made = saved_twice(folder)
    first, last = sorted(made.savepoints())
    made.delete_savepoint(last)
    made.restore(first)


def first_of_two(folder: Path) -> Any:
    """Roll back a commit that another came after."""
    made = table(folder)
    made.upsert(ROWS)
    return made.rollback(made.timeline()[0].time)


def restore_first_of_two(folder: Path) -> Any:
    """Restore to a commit that another came after."""
    made = table(folder)
    made.upsert(ROWS)
    return made.restore(made.timeline()[0])


def save_and_restore_first(folder: Path) -> None:
    """Make the savepoint that was missing, then restore to it."""
    made = HudiTable.open(folder / "t")
    first = made.timeline()[0]
    made.savepoint(first)
    assert [one.action for one in made.restore(first)] == ["rollback", "restore"]


def roll_back_both(folder: Path) -> None:
    """Roll back the later commit, then the earlier one."""
    made = HudiTable.open(folder / "t")
    for instant in reversed([one for one in made.timeline() if one.is_write]):
        made.rollback(instant.time)


def file_of(folder: Path, rows: pa.Table) -> Path:
    """Return a Parquet file with rows."""
    pq.write_table(rows, folder / "rows.parquet")
    return folder / "rows.parquet"


def typed(line: str) -> str:
    """Run `lookupstore` with what was typed, and return what it prints.

    Raises:
        RefusedError: it ends with an error.
    """
    result = click.testing.CliRunner().invoke(main, shlex.split(line))
    if result.exit_code != 0:
        raise RefusedError(result.output)
    return result.output


def with_options(folder: Path, options: WriteOptions, rows: pa.Table = ROWS) -> Any:
    """Upsert rows."""
    return table(folder).upsert(rows, options=options)


def texts(rows: pa.Table, name: str) -> pa.Table:
    """Return rows with a column as strings."""
    at = rows.column_names.index(name)
    return rows.set_column(at, name, pc.cast(rows[name], pa.string()))


DATES = pa.table({"id": [1], "day": pa.array([19844], pa.date32())})
UUIDS = pa.schema({"id": pa.uuid(), "day": pa.string()}) if hasattr(pa, "uuid") else None

WAYS = [
    # ---- making a table
    Way(
        "a path given to HudiTable itself",
        lambda folder: (table(folder), HudiTable(folder / "t")),  # type: ignore[arg-type]
        TypeError,
        "call HudiTable.open(PATH) to open a table",
        lambda folder: HudiTable.open(folder / "t").scan(),
    ),
    Way(
        "create: a dict in place of the columns",
        lambda folder: new(folder, {"id": "int64"}),
        TypeError,
        "the column 'id' is str; give a list or an array, or give a pyarrow.Schema",
        lambda folder: new(folder, ROWS),
    ),
    Way(
        "create: a generator of batches in place of the columns",
        lambda folder: new(folder, (one for one in ROWS.to_batches())),
        TypeError,
        "an Arrow table, record batch, reader",
        lambda folder: new(folder, ROWS.to_reader()).insert(ROWS),
    ),
    Way(
        "create: a key column that is not there",
        lambda folder: new(folder, record_key="ID"),
        KeyError,
        "record_key: no column 'ID' in the schema; did you mean 'id'? It has 'id'",
        lambda folder: new(folder, record_key="id"),
    ),
    Way(
        "create: a partition of dates",
        lambda folder: new(folder, DATES),
        TypeError,
        "make it pa.string() in the schema, and cast its values to strings",
        lambda folder: new(folder, texts(DATES, "day").schema).insert(texts(DATES, "day")),
    ),
    Way(
        "create: a key of floating numbers",
        lambda folder: new(folder, pa.schema({"id": pa.float64(), "day": pa.string()})),
        TypeError,
        "record_key: the column 'id' is double, whose text depends on settings of Hudi; if its "
        "values are whole numbers, leave out rows without one and give integers, such as by "
        ".astype('int64'); else make it pa.string()",
        lambda folder: new(folder, pa.schema({"id": pa.string(), "day": pa.string()})).insert(
            pa.table({"id": ["1.5"], "day": ["mo"]})
        ),
    ),
    Way(
        "create: a key column twice",
        lambda folder: new(folder, record_key=["id", "id"]),
        ValueError,
        "give each column once",
        lambda folder: new(folder, record_key=["id"]),
    ),
    Way(
        "create: no key",
        lambda folder: new(folder, record_key=[]),
        ValueError,
        "give the columns that identify a row",
        lambda folder: new(folder, record_key=["id", "day"]),
    ),
    Way(
        "create: an ordering column whose values have no order",
        lambda folder: new(
            folder,
            pa.schema({"id": pa.int64(), "day": pa.string(), "many": pa.list_(pa.int8())}),
            ordering="many",
        ),
        TypeError,
        "give another column",
        lambda folder: new(folder, ordering="id"),
    ),
    Way(
        "create: EVENT_TIME_ORDERING without an ordering column",
        lambda folder: new(folder, merge_mode="EVENT_TIME_ORDERING"),
        ValueError,
        "needs an ordering column; give ordering=",
        lambda folder: new(folder, merge_mode="EVENT_TIME_ORDERING", ordering="page"),
    ),
    Way(
        "create: a version that is not written",
        lambda folder: new(folder, version=5),
        ValueError,
        "give 6, 8 or 9",
        lambda folder: [new(folder / str(one), version=one).insert(ROWS) for one in (6, 8, 9)],
    ),
    Way(
        "create: a time in nanoseconds",
        lambda folder: new(
            folder, pa.schema({"id": pa.int64(), "day": pa.string(), "at": pa.timestamp("ns")})
        ),
        TypeError,
        "give timestamp[us], without nanoseconds",
        lambda folder: new(
            folder, pa.schema({"id": pa.int64(), "day": pa.string(), "at": pa.timestamp("us")})
        ),
    ),
    Way(
        "create: a name that Avro does not take",
        lambda folder: new(folder, ROWS.append_column("a b", pa.array([1, 2]))),
        ValueError,
        "use letters, digits and '_', and do not start with a digit",
        lambda folder: new(folder, ROWS.append_column("a_b", pa.array([1, 2]))),
    ),
    Way(
        "create: two columns of one name",
        lambda folder: new(folder, pa.schema([*ROWS.schema, ROWS.schema.field("page")])),
        ValueError,
        "schema: 2 columns are called 'page'; rename them",
        lambda folder: new(folder, ROWS),
    ),
    Way(
        "create: a table that is there",
        lambda folder: (new(folder), new(folder)),
        FileExistsError,
        "give an empty or new folder",
        lambda folder: new(folder / "other"),
    ),
    Way(
        "open: a folder without a table",
        lambda folder: (new(folder), HudiTable.open(folder)),
        FileNotFoundError,
        "give the folder that has one",
        lambda folder: HudiTable.open(folder / "t"),
    ),
    # ---- clustering
    Way(
        "cluster: a column that the table does not have",
        lambda folder: table(folder).cluster("more", curve="linear"),
        KeyError,
        "the table has no column 'more'; it has 'id', 'day', 'page'",
        lambda folder: table(folder).cluster("page", curve="linear"),
    ),
    Way(
        "cluster: only rows of some pages",
        lambda folder: table(folder).cluster(
            "page", curve="linear", where=pc.field("page") == "/a"
        ),
        ValueError,
        "give a filter on '_hoodie_partition_path', 'day'",
        lambda folder: table(folder).cluster("page", curve="linear", where=pc.field("day") == "mo"),
    ),
    Way(
        "delete: rows of a clustering of another program",
        lambda folder: being_clustered(folder).delete([1]),
        CommitConflictError,
        "if its writer is dead, rollback('",
        lambda folder: not_clustered_any_more(folder).delete([1]),
    ),
    # ---- writing
    Way(
        "upsert: a column that the table does not have",
        lambda folder: table(folder).upsert(MORE),
        ValueError,
        "rows: the table has no column 'more'; to add it, pass options=WriteOptions(evolve=True)",
        lambda folder: with_options(folder, EVOLVE, MORE),
    ),
    Way(
        "upsert: the same, without the wish for one",
        lambda folder: table(folder).upsert(MORE),
        ValueError,
        "to leave it out, drop it from the rows",
        lambda folder: table(folder).upsert(MORE.drop_columns(["more"])),
    ),
    Way(
        "upsert: a key that is too large for the column",
        lambda folder: table(folder).upsert(WIDE),
        ValueError,
        "widen the column to int64 for good: pass options=WriteOptions(evolve=True)",
        lambda folder: with_options(folder, EVOLVE, WIDE),
    ),
    Way(
        "upsert: bytes into a column of strings",
        lambda folder: table(folder).upsert(ROWS.set_column(2, "page", pa.array([b"\xff", b"x"]))),
        TypeError,
        "in the table string; to widen it, pass options=WriteOptions(evolve=True)",
        lambda folder: with_options(
            folder, EVOLVE, ROWS.set_column(2, "page", pa.array([b"\xff", b"x"]))
        ),
    ),
    Way(
        "upsert: numbers into a column of strings",
        lambda folder: table(folder).upsert(ROWS.set_column(2, "page", pa.array([1, 2]))),
        TypeError,
        "rows: 'page' is int64; give string",
        lambda folder: table(folder).upsert(
            texts(ROWS.set_column(2, "page", pa.array([1, 2])), "page")
        ),
    ),
    Way(
        "upsert: rows without a column of the key",
        lambda folder: table(folder).upsert(ROWS.drop_columns(["id"])),
        ValueError,
        "rows have no column 'id', which is required; add it; the rows have ",
        lambda folder: table(folder).upsert(ROWS),
    ),
    Way(
        "upsert: a row without an ordering value",
        lambda folder: ordered(folder).upsert(ROWS.append_column("ts", pa.array([1, None]))),
        ValueError,
        "row 2: the ordering column 'ts' is null; give a value, or leave the row out",
        lambda folder: ordered(folder).upsert(ROWS.append_column("ts", pa.array([1, 0]))),
    ),
    Way(
        "upsert: a flag of deletion that is a number",
        lambda folder: table(folder).upsert(
            ROWS.append_column("_hoodie_is_deleted", pa.array([1, 0]))
        ),
        TypeError,
        "_hoodie_is_deleted is int64; give bool",
        lambda folder: table(folder).upsert(
            ROWS.append_column("_hoodie_is_deleted", pa.array([True, False]))
        ),
    ),
    Way(
        "insert: a key that is there",
        lambda folder: table(folder).insert(ROWS, options=WriteOptions(duplicates="fail")),
        ValueError,
        "to change these rows, upsert them",
        lambda folder: table(folder).upsert(ROWS),
    ),
    Way(
        "insert: some keys that are there",
        lambda folder: table(folder).insert(ROWS, options=WriteOptions(duplicates="fail")),
        ValueError,
        "to leave them out, pass options=WriteOptions(duplicates='drop')",
        lambda folder: table(folder).insert(ROWS, options=WriteOptions(duplicates="drop")),
    ),
    Way(
        "upsert: a key twice that is there",
        lambda folder: table(folder).upsert(TWICE, options=WriteOptions(combine=False)),
        ValueError,
        "pass options=WriteOptions(combine=True), or rows with each key once",
        lambda folder: table(folder).upsert(TWICE, options=WriteOptions(combine=True)),
    ),
    Way(
        "upsert: a table with a metadata table",
        lambda folder: with_metadata_table(folder).upsert(ROWS),
        FormatError,
        "to a write in options=WriteOptions(metadata='drop')",
        lambda folder: with_options(folder, WriteOptions(metadata="drop")),
    ),
    Way(
        "upsert: a table that names a lock of ZooKeeper",
        lambda folder: with_zookeeper(folder).upsert(ROWS),
        FormatError,
        "hold it yourself meanwhile, and pass lock='external', to a write in "
        "options=WriteOptions(lock='external')",
        lambda folder: with_options(folder, WriteOptions(lock="external")),
    ),
    Way(
        "clean: a table that names a lock of ZooKeeper",
        lambda folder: with_zookeeper(folder).clean(retain_commits=1),
        FormatError,
        "pass lock='external'",
        lambda folder: table(folder).clean(retain_commits=1, lock="external"),
    ),
    Way(
        "upsert: the name of an index that there is not",
        lambda folder: with_options(folder, WriteOptions(index="blom")),
        ValueError,
        "'simple', 'bloom', 'global-bloom', 'global-simple' or the name of a class",
        lambda folder: [
            with_options(folder, WriteOptions(index=one))
            for one in ("bloom", "simple", "in-memory", "global-bloom", "global-simple")
        ],
    ),
    Way(
        "insert: a key that another partition has, with an index for all of them",
        lambda folder: elsewhere(folder, "fail"),
        ValueError,
        "to leave them out, pass options=WriteOptions(duplicates='drop')",
        lambda folder: elsewhere(folder, "drop"),
    ),
    Way(
        "upsert: a compression that there is not",
        lambda folder: with_options(folder, WriteOptions(format=FileFormat(compression="lzo"))),
        ValueError,
        "give one of none, snappy, gzip, zstd, lz4",
        lambda folder: [
            with_options(folder, WriteOptions(format=FileFormat(compression=one)))
            for one in ("none", "snappy", "gzip", "zstd", "lz4")
        ],
    ),
    Way(
        "upsert: files of no bytes",
        lambda folder: with_options(folder, WriteOptions(sizing=FileSizing(max_file_size=0))),
        ValueError,
        "give at least 1",
        lambda folder: with_options(folder, WriteOptions(sizing=FileSizing(max_file_size=1))),
    ),
    Way(
        "delete: keys that are no integers",
        lambda folder: table(folder).delete([1.5]),
        ValueError,
        "keys: 'id' has 1.5 in row 1, which int32 cannot hold; give whole numbers",
        lambda folder: table(folder).delete([1]),
    ),
    Way(
        "delete: values of one column, where a key has two",
        lambda folder: table(folder, record_key=["id", "page"]).delete([1]),
        TypeError,
        "give a table with 'id', 'page'",
        lambda folder: table(folder).delete(pa.table({"id": [1], "page": ["/a"]})),
    ),
    Way(
        "delete_partition: a folder that there is not",
        lambda folder: table(folder, hive_style=True).delete_partition("mo"),
        KeyError,
        "partitions: the table has no partition 'mo'; it has 'day=mo', 'day=tu'",
        lambda folder: table(folder).delete_partition("day=mo"),
    ),
    Way(
        "delete_partition: a filter",
        lambda folder: table(folder, hive_style=True).delete_partition(where="day = 'mo'"),
        TypeError,
        "to delete the rows for which a filter is true, call delete(where=...)",
        lambda folder: table(folder).delete(where="day = 'mo'"),
    ),
    Way(
        "rollback: another program has the lock",
        lambda folder: locked(folder).rollback(wait=0),
        LockedError,
        "if that writer is gone, delete the file",
        lambda folder: without_lock(folder).upsert(ROWS),
    ),
    # ---- reading
    Way(
        "scan: a column that there is not",
        lambda folder: table(folder).scan(columns=["pages"]),
        KeyError,
        "the table has no column 'pages'; did you mean 'page'? It has '_hoodie_commit_time', ",
        lambda folder: table(folder).scan(columns="page"),
    ),
    Way(
        "scan: a filter of another type",
        lambda folder: table(folder).scan(filter=pc.field("page") > np.int64(1)),
        ValueError,
        "`schema` says names and types",
        lambda folder: table(folder).scan(filter=pc.field("page") > "1"),
    ),
    Way(
        "scan: a day that is not written as in ISO 8601",
        lambda folder: table(folder).scan(as_of="22.11.2026"),
        ValueError,
        "give the time of an instant, 17 digits: timeline() lists them",
        lambda folder: table(folder).scan(as_of=table(folder).timeline()[0].time),
    ),
    Way(
        "tag: rows with a column of the answer",
        lambda folder: table(folder).tag(ROWS.append_column("_pos", pa.array([1, 2]))),
        ValueError,
        "rows: a column is called '_pos', as one that tagging adds; leave it out, or, if it is of "
        "the key, give _hoodie_record_key and _hoodie_partition_path instead",
        lambda folder: table(folder).tag(ROWS.append_column("pos", pa.array([1, 2]))),
    ),
    Way(
        "tag: keys of floating numbers",
        lambda folder: table(folder).tag(ROWS.set_column(0, "id", pa.array([1.0, 2.0]))),
        TypeError,
        "cast it to string",
        lambda folder: table(folder).tag(texts(ROWS, "id")),
    ),
    Way(
        "tag: a key that two partitions have, in all of them",
        lambda folder: same_key_twice(folder).tag([1], index="global-bloom"),
        FormatError,
        "pass index='bloom', and the partition's columns",
        lambda folder: table(folder).tag(ROWS, index="bloom"),
    ),
    Way(
        "TableLookup: a key that is not the table's",
        lambda folder: (table(folder), TableLookup(folder / "t", key="page")),
        KeyError,
        "give these columns, or these and the partition columns ['day']",
        lambda folder: [
            TableLookup(folder / "t", key=one).lookup(keys, "page")
            for one, keys in (("id", [1]), (["id", "day"], {"id": [1], "day": ["mo"]}))
        ],
    ),
    Way(
        "TableLookup: a key that two partitions have, without the partition",
        lambda folder: (same_key_twice(folder), TableLookup(folder / "t", key="id").lookup([1])),
        FormatError,
        "also give the partition columns 'day'",
        lambda folder: TableLookup(folder / "t").lookup({"id": [1], "day": ["mo"]}),
    ),
    Way(
        "TableLookup: found= of a column's name",
        lambda folder: (table(folder), TableLookup(folder / "t").lookup(ROWS, found="page")),
        ValueError,
        "give another name",
        lambda folder: TableLookup(folder / "t").lookup(ROWS, found="is_there"),
    ),
    # ---- services
    Way(
        "rollback: no instant's time",
        lambda folder: table(folder).rollback("20240101000000000"),
        ValueError,
        "give the time of a commit: timeline() lists them",
        lambda folder: table(folder).rollback(table(folder).timeline()[-1].time),
    ),
    Way(
        "rollback: a commit that a savepoint keeps",
        lambda folder: saved(folder).rollback(saved(folder).timeline()[0].time),
        ValueError,
        "a savepoint keeps it; delete the savepoint first",
        delete_and_roll_back,
    ),
    Way(
        "rollback: a commit that is not the last one",
        first_of_two,
        ValueError,
        "came after it, and may depend on it; roll that one back first",
        roll_back_both,
    ),
    Way(
        "savepoint: a table without commits",
        lambda folder: new(folder).savepoint(),
        ValueError,
        "there is no commit to keep; write first",
        lambda folder: (table(folder).insert(ROWS), table(folder).savepoint()),
    ),
    Way(
        "delete: neither keys nor a filter",
        lambda folder: table(folder).delete(),
        ValueError,
        "give keys, or where=FILTER for the rows for which it is true",
        lambda folder: [table(folder).delete([1]), table(folder).delete(where="id = 1")],
    ),
    Way(
        "restore: no savepoint",
        lambda folder: table(folder).restore("20240101000000000"),
        ValueError,
        "which has no savepoint; savepoints: none; to go back without one, roll back each later "
        "commit",
        lambda folder: saved(folder).restore(next(iter(saved(folder).savepoints()))),
    ),
    Way(
        "restore: a commit without a savepoint",
        restore_first_of_two,
        ValueError,
        "which has no savepoint; savepoints: none; make one with savepoint(",
        save_and_restore_first,
    ),
    Way(
        "restore: a later savepoint",
        lambda folder: saved_twice(folder).restore(first_saved(folder)),
        ValueError,
        "savepoints keep later commits, 2",
        delete_and_restore,
    ),
    Way(
        "clean: nobody says what stays",
        lambda folder: table(folder).clean(),
        ValueError,
        "give retain_commits, retain_hours or both",
        lambda folder: [
            table(folder).clean(retain_commits=1),
            table(folder).clean(retain_hours=1),
            table(folder).clean(retain_commits=1, retain_hours=1),
        ],
    ),
    # ---- the command line
    Way(
        "hudi upsert: a column that the table does not have",
        lambda folder: (
            table(folder),
            typed(f"hudi upsert {folder}/t {file_of(folder, MORE)}"),
        ),
        RefusedError,
        "to add it, give --evolve",
        lambda folder: typed(f"hudi upsert {folder}/t {folder}/rows.parquet --evolve"),
    ),
    Way(
        "hudi upsert: a table with a metadata table",
        lambda folder: (
            with_metadata_table(folder),
            typed(f"hudi upsert {folder}/t {file_of(folder, ROWS)}"),
        ),
        RefusedError,
        "give --metadata drop",
        lambda folder: typed(f"hudi upsert {folder}/t {folder}/rows.parquet --metadata drop"),
    ),
    Way(
        "hudi upsert: a table that names a lock of ZooKeeper",
        lambda folder: (
            with_zookeeper(folder),
            typed(f"hudi upsert {folder}/t {file_of(folder, ROWS)}"),
        ),
        RefusedError,
        "give --lock external",
        lambda folder: typed(f"hudi upsert {folder}/t {folder}/rows.parquet --lock external"),
    ),
    Way(
        "hudi scan: a day that is not written as in ISO 8601",
        lambda folder: (table(folder), typed(f"hudi scan {folder}/t --as-of 22.11.2026")),
        RefusedError,
        "'lookupstore hudi timeline' lists them",
        lambda folder: (
            typed(f"hudi timeline {folder}/t"),
            typed(f"hudi scan {folder}/t --as-of {table(folder).timeline()[0].time}"),
        ),
    ),
    Way(
        "hudi delete: neither keys nor a file of keys",
        lambda folder: (table(folder), typed(f"hudi delete {folder}/t")),
        RefusedError,
        "give KEY..., --keys or --where, one of them",
        lambda folder: typed(f"hudi delete {folder}/t 1"),
    ),
    Way(
        "hudi clean: nobody says what stays",
        lambda folder: (table(folder), typed(f"hudi clean {folder}/t")),
        RefusedError,
        "give --retain-commits, --retain-hours or both",
        lambda folder: typed(f"hudi clean {folder}/t --retain-commits 1"),
    ),
    Way(
        "hudi savepoint --delete: nobody says which",
        lambda folder: (saved(folder), typed(f"hudi savepoint {folder}/t --delete")),
        RefusedError,
        "--delete needs the INSTANT of the savepoint",
        lambda folder: typed(
            f"hudi savepoint {folder}/t --delete {table(folder).timeline()[0].time}"
        ),
    ),
]
if UUIDS is not None:
    WAYS += [
        Way(
            "create: a key of UUIDs",
            lambda folder: new(folder, UUIDS),
            TypeError,
            "give its storage type, fixed_size_binary[16], or strings, which can be keys",
            lambda folder: new(folder, pa.schema({"id": pa.string(), "day": pa.string()})).insert(
                pa.table({"id": ["8a1c9e0e-4c8c-4a38-93a8-6c1a1c4f3d6e"], "day": ["mo"]})
            ),
        ),
        Way(
            "create: a column of UUIDs",
            lambda folder: new(folder, SCHEMA.append(pa.field("who", pa.uuid()))),
            TypeError,
            "give its storage type, fixed_size_binary[16], or strings",
            lambda folder: new(folder, SCHEMA.append(pa.field("who", pa.binary(16)))).insert(
                ROWS.append_column(
                    "who",
                    pa.ExtensionArray.from_storage(
                        pa.uuid(), pa.array([b"0" * 16] * 2, pa.binary(16))
                    ),
                )
            ),
        ),
    ]
