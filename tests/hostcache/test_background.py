"""Threads beside lookups, when the process ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lookupstore.hostcache import background
from lookupstore.hostcache.background import ProcessEndingError
from lookupstore.hostcache.recode import write_plain
from lookupstore.sst import Reader, Writer


def test_the_end_of_a_process_waits_for_its_threads(tmp_path: Path) -> None:
    """A thread inside Arrow at that time ended the process by a signal, after its answer."""
    code = """
import sys, time
from lookupstore.hostcache.background import is_ending, start_thread

def work(path):
    while not is_ending():
        time.sleep(0.01)
    time.sleep(0.2)
    open(path, "w").close()

start_thread(work, sys.argv[1], name="work")
"""
    done = tmp_path / "done"
    ran = subprocess.run([sys.executable, "-c", code, str(done)], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr, done.exists()) == (0, b"", True)


def test_a_plain_copy_is_given_up_when_the_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = pa.array([b"%07d" % at for at in range(1000)])
    with Writer(tmp_path / "z.sst", compression="zstd") as writer:
        writer.put_many(keys, keys)
    monkeypatch.setattr(background, "is_ending", lambda: True)
    with Reader(tmp_path / "z.sst") as reader, pytest.raises(ProcessEndingError):
        write_plain(reader, str(tmp_path / "plain.sst"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["z.sst"]


def test_a_child_of_fork_waits_for_no_thread_of_its_parent(tmp_path: Path) -> None:
    code = """
import os, sys, time
from lookupstore.hostcache.background import is_ending, start_thread

def work():
    while not is_ending():
        time.sleep(0.01)

start_thread(work, name="work")
if os.fork() == 0:
    sys.exit(0)
_, status = os.wait()
sys.exit(status != 0)
"""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
