"""What a run prints: the machine, a table for each workload, JSON lines."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import lookupstore

OURS = "lookupstore"

#: Verbs in the order of the tables; each topic is one table, with its own rivals.
TOPICS = {
    "file": ("fill none", "fill zstd", "open", "get", "random", "sorted", "missing", "scan"),
    "store": ("build", "lookup", "lookup 10,000", "contains", "get row"),
    "Spark": ("join",),
}

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
    "pytest-benchmark",
)


@dataclass(frozen=True)
class Result:
    """What one contender needed for one verb.

    Attributes:
        workload: `W1` or `W2`.
        verb: what was timed, a line of the table.
        contender: who, a column of the table.
        operations: how many operations a round has: records, keys, or 1.
        median: seconds a round.
        best: seconds of the fastest round.
        rounds: how many there were.
        stored: bytes on the disk after a round that stores `operations` records, else None.
    """

    workload: str
    verb: str
    contender: str
    operations: int
    median: float
    best: float
    rounds: int
    stored: int | None = None

    @property
    def rate(self) -> float:
        """Return operations a second, from the median."""
        return self.operations / self.median


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


def machine_lines() -> list[str]:
    """Return the machine as lines for the head of a run."""
    found = machine()
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items())
    return [
        f"bench: {found['cpu']}, {found['cores']} cores, load {found['load']}, {found['system']}, "
        f"{found['python']}",
        f"bench: {packages}",
    ]


def tables(results: Sequence[Result]) -> str:
    """Return the tables of each workload, one per topic: a line per verb, a column per contender.

    A cell holds operations a second, and for rivals in brackets how many times faster we are.
    """
    blocks = []
    for workload in sorted({result.workload for result in results}):
        for topic, verbs in TOPICS.items():
            chosen = [one for one in results if one.workload == workload and one.verb in verbs]
            if chosen:
                blocks.append("\n".join(_table(f"{workload} {topic}", verbs, chosen)))
    return "\n\n".join(blocks)


def _table(title: str, verbs: Sequence[str], results: Sequence[Result]) -> list[str]:
    cells = {(result.verb, result.contender): result for result in results}
    contenders = sorted(
        dict.fromkeys(result.contender for result in results), key=lambda name: name != OURS
    )
    lines = [[title, *contenders]]
    for verb in verbs:
        if any(result.verb == verb for result in results):
            lines.append([verb, *(_cell(verb, name, cells) for name in contenders)])
        if any(result.verb == verb and result.stored for result in results):
            sizes = (_size(cells.get((verb, name))) for name in contenders)
            lines.append(["  bytes a record", *sizes])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _cell(verb: str, contender: str, cells: Mapping[tuple[str, str], Result]) -> str:
    result, ours = cells.get((verb, contender)), cells.get((verb, OURS))
    if result is None:
        return ""
    if ours is None or ours is result:
        return rate_text(result.rate)
    return f"{rate_text(result.rate)} ({ours.rate / result.rate:.3g}x)"


def _size(result: Result | None) -> str:
    return f"{result.stored / result.operations:.1f}" if result and result.stored else ""


def rate_text(rate: float) -> str:
    """Return operations a second: millions with an M, below 10,000 as they are.

    >>> rate_text(12_345_678), rate_text(45_678), rate_text(123.4)
    ('12.35 M', '0.046 M', '123')
    """
    if rate < 10_000:
        return f"{rate:.3g}" if rate < 100 else f"{rate:.0f}"
    return f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e6:.3f} M"


def write_json_lines(path: str, settings: dict[str, Any], results: Iterable[Result]) -> None:
    """Write one JSON object per line: first the machine and the settings, then each result."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({"machine": machine(), "settings": settings}) + "\n")
        for result in results:
            file.write(json.dumps({**asdict(result), "rate": result.rate}) + "\n")
