"""What is fuzzed: each target makes valid files once, then changes and uses them, input by input.

An input is made of a target's files and a `random.Random` alone. Whatever it is, what comes out is
an answer or one of the errors that are documented; anything else is raised.
"""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash
from mutations import (
    changed_bytes,
    changed_json,
    changed_json_text,
    changed_message,
    changed_struct,
)
from outcomes import answers
from pyarrow import orc
from support.footers import read_struct
from support.hudi.small_tables import SmallTable, row
from support.orc_files import message
from support.paimon_typed import cases
from support.sst_files import CODECS, DIALECTS, written
from support.sst_parts import Taken
from text_targets import csv_texts, filters, json_texts, storage_options

import lookupstore
from lookupstore import ColumnarFiles
from lookupstore.columnar.parquet_filter import read_filter
from lookupstore.hostcache.cache import Residency
from lookupstore.hostcache.recode import write_plain
from lookupstore.hudi import HudiTable
from lookupstore.hudi.file_group.bloom import FILTER_KEY, BloomFilter
from lookupstore.hudi.locking.heartbeat import Heartbeats, heartbeat_name
from lookupstore.hudi.locking.owner import Owner
from lookupstore.hudi.locking.places import is_dead, lease_of, shown_owner
from lookupstore.hudi.options import parse_options
from lookupstore.hudi.timeline.avro_file import avro_bytes, read_record
from lookupstore.hudi.timeline.commit import CommitMetadata, WriteStat, commit_bytes, parse_commit
from lookupstore.hudi.timeline.plans import CleanerPlan, parse_plan
from lookupstore.orc.footer import read_footer
from lookupstore.orc.messages import read_message
from lookupstore.parquet.structs import write_struct
from lookupstore.source.reading import check_file
from lookupstore.sst import Reader
from lookupstore.sst.dump import dump_text, layout
from lookupstore.storage.location import Location
from lookupstore.storage.lock_file import LocalLockFile
from lookupstore.storage.read_errors import reading

#: Takes a random number generator, and returns how many of its uses ended with an answer.
Input = Callable[[random.Random], int]

_ROWS = pa.table(
    {
        "id": pa.array(range(400), pa.int64()),
        "text": [f"k{at % 50}" for at in range(400)],
        "price": pa.array(range(400), pa.int32()).cast(pa.decimal128(20, 2)),
        "at": pa.array(range(400), pa.timestamp("us", "UTC")),
        "list": [[at, None] for at in range(400)],
        "struct": [{"a": at, "b": None if at % 2 else "x"} for at in range(400)],
        "map": pa.array([[("a", at)] for at in range(400)], pa.map_(pa.string(), pa.int32())),
        "half": pa.array([1.0] * 400, pa.float16()),
        "flag": [at % 3 == 0 for at in range(400)],
    }
)


def sorted_files(folder: Path) -> Input:
    """Change parts of sorted files under right checksums."""
    seeds = []
    rng = random.Random(0)
    records = sorted(
        {
            bytes(rng.choices(b"\0ab\xff", k=rng.randrange(9))): rng.randbytes(rng.randrange(60))
            for _ in range(120)
        }.items()
    )
    for dialect in DIALECTS:
        for codec in CODECS:
            path = written(folder / f"{dialect}-{codec}", records, dialect=dialect,
                           compression=codec, block_size=300, bloom_fpp=0.1)  # fmt: skip
            seeds.append((Taken(path), codec))
    # A file of a store has schemas among its properties.
    lookupstore.build(_ROWS.select(["id", "text", "price"]), folder / "store", key="id").close()
    (data,) = (folder / "store" / "data").iterdir()
    seeds.append((Taken(data), "none"))
    keys = [key for key, _ in records[::7]] + [b"no", b""]
    path = folder / "input.sst"

    def run(rng: random.Random) -> int:
        taken, codec = rng.choice(seeds)
        content = taken.made(rng, codec)
        path.write_bytes(changed_bytes(content, rng) if rng.random() < 0.1 else content)
        opened = answers([lambda: Reader(path)])
        uses: list[Callable[[], Any]] = [lambda: dump_text(layout(path, records=True))]
        if opened:
            reader = Reader(path)
            uses += [lambda: reader.get(keys[3]), lambda: reader.lookup(keys), reader.verify]
            uses += [lambda: list(reader.scan()), lambda: reader.contains(keys)]
            uses += [lambda: write_plain(reader, str(folder / "plain.sst"))]
        answered = answers(uses)
        (folder / "plain.sst").unlink(missing_ok=True)
        return answered

    return run


