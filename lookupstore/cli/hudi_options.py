"""Options that several commands of `lookupstore hudi` have."""

from __future__ import annotations

import click

from lookupstore.hudi.options import METADATA_CHOICES, REFUSE

metadata_option = click.option(
    "--metadata",
    type=click.Choice(METADATA_CHOICES),
    default=REFUSE,
    show_default=True,
    help="What is done if the table has a metadata table: nothing, by an error; its list of files "
    "is maintained; so it is, after other indexes are taken out; it is deleted first.",
)
