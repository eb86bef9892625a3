"""One way to bring a Parquet file in order of its keys, in a process of its own: for `builds.py`.

Arguments: the contender, the file, a new folder. Prints JSON: seconds, and the peak of memory.
"""

from __future__ import annotations

import json
import sys
import time

from harness import peak_memory


def main(contender: str, source: str, folder: str) -> None:
    """Build once, and print what it took; imports are not counted."""
    if contender == "DuckDB":
        import duckdb

        connection = duckdb.connect()
        connection.execute("SET threads = 2; SET memory_limit = '2GB'")
        start = time.perf_counter()
        connection.execute(
            f"COPY (SELECT * FROM '{source}' ORDER BY id) TO '{folder}.parquet' (FORMAT parquet)"
        )
        print(json.dumps({"seconds": time.perf_counter() - start, "memory": peak_memory()}))
        return
    import lookupstore

    options = {"compression": "zstd"} if contender.endswith("zstd") else {}
    start = time.perf_counter()
    store = lookupstore.build(source, folder, key="id", **options)
    seconds = time.perf_counter() - start
    rows = len(store)
    store.close()
    print(json.dumps({"seconds": seconds, "memory": peak_memory(), "rows": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
