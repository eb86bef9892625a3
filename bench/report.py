"""What a run prints: the machine, numbers for people, aligned tables."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import lookupstore

PACKAGES = (
    "pyarrow",
    "numpy",
    "rocksdict",
    "lmdb",
    "plyvel",
    "pandas",
    "duckdb",
    "deltalake",
    "pyspark",
)


def machine() -> dict[str, Any]:
    """Return what the numbers depend on beside the code."""
    packages = {"lookupstore": lookupstore.__version__}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "-"
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load": round(os.getloadavg()[0], 2),
        "packages": packages,
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def print_head(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Print the machine and the settings at the head of a run, and return the machine."""
    found = machine()
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items())
    print(
        f"bench: {found['cpu']}, {found['cores']} cores, load {found['load']}, {found['system']}, "
        f"{found['python']}",
        f"bench: {packages}",
        f"bench: {dict(settings)}\n",
        sep="\n",
        flush=True,
    )
    return found


def rate_text(rate: float) -> str:
    """Return operations a second: millions with an M, below 10,000 as they are.

    >>> rate_text(12_345_678), rate_text(45_678), rate_text(123.4)
    ('12.35 M', '0.046 M', '123')
    """
    if rate < 10_000:
        return f"{rate:.3g}" if rate < 100 else f"{rate:.0f}"
    return f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e6:.3f} M"


def value_text(value: float, unit: str) -> str:
    """Return a value, or a ratio (unit `x`), for people.

    >>> value_text(15_200_000, "/s"), value_text(0.0123, "s"), value_text(31e6, "B")
    ('15.20 M/s', '12.3 ms', '31.0 MB')
    >>> value_text(2.5, "s"), value_text(1.234, "x")
    ('2.50 s', '1.23x')
    """
    if unit == "/s":
        return f"{rate_text(value)}/s"
    if unit == "x":
        return f"{value:.2f}x"
    if unit == "%":
        return f"{value:.1f} %"
    if unit == "B":
        return f"{value / 1e6:.1f} MB"
    if unit in ("GET", "trip", "KiB", "MiB", "call", "request"):
        return f"{value:.2f} {unit}"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms"


def aligned(lines: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    """Return lines of cells as a table whose columns are aligned, some of them to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
