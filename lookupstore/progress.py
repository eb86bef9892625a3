"""Show progress bars with rate and remaining time, on terminals and in notebooks.

On a terminal they are written to standard error. In a notebook they are text in an output of their
own, which is replaced with each change: widgets would need another package.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


class HasRows(Protocol):
    """A batch or a table of Arrow, which has a number of rows."""

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        ...


B = TypeVar("B", bound=HasRows)

# Function that is called with the amount of work done since its last call.
Advance = Callable[[float], None]


class Bars(Protocol):
    """A function that opens bars, one below the other."""

    def __call__(self, title: str, total: float | None, unit: str = "rows") -> Advance:
        """Open a bar, and return a function that advances it.

        Args:
            title: Title of the bar.
            total: Amount of work, in units. None: The amount is unknown.
            unit: Name of the units, such as `rows`.
        """
        ...


def not_shown(done: float) -> None:
    """Do nothing, in place of an `Advance`, if no bar is shown."""


# Seconds after which a bar is shown for work that mostly ends sooner.
LATE = 1.0
# Seconds between two updates of a bar in a notebook, and its width there in characters.
_PAUSE = 0.3
_WIDTH = 100

# Bars of `progress_bars` that this process shows. Two displays would draw over each other.
_display: Progress | None = None


def _after_fork() -> None:
    """Forget the display of the parent: another thread may have had its lock."""
    global _display
    _display = None


os.register_at_fork(after_in_child=_after_fork)


def is_watched() -> bool:
    """Return whether standard error is a terminal, or this process is a notebook."""
    return _notebook_display() is not None or (sys.stderr is not None and sys.stderr.isatty())


def _notebook_display() -> Any:
    """Return the display function of the current notebook.

    None: There is no notebook.
    """
    ipython = sys.modules.get("IPython")
    if not hasattr(getattr(ipython, "get_ipython", lambda: None)(), "kernel"):
        return None
    return ipython.display.display  # type: ignore[union-attr]


@contextmanager
def shown(*columns: ProgressColumn, after: float = 0) -> Iterator[Progress]:
    """Yield bars with these columns, and show them until the block ends.

    Args:
        columns: Columns of each bar.
        after: Delay before the bars are shown, in seconds.
    """
    # Imported here: rich takes longer to import than many builds take.
    from rich.console import Console
    from rich.progress import Progress

    put = _notebook_display()
    if put is None:
        # Output of the program stays where the program writes it.
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
        with suppress(Exception):  # a bar that cannot be shown does not stop the work
            if output:
                output[0].update(text(), raw=True)
            else:
                output.append(put(text(), raw=True, display_id=True))

    look()
    with called_every(_PAUSE, look):
        yield bars


@contextmanager
def _begun(bars: Progress, after: float) -> Iterator[None]:
    """Show bars on the terminal after a delay, until the block ends."""
    if not after:
        with bars:
            yield
        return

    def start() -> None:
        with suppress(Exception):  # a bar that cannot be shown does not stop the work
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
    """Call a function regularly in a thread, and once more when the block ends.

    Args:
        pause: Pause before each call, in seconds.
        look: Function to call repeatedly, without arguments.
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
    """Yield a function that opens progress bars, or None if they are not visible.

    Inside of another such block, the bars are added to those of that block.

    Args:
        show: Whether to show bars. Default: if standard error is a terminal, or in a notebook.
        late: Whether to show bars only after `LATE` seconds. If `show` is True, they are shown at
            once.

    >>> with progress_bars(False) as bars:
    ...     print(bars)
    None
    """
    global _display
    if not (is_watched() if show is None else show):
        yield None
        return
    from rich import progress

    after = LATE if late and show is None else 0
    outer = _display
    if outer is not None:
        yield _opening(outer, after)
        return
    with shown(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.completed:,.0f} {task.fields[unit]}"),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[left]}"),
        progress.TimeRemainingColumn(elapsed_when_finished=False),
        after=after,
    ) as display:
        _display = display
        try:
            yield _opening(display)
        finally:
            _display = None


def _opening(display: Progress, after: float = 0) -> Bars:
    """Return a function that opens bars of a display.

    Args:
        display: Display of the bars.
        after: Seconds from now in which the bars stay hidden.
    """
    begin = time.monotonic() + after

    def open_bar(title: str, total: float | None, unit: str = "rows") -> Advance:
        left = "" if total is None else "left"
        task = display.add_task(
            title, total=total, visible=not after, unit=unit, rate="", left=left
        )

        def advance(done: float) -> None:
            display.update(task, advance=done, visible=time.monotonic() >= begin)
            speed = display.tasks[task].speed
            if speed is not None:
                display.update(task, rate=f"{speed:,.0f} {unit}/s")

        return advance

    return open_bar


def watched(
    batches: Iterable[B],
    title: str,
    total: Callable[[], int | None] | None = None,
) -> Generator[B]:
    """Yield batches, and show a bar of their rows after `LATE` seconds if bars are visible.

    Args:
        batches: Record batches or tables.
        title: Title of the bar.
        total: Function that returns the number of all rows, or None if it is unknown. Default: The
            number is unknown.
    """
    with progress_bars(late=True) as bars:
        advance = bars(title, total() if total else None) if bars else None
        for batch in batches:
            yield batch
            if advance:
                advance(batch.num_rows)
