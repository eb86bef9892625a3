"""Output of lines to the terminal; commands print lines only with this module.

Names and values may come from any source. None of their characters moves the cursor, changes
colors, turns the direction of the following text, or ends a line: it is shown as an escape, such as
`\\x1b`
(`lookupstore.errors.printable`).
"""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import click

from lookupstore.errors import printable
from lookupstore.storage.naming import naming

#: Name of the output in errors, such as that of a full disk.
STANDARD_OUTPUT = "standard output"


def echo(*lines: str, err: bool = False, color: str | None = None) -> None:
    """Print lines; a line break inside of a line is escaped."""
    for line in lines:
        shown = printable(line)
        with naming("standard error" if err else STANDARD_OUTPUT):
            click.echo(click.style(shown, fg=color) if color else shown, err=err)


@contextmanager
def whole_writes() -> Iterator[None]:
    """Write each text to the standard output whole, or raise an error, while the block runs.

    With PYTHONUNBUFFERED, Python asks the system once to write a text. If the disk has room for
    only a part of it, Python drops the rest without an error. Without a standard output, as after
    `>&-` in a shell, the texts go nowhere.
    """
    usual: TextIO | None = sys.stdout
    raw = getattr(usual, "buffer", None)
    if usual is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    elif isinstance(raw, io.FileIO):
        sys.stdout = open(  # noqa: SIM115
            raw.fileno(), "w", encoding=usual.encoding, errors=usual.errors, closefd=False
        )
    try:
        yield
    finally:
        sys.stdout = usual


def is_on_terminal() -> bool:
    """Return whether lines are printed for a person, and not for a pipe, file or mail."""
    return sys.stdout.isatty()


def echo_text(text: str, *, err: bool = False) -> None:
    """Print a text of several lines, in which names are escaped already."""
    echo(*text.rstrip("\n").split("\n"), err=err)


def echo_traceback(error: BaseException) -> None:
    """Print the traceback of an error on standard error, with its message in one line."""
    for part in traceback.format_exception(error):
        if part.startswith("  File "):
            echo_text(part, err=True)
        else:
            echo(part.strip("\n"), err=True)


class _EchoHandler(logging.Handler):
    """A handler that prints records, such as the warnings of loggers without configuration.

    Args:
        level: Level from which records are printed.
        said: Function that returns a message as it is printed.
    """

    def __init__(self, level: int, said: Callable[[str], str] = str) -> None:
        super().__init__(level)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record on standard error."""
        echo(self._said(record.getMessage()), err=True)
        if record.exc_info and record.exc_info[1] is not None:
            echo_traceback(record.exc_info[1])


@contextmanager
def echoed_info(
    name: str,
    is_wanted: Callable[[logging.LogRecord], bool] = lambda _: True,
    said: Callable[[str], str] = str,
) -> Iterator[None]:
    """Print also the information of one logger with `echo` while the block runs.

    Args:
        name: Name of the logger.
        is_wanted: Function that returns whether to print a record.
        said: Function that returns a message as it is printed.
    """
    log, handler = logging.getLogger(name), _EchoHandler(logging.INFO, said)
    handler.addFilter(is_wanted)
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


@contextmanager
def unechoed(name: str) -> Iterator[None]:
    """Print no messages of one logger while the block runs."""
    log = logging.getLogger(name)
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


@contextmanager
def echoed_logs() -> Iterator[None]:
    """Print the messages of loggers without configuration with `echo` while the block runs."""
    before = logging.lastResort
    logging.lastResort = _EchoHandler(logging.WARNING)
    try:
        yield
    finally:
        logging.lastResort = before
