"""The table of ways to go wrong: each with the error that it gives, whose remedy is then run.

`pytest -rP tests/project/test_ways_to_go_wrong.py` prints the table.
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow import orc
from support.ways import Way, check_way

import lookupstore
from lookupstore.cli import main
from lookupstore.columnar import ColumnarFiles
from lookupstore.errors import ClosedError, FormatError
from lookupstore.sst import Reader, Writer

USERS = pa.table({"id": [1, 2, 3], "name": ["ada", "bob", None]})
TEXTS = pa.table({"id": ["1", "2", "3"], "name": ["ada", "bob", None]})
REPEATED = pa.table({"id": [1, 1], "at": [5, 7]})
DAYS = pa.table({"city": ["Bath", "Bath", "Bern"], "day": [1, 2, 1], "n": [10, 20, 30]})
MAPS = pa.table(
    {"id": [1, 2], "tags": pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string()))}
)
KEY = uuid.UUID("12345678-1234-5678-1234-567812345678")
IDS = pa.table({"id": pa.array([KEY.bytes], pa.uuid()), "n": [1]})
DATES = pa.table({"day": pa.array([datetime(2013, 1, 31)]).cast(pa.date32()), "n": [1]})


class RefusedError(Exception):
    """What the command line said when it refused."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that the rows are about, which is the present one, too."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(USERS, "users.parquet")
    return tmp_path


def typed(line: str) -> str:
    """Run a command line of lookupstore; raise what it says if it fails."""
    done = CliRunner().invoke(main, shlex.split(line))
    if done.exit_code:
        raise RefusedError(done.stderr)
    return done.stdout


def build(source: Any = USERS, path: str = "users", key: Any = "id", **options: Any) -> None:
    lookupstore.build(source, path, key=key, **options).close()


def users(**options: Any) -> lookupstore.LookupStore:
    return lookupstore.build(USERS, "users", key="id", overwrite=True, **options)


def days() -> lookupstore.LookupStore:
    return lookupstore.build(DAYS, "days", key=["city", "day"], overwrite=True)


def nullable() -> lookupstore.LookupStore:
    return lookupstore.build(USERS, "named", key="name", nullable_keys="name", overwrite=True)


def stored(table: pa.Table, key: str) -> lookupstore.LookupStore:
    return lookupstore.build(table, "stored", key=key, overwrite=True)


def frame_of(store: lookupstore.LookupStore) -> pd.DataFrame:
    return store.scan().read_all().to_pandas()


def upserted(changes: Callable[[lookupstore.LookupStore], Any]) -> None:
    """Upsert changes, made with the store, into a store of maps; check that they are there."""
    store = lookupstore.build(MAPS, "maps", key="id", overwrite=True)
    newer = store.upsert(changes(store))
    rows = store.scan().read_all().to_pylist() + newer.scan().read_all().to_pylist()[2:]
    assert newer.scan().read_all().to_pylist() == rows


def sorted_file(name: str = "ages.sst") -> Reader:
    with Writer(name, overwrite=True) as writer:
        writer.put_many([b"ada", b"alan"], [b"36", b"41"])
    return Reader(name)


def two_formats(folder: Path) -> None:
    orc.write_table(USERS, folder / "users.orc")
    build(folder)


def begun() -> Writer:
    writer = Writer("new.sst", overwrite=True)
    writer.put(b"b", b"1")
    return writer


def twice(**options: Any) -> Any:
    pq.write_table(REPEATED, "twice.parquet")
    return ColumnarFiles("twice.parquet", key="id", **options).lookup([1])


def closed(again: bool) -> None:
    store = users()
    store.close()
    (lookupstore.open("users") if again else store).get(1)


