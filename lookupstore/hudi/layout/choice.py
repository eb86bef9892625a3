"""What a caller chooses about the layout of a table: columns, curve, mapping, sizes of files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from lookupstore.hudi.layout.curves.layout import check_together
from lookupstore.quantities import bytes_of

#: In which order rows of several columns are put.
Curve = Literal["grid", "hilbert", "zorder", "linear"]
#: How values become places on a curve.
CurveMapping = Literal["sample", "value"]
#: As files of other writes are.
TARGET_FILE_SIZE = 120 << 20


@dataclass(frozen=True)
class LayoutChoice:
    """A layout that a caller wants.

    Attributes:
        by: the columns, or the name of one, those first by which most is asked.
        curve: `grid`: boxes of equal numbers of rows, which is best for two columns or three;
            `hilbert`, `zorder`: curves, of which each file is a stretch; `linear`: by the first
            column, then by the next.
        mapping: `sample`: by ranks in a sample, so that skewed values take as much room as others;
            `value`: by the values themselves.
        target_file_size: bytes of a file, about; also a text such as `"120MiB"`.
        small_file_limit: files of at least so many bytes stay as they are; None: none does.

    Raises:
        TypeError: `by` has no names of columns.
        ValueError: no column, one twice, more than a curve takes, an unknown word, a grid by value,
            or a size out of range.

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
        """Check that a later clustering can go on with the order.

        Raises:
            ValueError: it cannot.
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
        """Return it as JSON, the same for equal ones.

        >>> LayoutChoice(["a", "b"], curve="hilbert").to_json()[:36]
        '{"by": ["a", "b"], "curve": "hilbert'
        """
        return json.dumps(asdict(self))
