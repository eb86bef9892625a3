"""Tables for people: what is cut, what is left out, and how numbers are printed."""

from __future__ import annotations

import datetime
import io
import random
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from lookupstore.cli.tables import RECORDS, fields_table, list_table, rows_table

MOMENT = datetime.datetime(2026, 11, 26, 12, 47, 51, 119)


def printed(table: Table, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return out.getvalue().splitlines()


def shown(
    rows: pa.Table, width: int, counts: Sequence[str] = (), telling: Sequence[str] = ()
) -> list[str]:
    return printed(rows_table(rows.schema, rows.to_batches(), width, counts, telling), width)


def cells(line: str) -> list[str]:
    return [one.strip() for one in re.split("[│┃]", line)[1:-1]]


def value_of(column: pa.Array) -> str:
    """Return how a table shows the one value of a column."""
    (line,) = (line for line in shown(pa.table({"c": column}), 1000) if line[0] == "│")
    return cells(line)[0]


def test_a_table_that_fits_has_its_columns_beside_each_other() -> None:
    rows = pa.table({"a" * 10: ["some word " * 5], "b" * 10: [1]})
    assert len(shown(rows, 67)) == 5
    assert all(line[0] in "┌│└" for line in shown(rows, 66))
    assert shown(rows.slice(1), 67)[0][0] == "┏"


@pytest.mark.parametrize(("kind", "value", "text"), [
    (pa.float16(), 0.1, "0.1"), (pa.float32(), 0.1, "0.1"), (pa.float32(), 3e10, "3e+10"),
    (pa.float32(), 1.0, "1.0"), (pa.float64(), 0.1 + 0.2, "0.30000000000000004"),
    (pa.float64(), float("-inf"), "-inf"), (pa.float64(), float("nan"), "nan"),
    (pa.bool_(), True, "true"), (pa.int64(), 1234567, "1234567"), (pa.int64(), None, "null"),
    (pa.decimal128(9, 2), Decimal("1234.50"), "1234.50"),
    (pa.list_(pa.float32()), [0.1, None], "[0.1, null]"),
    (pa.struct([("a", pa.bool_())]), {"a": False}, '{"a": false}'),
    (pa.date32(), datetime.date(2026, 11, 26), "2026-11-26"),
    (pa.timestamp("s"), MOMENT, "2026-11-26 12:47:51"),
    (pa.timestamp("us"), MOMENT, "2026-11-26 12:47:51.000119"),
    (pa.timestamp("us", "UTC"), MOMENT, "2026-11-26 12:47:51.000119+00:00"),
    (pa.timestamp("ns"), MOMENT, "2026-11-26 12:47:51.000119"),
    (pa.time64("us"), datetime.time(5, 6, 7), "05:06:07"),
    (pa.duration("s"), datetime.timedelta(seconds=90), "0:01:30"),
    (pa.binary(), b"\xff", "0xff"), (pa.string(), "null\n\x1b[2J", "null\\n\\x1b[2J"),
    (pa.dictionary(pa.int8(), pa.string()), "é [bold]", "é [bold]"),
])  # fmt: skip
def test_values(kind: pa.DataType, value: Any, text: str) -> None:
    if pa.types.is_float16(kind):
        column = pa.array([value], pa.float32()).cast(kind)
    elif kind == pa.timestamp("s"):
        column = pa.array([value.replace(microsecond=0)], kind)
    else:
        column = pa.array([value], kind)
    assert value_of(column) == text


def test_only_counts_have_separators() -> None:
    rows = pa.table({"id": [2**40], "count": [2**40]})
    line = shown(rows, 80, ["count"])[3]
    assert cells(line) == ["1099511627776", "1,099,511,627,776"]
    lines = printed(fields_table({"n": 3162, "ok": True, "id": "20261126124751119"}, 80), 80)
    assert [cells(line)[1] for line in lines[1:-1]] == ["3,162", "true", "20261126124751119"]


def test_numbers_are_at_the_right() -> None:
    rows = pa.table({
        "d": pa.array([Decimal("1.5"), Decimal("100.25")], pa.decimal128(9, 2)),
        "i": [1, 100], "f": [0.5, 100.25], "t": ["a", "abc"],
    })  # fmt: skip
    assert shown(rows, 80)[3] == "│   1.50 │   1 │    0.5 │ a   │"


def test_long_texts_are_cut_and_what_does_not_fit_is_counted() -> None:
    many = RECORDS + 1
    rows = pa.table({
        "id": range(many), "note": ["some words, and others " * 4] * many,
        "file": ["f" * 60] * many, "n": [1] * many, "word": ["w" * 300] * many,
    })  # fmt: skip
    lines = shown(rows, 80)
    assert cells(lines[1]) == ["id", "note", "n", "word"]
    assert cells(lines[3])[0] == "0"
    assert cells(lines[3])[1].startswith("some words, and other")
    assert cells(lines[3])[1].endswith("…")
    assert cells(lines[3])[3] == "w" * (len(cells(lines[3])[3]) - 1) + "…"
    assert lines[-1].strip() == "… 1 more column"
    assert {len(line) for line in lines} == {80}
    assert len(lines) == many + 5  # each row in a line
    few = shown(rows.slice(0, 1), 80)
    assert sum("w" in line for line in few) > 3
    assert "…" not in "".join(few)


def test_telling_columns_are_left_out_last() -> None:
    rows = pa.table({name * 10: [7] * (RECORDS + 1) for name in "abcde"})
    assert cells(shown(rows, 40)[1]) == ["a" * 10, "b" * 10, "c" * 10]
    lines = shown(rows, 40, telling=["e" * 10, "d" * 10, "f"])
    assert cells(lines[1]) == ["a" * 10, "d" * 10, "e" * 10]
    assert lines[-1].strip() == "… 2 more columns"
    assert cells(shown(rows, 80, telling=["e" * 10])[1]) == [one * 10 for one in "abcde"]
    odd = pa.table({"a" * 10: [7] * (RECORDS + 1), "b\n" * 4: [7] * (RECORDS + 1)})
    assert cells(shown(odd, 20, telling=["b\n" * 4])[1]) == ["b\\n" * 4]


def test_a_list_is_never_shown_row_by_row() -> None:
    rows = pa.table({"instant": ["20261126124751119"], "what": ["x" * 40]})
    lines = printed(list_table(rows.schema, rows.to_batches(), 40), 40)
    assert (cells(lines[1]), lines[-1].strip()) == (["instant"], "… 1 more column")


@pytest.mark.parametrize("width", range(1, 24))
def test_terminals_without_room(width: int) -> None:
    rows = pa.table({"instant": ["20261126124751119"], "completed": ["20261126124751119"]})
    lines = shown(rows, width)
    assert max(map(cell_len, lines)) <= width
    assert "more" in "".join(lines).replace("\n", "") or width < 5
    found = [cell for line in lines[3:] for cell in cells(line)]
    assert len(found) <= 1
    assert all(one == "20261126124751119" or one.endswith("…") for one in found if width > 7)


_FLOAT = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?")


def a_column(rng: random.Random, count: int) -> list[Any]:
    kind = rng.randrange(6)
    if kind == 0:
        return [rng.randint(-(10 ** rng.randint(1, 18)), 10**18) for _ in range(count)]
    if kind == 1:
        return [rng.random() for _ in range(count)]
    if kind == 2:
        return [MOMENT + datetime.timedelta(seconds=i) for i in range(count)]
    if kind == 3:
        return [f"{rng.getrandbits(128):032x}" for _ in range(count)]
    if kind == 4:
        return ["漢字 und mehr " * rng.randrange(9) for _ in range(count)]
    return ["\n".join(["line"] * rng.randrange(30)) for _ in range(count)]


@pytest.mark.parametrize("part", range(10))
def test_nothing_but_texts_is_split(part: int, seed: int) -> None:
    rng = random.Random(f"{seed} {part}")
    for _ in range(20):
        count, width = rng.choice([1, 3, 15]), rng.randint(50, 220)
        columns = {f"{'n' * rng.randint(1, 12)}{i}": a_column(rng, count)
                   for i in range(rng.randint(1, 14))}  # fmt: skip
        rows = pa.table(columns)
        lines = shown(rows, width)
        assert max(map(cell_len, lines)) <= width
        # Below a table that is narrow, it takes two lines.
        more = re.search(r"… (\d+) more", "".join(lines[-2:]))
        left_out = int(more[1]) if more else 0
        beside = lines[0][0] == "┏"
        names = cells(lines[1]) if beside else [
            name for name in (cells(line)[0] for line in lines if line[0] == "│") if name
        ]  # fmt: skip
        assert set(names) <= {*columns}
        assert len(names) == (len(columns) - left_out) * (1 if beside else count)
        if beside:
            assert sum(line[0] == "│" for line in lines) == count
        said = {cell for line in lines for cell in cells(line)}
        for name in {*names}:
            kind = rows.schema.field(name).type
            is_id = pa.types.is_string(kind) and re.fullmatch("[0-9a-f]{32}", columns[name][0])
            for value in columns[name]:
                if isinstance(value, float):  # of which there are several spellings
                    assert value in {float(one) for one in said if _FLOAT.fullmatch(one)}
                elif is_id or not pa.types.is_string(kind):
                    assert str(value) in said
