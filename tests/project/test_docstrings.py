"""A function says what it does, a class what it is: by the first words of their docstrings."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Verbs that no function of the package begins with, and words of functions that are no verbs.
ALSO_VERBS = {"Answer", "Be", "Bound", "Remember", "Stand"}
NO_VERBS = {"The", "What", "Where", "Whether"}
#: Nouns that look like verbs.
NOUNS = {"Counts", "Numbers", "Reads", "Records", "Turns"}


@cache
def first_words(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the first words of the docstrings of classes and of functions, by name and line."""
    classes: dict[str, str] = {}
    functions: dict[str, str] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and (
            said := ast.get_docstring(node, clean=False)
        ):
            found = classes if isinstance(node, ast.ClassDef) else functions
            found[f"{node.name}:{node.lineno}"] = said.split()[0].rstrip(".,:;")
    return classes, functions


def texts_below(*folders: str) -> dict[str, str]:
    """Return the Python files of some folders, by path."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def classes_that_do(texts: dict[str, str], verbs: set[str]) -> list[str]:
    """Return the classes whose docstring begins with a verb, such as "Hold" or "Holds"."""
    verbs = (verbs | {f"{verb}s" for verb in verbs} | {f"{verb}es" for verb in verbs}) - NOUNS
    return [
        f"{path}: {name}: {word}"
        for path, text in texts.items()
        for name, word in first_words(text)[0].items()
        if word in verbs
    ]


def test_classes_are_noun_phrases() -> None:
    package = texts_below("lookupstore")
    words = {word for text in package.values() for word in first_words(text)[1].values()}
    verbs = (words | ALSO_VERBS) - NO_VERBS
    assert {"Return", "Hold", "Read"} <= verbs
    assert classes_that_do(package | texts_below("tests", "bench"), verbs) == []
    bad = {"a.py": 'class A:\n    """Holds b."""\nclass B:\n    """One b."""\n'}
    assert classes_that_do(bad, verbs) == ["a.py: A:1: Holds"]


#: First words of a clause or a fragment that only the name in front of it completes.
_CLAUSES = """
    of that which who whom whose for from by in with to as at on is has have are was were may can it
    they made given taken found read written kept asked known needed used wanted put sent seen
    beside above below behind before after into over under about where when what how why if while
    until since than then
"""
CLAUSES = frozenset(_CLAUSES.split())
_SECTION = re.compile(r"^( *)(?:Args|Attributes):\n((?:\1 +.*\n|[ ]*\n)+)", re.MULTILINE)


def clauses_of(texts: dict[str, str]) -> list[str]:
    """Return the arguments and attributes whose description begins as a clause."""
    found = []
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            for section in _SECTION.finditer((ast.get_docstring(node) or "") + "\n"):
                entry = rf"^ {{{len(section[1]) + 4}}}(\w[^:\n]*): \W?(\w+)"
                for name, word in re.findall(entry, section[2], re.MULTILINE):
                    if word in CLAUSES:
                        found.append(f"{path}: {node.name}: {name}: {word}")
    return found


def test_arguments_are_described_by_noun_phrases() -> None:
    assert clauses_of(texts_below("lookupstore")) == []
    bad = (
        'def a(b, c):\n    """Return d.\n\n    Args:\n        b: of the table.\n'
        '            It: not an argument.\n        c: File of the lock.\n    """\n'
    )
    assert clauses_of({"a.py": bad}) == ["a.py: a: b: of"]