def typed_files(folder: Path) -> Input:
    """Change parts of Paimon's typed files under right checksums."""
    seeds = []
    for case in cases():
        codec = case.described["options"]["compression"]
        if codec in CODECS:
            has_row = case.mode not in ("empty", "position")
            types = {
                "key_types": case.key_types,
                "value_types": case.value_types if has_row else None,
                "mode": case.mode,
            }
            table = Reader(case.path, **types).scan().read_all()  # type: ignore[arg-type]
            keys = table.select(case.key_types.names).slice(0, 50)
            seeds.append((Taken(case.path), codec, types, keys))
    path = folder / "input.sst"

    def run(rng: random.Random) -> int:
        taken, codec, types, keys = rng.choice(seeds)
        path.write_bytes(taken.made(rng, codec))
        opened = answers([lambda: Reader(path, **types)])
        if not opened:
            return 0
        reader: Any = Reader(path, **types)
        return opened + answers(
            [lambda: reader.lookup(keys), lambda: reader.scan().read_all(), reader.verify]
        )

    return run


def manifests(folder: Path) -> Input:
    """Change manifests of stores under right hashes."""
    store = folder / "store"
    table = pa.table({"id": range(60), "v": [str(at) for at in range(60)]})
    lookupstore.build(table, store, key="id", buckets=3).close()
    (path,) = (store / "versions").iterdir()
    said = json.loads(path.read_bytes())

    def run(rng: random.Random) -> int:
        fields = changed_json(said, rng)
        if isinstance(fields, dict) and rng.random() < 0.9:
            fields.pop("xxh64", None)
            text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
            fields["xxh64"] = xxhash.xxh64_hexdigest(text.encode())
            path.write_bytes(json.dumps(fields).encode())
        else:
            path.write_bytes(changed_json_text(fields, rng))

        def look() -> None:
            with lookupstore.open(store) as opened:
                opened.lookup([1, 5, 99])
                opened.info().to_json()

        return answers([look])

    return run


def _look_up(path: Path, build: str, residency: Residency) -> None:
    with ColumnarFiles(
        path, key="id", build=build, residency=residency, on_duplicate="last"
    ) as files:
        files.lookup([1, 200, 399, 1000])


def _build(path: Path, store: Path) -> None:
    shutil.rmtree(store, ignore_errors=True)
    lookupstore.build(path, store, key="id", on_duplicate="last").close()


def _columnar(folder: Path, make: Callable[[bytes, random.Random], bytes]) -> Input:
    """Use changed Parquet files in each way that reads some: lookups, builds, Hudi tables."""
    seeds = []
    for options in ({}, {"compression": "zstd", "data_page_version": "2.0"},
                    {"use_dictionary": False, "write_page_index": True, "store_schema": False,
                     "write_page_checksum": True}):  # fmt: skip
        sink = io.BytesIO()
        pq.write_table(_ROWS, sink, row_group_size=150, **options)
        seeds.append(sink.getvalue())
    path = folder / "a.parquet"
    residency = Residency(folder / "local", quota=1 << 30)
    table = SmallTable(folder / "table", 9)
    table.commit("a-0", [row(key, str(key)) for key in range(300)])
    table.commit("b-0", [row(key, str(key)) for key in range(300, 400)])
    (base,) = table.path.glob("a-0*.parquet")
    content = base.read_bytes()
    new = pa.table({"id": pa.array([7, 500], pa.int32()), "value": ["x", "y"]})

    def run(rng: random.Random) -> int:
        if rng.random() < 0.6:
            path.write_bytes(make(rng.choice(seeds), rng))
            return answers(
                [
                    lambda: _look_up(path, "always", residency),
                    lambda: _look_up(path, "never", residency),
                    lambda: _build(path, folder / "store"),
                ]
            )
        base.write_bytes(make(content, rng))
        opened = HudiTable.open(table.path)
        where = (pc.field("id") > 5) & (pc.field("value") < "7")
        return answers(
            [
                opened.scan,
                lambda: opened.scan(filter=where),
                opened.incremental,
                lambda: opened.tag(new),
                lambda: opened.tag(new, index="simple"),
                lambda: opened.upsert(new, dry_run=True),
                opened.verify,
            ]
        )

    return run


