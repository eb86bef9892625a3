"""All known options of Apache Hudi, and functions that find them by name."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from lookupstore.hudi.write.hoodie import (
    file_options,
    lock_options,
    other_options,
    read_options,
    service_options,
    table_options,
    write_options,
)
from lookupstore.hudi.write.hoodie.option import HudiOption, OptionPart

#: Options by topic, in the order of the page that lists them.
AREAS: dict[str, tuple[HudiOption, ...]] = {
    "Tables": table_options.OPTIONS,
    "Writes and indexes": write_options.OPTIONS,
    "Files": file_options.OPTIONS,
    "Services": service_options.OPTIONS,
    "Writers at the same time": lock_options.OPTIONS,
    "Metadata table, catalogs, engines": other_options.OPTIONS,
    "Reads": read_options.OPTIONS,
}
# Prefix of all names, and minimum similarity of the rest of two names for a suggestion.
_ALL, _ALIKE = "hoodie.", 0.8


def all_options() -> Iterator[HudiOption]:
    """Yield every option."""
    for options in AREAS.values():
        yield from options


def options_of(part: OptionPart) -> Iterator[HudiOption]:
    """Yield the options that are fields of one part."""
    return (one for one in all_options() if one.part is part)


#: Positions of options in the table, by their names.
PLACES = {one.names: place for place, one in enumerate(all_options())}
_BY_NAME = {name.lower(): one for one in all_options() for name in one.names}
# The longest prefix is first, so that the most specific one is used.
_PREFIXES = sorted((name for name in _BY_NAME if name.endswith(".")), key=len, reverse=True)


def option_of(name: str) -> HudiOption | None:
    """Return the option of a name, which may be in any case; None: there is none.

    >>> option_of("hoodie.metrics.on").verdict
    'nothing to do'
    """
    name = name.lower()
    found = _BY_NAME.get(name)
    if found is not None:
        return found
    prefix = next((one for one in _PREFIXES if name.startswith(one)), None)
    return None if prefix is None else _BY_NAME[prefix]


def nearest(name: str) -> str | None:
    """Return the known name that is most similar to an unknown one; None: none is.

    >>> nearest("hoodie.parquet.max.filesize"), nearest("hoodie.do.what.I.mean")
    ('hoodie.parquet.max.file.size', None)
    """
    whole = {
        one.lower().removeprefix(_ALL): one
        for option in all_options()
        for one in option.names
        if not one.endswith(".")
    }
    near = get_close_matches(name.lower().removeprefix(_ALL), whole, 1, _ALIKE)
    return whole[near[0]] if near else None
