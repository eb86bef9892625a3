"""Options that several commands of `lookupstore hudi` have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from lookupstore.cli.options import Option, names_of
from lookupstore.hudi import TableServices
from lookupstore.hudi.options import METADATA_CHOICES, REFUSE
from lookupstore.hudi.services import CLUSTER_COMMITS

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


dry_run_option = click.option("--dry-run", is_flag=True, help="Only print what would be done.")
index_option = click.option(
    "--index",
    default="bloom",
    show_default=True,
    metavar="NAME",
    help="Index that finds keys, as for 'lookupstore hudi tag'; one for all partitions finds them "
    "in whichever they are.",
)
