"""Find the files and tables below a folder, by their first bytes and their metadata folders."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PARQUET, ORC, CSV, JSON, IPC = "Parquet", "ORC", "CSV", "JSON lines", "Arrow IPC"
DELTA, ICEBERG, PAIMON, HUDI, SINK = "Delta", "Iceberg", "Paimon", "Hudi", "Spark sink"

MAGIC = {
    b"PAR1": PARQUET,
    b"PARE": PARQUET,
    b"ORC": ORC,
    b"ARROW1": IPC,
    b"FEA1": IPC,
    b"\xff\xff\xff\xff": IPC,
}
TEXTS = {".csv": CSV, ".tsv": CSV, ".jsonl": JSON, ".ndjson": JSON, ".json": JSON}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
# What some writers of Parquet keep beside files: footers without rows.
SUMMARIES = ("_metadata", "_common_metadata")
# What a table of each format has in its folder.
MARKS = (
    (HUDI, ".hoodie"),
    (DELTA, "_delta_log"),
    (SINK, "_spark_metadata"),
)


@dataclass(frozen=True)
class Specimen:
    """One file or table to try.

    Attributes:
        name: Path below the folder that was searched.
        path: Path that is read.
        kind: Format of the file or table.
    """

    name: str
    path: str
    kind: str


def specimens(folder: Path, scratch: Path) -> list[Specimen]:
    """Return every file and table below a folder, by name.

    Archives are unpacked, and searched as folders.

    Args:
        folder: Folder to search.
        scratch: Folder for unpacked archives.
    """
    return sorted(_below(folder.resolve(), "", scratch), key=lambda one: one.name)


def _below(folder: Path, name: str, scratch: Path) -> Iterator[Specimen]:
    kind = table_kind(folder)
    if kind is not None:
        yield Specimen(name or folder.name, str(folder), kind)
        return
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        path, below = Path(entry.path), f"{name}/{entry.name}".removeprefix("/")
        if entry.is_dir(follow_symlinks=False):
            if entry.name != ".git":
                yield from _below(path, below, scratch)
        elif not entry.is_file() or entry.name in SUMMARIES:
            continue
        elif path.suffix == ".zip" and zipfile.is_zipfile(path):
            unpacked = scratch / "unpacked" / below
            with zipfile.ZipFile(path) as archive:
                archive.extractall(unpacked)
            yield from _below(unpacked, below, scratch)
        else:
            kind = file_kind(path)
            if kind is not None:
                yield Specimen(below, str(path), kind)


def table_kind(folder: Path) -> str | None:
    """Return the format of the table whose folder this is; None: it is not a table."""
    for kind, mark in MARKS:
        if (folder / mark).is_dir():
            return kind
    if any((folder / "metadata").glob("*.metadata.json*")):
        return ICEBERG
    if (folder / "schema" / "schema-0").is_file():
        return PAIMON
    return None


def file_kind(path: Path) -> str | None:
    """Return the format of a file; None: another one."""
    suffixes = [one.lower() for one in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    if suffixes and suffixes[-1] in TEXTS:
        return TEXTS[suffixes[-1]]
    with open(path, "rb") as file:
        head = file.read(8)
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)
