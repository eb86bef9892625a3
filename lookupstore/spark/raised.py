"""Errors of lookupstore that Python workers raise on executors, raised again by the driver.

Spark passes on the text of a trace, but not the class of the exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException

from lookupstore.errors import CorruptionError, DuplicateKeyError, FormatError, StaleStoreError

# Pattern of the last line of a worker's trace for an error that it raised on purpose.
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?P<kind>[A-Za-z_]\w*): (?P<text>.*)$", re.MULTILINE)
_CORRUPTION = re.compile(
    r"(?P<path>.*): offset (?P<offset>\d+): expected (?P<expected>.*), found (?P<found>.*)"
)
_KINDS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        ValueError,
        TypeError,
        OSError,
        ImportError,
        FileExistsError,
        FileNotFoundError,
        PermissionError,
        FormatError,
        StaleStoreError,
        CorruptionError,
        DuplicateKeyError,
    )
}


@contextmanager
def raising(steps: Collection[Callable[..., Any]]) -> Iterator[None]:
    """Raise errors that lookupstore raised on executors with their own types.

    Args:
        steps: Functions of lookupstore that run in the workers; see `raised_in`.
    """
    try:
        yield
    except PySparkException as error:
        raised = raised_in(error, steps)
        if raised is None:
            raise
        raise raised from None


def raised_in(error: PySparkException, steps: Collection[Callable[..., Any]]) -> Exception | None:
    """Return the error that lookupstore raised on an executor. None: it raised none.

    Args:
        error: Error with which the job failed.
        steps: Functions of lookupstore that ran in the workers. Errors in other functions are not
            returned.
    """
    trace = str(error)
    if not any(f"in {step.__name__}\n" in trace for step in steps):
        return None
    found = [match for match in _RAISED.finditer(trace) if match["kind"] in _KINDS]
    if not found:
        return None
    kind, text = _KINDS[found[-1]["kind"]], found[-1]["text"]
    damage = _CORRUPTION.fullmatch(text)
    if kind is CorruptionError and damage is not None:
        return CorruptionError(
            damage["path"], int(damage["offset"]), damage["expected"], damage["found"]
        )
    return FormatError(text) if kind is CorruptionError else kind(text)
