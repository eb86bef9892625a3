"""Options as texts, as Spark gives them to a data source."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import datasource

# Until the release that has limits pushed down, Spark keeps what one scan pushed for all scans of
# the same loaded DataFrame, so that they give wrong rows (SPARK-58551 has mended it).
SCANS_ARE_SEPARATE = hasattr(datasource.DataSourceReader, "pushLimit")


def given_names(options: Mapping[str, str], option: str) -> list[str] | None:
    """Return the names that an option lists, with commas between or as a JSON list; None: none.

    Raises:
        ValueError: a list that is not JSON.

    >>> given_names({"key": "a, b"}, "key"), given_names({"key": '["a,b", "c"]'}, "key")
    (['a', 'b'], ['a,b', 'c'])
    """
    text = options.get(option)
    if text is None:
        return None
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",") if name.strip()]
    try:
        names = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{option} is {text!r}, which is not a JSON list: {error}") from None
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"{option} is {text!r}; give a list of names")
    return list(names)


def given_number(options: Mapping[str, str], option: str) -> int | None:
    """Return the number that an option is, or None if it is not given.

    Raises:
        ValueError: a text that is not a number.

    >>> given_number({"version": "7"}, "version"), given_number({}, "version")
    (7, None)
    """
    text = options.get(option)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise ValueError(f"{option} is {text!r}; give a whole number") from None
