"""Learn the order of rows by several columns at once from a sample."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pyarrow as pa

from lookupstore.arrow.types import concat, schema_from_json, schema_to_json
from lookupstore.errors import CorruptionError, listed
from lookupstore.hudi.layout.curves._curve import MOST_COLUMNS
from lookupstore.hudi.layout.curves.column import SortColumn
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
# Maximum size of the JSON text: four thousand boundaries of a thousand bytes for eight columns.
MOST_BYTES = 128 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """An order of rows that makes files small boxes in the values of some columns.

    `fit` learns a layout. The same layout always gives equal rows equal positions.

    Attributes:
        columns: Columns to order rows by, with their types.
        curve: Kind of order. `linear` sorts by the first column, then by the next; `zorder` and
            `hilbert` follow a curve through all columns; `grid` cuts cells with equal numbers of
            rows. The order by one column is always linear.
        mapping: Mapping of values to places on a curve: `sample` by their ranks in the sample,
            `value` by their place in the range of the sample. A linear order ignores it.
        learned: Boundaries or ranges that were learned from the sample.
    """

    columns: tuple[SortColumn, ...]
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
            sample: Rows that were drawn at random; 100,000 are enough.
            by: Names of the columns; columns that most queries filter by come first.
            curve: Kind of order: `linear`, `zorder`, `hilbert` or `grid`.
            mapping: Mapping of values to places on a curve: `sample` or `value`. A grid needs
                `sample`.
            files: Number of files for all rows.

        Raises:
            KeyError: If the sample does not have a column.
            TypeError: If `by` is a string, or a column has a type without an order.
            ValueError: If another argument is wrong.

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
        columns = tuple(SortColumn(sample.schema.field(name)) for name in by)
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
        """Return whether a stretch is a box in all columns, not a range of the first."""
        return not _is_linear(self.by, self.curve)

    def positions(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """Return the position of each row, as bytes in the order of the layout.

        Args:
            rows: Rows with the columns of the layout; every value must fit the type that the column
                has in the layout.

        Returns:
            Positions as fixed_size_binary. Null is before all values, NaN after all numbers.

        Raises:
            KeyError: If the rows do not have a column.
            TypeError: If a column has another kind of type.
            ValueError: If a value does not fit the type of its column.
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
            text: Layout as JSON.
            path: Path of the file with the text, for errors.

        Raises:
            CorruptionError: If the text does not describe a layout.
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
        columns = tuple(SortColumn(field) for field in schema)
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
    """Check that columns, curve and mapping can be used together.

    Raises:
        ValueError: If a grid is mapped by value, or the curve does not support so many columns.
    """
    if curve == "grid" and mapping == "value":
        raise ValueError("a grid is cut by sample; give mapping='sample', or another curve")
    if curve != "linear" and len(by) > MOST_COLUMNS:
        raise ValueError(f"by names {len(by)} columns; give at most {MOST_COLUMNS} for a {curve}")


def _is_linear(by: Sequence[str], curve: str) -> bool:
    return curve == "linear" or len(by) == 1
