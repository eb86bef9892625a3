"""Layouts: the order of rows by several columns at once, learned from a sample and kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pyarrow as pa

from lookupstore.arrow.types import concat, schema_from_json, schema_to_json
from lookupstore.errors import CorruptionError, listed
from lookupstore.hudi.layout.curves._curve import MOST_COLUMNS
from lookupstore.hudi.layout.curves.column import Column
from lookupstore.hudi.layout.curves.grid import Grid
from lookupstore.hudi.layout.curves.linear import Linear
from lookupstore.hudi.layout.curves.on_curve import OnCurve
from lookupstore.keys.casts import column_batches, fit_strictly
from lookupstore.storage.json_text import parse_json

Curve = Literal["linear", "zorder", "hilbert", "grid"]
Mapping = Literal["sample", "value"]

CURVES: tuple[Curve, ...] = get_args(Curve)
MAPPINGS: tuple[Mapping, ...] = get_args(Mapping)
FORMAT_VERSION = 1
# Four thousand boundaries of a thousand bytes for each of eight columns, as text.
MOST_BYTES = 128 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """An order of rows that makes files small boxes in the values of some columns.

    `fit` makes one; the same layout gives equal rows equal positions for ever.

    Attributes:
        columns: that rows are laid out by, with their types.
        curve: `linear` sorts by the first column, then by the next; `zorder` and `hilbert` follow a
            curve through all of them; `grid` cuts cells of as many rows. One column is always
            sorted by plainly.
        mapping: whether a curve goes by ranks in the sample or by values in its range. A linear
            order is the same by either.
        learned: what came of the sample.
    """

    columns: tuple[Column, ...]
    curve: Curve
    mapping: Mapping
    learned: Linear | OnCurve | Grid

    @property
    def by(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(one.field.name for one in self.columns)

    @classmethod
    def fit(
        cls, sample: pa.Table, by: Sequence[str], curve: Curve, mapping: Mapping, files: int
    ) -> Layout:
        """Learn a layout from a sample of the rows.

        Args:
            sample: rows drawn at random; a hundred thousand are enough.
            by: the columns, those of most queries first.
            curve: one of `linear`, `zorder`, `hilbert`, `grid`.
            mapping: `sample` or `value`; a grid is cut by sample.
            files: how many files all rows make.

        Raises:
            KeyError: the sample does not have a column.
            TypeError: a column of a type that has no order.
            ValueError: another argument is wrong.

        >>> rows = pa.table({"a": [3, 1, 2], "b": ["x", "y", None]})
        >>> layout = Layout.fit(rows, ["a"], "linear", "sample", files=1)
        >>> [one.hex() for one in layout.positions(rows).to_pylist()][:2]
        ['018000000000000003', '018000000000000001']
        """
        _check(by, curve, mapping)
        if files < 1:
            raise ValueError(f"files is {files}; give at least 1")
        known = listed(sample.schema.names)
        for name in by:
            if name not in sample.schema.names:
                raise KeyError(f"by: the rows have no column {name!r}; they have {known}")
        columns = tuple(Column(sample.schema.field(name)) for name in by)
        fields = [one.field for one in columns]
        batches = column_batches(sample, fields, "sample")
        parts = zip(*(fit_strictly(fields, arrays, "sample", 0) for arrays in batches), strict=True)
        plain = [concat(one, field.plain) for one, field in zip(parts, fields, strict=True)]
        learned: Linear | OnCurve | Grid
        if _is_linear(by, curve):
            learned = Linear.fit(columns, plain)
        elif curve == "grid":
            learned = Grid.fit(columns, plain, files)
        else:
            learned = OnCurve.fit(columns, plain, curve == "hilbert", mapping == "sample")
        return cls(columns, curve, mapping, learned)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns, with their types."""
        return pa.schema([(one.field.name, one.field.type) for one in self.columns])

    @property
    def is_curve(self) -> bool:
        """Return whether a stretch of it is a box in all columns, and not a range of the first."""
        return not _is_linear(self.by, self.curve)

    def positions(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """Return the position of each row: bytes whose order is that of the layout.

        Args:
            rows: that have the columns of the layout, in types whose values these can hold.

        Returns:
            fixed_size_binary. A null comes before all values, NaN after all numbers.

        Raises:
            KeyError: the rows do not have a column.
            TypeError, ValueError: a column is of another type, or has values that do not fit.
        """
        fields = [one.field for one in self.columns]
        found = []
        row = 0
        for arrays in column_batches(rows, fields, "rows"):
            found.append(self.learned.positions(fit_strictly(fields, arrays, "rows", row)))
            row += len(arrays[0])
        return concat(found, found[0].type)

    def to_json(self) -> str:
        """Return the layout as JSON text."""
        return json.dumps(
            {
                "version": FORMAT_VERSION,
                "curve": self.curve,
                "mapping": self.mapping,
                **schema_to_json(self.schema, self.by),
                "learned": self.learned.to_json(),
            }
        )

    @classmethod
    def from_json(cls, text: str, path: str) -> Layout:
        """Return the layout that `to_json` described.

        Args:
            text: the JSON.
            path: of the file that has it, for errors.

        Raises:
            CorruptionError: it is not the description of a layout.
        """
        try:
            content = text.encode()
        except UnicodeEncodeError as error:
            raise CorruptionError(path, error.start, "a layout, in UTF-8", error.reason) from None
        data = parse_json(content, path, "a layout", most_bytes=MOST_BYTES)
        try:
            return cls._from_json(data)
        except KeyError as error:
            raise CorruptionError(path, 0, f"a layout with {error}", "none") from error
        except (TypeError, ValueError, OSError, OverflowError, pa.ArrowException) as error:
            raise CorruptionError(path, 0, "a layout", error) from error

    @classmethod
    def _from_json(cls, data: Any) -> Layout:
        if data["version"] != FORMAT_VERSION:
            raise ValueError(f"version {data['version']!r}, not {FORMAT_VERSION}")
        schema, curve, mapping = schema_from_json(data), data["curve"], data["mapping"]
        by = schema.names
        _check(by, curve, mapping)
        columns = tuple(Column(field) for field in schema)
        learned: Linear | OnCurve | Grid
        if _is_linear(by, curve):
            learned = Linear.from_json(columns, data["learned"])
        elif curve == "grid":
            learned = Grid.from_json(columns, data["learned"])
        else:
            is_hilbert, by_sample = curve == "hilbert", mapping == "sample"
            learned = OnCurve.from_json(columns, data["learned"], is_hilbert, by_sample)
        return cls(columns, curve, mapping, learned)

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return Layout.from_json, (self.to_json(), "")

    def __repr__(self) -> str:
        return f"Layout({', '.join(self.by)}; {self.curve} by {self.mapping})"


def _check(by: Sequence[str], curve: str, mapping: str) -> None:
    if isinstance(by, str):
        raise TypeError(f"by is the string {by!r}; give a sequence of column names")
    if not by:
        raise ValueError("by names no column; give at least one")
    for name in by:
        if list(by).count(name) > 1:
            raise ValueError(f"by names the column {name!r} twice")
    if curve not in CURVES:
        raise ValueError(f"curve is {curve!r}; give one of {', '.join(CURVES)}")
    if mapping not in MAPPINGS:
        raise ValueError(f"mapping is {mapping!r}; give one of {', '.join(MAPPINGS)}")
    check_together(by, curve, mapping)


def check_together(by: Sequence[str], curve: str, mapping: str) -> None:
    """Check that rows can be laid out so, each of these being known.

    Raises:
        ValueError: they cannot.
    """
    if curve == "grid" and mapping == "value":
        raise ValueError("a grid is cut by sample; give mapping='sample', or another curve")
    if curve != "linear" and len(by) > MOST_COLUMNS:
        raise ValueError(f"by names {len(by)} columns; give at most {MOST_COLUMNS} for a {curve}")


def _is_linear(by: Sequence[str], curve: str) -> bool:
    return curve == "linear" or len(by) == 1
