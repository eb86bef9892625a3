"""Plots of the bench on the documentation site: SVG that mkdocs draws from JSON lines.

A page says `<!-- plot: NAME -->` where one goes. The table and the line about the run that follow
it there are what other readers of Markdown see. They are written by

    python .ci/plots.py FILE...

which takes for each plot the last run in these JSON lines of the bench that has all of it, and
keeps what plots need in `bench/speed.jsonl`.
"""

from __future__ import annotations

import html
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log10
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "speed.jsonl"
PAGE = ROOT / "docs" / "explain" / "speed.md"

_MARKER = re.compile(r"<!-- plot: (\w+) -->")
#: A marker, and the table and the line that were written for it.
_WRITTEN = re.compile(_MARKER.pattern + r"\n(?:\n(?:\|.*\n)+\n\*.*\*\n)?")

# Readable on white and on black; texts have the color of the page.
_OURS, _RIVALS, _TEXT = "#2f81d8", "#8b929c", "#010203"


class Subject(NamedTuple):
    """One measurement, as the bench names it."""

    workload: str
    verb: str
    contender: str


@dataclass(frozen=True)
class Figures:
    """What a table has, and a plot shows.

    Attributes:
        heads: of the columns, the first of which has the labels.
        rows: a label, and a number for each other column, None where there is none.
        run: what the bench says of the run that all of it is from.
    """

    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float | None]]]
    run: dict[str, Any]


