"""Time what every command and program pays first: `import lookupstore`, and the version of it.

Each is a new process. `pyarrow` is what none of them can do without.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial

from harness import command_line, in_turns
from report import print_head

MAIN = "import sys; sys.argv[1:] = ['{word}']; from lookupstore.cli import main; main()"
VERBS = {
    "python": "",
    "import pyarrow, numpy": "import pyarrow, numpy",
    "import lookupstore": "import lookupstore",
    "lookupstore --version": MAIN.format(word="--version"),
    "lookupstore --help": MAIN.format(word="--help"),
}


def cost(code: str) -> tuple[float, float]:
    """Run code in a new process; return the seconds it took, and those of a processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the medians, and what each takes beyond pyarrow."""
    rounds = command_line("make bench-imports", __doc__, rounds=15).parse_args(arguments).rounds
    print_head({"rounds": rounds})
    costs = in_turns({verb: partial(cost, code) for verb, code in VERBS.items()}, rounds)
    print(f"{'ms':24}{'wall':>8}{'cpu':>8}")
    for verb, all_costs in costs.items():
        wall, cpu = (statistics.median(one) * 1e3 for one in zip(*all_costs, strict=True))
        print(f"{verb:24}{wall:8.0f}{cpu:8.0f}")


if __name__ == "__main__":
    main()
