"""Paimon's lookup files made of Parquet and ORC, beside Java's of the same rows, and models."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from support.paimon_typed import Typed, cases, comparable
from support.remote import Remote

from lookupstore.columnar import ColumnarFiles
from lookupstore.columnar.source_file import SourceFile
from lookupstore.errors import CorruptionError, DuplicateKeyError, StaleStoreError
from lookupstore.sorting.runs import RunSorter
from lookupstore.sst import Reader

#: All but those with keys of years beyond 2262, for which Arrow has a struct alone.
ALL = [
    case for case in cases() if not any(pa.types.is_struct(kind) for kind in case.key_types.types)
]
MODES = {"value": "value", "empty": "presence", "position": "position",
         "position-and-value": "value_and_position", "row": "value"}  # fmt: skip


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    columns = [comparable(column.combine_chunks()) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def without_nulls_below(array: pa.Array) -> pa.Array:
    """Return an array with something under nulls of structs, as Parquet wants it."""
    kind = array.type
    absent = pa.array(array.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        inner = [without_nulls_below(array.field(i)) for i in range(len(fields))]
        for i, field in enumerate(fields):
            if not field.nullable:
                inner[i] = inner[i].fill_null(b"" if field.type == pa.binary() else 0)
        return pa.StructArray.from_arrays(inner, fields=fields, mask=absent)
    if pa.types.is_map(kind):
        keys, items = without_nulls_below(array.keys), without_nulls_below(array.items)
        return pa.MapArray.from_arrays(array.offsets, keys, items, kind, mask=absent)
    if pa.types.is_list(kind):
        values = without_nulls_below(array.values)
        return pa.ListArray.from_arrays(array.offsets, values, kind, mask=absent)
    return array


def typed_reader(path: Path, case: Typed, mode: str) -> Any:
    values = None if mode in ("empty", "position") else case.value_types
    return Reader(path, key_types=case.key_types, value_types=values, mode=mode)


@pytest.mark.few(30)
@pytest.mark.parametrize("case", ALL, ids=[case.name for case in ALL])
@pytest.mark.parametrize("shuffled", [False, True])
def test_what_java_made_of_the_same_rows(
    case: Typed, shuffled: bool, tmp_path: Path, seed: int
) -> None:
    table = typed_reader(case.path, case, case.mode).scan().read_all().combine_chunks()
    order = list(range(len(table)))
    if shuffled:
        random.Random(seed).shuffle(order)
    mode = MODES[case.mode]
    source = table.take(order)
    if "_POSITION" in source.column_names:
        source = source.drop_columns(["_POSITION"])
    if case.mode not in ("empty", "position"):
        for name, kind in (("_SEQUENCE_NUMBER", pa.int64()), ("_VALUE_KIND", pa.int8())):
            if name not in source.column_names:
                source = source.append_column(name, pa.nulls(len(source), kind).fill_null(3))
    path = tmp_path / "data-0.parquet"
    source = pa.table(
        [without_nulls_below(column.combine_chunks()) for column in source.columns],
        schema=source.schema,
    )
    # Parquet knows no metadata of fields within fields, and no dictionary keeps all bits of a NaN.
    pq.write_table(source, path, store_schema=False, use_dictionary=False)
    options = case.described["options"]
    columns = case.value_types.names if mode.startswith("value") else None
    with ColumnarFiles(
        str(path),
        key=case.key_types.names,
        columns=columns,
        mode=mode,  # type: ignore[arg-type]
    ) as files:
        (name,) = files.write_paimon_files(
            tmp_path / "out",
            types=pa.schema([*case.key_types, *(case.value_types if columns else ())]),
            compression=options["compression"],
            level=options["zstd_level"] if options["compression"] == "zstd" else None,
            block_size=options["block_size"],
            bloom_fpp=options["bloom_fpp"],
        )
    made = tmp_path / "out" / name
    assert os.listdir(tmp_path / "out") == [name]
    paimons = "value" if case.mode == "row" else case.mode
    assert name == f"data-0.parquet.{made.stat().st_size}.{paimons}.v1.lookup"
    found = typed_reader(made, case, paimons).scan().read_all()
    keys = case.key_types.names
    assert rows_of(found.select(keys)) == case.key_rows()
    if mode.startswith("value"):
        names = case.value_types.names
        assert rows_of(found.select(names)) == rows_of(table.select(names))
    if "position" in mode:
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        assert found["_POSITION"].to_pylist() == places.tolist()
    java_counts_rows = options["bloom_entries"] in (0, None, len(case.rows))
    if case.mode in ("value", "empty") and java_counts_rows and case.name != "value-deep-0.9":
        assert made.read_bytes() == case.path.read_bytes()


# -- rows of any kind, in any order

TEXTS = ["", "a", "a\0", "a\0b", "ab", "é", "\uffff", "\U00010000"]
KEY_VALUES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "int8": (pa.int8(), lambda rng: rng.randrange(-128, 128)),
    "int64": (pa.int64(), lambda rng: rng.choice([0, -1, rng.randrange(-(2**63), 2**63)])),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "date": (pa.date32(), lambda rng: rng.randrange(-9999, 99999)),
    "double": (pa.float64(), lambda rng: rng.choice([1.5, -2.0, float("inf"), rng.uniform(-9, 9)])),
    "decimal": (pa.decimal128(20, 2), lambda rng: Decimal(rng.randrange(-(10**19), 10**19)) / 100),
    "time": (pa.timestamp("us"), lambda rng: rng.randrange(-(2**50), 2**50)),
    "wide": (pa.int64(), lambda rng: rng.randrange(-(2**63), 2**63)),
    "text": (
        pa.string(),
        lambda rng: rng.choice(TEXTS),
    ),
    "long": (pa.string(), lambda rng: "x" * rng.randrange(200) + str(rng.randrange(50))),
    "bytes": (pa.binary(), lambda rng: rng.randbytes(rng.randrange(4))),
}


def order_of(row: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return what sorts as Paimon does: field by field, nulls first, texts by their UTF-8."""
    plain = [one.encode() if isinstance(one, str) else one for one in row]
    return [(False,) if one is None else (True, one) for one in plain]


