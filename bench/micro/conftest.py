"""Records, files and stores that the microbenchmarks share, all made from fixed seeds.

Files are read often enough before they are measured that their blocks are checked and in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from workloads import WORKLOADS, Workload

import lookupstore
from lookupstore.sst import Reader, Writer

#: Calls after which a file has checked all its blocks and built its tables.
CALLS_UNTIL_HOT = 12
#: Keys of a loop over single keys, at most.
SINGLE_KEYS = 1_000


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two sizes."""
    sizes = parser.getgroup("microbenchmarks")
    sizes.addoption("--records", type=int, default=100_000, help="stored records (100000)")
    sizes.addoption("--queries", type=int, default=10_000, help="keys of each batch (10000)")


def pytest_configure(config: pytest.Config) -> None:
    """Leave out fsync, whose time depends on the disk only."""
    patched = pytest.MonkeyPatch()
    patched.setattr(os, "fsync", os.fstat)
    config.add_cleanup(patched.undo)


def pytest_report_header() -> str:
    """Name the package that is measured."""
    return f"lookupstore: {lookupstore.__version__} in {Path(lookupstore.__file__).parent}"


@pytest.fixture(scope="session")
def records(request: pytest.FixtureRequest) -> int:
    """Return the number of stored records."""
    return int(request.config.getoption("--records"))


@pytest.fixture(scope="session", params=list(WORKLOADS))
def workload(request: pytest.FixtureRequest, records: int) -> Workload:
    """Return W1, with integer keys, then W2, with text keys."""
    return WORKLOADS[request.param](records, int(request.config.getoption("--queries")))


@pytest.fixture(scope="session")
def reader(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Return a hot reader of a file with default options."""
    path = tmp_path_factory.mktemp("file") / "records.sst"
    with Writer(path) as writer:
        writer.put_many(workload.keys, workload.values)
    with Reader(path) as reader:
        heat(lambda: reader.lookup(workload.keys))
        yield reader


@pytest.fixture(scope="session")
def store(
    workload: Workload, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[lookupstore.LookupStore]:
    """Return a hot store of the workload's typed rows, in one bucket."""
    folder = tmp_path_factory.mktemp("store") / "records"
    lookupstore.build(workload.table, folder, key="id", buckets=1, progress=False)
    with lookupstore.open(folder) as store:
        heat(lambda: store.lookup(workload.ids))
        heat(lambda: store.contains(workload.table["id"]))
        yield store


def heat(ask: Callable[[], Any]) -> None:
    """Repeat a call until the file that it reads is hot."""
    for _ in range(CALLS_UNTIL_HOT):
        ask()


@pytest.fixture
def each(benchmark: Any) -> Callable[[Callable[[Any], Any], list[Any]], None]:
    """Return a function that measures a Python loop of one call for each of at most 1,000 items."""

    def measure(call: Callable[[Any], Any], items: list[Any]) -> None:
        items = items[:SINGLE_KEYS]

        def loop() -> None:
            for item in items:
                call(item)

        benchmark(loop)

    return measure
