"""Make files and tables for `make zoo` by as many programs and settings as there are.

Each program has a folder of its own, which is made anew. What a program
refuses to write is counted, and `--refused` lists it.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.makers.made import Made

#: The programs, by the names of their folders, with the module that calls them.
MAKERS = {
    "arrow": "by_arrow",
    "duckdb": "by_duckdb",
    "polars": "by_polars",
    "fastparquet": "by_fastparquet",
    "pyorc": "by_pyorc",
    "tables": "tables",
    "spark": "by_spark",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `make zoo-data`, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=MAKERS, action="append", help="only this program")
    parser.add_argument(
        "--spark", action="store_true", help="with files by Spark, which takes minutes"
    )
    parser.add_argument("--refused", action="store_true", help="list what programs do not write")
    given = parser.parse_args(arguments)
    names = given.only or [name for name in MAKERS if name != "spark" or given.spark]
    for name in names:
        shutil.rmtree(given.folder / name, ignore_errors=True)
        made = Made(given.folder / name)
        importlib.import_module(f"zoo.makers.{MAKERS[name]}").make(made)
        print(f"{name}: {made.count} files and tables, {len(made.refused)} not written", flush=True)
        for file, why in made.refused.items() if given.refused else ():
            print(f"  {file}: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
