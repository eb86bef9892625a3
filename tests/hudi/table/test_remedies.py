"""Each remedy that an error names works when it is typed: `support/hudi/ways.py` lists them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.hudi.ways import WAYS, Way


@pytest.mark.few(25)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.what)
def test_what_the_error_says_works(tmp_path: Path, way: Way) -> None:
    with pytest.raises(way.error_type) as raised:
        way.provoke(tmp_path)
    # The text of a KeyError is the repr of its argument.
    said = str(raised.value.args[0] if isinstance(raised.value, KeyError) else raised.value)
    print(f"{way.what}: {type(raised.value).__name__}: {said}")
    assert way.says in " ".join(said.split())
    way.remedy(tmp_path)


def test_each_way_is_another_one() -> None:
    assert len({way.what for way in WAYS}) == len(WAYS) >= 50
