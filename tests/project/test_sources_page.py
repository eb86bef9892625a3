"""docs/reference/sources.md lists what `lookupstore.source.losses` has.

It leaves out what is read exactly, and paths of tables, which docs/reference/paths.md lists.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lookupstore.source.losses import LOSSES, NOTED, REFUSED

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sources.md"
HEADS = {
    REFUSED: "| source | refused | remedy |",
    NOTED: "| source | may change or be left out | what you get |",
}


def losses_table(outcome: str) -> str:
    """Return the part of the list that has this outcome, as a table of Markdown."""
    lost = [one for one in LOSSES if one.outcome == outcome and not one.what.startswith("a path ")]
    rows = (f"| {one.source} | {one.what} | {one.how} |" for one in lost)
    return "\n".join((HEADS[outcome], "|---|---|---|", *rows))


@pytest.mark.parametrize("outcome", HEADS)
def test_the_page_has_the_table(outcome: str) -> None:
    begun = PAGE.read_text().partition(f"<!-- losses: {outcome} -->\n")[2]
    found = begun.partition("<!-- end of losses -->")[0]
    wanted = losses_table(outcome)
    assert found.strip() == wanted, f"replace the table of {PAGE.name} by:\n{wanted}"


def test_no_text_breaks_the_table() -> None:
    assert not [one for one in LOSSES if "|" in "".join((one.source, one.what, one.how))]
