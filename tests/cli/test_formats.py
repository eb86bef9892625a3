"""`formats`: the list of what sources may lose, as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple

import click.testing

from lookupstore.cli import main
from lookupstore.source.losses import LOSSES


def test_the_list_as_json() -> None:
    result = click.testing.CliRunner().invoke(main, ["formats", "--output", "json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == [asdict(one) for one in LOSSES]


def test_the_list_as_a_table() -> None:
    result = click.testing.CliRunner().invoke(main, ["formats"])
    assert result.exit_code == 0
    lines = [line.split("│") for line in result.stdout.splitlines() if "│" in line]
    cells = [[cell.strip() for cell in line[1:-1]] for line in lines]
    assert cells == [[text.replace("`", "") for text in astuple(one)] for one in LOSSES]
    assert any("timestamp[us, UTC]" in how for *_, how in cells)  # no mark of rich
