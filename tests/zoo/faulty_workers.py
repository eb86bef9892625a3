"""Work of the zoo's processes with mistakes, in a module that a new process can import."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa
from zoo import examination, workers
from zoo.finding import Specimen

import lookupstore


def crash(specimen: Specimen, *given: Any) -> Any:
    """Return an examination that ends its process, or does not end, as the name says."""

    class One:
        def run(self) -> dict[str, Any]:
            if "abort" in specimen.name:
                os.kill(os.getpid(), signal.SIGABRT)
            time.sleep(1000 if "hang" in specimen.name else 0)
            return {"name": specimen.name, "verdict": "same"}

    given[1]("build")
    return One()


def work_of_crashes(pipe: Connection, scratch: str) -> None:
    """Work with examinations that crash."""
    examination.Examination = crash
    workers.work(pipe, scratch)


def work_that_reads_wrong(pipe: Connection, scratch: str) -> None:
    """Work with builds that store two rows of their own."""
    build, fine = lookupstore.build, pa.table({"id": [1, 2], "name": ["a", "b"]})
    lookupstore.build = lambda source, *a, **k: build(fine, *a, **k)
    workers.work(pipe, scratch)