BUILD = [
    Way("build(key='ID')", lambda _: build(key="ID"), KeyError,
        ("key: the source has no column 'ID'", "did you mean 'id'? It has ['id', 'name']"),
        lambda _: build(key="id")),
    Way("build(key=[])", lambda _: build(key=[]), ValueError,
        ("key is empty", "name at least one column"), lambda _: build(key=["id"])),
    Way("build(columns=['nme'])", lambda _: build(columns=["nme"]), KeyError,
        ("columns: the source has no column 'nme'", "did you mean 'name'? It has ['id', 'name']"),
        lambda _: build(columns=["name"])),
    Way("build of a repeated key", lambda _: build(REPEATED), ValueError,
        ("the key id=1 occurs more than once", "on_duplicate='first', 'last' or ('max', column)"),
        lambda _: [build(REPEATED, overwrite=True, on_duplicate=rule)
                   for rule in ("first", "last", ("max", "at"))]),
    Way("build(on_duplicate='max')", lambda _: build(REPEATED, on_duplicate="max"), ValueError,
        ("on_duplicate is 'max'", "('max', column)"),
        lambda _: build(REPEATED, on_duplicate=("max", "at"))),
    Way("build of a null key", lambda _: build(key="name"), ValueError,
        ("key column 'name' is null in row 3", "nullable_keys=['name']"),
        lambda _: build(key="name", nullable_keys=["name"])),
    Way("build where a store is", lambda _: [build(), build()], FileExistsError,
        ("users: there is already a store", "overwrite=True"), lambda _: build(overwrite=True)),
    Way("build in a folder of something else", lambda here: build(path=str(here)), FileExistsError,
        ("not a store and not empty (it has 'users.parquet')", "choose a new or empty folder"),
        lambda _: build(path="new")),
    Way("build of no rows over rows",
        lambda _: [build(), build(USERS.slice(0, 0), overwrite=True)], ValueError,
        ("users: the new version has no rows", "version 1, which has 3", "allow_empty=True"),
        lambda _: build(USERS.slice(0, 0), overwrite=True, allow_empty=True)),
    Way("build of another key over a store",
        lambda _: [build(), build(TEXTS, overwrite=True)], ValueError,
        ("users: the key of the new version is id: string", "version 1 is id: int64",
         "convert the source, or pass allow_new_key=True"),
        lambda _: build(TEXTS, overwrite=True, allow_new_key=True)),
    Way("build(compression='gzip')", lambda _: build(compression="gzip"), ValueError,
        ("compression must be 'none', 'zstd' or 'lz4'", "not 'gzip'"),
        lambda _: build(compression="zstd")),
    Way("build(compression='zstd', level=99)",
        lambda _: build(compression="zstd", level=99), ValueError,
        ("level=99", "zstd's 22"), lambda _: build(compression="zstd", level=22)),
    Way("build(threads=0)", lambda _: build(threads=0), ValueError,
        ("threads must be a number from 1 to 64", "not 0"), lambda _: build(threads=1)),
    Way("build(buckets=0)", lambda _: build(buckets=0), ValueError,
        ("buckets is 0", "from 1 to 65536"), lambda _: build(buckets=1)),
    Way("build(memory='1 GX')", lambda _: build(memory="1 GX"), ValueError,
        ("memory is '1 GX'", "512MiB or 1GB"), lambda _: build(memory="1GB")),
    Way("build(memory=1000)", lambda _: build(memory=1000), ValueError,
        ("memory is 1000", "at least 65536 bytes"), lambda _: build(memory=65536)),
    Way("build(retain='soon')", lambda _: build(retain="soon"), ValueError,
        ("retain is 'soon'", "30m, 1h or 7d"), lambda _: build(retain="1h")),
    Way("build(temp_dir='tmp')", lambda _: build(temp_dir="tmp"), FileNotFoundError,
        ("temp_dir: tmp: no such folder", "make it"),
        lambda here: [(here / "tmp").mkdir(), build(temp_dir="tmp")]),
    Way("build(bloom_fpp=5)", lambda _: build(bloom_fpp=5), ValueError,
        ("bloom_fpp=5", "or 0 for none"), lambda _: build(bloom_fpp=0)),
    Way("build of a number", lambda _: build(5), TypeError,
        ("source is int", "an Arrow table"), lambda _: build(pa.table({"id": [1]}))),
    Way("build of a list of tuples", lambda _: build([(1,)]), TypeError,
        ("source: item 0 is tuple", "a dict of columns"), lambda _: build({"id": [1]})),
    Way("build of an array without names", lambda _: build(np.zeros((2, 2))), TypeError,
        ("source is a NumPy array of float64", "give a dict of columns, such as {'id': ids}"),
        lambda _: build({"id": np.arange(2)})),
    Way("build of dicts of other keys", lambda _: build([{"id": 1, "name": "a"}, {"id": 2}]),
        ValueError, ("row 2 has no 'name', which row 1 has", "None for a null"),
        lambda _: build([{"id": 1, "name": "a"}, {"id": 2, "name": None}])),
    Way("build of a dict of columns of two lengths",
        lambda _: build({"id": [1, 2], "name": ["a"]}), ValueError,
        ("columns of different lengths: {'id': 2, 'name': 1}",),
        lambda _: build({"id": [1, 2], "name": ["a", "b"]})),
    Way("build of a text file",
        lambda here: [(here / "t.txt").write_text("id\n1\n"), build("t.txt")], ValueError,
        ("t.txt has the extension '.txt'", ".parquet"), lambda _: build("users.parquet")),
    Way("build of a file that is not there", lambda _: build("user.parquet"), FileNotFoundError,
        ("source: user.parquet: no such file",), lambda _: build("users.parquet")),
    Way("build of a glob of nothing", lambda _: build("*.orc"), FileNotFoundError,
        ("source: no file matches *.orc",), lambda _: build("*.parquet")),
    Way("build of Parquet and ORC", two_formats, ValueError,
        ("source mixes Parquet and ORC", "files of one kind"), lambda _: build("*.parquet")),
    Way("build of lists as keys", lambda _: build(pa.table({"id": [[1]]})), TypeError,
        ("the key field 'id' is list", "key fields are bool, integers"),
        lambda _: build(pa.table({"id": [1]}))),
    Way("build of 2**70 in pandas", lambda _: build(pd.DataFrame({"id": [2**70]})), ValueError,
        ("source: the column 'id' has integers beyond 64 bits", "decimal.Decimal or text"),
        lambda _: build(pd.DataFrame({"id": [str(2**70)]}))),
    Way("build of an Int128 of polars",
        lambda _: build(pl.DataFrame({"id": [1]}).cast(pl.Int128)), TypeError,
        ("source: the column 'id' is Int128", "pl.Int64"),
        lambda _: build(pl.DataFrame({"id": [1]}).cast(pl.Int128).cast(pl.Int64))),
    Way("build of objects of polars",
        lambda _: build(pl.DataFrame({"id": [1], "o": pl.Series([object()], dtype=pl.Object)})),
        TypeError, ("source: the column 'o' is Object", ".drop('o')"),
        lambda _: build(pl.DataFrame({"id": [1], "o": pl.Series([object()], dtype=pl.Object)})
                        .drop("o"))),
    Way("build of a LazyFrame", lambda _: build(pl.LazyFrame({"id": [1]}).cast(pl.Int128)),
        TypeError, ("source: the column 'id' is Int128", "pl.Int64"),
        lambda _: build(pl.LazyFrame({"id": [1]}))),
]  # fmt: skip

