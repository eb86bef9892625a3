"""Combine options under Hudi's names with flags of a command or of ``df.write``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from lookupstore.hudi.options import TableOptions
from lookupstore.hudi.services.inline import TableServices
from lookupstore.hudi.write.hoodie.given import Said, said_in
from lookupstore.hudi.write.hoodie.meaning import LAYOUT_FIELDS, RETAINED, given_options
from lookupstore.hudi.write.hoodie.option import HudiOption, OptionPart
from lookupstore.hudi.write.options import WriteOptions

_SERVICE_FIELDS = frozenset(one.name for one in fields(TableServices))
# Fields of `TableServices` that are all set as soon as one option of a group is given.
_TOGETHER = {
    OptionPart.CLEAN: tuple(RETAINED),
    OptionPart.ARCHIVE: ("archive", "min_commits", "max_commits"),
    OptionPart.SERVICES: (*RETAINED, "archive", "cluster_by"),
}


def combined_options(
    given: Mapping[str, Any], arguments: Mapping[str, Any], table: TableOptions, operation: str
) -> WriteOptions:
    """Return the options of a write, from options under Hudi's names and arguments.

    Args:
        given: Values by Hudi's names.
        arguments: Fields of `WriteOptions` and `TableServices` that the caller gave.
        table: Options of the table.
        operation: Hudi's name of the write, such as `UPSERT`.

    Raises:
        ValueError: If a name or a value is not known, or an option contradicts the table, the
            operation, another option or an argument.

    >>> from lookupstore.hudi.options import new_options
    >>> table = new_options(name="t", record_key=["id"])
    >>> combined_options({"hoodie.index.type": "BLOOM"}, {"index": "simple"}, table, "UPSERT")
    Traceback (most recent call last):
    ValueError: index is 'simple', but options say 'bloom' in hoodie.index.type; give one of them
    """
    options = given_options(given, table, operation)
    known = _said_fields(said_in(given), operation, options)
    for name, value in arguments.items():
        there = getattr(options.services if name in _SERVICE_FIELDS else options, name)
        if name in known and _comparable(value) != _comparable(there):
            raise ValueError(
                f"{name} is {value!r}, but options say {there!r} in {known[name]}; give one of them"
            )
    services = {name: value for name, value in arguments.items() if name in _SERVICE_FIELDS}
    own = {name: value for name, value in arguments.items() if name not in _SERVICE_FIELDS}
    return replace(options, **own, services=replace(options.services, **services))


def fields_said_by(option: HudiOption) -> tuple[str, ...]:
    """Return the fields of `WriteOptions` and `TableServices` that an option may set.

    >>> from lookupstore.hudi.write.hoodie.known import option_of
    >>> fields_said_by(option_of("hoodie.clustering.inline"))
    ('cluster_by',)
    """
    match option.part:
        case OptionPart.CLEAN | OptionPart.ARCHIVE | OptionPart.SERVICES:
            return _TOGETHER[option.part]
        case OptionPart.INLINE:
            return ("cluster_by" if option.field == "inline" else option.field,)
        case OptionPart.LAYOUT:
            return (LAYOUT_FIELDS[option.field],)
        case OptionPart.COMBINE:
            return ("combine",)
        case OptionPart.MOVES:
            return ("update_partition_path",)
        case OptionPart.WRITE:
            return (option.field,)
        case _:
            return ()


def _said_fields(said: Sequence[Said], operation: str, options: WriteOptions) -> dict[str, str]:
    """Return the fields that options set, each with the name of the option."""
    found: dict[str, str] = {}
    for one in said:
        part, field = one.option.part, one.option.field
        if (
            (part is OptionPart.SERVICES and one.value)
            or (part is OptionPart.COMBINE and operation not in field.split())
            or (part is OptionPart.MOVES and options.index != field)
            or (part is OptionPart.LAYOUT and not options.services.cluster_by)
        ):
            continue
        for name in fields_said_by(one.option):
            found.setdefault(name, one.name)
    return found


def _comparable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
