"""Columns of files whose table gave them, or their fields, other names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lookupstore.errors import FormatError
from lookupstore.tables.columns import FIELD_ID, field_in_file, in_table_names


def numbered(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={FIELD_ID: str(number)})


def named(values: Any, there: pa.DataType, stored: pa.DataType, wanted: pa.DataType) -> pa.Array:
    """Return a column in the table's names, whole and as a slice; both have to agree."""
    fields = [pa.field("c", kind) for kind in (there, stored, wanted)]
    whole = in_table_names(pa.array(values, there), *fields, "x.parquet")
    whole.validate(full=True)
    for start in range(len(values) + 1):
        part = in_table_names(pa.array(values, there)[start:], *fields, "x.parquet")
        part.validate(full=True)
        assert part.equals(whole[start:])
    return whole


INT, TEXT = pa.int64(), pa.string()
THERE = pa.struct({"p1": INT, "p2": TEXT})
WANTED = pa.struct({"n": INT, "s": TEXT})


@pytest.mark.parametrize(
    ("there", "stored", "wanted", "values", "expected"),
    [
        (INT, INT, INT, [1, None], [1, None]),
        (
            THERE, THERE, WANTED,
            [{"p1": 1, "p2": "a"}, None, {"p1": None, "p2": None}],
            [{"n": 1, "s": "a"}, None, {"n": None, "s": None}],
        ),
        (
            pa.list_(THERE), pa.list_(THERE), pa.list_(WANTED),
            [[{"p1": 1, "p2": "a"}, None], None, [], [{"p1": 2, "p2": None}]],
            [[{"n": 1, "s": "a"}, None], None, [], [{"n": 2, "s": None}]],
        ),
        (
            pa.large_list(THERE), pa.list_(THERE), pa.list_(WANTED),
            [[{"p1": 1, "p2": "a"}], None], [[{"n": 1, "s": "a"}], None],
        ),
        (
            pa.list_(THERE, 2), pa.list_(THERE), pa.list_(WANTED),
            [[{"p1": 1, "p2": "a"}, None], None, [None, None]],
            [[{"n": 1, "s": "a"}, None], None, [None, None]],
        ),
        (
            pa.map_(TEXT, THERE), pa.map_(TEXT, THERE), pa.map_(TEXT, WANTED),
            [[("k", {"p1": 1, "p2": "a"}), ("l", None)], None, []],
            [[("k", {"n": 1, "s": "a"}), ("l", None)], None, []],
        ),
        (
            pa.map_(THERE, INT), pa.map_(THERE, INT), pa.map_(WANTED, INT),
            [[({"p1": 1, "p2": "a"}, 5)], None], [[({"n": 1, "s": "a"}, 5)], None],
        ),
        # A field that is gone, one that came later, and another order.
        (
            pa.struct({"gone": INT, "p2": TEXT, "p1": INT}),
            pa.struct({"p1": INT, "new": pa.list_(INT), "p2": TEXT}),
            pa.struct({"n": INT, "new": pa.list_(INT), "s": TEXT}),
            [{"gone": 9, "p1": 1, "p2": "a"}, None],
            [{"n": 1, "new": None, "s": "a"}, None],
        ),
    ],
)  # fmt: skip
def test_fields_have_the_names_of_the_table(
    there: pa.DataType, stored: pa.DataType, wanted: pa.DataType, values: Any, expected: Any
) -> None:
    assert named(values, there, stored, wanted).to_pylist() == expected


def test_two_fields_that_changed_their_names_are_not_confused() -> None:
    """The table calls p1 "p2" and p2 "p1"."""
    wanted = pa.struct({"p2": INT, "p1": TEXT})
    assert named([{"p1": 1, "p2": "a"}], THERE, THERE, wanted).to_pylist() == [{"p2": 1, "p1": "a"}]


def test_ids_count_and_names_do_not() -> None:
    there = pa.struct([numbered("a", INT, 2), numbered("b", INT, 1)])
    stored = pa.struct([numbered("a", INT, 1), numbered("c", INT, 3)])
    wanted = pa.struct({"x": INT, "y": INT})
    assert named([{"a": 2, "b": 1}], there, stored, wanted).to_pylist() == [{"x": 1, "y": None}]


def test_a_column_that_needs_no_change_is_not_copied() -> None:
    for kind in (THERE, pa.list_(THERE), pa.map_(TEXT, THERE), pa.list_(pa.list_(INT))):
        column = pa.array([None], kind)
        field = pa.field("c", kind)
        assert in_table_names(column, field, field, field, "x.parquet") is column


def test_several_columns_of_one_name_or_number_are_refused() -> None:
    twice = pa.schema([("a", INT), ("a", TEXT)])
    with pytest.raises(FormatError, match=r"x\.parquet: several columns have the name 'a'"):
        field_in_file(pa.field("a", INT), twice, "x.parquet")
    twice = pa.schema([numbered("a", INT, 1), numbered("b", INT, 1)])
    with pytest.raises(FormatError, match="several columns have the field id 1"):
        field_in_file(numbered("a", INT, 1), twice, "x.parquet")
    assert field_in_file(numbered("a", INT, 7), twice, "x.parquet") is None
