"""Records of other versions of Hudi: each is read as fastavro resolves it, or is an error."""

from __future__ import annotations

import dataclasses
import importlib.resources
import io
import json
import random
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lookupstore.errors import CorruptionError
from lookupstore.hudi.timeline.avro_file import MAGIC, read_record
from lookupstore.hudi.timeline.commit import CommitMetadata, WriteStat, parse_commit
from lookupstore.hudi.timeline.plans import (
    SCHEMA_NAMES,
    CleanerPlan,
    CleanFile,
    RequestedReplace,
    RollbackMetadata,
    RollbackPlan,
    SavepointMetadata,
    parse_plan,
)

MARKER = b"0123456789abcdef"
COMMIT = "HoodieCommitMetadata"
REPLACE = "HoodieReplaceCommitMetadata"
AVRO = importlib.resources.files("lookupstore.hudi.timeline") / "avro"
SCHEMAS = {
    one.name.removesuffix(".avsc"): json.loads(one.read_text(encoding="utf-8"))
    for one in AVRO.iterdir()
    if one.name.endswith(".avsc")
}
SCALARS = ["boolean", "int", "long", "float", "double", "string", "bytes"]
# Of which types values can become one of Hudi's.
NARROWER = {
    "long": ["long", "int"],
    "double": ["double", "float", "long", "int"],
    "string": ["string", "bytes"],
}


def varint(number: int) -> bytes:
    digits = bytearray()
    number <<= 1
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def avro(schema: Any, body: bytes) -> bytes:
    """Return an Avro file of one record, whose bytes are given."""
    text = json.dumps(schema).encode()
    header = varint(1) + varint(11) + b"avro.schema" + varint(len(text)) + text + varint(0)
    return b"".join((MAGIC, header, MARKER, varint(1), varint(len(body)), body, MARKER))


def body_of(schema: Any, value: Any) -> bytes:
    """Return a record as fastavro writes it."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return body.getvalue()


def written(schema: Any, value: Any) -> bytes:
    return avro(schema, body_of(schema, value))


def hudi(name: str) -> Any:
    """Return a schema of Hudi's that a test may change."""
    return json.loads(json.dumps(SCHEMAS[name]))


def field(schema: Any, name: str) -> Any:
    return next(one for one in schema["fields"] if one["name"] == name)


def without(schema: Any, *names: str) -> Any:
    fields = [one for one in schema["fields"] if one["name"] not in names]
    return {**schema, "fields": fields}


def exact(value: Any) -> str:
    """Return a value as text in which 1, 1.0 and True differ."""
    return json.dumps(value, sort_keys=True)


def _is_record(given: Any) -> bool:
    """Return whether a type is a record, or the name of a type, which may be one."""
    if isinstance(given, str):
        return given not in (*SCALARS, "null")
    return isinstance(given, dict) and given["type"] == "record"


