"""Options that several commands have, and how what is typed in them is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

ORDERS = ("bytes", "int8", "int16", "int32", "int64")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30,
          "KB": 10**3, "MB": 10**6, "GB": 10**9}  # fmt: skip

order_option = click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="bytes",
    show_default=True,
    help="Key order of a Paimon file, which does not say it.",
)
hex_option = click.option(
    "--hex",
    "hexadecimal",
    is_flag=True,
    help="Keys of a file are hex digits, and all bytes shown so.",
)
columns_option = click.option("--columns", metavar="A,B", help="Value columns, in this order.")
version_option = click.option(
    "--version",
    type=click.IntRange(1),
    metavar="N",
    help="Version of a store; the current one if missing.",
)
overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Publish the next version of the store that is there."
)
retain_option = click.option(
    "--retain",
    default="1h",
    show_default=True,
    metavar="TIME",
    help="How long replaced versions stay: 90s, 30m, 1h, 7d; 0 removes them at once.",
)
latest_partition_option = click.option(
    "--latest-partition",
    metavar="NAME",
    help="Of the folders NAME=value, only the one with the greatest value.",
)
as_of_option = click.option(
    "--as-of", metavar="INSTANT", help="The table as of this request time, 17 digits."
)


def output_option(*formats: str) -> Callable[[Any], Any]:
    """Return ``--output``, the first of whose formats is the default."""
    return click.option(
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print the result.",
    )


def names_of(columns: str) -> list[str]:
    """Return the names of columns that are given with commas between them."""
    return [name.strip() for name in columns.split(",") if name.strip()]


def seconds_of(value: str) -> float:
    """Return the seconds of a time that is given with ``--retain``.

    >>> seconds_of("1.5h")
    5400.0
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", value.strip())
    if match is None:
        raise click.UsageError(f"--retain {value}: give seconds, or a time such as 30m, 1h or 7d")
    return float(match[1]) * _SECONDS[match[2]]


def size_of(value: str) -> int:
    """Return the bytes of a size that is given with ``--memory``.

    >>> size_of("2 MiB")
    2097152
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", value.strip())
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise click.UsageError(f"--memory {value}: give bytes, or a size such as 512MiB or 2GB")
    return int(float(match[1]) * unit)
