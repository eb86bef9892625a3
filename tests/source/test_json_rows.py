"""Integers of JSON lines are read exactly or not at all; errors name row and column."""

from __future__ import annotations

import decimal
import io
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lookupstore
from lookupstore.cli import main
from lookupstore.source.opening import in_types, open_source


def as_lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def read(text: bytes) -> pa.Table:
    opened = open_source(io.BytesIO(text))
    return pa.Table.from_batches(opened.batches(opened.schema.names), opened.schema)


def plain(value: Any) -> Any:
    """Return a value with integers for decimals, which JSON does not have."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return int(value) if isinstance(value, decimal.Decimal) else value


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ([2**63 - 1, -(2**63)], pa.int64()),
        ([2**63, 1, 0], pa.uint64()),
        ([2**64 - 1], pa.uint64()),
        ([2**64, 5], pa.decimal128(38, 0)),
        ([2**63, -1], pa.decimal128(38, 0)),
        ([-(2**63) - 1], pa.decimal128(38, 0)),
        ([10**38 - 1, 1 - 10**38], pa.decimal128(38, 0)),
        ([10**38], pa.decimal256(76, 0)),
        ([1 - 10**76, 7], pa.decimal256(76, 0)),
        ([2**53, 0.5], pa.float64()),
        ([1e20, 1e300], pa.float64()),
        ([10**20, 0.5], pa.float64()),
    ],
    ids=str,
)
def test_integers_are_exact(numbers: list[float], kind: pa.DataType) -> None:
    """Of a column, within structs, and within lists."""
    rows = [{"a": one, "s": {"l": [one, None], "t": "x"}, "n": [{"v": one}]} for one in numbers]
    table = read(as_lines(rows))
    assert table.schema.field("a").type == kind
    assert table.schema.field("s").type.field("l").type == pa.list_(kind)
    assert table.schema.field("n").type == pa.list_(pa.struct([("v", kind)]))
    assert plain(table.to_pylist()) == rows


def test_random_integers_are_exact_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    outcomes = set()
    for _ in range(150):
        rows: list[dict[str, Any]] = []
        bits, share = chance.choice([40, 53, 55, 63, 64, 70, 130, 250]), chance.choice([0, 0, 0.2])
        for _ in range(chance.randrange(1, 8)):
            number: Any = chance.randrange(-(2**bits) * chance.randrange(2), 2**bits)
            if chance.random() < share:
                number = chance.random()
            rows.append({"a": [number], "b": {"c": number}, "d": "12345678901234567890"})
        try:
            found = plain(read(as_lines(rows)).to_pylist())
        except ValueError as error:
            assert "is of floats, none of which is" in str(error)  # noqa: PT017
            outcomes.add("refused")
            continue
        assert found == rows  # Python compares integers with floats exactly
        outcomes.add("read")
    assert outcomes == {"read", "refused"}


def test_such_a_key_is_found_by_its_value(tmp_path: Path) -> None:
    for name, keys in (("u", [2**64 - 1, 2**63 + 1]), ("d", [2**64 + 1, 2**65 + 1])):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(as_lines([{"id": key, "v": at} for at, key in enumerate(keys)]))
        with lookupstore.build(path, tmp_path / name, key="id") as store:
            kind = store.schema.field("id").type
            wanted = pa.array(map(decimal.Decimal, keys)).cast(kind)
            assert store.lookup(wanted)["v"].to_pylist() == [0, 1]
            assert store.get(keys[1] if name == "u" else decimal.Decimal(keys[1])) == {"v": 1}


ROWS = 40_000  # of 1.6 MB: three pieces


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b'{"a": 1, "x": 9007199254740993}', r"'x' is of floats, none of which is 90071992547"),
        (b'{"a": 1, "x": 0.5, "s": {"n": 1e400}}', r"JSON parse error: .*: row 35001"),
        (b'{"a": 9223372036854775808}', r"couldn't parse:9223372036854775808: row 35001, .* 'a'"),
        (b'{"a": "1"}', r"from number to string: row 35001, column 'a': '{\"a\": \"1\"}'; by its"),
        (b'{"a": 1, "b": 2}', r"unexpected field: row 35001, column 'b'"),
        (
            b'{"a": 1',
            r"JSON parse error: .*: row 35001: '{\"a\": 1'; .*give an object in each line",
        ),
        (b'{"a": 1, "t": "caf\xe9"}', r"the column 't' is not UTF-8 in row 35001: b'caf\\xe9'"),
        (b'{"a": 1, "s": {"t": ["\xe9"]}}', r"the column 's.t' is not UTF-8 in row 35001"),
    ],
)
def test_errors_name_the_row_of_the_file(tmp_path: Path, wrong: bytes, message: str) -> None:
    path = tmp_path / "a.jsonl"
    line = b'{"a": 7, "x": 0.5, "t": "u", "s": {"n": 1.5, "t": ["v"]}}\n'
    path.write_bytes(line * 35_000 + wrong + b"\n" + line * (ROWS - 35_000))
    with pytest.raises(ValueError, match=message) as raised:
        lookupstore.build(path, tmp_path / "s", key="a", on_duplicate="last")
    assert type(raised.value) is ValueError
    assert str(path) in str(raised.value)
    assert "row 35001" in str(raised.value)


@pytest.mark.parametrize("numbers", [0, 60_000])
@pytest.mark.parametrize("types", [(), ("--types", "v=text")])
def test_texts_and_numbers_in_one_column(
    tmp_path: Path, numbers: int, types: tuple[str, ...]
) -> None:
    """No type reads them, so that the remedy is to write them otherwise."""
    path = tmp_path / "a.jsonl"
    lines = "".join(f'{{"id": {at}, "v": {at}}}\n' for at in range(numbers))
    path.write_text(f'{lines}{{"id": -2, "v": 1}}\n{{"id": -1, "v": "two"}}\n')
    line = ["build", str(path), str(tmp_path / "s"), "--key", "id"]
    done = CliRunner().invoke(main, [*line, *types])
    assert done.exit_code == 2
    assert done.stderr.endswith("; write all values of 'v' in one type, such as text in quotes\n")
    if not types:
        with pytest.raises(ValueError, match=r"; write all values of 'v' in one type, such as te"):
            read(path.read_bytes())


def test_a_fraction_with_too_many_digits_names_the_type_of_its_column() -> None:
    """The type is that of the destination, not one of the first rows."""
    known = pa.schema({"id": pa.int64(), "price": pa.decimal128(9, 2)})
    rows = in_types(io.BytesIO(b'{"id": 1, "price": 1.5}\n{"id": 2, "price": 1.555}\n'), known)
    with pytest.raises(
        ValueError, match=r"row 2, column 'price': .*; write values of decimal128\(9, 2\), or give "
    ) as raised:
        list(rows.batches(["id", "price"]))
    assert "object in each line" not in str(raised.value)
    assert "first rows" not in str(raised.value)


def test_numbers_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "v": 1}\n')
    line = ["build", str(path), str(tmp_path / "s"), "--key", "id", "--types", "v=text"]
    done = CliRunner().invoke(main, line)
    assert (done.exit_code, done.stderr) == (
        2,
        f"Error: {path}: the column 'v' is to be text, but its first rows have values of int64 "
        "without quotes; write all values of 'v' in one type, such as text in quotes\n",
    )


def test_names_that_are_not_utf8() -> None:
    with pytest.raises(ValueError, match=r"the name b'caf\\xe9' is not UTF-8; convert it to UTF-8"):
        open_source(io.BytesIO(b'{"caf\xe9": 1}\n'))


def test_integers_beyond_every_decimal() -> None:
    with pytest.raises(ValueError, match=r"'a\.b' has integers of 77 digits; a decimal has at mo"):
        open_source(io.BytesIO(as_lines([{"a": {"b": 10**76}}])))
