"""Options as texts, as Spark gives them to a data source."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import datasource

from lookupstore.errors import listed
from lookupstore.storage.location import Location

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
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{option} is {listed([text])}, which is not a JSON list: {error}"
        ) from None
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


def given_location(options: Mapping[str, str], given: str) -> Location:
    """Return the location that the options `path` and `storage_options` name.

    Args:
        options: of a read or write; `storage_options` is a JSON object.
        given: what the path is and who is given it, for the error if there is none.

    Raises:
        ValueError: no path; or options that are not a JSON object, or that `Location` refuses.

    >>> secrets = '{"AWS_REGION": "eu-west-1", "key": "K", "secret": "S"}'
    >>> options = {"path": "s3://box/users", "storage_options": secrets}
    >>> given_location(options, "load() the folder or URI of a store")
    <Location 's3://box/users?region=***&access_key=***&secret_key=***'>
    """
    if "path" not in options:
        raise ValueError(
            f"no path; give {given}. Spark gives none for a table of its catalog: "
            "use a temporary view of what load() returns"
        )
    text = options.get("storage_options")
    if text is None:
        return Location(options["path"])
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):  # the text holds secrets, and so is not shown
        raise ValueError(
            "storage_options is no JSON object; give json.dumps() of the dict that "
            "lookupstore.open takes"
        )
    return Location(options["path"], storage_options=parsed)
