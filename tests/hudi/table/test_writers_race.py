"""Writers in processes of their own, some of them killed: nothing is lost, and nothing is twice.

`make hudi-soak` does it for minutes, with more of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.hudi.race import race
from support.samples import amount

# So many writers are killed; more of them find rarer faults.
KILLS = amount(2, 8)


@pytest.mark.few(1)
@pytest.mark.parametrize("version", [6, 9])
def test_writers_that_are_killed(
    tmp_path: Path, version: int, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = race(tmp_path, version, 3, seed, kills=KILLS)
    assert outcome.commits
    with capsys.disabled():
        print(f"\nwriters, version {version}: {outcome}")