READS = [
    Way("open of nothing", lambda _: lookupstore.open("users"), FileNotFoundError,
        ("users: no such store folder", "lookupstore.build"),
        lambda _: [build(), lookupstore.open("users").close()]),
    Way("upsert of maps from pandas, with an inferred schema",
        lambda _: upserted(lambda store: pa.Table.from_pandas(frame_of(store))), TypeError,
        ("'tags' is list<", "in the store it is map<", "from_pandas(frame, schema=store.schema)"),
        lambda _: upserted(
            lambda store: pa.Table.from_pandas(frame_of(store), schema=store.schema))),
    Way("upsert of maps as dicts, with an inferred schema",
        lambda _: upserted(lambda _: pa.Table.from_pylist([{"id": 3, "tags": {"a": "c"}}])),
        TypeError, ("'tags' is struct<", "from_pylist(rows, schema=store.schema)"),
        lambda _: upserted(lambda store: pa.Table.from_pylist(
            [{"id": 3, "tags": {"a": "c"}}], schema=store.schema))),
    Way("open of a Parquet file", lambda _: lookupstore.open("users.parquet"), FormatError,
        ("users.parquet: a file, but a store is a folder", "lookupstore.build"),
        lambda _: [build("users.parquet"), lookupstore.open("users").close()]),
    Way("open(version=9)", lambda _: [build(), lookupstore.open("users", version=9)],
        FileNotFoundError, ("users: no version 9", "the store has 1"),
        lambda _: lookupstore.open("users", version=1).close()),
    Way("open(version='1')", lambda _: lookupstore.open("users", version="1"), TypeError,
        ("version is '1'", "the number of a version"),
        lambda _: [build(), lookupstore.open("users", version=1).close()]),
    Way("open(cache_bytes='much')", lambda _: lookupstore.open("users", cache_bytes="much"),
        ValueError, ("cache_bytes is 'much'", "1GB"),
        lambda _: [build(), lookupstore.open("users", cache_bytes="1GB").close()]),
    Way("store.get('1') of a number", lambda _: users().get("1"), TypeError,
        ("the key field 'id' is int64", "found str '1'", "give an int"), lambda _: users().get(1)),
    Way("get of NaN where None may be", lambda _: nullable().get(float("nan")), TypeError,
        ("the key field 'name' is string; found float nan", "give a str or None"),
        lambda _: nullable().get(None)),
    Way("store['Bath'] of two fields", lambda _: days()["Bath"], TypeError,
        ("the key is str 'Bath'", "a tuple of its 2 fields (city, day)"),
        lambda _: days()["Bath", 1]),
    Way("store[9] of no such key", lambda _: users()[9], KeyError,
        ("users: no key 9",), lambda _: 9 in users()),
    Way("store.get({'ID': 1})", lambda _: users().get({"ID": 1}), KeyError,
        ("the key has the names 'ID'", "its fields are 'id'"), lambda _: users().get({"id": 1})),
    Way("store.get(text) of a uuid", lambda _: stored(IDS, "id").get(str(KEY)), TypeError,
        ("the key field 'id'", "give a uuid.UUID or its 16 bytes"),
        lambda _: [stored(IDS, "id")[one] for one in (KEY, KEY.bytes)]),
    Way("store.get(datetime with a zone) of a date",
        lambda _: stored(DATES, "day").get(datetime(2013, 1, 31, tzinfo=timezone.utc)), TypeError,
        ("the key field 'day' is date32", "give a datetime.date"),
        lambda _: stored(DATES, "day")[datetime(2013, 1, 31).date()]),
    Way("store.lookup(1)", lambda _: users().lookup(1), TypeError,
        ("keys is int", "give a list of keys"), lambda _: users().lookup([1])),
    Way("store.lookup((1, 2))", lambda _: users().lookup((1, 2)), TypeError,
        ("keys: a tuple gives one column per key field", "for a batch of keys, give a list"),
        lambda _: users().lookup([1, 2])),
    Way("store.lookup(['1']) of numbers", lambda _: users().lookup(["1"]), TypeError,
        ("the field 'id' is int64; found string", "give it as int64"),
        lambda _: users().lookup(pa.array(["1"]).cast("int64"))),
    Way("store.lookup(an empty DataFrame)", lambda _: users().lookup(pd.DataFrame()), KeyError,
        ("keys: no column 'id'", "given no columns"),
        lambda _: users().lookup(pd.DataFrame({"id": [1]}))),
    Way("store.lookup(a matrix)", lambda _: users().lookup(np.zeros((2, 2), int)), TypeError,
        ("keys: an array of 2 dimensions", "one dimension"),
        lambda _: users().lookup(np.zeros((2, 2), int)[0])),
    Way("store.lookup([1], ['nme'])", lambda _: users().lookup([1], ["nme"]), KeyError,
        ("columns: no value column 'nme'", "did you mean 'name'? Value columns: ['name']"),
        lambda _: users().lookup([1], ["name"])),
    Way("store.lookup([1], ['id'])", lambda _: users().lookup([1], ["id"]), KeyError,
        ("no value column 'id' (it is a key column", "['name']"),
        lambda _: users().lookup([1], ["name"])),
    Way("store.lookup([1], found='name')", lambda _: users().lookup([1], found="name"), ValueError,
        ("found='name'", "give another name"), lambda _: users().lookup([1], found="known")),
    Way("store.contains of one column of two", lambda _: days().contains(pa.array(["Bath"])),
        TypeError, ("one column of string; the key has 2 fields", "a list of tuples"),
        lambda _: days().contains([("Bath", 1)])),
    Way("store.contains of columns of two lengths",
        lambda _: days().contains((["Bath"], [1, 2])), ValueError,
        ("the field 'day' has 2 values, 'city' has 1",),
        lambda _: days().contains((["Bath", "Bath"], [1, 2]))),
    Way("store.scan(1, 2)", lambda _: users().scan(1, 2), TypeError,
        ("scan takes keyword arguments only: scan(start=..., stop=...",),
        lambda _: users().scan(start=1, stop=2)),
    Way("store.scan(prefix=['Bath'])", lambda _: days().scan(prefix=["Bath"]), TypeError,
        ("prefix is a list, which is not a key", "give a tuple", "(city, day)"),
        lambda _: days().scan(prefix=("Bath",))),
    Way("store.scan(starts_with='1') of numbers", lambda _: users().scan(starts_with="1"),
        TypeError, ("starts_with: the key field 'id' is int64", "start= and stop="),
        lambda _: [users().scan(prefix=1), users().scan(start=1, stop=2)]),
    Way("store.scan(prefix='Ba')", lambda _: days().scan(prefix="Ba").read_all(), UserWarning,
        ("no row has city = 'Ba'", "starts_with='Ba'"), lambda _: days().scan(starts_with="Ba")),
    Way("store.scan(prefix=, start=)", lambda _: days().scan(prefix="Bath", start="B"), ValueError,
        ("start or stop is given with prefix", "one or the other"),
        lambda _: days().scan(prefix="Bath")),
    Way("store.get after close", lambda _: closed(again=False), ClosedError,
        ("users: the store is closed", "open it again"), lambda _: closed(again=True)),
]  # fmt: skip

