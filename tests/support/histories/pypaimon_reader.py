"""Read snapshots of Paimon tables by pypaimon, for a process that has another pyarrow.

Run this in an environment of its own. Each line of the standard input is a JSON list of a folder
and the number of a snapshot; each answer is a line with the rows as JSON, or with an error.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pypaimon.table.file_store_table import FileStoreTable  # type: ignore[import-not-found]


def rows_at(folder: str, snapshot: int) -> list[dict[str, Any]]:
    """Return the rows of a snapshot as pypaimon reads them."""
    table = FileStoreTable.from_path(folder).copy({"scan.snapshot-id": str(snapshot)})
    builder = table.new_read_builder()
    return list(builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist())


def main() -> None:
    """Answer requests until the standard input ends."""
    for line in sys.stdin:
        folder, snapshot = json.loads(line)
        try:
            answer: Any = {"rows": rows_at(folder, snapshot)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
