"""Random keys of a file that is not in memory, asked for by a new process.

lookupstore   a plain file with default options, in one call
LMDB          the same records, key by key, without read-ahead
disk          as many reads of 8 KiB at random places of the file, all asked for ahead: what blocks
              of that size would cost at least

The file is out of the page cache before each call. KiB are those that the process has had read
from the disk for the call.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import lmdb
from cold_disk_once import DISK, LMDB, OURS, chunk
from defaults import forget
from harness import command_line
from report import print_head

from lookupstore.sst import Writer

COUNTS = (1, 100, 1_000, 10_000)
_CHUNK = 1 << 20
_ONCE = Path(__file__).with_name("cold_disk_once.py")


def build(folder: Path, records: int) -> dict[str, Path]:
    """Write the records as a file and as a database; return the file that each contender reads."""
    ours, theirs = folder / "records.sst", folder / "lmdb"
    chunks = range(0, records, _CHUNK)
    with Writer(ours) as writer, lmdb.open(str(theirs), map_size=64 << 30) as environment:
        for start in chunks:
            keys, values = chunk(start, min(start + _CHUNK, records))
            writer.put_many(keys, values)
            with environment.begin(write=True) as transaction:
                pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
                transaction.cursor().putmulti(pairs, dupdata=False, append=True)
        environment.sync(True)
    return {OURS: ours, LMDB: theirs / "data.mdb", DISK: ours}


def asked(name: str, path: Path, records: int, count: int, seed: int) -> tuple[float, float]:
    """Return the seconds and the KiB of one call in a new process."""
    forget(path)
    line = [sys.executable, str(_ONCE), name, str(path), str(records), str(count), str(seed)]
    found = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
    return found["seconds"], found["bytes"] / 1024


def main(given: Sequence[str] | None = None) -> None:
    parser = command_line("make bench-cold-disk", __doc__, records=20_000_000, rounds=5)
    chosen = parser.parse_args(given)
    print_head({name: getattr(chosen, name) for name in ("records", "rounds")})
    print(
        "\n| keys | " + " | ".join(f"{name}, ms | KiB a key" for name in (OURS, LMDB, DISK)), end=""
    )
    print(f" | {OURS} / {LMDB} |\n" + "|---" * 8 + "|")
    with TemporaryDirectory() as folder:
        paths = build(Path(folder), chosen.records)
        for count in (one for one in COUNTS if 10 * one <= chosen.records):
            rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in paths}
            for number in range(chosen.rounds):
                for name, path in paths.items():
                    rounds[name].append(asked(name, path, chosen.records, count, number))
            line, seconds = [f"{count:,}"], {}
            for name, found in rounds.items():
                seconds[name] = statistics.median(one for one, _ in found)
                kib = statistics.median(one for _, one in found)
                line += [f"{seconds[name] * 1e3:.1f}", f"{kib / count:.1f}"]
            line.append(f"{seconds[OURS] / seconds[LMDB]:.2f} x")
            print("| " + " | ".join(line) + " |", flush=True)


if __name__ == "__main__":
    main()
