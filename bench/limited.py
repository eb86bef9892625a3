"""Random keys of a file three times as large as the memory that a process may use.

lookupstore   a plain file with default options, some keys in each call
LMDB          the same records, key by key, without read-ahead

Each is a new process in a memory control group with a limit, which counts pages of files, too. The
file is out of the page cache before it starts. Keys are uniform, or Zipf-distributed (exponent 1.1)
with ranks scattered over all keys. KiB are those that the process has had read from the disk. The
first third of the calls is not counted.

It needs Linux, and the right to make a control group below that of this process, or below
`--group`. In version 2 that group must enable the memory controller for groups below it.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from cold_disk import build
from cold_disk_once import LMDB, OURS
from defaults import forget
from harness import command_line
from report import print_head, rate_text

COUNTS = (1_000, 10_000)
EXPONENT = 1.1
#: The file of a control group that has its limit, in versions 1 and 2.
LIMIT, LIMIT_2 = "memory.limit_in_bytes", "memory.max"

_ONCE = Path(__file__).with_name("limited_once.py")
_ENTER = 'echo $$ >"$0/cgroup.procs" && exec "$@"'


def own_group() -> Path:
    """Return the folder of the memory control group that this process is in."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    groups = {controllers: path for _, controllers, path in (one.split(":", 2) for one in lines)}
    if "memory" in groups:
        return Path(f"/sys/fs/cgroup/memory{groups['memory']}")
    return Path(f"/sys/fs/cgroup{groups['']}")


@contextmanager
def limited(group: Path, nbytes: int) -> Iterator[Path]:
    """Make a control group with a limit of memory below another one, and remove it at the end."""
    one = group / f"lookupstore-bench-{os.getpid()}"
    one.mkdir()
    try:
        (one / (LIMIT if (group / LIMIT).exists() else LIMIT_2)).write_text(str(nbytes))
        run_in(one, "true")
        yield one
    finally:
        one.rmdir()


def run_in(group: Path, *line: str) -> str:
    """Run a command in a control group, where it counts from its start; return what it prints."""
    command = ["sh", "-c", _ENTER, str(group), *line]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def asked(group: Path, name: str, path: Path, numbers: Path, count: int) -> tuple[float, float]:
    """Return the keys per second and the KiB per key of a new process; zeros if it was killed."""
    forget(path)
    line = (sys.executable, str(_ONCE), name, str(path), str(numbers), str(count))
    try:
        found = json.loads(run_in(group, *line))
    except subprocess.CalledProcessError as error:
        if error.returncode == -signal.SIGKILL:  # it needed more memory
            return 0.0, 0.0
        raise
    return found["keys"] / found["seconds"], found["bytes"] / 1024 / found["keys"]


def drawn(records: int) -> dict[str, Callable[[np.random.Generator, int], np.ndarray]]:
    """Return what draws numbers of records, by its name."""
    weights = np.cumsum(np.arange(1, records + 1) ** -EXPONENT)
    scattered = np.random.default_rng(41).permutation(records)

    def zipf(chance: np.random.Generator, count: int) -> np.ndarray:
        return scattered[np.searchsorted(weights, chance.random(count) * weights[-1])]

    return {"uniform": lambda chance, count: chance.integers(0, records, count), "Zipf": zipf}


def line_of(rounds: Mapping[str, Sequence[tuple[float, float]]]) -> list[str]:
    """Return the cells of a line: medians of each contender, and their ratio."""
    cells, rates = [], {}
    for name, found in rounds.items():
        rates[name] = statistics.median(rate for rate, _ in found)
        kib = statistics.median(one for _, one in found)
        cells += [rate_text(rates[name]), f"{kib:.1f}"] if rates[name] else ["killed", "-"]
    return [*cells, f"{rates[OURS] / rates[LMDB]:.2f} x" if rates[LMDB] else "-"]


def measure(group: Path, folder: Path, records: int, keys: int, rounds: int) -> None:
    """Print the lines of the table."""
    built = build(folder, records)
    paths = {name: built[name] for name in (OURS, LMDB)}
    for kind, draw in drawn(records).items():
        for count in COUNTS:
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in paths}
            for number in range(rounds):
                np.save(folder / "numbers.npy", draw(np.random.default_rng(number), keys))
                for name, path in paths.items():
                    found[name].append(asked(group, name, path, folder / "numbers.npy", count))
            print("| " + " | ".join([kind, f"{count:,}", *line_of(found)]) + " |", flush=True)


def main(given: Sequence[str] | None = None) -> None:
    parser = command_line("make bench-limited", __doc__, records=33_554_432, keys=300_000, rounds=3)
    parser.add_argument("--memory", type=int, default=256, help="MiB of a process (%(default)s)")
    parser.add_argument("--group", type=Path, help="a control group (that of this process)")
    chosen = parser.parse_args(given)
    if chosen.keys % max(COUNTS):
        parser.error(f"--keys is {chosen.keys}; give a multiple of {max(COUNTS)}")
    sizes = {name: getattr(chosen, name) for name in ("records", "keys", "rounds")}
    print_head({**sizes, "memory": chosen.memory})
    with ExitStack() as stack:
        try:
            above = chosen.group or own_group()
            group = stack.enter_context(limited(above, chosen.memory << 20))
        except (OSError, LookupError, subprocess.CalledProcessError) as error:
            print(f"skipped: no control group with a limit of memory can be made: {error}")
            return
        contenders = " | ".join(f"{name}, keys/s | KiB a key" for name in (OURS, LMDB))
        print(f"| keys | in a call | {contenders} | {OURS} / {LMDB} |\n" + "|---" * 7 + "|")
        folder = Path(stack.enter_context(TemporaryDirectory()))
        measure(group, folder, **sizes)


if __name__ == "__main__":
    main()
