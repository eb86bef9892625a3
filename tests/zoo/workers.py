"""Examine files and tables in processes of their own, so that an abort or a hang is a verdict."""

from __future__ import annotations

import multiprocessing
import os
import queue
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from zoo.finding import Specimen

READER = "reader "
#: The first stage, which a process tells when it is ready for files.
BEGUN = "start"
# Seconds that a process may take to begin; the patience is for files alone.
_BEGINNING = 120


def work(pipe: Connection, scratch: str) -> None:
    """Examine what comes through a pipe, until it is closed; report stages and outcomes."""
    import faulthandler

    os.environ["LOOKUPSTORE_CACHE"] = f"{scratch}/cache"
    faulthandler.disable()  # the parent tells of a signal
    from zoo.examination import Examination

    pipe.send((BEGUN, None))
    while True:
        try:
            specimen, skipped = pipe.recv()
        except EOFError:
            return
        folder = Path(tempfile.mkdtemp(dir=scratch))
        one = Examination(specimen, folder, lambda stage: pipe.send((stage, None)), skipped)
        outcome = one.run()
        shutil.rmtree(folder, ignore_errors=True)
        pipe.send(("", outcome))


class Worker:
    """A process that examines one file or table after the other, and is replaced when it ends.

    Args:
        scratch: Folder for stores, links and local copies.
        patience: Seconds after which a file or table hangs.
    """

    def __init__(self, scratch: Path, patience: float) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._scratch = scratch
        self._patience = patience
        self._process: Any = None
        self._pipe: Any = None

    def examine(self, specimen: Specimen) -> dict[str, Any]:
        """Return the outcome of one file or table; readers that end the process are left out."""
        skipped: dict[str, str] = {}
        begin = time.monotonic()
        while True:
            stage, outcome, ended = self._attempt(specimen, skipped)
            if outcome is None and stage.startswith(READER):
                skipped[stage.removeprefix(READER)] = ended
                continue
            if outcome is None:
                outcome = {
                    "name": specimen.name,
                    "kind": specimen.kind,
                    "verdict": "crash",
                    "says": f"{stage}: {ended}",
                    "notes": [],
                    "key": [],
                    "rows": None,
                    "readers": skipped,
                    "lacks": [],
                }
            return {**outcome, "seconds": round(time.monotonic() - begin, 2)}

    def _attempt(
        self, specimen: Specimen, skipped: dict[str, str]
    ) -> tuple[str, dict[str, Any] | None, str]:
        if self._process is None:
            self._start()
        self._pipe.send((specimen, skipped))
        stage, over = BEGUN, time.monotonic() + self._patience
        try:
            while self._pipe.poll(max(0.0, over - time.monotonic())):
                stage_now, outcome = self._pipe.recv()
                if outcome is not None:
                    return "", outcome, ""
                stage = stage_now
        except (EOFError, ConnectionError):
            self._process.join()
            status = self._process.exitcode
            name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            self._process = None
            return stage, None, f"the process ended with {name}"
        self.stop()
        return stage, None, f"{self._patience:g} s and no end"

    def _start(self) -> None:
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(target=work, args=(theirs, str(self._scratch)))
        self._process.start()
        theirs.close()
        self._pipe.poll(_BEGINNING)

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def examine_all(
    found: Sequence[Specimen],
    processes: int,
    patience: float,
    done: Callable[[dict[str, Any]], None],
) -> list[dict[str, Any]]:
    """Return the outcomes of files and tables, in their order.

    Args:
        found: Files and tables.
        processes: Number of worker processes.
        patience: Seconds after which a file or table hangs.
        done: Called with each outcome as it comes.
    """
    outcomes: dict[int, dict[str, Any]] = {}
    waiting: queue.SimpleQueue[tuple[int, Specimen]] = queue.SimpleQueue()
    for item in enumerate(found):
        waiting.put(item)
    stopped = threading.Event()

    def serve() -> None:
        with tempfile.TemporaryDirectory(prefix="zoo-", ignore_cleanup_errors=True) as scratch:
            worker = Worker(Path(scratch), patience)
            try:
                while not stopped.is_set():
                    try:
                        number, specimen = waiting.get_nowait()
                    except queue.Empty:
                        return
                    outcomes[number] = worker.examine(specimen)
                    done(outcomes[number])
            finally:
                worker.stop()

    threads = [threading.Thread(target=serve) for _ in range(max(1, min(processes, len(found))))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        stopped.set()
        raise
    return [outcomes[number] for number in sorted(outcomes)]
