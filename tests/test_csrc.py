"""The C test, compiled with sanitizers and run."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

CSRC = Path(__file__).parent.parent / "csrc"
COMPILER = shlex.split(os.environ.get("CC", "cc"))


@pytest.mark.skipif(shutil.which(COMPILER[0]) is None, reason=f"no C compiler {COMPILER[0]!r}")
def test_the_c_test_passes_under_sanitizers(tmp_path: Path) -> None:
    sources = [CSRC / "test_csrc.c", *sorted(CSRC.glob("ls_*.c"))]
    program = tmp_path / "test_csrc"
    # `make asan` preloads a sanitizer into Python; the compiler and the program bring their own.
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "ASAN_OPTIONS")}
    flags = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    include = ["-I", CSRC, "-isystem", pa.get_include()]
    for command in (
        [*COMPILER, *flags, *sanitizers, *include, *sources, "-lm", "-o", program],
        [program],
    ):
        run = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert run.returncode == 0, f"{shlex.join(map(str, command))}\n{run.stdout}"