def random_rows(
    rng: random.Random, count: int, *others: str
) -> tuple[pa.Schema, list[tuple[Any, ...]]]:
    """Return key fields, with those others, and keys, each once, in no order."""
    kinds = rng.sample(sorted(KEY_VALUES.keys() - {*others}), rng.choice([1, 1, 2, 3]))
    kinds += others
    made = {
        tuple(None if rng.random() < 0.1 else KEY_VALUES[kind][1](rng) for kind in kinds)
        for _ in range(count)
    }
    schema = pa.schema([(f"{kind} key", KEY_VALUES[kind][0]) for kind in kinds])
    # A number is what it is as its type has it.
    table = pa.table(
        [pa.array([row[i] for row in made], schema.field(i).type) for i in range(len(kinds))],
        schema=schema,
    )
    return schema, list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("extension", ["parquet", "orc"])
def test_rows_in_any_order(
    extension: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    spills = []
    closing = RunSorter.close
    monkeypatch.setattr(
        RunSorter, "close", lambda sorter: (spills.append(sorter.spills), closing(sorter))
    )
    for number, count in enumerate((0, 1, 700, 3000)):
        schema, rows = random_rows(rng, count, *(["wide"] if count == 3000 else []))
        rng.shuffle(rows)
        names = schema.names
        table = pa.table(
            [
                *(
                    pa.array([row[i] for row in rows], schema.field(i).type)
                    for i in range(len(names))
                ),
                pa.array([f"row {i}" * 9 for i in range(len(rows))], pa.string()),
                pa.array([i * i for i in range(len(rows))], pa.int64()),
            ],
            names=[*names, "note", "moment"],
        )
        path = tmp_path / f"data-{number}.{extension}"
        if extension == "parquet":
            with pq.ParquetWriter(path, table.schema) as writer:
                if rows:
                    writer.write_table(table, row_group_size=500)
        else:
            orc.write_table(table, str(path), batch_size=100, stripe_size=1024)
        with ColumnarFiles(str(path), key=names, memory="64KiB") as files:
            (name,) = files.write_paimon_files(
                tmp_path / "out",
                types=table.schema,
                sequence="moment",
                kind=2,
                block_size=rng.choice([100, 4096, "64KiB"]),
            )
        keys = pa.schema([schema.field(one).with_name(f"_KEY_{one}") for one in names])
        reader: Any = Reader(tmp_path / "out" / name, key_types=keys, value_types=table.schema)
        found = reader.scan().read_all()
        ordered = sorted(range(len(rows)), key=lambda at: order_of(rows[at]))
        expected = table.take(pa.array(ordered, pa.int64()))
        assert found.select([f"_KEY_{one}" for one in names]).rename_columns(names) == (
            expected.select(names)
        )
        assert found.select(table.column_names) == expected
        assert found["_SEQUENCE_NUMBER"].to_pylist() == expected["moment"].to_pylist()
        assert set(found["_VALUE_KIND"].to_pylist()) <= {2}
        assert reader.verify().num_records == len(rows)
        asked = rng.choices(range(len(rows)), k=50) if rows else []
        answers = reader.lookup(
            {f"_KEY_{one}": table[one].take(pa.array(asked, pa.int64())) for one in names}
        )
        assert answers["moment"].to_pylist() == [at * at for at in asked]
    assert max(spills) > 1  # 3,000 rows of 54 bytes and more do not fit into 64 KiB


def two_rows(path: Path, **columns: list[Any]) -> str:
    pq.write_table(pa.table({"id": [2, 1], "name": ["b", "a"], **columns}), path)
    return str(path)


KEYS = pa.schema([("_KEY_id", pa.int64())])
VALUES = pa.schema([("id", pa.int64()), ("name", pa.string())])


def test_columns_of_a_data_file_of_paimons(tmp_path: Path) -> None:
    """Paimon's own columns are no part of rows; key columns have the types of those they copy."""
    rows = {"_KEY_id": [1, 2], "_SEQUENCE_NUMBER": [7, 8], "_VALUE_KIND": [0, 3],
            "id": [1, 2], "day": ["2026-11-01", None], "name": ["a", None]}  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "data.parquet")
    fields = [{"name": "id", "type": "INT NOT NULL"}, {"name": "day", "type": "STRING"},
              {"name": "name", "type": "VARCHAR(20)"}]  # fmt: skip
    with ColumnarFiles(str(tmp_path / "data.parquet"), key="_KEY_id") as files:
        (name,) = files.write_paimon_files(tmp_path, types=fields)
    reader = Reader(
        tmp_path / name, key_types=pa.schema([("_KEY_id", pa.int32())]), value_types=fields
    )
    assert [{**key, **row} for key, row in reader.items()] == pa.table(rows).select(
        ["_KEY_id", "id", "day", "name", "_SEQUENCE_NUMBER", "_VALUE_KIND"]
    ).to_pylist()
    # Without types, those that the file has; of chosen columns, these alone.
    with ColumnarFiles(str(tmp_path / "data.parquet"), key="_KEY_id", columns=["name"]) as files:
        (name,) = files.write_paimon_files(tmp_path / "new")
    values = pa.schema([("name", pa.string())])
    reader = Reader(tmp_path / "new" / name, key_types=KEYS, value_types=values)
    assert reader.get(1) == {"name": "a", "_SEQUENCE_NUMBER": 7, "_VALUE_KIND": 0}


