"""What docs/walks.md and docs/glossary.md name is there, and each word is explained once."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WALKS, GLOSSARY = ((ROOT / "docs" / name).read_text() for name in ("walks.md", "glossary.md"))


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


def names_in(text: str) -> list[str]:
    """Return what a document names in code font, once each."""
    return sorted(set(re.findall(r"`([\w./]+)`", text)))


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            *(one for one in names_in(WALKS) if one.startswith("lookupstore.")),
            *names_in(GLOSSARY.partition("\n## ")[2]),
        }
    ),
)
def test_a_name_of_the_documents_is_there(name: str) -> None:
    assert found(name) is not None


def test_each_word_is_explained_once() -> None:
    words = [word.lower() for word in re.findall(r"\*\*([^*]+)\*\*:", GLOSSARY)]
    assert len(words) > 60
    assert sorted(words) == sorted(set(words))


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:csrc|tests)/[\w./]+)`", WALKS))))
def test_a_file_of_the_walks_is_there(path: str) -> None:
    assert (ROOT / path).is_file()


def test_a_name_that_is_not_there_is_seen() -> None:
    with pytest.raises(AttributeError):
        found("lookupstore.store.store.LookupStore.answer_all")