class Evolution:
    """Schemas as other versions of Hudi could have them, and values of theirs."""

    def __init__(self, chosen: random.Random) -> None:
        self._chosen = chosen
        self._names = 0

    def of(self, given: Any) -> Any:
        """Return a type from which values can become those of the given one."""
        chosen = self._chosen
        if isinstance(given, list):
            return self._union(given)
        if isinstance(given, str):
            return chosen.choice(NARROWER.get(given, [given]))
        if given["type"] == "array":
            return {"type": "array", "items": self.of(given["items"])}
        if given["type"] == "map":
            return {"type": "map", "values": self.of(given["values"])}
        if given["type"] != "record":
            return {"type": chosen.choice(NARROWER.get(given["type"], [given["type"]]))}
        fields = [
            {"name": one["name"], "type": self.of(one["type"])}
            for one in given["fields"]
            if "default" not in one or chosen.random() < 0.8
        ]
        # Many records of fewer bytes than two are none that are read, those inside not counted.
        while sum(not _is_record(one["type"]) for one in fields) < 2 or chosen.random() < 0.5:
            at = chosen.randrange(len(fields) + 1)
            fields.insert(at, {"name": self._name("new"), "type": self.any(2)})
        if chosen.random() < 0.5:
            chosen.shuffle(fields)
        return {**given, "fields": fields}

    def any(self, depth: int) -> Any:
        """Return a type that Hudi's record does not have."""
        kind = self._chosen.choice([*SCALARS, "array", "map", "union", "record", "enum", "fixed"])
        if kind in SCALARS or depth == 0:
            return kind if kind in SCALARS else "long"
        if kind == "array":
            return {"type": kind, "items": self.any(depth - 1)}
        if kind == "map":
            return {"type": kind, "values": self.any(depth - 1)}
        if kind == "union":
            return ["null", self._chosen.choice(SCALARS)]
        made = {"type": kind, "name": self._name("kind")}
        if kind == "record":
            fields = [{"name": f"f{at}", "type": self.any(depth - 1)} for at in range(3)]
            return {**made, "fields": [*fields, {"name": "long", "type": "double"}]}
        return {**made, **({"symbols": ["A", "B"]} if kind == "enum" else {"size": 3})}

    def value(self, given: Any, named: dict[str, Any]) -> Any:
        """Return a value of a type."""
        chosen = self._chosen
        if isinstance(given, str) and given in named:
            given = named[given]
        if isinstance(given, list):
            return self.value(chosen.choice(given), named)
        kind = given["type"] if isinstance(given, dict) else given
        if kind == "array":
            return [self.value(given["items"], named) for _ in range(chosen.randrange(3))]
        if kind == "map":
            return {
                f"k{at}": self.value(given["values"], named) for at in range(chosen.randrange(3))
            }
        if kind == "record":
            return {one["name"]: self.value(one["type"], named) for one in given["fields"]}
        return {
            "null": None,
            "boolean": chosen.random() < 0.5,
            "int": chosen.randrange(-(1 << 31), 1 << 31),
            "long": chosen.randrange(-(1 << 63), 1 << 63),
            "float": float(chosen.randrange(100)),
            "double": chosen.random(),
            "string": chosen.choice(["", "a", "ä" * 70]),
            "bytes": chosen.choice([b"", b"a", b"\xff" if chosen.random() < 0.2 else b"b" * 70]),
            "enum": "B",
            "fixed": b"abc",
        }[kind]

    def _union(self, given: list[Any]) -> Any:
        """Return a union of null and a type, with more types, in another order, or only that."""
        if self._chosen.random() < 0.1:
            return self.of(next(one for one in given if one != "null"))
        made = [self.of(one) for one in given]
        if self._chosen.random() < 0.3:
            kinds = {one["type"] if isinstance(one, dict) else one for one in made}
            # Of those that Python has one type for, a file of Hudi's has one.
            others = [["int", "long"], ["float", "double"], ["string"], ["bytes"], ["boolean"]]
            more = [one for one in others if not kinds & set(one)]
            made.append(self._chosen.choice(self._chosen.choice(more)))
        if self._chosen.random() < 0.5:
            self._chosen.shuffle(made)
        return made

    def _name(self, what: str) -> str:
        self._names += 1
        return f"{what}{self._names}"


@pytest.mark.few(4)
@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_random_schemas_are_resolved_as_fastavro_does(name: str, seed: int) -> None:
    chosen = random.Random(f"{seed}:{name}")
    wanted = fastavro.parse_schema(hudi(name))
    read = refused = 0
    for attempt in range(3000):
        # Of a schema of many records few are such that all of a value is right.
        if attempt >= 60 and read > 5:
            break
        evolution = Evolution(chosen)
        schema = evolution.of(hudi(name))
        named: dict[str, Any] = {}
        try:
            stored = fastavro.parse_schema(schema, named)
        except fastavro.schema.UnknownType:
            continue  # a name that is now before what it names
        body = body_of(schema, evolution.value(stored, named))
        try:
            expected = exact(fastavro.schemaless_reader(io.BytesIO(body), stored, wanted))
        except (fastavro.read.SchemaResolutionError, UnicodeDecodeError):
            with pytest.raises(CorruptionError, match=rf"^p: .*{name}"):
                read_record(avro(schema, body), "p", name)
            refused += 1
            continue
        assert exact(read_record(avro(schema, body), "p", name)) == expected, json.dumps(schema)
        read += 1
    assert read > 5, (read, refused)


