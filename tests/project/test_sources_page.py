"""docs/reference/sources.md and the pages of tables list what `lookupstore.source.losses` has.

They leave out what is read exactly, and paths of tables, which docs/reference/paths.md lists.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lookupstore.source.losses import LOSSES, NOTED, REFUSED

PAGES = Path(__file__).parents[2] / "docs" / "reference"
#: Sources with a page of their own.
FORMATS = {"Delta": "delta.md", "Iceberg": "iceberg.md", "Paimon": "paimon.md"}
#: The remedy that those pages name once.
USUAL = "pass the rows that Spark reads"
HEADS = {
    REFUSED: "| source | refused | remedy |",
    NOTED: "| source | may change or be left out | what you get |",
}


def losses_table(outcome: str, source: str | None) -> str:
    """Return the part of the list that has this outcome, as a table of Markdown.

    Args:
        outcome: Outcome of the lines.
        source: Source with a page of its own. None: all sources without one.
    """
    lost = [
        one
        for one in LOSSES
        if one.outcome == outcome
        and not one.what.startswith("a path ")
        and (one.source not in FORMATS if source is None else one.source == source)
    ]
    if source is None:
        rows = [f"| {one.source} | {one.what} | {one.how} |" for one in lost]
        return "\n".join((HEADS[outcome], "|---|---|---|", *rows))
    head = HEADS[outcome].removeprefix("| source ")
    rows = [f"| {one.what} | {'' if one.how == USUAL else f'{one.how} '}|" for one in lost]
    return "\n".join((head, "|---|---|", *rows))


@pytest.mark.parametrize("source", [None, *FORMATS])
@pytest.mark.parametrize("outcome", HEADS)
def test_the_page_has_the_table(outcome: str, source: str | None) -> None:
    page = PAGES / ("sources.md" if source is None else FORMATS[source])
    wanted = losses_table(outcome, source)
    begun = page.read_text().partition(f"<!-- losses: {outcome} -->\n")[2]
    found = begun.partition("<!-- end of losses -->")[0]
    if len(wanted.splitlines()) == 2:
        assert not found, f"{page.name} has a table without lines"
    else:
        assert found.strip() == wanted, f"replace the table of {page.name} by:\n{wanted}"


def test_no_text_breaks_the_table() -> None:
    assert not [one for one in LOSSES if "|" in "".join((one.source, one.what, one.how))]
