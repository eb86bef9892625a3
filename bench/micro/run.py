"""Run the microbenchmarks, or compare them with those of another commit.

    make bench-micro                                   # all, and a table
    make bench-micro COMPARE=HEAD~3                    # beside a commit
    make bench-micro BENCH_MICRO_ARGS="--only filter"  # files with this in their name

Results are the JSON of pytest-benchmark, in a folder for each run below build/bench-micro. For a
comparison the other commit is cloned and built there once, with the package versions of this
environment. The benchmark files are those of this tree for both commits, which take turns: one file
of benchmarks after the other. Benchmarks that the other commit cannot run are named and left out.
With `--turns N` both run each file N times, and the fastest turn of each benchmark counts: a phase
in which the machine is slow then does not decide.
Further options, such as `-k paimon` or `--records 1000000`, are passed to pytest.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
#: What an environment needs before the package is built in it, and to run benchmarks.
TOOLS = ("setuptools", "cython", "pyarrow", "pytest-benchmark")
#: The name of this tree in comparisons.
NOW = "now"
COLUMNS = "min,median"


def main(given: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="make bench-micro",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--compare", metavar="COMMIT", help="commit to compare with")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("build", "bench-micro"),
        help="folder of results and of other commits (%(default)s)",
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="files with this in their name")
    parser.add_argument(
        "--turns", type=int, default=1, metavar="N", help="turns of each commit (%(default)s)"
    )
    asked, options = parser.parse_known_args(given)
    if asked.turns < 1 or (asked.turns > 1 and asked.compare is None):
        parser.error("--turns: give 1 or more, together with --compare")
    paths = [path for path in sorted(HERE.glob("test_*.py")) if asked.only in path.stem]
    if not paths:
        parser.error(f"--only: no file of {HERE} has {asked.only!r} in its name")
    folder = asked.folder.resolve()
    results = folder / datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%f")
    if asked.compare is None:
        results.mkdir(parents=True)
        return measure(Path(sys.executable), ROOT, paths, results / f"{NOW}.json", options)
    commit = commit_of(asked.compare)
    if commit is None:
        parser.error(f"--compare: {asked.compare!r} is not a commit; give one that `git log` shows")
    python = environment(commit, folder / commit)
    results.mkdir(parents=True)
    sides = {commit: (python, folder / commit), NOW: (Path(sys.executable), ROOT)}
    return compare(sides, paths, results, options, asked.turns)


def commit_of(name: str) -> str | None:
    """Return the first twelve digits of a commit, or None if there is no such commit."""
    command = ["git", "rev-parse", "--quiet", "--verify", "--short=12", f"{name}^{{commit}}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or None


def environment(commit: str, folder: Path) -> Path:
    """Return the Python of an environment with a commit, which is built unless it is there."""
    python = folder / ".venv" / "bin" / "python"
    built = folder / ".venv" / ".built"
    if built.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    print(f"building {commit} in {folder}", flush=True)
    subprocess.run(
        ["git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, folder], check=True
    )
    subprocess.run(["git", "checkout", "--quiet", "--detach", commit], cwd=folder, check=True)
    subprocess.run([sys.executable, "-m", "venv", folder / ".venv"], check=True)
    versions = folder / ".venv" / "versions.txt"
    versions.write_text(
        "".join(
            f"{one.name}=={one.version}\n" for one in distributions() if one.name != "lookupstore"
        )
    )
    install: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--constraint",
        versions,
    ]
    subprocess.run([*install, *TOOLS], check=True)
    subprocess.run([*install, "--no-build-isolation", "--editable", folder], check=True)
    built.touch()
    return python


def measure(
    python: Path, tree: Path, paths: Sequence[Path], result: Path, options: Sequence[str]
) -> int:
    """Run benchmarks with the package of an environment, and return pytest's exit status.

    Args:
        python: interpreter of the environment.
        tree: work tree of the package, whose commit is saved with the result.
        paths: files of benchmarks.
        result: JSON file to write.
        options: further options of pytest.
    """
    # Neither another package nor options of a pytest that has started this process.
    variables = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not name.startswith("PYTEST")
    }
    command: list[str | Path] = [python, "-W", "ignore:Not saving anything", "-m", "pytest"]
    command += ["-c", HERE / "pytest.ini", "--benchmark-json", result]
    return subprocess.run([*command, *options, *paths], cwd=tree, env=variables).returncode


def compare(
    sides: dict[str, tuple[Path, Path]],
    paths: Sequence[Path],
    results: Path,
    options: Sequence[str],
    turns: int = 1,
) -> int:
    """Measure both sides in turns, print pytest-benchmark's comparison, return the exit status.

    Args:
        sides: interpreter and work tree of each side, by its name in the table; this tree is last.
        paths: files of benchmarks.
        results: folder for a JSON file of each side.
        options: further options of pytest.
        turns: Number of turns of each side for each file.
    """
    parts: dict[str, list[Path]] = {name: [] for name in sides}
    quiet = ("--quiet", "--no-header", "--tb=line", "--benchmark-quiet")
    for path, turn in itertools.product(paths, range(turns)):
        for name, (python, tree) in sides.items():
            part = results / f"{name}-{path.stem}-{turn}.json"
            print(f"{path.stem}, {name}", flush=True)
            status = measure(python, tree, [path], part, (*quiet, *options))
            if status not in (0, 5) and name == NOW:  # 5: no benchmark is selected
                return status
            parts[name].append(part)
    documents = {name: merged(parts[name]) for name in sides}
    names = [{one["fullname"] for one in found["benchmarks"]} for found in documents.values()]
    common = set.intersection(*names)
    for name in sorted(names[-1] - common):
        print(f"left out, because it did not run at the other commit: {name}")
    if not common:
        print("no benchmark ran at both commits", file=sys.stderr)
        return 1
    for name, found in documents.items():
        found["benchmarks"] = [one for one in found["benchmarks"] if one["fullname"] in common]
        (results / f"{name}.json").write_text(json.dumps(found))
    command = [sys.executable, "-m", "pytest_benchmark", f"--storage=file://{results}", "compare"]
    command += [f"--between={COLUMNS}", "--sort=fullname", "--name=normal"]
    return subprocess.run([*command, *(results / f"{name}.json" for name in sides)]).returncode


def merged(parts: Sequence[Path]) -> dict[str, Any]:
    """Return several JSON files as one, and delete them; those without benchmarks do not exist.

    Of a benchmark that is in several files, the one with the least minimum is returned.
    """
    documents = [json.loads(one.read_text()) for one in parts if one.exists()]
    for one in parts:
        one.unlink(missing_ok=True)
    fastest: dict[str, Any] = {}
    for benchmark in (benchmark for one in documents for benchmark in one["benchmarks"]):
        name = benchmark["fullname"]
        known = fastest.setdefault(name, benchmark)
        if benchmark["stats"]["min"] < known["stats"]["min"]:
            fastest[name] = benchmark
    return {**(documents[0] if documents else {}), "benchmarks": list(fastest.values())}


if __name__ == "__main__":
    sys.exit(main())
