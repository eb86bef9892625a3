"""All options of Apache Hudi that are known here, and how a name finds its own."""

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
from lookupstore.hudi.write.hoodie.option import HudiOption, Part

#: Options by what they are about, in the order of the page that lists them.
AREAS: dict[str, tuple[HudiOption, ...]] = {
    "Tables": table_options.OPTIONS,
    "Writes and indexes": write_options.OPTIONS,
    "Files": file_options.OPTIONS,
    "Services": service_options.OPTIONS,
    "Writers at the same time": lock_options.OPTIONS,
    "Metadata table, catalogs, engines": other_options.OPTIONS,
    "Reads": read_options.OPTIONS,
}
# How alike two names are, behind what all have, if one may be meant by the other.
_ALL, _ALIKE = "hoodie.", 0.8


def all_options() -> Iterator[HudiOption]:
    """Yield every option."""
    for options in AREAS.values():
        yield from options


def options_of(part: Part) -> Iterator[HudiOption]:
    """Yield the options that are fields of one part."""
    return (one for one in all_options() if one.part is part)


#: Places of options in the table, by their names.
PLACES = {one.names: place for place, one in enumerate(all_options())}
_BY_NAME = {name.lower(): one for one in all_options() for name in one.names}
# The longest first, so that what is known more exactly counts.
_PREFIXES = sorted((name for name in _BY_NAME if name.endswith(".")), key=len, reverse=True)


def option_of(name: str) -> HudiOption | None:
    """Return the option of a name in any case, as Spark has names; None: there is none.

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
    """Return the known name that may be meant by another; None: none is near.

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