def test_folders_give_no_columns(tmp_path: Path) -> None:
    """Paimon's data files have the columns of their partition, in their place and type."""
    folder = tmp_path / "table" / "day=5"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"day": pa.array([5], pa.int16()), "id": [1]}), folder / "data.parquet")
    with ColumnarFiles(str(tmp_path / "table"), key="id") as files:
        (name,) = files.write_paimon_files(tmp_path / "out", sequence=0, kind=0)
    values = pa.schema([("day", pa.int16()), ("id", pa.int64())])
    reader = Reader(tmp_path / "out" / name, key_types=KEYS, value_types=values)
    assert reader.get(1) == {"day": 5, "id": 1, "_SEQUENCE_NUMBER": 0, "_VALUE_KIND": 0}


def test_repeated_keys(tmp_path: Path) -> None:
    rows = {"id": [2, 1, 2], "name": ["b", "a", "c"]}
    pq.write_table(pa.table(rows), tmp_path / "data.parquet")
    source = str(tmp_path / "data.parquet")
    with (
        ColumnarFiles(source, key="id") as files,
        pytest.raises(DuplicateKeyError, match=r"data\.parquet: the key id=2 comes more than once"),
    ):
        files.write_paimon_files(tmp_path / "out", sequence=0, kind=0)
    assert os.listdir(tmp_path / "out") == []
    for rule, kept in (("first", "b"), ("last", "c")):
        with ColumnarFiles(source, key="id", on_duplicate=rule) as files:  # type: ignore[arg-type]
            (name,) = files.write_paimon_files(tmp_path / rule, sequence=0, kind=0)
        reader = Reader(tmp_path / rule / name, key_types=KEYS, value_types=VALUES)
        assert [row["name"] for _, row in reader.items()] == ["a", kept]
        # As Java's, the filter is for all rows of the data file.
        assert reader.info().filter_entries == 3