@dataclass(frozen=True)
class Plot:
    """A plot of the page.

    Attributes:
        title: what it shows, for those who do not see it.
        heads: as of `Figures`.
        rows: a label, and what was measured in each other column, None where nothing was.
        number: makes the number of a cell from a measurement.
        draw: fills a figure of matplotlib.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Subject | None]]]
    number: Callable[[dict[str, Any]], float]
    draw: Callable[[Any, Figures], None]

    @property
    def subjects(self) -> list[Subject]:
        """Return all that has to be measured."""
        return [one for _, cells in self.rows for one in cells if one is not None]

    def lines(self, results: str) -> dict[Subject, dict[str, Any]]:
        """Return what the last run measured that has all subjects, of JSON lines of the bench."""
        runs: dict[str, dict[Subject, dict[str, Any]]] = {"": {}}
        for line in map(json.loads, results.splitlines()):
            if "bar" not in line:
                subject = Subject(line["workload"], line["verb"], line["contender"])
                runs.setdefault(json.dumps(line["run"]), {})[subject] = line
        lacking = {run: [one for one in self.subjects if one not in runs[run]] for run in runs}
        best = min(reversed(lacking), key=lambda run: len(lacking[run]))
        if lacking[best]:
            names = ", ".join(" / ".join(one) for one in lacking[best])
            raise LookupError(f"{self.title}: no run of the bench measured {names}")
        return {one: runs[best][one] for one in self.subjects}

    def figures(self, results: str) -> Figures:
        """Return the numbers, from JSON lines of the bench."""
        lines = self.lines(results)
        rows = [
            (label, [None if one is None else self.number(lines[one]) for one in cells])
            for label, cells in self.rows
        ]
        return Figures(self.heads, rows, lines[self.subjects[0]]["run"])


# ---- what is plotted ----------------------------------------------------------------------------


def _millions(one: dict[str, Any]) -> float:
    return float(one["value"]) / 1e6


def _microseconds(one: dict[str, Any]) -> float:
    """Return the time of a key: values are keys a second, of `call of` and `list of` calls."""
    kind, _, keys = one["verb"].partition(" of ")
    return 1e6 / float(one["value"]) / (int(keys) if kind in ("call", "list") else 1)


def _bars(figure: Any, figures: Figures) -> None:
    """Draw a panel for each column, with a bar for each row that has a number there."""
    columns = range(len(figures.heads) - 1)
    panels = [
        [(label, cells[i]) for label, cells in figures.rows if cells[i] is not None]
        for i in columns
    ]
    most = max(map(len, panels))
    figure.set_size_inches(9, 0.5 + 0.32 * most)
    for i, axes in zip(columns, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
        bars = panels[i]
        labels, numbers = zip(*reversed(bars), strict=True)
        colors = [_OURS if label.startswith("lookupstore") else _RIVALS for label in labels]
        drawn = axes.barh(labels, numbers, color=colors, height=0.7)
        axes.bar_label(drawn, [_text(one) for one in numbers], padding=3)
        axes.set_title(figures.heads[i + 1], fontsize=10)
        axes.set_xlim(0, max(numbers) * 1.25)
        # Bars of all panels are of one height, from the top.
        axes.set_ylim(len(bars) - most - 0.5, len(bars) - 0.5)
        axes.set_xticks([])
        axes.tick_params(left=False)
        axes.spines[:].set_visible(False)


def _curves(figure: Any, figures: Figures) -> None:
    """Draw what calls take as curves, by their size, and what single keys take as lines."""
    figure.set_size_inches(9, 4.2)
    axes = figure.subplots()
    for i, style in enumerate(("-o", "--s")):
        points = [
            (int(label.partition(" ")[0].replace(",", "")), cells[i])
            for label, cells in figures.rows
            if cells[i] is not None
        ]
        label = f"lookupstore: {figures.heads[i + 1]}"
        axes.plot(*zip(*points, strict=True), style, color=_OURS, markersize=4, label=label)
    singles = [(label, cells[2]) for label, cells in figures.rows if cells[2] is not None]
    for _, time in singles:
        axes.axhline(time, color=_RIVALS, linewidth=0.8, linestyle=":")
    # Names of lines that are close to each other stand in one row.
    for _, names in groupby(singles, lambda one: round(4 * log10(one[1]))):
        some = list(names)
        axes.annotate(
            "one key: " + ", ".join(label for label, _ in some),
            (1, some[0][1]),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
        )
    axes.set(xscale="log", yscale="log", xlabel="keys a call", ylabel="microseconds a key")
    axes.xaxis.set_major_formatter(lambda keys, _: f"{keys:,.0f}")
    axes.yaxis.set_major_formatter(lambda time, _: f"{time:g}")
    axes.minorticks_off()
    axes.grid(color=_RIVALS, alpha=0.25)
    axes.spines[:].set_visible(False)
    axes.legend(frameon=False, loc="lower left")


_EVERYBODY = ("lookupstore", "rocksdict", "lmdb", "plyvel", "dict", "numpy", "pandas")
_NO_LOOPS = ("numpy", "pandas")
_GETS = {
    "lookupstore": "lookupstore",
    "dict of dicts": "dict",
    "SQLite in memory": "sqlite in memory",
    "SQLite, mapped file": "sqlite, mapped file",
    "pandas .loc": "pandas",
    "DuckDB, index": "duckdb",
}


def _of_us(verb: str) -> Subject:
    return Subject("W1", verb, "lookupstore")


def _keys(count: int) -> str:
    return "1 key" if count == 1 else f"{count:,} keys"


PLOTS = {
    "rates": Plot(
        "Millions of keys a second, from files of bytes and from memory",
        ("", "one key at a time", "all keys in one call", "the same, of missing keys"),
        [
            (
                name,
                [
                    None if verb == "get" and name in _NO_LOOPS else Subject("W1", verb, name)
                    for verb in ("get", "random", "missing")
                ],
            )
            for name in _EVERYBODY
        ],
        _millions,
        _bars,
    ),
    "sizes": Plot(
        "Microseconds a key, by the keys of a call",
        ("", "calls, keys in Arrow", "calls, keys in a list", "one key, `get`"),
        [
            *(
                (_keys(size), [_of_us(f"call of {size}"), _of_us(f"list of {size}"), None])
                for size in (1, 10, 100, 1000)
            ),
            *(
                (_keys(size), [_of_us(f"lookup of {size}"), None, None])
                for size in (10_000, 100_000, 1_000_000)
            ),
            *((label, [None, None, Subject("W1", "get", name)]) for label, name in _GETS.items()),
        ],
        _microseconds,
        _curves,
    ),
    "upserts": Plot(
        "Millions of rows a second, upserted in batches and looked up afterwards",
        ("", "upserts", "lookups afterwards"),
        [
            (
                "lookupstore",
                [
                    Subject("changes", "batch", "lookupstore"),
                    Subject("changes", "lookup", "four runs"),
                ],
            ),
            (
                "lookupstore, compacted",
                [None, Subject("changes", "lookup", "compacted")],
            ),
            (
                "rocksdict",
                [
                    Subject("changes", "batch", "rocksdict"),
                    Subject("changes", "lookup", "rocksdict"),
                ],
            ),
            (
                "rocksdict, sorted bytes",
                [Subject("changes", "batch", "rocksdict, sorted bytes"), None],
            ),
        ],
        _millions,
        _bars,
    ),
}


# ---- figures ------------------------------------------------------------------------------------


def markdown(name: str, results: str) -> str:
    """Return the table of a plot, and a line that says what machine and sizes it is of."""
    figures = PLOTS[name].figures(results)
    lines = [
        figures.heads,
        ["---", *["---:"] * (len(figures.heads) - 1)],
        *([label, *map(_text, cells)] for label, cells in figures.rows),
    ]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("|  |", "| |")
    return f"{table}\n*{_about(PLOTS[name], figures.run)}*\n"


def written(page: str, results: str) -> str:
    """Return a page with the tables and lines of its plots, in the place of those it has."""
    return _WRITTEN.sub(
        lambda found: f"<!-- plot: {found[1]} -->\n\n{markdown(found[1], results)}", page
    )


def kept(results: str) -> str:
    """Return the JSON lines that plots need."""
    lines = [one for plot in PLOTS.values() for one in plot.lines(results).values()]
    return "".join(json.dumps(one) + "\n" for one in lines)


def _text(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _about(plot: Plot, run: dict[str, Any]) -> str:
    """Return what the figures depend on, as the run itself says it."""
    machine = run["machine"]
    names = ["lookupstore", "pyarrow", *(one.contender.partition(",")[0] for one in plot.subjects)]
    versions = [
        f"{name} {machine['packages'][name]}"
        for name in dict.fromkeys(names)
        if machine["packages"].get(name, "-") != "-"
    ]
    sizes = [
        f"{value:,} {name}" for name, value in run["settings"].items() if isinstance(value, int)
    ]
    return (
        f"{run['started'][:10]}: {machine['cpu']}, {machine['cores']} cores, "
        f"load {machine['load']} before; {machine['python']}, {', '.join(versions)}; "
        f"{', '.join(sizes)}; medians."
    )


# ---- the site -----------------------------------------------------------------------------------


def svg(name: str, results: str) -> str:
    """Return a plot, drawn from JSON lines of the bench, for the middle of a page of HTML."""
    import matplotlib
    from matplotlib.figure import Figure

    plot = PLOTS[name]
    figures = plot.figures(results)
    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 9,
        **dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"),
            _TEXT,
        ),
    }
    with matplotlib.rc_context(settings):
        figure = Figure(layout="constrained")
        plot.draw(figure, figures)
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    return f'<figure style="width: 100%">{_inline(file.getvalue(), plot.title)}</figure>'


def _inline(drawn: str, title: str) -> str:
    """Return a file of SVG as an element: of the page's width and color, without what is global."""
    found = drawn[drawn.index("<svg") :].replace(_TEXT, "currentColor")
    found = re.sub(r"<style.*?</style>", "", found, flags=re.DOTALL)
    found = re.sub(r"<metadata>.*?</metadata>", "", found, flags=re.DOTALL)
    # Several plots are in one page: names that nothing refers to would be there twice.
    found = re.sub(r' id="([^"]+)"', lambda one: one[0] if f"#{one[1]}" in drawn else "", found)
    found = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", found)
    found = re.sub(r"font-family: [^;\"]*", "font-family: inherit", found)
    size = f' role="img" aria-label="{html.escape(title)}" style="width: 100%; height: auto"'
    return re.sub(r' width="[^"]*" height="[^"]*"', size, found, count=1)


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Return a page with its plots in the places that its markers say."""
    return _MARKER.sub(lambda found: svg(found[1], RESULTS.read_text()), content)


def main(paths: Iterable[str]) -> None:
    """Keep what plots need of some JSON lines, and write the tables of the page anew."""
    results = kept("".join(Path(path).read_text() for path in paths))
    page = written(PAGE.read_text(), results)
    RESULTS.write_text(results)
    PAGE.write_text(page)


if __name__ == "__main__":
    main(sys.argv[1:])
