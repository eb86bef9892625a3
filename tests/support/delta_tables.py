"""Deletion vectors of Delta tables, which deltalake reads and does not write."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyroaring import BitMap


def with_deleted(folder: Path, positions: Sequence[int], *, claimed: int = 0) -> None:
    """Delete rows of the only file of a table by a deletion vector in its log.

    Args:
        folder: Folder of the table.
        positions: Positions of the rows in the file.
        claimed: Number of rows that the log says the file has. Default: the right one.

    Source: "Deletion Vectors" and "Deletion Vector Format" of the Delta protocol.
    """
    log = folder / "_delta_log"
    (only,) = log.glob("*.json")
    said = [json.loads(line) for line in only.read_text().splitlines()]
    (add,) = (one["add"] for one in said if "add" in one)
    if claimed:
        add["stats"] = json.dumps({"numRecords": claimed})
    protocol = {
        "minReaderVersion": 3, "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"],
    }  # fmt: skip
    lines = [
        {"protocol": protocol},
        {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 1}},
        {"add": add | {"deletionVector": _vector(positions)}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (log / f"{1:020}.json").write_text(text)


def with_vectors(folder: Path, positions: Mapping[str, Sequence[int]]) -> None:
    """Add a version to the log of a table in which files have these deleted rows.

    Args:
        folder: Folder of the table.
        positions: Positions of all deleted rows of each file, by its path in the log.

    Source: "Deletion Vectors" and "Deletion Vector Format" of the Delta protocol.
    """
    logs = sorted((folder / "_delta_log").glob("*.json"))
    adds: dict[str, dict[str, Any]] = {}
    for log in logs:
        for line in map(json.loads, log.read_text().splitlines()):
            if "add" in line:
                adds[line["add"]["path"]] = line["add"]
    features = ["deletionVectors"]
    lines: list[dict[str, Any]] = [{"protocol": {
        "minReaderVersion": 3, "minWriterVersion": 7,
        "readerFeatures": features, "writerFeatures": features,
    }}]  # fmt: skip
    for path, gone in positions.items():
        add = {name: one for name, one in adds[path].items() if name != "deletionVector"}
        remove = {"path": path, "dataChange": True, "deletionTimestamp": 1}
        if "deletionVector" in adds[path]:
            remove["deletionVector"] = adds[path]["deletionVector"]
        if gone:
            add["deletionVector"] = _vector(gone)
        lines += [{"remove": remove}, {"add": add}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "_delta_log" / f"{len(logs):020}.json").write_text(text)


def _vector(positions: Sequence[int]) -> dict[str, Any]:
    """Return an inline deletion vector."""
    vector = struct.pack("<iqI", 1681511377, 1, 0) + BitMap(positions).serialize()
    return {
        "storageType": "i",
        "pathOrInlineDv": z85(vector + bytes(-len(vector) % 4)),
        "sizeInBytes": len(vector),
        "cardinality": len(positions),
    }


def z85(data: bytes) -> str:
    """Return bytes in Z85, whose alphabet is another one than that of Python's base85."""
    letters = (
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    )
    python = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    return base64.b85encode(data).decode().translate(str.maketrans(python, letters))
