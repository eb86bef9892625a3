"""Write a file of each workload, and time the stages of lookups in it with the C program."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import add_sizes
from report import print_head
from workloads import WORKLOADS

from lookupstore.sst import Writer


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="make bench-stages", description=__doc__)
    parser.add_argument("program", help="bench/stages.c, compiled")
    add_sizes(parser, records=10_000_000, queries=1_000_000)
    chosen = parser.parse_args(given)
    print_head({"records": chosen.records, "queries": chosen.queries})
    for name, make in WORKLOADS.items():
        workload = make(chosen.records, chosen.queries)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "records.sst"
            with Writer(path) as writer:
                writer.put_many(workload.keys, workload.values)
            workload.release()
            print(f"\n{name}: ", end="", flush=True)
            subprocess.run([chosen.program, str(path), str(chosen.queries)], check=True)


if __name__ == "__main__":
    main()
