"""Whether somebody has signed in to Azure on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookupstore.storage.azure_credentials import has_signed_in


@pytest.mark.parametrize("named", [True, False])
def test_a_profile_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    folder = tmp_path / ("elsewhere" if named else ".azure")
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("AZURE_CONFIG_DIR", raising=False)
    if named:
        monkeypatch.setenv("AZURE_CONFIG_DIR", str(folder))
    command = tmp_path / "az"
    command.touch(mode=0o755)
    assert not has_signed_in()
    (folder / "azureProfile.json").touch()
    assert has_signed_in()
    command.unlink()
    assert not has_signed_in()
