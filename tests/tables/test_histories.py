"""The run of many random histories, with one seed."""

from __future__ import annotations

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("fastavro")
from support.histories import checks, run


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("name", sorted({*checks.FORMATS} - checks.FOREIGN))
def test_a_history_is_read_as_others_read_it(
    name: str, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(["--seeds", "1", "--first", str(seed), "--format", name]) == 0
    assert f"seeds from {seed}: 1 histories" in capsys.readouterr().out


def test_rows_that_differ_fail(
    seed: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = checks.read
    monkeypatch.setattr(checks, "read", lambda *given: real(*given).slice(1))
    assert run.main(["--seeds", "1", "--first", str(seed), "--format", "delta"]) == 1
    assert f"FAILED: --format delta --first {seed}" in capsys.readouterr().out
