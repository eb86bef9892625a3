"""The C tests, compiled and run, also with sanitizers."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

CSRC = Path(__file__).parents[2] / "csrc"
COMPILER = shlex.split(os.environ.get("CC", "cc"))


FLAGS = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]

pytestmark = pytest.mark.skipif(
    shutil.which(COMPILER[0]) is None, reason=f"no C compiler {COMPILER[0]!r}"
)


def run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    # `make asan` preloads a sanitizer into Python; the compiler and the program bring their own.
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "ASAN_OPTIONS")}
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def check(files: Sequence[Path], sanitizers: Sequence[str], tmp_path: Path) -> None:
    program = tmp_path / "program"
    include = ["-I", CSRC, "-isystem", pa.get_include()]
    for command in (
        [*COMPILER, *FLAGS, *sanitizers, *include, *files, "-lm", "-o", program],
        [program],
    ):
        done = run(command)
        assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}"


@pytest.mark.parametrize(
    "sanitizers",
    [
        [],
        pytest.param(
            ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"], marks=pytest.mark.long
        ),
    ],
    ids=["plain", "sanitized"],
)
def test_the_c_test_passes(tmp_path: Path, sanitizers: list[str]) -> None:
    tests = sorted((CSRC / "tests").glob("*.c"))
    assert tests
    # To compile takes most of the time: `make test-c` does it with more optimization.
    check([*tests, *sorted(CSRC.glob("ls_*.c"))], ["-O0", *sanitizers], tmp_path)


def test_the_threads_pass_under_thread_sanitizer(tmp_path: Path) -> None:
    """Batches, evictions and pins, from several threads: no race, no wrong answer, no junk read."""
    empty = tmp_path / "empty.c"
    empty.write_text("int main(void) { return 0; }")
    program = tmp_path / "empty"
    compiled = run([*COMPILER, "-fsanitize=thread", empty, "-o", program])
    if compiled.returncode != 0 or run([program]).returncode != 0:
        pytest.skip("ThreadSanitizer does not run here")
    names = (
        "batch", "block", "changes", "fences", "file_ranges", "filter", "hash", "order", "places",
        "row_order", "slots",
    )  # fmt: skip
    files = [CSRC / "test_threads.c", *(CSRC / f"ls_{name}.c" for name in names)]
    check(files, ["-fsanitize=thread"], tmp_path)
