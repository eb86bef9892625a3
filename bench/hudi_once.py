"""Do one thing to one table, in a process of its own, and print what that took as a line of JSON.

    python bench/hudi_once.py upsert lookupstore TABLE ROWS

The peak is that of the process: the rows to write, which are read before, are in it for everybody.
For what takes no rows, these say what is asked for.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds


def upsert_lookupstore(table: str, rows: pa.Table) -> dict[str, Any]:
    """Write rows into our table."""
    from lookupstore.hudi import HudiTable

    result = HudiTable.open(table).upsert(rows)
    return {
        "inserted": result.rows_inserted,
        "updated": result.rows_updated,
        "written": result.bytes_written,
        "rewritten": result.bytes_rewritten,
        "steps": dict(result.seconds),
    }


def upsert_deltalake(table: str, rows: pa.Table) -> dict[str, Any]:
    """Write rows into a Delta table."""
    from deltalake import DeltaTable

    merger = DeltaTable(table).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    result = merger.when_matched_update_all().when_not_matched_insert_all().execute()
    return {
        "inserted": result["num_target_rows_inserted"],
        "updated": result["num_target_rows_updated"],
    }


def upsert_again_lookupstore(table: str, rows: pa.Table) -> dict[str, Any]:
    """Write the second half of rows into our table, after the first."""
    from lookupstore.hudi import HudiTable

    ours = HudiTable.open(table)
    first, second = _halves(rows)
    ours.upsert(first)
    start = time.perf_counter()
    result = ours.upsert(second)
    return {"seconds": time.perf_counter() - start, "written": result.bytes_written}


def upsert_again_deltalake(table: str, rows: pa.Table) -> dict[str, Any]:
    """Write the second half of rows into a Delta table, after the first."""
    first, second = _halves(rows)
    upsert_deltalake(table, first)
    start = time.perf_counter()
    upsert_deltalake(table, second)
    return {"seconds": time.perf_counter() - start}


def _halves(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    middle = len(rows) // 2
    return rows.slice(0, middle), rows.slice(middle)


def scan_lookupstore(table: str, rows: pa.Table) -> dict[str, Any]:
    """Read our table."""
    from lookupstore.hudi import HudiTable

    return {"rows": HudiTable.open(table).scan().num_rows}


def scan_pyarrow(table: str, rows: pa.Table) -> dict[str, Any]:
    """Read the base files of our table, which are named by the rows."""
    return {"rows": ds.dataset(rows["path"].to_pylist()).to_table().num_rows}


def cluster_lookupstore(table: str, asked: pa.Table) -> dict[str, Any]:
    """Put the rows of our table in order, in files and with memory as asked for."""
    from lookupstore.hudi import HudiTable, WriteOptions

    (one,) = asked.to_pylist()
    options = WriteOptions(memory=one["memory"])
    by = ["a", "b"]
    result = HudiTable.open(table).cluster(by, target_file_size=one["bytes"], options=options)
    return {
        "files": result.files_after,
        "spilled": result.bytes_spilled,
        "steps": dict(result.seconds),
    }


def cluster_deltalake(table: str, asked: pa.Table) -> dict[str, Any]:
    """Put the rows of a Delta table in order, in files as asked for."""
    from deltalake import DeltaTable

    (one,) = asked.to_pylist()
    result = DeltaTable(table).optimize.z_order(["a", "b"], target_size=one["bytes"])
    return {"files": result["numFilesAdded"]}


CONTENDERS = {
    ("upsert", "lookupstore"): upsert_lookupstore,
    ("upsert", "deltalake"): upsert_deltalake,
    ("upsert again", "lookupstore"): upsert_again_lookupstore,
    ("upsert again", "deltalake"): upsert_again_deltalake,
    ("cluster", "lookupstore"): cluster_lookupstore,
    ("cluster", "deltalake"): cluster_deltalake,
    ("scan", "lookupstore"): scan_lookupstore,
    ("scan", "pyarrow"): scan_pyarrow,
}


def peak_bytes() -> int | None:
    """Return the most memory that this process had; not its parent's, as `ru_maxrss` may be."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    return int(status.read_text().split("VmHWM:")[1].split()[0]) << 10


def main() -> None:
    """Do what the command line says."""
    verb, contender, table, path = sys.argv[1:]
    with pa.OSFile(path) as file:
        rows = pa.ipc.open_file(file).read_all()
    if contender == "deltalake":
        import deltalake  # noqa: F401
    else:
        import lookupstore.hudi  # noqa: F401
    start, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    found = CONTENDERS[verb, contender](table, rows)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": used, "peak": peak_bytes(), **found}))


if __name__ == "__main__":
    main()