def test_real_files_are_resolved_as_fastavro_does(
    real_tables: Path, merge_on_read_tables: Path
) -> None:
    """Also those of other actions and of metadata tables, as long as they are of our records."""
    counts: dict[str, int] = {}
    for folder in (real_tables, merge_on_read_tables):
        for path in sorted(folder.rglob("2*")):
            content = path.read_bytes() if path.is_file() else b""
            if not content.startswith(MAGIC):
                continue
            name = fastavro.reader(io.BytesIO(content)).writer_schema["name"].rpartition(".")[2]
            if name in SCHEMAS:
                wanted = fastavro.parse_schema(hudi(name))
                (expected,) = fastavro.reader(io.BytesIO(content), wanted)
                assert read_record(content, str(path), name) == expected
                counts[name] = counts.get(name, 0) + 1
    assert sorted(counts) == [COMMIT, REPLACE, "HoodieRequestedReplaceMetadata"]
    assert counts[COMMIT] > 100


def fields_match(kind: Any, given: Any, named: dict[str, Any]) -> bool:
    """Return whether every value of a type of Avro is one of an annotation."""
    if isinstance(given, str):
        given = named.get(given, given)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(given, list):
        assert origin in (types.UnionType, typing.Union), (kind, given)
        (kind,) = (one for one in arguments if one is not type(None))
        return all(one == "null" or fields_match(kind, one, named) for one in given)
    name = given["type"] if isinstance(given, dict) else given
    if origin in (types.UnionType, typing.Union):  # more than the file can say
        (kind,) = (one for one in arguments if one is not type(None))
        return fields_match(kind, given, named)
    if name == "array":
        return origin is tuple and fields_match(arguments[0], given["items"], named)
    if name == "map":
        return issubclass(origin, Mapping) and fields_match(arguments[1], given["values"], named)
    if name == "record":
        named[given["name"]] = given
        hints = typing.get_type_hints(kind)
        known = {}
        for one in dataclasses.fields(kind):
            first, *others = one.name.split("_")
            camel = first + "".join(part.capitalize() for part in others)
            known[one.metadata.get("stored", camel)] = hints[one.name]
        # What a record of Avro has, so that each field that a class needs is there.
        assert known.keys() == {one["name"] for one in given["fields"]}, given["name"]
        return all(fields_match(known[one["name"]], one["type"], named) for one in given["fields"])
    plain = {"boolean": bool, "int": int, "long": int, "double": float, "string": str}
    return plain[name] is kind


@pytest.mark.parametrize(("kind", "name"), [(CommitMetadata, REPLACE), *SCHEMA_NAMES.items()])
def test_classes_have_the_fields_and_types_of_hudi(kind: type, name: str) -> None:
    """So that a record which is Hudi's is one of the class, and nothing needs to be checked."""
    assert fields_match(kind, hudi(name), {})


def test_a_commit_is_read_as_one_that_replaces_nothing() -> None:
    commit = hudi(COMMIT)
    assert parse_commit(written(commit, {}), "c").replaced is None
    extra = {"name": "partitionToReplaceFileIds", "type": field(hudi(REPLACE), "version")["type"]}
    extra["type"] = {"type": "map", "values": {"type": "array", "items": "string"}}
    commit["fields"].append(extra)
    said = parse_commit(written(commit, {"partitionToReplaceFileIds": {"p": ["a-0"]}}), "c")
    assert said.replaced == {"p": ("a-0",)}


def test_a_version_with_other_fields() -> None:
    """Fields of a later version are passed over, those of ours get the defaults of Avro."""
    schema = without(hudi(COMMIT), "compacted", "version")
    stat = field(schema, "partitionToWriteStats")["type"][1]["values"]["items"]
    stat["name"] = "WriteStatOfLater"
    stat["fields"] = [
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "fileId", "type": "string"},
        {"name": "numWrites", "type": "int"},
        {"name": "more", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
    ]
    schema["fields"].insert(0, {"name": "level", "type": ["null", "Level"]})
    schema["fields"][0]["type"][1] = {"type": "enum", "name": "Level", "symbols": ["LOW", "HIGH"]}
    stats = [{"hash": b"abcd", "fileId": "f-0", "numWrites": 3, "more": {"a": [1.0, 2.0]}}] * 2
    value = {"level": "HIGH", "partitionToWriteStats": {"p": stats}, "operationType": "INSERT"}
    said = parse_commit(written(schema, value), "c")
    absent = {one.name: None for one in dataclasses.fields(WriteStat)}
    stat_said = WriteStat(**{**absent, "file_id": "f-0", "num_writes": 3})
    assert said.stats == {"p": (stat_said, stat_said)}
    assert (said.operation, said.compacted, said.version) == ("INSERT", None, 1)


