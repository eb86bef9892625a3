"""How much memory a write takes, measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_SCRIPT = """
import json, re, sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from lookupstore.hudi import HudiTable, WriteOptions
from lookupstore.hudi.write.partitioner import FileSizing

def status(name):
    return int(re.search(name + r":\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])

folder, verb, batches, sizing, options = json.loads(sys.argv[1])
schema = pa.schema({"id": pa.int64(), "text": pa.string()})
table = HudiTable.create(folder, schema, record_key="id")
rng = np.random.default_rng(1)
def given(batches):
    for _ in range(batches):
        ids = rng.integers(0, 2**60, 10_000)
        yield pa.record_batch([pa.array(ids), pa.array(ids).cast(pa.string())], schema=schema)
options = WriteOptions(memory="32MiB", sizing=FileSizing(**sizing), **options)
getattr(table, verb)(given(2), options=options)
before = status("VmRSS")
rows = getattr(table, verb)(given(batches), options=options).rows_inserted
print((status("VmHWM") - before) >> 10, rows)
"""


def grown_by(
    folder: Path,
    verb: str,
    batches: int,
    *,
    sizing: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> int:
    """Write batches of 10,000 rows to a new table with 32 MiB, and return by how many MiB it grew.

    Args:
        folder: of the table.
        verb: name of the method that writes them.
        batches: how many; two come before what is measured.
        sizing: arguments of `FileSizing`.
        options: other arguments of `WriteOptions`.
    """
    given = json.dumps([str(folder), verb, batches, sizing, options or {}])
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, given], capture_output=True, text=True, check=True
    )
    print(done.stdout)
    grown, rows = map(int, done.stdout.split())
    assert rows == batches * 10_000
    return grown
