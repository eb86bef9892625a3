"""Open a file in this process, which has done nothing else: print seconds and bytes as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from lookupstore.sst import Reader


def resident() -> int:
    """Return the bytes of memory that this process has in use."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    # macOS says only the most that there ever was: right as long as nothing was freed before.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    resident()  # what this takes itself is not the reader's
    before = resident()
    start = time.perf_counter()
    reader = Reader(sys.argv[1])
    seconds = time.perf_counter() - start
    print(json.dumps({"open time": seconds, "open memory": resident() - before}))
