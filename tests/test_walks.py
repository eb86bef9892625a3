"""What docs/walks.md names is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "walks.md").read_text()


def found(name: str) -> object:
    """Return what a dotted name stands for."""
    module, *rest = name.split(".")
    thing: object = importlib.import_module(module)
    for part in rest:
        try:
            module += f".{part}"
            thing = importlib.import_module(module)
        except ModuleNotFoundError:
            thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(lookupstore\.[\w.]+)`", TEXT))))
def test_a_name_of_the_walks_is_there(name: str) -> None:
    assert found(name) is not None


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:csrc|tests)/[\w./]+)`", TEXT))))
def test_a_file_of_the_walks_is_there(path: str) -> None:
    assert (ROOT / path).is_file()


def test_a_name_that_is_not_there_is_seen() -> None:
    with pytest.raises(AttributeError):
        found("lookupstore.store.store.LookupStore.answer_all")
