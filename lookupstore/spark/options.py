"""Options as texts, in the form in which Spark passes them to a data source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import datasource

from lookupstore.errors import listed, meant
from lookupstore.storage.location import Location

# Spark before the release with limit pushdown uses the filters that one scan pushed for all scans
# of the same loaded DataFrame, so that these return wrong rows (fixed by SPARK-58551).
SCANS_ARE_SEPARATE = hasattr(datasource.DataSourceReader, "pushLimit")


def unknown_option_error(name: str, known: Sequence[str], what: str) -> ValueError:
    """Return the error about an option that reading or writing, which `what` names, does not have.

    >>> unknown_option_error("colums", ("path", "columns"), "reading a store")
    ValueError("no option 'colums'; did you mean 'columns'? Reading a store has path, columns")
    """
    others = f"{what} has {', '.join(known)}"
    return ValueError(f"no option {name!r}{meant(name, known, others)}")


def given_names(options: Mapping[str, str], option: str) -> list[str] | None:
    """Return the names in an option. None: the option is missing.

    Raises:
        ValueError: If a list is not JSON.

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
    """Return the number in an option. None: the option is missing.

    Raises:
        ValueError: If the text is not a number.

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
        options: Options of a read or write, where `storage_options` is a JSON object.
        given: Name of the missing path and of the method that takes it, for the error.

    Raises:
        ValueError: If there is no path, `storage_options` is not a JSON object, or `Location`
            refuses the options.

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
    if not isinstance(parsed, dict):  # the text contains secrets and is therefore not shown
        raise ValueError(
            "storage_options is no JSON object; give json.dumps() of the dict that "
            "lookupstore.open takes"
        )
    return Location(options["path"], storage_options=parsed)
