"""What the pages of walks and words name is there, and each word is explained once."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "contributing"
WALKS, *WORDS = ((PAGES / f"{name}.md").read_text() for name in ("walks", "words", "words-hudi"))
GLOSSARY = "".join(text.partition("\n## ")[2] for text in WORDS)
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


def is_there(name: str) -> bool:
    try:
        return found(name) is not None
    except (AttributeError, ImportError):
        return False


def test_the_names_of_the_documents_are_there() -> None:
    names = {
        *(one for one in names_in(WALKS + ADDING) if one.startswith("lookupstore.")),
        *names_in(GLOSSARY),
    }
    assert len(names) > 100
    assert [name for name in sorted(names) if not is_there(name)] == []
    assert not is_there("lookupstore.store.store.LookupStore.answer_all")
    assert not is_there("lookupstore.no_such_wing.name")


def test_each_word_is_explained_once() -> None:
    words = [word.lower() for word in re.findall(r"\*\*([^*]+)\*\*:", GLOSSARY)]
    assert len(words) > 60
    assert sorted(words) == sorted(set(words))


def test_the_files_of_the_walks_are_there() -> None:
    paths = sorted(set(re.findall(r"`((?:csrc|tests)/[\w./]+)`", WALKS)))
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).is_file()] == []


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