def test_names_and_overwriting(tmp_path: Path) -> None:
    source = two_rows(tmp_path / "data.1.parquet")
    out = tmp_path / "out"
    with ColumnarFiles(source, key="id") as files:
        (name,) = files.write_paimon_files(out, sequence=0, kind=0)
        with pytest.raises(FileExistsError, match=f"{re.escape(name)} exists; pass overwrite=True"):
            files.write_paimon_files(out, sequence=0, kind=0)
        before = (out / name).read_bytes()
        assert files.write_paimon_files(out, sequence=0, kind=0, overwrite=True) == [name]
        assert (out / name).read_bytes() == before
        (other,) = files.write_paimon_files(out, sequence=0, kind=0, overwrite=True, bloom_fpp=0)
        assert other != name and os.listdir(out) == [other]  # noqa: PT018
    with ColumnarFiles(source, key="id", mode="presence") as files:
        (presence,) = files.write_paimon_files(out)
    assert sorted(os.listdir(out)) == sorted([other, presence])
    assert Reader(out / presence, key_types=VALUES.remove(1), mode="empty").get(1) == {}
    # Not those of a file whose name goes on.
    (out / "data.1.parquet.x.5.value.v1.lookup").touch()
    with ColumnarFiles(source, key="id") as files:
        files.write_paimon_files(out, sequence=0, kind=0, overwrite=True)
    assert (out / "data.1.parquet.x.5.value.v1.lookup").exists()


