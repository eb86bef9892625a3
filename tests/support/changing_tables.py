"""Tables of several formats whose rows are replaced, commit by commit."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from support.paimon_tables import File, PaimonTable

ROWS = pa.schema({"id": pa.int64(), "v": pa.int64()})


def arrow(rows: Mapping[int, int]) -> pa.Table:
    return pa.table([list(rows), list(rows.values())], schema=ROWS)


class DeltaChanges:
    """A Delta table.

    Attributes:
        given: The table, as lookups take it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "delta"
        self.given: Any = str(self.folder)
        self._next = 0

    def commit(self, rows: Mapping[int, int], moment: float | None = None) -> None:
        """Replace all rows, at a moment in seconds since 1970."""
        deltalake.write_deltalake(self.given, arrow(rows), mode="overwrite")
        if moment is not None:
            ns = round(moment * 1000) * 1_000_000
            os.utime(self.folder / "_delta_log" / f"{self._next:020}.json", ns=(ns, ns))
        self._next += 1

    def latest(self) -> tuple[float, int]:
        """Return the time of the newest commit, and its number as users know it."""
        table = deltalake.DeltaTable(self.given)
        file = self.folder / "_delta_log" / f"{table.version():020}.json"
        return file.stat().st_mtime_ns / 1e9, table.version()


class IcebergChanges:
    """An Iceberg table in a catalog that other processes can open."""

    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog(
            "w", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
        )
        self.catalog.create_namespace("w")
        self._table = self.catalog.create_table("w.t", ROWS)

    @property
    def given(self) -> Any:
        return self.catalog.load_table("w.t")

    def commit(self, rows: Mapping[int, int], moment: float | None = None) -> None:
        """Replace all rows: pyiceberg writes a snapshot without rows, and one with the new rows."""
        if self._table.current_snapshot() is None:
            self._table.append(arrow(rows))
        else:
            self._table.overwrite(arrow(rows))
        time.sleep(0.002)  # snapshots have different times

    def latest(self) -> tuple[float, int]:
        entry = self.given.metadata.snapshot_log[-1]
        return entry.timestamp_ms / 1000, entry.snapshot_id


class PaimonChanges:
    """A Paimon table."""

    def __init__(self, folder: Path) -> None:
        self.table = PaimonTable(folder / "paimon", {"id": "BIGINT", "v": "BIGINT"})
        self.given: Any = str(self.table.folder)
        self._files: list[File] = []
        self._moment = 0.0

    def commit(self, rows: Mapping[int, int], moment: float | None = None) -> None:
        added = self.table.add(arrow(rows))
        self._moment = time.time() if moment is None else moment
        self.table.commit(added, removed=self._files, milliseconds=round(self._moment * 1000))
        self._files = [added]

    def latest(self) -> tuple[float, int]:
        return round(self._moment * 1000) / 1000, self.table.snapshot


CHANGES = {"delta": DeltaChanges, "iceberg": IcebergChanges, "paimon": PaimonChanges}
