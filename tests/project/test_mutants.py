"""`make mutants`: which changes it makes, that a seed repeats them, and how it judges them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants import workshop
from mutants.changes import Change, changes_of
from mutants.run import (
    HEADERS,
    Mutant,
    Result,
    Run,
    all_changes,
    draw,
    markdown,
    quotas,
    rows_of,
)
from mutants.workshop import Project, suites_of, wing_of

ROOT = Path(__file__).resolve().parents[2]

PYTHON = '''\
"""The module is 1 of 2, if not 3."""

import os
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from elsewhere import one, two
__all__ = ["first"] + ["second"]
MOST = 64  # changed


def first(sizes: list[Literal[1, 2]], few: int = 4) -> Literal[3, 4]:  # changed
    """Return 1 + 2, and not 3."""
    if not sizes:  # changed
        raise ValueError(f"{len(sizes) + 1} is less than {2}", 3 + 4)  # changed
    assert few < 10
    _log.warning("few is %d", few + 1)
    with progress_bars("sizes", total=len(sizes) + 1) as bar:
        os.fsync(sizes[few])  # changed
    return first(sizes[1:], few) and few  # changed


class Told:
    size: int = 5  # changed

    def __repr__(self) -> str:
        return "few" if self.size < 6 else "many"
'''

CYTHON = '''\
"""The module is 1 of 2, if not 3."""

cimport cython
from libc.stdint cimport uint8_t

cdef extern from "ls_bytes.h" nogil:
    int LS_FEW = 4

@cython.boundscheck(1 < 2)
cdef int few(uint8_t *data, size_t size) except -1:
    """Return 1 + 2."""
    cdef size_t at
    cdef size_t end = size + 1  # changed
    if data == NULL and size > 2:  # changed
        raise ValueError("1 < 2", 1 + 2)  # changed
    check(<uint8_t *>data)  # changed
    return 0  # changed
'''

C = """\
#include "ls_few.h"
#if LS_FEW > 1
/* 1 + 2 */
#endif
int ls_few(const uint8_t *data, size_t size) {
    if (data == NULL && !size) // changed
        return "1 < 2"[3]; // changed
    LS_PREFETCH(data + 1);
    check(data); // changed
    return (int)size;
}
"""


@pytest.mark.parametrize(
    ("file", "text"),
    [("few.py", PYTHON), ("few.pyx", CYTHON), ("few.c", C)],
    ids=["py", "pyx", "c"],
)
def test_only_what_a_test_should_notice_is_changed(file: str, text: str) -> None:
    source = text.encode()
    marked = {number for number, line in enumerate(text.splitlines(), 1) if "changed" in line}
    assert {one.line(source) for one in changes_of(file, source)} == marked


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("few.py", "a < 3", {"a <= 3", "a >= 3", "a < 4", "a < 2"}),
        ("few.py", "a is not b", {"a is b"}),
        ("few.py", "a is b", {"a is not b"}),
        ("few.py", "x = not a or b", {"x = a or b", "x = not a and b"}),
        ("few.py", "while (a\n  in b):\n  break", {
            "while (not (a\n  in b)):\n  break",
            "while (a\n  not in b):\n  break",
            "while (a\n  in b):\n  continue",
        }),
        ("few.py", "a -= b", {"a += b"}),
        ("few.py", "x = a[b:] // c", {"x = a[b + 1:] // c", "x = a[b:] * c"}),
        ("few.py", "x = 'é' if a else True", {
            "x = 'é' if not (a) else True",
            "x = 'é' if a else False",
        }),
        ("few.py", "os.fsync(a, b)", {"pass", "os.fsync(b, a)"}),
        ("few.py", "x = 'a' + b + f'{1 + 2}'", set()),
        ("few.pyx", "if a and not b:\n    c()", {
            "if not (a and not b):\n    c()",
            "if a or not b:\n    c()",
            "if a and b:\n    c()",
            "if a and not b:\n    pass",
        }),
        ("few.pyx", "x = <int>a is b", {"x = <int>a is not b"}),
        ("few.c", "{ while (*a > b || !c) d(a, (b)); }", {
            "{ while (!(*a > b || !c)) d(a, (b)); }",
            "{ while (*a >= b || !c) d(a, (b)); }",
            "{ while (*a <= b || !c) d(a, (b)); }",
            "{ while (*a > b && !c) d(a, (b)); }",
            "{ while (*a > b || c) d(a, (b)); }",
            "{ while (*a > b || !c) ; }",
        }),
        ("few.c", "int x = a->b - *c + 0x10 + 1u;", {
            "int x = a->b + *c + 0x10 + 1u;",
            "int x = a->b - *c - 0x10 + 1u;",
            "int x = a->b - *c + 0x10 - 1u;",
        }),
    ],
)  # fmt: skip
def test_each_kind_of_change(file: str, before: str, after: set[str]) -> None:
    source = before.encode()
    assert {one.apply(source).decode() for one in changes_of(file, source)} == after


def test_a_seed_draws_the_same_mutants_again() -> None:
    project = Project(ROOT)
    try:
        found = all_changes(project, ["sorting", "storage/local.py"])
        assert list(found) == ["sorting", "storage"]
        assert {one.file for one in found["storage"]} == {"lookupstore/storage/local.py"}
        drawn = draw(found, 40, 7)
        assert draw(all_changes(project, ["sorting", "storage/local.py"]), 40, 7) == drawn
        assert [one.number for one in drawn] == list(range(1, 41))
        # No change is drawn twice, not even to take the place of another.
        changes = [change for one in drawn for change in one.changes]
        assert len(set(changes)) == len(changes)
        assert draw(found, 40, 8) != drawn
        line = changes[0].line((ROOT / changes[0].file).read_bytes())
        one_line = all_changes(project, [f"{changes[0].file}:{line}"])
        assert changes[0] in one_line["sorting"]
        assert len(one_line["sorting"]) < len(found["sorting"])
    finally:
        project.close()


def test_each_wing_has_its_share() -> None:
    sizes = {"large": 9000, "small": 10, "least": 1}
    assert quotas(sizes, 100) == {"large": 96, "small": 3, "least": 1}
    assert quotas(sizes, 2) == {"small": 1, "least": 1}
    assert quotas({"a": 3, "b": 2}, 300) == {"a": 3, "b": 2}


def test_files_are_tried_against_the_tests_of_their_wing() -> None:
    links = {"lookupstore.sst._block": ["ls_block"], "lookupstore.keys._codec": ["ls_keys"]}
    files = {
        "lookupstore/sst/reader.py": ("sst", ["tests/sst"]),
        "lookupstore/hudi/layout/curves/curve.py": (
            "hudi/layout",
            ["tests/hudi/layout", "tests/hudi/table"],
        ),
        "lookupstore/hudi/table/writes.py": ("hudi/table", ["tests/hudi/table"]),
        "lookupstore/extras.py": ("top", workshop.OWN_TESTS["lookupstore/extras.py"]),
        "csrc/ls_block.c": ("csrc", ["tests/sst"]),
        "csrc/ls_status.h": ("csrc", ["tests/sst", "tests/keys"]),
    }
    assert {one: (wing_of(one), suites_of(ROOT, one, links)) for one in files} == files
    named = [path for paths in workshop.OWN_TESTS.values() for path in paths]
    assert [one for one in (*named, *workshop.OWN_TESTS) if not (ROOT / one).exists()] == []


RULE = """\
def least(size):
    if size < 3:
        return 3
    return size


