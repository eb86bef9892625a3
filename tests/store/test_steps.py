"""What is known of versions by their files: whether a newer one has the rows of an older one."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa

import lookupstore
from lookupstore import Location, LookupStore, build, expire
from lookupstore.store.steps import has_same_rows
from lookupstore.store.version_files import list_names, read_version

KEYS = 60


def change_at_random(rng: random.Random, folder: str) -> str:
    """Publish the next version of a store in one of the ways in which one comes to be."""
    keys = rng.sample(range(KEYS), rng.randrange(1, KEYS))
    way = rng.choice(["upsert", "delete", "merge", "compact", "compact", "compact", "build"])
    value = rng.randrange(3)
    if way == "build":
        table = pa.table({"id": range(KEYS), "v": [value] * KEYS})
        build(table, folder, key="id", buckets=3, overwrite=True).close()
    elif way == "compact":
        with LookupStore(folder) as store:
            store.compact().close()
    elif way == "delete":
        lookupstore.upsert(folder, deletes=keys, max_run_share=100).close()
    else:
        runs = 0 if way == "merge" else 64
        changes = pa.table({"id": keys, "v": [value] * len(keys)})
        lookupstore.upsert(folder, changes, max_runs=runs, max_run_share=100).close()
    return way


def test_only_compactions_leave_all_rows_as_they_are(tmp_path, seed):
    """What is said to have the same rows has them; of compactions alone it is always said."""
    said = 0
    rng = random.Random(seed)
    for history in itertools.count():
        folder = str(tmp_path / str(history))
        table = pa.table({"id": range(KEYS), "v": [0] * KEYS})
        build(table, folder, key="id", buckets=3).close()
        ways = {1: "build"}
        for _ in range(8):
            way = change_at_random(rng, folder)
            ways.setdefault(list_names(Location(folder))[-1].number, way)
        if rng.random() < 0.3:
            expire(folder, retain=0, keep=rng.randrange(1, 6))
        location = Location(folder)
        manifests = [read_version(location, name) for name in list_names(location)]
        rows = []
        for one in manifests:
            with LookupStore(folder, version=one.version) as store:
                rows.append(store.scan().read_all().sort_by("id"))
        for i, older in enumerate(manifests):
            for newer, its_rows in zip(manifests[i + 1 :], rows[i + 1 :], strict=True):
                found = has_same_rows(location, older, newer)
                between = {ways[n] for n in range(older.version + 1, newer.version + 1)}
                assert found or between != {"compact"}, (history, older.version, newer.version)
                assert not found or its_rows == rows[i]
                assert not has_same_rows(location, newer, older)
                said += found
        if history >= 29 and said > 20:
            break
