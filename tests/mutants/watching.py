"""Lets pytest tell which tests execute which lines, and run the tests that were picked.

A plugin of pytest, for `workshop.py`. Its variables: MUTANTS_TIMES is the file for the seconds of
each test, MUTANTS_PICKED has the tests to run, in their order. Processes that tests start are
measured too, by COVERAGE_PROCESS_START and MUTANTS_TEST.
"""

from __future__ import annotations

import json
import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

MEMORY = 8 << 30
SLOW = ("spark", "long")

seconds: Counter[str] = Counter()
failed: set[str] = set()


def pytest_configure(config: pytest.Config) -> None:
    """Limit the memory, and let Hypothesis fail at the first example that it finds."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(
        "mutants", hypothesis.settings(), phases=phases, database=None, print_blob=False
    )
    hypothesis.settings.load_profile("mutants")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to test another copy of the package."""
    import lookupstore

    if Path.cwd() not in Path(lookupstore.__file__ or "").parents:
        pytest.exit(f"{lookupstore.__file__} is not in {Path.cwd()}", returncode=4)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out slow tests, and those that were not picked."""
    picked = os.environ.get("MUTANTS_PICKED")
    if picked:
        places = {name: place for place, name in enumerate(json.loads(Path(picked).read_text()))}
        items[:] = sorted(
            (item for item in items if item.nodeid in places), key=lambda item: places[item.nodeid]
        )
    else:
        items[:] = [item for item in items if not any(map(item.get_closest_marker, SLOW))]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what runs for which test."""
    if "MUTANTS_TIMES" in os.environ:
        import coverage

        os.environ["MUTANTS_TEST"] = item.nodeid
        current = coverage.Coverage.current()
        assert current is not None
        current.switch_context(item.nodeid)
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how long a test takes, and whether it passes."""
    seconds[report.nodeid] += report.duration
    if report.outcome != "passed":
        failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write the times of tests that passed."""
    if "MUTANTS_TIMES" in os.environ:
        passed = {name: round(seconds[name], 3) for name in seconds if name not in failed}
        Path(os.environ["MUTANTS_TIMES"]).write_text(json.dumps(passed))
