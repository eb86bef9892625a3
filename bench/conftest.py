"""The bench's options, fixtures and report; README.md says how to run it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from report import Result, machine_lines, tables, write_json_lines
from rivals import Contender, bytes_in
from workloads import WORKLOADS, Workload

RESULTS = pytest.StashKey[list[Result]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lookupstore bench")
    group.addoption("--records", type=int, default=1_000_000, help="records stored (%(default)s)")
    group.addoption("--queries", type=int, default=100_000, help="keys asked for (%(default)s)")
    group.addoption("--rounds", type=int, default=5, help="rounds a verb (%(default)s)")
    group.addoption("--json-lines", metavar="FILE", help="write every result as a line of JSON")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[RESULTS] = []
    # Our tables below say the same in a tenth of the lines; --benchmark-verbose brings both.
    config.option.benchmark_quiet = True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run Spark last: its JVM is not to stand beside the rounds of the others."""
    items.sort(key=lambda item: item.get_closest_marker("spark") is not None)


def pytest_report_header(config: pytest.Config) -> list[str]:
    sizes = ", ".join(f"{name} {value:,}" for name, value in settings(config).items())
    return [*machine_lines(), f"bench: {sizes}"]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    results = config.stash[RESULTS]
    if results:
        terminalreporter.section("operations a second, and how many times faster lookupstore is")
        terminalreporter.write_line(tables(results))
    path = config.getoption("--json-lines")
    if path:
        write_json_lines(path, settings(config), results)


def settings(config: pytest.Config) -> dict[str, int]:
    return {name: config.getoption(name) for name in ("records", "queries", "rounds")}


@pytest.fixture(scope="session", params=sorted(WORKLOADS))
def workload(request: pytest.FixtureRequest) -> Workload:
    records, queries = (request.config.getoption(name) for name in ("records", "queries"))
    return WORKLOADS[request.param](records, queries)


@pytest.fixture
def contender(request: pytest.FixtureRequest) -> Contender:
    """Give the contender that a test is parametrized with, if it is installed."""
    chosen: Contender = request.param
    pytest.importorskip(chosen.module, reason=f"the rival {chosen.name} is not installed")
    return chosen


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Contender, Workload], Path]:
    """Give the folder that a contender has filled with a workload, made at the first call."""
    folders: dict[tuple[str, str], Path] = {}

    def fill(contender: Contender, workload: Workload) -> Path:
        key = contender.name, workload.name
        if key not in folders:
            folder = tmp_path_factory.mktemp("-".join(key))
            if contender.codecs:
                contender.fill(folder, workload, contender.codecs[-1])
            folders[key] = folder
        return folders[key]

    return fill


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    """Keep the collector out of the rounds, as timeit does: rivals make millions of objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def measure(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Give a function that times rounds of a call and keeps the result for the tables."""

    def measured(
        function: Callable[..., object],
        *,
        workload: str,
        verb: str,
        contender: str,
        operations: int,
        setup: Callable[[], Any] | None = None,
        folder: Callable[[], Path] | None = None,
    ) -> None:
        # Asked for only now: pytest-benchmark warns of a fixture that a failed check leaves unused.
        benchmark = request.getfixturevalue("benchmark")
        benchmark.group = f"{workload} {verb}"
        benchmark.name = contender
        rounds = request.config.getoption("--rounds")
        # What is set up is new in each round: there is nothing to warm.
        benchmark.pedantic(function, setup=setup, rounds=rounds, warmup_rounds=int(setup is None))
        if benchmark.stats is None:  # --benchmark-disable
            return
        seconds = benchmark.stats.stats
        result = Result(
            workload=workload,
            verb=verb,
            contender=contender,
            operations=operations,
            median=seconds.median,
            best=seconds.min,
            rounds=rounds,
            stored=None if folder is None else bytes_in(folder()),
        )
        benchmark.extra_info.update(asdict(result))
        request.config.stash[RESULTS].append(result)

    return measured