def parquet_footers(folder: Path) -> Input:
    """Change fields of Parquet footers."""

    def make(data: bytes, rng: random.Random) -> bytes:
        nbytes = int.from_bytes(data[-8:-4], "little")
        start = len(data) - 8 - nbytes
        if rng.random() < 0.2:
            end = changed_bytes(data[start:-8], rng)
        else:
            end = bytes(write_struct(changed_struct(read_struct(data[start:-8], "", 0), rng)))
        return data[:start] + end + len(end).to_bytes(4, "little") + b"PAR1"

    return _columnar(folder, make)


def parquet_pages(folder: Path) -> Input:
    """Change bytes of Parquet pages and their headers."""

    def make(data: bytes, rng: random.Random) -> bytes:
        out = bytearray(data)
        end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        for _ in range(rng.choice([1, 1, 2, 5])):
            at = rng.randrange(4, end)
            out[at] = rng.choice([out[at] ^ 1 << rng.randrange(8), 0, 0x7F, 0xFF])
        return bytes(out)

    return _columnar(folder, make)


# Messages in the footer of an ORC file, and in that of a stripe.
_IN_FOOTER, _IN_STRIPE = {3, 4, 5}, {1, 2}


def _orc(folder: Path, make: Callable[[bytes, random.Random], bytes]) -> Input:
    """Use changed ORC files in each way that reads some."""
    seeds = []
    # Arrow writes no ORC of these.
    rows = _ROWS.drop_columns(["half"])
    for options in ({}, {"compression": "zlib", "stripe_size": 1000, "batch_size": 100},
                    {"compression": "zstd", "dictionary_key_size_threshold": 1.0},
                    {"compression": "snappy", "file_version": "0.11"},
                    {"compression": "lz4", "compression_block_size": 1 << 18}):  # fmt: skip
        sink = io.BytesIO()
        orc.write_table(rows, sink, **options)
        seeds.append(sink.getvalue())
    path = folder / "a.orc"
    residency = Residency(folder / "local", quota=1 << 30)

    def check() -> None:
        with reading(str(path), "an ORC file", local=True), pa.OSFile(str(path)) as file:
            check_file(file, "orc", str(path))

    def run(rng: random.Random) -> int:
        path.write_bytes(make(rng.choice(seeds), rng))
        return answers(
            [
                check,
                lambda: _look_up(path, "always", residency),
                lambda: _build(path, folder / "store"),
            ]
        )

    return run


def orc_footers(folder: Path) -> Input:
    """Change fields of ORC footers, and of those of stripes."""

    def make(data: bytes, rng: random.Random) -> bytes:
        footer = read_footer(pa.BufferReader(data), "f")
        end = len(data) - 1 - data[-1]
        tail = read_message(data[end:-1])
        nbytes = tail[1][0]
        assert isinstance(nbytes, int)

        def stored(plain: bytes) -> bytes:
            if not footer.compression.kind:
                return plain
            return (len(plain) << 1 | 1).to_bytes(3, "little") + plain

        said = footer.compression.plain(data[end - nbytes : end], 1 << 20)
        out = bytearray(data[: end - nbytes])
        kind = rng.randrange(4)
        if kind == 0:
            # A footer of a stripe that is behind all others, so that it may be longer.
            one = rng.randrange(len(footer.stripes))
            stripe = footer.stripes[one]
            start = stripe.offset + stripe.streams_bytes
            inner = footer.compression.plain(data[start : start + stripe.footer_bytes], 1 << 20)
            inner = stored(changed_message(inner, _IN_STRIPE, rng))
            fields = read_message(said)
            info = read_message(fields[3][one])  # type: ignore[arg-type]
            if one < len(footer.stripes) - 1:
                inner = inner[: stripe.footer_bytes].ljust(stripe.footer_bytes, b"\0")
            info[4] = [len(inner)]
            out[start : start + max(len(inner), stripe.footer_bytes)] = inner
            fields[3][one] = message(_flat(info))
            said = message(_flat(fields))
        elif kind < 3:
            said = changed_message(said, _IN_FOOTER, rng)
        packed = stored(said)
        tail[1] = [len(packed)]
        last = message(_flat(tail))
        if kind == 3:
            last = changed_message(last, set(), rng)
        return bytes(out) + packed + last + bytes([min(255, len(last))])

    return _orc(folder, make)


