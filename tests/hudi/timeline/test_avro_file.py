"""What an Avro file may make of a reader: its own schema decides, and is not trusted.

Fields that Hudi's record does not have are passed over, but read: what is in them here must be
no harm, and what comes after them must be right.
"""

from __future__ import annotations

import io
import json
import random
from functools import reduce
from typing import Any

import fastavro
import pytest

from lookupstore.errors import CorruptionError, FormatError
from lookupstore.hudi.timeline.avro_file import MAGIC, _long, avro_bytes, read_record
from lookupstore.hudi.timeline.commit import CommitMetadata, RuntimeStats, WriteStat, commit_bytes
from lookupstore.hudi.timeline.file_schema import checked_schema
from lookupstore.hudi.timeline.records import to_record

MARKER = b"0123456789abcdef"
# Each of its fields may be absent.
PLAN = "HoodieRollbackPlan"
MANY = 1 << 27


def long(number: int) -> bytes:
    """Return a number as Avro has it."""
    number = (number << 1) ^ (number >> 63)
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def text(content: bytes) -> bytes:
    return long(len(content)) + content


def avro(schema: Any, body: bytes, *, codec: bytes | None = None, count: int = 1) -> bytes:
    """Return an Avro file."""
    stored = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    pairs = [text(b"avro.schema") + text(stored)]
    if codec is not None:
        pairs.append(text(b"avro.codec") + text(codec))
    header = long(len(pairs)) + b"".join(pairs) + long(0)
    return b"".join((MAGIC, header, MARKER, long(count), text(body), MARKER))


def read(content: bytes) -> dict[str, Any]:
    return read_record(content, "a.commit", PLAN)


def plan(version: int) -> dict[str, Any]:
    """Return the record that a file has with a `version` only."""
    return {"instantToRollback": None, "RollbackRequests": None, "version": version}


def versioned(*fields: Any) -> dict[str, Any]:
    """Return a plan of fields of these types, and of its version behind them."""
    made = record(*fields)
    made["fields"].append({"name": "version", "type": "int"})
    return made


def record(*fields: Any, name: str = PLAN) -> dict[str, Any]:
    """Return a record of fields of these types."""
    stored = [{"name": f"f{at}", "type": kind} for at, kind in enumerate(fields)]
    return {"type": "record", "name": name, "fields": stored}


def doubled(depth: int, leaf: str = "long") -> Any:
    """Return records of which each has two of the one before: 2 to the power of `depth`."""
    fields: list[Any] = [record(leaf, name="n0")]
    fields += [record(f"n{at}", f"n{at}", name=f"n{at + 1}") for at in range(depth)]
    return record(*fields, name="doubled")


def below(kind: Any, depth: int) -> Any:
    """Return arrays in each other."""
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    return kind


