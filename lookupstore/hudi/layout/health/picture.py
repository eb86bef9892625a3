"""Draw the files of a table as boxes in two columns, in SVG.

The width of a box is the share of the rows between the bounds of its file. Skewed columns and texts
are therefore drawn like others. In a good layout boxes are small and next to each other.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lookupstore.errors import printable
from lookupstore.filters.column_bounds import ColumnBounds
from lookupstore.hudi.file_group.groups import FileSlice
from lookupstore.hudi.layout.health.spread import ColumnSpread

# Sizes in pixels: side of the square, margin around it, smallest side of a box.
_SIDE, _MARGIN, _LEAST = 480, 48, 2.0
# Maximum number of files: more boxes would cover each other.
_MOST_FILES = 5000
# Maximum number of characters of a value at an axis, and of a value in a title.
_SHORT, _LONG = 24, 60


@dataclass(frozen=True)
class LayoutPicture:
    """A picture of the files of a table as boxes in two columns.

    Attributes:
        svg: Picture as SVG text.
        files: Number of files of the table.
        drawn: Number of files that are drawn: at most 5,000, without files whose bounds are
            unknown in one of the columns.
    """

    svg: str = field(repr=False)
    files: int
    drawn: int

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a local file, and replace a file of that name."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)


def layout_picture(
    files: Sequence[FileSlice], known: Mapping[str, ColumnBounds], x: str, y: str
) -> LayoutPicture:
    """Draw files as boxes in two columns.

    Args:
        files: Base files of the table.
        known: Bounds in each file, in the order of `files`, by the name of the column.
        x: Name of the column from left to right.
        y: Name of the column from bottom to top.
    """
    across, up = ColumnSpread.of(known[x]), ColumnSpread.of(known[y])
    both = np.flatnonzero(across.known & up.known)
    evenly = np.linspace(0, len(both) - 1, min(len(both), _MOST_FILES)).astype(np.int64)
    chosen = both[evenly]
    boxes = "\n".join(
        _box(_title(files[at], known, x, y, at), *ends)
        for at, *ends in zip(
            chosen.tolist(),
            across.lows[chosen].tolist(),
            across.highs[chosen].tolist(),
            up.lows[chosen].tolist(),
            up.highs[chosen].tolist(),
            strict=True,
        )
    )
    count = f"{len(chosen):,} of {len(files):,} files"
    size = _SIDE + 2 * _MARGIN
    svg = "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" '
            f'viewBox="0 0 {size} {size}" font-family="sans-serif" font-size="12">',
            f'<rect width="{size}" height="{size}" fill="white"/>',
            f'<g fill="#1f77b4" fill-opacity="0.15" stroke="#1f77b4" stroke-width="0.5">\n{boxes}',
            "</g>",
            *_axes(x, y, across.ends_of_values, up.ends_of_values),
            _text(_MARGIN, _MARGIN - 20, "start", f"{count}, by shares of rows"),
            "</svg>\n",
        )
    )
    return LayoutPicture(svg, len(files), len(chosen))


def _box(title: str, left: float, right: float, low: float, high: float) -> str:
    width = max(_SIDE * (right - left), _LEAST)
    height = max(_SIDE * (high - low), _LEAST)
    at_x = _MARGIN + min(_SIDE * left, _SIDE - width)
    at_y = _MARGIN + max(_SIDE * (1 - low) - height, 0)
    return (
        f'<rect x="{at_x:.2f}" y="{at_y:.2f}" width="{width:.2f}" height="{height:.2f}">'
        f"<title>{title}</title></rect>"
    )


def _title(file: FileSlice, known: Mapping[str, ColumnBounds], x: str, y: str, at: int) -> str:
    """Return the tooltip of a file."""
    lines = [f"{file.path}, {known[x].rows[at].as_py():,} rows"]
    for name in (x, y):
        ends = (known[name].least[at], known[name].greatest[at])
        low, high = (_shown(one.as_py(), _LONG) for one in ends)
        lines.append(f"{name}: {low} to {high}")
    return "\n".join(html.escape(printable(one)) for one in lines)


def _axes(x: str, y: str, of_x: tuple[Any, Any], of_y: tuple[Any, Any]) -> Iterator[str]:
    end = _MARGIN + _SIDE
    yield (
        f'<rect x="{_MARGIN}" y="{_MARGIN}" width="{_SIDE}" height="{_SIDE}" fill="none" '
        'stroke="black"/>'
    )
    middle, below = _MARGIN + _SIDE / 2, end + 16
    yield _text(_MARGIN, below, "start", _shown(of_x[0], _SHORT))
    yield _text(end, below, "end", _shown(of_x[1], _SHORT))
    yield _text(middle, below + 16, "middle", x)
    turned = f'<g transform="rotate(-90) translate(-{end + _MARGIN} 0)">'
    yield f"{turned}{_text(_MARGIN, _MARGIN - 6, 'start', _shown(of_y[0], _SHORT))}"
    yield _text(end, _MARGIN - 6, "end", _shown(of_y[1], _SHORT))
    yield f"{_text(middle, _MARGIN - 22, 'middle', y)}</g>"


def _text(x: float, y: float, anchor: str, text: str) -> str:
    shown = html.escape(printable(text))
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{shown}</text>'


def _shown(value: Any, most: int) -> str:
    """Return the text of a value, cut to some number of characters."""
    text = "" if value is None else str(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
