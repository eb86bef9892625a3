"""Choose the layout of a table by columns, curve, mapping and file sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from lookupstore.hudi.layout.curves.layout import check_together
from lookupstore.quantities import bytes_of

#: Orders of rows by several columns.
Curve = Literal["grid", "hilbert", "zorder", "linear"]
#: Mappings of values to coordinates on a curve.
CurveMapping = Literal["sample", "value"]
#: Default size of new files in bytes, equal to that of other writes.
TARGET_FILE_SIZE = 120 << 20


@dataclass(frozen=True)
class LayoutChoice:
    """A layout that a caller wants.

    Attributes:
        by: Names of the columns to order rows by, or the name of one; columns that most queries
            filter by come first.
        curve: Order of the rows. `grid`: boxes with equal numbers of rows, best for two or three
            columns; `hilbert`, `zorder`: a curve through all columns, of which each file is a
            stretch; `linear`: sorted by the first column, then by the next.
        mapping: Mapping of values to places on a curve. `sample`: by their ranks in a sample, so
            that skewed values are spread like others; `value`: by the values themselves.
        target_file_size: Approximate size of a file in bytes, or a text such as `"120MiB"`.
        small_file_limit: Size in bytes, or a text such as `"100MiB"`, from which files are not
            rewritten. Default: files of all sizes are rewritten.

    Raises:
        TypeError: If `by` is not a name or a sequence of names.
        ValueError: If `by` is empty, has a name twice or more names than the curve supports, a
            curve or mapping is unknown, a grid is mapped by value, or a size is out of range.

    >>> LayoutChoice("day").by
    ('day',)
    """

    by: Sequence[str]
    curve: Curve = "grid"
    mapping: CurveMapping = "sample"
    target_file_size: int = TARGET_FILE_SIZE
    small_file_limit: int | None = None

    def __post_init__(self) -> None:
        by = (self.by,) if isinstance(self.by, str) else self.by
        if not isinstance(by, Sequence) or not all(isinstance(one, str) for one in by):
            raise TypeError(f"by is {self.by!r}; give names of columns, or the name of one")
        by = tuple(by)
        if not by or len(set(by)) < len(by):
            raise ValueError(f"by is {self.by!r}; give the columns to order rows by, each once")
        object.__setattr__(self, "by", by)
        for name, kind in (("curve", Curve), ("mapping", CurveMapping)):
            if getattr(self, name) not in get_args(kind):
                known = ", ".join(map(repr, get_args(kind)))
                raise ValueError(f"{name} is {getattr(self, name)!r}; give one of {known}")
        for name in ("target_file_size", "small_file_limit"):
            size = getattr(self, name)
            if size is not None:
                object.__setattr__(self, name, bytes_of(size, name, least=1))
        check_together(by, self.curve, self.mapping)

    def check_incremental(self) -> None:
        """Check that a later clustering can continue the layout.

        Raises:
            ValueError: If the curve is `grid`, or `small_file_limit` is set.
        """
        if self.curve == "grid":
            raise ValueError(
                "a grid is for one number of files; incrementally, give curve='hilbert'"
            )
        if self.small_file_limit is not None:
            raise ValueError(
                "small_file_limit is for files by size; incrementally, they are chosen by overlap"
            )

    def to_json(self) -> str:
        """Return the choice as JSON, the same for equal choices.

        >>> LayoutChoice(["a", "b"], curve="hilbert").to_json()[:36]
        '{"by": ["a", "b"], "curve": "hilbert'
        """
        return json.dumps(asdict(self))
