"""Change valid files and texts at random, and use them: `make fuzz`.

Each target of `targets.py` runs in processes of its own, with a limit of memory, and is watched: a
process that ends, an input that takes too long or too much memory, and an error that no
documentation names, is a finding. It is printed with what repeats it: FUZZ_SEED and FUZZ_ONLY.

FUZZ_SECONDS says how long all targets take together, FUZZ_SEED what the inputs are made of,
FUZZ_ONLY=target or FUZZ_ONLY=target:number which. The exit status is 1 if anything was found.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import os
import random
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

MEMORY = 1 << 30
# What is reserved and never used is not counted, but ends somewhere.
ADDRESSES = 6 << 30
SHOWN = 3


@dataclass
class Findings:
    """What a run found.

    Attributes:
        inputs: by target.
        answered: inputs with an answer, by target.
        kinds: how often each finding came, by what it is.
    """

    inputs: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, target: str, number: int, seed: int, kind: str, details: str) -> None:
        """Note a finding; the first of a kind are printed."""
        self.kinds[f"{target}: {kind}"] += 1
        if self.kinds[f"{target}: {kind}"] <= SHOWN:
            again = f"FUZZ_SEED={seed} FUZZ_ONLY={target}:{number} make fuzz"
            print(f"FOUND in {target}: {kind}\n  {again}\n{details}", flush=True)


def work(module: str, target: str, seed: int, first: int, last: int | None) -> None:
    """Make inputs and use them; tell the parent of each, before and after."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    targets = importlib.import_module(module).TARGETS
    with tempfile.TemporaryDirectory(prefix="lookupstore-fuzz-") as folder:
        run = targets[target](Path(folder))
        if os.environ.get("LOOKUPSTORE_BUILD", "release") == "release":  # sanitizers reserve all
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        number = first
        while last is None or number <= last:
            print(f"@ {number}", flush=True)
            before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            try:
                answered = run(random.Random(f"{seed}:{target}:{number}"))
                print(f"= {answered}", flush=True)
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                kind = f"{type(error).__name__} in {Path(where.filename).name}:{where.name}"
                text = traceback.format_exc()[-2500:].replace("\n", "\n    ")
                print(f"! {kind}\n{text}\n.", flush=True)
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            if most > peak and most - before > MEMORY:
                print(f"! memory\n{(most - before) >> 20} MB\n.", flush=True)
                return
            number += 1


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        module: that has the targets.
        seed: of the inputs.
        patience: seconds that an input may take.
    """

    module: str
    seed: int
    patience: float


def watch(
    plan: Plan, target: str, first: int, last: int | None, seconds: float, found: Findings
) -> None:
    """Run a target in one process after the other, until its time or its inputs are over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and (last is None or first <= last):
        first = 1 + watch_one(plan, target, first, last, end, found)


def watch_one(
    plan: Plan, target: str, first: int, last: int | None, end: float, found: Findings
) -> int:
    """Run one process of a target; return the number of its last input."""
    seed, patience = plan.seed, plan.patience
    line = [sys.executable, __file__, "--work", target, "--module", plan.module]
    line += ["--seed", str(seed), "--first", str(first)]
    line += [] if last is None else ["--last", str(last)]
    number, text, ending = first, b"", False
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdout is not None
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            # Before the first input, files are made.
            moment, started = time.monotonic() + 60, False
            while True:
                now = time.monotonic()
                if started and now > end:
                    ending = True
                    break
                if not ready.select(max(0.01, min(moment, end if started else moment) - now)):
                    if time.monotonic() >= moment:
                        found.add(target, number, seed, f"{patience:.0f} s and no end", "")
                        ending = True
                        break
                    continue
                piece = os.read(process.stdout.fileno(), 1 << 16)
                if not piece:
                    break
                *messages, text = (text + piece).split(b"\n")
                for message in messages:
                    if message.startswith(b"@ "):
                        number, started = int(message[2:]), True
                        moment = time.monotonic() + patience
                        found.inputs[target] += 1
                    elif message.startswith(b"= "):
                        found.answered[target] += message != b"= 0"
                    elif message.startswith(b"! "):
                        kind, details = message[2:].decode(), []
                    elif message == b".":
                        found.add(target, number, seed, kind, "\n".join(details))
                    else:
                        details.append(message.decode(errors="replace"))
        if ending:
            process.kill()
        process.stdout.close()
        status = process.wait()
        if not ending and status:
            errors.seek(0)
            said = errors.read()[-2500:].decode(errors="replace")
            name = signal.Signals(-status).name if status < 0 else f"exit {status}"
            found.add(target, number, seed, name, said)
    return number


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", default="", help="target, or target:number")
    parser.add_argument("--patience", type=float, default=10, help="seconds an input may take")
    parser.add_argument("--inputs", type=int, default=None, help="of each target, at most")
    parser.add_argument("--module", default="targets", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--last", type=int, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.module, given.work, given.seed, given.first, given.last)
        return 0
    targets = importlib.import_module(given.module).TARGETS
    seed = random.SystemRandom().randrange(1 << 32) if given.seed is None else given.seed
    plan = Plan(given.module, seed, given.patience)
    found = Findings()
    only, _, number = given.only.partition(":")
    if number:
        watch(plan, only, int(number), int(number), 3600, found)
    else:
        names = [only] if only else list(targets)
        last = None if given.inputs is None else given.inputs - 1
        for name in names:
            watch(plan, name, 0, last, given.seconds / len(names), found)
            print(f"{name}: {found.inputs[name]} inputs, {found.answered[name]} answered")
    for kind, count in found.kinds.most_common():
        print(f"{count} x {kind}")
    print(f"seed {seed}, {found.inputs.total()} inputs, {found.kinds.total()} findings")
    return 1 if found.kinds else 0


if __name__ == "__main__":
    sys.exit(main())