def _flat(fields: dict[int, list[Any]]) -> list[tuple[int, Any]]:
    return [(field, value) for field, values in fields.items() for value in values]


def orc_streams(folder: Path) -> Input:
    """Change bytes of the streams of ORC, and their runs."""

    def make(data: bytes, rng: random.Random) -> bytes:
        footer = read_footer(pa.BufferReader(data), "f")
        out = bytearray(data)
        stripe = rng.choice(footer.stripes)
        for _ in range(rng.choice([1, 1, 2, 5])):
            at = stripe.offset + rng.randrange(stripe.streams_bytes)
            out[at] = rng.choice([out[at] ^ 1 << rng.randrange(8), 0, 0x7F, 0x80, 0xC0, 0xFF])
        return bytes(out)

    return _orc(folder, make)


def bloom_filters(folder: Path) -> Input:
    """Change Bloom filters of Hudi's footers and of Parquet."""
    keys = pa.array([f"k{at}" for at in range(200)])
    texts = {kind: BloomFilter.of(keys, kind=kind).footer() for kind in ("SIMPLE", "DYNAMIC_V0")}
    stored = {kind: BloomFilter.of(keys, kind=kind).to_bytes() for kind in texts}
    header = b"\x15\x40" + b"\x1c\x1c\x00\x00" * 3 + b"\x00"

    def run(rng: random.Random) -> int:
        kind = rng.choice(list(texts))
        if rng.random() < 0.3:
            text = changed_bytes(texts[kind][FILTER_KEY], rng)
            return answers([lambda: BloomFilter.from_text(text, kind, "f").test(keys)])
        if rng.random() < 0.2:
            data = changed_bytes(header + bytes(32), rng)
            return answers([lambda: read_filter(pa.BufferReader(data), 0, None, len(data))])
        data = bytearray(stored[kind])
        for _ in range(rng.choice([1, 1, 2, 4])):
            # The head of a filter says how to read it.
            at = (
                rng.randrange(min(40, len(data)))
                if rng.random() < 0.7
                else rng.randrange(len(data))
            )
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1 << rng.randrange(8)])
        return answers([lambda: BloomFilter(bytes(data), kind, "f").test(keys)])

    return run


def avro_files(folder: Path) -> Input:
    """Change plans and commits in Avro, and the schemas that they bring along."""
    stat = WriteStat(file_id="f", path="p/f", num_writes=3)
    commit = commit_bytes(CommitMetadata(stats={"p": (stat, stat)}, operation="UPSERT"), 9)
    instant = {"timestamp": "1", "action": "commit", "state": "COMPLETED"}
    plan = avro_bytes(
        "HoodieCleanerPlan",
        {
            "earliestInstantToRetain": instant,
            "policy": "p",
            "filePathsToBeDeletedPerPartition": {"p": [{"filePath": "f"}] * 3},
        },
    )

    names = "HoodieCommitMetadata", "HoodieCleanerPlan"

    def run(rng: random.Random) -> int:
        content = rng.choice([commit, plan])
        if rng.random() < 0.6:
            content = _with_schema(content, lambda schema: changed_json(schema, rng))
        if rng.random() < 0.6:
            content = changed_bytes(content, rng)
        return answers(
            [
                # Each of its fields may be absent, so that all of the file's are passed over.
                lambda: read_record(content, "a", "HoodieRollbackPlan", *names),
                lambda: parse_commit(content, "a"),
                lambda: parse_plan(CleanerPlan, content, "a"),
            ]
        )

    return run


