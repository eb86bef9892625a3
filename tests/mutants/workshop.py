"""Change a copy of the checkout, build what has to be built, and run its tests.

The work tree is only read. A copy has the files that git does not ignore, as they are in the work
tree, and the extensions that are built there.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mutants.changes import Change

# Tests of modules that are in no wing, or whose tests are.
OWN_TESTS = {
    "lookupstore/_built.py": ["tests/project/test_package.py"],
    "lookupstore/duckdb.py": ["tests/engines"],
    "lookupstore/errors.py": ["tests/project/test_ways_to_go_wrong.py", "tests/sst"],
    "lookupstore/extras.py": ["tests/project/test_extras.py", "tests/cli/test_doctor.py"],
    "lookupstore/hostcache/own_folder.py": ["tests/hostile/test_cache.py", "tests/hostcache"],
    "lookupstore/keywords.py": ["tests/project/test_public_names.py", "tests/store"],
    "lookupstore/polars.py": ["tests/engines"],
    "lookupstore/processors.py": ["tests/sorting", "tests/sst"],
    "lookupstore/quantities.py": ["tests/project/test_quantities.py"],
}
# Tests of a whole table, for every module of Hudi.
HUDI = "tests/hudi/table"
# What tests depend on, but for the files that make mutants.
MEASURED_FROM = ("lookupstore/", "csrc/", "tests/", "setup.py")
OWN = ("tests/mutants/", "tests/project/test_mutants.py")
# The status of a process whose time was over; no process ends with it.
OVER = 1000
# When all files of a copy were written, for compilers: before anything was built, in any run.
SOURCES_FROM = 1_600_000_000
# Variables of a pytest or coverage that this may itself run in.
OUTER = ("PYTEST_", "COV_", "COVERAGE_")
# Random inputs and cases of tests are the same in each run: what survives, survives again.
TEST_SEED = 16
# Times are measured on a machine that may be less busy than when a mutant runs.
PATIENCE, LEAST_PATIENCE = 3, 20
# Seconds of a test of which a file may have hundreds, so that they go before others.
QUICK = 0.05
SANITIZED = (
    "-std=c11 -g -O1 -w -pthread -fsanitize=address,undefined -fno-sanitize-recover=all -Icsrc"
)


class NotAMutantError(Exception):
    """The change cannot be compiled, or is compiled to the same."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        verdict: "killed", "timed out", "survived" or "not executed".
        seconds: Time of the build and the tests.
        by: The first test that failed.
    """

    verdict: str
    seconds: float
    by: str = ""


@dataclass(frozen=True)
class Measured:
    """What the tests of one suite do without a change.

    Attributes:
        seconds: Time of each test that passes, by its name.
        names: Names of the tests, by number; the first, "", stands for an import.
        lines: Numbers of the tests that execute a line, by file and line.
    """

    seconds: Mapping[str, float]
    names: Sequence[str]
    lines: Mapping[str, Mapping[str, Sequence[int]]]

    def executing(self, change: Change) -> set[str]:
        """Return the tests that execute any line of the statement of a change."""
        lines = self.lines.get(change.file, {})
        found = {
            self.names[number]
            for line in range(change.first, change.last + 1)
            for number in lines.get(str(line), ())
        }
        # What an import executes may show anywhere.
        return set(self.seconds) if "" in found else found & set(self.seconds)


def wing_of(file: str) -> str:
    """Return the wing of a file, as the table calls it."""
    folders = file.split("/")[:-1]
    if folders[0] != "lookupstore":
        return folders[0]
    depth = 3 if folders[1:2] == ["hudi"] else 2
    return "/".join(folders[1:depth]) or "top"


def suites_of(root: Path, file: str, links: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the suites of a file, first those nearest to it; each is a path below the root."""
    if file in OWN_TESTS:
        return OWN_TESTS[file]
    if file.startswith("csrc/"):
        name = Path(file).stem
        modules = [m for m, names in links.items() if name in names] or list(links)
        nearest = [suites_of(root, m.replace(".", "/") + ".pyx", links)[0] for m in modules]
        return list(dict.fromkeys(nearest))
    folders = file.split("/")[1:-1]
    while folders and not (root / "tests" / "/".join(folders)).is_dir():
        folders.pop()
    own = "/".join(["tests", *folders])
    if folders[:1] != ["hudi"]:
        return [own]
    return [HUDI] if own in ("tests/hudi", HUDI) else [own, HUDI]


def tracked(root: Path) -> list[str]:
    """Return the files that a copy needs."""
    if (root / ".git").exists():
        line = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = set(subprocess.check_output(line, cwd=root).decode().split("\0"))
        return sorted(name for name in names if name and (root / name).is_file())
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    )