VERSIONS = [
    Way("versions(7)", lambda _: lookupstore.versions(7), TypeError,
        ("path is int", "an open store"), lambda _: lookupstore.versions(users())),
    Way("versions of a folder of files", lambda here: lookupstore.versions(here), FormatError,
        ("not a lookupstore store: no version found", "lookupstore.build"),
        lambda here: [build(), lookupstore.versions(here / "users")]),
    Way("publish where another store is",
        lambda _: [build(), days(), lookupstore.publish("days", "users")], FileExistsError,
        ("users: there is already a store", "overwrite=True"),
        lambda _: lookupstore.publish(
            "days", "users", overwrite=True, allow_new_key=True).close()),
    Way("expire(keep=0)", lambda _: lookupstore.expire("users", keep=0), ValueError,
        ("keep is 0", "at least 1"), lambda _: [build(), lookupstore.expire("users", keep=1)]),
    Way("expire(retain=-1)", lambda _: lookupstore.expire("users", retain=-1), ValueError,
        ("retain is -1", "0 or more"), lambda _: [build(), lookupstore.expire("users", retain=0)]),
]  # fmt: skip

FILES = [
    Way("Writer of a file that is there", lambda _: [sorted_file(), Writer("ages.sst")],
        FileExistsError, ("ages.sst exists", "overwrite=True"),
        lambda _: Writer("ages.sst", overwrite=True).close()),
    Way("Writer in no folder", lambda _: Writer("new/ages.sst"), FileNotFoundError,
        ("no such folder; make it first", "new"),
        lambda here: [(here / "new").mkdir(), Writer("new/ages.sst").close()]),
    Way("writer.put out of order", lambda _: begun().put(b"a", b"1"), ValueError,
        ("record 1: key b'a' comes after b'b'", "in key order"), lambda _: begun().put(b"c", b"1")),
    Way("writer.put_many of texts", lambda _: begun().put_many(["c"], ["1"]), TypeError,
        ("keys[0] is str", "give bytes"), lambda _: begun().put_many([b"c"], [b"1"])),
    Way("Writer(order='int8')", lambda _: Writer("new.sst", order="int8"), ValueError,
        ("order= and allow_repeats= are for dialect='paimon'",),
        lambda _: Writer("new.sst", order="int8", dialect="paimon").close()),
    Way("Reader of a store", lambda _: [build(), Reader("users")], IsADirectoryError,
        ("a folder, not a sorted file; lookupstore.open", "users"),
        lambda _: lookupstore.open("users").close()),
    Way("Reader of a Parquet file", lambda _: Reader("users.parquet"), FormatError,
        ("users.parquet: not a sorted lookup file",), lambda _: sorted_file()),
    Way("reader.get('ada')", lambda _: sorted_file().get("ada"), TypeError,
        ("'key'", "expected bytes, got str"), lambda _: sorted_file().get(b"ada")),
    Way("reader.scan(b'a')", lambda _: sorted_file().scan(b"a"), TypeError,
        ("scan takes keyword arguments only: scan(start=", "starts_with="),
        lambda _: list(sorted_file().scan(starts_with=b"a"))),
    Way("reader.scan(start='a')", lambda _: sorted_file().scan(start="a"), TypeError,
        ("start is str", "give bytes"), lambda _: list(sorted_file().scan(start=b"a"))),
    Way("ColumnarFiles(key='ID')", lambda _: ColumnarFiles("users.parquet", key="ID"), KeyError,
        ("no column 'ID'", "['id', 'name']"), lambda _: ColumnarFiles("users.parquet", key="id")),
    Way("ColumnarFiles of a table", lambda _: ColumnarFiles(USERS, key="id"), TypeError,
        ("source is Table", "lookupstore.build"),
        lambda _: [ColumnarFiles("users.parquet", key="id"), build()]),
    Way("ColumnarFiles(mode='rows')",
        lambda _: ColumnarFiles("users.parquet", key="id", mode="rows"), ValueError,
        ("mode is 'rows'", "'value', 'position', 'value_and_position', 'presence'"),
        lambda _: ColumnarFiles("users.parquet", key="id", mode="value")),
    Way("ColumnarFiles of a repeated key", lambda _: twice(), ValueError,
        ("twice.parquet: the key id=1 occurs more than once", "on_duplicate='first' or 'last'"),
        lambda _: [twice(on_duplicate="first"), twice(on_duplicate="last")]),
]  # fmt: skip

