"""Tables whose folders are named by times, as another writer makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from support.hudi.small_tables import SmallTable

from lookupstore.hudi import HudiTable

NUMBERS = pa.schema({"id": pa.int32(), "a": pa.string(), "t": pa.int64(), "value": pa.string()})
TEXTS = NUMBERS.set(2, pa.field("t", pa.string()))
NEW = "hoodie.keygen.timebased."
OLD = "hoodie.deltastreamer.keygen.timebased."
UNIX = {
    "timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyy/MM/dd", "timezone": "GMT+8:00",
}  # fmt: skip
ISO = {
    "timestamp.type": "DATE_STRING", "input.dateformat": "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
    "output.dateformat": "yyyy-MM-dd", "timezone": "UTC",
}  # fmt: skip
DAY = 86400
# By the properties: a day and a time of it, and its folder.
CASES: dict[str, tuple[dict[str, str], pa.Schema, list[tuple[Any, str]]]] = {
    "numbers": (UNIX, NUMBERS, [
        (0, "1970/01/01"), (16 * 3600 - 1, "1970/01/01"), (16 * 3600, "1970/01/02"),
        (20_000 * DAY, "2024/10/04"),
    ]),
    "texts": (ISO, TEXTS, [
        ("2024-03-01T08:00:00.000Z", "2024-03-01"), ("2024-03-01T23:59:59.999Z", "2024-03-01"),
        ("2024-03-02T01:30:00.000+0200", "2024-03-01"), ("2024-02-29T00:00:00.000Z", "2024-02-29"),
    ]),
}  # fmt: skip


def made(
    path: Path, version: int, case: str, *, types: bool = False, folder: str | None = None
) -> HudiTable:
    """Return a table that another writer made, with one row; `types`: with a custom generator."""
    said, schema, times = CASES[case]
    by = ["a", "t"] if types else ["t"]
    small = SmallTable(path, version, schema, by)
    lines = []
    for line in (path / ".hoodie" / "hoodie.properties").read_text().splitlines():
        name = line.partition("=")[0]
        if name.startswith("hoodie.table.keygenerator"):
            kind = "Custom" if types else "TimestampBased"
            kinds = {"Custom": "CUSTOM", "TimestampBased": "TIMESTAMP"}
            line = f"{name}=" + (
                f"org.apache.hudi.keygen.{kind}KeyGenerator"
                if name.endswith("class")
                else kinds[kind]
            )
        if types and name == "hoodie.table.partition.fields":
            line = f"{name}=a:SIMPLE,t:TIMESTAMP"
        lines.append(line)
    prefix = OLD if version == 6 else NEW
    lines += [f"{prefix}{key}={value}".replace(":00", "\\:00") for key, value in said.items()]
    (path / ".hoodie" / "hoodie.properties").write_text("\n".join(lines) + "\n")
    first = f"t={times[0][1]}" if folder is None else folder
    row = {"id": 1, "a": "x", "t": times[0][0], "value": "first"}
    if folder != "":
        instant = small.begin()
        stat = small.write(instant.time, "a-0", [row], f"a=x/{first}" if types else first, schema)
        small.finish(instant, [stat], schema=schema)
        depth = stat.path.count("/") if stat.path else 0
        metadata = f"commitTime={instant.time}\npartitionDepth={depth}\n"
        (path / str(stat.path)).parent.joinpath(".hoodie_partition_metadata").write_text(metadata)
    return HudiTable.open(path)


def rows(schema: pa.Schema, *given: tuple[Any, ...]) -> pa.Table:
    return pa.table([list(one) for one in zip(*given, strict=True)], schema=schema)