def test_a_default_is_of_each_record_alone() -> None:
    schema = without(hudi("HoodieRollbackMetadata"), "instantsRollback")
    value = {
        "startRollbackTime": "1", "timeTakenInMillis": 1, "totalFilesDeleted": 0,
        "commitsRollback": [], "partitionMetadata": {},
    }  # fmt: skip
    content = written(schema, value)
    first = read_record(content, "r", "HoodieRollbackMetadata")
    assert first["instantsRollback"] == []
    first["instantsRollback"].append("changed by who has it")
    assert read_record(content, "r", "HoodieRollbackMetadata")["instantsRollback"] == []
    assert parse_plan(RollbackMetadata, content, "r").instants_rollback == ()


def with_type(name: str, path: str, kind: Any) -> Any:
    """Return a schema of Hudi's in which one field has another type."""
    schema = hudi(name)
    at: Any = schema
    *parents, last = path.split(".")
    for one in parents:
        at = field(at, one)["type"]
        while "fields" not in at:
            at = at[1] if isinstance(at, list) else at.get("items", at.get("values"))
    at["fields"] = [
        {"name": last, "type": kind} if one["name"] == last else one for one in at["fields"]
    ]
    return schema


LONGS = {"type": "array", "items": "long"}
ENUM = {"type": "enum", "name": "Operation", "symbols": ["UPSERT"]}
FIXED = {"type": "fixed", "name": "Operation", "size": 9}
BOOLEANS = {"type": "map", "values": "boolean"}
STATS = {"type": "record", "name": "Stats", "fields": [
    {"name": "a", "type": "long"}, {"name": "b", "type": "long"}]}  # fmt: skip
ROLLBACK = {
    "startRollbackTime": "1", "timeTakenInMillis": 1, "totalFilesDeleted": 0, "commitsRollback": [],
    "partitionMetadata": {}, "instantsRollback": [],
}  # fmt: skip


def of_stat(**fields: Any) -> Any:
    return {"partitionToWriteStats": {"p": [fields]}}


@pytest.mark.parametrize(
    ("name", "path", "given", "value", "found"),
    [
        (COMMIT, "compacted", "string", {"compacted": "a"}, "compacted is of the type string, not"),
        (COMMIT, "version", "long", {"version": 1}, "version is of the type long, not int"),
        (COMMIT, "version", "boolean", {"version": True}, "is of the type boolean, not int"),
        (COMMIT, "partitionToWriteStats.numWrites", "double", of_stat(numWrites=1.0),
         r"Metadata\.partitionToWriteStats\.numWrites is of the type double, not long"),
        (COMMIT, "partitionToWriteStats.numWrites", ["double", "string"], of_stat(numWrites="a"),
         r"\.partitionToWriteStats\.numWrites is of the type string, not long"),
        (COMMIT, "partitionToWriteStats.logFiles", LONGS, of_stat(logFiles=[]),
         r"\.logFiles is of the type long, not string"),
        (COMMIT, "partitionToWriteStats", STATS, {"partitionToWriteStats": {"a": 1, "b": 2}},
         "partitionToWriteStats is of the type record, not map"),
        (COMMIT, "extraMetadata", BOOLEANS, {"extraMetadata": {}},
         "extraMetadata is of the type boolean, not string"),
        (COMMIT, "operationType", ENUM, {"operationType": "UPSERT"}, "type enum, not string"),
        (COMMIT, "operationType", FIXED, {"operationType": b"123456789"}, "type fixed, not string"),
        (COMMIT, "version", ["int", "long", "null"], {"version": 1}, "cannot be told apart"),
        (COMMIT, "operationType", ["null", "string", ENUM], {"operationType": None},
         "operationType has types that cannot be told apart"),
        ("HoodieRollbackMetadata", "commitsRollback", "string", ROLLBACK | {"commitsRollback": "a"},
         "commitsRollback is of the type string, not array"),
        ("HoodieRollbackMetadata", "partitionMetadata", LONGS, ROLLBACK | {"partitionMetadata": []},
         "partitionMetadata is of the type array, not map"),
        ("HoodieRollbackMetadata", "totalFilesDeleted", "null",
         ROLLBACK | {"totalFilesDeleted": None}, "a field that takes no bytes"),
        ("HoodieRollbackPlan", "instantToRollback.commitTime", ["null", "long"],
         {"instantToRollback": {"commitTime": 5, "action": "commit"}},
         r"instantToRollback\.commitTime is of the type long, not string"),
        ("HoodieRollbackPlan", "instantToRollback.commitTime", ["null", "string"],
         {"instantToRollback": {"commitTime": None, "action": "commit"}},
         r"instantToRollback\.commitTime is of the type null, not string"),
    ],
)  # fmt: skip
def test_fields_that_cannot_be_those_of_hudi(
    name: str, path: str, given: Any, value: Any, found: str
) -> None:
    content = written(with_type(name, path, given), value)
    with pytest.raises(CorruptionError, match=rf"^f: .*{name}.*{found}"):
        read_record(content, "f", name)


