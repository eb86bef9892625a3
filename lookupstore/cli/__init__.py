"""The command line: ``lookupstore build | get | scan | info | versions | publish | ...``.

Exit status: 0 all is well; 1 the data or the machine say no (a key is missing, a file is damaged or
of another kind, the disk is full, there is no Java); 2 what was typed has to change.
"""

from __future__ import annotations

import click

import lookupstore
from lookupstore.cli.columnar import publish_lookup_files
from lookupstore.cli.failures import Main
from lookupstore.cli.hudi import hudi
from lookupstore.cli.lookups import get, scan
from lookupstore.cli.reports import dump, info, stats, verify
from lookupstore.cli.stores import build, expire, publish, versions


@click.group(
    "lookupstore",
    cls=Main,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(
    lookupstore.__version__, prog_name="lookupstore", message="%(prog)s %(version)s"
)
@click.option("--debug", is_flag=True, help="Show the trace of an error.")
@click.pass_context
def main(ctx: click.Context, debug: bool) -> None:
    """Look up keys in small sorted files, built once from columnar data.

    Exit status: 0 all is well; 1 the data or the machine say no (a key is missing, a file is
    damaged or of another kind, the disk is full); 2 what was typed has to change.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@click.command()
@click.option("--spark/--no-spark", default=True, help="Build and join in Spark, or without Java.")
@click.option("--folder", default="lookupstore-demo", show_default=True, metavar="DIR",
              help="Where data and stores go.")  # fmt: skip
def demo(spark: bool, folder: str) -> int:
    """Enrich 336,776 real flights by three lookup joins, and check every row another way."""
    from lookupstore.demo import run

    return 0 if run(folder, spark=spark) else 1


for command in (build, get, scan, info, versions, expire, publish, publish_lookup_files, stats,
                dump, verify, hudi, demo):  # fmt: skip
    main.add_command(command)
