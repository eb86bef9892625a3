"""What `make docs` refuses: lists that do not render, and guides that are too long."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
from support.scripts import script

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site() -> ModuleType:
    return script("docs_site")


def test_our_pages_are_taken(site: ModuleType) -> None:
    pages = [path for path in DOCS.rglob("*.md") if "decisions" not in path.parts]
    assert len(pages) > 90
    for path in pages:
        site.check_page(str(path.relative_to(DOCS)), path.read_text())


@pytest.mark.parametrize("item", ["- one", "* one", "1. one"])
def test_a_list_needs_a_blank_line(site: ModuleType, item: str) -> None:
    site.check_page("how-to/a.md", f"Text:\n\n{item}\n{item}\n  more\n{item}\n")
    site.check_page("how-to/a.md", f"```python\nText:\n{item}\n```\n")
    with pytest.raises(ValueError, match=r"docs/how-to/a\.md:4: a list needs a blank line"):
        site.check_page("how-to/a.md", f"# Title\n\nText:\n{item}\n")


@pytest.mark.parametrize("folder", ["start", "how-to", "explain"])
def test_a_guide_is_short(site: ModuleType, folder: str) -> None:
    site.check_page(f"{folder}/a.md", "word " * 1400 + "\n```\n" + "code " * 900 + "\n```\n")
    for other in ("reference/a.md", "contributing/a.md"):
        site.check_page(other, "word " * 3000)
        with pytest.raises(ValueError, match="3001 words; split it: a page may have 3000"):
            site.check_page(other, "word " * 3001)
    with pytest.raises(ValueError, match="1401 words; split it: a guide may have 1400"):
        site.check_page(f"{folder}/a.md", "word " * 1401)


def test_names_in_tables_link_to_their_headings(site: ModuleType) -> None:
    table = (
        "<table>\n<tr>\n<td><code>one</code>, <code>two</code></td>\n<td><code>one</code></td>\n"
        "</tr>\n</table>"
    )
    heading = '<h2 id="pack.one"></h2>'
    linked = table.replace("<code>one</code>,", '<a href="#pack.one"><code>one</code></a>,')
    assert site.link_names(table + heading, "pack") == linked + heading
    assert site.link_names(table + heading, "other") == table + heading
    assert site.link_names(linked + heading, "pack") == linked + heading


def test_names_of_methods_link_to_the_class_that_has_them(site: ModuleType) -> None:
    names = ["one", "two", "three"]
    cells = "".join(f"<tr>\n<td><code>{name}</code></td>\n</tr>\n" for name in names)
    ids = ["one", "A.one", "A.two", "B.one"]
    headings = "".join(f'<h3 id="pack.{name}"></h3>' for name in ids)
    linked = site.link_names(f"<table>\n{cells}</table>{headings}", "pack")
    assert re.findall(r'href="#([^"]*)"', linked) == ["pack.A.one", "pack.A.two"]


def test_long_names_in_tables_break_between_words(site: ModuleType) -> None:
    name = "<code>insert_overwrite_table(rows)</code>"
    broken = "<code>insert_<wbr>overwrite_<wbr>table(<wbr>rows)</code>"
    assert site.break_names(f"<td>{name}</td>{name}") == f"<td>{broken}</td>{name}"
    short = "<td><code>get_one</code></td>"
    assert site.break_names(short) == short
    assert "Latest<wbr>Avro" in site.break_names("<td><code>LatestAvroPayload</code></td>")
