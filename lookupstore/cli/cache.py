"""``lookupstore cache``: the files in the cache folder of this host, and their removal."""

from __future__ import annotations

from dataclasses import asdict

import click

from lookupstore.cli.options import output_option
from lookupstore.cli.output import write_fields, write_json
from lookupstore.cli.terminal import echo
from lookupstore.hostcache.cache import Residency
from lookupstore.quantities import counted, seconds_of, size_text


@click.command()
@click.option("--clear", is_flag=True, help="Remove the files that no process has open.")
@click.option("--unused-for", default="0", metavar="TIME",
              help="Only files not opened for this time, such as 7d, or for a number "
                   "of seconds (default: all).")  # fmt: skip
@output_option("table", "json")
def cache(clear: bool, unused_for: str, output: str) -> None:
    """Print what the cache folder of this host holds, or clear it.

    Copies are files of stores, downloaded from a URI or decompressed. Made here are lookup files
    and other files that make lookups faster. Removed files are downloaded or made again when
    needed.
    """
    unused = seconds_of(unused_for, "--unused-for")
    residency = Residency()
    folder = residency.folder
    if clear:
        cleared = residency.clear(unused)
        if output == "json":
            write_json({"folder": folder, **asdict(cleared)})
            return
        echo(f"{folder}: removed {_files(cleared.removed, cleared.removed_bytes)}")
        if cleared.in_use:
            echo(f"kept {_files(cleared.in_use, cleared.in_use_bytes)}, which processes have open")
        return
    held = residency.contents(unused)
    if output == "json":
        write_json({"folder": folder, **asdict(held), "quota": residency.quota})
        return
    write_fields(
        folder,
        {
            "copies": _files(held.copies, held.copies_bytes),
            "made here": _files(held.made, held.made_bytes),
            "quota": size_text(residency.quota),
        },
    )


def _files(count: int, nbytes: int) -> str:
    return f"{counted(count, 'file')}, {size_text(nbytes)}"
