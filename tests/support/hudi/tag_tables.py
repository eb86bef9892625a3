"""Tables of given keys, with footers of every form, and the indexes that look into them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from support.hudi.small_tables import SmallTable

from lookupstore.hostcache.cache import Residency
from lookupstore.hudi.file_group.bloom import FILTER_KEY, OLD_FILTER_KEY, BloomBuilder
from lookupstore.hudi.file_group.key_entries import GREATEST_KEY, LEAST_KEY, OWN_KEY, own_checksum
from lookupstore.hudi.index.bloom import BloomIndex
from lookupstore.hudi.index.interface import KeyIndex
from lookupstore.hudi.index.memory import MemoryIndex
from lookupstore.hudi.index.simple import SimpleIndex

SCHEMA = pa.schema({"id": pa.string(), "value": pa.string()})


def write(
    table: SmallTable,
    files: Mapping[tuple[str, str], list[str]],
    footer: Callable[[list[str]], dict[bytes, bytes]] = lambda keys: {},
) -> str:
    """Commit files, by partition and file id, that have some keys; return the time."""
    instant = table.begin()
    stats = []
    for (partition, file_id), keys in files.items():
        rows = [{"id": key, "value": key} for key in keys]
        stats.append(
            table.write(instant.time, file_id, rows, partition, SCHEMA, footer=footer(keys) or None)
        )
    return table.finish(instant, stats, schema=SCHEMA).time


def whole_footer(keys: list[str]) -> dict[bytes, bytes]:
    """Return what Hudi says of a file's keys."""
    return filter_of(keys) | range_of(keys)


def vouched_for(said: Mapping[bytes, bytes], name: str, chunks: Any = None) -> dict[bytes, bytes]:
    """Return the entry that makes a file one of ours, by what its footer says."""
    own = json.dumps({"file": name, "chunks": chunks}).encode()
    return {OWN_KEY: own_checksum(said, own) + own}


def range_of(keys: list[str]) -> dict[bytes, bytes]:
    if not keys:
        return {}
    ends = sorted(key.encode() for key in keys)
    return {LEAST_KEY: ends[0], GREATEST_KEY: ends[-1]}


def filter_of(keys: list[str], kind: str = "DYNAMIC_V0", entries: int = 40) -> dict[bytes, bytes]:
    assert kind in ("SIMPLE", "DYNAMIC_V0")
    builder = BloomBuilder(entries, error_rate=0.01, most_entries=2 * entries, kind=kind)
    builder.add(pa.array(keys, pa.string()))
    return builder.finish().footer()


def any_footer(rng: random.Random) -> Callable[[list[str]], dict[bytes, bytes]]:
    """Return what gives each file a footer of one of the forms that there are."""

    def footer(keys: list[str]) -> dict[bytes, bytes]:
        entries = range_of(keys) if rng.random() < 0.7 else {}
        kind = rng.choice(["none", "SIMPLE", "DYNAMIC_V0", "old name"])
        if kind == "old name":
            entries[OLD_FILTER_KEY] = filter_of(keys, "SIMPLE")[FILTER_KEY]
        elif kind != "none":
            entries |= filter_of(keys, kind, rng.choice([4, 60]))
        return entries

    return footer


def indexes(residency: Residency) -> dict[str, KeyIndex]:
    """Return every index, and each way to use it."""
    found: dict[str, KeyIndex] = {"simple": SimpleIndex(), "in-memory": MemoryIndex()}
    for prune in ("tree", "list", "off"):
        found[f"bloom {prune}"] = BloomIndex(prune=prune, build="never", residency=residency)
    for build in ("auto", "always"):
        found[f"bloom {build}"] = BloomIndex(build=build, residency=residency)
    found["bloom one thread"] = BloomIndex(threads=1, residency=residency)
    return found