def unused(size):
    return size + 1


def counted(size):
    while size < 9:
        size += 1
    return size
"""
# It is compiled to a copy, in which 3 is the same as 2.
BUILT = "cdef int few = 1\ncdef int many = 2\n"
SETUP = """\
from pathlib import Path

for source in Path("lookupstore").rglob("*.pyx"):
    made = source.with_suffix(".so")
    if source.stat().st_mtime_ns > made.stat().st_mtime_ns:
        made.write_text(source.read_text().replace("3", "2"))
"""
TEST = """\
from pathlib import Path

from lookupstore.small import rule


def test_rule():
    assert (rule.least(2), rule.least(4)) == (3, 4)


def test_counted():
    rule.counted(1)


def test_built():
    assert "few = 1" in Path(rule.__file__).with_name("_rule.so").read_text()
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.long
def test_mutants_are_judged_and_the_work_tree_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n",
        "lookupstore/__init__.py": "",
        "lookupstore/small/__init__.py": "",
        "lookupstore/small/rule.py": RULE,
        "lookupstore/small/_rule.pyx": BUILT,
        "lookupstore/small/_rule.so": BUILT,
        "setup.py": SETUP,
        "tests/small/test_rule.py": TEST,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    pytest.importorskip("coverage")
    before = contents(tmp_path)
    project = Project(tmp_path)
    found = all_changes(project)["small"]

    def changed(line: str) -> Change:
        return next(
            one for one in found if line in one.apply((tmp_path / one.file).read_bytes()).decode()
        )

    broken = Change("lookupstore/small/rule.py", 0, 3, "def def", "broken", 1, 1)
    expected = {
        "size >= 3": "killed",
        "size - 1": "not executed",
        "few = 0": "killed",
        "many = 1": "survived",
        "size -= 1": "timed out",
    }
    # Neither is a mutant: one is no Python, one is compiled to the same.
    instead = {"size >= 3": broken, "many = 1": changed("many = 3")}
    mutants = [
        Mutant(number, "small", [one for one in (instead.get(line), changed(line)) if one])
        for number, line in enumerate(expected, 1)
    ]
    told: list[str] = []
    run = Run(project, 1, told.append)

    def interrupt(result: Result) -> None:
        if len(run.results) == 2:
            raise KeyboardInterrupt

    try:
        run.measure(mutants, lambda: None)
        with pytest.raises(KeyboardInterrupt):
            run.attempt(mutants, interrupt)
        # Another run has the verdicts that are known, and goes on with the others.
        told.clear()
        run = Run(project, 1, told.append)
        assert run.resume(mutants) == mutants[2:]
        assert [one.mutant.number for one in run.results] == [1, 2]
        run.attempt(mutants[2:-1], lambda result: None)
        monkeypatch.setattr(workshop, "LEAST_PATIENCE", 0.5)
        monkeypatch.setattr(workshop, "PATIENCE", 0)
        results = run.attempt(mutants[-1:], lambda result: None)
        copy = {name: (run.shops[0].copy / name).read_text() for name in files}
        again = Run(project, 1, told.append)
        assert (again.resume(mutants), again.results) == ([], results)
    finally:
        project.close()
    assert [one.outcome.verdict for one in results] == list(expected.values())
    assert [one.change for one in results] == [changed(line) for line in expected]
    assert copy == files
    assert results[0].outcome.by == "tests/small/test_rule.py::test_rule"
    assert list(rows_of(results)) == [
        ["small", "5", "2", "1", "1", "1", "60%"],
        ["all", "5", "2", "1", "1", "1", "60%"],
    ]
    table = markdown(results, "make mutants").splitlines()
    assert table[2] == f"| {' | '.join(HEADERS)} |"
    assert table[-1] == "| all | 5 | 2 | 1 | 1 | 1 | 60% |"
    assert not project.folder.exists()
    kept = str(tmp_path / "build" / "mutants")
    after = contents(tmp_path)
    assert {name: text for name, text in after.items() if not name.startswith(kept)} == before


def test_verdicts_are_of_the_code_and_tests_that_were_tried(tmp_path: Path) -> None:
    for name, text in {"lookupstore/small.py": RULE, "tests/test_rule.py": TEST}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def left(seed: int) -> int:
        project = Project(tmp_path)
        try:
            mutants = draw(all_changes(project), 5, seed)
            run = Run(project, 1, lambda text: None)
            found = len(run.resume(mutants))
            for mutant in mutants:
                run.verdicts.add(mutant.changes[0], workshop.Outcome("killed", 0.1, "test"))
        finally:
            project.close()
        return found

    assert [left(1), left(1)] == [5, 0]
    (tmp_path / "tests/test_rule.py").write_text(TEST + "# changed\n")
    assert [left(1), left(1)] == [5, 0]
    (tmp_path / "lookupstore/small.py").write_text(RULE + "# changed\n")
    assert [left(1), left(1)] == [5, 0]
