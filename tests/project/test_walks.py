"""What docs/walks.md and docs/glossary.md name is there, and each word is explained once."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WALKS, GLOSSARY = ((ROOT / "docs" / name).read_text() for name in ("walks.md", "glossary.md"))
ADDING = (ROOT / "CONTRIBUTING.md").read_text().partition("## Adding something\n")[2]
ADDING = ADDING.partition("\n## ")[0]


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
            *(one for one in names_in(WALKS + ADDING) if one.startswith("lookupstore.")),
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


def things_to_add() -> dict[str, list[str]]:
    """Return the lines of files of each thing that CONTRIBUTING.md says how to add."""
    parts = re.split(r"^- \*\*([^*]+)\*\*.*\n", ADDING, flags=re.MULTILINE)
    texts = zip(parts[1::2], parts[2::2], strict=True)
    return {name: re.split(r"^  - ", text, flags=re.MULTILINE)[1:] for name, text in texts}


@pytest.mark.parametrize(
    "thing", ["codec", "type of key", "index for tagging", "statistic", "verb"]
)
def test_each_thing_to_add_is_in_few_files_which_are_there(thing: str) -> None:
    (lines,) = (lines for name, lines in things_to_add().items() if thing in name)
    named = [re.findall(r"`([\w./]+(?:/|\.py|\.toml|\.[ch]))`", line) for line in lines]
    assert 1 <= len(lines) <= 3
    assert all(named)
    for first, *others in named:
        beside = (ROOT / first).parent
        assert (ROOT / first).exists(), first
        for other in others:
            assert (ROOT / other).is_file() or (beside / other).is_file(), other


def test_a_name_that_is_not_there_is_seen() -> None:
    with pytest.raises(AttributeError):
        found("lookupstore.store.store.LookupStore.answer_all")
