"""The page of the reference that lists Hudi's options."""

from __future__ import annotations

from pathlib import Path

from support.scripts import script

from lookupstore.hudi.write.hoodie.known import all_options

ROOT = Path(__file__).parents[4]


def test_the_page_is_made_of_the_options_as_they_are() -> None:
    made = script("hudi_options_page")
    text = (ROOT / "docs" / "reference" / "hudi-options.md").read_text()
    assert text == made.page(), "run .venv/bin/python .ci/hudi_options_page.py"
    names = [name for one in all_options() for name in one.names]
    assert [one for one in names if f"`{one}`" not in text and f"`{one}*`" not in text] == []
