"""The page of the reference that lists Hudi's options."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from lookupstore.hudi.write.hoodie.known import all_options

ROOT = Path(__file__).parents[4]


def test_the_page_is_made_of_the_options_as_they_are() -> None:
    spec = importlib.util.spec_from_file_location("page", ROOT / ".ci" / "hudi_options_page.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    text = (ROOT / "docs" / "reference" / "hudi-options.md").read_text()
    assert text == made.page(), "run .venv/bin/python .ci/hudi_options_page.py"
    names = [name for one in all_options() for name in one.names]
    assert [one for one in names if f"`{one}`" not in text and f"`{one}*`" not in text] == []
