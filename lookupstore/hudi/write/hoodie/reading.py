"""Convert options under Hudi's names to arguments of a read in Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lookupstore.hudi.write.hoodie.given import Said, fields_of, said_in
from lookupstore.hudi.write.hoodie.known import options_of
from lookupstore.hudi.write.hoodie.option import OptionPart
from lookupstore.hudi.write.hoodie.read_options import INCREMENTAL

# Values that guides use for the position before the first commit.
_BEGINNING = ("0", "000", "earliest")


def read_arguments(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a read from options under Hudi's names.

    Args:
        given: Values by Hudi's names, in any case.

    Returns:
        Arguments by name: any of `query_type`, `since`, `until` and `skipping`.

    Raises:
        ValueError: If a name is not known, a value is refused, or two options disagree.

    >>> kind = {"hoodie.datasource.query.type": "incremental"}
    >>> read_arguments({**kind, "hoodie.datasource.read.begin.instanttime": "20260307135657661"})
    {'since': '20260307135657661'}
    """
    said = said_in(given, reads=True)
    found = fields_of(said, OptionPart.READ)
    names = {one.option.field: one.name for one in said}
    if found.get("query_type") != INCREMENTAL:
        for field in ("since", "until"):
            if field in found:
                raise ValueError(
                    f"options: {names[field]} is for the query type {INCREMENTAL!r}; give "
                    f"{_name_of('query_type')}={INCREMENTAL}, or leave it out"
                )
        return found
    del found["query_type"]
    if "since" not in found:
        raise ValueError(
            f"options: {names['query_type']} is {INCREMENTAL!r}; give the position after which "
            f"rows are wanted in {_name_of('since')}"
        )
    if found["since"] in _BEGINNING:
        del found["since"]
    return found


def check_stream(given: Mapping[str, str]) -> None:
    """Check that options under Hudi's names do not set the start or end of a stream.

    Raises:
        ValueError: If an option does, a name is not known, or a value is refused.
    """
    said: list[Said] = said_in(given, reads=True)
    for one in said:
        if one.option.field in ("since", "until"):
            raise ValueError(
                f"options: {one.name} is not for a stream; give option('start', ...) instead"
            )


def _name_of(field: str) -> str:
    return next(one.names[0] for one in options_of(OptionPart.READ) if one.field == field)