@pytest.mark.parametrize("kind", ["int", "long", "float", "double"])
def test_numbers_are_widened(kind: str) -> None:
    path = "clusteringPlan.inputGroups.metrics"
    schema = with_type("HoodieRequestedReplaceMetadata", path, {"type": "map", "values": kind})
    groups = [{"metrics": {"a": 3}, "numOutputFileGroups": 1}]
    content = written(schema, {"clusteringPlan": {"inputGroups": groups}})
    said = read_record(content, "r", "HoodieRequestedReplaceMetadata")
    (group,) = said["clusteringPlan"]["inputGroups"]
    assert exact(group["metrics"]) == '{"a": 3.0}'


def test_a_value_of_a_type_that_is_not_hudis() -> None:
    """A field may have more types than Hudi's, as long as no value is of those."""
    schema = with_type(COMMIT, "version", ["null", "int", "string"])
    for value in (None, 5):
        assert parse_commit(written(schema, {"version": value}), "c").version == value
    with pytest.raises(CorruptionError, match=r"^c: .*version is of the type string, not int"):
        parse_commit(written(schema, {"version": "5"}), "c")
    schema = with_type(COMMIT, "operationType", "bytes")
    assert parse_commit(written(schema, {"operationType": "é".encode()}), "c").operation == "é"
    with pytest.raises(CorruptionError, match=r"^c: .*operationType is no text in UTF-8"):
        parse_commit(written(schema, {"operationType": b"\xff"}), "c")


def test_fields_that_must_be_there() -> None:
    schema = without(hudi("HoodieSavepointMetadata"), "partitionMetadata")
    value = {"savepointedBy": "a", "savepointedAt": 1, "comments": ""}
    with pytest.raises(CorruptionError, match="HoodieSavepointMetadata has no field partitionMeta"):
        parse_plan(SavepointMetadata, written(schema, value), "s")


def test_a_record_of_another_name() -> None:
    """Most records would be another's with no field at all, and so an empty plan."""
    content = written(hudi(COMMIT), {"operationType": "UPSERT"})
    for kind in (RequestedReplace, RollbackPlan, CleanerPlan):
        with pytest.raises(
            CorruptionError, match=rf"^w: .*{SCHEMA_NAMES[kind]}.*that of .*{COMMIT}"
        ):
            parse_plan(kind, content, "w")
    with pytest.raises(CorruptionError, match=rf"^w: .*{REPLACE}.*that of .*HoodieRollbackPlan"):
        parse_commit(written(hudi("HoodieRollbackPlan"), {}), "w")
    # Where it is named is of no interest.
    moved = {**hudi(COMMIT), "namespace": "com.uber.hoodie.avro.model"}
    assert parse_commit(written(moved, {"operationType": "UPSERT"}), "w").operation == "UPSERT"


def test_a_clean_of_an_older_version() -> None:
    """A record in arrays in a map in a union has defaults as well."""
    schema = without(hudi("HoodieCleanerPlan"), "partitionsToBeDeleted", "version")
    info = field(schema, "filePathsToBeDeletedPerPartition")["type"][1]["values"]["items"]
    info["fields"][1] = {"name": "size", "type": "long"}
    files = {"p": [{"filePath": "f", "size": 5}]}
    value = {"policy": "p", "filePathsToBeDeletedPerPartition": files}
    plan = parse_plan(CleanerPlan, written(schema, value), "c")
    assert plan.files == {"p": (CleanFile("f", None),)}
    assert (plan.version, plan.partitions_to_be_deleted) == (1, None)