def links_of(root: Path) -> dict[str, list[str]]:
    """Return which files of csrc each extension has, from setup.py."""
    if not (root / "setup.py").exists():
        return {}
    known: dict[str, list[str]] = {}
    names: dict[str, object] = {}
    for node in ast.parse((root / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("RECORDS", "LOOKUP", "SEARCH", "MODULES"):
                code = compile(ast.Expression(node.value), "setup.py", "eval")
                names[name] = eval(code, {"__builtins__": {}}, names)
    known.update(names.get("MODULES", {}))  # type: ignore[call-overload]
    return known


class Project:
    """The checkout, and what was measured of its tests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = tracked(root)
        self.links = links_of(root)
        self.alive: set[subprocess.Popen[bytes]] = set()
        self.stopped = False
        self.folder = Path(tempfile.mkdtemp(prefix="lookupstore-mutants-"))
        self.building = threading.Lock()
        self.measuring: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._measured: dict[str, Measured] = {}

    def stop(self) -> None:
        """End what runs, and let nothing else begin."""
        self.stopped = True
        for process in list(self.alive):
            end_group(process)

    def close(self) -> None:
        """Remove the copies."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def built(self) -> Path:
        """Where the extensions without a change are, with what they are built from."""
        return self.kept / "built"

    @cached_property
    def kept(self) -> Path:
        """Where measurements and builds of exactly these files are kept, for the next run."""
        digest = hashlib.sha256(sys.version.encode())
        for name in self.files:
            if name.startswith(MEASURED_FROM) and not name.startswith(OWN):
                digest.update(f"{name}\0".encode() + (self.root / name).read_bytes())
        kept = self.root / "build" / "mutants" / digest.hexdigest()[:16]
        kept.mkdir(parents=True, exist_ok=True)
        for other in set(kept.parent.iterdir()) - {kept}:
            shutil.rmtree(other, ignore_errors=True)  # of other sources
        return kept

    def measurement(self, suite: str) -> Path:
        """Return the file in which a measured suite is kept."""
        return self.kept / (suite.replace("/", "-") + ".json")

    def measured(self, suite: str) -> Measured:
        """Return what was measured of a suite."""
        if suite not in self._measured:
            self._measured[suite] = Measured(**json.loads(self.measurement(suite).read_text()))
        return self._measured[suite]

    def suites(self, change: Change) -> list[str]:
        """Return the suites of a change, first those nearest to it."""
        return suites_of(self.root, change.file, self.links)


class Workshop:
    """One copy of the checkout, in which one mutant after the other is tried."""

    def __init__(self, project: Project, number: int) -> None:
        self.project = project
        self.base = project.folder / str(number)
        self.copy = self.base / "copy"
        self.temporary = self.base / "t"
        for name in project.files:
            (self.copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(project.root / name, self.copy / name)
            os.utime(self.copy / name, (SOURCES_FROM, SOURCES_FROM))
        for path in project.root.glob("lookupstore/**/*.so"):
            shutil.copy2(path, self.copy / path.relative_to(project.root))
        self.built: dict[Path, int] = {}
        self.begin = 0.0

    # ---- processes ----

    def run(
        self, command: Sequence[str | Path], seconds: float | None, **variables: str
    ) -> tuple[int, str]:
        """Run a command in the copy; return its status, or OVER, and what it printed."""
        self.temporary.mkdir()
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(OUTER)},
            "PYTHONPATH": os.pathsep.join([str(self.copy), str(Path(__file__).parent)]),
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(self.temporary / "cache"),
            "LOOKUPSTORE_CACHE": str(self.temporary / "lookupstore"),
            "LOOKUPSTORE_BUILD": "release",
            "LOOKUPSTORE_TEST_SEED": str(TEST_SEED),
            "LOOKUPSTORE_TEST_DAY": str(TEST_SEED),
            **variables,
        }
        with open(self.base / "output", "w+b") as output:
            if self.project.stopped:
                raise KeyboardInterrupt
            process = subprocess.Popen(
                command,
                cwd=self.copy,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.project.alive.add(process)
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                status = OVER
            finally:
                end_group(process)
                self.project.alive.discard(process)
                shutil.rmtree(self.temporary, ignore_errors=True)
                shutil.rmtree(self.copy / ".hypothesis", ignore_errors=True)
            if self.project.stopped:
                raise KeyboardInterrupt
            output.seek(0)
            return status, output.read().decode(errors="replace")

    def pytest(
        self, files: Sequence[str], seconds: float | None, **variables: str
    ) -> tuple[int, str]:
        """Run tests, until the first fails."""
        line = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
        line += ["-p", "watching", f"--hypothesis-seed={TEST_SEED}"]
        line += ["-x"] if "MUTANTS_PICKED" in variables else []
        return self.run([*line, *files], seconds, **variables)

    # ---- measuring ----

    def measure_missing(self, change: Change) -> None:
        """Measure those suites of a change that were not measured before, outside of its time."""
        begin = time.monotonic()
        for suite in self.project.suites(change):
            with self.project.measuring[suite]:
                if not self.project.measurement(suite).exists():
                    self.measure(suite)
        self.begin += time.monotonic() - begin

    def measure(self, suite: str) -> None:
        """Run a suite without a change, and keep how long its tests take and what they execute."""
        import coverage

        times, data = self.base / "times", self.base / "coverage"
        data.mkdir()
        settings = self.base / "coveragerc"
        settings.write_text(
            f"[run]\nsource = {self.copy}/lookupstore\ndata_file = {data}/data\nparallel = true\n"
            # Others than this core see a line once, and not once a test.
            "core = ctrace\ncontext = ${MUTANTS_TEST-}\nsigterm = true\n"
            "disable_warnings = no-data-collected\n"
        )
        status, said = self.pytest(
            [suite],
            None,
            MUTANTS_TIMES=str(times),
            MUTANTS_TEST="",
            COVERAGE_PROCESS_START=str(settings),
        )
        if status not in (0, 1) or not times.exists():
            raise RuntimeError(f"{suite}: pytest ended with {status}\n{said[-2000:]}")
        seconds = json.loads(times.read_text())
        numbers = {name: number for number, name in enumerate(["", *seconds])}
        lines: dict[str, dict[int, set[int]]] = {}
        for path in data.iterdir():
            one = coverage.CoverageData(str(path))
            with contextlib.suppress(coverage.CoverageException):
                one.read()
            for file in one.measured_files():
                known = lines.setdefault(os.path.relpath(file, self.copy), {})
                for line, contexts in one.contexts_by_lineno(file).items():
                    # In the process of pytest they begin with |, the context of the process.
                    known.setdefault(line, set()).update(
                        numbers[name] for text in contexts if (name := text.lstrip("|")) in numbers
                    )
            one.close()
        shutil.rmtree(data)
        times.unlink()
        kept = self.project.measurement(suite)
        sorted_lines = {
            file: {line: sorted(known[line]) for line in sorted(known)}
            for file, known in sorted(lines.items())
        }
        text = json.dumps({"names": list(numbers), "seconds": seconds, "lines": sorted_lines})
        written = kept.with_suffix(".new")
        written.write_text(text)
        written.replace(kept)
        failing = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        for line in failing:
            print(f"not used, since it fails without a change: {line}", flush=True)

    # ---- trying ----

    def attempt(self, change: Change) -> Outcome:
        """Try one mutant.

        Raises:
            NotAMutantError: if the change cannot be compiled, or is compiled to the same.
        """
        if not change.file.startswith("csrc/"):
            self.measure_missing(change)
        self.begin = time.monotonic()
        path = self.copy / change.file
        source, status = path.read_bytes(), path.stat()
        path.write_bytes(change.apply(source))
        try:
            verdict, by = self.tried(change)
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            self.rebuilt()
        return Outcome(verdict, time.monotonic() - self.begin, by)

    def tried(self, change: Change) -> tuple[str, str]:
        if change.file.startswith("csrc/"):
            verdict, by = self.c_tests(change)
            if verdict != "survived":
                return verdict, by
            self.measure_missing(change)  # nothing is built yet
        if not change.file.endswith(".py"):
            self.build(change)
        executed = False
        for suite in self.project.suites(change):
            measured = self.project.measured(suite)
            python = change.file.endswith(".py")
            tests = measured.executing(change) if python else set(measured.seconds)
            if tests:
                executed = True
                verdict, by = self.verdict(measured, tests)
                if verdict != "survived":
                    return verdict, by
        return "survived" if executed else "not executed", ""

    def verdict(self, measured: Measured, tests: set[str]) -> tuple[str, str]:
        """Run some tests of a suite: the quick ones of all files, then the others."""
        seconds = measured.seconds
        of_file: Counter[str] = Counter()
        for name in tests:
            of_file[name.partition("::")[0]] += seconds[name]

        def order(name: str) -> tuple[bool, float, str, float, str]:
            file = name.partition("::")[0]
            return seconds[name] > QUICK, of_file[file], file, seconds[name], name

        picked = self.base / "picked"
        picked.write_text(json.dumps(sorted(tests, key=order)))
        limit = LEAST_PATIENCE + PATIENCE * sum(seconds[name] for name in tests)
        status, said = self.pytest(sorted(of_file), limit, MUTANTS_PICKED=str(picked))
        failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        by = failed[0].partition(" ")[2].partition(" - ")[0] if failed else f"exit {status}"
        if status == OVER:
            return "timed out", ""
        if status in (0, 5):
            return "survived", ""
        return "killed", by

    # ---- building ----

    @contextlib.contextmanager
    def unchanged(self, change: Change) -> Iterator[None]:
        """Take a change back for as long as something is built without it."""
        path = self.copy / change.file
        shutil.copy2(self.project.root / change.file, path)
        yield
        path.write_bytes(change.apply(path.read_bytes()))

    def prepare_build(self, change: Change) -> None:
        """Build all extensions once without the change, and keep them to go back to."""
        if self.built:
            return
        begin = time.monotonic()
        build = self.project.root / "build" / "release"
        with self.project.building:
            first = self.project.built
            if not first.exists():
                if build.exists():
                    shutil.copytree(build, self.copy / "build" / "release", dirs_exist_ok=True)
                with self.unchanged(change):
                    status, said = self.setup_py()
                if status != 0:
                    raise RuntimeError(f"the extensions cannot be built\n{said[-2000:]}")
                begun = first.with_suffix(".new")
                shutil.rmtree(begun, ignore_errors=True)
                for path in self.products():
                    kept = begun / path.relative_to(self.copy)
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(path, kept)
                begun.rename(first)
        for path in [one for one in first.rglob("*") if one.is_file()]:
            own = self.copy / path.relative_to(first)
            own.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, own)
        self.built = {path: path.stat().st_mtime_ns for path in self.products()}
        self.begin += time.monotonic() - begin

    def products(self) -> list[Path]:
        build = self.copy / "build" / "release"
        made = [path for path in build.rglob("*") if path.is_file()]
        return made + sorted(self.copy.glob("lookupstore/**/*.so"))

    def setup_py(self) -> tuple[int, str]:
        line = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        return self.run(line, 1800)

    def build(self, change: Change) -> None:
        """Build what a change is part of.

        Raises:
            NotAMutantError: if it cannot be built, or all extensions are the same as before.
        """
        self.prepare_build(change)
        status, said = self.setup_py()
        if status != 0:
            raise NotAMutantError(said)
        changed = [path for path in self.products() if path.suffix == ".so"]
        first = self.project.built
        if all(
            path.stat().st_mtime_ns == self.built.get(path)
            or path.read_bytes() == (first / path.relative_to(self.copy)).read_bytes()
            for path in changed
        ):
            raise NotAMutantError("it is compiled to the same")

    def rebuilt(self) -> None:
        """Go back to the extensions without a change."""
        first = self.project.built
        for path in self.products() if self.built else ():
            if path not in self.built:
                path.unlink()
            elif path.stat().st_mtime_ns != self.built[path]:
                shutil.copy2(first / path.relative_to(self.copy), path)

    def c_tests(self, change: Change) -> tuple[str, str]:
        """Run the C test under sanitizers, with the changed file compiled anew."""
        begin = time.monotonic()
        objects = self.project.kept / "objects"
        sources = sorted((*self.copy.glob("csrc/ls_*.c"), *self.copy.glob("csrc/tests/*.c")))
        with self.project.building:
            if not objects.exists():
                made = objects.with_suffix(".new")
                shutil.rmtree(made, ignore_errors=True)
                made.mkdir(parents=True)
                with self.unchanged(change):
                    for source in sources:
                        self.compile(source, made / f"{source.stem}.o")
                made.rename(objects)
        self.begin += time.monotonic() - begin
        own = self.base / "own"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        linked = []
        for source in sources:
            made = objects / f"{source.stem}.o"
            if change.file.endswith(".h") or source == self.copy / change.file:
                made = own / f"{source.stem}.o"
                self.compile(source, made)
            linked.append(made)
        line = [*compiler(), "-pthread", "-fsanitize=address,undefined"]
        status, said = self.run([*line, *linked, "-lm", "-o", own / "tests"], 600)
        if status != 0:
            raise NotAMutantError(said)
        status, said = self.run([own / "tests"], LEAST_PATIENCE * 3)
        shutil.rmtree(own)
        if status == OVER:
            return "timed out", "csrc/tests"
        return ("killed", "csrc/tests") if status else ("survived", "")

    def compile(self, source: Path, made: Path) -> None:
        import pyarrow

        flags = [*shlex.split(SANITIZED), "-isystem", pyarrow.get_include()]
        status, said = self.run([*compiler(), *flags, "-c", source, "-o", made], 600)
        if status != 0:
            raise NotAMutantError(said)


def compiler() -> list[str]:
    """Return the command of the C compiler."""
    return shlex.split(os.environ.get("CC", "cc"))


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process with all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
