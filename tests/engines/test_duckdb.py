"""The function and the table of a store in DuckDB, beside DuckDB's joins of the same rows."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.engines import KEY_TYPES, VALUE_TYPES, column_of, planes_of, values_of
from support.lookups import KINDS

import lookupstore
from lookupstore.columnar import ColumnarFiles
from lookupstore.duckdb import register
from lookupstore.hostcache.cache import Residency
from lookupstore.keys import at_hand
from lookupstore.keys.lookups import Lookups

pytestmark = pytest.mark.drawn(0.5)

#: Types of DuckDB that the key may have, of which a function gets something that no key can be.
NO_PARAMETERS = [*(pa.duration(unit) for unit in ("s", "ms", "us", "ns")), pa.uuid()]
#: Types that DuckDB does not have.
UNKNOWN = [pa.float16(), pa.decimal256(50, 3)]


@pytest.fixture(autouse=True, params=[True, False], ids=["at hand", "scanned"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether rows of small stores are read at once, as they are, or no store is a small one."""
    if not request.param:
        monkeypatch.setattr(at_hand, "MOST_ROWS", -1)
    return bool(request.param)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose moments are in UTC."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.fixture(params=KINDS)
def planes(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> Iterator[tuple[Lookups, pa.Table]]:
    """Lookups of a dimension, and the dimension."""
    monkeypatch.setenv("LOOKUPSTORE_CACHE", str(tmp_path / "cache"))
    table = planes_of(seed)
    make: Callable[[pa.Table, Path], Lookups] = request.param
    with make(table, tmp_path) as lookups:
        yield lookups, table


def facts_of(seed: int, count: int = 5000) -> pa.Table:
    """Facts: keys that repeat, are missing, or null; more than DuckDB has in one vector."""
    rng = random.Random(seed + 1)
    keys = [rng.choice([None, rng.randrange(1000), rng.randrange(50)]) for _ in range(count)]
    return pa.table({"number": range(count), "plane": pa.array(keys, pa.int64())})


def rows_of(con: duckdb.DuckDBPyConnection, query: str) -> list[Any]:
    return con.execute(query).fetchall()


def test_the_function_is_a_left_join(
    con: duckdb.DuckDBPyConnection, planes: tuple[Lookups, pa.Table], seed: int
) -> None:
    lookups, table = planes
    register(con, "planes", lookups)
    con.register("facts", facts_of(seed))
    con.register("dimension", table)
    join = "FROM facts LEFT JOIN dimension ON plane = id ORDER BY number"
    found = "FROM (SELECT number, plane, planes(plane) AS p FROM facts) ORDER BY number"
    assert rows_of(con, f"SELECT number, p.seats, p.model, p IS NOT NULL {found}") == rows_of(
        con, f"SELECT number, seats, model, id IS NOT NULL {join}"
    )
    found = "SELECT sum(p.seats) FROM (SELECT planes(plane) AS p FROM facts) WHERE p.seats > 9"
    join = "SELECT sum(seats) FROM facts JOIN dimension ON plane = id WHERE seats > 9"
    assert rows_of(con, found) == rows_of(con, join)
    assert rows_of(con, "SELECT planes(plane) FROM facts WHERE false") == []
    assert rows_of(con, "SELECT planes(NULL), planes(-1)") == [(None, None)]
    (key,) = table["id"].to_pylist()[:1]
    for kind in ("SMALLINT", "USMALLINT", "INTEGER", "UINTEGER"):
        (row,) = rows_of(con, f"SELECT planes({key}::{kind})")[0]
        assert row == table.select(["seats", "model"]).slice(0, 1).to_pylist()[0]


def test_the_table_has_the_rows(
    con: duckdb.DuckDBPyConnection, planes: tuple[Lookups, pa.Table]
) -> None:
    lookups, table = planes
    register(con, "planes", lookups)
    con.register("dimension", table)
    for query in (
        "SELECT id, seats, model FROM {} ORDER BY id",
        "SELECT count(*) FROM {}",
        "SELECT model FROM {} WHERE seats > 250 ORDER BY model",
        "SELECT seats FROM {} WHERE id IN (1, 2, 3, 500, 501) OR id > 990 ORDER BY id",
        "SELECT model FROM {} WHERE seats IS NULL AND id BETWEEN 100 AND 600 ORDER BY id",
        "SELECT count(*) FROM {} WHERE model = ''",
        "SELECT a.id, b.seats FROM {} a JOIN {} b ON a.id = b.id + 1 ORDER BY a.id",
        "SELECT max(seats) FROM {} WHERE id < (SELECT avg(id) FROM {})",
    ):
        wanted = rows_of(con, query.replace("{}", "dimension"))
        for _ in range(2):  # a stream would be at its end
            assert rows_of(con, query.replace("{}", "planes")) == wanted
    assert len(rows_of(con, "FROM planes LIMIT 3")) == 3
    # The function, of the rows of the table.
    assert rows_of(
        con, "SELECT count(*) FROM planes WHERE planes(id).seats IS DISTINCT FROM seats"
    ) == [(0,)]


@pytest.mark.few(30)
@pytest.mark.parametrize("kind", KEY_TYPES, ids=str)
def test_every_type_of_key(
    kind: pa.DataType, con: duckdb.DuckDBPyConnection, tmp_path: Path, seed: int
) -> None:
    keys, others = values_of(kind, seed)
    table = pa.table({"key": column_of(keys, kind), "x": range(len(keys))})
    with lookupstore.build(table, tmp_path / "store", key="key") as store:
        if kind in NO_PARAMETERS:
            with pytest.raises(TypeError, match=r"'key' is .* a function of DuckDB gets as .*join"):
                register(con, "f", store)
            return
        register(con, "f", store)
        asked = column_of([*others, *keys, None], kind)
        con.register("asked", pa.table({"n": range(len(asked)), "key": asked}))
        found = [row[0] for row in rows_of(con, "SELECT f(key).x FROM asked ORDER BY n")]
        assert found == [*[None] * len(others), *range(len(keys)), None]
        con.register("dimension", table)
        same = (
            "SELECT count(*) FROM f JOIN dimension ON f.key = dimension.key AND f.x = dimension.x"
        )
        assert rows_of(con, same) == [(len(keys),)]
        assert rows_of(con, "SELECT count(*) FROM f") == [(len(keys),)]


@pytest.mark.few(30)
@pytest.mark.parametrize("kind", VALUE_TYPES, ids=str)
def test_every_type_of_value(
    kind: pa.DataType, con: duckdb.DuckDBPyConnection, tmp_path: Path, seed: int
) -> None:
    values, _ = values_of(kind, seed)
    table = pa.table(
        {
            "id": range(len(values) + 1),
            "x": column_of([*values, None], kind),
            "y": ["same"] * (len(values) + 1),
        }
    )
    with lookupstore.build(table, tmp_path / "store", key="id") as store:
        if kind in UNKNOWN:
            with pytest.raises(TypeError, match=r"'x' is .* DuckDB does not have; leave it out of"):
                register(con, "f", store)
            register(con, "f", store, columns=["y"])
            assert rows_of(con, "SELECT f(1), (SELECT count(*) FROM f)") == [
                ({"y": "same"}, len(table))
            ]
            return
        register(con, "f", store)
        con.register("dimension", table)
        facts = "(SELECT id + 5 AS id FROM dimension UNION ALL SELECT NULL)"
        wanted = f"SELECT x, y FROM {facts} LEFT JOIN dimension USING (id) ORDER BY id"
        found = f"SELECT f(id).x, f(id).y FROM {facts} ORDER BY id"
        assert repr(rows_of(con, found)) == repr(rows_of(con, wanted))  # NaN is not NaN
        assert con.sql(found).types == con.sql(wanted).types
        assert repr(rows_of(con, "SELECT id, x FROM f")) == repr(
            rows_of(con, "SELECT id, x FROM dimension")
        )


def test_keys_of_several_fields(con: duckdb.DuckDBPyConnection, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    keys = list({(rng.choice(["a", "b", None]), rng.randrange(20)) for _ in range(40)})
    table = pa.table(
        {
            "place": pa.array([key[0] for key in keys], pa.string()),
            "hour": pa.array([key[1] for key in keys], pa.int32()),
            "x": range(len(keys)),
        }
    )
    con.register("dimension", table)
    places = "(VALUES ('a'), ('b'), ('c'), (NULL)) p(place)"
    con.execute(f"CREATE TABLE facts AS FROM {places}, range(25) h(hour)")
    with lookupstore.build(
        table, tmp_path / "store", key=["place", "hour"], nullable_keys="place"
    ) as store:
        register(con, "f", store)
        assert rows_of(
            con, "SELECT place, hour, f(place, hour).x FROM facts ORDER BY ALL"
        ) == rows_of(
            con,
            "SELECT place, hour, x FROM facts LEFT JOIN dimension USING (place, hour) ORDER BY ALL",
        )
        assert rows_of(con, "SELECT f(place, NULL) FROM facts LIMIT 1") == [(None,)]
        with pytest.raises(duckdb.BinderException, match="No function matches"):
            con.execute("SELECT f('a')")


def test_what_no_key_can_be_finds_nothing(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    for kind, key, texts in (
        (pa.int8(), 5, ["300", "1::BIGINT << 40", "-5"]),
        (
            pa.decimal128(7, 2),
            Decimal("1.01"),
            ["1.005", "1.0149", "99999999.5", "1e12::DECIMAL(20, 0)"],
        ),
        (pa.float32(), 0.5, ["0.50000000001", "1e300"]),
        (pa.timestamp("s"), 5, ["TIMESTAMP '1970-01-01 00:00:05.5'"]),
        (pa.date32(), 5, ["DATE '9999-01-01'"]),
    ):
        with lookupstore.build(
            pa.table({"key": column_of([key], kind), "x": [1]}), tmp_path / str(kind), key="key"
        ) as store:
            register(con, "f", store)
            assert rows_of(con, "SELECT f(key).x FROM f") == [(1,)]
            for text in texts:
                assert rows_of(con, f"SELECT f({text})") == [(None,)], text


@pytest.mark.parametrize("small", [False], indirect=True)
def test_columns_of_a_query_are_read(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"id": [1, 2], "x": [3, 4], "y": ["a", "b"], "z": [0.5, 1.5]})
    with lookupstore.build(table, tmp_path / "store", key="id") as store:
        read: list[list[str]] = []
        scan = store._scan

        def noted(names: Any, *given: Any) -> Iterator[pa.RecordBatch]:
            for batch in scan(names, *given):
                read.append(list(names))
                yield batch

        monkeypatch.setattr(store, "_scan", noted)
        register(con, "t", store, columns=["z", "x"])
        assert con.sql("FROM t").columns == ["id", "z", "x"]
        for query, rows, columns in (
            ("SELECT x FROM t", [(3,), (4,)], ["x"]),
            ("SELECT count(*) FROM t", [(2,)], []),
            ("SELECT id FROM t WHERE x > 3", [(2,)], ["x"]),
        ):
            read.clear()
            assert rows_of(con, query) == rows
            assert read == [columns]
        # Of some filters DuckDB does not name the columns.
        assert rows_of(con, "SELECT x FROM t WHERE z IN (1.5, 7) AND id IN (2, 3)") == [(4,)]
        assert rows_of(con, "SELECT id FROM t WHERE x IN (4, 5, 9)") == [(2,)]
        with pytest.raises(duckdb.BinderException, match='"y"'):
            con.execute("SELECT y FROM t")


def test_duckdb_knows_how_many_rows_a_small_store_has(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    table = pa.table({"id": range(7000), "x": ["text"] * 7000})

    def is_known(**how: Any) -> bool:
        path = tmp_path / "-".join(map(str, how.values()))
        with lookupstore.build(table, path, key="id", **how) as store:
            register(con, "rows", store)
            assert rows_of(con, "SELECT count(*), sum(id) FROM rows") == [(7000, 24496500)]
            return "~7,000 rows" in rows_of(con, "EXPLAIN FROM rows")[0][1]

    assert is_known(buckets=3) == small
    assert not is_known(buckets=1, compression="zstd")
    monkeypatch.setattr(at_hand, "MOST_BYTES", 1000)
    assert not is_known(buckets=2)


def test_registering_again_replaces_both(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    for name, table in (
        ("one", pa.table({"id": [1], "x": [3]})),
        ("two", pa.table({"id": ["a"], "y": ["b"]})),
    ):
        lookupstore.build(table, tmp_path / name, key="id").close()
    with lookupstore.open(tmp_path / "one") as one, lookupstore.open(tmp_path / "two") as two:
        register(con, "My Planes", one)
        register(con, "My Planes", one)
        assert rows_of(con, 'SELECT "My Planes"(1).x, x FROM "My Planes"') == [(3, 3)]
        register(con, "My Planes", two)
        assert rows_of(con, 'SELECT "My Planes"(\'a\').y, y FROM "My Planes"') == [("b", "b")]
        with pytest.raises(duckdb.BinderException, match="No function matches"):
            con.execute('SELECT "My Planes"(1)')
        with pytest.raises(KeyError, match="no value column 'x'"):
            register(con, "My Planes", two, columns=["x"])
        assert rows_of(con, 'SELECT "My Planes"(\'a\').y, y FROM "My Planes"') == [("b", "b")]
        with pytest.raises(ValueError, match="a STRUCT has a column at least"):
            register(con, "none", one, columns=[])
        with pytest.raises(duckdb.CatalogException, match="sum"):
            register(con, "sum", one)
        with con.cursor() as cursor:
            assert rows_of(cursor, "SELECT \"My Planes\"('a').y") == [("b",)]
            with pytest.raises(duckdb.CatalogException, match="already exists"):
                register(cursor, "My Planes", two)
    with pytest.raises(duckdb.Error, match="closed"):
        con.execute("SELECT \"My Planes\"('b')")


@pytest.mark.few(1)
def test_threads_of_duckdb_and_of_python(
    con: duckdb.DuckDBPyConnection, planes: tuple[Lookups, pa.Table]
) -> None:
    lookups, table = planes
    con.execute("SET threads = 4")
    register(con, "planes", lookups)
    con.register("dimension", table)
    con.execute("CREATE TABLE facts AS SELECT i % 1000 AS plane FROM range(400000) t(i)")
    wanted = rows_of(
        con, "SELECT sum(seats), count(id) FROM facts LEFT JOIN dimension ON plane = id"
    )
    query = "SELECT sum(planes(plane).seats), count(planes(plane)) FROM facts"
    assert rows_of(con, query) == wanted
    wrong = []

    def work() -> None:
        with con.cursor() as cursor:
            for _ in range(2):
                if rows_of(cursor, query) != wanted:
                    wrong.append(query)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert rows_of(con, "SELECT count(*) FROM planes JOIN facts ON id = plane") == [(wanted[0][1],)]


def test_a_store_without_rows(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    empty = pa.table({"id": pa.array([], pa.int64()), "x": pa.array([], pa.string())})
    with lookupstore.build(empty, tmp_path / "empty", key="id") as store:
        register(con, "f", store)
        assert rows_of(con, "SELECT f(1), f(NULL), (SELECT count(*) FROM f)") == [(None, None, 0)]
        assert rows_of(con, "FROM f WHERE id = 1") == []


def test_a_path_is_no_open_store() -> None:
    with pytest.raises(TypeError, match=r"store is str; give an open store: lookupstore.open"):
        register(duckdb.connect(), "rows", "s3://bucket/users")  # type: ignore[arg-type]


LIMITED = """
import sys, time, types
class Keep(types.ModuleType):
    def __del__(self, sleep=time.sleep):
        sleep(0.5)  # while the interpreter shuts down
sys.modules["keeps it to the end"] = Keep("keep")
import duckdb, lookupstore
from lookupstore.duckdb import register
con = duckdb.connect()
register(con, "rows", lookupstore.open(sys.argv[1]))
assert con.sql("SELECT id FROM rows WHERE id >= 0 LIMIT 2").fetchall() == [(0,), (1,)]
"""


def test_no_thread_reads_ahead_when_the_process_ends(tmp_path: Path) -> None:
    """A thread of Arrow that was still reading after a LIMIT aborted the process."""
    table = pa.table({"id": range(400_000), "v": range(400_000)})
    lookupstore.build(table, tmp_path / "s", key="id").close()
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "s")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_files_with_a_key_in_two_of_them(tmp_path: Path, con: duckdb.DuckDBPyConnection) -> None:
    """Small open files are read at once, unless two of them have the same key."""
    for name, ids in (("one", [1, 2]), ("two", [2, 3])):
        pq.write_table(pa.table({"id": ids, "name": [name] * 2}), tmp_path / f"{name}.parquet")
    cache = Residency(tmp_path / "cache")
    with ColumnarFiles(tmp_path, key="id", residency=cache) as files:
        files.prepare(progress=False)
        assert files.lookup([1, 3])["name"].to_pylist() == ["one", "two"]
        register(con, "files", files)
        found = con.sql("SELECT id, files(id).name FROM (VALUES (1), (3)) AS keys(id) ORDER BY id")
        assert found.fetchall() == [(1, "one"), (3, "two")]
        with pytest.raises(duckdb.Error, match="the key id=2 is in"):
            con.sql("SELECT * FROM files").fetchall()
