"""Older base files, which have a column in another type: Hudi's promotions, and no others.

The files are pyarrow's, in the place of those that the table wrote. The oracle of texts is Python's
`decimal`; the other reader is hudi-rs.
"""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.hudi.oracle import other_scan
from support.samples import amount

from lookupstore.errors import FormatError
from lookupstore.hudi import HudiTable, TableLookup
from lookupstore.hudi.file_group.promotion import java_texts

ALLOWED: list[tuple[pa.Array, pa.DataType, list[Any]]] = [
    (pa.array([1, None, -3], pa.int32()), pa.int64(), [1, None, -3]),
    (pa.array([1, None, -3], pa.int32()), pa.float64(), [1.0, None, -3.0]),
    (pa.array([1, None, -3], pa.int32()), pa.float32(), [1.0, None, -3.0]),
    (pa.array([1, None, -3], pa.int32()), pa.string(), ["1", None, "-3"]),
    (pa.array([2**40, None, -3], pa.int64()), pa.float64(), [2.0**40, None, -3.0]),
    (pa.array([2**40, None, -3], pa.int64()), pa.string(), [f"{2**40}", None, "-3"]),
    (pa.array([1.5, None, 2], pa.float32()), pa.float64(), [1.5, None, 2.0]),
    (pa.array([0.1, None, 2], pa.float32()), pa.string(), ["0.1", None, "2.0"]),
    (pa.array([5, None, 1e20], pa.float64()), pa.string(), ["5.0", None, "1.0E20"]),
    (pa.array(["a", None, "é"]), pa.binary(), [b"a", None, "é".encode()]),
    (pa.array([b"a", None, "é".encode()]), pa.string(), ["a", None, "é"]),
]
REFUSED: list[tuple[pa.Array, pa.DataType]] = [
    (pa.array(["1", "2", "3"]), pa.int32()),
    (pa.array([True, False, True]), pa.int32()),
    (pa.array([True, False, True]), pa.string()),
    (pa.array([1, 2, 3], pa.timestamp("us", "UTC")), pa.int64()),
    (pa.array([1, 2, 3], pa.int64()), pa.timestamp("us", "UTC")),
    (pa.array([1, 2, 3], pa.int64()), pa.int32()),
    (pa.array([1.0, 2.0, 3.0]), pa.float32()),
    (pa.array([1.0, 2.0, 3.0]), pa.int64()),
    (pa.array([1, 2, 3], pa.date32()), pa.int32()),
    (pa.array([[True], [], None], pa.list_(pa.bool_())), pa.list_(pa.int32())),
]


def older(path: Path, column: pa.Array, kind: pa.DataType) -> tuple[HudiTable, Path]:
    """Return a table of a type, one of whose two files has another one; and that file."""
    schema = pa.schema({"id": pa.int32(), "p": pa.string(), "x": kind})
    table = HudiTable.create(path, schema, record_key="id", partition_by="p")
    nulls = pa.table([[1, 2, 3], ["a"] * 3, pa.nulls(3, kind)], schema=schema)
    table.insert(nulls)
    table.insert(pa.table([[4], ["b"], pa.nulls(1, kind)], schema=schema))
    (file,) = (path / "a").glob("*.parquet")
    rows = pq.read_table(file)
    rows = rows.set_column(rows.column_names.index("x"), "x", column)
    pq.write_table(rows, file, store_schema=False)
    return table, file


def values(table: HudiTable, **given: Any) -> dict[int, Any]:
    rows = table.scan(columns=["id", "x"], **given)
    assert rows.schema.field("x").type == table.schema.field("x").type
    return dict(zip(rows["id"].to_pylist(), rows["x"].to_pylist(), strict=True))


@pytest.mark.parametrize(("column", "kind", "expected"), ALLOWED)
def test_what_is_promoted(
    tmp_path: Path, column: pa.Array, kind: pa.DataType, expected: list[Any]
) -> None:
    table, _ = older(tmp_path / "t", column, kind)
    every = {1: expected[0], 2: expected[1], 3: expected[2], 4: None}
    assert values(table) == every
    first, last = expected[0], expected[2]
    field = pc.field("x")
    assert values(table, filter=field == pa.scalar(last, kind)) == {3: last}
    assert values(table, filter=field.is_null()) == {2: None, 4: None}
    assert values(table, filter=field.isin(pa.array([first, last], kind))) == {1: first, 3: last}
    assert values(table, filter=field >= pa.scalar(max(first, last), kind)) == {
        key: value for key, value in every.items() if value == max(first, last)
    }
    assert table.scan(columns=[], filter=field == pa.scalar(last, kind)).num_rows == 1
    batches = table.scan_batches(columns=["x"], filter=field == pa.scalar(first, kind))
    assert batches.read_all()["x"].to_pylist() == [first]
    if not pa.types.is_binary(kind):
        text = f"'{last}'" if pa.types.is_string(kind) else f"{last}"
        assert values(table, filter=f"x = {text}") == {3: last}
        assert table.delete(where=f"x = {text}", dry_run=True).rows_deleted == 1
    with TableLookup(tmp_path / "t") as lookup:
        assert lookup.lookup([(3, "a")], ["x"])["x"].to_pylist() == [last]
    # A merge writes what a scan reads.
    table.upsert({"id": [2], "p": ["a"], "x": pa.array([first], kind)})
    assert values(table) == {**every, 2: first}