def _with_schema(content: bytes, change: Callable[[Any], Any]) -> bytes:
    """Return an Avro file with another schema."""
    start = content.index(b"avro.schema") + len(b"avro.schema")
    size, at = 0, start
    while True:
        size |= (content[at] & 0x7F) << 7 * (at - start)
        at += 1
        if content[at - 1] < 0x80:
            break
    size >>= 1
    text = json.dumps(change(json.loads(content[at : at + size]))).encode()
    number, digits = len(text) << 1, bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return b"".join((content[:start], bytes([*digits, number]), text, content[at + size :]))


def commits(folder: Path) -> Input:
    """Change JSON of commits, and the schemas in it, in tables of version 6."""
    table = SmallTable(folder / "table", 6)
    table.commit("a-0", [row(1, "one"), row(2, "two")])
    instant = table.commit("b-0", [row(3, "three")])
    path = table.path / ".hoodie" / instant.file_name
    said = json.loads(path.read_bytes())
    schema = json.loads(said["extraMetadata"]["schema"])

    def run(rng: random.Random) -> int:
        commit = said
        if rng.random() < 0.5:
            text = changed_json_text(schema, rng).decode("utf-8", "replace")
            commit = {**said, "extraMetadata": {"schema": text}}
        else:
            commit = changed_json(said, rng)
        content = changed_json_text(commit, rng) if rng.random() < 0.3 else _json(commit)
        path.write_bytes(content)
        uses: list[Callable[[], Any]] = [lambda: parse_commit(content, "a")]
        uses += [lambda: HudiTable.open(table.path).scan(), table.table.file_groups]
        return answers([*uses, lambda: HudiTable.open(table.path).incremental()])

    return run


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def properties(folder: Path) -> Input:
    """Change the options of a table."""
    table = SmallTable(folder / "table", 9)
    table.commit("a-0", [row(1, "one")])
    (path,) = (table.path / ".hoodie").glob("*.properties")
    content = path.read_bytes()

    def run(rng: random.Random) -> int:
        text = changed_bytes(content, rng)
        if rng.random() < 0.3:
            lines = text.split(b"\n")
            rng.shuffle(lines)
            text = b"\n".join(line for line in lines if rng.random() < 0.9)
        if rng.random() < 0.1:
            text += rng.choice([b"\\", b"\\\n", b"\\u12", b"=", b"a\\\n"]) * 2000
        path.write_bytes(text)
        return answers(
            [lambda: parse_options(text, "p"), lambda: HudiTable.open(table.path).scan()]
        )

    return run


def owners(folder: Path) -> Input:
    """Change heartbeats, and locks."""
    location = Location(str(folder))
    said = json.loads(Owner.here().to_json()) | {"lease": 30.0, "renewals": 3}
    said["owner"]["machine"] = "another"
    time = "20260307135657661"
    beat, lock = folder / heartbeat_name(time), folder / "lock"
    beat.parent.mkdir(parents=True)

    def look() -> None:
        seen = LocalLockFile(location, lock.name).look()
        assert seen is not None
        is_dead(seen, 1e9)
        lease_of(seen)
        shown_owner(seen)

    def run(rng: random.Random) -> int:
        content = changed_json_text(said, rng)
        beat.write_bytes(content)
        lock.write_bytes(content)
        hearts = Heartbeats(location)
        return answers([look, lambda: hearts.is_dead(time, 1e12), lambda: hearts.owner(time)])

    return run


TARGETS: dict[str, Callable[[Path], Input]] = {
    one.__name__: one
    for one in (sorted_files, typed_files, manifests, parquet_footers, parquet_pages, orc_footers,
                orc_streams, bloom_filters, avro_files, commits, properties, owners, filters,
                json_texts, csv_texts, storage_options)
}  # fmt: skip
