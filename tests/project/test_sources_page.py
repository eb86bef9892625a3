"""docs/reference/sources.md lists what sources may lose, as `lookupstore.source.losses` has it."""

from __future__ import annotations

from pathlib import Path

from lookupstore.source.losses import LOSSES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sources.md"
START, END = "<!-- losses -->\n", "<!-- end of losses -->"


def losses_table() -> str:
    """Return the list as a table of Markdown."""
    head = "| source | what may be lost | outcome | reading or remedy |\n|---|---|---|---|\n"
    rows = (f"| {one.source} | {one.what} | {one.outcome} | {one.how} |\n" for one in LOSSES)
    return head + "".join(rows)


def test_the_page_has_the_table() -> None:
    found = PAGE.read_text().partition(START)[2].partition(END)[0]
    wanted = losses_table()
    assert found.strip() == wanted.strip(), f"replace the table of {PAGE.name} by:\n{wanted}"


def test_no_text_breaks_the_table() -> None:
    assert not [one for one in LOSSES if "|" in "".join((one.source, one.what, one.how))]
