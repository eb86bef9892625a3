"""Make errors about options that are not supported."""

from __future__ import annotations

from collections.abc import Sequence

from lookupstore.errors import FormatError


def either(values: Sequence[object]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} or {last}"


def refused_error(path: str, name: str, value: str, known: str) -> FormatError:
    return FormatError(f"{path}: {name} is {value!r}; supported: {known}")
