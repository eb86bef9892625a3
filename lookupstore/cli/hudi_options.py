"""Options that several commands of `lookupstore hudi` have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from lookupstore.cli.options import Option, lock_option, names_of
from lookupstore.hudi import HudiTable, TableServices, WriteOptions
from lookupstore.hudi.options import METADATA_CHOICES, REFUSE
from lookupstore.hudi.services import CLUSTER_COMMITS
from lookupstore.hudi.write import combined_options, told_apart

# Flags of what follows a write.
_SERVICES = (
    "retain_commits", "retain_hours", "retain_versions", "archive", "cluster_by", "cluster_commits",
)  # fmt: skip

metadata_option: Option = click.option(
    "--metadata",
    type=click.Choice(METADATA_CHOICES),
    default=REFUSE,
    show_default=True,
    help="What is done if the table has a metadata table: nothing, by an error; its list of files "
    "is maintained; so it is, after other indexes are taken out; it is deleted first.",
)


retries_option: Option = click.option(
    "--retries",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    metavar="N",
    help="How often to try again if another writer commits the same files first.",
)


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
    """Return the flags that were typed, and not those that have their defaults."""
    return {name: value for name, value in flags.items() if is_typed(name)}


def write_options(
    hoodie: dict[str, str],
    table: HudiTable,
    operation: str,
    services: TableServices | None = None,
    **flags: Any,
) -> WriteOptions:
    """Return how a command writes.

    Args:
        hoodie: Options by Hudi's names.
        table: The table.
        operation: Hudi's name of the write, in any case.
        services: What follows the write. None: the command has no flags for that.
        flags: Fields of `WriteOptions`, those that were not typed among them.

    Raises:
        ValueError: if a flag contradicts an option, or a value is refused.
    """
    given = typed(**flags)
    if services is not None:
        given |= {one: getattr(services, one) for one in _SERVICES if is_typed(one)}
    return combined_options(hoodie, given, table.options, operation.upper())


def services_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take what follows its write, as the argument `services`."""

    @click.option("--retain-commits", type=click.IntRange(1), metavar="N",
                  help="Clean after the write: keep the last N commits readable.")  # fmt: skip
    @click.option("--retain-hours", type=click.FloatRange(0), metavar="HOURS",
                  help="Clean after the write: keep the last HOURS hours readable.")  # fmt: skip
    @click.option("--retain-versions", type=click.IntRange(1), metavar="N",
                  help="Clean after the write: keep N versions of each file group.")  # fmt: skip
    @click.option("--archive", is_flag=True, help="Archive old commits after the write.")
    @click.option("--cluster-by", metavar="A,B",
                  help="Put rows in order by these columns after some writes.")  # fmt: skip
    @click.option("--cluster-commits", type=click.IntRange(1), metavar="N",
                  help="After how many commits since the last time (default: "
                  f"{CLUSTER_COMMITS}).")  # fmt: skip
    @functools.wraps(command)
    def with_services(
        *,
        retain_commits: int | None,
        retain_hours: float | None,
        retain_versions: int | None,
        archive: bool,
        cluster_by: str | None,
        cluster_commits: int | None,
        **given: Any,
    ) -> Any:
        if retain_versions is not None and (retain_commits, retain_hours) != (None, None):
            raise click.UsageError(
                "give --retain-versions, or else --retain-commits, --retain-hours or both"
            )
        if cluster_commits is not None and cluster_by is None:
            raise click.UsageError("--cluster-commits is for --cluster-by")
        services = TableServices(
            retain_commits,
            retain_hours,
            retain_versions,
            archive,
            cluster_by=names_of(cluster_by or ""),
            cluster_commits=CLUSTER_COMMITS if cluster_commits is None else cluster_commits,
        )
        return command(services=services, **given)

    return with_services


@dataclass(frozen=True)
class WriteFlags:
    """The flags that every command which writes rows has.

    Attributes:
        hoodie: Options by Hudi's names.
        services: What follows the write.
        metadata: What is done with a metadata table.
        lock: Who holds a lock that the table's properties name.
        retries: Number of retries after conflicts.
    """

    hoodie: dict[str, str]
    services: TableServices
    metadata: str
    lock: str
    retries: int

    def options(self, table: HudiTable, operation: str, **flags: Any) -> WriteOptions:
        """Return the options of a write; see `write_options`.

        Args:
            table: The table.
            operation: Hudi's name of the write, in any case.
            flags: Fields of `WriteOptions` from flags of this command only.

        Raises:
            ValueError: if a flag contradicts an option, or a value is refused.
        """
        return write_options(
            self.hoodie,
            table,
            operation,
            self.services,
            metadata=self.metadata,
            lock=self.lock,
            retries=self.retries,
            **flags,
        )


def write_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command that writes rows take the flags of all of these, as the argument `flags`."""

    @services_options
    @metadata_option
    @lock_option
    @retries_option
    @hoodie_option
    @functools.wraps(command)
    def with_flags(
        *,
        hoodie: dict[str, str],
        services: TableServices,
        metadata: str,
        lock: str,
        retries: int,
        **given: Any,
    ) -> Any:
        return command(flags=WriteFlags(hoodie, services, metadata, lock, retries), **given)

    return with_flags


dry_run_option = click.option("--dry-run", is_flag=True, help="Only print what would be done.")
index_option = click.option(
    "--index",
    default="bloom",
    show_default=True,
    metavar="NAME",
    help="Index that finds keys, as for 'lookupstore hudi tag'; one for all partitions finds them "
    "in whichever they are.",
)