def test_hudi_rs_reads_the_same(tmp_path: Path) -> None:
    for number, (column, kind, _) in enumerate(ALLOWED[:5]):
        table, _ = older(tmp_path / f"t{number}", column, kind)
        theirs = other_scan(tmp_path / f"t{number}")
        assert theirs is not None
        found = zip(theirs["id"].to_pylist(), theirs["x"].to_pylist(), strict=True)
        assert dict(found) == values(table)


@pytest.mark.parametrize(("column", "kind"), REFUSED)
def test_what_is_refused(tmp_path: Path, column: pa.Array, kind: pa.DataType) -> None:
    table, file = older(tmp_path / "t", column, kind)
    expected = f"{file.name}: the column 'x' is .*, which Hudi does not promote to "
    with pytest.raises(FormatError, match=expected):
        table.scan()
    with pytest.raises(FormatError, match=expected):
        table.scan(columns=["id"], filter=pc.field("x").is_null())
    with pytest.raises(FormatError, match=expected):
        table.upsert({"id": [2], "p": ["a"], "x": pa.nulls(1, kind)})
    # Other columns of the file are what they were.
    assert table.scan(columns=["id"])["id"].to_pylist() == [1, 2, 3, 4]


def test_values_that_are_not_exact(tmp_path: Path) -> None:
    table, file = older(tmp_path / "t", pa.array([1, 2**53 + 1, 3]), pa.float64())
    with pytest.raises(FormatError, match=f"{file.name}: the column 'x' is int64, and has a value"):
        table.scan()


def java(number: float, *, single: bool) -> str:
    """Return the text of a number as `Double.toString` of Java 19 specifies it."""
    if math.isnan(number):
        return "NaN"
    sign, size = "-" if math.copysign(1, number) < 0 else "", abs(number)
    if size in (0, math.inf):
        return sign + ("Infinity" if size else "0.0")
    near = Decimal(repr(size))
    if single:
        texts = [f"{size:.{digits}e}" for digits in range(9)]
        with np.errstate(over="ignore"):  # a text may round to more than the largest float
            floats = np.array(texts, np.float64).astype(np.float32)
        near = Decimal(texts[floats.tolist().index(size)])
    if len(near.normalize().as_tuple().digits) == 1:
        near = Decimal(f"{size:.1e}")
    _, digits, by = near.normalize().as_tuple()
    assert isinstance(by, int)
    said, exponent = "".join(map(str, digits)), len(digits) - 1 + by
    if not 1e-3 <= size < 1e7:
        return f"{sign}{said[0]}.{said[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{said}"
    said = said.ljust(exponent + 1, "0")
    return f"{sign}{said[: exponent + 1]}.{said[exponent + 1 :] or '0'}"


@pytest.mark.sampled
@pytest.mark.parametrize("single", [False, True])
def test_texts_of_java(seed: int, single: bool) -> None:
    rng = random.Random(seed)
    count = amount(2000, 1_000_000)
    least = 1.4e-45 if single else 5e-324
    numbers = [
        *(5.0, 1e7, 9999999.0, 0.001, 0.00099999, 1e-5, 1e15, 1e16, 1e22, 1e23, -1e10, 100.0),
        *(0.0, -0.0, math.nan, math.inf, -math.inf, least, 2 * least, 3 * least, 10 * least),
        *(rng.random() * 10.0 ** rng.randrange(-12, 20) for _ in range(count)),
        *(float(rng.randrange(10 ** rng.randrange(1, 17))) for _ in range(count)),
        *(rng.randrange(300) * least for _ in range(100)),
    ]
    format, size = ("f", 4) if single else ("d", 8)
    numbers += (struct.unpack(format, rng.randbytes(size))[0] for _ in range(count))
    given = pa.array(numbers, pa.float32() if single else pa.float64())
    expected = [java(one, single=single) for one in given.to_pylist()]
    assert java_texts(given).to_pylist() == expected
