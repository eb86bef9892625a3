"""Options that several commands of `lookupstore hudi` have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from lookupstore.cli.options import Option
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.write import (
    SIZE,
    WRITE_CHOICES,
    ValueKind,
    check_operation,
    combined_options,
    default_of,
    told_apart,
)

#: Flags of the services after a write.
SERVICES = (
    "retain_commits", "retain_hours", "retain_versions", "archive", "cluster_by", "cluster_commits",
)  # fmt: skip
#: Flags of every command that writes rows.
ROW_WRITES = (*SERVICES, "metadata", "lock", "retries")


class _Text(click.ParamType[Any]):
    """A type of option values that click does not have.

    Args:
        kind: Kind of the values.
    """

    name = "text"

    def __init__(self, kind: ValueKind) -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a text."""
        if not isinstance(value, str):
            return value
        try:
            return self._kind.parse(value)
        except ValueError:
            self.fail(f"{value!r}: give {self._kind.words}", param, ctx)


def flag_of(name: str) -> Option:
    """Return the flag of a choice about a write.

    Args:
        name: Name of the choice, as in `WRITE_CHOICES`.
    """
    choice, default = WRITE_CHOICES[name], default_of(name)
    kind, flag = choice.kind, _flag_name(name)
    if isinstance(default, bool):
        names = f"{flag}/--no{flag[1:]}" if default else flag
        return click.option(
            names, is_flag=True, default=default, show_default=default, help=choice.help
        )
    if kind is SIZE and default is not None:
        default = f"{default >> 20}MiB"
    return click.option(
        flag,
        type=_type(kind),
        default=default,
        show_default=default not in (None, ()),
        metavar=choice.metavar or None,
        help=choice.help,
    )


def _flag_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _type(kind: ValueKind) -> click.ParamType[Any]:
    if kind.choices:
        return click.Choice(kind.choices)
    if kind.least is not None:
        return click.FloatRange(kind.least) if kind.fraction else click.IntRange(kind.least)
    return _Text(kind)


metadata_option = flag_of("metadata")
lock_option = flag_of("lock")


def _by_name(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return options that were typed as NAME=VALUE."""
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not told_apart({name: value})[0]:
            raise click.BadParameter(f"{one!r}: give NAME=VALUE, such as hoodie.index.type=SIMPLE")
        if found.setdefault(name, value) != value:
            raise click.BadParameter(f"{name} is {found[name]!r} and {value!r}; give it once")
    return found


hoodie_option: Option = click.option(
    "--hoodie",
    multiple=True,
    callback=_by_name,
    metavar="NAME=VALUE",
    help="Option by the name that Apache Hudi has for it, such as hoodie.index.type=SIMPLE; "
    "repeatable.",
)


def is_typed(name: str) -> bool:
    """Return whether a flag of the command was typed, by its name in Python."""
    return click.get_current_context().get_parameter_source(name) != ParameterSource.DEFAULT


def typed(**flags: Any) -> dict[str, Any]:
    """Return the flags that were typed, without flags that have their defaults."""
    return {name: value for name, value in flags.items() if is_typed(name)}


@dataclass(frozen=True)
class WriteFlags:
    """The typed options of a write.

    Attributes:
        hoodie: Options by Hudi's names.
        given: Values of the typed flags, by the names of `WRITE_CHOICES`.
    """

    hoodie: dict[str, str]
    given: dict[str, Any]

    def options(self, table: HudiTable, operation: str) -> WriteOptions:
        """Return the options of the write of a command.

        Args:
            table: Table to write to.
            operation: Hudi's name of the write, in any case.

        Raises:
            ValueError: If a flag contradicts an option or the operation, or a value is refused.
        """
        check_operation(self.given, operation.lower(), _flag_name)
        return combined_options(self.hoodie, self.given, table.options, operation.upper())


def write_flags(*names: str) -> Option:
    """Add flags of a write, and options by Hudi's names, to a command as the argument `flags`.

    Args:
        names: Names of the flags, as in `WRITE_CHOICES`, in the order in which help shows them.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_flags(*, hoodie: dict[str, str], **values: Any) -> Any:
            flags = {name: values.pop(name) for name in names}
            given = typed(**flags)
            _check_services(given)
            return command(flags=WriteFlags(hoodie, given), **values)

        made: Callable[..., Any] = hoodie_option(with_flags)
        for name in reversed(names):
            made = flag_of(name)(made)
        return made

    return decorate


def _check_services(given: dict[str, Any]) -> None:
    if "retain_versions" in given and {"retain_commits", "retain_hours"} & given.keys():
        raise click.UsageError(
            "give --retain-versions, or else --retain-commits, --retain-hours or both"
        )
    if "cluster_commits" in given and "cluster_by" not in given:
        raise click.UsageError("--cluster-commits is for --cluster-by")


dry_run_option = click.option("--dry-run", is_flag=True, help="Only print what would be done.")