def test_many_files_by_threads(tmp_path: Path) -> None:
    for part in "abc":
        two_rows(tmp_path / f"{part}.parquet", _SEQUENCE_NUMBER=[ord(part)] * 2)
    with ColumnarFiles(str(tmp_path / "*.parquet"), key="id", mode="value_and_position") as files:
        names = files.write_paimon_files(tmp_path / "out", kind=0, threads=3)
    assert [name[0] for name in names] == ["a", "b", "c"]
    for name in names:
        reader = Reader(tmp_path / "out" / name, key_types=KEYS, value_types=VALUES,
                        mode="position-and-value")  # fmt: skip
        row = reader.get(1)
        assert (row["_POSITION"], row["_SEQUENCE_NUMBER"]) == (1, ord(name[0]))
    (tmp_path / "more").mkdir()
    two_rows(tmp_path / "more" / "a.parquet")
    sources = [str(tmp_path / "a.parquet"), str(tmp_path / "more" / "a.parquet")]
    with (
        ColumnarFiles(sources, key="id", mode="presence") as files,
        pytest.raises(ValueError, match=r"2 files are called a\.parquet; write those of each"),
    ):
        files.write_paimon_files(tmp_path / "out")


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    source = two_rows(tmp_path / "data.parquet", at=[1, None], late=[2**40, 1])
    out = tmp_path / "out"
    wide = pa.schema([("id", pa.int64()), ("late", pa.int32())])
    for arguments, kind, message in (
        ({}, KeyError, "no column '_SEQUENCE_NUMBER'.*; sequence= takes a column, or a number"),
        ({"sequence": 0}, KeyError, "no column '_VALUE_KIND'.*; kind= takes a column, or a number"),
        ({"sequence": "at", "kind": 0}, ValueError, "data.parquet: from row 1 on: .*has nulls"),
        ({"sequence": 0, "kind": "late"}, ValueError, "'_VALUE_KIND'|'late' is int64"),
        ({"sequence": -1, "kind": 0}, ValueError, "sequence is -1; give a column, or a number"),
        ({"sequence": 0, "kind": 4}, ValueError, "kind is 4; give a column, or a number from 0 to"),
        ({"sequence": 0, "kind": 0, "types": wide}, ValueError, "'late' is int64, but in types="),
        ({"sequence": 0, "kind": 0, "types": VALUES.remove(0)}, KeyError, "no single column 'id'"),
        ({"sequence": 0, "kind": 0, "compression": "gz"}, ValueError, "compression"),
        ({"sequence": 0, "kind": 0, "block_size": "0"}, ValueError, "block_size"),
    ):  # fmt: skip
        with (
            ColumnarFiles(source, key="id") as files,
            pytest.raises(kind, match=f"(?s){message}"),
        ):
            files.write_paimon_files(out, **arguments)
        assert not out.exists() or os.listdir(out) == []
    pq.write_table(pa.table({"id": [1], "u": pa.array([1], pa.uint8())}), source)
    with (
        ColumnarFiles(source, key="id") as files,
        pytest.raises(TypeError, match=r"value_types\.u is uint8, which Paimon's rows do not"),
    ):
        files.write_paimon_files(out, sequence=0, kind=0)


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = two_rows(tmp_path / "data.parquet")
    batches = SourceFile.batches

    def torn(self: SourceFile, names: Any) -> Any:
        yield from batches(self, names)
        raise CorruptionError(self.uri, 7, "rows", "none")

    with ColumnarFiles(source, key="id") as files:
        monkeypatch.setattr(SourceFile, "batches", torn)
        with pytest.raises(CorruptionError, match="rows"):
            files.write_paimon_files(tmp_path / "out", sequence=0, kind=0)
        monkeypatch.undo()
        assert os.listdir(tmp_path / "out") == []

        def changed(self: SourceFile, names: Any) -> Any:
            yield from batches(self, names)
            two_rows(tmp_path / "data.parquet", more=[1, 2])

        monkeypatch.setattr(SourceFile, "batches", changed)
        with pytest.raises(StaleStoreError, match="rewritten"):
            files.write_paimon_files(tmp_path / "out", sequence=0, kind=0)
        assert os.listdir(tmp_path / "out") == []
        monkeypatch.undo()
        with pytest.raises(StaleStoreError, match="rewritten"):
            files.write_paimon_files(tmp_path / "out", sequence=0, kind=0)
        assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("kind", ["s3", "hdfs"])
def test_files_elsewhere(kind: str, tmp_path: Path) -> None:
    source = two_rows(tmp_path / "data.parquet")
    remote = Remote(tmp_path / "remote", kind)
    location = remote.location("bucket/lookup")
    with ColumnarFiles(source, key="id") as files:
        (name,) = files.write_paimon_files(location, sequence=0, kind=0)
        (local,) = files.write_paimon_files(tmp_path / "out", sequence=0, kind=0)
        assert (name, location.read(name)) == (local, (tmp_path / "out" / local).read_bytes())
        with pytest.raises(FileExistsError, match="exists; pass overwrite=True"):
            files.write_paimon_files(location, sequence=0, kind=0)
        (other,) = files.write_paimon_files(
            location, sequence=0, kind=0, overwrite=True, bloom_fpp=0
        )
    assert [file.name for file in location.files()] == [other]
