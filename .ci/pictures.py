"""Write the pictures of the documents: `docs/pictures/*.svg`.

    python .ci/pictures.py
    python .ci/pictures.py --check

With `--check`, no file is written. Files that differ from what this script makes are named, and the
exit status is 1.

Each text is on a filled shape, so that it can be read whatever the color of the page. The fills
follow the color scheme of the reader; lines have colors that show on white and on dark pages.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"

#: Colors of texts and of the shapes behind them, on light pages and on dark pages.
LIGHT = {
    "text": "#1b2230",
    "panel": "#f0f2f5",
    "plain": "#ffffff",
    "data": "#d6e6fb",
    "change": "#fdebc8",
    "result": "#d3f0dc",
}
DARK = {
    "text": "#eef1f5",
    "panel": "#2b303b",
    "plain": "#3b4250",
    "data": "#1d4270",
    "change": "#614714",
    "result": "#1e5136",
}
#: Colors of borders and arrows, on every page.
LINES = {
    "panel": "#7f8793",
    "plain": "#7f8793",
    "data": "#2f81d8",
    "change": "#b5761b",
    "result": "#2e8b57",
}

_WIDTH = 640
_SIZE = 15
_LEADING = 19
_HEAD = 9
_TEXT_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_CODE_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"

Point = tuple[float, float]


class Canvas:
    """Shapes and texts of a picture.

    A text is code if it is between backquotes, and bold if it begins with an asterisk.
    """

    def __init__(self) -> None:
        self._elements: list[str] = []

    @property
    def svg(self) -> str:
        """Return the elements in the order in which they were drawn, one per line."""
        return "".join(f"{one}\n" for one in self._elements)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *lines: str,
        kind: str = "plain",
        gone: bool = False,
    ) -> None:
        """Draw a rectangle with lines of text in its middle.

        Args:
            x, y: Upper left corner.
            width, height: Size.
            lines: Lines of text.
            kind: Name of its colors.
            gone: Whether its border is dashed, for what is skipped or deleted.
        """
        radius = min(6, height / 2)
        names = f"{kind} gone" if gone else kind
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self._elements.append(f'<rect class="{names}" {place} rx="{radius:g}"/>')
        top = y + height / 2 - (len(lines) - 1) * _LEADING / 2
        for i, line in enumerate(lines):
            self._text(x + width / 2, top + i * _LEADING, line, "middle")

    def panel(self, x: float, y: float, width: float, height: float, title: str) -> None:
        """Draw a rectangle for other shapes, with a title in its upper left corner."""
        self.box(x, y, width, height, kind="panel")
        self._text(x + 14, y + 19, f"*{title}", "start")

    def label(self, x: float, y: float, width: float, text: str) -> None:
        """Draw a short text around a point, on a rectangle that covers the lines behind it."""
        self.box(x - width / 2, y - 12, width, 24, text, kind="panel")

    def notes(self, y: float, notes: Sequence[tuple[str, str]]) -> None:
        """Draw the meanings of colors: a panel with a line for each kind and its meaning."""
        self.box(8, y, _WIDTH - 16, 12 + 24 * len(notes), kind="panel")
        for i, (kind, meaning) in enumerate(notes):
            middle = y + 18 + 24 * i
            if kind == "arrow":
                self.arrow((20, middle), (46, middle))
            elif kind:
                self.box(22, middle - 8, 22, 16, kind=kind.removesuffix(" gone"), gone=" " in kind)
            self._text(56 if kind else 20, middle, meaning, "start")

    def line(self, *points: Point) -> None:
        """Draw a line through points."""
        self._elements.append(f'<path class="line" d="{_path(points)}"/>')

    def arrow(self, *points: Point) -> None:
        """Draw a line through points with a head, its parts level or upright."""
        self.line(*points)
        (from_x, from_y), (x, y) = points[-2:]
        # One unit along the last part.
        right, down = (x > from_x) - (x < from_x), (y > from_y) - (y < from_y)
        back_x, back_y = x - _HEAD * right, y - _HEAD * down
        side_x, side_y = down * _HEAD / 2, right * _HEAD / 2
        head = [(x, y), (back_x + side_x, back_y + side_y), (back_x - side_x, back_y - side_y)]
        self._elements.append(f'<path class="head" d="{_path(head)} Z"/>')

    def _text(self, x: float, middle: float, text: str, anchor: str) -> None:
        names = ""
        if text.startswith("`"):
            names, text = ' class="code"', text.strip("`")
        elif text.startswith("*"):
            names, text = ' class="bold"', text[1:]
        place = f'x="{x:g}" y="{middle + 5:g}" text-anchor="{anchor}"'
        self._elements.append(f"<text{names} {place}>{html.escape(text, quote=False)}</text>")


@dataclass(frozen=True)
class Picture:
    """A picture of the documents.

    Attributes:
        title: Short name, for screen readers.
        description: What the picture shows, for screen readers.
        height: Height, for the common width.
        draw: Function that draws the picture.
    """

    title: str
    description: str
    height: int
    draw: Callable[[Canvas], None]

    @property
    def svg(self) -> str:
        """Return the file."""
        canvas = Canvas()
        self.draw(canvas)
        size = f'width="{_WIDTH}" height="{self.height}" viewBox="0 0 {_WIDTH} {self.height}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
            'aria-labelledby="title desc">\n'
            f'<title id="title">{html.escape(self.title, quote=False)}</title>\n'
            f'<desc id="desc">{html.escape(self.description, quote=False)}</desc>\n'
            f"<style>\n{_style()}</style>\n{canvas.svg}</svg>\n"
        )


def _path(points: Sequence[Point]) -> str:
    return "M" + " L".join(f"{x:g} {y:g}" for x, y in points)


def _style() -> str:
    """Return the rules for shapes and texts, and those that dark pages replace."""
    lines = [
        f"text {{ font: {_SIZE}px {_TEXT_FONTS}; }}",
        f".code {{ font: {_SIZE - 1}px {_CODE_FONTS}; }}",
        ".bold { font-weight: 600; }",
        f".line {{ fill: none; stroke: {LINES['plain']}; stroke-width: 1.5; }}",
        f".head {{ fill: {LINES['plain']}; }}",
        *(f".{kind} {{ stroke: {color}; stroke-width: 1.5; }}" for kind, color in LINES.items()),
        ".gone { stroke-dasharray: 5 4; }",
        *_fills(LIGHT),
        "@media (prefers-color-scheme: dark) {",
        *_fills(DARK),
        "}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _fills(colors: dict[str, str]) -> list[str]:
    names = {"text": "text", **{kind: f".{kind}" for kind in colors if kind != "text"}}
    return [f"{names[kind]} {{ fill: {color}; }}" for kind, color in colors.items()]


# ---- the pictures -------------------------------------------------------------------------------


def _store(canvas: Canvas) -> None:
    for left, version in ((8, 3), (372, 4)):
        canvas.panel(left, 8, 260, 306, f"Version {version}")
        canvas.box(left + 14, 38, 232, 34, "manifest")
        for x, bucket in ((left + 14, 0), (left + 138, 1)):
            canvas.arrow((x + 54, 72), (x + 54, 94))
            canvas.box(x, 94, 108, 28, f"bucket {bucket}", kind="panel")
    for x in (200, 440, 564):
        canvas.arrow((x, 122), (x, 254))
    for y, version in ((140, 3), (197, 2)):
        canvas.arrow((76, y - 18 if version == 3 else y - 15), (76, y))
        canvas.box(22, y, 108, 42, "run of", f"version {version}", kind="change")
    canvas.arrow((76, 239), (76, 254))
    canvas.box(22, 254, 108, 46, "base", kind="data")
    canvas.box(146, 254, 108, 46, "base", kind="data")
    canvas.box(386, 254, 108, 46, "new base", kind="result")
    canvas.box(510, 254, 108, 46, "same base", kind="data")
    canvas.arrow((268, 176), (372, 176))
    canvas.label(320, 150, 84, "`compact`")
    canvas.notes(
        326,
        [
            ("change", "Run: one sorted file of changed rows and tombstones"),
            ("data", "Base: one sorted file with the rows of a bucket"),
            ("result", "Compaction: merges runs and base into a new base"),
            ("arrow", "Lookup: bucket by hash of the key; newest run first, base last"),
        ],
    )


def _choose(canvas: Canvas) -> None:
    canvas.panel(8, 8, 624, 254, "Write a store")
    canvas.box(22, 47, 168, 48, "Does the store", "exist?", kind="data")
    canvas.arrow((106, 95), (106, 130))
    canvas.label(106, 109, 46, "yes")
    canvas.box(22, 130, 168, 48, "How many rows", "change?", kind="data")
    canvas.panel(8, 274, 624, 254, "Join facts with a dimension")
    canvas.box(22, 313, 168, 48, "Where is", "the dimension?", kind="data")
    for begin, y, answer, call, spark in (
        (0, 71, "no", "build", "build_store"),
        (0, 144, "a few percent", "upsert", "update_store"),
        (178, 217, "most or all", "build(overwrite=True)", "build_store"),
        (0, 337, "a store", "store.join", "lookup_join"),
        (361, 410, "Parquet or ORC", "ColumnarFiles.join", "lookup_join"),
        (361, 483, "a Hudi table", "TableLookup.join", "lookup_join"),
    ):
        canvas.arrow(*([(106, begin), (106, y)] if begin else [(190, y)]), (366, y))
        canvas.label(278, y, 144, answer)
        canvas.box(366, y - 29, 252, 58, f"`{call}`", f"Spark: {spark}", kind="result")


def _spark_join(canvas: Canvas) -> None:
    canvas.box(8, 8, 624, 36, "Driver: plans the join, reads no fact")
    canvas.arrow((320, 44), (320, 98))
    canvas.label(320, 68, 288, "path, version, names of columns")
    canvas.panel(8, 98, 624, 250, "Each host")
    canvas.box(22, 130, 168, 92, "*Executor (JVM)", "batches of facts")
    canvas.box(450, 136, 168, 92, kind="data")
    canvas.box(444, 130, 168, 92, "*Python worker", "opens the store", "once", kind="data")
    canvas.arrow((190, 152), (444, 152))
    canvas.label(317, 152, 150, "key columns")
    canvas.arrow((444, 200), (190, 200))
    canvas.label(317, 200, 186, "columns of the store")
    canvas.box(
        22,
        282,
        596,
        52,
        "*Cache folder, one quota",
        "data files, plain copies, tables of places",
        kind="result",
    )
    canvas.arrow((528, 282), (528, 228))
    canvas.label(470, 255, 280, "files mapped by all workers")
    canvas.arrow((320, 408), (320, 348))
    canvas.label(320, 378, 268, "blocks, later whole files")
    canvas.box(8, 408, 624, 36, "Store in object storage: manifest, data files", kind="result")
    canvas.notes(
        456,
        [
            ("", "Spark 3.5 and 4.0 send whole rows to Python and back."),
            ("", "Uncompressed stores in a folder are read in place."),
        ],
    )


def _hudi_slices(canvas: Canvas) -> None:
    # Instants 1 to 4 begin here, and the last one ends there.
    at = [104 + 132 * i for i in range(5)]
    for i in range(4):
        canvas.line((at[i] + 63, 62), (at[i] + 63, 280))
    canvas.box(8, 8, 84, 54, "*Instant", "action", kind="panel")
    for i, (name, action) in enumerate(
        [
            ("insert", "commit"),
            ("upsert", "commit"),
            ("clustering", "replacecommit"),
            ("clean", "clean"),
        ]
    ):
        canvas.box(at[i], 8, 126, 54, f"*{i + 1} {name}", action)
    for y, group in ((78, "A"), (140, "B"), (202, "C")):
        canvas.box(8, y, 84, 50, "file group", f"*{group}", kind="panel")
    for y, begin, end, kind, *lines in (
        (78, 0, 1, "panel", "*A1", "deleted by 4"),
        (78, 1, 2, "change", "*A2", "rewritten"),
        (140, 0, 2, "data", "*B1", "not changed by 2"),
        (202, 2, 4, "result", "*C3", "replaces groups A and B"),
    ):
        gone = kind == "panel"
        canvas.box(at[begin], y, at[end] - at[begin] - 6, 50, *lines, kind=kind, gone=gone)
    canvas.box(8, 280, 84, 54, "*Read", "`as_of=`", kind="panel")
    canvas.box(at[0], 280, 126, 54, "*1", "error after 4")
    canvas.box(at[1], 280, 126, 54, "*2", "A2 and B1")
    canvas.box(at[2], 280, 258, 54, "*3, or without as_of", "C3")
    canvas.notes(
        346,
        [
            ("", "A bar is a slice, for the time in which reads use it."),
            ("panel gone", "Deleted by clean(retain_commits=2): 2 and 3 stay readable."),
        ],
    )


def _filter_funnel(canvas: Canvas) -> None:
    def small(x: float, y: float, width: float, height: float, kept: bool, kind: str) -> None:
        canvas.box(x, y, width, height, kind=kind if kept else "panel", gone=not kept)

    steps = [
        ("Partitions", "names of folders"),
        ("Files", "column statistics"),
        ("Row groups", "Parquet footers"),
        ("Rows", "values"),
    ]
    for i, (what, by) in enumerate(steps):
        y = 8 + 92 * i
        canvas.box(8, y, 624, 76, kind="panel")
        canvas.box(8, y, 190, 76, f"*{i + 1} {what}", by)
        if i:
            canvas.arrow((103, y - 16), (103, y))
    for i in range(3):
        small(216 + 138 * i, 18, 126, 56, i == 1, "plain")
        for j in range(4):
            small(226 + 138 * i + 28 * j, 30, 22, 32, i == 1, "data")
    for j in range(4):
        small(226 + 102 * j, 110, 80, 56, j in (1, 2), "data")
    for i in range(2):
        canvas.box(216 + 206 * i, 202, 196, 56, kind="data")
        for j in range(4):
            small(226 + 206 * i + 45 * j, 212, 39, 36, (i, j) in ((0, 3), (1, 0), (1, 1)), "change")
    for i in range(3):
        for j in range(3):
            small(226 + 138 * i, 294 + 20 * j, 116, 14, (i, j) in ((0, 2), (1, 1)), "result")
    canvas.notes(
        376,
        [
            ("panel gone", "Cannot match: skipped"),
            ("", "Files without statistics are not skipped in step 2."),
        ],
    )


PICTURES = {
    "store": Picture(
        "A store: manifest, buckets, runs and compaction",
        "Version 3 of a store has a manifest and two buckets. Bucket 0 has a base and two runs, of"
        " versions 2 and 3; bucket 1 has a base only. Version 4, made by compact, has a manifest of"
        " its own: bucket 0 has one new base, and bucket 1 has the same base as in version 3."
        " A lookup goes to the bucket of the key, and there to the newest run first and to the base"
        " last.",
        440,
        _store,
    ),
    "choose": Picture(
        "Build, upsert or join",
        "To write a store: if it does not exist, use build, in Spark build_store. If it exists"
        " and a few percent of its rows change, use upsert, in Spark update_store. If most or all"
        " rows change, use build with overwrite=True, in Spark build_store. To join facts with a"
        " dimension in a store, use store.join; in Parquet or ORC files, ColumnarFiles.join; in a"
        " Hudi table, TableLookup.join; in Spark, lookup_join for all three.",
        536,
        _choose,
    ),
    "spark-join": Picture(
        "A lookup join in Spark",
        "The driver sends the path and version of the store and the names of columns to each host."
        " There, the executor sends the key columns of batches of facts to a Python worker, which"
        " opens the store once and returns columns of the store. The workers of a host map the"
        " files of one cache folder: data files, plain copies and tables of places. The folder is"
        " filled from the store in object storage, first with blocks, later with whole files."
        " Spark 3.5 and 4.0 send whole rows to Python and back. Uncompressed stores in a folder are"
        " read in place.",
        524,
        _spark_join,
    ),
    "hudi-slices": Picture(
        "File groups and slices of a Hudi table over time",
        "Instant 1, an insert, writes slice A1 of file group A and slice B1 of file group B."
        " Instant 2, an upsert, writes slice A2. Instant 3, a clustering, replaces both file groups"
        " with C and writes slice C3. Instant 4, a clean with retain_commits=2, deletes A1. A read"
        " as of 1 then raises an error, a read as of 2 returns A2 and B1, and a read as of 3 or"
        " without as_of returns C3.",
        410,
        _hudi_slices,
    ),
    "filter-funnel": Picture(
        "What a filter skips",
        "Four steps, each of which leaves less to read: partitions are skipped by the names of"
        " their folders, files by column statistics, row groups by the footers of Parquet files,"
        " and rows by their values. Files without statistics are not skipped.",
        442,
        _filter_funnel,
    ),
}


# ---- files --------------------------------------------------------------------------------------


def files() -> dict[Path, str]:
    """Return the text of each file, by its path."""
    return {FOLDER / f"{name}.svg": picture.svg for name, picture in PICTURES.items()}


def different() -> list[Path]:
    """Return the files of the folder that are not what this script makes, and those it lacks."""
    made = files()
    there = {path: path.read_text() for path in FOLDER.glob("*.svg")}
    return sorted(path for path in made.keys() | there.keys() if made.get(path) != there.get(path))


def main(arguments: Sequence[str]) -> int:
    """Write the files, or name those that differ with `--check`; return the exit status."""
    if arguments and list(arguments) != ["--check"]:
        print("usage: python .ci/pictures.py [--check]", file=sys.stderr)
        return 2
    if arguments:
        found = different()
        for path in found:
            print(f"{path.relative_to(FOLDER.parents[1])}: run python .ci/pictures.py")
        return 1 if found else 0
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
