"""Paimon's lookup files as typed keys and rows: those that Java wrote, and ours."""

from __future__ import annotations

import inspect
import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.paimon_typed import KINDS, Typed, cases, comparable

from lookupstore.errors import ClosedError, CorruptionError
from lookupstore.sst import Reader, Writer
from lookupstore.sst.dump import layout
from lookupstore.sst.writer import Writer as WriterClass

ALL = cases()
by_case = pytest.mark.parametrize("case", ALL, ids=[case.name for case in ALL])

#: Files that our writer does not make byte for byte, by the reason.
NOT_REPRODUCED = {
    "value-deep-0.9": "a null in a row in an array keeps room since Paimon 1.2, and in ours",
}


def types_of(case: Typed) -> dict[str, Any]:
    has_row = case.mode not in ("empty", "position")
    return {
        "key_types": case.key_types,
        "value_types": case.value_types if has_row else None,
        "mode": case.mode,
    }


def opened(case: Typed, path: Path | None = None) -> Any:
    return Reader(path or case.path, **types_of(case))


def in_rows(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    columns = [
        pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
        for column in table.columns
    ]
    names = table.schema.names
    return [
        dict(zip(names, row, strict=True)) for row in zip(*map(comparable, columns), strict=True)
    ]


def values_of(case: Typed) -> list[dict[str, Any]]:
    """Return the columns that the JSON beside a fixture says its values have."""
    rows: list[dict[str, Any]] = [{} for _ in case.rows]
    if case.mode not in ("empty", "position"):
        rows = case.value_rows()
    for row, said in zip(rows, case.rows, strict=True):
        if "position" in case.mode:
            row["_POSITION"] = said["position"]
        if "value" in case.mode:
            row["_SEQUENCE_NUMBER"] = said["sequence"]
            row["_VALUE_KIND"] = KINDS[said["kind"]]
    return rows


@by_case
def test_scan(case: Typed) -> None:
    reader = opened(case)
    table = reader.scan().read_all()
    table.validate(full=True)
    assert table.schema == reader.schema
    assert in_rows(table.select(case.key_types.names)) == case.key_rows()
    values = table.drop_columns(case.key_types.names)
    expected = values_of(case)
    assert (in_rows(values) or [{}] * len(table)) == expected
    assert len(reader) == len(case.rows)
    assert in_rows(reader.scan(reverse=True).read_all()) == in_rows(table)[::-1]


@by_case
def test_look_up(case: Typed) -> None:
    rng = random.Random(case.name)
    reader = opened(case)
    table = reader.scan().read_all()
    keys, values = table.select(case.key_types.names), table.drop_columns(case.key_types.names)
    order = rng.choices(range(len(table)), k=2 * len(table))
    answers = reader.lookup(keys.take(order))
    assert answers.num_rows == len(order)
    assert in_rows(answers) == in_rows(values.take(order))
    assert reader.contains(keys).true_count == len(keys)
    # By each key alone, in a file that was just opened: every path of a search.
    for at in rng.sample(range(len(keys)), 40):
        found = opened(case).lookup(keys.slice(at, 1))
        assert in_rows(found) == in_rows(values.slice(at, 1))

    # Every second record away: those keys are missing, whichever are beside them.
    path = Path("half.sst")
    with Writer(path, dialect="paimon", block_size=300, **types_of(case)) as writer:
        half = [at for at in range(len(table)) if at % 2]
        writer.put_many(keys.take(half), values.take(half) if values.num_columns else None)
    there = opened(case, path)
    there.verify()
    assert there.contains(keys).to_pylist() == [at % 2 == 1 for at in range(len(table))]
    gaps = there.lookup(keys)
    for name in gaps.schema.names:
        assert all(gaps[name][at].as_py() is None for at in range(0, len(table), 2))
    path.unlink()


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@by_case
def test_ranges(case: Typed) -> None:
    """A scan from one key to another is what lies between them in the file."""
    rng = random.Random(case.name)
    reader = opened(case)
    table = reader.scan().read_all()
    keys = table.select(case.key_types.names)
    for _ in range(10):
        low, high = sorted(rng.sample(range(1, len(table)), 2))
        start, stop = (tuple(column[at].as_py() for column in keys.columns) for at in (low, high))
        reverse = rng.random() < 0.5
        found = reader.scan(start=start, stop=stop, reverse=reverse).read_all()
        assert in_rows(found) == in_rows(table)[low:high][:: -1 if reverse else 1]


def written(case: Typed, path: Path) -> bytes:
    """Write the rows of a fixture again, with the options that Java had, and return the file."""
    options = case.described["options"]
    table = opened(case).scan().read_all()
    values = table.drop_columns(case.key_types.names)
    with Writer(
        path,
        dialect="paimon",
        block_size=options["block_size"],
        compression=options["compression"],
        level=options["zstd_level"] if options["compression"] == "zstd" else None,
        bloom_fpp=options["bloom_fpp"],
        expected_entries=options["bloom_entries"] or None,
        **types_of(case),
    ) as writer:
        for start in range(0, len(table), 100):
            piece = values.slice(start, 100) if values.num_columns else None
            writer.put_many(table.select(case.key_types.names).slice(start, 100), piece)
    assert in_rows(opened(case, path).scan().read_all()) == in_rows(table)
    return path.read_bytes()


@by_case
def test_same_bytes_as_java(case: Typed) -> None:
    same = written(case, Path("again.sst")) == case.path.read_bytes()
    assert same == (case.name not in NOT_REPRODUCED)


def test_which_files_have_the_bytes_of_java() -> None:
    """The list is printed: ``pytest -rP -k which_files_have_the_bytes_of_java``."""
    same = [c.name for c in ALL if written(c, Path(f"{c.name}.sst")) == c.path.read_bytes()]
    print(f"{len(same)} of {len(ALL)} files are the same, byte for byte: {', '.join(same)}")
    for name, reason in NOT_REPRODUCED.items():
        print(f"{name} is not: {reason}")
    assert sorted([*same, *NOT_REPRODUCED]) == sorted(case.name for case in ALL)


def test_why_a_file_of_an_old_release_is_not_the_same() -> None:
    """Its rows make the file of the newer release, but for the room of nulls in rows in arrays."""
    old, new = case_named("value-deep-0.9"), case_named("value-deep")
    assert old.key_rows() == new.key_rows() and old.value_rows() == new.value_rows()  # noqa: PT018
    assert written(old, Path("new.sst")) == new.path.read_bytes()
    room = {"f14": 16, "f16": 8, "f17": 8}  # DECIMAL(38, 18), TIMESTAMP(9), TIMESTAMP(6)
    longer = 0
    for row, before, after in zip(old.rows, old.values, new.values, strict=True):
        rows = [one for one in row["value"].get("v0") or () if one is not None]
        expected = sum(size for one in rows for name, size in room.items() if one.get(name) is None)
        assert (before == after) == (expected == 0)
        # The length of an array that has grown may need one more byte.
        assert len(after) - len(before) - expected in (0, 1)
        longer += expected > 0
    assert 0 < longer < len(old.rows)


@by_case
def test_dump_and_verify(case: Typed) -> None:
    reader = opened(case)
    info = reader.verify()
    assert info.num_records == len(case.rows)
    assert info.order.startswith("row(")
    assert (info.min_key, info.max_key) == (case.keys[0], case.keys[-1])
    assert layout(case.path, info.order).ok
    # The same file as bytes, in the order that the types have.
    with Reader(case.path, order=info.order) as plain:
        assert list(plain.items()) == list(zip(case.keys, case.values, strict=True))
        assert plain.lookup(case.keys).to_pylist() == case.values


def case_named(name: str) -> Typed:
    return next(case for case in ALL if case.name == name)


def test_one_key() -> None:
    reader = opened(case_named("mode-position-and-value"))
    key, value = next(iter(reader.items()))
    assert reader.get(key) == reader.get(tuple(key.values())) == value
    assert list(value)[-3:] == ["_POSITION", "_SEQUENCE_NUMBER", "_VALUE_KIND"]
    assert reader.get((key["k0"], "nothing like it")) is None
    assert reader.get((key["k0"], "nothing like it"), 7) == 7
    assert key in reader and (0, "x") not in reader  # noqa: PT018
    assert reader.get((None, "x")) is None  # a null where none may be is nowhere
    assert next(iter(reader)) == key
    again = pickle.loads(pickle.dumps(reader))
    assert again.get(key) == value
    reader.close()
    with pytest.raises(ClosedError):
        reader.get(key)
    single = opened(case_named("key-int"))
    number = next(iter(single.items()))[0]["k0"]
    assert single.get(number) == single.get({"k0": number})
    found = single.lookup([number, 123456])
    assert [one["_VALUE_KIND"] is None for one in found.to_pylist()] == [False, True]


def test_wrong_types_are_seen() -> None:
    case = case_named("mode-value")
    with pytest.raises(CorruptionError, match="a key that is not a row of the fields"):
        Reader(case.path, key_types=pa.schema([("a", pa.int32())]), mode="empty")
    for types, mode in (
        (case.value_types, "row"),
        (pa.schema([("a", pa.int64())]), "value"),
        (None, "empty"),
        (None, "position"),
    ):
        reader = Reader(case.path, key_types=case.key_types, value_types=types, mode=mode)
        table = opened(case).scan().read_all().select(case.key_types.names)
        with pytest.raises(CorruptionError, match="a value of the given types and mode") as raised:
            reader.lookup(table.slice(300, 20))
        assert raised.value.path == str(case.path)
        offsets = [region.offset for region in layout(case.path, reader.info().order).regions]
        assert raised.value.offset in offsets[1:]
        with pytest.raises(CorruptionError, match="a value of the given types and mode"):
            reader.scan().read_all()


def test_bad_arguments() -> None:
    path, ids = case_named("key-int").path, pa.schema([("k0", pa.int32())])
    for arguments, message in (
        ({"key_types": ids}, "mode='value' needs value_types="),
        ({"key_types": ids, "mode": "all"}, "mode must be one of 'value', .*, not 'all'"),
        ({"key_types": ids, "mode": "empty", "order": "int32"}, "give order= or key_types="),
        ({"value_types": ids}, "value_types= goes with key_types="),
        ({"key_types": ids, "value_types": ids}, "call that of the key '_KEY_k0'"),
        ({"order": "row(int33)"}, "a field is one of bool, .*, not 'int33'"),
        ({"order": "row(" + "int8," * 130 + "int8)"}, "131 fields; 120 are the most"),
    ):
        with pytest.raises(ValueError, match=message):
            Reader(path, **arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no key has such a field"):
        Reader(path, key_types=pa.schema([("a", pa.list_(pa.int8()))]), mode="empty")
    with pytest.raises(ValueError, match="key_types= is for dialect='paimon'"):
        Writer("x.sst", key_types=ids, mode="empty")
    with pytest.raises(ValueError, match="value_types= goes with key_types="):
        Writer("x.sst", value_types=ids)
    reader = Reader(path, key_types=ids, mode="empty")
    with pytest.raises(TypeError, match="keys is str; give a pyarrow table"):
        reader.lookup("seven")
    with pytest.raises(KeyError, match="no single column 'k0'"):
        reader.lookup({"k1": [1]})
    with pytest.raises(ValueError, match="give start and stop"):
        reader.scan(starts_with=7)
    with pytest.raises(TypeError, match="give a value for each of"):
        reader.get((1, 2))


def test_writer_refuses() -> None:
    types = {"key_types": pa.schema([pa.field("id", pa.int32(), nullable=False)]), "mode": "value",
             "value_types": pa.schema([("v", pa.string())])}  # fmt: skip
    with Writer("x.sst", dialect="paimon", **types) as writer:  # type: ignore[arg-type]
        assert isinstance(writer, WriterClass)
        writer.put(-5, {"v": "a", "_SEQUENCE_NUMBER": 1, "_VALUE_KIND": 0})
        for key, value, message in (
            (-6, {"v": "a", "_SEQUENCE_NUMBER": 1, "_VALUE_KIND": 0}, "record 1: "),
            (-5, {"v": "a", "_SEQUENCE_NUMBER": 1, "_VALUE_KIND": 0}, "record 1: "),
            (1, {"v": "a", "_SEQUENCE_NUMBER": None, "_VALUE_KIND": 0}, "has nulls"),
            (1, {"v": "a", "_SEQUENCE_NUMBER": 1, "_VALUE_KIND": 4}, "from 0 to 3"),
            (None, {"v": "a", "_SEQUENCE_NUMBER": 1, "_VALUE_KIND": 0}, "'id' is null"),
        ):
            with pytest.raises(ValueError, match=message):
                writer.put(key, value)
        with pytest.raises(TypeError, match="values is NoneType"):
            writer.put(1, None)
        writer.put((7,), {"v": None, "_SEQUENCE_NUMBER": 2, "_VALUE_KIND": 3})
    reader = Reader("x.sst", **types)  # type: ignore[arg-type]
    assert [key["id"] for key in reader] == [-5, 7]
    positions = {"key_types": types["key_types"], "mode": "position"}
    with Writer("p.sst", dialect="paimon", **positions) as writer:  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="row 2: '_POSITION' is below 0"):
            writer.put_many([1, 2], [5, -1])
        writer.put_many([1, 2], [5, 2**63 - 1])
    assert Reader("p.sst", **positions).lookup([2, 1, 0])["_POSITION"].to_pylist() == [
        2**63 - 1, 5, None
    ]  # fmt: skip
    with Writer("e.sst", dialect="paimon", key_types=types["key_types"], mode="empty") as writer:  # type: ignore[arg-type]
        writer.put_many([1, 2], None)
        with pytest.raises(TypeError, match="no columns in this mode"):
            writer.put_many([3], [3])


def test_orders_agree_with_the_rows() -> None:
    """Random keys that repeat in their first fields, over many blocks, in any order asked."""
    rng = random.Random(7)
    schema = pa.schema([("a", pa.int8()), ("b", pa.string()), ("c", pa.int64())])
    rows = {
        (rng.choice([None, -1, 0, 5]), rng.choice([None, "", "a", "ab", "é" * 90]),
         rng.choice([None, rng.randrange(-(2**63), 2**63)]))
        for _ in range(5000)
    }  # fmt: skip
    ordered = sorted(rows, key=_nulls_first)
    columns = dict(zip("abc", zip(*ordered, strict=True), strict=True))
    table = pa.table({name: list(values) for name, values in columns.items()}, schema=schema)
    with Writer(
        "k.sst", dialect="paimon", block_size=900, key_types=schema, mode="position"
    ) as out:
        out.put_many(table, list(range(len(table))))
    reader: Any = Reader("k.sst", key_types=schema, mode="position")
    asked = rng.choices(range(len(table)), k=3 * len(table))
    assert reader.lookup(table.take(asked))["_POSITION"].to_pylist() == asked
    for at in rng.sample(range(len(table)), 200):
        assert reader.get(ordered[at]) == {"_POSITION": at}
        assert next(iter(reader.items(start=ordered[at])))[1] == {"_POSITION": at}
    reader.verify()


def _nulls_first(row: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    plain = [one.encode() if isinstance(one, str) else one for one in row]
    return [(False,) if one is None else (True, one) for one in plain]


def test_types_as_a_schema_file_lists_them() -> None:
    case = case_named("keys-mixed-3")
    with Reader(case.path, key_types=case.described["key"], mode="value",
                value_types=case.described["value"]) as reader:  # fmt: skip
        assert reader.schema.field("k0").type == pa.int8()
        assert reader.schema.field("v2").type == pa.decimal128(12, 2)
        assert reader.scan().read_all().num_rows == len(case.rows)


def test_people_are_shown_the_arguments() -> None:
    assert list(inspect.signature(Reader).parameters)[:2] == ["path", "order"]
    assert list(inspect.signature(Writer).parameters)[:2] == ["path", "dialect"]
