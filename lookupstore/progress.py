"""A progress bar for people, with rate and remaining time: on a terminal only, standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Called with the number of rows done since the call before.
Advance = Callable[[int], None]
# Opens a bar with a title and a total of rows (None: not known).
Bars = Callable[[str, "int | None"], Advance]


def is_watched() -> bool:
    """Return whether a bar would be seen: standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def progress_bars(show: bool | None = None) -> Iterator[Bars | None]:
    """Yield a function that opens progress bars, or None where they would not be seen.

    `show=None` shows bars if standard error is a terminal.

    >>> with progress_bars(False) as bars:
    ...     print(bars)
    None
    """
    if not (is_watched() if show is None else show):
        yield None
        return
    # Imported here: rich takes longer to import than many builds take.
    from rich import console, progress

    with progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.completed:,.0f} rows"),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[left]}"),
        progress.TimeRemainingColumn(elapsed_when_finished=False),
        console=console.Console(stderr=True),
    ) as display:

        def open_bar(title: str, total: int | None) -> Advance:
            left = "" if total is None else "left"
            task = display.add_task(title, total=total, rate="", left=left)

            def advance(rows: int) -> None:
                display.update(task, advance=rows)
                speed = display.tasks[task].speed
                if speed is not None:
                    display.update(task, rate=f"{speed:,.0f} rows/s")

            return advance

        yield open_bar