def named_chain(length: int) -> Any:
    """Return types of which each names the one before: no deep text, and a deep value."""
    kinds: list[Any] = [record("long", name="n0")]
    kinds += [record(["null", f"n{at}"], "long", name=f"n{at + 1}") for at in range(length)]
    return record(*([["null", kind] for kind in kinds]), name="chain")


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        # A record that holds itself, in 116 bytes: the end of the stack.
        (record(PLAN), b""),
        (record(["null", {"type": "array", "items": PLAN}]), long(1) + long(1)),
        (record(record(PLAN, name="inner")), b""),
        (record(named_chain(70)), b""),
        (record(below("long", 70)), b""),
        # Much that takes no bytes.
        (record({"type": "array", "items": "null"}), long(MANY) + long(0)),
        (record({"type": "array", "items": record(name="empty")}), long(MANY) + long(0)),
        (record({"type": "array", "items": {"type": "fixed", "name": "x", "size": 0}}), long(MANY)),
        (record({"type": "array", "items": record("null", name="n")}), long(MANY) + long(0)),
        (record("long", "null"), b"\0"),
        (record({"type": "map", "values": record(record("int", name="a"), name="b")}), b"\0"),
        (record({"type": "array", "items": ["null", doubled(3)]}), b"\0"),
        (record(doubled(30)), bytes(64)),
        (record(doubled(30, "null")), b""),
        # Sizes and counts beyond the file.
        (record({"type": "array", "items": "long"}), long(1 << 62) + b"\0"),
        (record({"type": "array", "items": "long"}), long(-(1 << 62)) + long(0) + b"\0"),
        (record({"type": "array", "items": "double"}), long(1 << 62)),
        (record({"type": "array", "items": "boolean"}), long(1 << 62)),
        (record({"type": "array", "items": {"type": "fixed", "name": "x", "size": 2}}), long(MANY)),
        (record("double"), bytes(7)),
        (record({"type": "fixed", "name": "x", "size": 3}), b"ab"),
        (record("string"), long(9) + b"a"),
        (record({"type": "map", "values": "long"}), long(1 << 40)),
        (record("bytes"), long(1 << 62)),
        (record("string"), long(-1) + b"\0"),
        (record({"type": "fixed", "name": "x", "size": 1 << 40}), b"\0"),
        (record({"type": "fixed", "name": "x", "size": -1}), b"\0"),
        # No schema, or no value of it.
        (record("string"), text(b"\xff\xfe")),
        (record(["null", "long"]), long(7)),
        (record({"type": "enum", "name": "e", "symbols": ["A"]}), long(3)),
        (record({"type": "enum", "name": "e", "symbols": []}), long(0)),
        (record("other"), b""),
        (record([]), b""),
        (record({"type": PLAN}), b""),
        (record(["null", ["null", "long"]]), b"\0"),
        ("long", long(1)),
        (b"[" * 100_000, b""),
        (b'{"type": 1' + b"0" * 5000 + b"}", b""),
        (b"\xff\xfe", b""),
        (record("long"), b"\0\0"),
    ],
)
def test_schemas_that_do_harm(schema: Any, body: bytes) -> None:
    with pytest.raises(CorruptionError) as caught:
        read(avro(schema, body))
    assert caught.value.path == "a.commit"
    assert "that of" not in str(caught.value), "the name of the record must not be the reason"


def of_items(*fields: Any) -> Any:
    """Return a record with many records of these fields, each of which may be null."""
    return record({"type": "array", "items": ["null", record(*fields, name="n")]})


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (named_chain(70), "types nested more than 64 deep"),
        (record(below("long", 64)), "types nested more than 64 deep"),
        (reduce(lambda kind, _: {"type": kind}, range(70), "long"), "nested more than 64 deep"),
        (doubled(13), "more than 10000 types"),
        (record(record("long", name="n"), record("long", name="n")), "n, defined twice"),
        (record("r", name="r"), "r, which holds itself"),
        ({**record(name="r"), "fields": record("long")["fields"] * 2}, "r, a record with two"),
        (record(["null", ["int"]]), "a union in a union"),
        (record(["null", {"type": ["int"]}]), "a union in a union"),
        (record("long", "null"), "a field that takes no bytes"),
        (of_items(record(record("int", name="a"), name="b")), "records that take too few bytes"),
        (record({"type": "map", "values": record(record("int", name="a"), name="b")}),
         "map items that take too few bytes"),
        *[(record({"type": "fixed", "name": "x", "size": size}), f"values of {size!r} bytes")
          for size in (0, -1, True, "4", 1.5)],
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_schema(schema: Any, found: str) -> None:
    with pytest.raises(ValueError, match=found):
        checked_schema(schema)


def test_schemas_at_the_bounds() -> None:
    for schema in (named_chain(28), record(below("long", 60)), doubled(10), of_items("int", "int")):
        checked_schema(schema)


def test_a_schema_of_more_than_a_megabyte() -> None:
    wide = versioned() | {"doc": "x" * (1 << 20)}
    with pytest.raises(CorruptionError, match="1048576 bytes"):
        read(avro(wide, b"\0"))
    wide["doc"] = wide["doc"][:1_000_000]
    assert read(avro(wide, b"\0")) == plan(0)


def test_codecs_are_those_of_hudi() -> None:
    assert read(avro(versioned(), b"\4", codec=b"null")) == plan(2)
    for codec in (b"deflate", b"snappy", b"zstandard", b"\xff"):
        with pytest.raises(FormatError, match=r"^a\.commit: the Avro codec"):
            read(avro(versioned(), b"\2", codec=codec))


@pytest.mark.parametrize("count", [0, 2, -1, 1 << 40])
def test_one_record(count: int) -> None:
    with pytest.raises(CorruptionError, match="one Avro record"):
        read(avro(versioned(), b"\2", count=count))


