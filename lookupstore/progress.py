"""Progress bars for people, with rate and remaining time: on a terminal, or in a notebook.

A terminal has them on standard error. A notebook has an output of its own for them, whose text is
replaced: for widgets it would need another package.
"""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


class Rows(Protocol):
    """What has a number of rows: a batch or a table of Arrow."""

    @property
    def num_rows(self) -> int:
        """Return how many."""
        ...


B = TypeVar("B", bound=Rows)

# Called with how much was done since the call before.
Advance = Callable[[float], None]


class Bars(Protocol):
    """What opens bars, one below the other."""

    def __call__(self, title: str, total: float | None, unit: str = "rows") -> Advance:
        """Open a bar, and return what moves it.

        Args:
            title: of the bar.
            total: how much there is to do; None: nobody knows.
            unit: of what is done.
        """
        ...


def not_shown(done: float) -> None:
    """Move no bar: what takes the place of an `Advance` where nobody would see one."""


# A verb that mostly ends before this many seconds shows a bar only if it goes on after them.
LATE = 1.0
# Seconds between two looks at a bar in a notebook, and how many characters it is wide there.
_PAUSE = 0.3
_WIDTH = 100


def is_watched() -> bool:
    """Return whether a bar would be seen: standard error is a terminal, or this is a notebook."""
    return _notebook_display() is not None or (sys.stderr is not None and sys.stderr.isatty())


def _notebook_display() -> Any:
    """Return what shows something in the notebook that this runs in; None: it is in none."""
    ipython = sys.modules.get("IPython")
    if not hasattr(getattr(ipython, "get_ipython", lambda: None)(), "kernel"):
        return None
    return ipython.display.display  # type: ignore[union-attr]


@contextmanager
def shown(*columns: ProgressColumn, after: float = 0) -> Iterator[Progress]:
    """Yield bars with these columns, which are seen until the end of the block.

    Args:
        columns: of each bar.
        after: seconds before they are seen.
    """
    # Imported here: rich takes longer to import than many builds take.
    from rich.console import Console
    from rich.progress import Progress

    put = _notebook_display()
    if put is None:
        # What the program prints meanwhile stays where the program wants it.
        bars = Progress(
            *columns,
            console=Console(stderr=True),
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with _begun(bars, after):
            yield bars
        return
    console = Console(file=io.StringIO(), width=_WIDTH, force_jupyter=False)
    bars = Progress(*columns, console=console, auto_refresh=False)

    def text() -> dict[str, str]:
        with console.capture() as drawn:
            console.print(bars.get_renderable())
        return {"text/plain": drawn.get().rstrip()}

    begin = time.monotonic() + after
    output: list[Any] = []

    def look() -> None:
        if time.monotonic() < begin:
            return
        with suppress(Exception):  # a bar that cannot be shown stops no work
            if output:
                output[0].update(text(), raw=True)
            else:
                output.append(put(text(), raw=True, display_id=True))

    look()
    with called_every(_PAUSE, look):
        yield bars


@contextmanager
def _begun(bars: Progress, after: float) -> Iterator[None]:
    """Show bars on the terminal until the end of the block, if it is not over before so long."""
    if not after:
        with bars:
            yield
        return

    def start() -> None:
        with suppress(Exception):  # a bar that cannot be shown stops no work
            bars.start()

    timer = threading.Timer(after, start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if bars.live.is_started:
            bars.stop()


@contextmanager
def called_every(pause: float, look: Callable[[], None]) -> Iterator[None]:
    """Call a function in a thread, with a pause before each time, and once when the block ends.

    Args:
        pause: in seconds.
        look: what is called.
    """
    ended = threading.Event()

    def look_on() -> None:
        while not ended.wait(pause):
            look()

    thread = threading.Thread(target=look_on, name="lookupstore-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        look()


@contextmanager
def progress_bars(show: bool | None = None, *, late: bool = False) -> Iterator[Bars | None]:
    """Yield a function that opens progress bars, or None where they would not be seen.

    Args:
        show: whether there are bars; None: if standard error is a terminal, or in a notebook.
        late: whether they are not seen before `LATE` seconds, unless `show` says that there are.

    >>> with progress_bars(False) as bars:
    ...     print(bars)
    None
    """
    if not (is_watched() if show is None else show):
        yield None
        return
    from rich import progress

    with shown(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.completed:,.0f} {task.fields[unit]}"),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[left]}"),
        progress.TimeRemainingColumn(elapsed_when_finished=False),
        after=LATE if late and show is None else 0,
    ) as display:

        def open_bar(title: str, total: float | None, unit: str = "rows") -> Advance:
            left = "" if total is None else "left"
            task = display.add_task(title, total=total, unit=unit, rate="", left=left)

            def advance(done: float) -> None:
                display.update(task, advance=done)
                speed = display.tasks[task].speed
                if speed is not None:
                    display.update(task, rate=f"{speed:,.0f} {unit}/s")

            return advance

        yield open_bar


def watched(
    batches: Iterable[B],
    title: str,
    total: Callable[[], int | None] | None = None,
    *,
    late: bool = False,
) -> Generator[B]:
    """Yield batches, and show a bar of their rows if it would be seen, until it is closed.

    Args:
        batches: of rows, or tables.
        title: of the bar.
        total: counts the rows that will come, or returns None; None: nobody knows.
        late: as of `progress_bars`.
    """
    with progress_bars(late=late) as bars:
        advance = bars(title, total() if total else None) if bars else None
        for batch in batches:
            yield batch
            if advance:
                advance(batch.num_rows)
