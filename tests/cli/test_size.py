"""`size`: the estimate as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

import click.testing
import pytest

from lookupstore.builder.size import store_size
from lookupstore.cli import main

GIVEN = ["size", "--rows", "10000000000", "--key", "8", "--values", "16"]


def test_as_json() -> None:
    result = click.testing.CliRunner().invoke(main, [*GIVEN, "--output", "json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == asdict(store_size(10_000_000_000, 8, 16))


def test_as_a_table() -> None:
    result = click.testing.CliRunner().invoke(main, [*GIVEN, "--processes", "8"])
    assert result.exit_code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines()]
    cells = {row[0]: row[1:] for row in rows if row}
    assert cells["data files"] == ["286.1 GB", "with the store: 28.6 bytes per row, 533 buckets"]
    assert cells["tables of places"] == ["80.0 GB", "disk and memory of each host"]
    assert cells["processes"] == ["16.1 GB", "memory of each host, for all processes: 8"]


@pytest.mark.parametrize("option", ["--rows", "--key", "--values", "--processes"])
def test_negative_numbers_are_refused(option: str) -> None:
    result = click.testing.CliRunner().invoke(main, [*GIVEN, option, "-1"])
    assert result.exit_code == 2
    assert option in result.output
