"""Stores that follow another store, with another key: beside a dict."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.changelog import check_changes

import lookupstore
from lookupstore import LookupStore, follow

SCHEMA = pa.schema({"id": pa.int64(), "mail": pa.string(), "n": pa.int64()})
Model = dict[str, tuple[int, int]]


def stored(store: LookupStore) -> Model:
    rows = store.scan().read_all().to_pylist()
    return {row["mail"]: (row["id"], row["n"]) for row in rows}


def rebuilt(store: LookupStore) -> str | None:
    """Return why all rows were read."""
    return (store.info().follows or {}).get("rebuilt")


@pytest.mark.parametrize("number", range(6))
def test_a_store_has_the_rows_of_another_one_by_another_key(
    tmp_path: Path, seed: int, number: int
) -> None:
    chance = random.Random(seed + number)
    mails = {one: one for one in range(40)}  # number of the mail of each id

    def rows(ids: list[int]) -> pa.Table:
        columns = [ids, [f"m{mails[one]}" for one in ids], [chance.randrange(4) for _ in ids]]
        return pa.table([pa.array(one) for one in columns], schema=SCHEMA)

    where = chance.choice([None, "n > 1"])
    source = lookupstore.build(rows([*range(20)]), tmp_path / "s", key="id", buckets=2)
    store = follow(tmp_path / "s", tmp_path / "t", key="mail", where=where, buckets=3)
    for _ in range(10):
        for _ in range(chance.choice([1, 1, 3])):
            match chance.choice(["upsert", "upsert", "swap", "delete", "compact", "build"]):
                case "upsert":
                    source = source.upsert(rows(chance.sample(range(40), 6)))
                case "swap":
                    one, other = chance.sample(sorted(source), 2)
                    mails[one], mails[other] = mails[other], mails[one]
                    source = source.upsert(rows([one, other]))
                case "delete":
                    source = source.upsert(deletes=chance.sample(range(40), 3))
                case "compact":
                    source = source.compact()
                case "build":
                    some = chance.sample(range(40), 15)
                    source = lookupstore.build(rows(some), tmp_path / "s", key="id", overwrite=True)
        newer = store.sync()
        found = source.scan().read_all().to_pylist()
        expected = {row["mail"]: (row["id"], row["n"]) for row in found
                    if not where or row["n"] > 1}  # fmt: skip
        assert stored(newer) == expected
        assert rebuilt(newer) is None
        if newer is not store:
            check_changes(newer.changes(store.version), stored(store), stored(newer))
        assert newer.sync() is newer
        store = newer
    store.verify()


def test_what_makes_it_read_all_rows(tmp_path: Path) -> None:
    rows = pa.table([[1, 2], ["a", "b"], [1, 2]], schema=SCHEMA)
    source = lookupstore.build(rows, tmp_path / "s", key="id")
    store = follow(tmp_path / "s", tmp_path / "t", key="mail")
    first = f"1-{source.id}"
    assert (store.info().follows or {})["snapshot"] == first
    source = source.upsert(pa.table([[1], ["c"], [1]], schema=SCHEMA))
    lookupstore.expire(tmp_path / "s", retain=0)
    store = store.sync()
    assert f"snapshot {first}, which the store has, is no longer in" in str(rebuilt(store))
    assert stored(store) == {"b": (2, 2), "c": (1, 1)}
    more = rows.append_column("more", pa.array([1, 1]))
    store = follow(tmp_path / "s", tmp_path / "t", key="mail", columns=["id"], overwrite=True)
    lookupstore.build(more, tmp_path / "s", key="id", overwrite=True).close()
    store = store.sync()
    assert "which the store has, is no longer readable: the store" in (rebuilt(store) or "")
    assert "had other columns" in (rebuilt(store) or "")
    store = follow(tmp_path / "s", tmp_path / "t", key="mail", columns=["id"], where="n > 1")
    assert (rebuilt(store) or "").startswith("the filter has changed; ")
    assert list(store) == ["b"]
    store = follow(tmp_path / "s", tmp_path / "t", key="mail", columns=["id"], where="n > 0")
    assert (rebuilt(store) or "").startswith("the filter has changed; ")
    assert list(store) == ["a", "b"]
    with_object = pc.field("n") > 1  # an expression is not recorded
    follow(tmp_path / "s", tmp_path / "t", key="mail", columns=["id"], where=with_object).close()
    store = follow(tmp_path / "s", tmp_path / "t", key="mail", columns=["id"], where="n > 0")
    assert "mapping changed, or the filter has changed" in (rebuilt(store) or "")
    shutil.rmtree(tmp_path / "s")
    for _ in range(4):  # another store has as many versions
        lookupstore.build(rows, tmp_path / "s", key="id", overwrite=True, retain=0).close()
    store = follow(tmp_path / "s", tmp_path / "t", key="mail", columns=["id"])
    said = (store.info().follows or {})["snapshot"]
    shutil.rmtree(tmp_path / "s")
    for _ in range(int(said.partition("-")[0])):
        lookupstore.build(rows.slice(1), tmp_path / "s", key="id", overwrite=True).close()
    store = store.sync()
    assert f"snapshot {said}, which the store has, has other files" in str(rebuilt(store))
    assert list(store) == ["b"]
    with pytest.raises(FileExistsError, match="a store, which follows no table"):
        follow(tmp_path / "s", tmp_path / "s", key="mail")


def test_a_store_does_not_follow_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table([[1], ["m"], [1]], schema=SCHEMA)
    lookupstore.build(rows, tmp_path / "s", key="id").close()
    follow(tmp_path / "s", tmp_path / "t", key="mail").close()
    monkeypatch.chdir(tmp_path)
    for given in ("t", "./t", tmp_path / "t", lookupstore.Location(tmp_path / "t")):
        with pytest.raises(ValueError, match="the store itself; give the table to follow"):
            follow(given, tmp_path / "t", key="mail")