COMMANDS = [
    Way("lookupstore build --key ID", lambda _: typed("build users.parquet users --key ID"),
        RefusedError, ("no column 'ID'", "['id', 'name']"),
        lambda _: typed("build users.parquet users --key id")),
    Way("lookupstore build, again",
        lambda _: [typed("build users.parquet users --key id") for _ in range(2)], RefusedError,
        ("there is already a store", "pass --overwrite"),
        lambda _: typed("build users.parquet users --key id --overwrite")),
    Way("lookupstore build --memory lots",
        lambda _: typed("build users.parquet users --key id --memory lots"), RefusedError,
        ("--memory is 'lots'", "512MiB or 1GB"),
        lambda _: typed("build users.parquet users --key id --memory 1GB")),
    Way("lookupstore build --on-duplicate max",
        lambda _: typed("build users.parquet users --key id --on-duplicate max"), RefusedError,
        ("--on-duplicate max: give error, first, last or max:COLUMN",),
        lambda _: typed("build users.parquet users --key id --on-duplicate max:name")),
    Way("lookupstore build of null keys",
        lambda _: typed("build users.parquet users --key name"), RefusedError,
        ("key column 'name' is null", "--nullable-keys name"),
        lambda _: typed("build users.parquet users --key name --nullable-keys name")),
    Way("lookupstore build of no rows over rows",
        lambda _: [build(), pq.write_table(USERS.slice(0, 0), "none.parquet"),
                   typed("build none.parquet users --key id --overwrite")], RefusedError,
        ("no rows", "pass --allow-empty"),
        lambda _: typed("build none.parquet users --key id --overwrite --allow-empty")),
    Way("lookupstore get of a text", lambda _: [build(), typed("get users one")], RefusedError,
        ("'one' is not int64, the type of the key field 'id'", "a whole number"),
        lambda _: typed("get users 1")),
    Way("lookupstore build of another key",
        lambda _: [build(), typed("build users.parquet users --key name --nullable-keys name "
                                  "--overwrite")],
        RefusedError, ("name: string", "is id: int64", "pass --allow-new-key"),
        lambda _: typed("build users.parquet users --key name --nullable-keys name --overwrite "
                        "--allow-new-key")),
    Way("lookupstore get of one field of two", lambda _: [days(), typed("get days Bath")],
        RefusedError, ("key 'Bath' has 1 of 2 fields", "city,day"),
        lambda _: typed("get days Bath,1")),
    Way("lookupstore get of Parquet without --key", lambda _: typed("get users.parquet 1"),
        RefusedError, ("users.parquet names columnar files", "--key"),
        lambda _: typed("get users.parquet 1 --key id")),
    Way("lookupstore get of a repeated key",
        lambda _: [pq.write_table(REPEATED, "twice.parquet"),
                   typed("get twice.parquet 1 --key id")], RefusedError,
        ("the key id=1 occurs more than once", "--on-duplicate first or last"),
        lambda _: typed("get twice.parquet 1 --key id --on-duplicate last")),
    Way("lookupstore scan --starts-with of numbers",
        lambda _: [build(), typed("scan users --starts-with 1")], RefusedError,
        ("--starts-with: the key field 'id' is int64", "--prefix", "or --start and --stop"),
        lambda _: typed("scan users --prefix 1")),
    Way("lookupstore scan FILE --prefix",
        lambda _: [sorted_file(), typed("scan ages.sst --prefix a")], RefusedError,
        ("--prefix is an option of a store", "--starts-with"),
        lambda _: typed("scan ages.sst --starts-with a")),
    Way("lookupstore info --version 9", lambda _: [build(), typed("info users --version 9")],
        RefusedError, ("no version 9", "the store has 1"),
        lambda _: typed("info users --version 1")),
    Way("lookupstore expire --retain soon", lambda _: typed("expire users --retain soon"),
        RefusedError, ("--retain is 'soon'", "30m, 1h or 7d"),
        lambda _: [build(), typed("expire users --retain 30m")]),
    Way("lookupstore stats --cache nowhere", lambda _: typed("stats --cache nowhere"), RefusedError,
        ("--cache nowhere: no such folder",), lambda here: typed(f"stats --cache {here}")),
]  # fmt: skip

WAYS = [*BUILD, *READS, *VERSIONS, *FILES, *COMMANDS]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.what)
def test_a_way_to_go_wrong(way: Way, here: Path) -> None:
    print(check_way(way, here))


def test_there_are_sixty_of_them() -> None:
    names = [way.what for way in WAYS]
    assert len(set(names)) == len(names) >= 60