def test_blocks_with_their_bytes_and_what_follows() -> None:
    """A header whose pairs say their bytes is right; a second block, or another marker, is not."""
    stored = text(b"avro.schema") + text(json.dumps(versioned()).encode())
    header = long(-1) + long(len(stored)) + stored + long(0)
    content = MAGIC + header + MARKER + long(1) + text(b"\4") + MARKER
    assert read(content) == plan(2)
    for wrong in (content + long(1), content[:-1] + b"x", content + content[4:]):
        with pytest.raises(CorruptionError):
            read(wrong)


def test_schemas_of_others_are_read() -> None:
    """Logical types, defaults, documents, names in spaces: what they hold is not in the way."""
    inner = {
        "type": "record",
        "name": "b.inner",
        "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "kind", "type": {"type": "enum", "name": "deep", "symbols": ["Z"]}},
        ],
    }
    schema = {
        "type": "record",
        "name": PLAN,
        "namespace": "a",
        "doc": "of a later version",
        "fields": [
            {"name": "one", "type": ["null", inner], "default": None},
            {"name": "two", "type": {"type": "map", "values": ["null", "b.inner"]}},
            {"name": "kind", "type": {"type": "enum", "name": "k", "symbols": ["X", "Y"]}},
            {"name": "same", "type": "k", "default": "X"},
            {"name": "other", "type": "b.deep"},
            {"name": "hash", "type": {"type": "fixed", "name": "h", "size": 2}},
            {"name": "version", "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    value = {
        "one": {"at": 5, "kind": "Z"},
        "two": {"x": {"at": 6, "kind": "Z"}, "y": None},
        "other": "Z",
        "kind": "Y",
        "same": "X",
        "hash": b"ab",
        "version": 7,
    }
    body = io.BytesIO()
    stored = fastavro.parse_schema(checked_schema(schema))
    fastavro.schemaless_writer(body, stored, value)
    body.seek(0)
    assert fastavro.schemaless_reader(body, stored, None) == value
    assert read(avro(schema, body.getvalue())) == plan(7)


def test_what_we_write_is_read_as_fastavro_reads_it() -> None:
    stat = WriteStat(file_id="f", runtime_stats=RuntimeStats(1, 2, 3), cdc_stats={"x": 1})
    metadata = CommitMetadata(stats={"p": (stat, stat)}, extra_metadata={"a": "ä"})
    content = commit_bytes(metadata, 9)
    (said,) = fastavro.reader(io.BytesIO(content))
    assert read_record(content, "a", "HoodieCommitMetadata") == said
    assert said["partitionToWriteStats"]["p"][0] == to_record(stat)


@pytest.mark.parametrize("size", [0, 63, 64, 8127, 8128, 8191, 8192, 1 << 20])
def test_sizes_are_written_in_as_few_bytes_as_others_write(size: int) -> None:
    stored = io.BytesIO()
    fastavro.schemaless_writer(stored, "long", size)
    assert _long(size) == stored.getvalue()


def test_changed_files_are_errors_of_ours(seed: int) -> None:
    """Any bytes are a record or a `CorruptionError` with the path, for text and numbers changed."""
    chosen = random.Random(seed)
    instant = {"timestamp": "1", "action": "commit", "state": "COMPLETED"}
    content = avro_bytes(
        "HoodieCleanerPlan",
        {
            "earliestInstantToRetain": instant,
            "policy": "p",
            "filePathsToBeDeletedPerPartition": {"p": [{"filePath": "f"}] * 3},
        },
    )
    answered = 0
    told = []
    for _ in range(800):
        changed = bytearray(content)
        for _ in range(chosen.randint(1, 4)):
            at = chosen.randrange(4, len(changed))
            if chosen.random() < 0.5:
                changed[at] = chosen.randrange(256)
            else:
                changed[at : at + chosen.randrange(4)] = chosen.randbytes(chosen.randrange(4))
        try:
            read_record(bytes(changed), "broken", "HoodieCleanerPlan")
            answered += 1
        except (CorruptionError, FormatError) as error:
            told.append(str(error))
    assert answered > 8
    assert len(told) > 80
    assert all(one.startswith("broken") for one in told)
