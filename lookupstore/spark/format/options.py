"""The options of ``df.write.format("lookupstore")``: text to the arguments of a build."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from lookupstore.builder.bucket_count import check_buckets
from lookupstore.builder.data_files import file_options
from lookupstore.builder.plan import OnDuplicate
from lookupstore.errors import LookupStoreError
from lookupstore.quantities import seconds_of
from lookupstore.spark.options import (
    given_location,
    given_names,
    given_number,
    unknown_option_error,
)
from lookupstore.storage.location import Location
from lookupstore.store.data_files import FileOptions
from lookupstore.store.expiry import HOUR

WRITE_OPTIONS = (
    "path",
    "key",
    "columns",
    "buckets",
    "on_duplicate",
    "nullable_keys",
    "compression",
    "level",
    "block_size",
    "bloom_fpp",
    "retain",
    "allow_empty",
    "allow_new_key",
    "storage_options",
)

# Remedies of the library for Python, as options of a write.
_AS_OPTIONS = {
    r"pass (allow_empty|allow_new_key)=True": r'add .option("\1", "true")',
    r"pass on_duplicate='first', 'last' or \('max', column\)": (
        'add .option("on_duplicate", RULE) with first, last or max:column'
    ),
    r"pass on_duplicate=\('max', column\)": 'add .option("on_duplicate", "max:column")',
    r"pass nullable_keys=\['(.*?)'\]": r'add .option("nullable_keys", "\1")',
    r"with columns=\[\.\.\.\]": 'with .option("columns", "a,b")',
}


@contextmanager
def remedies_as_options() -> Iterator[None]:
    """Name options of the write instead of arguments in the errors of the block."""
    try:
        yield
    except (ValueError, TypeError, KeyError, LookupStoreError) as error:
        said = error.args[0] if error.args else None
        if isinstance(said, str):
            for argument, option in _AS_OPTIONS.items():
                said = re.sub(argument, option, said)
            error.args = (said, *error.args[1:])
        raise


@dataclass(frozen=True)
class SinkOptions:
    """The options of a write, in the form of `build_store`."""

    location: Location
    key: list[str]
    columns: list[str] | None
    buckets: int | None
    on_duplicate: OnDuplicate
    nullable_keys: list[str]
    files: FileOptions
    retain: float
    allow_empty: bool
    allow_new_key: bool


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the options of a write.

    Raises:
        ValueError: If an option is unknown, missing, or has a bad value. The error names a right
            value.

    >>> parsed = sink_options({"path": "users.store", "key": "region,id", "on_duplicate": "max:at"})
    >>> parsed.key, parsed.on_duplicate
    (['region', 'id'], ('max', 'at'))
    """
    unknown = sorted(set(options) - set(WRITE_OPTIONS))
    if unknown:
        raise unknown_option_error(unknown[0], WRITE_OPTIONS, "writing a store")
    location = given_location(options, "save() the folder or URI of the store")
    key = given_names(options, "key")
    if not key:
        raise ValueError("no key; give option('key', 'a,b'): the key columns, in order")
    buckets = given_number(options, "buckets")
    check_buckets(buckets)
    files = file_options(
        location,
        options.get("compression"),
        given_number(options, "level"),
        options.get("block_size"),
        _fraction(options, "bloom_fpp", FileOptions.bloom_fpp),
    )
    return SinkOptions(
        location,
        key,
        given_names(options, "columns"),
        buckets,
        _rule(options.get("on_duplicate", "error")),
        given_names(options, "nullable_keys") or [],
        files,
        seconds_of(options.get("retain", HOUR), "retain"),
        _truth(options, "allow_empty"),
        _truth(options, "allow_new_key"),
    )


def _rule(text: str) -> OnDuplicate:
    kind, _, column = text.partition(":")
    if kind == "max" and column:
        return "max", column
    for rule in ("error", "first", "last"):
        if text == rule:
            return rule
    raise ValueError(f"on_duplicate is {text!r}; give error, first, last or max:column")


def _truth(options: Mapping[str, str], option: str) -> bool:
    text = options.get(option, "false").lower()
    if text not in ("true", "false"):
        raise ValueError(f"{option} is {text!r}; give true or false")
    return text == "true"


def _fraction(options: Mapping[str, str], option: str, usual: float) -> float:
    text = options.get(option)
    try:
        return usual if text is None else float(text)
    except ValueError:
        raise ValueError(f"{option} is {text!r}; give a number") from None
