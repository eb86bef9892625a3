"""``lookupstore demo``: lookup joins of real flights, checked another way."""

from __future__ import annotations

import click

from lookupstore.demo import run


@click.command()
@click.option(
    "--spark/--no-spark", default=True, help="Build and join with Spark, or without Java."
)
@click.option("--folder", default="lookupstore-demo", show_default=True, metavar="DIR",
              help="Folder for the data and the stores.")  # fmt: skip
def demo(spark: bool, folder: str) -> int:
    """Enrich 336,776 flights with three lookup joins.

    Every row is checked against the same joins by another engine.
    """
    return 0 if run(folder, spark=spark) else 1
